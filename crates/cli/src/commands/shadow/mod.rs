//! `supercargo shadow`: prints the report of a running shadow. It contacts only that process, not the API server.

mod table;

use crate::commands::queue::unauthenticated;
use crate::live::port::{PORT_FLAGS, PortArgs, get};
use crate::live::request_timeout;
use crate::screen::Output;
use crate::screen::{complain, in_form, say};
use anyhow::{Result, anyhow, bail};
use clap::{Args, Subcommand};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use supercargo_whatif::load::input::decompressed;
use supercargo_whatif::shadow_report::{PAGE, ShadowReport};

/// Maximum size of a report (16 MiB). A shadow stores at most 4 MiB of disagreements.
const BYTES_MAX: u64 = 16 << 20;

/// Flags of `supercargo shadow`.
#[derive(Clone, Debug, Args)]
pub struct ShadowArgs {
    /// The subcommand.
    #[command(subcommand)]
    pub question: Question,
}

/// The subcommands of `supercargo shadow`.
#[derive(Clone, Debug, Subcommand)]
pub enum Question {
    /// Print how far the two schedulers agree, and the latest disagreements with the scores of both nodes.
    ///
    /// Needs a token whose user may get the path /debug/shadow (create one with `kubectl create token`).
    ///
    /// Exit code: 0 success, 1 no answer from the shadow, 2 invalid flags or file.
    Report(ReportArgs),
}

/// Flags of `supercargo shadow report`: the source and the output format.
#[derive(Clone, Debug, Args)]
pub struct ReportArgs {
    /// How to reach the shadow.
    #[command(flatten)]
    pub port: PortArgs,

    /// Timeout for the shadow's answer; 0 means 30 seconds.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = request_timeout)]
    pub request_timeout: Duration,

    /// File with the answer of /debug/shadow; `-` reads standard input.
    #[arg(short, long, value_name = "FILE", required_unless_present = "server", conflicts_with_all = PORT_FLAGS)]
    pub file: Option<PathBuf>,

    /// Output format.
    #[arg(short, long, value_name = "FORM", default_value = "table")]
    pub output: Output,
}

/// The error and the exit code when there is no report.
struct Failed {
    cause: anyhow::Error,
    code: u8,
}

/// Runs the command on the process's own streams.
pub fn main(args: &ShadowArgs) -> ExitCode {
    let Question::Report(args) = &args.question;
    match report_text(args) {
        Ok(text) => say(&text, 0),
        Err(Failed { cause, code }) => {
            complain(&format!("error: {cause:#}"));
            ExitCode::from(code)
        }
    }
}

fn report_text(args: &ReportArgs) -> Result<String, Failed> {
    let (text, code) = match (&args.port.server, &args.file) {
        (Some(server), _) => (fetched(server, args), 1),
        (None, Some(file)) => (read(file), 2),
        (None, None) => (Err(anyhow!("nothing to read; set --server or --file")), 2),
    };
    let report = text.and_then(|text| parsed(&text)).map_err(|cause| Failed { cause, code })?;
    Ok(in_form(args.output, &report, |_| table::render(&report)))
}

fn parsed(text: &str) -> Result<ShadowReport> {
    let report: ShadowReport = serde_json::from_str(text)
        .map_err(|error| anyhow!("not a ShadowReport: {error}; give an answer of /debug/shadow"))?;
    if !report.is_of_this_version() {
        bail!(
            "this is a {} of {}, which this version of supercargo does not support; use the supercargo of the shadow's version",
            report.kind,
            report.api_version
        );
    }
    Ok(report)
}

fn read(file: &Path) -> Result<String> {
    let reader: Box<dyn Read> = if file == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(file).map_err(|error| unread(file, &error))?)
    };
    let mut text = String::new();
    let read = decompressed(reader).and_then(|reader| reader.take(BYTES_MAX + 1).read_to_string(&mut text));
    read.map_err(|error| unread(file, &error))?;
    if text.len() as u64 > BYTES_MAX {
        bail!("{} is larger than a report can be (16 MiB); give an answer of /debug/shadow", file.display());
    }
    Ok(text)
}

fn unread(file: &Path, error: &io::Error) -> anyhow::Error {
    anyhow!("cannot read {}: {error}; give a file with an answer of /debug/shadow", file.display())
}

fn fetched(server: &http::Uri, args: &ReportArgs) -> Result<String> {
    let page =
        get(server, &args.port, args.request_timeout, PAGE).map_err(|error| anyhow!(error.into_text()))?;
    let why = match page.status {
        200 => return Ok(page.body),
        401 => unauthenticated("the shadow", args.port.way()),
        403 => {
            format!(
                "403: the token's user may not get {PAGE}; allow it in a ClusterRole with this nonResourceURL"
            )
        }
        404 => "404: the server is not a shadow, or enableProfiling is false; check --server and the configuration".to_owned(),
        code => format!("{code}: {}; the shadow's log may have the reason", page.message()),
    };
    Err(anyhow!("cannot get the report from {server}: {why}"))
}

#[cfg(test)]
mod tests;
