//! Formats reasons with their numbers: for one node, and for a group of nodes with the same reason.

use crate::explain::format::{amount, count, pair, requirement, resource, selector, some, taint};
use crate::explain::reason::Found;
use std::collections::BTreeMap;
use supercargo_core::framework::{Fact, Measure};
use supercargo_core::model::intern::{Symbol, Tables};

/// Formats a reason against one node.
pub(super) fn of_node(found: &Found, tables: &Tables) -> String {
    let text = match &found.fact {
        None => return words_of(found),
        Some(Fact::Short { of, wanted, taken, allocatable }) => {
            short(tables, *of, *wanted, allocatable.saturating_sub(*taken), *allocatable)
        }
        Some(Fact::Taint(it)) => {
            format!("has the taint {}, which the pod does not tolerate", taint(tables, it))
        }
        Some(Fact::Selector { key, wanted, found }) => {
            let asked = pair(tables, *key, *wanted);
            format!("nodeSelector requires {asked}, the node has {}", has(tables, *key, *found))
        }
        Some(Fact::Term { added, unmet, found, .. }) => {
            let asked = requirement(tables, unmet);
            format!("{} requires {asked}, the node has {}", whose(*added), has(tables, unmet.key, *found))
        }
        Some(Fact::Port(port)) => {
            format!("host port {}/{} is in use", port.port, tables.text(port.protocol))
        }
        Some(skew @ Fact::Skew { .. }) => of_skew(skew, tables),
        Some(Fact::NoKey(key)) => format!("has no label {}, a topologyKey of the pod", tables.text(*key)),
        Some(Fact::NoPeer { key, domain, selector: means }) => {
            let (whom, place) = (selector(tables, means), pair(tables, *key, *domain));
            format!("no pod with {whom} runs in {place}, and the pod's affinity requires one")
        }
        Some(Fact::Foes { key, domain, pods, selector: means }) => {
            let (whom, place) = (selector(tables, means), pair(tables, *key, *domain));
            let runs = if *pods == 1 { "runs" } else { "run" };
            format!(
                "{} with {whom} {runs} in {place}, and the pod's anti-affinity allows none",
                count(*pods, "pod")
            )
        }
        Some(Fact::FoeOf { key, domain, pods }) => {
            let place = pair(tables, *key, *domain);
            let runs = if *pods == 1 { "runs" } else { "run" };
            format!("{} whose anti-affinity excludes this pod {runs} in {place}", count(*pods, "pod"))
        }
    };
    if found.because_nominated { format!("{text}, counting pods nominated to the node") } else { text }
}

/// Formats a reason that a group of nodes share; the nodes are given by name.
pub(super) fn of_group(of: &[(&str, &Found)], tables: &Tables) -> String {
    let Some((_, first)) = of.first() else { return String::new() };
    match &first.fact {
        None => words_of_all(of, first),
        Some(Fact::Short { .. }) => of_shortages(of, tables),
        Some(Fact::Taint(it)) => format!("the taint {} is not tolerated", taint(tables, it)),
        Some(Fact::Selector { key, wanted, .. }) => {
            let asked = pair(tables, *key, *wanted);
            format!("nodeSelector requires {asked}; {}", there(of, tables, *key))
        }
        Some(Fact::Term { added, unmet, .. }) => {
            format!(
                "{} requires {}; {}",
                whose(*added),
                requirement(tables, unmet),
                there(of, tables, unmet.key)
            )
        }
        Some(Fact::Port(port)) => {
            format!("host port {}/{} is in use", port.port, tables.text(port.protocol))
        }
        Some(Fact::Skew { .. }) => of_skews(of, tables),
        Some(Fact::NoKey(key)) => format!("no label {}, a topologyKey of the pod", tables.text(*key)),
        Some(Fact::NoPeer { key, selector: means, .. }) => {
            let (whom, key) = (selector(tables, means), tables.text(*key));
            format!("the pod's affinity requires a pod with {whom} in the same {key}; there is none")
        }
        Some(Fact::Foes { key, selector: means, .. }) => {
            let (whom, key) = (selector(tables, means), tables.text(*key));
            format!(
                "the pod's anti-affinity allows no other pod with {whom} in the same {key}; there is one already"
            )
        }
        Some(Fact::FoeOf { key, .. }) => {
            let key = tables.text(*key);
            format!("the anti-affinity of a pod in the same {key} excludes this pod")
        }
    }
}

fn whose(added: bool) -> &'static str {
    if added { "the scheduler's addedAffinity" } else { "the pod's node affinity" }
}

