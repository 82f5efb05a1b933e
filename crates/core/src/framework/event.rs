//! Cluster events that may make a rejected pod schedulable.
//!
//! Upstream: `pkg/scheduler/framework/{events,types}.go`; labels as upstream's `ClusterEvent.Label`.

use crate::model::device::DeviceClass;
use crate::model::emulation::VersionRules;
use crate::model::intern::Symbol;
use crate::model::node::NodeInfo;
use crate::model::pod::PodInfo;
use crate::model::volume::{StorageKind, StorageObject};

/// A queueing hint: whether an event may make a rejected pod schedulable (upstream `QueueingHint`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The event changes nothing for the pod.
    Skip,
    /// The event may make the pod schedulable.
    Queue,
}

impl Hint {
    /// Returns [`Hint::Queue`] if `worth` is true.
    pub fn queue_if(worth: bool) -> Self {
        if worth { Self::Queue } else { Self::Skip }
    }
}

/// The kind of change of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeAction {
    /// The node was added.
    Add,
    /// The node was deleted.
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

/// The kind of change of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodAction {
    /// The pod was created or appeared on its node.
    Add,
    /// The pod was deleted or terminated.
    Delete,
    /// Labels changed.
    UpdateLabel,
    /// A resource request decreased.
    UpdateScaleDown,
    /// A resource request increased. Only a version that splits the events of pods has this event (row Q2).
    UpdateScaleUp,
    /// The last scheduling gate was removed.
    UpdateGatesEliminated,
    /// The number of tolerations changed.
    UpdateToleration,
    /// Something else changed.
    Update,
}

/// A change of the cluster that may requeue pods.
#[derive(Clone, Copy, Debug)]
pub enum ClusterEvent<'a> {
    /// A node changed; `old` is absent for Add, `new` for Delete.
    Node {
        /// The kind of change.
        action: NodeAction,
        /// The node before.
        old: Option<&'a NodeInfo>,
        /// The node after.
        new: Option<&'a NodeInfo>,
    },
    /// A bound or assumed pod changed; `old` is absent for Add, `new` for Delete.
    AssignedPod {
        /// The kind of change.
        action: PodAction,
        /// The pod before.
        old: Option<&'a PodInfo>,
        /// The pod after.
        new: Option<&'a PodInfo>,
    },
    /// A pending pod was nominated to a node. It counts there for pods of the same or a lower priority. Upstream
    /// requeues no pods.
    Nominated {
        /// The nominated pod.
        pod: &'a PodInfo,
        /// The node's name.
        node: Symbol,
    },
    /// A pending pod itself changed; the event concerns only that pod.
    OwnPod {
        /// The kind of change.
        action: PodAction,
        /// The pod before.
        old: &'a PodInfo,
        /// The pod after.
        new: &'a PodInfo,
    },
    /// A storage object changed; `old` is absent if it was added, `new` if it was deleted. Both have the same
    /// kind.
    Storage {
        /// The object before.
        old: Option<&'a StorageObject>,
        /// The object after.
        new: Option<&'a StorageObject>,
    },
    /// A DeviceClass was added or serves other resources; `old` is absent if it was added.
    DeviceClass {
        /// The class before.
        old: Option<&'a DeviceClass>,
        /// The class after.
        new: &'a DeviceClass,
    },
    /// A Service, ReplicaSet, namespace or another object that plugins read changed. Upstream requeues no
    /// pods.
    Other,
    /// The pod was unschedulable longer than the five-minute flush allows: every pod is requeued.
    UnschedulableTimeout,
}

