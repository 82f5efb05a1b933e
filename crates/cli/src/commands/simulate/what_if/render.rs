//! Formats the summary as text.

use crate::commands::simulate::what_if::outcome::Noting;
use crate::commands::simulate::what_if::summary::{Balance, Skew, State, Summary};
use crate::screen::Screen;
use supercargo_whatif::explain::format::count;

/// Number of names in the default table format.
const SHOWN: usize = 20;

/// Formats the one-line summary and the table of changed pods.
pub(super) fn answer(of: &Summary, pods: Option<&Noting>) -> String {
    let mut screen = Screen::of_stdout();
    match &of.elsewhere {
        Some(elsewhere) => {
            let line =
                format!("the compared configuration places {} differently", count(elsewhere.len(), "pod"));
            screen.heading(&format!("{}; {line}", of.outcome.line()));
        }
        None => screen.heading(&of.outcome.line()),
    }
    pods.iter().for_each(|pods| pods.print(&mut screen));
    screen.into_text()
}

/// Formats the comparison; `wide` lists all names and also values that did not change.
pub(super) fn text(of: &Summary, wide: bool) -> String {
    let mut screen = Screen::of_stdout();
    let mut states = vec![("before", &of.before), ("after", &of.after)];
    states.extend(of.compared.as_ref().map(|state| ("compared", state)));
    screen.heading("Pods and nodes");
    let mut rows = vec![cells(&["WHEN", "NODES", "PODS PLACED", "PODS PENDING"])];
    for (when, state) in &states {
        let numbers = [state.nodes, state.placed, state.pending].map(|number| number.to_string());
        rows.push([(*when).to_owned()].into_iter().chain(numbers).collect());
    }
    screen.table(&[1, 2, 3], &rows);
    balances(&mut screen, &states, wide);
    skews(&mut screen, of, wide);
    let shown = |all: usize| if wide { all } else { SHOWN.min(all) };
    let dash = |node: &Option<String>| node.clone().unwrap_or_else(|| "<none>".to_owned());
    if wide && !of.moved.is_empty() {
        screen.heading(&format!("Moved pods: {}", of.moved.len()));
        let head = cells(&["POD", "FROM", "TO"]);
        let rows = of.moved.iter().map(|it| vec![it.pod.clone(), it.from.clone(), dash(&it.to)]);
        names(&mut screen, head, rows, shown(of.moved.len()));
    }
    if let Some(elsewhere) = &of.elsewhere {
        screen.heading(&format!(
            "Pods that the compared configuration places differently: {}",
            elsewhere.len()
        ));
        let head = cells(&["POD", "NODE", "COMPARED"]);
        let rows = elsewhere.iter().map(|it| vec![it.pod.clone(), dash(&it.node), dash(&it.compared)]);
        names(&mut screen, head, rows, shown(elsewhere.len()));
    }
    screen.into_text()
}

fn cells(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn names(
    screen: &mut Screen,
    head: Vec<String>,
    rows: impl ExactSizeIterator<Item = Vec<String>>,
    shown: usize,
) {
    let more = rows.len() - shown;
    let rows: Vec<Vec<String>> = [head].into_iter().chain(rows.take(shown)).collect();
    if rows.len() > 1 {
        screen.table(&[], &rows);
    }
    if more > 0 {
        screen.line(&format!("  and {more} more (-o wide shows all)"));
    }
}

fn balances(screen: &mut Screen, states: &[(&str, &State)], wide: bool) {
    let mut rows = vec![cells(&["RESOURCE", "WHEN", "CLUSTER", "MEAN", "DEVIATION", "LOWEST", "HIGHEST"])];
    let mut resources: Vec<&str> = Vec::new();
    for it in states.iter().flat_map(|(_, state)| &state.resources) {
        if !resources.contains(&it.resource.as_str()) {
            resources.push(&it.resource);
        }
    }
    let of =
        |state: &State, resource: &str| state.resources.iter().find(|it| it.resource == resource).cloned();
    let changes =
        |resource: &&str| states.iter().any(|(_, state)| of(state, resource) != of(states[0].1, resource));
    resources.retain(|resource| wide || changes(resource));
    if resources.is_empty() {
        return;
    }
    screen.heading("Requested share of allocatable resources");
    for resource in resources {
        for (when, state) in states {
            if let Some(it) = state.resources.iter().find(|it| it.resource == resource) {
                rows.push(balance(it, when));
            }
        }
    }
    screen.table(&[2, 3, 4, 5, 6], &rows);
}

fn balance(of: &Balance, when: &str) -> Vec<String> {
    let percent = |part: f64| format!("{:.1}%", part * 100.0);
    let all = of.requested as f64 / of.allocatable as f64;
    let parts = [all, of.mean, of.deviation, of.lowest, of.highest].map(percent);
    [of.resource.clone(), when.to_owned()].into_iter().chain(parts).collect()
}

fn skews(screen: &mut Screen, of: &Summary, wide: bool) {
    let changes =
        |it: &&Skew| wide || it.before != it.after || (of.compared.is_some() && it.compared != it.after);
    let shown: Vec<&Skew> = of.skews.iter().filter(changes).collect();
    if shown.is_empty() {
        return;
    }
    screen.heading("Skew of spread constraints");
    let mut head = cells(&["NAMESPACE", "PODS", "TOPOLOGY KEY", "ALLOWED", "BEFORE", "AFTER"]);
    head.extend(of.compared.is_some().then(|| "COMPARED".to_owned()));
    let mut rows = vec![head];
    let text = |skew: Option<i64>| skew.map_or_else(|| "-".to_owned(), |skew| skew.to_string());
    for it in shown {
        let soft = if it.is_required { "" } else { " (soft)" };
        let mut row = vec![
            it.namespace.clone(),
            it.selector.clone(),
            it.topology_key.clone(),
            format!("{}{soft}", it.max_skew),
            text(it.before),
            text(it.after),
        ];
        row.extend(of.compared.is_some().then(|| text(it.compared)));
        rows.push(row);
    }
    screen.table(&[4, 5, 6], &rows);
}
