//! Sums of pods by topology domain, for the tallies of one signature: counted once for all nodes, then for those touched.

use super::atlas::{Atlas, NOWHERE, Places};
use crate::cache::{KindId, Snapshot, Touch};
use crate::framework::tally::{Counter, Domains, FilterTally, Outdated, ScoreTally, Tally, Whole};
use crate::hash::IdMap;
use crate::intern::Symbol;
use crate::node::NodeIdx;
use crate::node_set::NodeSet;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// A counter with so many domains at most tells nodes apart by their domain, one with more by what is summed there.
const COARSE_MAX: usize = 64;
/// In a node's view, stands for a counter of which the node is in no domain.
const NO_DOMAIN: i64 = i64::MIN;

/// The tallies with what they have counted.
#[derive(Default)]
pub(super) struct Sums {
    filters: Vec<(Box<dyn FilterTally>, Range<usize>)>,
    scores: Vec<(i64, Box<dyn ScoreTally>, Range<usize>)>,
    counts: Vec<Count>,
    /// What a pod of a kind adds to which counter, for the kinds that add anything.
    adds: IdMap<KindId, Box<[(usize, i64)]>>,
    next_kind: KindId,
}

/// One counter.
struct Count {
    counter: Counter,
    /// It is a filter's, which may ask for the lowest sum.
    is_levelled: bool,
    /// Nodes are told apart by domain.
    is_coarse: bool,
    /// The domains there were when everything was counted, and those that were met since.
    places: Arc<Places>,
    ids: IdMap<Symbol, u32>,
    by_slot: Vec<Place>,
    domains: Vec<Domain>,
    /// How many domains have a sum other than 0.
    non_zero: usize,
    /// How many domains with a node that counts have which sum.
    levels: BTreeMap<i64, usize>,
}

/// A node, to a counter.
#[derive(Clone, Copy)]
struct Place {
    domain: u32,
    counts: bool,
    pods: i64,
}

#[derive(Clone, Copy, Default)]
struct Domain {
    sum: i64,
    nodes: u32,
    counting: u32,
}

impl Count {
    fn new(counter: Counter, is_levelled: bool) -> Self {
        Self {
            counter,
            is_levelled,
            is_coarse: false,
            places: Arc::default(),
            ids: IdMap::default(),
            by_slot: Vec::new(),
            domains: Vec::new(),
            non_zero: 0,
            levels: BTreeMap::new(),
        }
    }

    /// The domain of a node, given now if it has none.
    fn domain_of(&mut self, snapshot: Snapshot<'_>, node: NodeIdx) -> u32 {
        let Some(value) = snapshot.node_labels(node).get(self.counter.key) else { return NOWHERE };
        let id = match self.counter.domains {
            Domains::Nodes => node.0,
            Domains::Values => self.places.id(value).unwrap_or_else(|| {
                let next = u32::try_from(self.domain_count()).expect("fewer domains than nodes");
                *self.ids.entry(value).or_insert(next)
            }),
        };
        self.make_room_for(id);
        id
    }

    fn make_room_for(&mut self, id: u32) {
        if self.domains.len() <= id as usize {
            self.domains.resize(id as usize + 1, Domain::default());
        }
    }

    /// Room for the domains and nodes there are.
    fn make_room(&mut self, snapshot: Snapshot<'_>) {
        let slots = snapshot.columns().pods.len();
        let domains = match self.counter.domains {
            Domains::Nodes => slots,
            Domains::Values => self.places.len(),
        };
        self.domains = vec![Domain::default(); domains];
    }

    /// How many domains there are, of values.
    fn domain_count(&self) -> usize {
        self.places.len() + self.ids.len()
    }

    /// The domain of a node when all nodes are counted.
    fn first_domain_of(&self, node: NodeIdx) -> u32 {
        match (self.places.domain(node), self.counter.domains) {
            (NOWHERE, _) => NOWHERE,
            (_, Domains::Nodes) => node.0,
            (domain, Domains::Values) => domain,
        }
    }

