//! NodeAffinity rejects nodes without the required labels and names, and scores nodes by preferred terms.
//!
//! Terms are parsed during conversion; malformed ones match nothing here. Upstream:
//! `pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go`.

use super::normalize::default_normalize_score;
use crate::cache::slice::NodeRole;
use crate::cache::{NodeView, Snapshot};
use crate::collections::shared::Shared;
use crate::framework::{
    ClusterEvent, CycleError, DependsOn, EventSet, Fact, FilterRule, Hint, NodeAction, NodeFilterPlugin,
    NodeScorePlugin, PluginName, Prepared, Rejection, Scale, ScoreRule, Verdict,
};
use crate::model::intern::Tables;
use crate::model::node::{NodeIdx, NodeInfo};
use crate::model::node_pod::NodePod;
use crate::model::node_set::NodeSet;
use crate::model::pod::{PodInfo, PreferredNodeTerm};
use crate::model::selector::{NodeSelectorTerm, RequiredNodeAffinity};
use std::sync::Arc;

pub(crate) const NAME: PluginName = "NodeAffinity";

/// `NodeAffinityArgs`: the added affinity, which applies to every pod of the profile besides its own.
#[derive(Clone, Debug, Default)]
pub struct NodeAffinityArgs {
    /// `addedAffinity.requiredDuringSchedulingIgnoredDuringExecution`.
    pub added_required: Option<Box<[NodeSelectorTerm]>>,
    /// The terms of `addedAffinity.preferredDuringSchedulingIgnoredDuringExecution` that can match.
    ///
    /// `None` means an absent or empty list. If all terms of a list are malformed, the plugin still scores.
    pub added_preferred: Option<Box<[PreferredNodeTerm]>>,
}

/// The plugin.
#[derive(Clone, Debug, Default)]
pub struct NodeAffinity {
    added_required: Option<Arc<[NodeSelectorTerm]>>,
    added_preferred: Option<Arc<[PreferredNodeTerm]>>,
}

impl NodeAffinity {
    /// Creates the plugin with arguments.
    pub fn new(args: NodeAffinityArgs) -> Self {
        Self {
            added_required: args.added_required.map(Into::into),
            added_preferred: args.added_preferred.map(Into::into),
        }
    }

    fn rule(&self, pod: NodePod<'_>) -> Filter {
        Filter { added: self.added_required.clone(), required: pod.node_affinity().clone() }
    }
}

/// Required node affinity: the profile's added affinity and the pod's own.
struct Filter {
    added: Option<Arc<[NodeSelectorTerm]>>,
    required: Shared<RequiredNodeAffinity>,
}

fn fulfils_added(added: Option<&[NodeSelectorTerm]>, tables: &Tables, node: &NodeInfo) -> bool {
    let labels = tables.labels(node.labels);
    added.is_none_or(|terms| terms.iter().any(|term| term.matches(tables, node.name, labels)))
}

fn fulfils(required: &RequiredNodeAffinity, tables: &Tables, node: &NodeInfo) -> bool {
    required.matches(tables, node.name, tables.labels(node.labels))
}

impl NodeFilterPlugin for NodeAffinity {
    fn name(&self) -> PluginName {
        NAME
    }

    fn prepare(&self, pod: NodePod<'_>, snapshot: Snapshot<'_>) -> Prepared<dyn FilterRule> {
        if pod.node_affinity().is_absent() && self.added_required.is_none() {
            return Prepared::Skip;
        }
        let only = pinned_nodes(pod.node_affinity(), snapshot);
        if matches!(only, Pinned::Nowhere) {
            return Prepared::Rejected(Rejection::unresolvable("pod affinity terms conflict"));
        }
        Prepared::Run { rule: Box::new(self.rule(pod)), only: only.into_nodes() }
    }

    fn without_pre_filter(&self, pod: NodePod<'_>, _snapshot: Snapshot<'_>) -> Option<Box<dyn FilterRule>> {
        Some(Box::new(self.rule(pod)))
    }

