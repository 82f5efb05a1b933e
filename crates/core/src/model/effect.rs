//! Effects: the engine's requests to the outside, as plain data.
//!
//! The dispatcher carries them out and reports their results as events ([`crate::model::event::Event`]).

use crate::model::device::Allocation;
use crate::model::extender::ExtenderId;
use crate::model::group::{GroupApi, GroupCondition};
use crate::model::intern::Tables;
use crate::model::pod::{PodInfo, Uid};
use std::sync::Arc;

/// The identity of a pod in a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodRef {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: Uid,
}

impl PodRef {
    /// Builds the reference, with the names as text.
    pub(crate) fn new(pod: &PodInfo, tables: &Tables) -> Self {
        Self {
            namespace: tables.text(pod.namespace).to_owned(),
            name: pod.name.to_string(),
            uid: Arc::clone(&pod.uid),
        }
    }
}

/// A request to the outside. Each uses one credit of its [`Lane`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// POSTs a Binding with the pod's uid. Result: [`crate::model::event::Event::BindFinished`].
    Bind {
        /// The pod.
        pod: PodRef,
        /// The name of the node.
        node: String,
    },
    /// Asks an extender to bind the pod. Result: [`crate::model::event::Event::BindFinished`].
    BindBy {
        /// The extender.
        extender: ExtenderId,
        /// The pod.
        pod: PodRef,
        /// The name of the node.
        node: String,
    },
    /// GETs the pod to find out whether its binding was carried out. Result:
    /// [`crate::model::event::Event::BindingQueried`].
    QueryBinding {
        /// The pod.
        pod: PodRef,
    },
    /// PATCHes a PersistentVolume or a claim so that the pod gets its volume. Result:
    /// [`crate::model::event::Event::VolumeWritten`].
    WriteVolume(VolumeWrite),
    /// Evicts a victim of preemption: PATCHes its condition, then DELETEs it. Result:
    /// [`crate::model::event::Event::EvictFinished`].
    Evict(Eviction),
    /// PATCHes the status of a PodGroup. No result event: the watch shows the change.
    PatchGroup(GroupPatch),
    /// PATCHes the pod's status. No result event: the watch shows the change.
    Patch(StatusPatch),
    /// Creates a Kubernetes Event (events.k8s.io/v1) or increases its count. No result event.
    Record(EventRecord),
    /// Calls an extender about a pod. Result: [`crate::model::event::Event::Extended`].
    Extend(ExtenderCall),
}

/// A bounded class of effects. Lanes are sent independently, so that a slow class does not delay the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Bindings, and queries of their outcome.
    Bind,
    /// Writes to volumes and claims.
    Volume,
    /// Evictions.
    Evict,
    /// Patches of the status of pods and groups.
    Status,
    /// Kubernetes Events.
    Record,
    /// Calls of extenders.
    Extend,
}

impl Lane {
    /// All lanes.
    pub const ALL: [Self; 6] =
        [Self::Bind, Self::Volume, Self::Evict, Self::Status, Self::Record, Self::Extend];

    /// Returns the name of the lane in metrics.
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
    /// Returns the lane of the effect. The effect uses one credit of it.
    pub fn lane(&self) -> Lane {
        match self {
            Self::Bind { .. } | Self::BindBy { .. } | Self::QueryBinding { .. } => Lane::Bind,
            Self::WriteVolume(_) => Lane::Volume,
            Self::Evict(_) => Lane::Evict,
            Self::Patch(_) | Self::PatchGroup(_) => Lane::Status,
            Self::Record(_) => Lane::Record,
            Self::Extend(_) => Lane::Extend,
        }
    }
}

/// A call of an extender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtenderCall {
    /// The id of the call. Its result carries the same id.
    pub call: u64,
    /// The extender.
    pub extender: ExtenderId,
    /// The pod that the call is about.
    pub pod: PodRef,
    /// The request.
    pub question: Question,
}

/// The request in a call of an extender. Nodes are given by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Asks which of these nodes are feasible for the pod.
    Filter {
        /// The nodes.
        nodes: Vec<String>,
    },
    /// Asks for scores of these nodes.
    Prioritize {
        /// The nodes.
        nodes: Vec<String>,
    },
    /// Asks on which of these nodes preemption may make room for the pod, and with which victims.
    Preempt {
        /// The candidates of preemption.
        rooms: Vec<Victims>,
    },
}

/// A candidate of preemption: a node and its victims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victims {
    /// The node's name.
    pub node: String,
    /// The victims in descending order of importance.
    pub pods: Vec<PodRef>,
    /// The number of victims whose eviction violates a disruption budget.
    pub violations: usize,
}

/// A write to a volume or a claim for a pod that has a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeWrite {
    /// The id of the write. Its result carries the same id.
    pub write: u64,
    /// The pod that needs the volume.
    pub pod: PodRef,
    /// The object and the change.
    pub change: VolumeChange,
}

