//! Claims that pods do not use, or not any more: given up, freed, or deleted. Also devices that failed, which they
//! avoid.
//!
//! Upstream: `dynamicresources/dynamicresources.go#Unreserve` and `#PostFilter`.

use super::UNAWAITED;
use crate::cache::PodState;
use crate::framework::post_filter::Deallocated;
use crate::model::device::{PodClaim, ResourceClaim, planned_uid};
use crate::model::effect::{ClaimName, VolumeChange, VolumeWrite};
use crate::model::pod::{PodInfo, Uid};
use crate::model::time::Time;
use crate::plugins::dynamic_resources;
use crate::scheduler::Scheduler;
use std::sync::Arc;

impl Scheduler {
    /// Removes a pod without a node from the claims that are reserved for it, and deletes those that were made for it
    /// (upstream `Unreserve`). Other claims keep their devices, so the next attempt follows them.
    ///
    /// Upstream writes once, when PreBind or the Binding fails. Here, each failed attempt repeats a write that was
    /// lost: pods that share a claim would otherwise keep each other from freeing it. Returns whether a claim was not
    /// given up because an earlier request may still do it.
    pub(in crate::scheduler) fn give_up_claims(&mut self, pod: &PodInfo) -> bool {
        let devices = self.cache.volumes().devices();
        let names = pod.claims.iter().filter_map(PodClaim::name);
        let reserved = names.filter_map(|name| devices.claim(pod.namespace, name));
        let now = self.snapshot().now();
        let reserved = reserved.filter(|claim| claim.reserved_for.contains(&pod.uid));
        let sent_until =
            |claim: &ResourceClaim| devices.given_up_until(&claim.uid, &pod.uid).filter(|until| *until > now);
        let (sent, reserved): (Vec<_>, Vec<_>) = reserved.partition(|claim| sent_until(claim).is_some());
        let again = sent.iter().filter_map(|claim| sent_until(claim)).min();
        let reserved: Vec<_> = reserved.into_iter().cloned().collect();
        let made: Vec<_> =
            devices.made_for(&pod.name, &pod.uid).filter(|claim| !claim.deleting).cloned().collect();
        if let Some(again) = again {
            self.queue.look_at_claims(&pod.uid, again);
        }
        for claim in reserved {
            self.write_claim(pod, &claim, |claim| VolumeChange::Unreserve { claim });
        }
        for claim in made {
            self.write_claim(pod, &claim, |claim| VolumeChange::Delete { claim });
        }
        again.is_some()
    }

    /// Forgets which claims a pod whose PreBind ends gave up, if it is bound.
    pub(super) fn forget_given_up_if_bound(&mut self, uid: &Uid) {
        if matches!(self.cache.placed(uid), Some((_, _, PodState::Added))) {
            self.cache.forget_given_up(uid);
        }
    }

    /// Deletes the claims that were made for a pod and that it cannot use: those of lost writes beside the one with
    /// which it is bound, and those with devices of other nodes, if another scheduler bound it. Upstream leaves them.
    pub(in crate::scheduler) fn delete_surplus_claims(&mut self, uid: &Uid) {
        let devices = self.cache.volumes().devices();
        let Some((pod, node, state)) = self.cache.placed(uid) else { return };
        let pod = Arc::clone(pod);
        let used = devices.settled(uid).map(|claim| &claim.uid);
        let is_surplus = |claim: &&Arc<ResourceClaim>| {
            let nodes = claim.nodes.as_ref().filter(|_| state == PodState::Added);
            let is_elsewhere = nodes.is_some_and(|nodes| nodes.excludes_by_name(node));
            !claim.deleting && (is_elsewhere || used.is_some_and(|used| *used != claim.uid))
        };
        let surplus: Vec<_> = devices.made_for(&pod.name, uid).filter(is_surplus).cloned().collect();
        for claim in surplus {
            self.write_claim(&pod, &claim, |claim| VolumeChange::Delete { claim });
        }
    }

    /// Handles a new version of a claim. If it is reserved for a pending pod or was made for it, by a write whose
    /// answer was lost, the pod is tried again: it gets a node, or gives up the claim.
    pub(in crate::scheduler) fn claim_shown(
        &mut self,
        now: Time,
        old: Option<&ResourceClaim>,
        claim: &ResourceClaim,
    ) {
        let was_reserved = |uid: &Uid| old.is_some_and(|old| old.reserved_for.contains(uid));
        for uid in claim.reserved_for.iter().filter(|uid| !was_reserved(uid)) {
            self.use_or_give_up_claims(now, uid, now);
        }
        let Some((_, pod)) = claim.controller.as_ref().filter(|_| claim.is_for_extended_resources) else {
            return;
        };
        if old.is_none_or(|old| old.allocation.is_none()) {
            self.delete_surplus_claims(pod);
        }
        if old.is_none() {
            self.use_or_give_up_claims(now, pod, now);
        }
    }

