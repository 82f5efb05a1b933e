//! Queueing hints of VolumeBinding.
//!
//! Upstream: `volumebinding/volume_binding.go#isSchedulableAfter*`.

use crate::framework::{ClusterEvent, Hint, NodeAction};
use crate::pod::PodInfo;
use crate::volume::{ClaimInfo, PodVolume, StorageObject};

pub(super) fn hint(event: &ClusterEvent<'_>, pod: &PodInfo) -> Hint {
    match event {
        ClusterEvent::Node {
            action: NodeAction::Add | NodeAction::UpdateLabel | NodeAction::UpdateTaint,
            ..
        }
        | ClusterEvent::UnschedulableTimeout => Hint::Queue,
        ClusterEvent::Storage { old, new: Some(new) } => Hint::queue_if(helps(pod, *old, new)),
        // Where nobody tells of room any more, none is asked for. Upstream lets pods wait.
        ClusterEvent::Storage { old: Some(StorageObject::CsiDriver(gone)), new: None } => {
            Hint::queue_if(gone.storage_capacity)
        }
        _ => Hint::Skip,
    }
}

/// Whether an object of storage that is new, or not what it was before, may help.
fn helps(pod: &PodInfo, old: Option<&StorageObject>, new: &StorageObject) -> bool {
    use StorageObject::{Capacity, Claim, Class, CsiDriver, CsiNode, Volume};
    match (old, new) {
        (_, Claim(claim)) => uses(pod, claim),
        (_, Volume(_)) | (None, Class(_) | CsiNode(_) | Capacity(_)) => true,
        // Only its topologies can change, and upstream looks at no more; a list may show one made anew as one that changed.
        (Some(Class(old)), Class(new)) => old != new,
        (Some(CsiNode(old)), CsiNode(new)) => old.migrated_plugins != new.migrated_plugins,
        (Some(Capacity(old)), Capacity(new)) => {
            new.limit.is_some_and(|limit| old.limit.is_none_or(|before| limit > before))
        }
        // Upstream asks for an inline volume of the driver in the pod, which needs no room.
        (Some(CsiDriver(old)), CsiDriver(new)) => old.storage_capacity && !new.storage_capacity,
        _ => false,
    }
}

fn uses(pod: &PodInfo, claim: &ClaimInfo) -> bool {
    let mut claims = pod.volumes.iter().filter_map(PodVolume::claim);
    pod.namespace == claim.namespace && claims.any(|(name, _)| name == claim.name)
}
