//! The start of a group: its Bindings are sent once all members that were chosen together have passed PreBind.
//!
//! If so many of them failed that fewer than `minCount` are left, none is bound. Upstream binds each member on its own,
//! as `--compat=upstream` does.

use super::super::Scheduler;
use super::super::failure::Failure;
use super::super::outbox::Outgoing;
use super::progress::Stage;
use crate::cache::PodState;
use crate::model::group::{GroupKey, GroupPolicy, PodGroup};
use crate::model::pod::{PodInfo, Uid};
use crate::model::time::Time;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Members of a group that start together, until their Bindings are queued.
#[derive(Default)]
pub(super) struct Start {
    /// All members that were chosen, in the order of their decisions.
    members: Vec<Uid>,
    /// Those of the first cycle that were in PreBind when they were looked at last. The others wait for members that
    /// were chosen again or later only if they are too few.
    pre_binding: Vec<Uid>,
    /// Those that were chosen again, because PreBind failed or was outdated.
    repeated: BTreeSet<Uid>,
    /// Those whose Bindings are held back.
    ready: BTreeSet<Uid>,
    /// The number of members that must have a node, if the PodGroup does not exist any more.
    min: usize,
    /// Whether members that were chosen again are not awaited any more: one of them failed again, or the time limit of
    /// the group ended.
    is_late: bool,
}

/// Members of a group whose Bindings are queued, until the first of them is sent.
#[derive(Debug)]
pub(in crate::scheduler) struct QueuedStart {
    key: GroupKey,
    /// In the order of their decisions.
    members: Vec<Uid>,
    /// As in [`Start`].
    min: usize,
}

impl Scheduler {
    /// Holds back the Bindings of members that are assumed from now on, if the group needs a number of members and its
    /// profile checks that.
    pub(super) fn begin_start(&mut self, key: GroupKey, group: Option<&PodGroup>, checks_minimum: bool) {
        if self.tables.copies_defects() {
            return;
        }
        let Some(group) = group else { return };
        self.note_chosen(group);
        let min = minimum(group.policy);
        if min > 0 && checks_minimum {
            let start = self.groups.starts.entry(key).or_default();
            start.min = start.min.max(min);
        }
    }

    /// Adds the members that were chosen in this cycle, and queues their Bindings if none of them is in PreBind.
    pub(super) fn add_to_start(&mut self, now: Time, key: GroupKey, members: &[Uid]) {
        let Some(start) = self.groups.starts.get_mut(&key) else { return };
        let is_first = start.members.is_empty();
        if !is_first {
            let chosen: BTreeSet<&Uid> = members.iter().collect();
            for uid in start.members.iter().filter(|uid| chosen.contains(uid)) {
                start.is_late |= !start.repeated.insert(Arc::clone(uid));
            }
            start.members.retain(|uid| !chosen.contains(uid));
        }
        start.members.extend_from_slice(members);
        if is_first {
            let pre_binding = members.iter().filter(|uid| self.volume_bindings.contains(uid));
            start.pre_binding.extend(pre_binding.cloned());
        }
        self.complete_starts(now);
    }

    /// Puts the Binding of a pod into the outbox, or holds it back until the pod's group has passed PreBind.
    pub(in crate::scheduler) fn queue_bind(&mut self, pod: &PodInfo) {
        let uid = Arc::clone(&pod.uid);
        let Some(key) = pod.group_key() else { return self.outbox.push_bind(Outgoing::Bind(uid)) };
        if let Some(start) = self.groups.starts.get_mut(&key) {
            start.ready.insert(uid);
            return;
        }
        let min = self.minimum_now(key, 0);
        if !self.waits_for_start(pod) {
            return self.outbox.push_bind(Outgoing::Bind(uid));
        }
        // The others did not wait for it, and are not bound yet.
        let start = Start { members: vec![Arc::clone(&uid)], ready: [uid].into(), min, ..Start::default() };
        self.groups.starts.insert(key, start);
        self.look_at_starts();
    }

    /// Whether the Binding of a pod waits for the start of its group, which has not started or lost its last bound
    /// member. Not if the profile does not check `minCount`.
    pub(in crate::scheduler) fn waits_for_start(&self, pod: &PodInfo) -> bool {
        pod.group_key().is_some_and(|key| {
            let has_yet_to_start = matches!(self.groups.progress(key).stage, Stage::Chosen | Stage::Ended);
            has_yet_to_start && self.minimum_now(key, 0) > 0 && self.checks_minimum(pod)
        })
    }