    /// Tries a pod again that has claims. A gated pod gives them up at this time instead, and one that waits for
    /// victims is tried once they are gone.
    pub(super) fn use_or_give_up_claims(&mut self, now: Time, uid: &Uid, gives_up_at: Time) {
        if self.queue.blocked_by(uid).is_none() {
            self.queue.look_at_claims(uid, gives_up_at);
            self.queue.requeue_after_backoff(now, uid);
        }
    }

    /// Handles a write that was not sent: no event about the claim would bring its pod back.
    pub(in crate::scheduler) fn claim_write_dropped(&mut self, now: Time, claim: &Uid, pod: &Uid) {
        self.cache.reservation_written(claim, pod);
        self.use_or_give_up_claims(now, pod, now);
    }

    /// Lets gated pods give up their claims: no attempt uses them. Returns whether any pod was looked at.
    pub(in crate::scheduler) fn give_up_claims_of_gated(&mut self, now: Time) -> bool {
        let Some(pod) = self.queue.take_due_for_claims(now) else { return false };
        if self.queue.blocked_by(&pod.uid).is_none() {
            self.cache.unsettle_claim(&pod.uid);
            self.give_up_claims(&pod);
        }
        true
    }

    /// Remembers the devices of a claim whose binding conditions failed, so that it gets others. Upstream may choose
    /// the same ones again and again.
    fn avoid_failed_devices(&mut self, pod: &PodInfo, claim: &ResourceClaim) {
        let timeout = self.profile_of(pod).map(|profile| profile.framework.timeouts.devices);
        let failed =
            dynamic_resources::failed_devices(claim, timeout.unwrap_or_default(), self.snapshot().now());
        let uid =
            if claim.is_for_extended_resources { planned_uid(&pod.uid) } else { Arc::clone(&claim.uid) };
        if !self.tables.copies_defects() && !failed.is_empty() {
            self.cache.avoid_devices(&uid, Some(failed));
        }
    }

    /// Lets the claims of a pod have any device again. Returns whether they avoided some, so that the pod may fit now.
    /// So may other members of its group, which the pod takes along.
    pub(in crate::scheduler) fn forget_failed_devices(&mut self, pod: &PodInfo) -> bool {
        let devices = self.cache.volumes().devices();
        let names = pod.claims.iter().filter_map(PodClaim::name);
        let claims = names.filter_map(|name| devices.claim(pod.namespace, name));
        let mut uids: Vec<Uid> = claims.map(|claim| Arc::clone(&claim.uid)).collect();
        uids.push(planned_uid(&pod.uid));
        let mut avoided_any = false;
        for uid in &uids {
            avoided_any |= self.cache.avoid_devices(uid, None);
        }
        avoided_any
    }

    /// Frees or deletes a claim that no node can use, as PostFilter chose.
    pub(in crate::scheduler) fn deallocate(&mut self, pod: &PodInfo, deallocated: &Deallocated) {
        let Some(claim) = deallocated.candidates.get(deallocated.chosen) else { return };
        self.avoid_failed_devices(pod, claim);
        self.write_claim(pod, claim, |claim| {
            if deallocated.deletes {
                VolumeChange::Delete { claim }
            } else {
                VolumeChange::Deallocate { claim }
            }
        });
    }

    fn write_claim(
        &mut self,
        pod: &PodInfo,
        claim: &ResourceClaim,
        change: impl FnOnce(ClaimName) -> VolumeChange,
    ) {
        let change = change(ClaimName {
            namespace: self.tables.text(claim.namespace).to_owned(),
            name: self.tables.text(claim.name).to_owned(),
            uid: Arc::clone(&claim.uid),
            version: claim.resource_version.to_string(),
        });
        if claim.reserved_for.contains(&pod.uid) {
            let now = self.snapshot().now();
            let names_version = matches!(change, VolumeChange::Deallocate { .. });
            let version = claim.resource_version.parse().ok().filter(|_| names_version);
            self.cache.give_up_reservation(&claim.uid, &pod.uid, version, now);
        }
        let write = VolumeWrite { write: UNAWAITED, pod: self.pod_ref(pod), change };
        self.outbox.push_claim(Arc::clone(&claim.uid), write);
    }
}
