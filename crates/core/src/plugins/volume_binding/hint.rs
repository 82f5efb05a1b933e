//! Queueing hints of VolumeBinding.
//!
//! Upstream: `volumebinding/volume_binding.go#isSchedulableAfter*`.

use crate::framework::{ClusterEvent, Hint, NodeAction};
use crate::model::pod::PodInfo;
use crate::model::volume::{ClaimInfo, PodVolume, StorageObject};

pub(super) fn hint(event: &ClusterEvent<'_>, pod: &PodInfo) -> Hint {
    match event {
        ClusterEvent::Node { action: NodeAction::Add | NodeAction::UpdateLabel, .. }
        | ClusterEvent::UnschedulableTimeout => Hint::Queue,
        ClusterEvent::Storage { old, new: Some(new) } => Hint::queue_if(helps(pod, *old, new)),
        // Without the driver's object, capacity is not checked any more. Upstream does not requeue pods here.
        ClusterEvent::Storage { old: Some(StorageObject::CsiDriver(gone)), new: None } => {
            Hint::queue_if(gone.storage_capacity)
        }
        _ => Hint::Skip,
    }
}

/// Whether a new or changed storage object may help the pod.
fn helps(pod: &PodInfo, old: Option<&StorageObject>, new: &StorageObject) -> bool {
    use StorageObject::{Capacity, Claim, Class, CsiDriver, CsiNode, Volume};
    match (old, new) {
        (_, Claim(claim)) => uses(pod, claim),
        (_, Volume(_)) | (None, Class(_) | CsiNode(_) | Capacity(_)) => true,
        // Only the allowed topologies can change, and upstream compares only these. A list may show a recreated class
        // as a change.
        (Some(Class(old)), Class(new)) => old != new,
        (Some(CsiNode(old)), CsiNode(new)) => old.migrated_plugins != new.migrated_plugins,
        (Some(Capacity(old)), Capacity(new)) => {
            new.limit.is_some_and(|limit| old.limit.is_none_or(|before| limit > before))
        }
        // Upstream requires an inline volume of the driver in the pod, although such a volume needs no capacity.
        (Some(CsiDriver(old)), CsiDriver(new)) => old.storage_capacity && !new.storage_capacity,
        _ => false,
    }
}

fn uses(pod: &PodInfo, claim: &ClaimInfo) -> bool {
    let mut claims = pod.volumes.iter().filter_map(PodVolume::claim);
    pod.namespace == claim.namespace && claims.any(|(name, _)| name == claim.name)
}
