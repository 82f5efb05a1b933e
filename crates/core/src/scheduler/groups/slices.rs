//! Group cycles in slices. If the searches for devices need more steps than one slice allows, the cycle is undone and
//! its members are suspended. The next slice starts the cycle again and continues the searches.

use super::super::Scheduler;
use super::super::extend::SuspendedDecision;
use super::super::slices::Sliced;
use super::cycle::Attempt;
use crate::cache::slice::step_limit::Searches;
use crate::cycle::{NoProbe, Probe};
use crate::model::group::GroupKey;
use crate::model::time::Time;
use crate::queue::QueuedPod;
use std::sync::Arc;

impl Scheduler {
    /// Suspends the members of a group until the next slice of its cycle.
    pub(super) fn suspend_group(&mut self, attempt: Attempt, searches: Option<Searches>) {
        let searches = searches.map(Arc::new);
        for queued in attempt.members {
            let mut waiting = SuspendedDecision::in_slices(queued, attempt.began, self.requeues.count, false);
            waiting.searches.clone_from(&searches);
            self.extender_calls.suspend(waiting);
        }
    }

    /// Evaluates a slice of the cycle of a suspended member's group.
    pub(in crate::scheduler) fn slice_group(
        &mut self,
        now: Time,
        first: SuspendedDecision,
        key: GroupKey,
    ) -> Sliced {
        let mut suspended = vec![first];
        suspended.append(&mut self.take_suspended(key));
        self.resume_group(now, key, (Vec::new(), suspended), &mut NoProbe)
    }

    /// Takes the suspended members of a group.
    pub(super) fn take_suspended(&mut self, key: GroupKey) -> Vec<SuspendedDecision> {
        if self.extender_calls.sliced() == 0 {
            return Vec::new();
        }
        let uids = self.groups.members(key).cloned().collect();
        self.extender_calls.take_sliced_of(&uids)
    }

    /// Returns the suspended members of a group to the queue.
    pub(super) fn end_slices(&mut self, now: Time, key: GroupKey) {
        for SuspendedDecision { queued, .. } in self.take_suspended(key) {
            self.activate(now, queued);
        }
    }

    /// Evaluates a slice of a group's cycle: its first, or the next one of suspended members.
    pub(super) fn resume_group(
        &mut self,
        now: Time,
        key: GroupKey,
        (mut members, suspended): (Vec<QueuedPod>, Vec<SuspendedDecision>),
        probe: &mut dyn Probe,
    ) -> Sliced {
        let began = suspended.iter().map(|it| it.began).min().unwrap_or(now);
        let mut searches = None;
        for SuspendedDecision { queued, searches: shared, .. } in suspended {
            // The last member has the only reference.
            searches = shared.and_then(Arc::into_inner).or(searches);
            match self.gate(&queued.pod) {
                None => members.push(queued),
                gate => self.queue.activate(now, queued, gate),
            }
        }
        let members = self.take_members(now, members, key);
        if members.is_empty() {
            return Sliced::Ended;
        }
        self.attempt_members((now, began), key, members, searches, probe)
    }
}
