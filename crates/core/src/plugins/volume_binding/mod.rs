//! VolumeBinding rejects nodes that cannot access a pod's bound volumes, and finds or provisions volumes for
//! claims that wait for the pod's node.
//!
//! It decides and returns reservations; the scheduler writes them and waits for the volumes. From 1.37 on, it scores
//! the storage that the pod's volumes leave (StorageCapacityScoring). Upstream:
//! `pkg/scheduler/framework/plugins/volumebinding/{volume_binding,binder,scorer}.go`.

mod by_label;
mod claims;
mod filter;
mod hint;
mod matching;
mod provisioning;
mod score;

pub use score::StorageScore;

use crate::cache::{NodeView, Snapshot};
use crate::framework::{
    ClusterEvent, CycleError, EventSet, FilterPlugin, FilterRule, Hint, NodeAction, PluginName, Prepared,
    Reads,
};
use crate::model::pod::PodInfo;
use crate::model::volume::{PersistentVolumeInfo, StorageKind};

/// The plugin's name.
pub const NAME: PluginName = "VolumeBinding";

/// Whether a node can access a volume.
pub(crate) fn reaches(node: &NodeView<'_>, volume: &PersistentVolumeInfo) -> Result<bool, CycleError> {
    filter::reaches(node, volume)
}

/// The plugin.
#[derive(Clone, Copy, Debug, Default)]
pub struct VolumeBinding;

impl FilterPlugin for VolumeBinding {
    fn name(&self) -> PluginName {
        NAME
    }

    fn reads(&self) -> Reads {
        Reads::Volumes
    }

    fn prepare(&self, pod: &PodInfo, snapshot: Snapshot<'_>) -> Prepared<dyn FilterRule> {
        match claims::of(pod, snapshot) {
            Err(claims::Refusal::Rejected(rejection)) => Prepared::Rejected(rejection),
            Err(claims::Refusal::Failed(error)) => Prepared::Failed(error),
            Ok(None) => Prepared::Skip,
            Ok(Some(claims)) => {
                Prepared::Run { rule: Box::new(filter::Filter::new(claims, snapshot)), only: None }
            }
        }
    }

    fn events(&self) -> EventSet {
        EventSet::NEW_NODE
            | EventSet::node(NodeAction::UpdateLabel)
            | EventSet::storage(StorageKind::PersistentVolume)
            | EventSet::storage(StorageKind::PersistentVolumeClaim)
            | EventSet::storage(StorageKind::StorageClass)
            | EventSet::storage(StorageKind::CsiNode)
            | EventSet::storage(StorageKind::CsiDriver)
            | EventSet::storage(StorageKind::CsiStorageCapacity)
    }

    fn hint(&self, event: &ClusterEvent<'_>, pod: &PodInfo, _snapshot: Snapshot<'_>) -> Hint {
        hint::hint(event, pod)
    }
}
