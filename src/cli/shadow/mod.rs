//! `supercargo shadow`: what a running shadow has to say. Asks that process alone, and no API server.

mod table;

use crate::shadow::{PAGE, ShadowReport};
use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// How long the shadow has to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
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
    /// URL of the shadow's port, for example https://127.0.0.1:10259 behind `kubectl port-forward`.
    #[arg(long, value_name = "URL", required_unless_present = "file", conflicts_with = "file")]
    pub server: Option<http::Uri>,

    /// File with what /debug/shadow has answered; `-` is standard input.
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// File with the token to ask with.
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    pub token_file: Option<PathBuf>,

    /// Certificates (PEM) to trust the shadow's port by.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "insecure_skip_tls_verify"])]
    pub certificate_authority: Option<PathBuf>,

    /// Do not ask whose port it is. The token goes there all the same.
    #[arg(long, conflicts_with = "file")]
    pub insecure_skip_tls_verify: bool,

    /// Form of the report.
    #[arg(short, long, value_name = "FORM", default_value = "table")]
    pub output: Output,
}

/// Form of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Table,
    /// A ShadowReport, for programs.
    Json,
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
        Ok(text) => {
            // Whoever reads this may have seen enough.
            let _ = io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(Failed { cause, code }) => {
            let _ = writeln!(io::stderr(), "error: {cause:#}");
            ExitCode::from(code)
        }
    }
}

fn told(args: &ReportArgs) -> Result<String, Failed> {
    let (text, code) = match (&args.server, &args.file) {
        (Some(server), _) => (fetched(server, args), 1),
        (None, Some(file)) => (read(file), 2),
        (None, None) => (Err(anyhow!("there is nothing to read")), 2),
    };
    let report = text.and_then(|text| parsed(&text)).map_err(|cause| Failed { cause, code })?;
    Ok(match args.output {
        Output::Table => table::render(&report),
        Output::Json => {
            let mut json = serde_json::to_string_pretty(&report).expect("texts and numbers are JSON");
            json.push('\n');
            json
        }
    })
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
    let read = reader.take(BYTES_MAX + 1).read_to_string(&mut text);
    read.with_context(|| format!("cannot read {}", file.display()))?;
    if text.len() as u64 > BYTES_MAX {
        bail!("{} is larger than any report", file.display());
    }
    Ok(text)
}

fn fetched(server: &http::Uri, args: &ReportArgs) -> Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let answer = async { tokio::time::timeout(ANSWER_WITHIN, asked(server, args)).await };
    let answer = runtime.block_on(answer).map_err(|_| anyhow!("it did not answer for {ANSWER_WITHIN:?}"));
    answer.flatten().with_context(|| format!("cannot ask {server}"))
}

async fn asked(server: &http::Uri, args: &ReportArgs) -> Result<String> {
    let mut config = kube::Config::new(server.clone());
    config.default_retry = false;
    config.accept_invalid_certs = args.insecure_skip_tls_verify;
    config.auth_info.token_file = args.token_file.as_ref().map(|file| file.display().to_string());
    if let Some(file) = &args.certificate_authority {
        config.root_cert = Some(certificates(file)?);
    }
    let client = crate::client::builder(&config)?.build();
    let request = http::Request::get(PAGE).body(Vec::new()).context("the path is one")?;
    client.request_text(request).await.map_err(|error| match error {
        kube::Error::Api(status) if status.code == 401 => anyhow!("401: it does not know whose token this is"),
        kube::Error::Api(status) if status.code == 403 => {
            anyhow!("403: whose token this is may not get {PAGE}; a ClusterRole with that nonResourceURL lets them")
        }
        kube::Error::Api(status) if status.code == 404 => {
            anyhow!("404: it is no shadow, or enableProfiling is false")
        }
        error => error.into(),
    })
}

fn certificates(file: &Path) -> Result<Vec<Vec<u8>>> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;
    let found =
        CertificateDer::pem_file_iter(file).with_context(|| format!("cannot read {}", file.display()))?;
    let found = found.map(|it| it.map(|it| it.to_vec())).collect::<Result<Vec<_>, _>>();
    found.with_context(|| format!("{} holds no certificates", file.display()))
}

#[cfg(test)]
mod tests;
