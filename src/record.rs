//! `supercargo record`: records the objects and changes a scheduler of this cluster sees, for `supercargo
//! replay`.
//! Watches the cluster and writes the recording; changes nothing in the cluster and makes no decisions.

use crate::engine::recording::{Journal, Sink, SinkOptions, WhenFull};
use crate::engine::shadow::Nowhere;
use crate::engine::{Accounts, Clock, Item, Mailbox};
use crate::extenders::Extenders;
use crate::signals::StopSignals;
use crate::telemetry::metrics::{Metrics, Record};
use clap::Args;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use supercargo_apiserver::watch::{Readiness, Watches, Watching};
use supercargo_cli::cluster::Refused;
use supercargo_cli::emulation::EmulationArgs;
use supercargo_cli::live::{self, GRANT, LiveArgs, LiveError};
use supercargo_cli::screen::complain;
use supercargo_config::parse_duration;
use supercargo_config::{ConfigError, Effective, Flags, Settings};
use supercargo_core::model::rng::Seed;
use supercargo_core::queue::QueueConfig;
use supercargo_core::scheduler::{Config, Scheduler};
use supercargo_whatif::load::files::InputError;
use supercargo_whatif::recording::header::Header;
use supercargo_whatif::recording::header::Mode;
use tokio::time::Instant;

/// Longest wait for the first lists. 50,000 pods are listed within seconds.
const LISTED_WITHIN: Duration = Duration::from_secs(120);
/// Interval of the checks whether the lists are complete and whether the file is full.
const LOOK: Duration = Duration::from_millis(200);

/// Arguments of `supercargo record`.
#[derive(Clone, Debug, Args)]
pub struct RecordArgs {
    /// File to write. An existing file is renamed to FILE.1.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// `schedulerName` of the scheduler whose bindings a replay compares.
    #[arg(long, value_name = "NAME", default_value = "default-scheduler", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub of: String,

    /// Duration of the recording, for example 8h. By default it runs until interrupted (^C).
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub how_long: Option<Duration>,

    /// File with the KubeSchedulerConfiguration that a replay uses by default. Without it, the default
    /// plugins are used.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Version of kube-scheduler that a replay behaves as.
    #[command(flatten)]
    pub emulation: EmulationArgs,

    /// Size in bytes at which recording stops, with a warning.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30)]
    pub max_bytes: u64,

    /// Connection to the cluster.
    #[command(flatten)]
    pub live: LiveArgs,
}

/// Runs the command and returns the exit code.
pub fn main(args: &RecordArgs) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return failed(format!("cannot start the async runtime: {error}")).report(),
    };
    let outcome = runtime.block_on(record(args));
    // Do not wait for a blocked DNS lookup.
    runtime.shutdown_background();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(refused) => refused.report(),
    }
}

fn failed(text: String) -> Refused {
    Refused::Live(LiveError::Cluster(text))
}

