//! The node evaluation: for all pods that differ only in volumes, affinity and spreading, what each node gives them
//! alone.
//!
//! It holds the nodes that pass the filters that judge each node alone, and the scores of such plugins. Signature
//! states refine its classes. It is updated from the change log.

use super::pod_rules::all_pass;
use super::score_table::ScoreTable;
use super::signature_state::Fallback;
use crate::cache::{Facts, NodeChange, NodeView, Snapshot};
use crate::cycle::Framework;
use crate::framework::simd::with_best_instructions;
use crate::framework::{DependsOn, FilterRule, MAX_NODE_SCORE, Prepared, Scale, ScoreRule};
use crate::model::node::NodeIdx;
use crate::model::node_pod::NodePod;
use crate::model::node_set::{NodeSet, bits};
use crate::model::pod::PodInfo;
use crate::switches::ablation::{self, Layer};
use crate::switches::mutation::{self, Mutation};

/// Maximum sum of the plugins' weights, so that totals fit into an `i32`. Profiles beyond it use the full evaluation.
const WEIGHTS_MAX: i64 = (i32::MAX / 4) as i64 / MAX_NODE_SCORE;

/// Pods with at most so many candidate nodes use the full evaluation, such as DaemonSet pods with one node each. That
/// is faster than an update of all nodes, and needs no memory.
const FEW_CANDIDATES: usize = 8;

pub(super) struct NodeEvaluation {
    /// The cache's clock at the last update.
    clock: u64,
    era: u64,
    /// Filters that read only the node object.
    object_filters: Vec<Box<dyn FilterRule>>,
    /// Filters that also read the node's pods.
    usage_filters: Vec<Box<dyn FilterRule>>,
    /// The candidate nodes, if PreFilter restricts them.
    candidates: Option<NodeSet>,
    /// The nodes that pass the filters of node objects.
    passing_objects: NodeSet,
    raw: Vec<(i64, Box<dyn ScoreRule>)>,
    relative: Vec<(i64, Box<dyn ScoreRule>)>,
    /// Whether all rules in `relative` read only the node object.
    is_relative_to_objects: bool,
    /// The base score of each feasible node: the weighted sum of scores that need no normalization. Classes by the
    /// raw scores of the others.
    table: ScoreTable,
    /// The position at Filter after all its filters.
    filters_end: usize,
}

impl NodeEvaluation {
    /// Evaluates all nodes for a pod.
    pub(super) fn new(
        framework: &Framework,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
    ) -> Result<Self, Fallback> {
        let mut evaluation = Self {
            clock: snapshot.clock(),
            era: snapshot.era(),
            object_filters: Vec::new(),
            usage_filters: Vec::new(),
            candidates: None,
            passing_objects: NodeSet::new(),
            raw: Vec::new(),
            relative: Vec::new(),
            is_relative_to_objects: true,
            table: ScoreTable::default(),
            filters_end: 0,
        };
        evaluation.add_filters(framework, pod, snapshot)?;
        if evaluation.candidates.as_ref().is_some_and(|only| only.len() <= FEW_CANDIDATES) {
            return Err(Fallback);
        }
        let passing = evaluation.filter(snapshot, snapshot.nodes(), snapshot.nodes())?;
        if !passing.is_empty() {
            evaluation.add_scores(framework, pod, snapshot)?;
            evaluation.score(snapshot, snapshot.nodes(), snapshot.nodes(), &passing)?;
        }
        Ok(evaluation)
    }

