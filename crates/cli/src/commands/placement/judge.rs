//! Compares the expectations of a placement test with the decided placements.

use crate::commands::placement::spec::{Case, Expectation, NodeChoice, PodChoice, Spread};
use crate::commands::simulate::what_if::{Resident, WhatIf, means_kind};
use std::collections::{BTreeMap, BTreeSet};
use supercargo_core::model::intern::{Labels, Symbol, Tables};
use supercargo_whatif::explain::format::{count, some};

/// Maximum number of pods named in a failure.
const NAMED: usize = 3;

/// Result of a case: number of selected pods, and failures.
pub(super) struct Judged {
    pub pods: usize,
    pub failures: Vec<String>,
}

/// Evaluates a case.
pub(super) fn judge(what_if: &mut WhatIf, residents: &[Resident], case: &Case) -> Judged {
    let chosen: Vec<&Resident> =
        residents.iter().filter(|it| is_chosen(what_if.tables(), it, &case.pods)).collect();
    let mut failures = Vec::new();
    let of = &case.expect;
    if let Some(wanted) = of.count.filter(|&wanted| usize::try_from(wanted) != Ok(chosen.len())) {
        failures.push(format!("expected {}, found {}", count(wanted, "pod"), chosen.len()));
    }
    if chosen.is_empty() && of.count != Some(0) {
        failures.push("no pod matches, so nothing can be checked".to_owned());
        return Judged { pods: 0, failures };
    }
    scheduled(what_if, &chosen, of, &mut failures);
    let asks_where = of.on_nodes.is_some() || of.not_on_nodes.is_some() || of.spread.is_some();
    if asks_where && chosen.iter().all(|it| it.node.is_none()) {
        let pods = count(chosen.len() as i64, "pod");
        failures.push(format!("none of {pods} has a node, so placement cannot be checked"));
    } else {
        nodes(what_if, &chosen, of, &mut failures);
        of.spread.iter().for_each(|spread| evenly(what_if, &chosen, spread, &mut failures));
    }
    if let Some(code) = &of.pending_for {
        pending_for(what_if, &chosen, code, &mut failures);
    }
    Judged { pods: chosen.len(), failures }
}

fn is_chosen(tables: &Tables, of: &Resident, by: &PodChoice) -> bool {
    let owner = || of.owner.as_ref().map(|owner| (&*owner.kind, &*owner.name));
    let is_made_by = |workload: &String| {
        let (kind, name) = match workload.split_once('/') {
            Some((kind, name)) => (Some(kind), name),
            None => (None, workload.as_str()),
        };
        owner().is_some_and(|(own, made_by)| made_by == name && kind.is_none_or(|kind| means_kind(kind, own)))
    };
    by.namespace.as_ref().is_none_or(|namespace| tables.text(of.pod.namespace) == namespace)
        && by.name.as_ref().is_none_or(|name| *of.pod.name == **name)
        && by.workload.as_ref().is_none_or(is_made_by)
        && has_labels(tables, tables.labels(of.pod.labels), &by.labels)
}

fn has_labels(tables: &Tables, labels: Labels<'_>, wanted: &BTreeMap<String, String>) -> bool {
    wanted.iter().all(|(key, value)| {
        let found = tables.find(key).and_then(|key| labels.get(key));
        found.is_some_and(|found| tables.text(found) == value)
    })
}

fn key(what_if: &WhatIf, of: &Resident) -> String {
    format!("{}/{}", what_if.tables().text(of.pod.namespace), of.pod.name)
}

fn named(what_if: &WhatIf, of: &[&Resident]) -> String {
    let mut names: Vec<String> = of
        .iter()
        .map(|it| match it.node {
            Some(node) => format!("{} on {}", key(what_if, it), what_if.tables().text(node)),
            None => key(what_if, it),
        })
        .collect();
    names.sort_unstable();
    some(&names, NAMED)
}

fn scheduled(what_if: &mut WhatIf, chosen: &[&Resident], of: &Expectation, failures: &mut Vec<String>) {
    let (placed, waiting): (Vec<&Resident>, Vec<&Resident>) =
        chosen.iter().copied().partition(|it| it.node.is_some());
    let all = chosen.len();
    let is_short = of.scheduled_at_least.is_some_and(|wanted| i64::from(wanted) > placed.len() as i64);
    if is_short || (of.scheduled == Some(true) && !waiting.is_empty()) {
        let wanted = match of.scheduled_at_least.filter(|_| is_short) {
            Some(wanted) => {
                format!("expected at least {wanted} of {} to be placed", count(all as i64, "pod"))
            }
            None => format!("expected all {} to be placed", count(all as i64, "pod")),
        };
        let first = waiting.first().map(|it| why(what_if, it)).unwrap_or_default();
        let have = waiting.len();
        let names = named(what_if, &waiting);
        failures.push(format!(
            "{wanted}, {have} {} pending: {names}{first}",
            if have == 1 { "is" } else { "are" }
        ));
    }
    if of.scheduled == Some(false) && !placed.is_empty() {
        let names = named(what_if, &placed);
        failures.push(format!(
            "expected none of {} to be placed, found {}: {names}",
            count(all as i64, "pod"),
            placed.len()
        ));
    }
}

