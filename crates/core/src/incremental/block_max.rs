//! The best nodes of each class, block by block of slots, so that the best of all are found without looking at every node.
//! Knows nothing of what the numbers mean.

use super::signature_state::NEVER;
use crate::node::NodeIdx;
use crate::node_set::{BLOCK, NodeSet};
use crate::wide::widest;
use std::cmp::Ordering;

/// Classes from this number on are not kept here, and all nodes have to be looked at.
const CLASSES: usize = 16;

/// The highest number of a class in a block, and how many nodes have it.
#[derive(Clone, Copy)]
struct Lead {
    top: i32,
    nodes: u32,
}

impl Lead {
    /// That of these numbers.
    #[inline(always)]
    fn of(numbers: &[i32]) -> Self {
        let top = numbers.iter().fold(NEVER, |top, &number| top.max(number));
        let nodes = numbers.iter().map(|&number| u32::from(number == top)).sum();
        Self { top, nodes }
    }

    fn count(&mut self, number: i32) {
        match number.cmp(&self.top) {
            Ordering::Less => {}
            Ordering::Equal => self.nodes += 1,
            Ordering::Greater => *self = Self { top: number, nodes: 1 },
        }
    }
}

const NOBODY: Lead = Lead { top: NEVER, nodes: 0 };

/// What is known of the blocks, apart from those that changed since.
#[derive(Clone)]
pub(super) struct Leaders {
    /// By block, then by class.
    leads: Vec<[Lead; CLASSES]>,
    /// Blocks that changed, as if they were nodes.
    changed: NodeSet,
    are_all_changed: bool,
}

impl Default for Leaders {
    /// Nothing is known until somebody asks.
    fn default() -> Self {
        Self { leads: Vec::new(), changed: NodeSet::new(), are_all_changed: true }
    }
}

impl Leaders {
    /// The heap it takes for so many slots.
    pub(super) fn bytes(slots: usize) -> usize {
        slots.div_ceil(BLOCK) * size_of::<[Lead; CLASSES]>()
    }

    /// The nodes of the block that begins with this slot may have other classes and numbers than before.
    pub(super) fn block_moved(&mut self, first: usize) {
        if !self.are_all_changed {
            self.changed.insert(NodeIdx((first / BLOCK) as u32));
        }
    }

    /// The node has another class and number than before.
    pub(super) fn moved(&mut self, node: NodeIdx, from: (u16, i32), to: (u16, i32)) {
        let block = NodeIdx(node.0 / BLOCK as u32);
        if self.are_all_changed || from == to || self.changed.contains(block) {
            return;
        }
        let (Some(leads), true) =
            (self.leads.get_mut(block.index()), usize::from(from.0.max(to.0)) < CLASSES)
        else {
            self.are_all_changed = true;
            return;
        };
        let lead = &mut leads[usize::from(from.0)];
        if from.1 == lead.top {
            lead.nodes -= 1;
            if lead.nodes == 0 {
                self.changed.insert(block);
                return;
            }
        }
        leads[usize::from(to.0)].count(to.1);
    }

    /// Brings the blocks up to date, where no class has a number too high for this: whether none has.
    ///
    /// `numbers` and `classes` are by slot, `nodes` is by class and says how many nodes it has. The first class is none.
    pub(super) fn catch_up(&mut self, numbers: &[i32], classes: &[u16], nodes: &[u32]) -> bool {
        if nodes.iter().skip(CLASSES).any(|&nodes| nodes > 0) {
            self.are_all_changed = true;
            return false;
        }
        let blocks = numbers.len().div_ceil(BLOCK);
        if self.leads.len() != blocks || self.are_all_changed {
            self.leads.clear();
            self.leads.resize(blocks, [NOBODY; CLASSES]);
            widest(
                #[inline(always)]
                || (0..blocks).for_each(|block| self.renew(block, numbers, classes)),
            );
            self.are_all_changed = false;
        } else {
            let changed = std::mem::take(&mut self.changed);
            changed.iter().for_each(|block| self.renew(block.index(), numbers, classes));
            self.changed = changed;
        }
        self.changed.clear();
        true
    }

    #[inline(always)]
    fn renew(&mut self, block: usize, numbers: &[i32], classes: &[u16]) {
        let slots = block * BLOCK..((block + 1) * BLOCK).min(numbers.len());
        let leads = &mut self.leads[block];
        *leads = [NOBODY; CLASSES];
        let (numbers, classes) = (&numbers[slots.clone()], &classes[slots]);
        let class = classes[0];
        if classes.iter().fold(0, |others, one| others | (one ^ class)) == 0 {
            // Of most blocks all nodes are the same.
            leads[usize::from(class) % CLASSES] = Lead::of(numbers);
            return;
        }
        for (&number, &class) in numbers.iter().zip(classes) {
            leads[usize::from(class) % CLASSES].count(number);
        }
    }

