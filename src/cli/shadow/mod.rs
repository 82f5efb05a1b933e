//! `supercargo shadow`: what a running shadow has to say. Asks that process alone, and no API server.

mod table;

use super::cluster::{complain, in_form, say};
use super::live::port::{PortArgs, get};
use super::live::request_timeout;
use super::simulate::Output;
use super::simulate::input::decompressed;
use crate::shadow::{PAGE, ShadowReport};
use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, Subcommand};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// No report is as large as this: a shadow keeps four megabytes of disagreements.
const BYTES_MAX: u64 = 16 << 20;

/// What is asked of a shadow.
#[derive(Clone, Debug, Args)]
pub struct ShadowArgs {
    /// The question.
    #[command(subcommand)]
    pub question: Question,
}

/// Questions to a shadow.
#[derive(Clone, Debug, Subcommand)]
pub enum Question {
    /// Tell how far the two schedulers agree, and list the latest disagreements with the scores of both nodes.
    ///
    /// Whoever asks needs a token of one who may get the path /debug/shadow (`kubectl create token`).
    ///
    /// Exit code: 0 told, 1 the shadow did not answer, 2 the flags or the file are wrong.
    Report(ReportArgs),
}

/// Where a report comes from, and how it is told.
#[derive(Clone, Debug, Args)]
pub struct ReportArgs {
    /// Where the port is.
    #[command(flatten)]
    pub port: PortArgs,

    /// How long the shadow may take for its answer; 0 leaves it half a minute.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = request_timeout)]
    pub request_timeout: Duration,

    /// File with what /debug/shadow has answered; `-` is standard input.
    #[arg(short, long, value_name = "FILE", required_unless_present = "server")]
    pub file: Option<PathBuf>,

    /// Form of the report.
    #[arg(short, long, value_name = "FORM", default_value = "table")]
    pub output: Output,
}

/// Why there is no report.
struct Failed {
    cause: anyhow::Error,
    code: u8,
}

/// Runs the command on the process's own streams.
pub fn main(args: &ShadowArgs) -> ExitCode {
    let Question::Report(args) = &args.question;
    match told(args) {
        Ok(text) => say(&text, 0),
        Err(Failed { cause, code }) => {
            complain(&format!("error: {cause:#}"));
            ExitCode::from(code)
        }
    }
}

fn told(args: &ReportArgs) -> Result<String, Failed> {
    let (text, code) = match (&args.port.server, &args.file) {
        (Some(server), _) => (fetched(server, args), 1),
        (None, Some(file)) => (read(file), 2),
        (None, None) => (Err(anyhow!("there is nothing to read")), 2),
    };
    let report = text.and_then(|text| parsed(&text)).map_err(|cause| Failed { cause, code })?;
    Ok(in_form(args.output, &report, |_| table::render(&report)))
}

fn parsed(text: &str) -> Result<ShadowReport> {
    let report: ShadowReport = serde_json::from_str(text).context("this is no ShadowReport")?;
    if !report.is_of_this_version() {
        bail!("this is a {} of {}, which this version does not read", report.kind, report.api_version);
    }
    Ok(report)
}

fn read(file: &Path) -> Result<String> {
    let reader: Box<dyn Read> = if file == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(file).with_context(|| format!("cannot read {}", file.display()))?)
    };
    let mut text = String::new();
    let read = decompressed(reader).and_then(|reader| reader.take(BYTES_MAX + 1).read_to_string(&mut text));
    read.with_context(|| format!("cannot read {}", file.display()))?;
    if text.len() as u64 > BYTES_MAX {
        bail!("{} is larger than any report", file.display());
    }
    Ok(text)
}

fn fetched(server: &http::Uri, args: &ReportArgs) -> Result<String> {
    let page =
        get(server, &args.port, args.request_timeout, PAGE).map_err(|error| anyhow!(error.into_text()))?;
    let why = match page.status {
        200 => return Ok(page.body),
        401 => "401: it does not know whose token this is".to_owned(),
        403 => {
            format!(
                "403: whose token this is may not get {PAGE}; a ClusterRole with that nonResourceURL lets them"
            )
        }
        404 => "404: it is no shadow, or enableProfiling is false".to_owned(),
        code => format!("{code}: {}", page.message()),
    };
    Err(anyhow!("cannot ask {server}: {why}"))
}

#[cfg(test)]
mod tests;
