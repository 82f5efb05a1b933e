//! Which signatures are known, and which of them goes next. Does not know what is known of them, nor when something has to go.
//!
//! Most signatures are met in one burst and never again, so newcomers go in the order they came in, however often they were met
//! meanwhile. One that is met again after it went is proven; of the proven, one goes that was not met since its turn came last. So a
//! stream of signatures that nobody needs twice passes by those that are needed again and again. Upstream has nothing like it; the
//! idea is that of 2Q (Johnson and Shasha, 1994).

use crate::hash::{Hashed, IdMap};
use crate::intern::{HoldsIds, Marks, Unmarked};
use crate::signature::ShapeSignature;
use std::collections::VecDeque;

/// Of so many signatures that went, most are told from those that were never met.
const GONE: usize = 1 << 14;

/// Signatures that go one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ring {
    /// Met for the first time, as far as anybody knows.
    Newcomers,
    /// Met again after they went.
    Proven,
}

/// Signatures with what is known of each.
pub(super) struct Known<T> {
    places: IdMap<Hashed<ShapeSignature>, usize>,
    entries: Vec<Option<Entry<T>>>,
    free: Vec<usize>,
    /// By ring, places in the order of their turns.
    order: [VecDeque<usize>; 2],
    /// What all newcomers weigh.
    weight: usize,
    /// By a part of their hash, the hashes of newcomers that went.
    gone: Vec<u64>,
    unmarked: Unmarked,
}

struct Entry<T> {
    signature: Hashed<ShapeSignature>,
    what: T,
    weight: usize,
    ring: Ring,
    /// It was, since its turn came last.
    is_met: bool,
    /// It was, since ids were looked for last.
    is_used: bool,
}

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self {
            places: IdMap::default(),
            entries: Vec::new(),
            free: Vec::new(),
            order: Default::default(),
            weight: 0,
            gone: Vec::new(),
            unmarked: Unmarked::default(),
        }
    }
}

impl<T> Known<T> {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// How many are of a ring.
    pub(super) fn len_of(&self, ring: Ring) -> usize {
        self.order[ring as usize].len()
    }

    /// What all newcomers weigh.
    pub(super) fn newcomers_weigh(&self) -> usize {
        self.weight
    }

    /// Where a signature stands that is met now.
    pub(super) fn meet(&mut self, signature: &Hashed<ShapeSignature>) -> Option<usize> {
        let &place = self.places.get(signature)?;
        let entry = self.entry(place);
        (entry.is_met, entry.is_used) = (true, true);
        Some(place)
    }

    /// Where a signature stands from now on that stood nowhere.
    pub(super) fn add(&mut self, signature: Hashed<ShapeSignature>, what: T) -> usize {
        let ring = if self.is_gone(&signature) { Ring::Proven } else { Ring::Newcomers };
        let place = self.free.pop().unwrap_or(self.entries.len());
        if place == self.entries.len() {
            self.entries.push(None);
        }
        self.places.insert(signature.clone(), place);
        self.entries[place] = Some(Entry { signature, what, weight: 0, ring, is_met: false, is_used: false });
        self.unmarked.put(place);
        self.order[ring as usize].push_back(place);
        place
    }

    fn entry(&mut self, place: usize) -> &mut Entry<T> {
        self.entries[place].as_mut().expect("it stands there")
    }

    /// What is known.
    pub(super) fn at(&mut self, place: usize) -> &mut T {
        &mut self.entry(place).what
    }

    /// How many places there are, free ones included.
    pub(super) fn places(&self) -> usize {
        self.entries.len()
    }

    /// A signature and what is known of it, if one stands there. It does not count as met.
    pub(super) fn peek(&self, place: usize) -> Option<(&ShapeSignature, &T)> {
        let entry = self.entries.get(place)?.as_ref()?;
        Some((entry.signature.key(), &entry.what))
    }

    /// Where a signature stands. It does not count as met.
    pub(super) fn find(&self, signature: &Hashed<ShapeSignature>) -> Option<usize> {
        self.places.get(signature).copied()
    }

    /// This is known from now on, and weighs so much; what was before.
    pub(super) fn replace(&mut self, place: usize, what: T, weight: usize) -> T {
        let entry = self.entry(place);
        let before = std::mem::replace(&mut entry.weight, weight);
        let (ring, what) = (entry.ring, std::mem::replace(&mut entry.what, what));
        if ring == Ring::Newcomers {
            self.weight = self.weight + weight - before;
        }
        what
    }

    /// It is the turn of one of a ring: what was known of it, if it goes. One that is to be spared stays.
    pub(super) fn turn(&mut self, ring: Ring, spared: usize) -> Option<T> {
        let place = self.order[ring as usize].pop_front()?;
        let entry = self.entry(place);
        let is_met = std::mem::take(&mut entry.is_met) && ring == Ring::Proven;
        if is_met || place == spared {
            self.order[ring as usize].push_back(place);
            return None;
        }
        Some(self.take(place))
    }

    /// Lets one go, whoever's turn it is; what was known.
    pub(super) fn let_go(&mut self, place: usize) -> T {
        let order = &mut self.order[self.entry(place).ring as usize];
        let at = order.iter().rposition(|&other| other == place);
        order.remove(at.expect("whoever is there has a turn"));
        self.take(place)
    }

    fn take(&mut self, place: usize) -> T {
        let Entry { signature, what, weight, ring, .. } =
            self.entries[place].take().expect("it stands there");
        self.places.remove(&signature);
        self.free.push(place);
        if ring == Ring::Newcomers {
            self.weight -= weight;
            self.remember_gone(&signature);
        }
        what
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
            let place = self.unmarked.next()?;
            if let Some(Some(entry)) = self.entries.get_mut(place) {
                return Some((place, std::mem::take(&mut entry.is_used)));
            }
        }
    }

    /// Marks the signature at a place, of whose ids is all that is known of it.
    pub(super) fn mark(&mut self, place: usize, marks: &mut Marks) {
        self.entry(place).signature.mark(marks);
    }

    /// Marks all signatures.
    #[cfg(debug_assertions)]
    pub(super) fn mark_all(&self, marks: &mut Marks) {
        self.entries.iter().flatten().for_each(|entry| entry.signature.mark(marks));
    }

    fn remember_gone(&mut self, signature: &Hashed<ShapeSignature>) {
        let hash = signature.hash_of();
        self.gone.resize(GONE, 0);
        self.gone[hash as usize % GONE] = hash;
    }

    /// Whether a signature is one of those that went, which it no longer is afterwards.
    fn is_gone(&mut self, signature: &Hashed<ShapeSignature>) -> bool {
        let hash = signature.hash_of();
        let one = self.gone.get_mut(hash as usize % GONE);
        one.is_some_and(|one| *one == hash && std::mem::take(one) == hash)
    }
}
