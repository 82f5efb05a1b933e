//! Node classes: nodes with equal views share a class, and skew, required terms and normalization are computed once
//! for each class.
//!
//! A view is one number for each counter or raw score. This module does not know what the numbers mean.

use crate::collections::hash::IdMap;
use crate::model::node::NodeIdx;
use crate::model::node_set::NodeSet;
use std::ops::Range;
use std::sync::Arc;

/// The class of nodes that are infeasible and therefore in no class.
const NONE: u16 = 0;
/// Maximum number of classes. Beyond it the signature uses the full evaluation.
const CLASSES_MAX: usize = 4_096;

/// Maximum number of entries of the table in [`Parts::split`].
const SPLIT_TABLE_MAX: usize = 1 << 16;

/// Number of recently used classes. Neighboring slots often have one of a few classes, which are found here without
/// hashing.
const RECENT: usize = 32;

/// The class of each node and the views of each class.
#[derive(Clone)]
pub(super) struct Classes {
    ids: IdMap<Arc<[i64]>, u16>,
    /// By class; empty for a free class.
    views: Vec<Arc<[i64]>>,
    nodes: Vec<u32>,
    free: Vec<u16>,
    by_slot: Vec<u16>,
    /// Recently used classes by a checksum of their views. Entries may be stale: they are compared before use.
    recent: [u16; RECENT],
}

