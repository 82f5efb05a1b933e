//! Pods summed by topology domain, for one counter: counted once for all nodes, then for those touched. Does not know what is counted.

use super::domain_map::{DomainMap, NodeDomain};
use super::topology_index::{KeyDomains, NO_DOMAIN, TopologyIndex};
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
pub(super) const BY_DOMAIN_MAX: usize = 64;
/// In a node's view, stands for a counter of which the node is in no domain.
const VIEW_WITHOUT_DOMAIN: i64 = i64::MIN;

/// One counter with what it has counted. TopologyCounts that are too large for its numbers are left to the plain path.
pub(super) struct DomainCounter {
    counter: Counter,
    /// Somebody asks for the lowest sum.
    tracks_minimum: bool,
    /// Nodes are told apart by domain.
    is_by_domain: bool,
    /// The domains there were when everything was counted, and those that were met since.
    key_domains: Arc<KeyDomains>,
    ids: IdMap<Symbol, u32>,
    /// Its own as soon as a node's object changes.
    domain_map: Arc<DomainMap>,
    /// By slot.
    pods: Vec<i32>,
    /// By domain, of the nodes that count.
    sums: Vec<i32>,
    /// How many domains have a sum other than 0.
    non_zero: usize,
    /// How many domains with a node that counts have which sum.
    sum_histogram: BTreeMap<i32, usize>,
}

/// Cached tells nodes apart, to a counter.
#[derive(Clone)]
pub(super) struct Grouping {
    pub(super) domain_map: Arc<DomainMap>,
    is_by_domain: bool,
}

impl Grouping {
    /// Whether this is another's.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.domain_map, &other.domain_map) && self.is_by_domain == other.is_by_domain
    }

    /// Cached tells a node from others as long as nothing is summed anywhere.
    pub(super) fn view(&self, slot: usize) -> i64 {
        match self.domain_map.node_domains[slot].domain {
            NO_DOMAIN => VIEW_WITHOUT_DOMAIN,
            domain if self.is_by_domain => i64::from(domain),
            _ => 0,
        }
    }
}

fn small(number: i64) -> Result<i32, Outdated> {
    i32::try_from(number).map_err(|_| Outdated)
}

impl DomainCounter {
    pub(super) fn new(counter: Counter, tracks_minimum: bool) -> Self {
        Self {
            counter,
            tracks_minimum,
            is_by_domain: false,
            key_domains: Arc::default(),
            ids: IdMap::default(),
            domain_map: Arc::default(),
            pods: Vec::new(),
            sums: Vec::new(),
            non_zero: 0,
            sum_histogram: BTreeMap::new(),
        }
    }

    /// Cached it counts.
    pub(super) fn counter(&self) -> Counter {
        self.counter
    }

    /// Whether nodes are told apart by domain.
    pub(super) fn is_by_domain(&self) -> bool {
        self.is_by_domain
    }

    /// Cached tells nodes apart.
    pub(super) fn grouping(&self) -> Grouping {
        Grouping { domain_map: Arc::clone(&self.domain_map), is_by_domain: self.is_by_domain }
    }

    /// The heap it takes, and will take when nodes change.
    pub(super) fn bytes(&self) -> usize {
        let numbers = (self.pods.capacity() + self.sums.capacity()) * size_of::<i32>();
        numbers + self.domain_map.bytes() + self.ids.capacity() * 16
    }

    /// Looks up where nodes are.
    pub(super) fn survey(&mut self, snapshot: Snapshot<'_>, topology_index: &mut TopologyIndex) {
        self.key_domains = topology_index.key_domains(snapshot, self.counter.key);
    }

    /// Whether every node is in a domain, and none in that of an empty value.
    pub(super) fn has_all(&self) -> bool {
        self.key_domains.has_all()
    }

