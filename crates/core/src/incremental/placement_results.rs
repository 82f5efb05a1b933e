//! The results of node evaluations on the nodes of a placement, while members of a group are assumed there.
//!
//! A node evaluation holds for all members that differ only in fields which plugins that judge each node alone do not
//! read. An assumed member changes the result of its node alone, so the next member evaluates one node. Filters and
//! scores that read the cluster run for each member on the nodes that are left.

use super::node_evaluation::NodeEvaluation;
use super::score_table::drawn_best;
use super::signature_state::{Fallback, INFEASIBLE};
use crate::cache::Snapshot;
use crate::cycle::{EnabledFilter, EnabledScore, Framework, Rank};
use crate::framework::{MAX_NODE_SCORE, Prepared};
use crate::model::node::NodeIdx;
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;
use crate::model::signature::NodeSignature;
use crate::switches::ablation::{self, Layer};
use std::sync::Arc;

/// Maximum number of node evaluations of a group. Each takes about 0.2 ms and 0.2 MB for 5,000 nodes. A group with more
/// kinds of members does without.
const EVALUATIONS_MAX: usize = 64;

/// The node evaluations of a group's members.
pub(crate) struct GroupEvaluations {
    /// One for each node signature.
    evaluations: Vec<NodeEvaluation>,
    /// By member in order: a position in `evaluations`.
    of_members: Vec<usize>,
    /// Whether nothing but the nodes judges any member: no plugin that reads the cluster has a rule for it, and it has
    /// no terms or ports that matter for others.
    are_sole: bool,
}

impl GroupEvaluations {
    /// Evaluates all nodes for each kind of member. Returns `None` if the evaluations cannot be shared. No pod may be
    /// nominated to a node.
    pub(crate) fn new(framework: &Framework, pods: &[Arc<PodInfo>], snapshot: Snapshot<'_>) -> Option<Self> {
        if framework.sampling.is_some() || ablation::is_off(Layer::Cache) || !framework.has_sound_plugins() {
            return None;
        }
        let (mut kinds, mut of_members): (Vec<NodeSignature>, Vec<usize>) = (Vec::new(), Vec::new());
        let mut are_sole = true;
        for pod in pods {
            if !pod.volumes.is_empty() || !pod.claims.is_empty() || !pod.container_requests.is_empty() {
                return None;
            }
            let signature = NodeSignature::of(pod);
            let known = kinds.iter().position(|other| *other == signature);
            of_members.push(known.unwrap_or(kinds.len()));
            if known.is_none() {
                kinds.push(signature);
            }
            are_sole = are_sole
                && pod.pod_affinity.is_none()
                && pod.ports.is_empty()
                && framework.skips_in_cluster(pod, snapshot);
        }
        // Each kind evaluates the nodes of all members before it. That only pays if members share a kind, or if
        // nothing else is left to do.
        if kinds.len() > EVALUATIONS_MAX || !are_sole && kinds.len() * 2 > pods.len() {
            return None;
        }
        let evaluations = kinds.iter().map(|kind| NodeEvaluation::new(framework, kind.pod(), snapshot));
        let evaluations: Vec<NodeEvaluation> = evaluations.collect::<Result<_, Fallback>>().ok()?;
        let are_usable = evaluations.iter().all(NodeEvaluation::is_relative_to_objects);
        are_usable.then_some(Self { evaluations, of_members, are_sole })
    }

    /// Whether nothing but the nodes judges any member.
    pub(crate) fn are_sole(&self) -> bool {
        self.are_sole
    }

    /// Whether one evaluation holds for all members.
    pub(crate) fn is_one(&self) -> bool {
        self.evaluations.len() == 1
    }

    /// Returns the number of evaluations.
    pub(crate) fn len(&self) -> usize {
        self.evaluations.len()
    }

    /// Returns the position of the evaluation of a member.
    pub(crate) fn of_member(&self, at: usize) -> usize {
        self.of_members[at]
    }

    /// Returns the results of an evaluation in a placement in which no member is assumed.
    pub(crate) fn results_in(&self, at: usize, within: &NodeSet) -> PlacementResults {
        PlacementResults::new(&self.evaluations[at], within)
    }

