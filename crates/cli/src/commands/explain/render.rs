//! Formats an explanation as text, for readers who are new to Kubernetes scheduling.

use super::group;
use crate::live::LiveArgs;
use crate::screen::Screen;
use supercargo_whatif::explain::format::count;
use supercargo_whatif::explain::{
    Change, Explanation, Group, NEW_PODS, NodeScores, SCHEDULER_NAME_UNKNOWN, Scores, Verdict,
};

/// Number of nodes with scores in the default table format.
const SCORES_SHOWN: usize = 3;

/// Formats the explanation on an empty screen; `wide` adds the results of every node and all scores. `live` is the
/// connection, if the cluster was read from an API server.
pub(super) fn text(of: &Explanation, wide: bool, live: Option<&LiveArgs>, mut screen: Screen) -> String {
    let meant = of.hints.iter().find(|hint| hint.code == SCHEDULER_NAME_UNKNOWN);
    match meant.and_then(|hint| hint.did_you_mean.as_ref()) {
        Some(meant) => {
            screen.heading(&format!("{}: unknown schedulerName; did you mean \"{meant}\"?", of.pod));
        }
        None => screen.heading(&format!("{}: {}", of.pod, short(of.verdict))),
    }
    screen.line(&format!("  {}.", of.summary));
    if let Some(live) = live {
        next_step(&mut screen, of, live);
    }
    before(&mut screen, of);
    reasons(&mut screen, of);
    compared(&mut screen, of);
    if ![Verdict::Bound, Verdict::FitsNow, Verdict::WaitsForGroup].contains(&of.verdict) {
        near_misses(&mut screen, of);
    }
    hints(&mut screen, of);
    changes(&mut screen, &of.changes, "scheduling the pod again", "the pod then fits on");
    new_pods(&mut screen, &of.changes, of.new_pod.as_deref());
    if let Some(group) = &of.group {
        group::describe(&mut screen, group);
    }
    if wide {
        by_node(&mut screen, of);
    }
    if let Some(scores) = &of.scores {
        tell_scores(&mut screen, scores, wide);
    }
    if let Some(event) = &of.event {
        screen.heading("FailedScheduling event");
        screen.line(&format!("  {event}"));
    }
    screen.into_text()
}

/// Says how to find out whether a scheduler runs, if a pending pod would fit now.
fn next_step(screen: &mut Screen, of: &Explanation, live: &LiveArgs) {
    if of.verdict != Verdict::FitsNow && !(of.verdict == Verdict::NotOurs && of.fits_on > 0) {
        return;
    }
    let mut command = "supercargo doctor".to_owned();
    if let Some(file) = &live.kubeconfig {
        command.push_str(&format!(" --kubeconfig {}", file.display()));
    }
    if let Some(context) = &live.context {
        command.push_str(&format!(" --context {context}"));
    }
    screen.line(&format!("  Next step: run `{command}`, which checks whether a scheduler runs."));
}

fn short(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::FitsNow => "fits now",
        Verdict::WaitsForPreemption => "waiting for preemption",
        Verdict::Blocked => "blocked",
        Verdict::NeverFits => "fits on no node of this cluster",
        Verdict::WaitsForGroup => "waiting for its group",
        Verdict::Gated => "gated",
        Verdict::NotOurs => "handled by another scheduler",
        Verdict::Bound => "placed",
        Verdict::Ended => "finished",
        Verdict::Deleting => "being deleted",
    }
}

fn before(screen: &mut Screen, of: &Explanation) {
    if of.before_nodes.is_empty() {
        return;
    }
    screen.heading("Before node evaluation");
    let rows: Vec<Vec<String>> =
        of.before_nodes.iter().map(|said| vec![format!("{:?}", said.code), said.text.clone()]).collect();
    screen.table(&[], &rows);
}

fn reasons(screen: &mut Screen, of: &Explanation) {
    if of.reasons.is_empty() {
        return;
    }
    let heading = match of.verdict {
        Verdict::Bound => {
            format!("Why not elsewhere ({} of {} feasible)", of.fits_on, count(of.nodes, "node"))
        }
        Verdict::FitsNow | Verdict::WaitsForGroup => "Why not on the other nodes".to_owned(),
        _ => format!("Why not ({}, every filter evaluated on each)", count(of.nodes, "node")),
    };
    screen.heading(&heading);
    reasons_table(screen, &of.reasons);
}

/// Says how to see the scores of a pod with a node, unless they are shown.
fn compared(screen: &mut Screen, of: &Explanation) {
    if of.verdict != Verdict::Bound || of.fits_on < 2 || of.scores.is_some() {
        return;
    }
    let (namespace, name) = of.pod.split_once('/').unwrap_or(("default", &of.pod));
    screen.line("");
    screen.line(&format!(
        "Feasible nodes are compared by score: `supercargo explain pod {name} -n {namespace} --scores` shows their present scores."
    ));
}

/// Adds a table of reasons.
pub(super) fn reasons_table(screen: &mut Screen, reasons: &[Group]) {
    let mut rows = vec![["NODES", "ONLY REASON", "REASON", "DETAILS"].map(str::to_owned).to_vec()];
    for group in reasons {
        rows.push(vec![
            group.nodes.to_string(),
            group.alone_on.to_string(),
            format!("{:?}", group.code),
            group.text.clone(),
        ]);
    }
    screen.table(&[0, 1], &rows);
}

