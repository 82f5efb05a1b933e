//! A counter of pods by topology domain: counts all nodes once, then updates the nodes that changed.
//!
//! It does not know which pods count; `topology_counts.rs` decides that.

use super::domain_map::{DomainMap, NodeDomain};
use super::topology_index::{KeyDomains, NO_DOMAIN, TopologyIndex};
use crate::cache::Snapshot;
use crate::collections::hash::IdMap;
use crate::framework::tally::{Counter, Domains, Outdated, Whole};
use crate::model::intern::Symbol;
use crate::model::node::NodeIdx;
use crate::model::node_set::{BLOCK, NodeSet};
use crate::switches::ablation::{self, Layer};
use crate::switches::mutation::{self, Mutation};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A counter with at most so many domains classifies nodes by domain. With more domains it classifies them by count,
/// so that classes stay few.
pub(super) const BY_DOMAIN_MAX: usize = 64;
/// The view of a node that is in no domain of the counter.
const VIEW_WITHOUT_DOMAIN: i64 = i64::MIN;

/// The pods in each topology domain for one counter. Numbers beyond `i32` return [`Outdated`]: the full evaluation
/// decides then.
pub(super) struct DomainCounter {
    counter: Counter,
    /// Whether the minimum over all domains is needed.
    tracks_minimum: bool,
    /// Whether nodes are classified by domain instead of by count.
    is_by_domain: bool,
    /// The domains at the time of the full count. `ids` adds domains that appeared later.
    key_domains: Arc<KeyDomains>,
    added_domains: IdMap<Symbol, u32>,
    /// Shared with other counters until a node object changes; then it is copied.
    domain_map: Arc<DomainMap>,
    /// Matching pods by slot.
    pods: Vec<i32>,
    /// Matching pods by domain, on nodes that count.
    counts: Vec<i32>,
    /// The number of domains whose count is not 0.
    non_zero: usize,
    /// For each count, the number of domains that have it. Only domains with a counting node are included.
    count_histogram: BTreeMap<i32, usize>,
}

/// How a counter classifies nodes while it has counted no pod.
#[derive(Clone)]
pub(super) struct Grouping {
    pub(super) domain_map: Arc<DomainMap>,
    is_by_domain: bool,
}

impl Grouping {
    /// Whether two groupings classify all nodes alike.
    pub(super) fn equals(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.domain_map, &other.domain_map) && self.is_by_domain == other.is_by_domain
    }

    /// Returns the node's view while all counts are zero. Nodes with equal views are in one class.
    pub(super) fn view(&self, slot: usize) -> i64 {
        match self.domain_map.node_domains[slot].domain {
            NO_DOMAIN => VIEW_WITHOUT_DOMAIN,
            domain if self.is_by_domain => i64::from(domain),
            _ => 0,
        }
    }
}

fn to_i32(number: i64) -> Result<i32, Outdated> {
    i32::try_from(number).map_err(|_| Outdated)
}

impl DomainCounter {
    pub(super) fn new(counter: Counter, tracks_minimum: bool) -> Self {
        Self {
            counter,
            tracks_minimum,
            is_by_domain: false,
            key_domains: Arc::default(),
            added_domains: IdMap::default(),
            domain_map: Arc::default(),
            pods: Vec::new(),
            counts: Vec::new(),
            non_zero: 0,
            count_histogram: BTreeMap::new(),
        }
    }

    /// Returns the counted rule.
    pub(super) fn rule(&self) -> Counter {
        self.counter
    }

    /// Whether nodes are classified by domain instead of by count.
    pub(super) fn is_by_domain(&self) -> bool {
        self.is_by_domain
    }

    /// Returns how nodes are classified while all counts are zero.
    pub(super) fn grouping(&self) -> Grouping {
        Grouping { domain_map: Arc::clone(&self.domain_map), is_by_domain: self.is_by_domain }
    }

    /// Returns the heap size in bytes, including a domain map of its own, which it needs as soon as a node changes.
    pub(super) fn bytes(&self) -> usize {
        let numbers = (self.pods.capacity() + self.counts.capacity()) * size_of::<i32>();
        numbers + self.domain_map.bytes()
    }

    /// Loads the domains of the counter's topology key.
    pub(super) fn load_domains(&mut self, snapshot: Snapshot<'_>, topology_index: &mut TopologyIndex) {
        self.key_domains = topology_index.key_domains(snapshot, self.counter.key);
    }