    /// Where a node is and whether it counts, when all nodes are counted; its pods are counted already.
    #[inline]
    fn found(&mut self, node: NodeIdx, counts: bool) {
        let id = self.first_domain_of(node);
        let place = &mut self.by_slot[node.index()];
        (place.domain, place.counts) = (id, counts);
        let pods = place.pods;
        if let Some(domain) = self.domains.get_mut(id as usize) {
            domain.nodes += 1;
            domain.counting += u32::from(counts);
            domain.sum += if counts { pods } else { 0 };
        }
    }

    /// The same of all nodes, which count.
    fn find_all(&mut self, nodes: &NodeSet) {
        nodes.iter().for_each(|node| self.found(node, true));
    }

    /// When all nodes were counted.
    fn sum_up(&mut self) {
        self.non_zero = self.domains.iter().filter(|domain| domain.sum != 0).count();
        if self.is_levelled {
            for domain in self.domains.iter().filter(|domain| domain.counting > 0) {
                *self.levels.entry(domain.sum).or_default() += 1;
            }
        }
    }

    /// Takes a node out of its domain, and puts it into another.
    fn renew(&mut self, slot: usize, to: Place) {
        if self.by_slot.len() <= slot {
            self.by_slot.resize(slot + 1, Place { domain: NOWHERE, counts: false, pods: 0 });
        }
        let from = std::mem::replace(&mut self.by_slot[slot], to);
        if from.domain == to.domain && from.counts == to.counts && from.pods == to.pods {
            return;
        }
        self.change(from, -1);
        self.change(to, 1);
    }

    fn change(&mut self, place: Place, by: i64) {
        let Some(domain) = self.domains.get_mut(place.domain as usize) else { return };
        let before = *domain;
        domain.nodes = domain.nodes.strict_add_signed(by as i32);
        if place.counts {
            domain.counting = domain.counting.strict_add_signed(by as i32);
            domain.sum += by * place.pods;
        }
        let after = *domain;
        self.non_zero = self.non_zero + usize::from(after.sum != 0) - usize::from(before.sum != 0);
        if self.is_levelled {
            self.level(before, -1);
            self.level(after, 1);
        }
    }

    fn level(&mut self, domain: Domain, by: isize) {
        if domain.counting == 0 {
            return;
        }
        let domains = self.levels.entry(domain.sum).or_default();
        *domains = domains.strict_add_signed(by);
        if *domains == 0 {
            self.levels.remove(&domain.sum);
        }
    }

    fn whole(&self) -> Whole {
        Whole {
            lowest: self.levels.keys().next().copied(),
            domains: self.levels.values().sum(),
            is_zero: self.non_zero == 0,
        }
    }

    /// What tells a node from others: its domain, or what is summed there.
    #[inline]
    fn view(&self, slot: usize) -> i64 {
        match self.by_slot[slot].domain {
            NOWHERE => NO_DOMAIN,
            domain if self.is_coarse => i64::from(domain),
            domain => self.domains[domain as usize].sum,
        }
    }

    /// What a node with this view sees summed.
    fn sum(&self, view: i64) -> Option<i64> {
        match view {
            NO_DOMAIN => None,
            domain if self.is_coarse => Some(self.domains[domain as usize].sum),
            sum => Some(sum),
        }
    }
}

impl Sums {
    pub(super) fn add_filter(&mut self, tally: Box<dyn FilterTally>) {
        let range = self.add_counters(tally.counters(), true);
        self.filters.push((tally, range));
    }

    pub(super) fn add_score(&mut self, weight: i64, tally: Box<dyn ScoreTally>) {
        let range = self.add_counters(tally.counters(), false);
        self.scores.push((weight, tally, range));
    }

    fn add_counters(&mut self, counters: &[Counter], is_levelled: bool) -> Range<usize> {
        let first = self.counts.len();
        self.counts.extend(counters.iter().map(|&counter| Count::new(counter, is_levelled)));
        first..self.counts.len()
    }

    fn tallies(&self) -> impl Iterator<Item = (&dyn Tally, &Range<usize>)> {
        let filters = self.filters.iter().map(|(tally, range)| (&**tally as &dyn Tally, range));
        filters.chain(self.scores.iter().map(|(_, tally, range)| (&**tally as &dyn Tally, range)))
    }

