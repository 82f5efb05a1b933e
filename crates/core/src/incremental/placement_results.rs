//! The results of a node evaluation on the nodes of a placement, while members of a group are assumed there.
//!
//! Members that only the nodes themselves judge share them: an assumed member changes the result of its node alone, so
//! the next member evaluates one node. The members count in the columns of their nodes, but are not in the change log.

use super::node_evaluation::NodeEvaluation;
use super::score_table::drawn_best;
use super::signature_state::{Fallback, INFEASIBLE};
use super::{Cached, DecisionCache};
use crate::cache::Snapshot;
use crate::cycle::Framework;
use crate::framework::MAX_NODE_SCORE;
use crate::model::node::NodeIdx;
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;
use std::sync::Arc;

/// The results of one node evaluation in a placement.
pub(crate) struct PlacementResults {
    /// The index of the node evaluation.
    evaluation: usize,
    /// The number of nodes that filters evaluate.
    evaluated: usize,
    /// The base score and the class of each node, in slot order.
    cells: Vec<(i32, u16)>,
    /// The nodes with their totals, in the same order.
    totals: Vec<(NodeIdx, i32)>,
    /// The classes of the feasible nodes, each with the number of these nodes.
    classes: Vec<(u16, usize)>,
    feasible: usize,
    /// Whether scores were normalized since a class lost its last feasible node.
    is_normalized: bool,
    /// The number of assumed members whose nodes were evaluated again.
    followed: usize,
    /// A reused set of one node.
    one: NodeSet,
}

/// The node that was chosen for a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlacementChoice {
    pub(crate) node: NodeIdx,
    /// The number of nodes with a verdict.
    pub(crate) evaluated: usize,
    /// The number of feasible nodes.
    pub(crate) feasible: usize,
    /// The total; `None` if only one node is feasible, which skips scoring.
    pub(crate) score: Option<i64>,
}

impl PlacementResults {
    fn new(index: usize, evaluation: &NodeEvaluation, within: &NodeSet) -> Self {
        let table = evaluation.table();
        let cell = |node: NodeIdx| {
            let base = table.base().get(node.index()).copied().unwrap_or(INFEASIBLE);
            (base, if base == INFEASIBLE { 0 } else { table.classes().by_slot()[node.index()] })
        };
        let cells: Vec<(i32, u16)> = within.iter().map(cell).collect();
        let mut classes: Vec<(u16, usize)> = Vec::new();
        for &(_, class) in cells.iter().filter(|(base, _)| *base != INFEASIBLE) {
            match classes.iter_mut().find(|(number, _)| *number == class) {
                Some((_, nodes)) => *nodes += 1,
                None => classes.push((class, 1)),
            }
        }
        Self {
            evaluation: index,
            evaluated: evaluation.candidates_in(within),
            totals: within.iter().map(|node| (node, INFEASIBLE)).collect(),
            cells,
            feasible: classes.iter().map(|(_, nodes)| nodes).sum(),
            classes,
            is_normalized: false,
            followed: 0,
            one: NodeSet::new(),
        }
    }

    /// Evaluates the nodes of the members again that were assumed since the last call. `assumed` has those of all.
    fn follow(
        &mut self,
        evaluation: &NodeEvaluation,
        snapshot: Snapshot<'_>,
        assumed: &[NodeIdx],
    ) -> Result<(), Fallback> {
        for &node in &assumed[self.followed..] {
            let at = self.totals.binary_search_by_key(&node, |&(node, _)| node).map_err(|_| Fallback)?;
            let (before, class) = self.cells[at];
            let base = evaluation.base_of(snapshot, node, &mut self.one)?.unwrap_or(INFEASIBLE);
            self.cells[at].0 = base;
            match (before == INFEASIBLE, base == INFEASIBLE) {
                (false, false) => self.totals[at].1 += base - before,
                (false, true) => {
                    self.totals[at].1 = INFEASIBLE;
                    self.leave(class);
                }
                (true, true) => {}
                // More members on a node do not make it feasible.
                (true, false) => return Err(Fallback),
            }
        }
        self.followed = assumed.len();
        Ok(())
    }

