//! The command line: the scheduler's flags, named as kube-scheduler names them, and the commands. `run`
//! interprets the values.

use crate::record::RecordArgs;
use crate::telemetry::log::LoggingFormat;
use crate::whatif_serve::WhatifArgs;
use clap::{ArgAction, ArgMatches, CommandFactory as _, Parser, Subcommand};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;
use supercargo_cli::commands::cel::CelArgs;
use supercargo_cli::commands::completion::CompletionArgs;
use supercargo_cli::commands::config::ConfigArgs;
use supercargo_cli::commands::doctor::DoctorArgs;
use supercargo_cli::commands::drain_check::DrainCheckArgs;
use supercargo_cli::commands::explain::{ExplainArgs, WhyArgs};
use supercargo_cli::commands::fit::FitArgs;
use supercargo_cli::commands::lint::LintArgs;
use supercargo_cli::commands::man::ManArgs;
use supercargo_cli::commands::placement::TestArgs;
use supercargo_cli::commands::plan::PlanArgs;
use supercargo_cli::commands::queue::QueueArgs;
use supercargo_cli::commands::replay::ReplayArgs;
use supercargo_cli::commands::report::ReportArgs;
use supercargo_cli::commands::shadow::ShadowArgs;
use supercargo_cli::commands::simulate::SimulateArgs;
use supercargo_cli::commands::top::TopArgs;
use supercargo_config::flags::{Values, gates, parse_emulated_version};
use supercargo_config::{DeprecatedFlags, Flags, GoDuration, parse_duration};
use supercargo_core::model::emulation::{Compat, EmulatedVersion};

mod line;

pub use line::{DeclaredFlags, Program, Refusal, git_version};

/// Version of the program, followed by the commit if the build knows it.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), env!("SUPERCARGO_BUILD"));

/// A Kubernetes scheduler that makes the same decisions as kube-scheduler.
///
/// Without --config it schedules pods whose `spec.schedulerName` is `supercargo`. With --config, the profiles
/// in the file decide which pods it schedules.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "supercargo",
    version = VERSION,
    about,
    disable_help_subcommand = true,
    args_conflicts_with_subcommands = true
)]
pub struct Args {
    /// Command to run instead of the scheduler.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Path of the configuration file: a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1).
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Write the configuration, with defaults filled in, to this file as YAML and exit.
    #[arg(long, value_name = "FILE")]
    pub write_config_to: Option<PathBuf>,

    /// Kubeconfig with the API server's address and credentials. Defaults to clientConnection.kubeconfig of
    /// the configuration file, then the pod's ServiceAccount, then kubectl's kubeconfig.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Run in shadow mode: compare decisions with those of the scheduler that serves this schedulerName, and
    /// write nothing. Pods are evaluated as that scheduler's bindings arrive, with the profile of the same
    /// name from --config.
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub shadow_of: Option<String>,

    /// URL of the API server; overrides the kubeconfig.
    #[arg(long, value_name = "URL")]
    pub master: Option<String>,

    /// IP address the HTTPS port listens on. 0.0.0.0 or :: listens on all addresses of both IP families.
    #[arg(long, value_name = "IP", default_value = "0.0.0.0")]
    pub bind_address: IpAddr,

    /// Port that serves health checks and metrics over HTTPS; 0 disables it.
    #[arg(long, value_name = "PORT", default_value_t = 10259)]
    pub secure_port: u16,

    /// File with the serving certificate (PEM); reloaded when it changes. Without it, a self-signed
    /// certificate is generated.
    #[arg(long, value_name = "FILE")]
    pub tls_cert_file: Option<PathBuf>,

    /// File with the private key of the serving certificate (PEM).
    #[arg(long, value_name = "FILE")]
    pub tls_private_key_file: Option<PathBuf>,

    /// Paths that are served without authentication and authorization.
    #[arg(long, value_name = "PATHS", value_delimiter = ',', default_value = "/healthz,/readyz,/livez")]
    pub authorization_always_allow_paths: Vec<String>,

    /// Re-evaluate every Nth cached decision in full and compare; 1 compares all, 0 none. By default,
    /// comparisons take up to 2 % of the scheduling thread's busy time. Unless N is 0, each cached signature
    /// is compared at least every 5 minutes. On a difference, the full evaluation is used, the signature is
    /// evicted from the cache and a metric counts it. After three differences caching stays off until the
    /// next start.
    #[arg(long, value_name = "N")]
    pub verify_decisions: Option<u32>,