    fn events(&self) -> EventSet {
        EventSet::NEW_NODE | EventSet::node(NodeAction::UpdateLabel)
    }

    fn hint(&self, event: &ClusterEvent<'_>, pod: &PodInfo, snapshot: Snapshot<'_>) -> Hint {
        match event {
            ClusterEvent::Node { action: NodeAction::Add | NodeAction::UpdateLabel, old, new: Some(new) } => {
                let tables = snapshot.tables();
                // Upstream ignores a node that newly satisfies only the added affinity; supercargo requeues
                // the pod.
                let matches = |node: &NodeInfo| {
                    fulfils_added(self.added_required.as_deref(), tables, node)
                        && fulfils(&pod.node_affinity, tables, node)
                };
                Hint::queue_if(!old.is_some_and(matches) && matches(new))
            }
            ClusterEvent::UnschedulableTimeout => Hint::Queue,
            _ => Hint::Skip,
        }
    }
}

/// The nodes that names in required terms allow.
enum Pinned {
    Anywhere,
    To(Vec<NodeIdx>),
    Nowhere,
}

impl Pinned {
    fn into_nodes(self) -> Option<Vec<NodeIdx>> {
        match self {
            Self::To(nodes) => Some(nodes),
            Self::Anywhere | Self::Nowhere => None,
        }
    }
}

/// Number of nodes to which PreFilter restricts a pod with this affinity, if it does.
pub(crate) fn pinned(required: &RequiredNodeAffinity, snapshot: Snapshot<'_>) -> Option<usize> {
    pinned_nodes(required, snapshot).into_nodes().map(|nodes| nodes.len())
}

/// Returns the nodes named by the terms, if every term names some. Names of missing nodes are not an error.
fn pinned_nodes(required: &RequiredNodeAffinity, snapshot: Snapshot<'_>) -> Pinned {
    let terms = required.terms.as_deref().unwrap_or_default();
    if terms.is_empty() {
        return Pinned::Anywhere;
    }
    let mut names = Vec::new();
    for term in terms {
        match &term.pinned_names {
            None => return Pinned::Anywhere,
            Some(pinned) => names.extend_from_slice(pinned),
        }
    }
    if names.is_empty() {
        return Pinned::Nowhere;
    }
    let mut nodes: Vec<NodeIdx> = names.into_iter().filter_map(|name| snapshot.find_node(name)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    Pinned::To(nodes)
}

impl Filter {
    /// Whether the node satisfies the pod's own requirements.
    fn fulfilled_by(&self, snapshot: Snapshot<'_>, node: NodeIdx) -> bool {
        let judge = || fulfils(&self.required, snapshot.tables(), snapshot.node_info(node));
        match snapshot.slice() {
            None => judge(),
            Some(slice) => {
                let role = NodeRole::RequiredAffinity;
                slice.of_node(role, node, || self.required.work(), || i64::from(judge())) != 0
            }
        }
    }
}

impl FilterRule for Filter {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeSpec
    }

    fn filter(&self, snapshot: Snapshot<'_>, feasible: &mut NodeSet) -> Result<(), CycleError> {
        let (tables, added) = (snapshot.tables(), self.added.as_deref());
        feasible.retain(|node| {
            fulfils_added(added, tables, snapshot.node_info(node)) && self.fulfilled_by(snapshot, node)
        });
        Ok(())
    }

    fn check(&self, node: &NodeView<'_>) -> Verdict {
        let tables = node.snapshot().tables();
        let reason = if !fulfils_added(self.added.as_deref(), tables, node.info()) {
            "node(s) didn't match scheduler-enforced node affinity"
        } else if !self.fulfilled_by(node.snapshot(), node.idx()) {
            "node(s) didn't match Pod's node affinity/selector"
        } else {
            return Verdict::Fits;
        };
        Verdict::Rejected(Rejection::unresolvable(reason))
    }

    fn facts(&self, node: &NodeView<'_>) -> Vec<Fact> {
        let (tables, labels) = (node.snapshot().tables(), node.labels());
        let mut facts = Vec::new();
        if !fulfils_added(self.added.as_deref(), tables, node.info()) {
            unmet_terms(self.added.as_deref(), true, node, &mut facts);
        }
        for &(key, wanted) in self.required.node_selector.iter().flatten() {
            let found = labels.get(key);
            if found != Some(wanted) {
                facts.push(Fact::Selector { key, wanted, found });
            }
        }
        let terms = self.required.terms.as_deref();
        if !fulfils_added(terms, tables, node.info()) {
            unmet_terms(terms, false, node, &mut facts);
        }
        facts
    }
}

