//! Reservations of ResourceClaims that pods gave up, and that the API server still shows.
//!
//! The next attempt of such a pod may come before the watch shows that the reservation ended. It must not rely on it.

use super::Devices;
use crate::model::device::ResourceClaim;
use crate::model::pod::Uid;
use crate::model::volume::StorageKey;
use std::sync::Arc;

impl Devices {
    /// Whether a claim is reserved for a pod that has not given up the reservation.
    pub fn is_reserved(&self, claim: &ResourceClaim, pod: &Uid) -> bool {
        let key = StorageKey::of_resource_claim(claim.namespace, claim.name);
        claim.reserved_for.contains(pod) && !self.has_given_up(pod, key)
    }

    /// Whether a pod has given up its reservation of a claim, and the API server still shows it.
    pub fn has_given_up(&self, pod: &str, claim: StorageKey) -> bool {
        let key = claim.namespace.map(|namespace| (namespace, claim.name));
        self.given_up.get(pod).is_some_and(|claims| key.is_some_and(|key| claims.contains(&key)))
    }

    /// Returns the pods that have given up such reservations.
    pub fn all_giving_up(&self) -> impl Iterator<Item = &Uid> {
        self.given_up.keys()
    }

    pub(in crate::cache) fn give_up(&mut self, pod: &Uid, claim: &ResourceClaim) {
        if claim.reserved_for.contains(pod) {
            self.given_up.entry(Arc::clone(pod)).or_default().insert((claim.namespace, claim.name));
        }
    }

    pub(in crate::cache) fn forget_given_up(&mut self, pod: &Uid) {
        self.given_up.remove(pod);
    }

    /// Forgets which pods gave up the reservation of a claim, unless its next version is still reserved for them.
    pub(super) fn reservations_ended(&mut self, old: &ResourceClaim, new: Option<&ResourceClaim>) {
        let new = new.filter(|new| new.uid == old.uid);
        let is_reserved = |pod: &Uid| new.is_some_and(|new| new.reserved_for.contains(pod));
        for pod in old.reserved_for.iter().filter(|pod| !is_reserved(pod)) {
            if let Some(claims) = self.given_up.get_mut(pod) {
                claims.remove(&(old.namespace, old.name));
                if claims.is_empty() {
                    self.given_up.remove(pod);
                }
            }
        }
    }
}
