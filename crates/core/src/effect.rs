//! What goes out of the engine: requests as plain data. The shell carries them out and answers with events.

use crate::extender::ExtenderId;
use crate::intern::Tables;
use crate::pod::{PodInfo, Uid};
use std::sync::Arc;

/// A pod, as a request names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRef {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: Uid,
}

impl PodRef {
    /// The pod's own name, in texts.
    pub(crate) fn new(pod: &PodInfo, tables: &Tables) -> Self {
        Self {
            namespace: tables.text(pod.namespace).to_owned(),
            name: pod.name.to_string(),
            uid: Arc::clone(&pod.uid),
        }
    }
}

/// A request to the outside. Each takes one credit of its [`Lane`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// POST a Binding with the pod's uid. Answered by [`crate::event::Event::BindFinished`].
    Bind {
        /// The pod.
        pod: PodRef,
        /// The name of the node.
        node: String,
    },
    /// Have an extender bind the pod. Answered by [`crate::event::Event::BindFinished`].
    BindBy {
        /// The extender.
        extender: ExtenderId,
        /// The pod.
        pod: PodRef,
        /// The name of the node.
        node: String,
    },
    /// GET the pod and say what became of its binding. Answered by [`crate::event::Event::Settled`].
    Settle {
        /// The pod.
        pod: PodRef,
    },
    /// PATCH a PersistentVolume or a claim, so that a pod gets its volume. Answered by
    /// [`crate::event::Event::VolumeWritten`].
    WriteVolume(VolumeWrite),
    /// Send a pod away to make room: PATCH its condition, then DELETE it. Answered by
    /// [`crate::event::Event::EvictFinished`].
    Evict(Eviction),
    /// PATCH the pod's status. Not answered: the watch shows it.
    Patch(StatusPatch),
    /// Create or count an Event of events.k8s.io/v1. Not answered.
    Record(Record),
    /// Ask an extender about a pod. Answered by [`crate::event::Event::Extended`].
    Extend(ExtenderCall),
}

/// The queues effects leave by, so that a slow kind does not hold up another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Bindings, and questions about them.
    Bind,
    /// Changes of volumes and claims.
    Volume,
    /// Evictions.
    Evict,
    /// Changes of pods' status.
    Status,
    /// Events.
    Record,
    /// Questions to extenders.
    Extend,
}

impl Lane {
    /// All lanes.
    pub const ALL: [Self; 6] =
        [Self::Bind, Self::Volume, Self::Evict, Self::Status, Self::Record, Self::Extend];

    /// The lane's name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bind => "bind",
            Self::Volume => "volume",
            Self::Evict => "evict",
            Self::Status => "status",
            Self::Record => "record",
            Self::Extend => "extend",
        }
    }
}

impl Effect {
    /// The lane the effect takes; it uses up one of that lane's credits.
    pub fn lane(&self) -> Lane {
        match self {
            Self::Bind { .. } | Self::BindBy { .. } | Self::Settle { .. } => Lane::Bind,
            Self::WriteVolume(_) => Lane::Volume,
            Self::Evict(_) => Lane::Evict,
            Self::Patch(_) => Lane::Status,
            Self::Record(_) => Lane::Record,
            Self::Extend(_) => Lane::Extend,
        }
    }
}

/// A question to an extender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtenderCall {
    /// Tells the answer to this call from those to others.
    pub call: u64,
    /// Who is asked.
    pub extender: ExtenderId,
    /// The pod it is about.
    pub pod: PodRef,
    /// What is asked.
    pub question: Question,
}

/// What an extender is asked about a pod. Nodes are named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Which of these nodes can take the pod?
    Filter {
        /// The nodes.
        nodes: Vec<String>,
    },
    /// How good is each of these nodes?
    Prioritize {
        /// The nodes.
        nodes: Vec<String>,
    },
    /// Where may room be made for the pod, and who is to go there?
    Preempt {
        /// What preemption came to.
        rooms: Vec<Victims>,
    },
}

