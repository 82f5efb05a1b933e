//! Pods put into their places, and walked through there in pieces when ids are looked for. Does not decide which place it is.

use super::pod::QueuedPod;
use super::{SchedulingQueue, Slot};
use crate::intern::{HoldsIds, Marks, Work};
use crate::mutation::{self, Mutation};
use crate::pod::PodInfo;
use crate::time::Time;
use std::sync::Arc;

/// Pods that were put somewhere since a round began and are still to be marked: whoever walks through that place may have passed by.
#[derive(Default)]
pub(super) struct Unmarked {
    put: Vec<Arc<PodInfo>>,
    is_on: bool,
}

impl Unmarked {
    fn put(&mut self, pod: &Arc<PodInfo>) {
        if self.is_on && !mutation::is_on(Mutation::MovedUnmarked) {
            self.put.push(Arc::clone(pod));
        }
    }
}

impl SchedulingQueue {
    pub(super) fn put_active(&mut self, now: Time, mut pod: QueuedPod) {
        pod.initial_attempt.get_or_insert(now);
        self.unmarked.put(&pod.pod);
        let uid = Arc::clone(&pod.pod.uid);
        self.slots.insert(uid, Slot::Active(self.active.insert(pod)));
    }

    pub(super) fn put_backoff(&mut self, expiry: Time, pod: QueuedPod) {
        self.unmarked.put(&pod.pod);
        let uid = Arc::clone(&pod.pod.uid);
        self.slots.insert(uid, Slot::Backoff(self.backoff.insert(expiry, pod)));
    }

    pub(super) fn put_unschedulable(&mut self, pod: QueuedPod) {
        self.unmarked.put(&pod.pod);
        let uid = Arc::clone(&pod.pod.uid);
        self.slots.insert(uid, Slot::Unschedulable(self.unschedulable.insert(pod)));
    }

    pub(super) fn put_gated(&mut self, pod: QueuedPod) {
        self.unmarked.put(&pod.pod);
        let uid = Arc::clone(&pod.pod.uid);
        self.slots.insert(uid, Slot::Gated(self.gated.insert(pod)));
    }

    /// All pods are to be marked.
    pub(crate) fn begin_round(&mut self) {
        self.unmarked = Unmarked { put: Vec::new(), is_on: true };
        self.active.begin_round();
        self.backoff.begin_round();
        self.unschedulable.begin_round();
        self.gated.begin_round();
    }

    /// Marks some of the pods that are to be; whether those are all.
    pub(crate) fn mark_some(&mut self, marks: &mut Marks, work: &mut Work) -> bool {
        let are_marked = self.active.mark_some(marks, work)
            && self.backoff.mark_some(marks, work)
            && self.unschedulable.mark_some(marks, work)
            && self.gated.mark_some(marks, work);
        if !are_marked {
            return false;
        }
        while work.is_left() {
            let Some(pod) = self.unmarked.put.pop() else { return true };
            pod.mark(marks);
            work.spend(1);
        }
        self.unmarked.put.is_empty()
    }

    /// All is marked, but for what is counted.
    pub(crate) fn mark_rest(&mut self, marks: &mut Marks) {
        self.unmarked = Unmarked::default();
        self.counters.mark(marks);
    }
}
