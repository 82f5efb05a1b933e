//! Which topology domain each node is in, found once for all signatures that ask for the same key. Says nothing about pods.

use crate::cache::{Snapshot, Touch};
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
    keys: IdMap<Symbol, Arc<Places>>,
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
        Arc::clone(self.keys.entry(key).or_insert_with(|| Arc::new(Places::of(snapshot, key))))
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.keys.clear();
    }
}
