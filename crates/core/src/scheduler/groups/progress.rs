//! How far each group has come.
//!
//! A group has started once as many members as it needs are bound, or their Bindings are sent. It stays started while
//! any of them is left. Its condition alone does not say that: it is written when members are chosen.

use super::super::Scheduler;
use super::start::minimum;
use crate::model::group::{GroupKey, PodGroup};
use crate::model::pod::PodInfo;
use crate::model::time::Time;
use std::sync::Arc;

/// How far a group has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Progress {
    /// It has started if its condition says so: this or another leader may have started it before.
    #[default]
    Unknown,
    /// Members were chosen, but it has not started yet.
    Chosen,
    /// It has started.
    Started,
    /// It had started, and at this time the last of its bound members left.
    Ended { at: Time },
}

impl Scheduler {
    /// Whether the group has started.
    pub(in crate::scheduler) fn has_started(&self, group: &PodGroup) -> bool {
        match self.groups.progress(group.key) {
            Progress::Started => true,
            Progress::Chosen | Progress::Ended { .. } => false,
            Progress::Unknown => self.condition_of(group).is_some_and(|condition| condition.is_true),
        }
    }

    /// Sets how far the group has come. Upstream knows only its condition.
    fn set_progress(&mut self, key: GroupKey, progress: Progress) {
        if !self.tables.copies_defects() {
            self.groups.set_progress(key, progress);
        }
    }

    /// Notes that members of the group are chosen, which has not started or lost all members since.
    pub(super) fn note_chosen(&mut self, group: &PodGroup) {
        if !self.has_started(group) || self.scheduled(group.key) == 0 {
            self.set_progress(group.key, Progress::Chosen);
        }
    }

    /// Notes whether the group has started, after a member was bound, a Binding was sent, or `minCount` changed.
    pub(in crate::scheduler) fn note_bound(&mut self, now: Time, key: GroupKey) {
        let Some(group) = self.cache.lookups().group(key) else { return };
        let min = minimum(group.policy).max(1);
        if self.groups.progress(key) == Progress::Started || self.tables.copies_defects() {
            return;
        }
        let has_enough = || {
            self.started_members(key).count() >= min
                && self.role_shortage(key, self.started_members(key)).is_none()
        };
        if self.scheduled(key) >= min && has_enough() {
            self.note_started(now, key);
        } else {
            self.set_time_limit(key);
        }
    }

    /// Notes that the group has started.
    pub(in crate::scheduler) fn note_started(&mut self, now: Time, key: GroupKey) {
        self.set_progress(key, Progress::Started);
        if self.groups.limits.is_given_up(key) {
            // The watch showed only now that it runs.
            self.take_up(key);
            self.release_members(now, key);
        }
        self.set_time_limit(key);
        self.correct_condition(now, key);
    }

    /// Handles a member that lost its node without having been bound.
    pub(in crate::scheduler) fn member_freed(&mut self, pod: &PodInfo) {
        if let Some(key) = pod.group_key() {
            self.note_lost(key, Progress::Chosen);
            self.set_time_limit(key);
        }
    }

    /// Handles a bound member that left or is terminating.
    pub(in crate::scheduler) fn note_ended(&mut self, now: Time, key: GroupKey) {
        self.note_lost(key, Progress::Ended { at: now });
        self.set_time_limit(key);
    }

    fn note_lost(&mut self, key: GroupKey, progress: Progress) {
        let has_started = self.cache.lookups().group(key).is_some_and(|group| self.has_started(group));
        if has_started && self.started_members(key).next().is_none() {
            self.set_progress(key, progress);
        }
    }

    /// Forgets how far a group without members or PodGroup has come.
    pub(super) fn forget_progress(&mut self, key: GroupKey) {
        if self.groups.known(key) == 0 && self.cache.lookups().group(key).is_none() {
            self.groups.set_progress(key, Progress::Unknown);
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

    /// Whether a pod with a node is in PreBind, or its Binding was not sent.
    fn is_unsent(&self, pod: &PodInfo) -> bool {
        self.bindings.is_unsent(&pod.uid) || self.volume_bindings.contains(&pod.uid)
    }

    /// Handles the gain of leadership: another leader may have started groups that have not started here, and the watch
    /// may show that later.
    pub(in crate::scheduler) fn groups_led(&mut self, now: Time) {
        let keys: Vec<GroupKey> = self.groups.keys().collect();
        for key in keys {
            if self.groups.progress(key) != Progress::Started {
                self.groups.set_progress(key, Progress::Unknown);
            }
            self.note_bound(now, key);
            self.correct_condition(now, key);
        }
        self.adopt_reservations(now);
    }
}
