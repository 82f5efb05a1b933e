//! Base partitions: the node classes as if no pod were counted, shared by signatures with equal counters.
//!
//! A new signature state starts from a copy. Only nodes whose counters are not zero then change their class.

use super::domain_counter::Grouping;
use super::node_evaluations::EvaluationRef;
use super::score_table::ScoreTable;
use crate::cache::Snapshot;
use crate::model::node_set::NodeSet;
use crate::switches::ablation::{self, Layer};

/// Number of base partitions kept. Most pods of a cluster spread over the same domains, so few are needed.
const PARTITIONS_MAX: usize = 4;

/// The base partitions, least recently used first.
#[derive(Default)]
pub(super) struct BasePartitions {
    partitions: Vec<BasePartition>,
}

struct BasePartition {
    /// The number of the node evaluation whose classes it refines.
    evaluation: u64,
    groupings: Vec<Grouping>,
    /// The cache's clock at the last update.
    clock: u64,
    table: ScoreTable,
}

impl BasePartitions {
    /// Returns the score table for a node evaluation and a list of counters, as if no pod were counted.
    ///
    /// `evaluation_ref` must be up to date. Returns `None` if no other signature uses the node evaluation, or if there
    /// are too many classes.
    pub(super) fn table(
        &mut self,
        evaluation_ref: &EvaluationRef<'_>,
        snapshot: Snapshot<'_>,
        groupings: Vec<Grouping>,
    ) -> Option<&ScoreTable> {
        if !evaluation_ref.is_shared || ablation::is_off(Layer::BasePartitions) {
            return None;
        }
        let mut partition = match self
            .remove(evaluation_ref.number, &groupings)
            .map(|partition| partition.updated(evaluation_ref, snapshot))
        {
            Some(Some(partition)) => partition,
            _ => BasePartition::of(evaluation_ref, snapshot, groupings)?,
        };
        partition.table.update_block_maxima();
        if self.partitions.len() == PARTITIONS_MAX {
            self.partitions.remove(0);
        }
        self.partitions.push(partition);
        self.partitions.last().map(|partition| &partition.table)
    }

    fn remove(&mut self, evaluation: u64, groupings: &[Grouping]) -> Option<BasePartition> {
        let has_same_key = |partition: &BasePartition| {
            partition.evaluation == evaluation
                && partition.groupings.len() == groupings.len()
                && partition.groupings.iter().zip(groupings).all(|(one, other)| one.equals(other))
        };
        let at = self.partitions.iter().position(has_same_key)?;
        Some(self.partitions.remove(at))
    }

    /// Removes all partitions.
    pub(super) fn clear(&mut self) {
        self.partitions.clear();
    }
}

impl BasePartition {
    fn of(
        evaluation_ref: &EvaluationRef<'_>,
        snapshot: Snapshot<'_>,
        groupings: Vec<Grouping>,
    ) -> Option<Self> {
        let slots = evaluation_ref.evaluation.table().base().len();
        let column = |grouping: &Grouping| (0..slots).map(|slot| grouping.view(slot)).collect();
        let columns: Vec<Vec<i64>> = groupings.iter().map(column).collect();
        let table = evaluation_ref.evaluation.table().refined(&columns)?;
        Some(Self { evaluation: evaluation_ref.number, groupings, clock: snapshot.clock(), table })
    }

    /// Copies the node evaluation's results for nodes whose pods changed.
    ///
    /// Changes of node objects need no handling: they change the groupings, so that the partition is not found.
    /// Returns `None` if the change log does not reach back far enough, or if there are too many classes.
    fn updated(mut self, evaluation_ref: &EvaluationRef<'_>, snapshot: Snapshot<'_>) -> Option<Self> {
        let mut touched: NodeSet = snapshot.node_changes_since(self.clock)?.map(|(node, _)| node).collect();
        touched.intersect(snapshot.nodes());
        let groupings = &self.groupings;
        let view = |node: crate::model::node::NodeIdx, views: &mut [i64]| {
            views.iter_mut().zip(groupings).for_each(|(view, grouping)| *view = grouping.view(node.index()));
        };
        let is_updated = self.table.update_from(
            evaluation_ref.evaluation.table(),
            &touched,
            groupings.len(),
            |_| true,
            view,
        );
        self.clock = snapshot.clock();
        is_updated.then_some(self)
    }
}
