//! Rules about topology spread constraints: which pods they count, and whether all replicas can satisfy them.
//!
//! Upstream: `pkg/scheduler/framework/plugins/podtopologyspread/filtering.go`.

use crate::explain::format::{count, selector as in_words, some};
use crate::explain::lint::nodes::domain;
use crate::explain::lint::pods::{topology_key, unmatched};
use crate::explain::lint::{Linted, Rule, Severity};
use std::collections::{BTreeMap, BTreeSet};
use supercargo_core::model::intern::Symbol;
use supercargo_core::model::node::NodeIdx;
use supercargo_core::model::pod::{SpreadConstraint, WhenUnsatisfiable};
use supercargo_core::model::selector::Selector;

pub(super) fn judge(linted: &mut Linted<'_, '_>) {
    let pod = &linted.subject.pod;
    for (at, of) in pod.spread.iter().enumerate() {
        let field = format!("spec.topologySpreadConstraints[{at}]");
        let (severity, consequence) = match of.when_unsatisfiable {
            WhenUnsatisfiable::DoNotSchedule => (Severity::Error, "so no node is feasible"),
            WhenUnsatisfiable::ScheduleAnyway => (Severity::Info, "so it has no effect"),
            WhenUnsatisfiable::Unknown => continue,
        };
        let is_known = topology_key(linted, severity, &field, of.topology_key, consequence);
        let Ok(selector) = &of.selector else { continue };
        if !counts_its_own(linted, &field, selector) || !is_known {
            continue;
        }
        if of.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule {
            limit(linted, &field, of, selector);
        }
    }
}

/// Returns whether a constraint counts the pods it belongs to; reports it if not.
fn counts_its_own(linted: &mut Linted<'_, '_>, field: &str, selector: &Selector) -> bool {
    let (pod, tables) = (&linted.subject.pod, linted.tables());
    if selector.matches(tables, linted.snapshot().labels(pod.labels)) {
        return true;
    }
    let field = format!("{field}.labelSelector");
    if linted.index.has_any_in(pod.namespace, selector) {
        let message = format!(
            "it counts pods with {}, which its own pods do not match: they are not spread among themselves",
            in_words(tables, selector)
        );
        linted.add(Rule::SpreadIgnoresOwnPods, &field, message, None);
    } else {
        let (what, meant) = unmatched(linted, selector);
        let message = format!("it matches no pod, so it has no effect: {what}");
        linted.add(Rule::SpreadMatchesNoPod, &field, message, meant);
    }
    false
}

/// The domains of a constraint.
struct Domains {
    /// Domains where a pod may run.
    open: BTreeSet<Symbol>,
    /// Domains that count for the skew but where no pod may run, with the number of matching pods there.
    closed: BTreeMap<Symbol, i64>,
}

impl Domains {
    /// Returns the lowest number of pods in a closed domain, which limits all others.
    fn lowest(&self) -> Option<i64> {
        self.closed.values().copied().min()
    }
}

/// Reports more replicas than the constraint allows: a closed domain never grows, so the others may exceed it only by
/// maxSkew.
fn limit(linted: &mut Linted<'_, '_>, field: &str, of: &SpreadConstraint, selector: &Selector) {
    let Some(replicas) = linted.subject.replicas else { return };
    let domains = domains(linted, of, selector);
    let (open, all) = (domains.open.len(), domains.open.len() + domains.closed.len());
    if open == 0 {
        return;
    }
    let wanted = usize::try_from(of.min_domains).unwrap_or_default();
    let too_few = all < wanted;
    let Some(lowest) = (if too_few { Some(0) } else { domains.lowest() }) else { return };
    let each = i128::from(lowest) + i128::from(of.max_skew);
    let elsewhere: i64 = domains.closed.values().sum();
    let most = each * open as i128 + i128::from(elsewhere);
    if most >= replicas as i128 {
        return;
    }
    let key = linted.tables().text(of.topology_key);
    let why = if too_few {
        let there = are(all);
        format!(
            "minDomains requires {wanted} values of {key} and there {there}, so none may have more than {each}"
        )
    } else {
        let names: Vec<String> =
            domains.closed.keys().map(|&value| domain(linted, of.topology_key, value)).collect();
        let there = if lowest == 0 { "empty".to_owned() } else { format!("at {}", count(lowest, "pod")) };
        let (verb, it_stays) = if names.len() == 1 { ("counts", "it stays") } else { ("count", "they stay") };
        format!(
            "{} {verb}, but these pods cannot run there: {it_stays} {there}, and no other domain may have more than {each}",
            some(&sorted(names), 3)
        )
    };
    let over = count(replicas as i128 - most, "pod");
    let message = format!("{why}. Of {replicas} replicas {over} can never run");
    linted.add(Rule::SpreadCannotBeMet, field, message, None);
}

fn are(number: usize) -> String {
    if number == 1 { "is 1".to_owned() } else { format!("are {number}") }
}

fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort_unstable();
    texts
}

/// Returns the domains, with the same eligibility as upstream: a node needs the keys of all hard constraints, and, if
/// honored, must match selectors and taints.
fn domains(linted: &Linted<'_, '_>, of: &SpreadConstraint, selector: &Selector) -> Domains {
    let (pod, snapshot, tables) = (&linted.subject.pod, linted.snapshot(), linted.tables());
    let is_hard = |each: &&SpreadConstraint| each.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule;
    let keys: Vec<Symbol> = pod.spread.iter().filter(is_hard).map(|each| each.topology_key).collect();
    let has_keys = |node: NodeIdx| keys.iter().all(|&key| snapshot.node_labels(node).get(key).is_some());
    let allowed: BTreeSet<NodeIdx> = linted.index.allowed(&pod.node_affinity).iter().copied().collect();
    let tolerated = |node: NodeIdx| {
        let taints = tables.taints(snapshot.node_info(node).taints);
        !taints.iter().any(|taint| taint.keeps_out(&pod.tolerations))
    };
    let counts = |&node: &NodeIdx| {
        has_keys(node)
            && (!of.honor_node_affinity || allowed.contains(&node))
            && (!of.honor_node_taints || tolerated(node))
    };
    let value = |node: NodeIdx| snapshot.node_labels(node).get(of.topology_key);
    let homes = linted.index.homes_of(pod);
    let open: BTreeSet<Symbol> =
        homes.iter().copied().filter(|&node| has_keys(node)).filter_map(value).collect();
    let counted = snapshot.nodes().iter().filter(counts).filter_map(value);
    let mut closed: BTreeMap<Symbol, i64> =
        counted.filter(|value| !open.contains(value)).map(|value| (value, 0)).collect();
    if !closed.is_empty() {
        let kinds = snapshot.pod_classes_in(pod.namespace);
        for kind in kinds.filter(|kind| selector.matches(tables, snapshot.labels(kind.pod().labels))) {
            for (node, pods) in kind.nodes().filter(|&(node, _)| snapshot.nodes().contains(node)) {
                if let Some(number) = value(node).and_then(|value| closed.get_mut(&value)) {
                    *number += pods;
                }
            }
        }
    }
    Domains { open, closed }
}
