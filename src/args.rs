//! Flags, spelled as kube-scheduler spells them. What a flag's value means to the program is decided in `run`.

use crate::cli::completion::CompletionArgs;
use crate::cli::config::ConfigArgs;
use crate::cli::doctor::DoctorArgs;
use crate::cli::drain_check::DrainCheckArgs;
use crate::cli::explain::ExplainArgs;
use crate::cli::fit::FitArgs;
use crate::cli::lint::LintArgs;
use crate::cli::man::ManArgs;
use crate::cli::placement::TestArgs;
use crate::cli::queue::QueueArgs;
use crate::cli::record::RecordArgs;
use crate::cli::replay::ReplayArgs;
use crate::cli::report::ReportArgs;
use crate::cli::shadow::ShadowArgs;
use crate::cli::simulate::SimulateArgs;
use crate::config::{Flags, GoDuration};
use clap::{ArgAction, ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The version, with the commit where it is known.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), env!("SUPERCARGO_BUILD"));

/// A Kubernetes scheduler that decides as kube-scheduler does.
///
/// Without --config it schedules the pods whose `spec.schedulerName` is `supercargo`. With it, the file's profiles say
/// which pods are its own.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "supercargo",
    version = VERSION,
    about,
    disable_help_subcommand = true,
    args_conflicts_with_subcommands = true
)]
pub struct Args {
    /// What to do instead of scheduling a cluster.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// File with a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1).
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Writes the configuration with its defaults to this file as YAML, and exits.
    #[arg(long, value_name = "FILE")]
    pub write_config_to: Option<PathBuf>,

    /// Kubeconfig with the API server and the identity to use. Without it: the file's clientConnection.kubeconfig, the
    /// ServiceAccount of the pod, or what kubectl would use.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Watch over the scheduler of this schedulerName instead of scheduling: decide for its pods as its bindings arrive, compare, and
    /// write nothing. Takes the profile of that name from --config.
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub shadow_of: Option<String>,

    /// URL of the API server; overrides the kubeconfig's.
    #[arg(long, value_name = "URL")]
    pub master: Option<String>,

    /// Address the HTTPS port listens on; 0.0.0.0 or :: means all addresses of both IP families.
    #[arg(long, value_name = "IP", default_value = "0.0.0.0")]
    pub bind_address: IpAddr,

    /// HTTPS port of health and metrics; 0 turns it off.
    #[arg(long, value_name = "PORT", default_value_t = 10259)]
    pub secure_port: u16,

    /// Serving certificate (PEM), read again when it changes. Without it one is made up, signed by itself.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub tls_cert_file: Option<PathBuf>,

    /// Key of the serving certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_private_key_file: Option<PathBuf>,

    /// Paths anyone may read.
    #[arg(long, value_name = "PATHS", value_delimiter = ',', default_value = "/healthz,/readyz,/livez")]
    pub authorization_always_allow_paths: Vec<String>,

    /// Compare every Nth cached decision with a full evaluation (1: all of them), instead of as many as 2 % of the scheduling thread's busy
    /// time pays for. Either way, each cached signature is compared within 5 minutes. Where they differ, the full evaluation counts, the
    /// signature is evicted and a metric says so; after three differences no cache is used until the next start. 0 compares nothing.
    #[arg(long, value_name = "N")]
    pub verify_decisions: Option<u32>,

    /// What decides which of several replicas schedules.
    #[command(flatten)]
    pub election: ElectionArgs,

    /// How long a pod may wait among the unschedulable before it is tried again without a reason.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
    pub pod_max_in_unschedulable_pods_duration: Duration,

    /// URL of a collector of OpenTelemetry's that takes OTLP over HTTP, such as http://collector:4318: spans of each attempt are sent
    /// there, below /v1/traces. Only in a program built with the feature otlp, and not in shadow mode, which makes no attempts.
    #[arg(long, value_name = "URL", conflicts_with = "shadow_of")]
    pub otlp_endpoint: Option<String>,

    /// What is kept of decisions.
    #[command(flatten)]
    pub keeping: KeepingArgs,

    /// Feature gates of kube-scheduler, as `NAME=true,NAME=false`: those at their defaults, and those that change nothing
    /// here, are taken.
    #[arg(long, value_name = "GATES")]
    pub feature_gates: Vec<String>,

