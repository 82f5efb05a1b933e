//! The spread constraints of a pod: its own, or the defaults with a derived selector.
//!
//! Upstream: `podtopologyspread/common.go`, `plugins/helper/spread.go`.

use super::{DefaultConstraint, Defaults, PodTopologySpread};
use crate::cache::slice::{Concerned, NodeRole, PodClassRole};
use crate::cache::{NodeColumns, PodClass, Snapshot};
use crate::model::intern::{Labels, Symbol, Tables, known};
use crate::model::node::{NodeIdx, NodeInfo};
use crate::model::pod::{
    ControllerKind, PodFacets, PodInfo, SpreadConstraint, Toleration, WhenUnsatisfiable,
};
use crate::model::selector::{Operator, RequiredNodeAffinity, Requirement, Selector};

/// A constraint of the filter or the score, prepared for counting.
pub(super) struct Constraint {
    pub(super) max_skew: i32,
    pub(super) topology_key: Symbol,
    pub(super) selector: Selector,
    pub(super) min_domains: i32,
    pub(super) honor_node_affinity: bool,
    pub(super) honor_node_taints: bool,
}

impl Constraint {
    fn of_pod(own: &SpreadConstraint, selector: Selector) -> Self {
        Self {
            max_skew: own.max_skew,
            topology_key: own.topology_key,
            selector,
            min_domains: own.min_domains,
            honor_node_affinity: own.honor_node_affinity,
            honor_node_taints: own.honor_node_taints,
        }
    }

    fn of_default(default: &DefaultConstraint, selector: Selector) -> Self {
        Self {
            max_skew: default.max_skew,
            topology_key: default.topology_key,
            selector,
            min_domains: default.min_domains,
            honor_node_affinity: default.honor_node_affinity,
            honor_node_taints: default.honor_node_taints,
        }
    }
}

const fn system_default(topology_key: Symbol, max_skew: i32) -> DefaultConstraint {
    DefaultConstraint {
        max_skew,
        topology_key,
        when_unsatisfiable: WhenUnsatisfiable::ScheduleAnyway,
        min_domains: 1,
        honor_node_affinity: true,
        honor_node_taints: false,
    }
}

const SYSTEM_DEFAULTS: &[DefaultConstraint] =
    &[system_default(known::HOSTNAME, 3), system_default(known::ZONE, 5)];

impl PodTopologySpread {
    /// Returns the pod's hard or soft constraints, as `action` selects. If the pod has any constraint of its own,
    /// hard or soft, the defaults do not apply.
    pub(super) fn constraints(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        action: WhenUnsatisfiable,
    ) -> Result<Vec<Constraint>, String> {
        if pod.spread.is_empty() {
            return Ok(self.default_constraints(pod, snapshot, action));
        }
        let of_phase = pod.spread.iter().filter(|own| own.when_unsatisfiable == action);
        of_phase
            .map(|own| match &own.selector {
                Ok(selector) => Ok(Constraint::of_pod(own, selector.clone())),
                Err(error) => {
                    let phase = if action == WhenUnsatisfiable::DoNotSchedule { "hard" } else { "soft" };
                    Err(format!("obtaining pod's {phase} topology spread constraints: {error}"))
                }
            })
            .collect()
    }

    fn default_constraints(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        action: WhenUnsatisfiable,
    ) -> Vec<Constraint> {
        let defaults = match &self.defaults {
            Defaults::System => SYSTEM_DEFAULTS,
            Defaults::List(list) => list,
        };
        let mut of_phase = defaults.iter().filter(|d| d.when_unsatisfiable == action).peekable();
        if of_phase.peek().is_none() {
            return Vec::new();
        }
        let selector = default_selector(pod, snapshot);
        if selector.is_empty() {
            return Vec::new();
        }
        of_phase.map(|default| Constraint::of_default(default, selector.clone())).collect()
    }
}

