//! Topology counts: the counters of all tallies of one signature, and the filters and scores that use them.
//!
//! Tallies decide which pods count, on which nodes, and what nodes with equal counts get. [`DomainCounter`] does the
//! counting.

use super::domain_counter::{BY_DOMAIN_MAX, DomainCounter, Grouping};
use super::domain_map::NodeDomain;
use super::topology_index::TopologyIndex;
use crate::cache::{KindId, Snapshot, Touch};
use crate::framework::tally::{Counter, Domains, FilterTally, Outdated, ScoreTally, Tally, Whole};
use crate::hash::IdMap;
use crate::node::NodeIdx;
use crate::node_set::NodeSet;
use std::ops::Range;

/// The tallies of one signature with their counters.
#[derive(Default)]
pub(super) struct TopologyCounts {
    filters: Vec<(Box<dyn FilterTally>, Range<usize>)>,
    scores: Vec<(i64, Box<dyn ScoreTally>, Range<usize>)>,
    counts: Vec<DomainCounter>,
    /// By pod class: the counters it adds to and the amounts. Pod classes that add nothing have no entry.
    adds: IdMap<KindId, Box<[(usize, i64)]>>,
    next_kind: KindId,
}

/// The result of a full count.
pub(super) struct Counted {
    /// The classification of nodes while all counts are zero, by counter. `Some` if other signatures with such
    /// counters share it.
    pub(super) groupings: Option<Vec<Grouping>>,
    /// Nodes that are classified by count and whose count is not zero.
    pub(super) nonzero_nodes: NodeSet,
}

impl TopologyCounts {
    pub(super) fn add_filter(&mut self, tally: Box<dyn FilterTally>) {
        let range = self.add_counters(tally.counters(), tally.compares_domains());
        self.filters.push((tally, range));
    }

    pub(super) fn add_score(&mut self, weight: i64, tally: Box<dyn ScoreTally>) {
        let range = self.add_counters(tally.counters(), false);
        self.scores.push((weight, tally, range));
    }

    fn add_counters(&mut self, counters: &[Counter], tracks_minimum: bool) -> Range<usize> {
        let first = self.counts.len();
        self.counts.extend(counters.iter().map(|&counter| DomainCounter::new(counter, tracks_minimum)));
        first..self.counts.len()
    }

    fn tallies(&self) -> impl Iterator<Item = (&dyn Tally, &Range<usize>)> {
        let filters = self.filters.iter().map(|(tally, range)| (&**tally as &dyn Tally, range));
        filters.chain(self.scores.iter().map(|(_, tally, range)| (&**tally as &dyn Tally, range)))
    }

    /// Returns the heap size in bytes, without the domains of a key, which all signatures share.
    pub(super) fn bytes(&self) -> usize {
        self.counts.iter().map(DomainCounter::bytes).sum::<usize>() + self.adds.capacity() * 64
    }

    /// Whether a filter has counters. Its result for a node then depends on the pods nominated to it.
    pub(super) fn filters_have_counters(&self) -> bool {
        self.filters.iter().any(|(_, range)| !range.is_empty())
    }

    /// Returns the number of counters, which is also the number of views of a node.
    pub(super) fn len(&self) -> usize {
        self.counts.len()
    }

    /// Counts all pods on all nodes.
    pub(super) fn count(
        &mut self,
        snapshot: Snapshot<'_>,
        topology_index: &mut TopologyIndex,
    ) -> Result<Counted, Outdated> {
        self.add_pod_classes(snapshot)?;
        let mut counted = Counted { groupings: None, nonzero_nodes: NodeSet::new() };
        if self.counts.is_empty() {
            return Ok(counted);
        }
        let is_everywhere = self.start_count(snapshot, topology_index)?;
        for (id, kind) in snapshot.kinds_since(KindId::default()) {
            let Some(adds) = self.adds.get(&id) else { continue };
            for (node, number) in kind.nodes() {
                for &(at, amount) in adds {
                    self.counts[at].count_pods(node, amount * number, &mut counted.nonzero_nodes)?;
                }
            }
        }
        self.counts.iter_mut().for_each(|count| count.finish_count(&mut counted.nonzero_nodes));
        self.check_weighable()?;
        counted.groupings = is_everywhere.then(|| self.counts.iter().map(DomainCounter::grouping).collect());
        Ok(counted)
    }

