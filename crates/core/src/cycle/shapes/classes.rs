//! Nodes that are the same to what is asked of all nodes together: a class each. Says nothing about what they are asked.

use crate::hash::IdMap;
use crate::node::NodeIdx;
use std::ops::Range;
use std::sync::Arc;

/// The class of a node that takes no part.
const NONE: u16 = 0;
/// More classes than this are not kept apart.
const CLASSES_MAX: usize = 4_096;

/// Nodes that come one after the other are often of a few classes, which are found without a look into the map.
const RECENT: usize = 32;

/// The classes of all nodes.
pub(super) struct Classes {
    ids: IdMap<Arc<[i64]>, u16>,
    /// By class; empty where there is none.
    views: Vec<Arc<[i64]>>,
    nodes: Vec<u32>,
    free: Vec<u16>,
    by_slot: Vec<u16>,
    /// The classes that nodes were put into of late, by a sum of what they are; some are gone, or others by now.
    recent: [u16; RECENT],
}

impl Default for Classes {
    fn default() -> Self {
        let nothing: Arc<[i64]> = [].into();
        // The first stands for none.
        Self {
            ids: IdMap::default(),
            views: vec![nothing],
            nodes: vec![0],
            free: Vec::new(),
            by_slot: Vec::new(),
            recent: [NONE; RECENT],
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

    /// A class has a node less.
    #[inline]
    fn forget(&mut self, class: u16) {
        if class != NONE {
            self.forget_one(class);
        }
    }

    fn forget_one(&mut self, class: u16) {
        let at = usize::from(class);
        self.nodes[at] -= 1;
        if self.nodes[at] == 0 {
            self.ids.remove(&self.views[at]);
            self.views[at] = Arc::clone(&self.views[usize::from(NONE)]);
            self.free.push(class);
        }
    }

    /// The node is of those that are so; whether there is a class for it.
    pub(super) fn put(&mut self, node: NodeIdx, views: &[i64]) -> bool {
        let before = self.by_slot[node.index()];
        if before != NONE && are_same(&self.views[usize::from(before)], views) {
            return true;
        }
        let sum = views.iter().fold(0_i64, |sum, view| sum.wrapping_mul(31).wrapping_add(*view));
        let at = sum as usize % RECENT;
        let recent = self.recent[at];
        let is_there = self.nodes[usize::from(recent)] > 0;
        let class = if is_there && are_same(&self.views[usize::from(recent)], views) {
            recent
        } else if let Some(&class) = self.ids.get(views) {
            class
        } else {
            match self.found(views) {
                Some(class) => class,
                None => return false,
            }
        };
        self.recent[at] = class;
        self.nodes[usize::from(class)] += 1;
        self.by_slot[node.index()] = class;
        self.forget(before);
        true
    }

    /// The node is of the class of another, which has one.
    pub(super) fn join(&mut self, node: NodeIdx, other: NodeIdx) {
        let class = self.by_slot[other.index()];
        let before = std::mem::replace(&mut self.by_slot[node.index()], class);
        self.nodes[usize::from(class)] += 1;
        self.forget(before);
    }

    /// All nodes of a block are of the class of another, which has one; `false`, and nothing is done, if they are of several now.
    pub(super) fn join_block(&mut self, slots: Range<usize>, other: NodeIdx) -> bool {
        let class = self.by_slot[other.index()];
        let block = &mut self.by_slot[slots];
        let before = block[0];
        if block.iter().fold(false, |several, &one| several | (one != before)) {
            return false;
        }
        if before != class {
            block.fill(class);
            let nodes = block.len() as u32;
            self.nodes[usize::from(class)] += nodes;
            if before != NONE {
                self.nodes[usize::from(before)] -= nodes - 1;
                self.forget_one(before);
            }
        }
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
