//! The score table: the base score and class of each feasible node, and the search for the best node.
//!
//! A node's total is its base score plus the points of its class. This module does not know which plugins give them.

use super::block_max::BlockMaxima;
use super::node_classes::Classes;
use super::signature_state::INFEASIBLE;
use crate::model::node::NodeIdx;
use crate::model::node_set::{BLOCK, NodeSet, bits};
use std::cmp::Ordering;

/// The base score and class of each node, with block maxima.
#[derive(Clone, Default)]
pub(super) struct ScoreTable {
    /// Base scores by slot; [`INFEASIBLE`] for infeasible nodes.
    base: Vec<i32>,
    /// Classes of the feasible nodes.
    classes: Classes,
    block_maxima: BlockMaxima,
    /// A reused buffer for the totals of all slots.
    totals: Vec<i32>,
}

/// The points that one decision gives to each class.
#[derive(Default)]
pub(super) struct ClassPoints {
    /// Points by class, added to base scores; [`INFEASIBLE`] for infeasible classes.
    pub(super) points: Vec<i32>,
    /// Infeasible nodes of feasible classes.
    pub(super) excluded: NodeSet,
    /// The nodes to which the decision is restricted; `None` for all.
    pub(super) within: Option<NodeSet>,
    /// More points by slot; empty if there are none.
    pub(super) by_slot: Vec<i32>,
}

impl ClassPoints {
    /// Returns the points of a node of a feasible class.
    fn of(&self, node: NodeIdx, class: u16) -> i32 {
        self.points[usize::from(class)] + self.by_slot.get(node.index()).copied().unwrap_or(0)
    }

    /// Whether a node is infeasible, although its class may be feasible.
    fn excludes(&self, node: NodeIdx) -> bool {
        self.excluded.contains(node) || self.within.as_ref().is_some_and(|within| !within.contains(node))
    }
}

impl ScoreTable {
    /// Returns a table with the same base scores, whose classes are split by columns of numbers by slot. Returns
    /// `None` if there are too many classes.
    pub(super) fn refined(&self, columns: &[Vec<i64>]) -> Option<Self> {
        let classes = Classes::refined(&self.classes, columns)?;
        Some(Self { base: self.base.clone(), classes, ..Self::default() })
    }

    /// Returns base scores by slot; [`INFEASIBLE`] for infeasible nodes.
    pub(super) fn base(&self) -> &[i32] {
        &self.base
    }

    /// Returns the classes of the feasible nodes.
    pub(super) fn classes(&self) -> &Classes {
        &self.classes
    }

    /// Sets the number of slots; new slots are infeasible.
    pub(super) fn resize(&mut self, slots: usize) {
        self.base.resize(slots, INFEASIBLE);
        self.classes.resize(slots);
    }

    /// Returns the heap size in bytes, including the buffers that a search will need.
    pub(super) fn bytes(&self) -> usize {
        // Twice: base scores, and the buffer for totals.
        let numbers = 2 * self.base.capacity() * size_of::<i32>();
        numbers + self.classes.bytes() + BlockMaxima::bytes(self.base.len())
    }

    /// Returns a node's class and base score.
    fn class_and_base(&self, node: NodeIdx) -> (u16, i32) {
        (self.classes.by_slot()[node.index()], self.base[node.index()])
    }

    /// Marks a node as infeasible.
    pub(super) fn set_infeasible(&mut self, node: NodeIdx) {
        let before = self.class_and_base(node);
        if before.1 == INFEASIBLE {
            return;
        }
        self.base[node.index()] = INFEASIBLE;
        self.classes.remove(node);
        self.block_maxima.node_changed(node, before, self.class_and_base(node));
    }

    /// Sets a node's base score and, if given, its views. Returns `false` if there are too many classes.
    pub(super) fn set(&mut self, node: NodeIdx, base: i32, views: Option<&[i64]>) -> bool {
        let before = self.class_and_base(node);
        self.base[node.index()] = base;
        let is_put = views.is_none_or(|views| self.classes.put(node, views));
        self.block_maxima.node_changed(node, before, self.class_and_base(node));
        is_put
    }

