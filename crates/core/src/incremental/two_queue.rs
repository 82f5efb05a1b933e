//! Replacement policy of the decision cache: 2Q (Johnson and Shasha, 1994).
//!
//! Most signatures are used in one burst and never again. New signatures are on probation and leave in order of
//! arrival, however often they are used meanwhile. A signature that returns after its eviction is protected.
//! Protected signatures leave if they were not used since their last turn (second chance). So a stream of signatures
//! used once does not displace those in regular use.
//!
//! The cache decides when to evict, and what it stores for a signature. Upstream has no counterpart.

use crate::collections::hash::{Hashed, IdMap};
use crate::model::intern::{MarkWorklist, Marks, TraceIds};
use crate::model::signature::VolumelessSignature;
use std::collections::VecDeque;

/// Number of remembered hashes of evicted signatures. Two signatures with the same slot overwrite each other.
const GHOSTS: usize = 1 << 14;

/// The two queues of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// New signatures, in order of arrival.
    Probation,
    /// Signatures that returned after their eviction.
    Protected,
}

/// The cached signatures with a value each, in eviction order.
pub(super) struct TwoQueue<T> {
    indices: IdMap<Hashed<VolumelessSignature>, usize>,
    entries: Vec<Option<Entry<T>>>,
    free: Vec<usize>,
    /// By segment: indices of entries in eviction order.
    order: [VecDeque<usize>; 2],
    /// The weight of all entries on probation, in bytes.
    weight: usize,
    /// Hashes of signatures evicted from probation, in slots by a part of the hash.
    ghosts: Vec<u64>,
    unmarked: MarkWorklist,
}

struct Entry<T> {
    signature: Hashed<VolumelessSignature>,
    value: T,
    weight: usize,
    segment: Segment,
    /// Whether it was used since its last turn in the eviction order.
    is_referenced: bool,
    /// Whether it was used since the last garbage collection.
    is_used: bool,
}

impl<T> Default for TwoQueue<T> {
    fn default() -> Self {
        Self {
            indices: IdMap::default(),
            entries: Vec::new(),
            free: Vec::new(),
            order: Default::default(),
            weight: 0,
            ghosts: Vec::new(),
            unmarked: MarkWorklist::default(),
        }
    }
}

impl<T> TwoQueue<T> {
    /// Returns the number of signatures.
    pub(super) fn len(&self) -> usize {
        self.indices.len()
    }

    /// Returns the number of signatures in a segment.
    pub(super) fn len_of(&self, segment: Segment) -> usize {
        self.order[segment as usize].len()
    }

    /// Returns the weight of all entries on probation, in bytes.
    pub(super) fn probation_weight(&self) -> usize {
        self.weight
    }

    /// Returns the index of a signature and records its use.
    pub(super) fn touch(&mut self, signature: &Hashed<VolumelessSignature>) -> Option<usize> {
        let &index = self.indices.get(signature)?;
        let entry = self.entry(index);
        (entry.is_referenced, entry.is_used) = (true, true);
        Some(index)
    }

    /// Adds a signature that is not in the cache; returns its index.
    pub(super) fn add(&mut self, signature: Hashed<VolumelessSignature>, value: T) -> usize {
        let segment = if self.remove_ghost(&signature) { Segment::Protected } else { Segment::Probation };
        let index = self.free.pop().unwrap_or(self.entries.len());
        if index == self.entries.len() {
            self.entries.push(None);
        }
        self.indices.insert(signature.clone(), index);
        self.entries[index] =
            Some(Entry { signature, value, weight: 0, segment, is_referenced: false, is_used: false });
        self.unmarked.put(index);
        self.order[segment as usize].push_back(index);
        index
    }

    fn entry(&mut self, index: usize) -> &mut Entry<T> {
        self.entries[index].as_mut().expect("the index is in use")
    }

    /// Returns the value at an index.
    pub(super) fn get_mut(&mut self, index: usize) -> &mut T {
        &mut self.entry(index).value
    }

    /// Returns the number of indices, including free ones.
    pub(super) fn indices(&self) -> usize {
        self.entries.len()
    }