    /// Prepares a full count. Returns whether every node counts for every counter.
    fn start_count(
        &mut self,
        snapshot: Snapshot<'_>,
        topology_index: &mut TopologyIndex,
    ) -> Result<bool, Outdated> {
        self.counts.iter_mut().for_each(|count| count.load_domains(snapshot, topology_index));
        let all_nodes_have_keys = self.counts.iter().all(DomainCounter::all_nodes_have_key);
        if self.tallies().all(|(tally, _)| tally.counts_everywhere(all_nodes_have_keys)) {
            let all = None::<fn(NodeIdx) -> bool>;
            self.counts.iter_mut().for_each(|count| count.start_count(snapshot, topology_index, all));
            return Ok(true);
        }
        let (mut counting, mut counts) =
            (vec![NodeSet::new(); self.counts.len()], vec![true; self.counts.len()]);
        for node in snapshot.nodes().iter() {
            self.set_counting(snapshot, node, &mut counts)?;
            for (counting, _) in counting.iter_mut().zip(&counts).filter(|(_, counts)| **counts) {
                counting.insert(node);
            }
        }
        for (count, counting) in self.counts.iter_mut().zip(&counting) {
            count.start_count(snapshot, topology_index, Some(|node| counting.contains(node)));
        }
        Ok(false)
    }

    /// Checks that scores which weigh domains can count the domains of the feasible nodes.
    fn check_weighable(&self) -> Result<(), Outdated> {
        let is_weighable = |count: &DomainCounter| match count.counter().domains {
            Domains::Nodes => true,
            Domains::Values => count.is_by_domain() && count.domain_count() <= 2 * BY_DOMAIN_MAX,
        };
        let mut weighing = self.scores.iter().filter(|(_, tally, _)| tally.weighs_domains());
        let all_weighable = weighing.all(|(_, _, range)| self.counts[range.clone()].iter().all(is_weighable));
        if all_weighable { Ok(()) } else { Err(Outdated) }
    }

    fn set_counting(
        &self,
        snapshot: Snapshot<'_>,
        node: NodeIdx,
        counts: &mut [bool],
    ) -> Result<(), Outdated> {
        counts.fill(true);
        for (tally, range) in self.tallies() {
            tally.counts_on(snapshot, node, &mut counts[range.clone()])?;
        }
        Ok(())
    }

    /// Asks the tallies what new pod classes add to the counters.
    fn add_pod_classes(&mut self, snapshot: Snapshot<'_>) -> Result<(), Outdated> {
        let next = snapshot.next_kind();
        if next == self.next_kind {
            return Ok(());
        }
        let tallies: Vec<_> = self
            .tallies()
            .map(|(tally, range)| (tally, range, tally.ignores_pods_without_affinity()))
            .collect();
        let mut new_adds = Vec::new();
        for (id, kind) in snapshot.kinds_since(self.next_kind) {
            let mut adds: Vec<(usize, i64)> = Vec::new();
            let has_affinity = kind.pod().pod_affinity.is_some();
            for (tally, range, _) in tallies.iter().filter(|(.., ignores)| has_affinity || !ignores) {
                let add = &mut |at, amount| adds.push((range.start + at, amount));
                tally.adds(snapshot, kind.pod(), add)?;
            }
            if !adds.is_empty() {
                new_adds.push((id, adds.into()));
            }
        }
        self.adds.extend(new_adds);
        self.next_kind = next;
        Ok(())
    }

    /// Updates the counts from the change log.
    ///
    /// `objects` has the nodes whose object changed; they are counted anew. Nodes with new views are inserted into
    /// `changed`, except perhaps those in `objects`.
    pub(super) fn recount(
        &mut self,
        snapshot: Snapshot<'_>,
        touches: impl Iterator<Item = (NodeIdx, Touch)>,
        objects: &NodeSet,
        changed: &mut NodeSet,
    ) -> Result<(), Outdated> {
        self.add_pod_classes(snapshot)?;
        if self.counts.is_empty() {
            return Ok(());
        }
        for (node, touch) in touches {
            let (kind, sign) = match touch {
                Touch::Object => continue,
                Touch::Added(kind) => (kind, 1),
                Touch::Removed(kind) => (kind, -1),
            };
            let Some(adds) = self.adds.get(&kind) else { continue };
            if !objects.contains(node) && snapshot.nodes().contains(node) {
                for &(at, amount) in adds {
                    self.counts[at].add(node, sign * amount, changed)?;
                }
            }
        }
        self.recount_nodes(snapshot, objects, changed)?;
        self.check_weighable()
    }

