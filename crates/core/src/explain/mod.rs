//! Explanations: the result of every filter on every node. A decision stops at the first rejection of a node.
//!
//! Explanations run separately from decisions and change nothing. The first objection against a node equals
//! the decision's; a law proves it (`explanation_equals_decision`). Suggestions and wording are
//! produced outside the engine.

mod scores;

pub use scores::{PluginTable, ScoreTable};

use crate::cache::{NodeView, Overlay, Snapshot};
use crate::cycle::Framework;
use crate::framework::{
    Code, CycleError, Fact, FilterRule, PluginName, Prepared, Reason, Rejection, Verdict,
};
use crate::model::node::NodeIdx;
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;

/// The results of all filters for a pod.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Objections of PreFilter, which concern all nodes, in plugin order.
    pub before: Vec<Objection>,
    /// Objections for each node, by slot; empty for feasible nodes.
    pub nodes: Vec<NodeFindings>,
}

/// The results of all filters for one node.
#[derive(Clone, Debug)]
pub struct NodeFindings {
    /// The node.
    pub node: NodeIdx,
    /// Rejections and errors, in filter order.
    pub objections: Vec<Objection>,
}

/// A filter's rejection or error.
#[derive(Clone, Debug)]
pub struct Objection {
    /// The plugin.
    pub plugin: PluginName,
    /// Whether preemption may help; `None` if the plugin failed.
    pub code: Option<Code>,
    /// The reasons, in upstream's words.
    pub reasons: Vec<Reason>,
    /// The numbers and names behind the rejection.
    pub facts: Vec<Fact>,
    /// Whether only pods nominated to the node, but not yet on it, cause the rejection.
    pub because_nominated: bool,
}

impl Objection {
    fn of(plugin: PluginName, rejection: Rejection, facts: Vec<Fact>) -> Self {
        let Rejection { code, reasons } = rejection;
        Self { plugin, code: Some(code), reasons, facts, because_nominated: false }
    }

    fn failed(plugin: PluginName, CycleError(text): CycleError) -> Self {
        let reasons = vec![text.into()];
        Self { plugin, code: None, reasons, facts: Vec::new(), because_nominated: false }
    }
}

impl Findings {
    /// Returns the number of feasible nodes.
    pub fn feasible(&self) -> usize {
        if self.before.is_empty() {
            self.nodes.iter().filter(|node| node.objections.is_empty()).count()
        } else {
            0
        }
    }
}

/// A filter's rule for the pod, and the nodes to which PreFilter restricts it.
struct Seat {
    plugin: PluginName,
    rank: Option<usize>,
    rule: Option<Box<dyn FilterRule>>,
    only: Option<NodeSet>,
}

impl Framework {
    /// Runs every filter on every node.
    pub fn explain(&self, pod: &PodInfo, snapshot: Snapshot<'_>) -> Findings {
        self.explain_on(pod, snapshot, snapshot.nodes().iter())
    }

    /// Runs every filter on these nodes.
    pub fn explain_on(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        nodes: impl IntoIterator<Item = NodeIdx>,
    ) -> Findings {
        let mut findings = Findings::default();
        let mut seats = self.explained_seats(pod, snapshot, &mut findings.before);
        seats.sort_by_key(|seat| seat.rank);
        for idx in nodes {
            let mut overlay = Overlay::new();
            let nominated = snapshot.nominated_on(idx);
            for other in nominated.iter().filter(|n| n.priority >= pod.priority && n.uid != pod.uid) {
                overlay.add(other);
            }
            let node = snapshot.node(idx);
            let crowded = (!overlay.is_empty()).then(|| node.with(&overlay));
            let objections = seats.iter().filter_map(|seat| seat.objects_to(&node, crowded.as_ref()));
            findings.nodes.push(NodeFindings { node: idx, objections: objections.collect() });
        }
        findings
    }

    fn explained_seats(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        before: &mut Vec<Objection>,
    ) -> Vec<Seat> {
        let mut seats = Vec::with_capacity(self.filters.len());
        for seat in &self.filters {
            let plugin = seat.plugin.name();
            let rank = seat.filter.map(|place| place.rank);
            let mut found = Seat { plugin, rank, rule: None, only: None };
            if seat.pre_filter {
                match seat.plugin.prepare(pod, snapshot) {
                    Prepared::Skip => {}
                    Prepared::Rejected(rejection) => {
                        before.push(Objection::of(plugin, rejection, Vec::new()));
                    }
                    Prepared::Failed(error) => before.push(Objection::failed(plugin, error)),
                    Prepared::Run { rule, only } => {
                        found.only = only.map(|only| only.into_iter().collect());
                        found.rule = seat.filter.map(|_| rule);
                    }
                }
            } else {
                found.rule = seat.unprepared(|| seat.plugin.without_pre_filter(pod, snapshot));
            }
            seats.push(found);
        }
        seats
    }
}

impl Seat {
    /// Returns the filter's objection to the node as it is, or with the pods nominated to it (`crowded`).
    fn objects_to(&self, node: &NodeView<'_>, crowded: Option<&NodeView<'_>>) -> Option<Objection> {
        let ruled = self.rule.as_deref().and_then(|rule| {
            let as_it_is = objection(self.plugin, rule, node);
            let among_nominated = || {
                let more = objection(self.plugin, rule, crowded?)?;
                Some(Objection { because_nominated: true, ..more })
            };
            as_it_is.or_else(among_nominated)
        });
        let left_out = || {
            let is_out = self.only.as_ref().is_some_and(|only| !only.contains(node.idx()));
            let text = format!("node(s) didn't satisfy plugin(s) [{}]", self.plugin);
            is_out.then(|| Objection::of(self.plugin, Rejection::unresolvable(text), Vec::new()))
        };
        ruled.or_else(left_out)
    }
}

fn objection(plugin: PluginName, rule: &dyn FilterRule, node: &NodeView<'_>) -> Option<Objection> {
    match rule.check(node) {
        Verdict::Fits => None,
        Verdict::Rejected(rejection) => Some(Objection::of(plugin, rejection, rule.facts(node))),
        Verdict::Failed(error) => Some(Objection::failed(plugin, error)),
    }
}