    /// Chooses a node for a member in a placement from the results of the member's evaluation. `assumed` has the nodes
    /// of the members assumed there so far. `draw` gets the number of tied nodes and picks one of them in slot order.
    ///
    /// Returns `None` if the full evaluation must decide: no node is feasible, or a plugin fails.
    pub(crate) fn choose(
        &self,
        member: usize,
        results: &mut PlacementResults,
        (framework, pod, snapshot): (&Framework, &PodInfo, Snapshot<'_>),
        assumed: &[NodeIdx],
        draw: impl FnOnce(usize) -> usize,
    ) -> Option<PlacementChoice> {
        let evaluation = &self.evaluations[self.of_members[member]];
        results.follow(evaluation, snapshot, assumed).ok()?;
        if results.feasible == 0 {
            return None;
        }
        if !self.are_sole {
            return results.choose_in_cluster(evaluation, (framework, pod, snapshot), draw).ok()?;
        }
        if !results.is_normalized {
            results.normalize(evaluation, snapshot).ok()?;
        }
        Some(results.choice(&results.totals, results.feasible, draw))
    }
}

/// The results of one node evaluation in a placement.
pub(crate) struct PlacementResults {
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
    fn new(evaluation: &NodeEvaluation, within: &NodeSet) -> Self {
        let table = evaluation.table();
        let (bases, classes_of) = (table.base(), table.classes().by_slot());
        let size = within.len();
        let (mut cells, mut totals) = (Vec::with_capacity(size), Vec::with_capacity(size));
        let (mut classes, mut feasible): (Vec<(u16, usize)>, usize) = (Vec::new(), 0);
        for node in within.iter() {
            totals.push((node, INFEASIBLE));
            let base = bases.get(node.index()).copied().unwrap_or(INFEASIBLE);
            if base == INFEASIBLE {
                cells.push((INFEASIBLE, 0));
                continue;
            }
            let class = classes_of[node.index()];
            cells.push((base, class));
            feasible += 1;
            match classes.iter_mut().find(|(number, _)| *number == class) {
                Some((_, nodes)) => *nodes += 1,
                None => classes.push((class, 1)),
            }
        }
        Self {
            evaluated: evaluation.candidates_in(within),
            totals,
            cells,
            feasible,
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
        let classes: Vec<u16> = self.classes.iter().map(|(class, _)| *class).collect();
        let points = points_of(evaluation, snapshot, &classes)?;
        for ((_, total), &(base, class)) in self.totals.iter_mut().zip(&self.cells) {
            let point = points.iter().find(|(number, _)| base != INFEASIBLE && *number == class);
            *total = point.map_or(INFEASIBLE, |(_, points)| base + points);
        }
        self.is_normalized = true;
        Ok(())
    }

    fn choice(
        &self,
        totals: &[(NodeIdx, i32)],
        feasible: usize,
        draw: impl FnOnce(usize) -> usize,
    ) -> PlacementChoice {
        let (node, total) = drawn_best(totals, draw);
        let score = (feasible > 1).then_some(i64::from(total));
        PlacementChoice { node, evaluated: self.evaluated, feasible, score }
    }

    /// Chooses a node among those that filters which read the cluster leave, with their scores. Returns `None` if none
    /// is left.
    fn choose_in_cluster(
        &self,
        evaluation: &NodeEvaluation,
        (framework, pod, snapshot): (&Framework, &PodInfo, Snapshot<'_>),
        draw: impl FnOnce(usize) -> usize,
    ) -> Result<Option<PlacementChoice>, Fallback> {
        let cells = || self.totals.iter().map(|(node, _)| *node).zip(&self.cells);
        let mut left: NodeSet =
            cells().filter(|(_, (base, _))| *base != INFEASIBLE).map(|(node, _)| node).collect();
        framework.filter_in_cluster(pod, snapshot, &mut left)?;
        let left_cells: Vec<(NodeIdx, i32, u16)> = cells()
            .filter(|(node, _)| left.contains(*node))
            .map(|(node, &(base, class))| (node, base, class))
            .collect();
        let mut totals: Vec<(NodeIdx, i32)> =
            left_cells.iter().map(|&(node, base, _)| (node, base)).collect();
        if totals.len() > 1 {
            let mut classes: Vec<u16> = left_cells.iter().map(|(.., class)| *class).collect();
            classes.sort_unstable();
            classes.dedup();
            let points = points_of(evaluation, snapshot, &classes)?;
            for ((_, total), (.., class)) in totals.iter_mut().zip(&left_cells) {
                *total += points.iter().find(|(number, _)| number == class).map_or(0, |(_, points)| *points);
            }
            framework.score_in_cluster(pod, snapshot, &left, &mut totals)?;
        }
        Ok((!totals.is_empty()).then(|| self.choice(&totals, totals.len(), draw)))
    }
}

/// Returns the points of each class by the scores that are normalized over all feasible nodes, whose classes these are.
fn points_of(
    evaluation: &NodeEvaluation,
    snapshot: Snapshot<'_>,
    classes: &[u16],
) -> Result<Vec<(u16, i32)>, Fallback> {
    let mut points: Vec<(u16, i32)> = classes.iter().map(|&class| (class, 0)).collect();
    let mut are_scores = true;
    let numbers = classes.iter().map(|&class| usize::from(class));
    evaluation.score_classes(snapshot, &numbers, |at, weight, score| {
        are_scores &= is_score(score);
        // The sum of the weights was limited in the node evaluation.
        points[at].1 += (weight * score.clamp(0, MAX_NODE_SCORE)) as i32;
    });
    if are_scores { Ok(points) } else { Err(Fallback) }
}

fn is_score(score: i64) -> bool {
    (0..=MAX_NODE_SCORE).contains(&score)
}

impl Framework {
    /// Whether no plugin fails because its preparing extension point is disabled.
    fn has_sound_plugins(&self) -> bool {
        let is_sound = |rank: Option<Rank>| rank.is_none_or(|rank| rank.fails.is_none());
        self.filters.iter().all(|enabled| is_sound(enabled.filter))
            && self.scores.iter().all(|enabled| is_sound(enabled.score))
    }

    /// Returns the plugins with Filter that read the cluster.
    fn cluster_filters(&self) -> impl Iterator<Item = &EnabledFilter> {
        self.filters.iter().filter(|enabled| enabled.plugin.as_node_plugin().is_none())
    }

    /// Returns the plugins with Score that read the cluster.
    fn cluster_scores(&self) -> impl Iterator<Item = &EnabledScore> {
        let of_cluster = self.scores.iter().filter(|enabled| enabled.plugin.as_node_plugin().is_none());
        of_cluster.filter(|enabled| enabled.score.is_some())
    }

    /// Whether all plugins that read the cluster skip the pod.
    fn skips_in_cluster(&self, pod: &PodInfo, snapshot: Snapshot<'_>) -> bool {
        let skips_score = |enabled: &EnabledScore| {
            matches!(enabled.plugin.prepare(pod, snapshot, snapshot.nodes()), Prepared::Skip)
        };
        self.cluster_filters().all(|it| matches!(it.plugin.prepare(pod, snapshot), Prepared::Skip))
            && self.cluster_scores().all(skips_score)
    }

    /// Runs the filters that read the cluster on `nodes`, which passed all others.
    fn filter_in_cluster(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        nodes: &mut NodeSet,
    ) -> Result<(), Fallback> {
        for enabled in self.cluster_filters() {
            let rule = if enabled.pre_filter {
                match enabled.plugin.prepare(pod, snapshot) {
                    Prepared::Skip => None,
                    Prepared::Run { rule, only: None } => Some(rule),
                    _ => return Err(Fallback),
                }
            } else {
                enabled.unprepared(|| enabled.plugin.without_pre_filter(pod, snapshot))
            };
            if let Some(rule) = rule.filter(|_| enabled.filter.is_some()) {
                rule.filter(snapshot, nodes).map_err(|_| Fallback)?;
            }
        }
        Ok(())
    }

    /// Adds the scores that read the cluster to the totals of the feasible nodes, in slot order.
    fn score_in_cluster(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        feasible: &NodeSet,
        totals: &mut [(NodeIdx, i32)],
    ) -> Result<(), Fallback> {
        for enabled in self.cluster_scores() {
            let rule = match enabled.plugin.prepare(pod, snapshot, feasible) {
                Prepared::Skip => continue,
                Prepared::Run { rule, .. } => rule,
                _ => return Err(Fallback),
            };
            let mut cells = vec![0_i64; totals.len()];
            rule.score(snapshot, feasible, &mut cells).map_err(|_| Fallback)?;
            rule.normalize(snapshot, feasible, &mut cells);
            for ((_, total), score) in totals.iter_mut().zip(cells) {
                if !is_score(score) {
                    return Err(Fallback);
                }
                // The sum of the weights was limited in the node evaluation.
                *total += (enabled.weight * score) as i32;
            }
        }
        Ok(())
    }
}
