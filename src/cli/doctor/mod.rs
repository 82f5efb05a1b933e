//! `supercargo doctor`: whether an installation has what it needs and stands alone: rights, leader, versions,
//! certificates, clocks, quotas, other schedulers, drift of the cache.
//!
//! Asks the API server, and the leader through it; has reviews made, and changes nothing.

mod facts;
mod house;
mod judge;
mod quota;
mod rights;
#[cfg(test)]
mod tests;
mod trust;

pub use judge::CHECK_IDS;

use super::cluster::{Refused, in_form, say};
use super::live::LiveArgs;
use super::screen::Screen;
use super::simulate::Output;
use clap::Args;
use serde::Serialize;
use std::process::ExitCode;

/// Exit code when there is a problem.
const NOT_WELL: u8 = 3;
/// Exit code when there is none, as far as checks could be made, and some could not.
const NOT_KNOWN: u8 = 4;

/// Which installation, and how it is told.
#[derive(Clone, Debug, Args)]
pub struct DoctorArgs {
    /// How the cluster is reached.
    #[command(flatten)]
    pub live: LiveArgs,

    /// The ServiceAccount it runs as, with its namespace.
    #[arg(long, value_name = "NAMESPACE:NAME", default_value = "kube-system:supercargo", value_parser = account)]
    pub service_account: String,

    /// The name of its Lease.
    #[arg(long, value_name = "NAME", default_value = "supercargo")]
    pub lease: String,

    /// The namespace of the Lease, and of its pods.
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system")]
    pub lease_namespace: String,

    /// The leader's pod, where it is not called as who holds the Lease.
    #[arg(long, value_name = "NAME")]
    pub pod: Option<String>,

    /// The port in that pod.
    #[arg(long, value_name = "PORT", default_value_t = 10259)]
    pub port: u16,

    /// Form of the answer.
    #[arg(short = 'o', long, value_name = "FORM", default_value = "table")]
    pub output: Output,
}

impl DoctorArgs {
    /// Namespace and name of the ServiceAccount.
    fn account(&self) -> (&str, &str) {
        self.service_account.split_once(':').expect("it is read as one with a colon")
    }
}

fn account(text: &str) -> Result<String, String> {
    let is_name =
        |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c));
    match text.split_once(':') {
        Some((namespace, name)) if is_name(namespace) && is_name(name) => Ok(text.to_owned()),
        _ => Err("write for example kube-system:supercargo".to_owned()),
    }
}

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Status {
    /// As it should be.
    Ok,
    /// It could not be looked at.
    Unknown,
    /// It may be meant, or not matter.
    Warning,
    /// Something does not work, or will not.
    Problem,
}

/// A check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// Which; of [`CHECK_IDS`].
    pub id: &'static str,
    /// How it went.
    pub status: Status,
    /// What was found.
    pub text: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_do: Option<String>,
}

/// All checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DoctorReport {
    /// Always the same of this version.
    pub api_version: &'static str,
    /// Always the same.
    pub kind: &'static str,
    /// The version of this program.
    pub version: &'static str,
    /// How many are problems.
    pub problems: usize,
    /// How many are warnings.
    pub warnings: usize,
    /// How many could not be looked at.
    pub unknown: usize,
    /// One by one.
    pub checks: Vec<Check>,
}

impl DoctorReport {
    fn of(checks: Vec<Check>) -> Self {
        let count = |status| checks.iter().filter(|check| check.status == status).count();
        Self {
            api_version: crate::explain::API_VERSION,
            kind: "DoctorReport",
            version: env!("CARGO_PKG_VERSION"),
            problems: count(Status::Problem),
            warnings: count(Status::Warning),
            unknown: count(Status::Unknown),
            checks,
        }
    }

    /// The exit code. A check that could not be made is not passed.
    fn code(&self) -> u8 {
        match (self.problems, self.unknown) {
            (0, 0) => 0,
            (0, _) => NOT_KNOWN,
            _ => NOT_WELL,
        }
    }
}

/// Runs the command on the process's own streams.
pub fn main(args: &DoctorArgs) -> ExitCode {
    match facts::gather(args) {
        Ok(facts) => {
            let report = DoctorReport::of(judge::checks(&facts, args));
            say(&in_form(args.output, &report, |wide| text(&report, wide)), report.code())
        }
        Err(error) => Refused::Live(error).tell(),
    }
}

fn text(of: &DoctorReport, wide: bool) -> String {
    let mut screen = Screen::of_stdout();
    let count = |many: usize, one: &str, more: &str| match many {
        0 => None,
        1 => Some(format!("1 {one}")),
        many => Some(format!("{many} {more}")),
    };
    let counts = [
        count(of.problems, "problem", "problems"),
        count(of.warnings, "warning", "warnings"),
        count(of.unknown, "check that could not be made", "checks that could not be made"),
    ];
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    let verdict = if counts.is_empty() { "all is well".to_owned() } else { counts.join(", ") };
    screen.heading(&format!("supercargo {}: {verdict}", of.version));
    let mut rows = vec![["STATUS", "CHECK", "WHAT WAS FOUND"].map(str::to_owned).to_vec()];
    rows.extend(
        of.checks
            .iter()
            .map(|check| vec![word(check.status).to_owned(), check.id.to_owned(), check.text.clone()]),
    );
    screen.table(&[], &rows);
    let to_do = of.checks.iter().filter(|check| wide || check.status != Status::Unknown);
    let to_do: Vec<(&str, &String)> =
        to_do.filter_map(|check| Some((check.id, check.to_do.as_ref()?))).collect();
    if !to_do.is_empty() {
        screen.heading("What to do");
        let rows: Vec<Vec<String>> =
            to_do.iter().map(|(id, text)| vec![(*id).to_owned(), (*text).clone()]).collect();
        screen.table(&[], &rows);
    }
    screen.into_text()
}

fn word(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Unknown => "unknown",
        Status::Warning => "warning",
        Status::Problem => "problem",
    }
}
