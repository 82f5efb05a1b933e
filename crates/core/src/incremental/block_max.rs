//! The best score for each block of nodes and class, so that a search for the best node reads blocks instead of
//! nodes.
//!
//! A block is [`BLOCK`] slots. This module works on plain numbers: it does not know what scores and classes mean.

use super::signature_state::INFEASIBLE;
use crate::framework::simd::with_best_instructions;
use crate::model::node::NodeIdx;
use crate::model::node_set::{BLOCK, NodeSet};
use crate::switches::ablation::{self, Layer};
use std::cmp::Ordering;

/// Number of classes that blocks distinguish. With a node in a higher class, the search has to read all nodes.
const CLASSES: usize = 16;

/// The highest number in one class of a block, and how many nodes have it.
#[derive(Clone, Copy)]
struct BlockMax {
    max: i32,
    nodes: u32,
}

impl BlockMax {
    /// Returns the maximum of these numbers and its count.
    #[inline(always)]
    fn of(numbers: &[i32]) -> Self {
        let max = numbers.iter().fold(INFEASIBLE, |max, &number| max.max(number));
        let nodes = numbers.iter().map(|&number| u32::from(number == max)).sum();
        Self { max, nodes }
    }

    fn count(&mut self, number: i32) {
        match number.cmp(&self.max) {
            Ordering::Less => {}
            Ordering::Equal => self.nodes += 1,
            Ordering::Greater => *self = Self { max: number, nodes: 1 },
        }
    }
}

const NO_NODE: BlockMax = BlockMax { max: INFEASIBLE, nodes: 0 };

/// The maxima of all blocks and classes, updated incrementally.
#[derive(Clone)]
pub(super) struct BlockMaxima {
    /// By block, then by class.
    maxima: Vec<[BlockMax; CLASSES]>,
    /// Stale blocks: the set's members are block numbers, not nodes.
    stale: NodeSet,
    is_all_stale: bool,
}

impl Default for BlockMaxima {
    /// Creates an empty index; all blocks are stale until the first [`BlockMaxima::catch_up`].
    fn default() -> Self {
        Self { maxima: Vec::new(), stale: NodeSet::new(), is_all_stale: true }
    }
}

impl BlockMaxima {
    /// Returns the heap size for a number of slots, in bytes.
    pub(super) fn bytes(slots: usize) -> usize {
        slots.div_ceil(BLOCK) * size_of::<[BlockMax; CLASSES]>()
    }

    /// Marks the block that starts at slot `first` as stale.
    pub(super) fn block_changed(&mut self, first: usize) {
        if !self.is_all_stale {
            self.stale.insert(NodeIdx((first / BLOCK) as u32));
        }
    }

    /// Updates the block of a node whose class and number changed `from` … `to`.
    pub(super) fn node_changed(&mut self, node: NodeIdx, from: (u16, i32), to: (u16, i32)) {
        let block = NodeIdx(node.0 / BLOCK as u32);
        if self.is_all_stale || from == to || self.stale.contains(block) {
            return;
        }
        let (Some(maxima), true) =
            (self.maxima.get_mut(block.index()), usize::from(from.0.max(to.0)) < CLASSES)
        else {
            self.is_all_stale = true;
            return;
        };
        let maximum = &mut maxima[usize::from(from.0)];
        if from.1 == maximum.max {
            maximum.nodes -= 1;
            if maximum.nodes == 0 {
                self.stale.insert(block);
                return;
            }
        }
        maxima[usize::from(to.0)].count(to.1);
    }

    /// Updates all stale blocks. Returns `false` if a node's class is too high for the index.
    ///
    /// `numbers` and `classes` are by slot; `nodes` is the number of nodes of each class. Class 0 means "no class".
    pub(super) fn catch_up(&mut self, numbers: &[i32], classes: &[u16], nodes: &[u32]) -> bool {
        if nodes.iter().skip(CLASSES).any(|&nodes| nodes > 0) || ablation::is_off(Layer::BlockMaxima) {
            self.is_all_stale = true;
            return false;
        }
        let blocks = numbers.len().div_ceil(BLOCK);
        if self.maxima.len() != blocks || self.is_all_stale {
            self.maxima.clear();
            self.maxima.resize(blocks, [NO_NODE; CLASSES]);
            with_best_instructions(
                #[inline(always)]
                || (0..blocks).for_each(|block| self.recompute(block, numbers, classes)),
            );
            self.is_all_stale = false;
        } else {
            let stale = std::mem::take(&mut self.stale);
            stale.iter().for_each(|block| self.recompute(block.index(), numbers, classes));
            self.stale = stale;
        }
        self.stale.clear();
        true
    }