impl Default for Classes {
    fn default() -> Self {
        let nothing: Arc<[i64]> = [].into();
        // Class 0 is `NONE`.
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

/// An intermediate partition of all slots.
struct Parts {
    by_slot: Vec<u16>,
    count: usize,
}

impl Parts {
    /// Splits each part by the slots' numbers. Returns `false` if there are too many parts, or if the numbers span
    /// too wide a range.
    ///
    /// A table maps part and number to the new part: the numbers are domains and counts, which are small.
    fn split(&mut self, numbers: &[i64]) -> bool {
        let (mut lowest, mut highest) = (0, 0);
        // `i64::MIN` means "in no domain" and gets the first column of the table.
        for &number in numbers.iter().filter(|&&number| number != i64::MIN) {
            (lowest, highest) = (number.min(lowest), number.max(highest));
        }
        let width = highest.checked_sub(lowest).and_then(|most| usize::try_from(most).ok()?.checked_add(2));
        let Some(width) = width.filter(|width| width.saturating_mul(self.count) <= SPLIT_TABLE_MAX) else {
            return false;
        };
        let (mut table, mut count) = (vec![u16::MAX; width * self.count], 0);
        for (part, &number) in self.by_slot.iter_mut().zip(numbers) {
            let at = if number == i64::MIN { 0 } else { (number - lowest) as usize + 1 };
            let to = &mut table[usize::from(*part) * width + at];
            if *to == u16::MAX {
                if usize::from(count) == CLASSES_MAX {
                    return false;
                }
                *to = count;
                count += 1;
            }
            *part = *to;
        }
        self.count = usize::from(count);
        true
    }
}

/// Compares two views. They are short, so an inlined loop is faster than a call of `memcmp`.
fn are_equal(a: &[i64], b: &[i64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b)
}

impl Classes {
    /// Returns the class of each slot.
    pub(super) fn by_slot(&self) -> &[u16] {
        &self.by_slot
    }

    /// Returns the number of nodes of each class.
    pub(super) fn nodes(&self) -> &[u32] {
        &self.nodes
    }

    /// Returns the number of nodes of each class among `within`.
    pub(super) fn nodes_in(&self, within: &NodeSet) -> Vec<u32> {
        let mut nodes = vec![0; self.nodes.len()];
        let classes = within.iter().filter_map(|node| self.by_slot.get(node.index()));
        classes.filter(|&&class| class != NONE).for_each(|&class| nodes[usize::from(class)] += 1);
        nodes
    }

    /// Returns the views of a class.
    pub(super) fn views(&self, class: usize) -> &[i64] {
        &self.views[class]
    }

    /// Whether a node is in a class.
    pub(super) fn contains(&self, node: NodeIdx) -> bool {
        self.by_slot.get(node.index()).is_some_and(|&class| class != NONE)
    }

    /// Returns the heap size in bytes.
    pub(super) fn bytes(&self) -> usize {
        // Each class has its views once, and an entry in `ids`.
        let views: usize = self.views.iter().map(|views| size_of_val(&**views)).sum();
        self.by_slot.capacity() * size_of::<u16>() + views + self.views.capacity() * 64
    }

    /// Extends the slots; new slots are in no class.
    pub(super) fn resize(&mut self, slots: usize) {
        self.by_slot.resize(slots.max(self.by_slot.len()), NONE);
    }

    /// Removes the node from its class.
    pub(super) fn remove(&mut self, node: NodeIdx) {
        let before = std::mem::replace(&mut self.by_slot[node.index()], NONE);
        self.release(before);
    }

    /// Removes one node from a class's count, and frees the class if it is empty.
    #[inline]
    fn release(&mut self, class: u16) {
        if class != NONE {
            self.release_class(class);
        }
    }

    fn release_class(&mut self, class: u16) {
        let at = usize::from(class);
        self.nodes[at] -= 1;
        if self.nodes[at] == 0 {
            self.ids.remove(&self.views[at]);
            self.views[at] = Arc::clone(&self.views[usize::from(NONE)]);
            self.free.push(class);
        }
    }

    /// Puts the node into the class with these views. Returns `false` if there are too many classes.
    pub(super) fn put(&mut self, node: NodeIdx, views: &[i64]) -> bool {
        let before = self.by_slot[node.index()];
        if before != NONE && are_equal(&self.views[usize::from(before)], views) {
            return true;
        }
        let sum = views.iter().fold(0_i64, |sum, view| sum.wrapping_mul(31).wrapping_add(*view));
        let at = sum as usize % RECENT;
        let recent = self.recent[at];
        let is_used = self.nodes[usize::from(recent)] > 0;
        let class = if is_used && are_equal(&self.views[usize::from(recent)], views) {
            recent
        } else if let Some(&class) = self.ids.get(views) {
            class
        } else {
            match self.add_class(views) {
                Some(class) => class,
                None => return false,
            }
        };
        self.recent[at] = class;
        self.nodes[usize::from(class)] += 1;
        self.by_slot[node.index()] = class;
        self.release(before);
        true
    }

    /// Splits the classes of `source` by columns of numbers by slot. Returns `None` if there are too many classes.
    ///
    /// The views of a new class are the number of its old class, then the numbers of the columns.
    pub(super) fn refined(source: &Self, columns: &[Vec<i64>]) -> Option<Self> {
        let mut parts = Parts { by_slot: source.by_slot.clone(), count: source.views.len() };
        let is_split = columns.iter().all(|column| parts.split(column));
        let mut refined = Self { by_slot: vec![NONE; source.by_slot.len()], ..Self::default() };
        let mut classes = vec![NONE; if is_split { parts.count } else { 0 }];
        let mut views = vec![0; columns.len() + 1];
        for (slot, &class) in source.by_slot.iter().enumerate().filter(|&(_, &class)| class != NONE) {
            let known = classes.get(usize::from(parts.by_slot[slot])).copied().unwrap_or(NONE);
            if known != NONE {
                refined.by_slot[slot] = known;
                refined.nodes[usize::from(known)] += 1;
                continue;
            }
            views[0] = i64::from(class);
            views[1..].iter_mut().zip(columns).for_each(|(view, column)| *view = column[slot]);
            if !refined.put(NodeIdx(slot as u32), &views) {
                return None;
            }
            if let Some(class) = classes.get_mut(usize::from(parts.by_slot[slot])) {
                *class = refined.by_slot[slot];
            }
        }
        Some(refined)
    }

    /// Puts the node into the class of another node.
    pub(super) fn join(&mut self, node: NodeIdx, other: NodeIdx) {
        let class = self.by_slot[other.index()];
        let before = std::mem::replace(&mut self.by_slot[node.index()], class);
        self.nodes[usize::from(class)] += 1;
        self.release(before);
    }

    /// Puts all nodes of a block into the class of another node. Returns `false` without a change if the block's
    /// nodes are in several classes now.
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
                self.release_class(before);
            }
        }
        true
    }

    fn add_class(&mut self, views: &[i64]) -> Option<u16> {
        let views: Arc<[i64]> = views.into();
        let class = match self.free.pop() {
            Some(class) => class,
            None if self.views.len() < CLASSES_MAX => {
                self.views.push(Arc::clone(&views));
                self.nodes.push(0);
                u16::try_from(self.views.len() - 1).expect("at most CLASSES_MAX classes")
            }
            None => return None,
        };
        self.views[usize::from(class)] = Arc::clone(&views);
        self.ids.insert(views, class);
        Some(class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits 4 slots, all in one part.
    fn split(numbers: [i64; 4]) -> Option<(Vec<u16>, usize)> {
        let mut parts = Parts { by_slot: vec![0; 4], count: 1 };
        parts.split(&numbers).then_some((parts.by_slot, parts.count))
    }

    #[test]
    fn small_numbers_split_parts_by_a_table() {
        assert_eq!(split([7, 7, -2, 7]), Some((vec![0, 0, 1, 0], 2)));
        assert_eq!(split([i64::MIN, 0, i64::MIN, 1]), Some((vec![0, 1, 0, 2], 3)));
        let widest = SPLIT_TABLE_MAX as i64 - 2;
        assert_eq!(split([0, widest, 0, widest]), Some((vec![0, 1, 0, 1], 2)));
    }

    /// The memory of the table is bounded. Nodes are then classified one by one.
    #[test]
    fn numbers_far_apart_get_no_table() {
        for highest in [SPLIT_TABLE_MAX as i64 - 1, 1 << 40, i64::MAX] {
            assert_eq!(split([0, highest, 0, 0]), None, "{highest}");
        }
        assert_eq!(split([i64::MIN + 1, i64::MAX, 0, 0]), None);
    }

    #[test]
    fn refined_classes_are_the_same_with_and_without_a_table() {
        let mut source = Classes::default();
        source.resize(6);
        (0..5).for_each(|slot| assert!(source.put(NodeIdx(slot), &[i64::from(slot / 3)])));
        let refined = |far: i64| {
            let column = vec![4, far, 4, 4, far, i64::MIN];
            let refined = Classes::refined(&source, &[column]).expect("there are few classes");
            (refined.by_slot, refined.nodes)
        };
        let expected = (vec![1, 2, 1, 3, 4, NONE], vec![0, 2, 1, 1, 1]);
        assert_eq!(refined(5), expected);
        assert_eq!(refined(1 << 40), expected);
    }

    /// Returns classes of which the first slots have these views.
    fn classes(views: &[&[i64]]) -> Classes {
        let mut classes = Classes::default();
        classes.resize(views.len());
        for (slot, views) in (0..).zip(views) {
            assert!(classes.put(NodeIdx(slot), views));
        }
        classes
    }

    #[test]
    fn nodes_without_views_share_a_class() {
        let mut classes = classes(&[&[], &[]]);
        assert_eq!((classes.by_slot(), classes.nodes()), (&[1, 1][..], &[0, 2][..]));
        assert!(classes.contains(NodeIdx(0)) && !classes.contains(NodeIdx(2)));
        classes.remove(NodeIdx(0));
        classes.remove(NodeIdx(1));
        assert!(!classes.contains(NodeIdx(0)));
        // The class is free, so it is used again.
        assert!(classes.put(NodeIdx(0), &[]) && classes.put(NodeIdx(1), &[7]));
        assert_eq!((classes.by_slot(), classes.nodes()), (&[1, 2][..], &[0, 1, 1][..]));
    }

    #[test]
    fn bytes_count_slots_and_the_views_of_each_class() {
        let mut classes = classes(&[&[1, 2, 3], &[4, 5, 6], &[1, 2, 3]]);
        let slots = classes.by_slot.capacity() * 2;
        assert_eq!(classes.bytes(), slots + 2 * 3 * 8 + classes.views.capacity() * 64);
        classes.resize(1_000);
        assert!(classes.bytes() >= 2_000);
    }

    #[test]
    fn blocks_join_a_class_only_as_a_whole() {
        let mut classes = classes(&[&[1], &[2], &[2], &[3], &[2], &[3], &[3]]);
        let is_joined = |classes: &mut Classes, slots| classes.join_block(slots, NodeIdx(0));
        // Two nodes of another class, then one.
        assert!(!is_joined(&mut classes, 2..7));
        assert!(!is_joined(&mut classes, 2..4));
        assert!(!is_joined(&mut classes, 3..7));
        assert_eq!(classes.by_slot(), [1, 2, 2, 3, 2, 3, 3]);
        assert!(is_joined(&mut classes, 1..3));
        assert_eq!((classes.by_slot(), classes.nodes()), (&[1, 1, 1, 3, 2, 3, 3][..], &[0, 3, 1, 3][..]));
        // A second time changes nothing.
        assert!(is_joined(&mut classes, 1..3));
        assert_eq!(classes.nodes(), [0, 3, 1, 3]);
        assert!(is_joined(&mut classes, 5..7) && is_joined(&mut classes, 3..4));
        assert_eq!(classes.nodes(), [0, 6, 1, 0]);
        assert_eq!(classes.free, [3]);
    }

    #[test]
    fn number_of_classes_is_bounded() {
        let numbers: Vec<[i64; 1]> = (1..CLASSES_MAX as i64).map(|number| [number]).collect();
        let mut classes = classes(&numbers.iter().map(<[i64; 1]>::as_slice).collect::<Vec<_>>());
        classes.resize(CLASSES_MAX);
        let next = NodeIdx(CLASSES_MAX as u32 - 1);
        assert!(!classes.put(next, &[0]));
        assert!(!classes.contains(next));
        classes.remove(NodeIdx(0));
        assert!(classes.put(next, &[0]));
    }
}
