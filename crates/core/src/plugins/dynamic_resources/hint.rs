//! Which events may make a pod schedulable that lacks devices.
//!
//! Upstream: `dynamicresources.go#EventsToRegister` and its hints. Upstream is not registered for deletions, although
//! they free devices and change which slices a pool has.

use super::claims;
use crate::cache::Snapshot;
use crate::framework::{ClusterEvent, Hint, NodeAction};
use crate::model::device::ResourceClaim;
use crate::model::pod::PodInfo;
use crate::model::volume::StorageObject;

pub(super) fn hint(event: &ClusterEvent<'_>, pod: &PodInfo, snapshot: Snapshot<'_>) -> Hint {
    Hint::queue_if(match event {
        ClusterEvent::Node { action, .. } => {
            // A device plugin on a node may start to serve a class's resource.
            matches!(action, NodeAction::Add | NodeAction::UpdateLabel | NodeAction::UpdateAllocatable)
        }
        ClusterEvent::DeviceClass { .. } | ClusterEvent::UnschedulableTimeout => true,
        ClusterEvent::OwnPod { new, .. } => !new.claims.is_empty() && claims::of_pod(new, snapshot).is_ok(),
        ClusterEvent::Storage { old, new } => match (old, new) {
            (Some(StorageObject::ResourceSlice(_)), _) | (_, Some(StorageObject::ResourceSlice(_))) => true,
            (Some(StorageObject::ResourceClaim(old)), Some(StorageObject::ResourceClaim(new))) => {
                after_change(Some(old), new, pod, snapshot)
            }
            (None, Some(StorageObject::ResourceClaim(new))) => after_change(None, new, pod, snapshot),
            (Some(StorageObject::ResourceClaim(old)), None) => frees(old, pod, snapshot),
            _ => false,
        },
        _ => false,
    })
}

fn after_change(
    old: Option<&ResourceClaim>,
    new: &ResourceClaim,
    pod: &PodInfo,
    snapshot: Snapshot<'_>,
) -> bool {
    let Ok(own) = claims::of_pod(pod, snapshot) else { return false };
    let is_own = || own.iter().any(|claim| claim.uid == new.uid);
    let Some(old) = old else { return is_own() };
    if old.uid != new.uid {
        // The claim was deleted and made again. Upstream compares the status of the two.
        return old.allocation.is_some() || is_own();
    }
    // The claim may have been freed and allocated again in between. Upstream compares only whether it is allocated.
    let kept = |device| new.allocation.as_ref().is_some_and(|now| now.results.contains(device));
    if old.allocation.as_ref().is_some_and(|had| new.allocation.is_none() || !had.results.iter().all(kept)) {
        return true;
    }
    let is_same_status = old.allocation == new.allocation
        && old.reserved_for == new.reserved_for
        && old.devices == new.devices;
    !is_same_status && is_own()
}

/// Whether a deleted claim frees devices, or was made for the pod, which can then get another.
fn frees(old: &ResourceClaim, pod: &PodInfo, snapshot: Snapshot<'_>) -> bool {
    let is_own =
        old.is_for_extended_resources && old.controller.as_ref().is_some_and(|(_, uid)| *uid == pod.uid);
    (is_own || old.allocation.is_some()) && claims::of_pod(pod, snapshot).is_ok()
}
