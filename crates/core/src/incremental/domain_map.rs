//! The topology domain of each node for one counter, and the size of each domain.
//!
//! All signatures whose counters count on every node share it. It does not count pods.

use super::topology_index::{KeyDomains, NO_DOMAIN};
use crate::cache::Snapshot;
use crate::framework::tally::Domains;
use crate::model::node::NodeIdx;

/// The topology domain of a node for one counter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeDomain {
    /// [`NO_DOMAIN`] if the node is in none.
    pub(super) domain: u32,
    /// Whether pods on this node count.
    pub(super) is_counted: bool,
}

impl NodeDomain {
    pub(super) const NONE: Self = Self { domain: NO_DOMAIN, is_counted: false };
}

/// The number of nodes in a domain, and the number of those whose pods count.
#[derive(Clone, Copy, Default)]
pub(super) struct DomainSize {
    pub(super) nodes: u32,
    pub(super) counting: u32,
}

/// The topology domain of each node and the size of each domain.
#[derive(Clone, Default)]
pub(super) struct DomainMap {
    /// By slot.
    pub(super) node_domains: Vec<NodeDomain>,
    /// By domain.
    pub(super) sizes: Vec<DomainSize>,
}

impl DomainMap {
    /// Builds the map of all current nodes; `is_counted` tells whether a node's pods count.
    pub(super) fn of(
        snapshot: Snapshot<'_>,
        key_domains: &KeyDomains,
        domains: Domains,
        is_counted: impl Fn(NodeIdx) -> bool,
    ) -> Self {
        let slots = snapshot.slots();
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
            let is_counted = is_counted(node);
            node_domains[node.index()] = NodeDomain { domain, is_counted };
            if let Some(size) = sizes.get_mut(domain as usize) {
                size.nodes += 1;
                size.counting += u32::from(is_counted);
            }
        }
        Self { node_domains, sizes }
    }

    /// Returns the heap size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.node_domains.capacity() * size_of::<NodeDomain>()
            + self.sizes.capacity() * size_of::<DomainSize>()
    }

    /// Extends the map to `slots` slots; new slots are in no domain.
    pub(super) fn resize(&mut self, slots: usize) {
        self.node_domains.resize(slots.max(self.node_domains.len()), NodeDomain::NONE);
    }

    /// Moves a node to another domain and updates both sizes.
    pub(super) fn reassign(&mut self, node: NodeIdx, to: NodeDomain) {
        let from = std::mem::replace(&mut self.node_domains[node.index()], to);
        if let Some(size) = self.sizes.get_mut(from.domain as usize) {
            size.nodes -= 1;
            size.counting -= u32::from(from.is_counted);
        }
        if to.domain != NO_DOMAIN {
            let at = to.domain as usize;
            self.sizes.resize((at + 1).max(self.sizes.len()), DomainSize::default());
            self.sizes[at].nodes += 1;
            self.sizes[at].counting += u32::from(to.is_counted);
        }
    }

    /// Returns the number of nodes in a domain.
    pub(super) fn nodes_in(&self, domain: u32) -> u32 {
        self.sizes[domain as usize].nodes
    }
}
