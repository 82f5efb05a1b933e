//! The ResourceClaims of a pod.
//!
//! Upstream: `dynamicresources.go#foreachPodResourceClaim`, `dynamic-resource-allocation/resourceclaim/claim.go`.

use crate::cache::Snapshot;
use crate::model::device::{PodClaimSource, ResourceClaim};
use crate::model::pod::PodInfo;
use std::sync::Arc;

/// Returns the claims of a pod in order. A claim under two names appears twice.
///
/// # Errors
/// Upstream's text, if a claim does not exist yet, belongs to another pod or is being deleted.
pub(super) fn of_pod(pod: &PodInfo, snapshot: Snapshot<'_>) -> Result<Vec<Arc<ResourceClaim>>, String> {
    let mut claims = Vec::with_capacity(pod.claims.len());
    for entry in &pod.claims {
        let (name, must_own) = match entry.source {
            PodClaimSource::Named(name) => (name, false),
            PodClaimSource::Generated(name) => (name, true),
            PodClaimSource::NotNeeded => continue,
            PodClaimSource::NotCreated => {
                return Err(format!("pod \"{}\": ResourceClaim not created yet", snapshot.pod_key(pod)));
            }
            PodClaimSource::Unknown => {
                return Err(format!(
                    "pod \"{}\", spec.resourceClaim \"{}\": none of the supported fields are set",
                    snapshot.pod_key(pod),
                    entry.name
                ));
            }
        };
        let key = || format!("{}/{}", snapshot.text(pod.namespace), snapshot.text(name));
        let claim = snapshot.devices().claim(pod.namespace, name);
        let claim = claim.ok_or_else(|| format!("could not find ResourceClaim \"{}\"", key()))?;
        if claim.deleting {
            return Err(format!("resourceclaim \"{}\" is being deleted", snapshot.text(name)));
        }
        if must_own && claim.controller.as_ref().is_none_or(|(_, owner)| *owner != pod.uid) {
            let kind = if snapshot.rules().devices.writes_pod_small { "pod" } else { "Pod" };
            return Err(format!(
                "ResourceClaim {} was not created for {kind} {} ({kind} is not owner)",
                key(),
                snapshot.pod_key(pod)
            ));
        }
        claims.push(Arc::clone(claim));
    }
    Ok(claims)
}

/// Returns `namespace/name` of a claim.
pub(super) fn key(claim: &ResourceClaim, snapshot: Snapshot<'_>) -> String {
    format!("{}/{}", snapshot.text(claim.namespace), snapshot.text(claim.name))
}