    /// Forgets all starts, because what was not sent was dropped.
    pub(in crate::scheduler) fn drop_starts(&mut self) {
        self.groups.starts.clear();
        self.groups.rests.clear();
    }

    /// Whether a pod is in PreBind, and no other client has bound it.
    fn awaits_pre_bind(&self, uid: &str) -> bool {
        self.volume_bindings.contains(uid) && !matches!(self.cache.placed(uid), Some((_, _, PodState::Added)))
    }

    /// Lets the start of the group, if it has one, no longer wait for members that were chosen again.
    pub(super) fn hurry_start(&mut self, key: GroupKey) {
        if let Some(start) = self.groups.starts.get_mut(&key) {
            start.is_late = true;
            self.look_at_starts();
        }
    }

    /// Lets the next step look at all starts, because what they wait for may have changed.
    pub(in crate::scheduler) fn look_at_starts(&mut self) {
        self.groups.starts_as_of = None;
    }

    /// Completes the starts whose members have left PreBind. Returns whether there were any.
    ///
    /// It is called at each step, and looks at the starts only if a pod left PreBind since.
    pub(in crate::scheduler) fn starts_go_on(&mut self, now: Time) -> bool {
        let ended = Some(self.volume_bindings.ended());
        if self.groups.starts.is_empty() || self.groups.starts_as_of == ended {
            return false;
        }
        self.groups.starts_as_of = ended;
        self.complete_starts(now)
    }

    fn complete_starts(&mut self, now: Time) -> bool {
        let mut starts = std::mem::take(&mut self.groups.starts);
        let is_passed = |start: &mut Start| {
            let Start { pre_binding, repeated, .. } = start;
            let has_left = |uid: &mut Uid| !self.awaits_pre_bind(uid) || repeated.contains(uid);
            while pre_binding.pop_if(has_left).is_some() {}
            pre_binding.is_empty()
        };
        let mut complete: Vec<(GroupKey, usize, bool)> = starts
            .iter_mut()
            .filter_map(|(key, start)| is_passed(start).then_some((*key, start.min, start.is_late)))
            .collect();
        self.groups.starts = starts;
        complete.retain(|&(key, min, is_late)| {
            is_late || self.has_passed(key, self.minimum_now(key, min)) || !self.is_in_pre_bind(key)
        });
        for (key, ..) in &complete {
            if let Some(start) = self.groups.starts.remove(key) {
                self.complete_start(now, *key, start);
            }
        }
        !complete.is_empty()
    }

    /// Returns the number of members that the group needs now; `at_decision` if it does not exist any more.
    fn minimum_now(&self, key: GroupKey, at_decision: usize) -> usize {
        self.cache.lookups().group(key).map_or(at_decision, |group| minimum(group.policy))
    }

    fn is_in_pre_bind(&self, key: GroupKey) -> bool {
        self.groups.members(key).any(|uid| self.awaits_pre_bind(uid))
    }

    /// Returns the members that have a node and do not wait for PreBind.
    fn passed(&self, key: GroupKey) -> impl Iterator<Item = &Arc<PodInfo>> {
        let placed = self.scheduled_members(key).map(|(pod, _)| pod);
        placed.filter(|pod| !self.awaits_pre_bind(&pod.uid))
    }

    /// Whether as many members have passed PreBind as the group needs.
    fn has_passed(&self, key: GroupKey, min: usize) -> bool {
        self.scheduled(key) >= min
            && self.passed(key).count() >= min
            && self.role_shortage(key, self.passed(key)).is_none()
    }

    /// Whether a member whose Binding was refused still starts with its group, or joins members that started.
    pub(in crate::scheduler) fn is_of_start(&self, pod: &PodInfo) -> bool {
        let Some(key) = pod.group_key() else { return false };
        !self.checks_minimum(pod)
            || self.groups.progress(key).stage == Stage::Runs
            || self.started_members(key).any(|other| other.uid != pod.uid)
            || self.has_passed(key, self.minimum_now(key, 0))
    }

