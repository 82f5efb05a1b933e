//! Reasons in plain words with the numbers behind them: of one node, and of a group of nodes that share one.

use super::reason::Found;
use super::words::{amount, count, pair, requirement, resource, selector, some, taint};
use std::collections::BTreeMap;
use supercargo_core::framework::{Fact, Measure};
use supercargo_core::intern::{Symbol, Tables};

/// A reason against one node.
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
            format!("nodeSelector asks for {asked}, the node has {}", has(tables, *key, *found))
        }
        Some(Fact::Term { added, unmet, found, .. }) => {
            let asked = requirement(tables, unmet);
            format!("{} asks for {asked}, the node has {}", whose(*added), has(tables, unmet.key, *found))
        }
        Some(Fact::Port(port)) => {
            format!("host port {}/{} is in use", port.port, tables.text(port.protocol))
        }
        Some(skew @ Fact::Skew { .. }) => of_skew(skew, tables),
        Some(Fact::NoKey(key)) => format!("has no label {}, by which the pod is placed", tables.text(*key)),
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
            format!(
                "{} that will not have this one near by anti-affinity {runs} in {place}",
                count(*pods, "pod")
            )
        }
    };
    if found.because_nominated { format!("{text}, counting pods that are about to go there") } else { text }
}

/// A reason that a group of nodes, by name, share.
pub(super) fn of_group(of: &[(&str, &Found)], tables: &Tables) -> String {
    let Some((_, first)) = of.first() else { return String::new() };
    match &first.fact {
        None => words_of(first),
        Some(Fact::Short { .. }) => of_shortages(of, tables),
        Some(Fact::Taint(it)) => format!("the taint {} is not tolerated", taint(tables, it)),
        Some(Fact::Selector { key, wanted, .. }) => {
            let asked = pair(tables, *key, *wanted);
            format!("nodeSelector asks for {asked}; {}", there(of, tables, *key))
        }
        Some(Fact::Term { added, unmet, .. }) => {
            format!(
                "{} asks for {}; {}",
                whose(*added),
                requirement(tables, unmet),
                there(of, tables, unmet.key)
            )
        }
        Some(Fact::Port(port)) => {
            format!("host port {}/{} is in use", port.port, tables.text(port.protocol))
        }
        Some(Fact::Skew { .. }) => of_skews(of, tables),
        Some(Fact::NoKey(key)) => format!("no label {}, by which the pod is placed", tables.text(*key)),
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
            format!("a pod in the same {key} will not have this one near, by its own anti-affinity")
        }
    }
}

fn whose(added: bool) -> &'static str {
    if added { "the scheduler's addedAffinity" } else { "the pod's required node affinity" }
}

/// Upstream's words, without its count of nodes, which is told beside them.
fn words_of(found: &Found) -> String {
    let words = found.words.strip_prefix("node(s) ").unwrap_or(&found.words);
    match found.plugin {
        "NodeUnschedulable" => "closed to new pods (cordoned)".to_owned(),
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
        return format!("has {taken} pods, and room for {allocatable}");
    }
    let [wanted_text, free, all] = [wanted, free.max(0), allocatable].map(|value| amount(of, value));
    let even = if wanted > allocatable { ": too small even when empty" } else { "" };
    format!("wants {wanted_text} {name}, free {free} of {all}{even}")
}

fn of_shortages(of: &[(&str, &Found)], tables: &Tables) -> String {
    let each = of.iter().filter_map(|(node, found)| match found.fact {
        Some(Fact::Short { of, wanted, taken, allocatable }) => {
            Some((allocatable.saturating_sub(taken), allocatable, wanted, of, *node))
        }
        _ => None,
    });
    // Of equal ones the largest, and of these the first by name.
    let best = each.clone().max_by(|a, b| (a.0, a.1, b.4).cmp(&(b.0, b.1, a.4)));
    let Some((free, allocatable, wanted, measure, node)) = best else { return String::new() };
    let largest = each.map(|(_, allocatable, ..)| allocatable).max().unwrap_or_default();
    let name = resource(tables, measure);
    if measure == Measure::Pods {
        return format!("full: the number of pods is limited, to {allocatable} on {node}");
    }
    let text = |value: i64| amount(measure, value);
    if wanted > largest {
        return format!(
            "wants {} {name}; none of these has so much even when empty, the largest {}",
            text(wanted),
            text(largest)
        );
    }
    format!(
        "wants {} {name}; most free: {} of {}, on {node}",
        text(wanted),
        text(free.max(0)),
        text(allocatable)
    )
}

/// What a group of nodes has of a label.
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
        "{place} would have {} with {whom} and the emptiest domain has {lowest}: {} apart, maxSkew allows {max_skew}",
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
