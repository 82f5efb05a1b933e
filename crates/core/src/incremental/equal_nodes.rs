//! Numbers for nodes with equal devices, so that requests for devices are judged once for all of these nodes.
//!
//! There is a table for each set of attributes that requests read. It is updated from the change logs of nodes and of
//! devices. If most devices differ in these attributes, as serial numbers do, the table gives no numbers.

use crate::cache::{DeviceClocks, Snapshot};
use crate::collections::hash::FixedMap;
use crate::framework::{DeviceRule, NodeDevices, ReadAttributes};
use crate::model::node::NodeIdx;

/// Maximum number of tables. The least recently used is evicted. With 20,000 nodes, each takes 80 kB.
const TABLES_MAX: usize = 16;
/// Maximum number of different nodes in a table: beyond it, comparing nodes costs more than it saves.
const DIFFERENT_MAX: usize = 512;
/// The number of a node that is not compared yet, and of one that has none.
const UNKNOWN: u32 = u32::MAX;
const NONE: u32 = u32::MAX - 1;

/// All tables.
#[derive(Default)]
pub(super) struct EqualNodes {
    /// Least recently used first.
    tables: Vec<Table>,
    /// The number of tables ever created.
    created: u64,
}

/// The numbers of all nodes for one set of attributes.
pub(super) struct Table {
    reads: ReadAttributes,
    /// Distinguishes the numbers of this table from those of others.
    id: u64,
    clocks: DeviceClocks,
    numbers: FixedMap<NodeDevices, u32>,
    /// How often a node was found in `numbers`.
    repeats: usize,
    by_slot: Vec<u32>,
}

impl EqualNodes {
    /// Returns the table for the attributes that the rule's requests read; `None` if they cannot be listed.
    pub(super) fn of(&mut self, rule: &dyn DeviceRule, snapshot: Snapshot<'_>) -> Option<&mut Table> {
        let reads = rule.reads(snapshot)?;
        let known = self.tables.iter().position(|table| table.reads == reads);
        let mut table = match known {
            Some(at) => self.tables.remove(at),
            None => {
                if self.tables.len() == TABLES_MAX {
                    self.tables.remove(0);
                }
                self.new_table(reads)
            }
        };
        if table.is_worth_renewal() {
            table = self.new_table(table.reads);
        }
        table.catch_up(snapshot);
        self.tables.push(table);
        self.tables.last_mut()
    }

    fn new_table(&mut self, reads: ReadAttributes) -> Table {
        self.created += 1;
        let (clocks, numbers) = (DeviceClocks::default(), FixedMap::default());
        Table { reads, id: self.created, clocks, numbers, repeats: 0, by_slot: Vec::new() }
    }

    /// Removes everything.
    pub(super) fn clear(&mut self) {
        self.tables.clear();
    }
}

impl Table {
    /// Returns the number that distinguishes this table from all others.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Forgets the numbers of nodes whose devices changed.
    fn catch_up(&mut self, snapshot: Snapshot<'_>) {
        match self.clocks.catch_up(snapshot) {
            None => self.by_slot.clear(),
            Some(changed) => {
                for node in changed.iter() {
                    self.by_slot.get_mut(node.index()).into_iter().for_each(|number| *number = UNKNOWN);
                }
            }
        }
        let slots = snapshot.slots().max(self.by_slot.len());
        self.by_slot.resize(slots, UNKNOWN);
    }

    /// Whether there are too many different nodes, and most of them were found in the table more than once.
    fn is_worth_renewal(&self) -> bool {
        self.numbers.len() == DIFFERENT_MAX && self.repeats > DIFFERENT_MAX
    }

    /// Returns a number that is the same for all nodes whose devices equal this node's, now and at any other time;
    /// `None` if the node has none.
    pub(super) fn number(
        &mut self,
        rule: &dyn DeviceRule,
        snapshot: Snapshot<'_>,
        node: NodeIdx,
    ) -> Option<u32> {
        let slot = node.index();
        if self.by_slot[slot] == UNKNOWN {
            self.by_slot[slot] = self.compare(rule, snapshot, node);
        }
        Some(self.by_slot[slot]).filter(|&number| number != NONE)
    }

