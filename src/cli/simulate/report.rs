//! What is told of each decision, in each form. Everything is written as soon as it is known.

use super::args::Output;
use crate::cli::screen::{plain, plain_json};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// `apiVersion` of the report.
const API_VERSION: &str = "supercargo.dev/v1alpha1";
/// `kind` of the report.
const KIND: &str = "SimulationReport";

/// What became of one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// `namespace/name`.
    pub pod: String,
    /// The node it goes to.
    pub node: Option<String>,
    /// Why it goes nowhere, without what preemption has to say.
    pub message: Option<String>,
    /// The text of the event about it.
    pub event: Option<String>,
    /// The rejection before any node was looked at.
    pub pre_filter: Option<Rejected>,
    /// What is told of the nodes.
    #[serde(flatten)]
    pub nodes: Nodes,
    /// Where it could go if others went.
    pub preemption: Option<Preemption>,
}

/// What is told of the nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Nodes {
    /// All of it.
    Full {
        /// Nodes that were looked at and cannot take the pod, by name.
        rejected: BTreeMap<String, Rejected>,
        /// Names of those that can, sorted.
        feasible: Vec<String>,
        /// By node and plugin: normalized score times weight.
        scores: BTreeMap<String, BTreeMap<&'static str, i64>>,
        /// By node: the sum.
        totals: BTreeMap<String, i64>,
    },
    /// The gist.
    Brief {
        /// How many nodes gave which reason.
        counts: BTreeMap<String, usize>,
    },
    /// Nothing.
    Untold {},
}

impl Default for Nodes {
    fn default() -> Self {
        Self::Full {
            rejected: BTreeMap::new(),
            feasible: Vec::new(),
            scores: BTreeMap::new(),
            totals: BTreeMap::new(),
        }
    }
}

/// A plugin's rejection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rejected {
    /// The plugin.
    pub plugin: String,
    /// Whether preemption may help: `Unschedulable` or `UnschedulableAndUnresolvable`; `Error` where the plugin failed.
    pub code: &'static str,
    /// Why, sorted.
    pub reasons: Vec<String>,
}

/// Where a pod could go if others went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preemption {
    /// The node.
    pub nominated_node: String,
    /// `namespace/name` of those who would have to go, sorted.
    pub victims: Vec<String>,
}

/// What a line of the wide table tells beside the decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Nodes that can take the pod.
    pub feasible: usize,
    /// All nodes.
    pub nodes: usize,
    /// The winner's total; `None` where nothing was scored.
    pub total: Option<i64>,
}

/// Writes a report.
pub(super) struct Reporter<W> {
    out: W,
    form: Output,
    is_first: bool,
    /// Widths of the columns of pods and nodes.
    widths: (usize, usize),
}

impl<W: Write> Reporter<W> {
    /// A report whose longest names of pods and nodes have these lengths.
    pub(super) fn new(out: W, form: Output, pods: usize, nodes: usize) -> Self {
        Self { out, form, is_first: true, widths: (pods.max(3), nodes.max(6)) }
    }

