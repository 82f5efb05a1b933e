//! Pods no node can take, remembered for as long as nothing changes: the next pod of the same signature is told the same.
//!
//! A workload that does not fit has many pods that do not fit, and each of them looks at every node before it says so.

use super::failure::Unschedulable;
use crate::hash::FixedMap;
use crate::mutation::{self, Mutation};
use crate::pod::PodInfo;
use crate::report::Preemption;
use crate::signature::Signature;
use std::sync::Arc;

/// Signatures kept at most; beyond that all are forgotten, and found out again.
const SIGNATURES_MAX: usize = 4_096;

/// Answers that hold in one state of the cluster.
#[derive(Default)]
pub(super) struct Memory {
    version: u64,
    known: FixedMap<Signature, Unschedulable>,
    hits: u64,
}

impl Memory {
    /// What was found of a pod like this in the state of this version.
    pub(super) fn recall(&mut self, version: u64, pod: &Arc<PodInfo>) -> Option<Unschedulable> {
        if !mutation::is_on(Mutation::MemoryStays) {
            self.renew(version);
        }
        let found = self.known.get(&Signature::of(pod)).cloned();
        self.hits += u64::from(found.is_some());
        found
    }

    /// Remembers what was found, where it is the same for every pod of the signature: a way out by preemption is not.
    pub(super) fn keep(&mut self, version: u64, pod: &Arc<PodInfo>, found: &Unschedulable) {
        self.renew(version);
        if matches!(found.preemption, Preemption::Nominated { .. }) {
            return;
        }
        if self.known.len() == SIGNATURES_MAX {
            self.known.clear();
        }
        self.known.insert(Signature::of(pod), found.clone());
    }

    fn renew(&mut self, version: u64) {
        if self.version != version {
            self.known.clear();
            self.version = version;
        }
    }

    /// Forgets all of it.
    pub(super) fn clear(&mut self) {
        self.known.clear();
    }

    /// How many answers came from here.
    pub(super) fn hits(&self) -> u64 {
        self.hits
    }
}
