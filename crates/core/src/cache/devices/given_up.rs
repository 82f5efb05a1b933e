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

/// A request by which a pod gives up a reservation.
#[derive(Clone, Debug)]
pub(super) struct GivenUp {
    sent: Time,
    /// The version of the claim on which alone it takes effect; `None` for any.
    version: Option<u64>,
}

/// After this time a request that was sent can no longer arrive.
const ARRIVES_WITHIN: Duration = Duration::from_secs(60);

impl GivenUp {
    /// Whether the API server refuses the request, since the claim has a later version.
    fn is_late_for(&self, shown: &ResourceClaim) -> bool {
        self.version
            .is_some_and(|version| shown.resource_version.parse().is_ok_and(|shown: u64| shown > version))
    }
}

impl Devices {
    /// Whether a claim is reserved for a pod that has not given up the reservation.
    pub fn is_reserved(&self, claim: &ResourceClaim, pod: &Uid) -> bool {
        claim.reserved_for.contains(pod) && self.given_up_until(&claim.uid, pod).is_none()
    }

    /// Returns until when the request can arrive by which a pod gives up its reservation of a claim; `None` if there is
    /// no such request, or if the API server has shown its effect.
    pub fn given_up_until(&self, claim: &str, pod: &str) -> Option<Time> {
        self.given_up.get(pod)?.get(claim).map(|it| it.sent + ARRIVES_WITHIN)
    }

    /// Returns the pods that have given up such reservations.
    pub fn all_giving_up(&self) -> impl Iterator<Item = &Uid> {
        self.given_up.keys()
    }

    pub(in crate::cache) fn give_up(&mut self, claim: &Uid, pod: &Uid, version: Option<u64>, now: Time) {
        let request = GivenUp { sent: now, version };
        self.given_up.entry(Arc::clone(pod)).or_default().insert(Arc::clone(claim), request);
    }

    /// Counts the time of such a request from now on.
    pub(in crate::cache) fn give_up_sent(&mut self, claim: &str, pod: &str, now: Time) {
        if let Some(request) = self.given_up.get_mut(pod).and_then(|claims| claims.get_mut(claim)) {
            request.sent = now;
        }
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

    /// Forgets which pods gave up the reservation of a claim, unless its next version is still reserved for them and
    /// the request can take effect on it.
    pub(super) fn reservations_ended(&mut self, old: &ResourceClaim, new: Option<&ResourceClaim>) {
        let new = new.filter(|new| new.uid == old.uid);
        let waits = |pod: &Uid| {
            let request = self.given_up.get(pod).and_then(|claims| claims.get(&old.uid));
            new.is_some_and(|new| {
                new.reserved_for.contains(pod) && !request.is_some_and(|it| it.is_late_for(new))
            })
        };
        let ended: Vec<Uid> = old.reserved_for.iter().filter(|pod| !waits(pod)).cloned().collect();
        for pod in &ended {
            self.end_given_up(&old.uid, pod);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::claim;
    use super::*;

    /// A list shows the same version again. A request that names a version has no effect on a later one.
    #[test]
    fn reservation_that_was_given_up_does_not_count_while_the_request_can_take_effect() {
        let pod = Uid::from("p");
        let shown = |version: &str| ResourceClaim {
            resource_version: version.into(),
            reserved_for: [Arc::clone(&pod)].into(),
            ..claim("c", None)
        };
        for (version, next, counts) in [(Some(7), "7", false), (Some(7), "8", true), (None, "8", false)] {
            let (mut devices, next) = (Devices::default(), Arc::new(shown(next)));
            devices.set_claim(&Arc::new(shown("7")));
            devices.give_up(&Uid::from("c"), &pod, version, Time::default());
            devices.set_claim(&next);
            assert_eq!(
                devices.is_reserved(&next, &pod),
                counts,
                "{version:?}, then {}",
                next.resource_version
            );
        }
    }
}