/// Combines the selectors of the pod's Services and controller. Returns an empty selector if there are none.
fn default_selector(pod: &PodInfo, snapshot: Snapshot<'_>) -> Selector {
    let labels = snapshot.labels(pod.labels);
    let mut pairs: Vec<(Symbol, Symbol)> = Vec::new();
    let mut demands: &[Requirement] = &[];
    for service in snapshot.lookups().services(pod.namespace) {
        let Some(selector) = &service.selector else { continue };
        if selector.iter().all(|&(key, value)| labels.get(key) == Some(value)) {
            selector.iter().for_each(|&pair| merge(&mut pairs, pair));
        }
    }
    if let Some(owner) = pod.owner
        && let Some(found) = snapshot.lookups().controller(owner.kind, pod.namespace, owner.name)
    {
        match owner.kind {
            // This selector is a map, merged over those of the Services. The other kinds' requirements are added to
            // them.
            ControllerKind::ReplicationController => {
                found.iter().filter_map(exact_pair).for_each(|pair| merge(&mut pairs, pair));
            }
            ControllerKind::ReplicaSet | ControllerKind::StatefulSet => demands = found,
        }
    }
    let exact =
        pairs.into_iter().map(|(key, value)| Requirement { key, operator: Operator::In([value].into()) });
    Selector::All(exact.chain(demands.iter().cloned()).collect())
}

fn merge(pairs: &mut Vec<(Symbol, Symbol)>, (key, value): (Symbol, Symbol)) {
    match pairs.iter_mut().find(|(k, _)| *k == key) {
        Some(pair) => pair.1 = value,
        None => pairs.push((key, value)),
    }
}

fn exact_pair(requirement: &Requirement) -> Option<(Symbol, Symbol)> {
    match &requirement.operator {
        Operator::In(values) => values.first().map(|&value| (requirement.key, value)),
        _ => None,
    }
}

/// Whether a node has all topology keys.
pub(super) fn has_all_keys(constraints: &[Constraint], labels: Labels<'_>) -> bool {
    constraints.iter().all(|c| labels.get(c.topology_key).is_some())
}

/// The pod's fields for the inclusion policies, which decide whether a node counts (upstream
/// `matchNodeInclusionPolicies`).
pub(super) struct Inclusion {
    affinity: RequiredNodeAffinity,
    tolerations: Box<[Toleration]>,
}

impl Inclusion {
    /// Copies the fields that the constraints' policies need.
    pub(super) fn new(pod: &PodInfo, constraints: &[Constraint]) -> Self {
        let mut inclusion = Self { affinity: RequiredNodeAffinity::default(), tolerations: [].into() };
        if constraints.iter().any(|c| c.honor_node_affinity) {
            inclusion.affinity.clone_from(&pod.node_affinity);
        }
        if constraints.iter().any(|c| c.honor_node_taints) {
            inclusion.tolerations.clone_from(&pod.tolerations);
        }
        inclusion
    }

    /// Whether every node is included for all constraints.
    pub(super) fn is_everything(&self, constraints: &[Constraint]) -> bool {
        self.affinity.is_absent() && constraints.iter().all(|c| !c.honor_node_taints)
    }

    /// Applies both policies to a node of the cluster, for all constraints at once.
    pub(super) fn of(&self, snapshot: Snapshot<'_>, node: NodeIdx) -> NodeInclusion {
        let (tables, info) = (snapshot.tables(), snapshot.node_info(node));
        let Some(slice) = snapshot.slice() else { return self.of_info(tables, info) };
        let known = |role, work: &dyn Fn() -> u64, judge: &dyn Fn() -> bool| {
            slice.of_node(role, node, work, || i64::from(judge())) != 0
        };
        let work = (tables.taints(info.taints).len() * self.tolerations.len()) as u64;
        NodeInclusion {
            affinity: self.affinity.is_absent()
                || known(NodeRole::RequiredAffinity, &|| self.affinity.work(), &|| {
                    self.matches(tables, info)
                }),
            taints: if self.tolerations.is_empty() {
                self.tolerates(tables, info)
            } else {
                known(NodeRole::Tolerated, &|| work, &|| self.tolerates(tables, info))
            },
        }
    }

