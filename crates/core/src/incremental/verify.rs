//! Iterates over live signatures, so that a verification can compare each cached answer with a full evaluation.
//!
//! The comparison itself is in `scheduler/verify.rs`. Verification does not count as use: the order of evictions and
//! the next decisions do not change.

use super::{Cached, CachedDecision, DecisionCache};
use crate::cache::Snapshot;
use crate::collections::hash::Hashed;
use crate::cycle::{Framework, InfeasibleDecision, NoProbe, PostFilter};
use crate::framework::post_filter::Draws;
use crate::model::pod::PodInfo;
use crate::model::signature::{NodeSignature, VolumelessSignature};
use crate::model::time::Time;
use std::sync::Arc;

/// A signature with a cached answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LiveSignature {
    /// A cached decision.
    Decision {
        /// Index in the decision cache.
        index: usize,
    },
    /// A cached rejection by all nodes.
    Rejection {
        /// Index in the infeasible cache, valid until the next decision.
        at: usize,
    },
}

impl DecisionCache {
    /// Sets the time that new and compared signatures get as their last check.
    pub(crate) fn set_now(&mut self, now: Time) {
        self.now = now;
    }

    /// Whether both caches are empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.signatures.len() == 0 && self.infeasible.entries.is_empty()
    }

    /// Returns the oldest time of creation or last comparison of all live signatures. Linear in their number.
    pub(crate) fn oldest_check(&self) -> Option<Time> {
        let decisions = (0..self.signatures.indices()).filter_map(|index| self.checked(index));
        decisions.chain(self.infeasible.entries.iter().map(|entry| entry.checked)).min()
    }

    fn checked(&self, index: usize) -> Option<Time> {
        match self.signatures.peek(index)? {
            (_, Cached::State(state)) => Some(state.checked),
            (_, Cached::Unseen | Cached::Uncacheable { .. }) => None,
        }
    }

    /// Returns the next signature that was last checked before `since`, with a pod of that signature. It counts as
    /// checked.
    ///
    /// The cursor starts at 0 and visits each index once.
    pub(crate) fn next_unchecked(
        &mut self,
        cursor: &mut usize,
        since: Time,
    ) -> Option<(LiveSignature, Arc<PodInfo>)> {
        while *cursor < self.signatures.indices() {
            let index = *cursor;
            *cursor += 1;
            if self.checked(index).is_some_and(|checked| checked < since)
                && let Cached::State(state) = self.signatures.get_mut(index)
            {
                state.checked = self.now;
                let (signature, _) = self.signatures.peek(index)?;
                return Some((LiveSignature::Decision { index }, signature.bare()));
            }
        }
        // Their indices change with every decision, so there is no cursor. There are at most 64.
        let at = self.infeasible.entries.iter().position(|entry| entry.checked < since)?;
        let entry = &mut self.infeasible.entries[at];
        entry.checked = self.now;
        Some((LiveSignature::Rejection { at }, entry.signature.key().bare()))
    }

    /// Removes the state of the signature at an index, but keeps the signature.
    fn remove_state(&mut self, index: usize) {
        let evicted = self.signatures.replace(index, Cached::Unseen, 0);
        self.bytes -= evicted.release(&mut self.evaluations);
    }

    /// Removes everything that the answer for this pod was computed from.
    ///
    /// That is the state of its signature, of all signatures with the same node evaluation, and the shared topology
    /// index, base partitions and device results.
    pub(crate) fn evict(&mut self, pod: &Arc<PodInfo>) {
        let signature = Hashed::of(VolumelessSignature::of(pod), &self.hashing);
        let evaluation = self.signatures.find(&signature).and_then(|index| self.evaluation_of(index));
        for index in 0..self.signatures.indices() {
            if evaluation.is_some() && self.evaluation_of(index) == evaluation {
                self.remove_state(index);
            }
        }
        self.topology_index.clear();
        self.base_partitions.clear();
        self.device_results.clear();
        let node_signature = Hashed::of(NodeSignature::of(pod), &self.hashing);
        self.infeasible.entries.retain(|entry| entry.signature != node_signature);
        self.infeasible.exact.evict(pod, &self.hashing);
    }

    fn evaluation_of(&self, index: usize) -> Option<usize> {
        match self.signatures.peek(index)? {
            (_, Cached::State(state)) => Some(state.evaluation()),
            (_, Cached::Unseen | Cached::Uncacheable { .. }) => None,
        }
    }
}

impl Framework {
    /// Returns the cached decision of a live signature, as [`Self::decide_cached`] would; `None` if the cache cannot
    /// answer.
    ///
    /// A state that cannot be updated is removed; the next decision would recompute it.
    pub(crate) fn redecide<'a>(
        &self,
        decisions: &'a mut DecisionCache,
        index: usize,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
    ) -> Option<CachedDecision<'a>> {
        if !decisions.refresh(index, snapshot) {
            decisions.remove_state(index);
            return None;
        }
        let DecisionCache { signatures, evaluations, device_results, .. } = decisions;
        let Cached::State(state) = signatures.get_mut(index) else { return None };
        let evaluation = evaluations.at_mut(state.evaluation());
        let rules =
            state.decide(self, (evaluation, device_results), pod, (snapshot, None), &mut NoProbe).ok()?;
        Some(CachedDecision { state, evaluation, rules })
    }

    /// Rejects a live signature's pod from the cache, as [`Self::reject_cached`] does.
    pub(crate) fn reject_again<R>(
        &self,
        decisions: &mut DecisionCache,
        at: usize,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        draws: (Draws, Time),
        then: impl FnOnce(InfeasibleDecision<'_>, &PostFilter<'_>) -> R,
    ) -> Option<R> {
        let entry = decisions.infeasible.entries.get_mut(at)?;
        self.reject_from(entry, pod, snapshot, draws, &mut NoProbe, then)
    }
}
