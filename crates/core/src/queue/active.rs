//! Pods to be tried next, in order. Knows no backoff.
//!
//! Upstream: `pkg/scheduler/backend/queue/active_queue.go`, without its list of pods and events in flight: here no event
//! is handled while a decision runs.

use super::pod::{ActiveOrder, QueuedPod};
use crate::intern::{HoldsIds, Marks, Work, mark_after};
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct ActiveQueue {
    pods: BTreeMap<ActiveOrder, QueuedPod>,
    /// Up to this one they are marked, but for those that were put here since the round began.
    marked: Option<ActiveOrder>,
}

impl ActiveQueue {
    pub(super) fn insert(&mut self, pod: QueuedPod) -> ActiveOrder {
        let order = pod.order();
        self.pods.insert(order, pod);
        order
    }

    pub(super) fn pop(&mut self) -> Option<QueuedPod> {
        self.pods.pop_first().map(|(_, pod)| pod)
    }

    pub(super) fn remove(&mut self, order: &ActiveOrder) -> Option<QueuedPod> {
        self.pods.remove(order)
    }

    pub(super) fn get(&self, order: &ActiveOrder) -> Option<&QueuedPod> {
        self.pods.get(order)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &QueuedPod> {
        self.pods.values()
    }

    pub(super) fn begin_round(&mut self) {
        self.marked = None;
    }

    pub(super) fn mark_some(&mut self, marks: &mut Marks, work: &mut Work) -> bool {
        mark_after(&self.pods, &mut self.marked, work, |_, pod| pod.mark(marks))
    }

    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }
}

impl HoldsIds for ActiveQueue {
    fn mark(&self, marks: &mut Marks) {
        let Self { pods, marked: _ } = self;
        pods.values().for_each(|pod| pod.mark(marks));
    }
}
