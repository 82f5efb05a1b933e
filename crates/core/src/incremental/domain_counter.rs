//! Pods summed by topology domain, for one counter: counted once for all nodes, then for those touched. Does not know what is counted.

use super::domain_map::{Layout, Seat};
use super::topology_index::{Atlas, NOWHERE, Places};
use crate::cache::Snapshot;
use crate::framework::tally::{Counter, Domains, Outdated, Whole};
use crate::hash::IdMap;
use crate::intern::Symbol;
use crate::mutation::{self, Mutation};
use crate::node::NodeIdx;
use crate::node_set::{BLOCK, NodeSet};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A counter with so many domains at most tells nodes apart by their domain, one with more by what is summed there.
pub(super) const COARSE_MAX: usize = 64;
/// In a node's view, stands for a counter of which the node is in no domain.
const NO_DOMAIN: i64 = i64::MIN;

/// One counter with what it has counted. Sums that are too large for its numbers are left to the plain path.
pub(super) struct Count {
    counter: Counter,
    /// Somebody asks for the lowest sum.
    is_levelled: bool,
    /// Nodes are told apart by domain.
    is_coarse: bool,
    /// The domains there were when everything was counted, and those that were met since.
    places: Arc<Places>,
    ids: IdMap<Symbol, u32>,
    /// Its own as soon as a node's object changes.
    layout: Arc<Layout>,
    /// By slot.
    pods: Vec<i32>,
    /// By domain, of the nodes that count.
    sums: Vec<i32>,
    /// How many domains have a sum other than 0.
    non_zero: usize,
    /// How many domains with a node that counts have which sum.
    levels: BTreeMap<i32, usize>,
}

/// What tells nodes apart, to a counter.
#[derive(Clone)]
pub(super) struct Outline {
    pub(super) layout: Arc<Layout>,
    is_coarse: bool,
}

impl Outline {
    /// Whether this is another's.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.layout, &other.layout) && self.is_coarse == other.is_coarse
    }

    /// What tells a node from others as long as nothing is summed anywhere.
    pub(super) fn view(&self, slot: usize) -> i64 {
        match self.layout.seats[slot].domain {
            NOWHERE => NO_DOMAIN,
            domain if self.is_coarse => i64::from(domain),
            _ => 0,
        }
    }
}

fn small(number: i64) -> Result<i32, Outdated> {
    i32::try_from(number).map_err(|_| Outdated)
}

impl Count {
    pub(super) fn new(counter: Counter, is_levelled: bool) -> Self {
        Self {
            counter,
            is_levelled,
            is_coarse: false,
            places: Arc::default(),
            ids: IdMap::default(),
            layout: Arc::default(),
            pods: Vec::new(),
            sums: Vec::new(),
            non_zero: 0,
            levels: BTreeMap::new(),
        }
    }

    /// What it counts.
    pub(super) fn counter(&self) -> Counter {
        self.counter
    }

    /// Whether nodes are told apart by domain.
    pub(super) fn is_coarse(&self) -> bool {
        self.is_coarse
    }

    /// What tells nodes apart.
    pub(super) fn outline(&self) -> Outline {
        Outline { layout: Arc::clone(&self.layout), is_coarse: self.is_coarse }
    }

    /// The heap it takes, and will take when nodes change.
    pub(super) fn bytes(&self) -> usize {
        let numbers = (self.pods.capacity() + self.sums.capacity()) * size_of::<i32>();
        numbers + self.layout.bytes() + self.ids.capacity() * 16
    }

    /// Looks up where nodes are.
    pub(super) fn survey(&mut self, snapshot: Snapshot<'_>, atlas: &mut Atlas) {
        self.places = atlas.places(snapshot, self.counter.key);
    }

    /// Whether every node is in a domain, and none in that of an empty value.
    pub(super) fn has_all(&self) -> bool {
        self.places.has_all()
    }

