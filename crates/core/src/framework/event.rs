//! What happened in the cluster, as far as it may make a rejected pod schedulable.
//!
//! Upstream: `pkg/scheduler/framework/{events,types}.go`; labels as in `machinery.md` 1.12.

use crate::cache::DeviceClass;
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::volume::{StorageKind, StorageObject};

/// Whether an event is worth another attempt for a pod (upstream `QueueingHint`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The event changes nothing for the pod.
    Skip,
    /// The event may make the pod schedulable.
    Queue,
}

impl Hint {
    /// [`Hint::Queue`] when `worth` holds.
    pub fn queue_if(worth: bool) -> Self {
        if worth { Self::Queue } else { Self::Skip }
    }
}

/// What happened to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeAction {
    /// The node is new.
    Add,
    /// The node is gone.
    Delete,
    /// `status.allocatable` changed.
    UpdateAllocatable,
    /// Labels changed.
    UpdateLabel,
    /// Taints changed, or `spec.unschedulable` went from true to false.
    UpdateTaint,
    /// `status.declaredFeatures` changed.
    UpdateDeclaredFeature,
}

/// What happened to a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodAction {
    /// The pod is new, or new on its node.
    Add,
    /// The pod is gone, or ended.
    Delete,
    /// Labels changed.
    UpdateLabel,
    /// A resource request went down.
    UpdateScaleDown,
    /// The last scheduling gate is gone.
    UpdateGatesEliminated,
    /// The number of tolerations changed.
    UpdateToleration,
    /// Something else changed.
    Update,
}

/// A change of the cluster that may wake pods.
#[derive(Clone, Copy, Debug)]
pub enum ClusterEvent<'a> {
    /// Something happened to a node; `old` is absent for Add, `new` for Delete.
    Node {
        /// What happened.
        action: NodeAction,
        /// The node before.
        old: Option<&'a NodeInfo>,
        /// The node after.
        new: Option<&'a NodeInfo>,
    },
    /// Something happened to a pod that is on a node (or assumed there); `old` is absent for Add, `new` for Delete.
    AssignedPod {
        /// What happened.
        action: PodAction,
        /// The pod before.
        old: Option<&'a PodInfo>,
        /// The pod after.
        new: Option<&'a PodInfo>,
    },
    /// A pending pod itself changed; only that pod is asked.
    OwnPod {
        /// What happened.
        action: PodAction,
        /// The pod before.
        old: &'a PodInfo,
        /// The pod after.
        new: &'a PodInfo,
    },
    /// Something happened to an object of storage; `old` is absent when it is new, `new` when it is gone. Both are of
    /// one kind.
    Storage {
        /// The object before.
        old: Option<&'a StorageObject>,
        /// The object after.
        new: Option<&'a StorageObject>,
    },
    /// A DeviceClass is new, or serves other resources; `old` is absent when it is new.
    DeviceClass {
        /// The class before.
        old: Option<&'a DeviceClass>,
        /// The class after.
        new: &'a DeviceClass,
    },
    /// A Service, ReplicaSet, namespace or another object that plugins read changed. Upstream wakes nobody.
    Other,
    /// The pod has waited longer than the limit of the unschedulable pool: everything matches.
    UnschedulableTimeout,
}

impl ClusterEvent<'_> {
    /// Upstream's label of the event in `scheduler_queue_incoming_pods_total`.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Node { action, .. } => match action {
                NodeAction::Add => "NodeAdd",
                NodeAction::Delete => "NodeDelete",
                NodeAction::UpdateAllocatable => "NodeUpdateNodeAllocatable",
                NodeAction::UpdateLabel => "NodeUpdateNodeLabel",
                NodeAction::UpdateTaint => "NodeUpdateNodeTaint",
                NodeAction::UpdateDeclaredFeature => "NodeUpdateNodeDeclaredFeature",
            },
            Self::AssignedPod { action, .. } => match action {
                PodAction::Add => "AssignedPodAdd",
                PodAction::Delete => "AssignedPodDelete",
                PodAction::UpdateLabel => "AssignedPodUpdatePodLabel",
                PodAction::UpdateScaleDown => "AssignedPodUpdatePodScaleDown",
                PodAction::UpdateGatesEliminated => "AssignedPodUpdatePodSchedulingGatesEliminated",
                PodAction::UpdateToleration => "AssignedPodUpdatePodToleration",
                PodAction::Update => "AssignedPodUpdate",
            },
            Self::OwnPod { action, .. } => match action {
                PodAction::Add => "UnschedulablePodAdd",
                PodAction::Delete => "UnschedulablePodDelete",
                PodAction::UpdateLabel => "UnschedulablePodUpdatePodLabel",
                PodAction::UpdateScaleDown => "UnschedulablePodUpdatePodScaleDown",
                PodAction::UpdateGatesEliminated => "UnschedulablePodUpdatePodSchedulingGatesEliminated",
                PodAction::UpdateToleration => "UnschedulablePodUpdatePodToleration",
                PodAction::Update => "UnschedulablePodUpdate",
            },
            Self::Storage { old, new } => storage_label(*old, *new),
            Self::DeviceClass { old: None, .. } => "resource.k8s.io/DeviceClassAdd",
            Self::DeviceClass { old: Some(_), .. } => "resource.k8s.io/DeviceClassUpdate",
            Self::Other => "Other",
            Self::UnschedulableTimeout => "UnschedulableTimeout",
        }
    }
}

fn storage_label(old: Option<&StorageObject>, new: Option<&StorageObject>) -> &'static str {
    let Some(kind) = old.or(new).map(StorageObject::kind) else { return "Other" };
    let labels = match kind {
        StorageKind::PersistentVolume => {
            ["PersistentVolumeAdd", "PersistentVolumeUpdate", "PersistentVolumeDelete"]
        }
        StorageKind::PersistentVolumeClaim => {
            ["PersistentVolumeClaimAdd", "PersistentVolumeClaimUpdate", "PersistentVolumeClaimDelete"]
        }
        StorageKind::StorageClass => [
            "storage.k8s.io/StorageClassAdd",
            "storage.k8s.io/StorageClassUpdate",
            "storage.k8s.io/StorageClassDelete",
        ],
        StorageKind::CsiNode => {
            ["storage.k8s.io/CSINodeAdd", "storage.k8s.io/CSINodeUpdate", "storage.k8s.io/CSINodeDelete"]
        }
        StorageKind::CsiDriver => [
            "storage.k8s.io/CSIDriverAdd",
            "storage.k8s.io/CSIDriverUpdate",
            "storage.k8s.io/CSIDriverDelete",
        ],
        StorageKind::CsiStorageCapacity => [
            "storage.k8s.io/CSIStorageCapacityAdd",
            "storage.k8s.io/CSIStorageCapacityUpdate",
            "storage.k8s.io/CSIStorageCapacityDelete",
        ],
        StorageKind::VolumeAttachment => [
            "storage.k8s.io/VolumeAttachmentAdd",
            "storage.k8s.io/VolumeAttachmentUpdate",
            "storage.k8s.io/VolumeAttachmentDelete",
        ],
    };
    labels[match (old, new) {
        (None, _) => 0,
        (Some(_), Some(_)) => 1,
        (Some(_), None) => 2,
    }]
}