/// Returns why the first of them is pending.
fn why(what_if: &mut WhatIf, of: &Resident) -> String {
    let reasons = what_if.reasons(&of.pod);
    let texts: Vec<String> = reasons.iter().map(|(code, text)| format!("{code} ({text})")).collect();
    if texts.is_empty() { String::new() } else { format!("; reasons of the first: {}", texts.join(", ")) }
}

fn is_among(what_if: &WhatIf, node: Symbol, choice: &NodeChoice) -> bool {
    let tables = what_if.tables();
    let is_named = choice.names.is_empty() || choice.names.iter().any(|name| tables.text(node) == name);
    is_named
        && (choice.labels.is_empty()
            || what_if.node_labels(node).is_some_and(|labels| has_labels(tables, labels, &choice.labels)))
}

fn nodes(what_if: &WhatIf, chosen: &[&Resident], of: &Expectation, failures: &mut Vec<String>) {
    let placed = || chosen.iter().copied().filter_map(|it| Some((it, it.node?)));
    for (choice, should) in [(&of.on_nodes, true), (&of.not_on_nodes, false)] {
        let Some(choice) = choice else { continue };
        if !choice.labels.is_empty() && !what_if.node_names().any(|node| is_among(what_if, node, choice)) {
            failures.push(format!("no node matches {}, so placement cannot be checked", describe(choice)));
            continue;
        }
        let wrong = placed().filter(|&(_, node)| is_among(what_if, node, choice) != should);
        let wrong: Vec<&Resident> = wrong.map(|(it, _)| it).collect();
        if !wrong.is_empty() {
            let not = if should { "not on" } else { "on" };
            let names = named(what_if, &wrong);
            failures.push(format!(
                "{} {} {not} {}: {names}",
                wrong.len(),
                if wrong.len() == 1 { "is" } else { "are" },
                describe(choice)
            ));
        }
    }
}

fn describe(of: &NodeChoice) -> String {
    let labels: Vec<String> = of.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let names = some(&of.names, NAMED);
    match (of.names.is_empty(), labels.is_empty()) {
        (false, false) => format!("the nodes {names} with {}", labels.join(",")),
        (false, true) => format!("the nodes {names}"),
        _ => format!("the nodes with {}", labels.join(",")),
    }
}

fn evenly(what_if: &WhatIf, chosen: &[&Resident], of: &Spread, failures: &mut Vec<String>) {
    let tables = what_if.tables();
    let value = |node: Symbol| {
        let key = tables.find(&of.topology_key)?;
        what_if
            .node_labels(node)?
            .get(key)
            .filter(|_| of.nodes.is_empty() || is_among(what_if, node, &of.nodes))
    };
    let values: BTreeSet<Symbol> = what_if.node_names().filter_map(value).collect();
    let mut pods: BTreeMap<&str, i64> = values.iter().map(|&value| (tables.text(value), 0)).collect();
    for value in chosen.iter().filter_map(|it| value(it.node?)) {
        *pods.entry(tables.text(value)).or_default() += 1;
    }
    let (Some((fullest, most)), Some((emptiest, least))) =
        (pods.iter().max_by_key(|&(_, pods)| pods), pods.iter().min_by_key(|&(_, pods)| pods))
    else {
        failures.push(format!("none of the selected nodes has the label {}", of.topology_key));
        return;
    };
    if let Some(wanted) = of.max_skew.filter(|&wanted| most - least > i64::from(wanted)) {
        failures.push(format!(
            "expected a skew of at most {wanted} over {}, found {}: {most} in {fullest}, {least} in {emptiest}",
            of.topology_key,
            most - least
        ));
    }
    if let Some(wanted) = of.at_least.filter(|&wanted| *least < i64::from(wanted)) {
        let short = pods.iter().filter(|&(_, &pods)| pods < i64::from(wanted));
        let short: Vec<String> = short.map(|(value, pods)| format!("{value} has {pods}")).collect();
        failures.push(format!(
            "expected at least {} in each {}: {}",
            count(wanted, "pod"),
            of.topology_key,
            some(&short, NAMED)
        ));
    }
}

fn pending_for(what_if: &mut WhatIf, chosen: &[&Resident], wanted: &str, failures: &mut Vec<String>) {
    let waiting: Vec<&Resident> = chosen.iter().copied().filter(|it| it.node.is_none()).collect();
    if waiting.is_empty() {
        failures.push(format!("expected pods pending for {wanted}, but all are placed"));
    }
    let (mut others, mut last): (Vec<&Resident>, String) = (Vec::new(), String::new());
    for it in waiting {
        let codes: BTreeSet<String> = what_if.reasons(&it.pod).into_iter().map(|(code, _)| code).collect();
        if !codes.contains(wanted) {
            others.push(it);
            last = codes.into_iter().collect::<Vec<_>>().join(", ");
        }
    }
    if !others.is_empty() {
        let names = named(what_if, &others);
        let for_what = if last.is_empty() { String::new() } else { format!(" ({last})") };
        failures.push(format!("{} for a reason other than {wanted}{for_what}: {names}", waits(others.len())));
    }
}

fn waits(pods: usize) -> String {
    if pods == 1 { "1 pod is pending".to_owned() } else { format!("{pods} pods are pending") }
}
