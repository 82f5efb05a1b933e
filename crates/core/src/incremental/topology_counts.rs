//! Topology counts: the counters of all tallies of one signature, and the filters and scores that use them.
//!
//! Tallies decide which pods count, on which nodes, and what nodes with equal counts get. [`DomainCounter`] does the
//! counting.

use super::domain_counter::{BY_DOMAIN_MAX, DomainCounter, Grouping};
use super::domain_map::NodeDomain;
use super::topology_index::TopologyIndex;
use crate::cache::{CLASS_LOOKUP_STEPS, Facts, NodeChange, PodClass, PodClassId, Snapshot};
use crate::collections::hash::IdMap;
use crate::framework::tally::{Counter, Domains, FilterTally, Outdated, ScoreTally, Tally, Whole};
use crate::model::node::NodeIdx;
use crate::model::node_set::NodeSet;
use std::ops::Range;

/// The tallies with what they have counted.
#[derive(Default)]
pub(super) struct TopologyCounts {
    filters: Vec<(Box<dyn FilterTally>, Range<usize>)>,
    scores: Vec<(i64, Box<dyn ScoreTally>, Range<usize>)>,
    counters: Vec<DomainCounter>,
    /// By pod class: the counters it adds to and the amounts. Pod classes that add nothing have no entry.
    increments: IdMap<PodClassId, Box<[(usize, i64)]>>,
    next_pod_class: PodClassId,
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
        let first = self.counters.len();
        self.counters.extend(counters.iter().map(|&counter| DomainCounter::new(counter, tracks_minimum)));
        first..self.counters.len()
    }

    fn tallies(&self) -> impl Iterator<Item = (&dyn Tally, &Range<usize>)> {
        let filters = self.filters.iter().map(|(tally, range)| (&**tally as &dyn Tally, range));
        filters.chain(self.scores.iter().map(|(_, tally, range)| (&**tally as &dyn Tally, range)))
    }

    /// Returns the heap size in bytes, without the domains of a key, which all signatures share.
    pub(super) fn bytes(&self) -> usize {
        self.counters.iter().map(DomainCounter::bytes).sum::<usize>() + self.increments.capacity() * 64
    }

    /// Whether a filter has counters. Its result for a node then depends on the pods nominated to it.
    pub(super) fn filters_have_counters(&self) -> bool {
        self.filters.iter().any(|(_, range)| !range.is_empty())
    }

    /// Returns the number of counters, which is also the number of views of a node.
    pub(super) fn len(&self) -> usize {
        self.counters.len()
    }

    /// Counts all pods on all nodes.
    pub(super) fn count(
        &mut self,
        snapshot: Snapshot<'_>,
        topology_index: &mut TopologyIndex,
    ) -> Result<Counted, Outdated> {
        self.add_pod_classes(snapshot)?;
        let mut counted = Counted { groupings: None, nonzero_nodes: NodeSet::new() };
        if self.counters.is_empty() {
            return Ok(counted);
        }
        let is_everywhere = self.start_count(snapshot, topology_index)?;
        let Self { increments, counters, .. } = self;
        let mut count = |class: &PodClass, increments: &[(usize, i64)]| {
            for (node, number) in class.nodes() {
                for &(at, amount) in increments {
                    counters[at].count_pods(node, amount * number, &mut counted.nonzero_nodes)?;
                }
            }
            Ok(())
        };
        // A lookup is cheaper than a pass over all classes only if there are few.
        if increments.len() < snapshot.pod_class_count() / CLASS_LOOKUP_STEPS {
            let mut known: Vec<_> = increments.iter().collect();
            known.sort_unstable_by_key(|(id, _)| **id);
            for (&id, increments) in known {
                snapshot.pod_class(id).map_or(Ok(()), |class| count(class, increments))?;
            }
        } else {
            for (id, class) in snapshot.pod_classes_since(PodClassId::default()) {
                increments.get(&id).map_or(Ok(()), |increments| count(class, increments))?;
            }
        }
        self.counters.iter_mut().for_each(|counter| counter.finish_count(&mut counted.nonzero_nodes));
        self.check_weighable()?;
        counted.groupings =
            is_everywhere.then(|| self.counters.iter().map(DomainCounter::grouping).collect());
        Ok(counted)
    }

    /// Prepares a full count. Returns whether every node counts for every counter.
    fn start_count(
        &mut self,
        snapshot: Snapshot<'_>,
        topology_index: &mut TopologyIndex,
    ) -> Result<bool, Outdated> {
        self.counters.iter_mut().for_each(|counter| counter.load_domains(snapshot, topology_index));
        let all_nodes_have_keys = self.counters.iter().all(DomainCounter::all_nodes_have_key);
        if self.tallies().all(|(tally, _)| tally.counts_everywhere(all_nodes_have_keys)) {
            let all = None::<fn(NodeIdx) -> bool>;
            self.counters.iter_mut().for_each(|counter| counter.start_count(snapshot, topology_index, all));
            return Ok(true);
        }
        let (mut counting, mut is_counted) =
            (vec![NodeSet::new(); self.counters.len()], vec![true; self.counters.len()]);
        for node in snapshot.nodes().iter() {
            self.set_counting(snapshot, node, &mut is_counted)?;
            for (counting, _) in counting.iter_mut().zip(&is_counted).filter(|(_, is_counted)| **is_counted) {
                counting.insert(node);
            }
        }
        for (counter, counting) in self.counters.iter_mut().zip(&counting) {
            counter.start_count(snapshot, topology_index, Some(|node| counting.contains(node)));
        }
        Ok(false)
    }

    /// Checks that scores which weigh domains can count the domains of the feasible nodes.
    fn check_weighable(&self) -> Result<(), Outdated> {
        let is_weighable = |counter: &DomainCounter| match counter.rule().domains {
            Domains::Nodes => true,
            Domains::Values => counter.is_by_domain() && counter.domain_count() <= 2 * BY_DOMAIN_MAX,
        };
        let mut weighing = self.scores.iter().filter(|(_, tally, _)| tally.weighs_domains());
        let all_weighable =
            weighing.all(|(_, _, range)| self.counters[range.clone()].iter().all(is_weighable));
        if all_weighable { Ok(()) } else { Err(Outdated) }
    }

    fn set_counting(
        &self,
        snapshot: Snapshot<'_>,
        node: NodeIdx,
        is_counted: &mut [bool],
    ) -> Result<(), Outdated> {
        is_counted.fill(true);
        let shown = snapshot.showing(Facts::NodeObjects);
        for (tally, range) in self.tallies() {
            tally.counts_on(shown, node, &mut is_counted[range.clone()])?;
        }
        Ok(())
    }

    /// Asks the tallies what new pod classes add to the counters.
    fn add_pod_classes(&mut self, snapshot: Snapshot<'_>) -> Result<(), Outdated> {
        let next = snapshot.next_pod_class();
        if next == self.next_pod_class {
            return Ok(());
        }
        let tallies: Vec<_> = self
            .tallies()
            .map(|(tally, range)| (tally, range, tally.ignores_pods_without_affinity()))
            .collect();
        let (mut new_increments, mut increments) = (Vec::new(), Vec::new());
        let mut add = |id: PodClassId, class: &PodClass| {
            increments.clear();
            let facets = class.facets();
            for (tally, range, _) in
                tallies.iter().filter(|(.., ignores)| facets.affinity.is_some() || !ignores)
            {
                tally
                    .adds(snapshot, facets, &mut |at, amount| increments.push((range.start + at, amount)))?;
            }
            if !increments.is_empty() {
                new_increments.push((id, increments.as_slice().into()));
            }
            Ok(())
        };
        if tallies.iter().all(|(.., ignores)| *ignores) {
            snapshot
                .pod_classes_with_affinity_since(self.next_pod_class)
                .try_for_each(|(id, class)| add(id, class))?;
        } else {
            snapshot.pod_classes_since(self.next_pod_class).try_for_each(|(id, class)| add(id, class))?;
        }
        self.increments.extend(new_increments);
        self.next_pod_class = next;
        Ok(())
    }

    /// Updates the counts from the change log.
    ///
    /// `objects` has the nodes whose object changed; they are counted again. Nodes with new views are inserted into
    /// `changed`, except perhaps those in `objects`.
    pub(super) fn recount(
        &mut self,
        snapshot: Snapshot<'_>,
        touches: impl Iterator<Item = (NodeIdx, NodeChange)>,
        objects: &NodeSet,
        changed: &mut NodeSet,
    ) -> Result<(), Outdated> {
        self.add_pod_classes(snapshot)?;
        if self.counters.is_empty() {
            return Ok(());
        }
        for (node, touch) in touches {
            let (class, sign) = match touch {
                NodeChange::Object => continue,
                NodeChange::PodAdded(class) => (class, 1),
                NodeChange::PodRemoved(class) => (class, -1),
            };
            let Some(increments) = self.increments.get(&class) else { continue };
            if !objects.contains(node) && snapshot.nodes().contains(node) {
                for &(at, amount) in increments {
                    self.counters[at].add(node, sign * amount, changed)?;
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
        let (mut is_counted, mut pods) = (vec![true; self.counters.len()], vec![0; self.counters.len()]);
        for node in nodes.iter() {
            self.set_counting(snapshot, node, &mut is_counted)?;
            pods.fill(0);
            for class in snapshot.pod_classes_on(node) {
                for &(at, amount) in self.increments.get(class).into_iter().flatten() {
                    pods[at] += amount;
                }
            }
            for (at, counter) in self.counters.iter_mut().enumerate() {
                let domain = counter.domain_of(snapshot, node);
                counter.move_to(
                    node,
                    NodeDomain { domain, is_counted: is_counted[at] },
                    pods[at],
                    changed,
                )?;
            }
        }
        Ok(())
    }

    /// Returns the views of all nodes, by counter and slot.
    pub(super) fn columns(&self) -> Vec<Vec<i64>> {
        self.counters.iter().map(DomainCounter::column).collect()
    }

    /// Writes the views of a node into `views`.
    #[inline]
    pub(super) fn views(&self, node: NodeIdx, views: &mut [i64]) {
        for (view, counter) in views.iter_mut().zip(&self.counters) {
            *view = counter.view(node.index());
        }
    }

    /// Filters all classes: sets the number in `nodes` to 0 for each class that does not pass.
    ///
    /// `views` returns the views of a class; `nodes` has the number of nodes of each class.
    pub(super) fn filter<'v>(&self, views: impl Fn(usize) -> &'v [i64], nodes: &mut [u32]) {
        let whole: Vec<Whole> = self.counters.iter().map(DomainCounter::whole).collect();
        let mut counts = Vec::with_capacity(self.counters.len());
        for (class, nodes) in nodes.iter_mut().enumerate().filter(|(_, nodes)| **nodes > 0) {
            self.write_counts(views(class), &mut counts);
            let passes = |(tally, range): &(Box<dyn FilterTally>, Range<usize>)| {
                tally.passes(&counts[range.clone()], &whole[range.clone()])
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
        let width = self.counters.len();
        let mut counts = Vec::with_capacity(width * classes.len());
        let mut of_one = Vec::with_capacity(width);
        for &class in &classes {
            self.write_counts(views(class), &mut of_one);
            counts.append(&mut of_one);
        }
        for (weight, tally, range) in &self.scores {
            let of = |at: usize| &counts[at * width..][range.clone()];
            let is_ignored: Vec<bool> = (0..classes.len()).map(|at| tally.ignores(of(at))).collect();
            let scored =
                || classes.iter().zip(&is_ignored).filter(|(_, ignored)| !**ignored).map(|(&c, _)| c);
            let domains = |at: usize| match self.counters[at].rule().domains {
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

    fn write_counts(&self, views: &[i64], counts: &mut Vec<Option<i64>>) {
        counts.clear();
        counts.extend(self.counters.iter().zip(views).map(|(counter, &view)| counter.count(view)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry takes some 24 bytes in the map, and a list of at least 16 bytes.
    #[test]
    fn bytes_include_what_each_pod_class_adds() {
        const CLASSES: usize = 100;
        let (mut counts, mut id) = (TopologyCounts::default(), PodClassId::default());
        for _ in 0..CLASSES {
            counts.increments.insert(id, [(0, 1)].into());
            id = id.next();
        }
        assert!(counts.bytes() >= CLASSES * 40, "{} bytes", counts.bytes());
    }
}