    fn complete_start(&mut self, now: Time, key: GroupKey, mut start: Start) {
        let mut members: Vec<Uid> = start.members.iter().filter_map(|uid| start.ready.take(uid)).collect();
        members.extend(start.ready);
        let queued = QueuedStart { key, members, min: start.min };
        let members = self.confirm_start(now, &queued).unwrap_or_default();
        let queued = Arc::new(QueuedStart { members, ..queued });
        for uid in &queued.members {
            self.bindings.set_start(uid, &queued);
            self.outbox.push_bind(Outgoing::Bind(Arc::clone(uid)));
        }
    }

    /// Looks once more at the members that start with this one, before the first of them is bound.
    pub(in crate::scheduler) fn confirm_queued_start(&mut self, now: Time, uid: &str) {
        let Some(queued) = self.bindings.take_start(uid) else { return };
        for uid in &queued.members {
            self.bindings.take_start(uid);
        }
        let mut left = self.confirm_start(now, &queued).unwrap_or_default();
        left.retain(|uid| self.bindings.is_due(uid));
        if !left.is_empty() {
            self.note_started(now, queued.key);
            self.note_rest(queued.key, left);
        }
    }

    /// Rechecks members that are to be bound together, and returns those that are left. If too few are left, none is
    /// bound, unless the group runs already and takes replacements one by one.
    fn confirm_start(&mut self, now: Time, queued: &QueuedStart) -> Option<Vec<Uid>> {
        let QueuedStart { key, ref members, min } = *queued;
        let mut left: Vec<Uid> = members.iter().filter(|uid| self.bindings.is_unsent(uid)).cloned().collect();
        // Others may be in the outbox already. They count, so they are looked at, too.
        let known: BTreeSet<&Uid> = left.iter().collect();
        let is_other = |uid: &&Uid| self.bindings.is_due(uid) && !known.contains(uid);
        let others: Vec<Uid> = self.groups.members(key).filter(is_other).cloned().collect();
        left.extend(others);
        self.recheck_members(now, &left);
        left.retain(|uid| self.bindings.is_unsent(uid));
        let min = self.minimum_now(key, min);
        if self.has_passed(key, min) || self.current_policy(key) == Some(GroupPolicy::Basic) {
            return Some(left);
        }
        let passed = self.passed(key).count();
        let short = self.role_shortage(key, self.passed(key)).filter(|_| passed >= min);
        let text = short.unwrap_or_else(|| {
            format!("{passed} of at least {min} members of the pod group can still be bound")
        });
        self.take_back_members(now, key, &text);
        self.start_failed(now, key, text);
        None
    }

    /// Takes back all members that are in PreBind or whose Bindings were not sent, and retries them after a backoff.
    fn take_back_members(&mut self, now: Time, key: GroupKey, text: &str) {
        let members: Vec<Uid> = self.groups.members(key).cloned().collect();
        let keeps = self.keeps_nodes_after_failure(now, key);
        for uid in members {
            if let Some(binding) = self.bindings.cancel_unsent(&uid, &mut self.outbox) {
                let (queued, began) = binding.into_attempt();
                let node = self.free(now, &uid).filter(|_| keeps);
                self.fail(now, queued, began, Failure::Binding { message: text.to_owned(), node });
            }
            if self.awaits_pre_bind(&uid)
                && let Some(pre_bind) = self.end_pre_bind(&uid)
            {
                self.not_pre_bound(now, pre_bind.into_attempt(), text.to_owned(), Some(keeps));
            }
        }
    }
}

/// Returns the number of members that must have a node.
pub(super) fn minimum(policy: GroupPolicy) -> usize {
    match policy {
        GroupPolicy::Gang(min) => min,
        GroupPolicy::Basic => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::quarantine::tests::World;

    #[test]
    fn starts_are_looked_at_only_after_a_change() {
        let mut world = World::new();
        let name = world.scheduler.tables().symbol("g");
        let (key, scheduler) = (GroupKey { namespace: name, name }, &mut world.scheduler);
        scheduler.groups.starts.entry(key).or_default();
        scheduler.groups.starts_as_of = Some(scheduler.volume_bindings.ended());
        assert!(!scheduler.starts_go_on(world.now), "no pod has left PreBind");
        scheduler.look_at_starts();
        assert!(scheduler.starts_go_on(world.now), "the start waits for nobody");
        assert!(!scheduler.starts_go_on(world.now), "it has ended");
    }
}
