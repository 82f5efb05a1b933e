//! A single change that a person can make: how it applies to the pod or node, and how it is described.

use crate::explain::format::{self, pair, requirement, resource};
use crate::explain::volumes::size;
use std::sync::Arc;
use supercargo_core::framework::Measure;
use supercargo_core::model::device::{PodClaim, PodClaimSource, ResourceClaim};
use supercargo_core::model::intern::{Symbol, Tables, known};
use supercargo_core::model::node::{NodeIdx, NodeInfo, Taint, TaintEffect};
use supercargo_core::model::pod::{
    PodAffinityTerm, PodInfo, Toleration, TolerationOperator, WeightedPodAffinityTerm, WhenUnsatisfiable,
};
use supercargo_core::model::resources::Resources;
use supercargo_core::model::selector::{Requirement, Selector};
use supercargo_core::model::volume::{ClaimInfo, VolumeSource};

/// A change to the pod, to a node, or to the set of pods and nodes.
#[derive(Clone, Debug)]
pub enum Edit {
    /// Add a toleration for the taint to the pod.
    Tolerate(Taint),
    /// Replace a label in `spec.nodeSelector`.
    SelectInstead { from: (Symbol, Symbol), to: (Symbol, Symbol) },
    /// Remove a label from `spec.nodeSelector`.
    SelectLess { from: (Symbol, Symbol) },
    /// Replace a requirement in a term of the required node affinity.
    TermInstead { term: usize, from: Requirement, to: Requirement },
    /// Remove a requirement from a term of the required node affinity.
    TermLess { term: usize, from: Requirement },
    /// Replace a requirement in the selectors of required pod affinity.
    PeerInstead { from: Requirement, to: Requirement },
    /// Replace a topology key in spread constraints and required pod affinity.
    KeyInstead { from: Symbol, to: Symbol },
    /// Lower the pod's request.
    Ask { of: Measure, to: i64 },
    /// Make the spread constraints of this key soft (`ScheduleAnyway`).
    SpreadSoftly { key: Symbol },
    /// Raise `maxSkew` of the spread constraints of this key.
    MaxSkew { key: Symbol, to: i32 },
    /// Exclude nodes with untolerated taints from the spread constraints of this key.
    HonorTaints { key: Symbol },
    /// Make the required anti-affinity of this key preferred.
    AvoidSoftly { key: Symbol, selector: Selector },
    /// Make the required affinity of this key preferred.
    JoinSoftly { key: Symbol, selector: Selector },
    /// Set a label on the node.
    Label { node: NodeIdx, key: Symbol, value: Symbol },
    /// Remove a taint from the node.
    Untaint { node: NodeIdx, taint: Taint },
    /// Uncordon the node.
    Uncordon { node: NodeIdx },
    /// Cordon the node. Used for drain checks, never suggested.
    Cordon { node: NodeIdx },
    /// Increase a resource of the node.
    Grow { node: NodeIdx, of: Measure, by: i64 },
    /// Add a node like this one.
    NodeLike { like: NodeIdx, name: String },
    /// Add a node like this one with more allocatable resources.
    BiggerNode { like: NodeIdx, name: String, with: Vec<(Measure, i64)> },
    /// Replace a claim in the pod's volumes.
    ClaimInstead { from: Symbol, to: Symbol },
    /// Replace a ResourceClaim of the pod.
    DeviceClaimInstead { from: Symbol, to: Symbol },
    /// Change ResourceClaims.
    Claims(ClaimEdit),
    /// Create a PersistentVolume that matches the claim.
    CreateVolume { claim: Arc<ClaimInfo> },
    /// Remove pods from a node, by preemption or by hand.
    Remove { pods: Vec<Arc<PodInfo>>, from: NodeIdx, by_preemption: bool },
}

