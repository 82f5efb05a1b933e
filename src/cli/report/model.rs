//! What a report is made of, for programs and for the page alike (docs/report.md). Holds no markup.
//!
//! Nodes and pods stand in columns and are named by their number, so that 50,000 pods are a few megabytes.

use crate::explain::Explanation;
use serde::Serialize;

/// `apiVersion` of the report.
pub(super) const API_VERSION: &str = "supercargo.dev/v1alpha1";
/// `kind` of the report.
pub(super) const KIND: &str = "ClusterReport";
/// A pod that has no node.
pub(super) const WAITS: i32 = -1;
/// A pod that is not there: it comes later, or has gone.
pub(super) const ABSENT: i32 = -2;
/// A pod on a node that is not among those that were given.
pub(super) const ELSEWHERE: i32 = -3;

/// A report.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    /// [`API_VERSION`].
    pub(super) api_version: &'static str,
    /// [`KIND`].
    pub(super) kind: &'static str,
    /// The program that made it, with its version.
    pub(super) made_by: String,
    /// When, in UTC.
    pub(super) made_at: String,
    /// What the cluster was read from.
    pub(super) source: String,
    /// What people should know of what was read.
    pub(super) notices: Vec<String>,
    /// `now`, or `before` and `after`.
    pub(super) states: Vec<&'static str>,
    /// What is counted, in the order of the columns.
    pub(super) resources: Vec<Resource>,
    /// Values of `topology.kubernetes.io/zone`, sorted; empty for nodes without.
    pub(super) zones: Vec<String>,
    pub(super) nodes: Nodes,
    /// Namespaces of pods and owners.
    pub(super) namespaces: Vec<String>,
    pub(super) owners: Vec<Owner>,
    /// Different requests of pods: one amount per resource.
    pub(super) requests: Vec<Vec<i64>>,
    pub(super) pods: Pods,
    /// Spread constraints of pods, those of most pods first.
    pub(super) spread: Vec<Spread>,
    /// How many more spread constraints there are.
    pub(super) spread_left_out: usize,
    /// Pods that wait, as things are in the last state.
    pub(super) pending: Vec<Waiting>,
    /// Pods that wait and are not explained.
    pub(super) unexplained: Vec<u32>,
    /// What became of the pods of the files; null where there were none.
    pub(super) simulated: Option<Simulated>,
    /// Plugins that score.
    pub(super) plugins: Vec<&'static str>,
    pub(super) decisions: Vec<Scored>,
}

/// Something that is counted.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Resource {
    pub(super) name: String,
    pub(super) unit: Unit,
}

/// What amounts of a resource are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Unit {
    /// Thousandths.
    Milli,
    Bytes,
    One,
}

/// The nodes, sorted by name.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Nodes {
    pub(super) name: Vec<String>,
    pub(super) zone: Vec<u32>,
    /// Numbers of the nodes that are closed to new pods.
    pub(super) cordoned: Vec<u32>,
    /// Different taints, as kubectl writes them.
    pub(super) taint_names: Vec<String>,
    /// By node.
    pub(super) taints: Vec<Vec<u32>>,
    /// By resource, by node.
    pub(super) allocatable: Vec<Vec<i64>>,
    /// By state: numbers of the nodes that are not there.
    pub(super) absent: Vec<Vec<u32>>,
    /// By state, by resource, by node.
    pub(super) requested: Vec<Vec<Vec<i64>>>,
}

/// Who makes pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Owner {
    pub(super) namespace: u32,
    pub(super) kind: String,
    pub(super) name: String,
}

/// The pods that have not ended, sorted by namespace and name.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Pods {
    pub(super) name: Vec<String>,
    pub(super) namespace: Vec<u32>,
    /// -1 where it has none.
    pub(super) owner: Vec<i32>,
    pub(super) priority: Vec<i32>,
    pub(super) request: Vec<u32>,
    /// By state: the node's number, or [`WAITS`], [`ABSENT`], [`ELSEWHERE`].
    pub(super) node: Vec<Vec<i32>>,
}

/// A spread constraint and how even the pods it is about are.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spread {
    pub(super) namespace: u32,
    /// The first owner of pods with it; -1 where they have none.
    pub(super) owner: i32,
    pub(super) topology_key: String,
    pub(super) max_skew: i32,
    pub(super) min_domains: i32,
    /// Whether it is `DoNotSchedule`.
    pub(super) is_hard: bool,
    pub(super) selector: String,
    /// How many pods have it.
    pub(super) pods: usize,
    /// By state.
    pub(super) states: Vec<Skew>,
}

/// How uneven pods are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Skew {
    /// How far the fullest domain is ahead of the emptiest, or of none where there are too few domains.
    pub(super) skew: i64,
    pub(super) domain_count: usize,
    /// Domains with their pods, the fullest first; of many, the ends.
    pub(super) domains: Vec<(String, i64)>,
}

/// Pods that wait and are alike.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Waiting {
    /// Their numbers.
    pub(super) pods: Vec<u32>,
    /// Of the first of them.
    pub(super) explanation: Explanation,
}

/// What became of the pods of the files.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Simulated {
    pub(super) pods: usize,
    pub(super) placed: usize,
    /// Pods that went to make room.
    pub(super) evicted: usize,
    /// On how many nodes pods came.
    pub(super) nodes: usize,
}

/// A decision with its scores.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Scored {
    pub(super) pod: u32,
    /// The node it is on; null where it has none yet.
    pub(super) node: Option<u32>,
    /// Whether it is the decision a simulation made; otherwise it is what would be decided as things are.
    pub(super) is_made: bool,
    /// How many nodes could take it.
    pub(super) fits_on: usize,
    /// How many are as good as the best.
    pub(super) winners: usize,
    /// By how much the best is ahead of the next that is worse.
    pub(super) margin: Option<i64>,
    pub(super) decided_by: String,
    /// How many nodes that could take it are not in the table.
    pub(super) left_out: usize,
    /// Numbers of the plugins, in the order of the columns.
    pub(super) plugins: Vec<u32>,
    pub(super) weights: Vec<i64>,
    /// The best nodes, best first.
    pub(super) nodes: Vec<Row>,
    /// Why the others could not take it, and how many of them.
    pub(super) reasons: Vec<Rest>,
}

/// A node's scores.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) node: u32,
    pub(super) total: i64,
    pub(super) raw: Vec<i64>,
    pub(super) normalized: Vec<i64>,
}

/// A reason and the nodes it holds on.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Rest {
    pub(super) code: crate::explain::ReasonCode,
    pub(super) nodes: usize,
    pub(super) text: String,
}
