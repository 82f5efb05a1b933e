//! The `ShadowReport`: `/debug/shadow` serves it and `supercargo shadow report` reads it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use supercargo_core::compare::{Comparison, OtherDecision, Scored};
use supercargo_core::shadow::Judgement;

/// The HTTP path of the report.
pub const PAGE: &str = "/debug/shadow";
/// `apiVersion` of the report.
pub const API_VERSION: &str = "supercargo.dev/v1alpha1";
/// `kind` of the report.
pub const KIND: &str = "ShadowReport";

/// How far the two schedulers agree, with the latest disagreements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShadowReport {
    /// `supercargo.dev/v1alpha1` in this version.
    pub api_version: String,
    /// `ShadowReport`.
    pub kind: String,
    /// The `schedulerName` whose decisions are compared.
    pub shadow_of: String,
    /// Start of the shadow or of its current configuration, RFC 3339.
    pub since: String,
    /// Number of decisions per result, with the labels of `supercargo_shadow_decisions_total`.
    pub decisions: BTreeMap<String, u64>,
    /// Number of decisions not compared per reason, with the labels of `supercargo_shadow_unjudged_total`.
    pub unjudged: BTreeMap<String, u64>,
    /// Number of disagreements dropped to make room for later ones.
    pub dropped: u64,
    /// The latest disagreements, oldest first, including raced ones.
    pub disagreements: Vec<Disagreement>,
}

impl ShadowReport {
    /// Returns whether kind and version are those of this program.
    pub fn is_of_this_version(&self) -> bool {
        self.api_version == API_VERSION && self.kind == KIND
    }
}

/// A pod's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodName {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
}

/// A decision on which the two schedulers differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Disagreement {
    /// When the other scheduler's decision arrived, RFC 3339.
    pub time: String,
    /// The pod.
    pub pod: PodName,
    /// The result, with the labels of `supercargo_shadow_decisions_total`.
    pub agreement: String,
    /// The best total minus the total of the other scheduler's node; absent if either has none, or if they raced.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub regret: Option<i64>,
    /// Number of feasible nodes.
    pub feasible_nodes: usize,
    /// The node that supercargo chooses.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ours: Option<Node>,
    /// The other scheduler's choice.
    pub theirs: Side,
}

/// What the other scheduler chose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", untagged)]
pub enum Side {
    /// A feasible node.
    Scored(Node),
    /// An infeasible node.
    #[serde(rename_all = "camelCase")]
    Rejected {
        /// The node's name.
        node: String,
        /// The first plugin that rejects the node.
        rejected_by: Option<String>,
        /// The plugin's reason.
        reason: String,
    },
    /// No node.
    None {
        /// The message of the pod's condition.
        message: String,
    },
}

/// A feasible node with its scores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// The node's name.
    pub node: String,
    /// The sum of the weighted scores.
    pub total: i64,
    /// The plugins' scores, in order of evaluation.
    pub plugins: Vec<Cell>,
}

/// The score of one plugin for a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// The plugin's name.
    pub plugin: String,
    /// The raw score.
    pub raw: i64,
    /// The normalized score, 0 to 100.
    pub normalized: i64,
    /// The plugin's weight.
    pub weight: i64,
    /// `normalized` times `weight`.
    pub weighted: i64,
}

impl Disagreement {
    /// Creates the entry of a result; `None` if there is nothing to compare.
    pub fn of(judgement: &Judgement, time: String) -> Option<Self> {
        let Comparison { ours, theirs, feasible } = judgement.comparison.as_ref()?;
        let pod = &judgement.pod;
        let (namespace, name) = (pod.namespace.clone(), pod.name.clone());
        Some(Self {
            time,
            pod: PodName { namespace, name, uid: pod.uid.to_string() },
            agreement: judgement.agreement.as_str().to_owned(),
            regret: judgement.regret,
            feasible_nodes: *feasible,
            ours: ours.as_ref().map(node),
            theirs: match theirs {
                OtherDecision::Scored(scored) => Side::Scored(node(scored)),
                OtherDecision::Rejected { node, plugin, reason } => Side::Rejected {
                    node: node.clone(),
                    rejected_by: plugin.map(str::to_owned),
                    reason: reason.clone(),
                },
                OtherDecision::None { message } => Side::None { message: message.clone() },
            },
        })
    }
}

fn node(scored: &Scored) -> Node {
    let cells = scored.plugins.iter().map(|cell| Cell {
        plugin: cell.plugin.to_owned(),
        raw: cell.raw,
        normalized: cell.normalized,
        weight: cell.weight,
        weighted: cell.normalized * cell.weight,
    });
    Node { node: scored.node.clone(), total: scored.total, plugins: cells.collect() }
}