    /// Gets ready to count on all nodes; those count that `counts` says, or all.
    pub(super) fn open(
        &mut self,
        snapshot: Snapshot<'_>,
        atlas: &mut Atlas,
        counts: Option<impl Fn(NodeIdx) -> bool>,
    ) {
        let Counter { key, domains } = self.counter;
        self.layout = match counts {
            None => atlas.layout(snapshot, key, domains),
            Some(counts) => Arc::new(Layout::of(snapshot, &self.places, domains, counts)),
        };
        self.is_coarse = domains == Domains::Values && self.domain_count() <= COARSE_MAX;
        self.pods = vec![0; self.layout.seats.len()];
        self.sums = vec![0; self.layout.rooms.len()];
    }

    /// Counts pods on a node for the first time. A node that is told from others by what is summed there is `busy` then.
    #[inline]
    pub(super) fn take(&mut self, node: NodeIdx, amount: i64, busy: &mut NodeSet) -> Result<(), Outdated> {
        let pods = &mut self.pods[node.index()];
        *pods = small(i64::from(*pods) + amount)?;
        let Seat { domain, counts } = self.layout.seats[node.index()];
        if counts && let Some(sum) = self.sums.get_mut(domain as usize) {
            *sum = small(i64::from(*sum) + amount)?;
            if !self.is_coarse && self.layout.nodes_in(domain) == 1 {
                busy.insert(node);
            }
        }
        Ok(())
    }

    /// When all nodes were counted. Those that are told from others by what is summed there, and share it, are `busy`.
    pub(super) fn sum_up(&mut self, busy: &mut NodeSet) {
        self.non_zero = self.sums.iter().map(|&sum| usize::from(sum != 0)).sum();
        if self.is_levelled {
            let mut zeros = 0;
            for (room, &sum) in self.layout.rooms.iter().zip(&self.sums).filter(|(room, _)| room.counting > 0)
            {
                debug_assert!(room.counting <= room.nodes);
                if sum == 0 {
                    zeros += 1;
                } else {
                    *self.levels.entry(sum).or_default() += 1;
                }
            }
            if zeros > 0 {
                self.levels.insert(0, zeros);
            }
        }
        let shares = |(room, &sum): (&super::domain_map::Room, &i32)| sum != 0 && room.nodes > 1;
        if !self.is_coarse && self.non_zero > 0 && self.layout.rooms.iter().zip(&self.sums).any(shares) {
            let sees = |seat: &Seat| self.sums.get(seat.domain as usize).is_some_and(|&sum| sum != 0);
            busy.unite(&NodeSet::of_blocks(self.layout.seats.chunks(BLOCK).map(|seats| {
                seats.iter().zip(0..).fold(0, |all, (seat, bit)| all | u64::from(sees(seat)) << bit)
            })));
        }
    }

    /// How many domains there are, of values.
    pub(super) fn domain_count(&self) -> usize {
        self.places.len() + self.ids.len()
    }

    /// The domain of a node, given now if it has none.
    pub(super) fn domain_of(&mut self, snapshot: Snapshot<'_>, node: NodeIdx) -> u32 {
        let Some(value) = snapshot.node_labels(node).get(self.counter.key) else { return NOWHERE };
        match self.counter.domains {
            Domains::Nodes => node.0,
            Domains::Values => self.places.id(value).unwrap_or_else(|| {
                let next = u32::try_from(self.domain_count()).expect("fewer domains than nodes");
                *self.ids.entry(value).or_insert(next)
            }),
        }
    }

    /// A pod more or less is on a node; nodes that see something else then are added to `changed`.
    pub(super) fn add(&mut self, node: NodeIdx, amount: i64, changed: &mut NodeSet) -> Result<(), Outdated> {
        let pods = i64::from(self.pods[node.index()]) + amount;
        self.move_to(node, self.layout.seats[node.index()], pods, changed)
    }

    /// Takes a node out of its domain, and puts it into another; nodes that see something else then are added to `changed`.
    pub(super) fn move_to(
        &mut self,
        node: NodeIdx,
        to: Seat,
        pods: i64,
        changed: &mut NodeSet,
    ) -> Result<(), Outdated> {
        let from = self.layout.seats.get(node.index()).map_or(NOWHERE, |seat| seat.domain);
        let sum = |count: &Self, domain: u32| count.sums.get(domain as usize).copied();
        let before = [from, to.domain].map(|domain| sum(self, domain));
        self.renew(node, to, small(pods)?)?;
        if self.is_coarse {
            return Ok(());
        }
        for (domain, before) in [from, to.domain].into_iter().zip(before) {
            if sum(self, domain) != before {
                changed.insert(node);
                self.others_in(domain, node, changed);
            }
        }
        Ok(())
    }

