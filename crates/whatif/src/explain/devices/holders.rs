//! Who holds devices: the claims with allocations, and the pods that use them.

use crate::explain::format::some;
use crate::explain::place::Place;
use std::collections::BTreeMap;
use std::sync::Arc;
use supercargo_core::model::device::{DeviceId, ResourceClaim};
use supercargo_core::model::pod::PodInfo;
use supercargo_core::plugins::dynamic_resources::concerns;

/// The claims that hold each device, and texts about them.
#[derive(Default)]
pub(in crate::explain) struct Holders {
    by_device: BTreeMap<DeviceId, Vec<Arc<ResourceClaim>>>,
    texts: BTreeMap<Arc<str>, String>,
}

impl Holders {
    /// Collects the holders of all devices; none if the pod needs no devices.
    pub(in crate::explain) fn of(place: &Place<'_>, pod: &PodInfo) -> Self {
        let snapshot = place.snapshot();
        let mut holders = Self::default();
        if !concerns(pod, snapshot) {
            return holders;
        }
        for claim in snapshot.devices().claims() {
            let allocation = claim.allocation.as_ref().or_else(|| snapshot.devices().in_flight(&claim.uid));
            let Some(allocation) = allocation else { continue };
            for result in allocation.results.iter().filter(|result| !result.admin_access) {
                holders.by_device.entry(result.device.clone()).or_default().push(Arc::clone(claim));
            }
            holders.texts.insert(Arc::clone(&claim.uid), text(place, claim));
        }
        for claims in holders.by_device.values_mut() {
            claims.sort_by_key(|claim| super::key(claim, snapshot));
        }
        holders
    }

    /// Returns the claims that hold a device.
    pub(super) fn claims(&self, device: &DeviceId) -> &[Arc<ResourceClaim>] {
        self.by_device.get(device).map_or(&[], Vec::as_slice)
    }

    /// Describes a claim with its pods.
    pub(super) fn text(&self, claim: &ResourceClaim) -> &str {
        self.texts.get(&claim.uid).map_or("a claim", String::as_str)
    }
}

fn text(place: &Place<'_>, claim: &ResourceClaim) -> String {
    let snapshot = place.snapshot();
    let placed = claim.reserved_for.iter().filter_map(|uid| place.trial.placement(uid));
    let mut pods: Vec<String> = placed.map(|(pod, _)| snapshot.pod_key(pod)).collect();
    if let (true, Some((name, _))) = (pods.is_empty(), &claim.controller) {
        pods.push(format!("{}/{name}", snapshot.text(claim.namespace)));
    }
    pods.sort_unstable();
    let key = super::key(claim, snapshot);
    match pods.len() {
        0 if claim.reserved_for.is_empty() => format!("the claim {key}, which no pod uses"),
        0 => format!("the claim {key}"),
        1 => format!("the claim {key} of the pod {}", pods[0]),
        _ => format!("the claim {key} of the pods {}", some(&pods, super::NAMED)),
    }
}
