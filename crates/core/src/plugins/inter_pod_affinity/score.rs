//! The score for preferred terms of the incoming pod and of existing pods, and for required affinity of existing pods
//! to it.
//!
//! Upstream: `interpodaffinity/scoring.go`.

use super::InterPodAffinity;
use super::counts::each_domain;
use super::terms::{self, Incoming, IncomingTerm};
use crate::cache::slice::{Concerned, PodClassRole, Slice};
use crate::cache::{NodeColumns, PodClass, Snapshot};
use crate::collections::hash::IdMap;
use crate::framework::{CycleError, MAX_NODE_SCORE, Scale, ScoreRule};
use crate::model::intern::{Labels, Symbol};
use crate::model::node_set::NodeSet;
use crate::model::pod::{PodFacets, PodInfo, WeightedPodAffinityTerm};
use std::sync::Arc;

/// The rule for a pod if at least one term, its own or another pod's, added weight to a domain.
pub(super) struct AffinityScore {
    /// Sums of weights by topology key and domain. Unlike in the filter's counts, a sum of 0 has an entry.
    weights: IdMap<(Symbol, Symbol), i64>,
    /// The distinct keys of `weights`.
    keys: Vec<Symbol>,
}

/// The terms that add weights.
pub(super) struct Preferences {
    incoming: Incoming,
    /// The incoming pod's own terms with their weights, negative for anti-affinity.
    own: Arc<Vec<(IncomingTerm, i64)>>,
    plugin: InterPodAffinity,
}

impl AffinityScore {
    /// Sums the weights over all nodes, including infeasible ones. Returns `None` if there is no entry.
    pub(super) fn new(
        plugin: &InterPodAffinity,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        has_preferences: bool,
    ) -> Option<Self> {
        let preferences = Preferences::new(*plugin, pod, snapshot);
        let mut weights = IdMap::default();
        // Without preferences of the incoming pod, only pods with affinity terms can add weight.
        if let Some(slice) = snapshot.slice() {
            preferences.sum_in_slice(snapshot, slice, has_preferences, &mut weights);
        } else if has_preferences {
            preferences.sum(snapshot, snapshot.pod_classes(), &mut weights);
        } else {
            preferences.sum(snapshot, snapshot.pod_classes_with_affinity(), &mut weights);
        }
        let mut keys: Vec<Symbol> = weights.keys().map(|&(key, _)| key).collect();
        keys.sort_unstable();
        keys.dedup();
        (!keys.is_empty()).then_some(Self { weights, keys })
    }

    fn score_of(&self, labels: Labels<'_>) -> i64 {
        let weight = |&key: &Symbol| {
            let value = labels.get(key)?;
            self.weights.get(&(key, value)).copied()
        };
        self.keys.iter().filter_map(weight).sum()
    }
}

impl Preferences {
    pub(super) fn new(plugin: InterPodAffinity, pod: &PodInfo, snapshot: Snapshot<'_>) -> Self {
        let own = |list: &[WeightedPodAffinityTerm], sign: i64| {
            let weighted =
                list.iter().map(|w| (IncomingTerm::new(&w.term, snapshot), sign * i64::from(w.weight)));
            weighted.collect::<Vec<_>>()
        };
        let prepare = || {
            let mut terms = own(terms::existing(pod.into(), |a| &a.preferred_affinity), 1);
            terms.extend(own(terms::existing(pod.into(), |a| &a.preferred_anti_affinity), -1));
            terms
        };
        let own = match snapshot.slice() {
            Some(slice) => slice.prepared(PodClassRole::PreferredTerms, prepare),
            None => Arc::new(prepare()),
        };
        Self { incoming: Incoming::new(pod, snapshot), own, plugin }
    }

    /// Returns the topology keys of the pod's own terms.
    pub(super) fn keys(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.own.iter().map(|(term, _)| term.topology_key)
    }

