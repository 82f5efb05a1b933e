//! Which topology domain each node is in, found once for all signatures that ask for the same key. Says nothing about pods.

use super::domain_map::DomainMap;
use crate::cache::{Snapshot, Touch};
use crate::framework::tally::Domains;
use crate::hash::IdMap;
use crate::intern::{Symbol, known};
use crate::node::NodeIdx;
use std::sync::Arc;

/// Stands for "in no domain".
pub(super) const NO_DOMAIN: u32 = u32::MAX;
/// More keys than this are not kept: any pod may name a new one.
const KEYS_MAX: usize = 64;

/// The domains of one topology key.
#[derive(Default)]
pub(super) struct KeyDomains {
    ids: IdMap<Symbol, u32>,
    by_slot: Vec<u32>,
    /// Every node is in a domain, and none in that of an empty value.
    has_all: bool,
}

impl KeyDomains {
    fn of(snapshot: Snapshot<'_>, key: Symbol) -> Self {
        let by_slot = vec![NO_DOMAIN; snapshot.columns().pods.len()];
        let mut key_domains = Self { ids: IdMap::default(), by_slot, has_all: true };
        for node in snapshot.nodes().iter() {
            let value = snapshot.node_labels(node).get(key);
            key_domains.has_all &= value.is_some_and(|value| value != known::EMPTY);
            if let Some(value) = value {
                let next = u32::try_from(key_domains.ids.len()).expect("fewer domains than nodes");
                key_domains.by_slot[node.index()] = *key_domains.ids.entry(value).or_insert(next);
            }
        }
        key_domains
    }

    /// Whether every node is in a domain, and none in that of an empty value.
    pub(super) fn has_all(&self) -> bool {
        self.has_all
    }

    /// The number of a domain.
    pub(super) fn id(&self, value: Symbol) -> Option<u32> {
        self.ids.get(&value).copied()
    }

    /// How many domains there are; they are numbered from 0.
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// The domain of a node; [`NO_DOMAIN`] where it has none.
    pub(super) fn domain(&self, node: NodeIdx) -> u32 {
        self.by_slot[node.index()]
    }
}

/// The domains of the keys that were asked for, as long as no node's object changes.
#[derive(Default)]
pub(super) struct TopologyIndex {
    seen: u64,
    keys: IdMap<Symbol, KeyIndex>,
}

/// Cached is known of a key.
struct KeyIndex {
    key_domains: Arc<KeyDomains>,
    /// By what domains are, where all nodes count.
    by_value: Option<Arc<DomainMap>>,
    by_node: Option<Arc<DomainMap>>,
}

impl TopologyIndex {
    /// The domains of a key, as they are now.
    pub(super) fn key_domains(&mut self, snapshot: Snapshot<'_>, key: Symbol) -> Arc<KeyDomains> {
        let is_known = snapshot
            .touched_since(self.seen)
            .is_some_and(|mut touches| touches.all(|(_, touch)| touch != Touch::Object));
        if !is_known || self.keys.len() >= KEYS_MAX {
            self.keys.clear();
        }
        self.seen = snapshot.clock();
        Arc::clone(&self.key_index(snapshot, key).key_domains)
    }

    fn key_index(&mut self, snapshot: Snapshot<'_>, key: Symbol) -> &mut KeyIndex {
        let chart = || KeyIndex {
            key_domains: Arc::new(KeyDomains::of(snapshot, key)),
            by_value: None,
            by_node: None,
        };
        self.keys.entry(key).or_insert_with(chart)
    }

    /// Where nodes are if all of them count, of a key whose places were just asked for.
    pub(super) fn domain_map(
        &mut self,
        snapshot: Snapshot<'_>,
        key: Symbol,
        domains: Domains,
    ) -> Arc<DomainMap> {
        let KeyIndex { key_domains, by_value, by_node } = self.key_index(snapshot, key);
        let domain_map = match domains {
            Domains::Values => by_value,
            Domains::Nodes => by_node,
        };
        let made = || Arc::new(DomainMap::of(snapshot, key_domains, domains, |_| true));
        Arc::clone(domain_map.get_or_insert_with(made))
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
