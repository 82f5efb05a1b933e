//! Ginkgo's JSON report of a run.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

/// The outcome of each test that ran, by full name.
pub(crate) struct Report {
    pub(crate) tests: BTreeMap<String, Outcome>,
}

/// How a test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// The test skipped itself, with its reason.
    Skipped(String),
    /// The first line of the failure.
    Failed(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Suite {
    #[serde(default)]
    spec_reports: Vec<Spec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Spec {
    #[serde(default)]
    container_hierarchy_texts: Option<Vec<String>>,
    leaf_node_type: String,
    #[serde(default)]
    leaf_node_text: String,
    state: String,
    #[serde(default)]
    failure: Failure,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failure {
    #[serde(default)]
    message: String,
}

impl Report {
    /// Reads a report. Tests that the focus excludes are absent, as are setup nodes unless they failed.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("the tests wrote no report {}", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> Result<Self> {
        let suites: Vec<Suite> = serde_json::from_str(text)?;
        let specs = suites.into_iter().flat_map(|suite| suite.spec_reports);
        let tests = specs.filter_map(|spec| {
            let is_test = spec.leaf_node_type == "It";
            let line = spec.failure.message.lines().map(str::trim).find(|line| !line.is_empty());
            let line = line.unwrap_or_default().to_owned();
            let outcome = match spec.state.as_str() {
                "passed" => Outcome::Passed,
                // Without a reason, the focus excluded it.
                "skipped" if !line.is_empty() => Outcome::Skipped(line),
                "skipped" | "pending" => return None,
                _ => Outcome::Failed(line),
            };
            if !is_test && !matches!(outcome, Outcome::Failed(_)) {
                return None;
            }
            let mut name = spec.container_hierarchy_texts.unwrap_or_default();
            name.push(if is_test { spec.leaf_node_text } else { spec.leaf_node_type });
            Some((name.join(" "), outcome))
        });
        Ok(Self { tests: tests.collect() })
    }

    /// Returns the number of tests that passed.
    pub(crate) fn passed(&self) -> usize {
        self.tests.values().filter(|outcome| **outcome == Outcome::Passed).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_has_tests_that_ran_and_failed_setup() {
        let text = r#"[{"SpecReports": [
            {"LeafNodeType": "SynchronizedBeforeSuite", "State": "passed"},
            {"LeafNodeType": "ReportAfterSuite", "State": "failed", "Failure": {"Message": "broken"}},
            {"ContainerHierarchyTexts": ["[sig-scheduling] A"], "LeafNodeType": "It", "LeafNodeText": "fits", "State": "passed"},
            {"ContainerHierarchyTexts": ["[sig-scheduling] A"], "LeafNodeType": "It", "LeafNodeText": "waits", "State": "failed",
             "Failure": {"Message": "\nno pod\nmore"}},
            {"ContainerHierarchyTexts": ["[sig-scheduling] A"], "LeafNodeType": "It", "LeafNodeText": "needs GPUs", "State": "skipped",
             "Failure": {"Message": "no GPU"}},
            {"ContainerHierarchyTexts": ["[sig-node] B"], "LeafNodeType": "It", "LeafNodeText": "runs", "State": "skipped"}
        ]}]"#;
        let report = Report::parse(text).expect("a report");
        let outcomes: Vec<_> =
            report.tests.iter().map(|(name, outcome)| (name.as_str(), outcome.clone())).collect();
        assert_eq!(
            outcomes,
            [
                ("ReportAfterSuite", Outcome::Failed("broken".to_owned())),
                ("[sig-scheduling] A fits", Outcome::Passed),
                ("[sig-scheduling] A needs GPUs", Outcome::Skipped("no GPU".to_owned())),
                ("[sig-scheduling] A waits", Outcome::Failed("no pod".to_owned())),
            ]
        );
        assert_eq!(report.passed(), 1);
    }
}