impl ClusterEvent<'_> {
    /// Upstream's label of the event in `scheduler_queue_incoming_pods_total`.
    pub fn label(&self, rules: VersionRules) -> &'static str {
        match self {
            Self::Node { action, .. } => match action {
                NodeAction::Add => "NodeAdd",
                NodeAction::Delete => "NodeDelete",
                NodeAction::UpdateAllocatable => "NodeUpdateNodeAllocatable",
                NodeAction::UpdateLabel => "NodeUpdateNodeLabel",
                NodeAction::UpdateTaint => "NodeUpdateNodeTaint",
                NodeAction::UpdateDeclaredFeature => "NodeUpdateNodeDeclaredFeature",
            },
            Self::AssignedPod { action, .. } => assigned_pod_label(*action),
            // Upstream has no label for it. The pod counts like one that was added.
            Self::Nominated { .. } => assigned_pod_label(PodAction::Add),
            Self::OwnPod { action, .. } if rules.splits_pod_events => target_pod_label(*action),
            Self::OwnPod { action, .. } => unschedulable_pod_label(*action),
            Self::Storage { old, new } => storage_label(*old, *new),
            Self::DeviceClass { old: None, .. } => "resource.k8s.io/DeviceClassAdd",
            Self::DeviceClass { old: Some(_), .. } => "resource.k8s.io/DeviceClassUpdate",
            Self::Other => "Other",
            Self::UnschedulableTimeout => "UnschedulableTimeout",
        }
    }
}

fn assigned_pod_label(action: PodAction) -> &'static str {
    match action {
        PodAction::Add => "AssignedPodAdd",
        PodAction::Delete => "AssignedPodDelete",
        PodAction::UpdateLabel => "AssignedPodUpdatePodLabel",
        PodAction::UpdateScaleDown => "AssignedPodUpdatePodScaleDown",
        PodAction::UpdateScaleUp => "AssignedPodUpdatePodScaleUp",
        PodAction::UpdateGatesEliminated => "AssignedPodUpdatePodSchedulingGatesEliminated",
        PodAction::UpdateToleration => "AssignedPodUpdatePodToleration",
        PodAction::Update => "AssignedPodUpdate",
    }
}

fn target_pod_label(action: PodAction) -> &'static str {
    match action {
        PodAction::Add => "TargetPodAdd",
        PodAction::Delete => "TargetPodDelete",
        PodAction::UpdateLabel => "TargetPodUpdatePodLabel",
        PodAction::UpdateScaleDown => "TargetPodUpdatePodScaleDown",
        PodAction::UpdateScaleUp => "TargetPodUpdatePodScaleUp",
        PodAction::UpdateGatesEliminated => "TargetPodUpdatePodSchedulingGatesEliminated",
        PodAction::UpdateToleration => "TargetPodUpdatePodToleration",
        PodAction::Update => "TargetPodUpdate",
    }
}

fn unschedulable_pod_label(action: PodAction) -> &'static str {
    match action {
        PodAction::Add => "UnschedulablePodAdd",
        PodAction::Delete => "UnschedulablePodDelete",
        PodAction::UpdateLabel => "UnschedulablePodUpdatePodLabel",
        PodAction::UpdateScaleDown => "UnschedulablePodUpdatePodScaleDown",
        PodAction::UpdateScaleUp => "UnschedulablePodUpdatePodScaleUp",
        PodAction::UpdateGatesEliminated => "UnschedulablePodUpdatePodSchedulingGatesEliminated",
        PodAction::UpdateToleration => "UnschedulablePodUpdatePodToleration",
        PodAction::Update => "UnschedulablePodUpdate",
    }
}

/// Upstream's label of a change of a pending pod in `scheduler_event_handling_duration_seconds`.
pub fn pending_pod_label(action: PodAction, rules: VersionRules) -> &'static str {
    match action {
        PodAction::Add if rules.splits_pod_events => "UnscheduledPodAdd",
        PodAction::Delete if rules.splits_pod_events => "UnscheduledPodDelete",
        _ if rules.splits_pod_events => "UnscheduledPodUpdate",
        PodAction::Add => "UnschedulablePodAdd",
        PodAction::Delete => "UnschedulablePodDelete",
        _ => "UnschedulablePodUpdate",
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
        StorageKind::ResourceClaim => [
            "resource.k8s.io/ResourceClaimAdd",
            "resource.k8s.io/ResourceClaimUpdate",
            "resource.k8s.io/ResourceClaimDelete",
        ],
        StorageKind::ResourceSlice => [
            "resource.k8s.io/ResourceSliceAdd",
            "resource.k8s.io/ResourceSliceUpdate",
            "resource.k8s.io/ResourceSliceDelete",
        ],
    };
    labels[match (old, new) {
        (None, _) => 0,
        (Some(_), Some(_)) => 1,
        (Some(_), None) => 2,
    }]
}