/// A change of ResourceClaims.
#[derive(Clone, Debug)]
pub struct ClaimEdit {
    /// The stable code of the change.
    pub code: &'static str,
    /// The effort, as of [`Edit::rank`].
    pub rank: u32,
    /// The claims after the change.
    pub claims: Vec<Arc<ResourceClaim>>,
    /// The description.
    pub text: String,
    /// A command or manifest fragment, if any.
    pub how: Option<String>,
}

impl Edit {
    /// Returns the node it changes, if it changes one.
    pub fn node(&self) -> Option<NodeIdx> {
        match self {
            Self::Label { node, .. }
            | Self::Untaint { node, .. }
            | Self::Uncordon { node }
            | Self::Cordon { node }
            | Self::Grow { node, .. } => Some(*node),
            _ => None,
        }
    }

    /// Returns whether the API server rejects the change as an update of an existing pod (upstream
    /// `pkg/apis/core/validation/validation.go#ValidatePodUpdate`). It accepts new tolerations.
    pub fn needs_new_pod(&self) -> bool {
        match self {
            Self::SelectInstead { .. }
            | Self::SelectLess { .. }
            | Self::TermInstead { .. }
            | Self::TermLess { .. }
            | Self::PeerInstead { .. }
            | Self::KeyInstead { .. }
            | Self::Ask { .. }
            | Self::SpreadSoftly { .. }
            | Self::MaxSkew { .. }
            | Self::HonorTaints { .. }
            | Self::AvoidSoftly { .. }
            | Self::JoinSoftly { .. }
            | Self::ClaimInstead { .. }
            | Self::DeviceClaimInstead { .. } => true,
            Self::Tolerate(_)
            | Self::Label { .. }
            | Self::Untaint { .. }
            | Self::Uncordon { .. }
            | Self::Cordon { .. }
            | Self::Grow { .. }
            | Self::NodeLike { .. }
            | Self::BiggerNode { .. }
            | Self::Claims(_)
            | Self::CreateVolume { .. }
            | Self::Remove { .. } => false,
        }
    }

    /// Returns the effort of the change, lower first, for ordering combinations of equal length.
    pub fn rank(&self, tables: &Tables) -> u32 {
        match self {
            // Control plane nodes are kept free on purpose.
            Self::Tolerate(taint) | Self::Untaint { taint, .. }
                if tables.text(taint.key) == crate::explain::CONTROL_PLANE_TAINT =>
            {
                7
            }
            Self::SelectInstead { .. }
            | Self::TermInstead { .. }
            | Self::PeerInstead { .. }
            | Self::KeyInstead { .. }
            | Self::DeviceClaimInstead { .. }
            | Self::ClaimInstead { .. } => 0,
            Self::Claims(edit) => edit.rank,
            Self::Uncordon { .. } | Self::Cordon { .. } => 1,
            Self::Tolerate(_) | Self::Label { .. } => 2,
            Self::Remove { by_preemption: true, .. } => 2,
            Self::Untaint { .. } | Self::Ask { .. } | Self::HonorTaints { .. } => 3,
            Self::AvoidSoftly { .. }
            | Self::JoinSoftly { .. }
            | Self::SpreadSoftly { .. }
            | Self::MaxSkew { .. } => 4,
            Self::Remove { .. }
            | Self::NodeLike { .. }
            | Self::BiggerNode { .. }
            | Self::CreateVolume { .. } => 5,
            Self::Grow { .. } | Self::SelectLess { .. } | Self::TermLess { .. } => 6,
        }
    }