    /// Leader election.
    #[command(flatten)]
    pub election: ElectionArgs,

    /// Maximum time a pod stays in unschedulablePods before it is retried without an event.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
    pub pod_max_in_unschedulable_pods_duration: Duration,

    /// URL of an OpenTelemetry collector that accepts OTLP over HTTP, such as http://collector:4318. Spans of
    /// each scheduling attempt are sent to its path /v1/traces. Requires a build with the feature otlp; not
    /// available in shadow mode.
    #[arg(long, value_name = "URL", conflicts_with = "shadow_of")]
    pub otlp_endpoint: Option<String>,

    /// Decision records and recordings.
    #[command(flatten)]
    pub keeping: RecordingArgs,

    /// Feature gates of kube-scheduler, as `NAME=true,NAME=false`. Accepted are gates at their default and
    /// gates that have no effect here.
    #[arg(long, value_name = "GATES")]
    pub feature_gates: Vec<String>,

    /// Version of kube-scheduler to behave as, 1.34 to 1.37, as `[kube=]MAJOR.MINOR`. It means the real program of
    /// that version with default feature gates. Defaults to the API server's version, or else the closest one.
    #[arg(long, value_name = "VERSION", value_parser = parse_emulated_version)]
    pub emulated_version: Option<EmulatedVersion>,

    /// What to do where kube-scheduler loses a pod with devices, or breaks a claim's own constraints: `repaired`
    /// decides correctly, `upstream` reproduces the defect. FIDELITY.md lists them.
    #[arg(long, value_name = "BEHAVIOR", default_value = "repaired")]
    pub compat: Compat,

    /// Log format.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub logging_format: LoggingFormat,

    /// Log verbosity: 0 milestones and warnings, 2 also each decision, 3 also the steps of a decision, 6
    /// everything.
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 2)]
    pub verbosity: u8,

    /// Further flags of kube-scheduler, whose values are in `upstream`.
    #[command(flatten)]
    pub declared: DeclaredFlags,

    /// Values of kube-scheduler's flags.
    #[arg(skip)]
    pub upstream: Values,

    /// Name by which the program was called.
    #[arg(skip)]
    pub program: Program,

    /// Version to report instead of the emulated one, from `--version=vX.Y.Z`.
    #[arg(skip)]
    pub reported_version: Option<String>,

    /// Value of each flag by name, for `/flagz`.
    #[arg(skip)]
    pub values: BTreeMap<String, String>,
}

impl Args {
    /// Returns whether `--kubeconfig` applies: beside `--config`, kube-scheduler ignores it.
    pub fn prefers_kubeconfig(&self) -> bool {
        self.config.is_none() || self.program == Program::Supercargo
    }

    /// Returns the flags that the configuration loader takes.
    pub fn flags(&self) -> Flags {
        let values = &self.upstream;
        let given = |name: &str| values.is_given(name).then(|| values.text(name));
        let path = |path: &PathBuf| path.to_string_lossy().into_owned();
        Flags {
            emulated_version: self.emulated_version.unwrap_or(EmulatedVersion::NEWEST),
            groups: gates::groups(values.gates()),
            as_kube_scheduler: self.program == Program::KubeScheduler,
            // In kube-scheduler's place, its command lines mean what they meant.
            allow_second_default_scheduler: self.election.allow_second_default_scheduler
                || self.program == Program::KubeScheduler,
            deprecated: DeprecatedFlags {
                kubeconfig: self.kubeconfig.as_ref().map(path),
                content_type: given("kube-api-content-type").map(str::to_owned),
                qps: given("kube-api-qps").and_then(|qps| qps.parse().ok()),
                burst: given("kube-api-burst").and_then(|burst| burst.parse().ok()),
                profiling: given("profiling").map(|on| on == "true"),
                contention_profiling: given("contention-profiling").map(|on| on == "true"),
            },
            ..self.election.flags()
        }
    }
}

/// Returns all flags with their given or default values. A flag with neither has an empty value.
fn values(matches: &ArgMatches) -> BTreeMap<String, String> {
    let command = Args::command();
    let flags = command.get_arguments().filter_map(|flag| Some((flag.get_long()?, flag.get_id())));
    let values = flags.map(|(name, id)| {
        let given = matches.try_get_raw(id.as_str()).ok().flatten();
        let given =
            given.map(|raw| raw.map(|value| value.to_string_lossy().into_owned()).collect::<Vec<_>>());
        (name.to_owned(), given.map(|values| values.join(",")).unwrap_or_default())
    });
    values.filter(|(name, _)| !matches!(name.as_str(), "help" | "version")).collect()
}

