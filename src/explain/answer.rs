//! What is told of a pod: for programs as it stands here (docs/explain.md), for people by whoever renders it.

use super::reason::ReasonCode;
use serde::Serialize;

/// `apiVersion` of the answer.
pub const API_VERSION: &str = "supercargo.dev/v1alpha1";
/// `kind` of the answer.
pub const KIND: &str = "PodExplanation";

/// How things stand for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// A node can take it as things are.
    FitsNow,
    /// It fits once less important pods are gone, and may send them away.
    WaitsForPreemption,
    /// Nothing can take it as things are; other pods, or something beside the nodes, are in the way.
    Blocked,
    /// No node would take it even if the cluster were empty.
    NeverFits,
    /// It has scheduling gates.
    Gated,
    /// Another scheduler's.
    NotOurs,
    /// It has a node.
    Bound,
    /// It ran and has ended.
    Ended,
    /// It is being deleted.
    Deleting,
}

impl Verdict {
    /// Whether nothing is in the way of the pod.
    pub fn is_well(self) -> bool {
        matches!(self, Self::FitsNow | Self::Bound | Self::Ended)
    }
}

/// An explanation.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// [`API_VERSION`].
    pub api_version: &'static str,
    /// [`KIND`].
    pub kind: &'static str,
    /// `namespace/name`.
    pub pod: String,
    /// How things stand.
    pub verdict: Verdict,
    /// The same in a sentence or two.
    pub summary: String,
    /// The node it is on; null where it has none.
    pub node: Option<String>,
    /// How many nodes there are.
    pub nodes: usize,
    /// How many of them can take it now. Of a bound pod: with itself taken away.
    pub fits_on: usize,
    /// What is said of the pod before any node is looked at.
    pub before_nodes: Vec<Said>,
    /// What is said of nodes, grouped; most nodes first.
    pub reasons: Vec<Group>,
    /// Nodes with a single check in the way, at most [`super::NEAR_MISSES_MAX`].
    pub near_misses: Vec<NearMiss>,
    /// How many such nodes there are.
    pub near_miss_count: usize,
    /// What in the pod's spec means nothing that exists, and what it may have meant.
    pub hints: Vec<Hint>,
    /// What would help, the smallest first: each was tried by deciding again.
    pub changes: Vec<Change>,
    /// What the FailedScheduling event says; null where there is none.
    pub event: Option<String>,
    /// Whom it would send away; null where nobody.
    pub preemption: Option<Preemption>,
    /// What is said of each node, by name. Only with the whole report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_node: Option<Vec<ByNode>>,
    /// The score table; null where it was not asked for or nothing can take the pod.
    pub scores: Option<Scores>,
}

/// Something said before any node is looked at.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Said {
    /// What sort of reason.
    pub code: ReasonCode,
    /// Whose.
    pub plugin: &'static str,
    /// In upstream's words.
    pub text: String,
}

/// One reason and the nodes that share it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// What sort of reason.
    pub code: ReasonCode,
    /// Whose.
    pub plugin: &'static str,
    /// How many nodes.
    pub nodes: usize,
    /// On how many of them it is the only check that fails.
    pub alone_on: usize,
    /// What it is, with the numbers behind it.
    pub text: String,
    /// Some of the nodes, by name.
    pub examples: Vec<String>,
    /// Whether sending less important pods away may help.
    pub preemption_may_help: bool,
}

/// A node with a single check in the way.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NearMiss {
    /// The node.
    pub node: String,
    /// The reasons of that check.
    pub codes: Vec<ReasonCode>,
    /// What it is, with the numbers behind it.
    pub text: String,
}

/// Something in the pod's spec that means nothing there is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hint {
    /// `LabelKeyUnknown`, `LabelValueUnknown`, `PodSelectorMatchesNothing`, `TopologyKeyUnknown`, `TolerationUnused`.
    pub code: &'static str,
    /// In which field.
    pub field: String,
    /// What is wrong.
    pub text: String,
    /// What exists and may have been meant.
    pub did_you_mean: Option<String>,
}

/// A change that was tried and helps.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// What sort of change: one code for each thing to do.
    pub codes: Vec<&'static str>,
    /// What to do.
    pub text: String,
    /// A command that does it, where one does.
    pub how: Option<String>,
    /// How many nodes can take the pod then; 0 where the pod is no longer needed.
    pub fits_on: usize,
    /// Some of them, by name.
    pub examples: Vec<String>,
}

/// Whom a pod would send away.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preemption {
    /// From which node.
    pub node: String,
    /// `namespace/name`, sorted.
    pub victims: Vec<String>,
}

/// What is said of one node.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ByNode {
    /// The node.
    pub node: String,
    /// What is in the way; nothing where it can take the pod.
    pub reasons: Vec<OfNode>,
}

/// One reason against a node.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OfNode {
    /// What sort of reason.
    pub code: ReasonCode,
    /// Whose.
    pub plugin: &'static str,
    /// What it is, with the numbers behind it.
    pub text: String,
    /// Whether it is so only because of pods nominated to the node.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub because_nominated: bool,
}

/// Scores of the nodes that can take the pod.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scores {
    /// The nodes, best first; at most [`super::SCORES_MAX`].
    pub nodes: Vec<NodeScores>,
    /// How many more there are.
    pub left_out: usize,
    /// The best nodes, all equally good; the pod goes to one of them by lot.
    pub winners: Vec<String>,
    /// By how much the best is ahead of the next that is worse; null where there is none.
    pub margin: Option<i64>,
    /// What made the difference.
    pub decided_by: String,
}

/// One node's scores.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeScores {
    /// The node.
    pub node: String,
    /// The sum of what is weighted.
    pub total: i64,
    /// By plugin, in the order they are asked.
    pub plugins: Vec<PluginScore>,
}

/// One plugin's score of a node.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginScore {
    /// The plugin.
    pub plugin: &'static str,
    /// What Score said.
    pub raw: i64,
    /// The same on a scale of 0 to 100.
    pub normalized: i64,
    /// The plugin's weight.
    pub weight: i64,
    /// `normalized` times `weight`.
    pub weighted: i64,
}