    /// Format of the log.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub logging_format: LoggingFormat,

    /// How much is logged: 0 milestones and warnings, 2 each decision as well, 3 its steps, 6 everything.
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 2)]
    pub verbosity: u8,

    /// Every flag's value by its name, for `/flagz`.
    #[arg(skip)]
    pub values: BTreeMap<String, String>,
}

impl Args {
    /// The command line, called as it was: linked as `kubectl-supercargo` it is kubectl's plugin, and says so in its help.
    pub fn command_as(program: Option<&OsString>) -> clap::Command {
        let file = program.map(Path::new).and_then(Path::file_name).and_then(std::ffi::OsStr::to_str);
        match file.and_then(|file| file.strip_prefix("kubectl-")) {
            Some(plugin) => Self::command().bin_name(format!("kubectl {plugin}")),
            None => Self::command(),
        }
    }

    /// Reads a command line; ends the program where it is wrong, or asks for help.
    pub fn read(line: impl IntoIterator<Item = OsString>) -> Self {
        let line: Vec<OsString> = line.into_iter().collect();
        let matches = Self::command_as(line.first()).try_get_matches_from(line);
        let matches = matches.unwrap_or_else(|answer| end_with(&answer));
        let mut args = Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        args.values = values(&matches);
        args
    }
}

/// Prints help, the version or what is wrong with a command line, and ends; 1 if it cannot be written.
fn end_with(answer: &clap::Error) -> ! {
    let code = answer.print().map_or(1, |()| answer.exit_code());
    std::process::exit(code)
}

/// The values of all flags, given or by default, as far as they are text; a flag that is neither is empty.
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

/// The flags of what is kept of a scheduler at work. Keeping it never holds up a decision.
#[derive(Clone, Debug, clap::Args)]
pub struct KeepingArgs {
    /// Decisions that /debug/decisions shows, the last ones; 0 to keep none.
    #[arg(long, value_name = "N", default_value_t = 1_000, conflicts_with = "shadow_of")]
    pub decision_records: usize,

    /// Bytes that these decisions may take.
    #[arg(long, value_name = "BYTES", default_value_t = 4 << 20, conflicts_with = "shadow_of")]
    pub decision_records_bytes: usize,

    /// File to which each decision is appended as a line of JSON.
    #[arg(long, value_name = "FILE", conflicts_with = "shadow_of")]
    pub decision_log: Option<PathBuf>,

    /// Bytes after which that file becomes FILE.1, in place of an older one, and begins anew.
    #[arg(long, value_name = "BYTES", default_value_t = 100 << 20, requires = "decision_log")]
    pub decision_log_max_bytes: u64,

    /// File to which all is written that decisions are made from, for `supercargo replay`. One that is there already becomes FILE.1.
    #[arg(long, value_name = "FILE", conflicts_with = "shadow_of")]
    pub record_to: Option<PathBuf>,

    /// Bytes after which the recording ends, and says so.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30, requires = "record_to")]
    pub record_max_bytes: u64,
}

/// The flags of leader election; each overrides the field of leaderElection that it is named after.
#[derive(Clone, Debug, clap::Args)]
pub struct ElectionArgs {
    /// Schedule only while holding a Lease, so that several replicas may run. True unless the file says otherwise.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", action = ArgAction::Set)]
    pub leader_elect: Option<bool>,

    /// How long others wait for a renewal before they take the lease; 15s unless the file says otherwise.
    #[arg(long, value_name = "DURATION", value_parser = GoDuration::parse)]
    pub leader_elect_lease_duration: Option<GoDuration>,

    /// How long the leader tries to renew the lease before it gives up; 10s unless the file says otherwise.
    #[arg(long, value_name = "DURATION", value_parser = GoDuration::parse)]
    pub leader_elect_renew_deadline: Option<GoDuration>,

    /// The time between two tries; 2s unless the file says otherwise.
    #[arg(long, value_name = "DURATION", value_parser = GoDuration::parse)]
    pub leader_elect_retry_period: Option<GoDuration>,

    /// The kind of the lock: there is `leases` and no other.
    #[arg(long, value_name = "KIND")]
    pub leader_elect_resource_lock: Option<String>,

