//! What comes into the engine: the state of watched objects, and the answers to effects.
//!
//! Object events are levels, not edges: `…Applied` carries the object as it is now, however often it is repeated. Order
//! holds within a kind, never across kinds.

use crate::cache::{DeviceClass, DisruptionBudget, Service};
use crate::effect::Lane;
use crate::extender::Answer;
use crate::intern::{LabelSetId, Symbol, Tables};
use crate::node::NodeInfo;
use crate::pod::{ControllerKind, PodInfo, Uid};
use crate::selector::Requirement;
use crate::volume::{StorageKey, StorageKind, StorageObject};

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
}

impl Kind {
    /// All kinds; nothing is decided before each has delivered its first list.
    pub const ALL: [Self; 16] = [
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
    ];

    /// The kind as the API spells it.
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
        }
    }

    /// The kind of a controller.
    pub fn of_controller(kind: ControllerKind) -> Self {
        match kind {
            ControllerKind::ReplicationController => Self::ReplicationController,
            ControllerKind::ReplicaSet => Self::ReplicaSet,
            ControllerKind::StatefulSet => Self::StatefulSet,
        }
    }

    /// The kind of an object of storage.
    pub fn of_storage(kind: StorageKind) -> Self {
        match kind {
            StorageKind::PersistentVolume => Self::PersistentVolume,
            StorageKind::PersistentVolumeClaim => Self::PersistentVolumeClaim,
            StorageKind::StorageClass => Self::StorageClass,
            StorageKind::CsiNode => Self::CsiNode,
            StorageKind::CsiDriver => Self::CsiDriver,
            StorageKind::CsiStorageCapacity => Self::CsiStorageCapacity,
            StorageKind::VolumeAttachment => Self::VolumeAttachment,
        }
    }

    /// The kind of objects of storage this is, if it is one.
    pub fn storage(self) -> Option<StorageKind> {
        match self {
            Self::PersistentVolume => Some(StorageKind::PersistentVolume),
            Self::PersistentVolumeClaim => Some(StorageKind::PersistentVolumeClaim),
            Self::StorageClass => Some(StorageKind::StorageClass),
            Self::CsiNode => Some(StorageKind::CsiNode),
            Self::CsiDriver => Some(StorageKind::CsiDriver),
            Self::CsiStorageCapacity => Some(StorageKind::CsiStorageCapacity),
            Self::VolumeAttachment => Some(StorageKind::VolumeAttachment),
            _ => None,
        }
    }
}

/// The identity of a watched object, as its deletion names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectKey {
    /// A pod, by uid: a new pod of the same name is another pod.
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
    /// An object of storage.
    Storage(StorageKey),
    /// A DeviceClass, by name.
    DeviceClass(Symbol),
}

impl ObjectKey {
    /// The object in words: kind, namespace and name. A pod's name is known by the pod.
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
            Self::Storage(key) => named(Kind::of_storage(key.kind), key.namespace, key.name),
        }
    }
}

