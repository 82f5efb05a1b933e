//! The cached state of one pod signature beyond its node evaluation: topology counts, node classes and score table.
//!
//! Affinity and spreading are evaluated here, once for each class. A decision filters and scores the classes and
//! picks a node from the best block.

use super::base_partition::BasePartitions;
use super::device_results::{DeviceResults, Results};
use super::node_classes::Classes;
use super::node_evaluation::NodeEvaluation;
use super::node_evaluations::EvaluationRef;
use super::pod_rules::{Rules, all_pass};
use super::score_table::{ClassPoints, ScoreTable};
use super::topology_counts::{Counted, TopologyCounts};
use super::topology_index::TopologyIndex;
use crate::cache::{NodeChange, Overlay, Snapshot};
use crate::cycle::{Framework, Point, Probe};
use crate::framework::tally::Outdated;
use crate::framework::{MAX_NODE_SCORE, Tallied};
use crate::model::node::NodeIdx;
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;
use crate::model::time::Time;
use crate::switches::mutation::{self, Mutation};

/// The score of an infeasible node. It is below every score, and the sum of two does not overflow.
pub(super) const INFEASIBLE: i32 = i32::MIN / 2;
/// If more than one node in three has counted pods, building the table from scratch is faster than updating a copy of
/// a base partition.
const NONZERO_SHARE: usize = 3;

/// The cached state of one pod signature.
pub(super) struct SignatureState {
    /// The index of its node evaluation.
    evaluation: usize,
    /// The cache's clock at the last update.
    clock: u64,
    era: u64,
    /// The change counter of namespaces, Services and controllers.
    lookups: u64,
    counts: TopologyCounts,
    /// Indices of enabled plugins whose results are not cached. Each decision prepares their rules again.
    uncached_filters: Vec<usize>,
    uncached_scores: Vec<usize>,
    /// The position at Filter after all filters with counters.
    filters_end: usize,
    /// Base scores of the node evaluation, with classes split by topology counts. `None` without counters: then the
    /// node evaluation's own table is used.
    own_table: Option<ScoreTable>,
    /// The result of the last decision. Excluded nodes fail a volume rule, or fail only with the pods nominated to
    /// them.
    class_points: ClassPoints,
    /// Number of feasible nodes in the last decision.
    feasible: usize,
    bytes: usize,
    /// When it was created, or last compared with a full evaluation by verification.
    pub(super) checked: Time,
}

/// A cached layer cannot be updated and must be recomputed; if that fails too, the full evaluation decides.
pub(super) struct Fallback;

impl From<Outdated> for Fallback {
    fn from(_: Outdated) -> Self {
        Self
    }
}

impl SignatureState {
    /// Computes the state of a pod's signature. `evaluation_ref` must be up to date.
    pub(super) fn new(
        framework: &Framework,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        (topology_index, base_partitions): (&mut TopologyIndex, &mut BasePartitions),
        evaluation_ref: &EvaluationRef<'_>,
    ) -> Result<Self, Fallback> {
        let mut state = Self {
            evaluation: evaluation_ref.index,
            clock: snapshot.clock(),
            era: snapshot.era(),
            lookups: snapshot.lookups().changes(),
            counts: TopologyCounts::default(),
            uncached_filters: Vec::new(),
            uncached_scores: Vec::new(),
            filters_end: 0,
            own_table: None,
            class_points: ClassPoints::default(),
            feasible: 0,
            bytes: 0,
            checked: Time::default(),
        };
        if !evaluation_ref.evaluation.is_infeasible() {
            state.add_tallies(framework, pod, snapshot)?;
            let counted = state.counts.count(snapshot, topology_index)?;
            if state.counts.len() > 0 {
                state.own_table =
                    Some(state.build_table(snapshot, base_partitions, evaluation_ref, counted)?);
            }
        }
        state.bytes = state.compute_bytes();
        Ok(state)
    }

    /// Builds the score table, as an updated copy of a base partition if possible.
    fn build_table(
        &self,
        snapshot: Snapshot<'_>,
        base_partitions: &mut BasePartitions,
        evaluation_ref: &EvaluationRef<'_>,
        Counted { groupings, nonzero_nodes }: Counted,
    ) -> Result<ScoreTable, Fallback> {
        let evaluation = evaluation_ref.evaluation.table();
        if nonzero_nodes.len() <= snapshot.node_count() / NONZERO_SHARE
            && let Some(partition) =
                groupings.and_then(|groupings| base_partitions.table(evaluation_ref, snapshot, groupings))
        {
            let mut table = partition.clone();
            let view = |node, views: &mut [i64]| self.counts.views(node, views);
            let mut nonzero_nodes = nonzero_nodes;
            nonzero_nodes.intersect(snapshot.nodes());
            let is_updated =
                table.update_from(evaluation, &nonzero_nodes, self.counts.len(), |_| false, view);
            return is_updated.then_some(table).ok_or(Fallback);
        }
        evaluation.refined(&self.counts.columns()).ok_or(Fallback)
    }