/// Flags for decision records, the decision log and the recording. None of them delays a decision.
#[derive(Clone, Debug, clap::Args)]
pub struct RecordingArgs {
    /// Number of most recent decisions that /debug/decisions shows; 0 keeps none.
    #[arg(long, value_name = "N", default_value_t = 1_000, conflicts_with = "shadow_of")]
    pub decision_records: usize,

    /// Maximum size of these decisions in memory, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 4 << 20, conflicts_with = "shadow_of")]
    pub decision_records_bytes: usize,

    /// File to append each decision to, as one line of JSON. Deprecated: use --record-to, whose `decided` lines
    /// hold the same JSON.
    #[arg(long, value_name = "FILE", conflicts_with = "shadow_of")]
    pub decision_log: Option<PathBuf>,

    /// Size in bytes at which the decision log is rotated to FILE.1, replacing an older one.
    #[arg(long, value_name = "BYTES", default_value_t = 100 << 20, requires = "decision_log")]
    pub decision_log_max_bytes: u64,

    /// File to record all inputs of decisions to, for `supercargo replay`. An existing file is renamed to
    /// FILE.1.
    #[arg(long, value_name = "FILE", conflicts_with = "shadow_of")]
    pub record_to: Option<PathBuf>,

    /// Size in bytes at which recording stops, with a warning.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30, requires = "record_to")]
    pub record_max_bytes: u64,
}

/// Leader election flags. Each overrides the field of leaderElection with the same name.
#[derive(Clone, Debug, clap::Args)]
pub struct ElectionArgs {
    /// Schedule only while holding the Lease; required to run several replicas. Defaults to the configuration
    /// file, then true.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", action = ArgAction::Set)]
    pub leader_elect: Option<bool>,

    /// Time after the last renewal at which another replica may take the Lease. Defaults to the configuration
    /// file, then 15s.
    #[arg(long, value_name = "DURATION", value_parser = GoDuration::parse)]
    pub leader_elect_lease_duration: Option<GoDuration>,

    /// Time the leader keeps trying to renew the Lease before it gives up leadership. Defaults to the
    /// configuration file, then 10s.
    #[arg(long, value_name = "DURATION", value_parser = GoDuration::parse)]
    pub leader_elect_renew_deadline: Option<GoDuration>,

    /// Interval between attempts to acquire or renew the Lease. Defaults to the configuration file, then 2s.
    #[arg(long, value_name = "DURATION", value_parser = GoDuration::parse)]
    pub leader_elect_retry_period: Option<GoDuration>,

    /// Resource used for the lock; only `leases` is supported.
    #[arg(long, value_name = "KIND")]
    pub leader_elect_resource_lock: Option<String>,

    /// Name of the Lease. Without --config the default is supercargo; with --config it is the file's value,
    /// kube-scheduler if unset.
    #[arg(long, value_name = "NAME")]
    pub leader_elect_resource_name: Option<String>,

    /// Namespace of the Lease. Defaults to the configuration file, then kube-system.
    #[arg(long, value_name = "NAMESPACE")]
    pub leader_elect_resource_namespace: Option<String>,

    /// Allow a profile named default-scheduler with a Lease other than kube-scheduler's. If kube-scheduler
    /// runs too, both schedule the same pods.
    #[arg(long)]
    pub allow_second_default_scheduler: bool,
}

impl ElectionArgs {
    /// Returns the flags in the form the configuration loader takes.
    pub fn flags(&self) -> Flags {
        Flags {
            leader_elect: self.leader_elect,
            lease_duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry_period: self.leader_elect_retry_period,
            resource_lock: self.leader_elect_resource_lock.clone(),
            resource_name: self.leader_elect_resource_name.clone(),
            resource_namespace: self.leader_elect_resource_namespace.clone(),
            allow_second_default_scheduler: self.allow_second_default_scheduler,
            ..Flags::default()
        }
    }
}

