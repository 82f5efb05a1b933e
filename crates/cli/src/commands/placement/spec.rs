//! The PlacementTest format. Decoding is strict: unknown fields and fields without effect are problems with a
//! position.

use crate::commands::simulate::{AddNodes, Scale};
use serde::Deserialize;
use std::collections::BTreeMap;
use supercargo_config::Problem;
use supercargo_config::yaml::{Document, decode, nearest};
use supercargo_whatif::explain::ReasonCode;

/// `apiVersion` of the file.
pub(super) const API_VERSION: &str = "supercargo.dev/v1alpha1";
/// `kind` of the file.
pub(super) const KIND: &str = "PlacementTest";
/// Maximum number of nodes in the document, with aliases expanded: a limit against YAML bombs.
const PARTS_MAX: u64 = 2_000_000;
/// Maximum number of tests in a file.
const CASES_MAX: usize = 10_000;

/// Content of the file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    /// Only `name` is used, in reports.
    pub metadata: Metadata,
    /// Files with the cluster, relative to this file.
    pub cluster: Vec<String>,
    /// Files with the pods to place.
    pub pods: Vec<String>,
    /// File with a KubeSchedulerConfiguration.
    pub config: Option<String>,
    pub seed: i64,
    /// `report`, `apply` or `off`.
    pub preemption: Option<String>,
    pub as_written: bool,
    pub changes: Changes,
    pub tests: Vec<Case>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Metadata {
    pub name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Changes {
    /// `N:template=NODE`.
    pub add_nodes: Vec<String>,
    pub remove_nodes: Vec<String>,
    /// `[KIND/]NAME=N`.
    pub scale: Vec<String>,
    /// Namespace of the scaled workloads.
    pub namespace: Option<String>,
}

/// One test: a selection of pods, and what is expected of them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Case {
    pub name: String,
    pub pods: PodChoice,
    pub expect: Expectation,
}

/// A selection of pods: all given fields must match.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodChoice {
    pub namespace: Option<String>,
    pub name: Option<String>,
    /// `[KIND/]NAME`.
    pub workload: Option<String>,
    pub labels: BTreeMap<String, String>,
}

/// Expectations: all given fields must hold.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Expectation {
    /// Number of selected pods.
    pub count: Option<i32>,
    /// Whether all pods are placed, or none.
    pub scheduled: Option<bool>,
    /// Minimum number of placed pods.
    pub scheduled_at_least: Option<i32>,
    /// Placed pods are on one of these nodes.
    pub on_nodes: Option<NodeChoice>,
    /// No pod is on one of these nodes.
    pub not_on_nodes: Option<NodeChoice>,
    pub spread: Option<Spread>,
    /// Each pending pod is rejected by at least one node for this reason.
    pub pending_for: Option<String>,
}

/// A selection of nodes: all given fields must match.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeChoice {
    pub names: Vec<String>,
    pub labels: BTreeMap<String, String>,
}

/// Distribution of the pods over the values of a node label.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spread {
    pub topology_key: String,
    /// Maximum difference between the values with most and fewest pods.
    pub max_skew: Option<i32>,
    /// Minimum number of pods for each value.
    pub at_least: Option<i32>,
    /// Nodes whose values count; by default all with the label.
    pub nodes: NodeChoice,
}

/// A decoded test file with its source.
pub(super) struct TestFile {
    pub spec: Spec,
    document: Document,
}

