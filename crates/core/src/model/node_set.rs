//! A set of nodes as a bitmap with one bit for each slot.

use crate::model::node::NodeIdx;

const BITS: usize = u64::BITS as usize;
/// The number of slots in a block.
pub const BLOCK: usize = BITS;

/// A set of nodes. Iteration is in ascending order of slots.
///
/// Operations take as long as there are words between the first and the last node, so that sets of one node are cheap
/// in large clusters.
#[derive(Clone, Debug, Default)]
pub struct NodeSet {
    /// The number of words without nodes before those in `words`.
    skipped: usize,
    words: Vec<u64>,
}

impl NodeSet {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a set from consecutive blocks of 64 slots, one bit for each node.
    pub fn of_blocks(blocks: impl Iterator<Item = u64>) -> Self {
        Self { skipped: 0, words: blocks.collect() }
    }

    /// Returns the position in `words` of a word; a position beyond the last one if it is not there.
    #[inline]
    fn position(&self, word: usize) -> usize {
        word.wrapping_sub(self.skipped)
    }

    /// Returns a word of all slots.
    #[inline]
    fn word(&self, word: usize) -> u64 {
        self.words.get(self.position(word)).copied().unwrap_or(0)
    }

    /// Makes room for the words from `first` up to but without `end`.
    fn cover(&mut self, first: usize, end: usize) {
        if self.words.is_empty() {
            self.skipped = first;
        } else if first < self.skipped {
            // At least doubled, so that many insertions in descending order take linear time.
            let more = (self.skipped - first).max(self.words.len()).min(self.skipped);
            self.words.splice(..0, std::iter::repeat_n(0, more));
            self.skipped -= more;
        }
        if end > self.skipped + self.words.len() {
            self.words.resize(end - self.skipped, 0);
        }
    }

    /// Adds a node. Returns whether it was absent.
    #[inline]
    pub fn insert(&mut self, node: NodeIdx) -> bool {
        let (word, bit) = (node.index() / BITS, 1u64 << (node.index() % BITS));
        if self.position(word) >= self.words.len() {
            self.cover(word, word + 1);
        }
        let at = self.position(word);
        let absent = self.words[at] & bit == 0;
        self.words[at] |= bit;
        absent
    }

    /// Removes all nodes and keeps the allocation.
    pub fn clear(&mut self) {
        self.words.clear();
    }

    /// Removes a node. Returns whether it was present.
    pub fn remove(&mut self, node: NodeIdx) -> bool {
        let (word, bit) = (node.index() / BITS, 1u64 << (node.index() % BITS));
        let at = self.position(word);
        let Some(word) = self.words.get_mut(at) else { return false };
        let present = *word & bit != 0;
        *word &= !bit;
        present
    }

    /// Whether a node is in the set.
    pub fn contains(&self, node: NodeIdx) -> bool {
        self.word(node.index() / BITS) & (1u64 << (node.index() % BITS)) != 0
    }