    /// The name of the Lease. Without --config it is supercargo, with it what the file says, kube-scheduler by default.
    #[arg(long, value_name = "NAME")]
    pub leader_elect_resource_name: Option<String>,

    /// The namespace of the Lease; kube-system unless the file says otherwise.
    #[arg(long, value_name = "NAMESPACE")]
    pub leader_elect_resource_namespace: Option<String>,

    /// Allow a profile named default-scheduler under another lease than kube-scheduler's. Where kube-scheduler runs as well, both
    /// would schedule the same pods.
    #[arg(long)]
    pub allow_second_default_scheduler: bool,
}

impl ElectionArgs {
    /// The flags, for whoever reads the configuration.
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
        }
    }
}

/// What the program does beside scheduling a cluster.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Decide where pods would go, from files, or in the cluster of the kubeconfig (`--live`). Nothing is changed.
    ///
    /// The decisions are those the scheduler itself would make, one pod after the other, each winner counting for the next.
    ///
    /// Exit code: 0 every pod was placed, 3 at least one was not, 2 the flags or the files are wrong, 1 anything else.
    Simulate(SimulateArgs),

    /// Ask a running shadow (--shadow-of) how far the two schedulers agree.
    Shadow(ShadowArgs),

    /// Tell why a pod is where it is, or nowhere: every check on every node, and what would help, tried out.
    ///
    /// Asks the cluster of the kubeconfig, or files (`--cluster`). Changes nothing.
    ///
    /// Exit code: 0 the pod has a node, has ended, or fits now; 3 something is in its way; 2 the flags or files are wrong, or there
    /// is no such pod; 1 anything else, for example a cluster that does not answer.
    Explain(ExplainArgs),

    /// Tell how many more pods like the one of a file there is room for, and what keeps one more out.
    ///
    /// Asks the cluster of the kubeconfig, or files (`--cluster`). Changes nothing.
    ///
    /// Exit code: 0 at least one fits, 3 none does, 2 the flags or files are wrong, 1 anything else.
    Fit(FitArgs),

    /// Tell which pods of a node would have no place if it were drained.
    ///
    /// Asks the cluster of the kubeconfig, or files (`--cluster`). Changes nothing.
    ///
    /// Exit code: 0 all have a place, 3 at least one has none, 2 the flags or files are wrong, or there is no such node, 1 anything
    /// else.
    DrainCheck(DrainCheckArgs),

    /// Write down what a scheduler of the kubeconfig's cluster is told, as it comes, to be replayed by any configuration.
    ///
    /// Watches what a scheduler watches, and writes nothing but the file.
    ///
    /// Exit code: 0 recorded as long as was wanted, 2 the flags or files are wrong, 1 anything else, for example a cluster that does
    /// not answer, or a file that is full.
    Record(RecordArgs),

    /// Decide again what a scheduler decided that was recorded (--record-to), or see what another configuration would have decided.
    ///
    /// Asks no API server and changes nothing.
    ///
    /// Exit code: 0 all is decided as it is recorded, and by the other configuration as well; 3 something is decided otherwise; 2 the
    /// flags or files are wrong; 1 anything else.
    Replay(ReplayArgs),

    /// Tell what in workloads and pods can never be scheduled, or does not do what it says: misspelt selectors, more replicas than can
    /// stay apart, requests larger than any node.
    ///
    /// Asks the cluster of the kubeconfig, or files (`--cluster`). Changes nothing, and decides about no pod.
    ///
    /// Exit code: 0 nothing as grave as --fail-on was found, 3 something was, 2 the flags or files are wrong, 1 anything else.
    Lint(LintArgs),

    /// Run tests of where pods go: a file names a cluster, pods, changes, and what is expected. For pipelines.
    ///
    /// From files alone: no API server is asked and nothing is changed.
    ///
    /// Exit code: 0 all tests passed, 3 at least one failed, 2 a file is wrong, 1 anything else.
    Test(TestArgs),

    /// Show a cluster on one HTML page: nodes, pods, spreading, what waits and why, scores of decisions; before and after where pods are
    /// placed (`--pods`) or the cluster is changed.
    ///
    /// Asks the cluster of the kubeconfig, or files (`--cluster`). Changes nothing. The page needs no other file and no network.
    ///
    /// Exit code: 0 the report is written, 2 the flags or files are wrong, 1 anything else, for example a cluster that does not answer.
    Report(ReportArgs),

    /// Tell where each pending pod waits, for what, since when, and when it is tried next.
    ///
    /// Asks the running scheduler: its leader, through the API server's proxy, or the port at a URL (--server). Who may not read the pods of a
    /// namespace is told nothing of them.
    ///
    /// Exit code: 0 told, 2 the flags or the file are wrong, 1 anything else, for example a scheduler that does not answer.
    Queue(QueueArgs),

    /// Tell whether an installation has what it needs: rights, leader, versions, other schedulers, drift of the cache.
    ///
    /// Asks the API server of the kubeconfig, and the leader through it. Has access reviews made, and changes nothing.
    ///
    /// Exit code: 0 no problem was found, 3 at least one was, 4 none was found but some checks could not be made, 2 the flags are wrong, 1
    /// anything else, for example a cluster that does not answer.
    Doctor(DoctorArgs),

    /// Judge and compare configuration files, as the scheduler would take them. No API server is asked.
    Config(ConfigArgs),

    /// Print what a shell needs to complete command lines of this program.
    Completion(CompletionArgs),

    /// Write manual pages of this program and its commands.
    Man(ManArgs),
}

