//! Time limits: a group that does not start in time is given up, until its annotations change, its PodGroup is created
//! again, or its oldest members are gone.
//!
//! The time begins with the creation of the oldest member that is not terminating, so a restart of the scheduler does
//! not extend it. A group that started has no limit any more. Upstream knows no limit.

use super::super::Scheduler;
use crate::model::effect::Severity;
use crate::model::group::{GroupCondition, GroupKey};
use crate::model::group_options::{START_DEADLINE_EXCEEDED, start_deadline_message};
use crate::model::intern::{Marks, TraceIds};
use crate::model::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The time limits of the groups that have one.
#[derive(Default)]
pub(super) struct TimeLimits {
    ends: BTreeMap<GroupKey, Time>,
    by_end: BTreeSet<(Time, GroupKey)>,
    given_up: BTreeSet<GroupKey>,
}

impl TimeLimits {
    /// Whether the group was given up.
    pub(super) fn is_given_up(&self, key: GroupKey) -> bool {
        self.given_up.contains(&key)
    }

    /// Returns the sizes of the collections, by name.
    pub(super) fn held(&self) -> [(&'static str, usize); 2] {
        let Self { ends, by_end: _, given_up } = self;
        [("time limits of groups", ends.len()), ("groups given up", given_up.len())]
    }

    /// Returns when the next limit ends.
    pub(super) fn next_end(&self) -> Option<Time> {
        self.by_end.first().map(|&(end, _)| end)
    }

    fn set_end(&mut self, key: GroupKey, end: Option<Time>) {
        let before = match end {
            Some(end) => self.ends.insert(key, end),
            None => self.ends.remove(&key),
        };
        before.map(|before| self.by_end.remove(&(before, key)));
        self.by_end.extend(end.map(|end| (end, key)));
    }

    fn take_ended(&mut self, now: Time) -> Option<GroupKey> {
        let &(_, key) = self.by_end.first().filter(|(end, _)| *end <= now)?;
        self.set_end(key, None);
        Some(key)
    }
}

impl Scheduler {
    /// Handles a change of the members, of which the oldest was created at `before`. A group that was given up is
    /// tried again once the time of those that are left is not over.
    pub(super) fn age_changed(&mut self, now: Time, key: GroupKey, before: Option<Time>) {
        if self.groups.since(key) == before {
            return;
        }
        if self.groups.limits.is_given_up(key) && self.limit_of(key).is_some_and(|end| end > now) {
            self.take_up(key);
            self.release_members(now, key);
            self.requeue_members(now, key);
        } else {
            self.set_time_limit(key);
        }
    }

    /// Forgets the time of a group without members.
    pub(super) fn forget_limit(&mut self, key: GroupKey) {
        self.groups.limits.set_end(key, None);
        self.groups.limits.given_up.remove(&key);
    }

    /// Returns when the group's time ends, by its annotation.
    fn limit_of(&self, key: GroupKey) -> Option<Time> {
        let group = self.cache.lookups().group(key)?;
        Some(self.groups.since(key)? + self.options_of(group)?.start_within?)
    }

    /// Sets the end of a group's time. It has none if the group has started.
    pub(super) fn set_time_limit(&mut self, key: GroupKey) {
        let has_started = || self.cache.lookups().group(key).is_some_and(|group| self.has_started(group));
        let end = self.limit_of(key).filter(|_| !self.groups.limits.is_given_up(key) && !has_started());
        self.groups.limits.set_end(key, end);
    }

    /// Lets a group that was given up be tried again, after its PodGroup was created, deleted, or changed in its
    /// annotations.
    pub(super) fn take_up(&mut self, key: GroupKey) {
        self.groups.limits.given_up.remove(&key);
        self.set_time_limit(key);
    }

    /// Returns when the next time limit of a group ends.
    pub(in crate::scheduler) fn next_time_limit(&self) -> Option<Time> {
        self.groups.limits.next_end()
    }

    /// Gives up the groups whose time is over.
    pub(in crate::scheduler) fn end_time_limits(&mut self, now: Time) {
        while let Some(key) = self.groups.limits.take_ended(now) {
            self.give_up(now, key);
        }
    }

    fn give_up(&mut self, now: Time, key: GroupKey) {
        let Some(group) = self.cache.lookups().group(key) else { return };
        let Some(limit) = self.options_of(group).and_then(|options| options.start_within) else { return };
        let (uid, generation) = (Arc::clone(&group.uid), group.generation);
        if self.has_started(group) {
            return;
        }
        if self.is_starting(key) {
            // The limit is set again for a member that loses its node.
            self.hurry_start(key);
            return;
        }
        self.groups.limits.given_up.insert(key);
        self.end_slices(now, key);
        self.hold_back_members(key, false);
        self.preemptor_left(now, &uid);
        self.groups.reserving.remove(&key);
        let message = start_deadline_message(limit);
        for uid in self.pending_members(key) {
            self.preemptor_left(now, &uid);
            let Some(pod) = self.queue.get(&uid).map(|queued| Arc::clone(&queued.pod)) else { continue };
            self.end_nomination(now, &pod);
            // A pod with scheduling gates was never to be scheduled.
            if pod.gates.is_empty() {
                self.record(&pod, Severity::Warning, "FailedScheduling", "Scheduling", message.clone());
            }
        }
        self.pass_on_reservation(now);
        let (reason, message) = (START_DEADLINE_EXCEEDED.into(), message.into());
        let condition = GroupCondition { is_true: false, reason, message, observed_generation: generation };
        self.set_condition(now, key, condition);
    }
}

impl TraceIds for TimeLimits {
    fn mark(&self, marks: &mut Marks) {
        let Self { ends, by_end: _, given_up } = self;
        ends.keys().chain(given_up).for_each(|key| key.mark(marks));
    }
}
