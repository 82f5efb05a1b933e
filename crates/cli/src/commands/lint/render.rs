//! Formats lint findings as text.

use crate::screen::Screen;
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
        screen.table(&[], &rows);
    }
    screen.into_text()
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
