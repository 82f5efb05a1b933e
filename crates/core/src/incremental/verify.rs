//! LiveSignature signatures one by one, for a comparison of what is cached of them with a full evaluation. Compares nothing itself.
//!
//! A signature that is looked at here does not count as met: which ones go next, and what the next decision finds, stays the same.

use super::{Cached, CachedDecision, DecisionCache};
use crate::cache::Snapshot;
use crate::cycle::{Failed, Framework, NoProbe, PostFilter};
use crate::framework::post_filter::Draws;
use crate::hash::Hashed;
use crate::pod::PodInfo;
use crate::signature::{NodeSignature, VolumelessSignature};
use crate::time::Time;
use std::sync::Arc;

/// A signature with a cached answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LiveSignature {
    /// Where pods of it can go.
    Decision {
        /// Where it stands.
        index: usize,
    },
    /// Why no node can take them.
    Refusal {
        /// Where it stands, until the next decision.
        at: usize,
    },
}

impl DecisionCache {
    /// Sets the time of what is made or compared from now on.
    pub(crate) fn tick(&mut self, now: Time) {
        self.now = now;
    }

    /// Whether there is no signature at all.
    pub(crate) fn has_none(&self) -> bool {
        self.signatures.len() == 0 && self.infeasible.signatures.is_empty()
    }

    /// When the live signature was made or compared of which that is longest ago. Looks at each.
    pub(crate) fn oldest_check(&self) -> Option<Time> {
        let decisions = (0..self.signatures.indices()).filter_map(|index| self.checked(index));
        decisions.chain(self.infeasible.signatures.iter().map(|refused| refused.checked)).min()
    }

    fn checked(&self, index: usize) -> Option<Time> {
        match self.signatures.peek(index)? {
            (_, Cached::State(state)) => Some(state.checked),
            (_, Cached::Unseen | Cached::Uncacheable { .. }) => None,
        }
    }

    /// The next signature that was neither made nor compared since `since`, with a pod that stands for it; it counts as compared. The
    /// cursor begins at 0 and passes each place once.
    pub(crate) fn next_unchecked(
        &mut self,
        cursor: &mut usize,
        since: Time,
    ) -> Option<(LiveSignature, Arc<PodInfo>)> {
        while *cursor < self.signatures.indices() {
            let index = *cursor;
            *cursor += 1;
            if self.checked(index).is_some_and(|checked| checked < since)
                && let Cached::State(state) = self.signatures.at(index)
            {
                state.checked = self.now;
                let (signature, _) = self.signatures.peek(index)?;
                return Some((LiveSignature::Decision { index }, signature.bare()));
            }
        }
        // These change their order with every decision, and are few.
        let at = self.infeasible.signatures.iter().position(|refused| refused.checked < since)?;
        let refused = &mut self.infeasible.signatures[at];
        refused.checked = self.now;
        Some((LiveSignature::Refusal { at }, refused.signature.key().bare()))
    }

    /// Forgets what is known of the signature at a place, but not the signature.
    fn forget_at(&mut self, index: usize) {
        let evicted = self.signatures.replace(index, Cached::Unseen, 0);
        self.bytes -= evicted.released(&mut self.evaluations);
    }

    /// Forgets all that an answer to pods like this one was made from: what is known of its signature, of all that grow from the same
    /// trunk, and what new ones would start from.
    pub(crate) fn evict(&mut self, pod: &Arc<PodInfo>) {
        let signature = Hashed::of(VolumelessSignature::of(pod), &self.hashing);
        let evaluation = self.signatures.find(&signature).and_then(|index| self.evaluation_of(index));
        for index in 0..self.signatures.indices() {
            if evaluation.is_some() && self.evaluation_of(index) == evaluation {
                self.forget_at(index);
            }
        }
        self.topology_index.clear();
        self.base_partitions.clear();
        let node_signature = Hashed::of(NodeSignature::of(pod), &self.hashing);
        self.infeasible.signatures.retain(|refused| refused.signature != node_signature);
    }

    fn evaluation_of(&self, index: usize) -> Option<usize> {
        match self.signatures.peek(index)? {
            (_, Cached::State(state)) => Some(state.evaluation()),
            (_, Cached::Unseen | Cached::Uncacheable { .. }) => None,
        }
    }
}

impl Framework {
    /// Cached [`Self::decide_cached`] would answer for a live signature; `None` where it would ask [`Self::decide`]. Cached cannot be
    /// brought up to date is forgotten, as a decision would make it anew.
    pub(crate) fn redecide<'a>(
        &self,
        decisions: &'a mut DecisionCache,
        index: usize,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
    ) -> Option<CachedDecision<'a>> {
        if !decisions.is_fresh(index, snapshot) {
            decisions.forget_at(index);
            return None;
        }
        let DecisionCache { signatures, evaluations, .. } = decisions;
        let Cached::State(state) = signatures.at(index) else { return None };
        let evaluation = evaluations.at_mut(state.evaluation());
        let rules = state.decide(self, evaluation, pod, snapshot, &mut NoProbe).ok()?;
        Some(CachedDecision { state, evaluation, rules })
    }

    /// The same of [`Self::reject_cached`].
    pub(crate) fn reject_again<R>(
        &self,
        decisions: &mut DecisionCache,
        at: usize,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        draws: (Draws, Time),
        then: impl FnOnce(Failed<'_>, &PostFilter<'_>) -> R,
    ) -> Option<R> {
        let refused = decisions.infeasible.signatures.get_mut(at)?;
        self.reject_from(refused, pod, snapshot, draws, &mut NoProbe, then)
    }
}
