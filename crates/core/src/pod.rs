//! Pods as the engine sees them: ids and numbers, parsed once.

use crate::intern::{LabelSetId, Symbol};
use crate::node::{Taint, TaintEffect};
use crate::resources::PodResources;
use crate::selector::{NodeSelectorTerm, RequiredNodeAffinity, Selector};
use crate::shared::Shared;
use crate::time::Time;
use crate::version::Version;
use crate::volume::PodVolume;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A pod's uid.
pub type Uid = Arc<str>;

/// A pod object, reduced to what a decision reads and what an answer about it must name.
///
/// Here is what pods have each for themselves; the rest is in their template, which the pods of a controller share. Its fields read,
/// and are written, as the pod's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodInfo {
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.name`.
    pub name: Box<str>,
    /// `metadata.resourceVersion`, for the events about this pod.
    pub resource_version: Version,
    /// `metadata.generation`, for `observedGeneration` of its condition.
    pub generation: i64,
    /// `metadata.labels`. A StatefulSet gives each of its pods others.
    pub labels: LabelSetId,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// Whether the first condition DisruptionTarget is True for the reason PreemptionByScheduler.
    pub preempted: bool,
    /// `spec.nodeName`.
    pub node_name: Option<Symbol>,
    /// `status.nominatedNodeName`.
    pub nominated_node: Option<Symbol>,
    /// `status.startTime`; `None` until a kubelet has taken the pod in.
    pub start_time: Option<Time>,
    /// `spec.nodeSelector` and required node affinity. A DaemonSet gives each of its pods another, that of its node.
    pub node_affinity: Shared<RequiredNodeAffinity>,
    /// `spec.volumes`, those with a say in where the pod may go, in order. A StatefulSet gives each of its pods others.
    pub volumes: Box<[PodVolume]>,
    /// The PodScheduled condition as the API server has it.
    pub scheduled: Option<Box<ScheduledCondition>>,
    /// What pods that were made alike share.
    pub template: Shared<PodTemplate>,
}

/// What the pods of a controller have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodTemplate {
    /// `metadata.namespace`.
    pub namespace: Symbol,
    /// The controlling owner, where it is of a kind that constrains default spreading.
    pub owner: Option<Controller>,
    /// `spec.schedulerName`.
    pub scheduler_name: Symbol,
    /// `spec.priority`; 0 when absent.
    pub priority: i32,
    /// Whether `spec.preemptionPolicy` is Never.
    pub never_preempts: bool,
    /// Names of `spec.schedulingGates`, in order.
    pub gates: Box<[Symbol]>,
    /// What the pod asks for and takes.
    pub resources: PodResources,
    /// Host ports of regular and restartable init containers.
    pub ports: Box<[HostPort]>,
    /// `spec.tolerations`.
    pub tolerations: Box<[Toleration]>,
    /// Preferred node affinity; `None` when the field is absent.
    pub preferred_node_affinity: Option<Parsed<PreferredNodeTerm>>,
    /// Pod affinity and anti-affinity; `None` when both are absent.
    pub pod_affinity: Option<Box<PodAffinity>>,
    /// `spec.topologySpreadConstraints`.
    pub spread: Box<[SpreadConstraint]>,
    /// Normalized names of the images of init containers, containers and image volumes, repeated as they are.
    pub images: Box<[Symbol]>,
    /// Number of init containers and containers.
    pub containers: u32,
    /// Features of the kubelet that the spec presumes (`component-helpers/nodedeclaredfeatures`), in a fixed order.
    pub required_features: Box<[Symbol]>,
    /// Names of the extended resources that containers and init containers request or limit, by which extenders know their
    /// pods; in no meaningful order.
    pub extended_resources: Box<[Symbol]>,
    /// What the pod needs that no plugin of this version judges; it is not placed by guess.
    pub unjudged: Box<[Unjudged]>,
}

impl PodTemplate {
    /// That of a pod of one container that asks for nothing and minds nothing: what others begin with.
    pub fn plain(namespace: Symbol, scheduler_name: Symbol) -> Self {
        Self {
            namespace,
            owner: None,
            scheduler_name,
            priority: 0,
            never_preempts: false,
            gates: [].into(),
            resources: PodResources::default(),
            ports: [].into(),
            tolerations: [].into(),
            preferred_node_affinity: None,
            pod_affinity: None,
            spread: [].into(),
            images: [].into(),
            containers: 1,
            required_features: [].into(),
            extended_resources: [].into(),
            unjudged: [].into(),
        }
    }
}

impl Hash for PodTemplate {
    /// Reads what tells templates apart, since each pod that comes is looked up by it; equality has the last word.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let asked = &self.resources.request;
        let amounts = [asked.cpu_milli, asked.memory, asked.ephemeral_storage, i64::from(self.priority)];
        amounts.hash(state);
        asked.scalar.hash(state);
        (self.namespace, self.scheduler_name, self.owner).hash(state);
        (&self.gates, &self.ports, &self.tolerations, &self.images).hash(state);
        (&self.preferred_node_affinity, &self.pod_affinity, &self.spread, &self.unjudged).hash(state);
    }
}

impl Deref for PodInfo {
    type Target = PodTemplate;

    fn deref(&self) -> &PodTemplate {
        &self.template
    }
}

/// Who writes a field of the template gives the pod one of its own.
impl DerefMut for PodInfo {
    fn deref_mut(&mut self) -> &mut PodTemplate {
        &mut self.template
    }
}

impl PodInfo {
    /// Whether the pod is on a node, or on its way there by someone's word.
    pub fn is_assigned(&self) -> bool {
        self.node_name.is_some()
    }

    /// Whether `other`, a version of the same pod, is the same to every other pod: what it takes, and what it demands of
    /// those that come. Status and bookkeeping may differ.
    pub fn is_same_to_others(&self, other: &Self) -> bool {
        self.node_name == other.node_name && self.is_same_but_for_node(other)
    }

    /// As [`Self::is_same_to_others`], wherever they are.
    pub fn is_same_but_for_node(&self, other: &Self) -> bool {
        self.namespace == other.namespace
            && self.labels == other.labels
            && self.deleting == other.deleting
            && self.priority == other.priority
            && self.resources == other.resources
            && self.ports == other.ports
            && self.tolerations == other.tolerations
            && self.pod_affinity == other.pod_affinity
            && self.volumes == other.volumes
    }

    /// Whether the pod has required anti-affinity terms.
    pub fn has_required_anti_affinity(&self) -> bool {
        let terms = self.pod_affinity.as_ref().map(|a| &a.required_anti_affinity);
        terms.is_some_and(|terms| terms.as_ref().is_ok_and(|t| !t.is_empty()))
    }
}

/// Something a pod needs that no plugin of this version judges.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unjudged {
    /// The plugin of upstream's that judges it: `DynamicResources` for `spec.resourceClaims`.
    pub plugin: &'static str,
    /// The text for people, for example
    /// `resource claim "gpu" is used, and this version of supercargo does not place pods with resource claims`.
    pub what: Box<str>,
}

/// A list parsed from the API, or the text of the error that voids the whole list.
pub type Parsed<T> = Result<Box<[T]>, Box<str>>;

/// A controlling owner of a kind whose selector joins the default spreading selector (`plugins.md` 6.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Controller {
    /// What it is.
    pub kind: ControllerKind,
    /// Its name, in the pod's namespace.
    pub name: Symbol,
}

/// The kinds of [`Controller`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ControllerKind {
    /// `v1 ReplicationController`.
    ReplicationController,
    /// `apps/v1 ReplicaSet`.
    ReplicaSet,
    /// `apps/v1 StatefulSet`.
    StatefulSet,
}

/// A port on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// The address; `known::ANY_ADDRESS` when none is given.
    pub address: Symbol,
    /// The protocol; `known::TCP` when none is given.
    pub protocol: Symbol,
    /// The port, greater than 0.
    pub port: i32,
}

/// A toleration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Toleration {
    /// The taint key; `None` tolerates every key.
    pub key: Option<Symbol>,
    /// How the value is compared.
    pub operator: TolerationOperator,
    /// The value; the empty text when absent.
    pub value: Symbol,
    /// The effect; `None` tolerates every effect.
    pub effect: Option<TaintEffect>,
}

/// How a toleration compares values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TolerationOperator {
    /// Values must be equal; the default.
    Equal,
    /// Any value.
    Exists,
    /// `Lt`, `Gt` and unknown words: never tolerates with default feature gates.
    Never,
}

impl Toleration {
    /// Whether this tolerates `taint` (upstream `api/core/v1/toleration.go#ToleratesTaint`).
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.effect.is_none_or(|effect| effect == taint.effect)
            && self.key.is_none_or(|key| key == taint.key)
            && match self.operator {
                TolerationOperator::Equal => self.value == taint.value,
                TolerationOperator::Exists => true,
                TolerationOperator::Never => false,
            }
    }
}

