//! Inputs of the engine: states of watched objects, and results of effects.
//!
//! Object events are levels, not edges: each `…Applied` event carries the whole object in its current state, and a
//! repetition changes nothing. Events are ordered within a kind, but not across kinds.

use crate::model::device::DeviceClass;
use crate::model::effect::Lane;
use crate::model::extender::Answer;
use crate::model::group::{GroupKey, PodGroup};
use crate::model::intern::{LabelSetId, Marks, Symbol, Tables, TraceIds};
use crate::model::lookup_objects::{DisruptionBudget, Service};
use crate::model::node::NodeInfo;
use crate::model::pod::{ControllerKind, PodInfo, Uid};
use crate::model::selector::Requirement;
use crate::model::volume::{StorageKey, StorageKind, StorageObject};

/// The kinds of watched objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Pods that have not ended.
    Pod,
    /// Nodes.
    Node,
    /// Namespaces.
    Namespace,
    /// Services.
    Service,
    /// ReplicationControllers.
    ReplicationController,
    /// ReplicaSets.
    ReplicaSet,
    /// StatefulSets.
    StatefulSet,
    /// PodDisruptionBudgets.
    PodDisruptionBudget,
    /// PersistentVolumes.
    PersistentVolume,
    /// PersistentVolumeClaims.
    PersistentVolumeClaim,
    /// StorageClasses.
    StorageClass,
    /// CSINodes.
    CsiNode,
    /// CSIDrivers.
    CsiDriver,
    /// CSIStorageCapacities.
    CsiStorageCapacity,
    /// VolumeAttachments.
    VolumeAttachment,
    /// DeviceClasses.
    DeviceClass,
    /// ResourceClaims.
    ResourceClaim,
    /// ResourceSlices.
    ResourceSlice,
    /// PodGroups. They are watched only if groups are enabled.
    PodGroup,
}

impl Kind {
    /// All kinds that are always watched. The engine decides nothing until the first list of each is complete.
    pub const ALL: [Self; 18] = [
        Self::Pod,
        Self::Node,
        Self::Namespace,
        Self::Service,
        Self::ReplicationController,
        Self::ReplicaSet,
        Self::StatefulSet,
        Self::PodDisruptionBudget,
        Self::PersistentVolume,
        Self::PersistentVolumeClaim,
        Self::StorageClass,
        Self::CsiNode,
        Self::CsiDriver,
        Self::CsiStorageCapacity,
        Self::VolumeAttachment,
        Self::DeviceClass,
        Self::ResourceClaim,
        Self::ResourceSlice,
    ];

    /// All kinds: those that are always watched, and PodGroups.
    pub const EVERY: [Self; 19] = {
        let mut all = [Self::PodGroup; 19];
        let mut at = 0;
        while at < Self::ALL.len() {
            all[at] = Self::ALL[at];
            at += 1;
        }
        all
    };

