//! A table in which everything stands once: each entry has a place, and is found by what it is. What is taken out leaves its place to another.
//!
//! Does not know what entries are, nor who holds their places.

use crate::hash::Keyed;
use crate::index::Index;
use crate::list::push_tightly;
use std::hash::{BuildHasher, Hash};
use std::ops::Range;

/// Entries, each other than all others.
pub(crate) struct Uniques<E> {
    hashing: Keyed,
    by_content: Index,
    /// `None` where a place is free.
    entries: Vec<Option<E>>,
    free: Vec<u32>,
}

impl<E> Default for Uniques<E> {
    fn default() -> Self {
        Self::hashed_by(Keyed::default())
    }
}

impl<E> Uniques<E> {
    /// No entries; their hashes are made so.
    pub(crate) fn hashed_by(hashing: Keyed) -> Self {
        Self { hashing, by_content: Index::default(), entries: Vec::new(), free: Vec::new() }
    }

    /// The hash of an entry, or of what it is found by.
    pub(crate) fn hash(&self, key: &(impl Hash + ?Sized)) -> u64 {
        self.hashing.hash_one(key)
    }

    /// The place of the entry with this hash of which `is_it` holds.
    pub(crate) fn find(&self, hash: u64, is_it: impl Fn(&E) -> bool) -> Option<u32> {
        self.by_content.find(hash, |at| self.entries[at as usize].as_ref().is_some_and(&is_it))
    }

    /// Adds an entry of this hash that is not there; its place.
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

    /// The entry at a place.
    pub(crate) fn get(&self, at: u32) -> &E {
        self.entries[at as usize].as_ref().expect("an id that is held was not given back")
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.by_content.len()
    }

    /// Of the entries at these places takes those out that do not stay; how many places were looked at.
    pub(crate) fn keep(&mut self, places: Range<usize>, mut stays: impl FnMut(usize, &E) -> bool) -> usize
    where
        E: Hash,
    {
        let entries = self.entries.iter_mut().enumerate().skip(places.start).take(places.len());
        let mut looked_at = 0;
        for (at, entry) in entries {
            looked_at += 1;
            if let Some(gone) = entry.take_if(|entry| !stays(at, entry)) {
                self.by_content.remove(self.hashing.hash_one(&gone), |other| other as usize == at);
                self.free.push(u32::try_from(at).expect("places are numbers of 32 bits"));
            }
        }
        looked_at
    }
}
