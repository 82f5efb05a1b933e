//! Why no node can take a pod, in upstream's words (`pkg/scheduler/framework/types.go#FitError`).

use super::Filtered;
use crate::cache::Snapshot;
use crate::framework::{Code, PluginName, Reason};
use crate::node::NodeIdx;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Why a node cannot take a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeVerdict {
    /// The node.
    pub node: NodeIdx,
    /// The first plugin that rejected it.
    pub plugin: PluginName,
    /// Whether preemption may help.
    pub code: Code,
    /// Why, in the plugin's order.
    pub reasons: Vec<Reason>,
}

/// Why a decision found no node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// The plugins to blame: an event that concerns one of them may help the pod.
    pub rejectors: BTreeSet<PluginName>,
    /// The text of the FailedScheduling event, without what preemption adds to it.
    pub message: String,
}

impl Filtered {
    /// The verdict on every node that was looked at and rejected, by slot.
    pub fn verdicts(&self, snapshot: Snapshot<'_>) -> Vec<NodeVerdict> {
        let mut verdicts = Vec::new();
        self.for_each_rejected(snapshot, |node, plugin, rejection| {
            let reasons = rejection.reasons.clone();
            verdicts.push(NodeVerdict { node, plugin, code: rejection.code, reasons });
        });
        verdicts.sort_by_key(|v| v.node);
        verdicts
    }

    /// The diagnosis of a pod no node can take.
    pub fn diagnose(&self, snapshot: Snapshot<'_>) -> Diagnosis {
        let all = snapshot.nodes().len();
        let mut message = format!("0/{all} nodes are available:");
        if let Some((plugin, rejection)) = self.prefilter_rejection() {
            let text = rejection.message();
            if !text.is_empty() {
                let _ = write!(message, " {text}.");
            }
            return Diagnosis { rejectors: [plugin].into(), message };
        }
        let mut rejectors = BTreeSet::new();
        let mut histogram: BTreeMap<Reason, usize> = BTreeMap::new();
        let mut looked_at = 0;
        self.for_each_rejected(snapshot, |_, plugin, rejection| {
            looked_at += 1;
            rejectors.insert(plugin);
            for reason in &rejection.reasons {
                match histogram.get_mut(reason) {
                    Some(count) => *count += 1,
                    None => {
                        histogram.insert(reason.clone(), 1);
                    }
                }
            }
        });
        let narrowed_by = self.narrowed_by();
        rejectors.extend(narrowed_by);
        if !narrowed_by.is_empty() && all > looked_at {
            let mut names = narrowed_by.to_vec();
            names.sort_unstable();
            let text = format!("node(s) didn't satisfy plugin(s) [{}]", names.join(" "));
            *histogram.entry(text.into()).or_default() += all - looked_at;
        }
        let mut entries: Vec<String> =
            histogram.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        // As strings, count included: "10 x" stands before "2 y".
        entries.sort_unstable();
        if !entries.is_empty() {
            let _ = write!(message, " {}.", entries.join(", "));
        }
        Diagnosis { rejectors, message }
    }
}