    /// Returns the number of nodes in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&w| w == 0)
    }

    /// Iterates over the nodes in order of slots.
    pub fn iter(&self) -> Iter<'_> {
        Iter { words: self.words.iter(), first: 0, rest: 0, next_first: (self.skipped * BITS) as u32 }
    }

    /// Iterates over the nodes in order of slots, starting at the `nth` and wrapping around.
    pub fn iter_from_nth(&self, nth: usize) -> impl Iterator<Item = NodeIdx> + '_ {
        let (mut word, mut before) = (0, nth);
        while let Some(here) = self.words.get(word).map(|word| word.count_ones() as usize)
            && here <= before
        {
            before -= here;
            word += 1;
        }
        let late = move |at: usize| if at < word { 0 } else { u64::MAX };
        // In the word of the nth node, the bits from the nth on.
        let middle =
            bits(self.words.get(word).copied().unwrap_or(0)).nth(before).map_or(0, |bit| u64::MAX << bit);
        let mask = move |at: usize| if at == word { middle } else { late(at) };
        let skipped = self.skipped;
        let nodes = move |at: usize, bits_here: u64| {
            bits(bits_here).map(move |bit| NodeIdx(((skipped + at) * BITS + bit) as u32))
        };
        let from =
            self.words.iter().enumerate().skip(word).flat_map(move |(at, &here)| nodes(at, here & mask(at)));
        let until = self
            .words
            .iter()
            .enumerate()
            .take(word + 1)
            .flat_map(move |(at, &here)| nodes(at, here & !mask(at)));
        from.chain(until)
    }

    /// Removes the nodes for which `keep` returns false.
    pub fn retain(&mut self, mut keep: impl FnMut(NodeIdx) -> bool) {
        self.retain_blocks(|first, nodes| {
            let kept = bits(nodes).filter(|&bit| keep(NodeIdx((first + bit) as u32)));
            kept.fold(0, |kept, bit| kept | 1 << bit)
        });
    }

    /// Returns the non-empty blocks of 64 slots: the first slot, and one bit for each node.
    pub fn blocks(&self) -> impl Iterator<Item = (usize, u64)> {
        let blocks = (self.skipped..).zip(&self.words).filter(|&(_, &word)| word != 0);
        blocks.map(|(at, &word)| (at * BITS, word))
    }

    /// Returns the bits of the block that starts at this slot, as in [`Self::blocks`].
    pub fn block(&self, first: usize) -> u64 {
        self.word(first / BITS)
    }

    /// Replaces the bits of each non-empty block with the result of `keep`, which must only clear bits.
    #[inline(always)]
    pub fn retain_blocks(&mut self, mut keep: impl FnMut(usize, u64) -> u64) {
        for (at, word) in (self.skipped..).zip(&mut self.words).filter(|(_, word)| **word != 0) {
            *word &= keep(at * BITS, *word);
        }
    }

    /// Removes the nodes that are not in `other`.
    pub fn intersect(&mut self, other: &Self) {
        let (before, common) = self.beside(other);
        self.words.truncate(before + common.len());
        self.words[..before].fill(0);
        self.words[before..].iter_mut().zip(common).for_each(|(word, kept)| *word &= kept);
    }

    /// Adds the nodes of `other`.
    pub fn unite(&mut self, other: &Self) {
        if other.words.is_empty() {
            return;
        }
        self.cover(other.skipped, other.skipped + other.words.len());
        let first = other.skipped - self.skipped;
        for (word, more) in self.words[first..].iter_mut().zip(&other.words) {
            *word |= more;
        }
    }

    /// Removes the nodes of `other`.
    pub fn subtract(&mut self, other: &Self) {
        let (before, common) = self.beside(other);
        self.words[before..].iter_mut().zip(common).for_each(|(word, gone)| *word &= !gone);
    }

    /// Returns the words of `other` that have a position here, after the number of words before them.
    fn beside<'o>(&self, other: &'o Self) -> (usize, &'o [u64]) {
        let before = other.skipped.saturating_sub(self.skipped).min(self.words.len());
        let from = self.skipped.saturating_sub(other.skipped).min(other.words.len());
        let common = &other.words[from..];
        (before, &common[..common.len().min(self.words.len() - before)])
    }
}

/// Returns the positions of set bits, ascending.
pub fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros() as usize);
        word &= word.wrapping_sub(1);
        bit
    })
}

/// The nodes of a set in ascending order of slots.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    words: std::slice::Iter<'a, u64>,
    /// The first slot of the current word, and the remaining bits of that word.
    first: u32,
    rest: u64,
    next_first: u32,
}

impl Iterator for Iter<'_> {
    type Item = NodeIdx;

    #[inline]
    fn next(&mut self) -> Option<NodeIdx> {
        while self.rest == 0 {
            self.rest = *self.words.next()?;
            self.first = self.next_first;
            self.next_first += u64::BITS;
        }
        let bit = self.rest.trailing_zeros();
        self.rest &= self.rest - 1;
        Some(NodeIdx(self.first + bit))
    }
}

impl PartialEq for NodeSet {
    fn eq(&self, other: &Self) -> bool {
        self.blocks().eq(other.blocks())
    }
}

impl Eq for NodeSet {}

