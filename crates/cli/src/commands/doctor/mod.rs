//! `supercargo doctor`: checks an installation: permissions, leader election, versions, certificates, clocks,
//! quotas, other schedulers and cache drift.
//!
//! Asks the API server, and the leader through it. Creates access reviews and changes nothing.

mod facts;
mod identity;
mod installation;
mod judge;
mod quota;
mod rights;
#[cfg(test)]
mod tests;
mod tls_and_clock;

pub use judge::CHECK_IDS;

use crate::cluster::Refused;
use crate::commands::doctor::identity::Identity;
use crate::live::LiveArgs;
use crate::progress::Working;
use crate::screen::Output;
use crate::screen::Screen;
use crate::screen::{in_form, say};
use clap::Args;
use serde::Serialize;
use std::process::ExitCode;
use supercargo_config::flags::gates;
use supercargo_whatif::load::files::InputError;

/// Exit code if a check found a problem.
const NOT_WELL: u8 = 3;
/// Exit code if no check found a problem, but some could not run.
const NOT_KNOWN: u8 = 4;

/// Arguments of `supercargo doctor`.
#[derive(Clone, Debug, Args)]
pub struct DoctorArgs {
    /// Connection to the cluster.
    #[command(flatten)]
    pub live: LiveArgs,

    /// ServiceAccount of the installation, as namespace:name. Defaults to kube-system:supercargo.
    #[arg(long, value_name = "NAMESPACE:NAME", value_parser = identity::parse_account)]
    pub service_account: Option<String>,

    /// User whose permissions to check instead of the ServiceAccount's, for example system:kube-scheduler, or
    /// system:serviceaccount:NAMESPACE:NAME.
    #[arg(long, value_name = "USER", value_parser = identity::parse_name, conflicts_with = "service_account")]
    pub identity: Option<String>,

    /// Send each request as this user, as kubectl does. Without --identity or --service-account, doctor checks this
    /// user's permissions.
    #[arg(long = "as", value_name = "USER", value_parser = identity::parse_name)]
    pub as_user: Option<String>,

    /// Group of the user of --as. Can be repeated.
    #[arg(long, value_name = "GROUP", value_parser = identity::parse_name, requires = "as_user")]
    pub as_group: Vec<String>,

    /// Name of the installation's Lease. Defaults to supercargo, or to kube-scheduler if the permissions of
    /// system:kube-scheduler are checked.
    #[arg(long, value_name = "NAME")]
    pub lease: Option<String>,

    /// Namespace of the Lease and of the pods.
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system")]
    pub lease_namespace: String,

    /// Name of the leader's pod, if it differs from the lease holder's.
    #[arg(long, value_name = "NAME")]
    pub pod: Option<String>,

    /// HTTPS port of that pod.
    #[arg(long, value_name = "PORT", default_value_t = 10259)]
    pub port: u16,

    /// The scheduler's feature gates, as NAME=true. With GenericWorkload, the permissions for pod groups are checked,
    /// too.
    #[arg(long, value_name = "NAME=BOOL,...")]
    pub feature_gates: Vec<String>,

    /// Output format.
    #[arg(short = 'o', long, value_name = "FORM", default_value = "table")]
    pub output: Output,
}

impl DoctorArgs {
    /// Whether the scheduler schedules pod groups.
    fn has_groups(&self) -> bool {
        gates::groups(&self.feature_gates).workloads
    }

    /// Returns namespace and name of the Lease.
    fn lease(&self) -> (&str, &str) {
        (&self.lease_namespace, self.lease.as_deref().unwrap_or_else(|| Identity::of(self).lease()))
    }
}

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Status {
    /// No problem.
    Ok,
    /// The check could not run.
    Unknown,
    /// Possibly intended or harmless.
    Warning,
    /// Something does not work, or will fail.
    Problem,
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// Id of the check, one of [`CHECK_IDS`].
    pub id: &'static str,
    /// Result.
    pub status: Status,
    /// Finding, as text.
    pub text: String,
    /// Recommended action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_do: Option<String>,
}

/// Results of all checks, as a versioned kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DoctorReport {
    /// API version of this report.
    pub api_version: &'static str,
    /// Kind of this report.
    pub kind: &'static str,
    /// Version of this program.
    pub version: &'static str,
    /// Number of problems.
    pub problems: usize,
    /// Number of warnings.
    pub warnings: usize,
    /// Number of checks that could not run.
    pub unknown: usize,
    /// Results in the order of docs/doctor.md.
    pub checks: Vec<Check>,
}

impl DoctorReport {
    fn of(checks: Vec<Check>) -> Self {
        let count = |status| checks.iter().filter(|check| check.status == status).count();
        Self {
            api_version: supercargo_whatif::explain::API_VERSION,
            kind: "DoctorReport",
            version: env!("CARGO_PKG_VERSION"),
            problems: count(Status::Problem),
            warnings: count(Status::Warning),
            unknown: count(Status::Unknown),
            checks,
        }
    }

    /// Returns the exit code. A check that could not run does not count as passed.
    fn code(&self) -> u8 {
        match (self.problems, self.unknown) {
            (0, 0) => 0,
            (0, _) => NOT_KNOWN,
            _ => NOT_WELL,
        }
    }
}

/// Runs the command: prints the report and returns the exit code.
pub fn main(args: &DoctorArgs) -> ExitCode {
    if let Err(wrong) = gates::judge(&args.feature_gates, None) {
        return Refused::Input(InputError(format!(
            "--feature-gates: {}; give the gates of your scheduler",
            wrong.join("; ")
        )))
        .report();
    }
    let working = Working::on("checking the installation");
    let gathered = facts::gather(args);
    drop(working);
    match gathered {
        Ok(facts) => {
            let report = DoctorReport::of(judge::checks(&facts, args));
            say(&in_form(args.output, &report, |wide| text(&report, wide)), report.code())
        }
        Err(error) => Refused::Live(error).report(),
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
        count(of.unknown, "check could not run", "checks could not run"),
    ];
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    let verdict = if counts.is_empty() { "no problems found".to_owned() } else { counts.join(", ") };
    screen.heading(&format!("supercargo {}: {verdict}", of.version));
    let mut rows = vec![["STATUS", "CHECK", "FINDING"].map(str::to_owned).to_vec()];
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
        screen.heading("Recommended actions");
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
