//! Soft constraints: nodes whose domains have fewer matching pods score higher.
//!
//! Sums are floating point, added in the order of the constraints and rounded once, as upstream does. The
//! weight of a topology is Go's logarithm ([`crate::plugins::pod_topology_spread::go_log`]). Upstream:
//! `podtopologyspread/scoring.go`.

use super::constraints::{Constraint, Inclusion, counted, has_all_keys};
use crate::cache::Snapshot;
use crate::cache::slice::PodClassRole;
use crate::collections::hash::IdMap;
use crate::framework::{CycleError, MAX_NODE_SCORE, Scale, ScoreRule};
use crate::model::intern::{Symbol, known};
use crate::model::node::NodeIdx;
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;
use crate::plugins::pod_topology_spread::go_log::ln;

/// The mark of an ignored node during normalization. As upstream, it equals the raw score of a node without
/// matching pods under a `maxSkew` of 0, which is then ignored; the API server admits no such constraint.
pub(super) const IGNORED: i64 = -1;

/// The rule of a pod with soft constraints.
pub(super) struct SpreadScore {
    constraints: Vec<Weighed>,
    /// Feasible nodes that lack a required key; they score 0.
    ignored: NodeSet,
}

struct Weighed {
    constraint: Constraint,
    /// Matching pods on each node, by slot.
    pods: Vec<i64>,
    /// Matching pods in each domain of a feasible node; unused for host names, which are counted by node.
    domains: IdMap<Symbol, i64>,
    weight: f64,
}

impl Weighed {
    fn is_per_host(&self) -> bool {
        self.constraint.topology_key == known::HOSTNAME
    }
}

impl SpreadScore {
    /// Registers the domains of the feasible nodes and counts pods on all nodes in them.
    pub(super) fn new(
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        constraints: Vec<Constraint>,
        feasible: &NodeSet,
        require_all: bool,
    ) -> Self {
        let mut ignored = NodeSet::new();
        if require_all {
            let lacks = |&idx: &NodeIdx| !has_all_keys(&constraints, snapshot.node_labels(idx));
            ignored = feasible.iter().filter(lacks).collect();
        }
        let mut scored = feasible.clone();
        scored.subtract(&ignored);
        let inclusion = Inclusion::new(pod, &constraints);
        // If every feasible node lacks a key, all are ignored, whatever the counts are.
        if require_all && scored.is_empty() {
            return Self { constraints: Vec::new(), ignored };
        }
        let pods = counted(snapshot, &constraints, pod.namespace, PodClassRole::SoftConstraints);
        let weighed = constraints.into_iter().zip(pods).map(|(constraint, pods)| {
            let mut weighed = Weighed { constraint, pods, domains: IdMap::default(), weight: 0.0 };
            let size = if weighed.is_per_host() {
                scored.len()
            } else {
                let domains = scored.iter().map(|idx| domain_of(snapshot, idx, &weighed.constraint));
                weighed.domains = domains.map(|domain| (domain, 0)).collect();
                weighed.domains.len()
            };
            weighed.weight = ln((size + 2) as f64);
            weighed
        });
        let mut rule = Self { constraints: weighed.collect(), ignored };
        if !rule.constraints.iter().all(Weighed::is_per_host) {
            rule.count(snapshot, &inclusion, require_all);
        }
        rule
    }

    /// Counts pods on all nodes, including infeasible ones, in the registered domains.
    fn count(&mut self, snapshot: Snapshot<'_>, inclusion: &Inclusion, require_all: bool) {
        for idx in snapshot.nodes().iter() {
            let labels = snapshot.node_labels(idx);
            let has_key = |w: &Weighed| labels.get(w.constraint.topology_key).is_some();
            if require_all && !self.constraints.iter().all(has_key) {
                continue;
            }
            let included = inclusion.of(snapshot, idx);
            for Weighed { constraint, pods, domains, .. } in &mut self.constraints {
                if included.includes(constraint)
                    && let Some(count) = domains.get_mut(&domain_of(snapshot, idx, constraint))
                {
                    *count += pods[idx.index()];
                }
            }
        }
    }

    fn score_of(&self, snapshot: Snapshot<'_>, idx: NodeIdx) -> i64 {
        let labels = snapshot.node_labels(idx);
        let mut score = 0.0;
        for weighed in &self.constraints {
            let constraint = &weighed.constraint;
            let Some(domain) = labels.get(constraint.topology_key) else { continue };
            let count = if weighed.is_per_host() {
                weighed.pods[idx.index()]
            } else {
                weighed.domains.get(&domain).copied().unwrap_or(0)
            };
            score += points_of(constraint, count, weighed.weight);
        }
        score.round() as i64
    }
}

/// Returns the raw score of one constraint for a node with `count` matching pods in its domain.
pub(super) fn points_of(constraint: &Constraint, count: i64, weight: f64) -> f64 {
    count as f64 * weight + f64::from(constraint.max_skew.wrapping_sub(1))
}

/// Normalizes one node's score, given the minimum and maximum of nodes that are not ignored.
pub(super) fn normalized(raw: i64, lowest: i64, highest: i64) -> i64 {
    if raw == IGNORED {
        0
    } else if highest == 0 {
        MAX_NODE_SCORE
    } else {
        MAX_NODE_SCORE * (highest + lowest - raw) / highest
    }
}

fn domain_of(snapshot: Snapshot<'_>, idx: NodeIdx, constraint: &Constraint) -> Symbol {
    snapshot.node_labels(idx).get(constraint.topology_key).unwrap_or(known::EMPTY)
}

impl ScoreRule for SpreadScore {
    fn score(&self, snapshot: Snapshot<'_>, feasible: &NodeSet, raw: &mut [i64]) -> Result<(), CycleError> {
        for (idx, cell) in feasible.iter().zip(raw) {
            *cell = if self.ignored.contains(idx) { 0 } else { self.score_of(snapshot, idx) };
        }
        Ok(())
    }

    fn scale(&self) -> Scale {
        Scale::Relative
    }

    fn normalize(&self, _snapshot: Snapshot<'_>, feasible: &NodeSet, raw: &mut [i64]) {
        let (mut lowest, mut highest) = (i64::MAX, 0);
        for (idx, cell) in feasible.iter().zip(&mut *raw) {
            if self.ignored.contains(idx) {
                *cell = IGNORED;
            } else {
                lowest = lowest.min(*cell);
                highest = highest.max(*cell);
            }
        }
        for cell in raw {
            *cell = normalized(*cell, lowest, highest);
        }
    }
}