    /// Returns the memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.table.bytes()
    }

    /// Whether no node is feasible. Such an evaluation has no scores, and is recomputed once a node is feasible.
    pub(super) fn is_infeasible(&self) -> bool {
        self.table.base().is_empty()
    }

    /// Returns the position at Filter after all its filters.
    pub(super) fn filters_end(&self) -> usize {
        self.filters_end
    }

    /// Returns the base scores, and the classes by the raw scores of [`Self::relative`].
    pub(super) fn table(&self) -> &ScoreTable {
        &self.table
    }

    /// Returns the table for a search of the best node, which updates the block maxima.
    pub(super) fn table_mut(&mut self) -> &mut ScoreTable {
        &mut self.table
    }

    /// Normalizes the scores that depend on all feasible nodes, whose classes are `classes`. Calls `give` with the
    /// position in `classes`, the weight and the normalized score.
    ///
    /// Normalization depends only on the set of scores, so one score for each class is enough.
    pub(super) fn score_classes(
        &self,
        snapshot: Snapshot<'_>,
        classes: &(impl Iterator<Item = usize> + Clone),
        mut give: impl FnMut(usize, i64, i64),
    ) {
        for (rule_at, (weight, rule)) in self.relative.iter().enumerate() {
            let raw = |class: usize| self.table.classes().views(class)[rule_at];
            let mut cells: Vec<i64> = classes.clone().map(raw).collect();
            rule.normalize(snapshot, &NodeSet::new(), &mut cells);
            cells.iter().enumerate().for_each(|(at, &score)| give(at, *weight, score));
        }
    }

    /// Whether the scores that are normalized read only node objects.
    pub(super) fn is_relative_to_objects(&self) -> bool {
        self.is_relative_to_objects
    }

    /// Evaluates one node with the pods on it now: its base score, or `None` if it is infeasible. `one` is an empty set
    /// to reuse.
    pub(super) fn base_of(
        &self,
        snapshot: Snapshot<'_>,
        node: NodeIdx,
        one: &mut NodeSet,
    ) -> Result<Option<i32>, Fallback> {
        if !self.passing_objects.contains(node) {
            return Ok(None);
        }
        one.insert(node);
        let filtered = self.filter_usage(snapshot, one);
        let base = filtered.and_then(|()| match one.contains(node) {
            true => {
                let mut base = [0];
                self.add_raw(snapshot, one, &mut base, &mut [0])?;
                Ok(Some(base[0]))
            }
            false => Ok(None),
        });
        one.clear();
        base
    }

    /// Returns the number of nodes of `within` that filters evaluate: those that PreFilter leaves.
    pub(super) fn candidates_in(&self, within: &NodeSet) -> usize {
        match &self.candidates {
            None => within.len(),
            Some(candidates) => within.iter().filter(|&node| candidates.contains(node)).count(),
        }
    }

    /// Whether the node passes all filters as shown by `view`.
    pub(super) fn passes(&self, view: &NodeView<'_>) -> Result<bool, Fallback> {
        all_pass(self.object_filters.iter().chain(&self.usage_filters), view)
    }

    fn add_filters(
        &mut self,
        framework: &Framework,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
    ) -> Result<(), Fallback> {
        let (pod, shown) = (NodePod::of(pod), snapshot.showing(Facts::Nodes));
        for enabled in &framework.filters {
            let Some(plugin) = enabled.plugin.as_node_plugin() else { continue };
            let rule = if enabled.pre_filter {
                match plugin.prepare(pod, shown) {
                    Prepared::Skip => None,
                    Prepared::Run { rule, only } => {
                        if let Some(only) = only {
                            self.narrow(only.into_iter().collect());
                        }
                        Some(rule)
                    }
                    Prepared::Rejected(_) | Prepared::Failed(_) => return Err(Fallback),
                }
            } else {
                enabled.unprepared(|| plugin.without_pre_filter(pod, shown))
            };
            let (Some(rule), Some(position)) = (rule, enabled.filter) else { continue };
            self.filters_end = self.filters_end.max(position.rank + 1);
            match rule.depends_on() {
                DependsOn::NodeSpec => self.object_filters.push(rule),
                other => {
                    debug_assert_ne!(other, DependsOn::Cluster, "the filter judges each node alone");
                    self.usage_filters.push(rule);
                }
            }
        }
        Ok(())
    }

    fn add_scores(
        &mut self,
        framework: &Framework,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
    ) -> Result<(), Fallback> {
        let weights = framework.scores.iter().map(|enabled| enabled.weight.saturating_abs());
        if weights.fold(0_i64, i64::saturating_add) > WEIGHTS_MAX {
            return Err(Fallback);
        }
        let (pod, shown) = (NodePod::of(pod), snapshot.showing(Facts::Nodes));
        for enabled in &framework.scores {
            let Some(plugin) = enabled.plugin.as_node_plugin() else { continue };
            let rule = match plugin.prepare(pod, shown) {
                Prepared::Skip => continue,
                Prepared::Run { rule, .. } => rule,
                Prepared::Rejected(_) | Prepared::Failed(_) => return Err(Fallback),
            };
            if enabled.score.is_none() {
                continue;
            }
            if rule.depends_on() == DependsOn::Cluster {
                return Err(Fallback);
            }
            match rule.scale() {
                Scale::Raw => self.raw.push((enabled.weight, rule)),
                Scale::Relative => {
                    self.is_relative_to_objects &= rule.depends_on() == DependsOn::NodeSpec;
                    self.relative.push((enabled.weight, rule));
                }
            }
        }
        Ok(())
    }

    fn narrow(&mut self, only: NodeSet) {
        match &mut self.candidates {
            Some(so_far) => so_far.intersect(&only),
            None => self.candidates = Some(only),
        }
    }

    /// Updates the evaluation from the change log.
    ///
    /// # Errors
    ///
    /// Returns [`Fallback`] if it must be recomputed.
    pub(super) fn catch_up(&mut self, snapshot: Snapshot<'_>) -> Result<(), Fallback> {
        if self.era != snapshot.era() {
            return Err(Fallback);
        }
        if self.clock == snapshot.clock() || mutation::is_on(Mutation::SignatureStatesNotUpdated) {
            return Ok(());
        }
        if ablation::is_off(Layer::Updates) {
            return Err(Fallback);
        }
        let (mut touched, mut objects) = (NodeSet::new(), NodeSet::new());
        for (node, touch) in snapshot.node_changes_since(self.clock).ok_or(Fallback)? {
            touched.insert(node);
            if touch == NodeChange::Object {
                objects.insert(node);
            }
        }
        touched.intersect(snapshot.nodes());
        objects.intersect(snapshot.nodes());
        let passing = self.filter(snapshot, &touched, &objects)?;
        if !self.is_infeasible() {
            self.score(snapshot, &touched, &objects, &passing)?;
        } else if !passing.is_empty() {
            return Err(Fallback);
        }
        self.clock = snapshot.clock();
        Ok(())
    }

    /// Filters the changed `nodes` and returns those that pass. `objects` is the subset whose node object changed.
    fn filter(
        &mut self,
        snapshot: Snapshot<'_>,
        nodes: &NodeSet,
        objects: &NodeSet,
    ) -> Result<NodeSet, Fallback> {
        self.filter_objects(snapshot, objects)?;
        let mut passing = nodes.clone();
        passing.intersect(&self.passing_objects);
        self.filter_usage(snapshot, &mut passing)?;
        Ok(passing)
    }

    /// Removes the nodes that the filters reject which also read the node's pods.
    fn filter_usage(&self, snapshot: Snapshot<'_>, nodes: &mut NodeSet) -> Result<(), Fallback> {
        let shown = snapshot.showing(DependsOn::NodeUsage.facts());
        self.usage_filters.iter().try_for_each(|rule| rule.filter(shown, nodes).map_err(|_| Fallback))
    }

    /// Scores the changed `nodes`, of which `passing` are feasible. `objects` is the subset whose node object
    /// changed.
    fn score(
        &mut self,
        snapshot: Snapshot<'_>,
        nodes: &NodeSet,
        objects: &NodeSet,
        passing: &NodeSet,
    ) -> Result<(), Fallback> {
        self.table.resize(snapshot.slots());
        let base = self.score_raw(snapshot, passing, passing.len())?;
        let (unknown, relative) = self.score_relative(snapshot, passing, objects)?;
        self.table.set_bases(passing, &base);
        if !self.table.classify(&unknown, &relative) {
            return Err(Fallback);
        }
        for (first, block) in nodes.blocks() {
            let others = bits(block & !passing.block(first));
            others.for_each(|bit| self.table.set_infeasible(NodeIdx((first + bit) as u32)));
        }
        Ok(())
    }

    /// Updates the result of the filters that read only node objects.
    fn filter_objects(&mut self, snapshot: Snapshot<'_>, changed: &NodeSet) -> Result<(), Fallback> {
        if changed.is_empty() {
            return Ok(());
        }
        let mut passing_objects = changed.clone();
        if let Some(only) = &self.candidates {
            passing_objects.intersect(only);
        }
        let shown = snapshot.showing(DependsOn::NodeSpec.facts());
        for rule in &self.object_filters {
            rule.filter(shown, &mut passing_objects).map_err(|_| Fallback)?;
        }
        self.passing_objects.subtract(changed);
        self.passing_objects.unite(&passing_objects);
        Ok(())
    }

    /// Returns the weighted sum of the scores that need no normalization, for each of `nodes`.
    fn score_raw(&self, snapshot: Snapshot<'_>, nodes: &NodeSet, len: usize) -> Result<Vec<i32>, Fallback> {
        let mut base = vec![0_i32; len];
        self.add_raw(snapshot, nodes, &mut base, &mut vec![0_i64; len])?;
        Ok(base)
    }

    /// Adds the weighted scores that need no normalization to `base`, for each of `nodes`. `cells` is as long.
    fn add_raw(
        &self,
        snapshot: Snapshot<'_>,
        nodes: &NodeSet,
        base: &mut [i32],
        cells: &mut [i64],
    ) -> Result<(), Fallback> {
        let shown = snapshot.showing(DependsOn::NodeUsage.facts());
        for (weight, rule) in &self.raw {
            rule.score(shown, nodes, cells).map_err(|_| Fallback)?;
            // The sum of the weights was limited in `add_scores`.
            let weight = *weight as i32;
            let are_scores = if base.len() == 1 {
                weigh(base, weight, cells)
            } else {
                with_best_instructions(
                    #[inline(always)]
                    || weigh(base, weight, cells),
                )
            };
            if !are_scores {
                // The full evaluation reports the invalid score.
                return Err(Fallback);
            }
        }
        Ok(())
    }

    /// Computes the raw scores of the rules in `relative`.
    ///
    /// Returns the nodes whose raw scores may have changed, and one column of scores for each rule.
    fn score_relative(
        &self,
        snapshot: Snapshot<'_>,
        nodes: &NodeSet,
        changed: &NodeSet,
    ) -> Result<(NodeSet, Vec<Vec<i64>>), Fallback> {
        let mut unknown = nodes.clone();
        if self.is_relative_to_objects {
            let is_known = |node: NodeIdx| self.table.classes().contains(node);
            unknown.retain_blocks(|first, nodes| {
                let changed = changed.block(first);
                let known = bits(nodes & !changed).filter(|&bit| is_known(NodeIdx((first + bit) as u32)));
                known.fold(nodes, |unknown, bit| unknown & !(1 << bit))
            });
        }
        let depends_on = if self.is_relative_to_objects { DependsOn::NodeSpec } else { DependsOn::NodeUsage };
        let shown = snapshot.showing(depends_on.facts());
        let mut relative = Vec::with_capacity(self.relative.len());
        for (_, rule) in &self.relative {
            let mut cells = vec![0; unknown.len()];
            rule.score(shown, &unknown, &mut cells).map_err(|_| Fallback)?;
            relative.push(cells);
        }
        Ok((unknown, relative))
    }
}