    /// Returns the index of its node evaluation.
    pub(super) fn evaluation(&self) -> usize {
        self.evaluation
    }

    /// Returns the memory at creation, including the buffers that decisions will need. Later growth is small.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn compute_bytes(&self) -> usize {
        let table = self.own_table.as_ref().map_or(0, ScoreTable::bytes);
        size_of::<Self>() + table + self.counts.bytes()
    }

    fn add_tallies(
        &mut self,
        framework: &Framework,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
    ) -> Result<(), Fallback> {
        for (at, enabled) in framework.filters.iter().enumerate() {
            if enabled.plugin.as_node_plugin().is_some() {
                continue;
            }
            // With single extension points disabled, only the full evaluation knows which results apply.
            let is_whole = enabled.pre_filter && enabled.filter.is_some_and(|rank| rank.fails.is_none());
            match enabled.plugin.tally(pod, snapshot) {
                Tallied::Yes(tally) if is_whole => {
                    self.counts.add_filter(tally);
                    self.filters_end = enabled.filter.map_or(0, |at| at.rank + 1).max(self.filters_end);
                }
                Tallied::Silent if is_whole => {}
                _ => self.uncached_filters.push(at),
            }
        }
        for (at, enabled) in framework.scores.iter().enumerate() {
            if !enabled.pre_score && enabled.score.is_some_and(|rank| rank.fails.is_some()) {
                return Err(Fallback);
            }
            if enabled.plugin.as_node_plugin().is_some() {
                continue;
            }
            match enabled.plugin.tally(pod, snapshot) {
                Tallied::Yes(tally) if enabled.pre_score && enabled.score.is_some() => {
                    self.counts.add_score(enabled.weight, tally);
                }
                Tallied::Silent if enabled.pre_score => {}
                _ => self.uncached_scores.push(at),
            }
        }
        Ok(())
    }

    /// Updates the state from the change log. The node evaluation must be up to date.
    ///
    /// # Errors
    ///
    /// Returns [`Fallback`] if it must be recomputed.
    pub(super) fn catch_up(
        &mut self,
        evaluation: &NodeEvaluation,
        snapshot: Snapshot<'_>,
    ) -> Result<(), Fallback> {
        if self.era != snapshot.era() || self.lookups != snapshot.lookups().changes() {
            return Err(Fallback);
        }
        if self.clock == snapshot.clock() || mutation::is_on(Mutation::SignatureStatesNotUpdated) {
            return Ok(());
        }
        if evaluation.is_infeasible() {
            self.clock = snapshot.clock();
            return Ok(());
        }
        let since = self.clock;
        let changes = || snapshot.node_changes_since(since).ok_or(Fallback);
        let of_objects = changes()?.filter(|(_, change)| *change == NodeChange::Object);
        let (mut objects, mut changed): (NodeSet, _) =
            (of_objects.map(|(node, _)| node).collect(), NodeSet::new());
        objects.intersect(snapshot.nodes());
        self.counts.recount(snapshot, changes()?, &objects, &mut changed)?;
        self.clock = snapshot.clock();
        let Some(own_table) = &mut self.own_table else { return Ok(()) };
        let mut touched: NodeSet = changes()?.map(|(node, _)| node).collect();
        touched.intersect(snapshot.nodes());
        own_table.resize(evaluation.table().base().len());
        self.patch(evaluation, &touched, &objects, &changed)?;
        changed.subtract(&touched);
        self.patch(evaluation, &changed, &NodeSet::new(), &changed)
    }

    /// Updates the score table for `nodes`, whose pods have been counted. `objects` is the subset whose node object
    /// changed; nodes in `changed` have new topology counts.
    fn patch(
        &mut self,
        evaluation: &NodeEvaluation,
        nodes: &NodeSet,
        objects: &NodeSet,
        changed: &NodeSet,
    ) -> Result<(), Fallback> {
        let Self { own_table: Some(own_table), counts, .. } = self else { return Ok(()) };
        let is_unchanged = |node| !changed.contains(node) && !objects.contains(node);
        let view = |node, views: &mut [i64]| counts.views(node, views);
        let is_updated = own_table.update_from(evaluation.table(), nodes, counts.len(), is_unchanged, view);
        if is_updated { Ok(()) } else { Err(Fallback) }
    }

    /// Returns the table that decisions use.
    fn table<'a>(&'a self, evaluation: &'a NodeEvaluation) -> &'a ScoreTable {
        self.own_table.as_ref().unwrap_or(evaluation.table())
    }

    /// Decides `pod` on the nodes of `within`, or on all; afterwards [`Self::best`] and the other accessors return the
    /// result.
    pub(super) fn decide(
        &mut self,
        framework: &Framework,
        (evaluation, device_results): (&NodeEvaluation, &mut DeviceResults),
        pod: &PodInfo,
        (snapshot, within): (Snapshot<'_>, Option<&NodeSet>),
        probe: &mut dyn Probe,
    ) -> Result<Rules, Fallback> {
        probe.enter(Point::PreFilter);
        let uncached = (&*self.uncached_filters, &*self.uncached_scores);
        let rules = Rules::prepare(framework, uncached, pod, snapshot);
        probe.leave(Point::PreFilter, "Success");
        let rules = rules?;
        probe.enter(Point::Filter);
        let filtered = self.filter((evaluation, device_results), pod, (snapshot, within), &rules);
        probe.leave(Point::Filter, "Success");
        let (nodes, devices) = filtered?;
        if self.feasible == 1 {
            return Ok(rules);
        }
        // The spans remain, but the scores' inputs exist already.
        probe.enter(Point::PreScore);
        probe.leave(Point::PreScore, "Success");
        probe.enter(Point::Score);
        let scored = self.score(evaluation, snapshot, &nodes);
        let scored = scored.and_then(|()| match devices {
            Some(devices) => self.score_devices(evaluation, snapshot, &rules, (devices, &nodes)),
            None => Ok(()),
        });
        probe.leave(Point::Score, "Success");
        scored.map(|()| rules)
    }

    /// Filters all classes. Returns the number of feasible nodes of each class; at least one node is feasible. Returns
    /// the results of devices, too, if the pod needs any.
    fn filter<'d>(
        &mut self,
        (evaluation, device_results): (&NodeEvaluation, &'d mut DeviceResults),
        pod: &PodInfo,
        (snapshot, within): (Snapshot<'_>, Option<&NodeSet>),
        rules: &Rules,
    ) -> Result<(Vec<u32>, Option<&'d Results>), Fallback> {
        if evaluation.is_infeasible() {
            return Err(Fallback);
        }
        let table = self.table(evaluation);
        let classes = table.classes();
        let mut nodes = within.map_or_else(|| classes.nodes().to_vec(), |within| classes.nodes_in(within));
        self.counts.filter(|class| self.counts_of(classes, class), &mut nodes);
        let (mut excluded, devices) = if rules.is_empty() {
            (NodeSet::new(), None)
        } else {
            let end = self.filters_end.max(evaluation.filters_end());
            let mut passing = table.passing(&nodes);
            within.into_iter().for_each(|within| passing.intersect(within));
            rules.excluded(device_results, snapshot, passing, end)?
        };
        let is_within = |node: &NodeIdx| within.is_none_or(|within| within.contains(*node));
        for node in snapshot.nodes_with_nominations().into_iter().filter(is_within) {
            let class = usize::from(classes.by_slot()[node.index()]);
            if nodes[class] > 0 && !self.passes_with_nominated(evaluation, pod, snapshot, node, rules)? {
                excluded.insert(node);
            }
        }
        excluded.iter().for_each(|node| nodes[usize::from(classes.by_slot()[node.index()])] -= 1);
        let Self { class_points, feasible, .. } = self;
        class_points.excluded = excluded;
        class_points.within = within.cloned();
        class_points.points.clear();
        class_points.by_slot.clear();
        class_points.points.extend(nodes.iter().map(|&nodes| if nodes > 0 { 0 } else { INFEASIBLE }));
        *feasible = nodes.iter().map(|&nodes| nodes as usize).sum();
        if *feasible == 0 { Err(Fallback) } else { Ok((nodes, devices)) }
    }

    /// Returns the topology counts of a class, as views.
    fn counts_of<'a>(&self, classes: &'a Classes, class: usize) -> &'a [i64] {
        if self.own_table.is_some() { &classes.views(class)[1..] } else { &[] }
    }

    /// Whether a node passes with the pods that are nominated to it and have at least the pod's priority.
    fn passes_with_nominated(
        &self,
        evaluation: &NodeEvaluation,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        node: NodeIdx,
        rules: &Rules,
    ) -> Result<bool, Fallback> {
        let mut overlay = Overlay::new();
        let nominated = snapshot.nominated_on(node).iter();
        for other in nominated.filter(|other| other.priority >= pod.priority && other.uid != pod.uid) {
            overlay.add(other);
        }
        if overlay.is_empty() {
            return Ok(true);
        }
        if self.counts.filters_have_counters() {
            return Err(Fallback);
        }
        let view = snapshot.node(node).with(&overlay);
        Ok(evaluation.passes(&view)? && all_pass(rules.all(), &view)?)
    }

    /// Computes the points of each class.
    fn score(
        &mut self,
        evaluation: &NodeEvaluation,
        snapshot: Snapshot<'_>,
        nodes: &[u32],
    ) -> Result<(), Fallback> {
        let mut points = std::mem::take(&mut self.class_points.points);
        let mut are_scores = true;
        let mut add_points = |class: usize, weight: i64, score: i64| {
            are_scores &= (0..=MAX_NODE_SCORE).contains(&score);
            // The sum of the weights was limited in the node evaluation.
            points[class] += (weight * score.clamp(0, MAX_NODE_SCORE)) as i32;
        };
        let classes = self.table(evaluation).classes();
        self.counts.score(|class| self.counts_of(classes, class), nodes, &mut add_points);
        let passing: Vec<usize> = (0..nodes.len()).filter(|&class| nodes[class] > 0).collect();
        let evaluation_ref = |&class: &usize| match &self.own_table {
            Some(own_table) => {
                usize::try_from(own_table.classes().views(class)[0]).expect("the first view is a class")
            }
            None => class,
        };
        evaluation.score_classes(snapshot, &passing.iter().map(evaluation_ref), |at, weight, score| {
            add_points(passing[at], weight, score);
        });
        self.class_points.points = points;
        if are_scores { Ok(()) } else { Err(Fallback) }
    }

    /// Adds the points of the nodes' devices.
    fn score_devices(
        &mut self,
        evaluation: &NodeEvaluation,
        snapshot: Snapshot<'_>,
        rules: &Rules,
        (devices, nodes): (&Results, &[u32]),
    ) -> Result<(), Fallback> {
        if rules.scores().is_empty() || devices.are_all_zero() {
            return Ok(());
        }
        let table = self.table(evaluation);
        let mut feasible = table.passing(nodes);
        feasible.subtract(&self.class_points.excluded);
        self.class_points.within.iter().for_each(|within| feasible.intersect(within));
        let mut raw: Vec<i64> = feasible.iter().map(|node| devices.score(node)).collect();
        raw.sort_unstable();
        raw.dedup();
        let mut points = vec![0_i32; table.base().len()];
        for (weight, rule) in rules.scores() {
            // Normalization depends only on the set of scores.
            let mut normalized = raw.clone();
            rule.normalize(snapshot, &NodeSet::new(), &mut normalized);
            if !normalized.iter().all(|score| (0..=MAX_NODE_SCORE).contains(score)) {
                return Err(Fallback);
            }
            for node in feasible.iter() {
                let at = raw.binary_search(&devices.score(node)).map_err(|_| Fallback)?;
                // The sum of the weights was limited in the node evaluation.
                points[node.index()] += (weight * normalized[at]) as i32;
            }
        }
        self.class_points.by_slot = points;
        Ok(())
    }

    /// Whether a node's class agrees with the current topology counts. If not, an update missed the node.
    pub(super) fn is_class_current(&self, node: NodeIdx) -> bool {
        let Some(own_table) = &self.own_table else { return true };
        let mut views = vec![0; self.counts.len()];
        self.counts.views(node, &mut views);
        own_table.classes().views(usize::from(own_table.classes().by_slot()[node.index()]))[1..] == views
    }

    /// Returns the number of feasible nodes of the last decision.
    pub(super) fn feasible(&self) -> usize {
        self.feasible
    }

    /// Returns the feasible nodes of the last decision with their totals, in slot order.
    pub(super) fn scored<'a>(
        &'a self,
        evaluation: &'a NodeEvaluation,
    ) -> impl Iterator<Item = (NodeIdx, i64)> + 'a {
        self.table(evaluation).scored(&self.class_points)
    }

    /// Returns the total of a feasible node in the last decision.
    pub(super) fn total(&self, evaluation: &NodeEvaluation, node: NodeIdx) -> i64 {
        self.table(evaluation).total(&self.class_points, node)
    }

    /// Returns a node with the highest total. `draw` gets the number of tied nodes and picks one of them in slot
    /// order.
    pub(super) fn best(
        &mut self,
        evaluation: &mut NodeEvaluation,
        draw: impl FnOnce(usize) -> usize,
    ) -> NodeIdx {
        self.own_table.as_mut().unwrap_or(evaluation.table_mut()).best(&self.class_points, draw)
    }
}
