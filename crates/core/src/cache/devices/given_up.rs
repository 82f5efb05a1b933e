//! Reservations of ResourceClaims that pods gave up, and that the API server still shows.
//!
//! The next attempt of such a pod may come before the watch shows that the reservation ended. It must not rely on it,
//! and must not reserve the claim again while the request that gives it up can still arrive.

use super::Devices;
use crate::model::device::ResourceClaim;
use crate::model::pod::Uid;
use crate::model::time::Time;
use std::sync::Arc;
use std::time::Duration;

/// After this time a request that was sent can no longer arrive.
const ARRIVES_WITHIN: Duration = Duration::from_secs(60);

impl Devices {
    /// Whether a claim is reserved for a pod that has not given up the reservation.
    pub fn is_reserved(&self, claim: &ResourceClaim, pod: &Uid) -> bool {
        claim.reserved_for.contains(pod) && self.given_up_until(&claim.uid, pod).is_none()
    }

    /// Returns until when the request can arrive by which a pod gives up its reservation of a claim; `None` if there is
    /// no such request, or if the API server has shown its effect.
    pub fn given_up_until(&self, claim: &str, pod: &str) -> Option<Time> {
        self.given_up.get(pod)?.get(claim).map(|&sent| sent + ARRIVES_WITHIN)
    }

    /// Returns the pods that have given up such reservations.
    pub fn all_giving_up(&self) -> impl Iterator<Item = &Uid> {
        self.given_up.keys()
    }

    pub(in crate::cache) fn give_up(&mut self, claim: &Uid, pod: &Uid, now: Time) {
        self.given_up.entry(Arc::clone(pod)).or_default().insert(Arc::clone(claim), now);
    }

    pub(in crate::cache) fn forget_given_up(&mut self, pod: &Uid) {
        self.given_up.remove(pod);
    }

    pub(in crate::cache) fn end_given_up(&mut self, claim: &str, pod: &str) {
        if let Some(claims) = self.given_up.get_mut(pod) {
            claims.remove(claim);
            if claims.is_empty() {
                self.given_up.remove(pod);
            }
        }
    }

    /// Forgets which pods gave up the reservation of a claim, unless its next version is still reserved for them.
    pub(super) fn reservations_ended(&mut self, old: &ResourceClaim, new: Option<&ResourceClaim>) {
        let new = new.filter(|new| new.uid == old.uid);
        let is_reserved = |pod: &Uid| new.is_some_and(|new| new.reserved_for.contains(pod));
        for pod in old.reserved_for.iter().filter(|pod| !is_reserved(pod)) {
            self.end_given_up(&old.uid, pod);
        }
    }
}