impl TestFile {
    /// Decodes a file.
    ///
    /// # Errors
    /// Returns all problems.
    pub(super) fn new(text: &str) -> Result<Self, Vec<Problem>> {
        let document = Document::read(text)?;
        let mut problems = Vec::new();
        for (field, expected) in [("apiVersion", API_VERSION), ("kind", KIND)] {
            let found = document.text(field);
            if found != Some(expected) {
                let shown = found.map_or_else(|| "nothing".to_owned(), |found| format!("{found:?}"));
                let problem = Problem::new(field, format!("expected {expected:?}, found {shown}"));
                let problem = problem.meaning(found.unwrap_or_default(), [expected]);
                problems.push(Problem { place: document.find(field), ..problem });
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        if document.weight() > PARTS_MAX {
            let text = format!("the file has more than {PARTS_MAX} nodes once its aliases are expanded");
            return Err(vec![Problem::new("", text)]);
        }
        let spec: Spec = decode(&document, document.root(), "")?;
        let read = Self { spec, document };
        let problems = read.judge();
        if problems.is_empty() { Ok(read) } else { Err(problems) }
    }

    /// Returns a problem with the position of a field.
    pub(super) fn problem(&self, path: &str, text: impl Into<String>) -> Problem {
        Problem { place: self.document.find(path), ..Problem::new(path, text) }
    }

    fn judge(&self) -> Vec<Problem> {
        let spec = &self.spec;
        let mut problems = Vec::new();
        if spec.cluster.is_empty() {
            problems.push(self.problem("cluster", "expected the files of a cluster"));
        }
        if spec.seed < 0 {
            problems.push(self.problem("seed", "must not be negative"));
        }
        if let Some(written) = &spec.preemption {
            let known = ["report", "apply", "off"];
            if !known.contains(&written.as_str()) {
                let problem =
                    self.problem("preemption", format!("expected report, apply or off, found {written:?}"));
                problems.push(problem.meaning(written, known));
            }
        }
        for (at, written) in spec.changes.add_nodes.iter().enumerate() {
            let wrong = AddNodes::parse(written).err();
            problems.extend(wrong.map(|wrong| self.problem(&format!("changes.addNodes[{at}]"), wrong)));
        }
        for (at, written) in spec.changes.scale.iter().enumerate() {
            let wrong = Scale::parse(written).err();
            problems.extend(wrong.map(|wrong| self.problem(&format!("changes.scale[{at}]"), wrong)));
        }
        if spec.tests.is_empty() || spec.tests.len() > CASES_MAX {
            problems.push(
                self.problem("tests", format!("expected 1 to {CASES_MAX} tests, found {}", spec.tests.len())),
            );
        }
        for (at, case) in spec.tests.iter().enumerate() {
            self.judge_case(&format!("tests[{at}]"), case, &mut problems);
        }
        problems
    }

    fn judge_case(&self, path: &str, case: &Case, problems: &mut Vec<Problem>) {
        let mut wrong =
            |field: &str, text: &str| problems.push(self.problem(&format!("{path}{field}"), text));
        if case.name.is_empty() {
            wrong("", "expected a name");
        }
        let pods = &case.pods;
        if pods.name.is_none()
            && pods.workload.is_none()
            && pods.namespace.is_none()
            && pods.labels.is_empty()
        {
            wrong(".pods", "expected at least one of namespace, name, workload or labels");
        }
        let of = &case.expect;
        let numbers = [
            (".expect.count", of.count),
            (".expect.scheduledAtLeast", of.scheduled_at_least),
            (".expect.spread.maxSkew", of.spread.as_ref().and_then(|of| of.max_skew)),
            (".expect.spread.atLeast", of.spread.as_ref().and_then(|of| of.at_least)),
        ];
        for (field, _) in numbers.into_iter().filter(|(_, number)| number.is_some_and(|number| number < 0)) {
            wrong(field, "must not be negative");
        }
        for (field, nodes) in [(".expect.onNodes", &of.on_nodes), (".expect.notOnNodes", &of.not_on_nodes)] {
            if nodes.as_ref().is_some_and(NodeChoice::is_empty) {
                wrong(field, "expected names or labels");
            }
        }
        if let Some(spread) = &of.spread {
            if spread.topology_key.is_empty() {
                wrong(".expect.spread", "expected a topologyKey");
            }
            if spread.max_skew.is_none() && spread.at_least.is_none() {
                wrong(".expect.spread", "expected maxSkew or atLeast");
            }
        }
        if of.is_empty() {
            let all = "count, scheduled, scheduledAtLeast, onNodes, notOnNodes, spread or pendingFor";
            wrong(".expect", &format!("expected at least one of {all}"));
        }
        if let Some(code) = &of.pending_for {
            let known: Vec<String> = ReasonCode::ALL.iter().map(|code| format!("{code:?}")).collect();
            if !known.contains(code) {
                let text = format!("{code:?} is not one of the reasons in docs/explain.md");
                let meant = nearest(code, known.iter().map(String::as_str)).map(str::to_owned);
                problems.push(Problem { meant, ..self.problem(&format!("{path}.expect.pendingFor"), text) });
            }
        }
    }
}

impl NodeChoice {
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty() && self.labels.is_empty()
    }
}

impl Expectation {
    fn is_empty(&self) -> bool {
        self.count.is_none()
            && self.scheduled.is_none()
            && self.scheduled_at_least.is_none()
            && self.on_nodes.is_none()
            && self.not_on_nodes.is_none()
            && self.spread.is_none()
            && self.pending_for.is_none()
    }
}
