//! Rules about requirements on other pods: affinity, anti-affinity, and how many replicas can be kept apart.

use crate::explain::format::{count, selector as in_words};
use crate::explain::lint::{House, Rule, Severity, Told};
use crate::explain::suggest::of_key;
use std::collections::BTreeSet;
use supercargo_core::model::intern::Symbol;
use supercargo_core::model::node::NodeIdx;
use supercargo_core::model::pod::{PodAffinityTerm, WeightedPodAffinityTerm};
use supercargo_core::model::selector::Selector;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn judge(told: &mut Told<'_, '_>) {
    let Some(all) = &told.subject.pod.pod_affinity else { return };
    let field = |whose: &str, when: &str, at: usize| format!("spec.affinity.{whose}.{when}[{at}]");
    for (at, term) in all.required_affinity.iter().flatten().enumerate() {
        affinity(told, &field("podAffinity", REQUIRED, at), term);
    }
    for (at, term) in all.required_anti_affinity.iter().flatten().enumerate() {
        anti_affinity(told, &field("podAntiAffinity", REQUIRED, at), term);
    }
    let preferred =
        [("podAffinity", &all.preferred_affinity), ("podAntiAffinity", &all.preferred_anti_affinity)];
    for (whose, terms) in preferred {
        for (at, WeightedPodAffinityTerm { term, .. }) in terms.iter().flatten().enumerate() {
            preference(told, &field(whose, PREFERRED, at), term);
        }
    }
}

fn affinity(told: &mut Told<'_, '_>, field: &str, term: &PodAffinityTerm) {
    topology_key(told, Severity::Error, field, term.topology_key, "so no node is feasible");
    if !told.house.has_any(term, &told.subject.pod) {
        let (what, meant) = unmatched(told, &term.selector);
        let message = format!("its required affinity matches no pod: {what}");
        told.add(Rule::AffinityMatchesNoPod, &format!("{field}.labelSelector"), message, meant);
    }
}

fn anti_affinity(told: &mut Told<'_, '_>, field: &str, term: &PodAffinityTerm) {
    if !topology_key(told, Severity::Warning, field, term.topology_key, "so it has no effect") {
        return;
    }
    let pod = &told.subject.pod;
    if !told.house.has_any(term, pod) {
        let (what, meant) = unmatched(told, &term.selector);
        let message = format!("its required anti-affinity matches no pod: {what}");
        told.add(Rule::AntiAffinityMatchesNoPod, &format!("{field}.labelSelector"), message, meant);
    } else if told.house.means(term, pod.namespace, pod.labels) {
        width(told, field, term);
    }
}

/// Reports more replicas than domains for pods that exclude each other. A node without the topology key is never
/// excluded.
fn width(told: &mut Told<'_, '_>, field: &str, term: &PodAffinityTerm) {
    let homes = told.house.homes_of(&told.subject.pod);
    let (Some(domains), Some(replicas)) = (domains(told, &homes, term.topology_key), told.subject.replicas)
    else {
        return;
    };
    if domains.is_empty() {
        return;
    }
    let key = told.tables().text(term.topology_key);
    let there = if domains.len() == 1 { "is 1" } else { &format!("are {}", domains.len()) };
    if replicas > domains.len() {
        let over = count((replicas - domains.len()) as i64, "pod");
        let message = format!(
            "each of {replicas} replicas needs a {key} of its own, and there {there} they may run in: {over} can never run"
        );
        told.add(Rule::AntiAffinityTooWide, field, message, None);
    } else if told.subject.surge > 0 && replicas == domains.len() {
        let message = format!(
            "{replicas} replicas fill every {key} they may run in, and a rollout creates the new pod before it removes \
             the old one, so it never completes. Set maxUnavailable to 1 and maxSurge to 0"
        );
        told.add(Rule::AntiAffinityBlocksRollout, field, message, None);
    }
}

/// Returns the domains of the nodes; `None` if a node has no domain.
fn domains(told: &Told<'_, '_>, nodes: &[NodeIdx], key: Symbol) -> Option<BTreeSet<Symbol>> {
    nodes.iter().map(|&node| told.snapshot().node_labels(node).get(key)).collect()
}

fn preference(told: &mut Told<'_, '_>, field: &str, term: &PodAffinityTerm) {
    if !topology_key(told, Severity::Info, field, term.topology_key, "so it has no effect") {
        return;
    }
    if !told.house.has_any(term, &told.subject.pod) {
        let (what, meant) = unmatched(told, &term.selector);
        let message = format!("its preference matches no pod: {what}");
        let field = format!("{field}.podAffinityTerm.labelSelector");
        told.add(Rule::PreferenceMatchesNothing, &field, message, meant);
    }
}

/// Reports a topology key that no node has; returns whether a node has it.
pub(super) fn topology_key(
    told: &mut Told<'_, '_>,
    severity: Severity,
    field: &str,
    key: Symbol,
    consequence: &str,
) -> bool {
    if told.snapshot().nodes().is_empty() {
        return true;
    }
    let Some(hint) = of_key(field, key, told.tables(), &told.house.nodes) else { return true };
    let message = format!("{}, {consequence}", hint.text);
    let field = format!("{field}.topologyKey");
    told.add_as(Rule::TopologyKeyUnknown, severity, &field, message, hint.did_you_mean);
    false
}

/// Describes a selector that matches no pod, with a suggestion.
pub(super) fn unmatched(told: &Told<'_, '_>, selector: &Selector) -> (String, Option<String>) {
    let meant = meant(told.house, selector);
    let unknown = hints(told.house, selector).into_iter().next();
    let text = unknown.map_or_else(|| no_pod_has(told, selector), |hint| hint.text);
    (text, meant)
}

fn no_pod_has(told: &Told<'_, '_>, selector: &Selector) -> String {
    match selector {
        Selector::Nothing => "the labelSelector is missing, so it matches no pod".to_owned(),
        Selector::All(_) => format!("no pod in its namespaces has {}", in_words(told.tables(), selector)),
    }
}

/// Returns what a selector that matches no pod was probably meant to be.
pub(super) fn meant(house: &House<'_>, selector: &Selector) -> Option<String> {
    hints(house, selector).into_iter().find_map(|hint| hint.did_you_mean)
}

fn hints(house: &House<'_>, selector: &Selector) -> Vec<crate::explain::answer::Hint> {
    let Selector::All(list) = selector else { return Vec::new() };
    list.iter().filter_map(|of| house.pod_hint(of)).collect()
}
