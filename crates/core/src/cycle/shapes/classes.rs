//! Nodes that are the same to what is asked of all nodes together: a class each. Says nothing about what they are asked.

use crate::hash::FixedMap;
use crate::node::NodeIdx;
use std::sync::Arc;

/// The class of a node that takes no part.
const NONE: u16 = 0;
/// More classes than this are not kept apart.
const CLASSES_MAX: usize = 4_096;

/// The classes of all nodes.
#[derive(Clone)]
pub(super) struct Classes {
    ids: FixedMap<Arc<[i64]>, u16>,
    /// By class; empty where there is none.
    views: Vec<Arc<[i64]>>,
    nodes: Vec<u32>,
    free: Vec<u16>,
    by_slot: Vec<u16>,
    /// The class that a node was put into last; none when it is gone.
    last: u16,
}

impl Default for Classes {
    fn default() -> Self {
        let nothing: Arc<[i64]> = [].into();
        // The first stands for none.
        Self {
            ids: FixedMap::default(),
            views: vec![nothing],
            nodes: vec![0],
            free: Vec::new(),
            by_slot: Vec::new(),
            last: NONE,
        }
    }
}

/// Views are few, and a call to compare them in one go costs more than comparing them does.
fn are_same(a: &[i64], b: &[i64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b)
}

impl Classes {
    /// The class of each slot.
    pub(super) fn by_slot(&self) -> &[u16] {
        &self.by_slot
    }

    /// How many nodes each class has.
    pub(super) fn nodes(&self) -> &[u32] {
        &self.nodes
    }

    /// What the nodes of a class are.
    pub(super) fn views(&self, class: usize) -> &[i64] {
        &self.views[class]
    }

    /// Whether a node takes part.
    pub(super) fn has(&self, node: NodeIdx) -> bool {
        self.by_slot.get(node.index()).is_some_and(|&class| class != NONE)
    }

    /// What a node is; nothing where it takes no part.
    pub(super) fn of(&self, node: NodeIdx) -> &[i64] {
        &self.views[usize::from(self.by_slot.get(node.index()).copied().unwrap_or(NONE))]
    }

    /// The heap it takes.
    pub(super) fn bytes(&self) -> usize {
        // Each class has its views once, and a place in the map of them.
        let views: usize = self.views.iter().map(|views| size_of_val(&**views)).sum();
        self.by_slot.capacity() * size_of::<u16>() + views + self.views.capacity() * 64
    }

    /// There are so many slots.
    pub(super) fn resize(&mut self, slots: usize) {
        self.by_slot.resize(slots.max(self.by_slot.len()), NONE);
    }

    /// The node takes no part.
    pub(super) fn leave(&mut self, node: NodeIdx) {
        let before = std::mem::replace(&mut self.by_slot[node.index()], NONE);
        self.forget(before);
    }

    fn forget(&mut self, class: u16) {
        if class == NONE {
            return;
        }
        let at = usize::from(class);
        self.nodes[at] -= 1;
        if self.nodes[at] == 0 {
            self.ids.remove(&self.views[at]);
            self.views[at] = Arc::clone(&self.views[usize::from(NONE)]);
            self.free.push(class);
            if self.last == class {
                self.last = NONE;
            }
        }
    }

    /// The node is of those that are so; whether there is a class for it.
    pub(super) fn put(&mut self, node: NodeIdx, views: &[i64]) -> bool {
        let before = self.by_slot[node.index()];
        if before != NONE && are_same(&self.views[usize::from(before)], views) {
            return true;
        }
        // The node put before is often the same.
        let class = if self.last != NONE && are_same(&self.views[usize::from(self.last)], views) {
            self.last
        } else if let Some(&class) = self.ids.get(views) {
            class
        } else {
            match self.found(views) {
                Some(class) => class,
                None => return false,
            }
        };
        self.last = class;
        self.nodes[usize::from(class)] += 1;
        self.by_slot[node.index()] = class;
        self.forget(before);
        true
    }

    fn found(&mut self, views: &[i64]) -> Option<u16> {
        let views: Arc<[i64]> = views.into();
        let class = match self.free.pop() {
            Some(class) => class,
            None if self.views.len() < CLASSES_MAX => {
                self.views.push(Arc::clone(&views));
                self.nodes.push(0);
                u16::try_from(self.views.len() - 1).expect("fewer classes than that")
            }
            None => return None,
        };
        self.views[usize::from(class)] = Arc::clone(&views);
        self.ids.insert(views, class);
        Some(class)
    }
}