    #[inline(always)]
    fn recompute(&mut self, block: usize, numbers: &[i32], classes: &[u16]) {
        let slots = block * BLOCK..((block + 1) * BLOCK).min(numbers.len());
        let maxima = &mut self.maxima[block];
        *maxima = [NO_NODE; CLASSES];
        let (numbers, classes) = (&numbers[slots.clone()], &classes[slots]);
        let class = classes[0];
        if classes.iter().fold(0, |others, one| others | (one ^ class)) == 0 {
            // In most blocks, all nodes have the same class.
            maxima[usize::from(class) % CLASSES] = BlockMax::of(numbers);
            return;
        }
        for (&number, &class) in numbers.iter().zip(classes) {
            maxima[usize::from(class) % CLASSES].count(number);
        }
    }

    /// Returns a node with the highest sum of its number and its class's points.
    ///
    /// `draw` gets the number of tied nodes and picks one of them in slot order. Excluded classes have [`INFEASIBLE`]
    /// points. At least one node must be in a class that is not excluded.
    pub(super) fn best(
        &self,
        numbers: &[i32],
        classes: &[u16],
        points: &[i32],
        draw: impl FnOnce(usize) -> usize,
    ) -> NodeIdx {
        let included: Vec<usize> =
            (1..points.len().min(CLASSES)).filter(|&c| points[c] > INFEASIBLE).collect();
        let (mut best, mut tied) = (i32::MIN, 0);
        for maxima in &self.maxima {
            for &class in &included {
                let BlockMax { max, nodes } = maxima[class];
                let sum = max + points[class];
                if sum > best {
                    (best, tied) = (sum, 0);
                }
                tied += if sum == best { nodes as usize } else { 0 };
            }
        }
        let ties = |maxima: &[BlockMax; CLASSES]| {
            let tied_classes = included.iter().filter(|&&c| maxima[c].max + points[c] == best);
            tied_classes.map(|&c| maxima[c].nodes as usize).sum::<usize>()
        };
        let mut remaining = draw(tied);
        for (block, maxima) in self.maxima.iter().enumerate() {
            let here = ties(maxima);
            if remaining >= here {
                remaining -= here;
                continue;
            }
            let slots = block * BLOCK..((block + 1) * BLOCK).min(numbers.len());
            let mut tied = slots.filter(|&slot| numbers[slot] + points[usize::from(classes[slot])] == best);
            let slot = tied.nth(remaining).expect("the block has this number of ties");
            return NodeIdx(slot as u32);
        }
        unreachable!("the draw is less than the number of ties")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: usize = 3 * BLOCK + 7;

    /// The oracle: the chosen node of all with the highest sum, found by reading each node.
    fn naive_best(numbers: &[i32], classes: &[u16], points: &[i32], pick: usize) -> NodeIdx {
        let sum = |slot: usize| match points[usize::from(classes[slot])] {
            INFEASIBLE => None,
            points => Some(numbers[slot] + points),
        };
        let best = (0..SLOTS).filter_map(sum).max();
        let tied: Vec<usize> = (0..SLOTS).filter(|&slot| sum(slot).is_some() && sum(slot) == best).collect();
        NodeIdx(tied[pick % tied.len()] as u32)
    }

    /// Two blocks whose nodes all have class 1 and number 5, but one node of the second block with 9.
    fn two_blocks() -> (BlockMaxima, Vec<i32>, Vec<u16>, Vec<u32>) {
        let (mut numbers, classes) = (vec![5; 2 * BLOCK], vec![1; 2 * BLOCK]);
        numbers[BLOCK + 3] = 9;
        let mut nodes = vec![0; CLASSES + 2];
        nodes[1] = numbers.len() as u32;
        let mut block_maxima = BlockMaxima::default();
        assert!(block_maxima.catch_up(&numbers, &classes, &nodes));
        (block_maxima, numbers, classes, nodes)
    }

    #[test]
    fn only_the_block_of_a_lost_maximum_is_recomputed() {
        let (mut block_maxima, mut numbers, classes, nodes) = two_blocks();
        numbers[BLOCK + 3] = 2;
        block_maxima.node_changed(NodeIdx(BLOCK as u32 + 3), (1, 9), (1, 2));
        assert_eq!(block_maxima.stale.iter().collect::<Vec<_>>(), [NodeIdx(1)]);
        assert!(!block_maxima.is_all_stale);
        // Shows that the first block is not read again.
        block_maxima.maxima[0][1].max = 7;
        assert!(block_maxima.catch_up(&numbers, &classes, &nodes));
        let maxima =
            [0, 1].map(|block| (block_maxima.maxima[block][1].max, block_maxima.maxima[block][1].nodes));
        assert_eq!(maxima, [(7, BLOCK as u32), (5, BLOCK as u32 - 1)]);
    }

    #[test]
    fn changes_of_other_nodes_are_counted_without_reading_a_block() {
        let (mut block_maxima, ..) = two_blocks();
        block_maxima.node_changed(NodeIdx(0), (1, 5), (1, 8));
        block_maxima.node_changed(NodeIdx(1), (1, 5), (2, 6));
        let first = block_maxima.maxima[0];
        assert_eq!([(first[1].max, first[1].nodes), (first[2].max, first[2].nodes)], [(8, 1), (6, 1)]);
        assert!(block_maxima.stale.is_empty() && !block_maxima.is_all_stale);
    }

    #[test]
    fn class_beyond_the_index_makes_everything_stale() {
        for class in [CLASSES, CLASSES + 1] {
            let (mut block_maxima, numbers, mut classes, mut nodes) = two_blocks();
            block_maxima.node_changed(NodeIdx(0), (1, 5), (class as u16, 5));
            assert!(block_maxima.is_all_stale);
            classes[0] = class as u16;
            (nodes[1], nodes[class]) = (nodes[1] - 1, 1);
            assert!(!block_maxima.catch_up(&numbers, &classes, &nodes));
        }
    }

    #[test]
    fn bytes_are_those_of_whole_blocks() {
        let block = CLASSES * size_of::<BlockMax>();
        assert_eq!([0, 1, BLOCK, BLOCK + 1].map(BlockMaxima::bytes), [0, block, block, 2 * block]);
    }

    #[test]
    fn best_equals_naive_search_after_random_changes() {
        let mut random = 1_u64;
        let mut below = |bound: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % bound
        };
        let (mut numbers, mut classes) = (vec![INFEASIBLE; SLOTS], vec![0_u16; SLOTS]);
        let mut nodes = vec![0_u32; CLASSES + 2];
        nodes[0] = SLOTS as u32;
        let mut block_maxima = BlockMaxima::default();
        let (mut compared, mut too_many) = (0, 0);
        for step in 0..40_000 {
            let slot = below(SLOTS);
            // Sometimes more classes than the index supports.
            let most = if step % 4_000 < 400 { CLASSES + 2 } else { 5 };
            let class = if below(9) == 0 { 0 } else { below(most) };
            let to = (class as u16, if class == 0 { INFEASIBLE } else { below(6) as i32 });
            let from = (classes[slot], numbers[slot]);
            nodes[usize::from(from.0)] -= 1;
            nodes[class] += 1;
            (classes[slot], numbers[slot]) = to;
            block_maxima.node_changed(NodeIdx(slot as u32), from, to);
            if below(4) > 0 {
                continue;
            }
            let mut points: Vec<i32> = (0..nodes.len()).map(|_| below(4) as i32 * 2).collect();
            points[0] = INFEASIBLE;
            let excluded = below(nodes.len());
            points[excluded] = INFEASIBLE;
            if !block_maxima.catch_up(&numbers, &classes, &nodes) {
                too_many += 1;
            } else if (0..SLOTS).any(|slot| points[usize::from(classes[slot])] > INFEASIBLE) {
                let pick = below(SLOTS);
                let found = block_maxima.best(&numbers, &classes, &points, |ties| pick % ties);
                assert_eq!(found, naive_best(&numbers, &classes, &points, pick), "in step {step}");
                compared += 1;
            }
        }
        assert!(
            compared > 5_000 && too_many > 100,
            "{compared} comparisons, {too_many} times too many classes"
        );
    }
}
