//! Gated pods. Events do not iterate over it: an index finds the pods that wait for a claim.

use super::SchedulingQueue;
use super::pod::QueuedPod;
use crate::model::intern::{Marks, Symbol, TraceIds, WorkBudget, mark_after};
use std::collections::{BTreeMap, BTreeSet};

/// Pods by sequence number.
#[derive(Default)]
pub(super) struct GatedPods {
    pods: BTreeMap<u64, QueuedPod>,
    /// The pods that name each ResourceClaim, by namespace and name of the claim. Their ids are those of the pods.
    by_claim: BTreeMap<(Symbol, Symbol), BTreeSet<u64>>,
    /// The last pod that the current garbage collection marked. Pods inserted since its start are marked separately.
    marked: Option<u64>,
}

impl GatedPods {
    pub(super) fn insert(&mut self, pod: QueuedPod) -> u64 {
        let sequence = pod.sequence;
        self.remove(sequence);
        for claim in claims_of(&pod) {
            self.by_claim.entry(claim).or_default().insert(sequence);
        }
        self.pods.insert(sequence, pod);
        sequence
    }

    pub(super) fn remove(&mut self, sequence: u64) -> Option<QueuedPod> {
        let pod = self.pods.remove(&sequence)?;
        for claim in claims_of(&pod) {
            if let Some(pods) = self.by_claim.get_mut(&claim) {
                pods.remove(&sequence);
                if pods.is_empty() {
                    self.by_claim.remove(&claim);
                }
            }
        }
        Some(pod)
    }

    /// Returns the pods that name a ResourceClaim, in order of their sequence numbers.
    pub(super) fn naming(&self, namespace: Symbol, claim: Symbol) -> impl Iterator<Item = &QueuedPod> {
        let sequences = self.by_claim.get(&(namespace, claim)).into_iter().flatten();
        sequences.filter_map(|sequence| self.pods.get(sequence))
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

impl SchedulingQueue {
    /// Returns the gated pods that name a ResourceClaim, in order of their sequence numbers.
    pub fn gated_by_claim(&self, namespace: Symbol, claim: Symbol) -> impl Iterator<Item = &QueuedPod> {
        self.gated.naming(namespace, claim)
    }

    /// Returns the gated pods.
    pub fn gated(&self) -> impl Iterator<Item = &QueuedPod> {
        self.gated.iter()
    }
}

/// Returns namespace and name of the ResourceClaims that a pod names.
fn claims_of(pod: &QueuedPod) -> impl Iterator<Item = (Symbol, Symbol)> {
    let names = pod.pod.claims.iter().filter_map(|claim| claim.name());
    names.map(|name| (pod.pod.namespace, name))
}

impl TraceIds for GatedPods {
    fn mark(&self, marks: &mut Marks) {
        let Self { pods, by_claim: _, marked: _ } = self;
        pods.values().for_each(|pod| pod.mark(marks));
    }
}
