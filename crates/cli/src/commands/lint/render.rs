//! Formats lint findings as text.

use crate::screen::{Screen, Tone};
use std::collections::BTreeSet;
use supercargo_whatif::explain::format::count;
use supercargo_whatif::explain::lint::{Finding, LintReport, Severity};

/// Formats the report; `wide` adds the field of each finding.
pub(super) fn text(report: &LintReport, wide: bool) -> String {
    let mut screen = Screen::of_stdout();
    screen.heading(&summary(report));
    let head = ["SEVERITY", "OBJECT", "RULE"].map(str::to_owned);
    let mut rows = vec![row(head, wide.then(|| "FIELD".to_owned()), "MESSAGE".to_owned())];
    for finding in &report.findings {
        let rule = format!("{:?}", finding.rule);
        let head = [severity(finding.severity).to_owned(), finding.object(), rule];
        rows.push(row(head, wide.then(|| finding.field.clone()), what(finding)));
    }
    if rows.len() > 1 {
        // The first row is the head.
        let severity = |row: usize| row.checked_sub(1).map(|at| report.findings[at].severity);
        screen.toned_table(&[], &rows, |row, column| severity(row).filter(|_| column == 0).map(tone));
    }
    screen.into_text()
}

/// Returns the objects with a finding as KIND/NAME, each once.
pub(super) fn names(report: &LintReport) -> Vec<String> {
    let name = |it: &Finding| format!("{}/{}", it.kind.to_lowercase(), it.name);
    report.findings.iter().map(name).collect::<BTreeSet<_>>().into_iter().collect()
}

fn tone(of: Severity) -> Tone {
    match of {
        Severity::Error => Tone::Red,
        Severity::Warning => Tone::Yellow,
        Severity::Info => Tone::Cyan,
    }
}

fn row(head: [String; 3], field: Option<String>, what: String) -> Vec<String> {
    head.into_iter().chain(field).chain([what]).collect()
}

fn what(finding: &Finding) -> String {
    match &finding.did_you_mean {
        Some(meant) => format!("{}; did you mean {meant}?", finding.message),
        None => finding.message.clone(),
    }
}

fn severity(of: Severity) -> &'static str {
    match of {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "info",
    }
}

fn summary(report: &LintReport) -> String {
    let judged = format!("{} on {}", count(report.judged, "workload"), count(report.nodes, "node"));
    let of = |severity: Severity| report.findings.iter().filter(|it| it.severity == severity).count();
    let found =
        [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Info, "info finding")];
    let found =
        found.into_iter().map(|(severity, name)| (of(severity), name)).filter(|&(number, _)| number > 0);
    let found: Vec<String> = found.map(|(number, name)| count(number, name)).collect();
    if found.is_empty() {
        return format!("{judged}: no findings");
    }
    format!("{judged}: {}", found.join(", "))
}