    /// Sums the weights of these pod classes on all nodes.
    fn sum<'a>(
        &self,
        snapshot: Snapshot<'a>,
        classes: impl Iterator<Item = &'a PodClass>,
        weights: &mut IdMap<(Symbol, Symbol), i64>,
    ) {
        let mut given = Vec::new();
        for class in classes {
            given.clear();
            self.weigh(snapshot, class.facets(), |key, weight| given.push((0, key, weight)));
            add_weights(snapshot, class, &given, weights);
        }
    }

    /// As [`Self::sum`], in a slice of an evaluation.
    fn sum_in_slice(
        &self,
        snapshot: Snapshot<'_>,
        slice: &Slice,
        has_preferences: bool,
        weights: &mut IdMap<(Symbol, Symbol), i64>,
    ) {
        let concerned = if has_preferences { Concerned::All } else { Concerned::WithAffinity(&|_| true) };
        slice.evaluate_pod_classes(PodClassRole::PreferredTerms, snapshot, concerned, |class, list| {
            let mut given = IdMap::<Symbol, i64>::default();
            let work =
                self.weigh(snapshot, class.facets(), |key, weight| *given.entry(key).or_default() += weight);
            list.extend(given.into_iter().map(|(key, weight)| (0, key, weight)));
            work
        });
        let add = |_, domain, sum| *weights.entry(domain).or_insert(0) += sum;
        let by_node = |columns: &NodeColumns| each_domain(columns, snapshot, add);
        if slice.by_node(PodClassRole::PreferredTerms, snapshot, by_node).is_some() {
            return;
        }
        let contributions = slice.contributions(PodClassRole::PreferredTerms);
        slice.each_pod_class(PodClassRole::PreferredTerms, snapshot, |class, index| {
            add_weights(snapshot, class, &contributions[index], weights);
        });
    }

    /// Calls `give` with the topology key and the weight of each matching term: terms of the pod that match `other`,
    /// and terms of `other` that match the pod.
    ///
    /// Returns the number of comparisons.
    pub(super) fn weigh(
        &self,
        snapshot: Snapshot<'_>,
        other: PodFacets<'_>,
        mut give: impl FnMut(Symbol, i64),
    ) -> u64 {
        let mut work: u64 = self.own.iter().map(|(term, _)| term.selector().work()).sum();
        for (term, weight) in self.own.iter() {
            if term.matches(snapshot, other) {
                give(term.topology_key, *weight);
            }
        }
        if self.plugin.hard_pod_affinity_weight > 0 {
            for term in terms::existing(other, |a| &a.required_affinity) {
                work += term.selector.work();
                if self.incoming.is_meant_by(term, snapshot) {
                    give(term.topology_key, i64::from(self.plugin.hard_pod_affinity_weight));
                }
            }
        }
        let lists = [
            (terms::existing(other, |a| &a.preferred_affinity), 1),
            (terms::existing(other, |a| &a.preferred_anti_affinity), -1),
        ];
        for (list, sign) in lists {
            for WeightedPodAffinityTerm { term, weight } in list {
                work += term.selector.work();
                if self.incoming.is_meant_by(term, snapshot) {
                    give(term.topology_key, sign * i64::from(*weight));
                }
            }
        }
        work
    }
}

/// Adds the weights of the pods of a class to the domains of their nodes.
fn add_weights(
    snapshot: Snapshot<'_>,
    class: &PodClass,
    given: &[(u32, Symbol, i64)],
    weights: &mut IdMap<(Symbol, Symbol), i64>,
) {
    if given.is_empty() {
        return;
    }
    for (node, pods) in class.nodes().filter(|&(node, _)| snapshot.nodes().contains(node)) {
        let labels = snapshot.node_labels(node);
        for &(_, key, weight) in given {
            if let Some(value) = labels.get(key) {
                *weights.entry((key, value)).or_insert(0) += weight * pods;
            }
        }
    }
}

impl ScoreRule for AffinityScore {
    fn score(&self, snapshot: Snapshot<'_>, feasible: &NodeSet, raw: &mut [i64]) -> Result<(), CycleError> {
        for (idx, cell) in feasible.iter().zip(raw) {
            *cell = self.score_of(snapshot.node_labels(idx));
        }
        Ok(())
    }

    fn scale(&self) -> Scale {
        Scale::Relative
    }

    fn normalize(&self, _snapshot: Snapshot<'_>, _feasible: &NodeSet, raw: &mut [i64]) {
        let lowest = raw.iter().min().copied().unwrap_or(0);
        let highest = raw.iter().max().copied().unwrap_or(0);
        for cell in raw {
            *cell = normalized(*cell, lowest, highest);
        }
    }
}

/// Normalizes the score of one node, given the bounds over all nodes.
pub(super) fn normalized(raw: i64, lowest: i64, highest: i64) -> i64 {
    if highest > lowest {
        // Upstream divides before it multiplies, so that 29 of 100 gives 28.
        (MAX_NODE_SCORE as f64 * ((raw - lowest) as f64 / (highest - lowest) as f64)) as i64
    } else {
        0
    }
}