    /// Whether every node has the topology key with a value that is not empty.
    pub(super) fn all_nodes_have_key(&self) -> bool {
        self.key_domains.all_nodes_have_key()
    }

    /// Prepares a count of all nodes. Only nodes for which `is_counted` returns true are counted; `None` means all.
    pub(super) fn start_count(
        &mut self,
        snapshot: Snapshot<'_>,
        topology_index: &mut TopologyIndex,
        is_counted: Option<impl Fn(NodeIdx) -> bool>,
    ) {
        let Counter { key, domains } = self.counter;
        self.domain_map = match is_counted {
            None => topology_index.domain_map(snapshot, key, domains),
            Some(is_counted) => Arc::new(DomainMap::of(snapshot, &self.key_domains, domains, is_counted)),
        };
        let may_be = domains == Domains::Values && !ablation::is_off(Layer::DomainClasses);
        self.is_by_domain = may_be && self.domain_count() <= BY_DOMAIN_MAX;
        self.pods = vec![0; self.domain_map.node_domains.len()];
        self.counts = vec![0; self.domain_map.sizes.len()];
    }

    /// Adds pods of a node during the full count. Inserts the node into `nonzero_nodes` if it is classified by count
    /// and alone in its domain.
    #[inline]
    pub(super) fn count_pods(
        &mut self,
        node: NodeIdx,
        amount: i64,
        nonzero_nodes: &mut NodeSet,
    ) -> Result<(), Outdated> {
        let pods = &mut self.pods[node.index()];
        *pods = to_i32(i64::from(*pods) + amount)?;
        let NodeDomain { domain, is_counted } = self.domain_map.node_domains[node.index()];
        if is_counted && let Some(count) = self.counts.get_mut(domain as usize) {
            *count = to_i32(i64::from(*count) + amount)?;
            if !self.is_by_domain && self.domain_map.nodes_in(domain) == 1 {
                nonzero_nodes.insert(node);
            }
        }
        Ok(())
    }

    /// Completes the full count. Inserts the nodes into `nonzero_nodes` that are classified by count and share a
    /// domain whose count is not zero.
    pub(super) fn finish_count(&mut self, nonzero_nodes: &mut NodeSet) {
        self.non_zero = self.counts.iter().map(|&count| usize::from(count != 0)).sum();
        if self.tracks_minimum {
            let mut zeros = 0;
            for (size, &count) in
                self.domain_map.sizes.iter().zip(&self.counts).filter(|(size, _)| size.counting > 0)
            {
                debug_assert!(size.counting <= size.nodes);
                if count == 0 {
                    zeros += 1;
                } else {
                    *self.count_histogram.entry(count).or_default() += 1;
                }
            }
            if zeros > 0 {
                self.count_histogram.insert(0, zeros);
            }
        }
        let is_shared = |(size, &count): (&super::domain_map::DomainSize, &i32)| count != 0 && size.nodes > 1;
        if !self.is_by_domain
            && self.non_zero > 0
            && self.domain_map.sizes.iter().zip(&self.counts).any(is_shared)
        {
            let sees = |node_domain: &NodeDomain| {
                self.counts.get(node_domain.domain as usize).is_some_and(|&count| count != 0)
            };
            nonzero_nodes.unite(&NodeSet::of_blocks(self.domain_map.node_domains.chunks(BLOCK).map(
                |node_domains| {
                    node_domains
                        .iter()
                        .zip(0..)
                        .fold(0, |all, (node_domain, bit)| all | u64::from(sees(node_domain)) << bit)
                },
            )));
        }
    }

    /// Returns the number of domains by label value.
    pub(super) fn domain_count(&self) -> usize {
        self.key_domains.len() + self.added_domains.len()
    }

    /// Returns the domain of a node. A new label value gets a new domain number.
    pub(super) fn domain_of(&mut self, snapshot: Snapshot<'_>, node: NodeIdx) -> u32 {
        let Some(value) = snapshot.node_labels(node).get(self.counter.key) else { return NO_DOMAIN };
        match self.counter.domains {
            Domains::Nodes => node.0,
            Domains::Values => self.key_domains.id(value).unwrap_or_else(|| {
                let next = u32::try_from(self.domain_count()).expect("fewer domains than nodes");
                *self.added_domains.entry(value).or_insert(next)
            }),
        }
    }

    /// Adds `amount` pods to a node. Inserts all nodes whose view changes into `changed`.
    pub(super) fn add(&mut self, node: NodeIdx, amount: i64, changed: &mut NodeSet) -> Result<(), Outdated> {
        let pods = i64::from(self.pods[node.index()]) + amount;
        self.move_to(node, self.domain_map.node_domains[node.index()], pods, changed)
    }