fn near_misses(screen: &mut Screen, of: &Explanation) {
    if of.near_misses.is_empty() {
        return;
    }
    screen.heading("Nodes rejected for a single reason");
    let rows: Vec<Vec<String>> =
        of.near_misses.iter().map(|near| vec![near.node.clone(), near.text.clone()]).collect();
    screen.table(&[], &rows);
    if of.near_miss_count > of.near_misses.len() {
        screen.line(&format!("  and {} more", of.near_miss_count - of.near_misses.len()));
    }
}

fn hints(screen: &mut Screen, of: &Explanation) {
    if of.hints.is_empty() {
        return;
    }
    screen.heading("Possible typo");
    for hint in &of.hints {
        let meant = hint.did_you_mean.as_ref().map(|meant| format!(". Did you mean {meant}?"));
        screen.line(&format!("  {}: {}{}", hint.field, hint.text, meant.unwrap_or_default()));
    }
}

/// Adds verified changes. `verified` says what was decided again, and `then` what holds for the nodes that are named.
pub(super) fn changes(screen: &mut Screen, changes: &[Change], verified: &str, then: &str) {
    if changes.is_empty() {
        return;
    }
    screen.heading(&format!("Possible fixes (each verified by {verified} with the change)"));
    for (at, change) in changes.iter().enumerate() {
        screen.line(&format!("  {}. {}", at + 1, change.text));
        if let Some(how) = &change.how {
            screen.line(&format!("     {how}"));
        }
        let names = change.examples.join(", ");
        match change.fits_on {
            0 => {}
            1 => screen.line(&format!("     {then} {names}")),
            many if many > change.examples.len() => {
                screen.line(&format!("     {then} {many} nodes: {names}, ..."));
            }
            many => screen.line(&format!("     {then} {many} nodes: {names}")),
        }
    }
}

/// Adds which changes need a new pod, and how to make them.
pub(super) fn new_pods(screen: &mut Screen, changes: &[Change], how: Option<&str>) {
    if let Some(text) = new_pods_text(changes, how) {
        screen.line(&format!("  {text}"));
    }
}

/// Returns which changes need a new pod, and how to make them; `None` if there are none.
pub(crate) fn new_pods_text(changes: &[Change], how: Option<&str>) -> Option<String> {
    let numbered = changes.iter().zip(1..).filter(|(change, _)| change.needs_new_pod);
    let numbers: Vec<String> = numbered.map(|(_, number)| number.to_string()).collect();
    let how = how.unwrap_or(NEW_PODS);
    match numbers.as_slice() {
        [] => None,
        [one] => Some(format!("Fix {one} is not possible as an update of an existing pod: {how}")),
        [others @ .., last] => {
            let others = others.join(", ");
            Some(format!("Fixes {others} and {last} are not possible as updates of an existing pod: {how}"))
        }
    }
}

fn by_node(screen: &mut Screen, of: &Explanation) {
    let Some(nodes) = of.by_node.as_ref().filter(|nodes| !nodes.is_empty()) else { return };
    screen.heading("Node by node");
    let mut rows = Vec::new();
    for node in nodes {
        if node.reasons.is_empty() {
            rows.push(vec![node.node.clone(), "-".to_owned(), "feasible".to_owned()]);
        }
        for reason in &node.reasons {
            rows.push(vec![node.node.clone(), format!("{:?}", reason.code), reason.text.clone()]);
        }
    }
    screen.table(&[], &rows);
}

fn tell_scores(screen: &mut Screen, scores: &Scores, wide: bool) {
    screen.heading("Scores");
    let margin = match scores.margin {
        Some(margin) => format!("{margin} ahead of the next node"),
        None => "no node scores lower".to_owned(),
    };
    screen.line(&format!("  best: {} ({margin})", scores.winners.join(", ")));
    // Only a pod with a node has a note: its scores are those of now.
    let label = if scores.note.is_some() { "would now be decided by" } else { "decided by" };
    screen.line(&format!("  {label}: {}", scores.decided_by));
    if let Some(note) = scores.note {
        screen.line(&format!("  note: {note}"));
    }
    let shown = if wide { scores.nodes.len() } else { SCORES_SHOWN.min(scores.nodes.len()) };
    for node in &scores.nodes[..shown] {
        one_nodes_scores(screen, node);
    }
    let left_out = scores.left_out + scores.nodes.len() - shown;
    if left_out > 0 {
        screen.line("");
        screen.line(&format!("  and {}", count(left_out, "more node")));
    }
}

fn one_nodes_scores(screen: &mut Screen, node: &NodeScores) {
    screen.line("");
    let head = [node.node.as_str(), "RAW", "NORMALIZED", "WEIGHT", "WEIGHTED"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for of in &node.plugins {
        let mut row = vec![of.plugin.to_owned()];
        row.extend([of.raw, of.normalized, of.weight, of.weighted].map(|number| number.to_string()));
        rows.push(row);
    }
    let total = node.total.to_string();
    rows.push(["total", "", "", "", total.as_str()].map(str::to_owned).to_vec());
    screen.table(&[1, 2, 3, 4], &rows);
}