    /// Takes an infeasible node out of its class.
    fn leave(&mut self, class: u16) {
        self.feasible -= 1;
        if let Some(at) = self.classes.iter().position(|(number, _)| *number == class) {
            self.classes[at].1 -= 1;
            if self.classes[at].1 == 0 {
                self.classes.swap_remove(at);
                self.is_normalized = false;
            }
        }
    }

    /// Computes the totals of all nodes.
    fn normalize(&mut self, evaluation: &NodeEvaluation, snapshot: Snapshot<'_>) -> Result<(), Fallback> {
        let classes: Vec<usize> = self.classes.iter().map(|(class, _)| usize::from(*class)).collect();
        let (mut points, mut are_scores) = (vec![0_i32; classes.len()], true);
        evaluation.score_classes(snapshot, &classes, |at, weight, score| {
            are_scores &= (0..=MAX_NODE_SCORE).contains(&score);
            // The sum of the weights was limited in the node evaluation.
            points[at] += (weight * score.clamp(0, MAX_NODE_SCORE)) as i32;
        });
        if !are_scores {
            return Err(Fallback);
        }
        for ((_, total), &(base, class)) in self.totals.iter_mut().zip(&self.cells) {
            let at = self.classes.iter().position(|(number, _)| base != INFEASIBLE && *number == class);
            *total = at.map_or(INFEASIBLE, |at| base + points[at]);
        }
        self.is_normalized = true;
        Ok(())
    }
}

impl DecisionCache {
    /// Returns the results of a node evaluation in a placement in which no member is assumed.
    pub(crate) fn results_in(&self, evaluation: usize, within: &NodeSet) -> PlacementResults {
        PlacementResults::new(evaluation, self.evaluations.at(evaluation).evaluation, within)
    }

    /// Chooses a node in a placement; `assumed` has the nodes of the members assumed there so far. `draw` gets the
    /// number of tied nodes and picks one of them in slot order.
    ///
    /// Returns `None` if the full evaluation must decide: no node is feasible, or a plugin fails.
    pub(crate) fn choose_in(
        &self,
        results: &mut PlacementResults,
        snapshot: Snapshot<'_>,
        assumed: &[NodeIdx],
        draw: impl FnOnce(usize) -> usize,
    ) -> Option<PlacementChoice> {
        let evaluation = self.evaluations.at(results.evaluation).evaluation;
        results.follow(evaluation, snapshot, assumed).ok()?;
        if results.feasible == 0 {
            return None;
        }
        if !results.is_normalized {
            results.normalize(evaluation, snapshot).ok()?;
        }
        let (node, total) = drawn_best(&results.totals, draw);
        let &PlacementResults { evaluated, feasible, .. } = &*results;
        let score = (feasible > 1).then_some(i64::from(total));
        Some(PlacementChoice { node, evaluated, feasible, score })
    }
}

impl Framework {
    /// Returns the index of the pod's node evaluation if it alone decides about the pod: no affinity, spreading,
    /// volumes or claims, and no feasible node that depends on other pods. The index is valid until signatures are
    /// evicted.
    pub(crate) fn sole_evaluation(
        &self,
        decisions: &mut DecisionCache,
        pod: &Arc<PodInfo>,
        snapshot: Snapshot<'_>,
    ) -> Option<usize> {
        if pod.pod_affinity.is_some() || !pod.ports.is_empty() {
            return None;
        }
        let index = self.current_state(decisions, pod, snapshot)?;
        let Cached::State(state) = decisions.signatures.get_mut(index) else { return None };
        let evaluation = decisions.evaluations.at(state.evaluation()).evaluation;
        let is_sole =
            evaluation.is_relative_to_objects() && state.is_neutral(self, evaluation, pod, snapshot);
        is_sole.then_some(state.evaluation())
    }
}