/// Returns the message of a group; if the details differ, those of the first node.
fn words_of_all(of: &[(&str, &Found)], first: &Found) -> String {
    let detail = first.words.strip_prefix(&format!("{}: ", first.about));
    match (detail, of.first()) {
        (Some(detail), Some((node, _))) if of.iter().any(|(_, found)| found.words != first.words) => {
            format!("{}; on {node}: {detail}", first.about)
        }
        _ => words_of(first),
    }
}

/// Returns the plugin's message without the prefix `node(s)`.
fn words_of(found: &Found) -> String {
    let words = found.words.strip_prefix("node(s) ").unwrap_or(&found.words);
    match found.plugin {
        "NodeUnschedulable" => "cordoned (spec.unschedulable)".to_owned(),
        _ => words.to_owned(),
    }
}

fn has(tables: &Tables, key: Symbol, found: Option<Symbol>) -> String {
    match found {
        Some(value) => pair(tables, key, value),
        None => format!("no label {}", tables.text(key)),
    }
}

fn short(tables: &Tables, of: Measure, wanted: i64, free: i64, allocatable: i64) -> String {
    let name = resource(tables, of);
    if of == Measure::Pods {
        let taken = allocatable.saturating_sub(free);
        return format!("runs {taken} of at most {allocatable} pods");
    }
    let [wanted_text, free, all] = [wanted, free.max(0), allocatable].map(|value| amount(of, value));
    let even = if wanted > allocatable { "; too small even if empty" } else { "" };
    format!("requests {wanted_text} {name}, {free} of {all} free{even}")
}

fn of_shortages(of: &[(&str, &Found)], tables: &Tables) -> String {
    let each = of.iter().filter_map(|(node, found)| match found.fact {
        Some(Fact::Short { of, wanted, taken, allocatable }) => {
            Some((allocatable.saturating_sub(taken), allocatable, wanted, of, *node))
        }
        _ => None,
    });
    // The most free resources; then the largest node; then the first by name.
    let best = each.clone().max_by(|a, b| (a.0, a.1, b.4).cmp(&(b.0, b.1, a.4)));
    let Some((free, allocatable, wanted, measure, node)) = best else { return String::new() };
    let largest = each.map(|(_, allocatable, ..)| allocatable).max().unwrap_or_default();
    let name = resource(tables, measure);
    if measure == Measure::Pods {
        return format!("the maximum number of pods is reached, {allocatable} on {node}");
    }
    let text = |value: i64| amount(measure, value);
    if wanted > largest {
        return format!(
            "requests {} {name}; even when empty, the largest of these nodes has only {}",
            text(wanted),
            text(largest)
        );
    }
    format!(
        "requests {} {name}; most free: {} of {}, on {node}",
        text(wanted),
        text(free.max(0)),
        text(allocatable)
    )
}

/// Formats which values of a label a group of nodes have.
fn there(of: &[(&str, &Found)], tables: &Tables, key: Symbol) -> String {
    let mut by_value: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for (_, found) in of {
        if let Some(Fact::Selector { found, .. } | Fact::Term { found, .. }) = &found.fact {
            *by_value.entry(found.map(|value| tables.text(value))).or_default() += 1;
        }
    }
    let key = tables.text(key);
    let mut by_count: Vec<_> = by_value.into_iter().collect();
    by_count.sort_by_key(|&(_, nodes)| std::cmp::Reverse(nodes));
    let each = by_count.iter().map(|(value, nodes)| match value {
        Some(value) => format!("{} {key}={value}", has_on(*nodes)),
        None => format!("{} no label {key}", has_on(*nodes)),
    });
    some(&each.collect::<Vec<_>>(), 3)
}

fn has_on(nodes: usize) -> String {
    format!("{} {}", count(nodes as i64, "node"), if nodes == 1 { "has" } else { "have" })
}

fn of_skew(skew: &Fact, tables: &Tables) -> String {
    let Fact::Skew { key, domain, here, itself, lowest, max_skew, selector: counts, .. } = skew else {
        return String::new();
    };
    let (place, whom) = (pair(tables, *key, *domain), selector(tables, counts));
    let then = here + itself;
    format!(
        "{place} would have {} with {whom} and the emptiest domain has {lowest}: skew {} exceeds maxSkew {max_skew}",
        count(then, "pod"),
        then - lowest
    )
}

fn of_skews(of: &[(&str, &Found)], tables: &Tables) -> String {
    let skew = |found: &Found| match found.fact {
        Some(Fact::Skew { here, lowest, .. }) => here - lowest,
        _ => i64::MAX,
    };
    let nearest = of.iter().min_by_key(|(node, found)| (skew(found), *node));
    nearest.and_then(|(_, found)| found.fact.as_ref()).map(|fact| of_skew(fact, tables)).unwrap_or_default()
}