    /// The heap it takes. What all signatures share of a key is nobody's.
    pub(super) fn bytes(&self) -> usize {
        let of = |count: &Count| {
            let (places, domains) = (count.by_slot.capacity(), count.domains.capacity());
            places * size_of::<Place>() + domains * size_of::<Domain>() + count.ids.capacity() * 16
        };
        self.counts.iter().map(of).sum::<usize>() + self.adds.capacity() * 64
    }

    /// Whether a filter has counters: pods that are nominated to a node may be other to it.
    pub(super) fn filters_count(&self) -> bool {
        self.filters.iter().any(|(_, range)| !range.is_empty())
    }

    /// How many views a node has.
    pub(super) fn len(&self) -> usize {
        self.counts.len()
    }

    /// Counts everything.
    pub(super) fn count(&mut self, snapshot: Snapshot<'_>, atlas: &mut Atlas) -> Result<(), Outdated> {
        if self.counts.is_empty() {
            return self.learn(snapshot);
        }
        self.learn(snapshot)?;
        let slots = snapshot.columns().pods.len();
        for count in &mut self.counts {
            count.places = atlas.places(snapshot, count.counter.key);
            count.by_slot = vec![Place { domain: NOWHERE, counts: true, pods: 0 }; slots];
        }
        for (id, kind) in snapshot.kinds_since(KindId::default()) {
            let Some(adds) = self.adds.get(&id) else { continue };
            for (node, number) in kind.nodes() {
                for &(at, amount) in adds {
                    self.counts[at].by_slot[node.index()].pods += amount * number;
                }
            }
        }
        self.find_all(snapshot)?;
        self.counts.iter_mut().for_each(Count::sum_up);
        for count in &mut self.counts {
            count.is_coarse = count.counter.domains == Domains::Values && count.domain_count() <= COARSE_MAX;
        }
        self.are_tellable()
    }

    /// Where all nodes are and whether they count; their pods are counted already.
    fn find_all(&mut self, snapshot: Snapshot<'_>) -> Result<(), Outdated> {
        self.counts.iter_mut().for_each(|count| count.make_room(snapshot));
        let are_all_placed = self.counts.iter().all(|count| count.places.has_all());
        if self.tallies().all(|(tally, _)| tally.counts_everywhere(are_all_placed)) {
            self.counts.iter_mut().for_each(|count| count.find_all(snapshot.nodes()));
            return Ok(());
        }
        let mut counts = vec![true; self.counts.len()];
        for node in snapshot.nodes().iter() {
            self.where_it_counts(snapshot, node, &mut counts)?;
            for (count, &counts) in self.counts.iter_mut().zip(&counts) {
                count.found(node, counts);
            }
        }
        Ok(())
    }

    /// Whether the scores that weigh domains can count those of the feasible nodes.
    fn are_tellable(&self) -> Result<(), Outdated> {
        let tellable = |count: &Count| match count.counter.domains {
            Domains::Nodes => true,
            Domains::Values => count.is_coarse && count.domain_count() <= 2 * COARSE_MAX,
        };
        let mut weighing = self.scores.iter().filter(|(_, tally, _)| tally.weighs_domains());
        let are = weighing.all(|(_, _, range)| self.counts[range.clone()].iter().all(tellable));
        if are { Ok(()) } else { Err(Outdated) }
    }