/// The formats of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LoggingFormat {
    /// One line of text an entry.
    Text,
    /// One JSON object an entry.
    Json,
}

/// A duration as Go writes it: `300ms`, `1.5h`, `2m30s`.
///
/// # Errors
/// With the text that is no duration.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no duration; write for example 30s, 5m or 1h30m");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(digits);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            _ => return Err(wrong()),
        };
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let part = Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())?;
        total = total.checked_add(part).ok_or_else(wrong)?;
        rest = tail;
    }
    if text.is_empty() { Err(wrong()) } else { Ok(total) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn durations_are_read_as_go_writes_them() {
        assert_eq!(parse_duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(parse_duration("1h30m"), Ok(Duration::from_secs(5_400)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1_500)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        for wrong in ["", "5", "m", "5 m", "-1s", "1d", "1e99h"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_flags_of_leader_election_are_upstreams() {
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
        };
        assert_eq!(args.election.flags(), expected);
        let none = Args::try_parse_from(["supercargo"]).expect("no flag is needed");
        assert_eq!(none.election.flags(), Flags::default());
        let wrong = ["supercargo", "--leader-elect-retry-period=soon"];
        let error = Args::try_parse_from(wrong).expect_err("that is no duration").to_string();
        assert!(error.contains("--leader-elect-retry-period") && error.contains("soon"), "{error}");
    }

    #[test]
    fn the_values_of_flags_are_shown_as_they_are_given_or_by_default() {
        let line =
            ["supercargo", "--secure-port=0", "--feature-gates=A=true", "--feature-gates", "B=false", "-v4"];
        let args = Args::read(line.map(OsString::from));
        let value = |flag: &str| args.values.get(flag).map(String::as_str);
        assert_eq!(value("secure-port"), Some("0"));
        assert_eq!(value("feature-gates"), Some("A=true,B=false"));
        assert_eq!(value("v"), Some("4"));
        assert_eq!(value("pod-max-in-unschedulable-pods-duration"), Some("5m"));
        assert_eq!(value("allow-second-default-scheduler"), Some("false"));
        assert_eq!(value("config"), Some(""));
        assert_eq!(value("help"), None);
    }

    #[test]
    fn linked_as_a_plugin_of_kubectl_its_help_says_so() {
        for (program, usage) in [
            ("/usr/bin/supercargo", "Usage: supercargo queue"),
            ("/opt/bin/kubectl-supercargo", "Usage: kubectl supercargo queue"),
            ("kubectl-sc", "Usage: kubectl sc queue"),
        ] {
            let command = Args::command_as(Some(&program.into()));
            let told = command
                .try_get_matches_from([program, "queue", "--help"])
                .expect_err("it is help")
                .to_string();
            assert!(told.contains(usage), "{program}: {told}");
        }
    }

    #[test]
    fn an_unknown_flag_is_named() {
        let error = Args::try_parse_from(["supercargo", "--foo"]).expect_err("there is no such flag");
        assert!(error.to_string().contains("--foo"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
}
