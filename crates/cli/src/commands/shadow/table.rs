//! Formats a shadow report as text: counts, and the scores by node and plugin of each disagreement.

use crate::screen::plain;
use std::fmt::Write as _;
use supercargo_whatif::explain::format::count;
use supercargo_whatif::shadow_report::{Disagreement, Node, ShadowReport, Side};

/// Formats the report.
pub(super) fn render(report: &ShadowReport) -> String {
    let mut out = String::new();
    let all: u64 = report.decisions.values().sum();
    let unjudged: u64 = report.unjudged.values().sum();
    let _ = writeln!(
        out,
        "shadow of {} since {}: {} compared, {unjudged} not compared",
        plain(&report.shadow_of),
        plain(&report.since),
        count(all, "decision")
    );
    let _ = writeln!(out, "\n{:<16}  {:>9}  {:>6}", "AGREEMENT", "DECISIONS", "SHARE");
    for (agreement, &number) in by_count(report) {
        let share = if all == 0 { 0.0 } else { 100.0 * number as f64 / all as f64 };
        let _ = writeln!(out, "{:<16}  {number:>9}  {share:>5.1}%", plain(agreement));
    }
    for (why, count) in report.unjudged.iter().filter(|(_, count)| **count > 0) {
        let _ = writeln!(out, "not compared, {}: {count}", plain(why));
    }
    if report.dropped > 0 {
        let _ = writeln!(out, "\n{} dropped", count(report.dropped, "earlier disagreement"));
    }
    report.disagreements.iter().for_each(|it| disagreement(&mut out, it));
    out
}

/// Returns the results by number of decisions, highest first.
fn by_count(report: &ShadowReport) -> Vec<(&str, &u64)> {
    let mut rows: Vec<_> = report.decisions.iter().map(|(word, count)| (word.as_str(), count)).collect();
    rows.sort_by_key(|(word, count)| (std::cmp::Reverse(**count), *word));
    rows
}

fn disagreement(out: &mut String, it: &Disagreement) {
    let regret = it.regret.map(|regret| format!(", regret {regret}")).unwrap_or_default();
    let _ = writeln!(
        out,
        "\n{}  {}/{}  {}{regret}, {}",
        plain(&it.time),
        plain(&it.pod.namespace),
        plain(&it.pod.name),
        plain(&it.agreement),
        count(it.feasible_nodes, "feasible node")
    );
    let theirs = match &it.theirs {
        Side::Scored(node) => Some(node),
        Side::Rejected { node, rejected_by, reason } => {
            let by = rejected_by.as_deref().map(|by| format!(" ({})", plain(by))).unwrap_or_default();
            let _ = writeln!(out, "  theirs {}: {}{by}", plain(node), plain(reason));
            None
        }
        Side::None { message } => {
            let _ = writeln!(out, "  theirs none: {}", plain(message));
            None
        }
    };
    if it.ours.is_none() {
        let _ = writeln!(out, "  ours   none");
    }
    let tables = [("ours", it.ours.as_ref()), ("theirs", theirs)];
    let tables: Vec<(&str, &Node)> =
        tables.into_iter().filter_map(|(whose, it)| Some((whose, it?))).collect();
    if !tables.is_empty() {
        scores(out, &tables);
    }
}

fn scores(out: &mut String, tables: &[(&str, &Node)]) {
    let wide = |texts: &mut dyn Iterator<Item = usize>, least: usize| texts.max().unwrap_or(0).max(least);
    let node = wide(&mut tables.iter().map(|(_, it)| plain(&it.node).chars().count()), 4);
    let cells = tables.iter().flat_map(|(_, it)| &it.plugins);
    let plugin = wide(&mut cells.map(|it| plain(&it.plugin).chars().count()), 6);
    let _ = writeln!(
        out,
        "  {:<6}  {:<node$}  {:<plugin$}  {:>12}  {:>10}  {:>6}  {:>8}",
        "WHOSE", "NODE", "PLUGIN", "RAW", "NORMALIZED", "WEIGHT", "WEIGHTED"
    );
    for (whose, it) in tables {
        let name = plain(&it.node);
        for cell in &it.plugins {
            let _ = writeln!(
                out,
                "  {whose:<6}  {name:<node$}  {:<plugin$}  {:>12}  {:>10}  {:>6}  {:>8}",
                plain(&cell.plugin),
                cell.raw,
                cell.normalized,
                cell.weight,
                cell.weighted
            );
        }
        let _ = writeln!(
            out,
            "  {whose:<6}  {name:<node$}  {:<plugin$}  {:>12}  {:>10}  {:>6}  {:>8}",
            "TOTAL", "", "", "", it.total
        );
    }
}