    /// Returns the stable code of the change.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Tolerate(_) => "AddToleration",
            Self::SelectInstead { .. } | Self::TermInstead { .. } => "CorrectNodeLabel",
            Self::SelectLess { .. } | Self::TermLess { .. } => "DropNodeLabel",
            Self::PeerInstead { .. } => "CorrectPodLabel",
            Self::KeyInstead { .. } => "CorrectTopologyKey",
            Self::Ask { .. } => "LowerRequest",
            Self::SpreadSoftly { .. } => "SoftenSpread",
            Self::MaxSkew { .. } => "RaiseMaxSkew",
            Self::HonorTaints { .. } => "HonorTaints",
            Self::AvoidSoftly { .. } => "SoftenAntiAffinity",
            Self::JoinSoftly { .. } => "SoftenAffinity",
            Self::Label { .. } => "LabelNode",
            Self::Untaint { .. } => "RemoveTaint",
            Self::Uncordon { .. } => "Uncordon",
            Self::Cordon { .. } => "Cordon",
            Self::Grow { .. } => "GrowNode",
            Self::NodeLike { .. } | Self::BiggerNode { .. } => "AddNode",
            Self::ClaimInstead { .. } | Self::DeviceClaimInstead { .. } => "CorrectClaim",
            Self::Claims(edit) => edit.code,
            Self::CreateVolume { .. } => "CreateVolume",
            Self::Remove { by_preemption: true, .. } => "Preempt",
            Self::Remove { .. } => "RemovePod",
        }
    }

    /// Returns whether this change needs no more than the other: it is equal, or lowers a request or raises a node's
    /// resource by at most as much.
    pub fn is_at_most(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Ask { of, to }, Self::Ask { of: other, to: least }) => of == other && to >= least,
            (Self::Grow { of, by, .. }, Self::Grow { of: other, by: most, .. }) => of == other && by <= most,
            _ => format!("{self:?}") == format!("{other:?}"),
        }
    }

    /// Applies the change to the pod, if it is a change of the pod.
    pub fn on_pod(&self, pod: &mut PodInfo) {
        match self {
            Self::Tolerate(taint) => tolerate(pod, taint),
            Self::SelectInstead { from, to } => {
                for pair in pod.node_affinity.node_selector.iter_mut().flatten().filter(|pair| *pair == from)
                {
                    *pair = *to;
                }
            }
            Self::SelectLess { from } => {
                if let Some(pairs) = &mut pod.node_affinity.node_selector {
                    *pairs = pairs.iter().filter(|pair| *pair != from).copied().collect();
                }
            }
            Self::TermInstead { term, from, to } => in_term(pod, *term, |list| {
                list.iter().map(|each| if each == from { to } else { each }.clone()).collect()
            }),
            Self::TermLess { term, from } => {
                in_term(pod, *term, |list| list.iter().filter(|each| *each != from).cloned().collect());
            }
            Self::PeerInstead { from, to } => {
                for term in required_terms(pod, true) {
                    replace(&mut term.selector, from, to);
                }
            }
            Self::KeyInstead { from, to } => {
                for each in pod.spread.iter_mut().filter(|each| each.topology_key == *from) {
                    each.topology_key = *to;
                }
                for term in required_terms(pod, true).iter_mut().filter(|term| term.topology_key == *from) {
                    term.topology_key = *to;
                }
            }
            Self::Ask { of, to } => {
                set(&mut pod.resources.request, *of, *to);
                set(&mut pod.resources.placed, *of, *to);
            }
            Self::SpreadSoftly { key } => {
                for each in pod.spread.iter_mut().filter(|each| each.topology_key == *key) {
                    each.when_unsatisfiable = WhenUnsatisfiable::ScheduleAnyway;
                }
            }
            Self::MaxSkew { key, to } => {
                for each in pod.spread.iter_mut().filter(|each| each.topology_key == *key) {
                    each.max_skew = *to;
                }
            }
            Self::HonorTaints { key } => {
                for each in pod.spread.iter_mut().filter(|each| each.topology_key == *key) {
                    each.honor_node_taints = true;
                }
            }
            Self::ClaimInstead { from, to } => {
                for volume in pod.volumes.iter_mut().filter(|volume| volume.named_claim() == Some(*from)) {
                    volume.source = VolumeSource::Claim(*to);
                }
            }
            Self::DeviceClaimInstead { from, to } => {
                let named = |entry: &&mut PodClaim| entry.source == PodClaimSource::Named(*from);
                for entry in pod.claims.iter_mut().filter(named) {
                    entry.source = PodClaimSource::Named(*to);
                }
            }
            Self::AvoidSoftly { key, selector } => soften(pod, false, *key, selector),
            Self::JoinSoftly { key, selector } => soften(pod, true, *key, selector),
            _ => {}
        }
    }

    /// Applies the change to the node, if it is a change of a node.
    pub fn on_node(&self, node: &mut NodeInfo, tables: &mut Tables) {
        match self {
            Self::Label { key, value, .. } => {
                let others = tables.labels(node.labels).iter().filter(|(other, _)| other != key);
                let pairs = others.chain([(*key, *value)]).collect();
                node.labels = tables.label_set(pairs);
            }
            Self::Untaint { taint, .. } => {
                let left =
                    tables.taints(node.taints).iter().filter(|other| *other != taint).copied().collect();
                node.taints = tables.taint_set(left);
            }
            Self::Uncordon { .. } => {
                node.unschedulable = false;
                // The node lifecycle controller also removes the taint.
                let is_left = |taint: &&Taint| taint.key != known::UNSCHEDULABLE;
                let left = tables.taints(node.taints).iter().filter(is_left).copied().collect();
                node.taints = tables.taint_set(left);
            }
            Self::Cordon { .. } => {
                node.unschedulable = true;
                let effect = TaintEffect::NoSchedule;
                let new = Taint { key: known::UNSCHEDULABLE, value: known::EMPTY, effect };
                let taints = tables.taints(node.taints).iter().copied().filter(|taint| *taint != new);
                let taints = taints.chain([new]).collect();
                node.taints = tables.taint_set(taints);
            }
            Self::Grow { of: Measure::Pods, by, .. } => node.allocatable_pods += by,
            Self::Grow { of, by, .. } => {
                let has = get(&node.allocatable, *of);
                set(&mut node.allocatable, *of, has.saturating_add(*by));
            }
            _ => {}
        }
    }

    /// Returns the description of the change.
    // long because: one arm per change, in the order of the variants
    pub fn text(
        &self,
        tables: &Tables,
        name: impl Fn(NodeIdx) -> String,
        key: impl Fn(&PodInfo) -> String,
    ) -> String {
        match self {
            Self::Tolerate(taint) => format!("add a toleration for {}", format::taint(tables, taint)),
            Self::SelectInstead { from, to } => {
                format!(
                    "use {} in nodeSelector instead of {}",
                    pair(tables, to.0, to.1),
                    pair(tables, from.0, from.1)
                )
            }
            Self::SelectLess { from } => format!("remove {} from nodeSelector", pair(tables, from.0, from.1)),
            Self::TermInstead { from, to, .. } => {
                format!(
                    "require {} instead of {} in the node affinity",
                    requirement(tables, to),
                    requirement(tables, from)
                )
            }
            Self::TermLess { from, .. } => {
                format!("remove {} from the node affinity", requirement(tables, from))
            }
            Self::PeerInstead { from, to } => format!(
                "select pods with {} instead of {} in the pod affinity",
                requirement(tables, to),
                requirement(tables, from)
            ),
            Self::KeyInstead { from, to } => {
                format!("use topologyKey {} instead of {}", tables.text(*to), tables.text(*from))
            }
            Self::Ask { of, to } => {
                format!("lower the total request to {} {}", format::exact(*of, *to), resource(tables, *of))
            }
            Self::SpreadSoftly { key } => {
                format!("use whenUnsatisfiable: ScheduleAnyway for the spread over {}", tables.text(*key))
            }
            Self::MaxSkew { key, to } => format!("raise maxSkew to {to} over {}", tables.text(*key)),
            Self::HonorTaints { key } => {
                let key = tables.text(*key);
                format!("do not count nodes with untolerated taints in the spread over {key}")
            }
            Self::AvoidSoftly { key, .. } => {
                format!(
                    "make the anti-affinity over {} preferred instead of required, in all replicas",
                    tables.text(*key)
                )
            }
            Self::JoinSoftly { key, .. } => {
                format!("make the pod affinity over {} preferred, not required", tables.text(*key))
            }
            Self::Label { node, key, value } => {
                format!("label node {} with {}", name(*node), pair(tables, *key, *value))
            }
            Self::Untaint { node, taint } => {
                format!("remove the taint {} from {}", format::taint(tables, taint), name(*node))
            }
            Self::Uncordon { node } => format!("uncordon {}", name(*node)),
            Self::Cordon { node } => format!("cordon {}", name(*node)),
            Self::Grow { node, of, by } => {
                format!("add {} {} to {}", format::exact(*of, *by), resource(tables, *of), name(*node))
            }
            Self::NodeLike { like, .. } => format!("add a node like {}", name(*like)),
            Self::BiggerNode { like, with, .. } => {
                let each = with
                    .iter()
                    .map(|&(of, to)| format!("{} {}", format::exact(of, to), resource(tables, of)));
                let each = each.collect::<Vec<_>>().join(" and ");
                format!("add a node like {} with {each} allocatable", name(*like))
            }
            Self::ClaimInstead { from, to } => {
                format!("mount the claim {} instead of {}", tables.text(*to), tables.text(*from))
            }
            Self::DeviceClaimInstead { from, to } => {
                format!("use the ResourceClaim {} instead of {}", tables.text(*to), tables.text(*from))
            }
            Self::Claims(edit) => edit.text.clone(),
            Self::CreateVolume { claim } => {
                let request = claim.request.map_or_else(String::new, |it| format!(" of {}", size(it)));
                let name = tables.text(claim.name);
                format!("create a PersistentVolume{request} for the claim {name}, reachable from the nodes")
            }
            Self::Remove { pods, from, by_preemption } => {
                let names: Vec<String> = pods.iter().map(|pod| key(pod)).collect();
                let names = format::some(&names, 3);
                if *by_preemption {
                    format!("preempt {names} on {}, which have lower priority", name(*from))
                } else {
                    format!("remove {names} from {} (scale its owner down by 1)", name(*from))
                }
            }
        }
    }

    /// Returns a command or manifest fragment that makes the change, if any.
    pub fn how(&self, tables: &Tables, name: impl Fn(NodeIdx) -> String) -> Option<String> {
        Some(match self {
            Self::Tolerate(taint) => {
                let (key, value) = (tables.text(taint.key), tables.text(taint.value));
                let effect = format::effect(tables, taint);
                if value.is_empty() {
                    format!("tolerations: [{{key: {key}, operator: Exists, effect: {effect}}}]")
                } else {
                    format!(
                        "tolerations: [{{key: {key}, operator: Equal, value: {value}, effect: {effect}}}]"
                    )
                }
            }
            Self::SelectInstead { to, .. } => {
                format!("nodeSelector: {{{}: {}}}", tables.text(to.0), tables.text(to.1))
            }
            Self::Ask { of, to } => {
                format!("resources: {{requests: {{{}: {}}}}}", resource(tables, *of), format::exact(*of, *to))
            }
            Self::SpreadSoftly { .. } => "whenUnsatisfiable: ScheduleAnyway".to_owned(),
            Self::MaxSkew { to, .. } => format!("maxSkew: {to}"),
            Self::HonorTaints { .. } => "nodeTaintsPolicy: Honor".to_owned(),
            Self::KeyInstead { to, .. } => format!("topologyKey: {}", tables.text(*to)),
            Self::AvoidSoftly { .. } | Self::JoinSoftly { .. } => {
                "preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: ...}]"
                    .to_owned()
            }
            Self::Label { node, key, value } => {
                format!("kubectl label nodes {} {} --overwrite", name(*node), pair(tables, *key, *value))
            }
            Self::Untaint { node, taint } => {
                let effect = format::effect(tables, taint);
                format!("kubectl taint nodes {} {}:{effect}-", name(*node), tables.text(taint.key))
            }
            Self::Uncordon { node } => format!("kubectl uncordon {}", name(*node)),
            Self::ClaimInstead { to, .. } => {
                format!("persistentVolumeClaim: {{claimName: {}}}", tables.text(*to))
            }
            Self::DeviceClaimInstead { to, .. } => format!("resourceClaimName: {}", tables.text(*to)),
            Self::Claims(edit) => return edit.how.clone(),
            Self::CreateVolume { claim } => {
                let modes: Vec<&str> = claim.access_modes.iter().map(|&mode| tables.text(mode)).collect();
                format!(
                    "spec: {{storageClassName: {:?}, capacity: {{storage: {}}}, accessModes: [{}]}}",
                    tables.text(claim.class),
                    size(claim.request.unwrap_or_default()),
                    modes.join(", ")
                )
            }
            _ => return None,
        })
    }
}

