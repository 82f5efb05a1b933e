//! Which signatures are known, and which of them goes next. Does not know what is known of them, nor when something has to go.
//!
//! Most signatures are met in one burst and never again, so newcomers go in the order they came in, however often they were met
//! meanwhile. One that is met again after it went is proven; of the proven, one goes that was not met since its turn came last. So a
//! stream of signatures that nobody needs twice passes by those that are needed again and again. Upstream has nothing like it; the
//! idea is that of 2Q (Johnson and Shasha, 1994).

use crate::hash::{Hashed, IdMap};
use crate::intern::{HoldsIds, Marks, Unmarked};
use crate::signature::VolumelessSignature;
use std::collections::VecDeque;

/// Of so many signatures that went, most are told from those that were never met.
const GHOSTS: usize = 1 << 14;

/// Signatures that go one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// Met for the first time, as far as anybody knows.
    Probation,
    /// Met again after they went.
    Protected,
}

/// Signatures with what is known of each.
pub(super) struct TwoQueue<T> {
    indices: IdMap<Hashed<VolumelessSignature>, usize>,
    entries: Vec<Option<Entry<T>>>,
    free: Vec<usize>,
    /// By ring, places in the order of their turns.
    order: [VecDeque<usize>; 2],
    /// Cached all newcomers weigh.
    weight: usize,
    /// By a part of their hash, the hashes of newcomers that went.
    ghosts: Vec<u64>,
    unmarked: Unmarked,
}

struct Entry<T> {
    signature: Hashed<VolumelessSignature>,
    value: T,
    weight: usize,
    segment: Segment,
    /// It was, since its turn came last.
    is_referenced: bool,
    /// It was, since ids were looked for last.
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
            unmarked: Unmarked::default(),
        }
    }
}

impl<T> TwoQueue<T> {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.indices.len()
    }

    /// How many are of a ring.
    pub(super) fn len_of(&self, segment: Segment) -> usize {
        self.order[segment as usize].len()
    }

    /// Cached all newcomers weigh.
    pub(super) fn probation_weight(&self) -> usize {
        self.weight
    }

    /// Where a signature stands that is met now.
    pub(super) fn touch(&mut self, signature: &Hashed<VolumelessSignature>) -> Option<usize> {
        let &index = self.indices.get(signature)?;
        let entry = self.entry(index);
        (entry.is_referenced, entry.is_used) = (true, true);
        Some(index)
    }

    /// Where a signature stands from now on that stood nowhere.
    pub(super) fn add(&mut self, signature: Hashed<VolumelessSignature>, value: T) -> usize {
        let segment = if self.is_ghost(&signature) { Segment::Protected } else { Segment::Probation };
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
        self.entries[index].as_mut().expect("it stands there")
    }

    /// Cached is known.
    pub(super) fn at(&mut self, index: usize) -> &mut T {
        &mut self.entry(index).value
    }

    /// How many places there are, free ones included.
    pub(super) fn indices(&self) -> usize {
        self.entries.len()
    }

    /// A signature and what is known of it, if one stands there. It does not count as met.
    pub(super) fn peek(&self, index: usize) -> Option<(&VolumelessSignature, &T)> {
        let entry = self.entries.get(index)?.as_ref()?;
        Some((entry.signature.key(), &entry.value))
    }

    /// Where a signature stands. It does not count as met.
    pub(super) fn find(&self, signature: &Hashed<VolumelessSignature>) -> Option<usize> {
        self.indices.get(signature).copied()
    }

    /// This is known from now on, and weighs so much; what was before.
    pub(super) fn replace(&mut self, index: usize, value: T, weight: usize) -> T {
        let entry = self.entry(index);
        let before = std::mem::replace(&mut entry.weight, weight);
        let (segment, value) = (entry.segment, std::mem::replace(&mut entry.value, value));
        if segment == Segment::Probation {
            self.weight = self.weight + weight - before;
        }
        value
    }

    /// It is the turn of one of a ring: what was known of it, if it goes. One that is to be spared stays.
    pub(super) fn evict_next(&mut self, segment: Segment, spared: usize) -> Option<T> {
        let index = self.order[segment as usize].pop_front()?;
        let entry = self.entry(index);
        let is_referenced = std::mem::take(&mut entry.is_referenced) && segment == Segment::Protected;
        if is_referenced || index == spared {
            self.order[segment as usize].push_back(index);
            return None;
        }
        Some(self.take(index))
    }

    /// Lets one go, whoever's turn it is; what was known.
    pub(super) fn evict(&mut self, index: usize) -> T {
        let order = &mut self.order[self.entry(index).segment as usize];
        let at = order.iter().rposition(|&other| other == index);
        order.remove(at.expect("whoever is there has a turn"));
        self.take(index)
    }

    fn take(&mut self, index: usize) -> T {
        let Entry { signature, value, weight, segment, .. } =
            self.entries[index].take().expect("it stands there");
        self.indices.remove(&signature);
        self.free.push(index);
        if segment == Segment::Probation {
            self.weight -= weight;
            self.remember_gone(&signature);
        }
        value
    }

    /// All signatures are to be marked.
    pub(super) fn begin_round(&mut self) {
        self.unmarked.begin(self.entries.len());
    }

    /// Whether there may be some that are still to be marked.
    pub(super) fn is_in_round(&self) -> bool {
        self.unmarked.is_on()
    }

    /// All are marked.
    pub(super) fn end_round(&mut self) {
        self.unmarked.end();
    }

    /// Where a signature stands that is still to be marked, and whether it was met again since it was so last.
    pub(super) fn next_unmarked(&mut self) -> Option<(usize, bool)> {
        loop {
            let index = self.unmarked.next()?;
            if let Some(Some(entry)) = self.entries.get_mut(index) {
                return Some((index, std::mem::take(&mut entry.is_used)));
            }
        }
    }

    /// Marks the signature at a place, of whose ids is all that is known of it.
    pub(super) fn mark(&mut self, index: usize, marks: &mut Marks) {
        self.entry(index).signature.mark(marks);
    }

    /// Marks all signatures.
    #[cfg(debug_assertions)]
    pub(super) fn mark_all(&self, marks: &mut Marks) {
        self.entries.iter().flatten().for_each(|entry| entry.signature.mark(marks));
    }

    fn remember_gone(&mut self, signature: &Hashed<VolumelessSignature>) {
        let hash = signature.hash_of();
        self.ghosts.resize(GHOSTS, 0);
        self.ghosts[hash as usize % GHOSTS] = hash;
    }

    /// Whether a signature is one of those that went, which it no longer is afterwards.
    fn is_ghost(&mut self, signature: &Hashed<VolumelessSignature>) -> bool {
        let hash = signature.hash_of();
        let one = self.ghosts.get_mut(hash as usize % GHOSTS);
        one.is_some_and(|one| *one == hash && std::mem::take(one) == hash)
    }
}
