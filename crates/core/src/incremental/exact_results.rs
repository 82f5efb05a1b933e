//! The exact level of the infeasible cache: whole results, reused while the cluster does not change at all.
//!
//! A workload that does not fit has many identical pods. Without this level each of them would evaluate every node, if
//! one of its rejections depends on other pods or on volumes, or if the profile samples nodes: for such pods the level
//! of single nodes cannot answer.

use crate::collections::hash::{Hashed, IdMap, Keyed};
use crate::cycle::Unschedulable;
use crate::model::pod::PodInfo;
use crate::model::signature::Signature;
use crate::report::Preemption;
use crate::switches::ablation::{self, Layer};
use crate::switches::mutation::{self, Mutation};
use std::collections::VecDeque;
use std::sync::Arc;

/// The maximum number of cached signatures. The oldest are evicted first.
const SIGNATURES_MAX: usize = 4_096;
/// The maximum number of stale or excess entries that are evicted at a time.
const TURNS: usize = 2;

/// The version of the state in which a result is valid: the version of the cluster, and the number of garbage
/// collections of ids, after which an id may have another meaning.
pub(crate) type State = (u64, u64);

/// Results for unschedulable pods, each valid in one state of the cluster.
#[derive(Default)]
pub(super) struct ExactResults {
    known: IdMap<Hashed<Signature>, (State, Unschedulable)>,
    /// Signatures in the order of eviction.
    order: VecDeque<Hashed<Signature>>,
    hits: u64,
}

impl ExactResults {
    /// Returns the result for an identical pod in this state.
    pub(super) fn lookup(
        &mut self,
        state: State,
        pod: &Arc<PodInfo>,
        hashing: &Keyed,
    ) -> Option<Unschedulable> {
        self.evict_some(state);
        // Most of the time nothing is known, and hashing a pod takes longer than the rest.
        if self.known.is_empty() || ablation::is_off(Layer::Unschedulable) {
            return None;
        }
        let known = self.known.get(&Hashed::of(Signature::of(pod), hashing));
        let holds = |of: State| of == state || mutation::is_on(Mutation::UnschedulableResultsNeverStale);
        let found = known.filter(|(of, _)| holds(*of)).map(|(_, found)| found.clone());
        self.hits += u64::from(found.is_some());
        found
    }

    /// Stores a result, unless it depends on the individual pod: a nomination by preemption does.
    pub(super) fn store(&mut self, state: State, pod: &Arc<PodInfo>, found: &Unschedulable, hashing: &Keyed) {
        if matches!(found.preemption, Preemption::Nominated { .. }) {
            return;
        }
        let signature = Hashed::of(Signature::of(pod), hashing);
        if self.known.insert(signature.clone(), (state, found.clone())).is_none() {
            self.order.push_back(signature);
        }
        self.evict_some(state);
    }

    /// Evicts some entries that are excess or stale. Remaining stale entries are never used.
    fn evict_some(&mut self, state: State) {
        for _ in 0..TURNS {
            let Some(first) = self.order.front() else { return };
            let is_stale = self.known.get(first).is_none_or(|(of, _)| *of != state);
            if self.known.len() <= SIGNATURES_MAX
                && (!is_stale || mutation::is_on(Mutation::UnschedulableResultsNeverStale))
            {
                return;
            }
            self.order.pop_front().map(|first| self.known.remove(&first));
        }
    }

    /// Evicts the result for such pods.
    pub(super) fn evict(&mut self, pod: &Arc<PodInfo>, hashing: &Keyed) {
        self.known.remove(&Hashed::of(Signature::of(pod), hashing));
    }

    /// Evicts all results.
    pub(super) fn clear(&mut self) {
        (self.known, self.order) = Default::default();
    }

    /// Returns how many results were reused.
    pub(super) fn hits(&self) -> u64 {
        self.hits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::Nominate;
    use crate::model::intern::Tables;
    use crate::scheduler::test_pod;
    use std::collections::BTreeSet;

    /// Stores results for this many different pods.
    fn store(results: &mut ExactResults, tables: &mut Tables, state: State, pods: usize) {
        let found = Unschedulable {
            rejectors: BTreeSet::new(),
            preemption_blockers: BTreeSet::new(),
            message: String::new(),
            filters_len: 0,
            preemption: Preemption::NotTried,
            nominate: Nominate::Keep,
            evaluated: 0,
            deallocated: None,
            walked: 0,
        };
        for cpu_milli in 0..pods {
            let pod = Arc::from(test_pod(tables, "p", cpu_milli as i64, None));
            results.store(state, &pod, &found, tables.hashing());
        }
    }

    #[test]
    fn oldest_results_leave_when_there_are_too_many() {
        let (mut results, mut tables) = (ExactResults::default(), Tables::new());
        store(&mut results, &mut tables, (1, 0), SIGNATURES_MAX + 2);
        assert_eq!((results.known.len(), results.order.len()), (SIGNATURES_MAX, SIGNATURES_MAX));
        let mut is_known = |cpu_milli: usize| {
            let pod = Arc::from(test_pod(&mut tables, "p", cpu_milli as i64, None));
            results.lookup((1, 0), &pod, tables.hashing()).is_some()
        };
        assert_eq!([0, 1, 2, SIGNATURES_MAX + 1].map(&mut is_known), [false, false, true, true]);
    }

    #[test]
    fn results_of_an_earlier_state_leave_two_at_a_time() {
        let (mut results, mut tables) = (ExactResults::default(), Tables::new());
        store(&mut results, &mut tables, (1, 0), 5);
        let pod = Arc::from(test_pod(&mut tables, "p", 9, None));
        let sizes = [(); 3].map(|()| {
            assert!(results.lookup((2, 0), &pod, tables.hashing()).is_none());
            results.known.len()
        });
        assert_eq!(sizes, [3, 1, 0]);
    }
}
