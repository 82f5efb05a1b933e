//! How far each group has come.
//!
//! A group has started once as many members as it needs are bound, or their Bindings are sent. It stays started while
//! any of them is left. Its condition alone does not say that: it is written when members are chosen.

use super::super::Scheduler;
use super::cycle::Verdict;
use super::start::minimum;
use super::submit::condition;
use crate::cache::PodState;
use crate::model::group::{GroupKey, PodGroup};
use crate::model::pod::{PodInfo, Uid};
use crate::model::time::Time;
use std::sync::Arc;

/// How far a group has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// It has started if its condition says so: this or another leader may have started it before.
    #[default]
    Unknown,
    /// Members were chosen, but it has not started yet.
    Chosen,
    /// The Bindings of as many members as it needs were sent, and neither the watch nor an answer has shown any of
    /// them. Too few other members were bound before.
    Sent,
    /// It has started.
    Runs,
    /// It had started, and its last bound member left.
    Ended,
}

/// How far a group has come, and when it ran last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) stage: Stage,
    /// When it lost the last member that was bound or being bound, if it ran before. Its time began anew then.
    pub(super) ran_until: Option<Time>,
    /// When its condition was corrected last, or is to be corrected.
    pub(super) corrected_at: Option<Time>,
    /// Whether its last start failed. The condition says so until a member is bound.
    pub(super) has_failed: bool,
}

impl Progress {
    /// Whether the group has started, by its stage alone.
    pub(super) fn has_started(self) -> bool {
        matches!(self.stage, Stage::Sent | Stage::Runs)
    }
}

impl Scheduler {
    /// Whether the group has started.
    pub(in crate::scheduler) fn has_started(&self, group: &PodGroup) -> bool {
        let progress = self.groups.progress(group.key);
        match progress.stage {
            Stage::Unknown => self.condition_of(group).is_some_and(|condition| condition.is_true),
            _ => progress.has_started(),
        }
    }

    /// Sets the stage of the group. Upstream knows only its condition.
    fn set_stage(&mut self, key: GroupKey, stage: Stage) {
        if !self.tables.copies_defects() {
            let progress = self.groups.progress_mut(key);
            progress.stage = stage;
            progress.has_failed &= stage != Stage::Runs;
            if !progress.has_started() {
                self.groups.rests.remove(&key);
            }
        }
    }

    /// Notes the members of a start that are to be bound after the first one.
    pub(super) fn note_rest(&mut self, key: GroupKey, members: Vec<Uid>) {
        if !self.is_rest_complete(key) {
            self.groups.rests.remove(&key);
        }
        if self.groups.progress(key).has_started() {
            self.groups.rests.entry(key).or_default().extend(members);
        }
    }

    /// Whether members are to be bound after the first one of their start, and none of them was taken back.
    fn is_rest_complete(&self, key: GroupKey) -> bool {
        self.groups.rests.get(&key).is_some_and(|rest| rest.iter().all(|uid| self.bindings.is_due(uid)))
    }

    /// Lets the members that are still to be bound wait for a start of their own, if none runs: their PodGroup has
    /// changed.
    pub(super) fn end_rest(&mut self, now: Time, key: GroupKey) {
        if self.groups.rests.remove(&key).is_some() {
            self.note_lost(now, key, Stage::Ended, Some(now));
        }
    }

    /// Notes that members of the group are chosen, which has not started or lost all members since.
    pub(super) fn note_chosen(&mut self, group: &PodGroup) {
        if !self.has_started(group) || self.scheduled(group.key) == 0 {
            self.set_stage(group.key, Stage::Chosen);
        }
    }

    /// Handles a member that the watch or an answer shows as bound. `is_ours` says whether it shows a Binding of ours
    /// for the first time.
    pub(in crate::scheduler) fn note_bound(&mut self, now: Time, key: GroupKey, is_ours: bool) {
        self.check_sent(now, key, is_ours);
        self.check_started(now, key);
    }

    /// Looks at a group whose Bindings were sent: whether it runs, or its start failed. It runs once one of our
    /// Bindings `is_shown`.
    pub(in crate::scheduler) fn check_sent(&mut self, now: Time, key: GroupKey, is_shown: bool) {
        if self.groups.progress(key).stage != Stage::Sent {
            return;
        }
        if is_shown || self.has_enough_bound(key) {
            self.set_stage(key, Stage::Runs);
            self.check_reservation(now, key);
            self.correct_condition(now, key, !self.is_list_awaited());
        } else {
            self.note_lost(now, key, Stage::Chosen, None);
        }
    }

