//! Pods in the engine's model: ids and numbers, parsed once.

use crate::collections::shared::Shared;
use crate::collections::thin_list::ThinList;
use crate::model::device::{ContainerRequest, PodClaim};
use crate::model::group::{GroupKey, Membership};
use crate::model::intern::{LabelSetId, Symbol, holds_no_ids, trace_ids};
use crate::model::node::{Taint, TaintEffect};
use crate::model::resources::PodResources;
use crate::model::selector::{NodeSelectorTerm, RequiredNodeAffinity, Selector};
use crate::model::time::Time;
use crate::model::version::Version;
use crate::model::volume::PodVolume;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A pod's uid.
pub type Uid = Arc<str>;

/// A pod, reduced to what decisions read and what writes about it must name.
///
/// Fields that differ from pod to pod are here. The others are in the template, which the pods of one
/// controller share. The template's fields are accessible through `Deref`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodInfo {
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.name`.
    pub name: Box<str>,
    /// `metadata.resourceVersion`, for Kubernetes Events about this pod.
    pub resource_version: Version,
    /// `metadata.generation`, for `observedGeneration` of its condition.
    pub generation: i64,
    /// `metadata.labels`. A StatefulSet gives each of its pods different labels.
    pub labels: LabelSetId,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// Whether the first condition DisruptionTarget is True for the reason PreemptionByScheduler.
    pub preempted: bool,
    /// `spec.nodeName`.
    pub node_name: Option<Symbol>,
    /// `status.nominatedNodeName`.
    pub nominated_node: Option<Symbol>,
    /// `status.startTime`; `None` until a kubelet has accepted the pod.
    pub start_time: Option<Time>,
    /// `spec.nodeSelector` and required node affinity. A DaemonSet gives each of its pods the affinity to its
    /// node.
    pub node_affinity: Shared<RequiredNodeAffinity>,
    /// Those entries of `spec.volumes` that restrict placement, in order. A StatefulSet gives each of its
    /// pods different volumes.
    pub volumes: ThinList<PodVolume>,
    /// `spec.resourceClaims`, in order.
    pub claims: ThinList<PodClaim>,
    /// The PodScheduled condition as last seen from the API server.
    pub scheduled: Option<Box<ScheduledCondition>>,
    /// `spec.schedulingGroup`, if groups are enabled.
    pub group: Option<Box<Membership>>,
    /// The fields that pods of one controller share.
    pub template: Shared<PodTemplate>,
}

/// The fields that pods of one controller share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodTemplate {
    /// `metadata.namespace`.
    pub namespace: Symbol,
    /// The controlling owner, if its kind contributes to the default spreading selector.
    pub owner: Option<Controller>,
    /// `spec.schedulerName`.
    pub scheduler_name: Symbol,
    /// `spec.priority`; 0 when absent.
    pub priority: i32,
    /// Whether `spec.preemptionPolicy` is Never.
    pub never_preempts: bool,
    /// Names of `spec.schedulingGates`, in order.
    pub gates: Box<[Symbol]>,
    /// Resource requests and reservations of the pod.
    pub resources: PodResources,
    /// Host ports of regular and restartable init containers.
    pub ports: Box<[HostPort]>,
    /// `spec.tolerations`.
    pub tolerations: Box<[Toleration]>,
    /// Preferred node affinity; `None` when the field is absent.
    pub preferred_node_affinity: Option<PreferredTerms>,
    /// Pod affinity and anti-affinity; `None` when both are absent.
    pub pod_affinity: Option<Box<PodAffinity>>,
    /// `spec.topologySpreadConstraints`.
    pub spread: Box<[SpreadConstraint]>,
    /// Normalized names of the images of init containers, containers and image volumes, repeated as they are.
    pub images: Box<[Symbol]>,
    /// Number of images that count in the limit of ImageLocality: init containers, containers, and image volumes from
    /// 1.37 on.
    pub image_sources: u32,
    /// Kubelet features that the spec requires (`component-helpers/nodedeclaredfeatures`), in a fixed order.
    pub required_features: Box<[Symbol]>,
    /// Names of extended resources that containers and init containers request or limit, unordered. Extenders
    /// select their pods by them.
    pub extended_resources: Box<[Symbol]>,
    /// The requests of each container for extended resources, by container and then by name.
    pub container_requests: Box<[ContainerRequest]>,
}

impl PodTemplate {
    /// The template of a pod with one container and no requests or constraints, as a base for others.
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
            image_sources: 1,
            required_features: [].into(),
            extended_resources: [].into(),
            container_requests: [].into(),
        }
    }
}

impl Hash for PodTemplate {
    /// Hashes only fields that distinguish most templates; equality compares all.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let asked = &self.resources.request;
        let amounts = [asked.cpu_milli, asked.memory, asked.ephemeral_storage, i64::from(self.priority)];
        amounts.hash(state);
        asked.scalar.hash(state);
        (self.namespace, self.scheduler_name, self.owner).hash(state);
        (&self.gates, &self.ports, &self.tolerations, &self.images).hash(state);
        (&self.preferred_node_affinity, &self.pod_affinity, &self.spread).hash(state);
    }
}

impl Deref for PodInfo {
    type Target = PodTemplate;

    fn deref(&self) -> &PodTemplate {
        &self.template
    }
}

/// Writing a template field gives the pod its own copy of the template.
impl DerefMut for PodInfo {
    fn deref_mut(&mut self) -> &mut PodTemplate {
        &mut self.template
    }
}

impl PodInfo {
    /// Whether the pod is bound to a node or assumed there.
    pub fn is_assigned(&self) -> bool {
        self.node_name.is_some()
    }

    /// Whether `other`, a version of the same pod, has the same effect on other pods: node, requests and
    /// terms.
    ///
    /// Status and metadata that no other pod depends on may differ.
    pub fn is_same_to_others(&self, other: &Self) -> bool {
        self.node_name == other.node_name && self.is_same_but_for_node(other)
    }

    /// Like [`Self::is_same_to_others`], but the nodes may differ.
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

    /// Returns the group that the pod names, if groups are enabled.
    pub fn group_key(&self) -> Option<GroupKey> {
        let membership = self.group.as_ref()?;
        Some(GroupKey { namespace: self.namespace, name: membership.group })
    }

    /// Whether the pod has required anti-affinity terms.
    pub fn has_required_anti_affinity(&self) -> bool {
        let terms = self.pod_affinity.as_ref().map(|a| &a.required_anti_affinity);
        terms.is_some_and(|terms| terms.as_ref().is_ok_and(|t| !t.is_empty()))
    }
}

/// What affinity terms and topology spread constraints read of a pod.
#[derive(Clone, Copy, Debug)]
pub struct PodFacets<'a> {
    /// `metadata.namespace`.
    pub namespace: Symbol,
    /// `metadata.labels`.
    pub labels: LabelSetId,
    /// Whether `metadata.deletionTimestamp` is set.
    pub is_deleting: bool,
    /// Pod affinity and anti-affinity; `None` when both are absent.
    pub affinity: Option<&'a PodAffinity>,
}

impl<'a> From<&'a PodInfo> for PodFacets<'a> {
    fn from(pod: &'a PodInfo) -> Self {
        let affinity = pod.pod_affinity.as_deref();
        Self { namespace: pod.namespace, labels: pod.labels, is_deleting: pod.deleting, affinity }
    }
}

/// A list parsed from the API, or the error text that invalidates the whole list.
pub type Parsed<T> = Result<Box<[T]>, Box<str>>;

/// The parsed preferred node affinity of a pod. A cached rule shares the terms, of which a pod may have thousands.
pub type PreferredTerms = Result<Arc<[PreferredNodeTerm]>, Box<str>>;

/// A controlling owner whose selector contributes to the default spreading selector
/// (upstream `helper.DefaultSelector`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Controller {
    /// Its kind.
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

/// A host port of a container.
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
    /// `Lt`, `Gt` and unknown operators: never tolerates with default feature gates.
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
    /// The weight added for a matching node.
    pub weight: i32,
    /// The term to match.
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
    /// `labelSelector` merged with `matchLabelKeys`, or the parse error.
    pub selector: Result<Selector, Box<str>>,
    /// `minDomains`; 1 when absent.
    pub min_domains: i32,
    /// Whether `nodeAffinityPolicy` is not Ignore: nodes that the pod's node affinity excludes are not
    /// counted.
    pub honor_node_affinity: bool,
    /// Whether `nodeTaintsPolicy` is Honor: nodes with taints that the pod does not tolerate are not counted.
    pub honor_node_taints: bool,
}

/// The effect of an unsatisfied spread constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WhenUnsatisfiable {
    /// A hard constraint: Filter rejects the node.
    DoNotSchedule,
    /// A soft constraint: Score prefers lower skew.
    ScheduleAnyway,
    /// A value unknown upstream: the constraint has no effect, but still replaces the default constraints.
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

trace_ids!(PodInfo { labels, node_name, nominated_node, node_affinity, volumes, claims, group, template } but not {
    uid, name, resource_version, generation, deleting, preempted, start_time, scheduled
});
trace_ids!(PodTemplate {
    namespace, owner, scheduler_name, gates, resources, ports, tolerations, preferred_node_affinity, pod_affinity, spread, images,
    required_features, extended_resources, container_requests
} but not { priority, never_preempts, image_sources });
trace_ids!(Controller { name } but not { kind });
trace_ids!(HostPort { address, protocol } but not { port });
trace_ids!(Toleration { key, value, effect } but not { operator });
trace_ids!(PreferredNodeTerm { term } but not { weight });
trace_ids!(PodAffinity {
    required_affinity,
    required_anti_affinity,
    preferred_affinity,
    preferred_anti_affinity
});
trace_ids!(PodAffinityTerm { namespaces, namespace_selector, selector, topology_key });
trace_ids!(WeightedPodAffinityTerm { term } but not { weight });
trace_ids!(SpreadConstraint { topology_key, selector } but not {
    max_skew, when_unsatisfiable, min_domains, honor_node_affinity, honor_node_taints
});
holds_no_ids!(ControllerKind);