    /// Writes what comes before the decisions.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        let (pod, node) = self.widths;
        match self.form {
            Output::Json => {
                write!(self.out, "{{\"apiVersion\":\"{API_VERSION}\",\"kind\":\"{KIND}\",\"decisions\":[")
            }
            Output::Yaml => write!(self.out, "apiVersion: {API_VERSION}\nkind: {KIND}\ndecisions:"),
            Output::Table => writeln!(self.out, "{:pod$}  {:node$}  WHY", "POD", "NODE"),
            Output::Wide => writeln!(
                self.out,
                "{:pod$}  {:node$}  {:>5}  {:>13}  {:node$}  {:>7}  WHY",
                "POD", "NODE", "SCORE", "FEASIBLE", "PREEMPTS ON", "VICTIMS"
            ),
        }
    }

    /// Writes a decision.
    pub(super) fn add(&mut self, decision: &Decision, counts: Counts) -> io::Result<()> {
        match self.form {
            Output::Json => {
                let comma = if self.is_first { "\n" } else { ",\n" };
                self.out.write_all(comma.as_bytes())?;
                self.out.write_all(plain_json(serde_json::to_string(decision)?).as_bytes())?;
            }
            Output::Yaml => self.add_yaml(decision)?,
            Output::Table => self.add_line(decision)?,
            Output::Wide => self.add_wide_line(decision, counts)?,
        }
        self.is_first = false;
        self.out.flush()
    }

    /// Writes what comes after the decisions.
    pub(super) fn end(&mut self) -> io::Result<()> {
        match self.form {
            Output::Json => writeln!(self.out, "\n]}}")?,
            Output::Yaml if self.is_first => writeln!(self.out, " []")?,
            Output::Yaml => writeln!(self.out)?,
            Output::Table | Output::Wide => {}
        }
        self.out.flush()
    }

    /// The same with a summary, in the form of the report.
    pub(super) fn end_with(&mut self, summary: &str) -> io::Result<()> {
        match self.form {
            Output::Json => writeln!(self.out, "\n],\"summary\":{summary}}}")?,
            Output::Yaml => {
                let none = if self.is_first { " []" } else { "" };
                write!(self.out, "{none}\nsummary:")?;
                for line in summary.lines() {
                    write!(self.out, "\n  {line}")?;
                }
                writeln!(self.out)?;
            }
            Output::Table | Output::Wide => self.out.write_all(summary.as_bytes())?,
        }
        self.out.flush()
    }

    fn add_yaml(&mut self, decision: &Decision) -> io::Result<()> {
        let value = serde_json::to_value(decision)?;
        let text = serde_saphyr::to_string(&value).map_err(io::Error::other)?;
        for (at, line) in text.lines().enumerate() {
            let lead = if at == 0 { "- " } else { "  " };
            write!(self.out, "\n{lead}{line}")?;
        }
        Ok(())
    }

    fn add_line(&mut self, decision: &Decision) -> io::Result<()> {
        let (pod, node) = self.widths;
        let (name, why) = (decision.node.as_deref().unwrap_or("<none>"), why(decision));
        let line = format!("{:pod$}  {name:node$}  {why}", decision.pod);
        writeln!(self.out, "{}", plain(line.trim_end()))
    }

    fn add_wide_line(&mut self, decision: &Decision, counts: Counts) -> io::Result<()> {
        let (pod, node) = self.widths;
        let dash = || "-".to_owned();
        let name = decision.node.as_deref().unwrap_or("<none>");
        let score = counts.total.map_or_else(dash, |total| total.to_string());
        let feasible = format!("{}/{}", counts.feasible, counts.nodes);
        let (on, victims) = match &decision.preemption {
            Some(it) => (it.nominated_node.as_str(), it.victims.len().to_string()),
            None => ("-", dash()),
        };
        let why = decision.event.as_deref().or(decision.message.as_deref()).unwrap_or_default();
        let line = format!(
            "{:pod$}  {name:node$}  {score:>5}  {feasible:>13}  {on:node$}  {victims:>7}  {why}",
            decision.pod
        );
        writeln!(self.out, "{}", plain(line.trim_end()))
    }
}

/// What the short table says of a decision.
pub(super) fn why(decision: &Decision) -> String {
    let message = decision.message.as_deref().unwrap_or_default();
    match &decision.preemption {
        Some(Preemption { nominated_node, victims }) => {
            let victims = victims.join(", ");
            match decision.node {
                Some(_) => format!("{message} These went for it: {victims}"),
                None if victims.is_empty() => {
                    format!(
                        "{message} It would fit on {nominated_node} once the pods that go for others are gone"
                    )
                }
                None => format!("{message} It would fit on {nominated_node} if these went: {victims}"),
            }
        }
        None => message.to_owned(),
    }
}

/// The whole report as one value, for those who call this as a library.
pub fn to_value(decisions: &[Decision]) -> Value {
    serde_json::json!({ "apiVersion": API_VERSION, "kind": KIND, "decisions": decisions })
}
