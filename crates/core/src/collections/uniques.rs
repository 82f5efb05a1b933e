//! An interning table: stores each distinct entry once, at a stable index. Indexes of removed entries are
//! reused.
//!
//! The table does not know the entries' meaning or which indexes are still referenced.

use crate::collections::hash::Keyed;
use crate::collections::index::Index;
use crate::collections::list::push_tightly;
use std::hash::{BuildHasher, Hash};
use std::ops::Range;

/// Distinct entries by index.
pub(crate) struct Uniques<E> {
    hashing: Keyed,
    by_content: Index,
    /// `None` marks a free index.
    entries: Vec<Option<E>>,
    free: Vec<u32>,
}

impl<E> Default for Uniques<E> {
    fn default() -> Self {
        Self::hashed_by(Keyed::default())
    }
}

impl<E> Uniques<E> {
    /// Creates an empty table with this hash function.
    pub(crate) fn hashed_by(hashing: Keyed) -> Self {
        Self { hashing, by_content: Index::default(), entries: Vec::new(), free: Vec::new() }
    }

    /// Returns the hash of an entry or of its lookup key.
    pub(crate) fn hash(&self, key: &(impl Hash + ?Sized)) -> u64 {
        self.hashing.hash_one(key)
    }

    /// Returns the index of the entry with this hash for which `is_it` is true.
    pub(crate) fn find(&self, hash: u64, is_it: impl Fn(&E) -> bool) -> Option<u32> {
        self.by_content.find(hash, |at| self.entries[at as usize].as_ref().is_some_and(&is_it))
    }

    /// Adds a new entry with this hash and returns its index.
    pub(crate) fn add(&mut self, hash: u64, entry: E) -> u32 {
        let entry = Some(entry);
        let at = match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = entry;
                at
            }
            None => {
                push_tightly(&mut self.entries, entry);
                u32::try_from(self.entries.len() - 1).expect("fewer than 2^32 entries are held")
            }
        };
        self.by_content.insert(hash, at);
        at
    }

    /// Returns the entry at an index.
    pub(crate) fn get(&self, at: u32) -> &E {
        self.entries[at as usize].as_ref().expect("an id that is held was not given back")
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.by_content.len()
    }

    /// Removes the entries in a range of indexes for which `stays` is false; returns the number of indexes
    /// visited.
    pub(crate) fn sweep_range(
        &mut self,
        places: Range<usize>,
        mut stays: impl FnMut(usize, &E) -> bool,
    ) -> usize
    where
        E: Hash,
    {
        let entries = self.entries.iter_mut().enumerate().skip(places.start).take(places.len());
        let mut visited = 0;
        for (at, entry) in entries {
            visited += 1;
            if let Some(gone) = entry.take_if(|entry| !stays(at, entry)) {
                self.by_content.remove(self.hashing.hash_one(&gone), |other| other as usize == at);
                self.free.push(u32::try_from(at).expect("places are numbers of 32 bits"));
            }
        }
        visited
    }
}