fn tolerate(pod: &mut PodInfo, taint: &Taint) {
    let new = Toleration {
        key: Some(taint.key),
        operator: TolerationOperator::Equal,
        value: taint.value,
        effect: Some(taint.effect),
    };
    pod.tolerations = pod.tolerations.iter().copied().chain([new]).collect();
}

/// Changes the label requirements of one term. A term without requirements would match nothing, so then all terms are
/// removed.
fn in_term(pod: &mut PodInfo, term: usize, change: impl FnOnce(&[Requirement]) -> Box<[Requirement]>) {
    let Some(terms) = &mut pod.node_affinity.terms else { return };
    let Some(demands) = terms.get_mut(term).and_then(|term| term.demands.as_mut()) else { return };
    demands.labels = change(&demands.labels);
    if demands.labels.is_empty() && demands.names.is_empty() {
        pod.node_affinity.terms = None;
    }
}

/// Returns the terms of required affinity or anti-affinity; empty if they are invalid.
fn required_terms(pod: &mut PodInfo, affinity: bool) -> &mut [PodAffinityTerm] {
    let list = pod.pod_affinity.as_mut();
    let list =
        list.map(|all| if affinity { &mut all.required_affinity } else { &mut all.required_anti_affinity });
    list.and_then(|list| list.as_mut().ok()).map_or(&mut [], |list| &mut **list)
}

