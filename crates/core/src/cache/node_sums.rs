//! Sums of the contributions of pods by node. An evaluation in slices keeps them from slice to slice.
//!
//! Domains are then looked up once per node instead of once per pod, and a change of a node costs only its own sums.

use super::slice::Contribution;
use super::{NodeChange, PodClassId, Snapshot};
use crate::collections::hash::IdMap;
use crate::model::intern::Symbol;
use crate::model::node::NodeIdx;
use crate::model::node_set::NodeSet;
use crate::switches::mutation::{self, Mutation};
use std::collections::BTreeMap;

/// The maximum number of [`NodeColumns`]; they take 20 MB at 5,000 nodes. With more, pod classes are summed one by one.
/// Builds with assertions reach that with few topology keys, so that tests compare both ways.
const COLUMNS_MAX: usize = if cfg!(debug_assertions) { 3 } else { 256 };

/// The cost of looking up the contributions of one pod's class among 150,000, in comparisons of 5 to 10 ns.
const LOOKUP_WORK: u64 = 20;

/// The contributions of pods by (a number defined by the role, topology key), each with the sums of nodes by slot.
///
/// `None` for nodes without a contributing pod.
pub(crate) type NodeColumns = Vec<((u32, Symbol), Vec<Option<i64>>)>;

/// The sums of nodes for one role.
#[derive(Debug, Default)]
pub(super) struct NodeSums {
    pub(super) columns: NodeColumns,
    places: IdMap<(u32, Symbol), usize>,
    /// The contributions by index, with columns instead of numbers and keys.
    lists: Vec<Vec<(usize, i64)>>,
    /// The slots with current sums.
    current: NodeSet,
    /// The snapshot's clock for which they are current.
    clock: u64,
}

impl NodeSums {
    /// Makes room for these contributions. Returns `false` if they need more than [`COLUMNS_MAX`] columns.
    pub(super) fn make_room(&mut self, contributions: &[Contribution], slots: usize) -> bool {
        let Self { columns, places, lists, .. } = self;
        for list in &contributions[lists.len()..] {
            let mut of_list = Vec::with_capacity(list.len());
            for &(number, key, amount) in &**list {
                let next = places.len();
                let at = *places.entry((number, key)).or_insert(next);
                if at == COLUMNS_MAX {
                    places.remove(&(number, key));
                    return false;
                }
                if at == columns.len() {
                    columns.push(((number, key), Vec::new()));
                }
                of_list.push((at, amount));
            }
            lists.push(of_list);
        }
        columns.iter_mut().for_each(|(_, sums)| sums.resize(slots, None));
        true
    }

    /// Drops all sums. Returns their number.
    pub(super) fn clear(&mut self) -> u64 {
        let dropped = self.current.len() as u64;
        self.current.clear();
        dropped
    }

    /// Drops the sums of nodes that changed, and from `found` most pod classes that are gone. Returns the number of
    /// dropped sums.
    pub(super) fn follow(&mut self, snapshot: Snapshot<'_>, found: &mut BTreeMap<PodClassId, usize>) -> u64 {
        let since = std::mem::replace(&mut self.clock, snapshot.clock());
        let Some(changes) = snapshot.node_changes_since(since) else {
            // Entries of classes that are gone only take memory. With 150,000 entries, this takes longer than a slice.
            if found.len() > 2 * snapshot.pod_class_count() {
                found.retain(|&id, _| snapshot.pod_class(id).is_some());
            }
            return self.clear();
        };
        let mut dropped = 0;
        for (node, change) in changes.filter(|_| !mutation::is_on(Mutation::SliceResultsNotDropped)) {
            dropped += u64::from(self.current.remove(node));
            if let NodeChange::PodRemoved(id) = change
                && snapshot.pod_class(id).is_none()
            {
                found.remove(&id);
            }
        }
        dropped
    }

    /// Whether the sums of a node are current.
    pub(super) fn has(&self, node: NodeIdx) -> bool {
        self.current.contains(node)
    }

    /// Sums the contributions of the pods on a node. Returns the cost.
    pub(super) fn sum(
        &mut self,
        snapshot: Snapshot<'_>,
        node: NodeIdx,
        found: &BTreeMap<PodClassId, usize>,
    ) -> u64 {
        let pod_classes = snapshot.pod_classes_on(node);
        let mut work = self.columns.len() as u64 + LOOKUP_WORK * pod_classes.len() as u64;
        self.columns.iter_mut().for_each(|(_, sums)| sums[node.index()] = None);
        for list in pod_classes.iter().filter_map(|id| Some(&self.lists[*found.get(id)?])) {
            work += list.len() as u64;
            for &(at, amount) in list {
                *self.columns[at].1[node.index()].get_or_insert(0) += amount;
            }
        }
        self.current.insert(node);
        work
    }
}
