//! Measures a cluster before and after: resource utilization of nodes, skew of spread constraints, pending pods.

use crate::commands::simulate::what_if::outcome::Outcome;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use supercargo_core::cache::Snapshot;
use supercargo_core::framework::Measure;
use supercargo_core::model::intern::{Symbol, Tables};
use supercargo_core::model::node::NodeIdx;
use supercargo_core::model::pod::{PodInfo, SpreadConstraint, WhenUnsatisfiable};

use supercargo_whatif::explain::format::{resource, selector};

/// The comparison of a cluster before and after the changes, and with another configuration.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Summary {
    /// The outcome for the scheduled pods, in numbers.
    pub outcome: Outcome,
    /// The cluster before the changes.
    pub before: State,
    /// The cluster after the changes and decisions.
    pub after: State,
    /// The cluster after the decisions of the compared configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared: Option<State>,
    /// The skew of each spread constraint.
    pub skews: Vec<Skew>,
    /// Pods that moved to another node or lost their node.
    pub moved: Vec<Moved>,
    /// Pods that the compared configuration places on another node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<Vec<Elsewhere>>,
}

/// The measured state of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct State {
    /// Number of nodes.
    pub nodes: usize,
    /// Number of pods on nodes.
    pub placed: usize,
    /// Number of pending pods.
    pub pending: usize,
    /// The utilization of each resource.
    pub resources: Vec<Balance>,
}

/// The utilization of one resource over the nodes that offer it.
///
/// Shares are requested / allocatable: 0 to 1, above 1 on overcommitted nodes, rounded to four decimals.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Balance {
    /// The resource name as in requests, or `pods` for the number of pods.
    pub resource: String,
    /// Total requested amount: millicores for cpu, bytes for memory and storage, else a count.
    pub requested: i64,
    /// Total allocatable amount, in the same unit.
    pub allocatable: i64,
    /// Mean of the nodes' shares.
    pub mean: f64,
    /// Standard deviation of the nodes' shares; 0 if all nodes have the same share.
    pub deviation: f64,
    /// The lowest share of a node.
    pub lowest: f64,
    /// The highest share of a node.
    pub highest: f64,
}

/// The skew of one spread constraint: matching pods in the fullest domain minus those in the emptiest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Skew {
    /// The namespace of the counted pods.
    pub namespace: String,
    /// The label selector of the counted pods.
    pub selector: String,
    /// The node label whose values are the domains.
    pub topology_key: String,
    /// The constraint's maxSkew.
    pub max_skew: i32,
    /// Whether the constraint is required (`whenUnsatisfiable: DoNotSchedule`).
    pub is_required: bool,
    /// Skew before the changes; null if there is no domain.
    pub before: Option<i64>,
    /// Skew after the changes and decisions.
    pub after: Option<i64>,
    /// Skew after the decisions of the compared configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared: Option<i64>,
}

/// A pod that moved or lost its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Moved {
    /// `namespace/name`.
    pub pod: String,
    /// The node before.
    pub from: String,
    /// The node after; null if the pod is pending.
    pub to: Option<String>,
}

/// A pod that two configurations place on different nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Elsewhere {
    /// `namespace/name`.
    pub pod: String,
    /// The node it gets; null if it stays pending.
    pub node: Option<String>,
    /// The node it gets from the compared configuration; null if it stays pending.
    pub compared: Option<String>,
}

/// Measures the cluster; `pending` is the number of pending pods.
pub(super) fn state(snapshot: Snapshot<'_>, pending: usize) -> State {
    let mut measures = vec![Measure::Cpu, Measure::Memory, Measure::EphemeralStorage, Measure::Pods];
    let scalars = snapshot.nodes().iter().flat_map(|node| &snapshot.node_info(node).allocatable.scalar);
    let scalars: BTreeSet<Symbol> =
        scalars.filter(|&&(_, amount)| amount > 0).map(|&(name, _)| name).collect();
    let mut scalars: Vec<Symbol> = scalars.into_iter().collect();
    scalars.sort_by_key(|&name| snapshot.text(name));
    measures.extend(scalars.into_iter().map(Measure::Scalar));
    let pods_on = |node: NodeIdx| snapshot.pods_on(node).count();
    let resources = measures.into_iter().filter_map(|of| balance(snapshot, of)).collect();
    let placed = snapshot.nodes().iter().map(pods_on).sum();
    State { nodes: snapshot.nodes().len(), placed, pending, resources }
}

/// Returns the allocatable and the requested amount of a resource on a node.
fn of_node(snapshot: Snapshot<'_>, node: NodeIdx, of: Measure) -> (i64, i64) {
    let (info, requested) = (snapshot.node_info(node), snapshot.requested(node));
    match of {
        Measure::Pods => {
            let pods = snapshot.pods_on(node).count();
            (info.allocatable_pods, i64::try_from(pods).unwrap_or(i64::MAX))
        }
        Measure::Cpu => (info.allocatable.cpu_milli, requested.cpu_milli),
        Measure::Memory => (info.allocatable.memory, requested.memory),
        Measure::EphemeralStorage => (info.allocatable.ephemeral_storage, requested.ephemeral_storage),
        Measure::Scalar(name) => {
            (info.allocatable.scalar(name).unwrap_or_default(), requested.scalar(name).unwrap_or_default())
        }
    }
}