    /// Returns the kinds that are watched, with PodGroups or without.
    pub fn watched(with_groups: bool) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().chain(with_groups.then_some(Self::PodGroup))
    }

    /// Returns the name of the kind in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::Node => "Node",
            Self::Namespace => "Namespace",
            Self::Service => "Service",
            Self::ReplicationController => "ReplicationController",
            Self::ReplicaSet => "ReplicaSet",
            Self::StatefulSet => "StatefulSet",
            Self::PodDisruptionBudget => "PodDisruptionBudget",
            Self::PersistentVolume => "PersistentVolume",
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
            Self::StorageClass => "StorageClass",
            Self::CsiNode => "CSINode",
            Self::CsiDriver => "CSIDriver",
            Self::CsiStorageCapacity => "CSIStorageCapacity",
            Self::VolumeAttachment => "VolumeAttachment",
            Self::DeviceClass => "DeviceClass",
            Self::ResourceClaim => "ResourceClaim",
            Self::ResourceSlice => "ResourceSlice",
            Self::PodGroup => "PodGroup",
        }
    }

    /// Returns the kind of a controller.
    pub fn of_controller(kind: ControllerKind) -> Self {
        match kind {
            ControllerKind::ReplicationController => Self::ReplicationController,
            ControllerKind::ReplicaSet => Self::ReplicaSet,
            ControllerKind::StatefulSet => Self::StatefulSet,
        }
    }

    /// Returns the kind of a storage object.
    pub fn of_storage(kind: StorageKind) -> Self {
        match kind {
            StorageKind::PersistentVolume => Self::PersistentVolume,
            StorageKind::PersistentVolumeClaim => Self::PersistentVolumeClaim,
            StorageKind::StorageClass => Self::StorageClass,
            StorageKind::CsiNode => Self::CsiNode,
            StorageKind::CsiDriver => Self::CsiDriver,
            StorageKind::CsiStorageCapacity => Self::CsiStorageCapacity,
            StorageKind::VolumeAttachment => Self::VolumeAttachment,
            StorageKind::ResourceClaim => Self::ResourceClaim,
            StorageKind::ResourceSlice => Self::ResourceSlice,
        }
    }

    /// Returns the kind of storage object, or `None` if this is not a kind of storage object.
    pub fn storage(self) -> Option<StorageKind> {
        match self {
            Self::PersistentVolume => Some(StorageKind::PersistentVolume),
            Self::PersistentVolumeClaim => Some(StorageKind::PersistentVolumeClaim),
            Self::StorageClass => Some(StorageKind::StorageClass),
            Self::CsiNode => Some(StorageKind::CsiNode),
            Self::CsiDriver => Some(StorageKind::CsiDriver),
            Self::CsiStorageCapacity => Some(StorageKind::CsiStorageCapacity),
            Self::VolumeAttachment => Some(StorageKind::VolumeAttachment),
            Self::ResourceClaim => Some(StorageKind::ResourceClaim),
            Self::ResourceSlice => Some(StorageKind::ResourceSlice),
            _ => None,
        }
    }
}

/// The identity of a watched object, as given in its deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectKey {
    /// A pod, by uid. A new pod with the same name is a different pod.
    Pod(Uid),
    /// A node, by name.
    Node(Symbol),
    /// A namespace, by name.
    Namespace(Symbol),
    /// A Service, by namespace and name.
    Service(Symbol, Symbol),
    /// A controller, by kind, namespace and name.
    Controller(ControllerKind, Symbol, Symbol),
    /// A PodDisruptionBudget, by namespace and name.
    DisruptionBudget(Symbol, Symbol),
    /// A storage object.
    Storage(StorageKey),
    /// A DeviceClass, by name.
    DeviceClass(Symbol),
    /// A PodGroup.
    PodGroup(GroupKey),
}

impl ObjectKey {
    /// Formats kind, namespace and name for logs and notices. The name of a pod comes from `pod`; without it, the uid
    /// is given.
    pub(crate) fn describe(&self, tables: &Tables, pod: Option<&PodInfo>) -> String {
        let named = |kind: Kind, namespace: Option<Symbol>, name: Symbol| match namespace {
            Some(namespace) => format!("{} {}/{}", kind.as_str(), tables.text(namespace), tables.text(name)),
            None => format!("{} {}", kind.as_str(), tables.text(name)),
        };
        match *self {
            Self::Pod(ref uid) => match pod {
                Some(pod) => format!("Pod {}/{}", tables.text(pod.namespace), pod.name),
                None => format!("Pod of uid {uid}"),
            },
            Self::Node(name) => named(Kind::Node, None, name),
            Self::Namespace(name) => named(Kind::Namespace, None, name),
            Self::Service(namespace, name) => named(Kind::Service, Some(namespace), name),
            Self::Controller(kind, namespace, name) => {
                named(Kind::of_controller(kind), Some(namespace), name)
            }
            Self::DisruptionBudget(namespace, name) => {
                named(Kind::PodDisruptionBudget, Some(namespace), name)
            }
            Self::DeviceClass(name) => named(Kind::DeviceClass, None, name),
            Self::PodGroup(key) => named(Kind::PodGroup, Some(key.namespace), key.name),
            Self::Storage(key) => named(Kind::of_storage(key.kind), key.namespace, key.name),
        }
    }
}