    /// Applies both policies to a node object, for all constraints at once.
    pub(super) fn of_info(&self, tables: &Tables, info: &NodeInfo) -> NodeInclusion {
        let affinity = self.affinity.is_absent() || self.matches(tables, info);
        NodeInclusion { affinity, taints: self.tolerates(tables, info) }
    }

    fn matches(&self, tables: &Tables, info: &NodeInfo) -> bool {
        self.affinity.matches(tables, info.name, tables.labels(info.labels))
    }

    fn tolerates(&self, tables: &Tables, info: &NodeInfo) -> bool {
        !tables.taints(info.taints).iter().any(|taint| taint.keeps_out(&self.tolerations))
    }
}

/// The results of the two inclusion policies for a node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeInclusion {
    affinity: bool,
    taints: bool,
}

impl NodeInclusion {
    /// Whether the node counts for `constraint`.
    pub(super) fn includes(self, constraint: &Constraint) -> bool {
        (self.affinity || !constraint.honor_node_affinity) && (self.taints || !constraint.honor_node_taints)
    }
}

/// Counts for each constraint the matching pods on each node, by slot (upstream `countPodsMatchSelector`).
///
/// Matching pods are in the namespace, match the selector, and are not terminating. An empty selector matches none.
/// `role` identifies the set of constraints.
pub(super) fn counted(
    snapshot: Snapshot<'_>,
    constraints: &[Constraint],
    namespace: Symbol,
    role: PodClassRole,
) -> Vec<Vec<i64>> {
    let mut counts = vec![vec![0; snapshot.slots()]; constraints.len()];
    let concerns = |kind: &PodClass| {
        let facets = kind.facets();
        facets.namespace == namespace && !facets.is_deleting
    };
    let Some(slice) = snapshot.slice() else {
        for kind in snapshot.pod_classes_in(namespace).filter(|kind| concerns(kind)) {
            let mut matched = Vec::new();
            each_match(snapshot, constraints, kind.facets(), |at| matched.push(at));
            for (node, pods) in kind.nodes() {
                matched.iter().for_each(|&at| counts[at][node.index()] += pods);
            }
        }
        return counts;
    };
    slice.evaluate_pod_classes(role, snapshot, Concerned::These(&concerns), |kind, list| {
        each_match(snapshot, constraints, kind.facets(), |at| {
            list.push((at as u32, constraints[at].topology_key, 1));
        })
    });
    let by_node = |columns: &NodeColumns| {
        for ((at, _), sums) in columns {
            let sums = sums.iter().map(|sum| sum.unwrap_or(0));
            counts[*at as usize].iter_mut().zip(sums).for_each(|(count, sum)| *count = sum);
        }
    };
    if slice.by_node(role, snapshot, by_node).is_some() {
        return counts;
    }
    let contributions = slice.contributions(role);
    slice.each_pod_class(role, snapshot, |kind, index| {
        for (node, pods) in kind.nodes() {
            contributions[index].iter().for_each(|&(at, ..)| counts[at as usize][node.index()] += pods);
        }
    });
    counts
}

/// Calls `note` with the index of each constraint whose selector matches the labels of `pod`. Returns the number of
/// comparisons.
fn each_match(
    snapshot: Snapshot<'_>,
    constraints: &[Constraint],
    pod: PodFacets<'_>,
    mut note: impl FnMut(usize),
) -> u64 {
    let (tables, labels) = (snapshot.tables(), snapshot.labels(pod.labels));
    for (at, Constraint { selector, .. }) in constraints.iter().enumerate() {
        if !selector.is_empty() && selector.matches(tables, labels) {
            note(at);
        }
    }
    constraints.iter().map(|constraint| constraint.selector.work()).sum()
}
