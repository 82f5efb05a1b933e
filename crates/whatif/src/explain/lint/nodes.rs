//! Rules about requirements on nodes: labels, taints, resources.

use crate::explain::format::{amount, count, pair, requirement, resource, taint};
use crate::explain::lint::{Linted, PASSING_TAINTS, Rule};
use crate::explain::suggest::of_tolerations;
use std::collections::BTreeSet;
use supercargo_config::yaml::nearest;
use supercargo_core::cache::Snapshot;
use supercargo_core::framework::Measure;
use supercargo_core::model::intern::Symbol;
use supercargo_core::model::node::NodeIdx;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::model::resources::Resources;
use supercargo_core::model::selector::{NodeSelectorTerm, Operator, RequiredNodeAffinity, Requirement};

const SELECTOR: &str = "spec.nodeSelector";
const TERMS: &str = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution";
const REQUESTS: &str = "spec.containers[].resources.requests";
const NO_NODE_FEASIBLE: &str = "so no node is feasible";

pub(super) fn judge(linted: &mut Linted<'_, '_>) {
    if linted.snapshot().nodes().is_empty() {
        return;
    }
    tolerations(linted);
    preferences(linted);
    let pod = &linted.subject.pod;
    if linted.index.allowed(&pod.node_affinity).is_empty() {
        required(linted);
    } else {
        terms(linted);
        if linted.index.open_to(pod).is_empty() {
            taints(linted);
        } else {
            requests(linted);
        }
    }
}

/// Reports which part of the required node affinity no node matches.
fn required(linted: &mut Linted<'_, '_>) {
    let of = &linted.subject.pod.node_affinity;
    let by_pairs = RequiredNodeAffinity { node_selector: of.node_selector.clone(), terms: None };
    let by_terms = RequiredNodeAffinity { node_selector: None, terms: of.terms.clone() };
    let (pairs, terms) = (linted.index.allowed(&by_pairs).len(), linted.index.allowed(&by_terms).len());
    if pairs == 0 {
        let wanted = of.node_selector.iter().flatten();
        let wanted: Vec<Requirement> =
            wanted.map(|&(key, value)| Requirement { key, operator: Operator::In([value].into()) }).collect();
        unmatched(linted, Rule::NodeSelectorMatchesNothing, SELECTOR, &wanted);
    } else if terms == 0 {
        for (at, term) in of.terms.iter().flatten().enumerate() {
            term_of(linted, Rule::NodeSelectorMatchesNothing, at, term);
        }
    } else {
        let message = format!(
            "the {} allowed by nodeSelector and the {} allowed by node affinity do not overlap, {NO_NODE_FEASIBLE}",
            count(pairs as i64, "node"),
            count(terms as i64, "node"),
        );
        linted.add(Rule::NodeSelectorMatchesNothing, TERMS, message, None);
    }
}

fn term_of(linted: &mut Linted<'_, '_>, rule: Rule, at: usize, term: &NodeSelectorTerm) {
    let field = format!("{TERMS}.nodeSelectorTerms[{at}]");
    match &term.demands {
        None => {
            linted.add(rule, &field, "the term is empty or invalid, and matches no node".to_owned(), None);
        }
        Some(demands) if demands.names.is_empty() => unmatched(linted, rule, &field, &demands.labels),
        Some(demands) => {
            let names: Vec<&str> =
                demands.names.iter().map(|&(name, _)| linted.tables().text(name)).collect();
            let message = format!("matchFields requires the node {}, which does not exist", names.join(", "));
            linted.add(rule, &field, message, None);
        }
    }
}

