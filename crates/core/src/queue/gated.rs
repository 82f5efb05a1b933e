//! Gated pods. Events do not iterate over it: an index finds the pods that wait for a claim.

use super::pod::QueuedPod;
use super::{SchedulingQueue, Slot};
use crate::model::intern::{Marks, Symbol, TraceIds, WorkBudget, mark_after};
use crate::model::pod::PodInfo;
use crate::model::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Pods by sequence number.
#[derive(Default)]
pub(super) struct GatedPods {
    pods: BTreeMap<u64, QueuedPod>,
    /// The pods that name each ResourceClaim, by namespace and name of the claim. Their ids are those of the pods.
    by_claim: BTreeMap<(Symbol, Symbol), BTreeSet<u64>>,
    /// When the claims of pods are looked at next, which gated pods give up.
    due: BTreeSet<(Time, u64)>,
    due_at: BTreeMap<u64, Time>,
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
        if may_hold_claims(&pod) {
            self.set_due(sequence, Time::from_nanos(0));
        }
        self.pods.insert(sequence, pod);
        sequence
    }

    fn set_due(&mut self, sequence: u64, at: Time) {
        if let Some(earlier) = self.due_at.insert(sequence, at) {
            self.due.remove(&(earlier, sequence));
        }
        self.due.insert((at, sequence));
    }

    pub(super) fn remove(&mut self, sequence: u64) -> Option<QueuedPod> {
        let pod = self.pods.remove(&sequence)?;
        if let Some(at) = self.due_at.remove(&sequence) {
            self.due.remove(&(at, sequence));
        }
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

    /// Has the claims of a gated pod looked at from this time on.
    pub(crate) fn look_at_claims(&mut self, uid: &str, at: Time) {
        if let Some(Slot::Gated(sequence)) = self.slots.get(uid) {
            self.gated.set_due(*sequence, at);
        }
    }

    /// Has the claims of all gated pods looked at.
    pub(crate) fn look_at_all_claims(&mut self) {
        let pods = self.gated.pods.iter().filter(|(_, pod)| may_hold_claims(pod));
        let sequences: Vec<u64> = pods.map(|(sequence, _)| *sequence).collect();
        sequences.iter().for_each(|&sequence| self.gated.set_due(sequence, Time::from_nanos(0)));
    }

    /// Returns when claims of gated pods are to be looked at.
    pub(crate) fn next_look_at_claims(&self) -> Option<Time> {
        self.gated.due.first().map(|&(at, _)| at)
    }

    /// Takes the next pod whose claims are to be looked at.
    pub(crate) fn take_due_for_claims(&mut self, now: Time) -> Option<Arc<PodInfo>> {
        let &(at, sequence) = self.gated.due.first().filter(|(at, _)| *at <= now)?;
        self.gated.due.remove(&(at, sequence));
        self.gated.due_at.remove(&sequence);
        self.gated.get(sequence).map(|queued| Arc::clone(&queued.pod))
    }

    /// Returns the gated pods.
    pub fn gated(&self) -> impl Iterator<Item = &QueuedPod> {
        self.gated.iter()
    }
}

/// Whether claims may be reserved for the pod, or made for its extended resources.
fn may_hold_claims(pod: &QueuedPod) -> bool {
    !pod.pod.claims.is_empty() || !pod.pod.resources.request.scalar.is_empty()
}

/// Returns namespace and name of the ResourceClaims that a pod names.
fn claims_of(pod: &QueuedPod) -> impl Iterator<Item = (Symbol, Symbol)> {
    let names = pod.pod.claims.iter().filter_map(|claim| claim.name());
    names.map(|name| (pod.pod.namespace, name))
}

impl TraceIds for GatedPods {
    fn mark(&self, marks: &mut Marks) {
        let Self { pods, by_claim: _, due: _, due_at: _, marked: _ } = self;
        pods.values().for_each(|pod| pod.mark(marks));
    }
}
