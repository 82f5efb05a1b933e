//! The conditions of groups, and those that were sent, until the watch shows them.
//!
//! Upstream: `pkg/scheduler/schedule_one_podgroup.go#updatePodGroupCondition`.

use super::super::Scheduler;
use super::cycle::Verdict;
use super::progress::Stage;
use super::start::minimum;
use super::submit::condition;
use crate::collections::hash::FixedMap;
use crate::model::effect::GroupPatch;
use crate::model::group::{GroupCondition, GroupKey, PodGroup};
use crate::model::group_options::START_DEADLINE_EXCEEDED;
use crate::model::intern::{Marks, TraceIds};
use crate::model::pod::Uid;
use crate::model::time::Time;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The reason of a condition that says that a group does not fit.
const UNFIT: &str = "Unschedulable";
/// How long the watch may take to show a condition that was sent. After that it is considered lost, and sent again.
const ECHO_MAX: Duration = Duration::from_secs(10);
/// The longest time between two patches with the same condition. It doubles with each of them.
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// A condition that was sent.
struct Sent {
    key: GroupKey,
    condition: GroupCondition,
    /// When it is considered lost, and how long after it was sent.
    lost_at: Time,
    pause: Duration,
}

/// The conditions that were sent last, by uid of the group, until the watch shows them.
#[derive(Default)]
pub(super) struct SentConditions {
    by_uid: FixedMap<Uid, Sent>,
    by_time: BTreeSet<(Time, Uid)>,
}

impl SentConditions {
    pub(super) fn of(&self, uid: &str) -> Option<&GroupCondition> {
        self.by_uid.get(uid).map(|sent| &sent.condition)
    }

    /// Returns the number of groups.
    pub(super) fn len(&self) -> usize {
        self.by_uid.len()
    }

    fn insert(&mut self, uid: &Uid, sent: Sent) {
        self.forget(uid);
        self.by_time.insert((sent.lost_at, Arc::clone(uid)));
        self.by_uid.insert(Arc::clone(uid), sent);
    }

    /// Forgets what was sent for a group. Returns whether anything was.
    pub(super) fn forget(&mut self, uid: &str) -> bool {
        let Some((uid, sent)) = self.by_uid.remove_entry(uid) else { return false };
        self.by_time.remove(&(sent.lost_at, uid))
    }

    /// Handles a condition that the watch shows.
    pub(super) fn shown(&mut self, uid: &str, condition: Option<&GroupCondition>) {
        if self.of(uid).is_some() && self.of(uid) == condition {
            self.forget(uid);
        }
    }

    fn take_lost(&mut self, now: Time) -> Option<(Uid, Sent)> {
        let (_, uid) = self.by_time.first().filter(|(lost_at, _)| *lost_at <= now)?.clone();
        let sent = self.by_uid.remove(&uid)?;
        self.by_time.remove(&(sent.lost_at, Arc::clone(&uid)));
        Some((uid, sent))
    }
}

impl TraceIds for SentConditions {
    fn mark(&self, marks: &mut Marks) {
        let Self { by_uid, by_time: _ } = self;
        by_uid.values().for_each(|sent| sent.key.mark(marks));
    }
}

