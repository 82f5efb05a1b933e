//! The incremental form of `filter` and `score`, which are its oracle.

use super::constraints::{Constraint, Inclusion, has_all_keys};
use super::counts::{DomainView, NO_DOMAIN};
use super::filter::has_room;
use super::score::{IGNORED, normalized, points_of};
use crate::cache::Snapshot;
use crate::framework::tally::{Counter, Domains, FilterTally, Outdated, ScoreTally, Tally, Whole};
use crate::model::intern::{Symbol, known};
use crate::model::node::NodeIdx;
use crate::model::pod::{PodFacets, PodInfo};
use crate::plugins::pod_topology_spread::go_log::ln;

/// The common part of hard and soft constraints.
pub(super) struct SpreadTally {
    namespace: Symbol,
    constraints: Vec<Constraint>,
    /// Whether all constraints have the same selector, which is common.
    are_alike: bool,
    counters: Vec<Counter>,
    inclusion: Inclusion,
    /// Whether nodes that lack a key are not counted.
    require_all: bool,
    /// For hard constraints: 1 if the pod matches the selector itself.
    itself: Vec<i64>,
}

impl SpreadTally {
    /// Creates the tally of hard constraints.
    pub(super) fn hard(pod: &PodInfo, snapshot: Snapshot<'_>, constraints: Vec<Constraint>) -> Self {
        let labels = snapshot.labels(pod.labels);
        let matches = |c: &Constraint| i64::from(c.selector.matches(snapshot.tables(), labels));
        let itself = constraints.iter().map(matches).collect();
        Self { itself, ..Self::new(pod, constraints, true, |_| Domains::Values) }
    }

    /// Creates the tally of soft constraints.
    pub(super) fn soft(pod: &PodInfo, constraints: Vec<Constraint>, require_all: bool) -> Self {
        let domains = |c: &Constraint| {
            if c.topology_key == known::HOSTNAME { Domains::Nodes } else { Domains::Values }
        };
        Self::new(pod, constraints, require_all, domains)
    }

    fn new(
        pod: &PodInfo,
        constraints: Vec<Constraint>,
        require_all: bool,
        domains: impl Fn(&Constraint) -> Domains,
    ) -> Self {
        let counter = |c: &Constraint| Counter { key: c.topology_key, domains: domains(c) };
        Self {
            namespace: pod.namespace,
            counters: constraints.iter().map(counter).collect(),
            inclusion: Inclusion::new(pod, &constraints),
            require_all,
            itself: Vec::new(),
            are_alike: constraints.windows(2).all(|two| two[0].selector == two[1].selector),
            constraints,
        }
    }
}

impl Tally for SpreadTally {
    fn counters(&self) -> &[Counter] {
        &self.counters
    }

    fn adds(
        &self,
        snapshot: Snapshot<'_>,
        pod: PodFacets<'_>,
        add: &mut dyn FnMut(usize, i64),
    ) -> Result<(), Outdated> {
        if pod.namespace != self.namespace || pod.is_deleting {
            return Ok(());
        }
        let labels = snapshot.labels(pod.labels);
        let matches = |constraint: &Constraint| {
            !constraint.selector.is_empty() && constraint.selector.matches(snapshot.tables(), labels)
        };
        let mut is_matched = false;
        for (at, constraint) in self.constraints.iter().enumerate() {
            if at == 0 || !self.are_alike {
                is_matched = matches(constraint);
            }
            if is_matched {
                add(at, 1);
            }
        }
        Ok(())
    }

    fn counts_everywhere(&self, are_all_placed: bool) -> bool {
        // With one constraint, a node that lacks a key is in no domain.
        let needs_no_key = self.require_all && self.constraints.len() == 1;
        (are_all_placed || needs_no_key) && self.inclusion.is_everything(&self.constraints)
    }

    fn counts_on(&self, snapshot: Snapshot<'_>, node: NodeIdx, counts: &mut [bool]) -> Result<(), Outdated> {
        let labels = snapshot.node_labels(node);
        if self.require_all {
            if !has_all_keys(&self.constraints, labels) {
                // Per host every pod counts that is there.
                for (counts, counter) in counts.iter_mut().zip(&self.counters) {
                    *counts = counter.domains == Domains::Nodes;
                }
                return Ok(());
            }
        } else if self.constraints.iter().any(|c| labels.get(c.topology_key) == Some(known::EMPTY)) {
            // Nodes without the label are in one domain with those that have it with no value.
            return Err(Outdated);
        }
        let included = self.inclusion.of(snapshot, node);
        for ((counts, constraint), counter) in counts.iter_mut().zip(&self.constraints).zip(&self.counters) {
            *counts = counter.domains == Domains::Nodes || included.includes(constraint);
        }
        Ok(())
    }
}

impl FilterTally for SpreadTally {
    fn compares_domains(&self) -> bool {
        true
    }

    fn passes(&self, sums: &[Option<i64>], whole: &[Whole]) -> bool {
        self.constraints.iter().enumerate().all(|(at, constraint)| {
            let Whole { lowest, domains, .. } = whole[at];
            let lowest = lowest.unwrap_or(NO_DOMAIN);
            sums[at].is_some_and(|here| {
                has_room(constraint, self.itself[at], DomainView { here, lowest, domains })
            })
        })
    }
}

impl ScoreTally for SpreadTally {
    fn ignores(&self, sums: &[Option<i64>]) -> bool {
        self.require_all && sums.iter().any(Option::is_none)
    }

    fn weighs_domains(&self) -> bool {
        true
    }

    fn weights(&self, domains: &[usize]) -> Vec<f64> {
        domains.iter().map(|&size| ln((size + 2) as f64)).collect()
    }

    fn raw(&self, sums: &[Option<i64>], weights: &[f64]) -> i64 {
        let mut score = 0.0;
        for ((constraint, sum), weight) in self.constraints.iter().zip(sums).zip(weights) {
            if let Some(count) = *sum {
                score += points_of(constraint, count, *weight);
            }
        }
        score.round() as i64
    }

    fn normalize(&self, raw: &mut [Option<i64>]) {
        let lowest = raw.iter().flatten().min().copied().unwrap_or(i64::MAX);
        let highest = raw.iter().flatten().max().copied().unwrap_or(0).max(0);
        for cell in raw {
            *cell = Some(normalized(cell.unwrap_or(IGNORED), lowest, highest));
        }
    }
}