    /// Notes whether the group has started, after a member was bound, a Binding was sent, or `minCount` changed.
    pub(in crate::scheduler) fn check_started(&mut self, now: Time, key: GroupKey) {
        let is_known = self.cache.lookups().group(key).is_some();
        if !is_known || self.groups.progress(key).has_started() || self.tables.copies_defects() {
            return;
        }
        if self.are_enough(key, || self.started_members(key)) {
            self.note_started(now, key);
        } else {
            self.set_time_limit(key);
        }
    }

    /// Notes that the group has started.
    pub(in crate::scheduler) fn note_started(&mut self, now: Time, key: GroupKey) {
        // Its condition may say that another leader started it.
        let ran = self.cache.lookups().group(key).is_some_and(|group| self.has_started(group))
            && self.bound_members(key).next().is_some();
        let runs = ran || self.groups.progress(key).stage == Stage::Runs || self.has_enough_bound(key);
        self.set_stage(key, if runs { Stage::Runs } else { Stage::Sent });
        self.groups.passed_over.remove(&key);
        if self.groups.limits.is_given_up(key) {
            // The watch showed only now that it runs.
            self.take_up(key);
            self.release_members(now, key);
        }
        self.set_time_limit(key);
        self.correct_condition(now, key, !self.is_list_awaited());
    }

    /// Returns the members that the watch shows as bound.
    fn bound_members(&self, key: GroupKey) -> impl Iterator<Item = &Arc<PodInfo>> {
        let is_bound =
            |pod: &&Arc<PodInfo>| matches!(self.cache.placed(&pod.uid), Some((_, _, PodState::Added)));
        self.scheduled_members(key).map(|(pod, _)| pod).filter(is_bound)
    }

    /// Whether the watch shows as many members as bound as the group needs.
    fn has_enough_bound(&self, key: GroupKey) -> bool {
        self.are_enough(key, || self.bound_members(key))
    }

    /// Whether the group starts with these members. One of ours is enough if no profile of theirs checks `minCount`.
    fn are_enough<'a, I: Iterator<Item = &'a Arc<PodInfo>>>(
        &self,
        key: GroupKey,
        members: impl Fn() -> I,
    ) -> bool {
        let Some(group) = self.cache.lookups().group(key) else { return false };
        let min = minimum(group.policy).max(1);
        let is_complete = self.scheduled(key) >= min
            && members().take(min).count() == min
            && self.role_shortage(key, members()).is_none();
        let ours = || members().filter(|pod| self.is_ours(pod));
        is_complete || ours().next().is_some() && ours().all(|pod| !self.checks_minimum(pod))
    }

    /// Whether the group has lost all members that started, the last of them a moment ago. Those that were bound before
    /// a start are no start, if all Bindings of it fail.
    fn has_lost_all(&self, key: GroupKey) -> bool {
        // A pod that another client bound to another node is assumed without a Binding of ours.
        let is_assumed = |pod: &Arc<PodInfo>| {
            self.bindings.contains(&pod.uid)
                && matches!(self.cache.placed(&pod.uid), Some((_, _, PodState::Assumed)))
        };
        match self.groups.progress(key).stage {
            Stage::Sent => !self.started_members(key).any(is_assumed) && !self.has_enough_bound(key),
            // The rest of a start is bound, too, even if the first member has ended by then.
            _ => self.started_members(key).next().is_none() && !self.is_rest_complete(key),
        }
    }

    /// Handles a member that lost its node without having been bound.
    pub(in crate::scheduler) fn member_freed(&mut self, now: Time, pod: &PodInfo) {
        if let Some(key) = pod.group_key() {
            // Otherwise Bindings that are refused again and again would extend the time.
            let ran = self.groups.progress(key).stage == Stage::Runs;
            self.note_lost(now, key, if ran { Stage::Ended } else { Stage::Chosen }, ran.then_some(now));
            self.check_failed(now, key);
            self.set_time_limit(key);
        }
    }