/// Returns the utilization of a resource, or `None` if no node offers it.
fn balance(snapshot: Snapshot<'_>, of: Measure) -> Option<Balance> {
    let each = snapshot.nodes().iter().map(|node| of_node(snapshot, node, of)).filter(|&(all, _)| all > 0);
    let each: Vec<(i64, i64)> = each.collect();
    let parts: Vec<f64> = each.iter().map(|&(all, taken)| taken as f64 / all as f64).collect();
    let number = parts.len() as f64;
    let mean = parts.iter().sum::<f64>() / number;
    let variance = parts.iter().map(|part| (part - mean).powi(2)).sum::<f64>() / number;
    let sum = |values: &mut dyn Iterator<Item = i64>| values.fold(0_i64, i64::saturating_add);
    (!parts.is_empty()).then(|| Balance {
        resource: resource(snapshot.tables(), of).to_owned(),
        requested: sum(&mut each.iter().map(|&(_, taken)| taken)),
        allocatable: sum(&mut each.iter().map(|&(all, _)| all)),
        mean: rounded(mean),
        deviation: rounded(variance.sqrt()),
        lowest: rounded(parts.iter().copied().fold(f64::INFINITY, f64::min)),
        highest: rounded(parts.iter().copied().fold(0.0, f64::max)),
    })
}

/// Rounds to four decimals, so that the result does not depend on the order of summation.
fn rounded(part: f64) -> f64 {
    (part * 10_000.0).round() / 10_000.0
}

/// A spread constraint of pods in one namespace.
pub(super) struct Constraint {
    pod: Arc<PodInfo>,
    of: SpreadConstraint,
}

/// Returns the distinct constraints of the pods, sorted by namespace, selector and topology key.
pub(super) fn constraints<'p>(
    pods: impl Iterator<Item = &'p Arc<PodInfo>>,
    tables: &Tables,
) -> Vec<Constraint> {
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    for pod in pods.filter(|pod| !pod.spread.is_empty()) {
        for of in pod.spread.iter().filter(|of| of.when_unsatisfiable != WhenUnsatisfiable::Unknown) {
            if of.selector.is_ok() && seen.insert((pod.namespace, of.clone(), pod.node_affinity.clone())) {
                all.push(Constraint { pod: Arc::clone(pod), of: of.clone() });
            }
        }
    }
    all.sort_by_cached_key(|it| {
        (tables.text(it.pod.namespace).to_owned(), it.selector(tables), it.key(tables))
    });
    all
}

impl Constraint {
    fn selector(&self, tables: &Tables) -> String {
        self.of.selector.as_ref().map(|of| selector(tables, of)).unwrap_or_default()
    }

    fn key(&self, tables: &Tables) -> String {
        tables.text(self.of.topology_key).to_owned()
    }

    /// Returns the report entry with the skew before, after, and by the compared configuration.
    pub(super) fn entry(&self, tables: &Tables, [before, after, compared]: [Option<i64>; 3]) -> Skew {
        Skew {
            namespace: tables.text(self.pod.namespace).to_owned(),
            selector: self.selector(tables),
            topology_key: self.key(tables),
            max_skew: self.of.max_skew,
            is_required: self.of.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule,
            before,
            after,
            compared,
        }
    }

    /// Returns the number of matching pods in the fullest domain minus those in the emptiest; `None` if there is no
    /// domain.
    ///
    /// Nodes are eligible as upstream defines it (`podtopologyspread/filtering.go`).
    pub(super) fn skew(&self, snapshot: Snapshot<'_>) -> Option<i64> {
        let (of, pod, tables) = (&self.of, &*self.pod, snapshot.tables());
        let selector = of.selector.as_ref().ok()?;
        let counts = |&node: &NodeIdx| {
            let info = snapshot.node_info(node);
            let taints = tables.taints(info.taints);
            let is_tolerated = || !taints.iter().any(|taint| taint.keeps_out(&pod.tolerations));
            let is_allowed = || pod.node_affinity.matches(tables, info.name, snapshot.node_labels(node));
            (!of.honor_node_affinity || is_allowed()) && (!of.honor_node_taints || is_tolerated())
        };
        let value = |node: NodeIdx| snapshot.node_labels(node).get(of.topology_key);
        let domains = snapshot.nodes().iter().filter(counts).filter_map(|node| Some((node, value(node)?)));
        let domain_of: BTreeMap<NodeIdx, Symbol> = domains.collect();
        let mut pods: BTreeMap<Symbol, i64> = domain_of.values().map(|&value| (value, 0)).collect();
        let kinds = snapshot.pod_classes_in(pod.namespace).filter(|kind| {
            !kind.pod().deleting && selector.matches(tables, snapshot.labels(kind.pod().labels))
        });
        for (node, number) in kinds.flat_map(|kind| kind.nodes()) {
            if let Some(of) = domain_of.get(&node).and_then(|value| pods.get_mut(value)) {
                *of += number;
            }
        }
        Some(pods.values().max()? - pods.values().min()?)
    }
}