    /// Of the nodes with the highest sum of their number and the points of their class, in slot order, the one that `draw`
    /// picks of so many. Classes of which no node counts have [`NEVER`] points. One node at least has to count.
    pub(super) fn best(
        &self,
        numbers: &[i32],
        classes: &[u16],
        points: &[i32],
        draw: impl FnOnce(usize) -> usize,
    ) -> NodeIdx {
        let counting: Vec<usize> = (1..points.len().min(CLASSES)).filter(|&c| points[c] > NEVER).collect();
        let tops = |leads: &[Lead; CLASSES]| counting.iter().map(|&c| leads[c].top + points[c]).max();
        let best = self.leads.iter().filter_map(tops).max().unwrap_or(NEVER);
        let ties = |leads: &[Lead; CLASSES]| {
            let leading = counting.iter().filter(|&&c| leads[c].top + points[c] == best);
            leading.map(|&c| leads[c].nodes as usize).sum::<usize>()
        };
        let mut left = draw(self.leads.iter().map(ties).sum());
        for (block, leads) in self.leads.iter().enumerate() {
            let here = ties(leads);
            if left >= here {
                left -= here;
                continue;
            }
            let slots = block * BLOCK..((block + 1) * BLOCK).min(numbers.len());
            let mut tied = slots.filter(|&slot| numbers[slot] + points[usize::from(classes[slot])] == best);
            let slot = tied.nth(left).expect("the block was counted to have so many");
            return NodeIdx(slot as u32);
        }
        unreachable!("a draw is below the number it is drawn of")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: usize = 3 * BLOCK + 7;

    /// Of all nodes with the highest sum, in slot order, the one that is picked, found by looking at each.
    fn plainly(numbers: &[i32], classes: &[u16], points: &[i32], pick: usize) -> NodeIdx {
        let sum = |slot: usize| match points[usize::from(classes[slot])] {
            NEVER => None,
            points => Some(numbers[slot] + points),
        };
        let best = (0..SLOTS).filter_map(sum).max();
        let tied: Vec<usize> = (0..SLOTS).filter(|&slot| sum(slot).is_some() && sum(slot) == best).collect();
        NodeIdx(tied[pick % tied.len()] as u32)
    }

    #[test]
    fn after_any_moves_the_best_is_the_one_that_looking_at_every_node_finds() {
        let mut random = 1_u64;
        let mut below = |bound: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % bound
        };
        let (mut numbers, mut classes) = (vec![NEVER; SLOTS], vec![0_u16; SLOTS]);
        let mut nodes = vec![0_u32; CLASSES + 2];
        nodes[0] = SLOTS as u32;
        let mut leaders = Leaders::default();
        let (mut asked, mut too_many) = (0, 0);
        for turn in 0..40_000 {
            let slot = below(SLOTS);
            // Now and then there are more classes than are kept.
            let most = if turn % 4_000 < 400 { CLASSES + 2 } else { 5 };
            let class = if below(9) == 0 { 0 } else { below(most) };
            let to = (class as u16, if class == 0 { NEVER } else { below(6) as i32 });
            let from = (classes[slot], numbers[slot]);
            nodes[usize::from(from.0)] -= 1;
            nodes[class] += 1;
            (classes[slot], numbers[slot]) = to;
            leaders.moved(NodeIdx(slot as u32), from, to);
            if below(4) > 0 {
                continue;
            }
            let mut points: Vec<i32> = (0..nodes.len()).map(|_| below(4) as i32 * 2).collect();
            points[0] = NEVER;
            let barred = below(nodes.len());
            points[barred] = NEVER;
            if !leaders.catch_up(&numbers, &classes, &nodes) {
                too_many += 1;
            } else if (0..SLOTS).any(|slot| points[usize::from(classes[slot])] > NEVER) {
                let pick = below(SLOTS);
                let found = leaders.best(&numbers, &classes, &points, |ties| pick % ties);
                assert_eq!(found, plainly(&numbers, &classes, &points, pick), "in turn {turn}");
                asked += 1;
            }
        }
        assert!(asked > 5_000 && too_many > 100, "{asked} answers, {too_many} times too many classes");
    }
}