/// A change of a volume or a claim. The API server rejects it if the object's resource version has changed, except for
/// [`Self::Unreserve`] and [`Self::Delete`], which name the uid only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeChange {
    /// Sets `spec.claimRef` of a volume to this claim.
    Bind {
        /// The name of the PersistentVolume.
        volume: String,
        /// Its `metadata.resourceVersion`.
        version: String,
        /// The claim.
        claim: ClaimName,
        /// Whether to set the annotation `pv.kubernetes.io/bound-by-controller` as well.
        by_controller: bool,
    },
    /// Sets the annotation `volume.kubernetes.io/selected-node` of a claim, so that its volume is provisioned for
    /// this node.
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
    /// Writes the pod to `status.reservedFor` of a ResourceClaim, and the claim's devices if they are new.
    Reserve {
        /// The claim.
        claim: ClaimName,
        /// Whether to add the finalizer `resource.kubernetes.io/delete-protection` first.
        add_finalizer: bool,
        /// The `status.allocation` to set; `None` if the claim has its devices.
        allocation: Option<Arc<Allocation>>,
        /// Whether to set `status.allocation.allocationTimestamp`, from which the time limit of binding conditions
        /// counts.
        stamps: bool,
    },
    /// Makes a ResourceClaim for the pod's extended resources, allocates it, and names it in the pod's status.
    Create {
        /// The claim's namespace.
        namespace: String,
        /// The requests of the claim: name, class and number of devices.
        requests: Vec<(String, String, i64)>,
        /// The `status.allocation` to set.
        allocation: Arc<Allocation>,
        /// `requestMappings` of the pod's status: container, resource and request.
        mappings: Vec<(String, String, String)>,
    },
    /// Removes the pod from `status.reservedFor` of a ResourceClaim. Its devices stay.
    Unreserve {
        /// The claim.
        claim: ClaimName,
    },
    /// Takes the devices from a ResourceClaim that only this pod may have reserved: clears its status.
    Deallocate {
        /// The claim.
        claim: ClaimName,
    },
    /// Deletes a ResourceClaim that was made for extended resources of the pod: removes the finalizer first.
    Delete {
        /// The claim.
        claim: ClaimName,
    },
}

/// A claim, as named in a write.
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

/// The eviction of a victim of preemption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// The victim. A pod with the same name but another uid is not evicted.
    pub pod: PodRef,
    /// The condition DisruptionTarget=True to set first; `None` if the pod already has it.
    pub condition: Option<Disruption>,
}

/// The condition DisruptionTarget=True with the reason PreemptionByScheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disruption {
    /// The message of the condition.
    pub message: String,
    /// `observedGeneration`: the pod's `metadata.generation`.
    pub observed_generation: i64,
}

/// A patch of a pod's status. It changes the condition, the nomination, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusPatch {
    /// The pod.
    pub pod: PodRef,
    /// The condition PodScheduled=False to set; `None` leaves the condition unchanged.
    pub condition: Option<Unscheduled>,
    /// The change of `nominatedNodeName`.
    pub nomination: Nomination,
}

impl StatusPatch {
    /// Merges this patch over an earlier one that was not sent: unset fields are taken from `earlier`.
    #[must_use]
    pub fn over(mut self, earlier: Self) -> Self {
        self.condition = self.condition.or(earlier.condition);
        if self.nomination == Nomination::Keep {
            self.nomination = earlier.nomination;
        }
        self
    }
}

/// A patch of a PodGroup's status: the condition that says whether the group was scheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPatch {
    /// The version of the API.
    pub api: GroupApi,
    /// `metadata.namespace` of the group.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: Uid,
    /// The condition to set.
    pub condition: GroupCondition,
    /// Whether the status of the condition changes, so that its time of transition is now.
    pub is_transition: bool,
}

/// The change of `status.nominatedNodeName` (upstream `framework.NominatingInfo`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nomination {
    /// Unchanged.
    Keep,
    /// Removed.
    Clear,
    /// Set to the node with this name.
    Set(String),
}

/// The condition PodScheduled=False.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unscheduled {
    /// `Unschedulable` or `SchedulerError`.
    pub reason: &'static str,
    /// The full message, of any length.
    pub message: String,
    /// `observedGeneration`: the pod's `metadata.generation`.
    pub observed_generation: i64,
    /// The existing `lastTransitionTime`, kept if PodScheduled was already False; `None` if it becomes False now.
    pub since: Option<String>,
}

/// A Kubernetes Event about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// The pod.
    pub pod: PodRef,
    /// `metadata.resourceVersion` of the pod at the decision.
    pub resource_version: String,
    /// The name of the profile, used as the reporting controller.
    pub scheduler_name: String,
    /// `Normal` or `Warning`.
    pub severity: Severity,
    /// For example `FailedScheduling`.
    pub reason: &'static str,
    /// For example `Scheduling`.
    pub action: &'static str,
    /// The text, before truncation to the API's limit.
    pub note: String,
    /// `related`.
    pub related: Option<Box<Related>>,
}

/// Another object that an Event names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Related {
    /// `apiVersion`.
    pub api_version: &'static str,
    /// `kind`.
    pub kind: &'static str,
    /// Its namespace, name and uid.
    pub object: PodRef,
    /// `metadata.resourceVersion`; empty if it is not known.
    pub resource_version: String,
}

/// The type of a Kubernetes Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// `Normal`.
    Normal,
    /// `Warning`.
    Warning,
}

impl Severity {
    /// Returns the type as the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}