    /// Updates `nodes` from the table that this one was split from. Returns `false` if there are too many classes.
    ///
    /// `view` computes a node's `numbers` views. It is skipped if `is_unchanged` returns true and the node's class in
    /// `source` is unchanged.
    pub(super) fn update_from(
        &mut self,
        source: &Self,
        nodes: &NodeSet,
        numbers: usize,
        is_unchanged: impl Fn(NodeIdx) -> bool,
        view: impl Fn(NodeIdx, &mut [i64]),
    ) -> bool {
        let mut views = vec![0; numbers + 1];
        for node in nodes.iter() {
            let (class, base) = source.class_and_base(node);
            if base == INFEASIBLE {
                self.set_infeasible(node);
                continue;
            }
            let class = i64::from(class);
            let (before, _) = self.class_and_base(node);
            let is_known = self.classes.views(usize::from(before)).first() == Some(&class);
            let is_same = is_known && is_unchanged(node);
            if !is_same {
                let (first, rest) = views.split_first_mut().expect("the first view is the class");
                *first = class;
                view(node, rest);
            }
            if !self.set(node, base, (!is_same).then_some(&*views)) {
                return false;
            }
        }
        true
    }

    /// Updates the block maxima, so that copies of this table start with them.
    pub(super) fn update_block_maxima(&mut self) {
        self.block_maxima.catch_up(&self.base, self.classes.by_slot(), self.classes.nodes());
    }

    /// Sets the base scores of `nodes`, in slot order.
    pub(super) fn set_bases(&mut self, nodes: &NodeSet, mut base: &[i32]) {
        for (first, slots) in nodes.blocks() {
            let (here, rest) = base.split_at(slots.count_ones() as usize);
            base = rest;
            if here.len() == BLOCK {
                self.block_maxima.block_changed(first);
                self.base[first..first + BLOCK].copy_from_slice(here);
                continue;
            }
            for (bit, &base) in bits(slots).zip(here) {
                let node = NodeIdx((first + bit) as u32);
                let before = self.class_and_base(node);
                self.base[node.index()] = base;
                self.block_maxima.node_changed(node, before, self.class_and_base(node));
            }
        }
    }

    /// Puts `nodes` into classes by columns of views. Returns `false` if there are too many classes.
    pub(super) fn classify(&mut self, nodes: &NodeSet, views: &[Vec<i64>]) -> bool {
        let (mut last, mut views_of_one, mut at) = (None, vec![0; views.len()], 0);
        for (first, slots) in nodes.blocks() {
            let here = at..at + slots.count_ones() as usize;
            at = here.end;
            // Most nodes have the same views as the node before them.
            if let Some(last) = last
                && here.len() == BLOCK
                && views.iter().all(|cells| all_equal(&cells[here.clone()], cells[here.start - 1]))
                && self.classes.join_block(first..first + BLOCK, last)
            {
                self.block_maxima.block_changed(first);
                continue;
            }
            for (bit, at) in bits(slots).zip(here) {
                let node = NodeIdx((first + bit) as u32);
                let before = self.class_and_base(node);
                match last {
                    Some(last) if views.iter().all(|cells| cells[at] == cells[at - 1]) => {
                        self.classes.join(node, last);
                    }
                    _ => {
                        views_of_one.iter_mut().zip(views).for_each(|(view, cells)| *view = cells[at]);
                        if !self.classes.put(node, &views_of_one) {
                            return false;
                        }
                    }
                }
                self.block_maxima.node_changed(node, before, self.class_and_base(node));
                last = Some(node);
            }
        }
        true
    }

    /// Returns the nodes of classes with a number above 0 in `nodes`.
    pub(super) fn passing(&self, nodes: &[u32]) -> NodeSet {
        let passes: Vec<bool> = nodes.iter().map(|&nodes| nodes > 0).collect();
        NodeSet::of_blocks(self.classes.by_slot().chunks(BLOCK).map(|block| {
            let bits =
                block.iter().zip(0..).map(|(&class, bit)| u64::from(passes[usize::from(class)]) << bit);
            bits.fold(0, |passing, bit| passing | bit)
        }))
    }