    fn where_it_counts(
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

    /// Learns what pods of kinds add that are new.
    fn learn(&mut self, snapshot: Snapshot<'_>) -> Result<(), Outdated> {
        let next = snapshot.next_kind();
        if next == self.next_kind {
            return Ok(());
        }
        for (id, kind) in snapshot.kinds_since(self.next_kind) {
            let mut adds: Vec<(usize, i64)> = Vec::new();
            for (tally, range) in self.tallies() {
                let add = &mut |at, amount| adds.push((range.start + at, amount));
                tally.adds(snapshot, kind.pod(), add)?;
            }
            if !adds.is_empty() {
                self.adds.insert(id, adds.into());
            }
        }
        self.next_kind = next;
        Ok(())
    }

    /// Counts what happened to nodes, of which `objects` are those whose object changed as well. Nodes that see something else
    /// by now are added to `changed`; those whose object changed may be left out.
    pub(super) fn recount(
        &mut self,
        snapshot: Snapshot<'_>,
        touches: impl Iterator<Item = (NodeIdx, Touch)>,
        objects: &NodeSet,
        changed: &mut NodeSet,
    ) -> Result<(), Outdated> {
        self.learn(snapshot)?;
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
                    let count = &mut self.counts[at];
                    let place = count.by_slot[node.index()];
                    count.move_to(node, Place { pods: place.pods + sign * amount, ..place }, changed);
                }
            }
        }
        self.count_anew(snapshot, objects, changed)?;
        self.are_tellable()
    }

    /// Counts nodes of which the object changed.
    fn count_anew(
        &mut self,
        snapshot: Snapshot<'_>,
        nodes: &NodeSet,
        changed: &mut NodeSet,
    ) -> Result<(), Outdated> {
        let (mut counts, mut pods) = (vec![true; self.counts.len()], vec![0; self.counts.len()]);
        for node in nodes.iter() {
            self.where_it_counts(snapshot, node, &mut counts)?;
            pods.fill(0);
            for kind in snapshot.kinds_on(node) {
                for &(at, amount) in self.adds.get(kind).into_iter().flatten() {
                    pods[at] += amount;
                }
            }
            for (at, count) in self.counts.iter_mut().enumerate() {
                let domain = count.domain_of(snapshot, node);
                count.move_to(node, Place { domain, counts: counts[at], pods: pods[at] }, changed);
            }
        }
        Ok(())
    }

    /// What tells nodes from others, by counter and slot.
    pub(super) fn columns(&self) -> Vec<Vec<i64>> {
        let column = |count: &Count| (0..count.by_slot.len()).map(|slot| count.view(slot)).collect();
        self.counts.iter().map(column).collect()
    }

    /// What tells a node from others.
    #[inline]
    pub(super) fn views(&self, node: NodeIdx, views: &mut [i64]) {
        for (view, count) in views.iter_mut().zip(&self.counts) {
            *view = count.view(node.index());
        }
    }

    /// Judges and scores all classes of nodes, of which `views` are given and `nodes` says how many nodes there are.
    ///
    /// Of classes that do not pass, `nodes` becomes 0; what the others get is added to `points`. `None` where that is out of
    /// the ordinary.
    pub(super) fn filter<'v>(&self, views: impl Fn(usize) -> &'v [i64], nodes: &mut [u32]) {
        let whole: Vec<Whole> = self.counts.iter().map(Count::whole).collect();
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

    /// Gives the classes that have nodes their points, for which `give` is called with class, weight and score; the score is
    /// normalized.
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
            let domains = |at: usize| match self.counts[at].counter.domains {
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

impl Count {
    /// Takes a node out of its domain, and puts it into another; the nodes that see something else then are added to `changed`.
    fn move_to(&mut self, node: NodeIdx, to: Place, changed: &mut NodeSet) {
        let from = self.by_slot.get(node.index()).map_or(NOWHERE, |place| place.domain);
        let sum = |count: &Self, domain: u32| count.domains.get(domain as usize).map(|domain| domain.sum);
        let before = [from, to.domain].map(|domain| sum(self, domain));
        self.renew(node.index(), to);
        if self.is_coarse {
            return;
        }
        for (domain, before) in [from, to.domain].into_iter().zip(before) {
            if sum(self, domain) != before {
                changed.insert(node);
                self.others_in(domain, changed);
            }
        }
    }

    /// The nodes of a domain, where there is more than one.
    fn others_in(&self, domain: u32, nodes: &mut NodeSet) {
        if domain == NOWHERE || self.domains[domain as usize].nodes <= 1 {
            return;
        }
        for (slot, place) in (0..).zip(&self.by_slot) {
            if place.domain == domain {
                nodes.insert(NodeIdx(slot));
            }
        }
    }
}