    /// Gets ready to count on all nodes; those count that `counts` says, or all.
    pub(super) fn open(
        &mut self,
        snapshot: Snapshot<'_>,
        topology_index: &mut TopologyIndex,
        counts: Option<impl Fn(NodeIdx) -> bool>,
    ) {
        let Counter { key, domains } = self.counter;
        self.domain_map = match counts {
            None => topology_index.domain_map(snapshot, key, domains),
            Some(counts) => Arc::new(DomainMap::of(snapshot, &self.key_domains, domains, counts)),
        };
        self.is_by_domain = domains == Domains::Values && self.domain_count() <= BY_DOMAIN_MAX;
        self.pods = vec![0; self.domain_map.node_domains.len()];
        self.sums = vec![0; self.domain_map.sizes.len()];
    }

    /// Counts pods on a node for the first time. A node that is told from others by what is summed there is `busy` then.
    #[inline]
    pub(super) fn take(&mut self, node: NodeIdx, amount: i64, busy: &mut NodeSet) -> Result<(), Outdated> {
        let pods = &mut self.pods[node.index()];
        *pods = small(i64::from(*pods) + amount)?;
        let NodeDomain { domain, counts } = self.domain_map.node_domains[node.index()];
        if counts && let Some(sum) = self.sums.get_mut(domain as usize) {
            *sum = small(i64::from(*sum) + amount)?;
            if !self.is_by_domain && self.domain_map.nodes_in(domain) == 1 {
                busy.insert(node);
            }
        }
        Ok(())
    }

    /// When all nodes were counted. Those that are told from others by what is summed there, and share it, are `busy`.
    pub(super) fn sum_up(&mut self, busy: &mut NodeSet) {
        self.non_zero = self.sums.iter().map(|&sum| usize::from(sum != 0)).sum();
        if self.tracks_minimum {
            let mut zeros = 0;
            for (size, &sum) in
                self.domain_map.sizes.iter().zip(&self.sums).filter(|(size, _)| size.counting > 0)
            {
                debug_assert!(size.counting <= size.nodes);
                if sum == 0 {
                    zeros += 1;
                } else {
                    *self.sum_histogram.entry(sum).or_default() += 1;
                }
            }
            if zeros > 0 {
                self.sum_histogram.insert(0, zeros);
            }
        }
        let shares = |(size, &sum): (&super::domain_map::DomainSize, &i32)| sum != 0 && size.nodes > 1;
        if !self.is_by_domain && self.non_zero > 0 && self.domain_map.sizes.iter().zip(&self.sums).any(shares)
        {
            let sees = |node_domain: &NodeDomain| {
                self.sums.get(node_domain.domain as usize).is_some_and(|&sum| sum != 0)
            };
            busy.unite(&NodeSet::of_blocks(self.domain_map.node_domains.chunks(BLOCK).map(|node_domains| {
                node_domains
                    .iter()
                    .zip(0..)
                    .fold(0, |all, (node_domain, bit)| all | u64::from(sees(node_domain)) << bit)
            })));
        }
    }

    /// How many domains there are, of values.
    pub(super) fn domain_count(&self) -> usize {
        self.key_domains.len() + self.ids.len()
    }

    /// The domain of a node, given now if it has none.
    pub(super) fn domain_of(&mut self, snapshot: Snapshot<'_>, node: NodeIdx) -> u32 {
        let Some(value) = snapshot.node_labels(node).get(self.counter.key) else { return NO_DOMAIN };
        match self.counter.domains {
            Domains::Nodes => node.0,
            Domains::Values => self.key_domains.id(value).unwrap_or_else(|| {
                let next = u32::try_from(self.domain_count()).expect("fewer domains than nodes");
                *self.ids.entry(value).or_insert(next)
            }),
        }
    }

    /// A pod more or less is on a node; nodes that see something else then are added to `changed`.
    pub(super) fn add(&mut self, node: NodeIdx, amount: i64, changed: &mut NodeSet) -> Result<(), Outdated> {
        let pods = i64::from(self.pods[node.index()]) + amount;
        self.move_to(node, self.domain_map.node_domains[node.index()], pods, changed)
    }