/// An input of the engine.
#[derive(Debug)]
pub enum Event {
    /// A list of this kind begins. Objects that it does not contain are removed at [`Event::ListEnded`].
    ListBegan(Kind),
    /// The list of this kind is complete.
    ListEnded(Kind),
    /// The current state of a pod.
    PodApplied(Box<PodInfo>),
    /// The current state of a node.
    NodeApplied(Box<NodeInfo>),
    /// The current state of a namespace.
    NamespaceApplied {
        /// Its name.
        name: Symbol,
        /// Its labels.
        labels: LabelSetId,
    },
    /// The current state of a Service.
    ServiceApplied {
        /// Its namespace.
        namespace: Symbol,
        /// Its name.
        name: Symbol,
        /// The fields that default spread constraints read.
        service: Service,
    },
    /// The current state of a controller.
    ControllerApplied {
        /// Its kind.
        kind: ControllerKind,
        /// Its namespace.
        namespace: Symbol,
        /// Its name.
        name: Symbol,
        /// The requirements of its selector; empty if there is no selector or if it cannot be parsed.
        demands: Box<[Requirement]>,
    },
    /// The current state of a PodDisruptionBudget.
    DisruptionBudgetApplied {
        /// Its namespace.
        namespace: Symbol,
        /// Its name.
        name: Symbol,
        /// The fields that preemption reads.
        budget: DisruptionBudget,
    },
    /// The current state of a DeviceClass.
    DeviceClassApplied {
        /// Its name.
        name: Symbol,
        /// Its fields.
        class: std::sync::Arc<DeviceClass>,
    },
    /// The current state of a PodGroup.
    PodGroupApplied(Box<PodGroup>),
    /// The current state of a storage object.
    StorageApplied(StorageObject),
    /// The object was deleted, or the pod has terminated.
    Gone(ObjectKey),
    /// A pod terminated because the kubelet of its node rejected it.
    NotAdmitted {
        /// The pod.
        uid: Uid,
        /// The kubelet's reason, for example `OutOfcpu`.
        reason: Box<str>,
    },
    /// The object exists but is malformed. Its last valid state is kept, and it counts as contained in the list.
    Unreadable(ObjectKey),
    /// The result of a [`crate::model::effect::Effect::Bind`] or [`crate::model::effect::Effect::BindBy`].
    BindFinished {
        /// The pod.
        uid: Uid,
        /// The outcome.
        outcome: BindOutcome,
    },
    /// The result of a [`crate::model::effect::Effect::QueryBinding`]: the state of the pod in the API server.
    BindingQueried {
        /// The pod.
        uid: Uid,
        /// Its state in the API server.
        found: BindingState,
    },
    /// The result of a [`crate::model::effect::Effect::WriteVolume`].
    VolumeWritten {
        /// The pod that needs the volume.
        uid: Uid,
        /// The id of the write ([`crate::model::effect::VolumeWrite::write`]).
        write: u64,
        /// The outcome.
        outcome: WriteOutcome,
    },
    /// The result of a [`crate::model::effect::Effect::Evict`].
    EvictFinished {
        /// The victim.
        uid: Uid,
        /// The outcome.
        outcome: EvictOutcome,
    },
    /// The result of a [`crate::model::effect::Effect::Extend`].
    Extended {
        /// The id of the call ([`crate::model::effect::ExtenderCall::call`]).
        call: u64,
        /// The answer, or the error text that upstream gives.
        answer: Result<Answer, String>,
    },
    /// The process shuts down: the engine decides and binds no more. Effects in flight are still completed and
    /// reported.
    Halt,
    /// Whether this replica is the leader; it is until the first such event. Without leadership the engine decides
    /// nothing and sends nothing, but keeps its state up to date.
    Leading(bool),
    /// The dispatcher accepts `count` more effects of a lane.
    Credits {
        /// The lane.
        lane: Lane,
        /// The number of additional credits.
        count: usize,
    },
}

