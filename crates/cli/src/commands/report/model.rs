//! The data of a report, for programs and the page (docs/report.md). Contains no markup.
//!
//! Nodes and pods are stored in columns and refer to each other by index, so that 50,000 pods take a few
//! megabytes.

use serde::Serialize;
use supercargo_whatif::explain::{Explanation, GroupExplanation};

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
    pub api_version: &'static str,
    /// [`KIND`].
    pub kind: &'static str,
    /// Program that made the report, with its version.
    pub made_by: String,
    /// Time in UTC.
    pub made_at: String,
    /// Input of the report.
    pub source: String,
    /// Messages about the input for the reader.
    pub notices: Vec<String>,
    /// `now`, or `before` and `after`.
    pub states: Vec<&'static str>,
    /// Resources, in the order of the columns.
    pub resources: Vec<Resource>,
    /// Values of the zone label, sorted; empty for nodes without one.
    pub zones: Vec<String>,
    pub nodes: Nodes,
    /// Namespaces of pods and owners.
    pub namespaces: Vec<String>,
    pub owners: Vec<Owner>,
    /// Distinct requests of pods: one amount for each resource.
    pub requests: Vec<Vec<i64>>,
    pub pods: Pods,
    /// Spread constraints of pods; those of most pods first.
    pub spread: Vec<Spread>,
    /// Number of further spread constraints.
    pub spread_left_out: usize,
    /// Explained pending pods of the last state.
    pub pending: Vec<Waiting>,
    /// Pending pods without an explanation.
    pub unexplained: Vec<u32>,
    /// Groups of the explained pending pods, by namespace and name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupExplanation>,
    /// Result of placing the pods of the files; null without files or changes.
    pub simulated: Option<Simulated>,
    /// The steps of a plan, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<Step>,
    /// Names of the scoring plugins.
    pub plugins: Vec<&'static str>,
    pub decisions: Vec<Scored>,
}

/// A step of a plan.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Step {
    pub step: usize,
    /// Index of the pod.
    pub pod: u32,
    /// Index of its node before the step.
    pub from: u32,
    /// Index of the node of its replacement.
    pub to: u32,
    /// Why the step is safe.
    pub why: String,
}

/// A resource with a column.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Resource {
    pub name: String,
    pub unit: Unit,
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
    pub name: Vec<String>,
    pub zone: Vec<u32>,
    /// Indexes of cordoned nodes.
    pub cordoned: Vec<u32>,
    /// Distinct taints, in kubectl's format.
    pub taint_names: Vec<String>,
    /// For each node: indexes of its taints.
    pub taints: Vec<Vec<u32>>,
    /// By resource and node.
    pub allocatable: Vec<Vec<i64>>,
    /// By state: indexes of nodes that do not exist.
    pub absent: Vec<Vec<u32>>,
    /// By state, resource and node.
    pub requested: Vec<Vec<Vec<i64>>>,
}

/// A controller that owns pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Owner {
    pub namespace: u32,
    pub kind: String,
    pub name: String,
}

/// Unfinished pods, sorted by namespace and name.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Pods {
    pub name: Vec<String>,
    pub namespace: Vec<u32>,
    /// Index of the owner; -1 without one.
    pub owner: Vec<i32>,
    pub priority: Vec<i32>,
    pub request: Vec<u32>,
    /// By state: index of the node, or [`WAITS`], [`ABSENT`], [`ELSEWHERE`].
    pub node: Vec<Vec<i32>>,
}

/// A spread constraint and the skew of the pods it selects.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spread {
    pub namespace: u32,
    /// Owner of the first pod with the constraint; -1 without one.
    pub owner: i32,
    pub topology_key: String,
    pub max_skew: i32,
    pub min_domains: i32,
    /// Whether `whenUnsatisfiable` is `DoNotSchedule`.
    pub is_hard: bool,
    pub selector: String,
    /// Number of pods with the constraint.
    pub pods: usize,
    /// By state.
    pub states: Vec<Skew>,
}

/// Skew of a spread constraint in one state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Skew {
    /// Pods in the domain with most, minus pods in the domain with fewest; minus 0 if there are fewer than
    /// `minDomains`.
    pub skew: i64,
    pub domain_count: usize,
    /// Domains with their number of pods, most first. Of a long list, only the first and last.
    pub domains: Vec<(String, i64)>,
}

/// A group of identical pending pods.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Waiting {
    /// Indexes of the pods.
    pub pods: Vec<u32>,
    /// Explanation of the first pod.
    pub explanation: Explanation,
}

/// Result of placing pods.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Simulated {
    pub pods: usize,
    pub placed: usize,
    /// Number of preempted pods.
    pub evicted: usize,
    /// Number of nodes that received pods.
    pub nodes: usize,
}

/// A decision with its scores.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Scored {
    pub pod: u32,
    /// Index of its node; null if it has none.
    pub node: Option<u32>,
    /// Whether the simulation made this decision. Otherwise the pod was evaluated again in the current state.
    pub is_made: bool,
    /// Number of feasible nodes.
    pub fits_on: usize,
    /// Number of nodes with the highest total score.
    pub winners: usize,
    /// Lead of the best node over the best node with a lower total score.
    pub margin: Option<i64>,
    pub decided_by: String,
    /// Number of feasible nodes that are not in the table.
    pub left_out: usize,
    /// Indexes of the plugins, in the order of the columns.
    pub plugins: Vec<u32>,
    pub weights: Vec<i64>,
    /// Nodes with the highest total scores, best first.
    pub nodes: Vec<Row>,
    /// Rejection reasons of the other nodes, with the number of nodes.
    pub reasons: Vec<Rest>,
}

/// Scores of a node.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub node: u32,
    pub total: i64,
    pub raw: Vec<i64>,
    pub normalized: Vec<i64>,
}

/// A rejection reason and the number of nodes it applies to.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Rest {
    pub code: supercargo_whatif::explain::ReasonCode,
    pub nodes: usize,
    pub text: String,
}
