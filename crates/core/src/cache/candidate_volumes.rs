//! The candidate volumes of a claim: unclaimed volumes by storage class, and volumes that name the claim.
//!
//! Most volumes of a cluster belong to other claims, and this index skips them. It holds names only; the plugin
//! checks sizes and modes.

use crate::model::intern::Symbol;
use crate::model::volume::{ClaimInfo, PersistentVolumeInfo};
use std::collections::BTreeSet;

/// All volumes in their assumed state.
#[derive(Default)]
pub(super) struct CandidateVolumes {
    /// Unclaimed volumes as (class, volume).
    free: BTreeSet<(Symbol, Symbol)>,
    /// Claimed volumes as (namespace of the claim, name of the claim, volume).
    kept: BTreeSet<(Symbol, Symbol, Symbol)>,
}

impl CandidateVolumes {
    /// Adds a volume.
    pub(super) fn add(&mut self, volume: &PersistentVolumeInfo) {
        match &volume.claim {
            None => self.free.insert((volume.class, volume.name)),
            Some(claim) => self.kept.insert((claim.namespace, claim.name, volume.name)),
        };
    }

    /// Removes a volume, given as it was added.
    pub(super) fn remove(&mut self, volume: &PersistentVolumeInfo) {
        match &volume.claim {
            None => self.free.remove(&(volume.class, volume.name)),
            Some(claim) => self.kept.remove(&(claim.namespace, claim.name, volume.name)),
        };
    }

    /// Returns the unclaimed volumes of the claim's class and the volumes of any class that name the claim.
    pub(super) fn names(&self, claim: &ClaimInfo) -> impl Iterator<Item = Symbol> + Clone + '_ {
        let ClaimInfo { class, namespace, name, .. } = *claim;
        let free = self.free.range((class, Symbol::FIRST)..).take_while(move |(of, _)| *of == class);
        let kept = self.kept.range((namespace, name, Symbol::FIRST)..);
        let kept = kept.take_while(move |(ns, by, _)| (*ns, *by) == (namespace, name));
        free.map(|&(_, volume)| volume).chain(kept.map(|&(.., volume)| volume))
    }
}