/// Who would have to go from a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victims {
    /// The node's name.
    pub node: String,
    /// The pods, the most important first.
    pub pods: Vec<PodRef>,
    /// How many of them a disruption budget protects.
    pub violations: usize,
}

/// A change of a volume or a claim for a pod that was decided about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeWrite {
    /// Tells the answer to this write from those to others.
    pub write: u64,
    /// The pod it is for.
    pub pod: PodRef,
    /// What is written, and where.
    pub change: VolumeChange,
}

/// What is written of a volume or a claim. It is refused where the object is not of the version given any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeChange {
    /// The volume is for this claim: `spec.claimRef`.
    Bind {
        /// The name of the PersistentVolume.
        volume: String,
        /// Its `metadata.resourceVersion`.
        version: String,
        /// The claim.
        claim: ClaimName,
        /// Whether to write the annotation `pv.kubernetes.io/bound-by-controller`, too.
        by_controller: bool,
    },
    /// The claim's volume is to be made for this node: the annotation `volume.kubernetes.io/selected-node`.
    SelectNode {
        /// The claim's namespace.
        namespace: String,
        /// The claim's name.
        name: String,
        /// Its `metadata.resourceVersion`.
        version: String,
        /// The node's name.
        node: String,
    },
}

/// A claim, as a volume's `spec.claimRef` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimName {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub version: String,
}

/// A pod to be sent away so that a more important one finds room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// The pod; only the one of this uid is meant.
    pub pod: PodRef,
    /// The condition DisruptionTarget=True to set before; `None` where the pod has it.
    pub condition: Option<Disruption>,
}

/// The condition DisruptionTarget=True for the reason PreemptionByScheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disruption {
    /// The text.
    pub message: String,
    /// `observedGeneration`: the pod's `metadata.generation`.
    pub observed_generation: i64,
}

/// A change of a pod's status; at least one of the two is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusPatch {
    /// The pod.
    pub pod: PodRef,
    /// PodScheduled=False, and why; `None` leaves the condition as it is.
    pub condition: Option<Unscheduled>,
    /// What becomes of `nominatedNodeName`.
    pub nomination: Nomination,
}

impl StatusPatch {
    /// This patch, with what it leaves open taken from one that was to leave before it.
    #[must_use]
    pub fn over(mut self, earlier: Self) -> Self {
        self.condition = self.condition.or(earlier.condition);
        if self.nomination == Nomination::Keep {
            self.nomination = earlier.nomination;
        }
        self
    }
}

/// What becomes of `status.nominatedNodeName` (upstream `framework.NominatingInfo`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nomination {
    /// It stays as it is.
    Keep,
    /// It is taken away.
    Clear,
    /// It becomes the node of this name.
    Set(String),
}

/// The condition PodScheduled=False.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unscheduled {
    /// `Unschedulable` or `SchedulerError`.
    pub reason: &'static str,
    /// The whole text, however long.
    pub message: String,
    /// `observedGeneration`: the pod's `metadata.generation`.
    pub observed_generation: i64,
    /// `lastTransitionTime` to keep, since PodScheduled was False before; `None` when it becomes so now.
    pub since: Option<String>,
}

/// An event about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The pod.
    pub pod: PodRef,
    /// `metadata.resourceVersion` of the pod as it was decided about.
    pub resource_version: String,
    /// The profile's name, which is the reporting controller.
    pub scheduler_name: String,
    /// `Normal` or `Warning`.
    pub severity: Severity,
    /// For example `FailedScheduling`.
    pub reason: &'static str,
    /// For example `Scheduling`.
    pub action: &'static str,
    /// The text, not yet cut to the API's limit.
    pub note: String,
}

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// `Normal`.
    Normal,
    /// `Warning`.
    Warning,
}

impl Severity {
    /// The type as the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}
