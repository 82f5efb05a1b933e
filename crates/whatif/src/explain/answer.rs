//! The explanation of a pod, in its serialized form (docs/explain.md). Callers format it for people.

use crate::explain::groups::GroupExplanation;
use crate::explain::reason::ReasonCode;
use serde::Serialize;

/// `apiVersion` of the explanation.
pub const API_VERSION: &str = "supercargo.dev/v1alpha1";
/// `kind` of the explanation.
pub const KIND: &str = "PodExplanation";

/// The state of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// At least one node is feasible now.
    FitsNow,
    /// The pod fits after preempting pods with lower priority, and may preempt them.
    WaitsForPreemption,
    /// No node is feasible now, because of other pods or of objects other than nodes.
    Blocked,
    /// No node would be feasible even in an empty cluster.
    NeverFits,
    /// The pod fits, but its group does not start.
    WaitsForGroup,
    /// The pod has scheduling gates.
    Gated,
    /// Another scheduler is responsible.
    NotOurs,
    /// The pod has a node.
    Bound,
    /// The pod ran and has finished.
    Ended,
    /// The pod is being deleted.
    Deleting,
}

impl Verdict {
    /// Returns whether the pod can run, runs or ran.
    pub fn is_well(self) -> bool {
        matches!(self, Self::FitsNow | Self::Bound | Self::Ended)
    }
}

/// The explanation of a pod.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// [`API_VERSION`].
    pub api_version: &'static str,
    /// [`KIND`].
    pub kind: &'static str,
    /// `namespace/name`.
    pub pod: String,
    /// The pod's state.
    pub verdict: Verdict,
    /// The state in one or two sentences.
    pub summary: String,
    /// The pod's node; null if none.
    pub node: Option<String>,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of nodes that are feasible now; for a bound pod, as if it had no node.
    pub fits_on: usize,
    /// Rejections before node evaluation.
    pub before_nodes: Vec<Rejection>,
    /// Reasons of nodes, grouped; those of most nodes first.
    pub reasons: Vec<Group>,
    /// Nodes with a single obstacle, at most [`crate::explain::NEAR_MISSES_MAX`].
    pub near_misses: Vec<NearMiss>,
    /// Number of all nodes with a single obstacle.
    pub near_miss_count: usize,
    /// Parts of the pod's spec that match nothing in the cluster, with suggestions.
    pub hints: Vec<Hint>,
    /// Verified fixes, smallest first: with each, a new decision places the pod.
    pub changes: Vec<Change>,
    /// How to make the changes that need a new pod; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_pod: Option<String>,
    /// The message of the FailedScheduling event; null if none.
    pub event: Option<String>,
    /// The pod's group; only for members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupExplanation>,
    /// The pods it would preempt; null if none.
    pub preemption: Option<Preemption>,
    /// Results for each node, by name; only in the full report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_node: Option<Vec<ByNode>>,
    /// The score table; null if not requested or no node is feasible.
    pub scores: Option<Scores>,
}

/// A rejection before node evaluation.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rejection {
    /// The reason code.
    pub code: ReasonCode,
    /// The plugin that rejects.
    pub plugin: &'static str,
    /// The plugin's message, as in upstream.
    pub text: String,
}

/// A reason with the nodes it applies to.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// The reason code.
    pub code: ReasonCode,
    /// The plugin that rejects.
    pub plugin: &'static str,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of nodes on which it is the only failing check.
    pub alone_on: usize,
    /// The reason in words, with numbers.
    pub text: String,
    /// Names of some of the nodes.
    pub examples: Vec<String>,
    /// Whether preempting pods with lower priority may help.
    pub preemption_may_help: bool,
}

/// A node with a single obstacle.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NearMiss {
    /// The node's name.
    pub node: String,
    /// The reason codes of that obstacle.
    pub codes: Vec<ReasonCode>,
    /// The reason in words, with numbers.
    pub text: String,
}

/// A part of the pod's spec that matches nothing in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hint {
    /// `LabelKeyUnknown`, `LabelValueUnknown`, `PodSelectorMatchesNothing`, `TopologyKeyUnknown`, `TolerationUnused`,
    /// `SchedulerNameUnknown`.
    pub code: &'static str,
    /// The field.
    pub field: String,
    /// The problem.
    pub text: String,
    /// An existing name that was probably meant.
    pub did_you_mean: Option<String>,
}

/// A verified fix.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The codes of its parts, see [`crate::explain::CHANGE_CODES`].
    pub codes: Vec<&'static str>,
    /// What to do.
    pub text: String,
    /// A command or manifest fragment for it, if any.
    pub how: Option<String>,
    /// Whether the API server rejects it as an update of an existing pod.
    pub needs_new_pod: bool,
    /// Number of feasible nodes with the change; 0 if the pod is no longer needed.
    pub fits_on: usize,
    /// Names of some of the nodes.
    pub examples: Vec<String>,
}

/// The pods a pod would preempt.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preemption {
    /// The node they run on.
    pub node: String,
    /// `namespace/name` of the victims, sorted.
    pub victims: Vec<String>,
}

/// The results for one node.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ByNode {
    /// The node's name.
    pub node: String,
    /// The reasons against it; empty if it is feasible.
    pub reasons: Vec<OfNode>,
}

/// A reason against one node.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OfNode {
    /// The reason code.
    pub code: ReasonCode,
    /// The plugin that rejects.
    pub plugin: &'static str,
    /// The reason in words, with numbers.
    pub text: String,
    /// Whether only pods nominated to the node cause it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub because_nominated: bool,
}

/// The scores of the feasible nodes.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scores {
    /// The nodes, highest total first; at most [`crate::explain::SCORES_MAX`].
    pub nodes: Vec<NodeScores>,
    /// Number of nodes not listed.
    pub left_out: usize,
    /// The nodes with the highest total; one of them is chosen at random.
    pub winners: Vec<String>,
    /// Difference between the highest and the next lower total; null if there is none.
    pub margin: Option<i64>,
    /// The plugins that made the difference, in words.
    pub decided_by: String,
    /// For a pod with a node: that the scores are not those of the moment when it was placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<&'static str>,
}

/// The scores of one node.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeScores {
    /// The node's name.
    pub node: String,
    /// The sum of the weighted scores.
    pub total: i64,
    /// The plugins' scores, in order of evaluation.
    pub plugins: Vec<PluginScore>,
}

/// The score of one plugin for a node.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginScore {
    /// The plugin's name.
    pub plugin: &'static str,
    /// The result of Score.
    pub raw: i64,
    /// The normalized score, 0 to 100.
    pub normalized: i64,
    /// The plugin's weight.
    pub weight: i64,
    /// `normalized` times `weight`.
    pub weighted: i64,
}