    /// Counts the nodes whose object changed.
    fn recount_nodes(
        &mut self,
        snapshot: Snapshot<'_>,
        nodes: &NodeSet,
        changed: &mut NodeSet,
    ) -> Result<(), Outdated> {
        let (mut counts, mut pods) = (vec![true; self.counts.len()], vec![0; self.counts.len()]);
        for node in nodes.iter() {
            self.set_counting(snapshot, node, &mut counts)?;
            pods.fill(0);
            for kind in snapshot.kinds_on(node) {
                for &(at, amount) in self.adds.get(kind).into_iter().flatten() {
                    pods[at] += amount;
                }
            }
            for (at, count) in self.counts.iter_mut().enumerate() {
                let domain = count.domain_of(snapshot, node);
                count.move_to(node, NodeDomain { domain, counts: counts[at] }, pods[at], changed)?;
            }
        }
        Ok(())
    }

    /// Returns the views of all nodes, by counter and slot.
    pub(super) fn columns(&self) -> Vec<Vec<i64>> {
        self.counts.iter().map(DomainCounter::column).collect()
    }

    /// Writes the views of a node into `views`.
    #[inline]
    pub(super) fn views(&self, node: NodeIdx, views: &mut [i64]) {
        for (view, count) in views.iter_mut().zip(&self.counts) {
            *view = count.view(node.index());
        }
    }

    /// Filters all classes: sets the number in `nodes` to 0 for each class that does not pass.
    ///
    /// `views` returns the views of a class; `nodes` has the number of nodes of each class.
    pub(super) fn filter<'v>(&self, views: impl Fn(usize) -> &'v [i64], nodes: &mut [u32]) {
        let whole: Vec<Whole> = self.counts.iter().map(DomainCounter::whole).collect();
        let mut sums = Vec::with_capacity(self.counts.len());
        for (class, nodes) in nodes.iter_mut().enumerate().filter(|(_, nodes)| **nodes > 0) {
            self.sums_of(views(class), &mut sums);
            let passes = |(tally, range): &(Box<dyn FilterTally>, Range<usize>)| {
                tally.passes(&sums[range.clone()], &whole[range.clone()])
            };
            if !self.filters.iter().all(passes) {
                *nodes = 0;
            }
        }
    }

    /// Scores all classes that have nodes.
    ///
    /// Calls `give` with class, weight and normalized score.
    pub(super) fn score<'v>(
        &self,
        views: impl Fn(usize) -> &'v [i64],
        nodes: &[u32],
        mut give: impl FnMut(usize, i64, i64),
    ) {
        let classes: Vec<usize> = (0..nodes.len()).filter(|&class| nodes[class] > 0).collect();
        let width = self.counts.len();
        let mut sums = Vec::with_capacity(width * classes.len());
        let mut of_one = Vec::with_capacity(width);
        for &class in &classes {
            self.sums_of(views(class), &mut of_one);
            sums.append(&mut of_one);
        }
        for (weight, tally, range) in &self.scores {
            let of = |at: usize| &sums[at * width..][range.clone()];
            let is_ignored: Vec<bool> = (0..classes.len()).map(|at| tally.ignores(of(at))).collect();
            let scored =
                || classes.iter().zip(&is_ignored).filter(|(_, ignored)| !**ignored).map(|(&c, _)| c);
            let domains = |at: usize| match self.counts[at].counter().domains {
                Domains::Nodes => scored().map(|class| nodes[class] as usize).sum(),
                Domains::Values => {
                    let mut seen: Vec<i64> = scored().map(|class| views(class)[at]).collect();
                    seen.sort_unstable();
                    seen.dedup();
                    seen.len()
                }
            };
            let domains: Vec<usize> =
                if tally.weighs_domains() { range.clone().map(domains).collect() } else { Vec::new() };
            let weights = tally.weights(&domains);
            let raw = |at: usize| (!is_ignored[at]).then(|| tally.raw(of(at), &weights));
            let mut cells: Vec<Option<i64>> = (0..classes.len()).map(raw).collect();
            tally.normalize(&mut cells);
            for (&class, cell) in classes.iter().zip(cells) {
                give(class, *weight, cell.unwrap_or(0));
            }
        }
    }

    fn sums_of(&self, views: &[i64], sums: &mut Vec<Option<i64>>) {
        sums.clear();
        sums.extend(self.counts.iter().zip(views).map(|(count, &view)| count.sum(view)));
    }
}
