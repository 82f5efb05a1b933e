//! The preferred terms of the incoming pod and of the pods that are there, and what the latter require of it.
//!
//! Upstream: `interpodaffinity/scoring.go`.

use super::InterPodAffinity;
use super::terms::{self, Incoming, IncomingTerm};
use crate::cache::{Kind, Snapshot};
use crate::framework::{CycleError, MAX_NODE_SCORE, Scale, ScoreRule};
use crate::hash::IdMap;
use crate::intern::{Labels, Symbol};
use crate::node_set::NodeSet;
use crate::pod::{PodInfo, WeightedPodAffinityTerm};

/// The rule of a pod to which at least one term, of its own or another's, gave weight somewhere.
pub(super) struct AffinityScore {
    /// Sums of weights by topology key and domain. Unlike the filter's counts, a sum of 0 is an entry.
    weights: IdMap<(Symbol, Symbol), i64>,
    /// The keys of `weights`, each once.
    keys: Vec<Symbol>,
}

/// What gives weight.
pub(super) struct Preferences {
    incoming: Incoming,
    /// The incoming pod's own terms with their weights, negative for anti-affinity.
    own: Vec<(IncomingTerm, i64)>,
    plugin: InterPodAffinity,
}

impl AffinityScore {
    /// Sums the weights over all nodes, those that failed the filters too; `None` if there is no entry.
    pub(super) fn new(
        plugin: &InterPodAffinity,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        has_preferences: bool,
    ) -> Option<Self> {
        let preferences = Preferences::new(*plugin, pod, snapshot);
        let mut weights = IdMap::default();
        // Without preferences of its own, only pods with terms of theirs can give weight.
        if has_preferences {
            preferences.sum(snapshot, snapshot.kinds(), &mut weights);
        } else {
            preferences.sum(snapshot, snapshot.kinds_with_affinity(), &mut weights);
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
        let mut preferences = Self {
            incoming: Incoming::new(pod, snapshot),
            own: own(terms::existing(pod, |a| &a.preferred_affinity), 1),
            plugin,
        };
        preferences.own.extend(own(terms::existing(pod, |a| &a.preferred_anti_affinity), -1));
        preferences
    }

    /// The topology keys of the pod's own terms.
    pub(super) fn keys(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.own.iter().map(|(term, _)| term.topology_key)
    }

    /// Sums the weights that pods of these kinds give, wherever they are.
    fn sum<'a>(
        &self,
        snapshot: Snapshot<'a>,
        kinds: impl Iterator<Item = &'a Kind>,
        weights: &mut IdMap<(Symbol, Symbol), i64>,
    ) {
        let mut given = Vec::new();
        for kind in kinds {
            given.clear();
            self.weigh(snapshot, kind.pod(), |key, weight| given.push((key, weight)));
            if given.is_empty() {
                continue;
            }
            for (node, pods) in kind.nodes().filter(|&(node, _)| snapshot.nodes().contains(node)) {
                let labels = snapshot.node_labels(node);
                for &(key, weight) in &given {
                    if let Some(value) = labels.get(key) {
                        *weights.entry((key, value)).or_insert(0) += weight * pods;
                    }
                }
            }
        }
    }

    /// Tells the topology keys and weights of all terms that `other` matches or that of `other` mean the pod.
    pub(super) fn weigh(&self, snapshot: Snapshot<'_>, other: &PodInfo, mut give: impl FnMut(Symbol, i64)) {
        for (term, weight) in &self.own {
            if term.matches(snapshot, other) {
                give(term.topology_key, *weight);
            }
        }
        if self.plugin.hard_pod_affinity_weight > 0 {
            for term in terms::existing(other, |a| &a.required_affinity) {
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
                if self.incoming.is_meant_by(term, snapshot) {
                    give(term.topology_key, sign * i64::from(*weight));
                }
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

/// NormalizeScore of one node, given the bounds of all.
pub(super) fn normalized(raw: i64, lowest: i64, highest: i64) -> i64 {
    if highest > lowest {
        // Upstream divides before it multiplies: 29 of 100 is 28.
        (MAX_NODE_SCORE as f64 * ((raw - lowest) as f64 / (highest - lowest) as f64)) as i64
    } else {
        0
    }
}
