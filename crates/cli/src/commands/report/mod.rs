//! `supercargo report`: an HTML report of a cluster, before and after pods are placed or changes applied.
//! Changes nothing.
//!
//! `making` reads the states of a cluster into the `model`; `page` formats the model as HTML.

mod args;
mod build;
mod columns;
mod model;
mod page;
mod planned;
mod skew;

pub use args::{Form, ReportArgs};

use crate::cluster::{Cluster, Refused};
use crate::commands::simulate::what_if::change;
use crate::screen::plain_json;
use crate::screen::{complain, say};
use build::{ReportBuilder, States};
use model::Report;
use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::process::ExitCode;
use supercargo_whatif::explain::format::count;
use supercargo_whatif::load::files::InputError;
use supercargo_whatif::prepare::owners::Owners;

/// Exit code if the report cannot be written.
const FAILED: u8 = 1;

/// Runs the command: writes the report and returns the exit code.
pub fn main(args: &ReportArgs) -> ExitCode {
    match is_welcome(args, io::stdout().is_terminal())
        .and_then(|()| make(args))
        .and_then(|report| formed(&report, args.output))
    {
        Ok(text) => write(&text, args),
        Err(refused) => refused.report(),
    }
}

/// Rejects printing a page to a terminal.
fn is_welcome(args: &ReportArgs, is_terminal: bool) -> Result<(), Refused> {
    if args.to.is_none() && args.output == Form::Html && is_terminal {
        let text =
            "a report is an HTML page: write it to a file with --to report.html, or redirect standard output";
        return Err(InputError(text.to_owned()).into());
    }
    Ok(())
}

fn make(args: &ReportArgs) -> Result<Report, Refused> {
    let mut cluster = Cluster::load_with_census(&args.source, &args.pods, Owners::for_scaling())?;
    cluster.notices.iter().for_each(|notice| complain(notice));
    if !args.pods.is_empty() && cluster.templates.is_empty() {
        let files = named(&args.pods);
        return Err(InputError(format!("{files}: expected pods or workloads")).into());
    }
    let moves = args.plan.as_deref().map(planned::read).transpose()?;
    let mut states = States::of(&mut cluster);
    let pods = change(&mut cluster, &args.changes)?.pods;
    states.note_owners(&cluster);
    let mut making = ReportBuilder::new(args, cluster, states);
    if args.is_what_if() {
        making.place(&pods);
    }
    if let Some(moves) = moves {
        making.carry_out(moves)?;
    }
    making.explain_waiting();
    making.score_placed();
    Ok(making.finish(source(args), made_at()?))
}

/// Describes the input: where the cluster comes from, and the changes.
fn source(args: &ReportArgs) -> String {
    let cluster = match (args.source.cluster.as_slice(), &args.source.live.context) {
        ([], Some(context)) => format!("the cluster of the context {context}"),
        ([], None) => "the cluster of the kubeconfig".to_owned(),
        (files, _) => named(files),
    };
    let changes = &args.changes;
    let mut parts = vec![cluster];
    parts.extend(
        changes
            .add_nodes
            .iter()
            .map(|add| format!("with {} added like {}", count(add.count, "node"), add.template)),
    );
    parts.extend(changes.remove_node.iter().map(|node| format!("without {node}")));
    parts.extend(
        changes.scale.iter().map(|scale| format!("with {} of {}", count(scale.replicas, "pod"), scale.name)),
    );
    if !args.pods.is_empty() {
        parts.push(format!("with the pods of {}", named(&args.pods)));
    }
    parts.extend(args.plan.iter().map(|plan| format!("with the moves of {}", plan.display())));
    parts.join(", ")
}

fn named(files: &[impl AsRef<Path>]) -> String {
    let names = files.iter().map(|file| match file.as_ref().display().to_string().as_str() {
        "-" => "standard input".to_owned(),
        name => name.to_owned(),
    });
    names.collect::<Vec<_>>().join(", ")
}

/// Returns the time of the report: now, or that of `SOURCE_DATE_EPOCH`, for reproducible reports
/// (<https://reproducible-builds.org/specs/source-date-epoch/>).
fn made_at() -> Result<String, InputError> {
    let seconds = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text
            .parse()
            .map_err(|_| InputError(format!("SOURCE_DATE_EPOCH is {text:?}; expected seconds since 1970")))?,
        Err(_) => jiff::Timestamp::now().as_second(),
    };
    let at = jiff::Timestamp::from_second(seconds);
    at.map(|at| at.to_string()).map_err(|error| InputError(format!("SOURCE_DATE_EPOCH: {error}")))
}

fn formed(report: &Report, form: Form) -> Result<String, Refused> {
    match form {
        Form::Html => Ok(page::page(report)?),
        Form::Json => {
            let text = serde_json::to_string(report).expect("a report holds only strings, numbers and lists");
            Ok(plain_json(text + "\n"))
        }
    }
}

fn write(text: &str, args: &ReportArgs) -> ExitCode {
    let Some(path) = &args.to else { return say(text, 0) };
    match std::fs::write(path, text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("error: cannot write the report {}: {error}", path.display()));
            ExitCode::from(FAILED)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ReportArgs,
    }

    fn is_welcome_on_a_terminal(flags: &[&str]) -> bool {
        let args = Line::try_parse_from(["report"].iter().chain(flags)).expect("they are flags").args;
        assert!(is_welcome(&args, false).is_ok(), "a file or pipe accepts every format");
        is_welcome(&args, true).is_ok()
    }

    #[test]
    fn page_is_not_printed_to_a_terminal() {
        assert!(!is_welcome_on_a_terminal(&[]));
        assert!(is_welcome_on_a_terminal(&["--to", "report.html"]));
        assert!(is_welcome_on_a_terminal(&["-o", "json"]));
    }
}