    fn renew(&mut self, node: NodeIdx, to: Seat, pods: i32) -> Result<(), Outdated> {
        let slot = node.index();
        if self.pods.len() <= slot {
            self.pods.resize(slot + 1, 0);
            Arc::make_mut(&mut self.layout).resize(slot + 1);
        }
        let from = self.layout.seats[slot];
        let before = std::mem::replace(&mut self.pods[slot], pods);
        if from == to && before == pods {
            return Ok(());
        }
        let domains = [from.domain, if to.domain == from.domain { NOWHERE } else { to.domain }];
        domains.into_iter().for_each(|domain| self.forget(domain));
        if from != to {
            Arc::make_mut(&mut self.layout).reseat(node, to);
            self.sums.resize(self.layout.rooms.len(), 0);
        }
        for (seat, pods) in [(from, -i64::from(before)), (to, i64::from(pods))] {
            if seat.counts
                && let Some(sum) = self.sums.get_mut(seat.domain as usize)
            {
                *sum = small(i64::from(*sum) + pods)?;
            }
        }
        domains.into_iter().for_each(|domain| self.note(domain));
        Ok(())
    }

    /// A domain is about to change.
    fn forget(&mut self, domain: u32) {
        let Some(&sum) = self.sums.get(domain as usize) else { return };
        self.non_zero -= usize::from(sum != 0);
        if self.is_levelled && self.layout.rooms[domain as usize].counting > 0 {
            let domains = self.levels.get_mut(&sum).expect("a domain that counts is on a level");
            *domains -= 1;
            if *domains == 0 {
                self.levels.remove(&sum);
            }
        }
    }

    /// A domain has changed.
    fn note(&mut self, domain: u32) {
        let Some(&sum) = self.sums.get(domain as usize) else { return };
        self.non_zero += usize::from(sum != 0);
        if self.is_levelled && self.layout.rooms[domain as usize].counting > 0 {
            *self.levels.entry(sum).or_default() += 1;
        }
    }

    /// The nodes of a domain but one, which may have just left it.
    fn others_in(&self, domain: u32, but: NodeIdx, nodes: &mut NodeSet) {
        if domain == NOWHERE || mutation::is_on(Mutation::OthersInDomainStand) {
            return;
        }
        let others = |(slot, seat): &(u32, &Seat)| seat.domain == domain && *slot != but.0;
        let stays = u32::from(self.layout.seats[but.index()].domain == domain);
        let count = self.layout.nodes_in(domain) - stays;
        for (slot, _) in (0..).zip(&self.layout.seats).filter(others).take(count as usize) {
            nodes.insert(NodeIdx(slot));
        }
    }

    /// What is known as a whole.
    pub(super) fn whole(&self) -> Whole {
        Whole {
            lowest: self.levels.keys().next().map(|&sum| i64::from(sum)),
            domains: self.levels.values().sum(),
            is_zero: self.non_zero == 0,
        }
    }

    /// What tells a node from others: its domain, or what is summed there.
    #[inline]
    pub(super) fn view(&self, slot: usize) -> i64 {
        match self.layout.seats[slot].domain {
            NOWHERE => NO_DOMAIN,
            domain if self.is_coarse => i64::from(domain),
            domain => i64::from(self.sums[domain as usize]),
        }
    }

    /// The same of all slots.
    pub(super) fn column(&self) -> Vec<i64> {
        (0..self.layout.seats.len()).map(|slot| self.view(slot)).collect()
    }

    /// What a node with this view sees summed.
    pub(super) fn sum(&self, view: i64) -> Option<i64> {
        match view {
            NO_DOMAIN => None,
            domain if self.is_coarse => Some(i64::from(self.sums[domain as usize])),
            sum => Some(sum),
        }
    }
}