/// Appends the unmet label requirements of these terms to `facts`.
fn unmet_terms(terms: Option<&[NodeSelectorTerm]>, added: bool, node: &NodeView<'_>, facts: &mut Vec<Fact>) {
    let (tables, labels) = (node.snapshot().tables(), node.labels());
    for (term, of) in terms.into_iter().flatten().enumerate() {
        let demands = of.demands.iter().flat_map(|demands| &demands.labels);
        for unmet in demands.filter(|demand| !demand.matches(tables, labels)) {
            facts.push(Fact::Term { term, added, unmet: unmet.clone(), found: labels.get(unmet.key) });
        }
    }
}

impl NodeScorePlugin for NodeAffinity {
    fn name(&self) -> PluginName {
        NAME
    }

    fn prepare(&self, pod: NodePod<'_>, _snapshot: Snapshot<'_>) -> Prepared<dyn ScoreRule> {
        let own = match pod.preferred_node_affinity() {
            Some(Err(error)) => return Prepared::Failed(CycleError(error.to_string())),
            None if self.added_preferred.is_none() => return Prepared::Skip,
            None => None,
            Some(Ok(terms)) => Some(Arc::clone(terms)),
        };
        let rule = Score { added: self.added_preferred.clone(), own };
        Prepared::Run { rule: Box::new(rule), only: None }
    }
}

struct Score {
    added: Option<Arc<[PreferredNodeTerm]>>,
    /// The pod's own terms.
    own: Option<Arc<[PreferredNodeTerm]>>,
}

impl Score {
    /// The pod's own preferred terms.
    fn preferred(&self) -> &[PreferredNodeTerm] {
        self.own.as_deref().unwrap_or_default()
    }
}

impl ScoreRule for Score {
    fn score(&self, snapshot: Snapshot<'_>, feasible: &NodeSet, raw: &mut [i64]) -> Result<(), CycleError> {
        let tables = snapshot.tables();
        let weigh = |node: NodeIdx| {
            let node = snapshot.node_info(node);
            let labels = tables.labels(node.labels);
            let terms = self.added.as_deref().into_iter().flatten().chain(self.preferred());
            let matching = terms.filter(|preferred| preferred.term.matches(tables, node.name, labels));
            matching.map(|preferred| i64::from(preferred.weight)).sum()
        };
        let work = || self.preferred().iter().map(|preferred| preferred.term.work()).sum();
        let sliced = snapshot.slice().map(|slice| (slice, work()));
        for (cell, node) in raw.iter_mut().zip(feasible.iter()) {
            *cell = match sliced {
                None => weigh(node),
                Some((slice, work)) => {
                    slice.of_node(NodeRole::PreferredAffinity, node, || work, || weigh(node))
                }
            };
        }
        Ok(())
    }

    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeSpec
    }

    fn scale(&self) -> Scale {
        Scale::Relative
    }

    fn normalize(&self, _snapshot: Snapshot<'_>, _feasible: &NodeSet, raw: &mut [i64]) {
        default_normalize_score(raw, false);
    }
}