/// Reports requirements that no node matches together: unknown labels, else how many nodes match each.
fn unmatched(linted: &mut Linted<'_, '_>, rule: Rule, field: &str, wanted: &[Requirement]) {
    let tables = linted.tables();
    let consequence = if rule == Rule::NodeSelectorMatchesNothing {
        format!(", {NO_NODE_FEASIBLE}")
    } else {
        String::new()
    };
    let hints: Vec<_> = wanted.iter().filter_map(|of| linted.index.node_hint(of)).collect();
    if hints.is_empty() {
        let each = wanted.iter().map(|of| {
            let nodes = linted.snapshot().nodes().iter();
            let nodes = nodes.filter(|&node| of.matches(tables, linted.snapshot().node_labels(node))).count();
            format!("{} {}", count(nodes as i64, "node"), has(nodes, &requirement(tables, of)))
        });
        let each = each.collect::<Vec<_>>().join(", ");
        linted.add(rule, field, format!("no node has all of these labels ({each}){consequence}"), None);
    }
    for hint in hints {
        linted.add(rule, field, format!("{}{consequence}", hint.text), hint.did_you_mean);
    }
}

fn has(nodes: usize, what: &str) -> String {
    format!("{} {what}", if nodes == 1 { "has" } else { "have" })
}

/// Reports terms that no node matches if other terms match some.
fn terms(linted: &mut Linted<'_, '_>) {
    let Some(all) = &linted.subject.pod.node_affinity.terms else { return };
    for (at, term) in all.iter().enumerate().filter(|_| all.len() > 1) {
        let alone = RequiredNodeAffinity { node_selector: None, terms: Some([term.clone()].into()) };
        if linted.index.allowed(&alone).is_empty() {
            term_of(linted, Rule::NodeTermMatchesNothing, at, term);
        }
    }
}

fn preferences(linted: &mut Linted<'_, '_>) {
    let Some(Ok(all)) = &linted.subject.pod.preferred_node_affinity else { return };
    for (at, preferred) in all.iter().enumerate() {
        let alone =
            RequiredNodeAffinity { node_selector: None, terms: Some([preferred.term.clone()].into()) };
        let Some(demands) = &preferred.term.demands else { continue };
        if linted.index.allowed(&alone).is_empty() {
            let field = format!("{PREFERRED}[{at}]");
            unmatched(linted, Rule::PreferenceMatchesNothing, &field, &demands.labels);
        }
    }
}

/// Reports that every node allowed by the selectors has a permanent, untolerated taint.
fn taints(linted: &mut Linted<'_, '_>) {
    let (pod, tables) = (&linted.subject.pod, linted.tables());
    let allowed = linted.index.allowed(&pod.node_affinity);
    let kept: BTreeSet<String> = allowed
        .iter()
        .filter_map(|&node| linted.index.repelled(node, pod))
        .map(|of| taint(tables, of))
        .collect();
    let kept: Vec<String> = kept.into_iter().collect();
    let message = format!(
        "{} its selectors allow {} a taint it does not tolerate ({}), {NO_NODE_FEASIBLE}",
        if allowed.len() == 1 { "the only node".to_owned() } else { format!("all {} nodes", allowed.len()) },
        if allowed.len() == 1 { "has" } else { "have" },
        crate::explain::format::some(&kept, 3),
    );
    let meant = of_tolerations(pod, linted.snapshot()).into_iter().find_map(|hint| hint.did_you_mean);
    linted.add(Rule::TaintsKeepAllAway, "spec.tolerations", message, meant);
}

fn tolerations(linted: &mut Linted<'_, '_>) {
    let (pod, tables, taints) = (&linted.subject.pod, linted.tables(), &linted.index.taints);
    for (at, toleration) in pod.tolerations.iter().enumerate() {
        let Some(key) = toleration.key.filter(|_| !taints.iter().any(|of| toleration.tolerates(of))) else {
            continue;
        };
        let text = tables.text(key);
        if text.starts_with(PASSING_TAINTS) {
            continue;
        }
        let value = tables.text(toleration.value);
        let written = if value.is_empty() { text.to_owned() } else { format!("{text}={value}") };
        let near = taints.iter().filter(|of| of.key == key || nearest(text, [tables.text(of.key)]).is_some());
        let meant = near.map(|of| taint(tables, of)).min();
        let message = format!("no node has a taint that the toleration {written} matches");
        linted.add(Rule::TolerationMatchesNoTaint, &format!("spec.tolerations[{at}]"), message, meant);
    }
}

