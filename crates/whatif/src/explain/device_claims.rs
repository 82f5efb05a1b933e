//! ResourceClaims of hypothetical pods: claims of their own, claims that they give up, and allocations that later pods
//! see.
//!
//! Upstream: `pkg/controller/resourceclaim`.

use std::collections::BTreeSet;
use std::sync::Arc;
use supercargo_core::model::device::{PodClaim, PodClaimSource, ResourceClaim};
use supercargo_core::model::event::{Event, ObjectKey};
use supercargo_core::model::intern::Symbol;
use supercargo_core::model::pod::{PodInfo, Uid};
use supercargo_core::model::volume::{Reservation, StorageObject};
use supercargo_core::scheduler::Trial;
use supercargo_objects::convert::devices::nodes_of;

/// The maximum number of pods that can use one claim at a time (`ResourceClaimReservedForMaxSize`).
pub const CONSUMERS_MAX: usize = 256;

/// Replaces the claims that templates generated for `like` by claims for `copy`, a hypothetical pod. Creates them in
/// the trial.
pub(super) fn with_own_device_claims(trial: &mut Trial, like: &PodInfo, mut copy: PodInfo) -> PodInfo {
    let mut entries: Vec<PodClaim> = copy.claims.to_vec();
    for entry in &mut entries {
        let PodClaimSource::Generated(old) = entry.source else { continue };
        let Some(pattern) = trial.snapshot().devices().claim(like.namespace, old).cloned() else { continue };
        let name = format!("{}-{}", copy.name, entry.name);
        let uid = format!("{}/{name}", copy.uid);
        let name = trial.tables_mut().symbol(&name);
        entry.source = PodClaimSource::Generated(name);
        let claim = ResourceClaim {
            name,
            uid: uid.into(),
            controller: Some(((&*copy.name).into(), Arc::clone(&copy.uid))),
            ..without_devices(&pattern)
        };
        trial.set_storage(StorageObject::ResourceClaim(Arc::new(claim)));
    }
    copy.claims = entries.into();
    copy
}

/// Removes a pod that leaves from its claims. A claim without other users gives up its devices. So does a claim for the
/// pod's extended resources, which then no longer belongs to the pod.
pub fn release(trial: &mut Trial, pod: &PodInfo) {
    let devices = trial.snapshot().devices();
    let named = pod.claims.iter().filter_map(PodClaim::name);
    let own = named.filter_map(|name| devices.claim(pod.namespace, name)).cloned();
    let made: Vec<Arc<ResourceClaim>> = devices.made_for(&pod.name, &pod.uid).cloned().collect();
    let mut changed: Vec<ResourceClaim> = own.map(|claim| without_consumer(&claim, pod)).collect();
    changed.extend(made.iter().map(|claim| ResourceClaim {
        controller: None,
        is_for_extended_resources: false,
        ..without_devices(claim)
    }));
    for claim in changed {
        trial.set_storage(StorageObject::ResourceClaim(Arc::new(claim)));
    }
}

/// Removes pods from the cluster, and frees their devices. Of pods without a node only those of reserved claims are
/// freed, and of none in `to_come`: such a pod stays, and only its fields change.
pub fn remove<'p>(trial: &mut Trial, pods: impl IntoIterator<Item = &'p PodInfo>, to_come: &BTreeSet<Uid>) {
    for pod in pods {
        trial.handle(Event::Gone(ObjectKey::Pod(Arc::clone(&pod.uid))));
        let is_freed = match pod.node_name {
            Some(_) => true,
            None => !to_come.contains(&pod.uid) && has_reserved(trial, pod),
        };
        if is_freed {
            release(trial, pod);
        }
    }
}

/// Returns whether a claim is reserved for the pod.
fn has_reserved(trial: &Trial, pod: &PodInfo) -> bool {
    let devices = trial.snapshot().devices();
    let claims = pod.claims.iter().filter_map(PodClaim::name);
    let mut claims = claims.filter_map(|name| devices.claim(pod.namespace, name));
    claims.any(|claim| claim.reserved_for.contains(&pod.uid))
}

fn without_consumer(claim: &ResourceClaim, pod: &PodInfo) -> ResourceClaim {
    let is_other = |uid: &&Uid| **uid != pod.uid;
    let others: Box<[_]> = claim.reserved_for.iter().filter(is_other).cloned().collect();
    if others.is_empty() {
        return without_devices(claim);
    }
    ResourceClaim { reserved_for: others, ..claim.clone() }
}

/// Returns the claim as it was before its allocation.
pub(super) fn without_devices(claim: &ResourceClaim) -> ResourceClaim {
    ResourceClaim {
        resource_version: "".into(),
        deleting: false,
        is_protected: false,
        allocation: None,
        nodes: None,
        reserved_for: [].into(),
        devices: [].into(),
        ..claim.clone()
    }
}

/// Shows later pods the allocations of a placed pod as the API server would, so that they can share its claims.
pub fn publish(trial: &mut Trial, pod: &PodInfo) {
    let mut written = Vec::new();
    for reservation in trial.reservations_of(&pod.uid) {
        match reservation {
            Reservation::Allocate { claim, allocation } => written.push((claim, Some(allocation))),
            Reservation::Share { claim } => written.push((claim, None)),
            Reservation::Bind { .. } | Reservation::Provision { .. } | Reservation::Create { .. } => {}
        }
    }
    let written: Vec<_> = written.into_iter().map(|(claim, new)| (Arc::clone(claim), new.cloned())).collect();
    for (claim, new) in written {
        let current = trial.snapshot().devices().claim(claim.namespace, claim.name).cloned();
        let mut claim = ResourceClaim::clone(&current.unwrap_or(claim));
        if let Some(allocation) = new {
            claim.nodes = nodes_of(trial.tables_mut(), &allocation);
            claim.allocation = Some(allocation);
        }
        if !claim.reserved_for.contains(&pod.uid) {
            claim.reserved_for = claim.reserved_for.iter().chain([&pod.uid]).cloned().collect();
        }
        trial.set_storage(StorageObject::ResourceClaim(Arc::new(claim)));
    }
}

/// Returns a claim of the pod that no further pod can use, because the maximum number of pods use it.
pub fn crowded(trial: &Trial, pod: &PodInfo) -> Option<Symbol> {
    let devices = trial.snapshot().devices();
    let is_crowded = |name: &Symbol| {
        devices.claim(pod.namespace, *name).is_some_and(|claim| {
            claim.reserved_for.len() >= CONSUMERS_MAX && !claim.reserved_for.contains(&pod.uid)
        })
    };
    pod.claims.iter().filter_map(PodClaim::name).find(is_crowded)
}
