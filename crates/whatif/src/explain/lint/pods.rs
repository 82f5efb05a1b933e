//! Rules about requirements on other pods: affinity, anti-affinity, and how many replicas can be kept apart.

use crate::explain::format::{count, selector as in_words};
use crate::explain::lint::{ClusterIndex, Linted, Rule, Severity};
use crate::explain::suggest::of_key;
use std::collections::BTreeSet;
use supercargo_core::model::intern::Symbol;
use supercargo_core::model::node::NodeIdx;
use supercargo_core::model::pod::{PodAffinityTerm, WeightedPodAffinityTerm};
use supercargo_core::model::selector::Selector;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn judge(linted: &mut Linted<'_, '_>) {
    let Some(all) = &linted.subject.pod.pod_affinity else { return };
    let field = |whose: &str, when: &str, at: usize| format!("spec.affinity.{whose}.{when}[{at}]");
    for (at, term) in all.required_affinity.iter().flatten().enumerate() {
        affinity(linted, &field("podAffinity", REQUIRED, at), term);
    }
    for (at, term) in all.required_anti_affinity.iter().flatten().enumerate() {
        anti_affinity(linted, &field("podAntiAffinity", REQUIRED, at), term);
    }
    let preferred =
        [("podAffinity", &all.preferred_affinity), ("podAntiAffinity", &all.preferred_anti_affinity)];
    for (whose, terms) in preferred {
        for (at, WeightedPodAffinityTerm { term, .. }) in terms.iter().flatten().enumerate() {
            preference(linted, &field(whose, PREFERRED, at), term);
        }
    }
}

fn affinity(linted: &mut Linted<'_, '_>, field: &str, term: &PodAffinityTerm) {
    topology_key(linted, Severity::Error, field, term.topology_key, "so no node is feasible");
    if !linted.index.has_any(term, &linted.subject.pod) {
        let (what, meant) = unmatched(linted, &term.selector);
        let message = format!("its required affinity matches no pod: {what}");
        linted.add(Rule::AffinityMatchesNoPod, &format!("{field}.labelSelector"), message, meant);
    }
}

fn anti_affinity(linted: &mut Linted<'_, '_>, field: &str, term: &PodAffinityTerm) {
    if !topology_key(linted, Severity::Warning, field, term.topology_key, "so it has no effect") {
        return;
    }
    let pod = &linted.subject.pod;
    if !linted.index.has_any(term, pod) {
        let (what, meant) = unmatched(linted, &term.selector);
        let message = format!("its required anti-affinity matches no pod: {what}");
        linted.add(Rule::AntiAffinityMatchesNoPod, &format!("{field}.labelSelector"), message, meant);
    } else if linted.index.means(term, pod.namespace, pod.labels) {
        width(linted, field, term);
    }
}

/// Reports more replicas than domains for pods that exclude each other. A node without the topology key is never
/// excluded.
fn width(linted: &mut Linted<'_, '_>, field: &str, term: &PodAffinityTerm) {
    let homes = linted.index.homes_of(&linted.subject.pod);
    let (Some(domains), Some(replicas)) =
        (domains(linted, &homes, term.topology_key), linted.subject.replicas)
    else {
        return;
    };
    if domains.is_empty() {
        return;
    }
    let key = linted.tables().text(term.topology_key);
    let there = if domains.len() == 1 { "is 1" } else { &format!("are {}", domains.len()) };
    if replicas > domains.len() {
        let over = count((replicas - domains.len()) as i64, "pod");
        let message = format!(
            "each of {replicas} replicas needs a {key} of its own, and there {there} they may run in: {over} can never run"
        );
        linted.add(Rule::AntiAffinityTooWide, field, message, None);
    } else if linted.subject.surge > 0 && replicas == domains.len() {
        let message = format!(
            "{replicas} replicas fill every {key} they may run in, and a rollout creates the new pod before it removes \
             the old one, so it never completes. Set maxUnavailable to 1 and maxSurge to 0"
        );
        linted.add(Rule::AntiAffinityBlocksRollout, field, message, None);
    }
}

/// Returns the domains of the nodes; `None` if a node has no domain.
fn domains(linted: &Linted<'_, '_>, nodes: &[NodeIdx], key: Symbol) -> Option<BTreeSet<Symbol>> {
    nodes.iter().map(|&node| linted.snapshot().node_labels(node).get(key)).collect()
}

fn preference(linted: &mut Linted<'_, '_>, field: &str, term: &PodAffinityTerm) {
    if !topology_key(linted, Severity::Info, field, term.topology_key, "so it has no effect") {
        return;
    }
    if !linted.index.has_any(term, &linted.subject.pod) {
        let (what, meant) = unmatched(linted, &term.selector);
        let message = format!("its preference matches no pod: {what}");
        let field = format!("{field}.podAffinityTerm.labelSelector");
        linted.add(Rule::PreferenceMatchesNothing, &field, message, meant);
    }
}

/// Reports a topology key that no node has; returns whether a node has it.
pub(super) fn topology_key(
    linted: &mut Linted<'_, '_>,
    severity: Severity,
    field: &str,
    key: Symbol,
    consequence: &str,
) -> bool {
    if linted.snapshot().nodes().is_empty() {
        return true;
    }
    let Some(hint) = of_key(field, key, linted.tables(), &linted.index.nodes) else { return true };
    let message = format!("{}, {consequence}", hint.text);
    let field = format!("{field}.topologyKey");
    linted.add_as(Rule::TopologyKeyUnknown, severity, &field, message, hint.did_you_mean);
    false
}

/// Describes a selector that matches no pod, with a suggestion.
pub(super) fn unmatched(linted: &Linted<'_, '_>, selector: &Selector) -> (String, Option<String>) {
    let meant = meant(linted.index, selector);
    let unknown = hints(linted.index, selector).into_iter().next();
    let text = unknown.map_or_else(|| no_pod_has(linted, selector), |hint| hint.text);
    (text, meant)
}

fn no_pod_has(linted: &Linted<'_, '_>, selector: &Selector) -> String {
    match selector {
        Selector::Nothing => "the labelSelector is missing, so it matches no pod".to_owned(),
        Selector::All(_) => format!("no pod in its namespaces has {}", in_words(linted.tables(), selector)),
    }
}

/// Returns what a selector that matches no pod was probably meant to be.
pub(super) fn meant(index: &ClusterIndex<'_>, selector: &Selector) -> Option<String> {
    hints(index, selector).into_iter().find_map(|hint| hint.did_you_mean)
}

fn hints(index: &ClusterIndex<'_>, selector: &Selector) -> Vec<crate::explain::answer::Hint> {
    let Selector::All(list) = selector else { return Vec::new() };
    list.iter().filter_map(|of| index.pod_hint(of)).collect()
}
