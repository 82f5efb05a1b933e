//! One look for ids that nobody holds, in pieces: first everything in the engine marks the ids it holds, then the tables give back
//! what was not marked. Does not know who holds ids, nor how much is done at a time.
//!
//! Between two pieces things go on. What comes in meanwhile asks the tables for its ids, and thereby marks them. What was there may
//! move from where nobody has looked yet to where somebody has: whoever is walked through in pieces therefore looks again at what was
//! put there since ([`Unmarked`]). This is what collectors of garbage call a write barrier (Dijkstra and others, 1978).

use super::{Marks, Tables};
use crate::mutation::{self, Mutation};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Entries of the tables that are looked at, and given back, for the price of one pod.
const ENTRIES: usize = 2;

/// How much may still be done before others have their turn; the unit is about what it takes to mark a pod.
pub(crate) struct Work(usize);

impl Work {
    /// So much.
    pub(crate) fn new(units: usize) -> Self {
        Self(units)
    }

    /// Whether there is anything left.
    pub(crate) fn is_left(&self) -> bool {
        self.0 > 0
    }

    /// This was done.
    pub(crate) fn spend(&mut self, units: usize) {
        self.0 = self.0.saturating_sub(units);
    }
}

/// Which places of a list are to be looked at before a round is over.
#[derive(Default)]
pub(crate) struct Unmarked {
    /// A bit a place.
    places: Vec<u64>,
    /// No bit is set before this word.
    first: usize,
    is_on: bool,
}

impl Unmarked {
    /// A round begins: these are all places there are.
    pub(crate) fn begin(&mut self, places: usize) {
        self.places.clear();
        self.places.resize(places.div_ceil(64), u64::MAX);
        (self.first, self.is_on) = (0, true);
    }

    /// Whether a round began and did not end.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Nobody looks for ids any more.
    pub(crate) fn end(&mut self) {
        *self = Self::default();
    }

    /// Something was put there.
    pub(crate) fn put(&mut self, place: usize) {
        if !self.is_on || mutation::is_on(Mutation::MovedUnmarked) {
            return;
        }
        let word = place / 64;
        if self.places.len() <= word {
            self.places.resize(word + 1, 0);
        }
        self.places[word] |= 1 << (place % 64);
        self.first = self.first.min(word);
    }

    /// Looks at some of the places that are to be; whether those are all. `look` says what that cost.
    pub(crate) fn walk(&mut self, work: &mut Work, mut look: impl FnMut(usize) -> usize) -> bool {
        while work.is_left() {
            let Some(place) = self.next() else { return true };
            work.spend(look(place));
        }
        false
    }

    /// A place to look at; one that there is no more, maybe.
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

/// Marks what an ordered map holds after a key, which moves on; whether that was all.
pub(crate) fn mark_after<K: Copy + Ord, V>(
    map: &BTreeMap<K, V>,
    after: &mut Option<K>,
    work: &mut Work,
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

/// A round that is on.
pub(super) struct Round {
    pub(super) marks: Marks,
    stage: Stage,
    /// In the table of the stage, what is before this place was looked at.
    at: usize,
    given_back: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Ids are marked by who holds them.
    Marking,
    LabelSets,
    TaintSets,
    Templates,
    NodeAffinities,
    /// After the sets, which hold some.
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
    /// Whether a round is on.
    pub(crate) fn are_in_round(&self) -> bool {
        self.round.is_some()
    }

    /// A round begins, with nothing marked.
    pub(crate) fn begin_round(&mut self) {
        self.round =
            Some(Box::new(Round { marks: Marks::default(), stage: Stage::Marking, at: 0, given_back: 0 }));
    }

    /// What is marked so far, to mark more; nothing where no round is on, or all is marked.
    pub(crate) fn marks(&mut self) -> Option<&mut Marks> {
        let round = self.round.as_mut().filter(|round| round.stage == Stage::Marking)?;
        Some(&mut round.marks)
    }

    /// Gives up a round if not all is marked yet: places that are still to be looked at are not what they were.
    pub(crate) fn forget_marks(&mut self) {
        self.round.take_if(|round| round.stage == Stage::Marking);
    }

    /// Whoever holds ids has marked them all.
    pub(crate) fn all_is_marked(&mut self, marks: Marks) {
        if let Some(round) = &mut self.round {
            (round.marks, round.stage) = (marks, Stage::LabelSets);
            self.rounds += 1;
        }
    }

    /// How often all was marked. Since then an id may mean something else to whom nobody asked.
    pub(crate) fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Gives back some of the ids that are neither marked nor pinned; how many it were in the whole round, when it is over.
    pub(crate) fn give_back(&mut self, work: &mut Work) -> Option<usize> {
        let mut round = self.round.take()?;
        let before = self.sizes().total();
        while work.is_left() && round.stage != Stage::Over {
            let entries = work.0.saturating_mul(ENTRIES);
            let looked_at = self.keep_marked(&mut round, entries);
            work.spend(looked_at.div_ceil(ENTRIES));
            if looked_at < entries {
                (round.stage, round.at) = (round.stage.next(), 0);
            } else {
                round.at += looked_at;
            }
        }
        round.given_back += before - self.sizes().total();
        if round.stage == Stage::Over {
            self.held = self.sizes().total();
            return Some(round.given_back);
        }
        self.round = Some(round);
        None
    }

    /// Looks at so many entries of a table, or as many as are left; how many it were.
    fn keep_marked(&mut self, Round { marks, stage, at, .. }: &mut Round, entries: usize) -> usize {
        let places = *at..at.saturating_add(entries);
        match stage {
            Stage::Marking | Stage::Over => 0,
            Stage::LabelSets => {
                self.label_sets.keep(places, marks, &self.pinned.label_sets, |marks| &mut marks.label_sets)
            }
            Stage::TaintSets => {
                self.taint_sets.keep(places, marks, &self.pinned.taint_sets, |marks| &mut marks.taint_sets)
            }
            Stage::Templates => self.templates.keep(places),
            Stage::NodeAffinities => self.node_affinities.keep(places),
            Stage::Symbols => {
                let is_held = |at| marks.symbols.has(at) || self.pinned.symbols.has(at);
                self.texts.keep(places, |at, _| is_held(at))
            }
        }
    }
}
