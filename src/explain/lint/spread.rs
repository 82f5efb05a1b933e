//! Topology spread: what a constraint counts, and whether as many pods as are wanted can ever keep to it.
//!
//! Upstream: `pkg/scheduler/framework/plugins/podtopologyspread/filtering.go`.

use super::super::words::{count, selector as in_words, some};
use super::nodes::domain;
use super::pods::{nobody, topology_key};
use super::{Rule, Severity, Told};
use std::collections::{BTreeMap, BTreeSet};
use supercargo_core::intern::Symbol;
use supercargo_core::node::NodeIdx;
use supercargo_core::pod::{SpreadConstraint, WhenUnsatisfiable};
use supercargo_core::selector::Selector;

pub(super) fn judge(told: &mut Told<'_, '_>) {
    let pod = &told.subject.pod;
    for (at, of) in pod.spread.iter().enumerate() {
        let field = format!("spec.topologySpreadConstraints[{at}]");
        let (severity, consequence) = match of.when_unsatisfiable {
            WhenUnsatisfiable::DoNotSchedule => (Severity::Error, "so no node will do"),
            WhenUnsatisfiable::ScheduleAnyway => (Severity::Info, "so it spreads nothing"),
            WhenUnsatisfiable::Unknown => continue,
        };
        let is_known = topology_key(told, severity, &field, of.topology_key, consequence);
        let Ok(selector) = &of.selector else { continue };
        if !counts_its_own(told, &field, selector) || !is_known {
            continue;
        }
        if of.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule {
            limit(told, &field, of, selector);
        }
    }
}

/// Whether a constraint counts the pods it is written in; tells where it does not.
fn counts_its_own(told: &mut Told<'_, '_>, field: &str, selector: &Selector) -> bool {
    let (pod, tables) = (&told.subject.pod, told.tables());
    if selector.matches(tables, told.snapshot().labels(pod.labels)) {
        return true;
    }
    let field = format!("{field}.labelSelector");
    if told.house.has_any_in(pod.namespace, selector) {
        let message = format!(
            "it counts pods with {}, and its own have not all of it: its own are not spread among themselves",
            in_words(tables, selector)
        );
        told.add(Rule::SpreadIgnoresOwnPods, &field, message, None);
    } else {
        let (what, meant) = nobody(told, selector);
        let message = format!("it counts no pod, so it spreads nothing: {what}");
        told.add(Rule::SpreadMatchesNoPod, &field, message, meant);
    }
    false
}

/// The domains of a constraint.
struct Domains {
    /// Those where a pod may go.
    open: BTreeSet<Symbol>,
    /// Those that count for the skew and where none may go, with how many pods are there all the same.
    closed: BTreeMap<Symbol, i64>,
}

impl Domains {
    /// The least that is in a domain where none may go: all others may have only so much more.
    fn lowest(&self) -> Option<i64> {
        self.closed.values().copied().min()
    }
}

/// More replicas than the domains may ever hold: where a domain that counts stays as it is, the others may grow only so far.
fn limit(told: &mut Told<'_, '_>, field: &str, of: &SpreadConstraint, selector: &Selector) {
    let Some(replicas) = told.subject.replicas else { return };
    let domains = domains(told, of, selector);
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
    let key = told.tables().text(of.topology_key);
    let why = if too_few {
        let there = are(all);
        format!(
            "minDomains asks for {wanted} values of {key} and there {there}, so none may have more than {each}"
        )
    } else {
        let names: Vec<String> =
            domains.closed.keys().map(|&value| domain(told, of.topology_key, value)).collect();
        let there = if lowest == 0 { "empty".to_owned() } else { format!("at {}", count(lowest, "pod")) };
        let (verb, it_stays) = if names.len() == 1 { ("counts", "it stays") } else { ("count", "they stay") };
        format!(
            "{} {verb}, and none of these pods can go there: {it_stays} {there}, and no other domain may have more than {each}",
            some(&sorted(names), 3)
        )
    };
    let over = count(replicas as i128 - most, "pod");
    let message = format!("{why}. Of {replicas} replicas {over} can never run");
    told.add(Rule::SpreadCannotBeMet, field, message, None);
}

fn are(number: usize) -> String {
    if number == 1 { "is 1".to_owned() } else { format!("are {number}") }
}

fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort_unstable();
    texts
}

/// Which nodes count is what upstream asks: all keys of hard constraints, and, if they are honoured, selectors and taints.
fn domains(told: &Told<'_, '_>, of: &SpreadConstraint, selector: &Selector) -> Domains {
    let (pod, snapshot, tables) = (&told.subject.pod, told.snapshot(), told.tables());
    let is_hard = |each: &&SpreadConstraint| each.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule;
    let keys: Vec<Symbol> = pod.spread.iter().filter(is_hard).map(|each| each.topology_key).collect();
    let has_keys = |node: NodeIdx| keys.iter().all(|&key| snapshot.node_labels(node).get(key).is_some());
    let allowed: BTreeSet<NodeIdx> = told.house.allowed(&pod.node_affinity).iter().copied().collect();
    let tolerated = |node: NodeIdx| {
        let taints = tables.taints(snapshot.node_info(node).taints);
        taints.iter().all(|taint| !taint.repels() || taint.is_tolerated_by(&pod.tolerations))
    };
    let counts = |&node: &NodeIdx| {
        has_keys(node)
            && (!of.honor_node_affinity || allowed.contains(&node))
            && (!of.honor_node_taints || tolerated(node))
    };
    let value = |node: NodeIdx| snapshot.node_labels(node).get(of.topology_key);
    let homes = told.house.homes_of(pod);
    let open: BTreeSet<Symbol> =
        homes.iter().copied().filter(|&node| has_keys(node)).filter_map(value).collect();
    let counted = snapshot.nodes().iter().filter(counts).filter_map(value);
    let mut closed: BTreeMap<Symbol, i64> =
        counted.filter(|value| !open.contains(value)).map(|value| (value, 0)).collect();
    if !closed.is_empty() {
        let kinds = snapshot.kinds_in(pod.namespace);
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