async fn record(args: &RecordArgs) -> Result<(), Refused> {
    let wrong = |error: &dyn std::fmt::Display| Refused::Input(InputError(error.to_string()));
    let load = |emulated_version, groups| {
        let flags = Flags {
            allow_second_default_scheduler: true,
            emulated_version,
            groups,
            ..Flags::without_election()
        };
        let effective = match &args.config {
            Some(path) => Effective::load(path, &flags),
            None => Effective::without_file(&flags),
        };
        let loaded = effective.and_then(|effective| Ok((Settings::of(&effective)?, effective)));
        loaded.map_err(|error: ConfigError| wrong(&error))
    };
    // A wrong file is reported before the API server is asked.
    let emulation = &args.emulation;
    let before = load(emulation.of_files(), emulation.groups(emulation.emulated_version)?)?;
    let (client, version) = live::client(&args.live).await.map_err(Refused::Live)?;
    let (settings, effective) = match args.emulation.emulated_version {
        Some(_) => before,
        None => load(version, emulation.groups(version)?)?,
    };

    let (metrics, clock) = (Arc::new(Metrics::new()), Clock::start());
    let now = clock.now();
    let mode = Mode::Watcher { of: args.of.clone() };
    let seed = Seed(u64::from(std::process::id()));
    let beginning = Header::new(mode, now, seed, (&effective, &settings), Duration::ZERO)
        .compatible(args.emulation.compat);
    let options = SinkOptions {
        path: args.file.clone(),
        bytes_max: args.max_bytes,
        when_full: WhenFull::Ends,
        header: Some(beginning.to_line()),
    };
    let opened = Sink::open(options, metrics.record_lines(Record::Input));
    let (sink, writer) =
        opened.map_err(|error| wrong(&format_args!("cannot write {}: {error}", args.file.display())))?;
    let state = sink.state();
    let journal = Journal::default().with_input(sink, now);
    let mailbox = Mailbox::<Scheduler>::new().taped(Some(Box::new(journal)));
    let inbox = mailbox.inbox();
    // Without profiles, no pod belongs to this scheduler; it only keeps the tables that decoding needs, and
    // they stay small.
    let config = Config { seed, profiles: Vec::new(), queue: QueueConfig::default() };
    let accounts = Accounts::new(Arc::clone(&metrics), []);
    let end = mailbox.start(Scheduler::new(config, now), clock, Nowhere, accounts);
    let mut end = end.map_err(|error| failed(format!("cannot start a thread: {error}")))?;
    let extenders = Extenders::default();
    let intake = Arc::new(inbox.clone());
    let watching = Watching { encoding: settings.encoding, groups: settings.groups.workloads };
    let watches = Watches::start(&client, intake, &metrics.watches(), watching, None, extenders.objects());

    let outcome = tokio::select! {
        outcome = going_on(args, watches.readiness(), || state.is_open()) => outcome,
        _ = &mut end => Err(failed("the thread that receives objects stopped".to_owned())),
    };
    drop(watches);
    // If the thread has stopped already, nothing receives this message.
    let _ = inbox.send(Item::Stop { within: Duration::ZERO }).await;
    drop(inbox);
    let _ = end.await;
    let written = tokio::task::spawn_blocking(move || writer.join()).await;
    if !matches!(written, Ok(Ok(()))) {
        return Err(failed("the thread that writes the recording panicked".to_owned()));
    }
    outcome
}

/// Waits until all resources are listed.
///
/// # Errors
/// Fails if a resource is refused, or sends nothing, for as long as one request may take.
async fn listed(readiness: &Readiness, request_timeout: Duration) -> Result<(), String> {
    let began = Instant::now();
    let mut since: BTreeMap<&str, Instant> = BTreeMap::new();
    loop {
        let kinds = readiness.kinds();
        if kinds.iter().all(|health| health.synced) {
            return Ok(());
        }
        for health in kinds.iter().filter(|health| !health.synced) {
            let kind = health.kind.as_str();
            match &health.trouble {
                Some(trouble) if !health.is_open => {
                    let troubled = since.entry(kind).or_insert_with(Instant::now).elapsed();
                    if troubled >= request_timeout {
                        let help =
                            if trouble.contains("forbidden") { format!("; {GRANT}") } else { String::new() };
                        return Err(format!("{kind}: {trouble}{help}"));
                    }
                }
                None if health.since_accepted.is_none() && began.elapsed() >= request_timeout => {
                    return Err(format!("the list of {kind} did not arrive within {request_timeout:?}"));
                }
                _ => drop(since.remove(kind)),
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until recording ends: interrupted, time over, or the file is full.
async fn going_on(
    args: &RecordArgs,
    readiness: Readiness,
    is_open: impl Fn() -> bool,
) -> Result<(), Refused> {
    let file = args.file.display();
    let recorded = async {
        let listed = listed(&readiness, args.live.request_timeout);
        match tokio::time::timeout(LISTED_WITHIN, listed).await {
            Ok(Ok(())) => {}
            Ok(Err(why)) => return Err(failed(format!("cannot watch the cluster: {why}"))),
            Err(_) => {
                let why = readiness.check().err().unwrap_or_default();
                return Err(failed(format!("cannot watch the cluster: {why}")));
            }
        }
        let until = args.how_long.map(|it| format!("for {it:?}")).unwrap_or_else(|| "until ^C".to_owned());
        complain(&format!("all objects listed; recording to {file} {until}"));
        let full = async {
            while is_open() {
                tokio::time::sleep(LOOK).await;
            }
        };
        let up = async {
            match args.how_long {
                Some(how_long) => tokio::time::sleep(how_long).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = full => Err(failed(format!("the recording stopped early; the last line of {file} has the reason"))),
            () = up => Ok(()),
        }
    };
    let mut signals = StopSignals::register().map_err(|error| failed(format!("{error:#}")))?;
    tokio::select! {
        outcome = recorded => outcome,
        _ = signals.received() => Ok(()),
    }
}