    fn compare(&mut self, rule: &dyn DeviceRule, snapshot: Snapshot<'_>, node: NodeIdx) -> u32 {
        let known = self.numbers.len();
        if known == DIFFERENT_MAX {
            return NONE;
        }
        let Some(devices) = rule.devices(&snapshot.node(node), &self.reads) else { return NONE };
        let number = *self.numbers.entry(devices).or_insert(known as u32);
        self.repeats += usize::from(self.numbers.len() == known);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Cache, Judgement, NodeView};
    use crate::framework::{CycleError, DeviceRequests, PoolDevices};
    use crate::model::intern::Tables;
    use crate::scheduler::test_node;
    use std::sync::Arc;

    /// The first nodes have equal devices, and each other node has devices of its own.
    struct FirstAlike(usize);

    impl DeviceRule for FirstAlike {
        fn requests(&self) -> DeviceRequests {
            unreachable!("only devices are compared")
        }

        fn judge(&self, _node: &NodeView<'_>) -> Result<Judgement, CycleError> {
            unreachable!("only devices are compared")
        }

        fn reads(&self, _snapshot: Snapshot<'_>) -> Option<ReadAttributes> {
            Some([].into())
        }

        fn devices(&self, node: &NodeView<'_>, reads: &ReadAttributes) -> Option<NodeDevices> {
            let usage = vec![None; node.idx().index().saturating_sub(self.0 - 1)];
            let pool = PoolDevices { slices: Vec::new(), usage, counters: Vec::new() };
            Some(NodeDevices { reads: Arc::clone(reads), pools: vec![pool] })
        }

        fn has_reachable_claims(&self, _node: &NodeView<'_>) -> bool {
            true
        }

        fn has_allocated_claims(&self) -> bool {
            false
        }
    }

    /// Compares this many nodes with equal devices, then others until the table has this many different ones. Returns
    /// how many tables there were after the next request.
    fn tables_after(alike: usize, different: usize) -> u64 {
        let (mut tables, mut cache) = (Tables::new(), Cache::default());
        let nodes = alike + different - 1;
        for number in 0..nodes {
            cache.apply_node(&Arc::from(test_node(&mut tables, &format!("n{number}"))));
        }
        let (snapshot, rule, mut all) = (cache.snapshot(&tables), FirstAlike(alike), EqualNodes::default());
        let table = all.of(&rule, snapshot).expect("the attributes are listed");
        let numbers: Vec<_> =
            snapshot.nodes().iter().map(|node| table.number(&rule, snapshot, node)).collect();
        let expected =
            (0..nodes).map(|node| node.saturating_sub(alike - 1)).map(|number| Some(number as u32));
        assert!(numbers.into_iter().eq(expected));
        all.of(&rule, snapshot).expect("the attributes are listed").id()
    }

    /// Devices that change all the time fill a table with numbers that no node has any more.
    #[test]
    fn full_table_is_renewed_if_most_comparisons_found_equal_devices() {
        assert_eq!(tables_after(DIFFERENT_MAX + 2, DIFFERENT_MAX), 2);
        assert_eq!(tables_after(DIFFERENT_MAX + 3, DIFFERENT_MAX), 2);
        assert_eq!(tables_after(DIFFERENT_MAX + 1, DIFFERENT_MAX), 1, "no more were found than were not");
        assert_eq!(tables_after(DIFFERENT_MAX + 2, DIFFERENT_MAX - 1), 1, "there is room for another node");
    }

    #[test]
    fn cleared_tables_are_made_anew() {
        let (mut tables, mut cache) = (Tables::new(), Cache::default());
        cache.apply_node(&Arc::from(test_node(&mut tables, "n")));
        let (snapshot, mut all) = (cache.snapshot(&tables), EqualNodes::default());
        let mut id = |clears: bool| {
            if clears {
                all.clear();
            }
            all.of(&FirstAlike(1), snapshot).expect("the attributes are listed").id()
        };
        assert_eq!([false, false, true, false].map(&mut id), [1, 1, 2, 2]);
    }
}
