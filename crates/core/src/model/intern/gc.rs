//! One gc round, in slices: first the gc roots mark the ids they hold, then the tables free unmarked ids. This
//! module knows neither the gc roots nor the size of a slice.
//!
//! Inputs are handled between slices. New objects request their ids from the tables, which marks these ids.
//! Existing values may move from an unvisited place to one that was already visited. Therefore a collection
//! that is marked in slices revisits the places that were written in the meantime ([`MarkWorklist`]). This is a
//! write barrier (Dijkstra et al., 1978).

use crate::model::intern::{Marks, Tables};
use crate::switches::mutation::{self, Mutation};
use std::collections::BTreeMap;
use std::ops::Bound;

/// The number of table entries that cost as much as marking one pod.
const ENTRIES: usize = 2;

/// The remaining work of a slice. One unit is about the cost of marking a pod.
pub(crate) struct WorkBudget(usize);

impl WorkBudget {
    /// Creates a budget of this many units.
    pub(crate) fn new(units: usize) -> Self {
        Self(units)
    }

    /// Whether any work remains.
    pub(crate) fn is_left(&self) -> bool {
        self.0 > 0
    }

    /// Subtracts work that was done.
    pub(crate) fn spend(&mut self, units: usize) {
        self.0 = self.0.saturating_sub(units);
    }
}

/// The places of a list that are still to be visited in the current gc round.
#[derive(Default)]
pub(crate) struct MarkWorklist {
    /// One bit for each place.
    places: Vec<u64>,
    /// The first word that may have a set bit.
    first: usize,
    is_on: bool,
}

impl MarkWorklist {
    /// Starts a round for a list with this many places.
    pub(crate) fn begin(&mut self, places: usize) {
        self.places.clear();
        self.places.resize(places.div_ceil(64), u64::MAX);
        (self.first, self.is_on) = (0, true);
    }

    /// Whether a round is in progress.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Ends the round.
    pub(crate) fn end(&mut self) {
        *self = Self::default();
    }

    /// Records a write to a place, which must then be visited again.
    pub(crate) fn put(&mut self, place: usize) {
        if !self.is_on || mutation::is_on(Mutation::MovedObjectsNotMarked) {
            return;
        }
        let word = place / 64;
        if self.places.len() <= word {
            self.places.resize(word + 1, 0);
        }
        self.places[word] |= 1 << (place % 64);
        self.first = self.first.min(word);
    }

    /// Visits some of the remaining places. Returns whether all are visited. `look` returns its cost.
    pub(crate) fn walk(&mut self, work: &mut WorkBudget, mut look: impl FnMut(usize) -> usize) -> bool {
        while work.is_left() {
            let Some(place) = self.next() else { return true };
            work.spend(look(place));
        }
        false
    }

    /// Returns the next place to visit. The place may no longer exist.
    pub(crate) fn next(&mut self) -> Option<usize> {
        while let Some(word) = self.places.get_mut(self.first) {
            if *word != 0 {
                let bit = word.trailing_zeros() as usize;
                *word &= *word - 1;
                return Some(self.first * 64 + bit);
            }
            self.first += 1;
        }
        None
    }
}

/// Marks the entries of an ordered map after the key `after`, which it advances. Returns whether it reached the
/// end.
pub(crate) fn mark_after<K: Copy + Ord, V>(
    map: &BTreeMap<K, V>,
    after: &mut Option<K>,
    work: &mut WorkBudget,
    mut mark: impl FnMut(K, &V),
) -> bool {
    for (&key, value) in map.range((after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded)) {
        if !work.is_left() {
            return false;
        }
        work.spend(1);
        mark(key, value);
        *after = Some(key);
    }
    true
}

/// A gc round in progress.
pub(super) struct Collection {
    pub(super) marks: Marks,
    stage: Stage,
    /// The next place to visit in the table of the current stage.
    at: usize,
    freed: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The gc roots mark the ids they hold.
    Marking,
    LabelSets,
    TaintSets,
    Templates,
    NodeAffinities,
    /// After the other tables, whose entries hold symbols.
    Symbols,
    Over,
}

impl Stage {
    fn next(self) -> Self {
        match self {
            Self::Marking => Self::LabelSets,
            Self::LabelSets => Self::TaintSets,
            Self::TaintSets => Self::Templates,
            Self::Templates => Self::NodeAffinities,
            Self::NodeAffinities => Self::Symbols,
            Self::Symbols | Self::Over => Self::Over,
        }
    }
}

impl Tables {
    /// Whether a gc round is in progress.
    pub(crate) fn is_collecting(&self) -> bool {
        self.round.is_some()
    }

    /// Starts a gc round with nothing marked.
    pub(crate) fn begin_collection(&mut self) {
        self.round =
            Some(Box::new(Collection { marks: Marks::default(), stage: Stage::Marking, at: 0, freed: 0 }));
    }

    /// Returns the marks, to add to them. `None` if no round is in progress or marking is complete.
    pub(crate) fn marks(&mut self) -> Option<&mut Marks> {
        let round = self.round.as_mut().filter(|round| round.stage == Stage::Marking)?;
        Some(&mut round.marks)
    }

    /// Cancels a round whose marking is incomplete, because the places still to be visited have changed.
    pub(crate) fn forget_marks(&mut self) {
        self.round.take_if(|round| round.stage == Stage::Marking);
    }

    /// Ends the mark phase.
    pub(crate) fn all_is_marked(&mut self, marks: Marks) {
        if let Some(round) = &mut self.round {
            (round.marks, round.stage) = (marks, Stage::LabelSets);
            self.rounds += 1;
        }
    }

    /// Returns the number of completed mark phases. After each, an id that was not marked may be assigned to
    /// another text.
    pub(crate) fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Frees some of the ids that are neither marked nor pinned. At the end of the round, returns the number of
    /// ids freed in it.
    pub(crate) fn sweep(&mut self, work: &mut WorkBudget) -> Option<usize> {
        let mut round = self.round.take()?;
        let before = self.sizes().total();
        while work.is_left() && round.stage != Stage::Over {
            let entries = work.0.saturating_mul(ENTRIES);
            let visited = self.sweep_some(&mut round, entries);
            work.spend(visited.div_ceil(ENTRIES));
            if visited < entries {
                (round.stage, round.at) = (round.stage.next(), 0);
            } else {
                round.at += visited;
            }
        }
        round.freed += before - self.sizes().total();
        if round.stage == Stage::Over {
            self.held = self.sizes().total();
            return Some(round.freed);
        }
        self.round = Some(round);
        None
    }

    /// Visits up to this many entries of the current table and returns the number of visited ones.
    fn sweep_some(&mut self, Collection { marks, stage, at, .. }: &mut Collection, entries: usize) -> usize {
        let places = *at..at.saturating_add(entries);
        match stage {
            Stage::Marking | Stage::Over => 0,
            Stage::LabelSets => {
                self.label_sets
                    .sweep_range(places, marks, &self.pinned.label_sets, |marks| &mut marks.label_sets)
            }
            Stage::TaintSets => {
                self.taint_sets
                    .sweep_range(places, marks, &self.pinned.taint_sets, |marks| &mut marks.taint_sets)
            }
            Stage::Templates => self.templates.sweep_range(places),
            Stage::NodeAffinities => self.node_affinities.sweep_range(places),
            Stage::Symbols => {
                let is_held = |at| marks.symbols.has(at) || self.pinned.symbols.has(at);
                self.texts.sweep_range(places, |at, _| is_held(at))
            }
        }
    }
}