impl Scheduler {
    /// Returns the group's condition that was sent last, or else the one that the watch shows.
    pub(in crate::scheduler) fn condition_of<'a>(
        &'a self,
        group: &'a PodGroup,
    ) -> Option<&'a GroupCondition> {
        self.groups.sent.of(&group.uid).or(group.scheduled.as_ref())
    }

    /// Sends the group's condition, unless it shows it already. A group that was scheduled once keeps its condition,
    /// unless it could not start.
    pub(super) fn set_condition(&mut self, now: Time, key: GroupKey, condition: GroupCondition) {
        self.send_condition(now, key, condition, ECHO_MAX);
    }

    fn send_condition(&mut self, now: Time, key: GroupKey, condition: GroupCondition, pause: Duration) {
        let Some(group) = self.cache.lookups().group(key).filter(|_| self.leading) else { return };
        let progress = self.groups.progress(key);
        let contradicts = if condition.is_true {
            progress.has_failed
        } else {
            *condition.reason == *UNFIT && progress.has_started()
        };
        if contradicts {
            return;
        }
        let shown = self.condition_of(group);
        let differs =
            |other: Option<&GroupCondition>| other.is_none_or(|other| other.is_true != condition.is_true);
        // What was sent may not have been written. A condition without the time of its transition is invalid.
        let is_transition = differs(shown) || differs(group.scheduled.as_ref());
        let is_kept = |shown: &GroupCondition| {
            shown.is_true && !condition.is_true && !self.is_taken_back(group, &condition)
                || *shown == condition
        };
        if shown.is_some_and(is_kept) {
            return;
        }
        let patch = GroupPatch {
            api: group.api,
            is_transition,
            namespace: self.tables.text(key.namespace).to_owned(),
            name: self.tables.text(key.name).to_owned(),
            uid: Arc::clone(&group.uid),
            condition: condition.clone(),
        };
        let uid = Arc::clone(&group.uid);
        self.groups.sent.insert(&uid, Sent { key, condition, lost_at: now + pause, pause });
        self.outbox.push_group_patch(patch);
    }

    /// Whether a condition replaces one that said that the group was scheduled: it was given up, or its members were
    /// chosen and too few of them have a node.
    fn is_taken_back(&self, group: &PodGroup, condition: &GroupCondition) -> bool {
        let is_short = || {
            // The cache still has a member that leaves now.
            let scheduled = || self.scheduled_members(group.key).map(|(pod, _)| pod);
            scheduled().count() < minimum(group.policy).max(1)
                || self.role_shortage(group.key, scheduled()).is_some()
        };
        *condition.reason == *START_DEADLINE_EXCEEDED
            || self.groups.progress(group.key).stage == Stage::Chosen && is_short()
    }

    /// Corrects the condition of a group that has started, if it says that the group is not scheduled. With
    /// `may_be_lost` also if there is none. Groups without members of ours are left to their scheduler.
    pub(super) fn correct_condition(&mut self, now: Time, key: GroupKey, may_be_lost: bool) {
        let Some(group) = self.cache.lookups().group(key) else { return };
        let is_wrong = self.condition_of(group).map_or(may_be_lost, |shown| !shown.is_true);
        let is_of_ours = |it: &GroupCondition| [UNFIT, START_DEADLINE_EXCEEDED].contains(&&*it.reason);
        let says_unfit = || self.condition_of(group).is_some_and(is_of_ours);
        let has_ours = || {
            self.scheduled_members(key).any(|(pod, _)| self.is_ours(pod))
                || says_unfit() && !self.pending_members(key).is_empty()
        };
        let progress = self.groups.progress(key);
        if !self.leading || !is_wrong || !progress.has_started() || progress.has_failed || !has_ours() {
            return;
        }
        let (uid, condition) = (Arc::clone(&group.uid), condition(&Verdict::Scheduled, group.generation));
        let again = progress.corrected_at.map(|at| if at > now { at } else { at + ECHO_MAX });
        let at = again.map_or(now, |again| again.max(now));
        self.groups.progress_mut(key).corrected_at = Some(at);
        if at > now {
            // Another client overwrites it. Without a pause, both would write without end.
            self.groups.sent.insert(&uid, Sent { key, condition, lost_at: at, pause: ECHO_MAX });
        } else {
            self.set_condition(now, key, condition);
        }
    }

    /// Corrects the conditions of all groups once all lists are complete: a leader before may have written none.
    pub(in crate::scheduler) fn correct_conditions(&mut self, now: Time) {
        let keys: Vec<GroupKey> = self.groups.keys().collect();
        for key in keys {
            self.correct_condition(now, key, true);
        }
    }

    /// Returns when a condition that was sent is considered lost.
    pub(in crate::scheduler) fn next_lost_condition(&self) -> Option<Time> {
        let first = self.groups.sent.by_time.first().filter(|_| !self.tables.copies_defects());
        first.map(|(lost_at, _)| *lost_at)
    }

    /// Sends conditions again that the watch has not shown in time. Upstream does not.
    pub(in crate::scheduler) fn repeat_lost_conditions(&mut self, now: Time) {
        if self.tables.copies_defects() {
            return;
        }
        while let Some((uid, sent)) = self.groups.sent.take_lost(now) {
            let Sent { key, condition, pause, .. } = sent;
            let is_outdated =
                *condition.reason == *START_DEADLINE_EXCEEDED && !self.groups.limits.is_given_up(key);
            if !is_outdated && self.cache.lookups().group(key).is_some_and(|group| group.uid == uid) {
                self.send_condition(now, key, condition, (2 * pause).min(PAUSE_MAX));
            }
        }
    }

    /// Forgets all conditions that were sent, because another leader may write others.
    pub(in crate::scheduler) fn drop_conditions(&mut self) {
        for (uid, _) in std::mem::take(&mut self.groups.sent).by_uid {
            self.outbox.cancel_group_patch(&uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::intern::Tables;

    #[test]
    fn sent_condition_is_kept_until_the_watch_shows_it_or_it_is_lost() {
        let name = Tables::new().symbol("g");
        let key = GroupKey { namespace: name, name };
        let condition = |is_true| GroupCondition {
            is_true,
            reason: "Scheduled".into(),
            message: "".into(),
            observed_generation: 1,
        };
        let mut sent = SentConditions::default();
        let send = |sent: &mut SentConditions| {
            let lost_at = Time::from_secs(110);
            sent.insert(&"g".into(), Sent { key, condition: condition(true), lost_at, pause: ECHO_MAX });
        };
        send(&mut sent);
        sent.shown("g", Some(&condition(false)));
        sent.shown("g", None);
        assert_eq!(sent.of("g"), Some(&condition(true)), "the watch shows older states");
        sent.shown("g", Some(&condition(true)));
        assert_eq!((sent.len(), sent.by_time.len()), (0, 0));
        send(&mut sent);
        assert!(sent.take_lost(Time::from_secs(109)).is_none());
        assert!(sent.take_lost(Time::from_secs(110)).is_some());
        assert_eq!((sent.len(), sent.by_time.len()), (0, 0));
    }
}
