//! Time limits: a group that does not start in time is given up, until its annotations change, its PodGroup is created
//! again, or its last member is gone.
//!
//! The time begins with the creation of the oldest pod that was seen as a member, so a restart of the scheduler does
//! not extend it. A group that started has no limit any more. Upstream knows no limit.

use super::super::Scheduler;
use super::start::minimum;
use crate::model::effect::Severity;
use crate::model::group::{GroupCondition, GroupKey, PodGroup};
use crate::model::group_options::{START_DEADLINE_EXCEEDED, start_deadline_message};
use crate::model::intern::{Marks, TraceIds};
use crate::model::pod::PodInfo;
use crate::model::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The time limits of the groups that have one.
#[derive(Default)]
pub(super) struct TimeLimits {
    /// When the oldest member of each group was created.
    since: BTreeMap<GroupKey, Time>,
    ends: BTreeMap<GroupKey, Time>,
    by_end: BTreeSet<(Time, GroupKey)>,
    given_up: BTreeSet<GroupKey>,
}

impl TimeLimits {
    /// Whether the group was given up.
    pub(super) fn is_given_up(&self, key: GroupKey) -> bool {
        self.given_up.contains(&key)
    }

    /// Returns the groups with members, and when the oldest of these was created.
    pub(super) fn oldest_members(&self) -> impl Iterator<Item = (GroupKey, Time)> + '_ {
        self.since.iter().map(|(key, since)| (*key, *since))
    }

    /// Returns the sizes of the collections, by name.
    pub(super) fn held(&self) -> [(&'static str, usize); 3] {
        let Self { since, ends, by_end: _, given_up } = self;
        [
            ("groups with members", since.len()),
            ("time limits of groups", ends.len()),
            ("groups given up", given_up.len()),
        ]
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
    /// Notes when a member was created.
    pub(super) fn note_created(&mut self, key: GroupKey, pod: &PodInfo) {
        let Some(created) = pod.group.as_ref().map(|membership| membership.created) else { return };
        let since = &mut self.groups.limits.since;
        if since.get(&key).is_none_or(|&since| created < since) {
            since.insert(key, created);
            self.set_time_limit(key);
        }
    }

    /// Forgets the time of a group without members.
    pub(super) fn forget_created(&mut self, key: GroupKey) {
        self.groups.limits.since.remove(&key);
        self.groups.limits.set_end(key, None);
        self.groups.limits.given_up.remove(&key);
    }

    /// Whether the group was scheduled once, and neither failed to start then nor is about to start. One that runs has
    /// started, whatever its condition says.
    fn has_started(&self, group: &PodGroup) -> bool {
        let key = group.key;
        let shown = self.groups.sent(&group.uid).or(group.scheduled.as_ref());
        let was_scheduled =
            shown.is_some_and(|shown| shown.is_true) && !self.groups.failed_starts.contains(&key);
        let started = self.started_members(key).count();
        started >= minimum(group.policy).max(1)
            || was_scheduled && (started > 0 || !self.groups.starts.contains_key(&key))
    }

    /// Sets the end of a group's time from its annotation. It has none if the group has started.
    pub(super) fn set_time_limit(&mut self, key: GroupKey) {
        let end = || {
            let group = self.cache.lookups().group(key)?;
            let limit = self.options_of(group)?.start_within?;
            let since = self.groups.limits.since.get(&key)?;
            (!self.has_started(group)).then(|| *since + limit)
        };
        let end = end().filter(|_| !self.groups.limits.is_given_up(key));
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
        if self.groups.starts.contains_key(&key) {
            // If it fails, it sets the limit again.
            self.hurry_start(key);
            return;
        }
        self.groups.limits.given_up.insert(key);
        self.end_slices(now, key);
        self.hold_back_members(key, false);
        self.preemptor_left(now, &uid);
        let message = start_deadline_message(limit);
        for uid in self.pending_members(key) {
            let Some(pod) = self.queue.get(&uid).map(|queued| Arc::clone(&queued.pod)) else { continue };
            self.end_nomination(now, &pod);
            // A pod with scheduling gates was never to be scheduled.
            if pod.gates.is_empty() {
                self.record(&pod, Severity::Warning, "FailedScheduling", "Scheduling", message.clone());
            }
        }
        self.pass_on_reservation(now);
        let (reason, message) = (START_DEADLINE_EXCEEDED.into(), message.into());
        self.set_condition(
            key,
            GroupCondition { is_true: false, reason, message, observed_generation: generation },
        );
    }
}

impl TraceIds for TimeLimits {
    fn mark(&self, marks: &mut Marks) {
        let Self { since, ends, by_end: _, given_up } = self;
        since.keys().chain(ends.keys()).chain(given_up).for_each(|key| key.mark(marks));
    }
}