/// Returns the requested resources.
fn wanted(of: &Resources) -> Vec<(Measure, i64)> {
    let mut all = vec![
        (Measure::Cpu, of.cpu_milli),
        (Measure::Memory, of.memory),
        (Measure::EphemeralStorage, of.ephemeral_storage),
    ];
    all.extend(of.scalar.iter().map(|&(name, value)| (Measure::Scalar(name), value)));
    all.retain(|&(_, value)| value > 0);
    all
}

fn has_of(snapshot: Snapshot<'_>, node: NodeIdx, of: Measure) -> i64 {
    let info = snapshot.node_info(node);
    match of {
        Measure::Pods => info.allocatable_pods,
        Measure::Cpu => info.allocatable.cpu_milli,
        Measure::Memory => info.allocatable.memory,
        Measure::EphemeralStorage => info.allocatable.ephemeral_storage,
        Measure::Scalar(name) => info.allocatable.scalar(name).unwrap_or_default(),
    }
}

/// Returns whether the node, if empty, has the resources that the pod requests.
pub(super) fn is_large_enough(snapshot: Snapshot<'_>, node: NodeIdx, pod: &PodInfo) -> bool {
    let wanted = wanted(&pod.resources.request);
    wanted.into_iter().all(|(of, wanted)| has_of(snapshot, node, of) >= wanted)
}

/// Reports requests that no allowed node satisfies even if empty.
fn requests(linted: &mut Linted<'_, '_>) {
    let (pod, snapshot, tables) = (&linted.subject.pod, linted.snapshot(), linted.tables());
    let open = linted.index.open_to(pod);
    if !linted.index.homes_of(pod).is_empty() {
        return;
    }
    let of_nodes = if open.len() == snapshot.nodes().len() {
        "the largest node".to_owned()
    } else {
        format!("the largest of the {} it may run on", count(open.len() as i64, "node"))
    };
    let mut any = false;
    for (of, wanted) in wanted(&pod.resources.request) {
        let largest = open.iter().map(|&node| has_of(snapshot, node, of)).max().unwrap_or_default();
        if largest >= wanted {
            continue;
        }
        any = true;
        let name = resource(tables, of);
        let (message, meant) = match of {
            Measure::Scalar(symbol) if largest == 0 => {
                let message = format!("no node it may run on has any {name}, {NO_NODE_FEASIBLE}");
                match snapshot.nodes().iter().filter(|&node| has_of(snapshot, node, of) > 0).count() {
                    0 => (message, meant_resource(linted, symbol)),
                    nodes => {
                        let nodes = count(nodes as i64, "node");
                        (
                            format!("{message}: its selectors and tolerations rule out the {nodes} with it"),
                            None,
                        )
                    }
                }
            }
            _ => {
                let (wanted, largest) = (amount(of, wanted), amount(of, largest));
                (format!("it requests {wanted} {name}, and {of_nodes} has {largest}"), None)
            }
        };
        linted.add(Rule::RequestTooLarge, REQUESTS, message, meant);
    }
    if !any {
        let each = wanted(&pod.resources.request);
        let each =
            each.into_iter().map(|(of, value)| format!("{} {}", amount(of, value), resource(tables, of)));
        let each = each.collect::<Vec<_>>().join(", ");
        let message = format!("no single node it may run on has all of {each}, even when empty");
        linted.add(Rule::RequestTooLarge, REQUESTS, message, None);
    }
}

fn meant_resource(linted: &Linted<'_, '_>, name: Symbol) -> Option<String> {
    let (snapshot, tables) = (linted.snapshot(), linted.tables());
    let all = snapshot.nodes().iter().flat_map(|node| &snapshot.node_info(node).allocatable.scalar);
    let names: BTreeSet<&str> =
        all.filter(|&&(_, value)| value > 0).map(|&(name, _)| tables.text(name)).collect();
    nearest(tables.text(name), names).map(str::to_owned)
}

/// Formats a topology domain as `key=value`.
pub(super) fn domain(linted: &Linted<'_, '_>, key: Symbol, value: Symbol) -> String {
    pair(linted.tables(), key, value)
}
