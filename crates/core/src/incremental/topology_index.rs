//! The topology domain of each node for each topology key, shared by all signatures. It does not count pods.

use super::domain_map::DomainMap;
use crate::cache::{NodeChange, Snapshot};
use crate::collections::hash::IdMap;
use crate::framework::tally::Domains;
use crate::model::intern::{Symbol, known};
use crate::model::node::NodeIdx;
use crate::switches::ablation::{self, Layer};
use std::sync::Arc;

/// A node without the topology key.
pub(super) const NO_DOMAIN: u32 = u32::MAX;
/// Maximum number of cached keys. Any pod can name a new key.
const KEYS_MAX: usize = 64;

/// The topology domains of one topology key.
#[derive(Default)]
pub(super) struct KeyDomains {
    ids: IdMap<Symbol, u32>,
    by_slot: Vec<u32>,
    /// Whether every node has the key with a value that is not empty.
    all_nodes_have_key: bool,
}

impl KeyDomains {
    fn of(snapshot: Snapshot<'_>, key: Symbol) -> Self {
        let by_slot = vec![NO_DOMAIN; snapshot.slots()];
        let mut key_domains = Self { ids: IdMap::default(), by_slot, all_nodes_have_key: true };
        for node in snapshot.nodes().iter() {
            let value = snapshot.node_labels(node).get(key);
            key_domains.all_nodes_have_key &= value.is_some_and(|value| value != known::EMPTY);
            if let Some(value) = value {
                let next = u32::try_from(key_domains.ids.len()).expect("fewer domains than nodes");
                key_domains.by_slot[node.index()] = *key_domains.ids.entry(value).or_insert(next);
            }
        }
        key_domains
    }

    /// Whether every node has the key with a value that is not empty.
    pub(super) fn all_nodes_have_key(&self) -> bool {
        self.all_nodes_have_key
    }

    /// Returns the domain of a label value.
    pub(super) fn id(&self, value: Symbol) -> Option<u32> {
        self.ids.get(&value).copied()
    }

    /// Returns the number of domains; they are numbered from 0.
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns the domain of a node; [`NO_DOMAIN`] if it does not have the key.
    pub(super) fn domain(&self, node: NodeIdx) -> u32 {
        self.by_slot[node.index()]
    }
}

/// The domains of recently used topology keys. A change of any node object clears it.
#[derive(Default)]
pub(super) struct TopologyIndex {
    clock: u64,
    keys: IdMap<Symbol, KeyIndex>,
}

/// The domains and domain maps of one topology key.
struct KeyIndex {
    key_domains: Arc<KeyDomains>,
    /// The domain map by label value, with all nodes counting. `by_node` has a domain for each node.
    by_value: Option<Arc<DomainMap>>,
    by_node: Option<Arc<DomainMap>>,
}

impl TopologyIndex {
    /// Returns the current domains of a key.
    pub(super) fn key_domains(&mut self, snapshot: Snapshot<'_>, key: Symbol) -> Arc<KeyDomains> {
        let is_known = snapshot
            .node_changes_since(self.clock)
            .is_some_and(|mut changes| changes.all(|(_, change)| change != NodeChange::Object));
        if !is_known || self.keys.len() >= KEYS_MAX || ablation::is_off(Layer::TopologyIndex) {
            self.keys.clear();
        }
        self.clock = snapshot.clock();
        Arc::clone(&self.key_index(snapshot, key).key_domains)
    }

    fn key_index(&mut self, snapshot: Snapshot<'_>, key: Symbol) -> &mut KeyIndex {
        let new_index = || KeyIndex {
            key_domains: Arc::new(KeyDomains::of(snapshot, key)),
            by_value: None,
            by_node: None,
        };
        self.keys.entry(key).or_insert_with(new_index)
    }

    /// Returns the domain map of a key, with all nodes counting. [`Self::key_domains`] must have returned the key
    /// before.
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
        let build = || Arc::new(DomainMap::of(snapshot, key_domains, domains, |_| true));
        Arc::clone(domain_map.get_or_insert_with(build))
    }

    /// Removes all keys.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Cache;
    use crate::model::intern::Tables;
    use crate::scheduler::test_node;

    #[test]
    fn domains_are_shared_until_a_node_changes_or_there_are_too_many_keys_or_the_index_is_cleared() {
        let (mut tables, mut cache, mut index) = (Tables::new(), Cache::default(), TopologyIndex::default());
        let node = Arc::from(test_node(&mut tables, "n"));
        cache.apply_node(&node);
        let keys: Vec<Symbol> = (0..KEYS_MAX).map(|at| tables.symbol(&format!("key-{at}"))).collect();
        let domains = |index: &mut TopologyIndex, cache: &Cache, at: usize| {
            index.key_domains(cache.snapshot(&tables), keys[at])
        };
        let first = domains(&mut index, &cache, 0);
        (1..KEYS_MAX - 1).for_each(|at| drop(domains(&mut index, &cache, at)));
        assert!(Arc::ptr_eq(&first, &domains(&mut index, &cache, 0)));
        domains(&mut index, &cache, KEYS_MAX - 1);
        let second = domains(&mut index, &cache, 0);
        assert!(!Arc::ptr_eq(&first, &second), "there were too many keys");
        index.clear();
        let third = domains(&mut index, &cache, 0);
        assert!(!Arc::ptr_eq(&second, &third), "the index was cleared");
        assert!(Arc::ptr_eq(&third, &domains(&mut index, &cache, 0)));
        cache.apply_node(&node);
        assert!(!Arc::ptr_eq(&third, &domains(&mut index, &cache, 0)), "a node changed");
    }
}