    /// Moves a node to another domain and sets its pods. Inserts all nodes whose view changes into `changed`.
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
        let count = |counter: &Self, domain: u32| counter.counts.get(domain as usize).copied();
        let before = [from, to.domain].map(|domain| count(self, domain));
        self.set_node(node, to, to_i32(pods)?)?;
        if self.is_by_domain {
            return Ok(());
        }
        for (domain, before) in [from, to.domain].into_iter().zip(before) {
            if count(self, domain) != before {
                changed.insert(node);
                self.insert_others(domain, node, changed);
            }
        }
        Ok(())
    }

    fn set_node(&mut self, node: NodeIdx, to: NodeDomain, pods: i32) -> Result<(), Outdated> {
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
        domains.into_iter().for_each(|domain| self.remove_from_totals(domain));
        if from != to {
            Arc::make_mut(&mut self.domain_map).reassign(node, to);
            self.counts.resize(self.domain_map.sizes.len(), 0);
        }
        for (node_domain, pods) in [(from, -i64::from(before)), (to, i64::from(pods))] {
            if node_domain.is_counted
                && let Some(count) = self.counts.get_mut(node_domain.domain as usize)
            {
                *count = to_i32(i64::from(*count) + pods)?;
            }
        }
        domains.into_iter().for_each(|domain| self.add_to_totals(domain));
        Ok(())
    }

    /// Removes a domain from the aggregates before it changes.
    fn remove_from_totals(&mut self, domain: u32) {
        let Some(&count) = self.counts.get(domain as usize) else { return };
        self.non_zero -= usize::from(count != 0);
        if self.tracks_minimum && self.domain_map.sizes[domain as usize].counting > 0 {
            let domains =
                self.count_histogram.get_mut(&count).expect("the histogram has every counting domain");
            *domains -= 1;
            if *domains == 0 {
                self.count_histogram.remove(&count);
            }
        }
    }

    /// Adds a domain to the aggregates after it changed.
    fn add_to_totals(&mut self, domain: u32) {
        let Some(&count) = self.counts.get(domain as usize) else { return };
        self.non_zero += usize::from(count != 0);
        if self.tracks_minimum && self.domain_map.sizes[domain as usize].counting > 0 {
            *self.count_histogram.entry(count).or_default() += 1;
        }
    }

    /// Inserts all nodes of a domain except `but`, which may have just left it.
    fn insert_others(&self, domain: u32, but: NodeIdx, nodes: &mut NodeSet) {
        if domain == NO_DOMAIN || mutation::is_on(Mutation::DomainPeersNotUpdated) {
            return;
        }
        let others =
            |(slot, node_domain): &(u32, &NodeDomain)| node_domain.domain == domain && *slot != but.0;
        let stays = u32::from(self.domain_map.node_domains[but.index()].domain == domain);
        let others_count = self.domain_map.nodes_in(domain) - stays;
        for (slot, _) in (0..).zip(&self.domain_map.node_domains).filter(others).take(others_count as usize) {
            nodes.insert(NodeIdx(slot));
        }
    }

    /// Returns the aggregates over all domains.
    pub(super) fn whole(&self) -> Whole {
        Whole {
            lowest: self.count_histogram.keys().next().map(|&count| i64::from(count)),
            domains: self.count_histogram.values().sum(),
            is_zero: self.non_zero == 0,
        }
    }

    /// Returns the node's view: its domain, or the count of its domain. Nodes with equal views are in one class.
    #[inline]
    pub(super) fn view(&self, slot: usize) -> i64 {
        match self.domain_map.node_domains[slot].domain {
            NO_DOMAIN => VIEW_WITHOUT_DOMAIN,
            domain if self.is_by_domain => i64::from(domain),
            domain => i64::from(self.counts[domain as usize]),
        }
    }

    /// Returns the views of all slots.
    pub(super) fn column(&self) -> Vec<i64> {
        (0..self.domain_map.node_domains.len()).map(|slot| self.view(slot)).collect()
    }

    /// Returns the count that a node with this view sees; `None` if it is in no domain.
    pub(super) fn count(&self, view: i64) -> Option<i64> {
        match view {
            VIEW_WITHOUT_DOMAIN => None,
            domain if self.is_by_domain => Some(i64::from(self.counts[domain as usize])),
            count => Some(count),
        }
    }
}