    /// Handles a bound member that left or is terminating.
    pub(in crate::scheduler) fn note_ended(&mut self, now: Time, key: GroupKey) {
        let ran_until = (self.groups.progress(key).stage != Stage::Sent).then_some(now);
        self.note_lost(now, key, Stage::Ended, ran_until);
        self.check_failed(now, key);
        self.set_time_limit(key);
    }

    fn note_lost(&mut self, now: Time, key: GroupKey, stage: Stage, ran_until: Option<Time>) {
        let has_started = match self.cache.lookups().group(key) {
            Some(group) => self.has_started(group),
            None => self.groups.progress(key).has_started(),
        };
        if has_started && self.has_lost_all(key) {
            let is_left = self.started_members(key).next().is_some();
            let was_sent = self.groups.progress(key).stage == Stage::Sent;
            self.set_stage(key, if is_left || was_sent { Stage::Chosen } else { stage });
            if was_sent {
                self.no_member_bound(now, key);
            }
            if let Some(at) = ran_until.filter(|_| !is_left && !self.tables.copies_defects()) {
                self.groups.progress_mut(key).ran_until = Some(at);
            }
        }
    }

    /// Notes the failed start of a group whose last chosen member lost its node, unless a start that is left does.
    fn check_failed(&mut self, now: Time, key: GroupKey) {
        let has_start = self.groups.starts.contains_key(&key);
        if self.groups.progress(key).stage == Stage::Chosen
            && !has_start
            && self.scheduled_members(key).next().is_none()
        {
            self.no_member_bound(now, key);
        }
    }

    fn no_member_bound(&mut self, now: Time, key: GroupKey) {
        let Some(group) = self.cache.lookups().group(key).filter(|group| minimum(group.policy) > 0) else {
            return;
        };
        if self.condition_of(group).is_some_and(|shown| shown.is_true) {
            let text = "none of the chosen members of the pod group could be bound";
            self.start_failed(now, key, text.to_owned());
        }
    }

    /// Takes back the condition of a group that could not start: it may be long before a cycle follows.
    pub(super) fn start_failed(&mut self, now: Time, key: GroupKey, text: String) {
        let Some(generation) = self.cache.lookups().group(key).map(|group| group.generation) else { return };
        if self.leading && !self.groups.limits.is_given_up(key) {
            self.set_condition(now, key, condition(&Verdict::Unschedulable(text), generation));
            let progress = self.groups.progress_mut(key);
            progress.has_failed |= progress.stage != Stage::Runs;
        }
    }

    /// Forgets how far a group without members or PodGroup has come.
    pub(super) fn forget_progress(&mut self, key: GroupKey) {
        if self.groups.known(key) == 0 && self.cache.lookups().group(key).is_none() {
            self.groups.forget_progress(key);
        }
    }

    /// Returns the members that are bound, or whose Binding was sent.
    pub(super) fn started_members(&self, key: GroupKey) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.scheduled_members(key).map(|(pod, _)| pod).filter(|pod| !self.is_unsent(pod))
    }

    /// Whether members have a node whose Bindings were not sent.
    pub(super) fn is_starting(&self, key: GroupKey) -> bool {
        self.scheduled_members(key).any(|(pod, _)| self.is_unsent(pod))
    }

    /// Whether a pod with a node is in PreBind, or its Binding was never sent. Another client may have bound it.
    fn is_unsent(&self, pod: &PodInfo) -> bool {
        let is_open = self.bindings.was_never_sent(&pod.uid) || self.volume_bindings.contains(&pod.uid);
        is_open && matches!(self.cache.placed(&pod.uid), Some((_, _, PodState::Assumed)))
    }

    /// Handles the gain of leadership: another leader may have started groups that have not started here, and the watch
    /// may show that later.
    pub(in crate::scheduler) fn groups_led(&mut self, now: Time) {
        self.groups.forget_unstarted();
        let keys: Vec<GroupKey> = self.groups.keys().collect();
        for key in keys {
            if self.groups.limits.is_given_up(key) {
                // If its time is over, it is given up again, with a condition and events of this leader.
                self.take_up(key);
                self.release_members(now, key);
            }
            self.check_started(now, key);
            self.correct_condition(now, key, true);
        }
        self.adopt_reservations(now);
    }
}
