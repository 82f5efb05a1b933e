//! The report: one entry per decision, in each output format, written as soon as it is known.

use crate::screen::Output;
use crate::screen::{plain, plain_json};
use serde_json::Value;
use std::io::{self, Write};
use supercargo_whatif::simulate::decision::{Counts, Decision, Preemption};

/// `apiVersion` of the report.
const API_VERSION: &str = "supercargo.dev/v1alpha1";
/// `kind` of the report.
const KIND: &str = "SimulationReport";

/// Writes a report to `out`.
pub(super) struct Reporter<W> {
    out: W,
    form: Output,
    is_first: bool,
    /// Column widths of pods and nodes.
    widths: (usize, usize),
}

impl<W: Write> Reporter<W> {
    /// Creates a report; `pods` and `nodes` are the lengths of the longest names.
    pub(super) fn new(out: W, form: Output, pods: usize, nodes: usize) -> Self {
        Self { out, form, is_first: true, widths: (pods.max(3), nodes.max(6)) }
    }

    /// Writes the part before the decisions.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        let (pod, node) = self.widths;
        match self.form {
            Output::Json => {
                write!(self.out, "{{\"apiVersion\":\"{API_VERSION}\",\"kind\":\"{KIND}\",\"decisions\":[")
            }
            Output::Yaml => write!(self.out, "apiVersion: {API_VERSION}\nkind: {KIND}\ndecisions:"),
            Output::Table => writeln!(self.out, "{:pod$}  {:node$}  MESSAGE", "POD", "NODE"),
            Output::Wide => writeln!(
                self.out,
                "{:pod$}  {:node$}  {:>5}  {:>13}  {:node$}  {:>7}  MESSAGE",
                "POD", "NODE", "SCORE", "FEASIBLE", "PREEMPTS ON", "VICTIMS"
            ),
        }
    }

    /// Writes one decision.
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

    /// Writes the part after the decisions.
    pub(super) fn end(&mut self) -> io::Result<()> {
        match self.form {
            Output::Json => writeln!(self.out, "\n]}}")?,
            Output::Yaml if self.is_first => writeln!(self.out, " []")?,
            Output::Yaml => writeln!(self.out)?,
            Output::Table | Output::Wide => {}
        }
        self.out.flush()
    }

    /// Writes the part after the decisions, with a summary in the format of the report.
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

/// Returns the last column of the table: the message and the result of preemption.
pub(super) fn why(decision: &Decision) -> String {
    let message = decision.message.as_deref().unwrap_or_default();
    match &decision.preemption {
        Some(Preemption { nominated_node, victims }) => {
            let victims = victims.join(", ");
            match decision.node {
                Some(_) => format!("{message} Preempted pods: {victims}"),
                None if victims.is_empty() => {
                    format!("{message} It fits on {nominated_node} once pods preempted earlier are gone")
                }
                None => format!("{message} It fits on {nominated_node} after preempting {victims}"),
            }
        }
        None => message.to_owned(),
    }
}

/// Returns the whole report as one JSON value, for use as a library.
pub fn to_value(decisions: &[Decision]) -> Value {
    serde_json::json!({ "apiVersion": API_VERSION, "kind": KIND, "decisions": decisions })
}