impl Event {
    /// Returns the identity of the object that the event is about.
    ///
    /// # Panics
    /// Panics for an event that is not about an object.
    pub(crate) fn key(&self) -> ObjectKey {
        match self {
            Self::PodApplied(pod) => ObjectKey::Pod(Uid::clone(&pod.uid)),
            Self::NodeApplied(node) => ObjectKey::Node(node.name),
            Self::NamespaceApplied { name, .. } => ObjectKey::Namespace(*name),
            Self::ServiceApplied { namespace, name, .. } => ObjectKey::Service(*namespace, *name),
            Self::ControllerApplied { kind, namespace, name, .. } => {
                ObjectKey::Controller(*kind, *namespace, *name)
            }
            Self::DisruptionBudgetApplied { namespace, name, .. } => {
                ObjectKey::DisruptionBudget(*namespace, *name)
            }
            Self::DeviceClassApplied { name, .. } => ObjectKey::DeviceClass(*name),
            Self::StorageApplied(object) => ObjectKey::Storage(object.key()),
            Self::PodGroupApplied(group) => ObjectKey::PodGroup(group.key),
            Self::Gone(key) | Self::Unreadable(key) => key.clone(),
            Self::NotAdmitted { uid, .. } => ObjectKey::Pod(Uid::clone(uid)),
            Self::ListBegan(_)
            | Self::ListEnded(_)
            | Self::BindFinished { .. }
            | Self::BindingQueried { .. }
            | Self::VolumeWritten { .. }
            | Self::EvictFinished { .. }
            | Self::Extended { .. }
            | Self::Halt
            | Self::Leading(_)
            | Self::Credits { .. } => unreachable!("answers and lists are about no object"),
        }
    }
}

/// The outcome of a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindOutcome {
    /// The API server accepted it. The pod stays assumed until the watch shows the binding.
    Accepted,
    /// The API server rejected it, or it certainly never reached the server.
    Refused {
        /// The error text that upstream's client gives.
        message: String,
    },
    /// No binding was needed: the pod was bound by another client, or deleted. Contains its state in the API server.
    NotNeeded(BindingState),
    /// The outcome is unknown: a deadline passed, or the connection broke.
    Unknown {
        /// A description of the failure.
        message: String,
    },
}

/// The outcome of a write to a volume or a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// It was carried out.
    Done,
    /// The API server rejected it, or it certainly never reached the server.
    Refused {
        /// The error text that upstream's client gives.
        message: String,
    },
    /// The outcome is unknown: a deadline passed, or the connection broke.
    Unknown {
        /// A description of the failure.
        message: String,
    },
}

/// The outcome of an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictOutcome {
    /// The API server accepted the deletion.
    Deleted,
    /// No pod with that uid exists any more.
    Gone,
    /// The eviction failed. As far as known, the pod still runs.
    Failed {
        /// The error text that upstream's client gives.
        message: String,
    },
}

/// The state in the API server of a pod whose binding has an unknown outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindingState {
    /// Bound to the node with this name.
    Bound(String),
    /// Not bound.
    Unbound,
    /// No pod with that uid exists any more.
    Gone,
    /// The API server did not answer; the question is repeated.
    NoAnswer,
}

impl TraceIds for ObjectKey {
    fn mark(&self, marks: &mut Marks) {
        match self {
            Self::Pod(_) => {}
            Self::Node(name) | Self::Namespace(name) | Self::DeviceClass(name) => name.mark(marks),
            Self::Service(namespace, name)
            | Self::Controller(_, namespace, name)
            | Self::DisruptionBudget(namespace, name) => {
                namespace.mark(marks);
                name.mark(marks);
            }
            Self::Storage(key) => key.mark(marks),
            Self::PodGroup(key) => key.mark(marks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_one_that_is_always_watched_or_a_pod_group() {
        assert_eq!(Kind::EVERY.to_vec(), Kind::watched(true).collect::<Vec<_>>());
        assert!(Kind::watched(false).eq(Kind::ALL));
    }
}