    /// Returns the feasible nodes with their totals, in slot order.
    pub(super) fn scored<'a>(
        &'a self,
        class_points: &'a ClassPoints,
    ) -> impl Iterator<Item = (NodeIdx, i64)> + 'a {
        let slots = self.base.iter().zip(self.classes.by_slot());
        let totals = (0..).map(NodeIdx).zip(slots).map(|(node, (base, class))| {
            (
                node,
                if class_points.excludes(node) { INFEASIBLE } else { base + class_points.of(node, *class) },
            )
        });
        totals.filter(|&(_, total)| total > INFEASIBLE / 2).map(|(node, total)| (node, i64::from(total)))
    }

    /// Returns the total of a feasible node.
    pub(super) fn total(&self, class_points: &ClassPoints, node: NodeIdx) -> i64 {
        let (class, base) = self.class_and_base(node);
        i64::from(base + class_points.of(node, class))
    }

    /// Returns a node with the highest total. `draw` gets the number of tied nodes and picks one of them in slot
    /// order.
    pub(super) fn best(&mut self, class_points: &ClassPoints, draw: impl FnOnce(usize) -> usize) -> NodeIdx {
        if let Some(within) = &class_points.within {
            return self.best_within(class_points, within, draw);
        }
        let ClassPoints { points, excluded, by_slot, .. } = class_points;
        let Self { base, classes, block_maxima, totals } = self;
        if block_maxima.catch_up(base, classes.by_slot(), classes.nodes())
            && excluded.is_empty()
            && by_slot.is_empty()
        {
            return block_maxima.best(base, classes.by_slot(), points, draw);
        }
        let slots = base.iter().zip(classes.by_slot());
        totals.clear();
        totals.extend(slots.map(|(base, class)| base + points[usize::from(*class)]));
        totals.iter_mut().zip(by_slot).for_each(|(total, points)| *total += points);
        excluded.iter().for_each(|node: NodeIdx| totals[node.index()] = INFEASIBLE);
        let best = totals.iter().copied().max().unwrap_or(INFEASIBLE);
        let ties = totals.iter().filter(|&&total| total == best).count();
        let at = draw(ties);
        let mut tied = (0..).zip(totals).filter(|&(_, &mut total)| total == best);
        NodeIdx(tied.nth(at).expect("the draw is less than the number of ties").0)
    }

    /// As [`Self::best`], among the nodes of `within`, which are few.
    fn best_within(
        &self,
        class_points: &ClassPoints,
        within: &NodeSet,
        draw: impl FnOnce(usize) -> usize,
    ) -> NodeIdx {
        let total = |node: NodeIdx| {
            let (class, base) = self.class_and_base(node);
            if class_points.excludes(node) { INFEASIBLE } else { base + class_points.of(node, class) }
        };
        let totals: Vec<(NodeIdx, i32)> = within.iter().map(|node| (node, total(node))).collect();
        drawn_best(&totals, draw).0
    }
}

/// Returns a node with the highest total, and that total. `draw` gets the number of tied nodes and picks one of them in
/// order.
pub(super) fn drawn_best(totals: &[(NodeIdx, i32)], draw: impl FnOnce(usize) -> usize) -> (NodeIdx, i32) {
    let (mut best, mut tied) = (i32::MIN, 0);
    for &(_, total) in totals {
        tied = match total.cmp(&best) {
            Ordering::Less => tied,
            Ordering::Equal => tied + 1,
            Ordering::Greater => 1,
        };
        best = best.max(total);
    }
    let mut ties = totals.iter().copied().filter(|&(_, total)| total == best);
    ties.nth(draw(tied)).expect("the draw is less than the number of ties")
}

/// Whether all numbers equal `one`.
fn all_equal(cells: &[i64], one: i64) -> bool {
    cells.iter().fold(0, |different, cell| different | (cell ^ one)) == 0
}
