//! What `/debug/shadow` shows and `supercargo shadow report` reads: a versioned kind, written and read by these types alone.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use supercargo_core::shadow::{Comparison, Judgement, Scored, Theirs};

/// `apiVersion` of the report.
pub(super) const API_VERSION: &str = "supercargo.dev/v1alpha1";
/// `kind` of the report.
pub(super) const KIND: &str = "ShadowReport";

/// How far the two schedulers agree, and where they did not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShadowReport {
    /// Always the same of this version.
    pub api_version: String,
    /// Always the same.
    pub kind: String,
    /// `schedulerName` of the pods whose decisions are judged.
    pub shadow_of: String,
    /// When the shadow was started, or when it began to judge by another configuration, RFC 3339.
    pub since: String,
    /// How many decisions came to what, by the words of `supercargo_shadow_decisions_total`.
    pub decisions: BTreeMap<String, u64>,
    /// How many were not judged, by the words of `supercargo_shadow_unjudged_total`.
    pub unjudged: BTreeMap<String, u64>,
    /// Disagreements that are no longer kept, since later ones took their room.
    pub dropped: u64,
    /// The latest disagreements, the oldest first; those that raced are among them.
    pub disagreements: Vec<Disagreement>,
}

impl ShadowReport {
    /// Whether this is what it says it is, of this version.
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

/// One decision on which the two differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Disagreement {
    /// When their decision arrived, RFC 3339.
    pub time: String,
    /// The pod.
    pub pod: PodName,
    /// What it came to.
    pub agreement: String,
    /// Our best total less their node's; absent where one has none, and where they raced.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub regret: Option<i64>,
    /// How many nodes could take the pod, as seen here.
    pub feasible_nodes: usize,
    /// The node chosen here.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ours: Option<Node>,
    /// What was chosen there.
    pub theirs: Side,
}

/// What the other scheduler chose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", untagged)]
pub enum Side {
    /// A node that can take the pod.
    Scored(Node),
    /// A node that cannot.
    #[serde(rename_all = "camelCase")]
    Rejected {
        /// Its name.
        node: String,
        /// The first plugin that rejects it.
        rejected_by: Option<String>,
        /// Why.
        reason: String,
    },
    /// None.
    None {
        /// In the words of the pod's condition.
        message: String,
    },
}

/// A node that can take the pod, with its scores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its name.
    pub node: String,
    /// The sum of `weighted`.
    pub total: i64,
    /// By plugin, in the order in which they score.
    pub plugins: Vec<Cell>,
}

/// What a plugin gives a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// The plugin.
    pub plugin: String,
    /// Before normalization.
    pub raw: i64,
    /// 0 to 100.
    pub normalized: i64,
    /// The plugin's weight.
    pub weight: i64,
    /// `normalized` times `weight`.
    pub weighted: i64,
}

impl Disagreement {
    /// Of a judgement that has something to compare.
    pub(super) fn of(judgement: &Judgement, time: String) -> Option<Self> {
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
                Theirs::Scored(scored) => Side::Scored(node(scored)),
                Theirs::Rejected { node, plugin, reason } => Side::Rejected {
                    node: node.clone(),
                    rejected_by: plugin.map(str::to_owned),
                    reason: reason.clone(),
                },
                Theirs::None { message } => Side::None { message: message.clone() },
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
