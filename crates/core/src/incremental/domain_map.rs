//! Where nodes are to a counter, and what is in each of its domains: the same for all signatures that count on every node. Says nothing about
//! pods.

use super::topology_index::{KeyDomains, NO_DOMAIN};
use crate::cache::Snapshot;
use crate::framework::tally::Domains;
use crate::node::NodeIdx;

/// A node, to a counter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeDomain {
    /// [`NO_DOMAIN`] where it has none.
    pub(super) domain: u32,
    /// Whether its pods count.
    pub(super) counts: bool,
}

impl NodeDomain {
    pub(super) const NONE: Self = Self { domain: NO_DOMAIN, counts: false };
}

/// How many nodes a domain has, and how many of them count.
#[derive(Clone, Copy, Default)]
pub(super) struct DomainSize {
    pub(super) nodes: u32,
    pub(super) counting: u32,
}

/// All nodes and domains.
#[derive(Clone, Default)]
pub(super) struct DomainMap {
    /// By slot.
    pub(super) node_domains: Vec<NodeDomain>,
    /// By domain.
    pub(super) sizes: Vec<DomainSize>,
}

impl DomainMap {
    /// That of all nodes as they are; `counts` says which do.
    pub(super) fn of(
        snapshot: Snapshot<'_>,
        key_domains: &KeyDomains,
        domains: Domains,
        counts: impl Fn(NodeIdx) -> bool,
    ) -> Self {
        let slots = snapshot.columns().pods.len();
        let sizes = match domains {
            Domains::Nodes => slots,
            Domains::Values => key_domains.len(),
        };
        let (mut node_domains, mut sizes) =
            (vec![NodeDomain::NONE; slots], vec![DomainSize::default(); sizes]);
        for node in snapshot.nodes().iter() {
            let domain = match (key_domains.domain(node), domains) {
                (NO_DOMAIN, _) => NO_DOMAIN,
                (_, Domains::Nodes) => node.0,
                (domain, Domains::Values) => domain,
            };
            let counts = counts(node);
            node_domains[node.index()] = NodeDomain { domain, counts };
            if let Some(size) = sizes.get_mut(domain as usize) {
                size.nodes += 1;
                size.counting += u32::from(counts);
            }
        }
        Self { node_domains, sizes }
    }

    /// The heap it takes.
    pub(super) fn bytes(&self) -> usize {
        self.node_domains.capacity() * size_of::<NodeDomain>()
            + self.sizes.capacity() * size_of::<DomainSize>()
    }

    /// DomainSize for so many slots.
    pub(super) fn resize(&mut self, slots: usize) {
        self.node_domains.resize(slots.max(self.node_domains.len()), NodeDomain::NONE);
    }

    /// A node has another seat.
    pub(super) fn reassign(&mut self, node: NodeIdx, to: NodeDomain) {
        let from = std::mem::replace(&mut self.node_domains[node.index()], to);
        if let Some(size) = self.sizes.get_mut(from.domain as usize) {
            size.nodes -= 1;
            size.counting -= u32::from(from.counts);
        }
        if to.domain != NO_DOMAIN {
            let at = to.domain as usize;
            self.sizes.resize((at + 1).max(self.sizes.len()), DomainSize::default());
            self.sizes[at].nodes += 1;
            self.sizes[at].counting += u32::from(to.counts);
        }
    }

    /// How many nodes a domain has.
    pub(super) fn nodes_in(&self, domain: u32) -> u32 {
        self.sizes[domain as usize].nodes
    }
}
