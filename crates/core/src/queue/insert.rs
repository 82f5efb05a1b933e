//! Insertion into the places of the queue, and marking of the ids held there, in slices, during garbage collection.

use super::pod::QueuedPod;
use super::{SchedulingQueue, Slot, label};
use crate::framework::PluginName;
use crate::model::intern::{Marks, TraceIds, WorkBudget};
use crate::model::pod::PodInfo;
use crate::model::time::Time;
use crate::switches::mutation::{self, Mutation};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Pods inserted since the start of the current garbage collection. Marking may already have passed their place.
#[derive(Default)]
pub(super) struct WriteBarrier {
    inserted: Vec<Arc<PodInfo>>,
    is_on: bool,
}

impl WriteBarrier {
    fn record(&mut self, pod: &Arc<PodInfo>) {
        if self.is_on && !mutation::is_on(Mutation::MovedObjectsNotMarked) {
            self.inserted.push(Arc::clone(pod));
        }
    }
}

/// How many decisions on a pod are reverted, before it serves its backoff.
const REVERTS_MAX: u32 = 3;

impl SchedulingQueue {
    pub(super) fn insert_active(&mut self, now: Time, mut pod: QueuedPod) {
        pod.group_priority = self.group_priority(&pod.pod);
        pod.initial_attempt.get_or_insert(now);
        self.barrier.record(&pod.pod);
        let uid = Arc::clone(&pod.pod.uid);
        self.slots.insert(uid, Slot::Active(self.active.insert(pod)));
    }

    pub(super) fn insert_backoff(&mut self, expiry: Time, mut pod: QueuedPod) {
        pod.group_priority = self.group_priority(&pod.pod);
        self.barrier.record(&pod.pod);
        let uid = Arc::clone(&pod.pod.uid);
        self.slots.insert(uid, Slot::Backoff(self.backoff.insert(expiry, pod)));
    }

    pub(super) fn insert_unschedulable(&mut self, pod: QueuedPod) {
        self.barrier.record(&pod.pod);
        let uid = Arc::clone(&pod.pod.uid);
        self.slots.insert(uid, Slot::Unschedulable(self.unschedulable.insert(pod)));
    }

    pub(super) fn insert_gated(&mut self, pod: QueuedPod) {
        self.barrier.record(&pod.pod);
        let uid = Arc::clone(&pod.pod.uid);
        self.slots.insert(uid, Slot::Gated(self.gated.insert(pod)));
    }

    /// Puts back a pod whose decision was reverted. It becomes active at its old rank, as in [`Self::activate`]. After
    /// [`REVERTS_MAX`] such decisions it serves its backoff: pods of a lower rank would never be tried.
    pub(crate) fn return_reverted(&mut self, now: Time, mut pod: QueuedPod, gate: Option<PluginName>) {
        pod.reverts = pod.reverts.saturating_add(1);
        if gate.is_none() && pod.reverts > REVERTS_MAX {
            self.return_error(now, pod);
        } else {
            self.activate(now, pod, gate);
        }
    }

    /// Records the rejection of a pod that comes back. Returns the pod, unless it is gated or was added again.
    pub(super) fn come_back_rejected(
        &mut self,
        now: Time,
        mut pod: QueuedPod,
        rejectors: BTreeSet<PluginName>,
        gate: Option<PluginName>,
    ) -> Option<QueuedPod> {
        if self.contains(&pod.pod.uid) {
            return None;
        }
        pod.unschedulable_count = pod.unschedulable_count.saturating_add(1);
        pod.consecutive_errors = 0;
        pod.rejectors = rejectors;
        pod.rejectors.extend(gate);
        pod.gate = gate;
        self.come_back(now, &mut pod);
        if gate.is_none() {
            return Some(pod);
        }
        self.hold(pod, label::FAILURE);
        None
    }

    /// Starts marking for a new garbage collection.
    pub(crate) fn begin_collection(&mut self) {
        self.barrier = WriteBarrier { inserted: Vec::new(), is_on: true };
        self.active.begin_collection();
        self.backoff.begin_collection();
        self.unschedulable.begin_collection();
        self.gated.begin_collection();
    }

    /// Marks the ids of some pods, and returns whether all pods are marked.
    pub(crate) fn mark_some(&mut self, marks: &mut Marks, work: &mut WorkBudget) -> bool {
        let are_marked = self.active.mark_some(marks, work)
            && self.backoff.mark_some(marks, work)
            && self.unschedulable.mark_some(marks, work)
            && self.gated.mark_some(marks, work);
        if !are_marked {
            return false;
        }
        while work.is_left() {
            let Some(pod) = self.barrier.inserted.pop() else { return true };
            pod.mark(marks);
            work.spend(1);
        }
        self.barrier.inserted.is_empty()
    }

    /// Ends marking of pods, and marks the ids that the counters hold.
    pub(crate) fn mark_rest(&mut self, marks: &mut Marks) {
        self.barrier = WriteBarrier::default();
        self.counters.mark(marks);
        self.group_priorities.keys().for_each(|key| key.mark(marks));
    }
}
