//! docs/conformance.md: the results by version.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::report::{Outcome, Report};
use super::{Scheduler, report_path};

const PAGE: &str = "docs/conformance.md";

const HEAD: &str = "\
# Conformance

Kubernetes' own e2e tests of the scheduler, `[sig-scheduling]`, run with kube-scheduler and with supercargo as the default scheduler, on
a real API server of the same version and simulated nodes (kwok). `make conformance` builds the tests from the module
`k8s.io/kubernetes`, runs them, and writes this page; `make conformance VERSION=1.37` renews the section of one version.

Two results *end alike* if they are equal: both passed, both failed, or both skipped. On simulated nodes no container runs, so some tests
fail with every scheduler; the last column says why. A test that fails is tried once more. `make conformance` fails if kube-scheduler
passes a test and supercargo does not. [integration-tests.md](integration-tests.md) lists kube-scheduler's integration tests.
";

/// Parts of the names of tests that no scheduler passes on simulated nodes, with the reason.
const REASONS: [(&str, &str); 2] = [
    (
        "verify pod overhead is accounted for",
        "The test adds a resource to the node's capacity, which a kubelet copies to allocatable",
    ),
    (
        "preempt expectedly with the async preemption",
        "The victims' finalizer should keep them terminating, but kwok removes them at once",
    ),
];

/// A version's results, with kube-scheduler and with supercargo.
struct Results {
    reports: [Report; 2],
}

impl Results {
    /// Reads the reports of a version. Returns `None` if there is none.
    fn read(folder: &Path, version: &str) -> Result<Option<Self>> {
        let paths = Scheduler::ALL.map(|scheduler| report_path(folder, version, scheduler));
        if !paths.iter().all(|path| path.is_file()) {
            return Ok(None);
        }
        let [kube_scheduler, supercargo] = paths;
        Ok(Some(Self { reports: [Report::read(&kube_scheduler)?, Report::read(&supercargo)?] }))
    }

    /// Returns all tests that ran with either scheduler, and their outcomes.
    fn rows(&self) -> BTreeMap<&str, [Option<&Outcome>; 2]> {
        let names: BTreeSet<_> = self.reports.iter().flat_map(|report| report.tests.keys()).collect();
        let outcomes = |name: &String| [0, 1].map(|at| self.reports[at].tests.get(name));
        names.into_iter().map(|name| (name.as_str(), outcomes(name))).collect()
    }

    /// Returns the tests that only kube-scheduler passes.
    fn missed(&self) -> Vec<&str> {
        let passes = |outcome: Option<&Outcome>| outcome == Some(&Outcome::Passed);
        let rows = self.rows().into_iter();
        rows.filter(|(_, row)| passes(row[0]) && !passes(row[1])).map(|(name, _)| name).collect()
    }

    /// Returns the section of a version.
    fn section(&self, version: &str) -> String {
        let rows = self.rows();
        let passed = |at: usize| rows.values().filter(|row| row[at] == Some(&Outcome::Passed)).count();
        let both = rows.values().filter(|row| row.iter().all(|it| *it == Some(&Outcome::Passed))).count();
        let alike = rows.values().filter(|row| word(row[0]) == word(row[1])).count();
        let mut text = format!(
            "## {version}\n\nOf {} tests, kube-scheduler passes {}, supercargo {}, both {both}; {alike} end alike.\n\n\
             | Test | kube-scheduler | supercargo | Why not |\n|---|---|---|---|\n",
            rows.len(),
            passed(0),
            passed(1)
        );
        for (name, row) in rows {
            let shown = name.trim_start_matches("[sig-scheduling] ").replace('|', "\\|");
            let _ =
                writeln!(text, "| {shown} | {} | {} | {} |", word(row[0]), word(row[1]), reason(name, row));
        }
        text
    }
}

fn word(outcome: Option<&Outcome>) -> &'static str {
    match outcome {
        Some(Outcome::Passed) => "passed",
        Some(Outcome::Skipped(_)) => "skipped",
        Some(Outcome::Failed(_)) => "failed",
        None => "did not run",
    }
}

/// Returns why a test does not pass: the known reason, or the test's own message.
fn reason(name: &str, row: [Option<&Outcome>; 2]) -> String {
    let message = row.into_iter().flatten().find_map(|outcome| match outcome {
        Outcome::Passed => None,
        Outcome::Skipped(message) | Outcome::Failed(message) => Some(message),
    });
    let known = REASONS.into_iter().find(|(part, _)| name.contains(part));
    match (message, known) {
        (None, _) => String::new(),
        (Some(_), Some((_, why))) => why.to_owned(),
        (Some(message), None) => message.chars().take(120).collect::<String>().replace('|', "\\|"),
    }
}

/// Writes the page: sections of the versions with reports in `folder`, and those that the page has of other versions.
///
/// # Errors
/// If the page cannot be written, or supercargo fails a test that kube-scheduler passes.
pub(crate) fn write(folder: &Path) -> Result<()> {
    let path = supercargo_dev::root().join(PAGE);
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    let known = page.split("\n## ").skip(1).filter_map(|section| {
        let version = section.lines().next()?.to_owned();
        Some((version, format!("## {}\n", section.trim_end())))
    });
    let mut sections: BTreeMap<String, String> = known.collect();
    let mut missed = Vec::new();
    for version in ["1.34", "1.35", "1.36", "1.37"] {
        if let Some(results) = Results::read(folder, version)? {
            missed.extend(results.missed().into_iter().map(|test| format!("{version}: {test}")));
            sections.insert(version.to_owned(), results.section(version));
        }
    }
    let text = sections.values().fold(HEAD.to_owned(), |text, section| format!("{text}\n{section}"));
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    ensure!(missed.is_empty(), "only kube-scheduler passes these tests:\n{}", missed.join("\n"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_only_kube_scheduler_passes_are_missed() {
        let report = |outcomes: [Outcome; 3]| Report {
            tests: ["a", "b", "c"].map(str::to_owned).into_iter().zip(outcomes).collect(),
        };
        let failed = || Outcome::Failed("no".to_owned());
        let kube_scheduler = report([Outcome::Passed, Outcome::Passed, failed()]);
        let supercargo = report([Outcome::Passed, failed(), Outcome::Passed]);
        assert_eq!(Results { reports: [kube_scheduler, supercargo] }.missed(), ["b"]);
    }
}