/// A preferred node selector term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PreferredNodeTerm {
    /// What a matching node gains.
    pub weight: i32,
    /// What must match.
    pub term: NodeSelectorTerm,
}

/// A pod's `podAffinity` and `podAntiAffinity`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodAffinity {
    /// `podAffinity.requiredDuringSchedulingIgnoredDuringExecution`.
    pub required_affinity: Parsed<PodAffinityTerm>,
    /// `podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution`.
    pub required_anti_affinity: Parsed<PodAffinityTerm>,
    /// `podAffinity.preferredDuringSchedulingIgnoredDuringExecution`.
    pub preferred_affinity: Parsed<WeightedPodAffinityTerm>,
    /// `podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution`.
    pub preferred_anti_affinity: Parsed<WeightedPodAffinityTerm>,
}

/// A pod affinity term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodAffinityTerm {
    /// Namespaces by name; the pod's own when neither names nor a selector are given.
    pub namespaces: Box<[Symbol]>,
    /// `namespaceSelector`; [`Selector::Nothing`] when absent.
    pub namespace_selector: Selector,
    /// `labelSelector`; [`Selector::Nothing`] when absent.
    pub selector: Selector,
    /// The node label whose values are the domains.
    pub topology_key: Symbol,
}

/// A preferred pod affinity term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WeightedPodAffinityTerm {
    /// The term.
    pub term: PodAffinityTerm,
    /// Its weight.
    pub weight: i32,
}