    /// Returns the signature and value at an index. Does not count as use.
    pub(super) fn peek(&self, index: usize) -> Option<(&VolumelessSignature, &T)> {
        let entry = self.entries.get(index)?.as_ref()?;
        Some((entry.signature.key(), &entry.value))
    }

    /// Returns the index of a signature. Does not count as use.
    pub(super) fn find(&self, signature: &Hashed<VolumelessSignature>) -> Option<usize> {
        self.indices.get(signature).copied()
    }

    /// Replaces the value and weight at an index; returns the old value.
    pub(super) fn replace(&mut self, index: usize, value: T, weight: usize) -> T {
        let entry = self.entry(index);
        let before = std::mem::replace(&mut entry.weight, weight);
        let (segment, value) = (entry.segment, std::mem::replace(&mut entry.value, value));
        if segment == Segment::Probation {
            self.weight = self.weight + weight - before;
        }
        value
    }

    /// Gives the next entry of a segment its turn: evicts it and returns its value, or moves it to the end.
    ///
    /// It is not evicted if its index is `spared`, or if it is protected and was used since its last turn.
    pub(super) fn evict_next(&mut self, segment: Segment, spared: usize) -> Option<T> {
        let index = self.order[segment as usize].pop_front()?;
        let entry = self.entry(index);
        let is_referenced = std::mem::take(&mut entry.is_referenced) && segment == Segment::Protected;
        if is_referenced || index == spared {
            self.order[segment as usize].push_back(index);
            return None;
        }
        Some(self.remove(index))
    }

    /// Evicts the entry at an index regardless of its turn; returns its value.
    pub(super) fn evict(&mut self, index: usize) -> T {
        let order = &mut self.order[self.entry(index).segment as usize];
        let at = order.iter().rposition(|&other| other == index);
        order.remove(at.expect("every entry is in its segment"));
        self.remove(index)
    }

    fn remove(&mut self, index: usize) -> T {
        let Entry { signature, value, weight, segment, .. } =
            self.entries[index].take().expect("the index is in use");
        self.indices.remove(&signature);
        self.free.push(index);
        if segment == Segment::Probation {
            self.weight -= weight;
            self.add_ghost(&signature);
        }
        value
    }

    /// Starts a garbage collection: all signatures are unmarked.
    pub(super) fn begin_collection(&mut self) {
        self.unmarked.begin(self.entries.len());
    }

    /// Whether a garbage collection is in progress.
    pub(super) fn is_collecting(&self) -> bool {
        self.unmarked.is_on()
    }

    /// Ends a garbage collection.
    pub(super) fn end_collection(&mut self) {
        self.unmarked.end();
    }

    /// Returns the index of the next unmarked signature, and whether it was used since the last garbage collection.
    pub(super) fn next_unmarked(&mut self) -> Option<(usize, bool)> {
        loop {
            let index = self.unmarked.next()?;
            if let Some(Some(entry)) = self.entries.get_mut(index) {
                return Some((index, std::mem::take(&mut entry.is_used)));
            }
        }
    }

    /// Marks the ids of the signature at an index.
    pub(super) fn mark(&mut self, index: usize, marks: &mut Marks) {
        self.entry(index).signature.mark(marks);
    }

    /// Marks all signatures.
    #[cfg(debug_assertions)]
    pub(super) fn mark_all(&self, marks: &mut Marks) {
        self.entries.iter().flatten().for_each(|entry| entry.signature.mark(marks));
    }

    fn add_ghost(&mut self, signature: &Hashed<VolumelessSignature>) {
        let hash = signature.hash_of();
        self.ghosts.resize(GHOSTS, 0);
        self.ghosts[hash as usize % GHOSTS] = hash;
    }

    /// Whether a signature was evicted from probation recently. Removes it from that record.
    fn remove_ghost(&mut self, signature: &Hashed<VolumelessSignature>) -> bool {
        let hash = signature.hash_of();
        let one = self.ghosts.get_mut(hash as usize % GHOSTS);
        one.is_some_and(|one| *one == hash && std::mem::take(one) == hash)
    }
}