/// Commands other than running the scheduler.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Simulate where pods would be placed, in a cluster from files or from the kubeconfig (`--live`).
    ///
    /// Makes the decisions the scheduler would make, one pod after another; each placed pod counts for the
    /// next. Changes nothing.
    ///
    /// Exit code: 0 every pod was placed, 3 at least one was not, 2 invalid flags or files, 1 any other
    /// failure.
    Simulate(SimulateArgs),

    /// Report how far a scheduler and its shadow (--shadow-of) agree.
    Shadow(ShadowArgs),

    /// Explain why a pod is on its node or pending, or why a pod group waits, and which changes would help.
    ///
    /// Of a workload, such as `deploy/web`, a pending pod is explained if there is one, or else the first one. Reads
    /// the cluster of the kubeconfig, or files (`--cluster`). Each suggested change is verified by a hypothetical
    /// decision. Changes nothing.
    ///
    /// Exit code: 0 the pod has a node, has ended or would fit now, or the group starts; 3 it is unschedulable; 2
    /// invalid flags or files, or no such pod, group or workload; 1 any other failure, such as an API server that does
    /// not answer, or --watch was ended.
    Explain(ExplainArgs),

    /// Explain why a pod is pending or on its node: the short form of `explain pod POD`.
    ///
    /// Takes the name of a pod, or what `explain` takes as `KIND/NAME`, with the same flags. Changes nothing.
    ///
    /// Exit code: 0 the pod has a node, has ended or would fit now, or the group starts; 3 it is unschedulable; 2
    /// invalid flags or files, or no such pod, group or workload; 1 any other failure, such as an API server that does
    /// not answer, or --watch was ended.
    Why(WhyArgs),

    /// Report how many more pods like a given one fit, and what limits the number.
    ///
    /// Reads the cluster of the kubeconfig, or files (`--cluster`). Changes nothing.
    ///
    /// Exit code: 0 at least one fits, with --preempt by preemption too, 3 none fits, 2 invalid flags or files, 1 any
    /// other failure.
    Fit(FitArgs),

    /// Report which pods of a node could not be placed elsewhere if the node were drained.
    ///
    /// Reads the cluster of the kubeconfig, or files (`--cluster`). Changes nothing.
    ///
    /// Exit code: 0 all pods can be placed elsewhere and evicted, 3 at least one cannot be placed, 4 all can be placed
    /// but not all can be evicted, or the disruption budgets could not be read, 2 invalid flags or files, or no such
    /// node, 1 any other failure.
    DrainCheck(DrainCheckArgs),

    /// Plan which pods to move: to empty nodes, to make room for pods, or to even out the load.
    Plan(PlanArgs),

    /// Ask about hypothetical clusters: `whatif serve` answers other programs.
    Whatif(WhatifArgs),

    /// Record the objects and changes a scheduler would see in the kubeconfig's cluster, for `supercargo
    /// replay`.
    ///
    /// Watches the resources a scheduler watches. Writes only the recording.
    ///
    /// Exit code: 0 recorded as long as requested, 2 invalid flags or files, 1 any other failure, such as an
    /// API server that does not answer or a recording that reached its size limit.
    Record(RecordArgs),

    /// Replay a recording (--record-to) and compare the decisions, or compare them with another
    /// configuration.
    ///
    /// Contacts no API server and changes nothing.
    ///
    /// Exit code: 0 all decisions equal the recorded ones, and those of the other configuration; 3 at least
    /// one differs; 2 invalid flags or files; 1 any other failure.
    Replay(ReplayArgs),

    /// Find workloads and pods that can never be scheduled or whose rules have no effect.
    ///
    /// Finds, for example, misspelt selectors, more replicas than can be kept apart, and requests larger than
    /// any node. Reads the cluster of the kubeconfig, or files (`--cluster`). Changes nothing and schedules
    /// no pod.
    ///
    /// Exit code: 0 no finding as severe as --fail-on, 3 at least one, 2 invalid flags or files, 1 any other
    /// failure.
    Lint(LintArgs),

    /// Evaluate a device selector (CEL) for the devices of ResourceSlices, and show results, type and costs.
    ///
    /// Without --slice, only compiles the expression and estimates its cost. Reads only files, contacts no API
    /// server and changes nothing.
    ///
    /// Exit code: 0 the expression selects at least one device, or compiles if there is no --slice; 3 it selects
    /// none, or the API server would refuse it for its cost or length; 2 invalid expression, flags or files; 1 any
    /// other failure.
    Cel(CelArgs),

    /// Run placement tests: files with a cluster, pods, changes and the expected placements.
    ///
    /// Made for pipelines: reads only files, contacts no API server and changes nothing.
    ///
    /// Exit code: 0 all tests passed, 3 at least one failed, 2 invalid flags or files, 1 any other failure.
    Test(TestArgs),

    /// Write an HTML report of a cluster: nodes, pods, topology spread, pending pods with reasons, and
    /// scores.
    ///
    /// Shows the cluster before and after pods are placed (`--pods`) or the cluster is changed. Reads the
    /// cluster of the kubeconfig, or files (`--cluster`). Changes nothing. The page is a single file and
    /// needs no network.
    ///
    /// Exit code: 0 the report is written, 2 invalid flags or files, 1 any other failure, such as an API
    /// server that does not answer.
    Report(ReportArgs),

    /// List pending pods: where each is in the scheduler, why, since when, and when it is retried.
    ///
    /// With POD, shows that pod with the reasons that the scheduler has. Asks the leader through the API server's
    /// proxy, or a scheduler at a URL (--server). Shows only namespaces in which the user may read pods.
    ///
    /// Exit code: 0 the list is printed, 2 invalid flags or file, or no such pending pod, 1 any other failure, such as
    /// a scheduler that does not answer, or --watch was ended.
    Queue(QueueArgs),

    /// Watch a scheduler on a terminal: queues, rates, latencies, and pending pods by reason.
    ///
    /// Asks the leader through the API server's proxy, or a scheduler at a URL (--server). Enter explains the selected
    /// pod, as `explain` does with the cluster of the kubeconfig. Changes nothing.
    ///
    /// Exit code: 0 ended with q or Ctrl-C, 2 invalid flags, or standard input or output is no terminal, 1 ended by a
    /// signal or a failure of the terminal.
    Top(TopArgs),

    /// Check an installation: permissions, leader election, versions, other schedulers, cache drift.
    ///
    /// Asks the API server of the kubeconfig, and the leader through it. Creates access reviews and changes
    /// nothing.
    ///
    /// Exit code: 0 no problem found, 3 at least one problem, 4 no problem but some checks could not be made,
    /// 2 invalid flags, 1 any other failure, such as an API server that does not answer.
    Doctor(DoctorArgs),

    /// Validate and compare configuration files, as the scheduler reads them. Contacts no API server.
    Config(ConfigArgs),

    /// Print a completion script for a shell, or the program that completes `kubectl supercargo`.
    ///
    /// Completes commands and flags, and names of pods, nodes, namespaces and workloads from the cluster of the
    /// kubeconfig.
    ///
    /// Exit code: 0 the script is printed, 2 invalid flags, 1 any other failure.
    Completion(CompletionArgs),

    /// Write manual pages of the program and its commands.
    Man(ManArgs),
}

