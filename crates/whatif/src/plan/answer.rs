//! The plans as they are printed; their JSON form is stable.

use crate::explain::API_VERSION;
use serde::Serialize;

/// A plan that empties nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FreeNodesPlan {
    /// `supercargo.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `FreeNodesPlan`.
    pub kind: &'static str,
    /// The nodes that the plan empties, sorted. Cordon all of them before the first step.
    pub freed: Vec<String>,
    /// The steps in order.
    pub moves: Vec<Move>,
    /// The nodes that were considered and stay, with what keeps them.
    pub kept: Vec<KeptNode>,
    /// Number of pending pods of the cluster. The plan does not consider them.
    pub pending: usize,
}

impl FreeNodesPlan {
    pub(super) fn new(freed: Vec<String>, moves: Vec<Move>, kept: Vec<KeptNode>, pending: usize) -> Self {
        Self { api_version: API_VERSION, kind: "FreeNodesPlan", freed, moves, kept, pending }
    }
}

/// A plan that makes room for pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MakeRoomPlan {
    /// `supercargo.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `MakeRoomPlan`.
    pub kind: &'static str,
    /// Whether all pods fit after the moves.
    pub fits: bool,
    /// The nodes on which room is made, sorted. Cordon them before the first step, and uncordon them after the last.
    pub cordoned: Vec<String>,
    /// The steps in order.
    pub moves: Vec<Move>,
    /// The pods, in the order in which they are decided once the moves are done.
    pub pods: Vec<PlannedPod>,
}

impl MakeRoomPlan {
    pub(super) fn new(cordoned: Vec<String>, moves: Vec<Move>, pods: Vec<PlannedPod>) -> Self {
        let fits = pods.iter().all(|pod| pod.to.is_some());
        Self { api_version: API_VERSION, kind: "MakeRoomPlan", fits, cordoned, moves, pods }
    }
}

/// A plan that brings a cluster below bounds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RebalancePlan {
    /// `supercargo.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `RebalancePlan`.
    pub kind: &'static str,
    /// Whether nothing exceeds a bound after the moves.
    pub is_balanced: bool,
    /// The nodes that must be cordoned from the first step to the last.
    pub cordoned: Vec<String>,
    /// The steps in order.
    pub moves: Vec<Move>,
    /// What exceeds a bound before the moves.
    pub before: Vec<Excess>,
    /// What exceeds a bound after the moves.
    pub after: Vec<Excess>,
}

impl RebalancePlan {
    pub(super) fn new(
        cordoned: Vec<String>,
        moves: Vec<Move>,
        before: Vec<Excess>,
        after: Vec<Excess>,
    ) -> Self {
        let is_balanced = after.is_empty();
        Self { api_version: API_VERSION, kind: "RebalancePlan", is_balanced, cordoned, moves, before, after }
    }
}

/// A node, workload or resource that exceeds a bound.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Excess {
    /// The node, the resource, or the workload with its namespace.
    pub subject: String,
    /// How much it has.
    pub text: String,
}

/// A pod that room is made for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedPod {
    /// `namespace/name`.
    pub pod: String,
    /// Its node; null if it is unschedulable.
    pub to: Option<String>,
    /// Why it is unschedulable.
    pub reason: Option<String>,
}

/// A step: one pod is evicted, and its replacement is bound to another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Move {
    /// The number of the step, from 1.
    pub step: usize,
    /// `namespace/name`.
    pub pod: String,
    /// Its node before the step.
    pub from: String,
    /// The node of its replacement.
    pub to: String,
    /// The feasible nodes with the best score, sorted; `to` is one of them.
    pub ties: Vec<String>,
    /// Whether the other nodes of `ties` must be cordoned during the step. Then `to` is the only best node.
    pub is_forced: bool,
    /// Number of feasible nodes.
    pub feasible: usize,
    /// Whether the pod leaves a node that is not emptied, to make room for another pod.
    pub is_swap: bool,
    /// Why the step is safe.
    pub why: String,
}

/// A node that stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptNode {
    /// The node's name.
    pub node: String,
    /// The pods that keep it, with the reasons; empty if it was needed for displaced pods.
    pub blockers: Vec<Blocker>,
}

/// A pod that keeps a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Blocker {
    /// `namespace/name`.
    pub pod: String,
    /// Why it cannot leave.
    pub reason: String,
    /// Whether the reason usually passes by itself: the pod terminates, or a disruption budget allows no eviction now.
    #[serde(skip)]
    pub passes: bool,
}
