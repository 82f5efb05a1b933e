//! `supercargo lint`: finds workloads and pods that can never be scheduled or have settings without effect. It writes
//! nothing to the cluster.
//!
//! Reads a cluster from files or an API server and calls `supercargo_whatif::explain::lint`; `render` formats the
//! findings.

mod render;
mod subjects;

use crate::cluster::{Cluster, Refused, SourceArgs};
use crate::live::candidates;
use crate::progress::Working;
use crate::screen::{ListOutput, complain, in_list_form, say};
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use supercargo_config::yaml::nearest;
use supercargo_config::{DEFAULT_NAME, OWN_NAME};
use supercargo_core::cache::Snapshot;
use supercargo_whatif::explain::Place;
use supercargo_whatif::explain::lint::{Finding, LintReport, Rule, Severity, lint, lint_groups};
use supercargo_whatif::load::files::InputError;
use supercargo_whatif::prepare::owners::Owners;

/// Exit code when a finding reaches the severity of `--fail-on`.
const FOUND: u8 = 3;

/// Flags of `supercargo lint`: the objects to check, the cluster and the output format.
#[derive(Clone, Debug, Args)]
pub struct LintArgs {
    /// Files and directories with the objects to check, in YAML or JSON; `-` reads standard input. They are checked
    /// against the files of --cluster, against the cluster of the kubeconfig with --live, or on their own without
    /// either. Without files, the whole cluster is checked.
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// Check the files against the cluster of the kubeconfig.
    #[arg(long, requires = "files", conflicts_with = "cluster")]
    pub live: bool,

    /// Where to read the cluster from.
    #[command(flatten)]
    pub source: SourceArgs,

    /// Check only objects in this namespace; the default is all namespaces.
    #[arg(short = 'n', long, value_name = "NAMESPACE", add = ArgValueCompleter::new(candidates::namespaces))]
    pub namespace: Option<String>,

    /// Lowest severity that makes the exit code 3.
    #[arg(long, value_name = "SEVERITY", default_value = "error")]
    pub fail_on: FailOn,

    /// Rules to ignore, by their names in docs/lint.md; separate several with commas.
    #[arg(long, value_name = "RULE", value_delimiter = ',', value_parser = rule_names())]
    pub ignore: Vec<Rule>,

    /// Output format. `name` prints the objects with a finding.
    #[arg(short = 'o', long, value_name = "FORM", default_value = "table")]
    pub output: ListOutput,
}

/// The lowest severity that makes the exit code 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// A pod can never be scheduled.
    Error,
    /// A setting does not do what it says, or will cause a problem.
    Warning,
    /// A setting has no effect in this cluster.
    Info,
    /// Findings do not change the exit code.
    Never,
}

impl FailOn {
    fn is_reached(self, by: Severity) -> bool {
        match self {
            Self::Error => by == Severity::Error,
            Self::Warning => by <= Severity::Warning,
            Self::Info => true,
            Self::Never => false,
        }
    }
}

fn rule_names() -> impl clap::builder::TypedValueParser<Value = Rule> {
    let names = Rule::ALL.map(|rule| format!("{rule:?}"));
    PossibleValuesParser::new(names).map(|name| {
        let rule = Rule::ALL.into_iter().find(|rule| format!("{rule:?}") == name);
        rule.expect("clap accepts only rule names")
    })
}

/// Runs the command on the process's own streams.
pub fn main(args: &LintArgs) -> ExitCode {
    match answer(args) {
        Ok(answer) => {
            let text = |wide| render::text(&answer, wide);
            let text = in_list_form(args.output, &answer, text, || render::names(&answer));
            let is_reached = answer.findings.iter().any(|it| args.fail_on.is_reached(it.severity));
            say(&text, if is_reached { FOUND } else { 0 })
        }
        Err(refused) => refused.report(),
    }
}

/// Fails if the namespace does not exist, so that a typo does not pass as "no findings". Without permission to list
/// namespaces none are known, and any name is accepted.
fn is_there(namespace: &str, snapshot: Snapshot<'_>) -> Result<(), InputError> {
    let known: BTreeSet<&str> =
        snapshot.lookups().namespaces().map(|(name, _)| snapshot.text(name)).collect();
    if known.is_empty() || known.contains(namespace) {
        return Ok(());
    }
    let meant = nearest(namespace, known.iter().copied());
    let meant = meant.map_or_else(|| "; check -n".to_owned(), |meant| format!("; did you mean {meant}?"));
    Err(InputError(format!("namespace {namespace} not found{meant}")))
}

fn answer(args: &LintArgs) -> Result<LintReport, Refused> {
    let (mut cluster, judged) = if args.files.is_empty() {
        (Cluster::load_with_census(&args.source, &[], Owners::default())?, None)
    } else {
        let (cluster, judged) = Cluster::load_with_judged(&args.source, &args.files, args.live)?;
        (cluster, Some(judged))
    };
    cluster.notices.iter().for_each(|notice| complain(notice));
    let owners = cluster.owners.take().unwrap_or_default();
    cluster.trial.refreshed();
    let snapshot = cluster.trial.snapshot();
    if snapshot.nodes().is_empty() {
        complain("the cluster has no nodes: node requirements of pods are not checked");
    }
    let mut schedulers: BTreeSet<String> = cluster.trial.profile_names().map(str::to_owned).collect();
    schedulers.extend([DEFAULT_NAME, OWN_NAME].map(str::to_owned));
    let placed = owners.pods.iter().filter(|noted| noted.pod.node_name.is_some());
    schedulers.extend(placed.map(|noted| snapshot.text(noted.pod.scheduler_name).to_owned()));
    let schedulers: Vec<String> = schedulers.into_iter().collect();
    let _working = Working::on("checking workloads");
    let mut subjects = subjects::of(&owners, snapshot);
    let mut report = lint(snapshot, &cluster.pending, &subjects, &schedulers);
    let mut place = Place { trial: &mut cluster.trial, pending: &cluster.pending };
    let of_groups = lint_groups(&mut place, &subjects, &report.findings);
    report.findings.extend(of_groups);
    let snapshot = cluster.trial.snapshot();
    for ((kind, namespace, name), version) in std::mem::take(&mut cluster.outdated) {
        let message = format!(
            "{version} is deprecated since Kubernetes 1.34 and is not read here; use resource.k8s.io/v1, in which a request has \
             its fields in exactly"
        );
        let (rule, field) = (Rule::DeprecatedVersion, "apiVersion".to_owned());
        let severity = rule.severity();
        let did_you_mean = Some("resource.k8s.io/v1".to_owned());
        report.findings.push(Finding { severity, namespace, kind, name, rule, field, message, did_you_mean });
    }
    report.findings.sort();
    if let Some(judged) = judged {
        let is_judged = |kind: &str, namespace: &str, name: &str| {
            judged.contains(&(kind.to_owned(), namespace.to_owned(), name.to_owned()))
        };
        report.findings.retain(|it| is_judged(&it.kind, &it.namespace, &it.name));
        subjects.retain(|it| is_judged(&it.kind, &it.namespace, &it.name));
        report.judged = subjects.len();
    }
    if let Some(namespace) = &args.namespace {
        report.findings.retain(|finding| finding.namespace == *namespace);
        report.judged = subjects.iter().filter(|subject| subject.namespace == *namespace).count();
        if report.judged == 0 {
            is_there(namespace, snapshot)?;
        }
    }
    report.findings.retain(|finding| !args.ignore.contains(&finding.rule));
    Ok(report)
}