#[cfg(test)]
mod generated;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_definition_is_valid() {
        Args::command().debug_assert();
    }

    #[test]
    fn leader_election_flags_match_upstream() {
        let flags = [
            "--leader-elect",
            "--leader-elect-lease-duration=30s",
            "--leader-elect-renew-deadline=1m30s",
            "--leader-elect-retry-period=500ms",
            "--leader-elect-resource-lock=leases",
            "--leader-elect-resource-name=mine",
            "--leader-elect-resource-namespace=there",
        ];
        let args = Args::try_parse_from(["supercargo"].iter().chain(&flags)).expect("they are flags");
        let expected = Flags {
            leader_elect: Some(true),
            lease_duration: Some(GoDuration::seconds(30)),
            renew_deadline: Some(GoDuration::seconds(90)),
            retry_period: Some(GoDuration(500_000_000)),
            resource_lock: Some("leases".to_owned()),
            resource_name: Some("mine".to_owned()),
            resource_namespace: Some("there".to_owned()),
            allow_second_default_scheduler: false,
            ..Flags::default()
        };
        assert_eq!(args.election.flags(), expected);
        let none = Args::try_parse_from(["supercargo"]).expect("no flag is needed");
        assert_eq!(none.election.flags(), Flags::default());
        let wrong = ["supercargo", "--leader-elect-retry-period=soon"];
        let error = Args::try_parse_from(wrong).expect_err("that is no duration").to_string();
        assert!(error.contains("--leader-elect-retry-period") && error.contains("soon"), "{error}");
    }
}