impl FromIterator<NodeIdx> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeIdx>>(nodes: I) -> Self {
        let mut set = Self::new();
        for node in nodes {
            set.insert(node);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn node_set_iterates_in_slot_order() {
        let mut set: NodeSet = [130, 2, 64, 63].map(NodeIdx).into_iter().collect();
        assert_eq!(set.iter().map(|n| n.0).collect::<Vec<_>>(), [2, 63, 64, 130]);
        assert!(!set.insert(NodeIdx(64)));
        assert!(set.remove(NodeIdx(64)) && !set.remove(NodeIdx(64)) && !set.remove(NodeIdx(9_999)));
        set.retain(|n| n.0 != 2);
        assert_eq!((set.len(), set.contains(NodeIdx(63)), set.contains(NodeIdx(2))), (2, true, false));
        let other: NodeSet = [NodeIdx(63)].into_iter().collect();
        let mut both = set.clone();
        both.intersect(&other);
        assert_eq!(both, other);
        set.subtract(&other);
        assert_eq!(set.iter().collect::<Vec<_>>(), [NodeIdx(130)]);
        let mut all = other.clone();
        all.unite(&set);
        assert_eq!(all.iter().map(|n| n.0).collect::<Vec<_>>(), [63, 130]);
    }

    #[test]
    fn node_sets_equal_sets_of_slots() {
        let mut random = 7_u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        for _ in 0..300 {
            let (mut sets, mut plain) =
                ([NodeSet::new(), NodeSet::new()], [BTreeSet::new(), BTreeSet::new()]);
            for _ in 0..60 {
                let (at, slot) = (next(2) as usize, next(4) as u32 * 150 + next(70) as u32);
                let ([set, other], [slots, others]) = match at {
                    0 => (sets.each_mut(), plain.each_mut()),
                    _ => {
                        let ([b, a], [d, c]) = (sets.each_mut(), plain.each_mut());
                        ([a, b], [c, d])
                    }
                };
                match next(12) {
                    0 => {
                        set.intersect(other);
                        slots.retain(|slot| others.contains(slot));
                    }
                    1 => {
                        set.unite(other);
                        slots.extend(others.iter().copied());
                    }
                    2 => {
                        set.subtract(other);
                        slots.retain(|slot| !others.contains(slot));
                    }
                    3 => {
                        set.retain(|node| node.0 % 3 != 0);
                        slots.retain(|slot| slot % 3 != 0);
                    }
                    4 if next(4) == 0 => {
                        set.clear();
                        slots.clear();
                    }
                    5 | 6 => assert_eq!(set.remove(NodeIdx(slot)), slots.remove(&slot)),
                    _ => assert_eq!(set.insert(NodeIdx(slot)), slots.insert(slot)),
                }
                let all: Vec<u32> = set.iter().map(|node| node.0).collect();
                assert_eq!(all, slots.iter().copied().collect::<Vec<_>>());
                assert_eq!((set.len(), set.is_empty()), (slots.len(), slots.is_empty()));
                assert_eq!(set.contains(NodeIdx(slot)), slots.contains(&slot));
                assert_eq!(*set == *other, *slots == *others);
                let of_block = set.block(slot as usize / BLOCK * BLOCK);
                assert_eq!(of_block >> (slot as usize % BLOCK) & 1 == 1, slots.contains(&slot));
                let nth = next(5) as usize;
                let round: Vec<u32> = set.iter_from_nth(nth).map(|node| node.0).collect();
                if let Some(tail) = all.get(nth..).filter(|tail| !tail.is_empty()) {
                    assert_eq!(round, [tail, &all[..nth]].concat());
                }
            }
        }
    }

    #[test]
    fn node_set_iteration_starts_at_any_slot() {
        let slots = [0, 5, 63, 64, 200, 255, 256];
        let set: NodeSet = slots.map(NodeIdx).into_iter().collect();
        for nth in 0..slots.len() {
            let round: Vec<u32> = set.iter_from_nth(nth).map(|node| node.0).collect();
            assert_eq!(round, [&slots[nth..], &slots[..nth]].concat(), "from {nth}");
        }
        assert_eq!(NodeSet::new().iter_from_nth(0).next(), None);
    }
}
