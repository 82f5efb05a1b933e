//! Which pods a workload gets or loses if its number of replicas changes.

use crate::prepare::owners::OwnedPod;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use supercargo_core::model::intern::Symbol;

/// Returns the names of the pods that the workload lacks. A StatefulSet gets its free ordinals, lowest first,
/// from `first` on.
pub fn new_names(
    pods: &[OwnedPod],
    (kind, name): (&str, &str),
    replicas: usize,
    first: usize,
) -> Vec<String> {
    let missing = replicas.saturating_sub(pods.len());
    if kind != "StatefulSet" {
        let numbers = pods.len() + 1..=replicas;
        return numbers.map(|number| format!("{name}-new-{number}")).collect();
    }
    let taken: BTreeSet<&str> = pods.iter().map(|noted| &*noted.pod.name).collect();
    let names = (first..).map(|ordinal| format!("{name}-{ordinal}"));
    names.filter(|name| !taken.contains(name.as_str())).take(missing).collect()
}

/// Sorts the pods in the order in which the controller would delete them.
///
/// A StatefulSet deletes the highest ordinal first. Other controllers delete pods without a node first, then those
/// that share a node with most pods of the workload, then the newest. Upstream
/// `pkg/controller/controller_utils.go#ActivePodsWithRanks` also uses readiness and restarts, which the scheduler
/// does not know.
pub fn in_deletion_order(pods: &mut [OwnedPod], kind: &str) {
    if kind == "StatefulSet" {
        let number = |noted: &OwnedPod| {
            noted.pod.name.rsplit('-').next().and_then(|number| number.parse::<u64>().ok())
        };
        pods.sort_by_key(|noted| Reverse(number(noted)));
        return;
    }
    let mut on: BTreeMap<Option<Symbol>, usize> = BTreeMap::new();
    for noted in pods.iter() {
        *on.entry(noted.pod.node_name).or_default() += 1;
    }
    let key = |noted: &OwnedPod| {
        let node = noted.pod.node_name;
        (node.is_some(), Reverse(on[&node]), Reverse(noted.created.clone()), Reverse(noted.pod.name.clone()))
    };
    pods.sort_by_cached_key(key);
}
