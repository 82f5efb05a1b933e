//! Pods no node can take, remembered for as long as nothing changes: the next pod of the same signature is told the same.
//!
//! A workload that does not fit has many pods that do not fit, and each of them looks at every node before it says so.

use super::failure::Unschedulable;
use crate::hash::{Hashed, IdMap, Keyed};
use crate::mutation::{self, Mutation};
use crate::pod::PodInfo;
use crate::report::Preemption;
use crate::signature::Signature;
use std::collections::VecDeque;
use std::sync::Arc;

/// Signatures kept at most; beyond that those that came first go.
const SIGNATURES_MAX: usize = 4_096;
/// How many that are no use any more go at a time.
const TURNS: usize = 2;

/// What an answer holds for: the version of the cluster, and how often ids were given back, so that each still means what it did.
pub(super) type State = (u64, u64);

/// Answers that hold in one state of the cluster each.
#[derive(Default)]
pub(super) struct Memory {
    hashing: Keyed,
    known: IdMap<Hashed<Signature>, (State, Unschedulable)>,
    /// Whose turn it is to go.
    order: VecDeque<Hashed<Signature>>,
    hits: u64,
}

impl Memory {
    /// Nothing is remembered; hashes are made so.
    pub(super) fn hashed_by(hashing: &Keyed) -> Self {
        Self { hashing: hashing.clone(), ..Self::default() }
    }

    /// What was found of a pod like this in this state.
    pub(super) fn recall(&mut self, state: State, pod: &Arc<PodInfo>) -> Option<Unschedulable> {
        self.forget_some(state);
        let known = self.known.get(&Hashed::of(Signature::of(pod), &self.hashing));
        let holds = |of: State| of == state || mutation::is_on(Mutation::MemoryStays);
        let found = known.filter(|(of, _)| holds(*of)).map(|(_, found)| found.clone());
        self.hits += u64::from(found.is_some());
        found
    }

    /// Remembers what was found, where it is the same for every pod of the signature: a way out by preemption is not.
    pub(super) fn keep(&mut self, state: State, pod: &Arc<PodInfo>, found: &Unschedulable) {
        if matches!(found.preemption, Preemption::Nominated { .. }) {
            return;
        }
        let signature = Hashed::of(Signature::of(pod), &self.hashing);
        if self.known.insert(signature.clone(), (state, found.clone())).is_none() {
            self.order.push_back(signature);
        }
        self.forget_some(state);
    }

    /// Lets some go that are too many, or hold no more; what is left of those does no harm.
    fn forget_some(&mut self, state: State) {
        for _ in 0..TURNS {
            let Some(first) = self.order.front() else { return };
            let is_stale = self.known.get(first).is_none_or(|(of, _)| *of != state);
            if self.known.len() <= SIGNATURES_MAX && (!is_stale || mutation::is_on(Mutation::MemoryStays)) {
                return;
            }
            self.order.pop_front().map(|first| self.known.remove(&first));
        }
    }

    /// Forgets what was found of a pod like this.
    pub(super) fn evict(&mut self, pod: &Arc<PodInfo>) {
        self.known.remove(&Hashed::of(Signature::of(pod), &self.hashing));
    }

    /// Forgets all of it.
    pub(super) fn clear(&mut self) {
        (self.known, self.order) = Default::default();
    }

    /// How many answers came from here.
    pub(super) fn hits(&self) -> u64 {
        self.hits
    }
}
