//! Gated pods. Events do not iterate over it.

use super::pod::QueuedPod;
use crate::model::intern::{Marks, TraceIds, WorkBudget, mark_after};
use std::collections::BTreeMap;

/// Pods by sequence number.
#[derive(Default)]
pub(super) struct GatedPods {
    pods: BTreeMap<u64, QueuedPod>,
    /// The last pod that the current garbage collection marked. Pods inserted since its start are marked separately.
    marked: Option<u64>,
}

impl GatedPods {
    pub(super) fn insert(&mut self, pod: QueuedPod) -> u64 {
        let sequence = pod.sequence;
        self.pods.insert(sequence, pod);
        sequence
    }

    pub(super) fn remove(&mut self, sequence: u64) -> Option<QueuedPod> {
        self.pods.remove(&sequence)
    }

    pub(super) fn get(&self, sequence: u64) -> Option<&QueuedPod> {
        self.pods.get(&sequence)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &QueuedPod> {
        self.pods.values()
    }

    pub(super) fn begin_collection(&mut self) {
        self.marked = None;
    }

    pub(super) fn mark_some(&mut self, marks: &mut Marks, work: &mut WorkBudget) -> bool {
        mark_after(&self.pods, &mut self.marked, work, |_, pod| pod.mark(marks))
    }

    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }
}

impl TraceIds for GatedPods {
    fn mark(&self, marks: &mut Marks) {
        let Self { pods, marked: _ } = self;
        pods.values().for_each(|pod| pod.mark(marks));
    }
}