    /// Takes a node out of its domain, and puts it into another; nodes that see something else then are added to `changed`.
    pub(super) fn move_to(
        &mut self,
        node: NodeIdx,
        to: NodeDomain,
        pods: i64,
        changed: &mut NodeSet,
    ) -> Result<(), Outdated> {
        let from = self
            .domain_map
            .node_domains
            .get(node.index())
            .map_or(NO_DOMAIN, |node_domain| node_domain.domain);
        let sum = |count: &Self, domain: u32| count.sums.get(domain as usize).copied();
        let before = [from, to.domain].map(|domain| sum(self, domain));
        self.renew(node, to, small(pods)?)?;
        if self.is_by_domain {
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

    fn renew(&mut self, node: NodeIdx, to: NodeDomain, pods: i32) -> Result<(), Outdated> {
        let slot = node.index();
        if self.pods.len() <= slot {
            self.pods.resize(slot + 1, 0);
            Arc::make_mut(&mut self.domain_map).resize(slot + 1);
        }
        let from = self.domain_map.node_domains[slot];
        let before = std::mem::replace(&mut self.pods[slot], pods);
        if from == to && before == pods {
            return Ok(());
        }
        let domains = [from.domain, if to.domain == from.domain { NO_DOMAIN } else { to.domain }];
        domains.into_iter().for_each(|domain| self.forget(domain));
        if from != to {
            Arc::make_mut(&mut self.domain_map).reassign(node, to);
            self.sums.resize(self.domain_map.sizes.len(), 0);
        }
        for (node_domain, pods) in [(from, -i64::from(before)), (to, i64::from(pods))] {
            if node_domain.counts
                && let Some(sum) = self.sums.get_mut(node_domain.domain as usize)
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
        if self.tracks_minimum && self.domain_map.sizes[domain as usize].counting > 0 {
            let domains = self.sum_histogram.get_mut(&sum).expect("a domain that counts is on a level");
            *domains -= 1;
            if *domains == 0 {
                self.sum_histogram.remove(&sum);
            }
        }
    }

    /// A domain has changed.
    fn note(&mut self, domain: u32) {
        let Some(&sum) = self.sums.get(domain as usize) else { return };
        self.non_zero += usize::from(sum != 0);
        if self.tracks_minimum && self.domain_map.sizes[domain as usize].counting > 0 {
            *self.sum_histogram.entry(sum).or_default() += 1;
        }
    }

    /// The nodes of a domain but one, which may have just left it.
    fn others_in(&self, domain: u32, but: NodeIdx, nodes: &mut NodeSet) {
        if domain == NO_DOMAIN || mutation::is_on(Mutation::OthersInDomainStand) {
            return;
        }
        let others =
            |(slot, node_domain): &(u32, &NodeDomain)| node_domain.domain == domain && *slot != but.0;
        let stays = u32::from(self.domain_map.node_domains[but.index()].domain == domain);
        let count = self.domain_map.nodes_in(domain) - stays;
        for (slot, _) in (0..).zip(&self.domain_map.node_domains).filter(others).take(count as usize) {
            nodes.insert(NodeIdx(slot));
        }
    }

    /// Cached is known as a whole.
    pub(super) fn whole(&self) -> Whole {
        Whole {
            lowest: self.sum_histogram.keys().next().map(|&sum| i64::from(sum)),
            domains: self.sum_histogram.values().sum(),
            is_zero: self.non_zero == 0,
        }
    }

    /// Cached tells a node from others: its domain, or what is summed there.
    #[inline]
    pub(super) fn view(&self, slot: usize) -> i64 {
        match self.domain_map.node_domains[slot].domain {
            NO_DOMAIN => VIEW_WITHOUT_DOMAIN,
            domain if self.is_by_domain => i64::from(domain),
            domain => i64::from(self.sums[domain as usize]),
        }
    }

    /// The same of all slots.
    pub(super) fn column(&self) -> Vec<i64> {
        (0..self.domain_map.node_domains.len()).map(|slot| self.view(slot)).collect()
    }

    /// Cached a node with this view sees summed.
    pub(super) fn sum(&self, view: i64) -> Option<i64> {
        match view {
            VIEW_WITHOUT_DOMAIN => None,
            domain if self.is_by_domain => Some(i64::from(self.sums[domain as usize])),
            sum => Some(sum),
        }
    }
}
