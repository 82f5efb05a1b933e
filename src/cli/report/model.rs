//! The data of a report, for programs and the page (docs/report.md). Contains no markup.
//!
//! Nodes and pods are stored in columns and refer to each other by index, so that 50,000 pods take a few
//! megabytes.

use serde::Serialize;
use supercargo_whatif::explain::Explanation;

/// `apiVersion` of the report.
pub(super) const API_VERSION: &str = "supercargo.dev/v1alpha1";
/// `kind` of the report.
pub(super) const KIND: &str = "ClusterReport";
/// Node index of a pending pod.
pub(super) const WAITS: i32 = -1;
/// Node index of a pod that does not exist in this state.
pub(super) const ABSENT: i32 = -2;
/// Node index of a pod on a node that is not part of the input.
pub(super) const ELSEWHERE: i32 = -3;

/// A report of a cluster.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    /// [`API_VERSION`].
    pub(super) api_version: &'static str,
    /// [`KIND`].
    pub(super) kind: &'static str,
    /// Program that made the report, with its version.
    pub(super) made_by: String,
    /// Time in UTC.
    pub(super) made_at: String,
    /// Input of the report.
    pub(super) source: String,
    /// Messages about the input for the reader.
    pub(super) notices: Vec<String>,
    /// `now`, or `before` and `after`.
    pub(super) states: Vec<&'static str>,
    /// Resources, in the order of the columns.
    pub(super) resources: Vec<Resource>,
    /// Values of the zone label, sorted; empty for nodes without one.
    pub(super) zones: Vec<String>,
    pub(super) nodes: Nodes,
    /// Namespaces of pods and owners.
    pub(super) namespaces: Vec<String>,
    pub(super) owners: Vec<Owner>,
    /// Distinct requests of pods: one amount for each resource.
    pub(super) requests: Vec<Vec<i64>>,
    pub(super) pods: Pods,
    /// Spread constraints of pods; those of most pods first.
    pub(super) spread: Vec<Spread>,
    /// Number of further spread constraints.
    pub(super) spread_left_out: usize,
    /// Explained pending pods of the last state.
    pub(super) pending: Vec<Waiting>,
    /// Pending pods without an explanation.
    pub(super) unexplained: Vec<u32>,
    /// Result of placing the pods of the files; null without files or changes.
    pub(super) simulated: Option<Simulated>,
    /// Names of the scoring plugins.
    pub(super) plugins: Vec<&'static str>,
    pub(super) decisions: Vec<Scored>,
}

/// A resource with a column.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Resource {
    pub(super) name: String,
    pub(super) unit: Unit,
}

/// Unit of a resource's amounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Unit {
    /// Thousandths of a unit.
    Milli,
    Bytes,
    One,
}

/// Nodes, sorted by name.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Nodes {
    pub(super) name: Vec<String>,
    pub(super) zone: Vec<u32>,
    /// Indexes of cordoned nodes.
    pub(super) cordoned: Vec<u32>,
    /// Distinct taints, in kubectl's format.
    pub(super) taint_names: Vec<String>,
    /// For each node: indexes of its taints.
    pub(super) taints: Vec<Vec<u32>>,
    /// By resource and node.
    pub(super) allocatable: Vec<Vec<i64>>,
    /// By state: indexes of nodes that do not exist.
    pub(super) absent: Vec<Vec<u32>>,
    /// By state, resource and node.
    pub(super) requested: Vec<Vec<Vec<i64>>>,
}

/// A controller that owns pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Owner {
    pub(super) namespace: u32,
    pub(super) kind: String,
    pub(super) name: String,
}

/// Unfinished pods, sorted by namespace and name.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Pods {
    pub(super) name: Vec<String>,
    pub(super) namespace: Vec<u32>,
    /// Index of the owner; -1 without one.
    pub(super) owner: Vec<i32>,
    pub(super) priority: Vec<i32>,
    pub(super) request: Vec<u32>,
    /// By state: index of the node, or [`WAITS`], [`ABSENT`], [`ELSEWHERE`].
    pub(super) node: Vec<Vec<i32>>,
}

/// A spread constraint and the skew of the pods it selects.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spread {
    pub(super) namespace: u32,
    /// Owner of the first pod with the constraint; -1 without one.
    pub(super) owner: i32,
    pub(super) topology_key: String,
    pub(super) max_skew: i32,
    pub(super) min_domains: i32,
    /// Whether `whenUnsatisfiable` is `DoNotSchedule`.
    pub(super) is_hard: bool,
    pub(super) selector: String,
    /// Number of pods with the constraint.
    pub(super) pods: usize,
    /// By state.
    pub(super) states: Vec<Skew>,
}

/// Skew of a spread constraint in one state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Skew {
    /// Pods in the domain with most, minus pods in the domain with fewest; minus 0 if there are fewer than
    /// `minDomains`.
    pub(super) skew: i64,
    pub(super) domain_count: usize,
    /// Domains with their number of pods, most first. Of a long list, only the first and last.
    pub(super) domains: Vec<(String, i64)>,
}

/// A group of identical pending pods.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Waiting {
    /// Indexes of the pods.
    pub(super) pods: Vec<u32>,
    /// Explanation of the first pod.
    pub(super) explanation: Explanation,
}

/// Result of placing pods.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Simulated {
    pub(super) pods: usize,
    pub(super) placed: usize,
    /// Number of preempted pods.
    pub(super) evicted: usize,
    /// Number of nodes that received pods.
    pub(super) nodes: usize,
}

/// A decision with its scores.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Scored {
    pub(super) pod: u32,
    /// Index of its node; null if it has none.
    pub(super) node: Option<u32>,
    /// Whether the simulation made this decision. Otherwise the pod was evaluated again in the current state.
    pub(super) is_made: bool,
    /// Number of feasible nodes.
    pub(super) fits_on: usize,
    /// Number of nodes with the highest total score.
    pub(super) winners: usize,
    /// Lead of the best node over the best node with a lower total score.
    pub(super) margin: Option<i64>,
    pub(super) decided_by: String,
    /// Number of feasible nodes that are not in the table.
    pub(super) left_out: usize,
    /// Indexes of the plugins, in the order of the columns.
    pub(super) plugins: Vec<u32>,
    pub(super) weights: Vec<i64>,
    /// Nodes with the highest total scores, best first.
    pub(super) nodes: Vec<Row>,
    /// Rejection reasons of the other nodes, with the number of nodes.
    pub(super) reasons: Vec<Rest>,
}

/// Scores of a node.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) node: u32,
    pub(super) total: i64,
    pub(super) raw: Vec<i64>,
    pub(super) normalized: Vec<i64>,
}

/// A rejection reason and the number of nodes it applies to.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Rest {
    pub(super) code: supercargo_whatif::explain::ReasonCode,
    pub(super) nodes: usize,
    pub(super) text: String,
}