fn replace(selector: &mut Selector, from: &Requirement, to: &Requirement) {
    if let Selector::All(list) = selector {
        for each in list.iter_mut().filter(|each| *each == from) {
            *each = to.clone();
        }
    }
}

/// Turns the required terms with this key and selector into preferred ones with weight 1.
fn soften(pod: &mut PodInfo, affinity: bool, key: Symbol, selector: &Selector) {
    let Some(all) = &mut pod.pod_affinity else { return };
    let (required, preferred) = if affinity {
        (&mut all.required_affinity, &mut all.preferred_affinity)
    } else {
        (&mut all.required_anti_affinity, &mut all.preferred_anti_affinity)
    };
    let (Ok(hard), Ok(soft)) = (required, preferred) else { return };
    let (gone, left): (Vec<PodAffinityTerm>, Vec<PodAffinityTerm>) =
        hard.iter().cloned().partition(|term| term.topology_key == key && term.selector == *selector);
    *hard = left.into();
    let gone = gone.into_iter().map(|term| WeightedPodAffinityTerm { term, weight: 1 });
    *soft = soft.iter().cloned().chain(gone).collect();
}

fn get(resources: &Resources, of: Measure) -> i64 {
    match of {
        Measure::Cpu => resources.cpu_milli,
        Measure::Memory => resources.memory,
        Measure::EphemeralStorage => resources.ephemeral_storage,
        Measure::Scalar(name) => resources.scalar(name).unwrap_or(0),
        Measure::Pods => 0,
    }
}

pub(super) fn set(resources: &mut Resources, of: Measure, to: i64) {
    match of {
        Measure::Cpu => resources.cpu_milli = to,
        Measure::Memory => resources.memory = to,
        Measure::EphemeralStorage => resources.ephemeral_storage = to,
        Measure::Scalar(name) => resources.set_scalar(name, to),
        Measure::Pods => {}
    }
}