/// A topology spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SpreadConstraint {
    /// `maxSkew`.
    pub max_skew: i32,
    /// The node label whose values are the domains.
    pub topology_key: Symbol,
    /// `whenUnsatisfiable`.
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// `labelSelector` with `matchLabelKeys` folded in, or why it cannot be parsed.
    pub selector: Result<Selector, Box<str>>,
    /// `minDomains`; 1 when absent.
    pub min_domains: i32,
    /// `nodeAffinityPolicy` is not Ignore: nodes the pod's node affinity excludes are not counted.
    pub honor_node_affinity: bool,
    /// `nodeTaintsPolicy` is Honor: nodes with taints the pod does not tolerate are not counted.
    pub honor_node_taints: bool,
}

/// What a spread constraint is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WhenUnsatisfiable {
    /// A filter.
    DoNotSchedule,
    /// A score.
    ScheduleAnyway,
    /// A word upstream does not know: the constraint does nothing, and still counts as one of the pod's own.
    Unknown,
}

/// The PodScheduled condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledCondition {
    /// `status`: `True`, `False` or `Unknown`.
    pub status: Box<str>,
    /// `reason`.
    pub reason: Box<str>,
    /// `message`.
    pub message: Box<str>,
    /// `lastTransitionTime`, as the API server writes it; empty when absent.
    pub last_transition_time: Box<str>,
}
