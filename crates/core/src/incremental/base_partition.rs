//! Cached signatures start from that count the same on the same nodes: all nodes in classes as if no pod were summed anywhere. Of a new signature
//! only the nodes differ from that where something is. Knows nothing of signatures.

use super::domain_counter::Grouping;
use super::node_evaluations::EvaluationRef;
use super::score_table::ScoreTable;
use crate::cache::Snapshot;
use crate::node_set::NodeSet;

/// So many are kept: most pods of a cluster spread over the same domains.
const KEPT: usize = 4;

/// Those that were asked for last, the last one last.
#[derive(Default)]
pub(super) struct BasePartitions {
    kept: Vec<BasePartition>,
}

struct BasePartition {
    /// The trunk it grows from.
    evaluation: u64,
    groupings: Vec<Grouping>,
    /// The cache's clock when this was last brought up to date.
    seen: u64,
    table: ScoreTable,
}

impl BasePartitions {
    /// All nodes as they are to a trunk, which is up to date, and to counters that have counted nothing; `None` if nobody else grows from the trunk,
    /// or if there are too many classes.
    pub(super) fn table(
        &mut self,
        root: &EvaluationRef<'_>,
        snapshot: Snapshot<'_>,
        groupings: Vec<Grouping>,
    ) -> Option<&ScoreTable> {
        if !root.is_shared {
            return None;
        }
        let mut partition =
            match self.take(root.number, &groupings).map(|partition| partition.caught_up(root, snapshot)) {
                Some(Some(partition)) => partition,
                _ => BasePartition::of(root, snapshot, groupings)?,
            };
        partition.table.know_best();
        if self.kept.len() == KEPT {
            self.kept.remove(0);
        }
        self.kept.push(partition);
        self.kept.last().map(|partition| &partition.table)
    }

    fn take(&mut self, evaluation: u64, groupings: &[Grouping]) -> Option<BasePartition> {
        let is_it = |partition: &BasePartition| {
            partition.evaluation == evaluation
                && partition.groupings.len() == groupings.len()
                && partition.groupings.iter().zip(groupings).all(|(one, other)| one.is(other))
        };
        let at = self.kept.iter().position(is_it)?;
        Some(self.kept.remove(at))
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.kept.clear();
    }
}

impl BasePartition {
    fn of(root: &EvaluationRef<'_>, snapshot: Snapshot<'_>, groupings: Vec<Grouping>) -> Option<Self> {
        let slots = root.evaluation.table().base().len();
        let column = |grouping: &Grouping| (0..slots).map(|slot| grouping.view(slot)).collect();
        let columns: Vec<Vec<i64>> = groupings.iter().map(column).collect();
        let table = root.evaluation.table().grown(&columns)?;
        Some(Self { evaluation: root.number, groupings, seen: snapshot.clock(), table })
    }

    /// Takes over what the trunk says of nodes where pods came or went. No node's object changed, or the outlines were others.
    fn caught_up(mut self, root: &EvaluationRef<'_>, snapshot: Snapshot<'_>) -> Option<Self> {
        let mut touched: NodeSet = snapshot.touched_since(self.seen)?.map(|(node, _)| node).collect();
        touched.intersect(snapshot.nodes());
        let groupings = &self.groupings;
        let view = |node: crate::node::NodeIdx, views: &mut [i64]| {
            views.iter_mut().zip(groupings).for_each(|(view, grouping)| *view = grouping.view(node.index()));
        };
        let is_followed =
            self.table.follow(root.evaluation.table(), &touched, groupings.len(), |_| true, view);
        self.seen = snapshot.clock();
        is_followed.then_some(self)
    }
}
