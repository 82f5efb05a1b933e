//! Live signatures one by one, for a comparison of what is cached of them with a full evaluation. Compares nothing itself.
//!
//! A signature that is looked at here does not count as met: which ones go next, and what the next decision finds, stays the same.

use super::{Quick, Shapes, What};
use crate::cache::Snapshot;
use crate::cycle::{Failed, Framework, NoProbe, PostFilter};
use crate::framework::post_filter::Draws;
use crate::hash::Hashed;
use crate::pod::PodInfo;
use crate::signature::{NodeSignature, ShapeSignature};
use crate::time::Time;
use std::sync::Arc;

/// A signature with a cached answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Live {
    /// Where pods of it can go.
    Decision {
        /// Where it stands.
        place: usize,
    },
    /// Why no node can take them.
    Refusal {
        /// Where it stands, until the next decision.
        at: usize,
    },
}

impl Shapes {
    /// Sets the time of what is made or compared from now on.
    pub(crate) fn tick(&mut self, now: Time) {
        self.now = now;
    }

    /// Whether there is no signature at all.
    pub(crate) fn has_none(&self) -> bool {
        self.known.len() == 0 && self.refusals.known.is_empty()
    }

    /// When the live signature was made or compared of which that is longest ago. Looks at each.
    pub(crate) fn oldest_check(&self) -> Option<Time> {
        let decisions = (0..self.known.places()).filter_map(|place| self.checked(place));
        decisions.chain(self.refusals.known.iter().map(|refused| refused.checked)).min()
    }

    fn checked(&self, place: usize) -> Option<Time> {
        match self.known.peek(place)? {
            (_, What::Shape(shape)) => Some(shape.checked),
            (_, What::Nothing | What::Never { .. }) => None,
        }
    }

    /// The next signature that was neither made nor compared since `since`, with a pod that stands for it; it counts as compared. The
    /// cursor begins at 0 and passes each place once.
    pub(crate) fn next_unchecked(&mut self, cursor: &mut usize, since: Time) -> Option<(Live, Arc<PodInfo>)> {
        while *cursor < self.known.places() {
            let place = *cursor;
            *cursor += 1;
            if self.checked(place).is_some_and(|checked| checked < since)
                && let What::Shape(shape) = self.known.at(place)
            {
                shape.checked = self.now;
                let (signature, _) = self.known.peek(place)?;
                return Some((Live::Decision { place }, signature.bare()));
            }
        }
        // These change their order with every decision, and are few.
        let at = self.refusals.known.iter().position(|refused| refused.checked < since)?;
        let refused = &mut self.refusals.known[at];
        refused.checked = self.now;
        Some((Live::Refusal { at }, refused.signature.key().bare()))
    }

    /// Forgets what is known of the signature at a place, but not the signature.
    fn forget_at(&mut self, place: usize) {
        let gone = self.known.replace(place, What::Nothing, 0);
        self.bytes -= gone.released(&mut self.trunks);
    }

    /// Forgets all that an answer to pods like this one was made from: what is known of its signature, of all that grow from the same
    /// trunk, and what new ones would start from.
    pub(crate) fn evict(&mut self, pod: &Arc<PodInfo>) {
        let signature = Hashed::of(ShapeSignature::of(pod), &self.hashing);
        let trunk = self.known.find(&signature).and_then(|place| self.trunk_of(place));
        for place in 0..self.known.places() {
            if trunk.is_some() && self.trunk_of(place) == trunk {
                self.forget_at(place);
            }
        }
        self.atlas.clear();
        self.stems.clear();
        let node_signature = Hashed::of(NodeSignature::of(pod), &self.hashing);
        self.refusals.known.retain(|refused| refused.signature != node_signature);
    }

    fn trunk_of(&self, place: usize) -> Option<usize> {
        match self.known.peek(place)? {
            (_, What::Shape(shape)) => Some(shape.trunk()),
            (_, What::Nothing | What::Never { .. }) => None,
        }
    }
}

impl Framework {
    /// What [`Self::decide_quickly`] would answer for a live signature; `None` where it would ask [`Self::decide`]. What cannot be
    /// brought up to date is forgotten, as a decision would make it anew.
    pub(crate) fn redecide<'a>(
        &self,
        shapes: &'a mut Shapes,
        place: usize,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
    ) -> Option<Quick<'a>> {
        if !shapes.is_fresh(place, snapshot) {
            shapes.forget_at(place);
            return None;
        }
        let Shapes { known, trunks, .. } = shapes;
        let What::Shape(shape) = known.at(place) else { return None };
        let trunk = trunks.at_mut(shape.trunk());
        let rules = shape.decide(self, trunk, pod, snapshot, &mut NoProbe).ok()?;
        Some(Quick { shape, trunk, rules })
    }

    /// The same of [`Self::refuse`].
    pub(crate) fn refuse_again<R>(
        &self,
        shapes: &mut Shapes,
        at: usize,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        draws: (Draws, Time),
        then: impl FnOnce(Failed<'_>, &PostFilter<'_>) -> R,
    ) -> Option<R> {
        let refused = shapes.refusals.known.get_mut(at)?;
        self.refuse_as(refused, pod, snapshot, draws, &mut NoProbe, then)
    }
}
