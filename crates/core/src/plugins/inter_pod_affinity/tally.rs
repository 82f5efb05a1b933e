//! The incremental form of `filter` and `score`, which are its oracle.

use super::filter::{AffinityFilter, Match};
use super::score::{Preferences, normalized};
use crate::cache::Snapshot;
use crate::framework::tally::{Counter, Domains, FilterTally, Outdated, ScoreTally, Tally, Whole};
use crate::model::intern::Symbol;
use crate::model::pod::{PodFacets, PodInfo};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Counters by kind of term and topology key.
struct Counters<S> {
    all: Vec<Counter>,
    sorts: Vec<S>,
    /// The index of each counter. A pod may name as many keys as fit into an object.
    places: BTreeMap<(S, Symbol), usize>,
}

impl<S: Copy + Ord> Counters<S> {
    fn new() -> Self {
        Self { all: Vec::new(), sorts: Vec::new(), places: BTreeMap::new() }
    }

    fn find(&self, sort: S, key: Symbol) -> Option<usize> {
        self.places.get(&(sort, key)).copied()
    }

    fn add(&mut self, sort: S, key: Symbol) {
        if let Entry::Vacant(place) = self.places.entry((sort, key)) {
            place.insert(self.all.len());
            self.all.push(Counter { key, domains: Domains::Values });
            self.sorts.push(sort);
        }
    }
}

/// The tally of required terms, of the pod and of existing pods.
pub(super) struct RequiredTally {
    rule: AffinityFilter,
    counters: Counters<Match>,
    /// The counter of each required affinity term.
    affinity: Vec<usize>,
}

impl RequiredTally {
    pub(super) fn new(pod: &PodInfo, snapshot: Snapshot<'_>) -> Self {
        let rule = AffinityFilter::uncounted(pod, snapshot);
        let mut counters = Counters::new();
        for term in rule.affinity() {
            counters.add(Match::Affinity, term.topology_key);
        }
        for term in rule.anti_affinity() {
            counters.add(Match::AntiAffinity, term.topology_key);
        }
        // The pod itself will be on a node, and the next identical pod must count it with the same counters.
        rule.each_match(snapshot, pod.into(), |sort, key| counters.add(sort, key));
        for class in snapshot.pod_classes_with_required_anti_affinity() {
            rule.each_match(snapshot, class.facets(), |sort, key| counters.add(sort, key));
        }
        let counter_of = |key| counters.find(Match::Affinity, key).expect("it was added above");
        let affinity = rule.affinity().iter().map(|term| counter_of(term.topology_key)).collect();
        Self { rule, counters, affinity }
    }
}

impl Tally for RequiredTally {
    fn counters(&self) -> &[Counter] {
        &self.counters.all
    }

    fn adds(
        &self,
        snapshot: Snapshot<'_>,
        pod: PodFacets<'_>,
        add: &mut dyn FnMut(usize, i64),
    ) -> Result<(), Outdated> {
        let mut known = Ok(());
        self.rule.each_match(snapshot, pod, |sort, key| match self.counters.find(sort, key) {
            Some(at) => add(at, 1),
            None => known = Err(Outdated),
        });
        known
    }

    fn ignores_pods_without_affinity(&self) -> bool {
        self.rule.affinity().is_empty() && self.rule.anti_affinity().is_empty()
    }
}

impl FilterTally for RequiredTally {
    fn compares_domains(&self) -> bool {
        false
    }

    fn passes(&self, sums: &[Option<i64>], whole: &[Whole]) -> bool {
        let mut peers_everywhere = true;
        for &at in &self.affinity {
            let Some(sum) = sums[at] else { return false };
            peers_everywhere &= sum > 0;
        }
        let is_first = || self.rule.matches_itself() && self.affinity.iter().all(|&at| whole[at].is_zero);
        if !peers_everywhere && !is_first() {
            return false;
        }
        let repels = |(sort, sum): (&Match, &Option<i64>)| {
            *sort != Match::Affinity && sum.is_some_and(|pods| pods > 0)
        };
        !self.counters.sorts.iter().zip(sums).any(repels)
    }
}

/// The tally of preferred terms of the pod, and of existing pods' terms.
pub(super) struct PreferredTally {
    preferences: Preferences,
    counters: Counters<()>,
}

impl PreferredTally {
    pub(super) fn new(preferences: Preferences, pod: &PodInfo, snapshot: Snapshot<'_>) -> Self {
        let mut counters = Counters::new();
        preferences.keys().for_each(|key| counters.add((), key));
        // The pod itself will be on a node, and the next identical pod must count it with the same counters.
        preferences.weigh(snapshot, pod.into(), |key, _| counters.add((), key));
        for class in snapshot.pod_classes_with_affinity() {
            preferences.weigh(snapshot, class.facets(), |key, _| counters.add((), key));
        }
        Self { preferences, counters }
    }
}

impl Tally for PreferredTally {
    fn counters(&self) -> &[Counter] {
        &self.counters.all
    }

    fn adds(
        &self,
        snapshot: Snapshot<'_>,
        pod: PodFacets<'_>,
        add: &mut dyn FnMut(usize, i64),
    ) -> Result<(), Outdated> {
        let mut known = Ok(());
        self.preferences.weigh(snapshot, pod, |key, weight| match self.counters.find((), key) {
            Some(at) => add(at, weight),
            None => known = Err(Outdated),
        });
        known
    }

    fn ignores_pods_without_affinity(&self) -> bool {
        self.preferences.keys().next().is_none()
    }
}

impl ScoreTally for PreferredTally {
    fn weights(&self, _domains: &[usize]) -> Vec<f64> {
        Vec::new()
    }

    fn raw(&self, sums: &[Option<i64>], _weights: &[f64]) -> i64 {
        sums.iter().flatten().sum()
    }

    fn normalize(&self, raw: &mut [Option<i64>]) {
        let lowest = raw.iter().flatten().min().copied().unwrap_or(0);
        let highest = raw.iter().flatten().max().copied().unwrap_or(0);
        for cell in raw.iter_mut().flatten() {
            *cell = normalized(*cell, lowest, highest);
        }
    }
}
