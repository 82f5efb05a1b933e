//! A first-in, first-out queue of unique entries with removal by value.

use crate::collections::hash::FixedMap;
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::hash::Hash;

/// Unique entries in order of insertion. Every operation takes O(log n).
pub(super) struct IndexedQueue<K> {
    /// By ticket number.
    entries: BTreeMap<u64, K>,
    tickets: FixedMap<K, u64>,
    next: u64,
}

impl<K> Default for IndexedQueue<K> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), tickets: FixedMap::default(), next: 0 }
    }
}

impl<K: Hash + Eq + Clone> IndexedQueue<K> {
    /// Adds an entry at the end. An existing entry keeps its place.
    pub(super) fn push(&mut self, entry: K) {
        if self.tickets.contains_key(&entry) {
            return;
        }
        self.tickets.insert(entry.clone(), self.next);
        self.entries.insert(self.next, entry);
        self.next += 1;
    }

    /// Takes the first entry.
    pub(super) fn pop(&mut self) -> Option<K> {
        let (_, entry) = self.entries.pop_first()?;
        self.tickets.remove(&entry);
        Some(entry)
    }

    /// Removes an entry, and returns whether it existed.
    pub(super) fn remove<Q: Hash + Eq + ?Sized>(&mut self, entry: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let ticket = self.tickets.remove(entry);
        ticket.is_some_and(|ticket| self.entries.remove(&ticket).is_some())
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::hash::Hasher;

    thread_local! {
        static COMPARED: Cell<usize> = const { Cell::new(0) };
    }

    /// A number that counts its comparisons.
    #[derive(Clone, Debug)]
    struct CountedComparisons(u32);

    impl PartialEq for CountedComparisons {
        fn eq(&self, other: &Self) -> bool {
            COMPARED.set(COMPARED.get() + 1);
            self.0 == other.0
        }
    }

    impl Eq for CountedComparisons {}

    impl Hash for CountedComparisons {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }

    #[test]
    fn remaining_entries_keep_their_order() {
        let mut line = IndexedQueue::default();
        for number in [3, 1, 2, 1, 5, 4] {
            line.push(number);
        }
        assert!(line.remove(&2) && !line.remove(&2));
        line.push(2);
        let left: Vec<i32> = std::iter::from_fn(|| line.pop()).collect();
        assert_eq!(left, [3, 1, 5, 4, 2]);
        assert!(line.is_empty());
    }

    /// A scan of the entries would make two hundred million comparisons.
    #[test]
    fn removal_from_the_middle_compares_entries_a_few_times() {
        const COUNT: u32 = 20_000;
        let mut line = IndexedQueue::default();
        (0..COUNT).for_each(|number| line.push(CountedComparisons(number)));
        COMPARED.set(0);
        for number in (0..COUNT).rev() {
            assert!(line.remove(&CountedComparisons(number)));
        }
        let compared = COMPARED.get();
        assert!(compared <= 2 * COUNT as usize, "{compared} comparisons for {COUNT} entries");
    }
}