/// One thing that happened.
#[derive(Debug)]
pub enum Event {
    /// A list of this kind begins; what it does not name by [`Event::ListEnded`] is gone.
    ListBegan(Kind),
    /// The list is complete.
    ListEnded(Kind),
    /// A pod as it is now.
    PodApplied(Box<PodInfo>),
    /// A node as it is now.
    NodeApplied(Box<NodeInfo>),
    /// A namespace as it is now.
    NamespaceApplied {
        /// Its name.
        name: Symbol,
        /// Its labels.
        labels: LabelSetId,
    },
    /// A Service as it is now.
    ServiceApplied {
        /// Its namespace.
        namespace: Symbol,
        /// Its name.
        name: Symbol,
        /// What default spreading reads of it.
        service: Service,
    },
    /// A controller as it is now.
    ControllerApplied {
        /// What it is.
        kind: ControllerKind,
        /// Its namespace.
        namespace: Symbol,
        /// Its name.
        name: Symbol,
        /// What its selector demands; nothing when it has none or it cannot be parsed.
        demands: Box<[Requirement]>,
    },
    /// A PodDisruptionBudget as it is now.
    DisruptionBudgetApplied {
        /// Its namespace.
        namespace: Symbol,
        /// Its name.
        name: Symbol,
        /// What preemption reads of it.
        budget: DisruptionBudget,
    },
    /// A DeviceClass as it is now.
    DeviceClassApplied {
        /// Its name.
        name: Symbol,
        /// The extended resources it serves.
        class: DeviceClass,
    },
    /// An object of storage as it is now.
    StorageApplied(StorageObject),
    /// An object is gone. For pods also: has ended.
    Gone(ObjectKey),
    /// A pod has ended because the kubelet of its node did not admit it.
    NotAdmitted {
        /// The pod.
        uid: Uid,
        /// The kubelet's reason, for example `OutOfcpu`.
        reason: Box<str>,
    },
    /// An object of this identity is listed, and cannot be read: what was known of it stays, and the list names it.
    Unreadable(ObjectKey),
    /// A binding was answered, or not.
    BindFinished {
        /// The pod.
        uid: Uid,
        /// What came of it.
        outcome: BindOutcome,
    },
    /// The API server was asked what became of a binding of unknown outcome.
    Settled {
        /// The pod.
        uid: Uid,
        /// What it said.
        found: Found,
    },
    /// A change of a volume or a claim was answered, or not.
    VolumeWritten {
        /// The pod it was for.
        uid: Uid,
        /// Which write it was.
        write: u64,
        /// What came of it.
        outcome: WriteOutcome,
    },
    /// An eviction was answered, or not.
    EvictFinished {
        /// The pod that was to go.
        uid: Uid,
        /// What came of it.
        outcome: EvictOutcome,
    },
    /// An extender has answered, or failed to.
    Extended {
        /// Which call it was.
        call: u64,
        /// What it said, or the error's text as upstream has it.
        answer: Result<Answer, String>,
    },
    /// The end is near: nothing more is decided or bound. What is in flight is still settled and told of.
    Halt,
    /// Whether this scheduler leads, which it does until told otherwise. One that does not decides nothing and sends
    /// nothing, and keeps its state up to date.
    Leading(bool),
    /// The outside takes `count` more effects of a lane.
    Credits {
        /// The lane.
        lane: Lane,
        /// How many more.
        count: usize,
    },
}

impl Event {
    /// The object it is about.
    ///
    /// # Panics
    /// Of an event that is about no object.
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
            Self::Gone(key) | Self::Unreadable(key) => key.clone(),
            Self::NotAdmitted { uid, .. } => ObjectKey::Pod(Uid::clone(uid)),
            Self::ListBegan(_)
            | Self::ListEnded(_)
            | Self::BindFinished { .. }
            | Self::Settled { .. }
            | Self::VolumeWritten { .. }
            | Self::EvictFinished { .. }
            | Self::Extended { .. }
            | Self::Halt
            | Self::Leading(_)
            | Self::Credits { .. } => unreachable!("answers and lists are about no object"),
        }
    }
}

/// What came of a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindOutcome {
    /// The API server accepted it. The watch, not this, turns the pod from assumed to added.
    Accepted,
    /// The API server refused it, or it surely never got there.
    Refused {
        /// The error's text, as upstream's client gives it.
        message: String,
    },
    /// There was nothing to bind: the pod is bound by somebody else, or gone. This is what the API server has of it.
    Moot(Found),
    /// It may or may not have been carried out: a deadline passed, or the connection broke.
    Unknown {
        /// What was seen.
        message: String,
    },
}

/// What came of a change of a volume or a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// It was carried out.
    Done,
    /// The API server refused it, or it surely never got there.
    Refused {
        /// The error's text, as upstream's client gives it.
        message: String,
    },
    /// It may or may not have been carried out: a deadline passed, or the connection broke.
    Unknown {
        /// What was seen.
        message: String,
    },
}

/// What came of an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictOutcome {
    /// The API server accepted the deletion.
    Deleted,
    /// There was no pod of that uid any more.
    Gone,
    /// The pod stays, as far as is known.
    Failed {
        /// The error's text, as upstream's client gives it.
        message: String,
    },
}

/// What the API server says of a pod whose binding has an unknown outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is bound to the node of this name.
    Bound(String),
    /// It is not bound.
    Unbound,
    /// There is no pod of that uid any more.
    Gone,
    /// No answer; to be asked again.
    NoAnswer,
}
