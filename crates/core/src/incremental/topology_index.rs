//! Which topology domain each node is in, found once for all signatures that ask for the same key. Says nothing about pods.

use super::domain_map::Layout;
use crate::cache::{Snapshot, Touch};
use crate::framework::tally::Domains;
use crate::hash::IdMap;
use crate::intern::{Symbol, known};
use crate::node::NodeIdx;
use std::sync::Arc;

/// Stands for "in no domain".
pub(super) const NOWHERE: u32 = u32::MAX;
/// More keys than this are not kept: any pod may name a new one.
const KEYS_MAX: usize = 64;

/// The domains of one topology key.
#[derive(Default)]
pub(super) struct Places {
    ids: IdMap<Symbol, u32>,
    by_slot: Vec<u32>,
    /// Every node is in a domain, and none in that of an empty value.
    has_all: bool,
}

impl Places {
    fn of(snapshot: Snapshot<'_>, key: Symbol) -> Self {
        let by_slot = vec![NOWHERE; snapshot.columns().pods.len()];
        let mut places = Self { ids: IdMap::default(), by_slot, has_all: true };
        for node in snapshot.nodes().iter() {
            let value = snapshot.node_labels(node).get(key);
            places.has_all &= value.is_some_and(|value| value != known::EMPTY);
            if let Some(value) = value {
                let next = u32::try_from(places.ids.len()).expect("fewer domains than nodes");
                places.by_slot[node.index()] = *places.ids.entry(value).or_insert(next);
            }
        }
        places
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

    /// The domain of a node; [`NOWHERE`] where it has none.
    pub(super) fn domain(&self, node: NodeIdx) -> u32 {
        self.by_slot[node.index()]
    }
}

/// The domains of the keys that were asked for, as long as no node's object changes.
#[derive(Default)]
pub(super) struct Atlas {
    seen: u64,
    keys: IdMap<Symbol, Charts>,
}

/// What is known of a key.
struct Charts {
    places: Arc<Places>,
    /// By what domains are, where all nodes count.
    by_value: Option<Arc<Layout>>,
    by_node: Option<Arc<Layout>>,
}

impl Atlas {
    /// The domains of a key, as they are now.
    pub(super) fn places(&mut self, snapshot: Snapshot<'_>, key: Symbol) -> Arc<Places> {
        let is_known = snapshot
            .touched_since(self.seen)
            .is_some_and(|mut touches| touches.all(|(_, touch)| touch != Touch::Object));
        if !is_known || self.keys.len() >= KEYS_MAX {
            self.keys.clear();
        }
        self.seen = snapshot.clock();
        Arc::clone(&self.charts(snapshot, key).places)
    }

    fn charts(&mut self, snapshot: Snapshot<'_>, key: Symbol) -> &mut Charts {
        let chart = || Charts { places: Arc::new(Places::of(snapshot, key)), by_value: None, by_node: None };
        self.keys.entry(key).or_insert_with(chart)
    }

    /// Where nodes are if all of them count, of a key whose places were just asked for.
    pub(super) fn layout(&mut self, snapshot: Snapshot<'_>, key: Symbol, domains: Domains) -> Arc<Layout> {
        let Charts { places, by_value, by_node } = self.charts(snapshot, key);
        let layout = match domains {
            Domains::Values => by_value,
            Domains::Nodes => by_node,
        };
        let made = || Arc::new(Layout::of(snapshot, places, domains, |_| true));
        Arc::clone(layout.get_or_insert_with(made))
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
