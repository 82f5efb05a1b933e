//! The reasons why no node is feasible for a pod, in upstream's words (`pkg/scheduler/framework/types.go#FitError`).

use super::Filtered;
use crate::cache::Snapshot;
use crate::framework::histogram::Histogram;
use crate::framework::{Code, PluginName, Reason, Rejection};
use crate::model::extender;
use crate::model::node::NodeIdx;
use crate::model::node_set::NodeSet;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The rejection of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeVerdict {
    /// The node.
    pub node: NodeIdx,
    /// The first plugin that rejected it.
    pub plugin: PluginName,
    /// Whether evictions may help.
    pub code: Code,
    /// The reasons, in the plugin's order.
    pub reasons: Vec<Reason>,
}

/// The reasons why a decision found no feasible node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// The plugins that rejected nodes. An event for which one of them is registered may make the pod schedulable.
    pub rejectors: BTreeSet<PluginName>,
    /// The text of the FailedScheduling event, without PostFilter's part.
    pub message: String,
    /// The nodes that rejected the pod with [`Code::Unschedulable`]. Evictions may help there.
    pub curable: NodeSet,
}

impl Filtered {
    /// Returns the verdicts on all rejected nodes, by slot.
    pub fn verdicts(&self, snapshot: Snapshot<'_>) -> Vec<NodeVerdict> {
        let mut verdicts = Vec::new();
        self.for_each_rejected(snapshot, |node, plugin, rejection| {
            let reasons = rejection.reasons.clone();
            verdicts.push(NodeVerdict { node, plugin, code: rejection.code, reasons });
        });
        verdicts.sort_by_key(|v| v.node);
        verdicts
    }

    /// Returns the diagnosis of a pod without a feasible node.
    pub fn diagnose(&self, snapshot: Snapshot<'_>) -> Diagnosis {
        let nodes = self.all_nodes(snapshot);
        let all = nodes.len();
        if let Some((plugin, rejection)) = self.prefilter_rejection() {
            return prefilter_diagnosis(plugin, rejection, nodes);
        }
        let mut rejectors = BTreeSet::new();
        let mut curable = NodeSet::new();
        let mut reasons = Histogram::default();
        let (mut evaluated, mut last) = (0, None);
        self.for_each_rejected(snapshot, |node, plugin, rejection| {
            if last.replace(plugin) != Some(plugin) {
                rejectors.insert(plugin);
            }
            if self.extender_rejections.contains(node, snapshot) {
                return;
            }
            evaluated += 1;
            reasons.add(&rejection.reasons);
            if rejection.code == Code::Unschedulable {
                curable.insert(node);
            }
        });
        for (name, rejection) in &self.extender_rejections.failed {
            evaluated += 1;
            reasons.add(&rejection.reasons);
            let node = snapshot.tables().find(name).and_then(|name| snapshot.find_node(name));
            if let Some(node) = node.filter(|_| rejection.code == Code::Unschedulable) {
                curable.insert(node);
            }
        }
        if self.extender_rejections.dropped {
            rejectors.insert(extender::NAME);
        }
        let narrowed_by = self.narrowed_by();
        rejectors.extend(narrowed_by);
        if !narrowed_by.is_empty() {
            let mut names = narrowed_by.to_vec();
            names.sort_unstable();
            let text = format!("node(s) didn't satisfy plugin(s) [{}]", names.join(" "));
            // An extender may name a node that does not exist.
            reasons.add_times(text.into(), all.saturating_sub(evaluated));
        }
        Diagnosis { rejectors, message: reasons.message(all), curable }
    }
}

/// Returns the diagnosis of a rejection in PreFilter, which counts for every node.
fn prefilter_diagnosis(plugin: PluginName, rejection: &Rejection, nodes: &NodeSet) -> Diagnosis {
    let mut message = Histogram::default().message(nodes.len());
    let text = rejection.message();
    if !text.is_empty() {
        let _ = write!(message, " {text}.");
    }
    let curable = match rejection.code {
        Code::Unschedulable => nodes.clone(),
        Code::UnschedulableAndUnresolvable => NodeSet::new(),
    };
    Diagnosis { rejectors: [plugin].into(), message, curable }
}