/// Adds `weight` times each score to `base`. Returns whether all scores are in range (0 to 100).
#[inline(always)]
fn weigh(base: &mut [i32], weight: i32, scores: &[i64]) -> bool {
    // The sign bit is set if a score is negative or too high.
    let mut signs = 0;
    for (base, &score) in base.iter_mut().zip(scores) {
        signs |= score | MAX_NODE_SCORE.wrapping_sub(score);
        *base = base.wrapping_add(weight.wrapping_mul(score as i32));
    }
    signs >= 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn score_out_of_range_is_rejected() {
        let are_scores = |scores: &[i64]| weigh(&mut vec![0; scores.len()], 3, scores);
        assert!(are_scores(&[]) && are_scores(&[0, 1, MAX_NODE_SCORE]));
        for invalid in [i64::MIN, i64::MIN + 1, i64::MIN + MAX_NODE_SCORE, -1, MAX_NODE_SCORE + 1, i64::MAX] {
            assert!(!are_scores(&[50, invalid]) && !are_scores(&[invalid, 50]), "{invalid}");
        }
    }

    #[test]
    fn scores_are_multiplied_by_their_weight() {
        let mut base = [7, 0, -1];
        assert!(weigh(&mut base, 3, &[0, 5, MAX_NODE_SCORE]));
        assert_eq!(base, [7, 15, 299]);
    }
}
