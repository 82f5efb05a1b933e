//! Which volumes come into question for a claim: those that are nobody's, by class, and those that are kept for it. Most volumes of a cluster are
//! somebody else's, and need not be looked at.
//!
//! Holds names alone; what size and kind a volume is of, the plugin asks.

use crate::intern::Symbol;
use crate::volume::{ClaimInfo, PersistentVolumeInfo};
use std::collections::BTreeSet;

/// All volumes, as they are or are assumed to be.
#[derive(Default)]
pub(super) struct Offers {
    /// By class.
    free: BTreeSet<(Symbol, Symbol)>,
    /// By namespace and name of the claim they name.
    kept: BTreeSet<(Symbol, Symbol, Symbol)>,
}

impl Offers {
    /// The volume is there, as this.
    pub(super) fn add(&mut self, volume: &PersistentVolumeInfo) {
        match &volume.claim {
            None => self.free.insert((volume.class, volume.name)),
            Some(claim) => self.kept.insert((claim.namespace, claim.name, volume.name)),
        };
    }

    /// The volume, which was this, is so no more.
    pub(super) fn remove(&mut self, volume: &PersistentVolumeInfo) {
        match &volume.claim {
            None => self.free.remove(&(volume.class, volume.name)),
            Some(claim) => self.kept.remove(&(claim.namespace, claim.name, volume.name)),
        };
    }

    /// The volumes that are free in the claim's class, and those that name it, of whatever class.
    pub(super) fn names(&self, claim: &ClaimInfo) -> impl Iterator<Item = Symbol> + Clone + '_ {
        let ClaimInfo { class, namespace, name, .. } = *claim;
        let free = self.free.range((class, Symbol::FIRST)..).take_while(move |(of, _)| *of == class);
        let kept = self.kept.range((namespace, name, Symbol::FIRST)..);
        let kept = kept.take_while(move |(ns, by, _)| (*ns, *by) == (namespace, name));
        free.map(|&(_, volume)| volume).chain(kept.map(|&(.., volume)| volume))
    }
}
