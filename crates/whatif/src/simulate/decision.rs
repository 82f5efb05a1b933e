//! A decision of a simulation, as reports contain it.

use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The decision about one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// `namespace/name`.
    pub pod: String,
    /// The chosen node; null if none.
    pub node: Option<String>,
    /// Why the pod is not placed, without the result of preemption.
    pub message: Option<String>,
    /// The message of the event about it.
    pub event: Option<String>,
    /// The rejection by a PreFilter plugin, before node evaluation.
    pub pre_filter: Option<Rejected>,
    /// The results for the nodes.
    #[serde(flatten)]
    pub nodes: Nodes,
    /// The node and victims if preemption could place the pod.
    pub preemption: Option<Preemption>,
    /// The ResourceClaims that get devices by this decision: `claim` (`namespace/name`), `allocation` (as in
    /// `status.allocation`), and for a claim for extended resources `requests` and `requestMappings`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Value>,
    /// The decision about the pod's group, if it was decided with the other members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<OfGroup>,
    /// `namespace/name` of the claims of which one would be freed, so that the pod gets other devices.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deallocates: Vec<String>,
    /// `namespace/name` of the claim for extended resources that would be deleted and created again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deletes: Vec<String>,
}

/// The decision about the group of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OfGroup {
    /// `namespace/name`.
    pub name: String,
    /// `scheduled`, `unschedulable`, `waiting_on_preemption` or `error`.
    pub result: &'static str,
    /// The message of the group's condition; empty if it is scheduled.
    pub status: String,
    /// The chosen topology domain, if the group requires one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,
    /// What was found for each topology domain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub placements: Vec<OfPlacement>,
    /// `namespace/name` of the pods whose eviction lets the group start, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub victims: Vec<String>,
}

/// What was found for a topology domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OfPlacement {
    /// The value of the topology key.
    pub name: String,
    /// The number of its nodes.
    pub nodes: usize,
    /// The number of members that fit.
    pub members: usize,
    /// Why the group does not fit; empty if it does.
    pub status: String,
    /// The sum of its scores, if several domains fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<i64>,
}

/// The results for the nodes, in the requested detail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Nodes {
    /// Everything.
    Full {
        /// Infeasible nodes that were evaluated, by name.
        rejected: BTreeMap<String, Rejected>,
        /// Names of the feasible nodes, sorted.
        feasible: Vec<String>,
        /// Normalized score times weight, by node and plugin.
        scores: BTreeMap<String, BTreeMap<&'static str, i64>>,
        /// Total score by node.
        totals: BTreeMap<String, i64>,
    },
    /// Counts only.
    Brief {
        /// Number of nodes per rejection reason.
        counts: BTreeMap<String, usize>,
    },
    /// Nothing.
    Omitted {},
}

impl Default for Nodes {
    fn default() -> Self {
        Self::Full {
            rejected: BTreeMap::new(),
            feasible: Vec::new(),
            scores: BTreeMap::new(),
            totals: BTreeMap::new(),
        }
    }
}

/// A rejection by a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rejected {
    /// The plugin's name.
    pub plugin: String,
    /// `Unschedulable` if preemption may help, `UnschedulableAndUnresolvable` if not, `Error` if the plugin failed.
    pub code: &'static str,
    /// The reasons, sorted.
    pub reasons: Vec<String>,
}

/// Where preemption could place a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preemption {
    /// `namespace/name` of the victims, sorted.
    pub nominated_node: String,
    /// `namespace/name` of the victims, sorted.
    pub victims: Vec<String>,
}

/// Numbers that the wide table shows in addition to the decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of feasible nodes.
    pub feasible: usize,
    /// Number of all nodes.
    pub nodes: usize,
    /// The total score of the chosen node; `None` if nothing was scored.
    pub total: Option<i64>,
}
