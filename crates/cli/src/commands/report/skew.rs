//! Computes the skew of each spread constraint, counting nodes and pods as the scheduler does.
//!
//! Covers constraints in pod specs. Default constraints of the configuration are not included.

use crate::commands::report::columns::People;
use crate::commands::report::model::{Skew, Spread};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use supercargo_core::cache::Snapshot;
use supercargo_core::collections::hash::FixedMap;
use supercargo_core::model::intern::Symbol;
use supercargo_core::model::node::NodeIdx;
use supercargo_core::model::pod::{PodInfo, SpreadConstraint, WhenUnsatisfiable};
use supercargo_whatif::explain::format;

/// Maximum number of constraints in the report.
const CONSTRAINTS_MAX: usize = 200;
/// Number of domains named at each end of a long list.
const ENDS: usize = 10;

/// A constraint, with a pod that has it and the number of such pods.
pub(super) struct Found {
    pod: Arc<PodInfo>,
    at: usize,
    pods: usize,
}

impl Found {
    fn constraint(&self) -> &SpreadConstraint {
        &self.pod.spread[self.at]
    }
}

/// Returns the distinct constraints of all pods, those of most pods first.
pub(super) fn find<'p>(pods: impl Iterator<Item = &'p Arc<PodInfo>>, snapshot: Snapshot<'_>) -> Vec<Found> {
    // Pods of one template agree in all fields that matter here.
    let mut found: FixedMap<_, Found> = FixedMap::default();
    for pod in pods.filter(|pod| !pod.spread.is_empty()) {
        for at in 0..pod.spread.len() {
            let key = (pod.namespace, &pod.spread, at, &pod.node_affinity, &pod.tolerations);
            let new = || Found { pod: Arc::clone(pod), at, pods: 0 };
            found.entry(key).or_insert_with(new).pods += 1;
        }
    }
    let mut found: Vec<Found> = found.into_values().collect();
    let of = |found: &Found| {
        let key = snapshot.text(found.constraint().topology_key).to_owned();
        (Reverse(found.pods), snapshot.pod_key(&found.pod), found.at, key)
    };
    found.sort_by_cached_key(of);
    found
}

/// Returns the constraints without their skew, and the number left out.
pub(super) fn entries(
    found: &mut Vec<Found>,
    people: &People,
    snapshot: Snapshot<'_>,
) -> (Vec<Spread>, usize) {
    let left_out = found.len().saturating_sub(CONSTRAINTS_MAX);
    found.truncate(CONSTRAINTS_MAX);
    let spread = found.iter().map(|found| {
        let constraint = found.constraint();
        let number = people.number(&found.pod.uid).unwrap_or(0) as usize;
        Spread {
            namespace: people.pods.namespace[number],
            owner: people.pods.owner[number],
            topology_key: snapshot.text(constraint.topology_key).to_owned(),
            max_skew: constraint.max_skew,
            min_domains: constraint.min_domains,
            is_hard: constraint.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule,
            selector: match &constraint.selector {
                Ok(selector) => format::selector(snapshot.tables(), selector),
                Err(error) => error.to_string(),
            },
            pods: found.pods,
            states: Vec::new(),
        }
    });
    (spread.collect(), left_out)
}

/// Computes the current skew of a constraint.
pub(super) fn skew(found: &Found, snapshot: Snapshot<'_>) -> Skew {
    let constraint = found.constraint();
    let mut domains: BTreeMap<Symbol, i64> = BTreeMap::new();
    let mut of_node: BTreeMap<NodeIdx, Symbol> = BTreeMap::new();
    for idx in snapshot.nodes().iter().filter(|&idx| counts(found, idx, snapshot)) {
        if let Some(domain) = snapshot.node_labels(idx).get(constraint.topology_key) {
            domains.entry(domain).or_default();
            of_node.insert(idx, domain);
        }
    }
    let Ok(selector) = &constraint.selector else { return Skew::default() };
    let kinds = snapshot.pod_classes_in(found.pod.namespace);
    let is_meant =
        |pod: &PodInfo| !pod.deleting && selector.matches(snapshot.tables(), snapshot.labels(pod.labels));
    for kind in kinds.filter(|kind| is_meant(kind.pod())) {
        for (node, pods) in kind.nodes() {
            if let Some(domain) = of_node.get(&node) {
                *domains.entry(*domain).or_default() += pods;
            }
        }
    }
    let mut named: Vec<(String, i64)> =
        domains.into_iter().map(|(domain, pods)| (snapshot.text(domain).to_owned(), pods)).collect();
    named.sort_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
    let domain_count = named.len();
    let is_short = i64::from(constraint.min_domains) > domain_count as i64;
    let least = if is_short { 0 } else { named.last().map_or(0, |last| last.1) };
    let skew = named.first().map_or(0, |first| first.1 - least);
    if domain_count > 2 * ENDS {
        named.drain(ENDS..domain_count - ENDS);
    }
    Skew { skew, domain_count, domains: named }
}

/// Returns whether the constraint counts a node (upstream `podtopologyspread/common.go`).
fn counts(found: &Found, idx: NodeIdx, snapshot: Snapshot<'_>) -> bool {
    let (pod, constraint) = (&found.pod, found.constraint());
    let (node, labels, tables) = (snapshot.node_info(idx), snapshot.node_labels(idx), snapshot.tables());
    let same = |other: &&SpreadConstraint| other.when_unsatisfiable == constraint.when_unsatisfiable;
    let has_all = pod.spread.iter().filter(same).all(|other| labels.get(other.topology_key).is_some());
    let is_let_in = !constraint.honor_node_affinity || pod.node_affinity.matches(tables, node.name, labels);
    let is_tolerated = || !tables.taints(node.taints).iter().any(|taint| taint.keeps_out(&pod.tolerations));
    has_all && is_let_in && (!constraint.honor_node_taints || is_tolerated())
}
