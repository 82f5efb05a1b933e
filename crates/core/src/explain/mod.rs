//! Every filter's word on every node, for people: a decision asks no further once one filter has said no.
//!
//! Asked beside the decisions and by none of them; changes nothing. What is said first of a node is what the decision says of
//! it, which a law shows (`what_is_explained_is_what_is_decided`). What would help, and how to put it, is the shell's business.

mod scores;

pub use scores::{PluginTable, ScoreTable};

use crate::cache::{NodeView, Overlay, Snapshot};
use crate::cycle::{Framework, unprepared};
use crate::framework::{
    Code, CycleError, Fact, FilterRule, PluginName, Prepared, Reason, Rejection, Verdict,
};
use crate::node::NodeIdx;
use crate::node_set::NodeSet;
use crate::pod::PodInfo;

/// What all filters say of a pod.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// What is said before any node is looked at, in the order of PreFilter: of all nodes alike.
    pub before: Vec<Objection>,
    /// What is said of each node, by slot; none where it can take the pod.
    pub nodes: Vec<NodeFindings>,
}

/// What all filters say of one node.
#[derive(Clone, Debug)]
pub struct NodeFindings {
    /// The node.
    pub node: NodeIdx,
    /// What speaks against it, in the order of the filters.
    pub objections: Vec<Objection>,
}

/// One filter's no.
#[derive(Clone, Debug)]
pub struct Objection {
    /// The plugin.
    pub plugin: PluginName,
    /// Whether preemption may help; `None` where the plugin failed.
    pub code: Option<Code>,
    /// Why, in upstream's words.
    pub reasons: Vec<Reason>,
    /// The numbers and names behind it.
    pub facts: Vec<Fact>,
    /// Whether it is so only because of pods nominated to the node, which are not there yet.
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
    /// How many nodes can take the pod.
    pub fn feasible(&self) -> usize {
        if self.before.is_empty() {
            self.nodes.iter().filter(|node| node.objections.is_empty()).count()
        } else {
            0
        }
    }
}

/// A filter's rule for the pod, and the nodes it named beforehand.
struct Seat {
    plugin: PluginName,
    rank: Option<usize>,
    rule: Option<Box<dyn FilterRule>>,
    only: Option<NodeSet>,
}

impl Framework {
    /// Asks every filter about every node.
    pub fn explain(&self, pod: &PodInfo, snapshot: Snapshot<'_>) -> Findings {
        self.explain_on(pod, snapshot, snapshot.nodes().iter())
    }

    /// Asks every filter about these nodes.
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
                found.rule = unprepared(seat, pod, snapshot);
            }
            seats.push(found);
        }
        seats
    }
}

impl Seat {
    /// What the filter says against the node, as it is or once the pods nominated to it are there (`crowded`).
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
