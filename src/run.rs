//! The composition root: builds and wires all components, and stops them in order.
//!
//! On stop, scheduling halts, in-flight bindings are answered, events and conditions are written, the lease is
//! released and the port closes. Nothing but that order is decided here.

mod drift;
mod dump;
mod lead;
mod pages;
mod questions;
mod recording;
mod server_version;
mod serving;
mod shadow;
mod shutdown;
mod stats;

use crate::args::Args;
use crate::engine::reload::{InForce, Reload, Versions};
use crate::engine::{Accounts, End, Heartbeat, Inbox, Item, Mailbox};
use crate::extenders::{Extenders, Prepared};
use crate::serve::{Check, Checks, Gate, Port, Routes};
use crate::signals::StopSignals;
use crate::telemetry::log::Log;
use crate::telemetry::metrics::rest::RestLayer;
use crate::telemetry::metrics::{ChannelFill, Metrics};
use crate::telemetry::resource_usage::ResourceUsage;
use crate::telemetry::traces::{self, Sending, Tracer};
use crate::write::{Dispatcher, Identity, Limits};
use anyhow::{Context as _, anyhow};
use kube::config::Kubeconfig;
use lead::{Candidacy, Election};
use recording::Recordings;
use server_version::{Follower, Known, Origin};
use serving::Serving;
use shutdown::{ShutdownBudget, Step};
use std::sync::Arc;
use std::time::Duration;
use supercargo_apiserver::client::Source;
use supercargo_apiserver::watch::{ATTEMPT_WITHIN, FAILING_MAX, Watches, Watching};
use supercargo_config::flags::gates;
use supercargo_config::{ConfigError, DEFAULT_NAME, Effective, Flags, ProfileSettings, Settings};
use supercargo_core::model::emulation::EmulatedVersion;
use supercargo_core::scheduler::Scheduler;
use supercargo_whatif::recording::header::Header;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Maximum silence of the scheduling thread before `/livez` fails.
const SILENCE_MAX: Duration = Duration::from_secs(30);

pub use shutdown::LOG_WITHIN;

/// Why the program ends with an error.
#[derive(Debug)]
pub struct Failure {
    /// The error.
    pub cause: anyhow::Error,
    /// The exit code: 1 for an error while running, 2 for an invalid flag or configuration.
    pub code: u8,
}

impl From<anyhow::Error> for Failure {
    fn from(cause: anyhow::Error) -> Self {
        Self { cause, code: 1 }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self { cause: error.into(), code: 2 }
    }
}

/// Runs the scheduler until SIGTERM or SIGINT.
///
/// # Errors
/// If a flag or the configuration is invalid, or a component fails in a way that waiting cannot resolve.
pub fn run(args: Args, log: Log) -> Result<(), Failure> {
    report_without_effect(&args)?;
    let mut flags = args.flags();
    if args.shadow_of.is_some() {
        // Shadow mode binds nothing, so it neither needs a lease nor competes with another default scheduler.
        flags.leader_elect = Some(false);
        flags.allow_second_default_scheduler = true;
        if std::mem::take(&mut flags.groups).workloads {
            tracing::warn!("shadow mode compares the members of pod groups as single pods");
        }
    }
    let configuration = match args.emulated_version {
        Some(version) => Configuration::load(&args, flags, version)?,
        None => Configuration::load_for_any_version(&args, &flags)?,
    };
    if let Some(file) = &args.write_config_to {
        return Ok(std::fs::write(file, configuration.effective.to_yaml())
            .with_context(|| format!("cannot write {}", file.display()))?);
    }
    // Two workers for watches and writes; the engine has a thread of its own.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let signals = {
        // Signals and clients need the runtime.
        let _entered = runtime.enter();
        let signals = StopSignals::register()?;
        // An invalid extender is an error even without an API server.
        extenders_of(&configuration.effective, &configuration.settings)?;
        signals
    };
    let outcome = match args.shadow_of.clone() {
        Some(name) => runtime.block_on(shadow::run(args, &name, configuration, log, signals)),
        None => runtime.block_on(serve_and_schedule(args, configuration, log, signals)),
    };
    // Do not wait for threads blocked on a hanging disk.
    runtime.shutdown_background();
    outcome
}

/// Logs each flag and gate that is accepted but has no effect.
fn report_without_effect(args: &Args) -> Result<(), Failure> {
    let turned = gates::judge(args.upstream.gates(), args.emulated_version)
        .map_err(|wrong| Failure { cause: anyhow!("--feature-gates: {}", wrong.join("; ")), code: 2 })?;
    if !turned.is_empty() {
        tracing::warn!(gates = ?turned, "these feature gates have no effect");
    }
    for (flag, value, reason) in args.upstream.without_effect() {
        tracing::warn!(flag, value, reason, "this flag has no effect");
    }
    let replaced = ["kubeconfig", "kube-api-content-type", "profiling"];
    let is_replaced =
        |flag: &&str| args.upstream.is_given(flag) && (*flag != "kubeconfig" || !args.prefers_kubeconfig());
    let replaced: Vec<&str> = replaced.into_iter().filter(is_replaced).collect();
    if args.config.is_some() && !replaced.is_empty() {
        tracing::warn!(flags = ?replaced, "the file of --config replaces these flags");
    }
    Ok(())
}

/// The startup configuration.
struct Configuration {
    flags: Flags,
    effective: Effective,
    settings: Settings,
}

impl Configuration {
    fn load(args: &Args, flags: Flags, version: EmulatedVersion) -> Result<Self, ConfigError> {
        let flags = Flags { emulated_version: version, ..flags };
        let effective = match &args.config {
            Some(file) => Effective::load(file, &flags)?,
            None => Effective::without_file(&flags)?,
        };
        let settings = Settings::of(&effective)?;
        Ok(Self { flags, effective, settings })
    }

    /// Loads the configuration before the API server's version is known: for the newest version in which it is valid.
    fn load_for_any_version(args: &Args, flags: &Flags) -> Result<Self, ConfigError> {
        let newest = Self::load(args, flags.clone(), EmulatedVersion::NEWEST);
        let older = EmulatedVersion::ALL.into_iter().rev().skip(1);
        newest.or_else(|error| {
            let mut of_older = older.filter_map(|version| Self::load(args, flags.clone(), version).ok());
            of_older.next().ok_or(error)
        })
    }

    /// Loads the configuration for the API server's version, unless a flag sets the version. The version is read again
    /// until `patience` is over; then the version stays provisional.
    ///
    /// # Errors
    /// If the configuration or a feature gate is invalid in the version.
    async fn suited_to(
        self,
        client: &kube::Client,
        args: &Args,
        patience: Duration,
    ) -> Result<(Self, Origin), Failure> {
        if args.emulated_version.is_some() {
            return Ok((self, Origin::Flag));
        }
        let provisional = self.effective.emulated_version;
        let found = match server_version::read_within(client, provisional, patience).await {
            Ok(found) => found,
            Err(error) => return Ok((self, Origin::Provisional(error))),
        };
        if let [why, ..] = &found.log(args.upstream.gates())[..] {
            return Err(Failure { cause: anyhow!("--feature-gates: {why}"), code: 2 });
        }
        Ok((Self::load(args, self.flags, found.emulated())?, Origin::Read(found)))
    }
}

/// What is prepared before anything runs.
struct Start {
    client: kube::Client,
    server_url: String,
    configuration: Configuration,
    /// How the configuration's version was found.
    origin: Origin,
    /// The port to serve; `None` if it is 0.
    port: Option<Port>,
    gate: Gate,
}

impl Start {
    /// Connects to the API server, reads its version within `patience`, and prepares the port. Returns `None` if a
    /// signal stops the program meanwhile.
    async fn prepare(
        args: &Args,
        configuration: Configuration,
        metrics: &Arc<Metrics>,
        patience: Duration,
        signals: &mut StopSignals,
    ) -> Result<Option<Self>, Failure> {
        let (args, metrics) = (args.clone(), Arc::clone(metrics));
        // A task of its own, since a credential plugin blocks the thread until its process ends.
        let preparing = tokio::spawn(async move {
            let (client, server_url) = connect(&args, &configuration.settings, &metrics).await?;
            let (configuration, origin) = configuration.suited_to(&client, &args, patience).await?;
            let (port, gate) = Serving::prepare(&args, &client, &metrics).await?.split();
            Ok::<_, Failure>(Self { client, server_url, configuration, origin, port, gate })
        });
        tokio::select! {
            start = preparing => Ok(Some(start.context("the start panicked")??)),
            signal = signals.received() => {
                tracing::info!(signal, "stopped before the start was complete");
                Ok(None)
            }
        }
    }
}

// long because: startup in order, each step needs the one before
async fn serve_and_schedule(
    args: Args,
    configuration: Configuration,
    log: Log,
    mut signals: StopSignals,
) -> Result<(), Failure> {
    let metrics = Arc::new(Metrics::new());
    let (tracer, sending) = tracing_of(&args, &metrics)?;
    // Without an answer, the version is read again while everything else starts.
    let start = Start::prepare(&args, configuration, &metrics, Duration::ZERO, &mut signals).await?;
    let Some(Start { client, server_url, configuration, origin, port, gate }) = start else { return Ok(()) };
    let Configuration { flags, effective, settings } = configuration;
    let (extenders, prepared) = extenders_of(&effective, &settings)?;
    let profiles: Vec<&str> = settings.profiles.iter().map(|profile| profile.name.as_str()).collect();
    tracing::info!(version = crate::args::VERSION, server = %server_url, ?profiles, "starting");

    add_group_metrics(&settings, &metrics);
    let (follower, versions) = Follower::new(effective.emulated_version, origin, &metrics);
    let known = follower.known();
    let mut keeping = Recordings::begin(&args, (&effective, &settings), known.check().is_ok(), &metrics)?;
    let mailbox = Mailbox::<Scheduler>::new().taped(keeping.recorder());
    let (inbox, candidacy) = (mailbox.inbox(), Candidacy::new(&settings));
    let dispatcher =
        dispatcher(&client, server_url, &metrics, &inbox, &candidacy).with_extenders(extenders.clone());
    let accounts = Accounts::new(Arc::clone(&metrics), profiles.iter().copied());
    let rescued = accounts.rescued_by_flush();
    let (engine, clock) = (engine(&keeping.beginning, &settings, &prepared), keeping.clock);
    let accounts = accounts.expecting(&engine).traced(tracer);
    let mut end =
        mailbox.start(engine, clock, dispatcher.clone(), accounts).context("cannot start a thread")?;
    let (objects, intake, usage) =
        (extenders.objects(), Arc::new(inbox.clone()), Arc::new(ResourceUsage::default()));
    let watched = watching(&settings);
    let watches = Watches::start(&client, intake, &metrics.watches(), watched, Some(usage.clone()), objects);

    let in_force = InForce::new(&effective);
    let reload =
        follow(&args, (flags, effective), versions, &inbox, (&watches, &extenders), &metrics, &in_force);
    let heartbeat = Heartbeat::of(inbox.clone());
    let mut election = Election::start(
        candidacy,
        &settings,
        &client,
        &inbox,
        (watches.readiness(), known.clone()),
        heartbeat.clone(),
        &metrics,
    )?;
    let following = follower.start(&args, &client, &election);
    let checks = checks(&watches, heartbeat, &election, known);
    let dumps = tokio::spawn(dump::on_signal(inbox.clone(), client.clone(), Arc::clone(&metrics)));
    let core = stats::source(inbox.clone(), clock, rescued);
    let exposition = serving::exposition(&args, &in_force, metrics)
        .with_core(core)
        .with_event_channel(fill_of(inbox.clone()))
        .with_log_lines_lost(move || log.lines.lost());
    let (relist, ring) = (watches.relist_pods(), keeping.ring.clone());
    let pages = pages::Sources { resource_usage: usage, relist, in_force, inbox: inbox.clone(), ring, clock };
    let pages = pages.pages(&args, &election, log.verbosity);
    let routes = Routes::new(Arc::new(checks), exposition, gate).with_pages(pages);
    let (stop_serving, serving) = Serving::start(port, routes);
    let cause = running(&mut end, &mut election, &mut signals).await?;
    let ending = ShutdownBudget::begin();
    let outcome = match cause {
        Some(cause) => Err(cause),
        None => stop(ending, &inbox, end, &dispatcher).await,
    };
    election.stop(ending).await;
    drop(watches);
    dumps.abort();
    reload.abort();
    following.abort();
    let _ = stop_serving.send(());
    rest(ending, serving, sending, keeping).await?;
    Ok(outcome?)
}

/// Adds the metrics of pod groups, if their gate is on.
fn add_group_metrics(settings: &Settings, metrics: &Metrics) {
    if settings.groups.workloads {
        metrics.schedules_groups(settings.profiles.iter().map(|profile| profile.name.as_str()));
    }
}

/// Returns what to watch, and how. PodGroups are watched if their gate is on.
fn watching(settings: &Settings) -> Watching {
    Watching { encoding: settings.encoding, groups: settings.groups.workloads }
}

/// Returns the dispatcher of writes, which stops writing when the candidacy's lease expires.
fn dispatcher(
    client: &kube::Client,
    server: String,
    metrics: &Arc<Metrics>,
    inbox: &Inbox<Scheduler>,
    candidacy: &Candidacy,
) -> Dispatcher {
    Dispatcher::new(
        Handle::current(),
        client.clone(),
        &Identity { server, host: host_name() },
        Limits::default(),
        Arc::clone(metrics),
        Arc::new(inbox.clone()),
        candidacy.fence.clone(),
    )
}

/// Waits for open HTTP requests, trace spans and record files to finish.
async fn rest(
    ending: ShutdownBudget,
    serving: tokio::task::JoinHandle<()>,
    sending: Sending,
    keeping: Recordings,
) -> anyhow::Result<()> {
    let within = ending.share(Step::Rest);
    let all = async { tokio::join!(serving, sending.end(within), keeping.end(within)) };
    let Some((served, (), kept)) = ending.take(Step::Rest, all).await else { return Ok(()) };
    served.context("serving panicked")?;
    kept
}

/// Waits for a signal or the end of the scheduling thread. Returns the error that ended the thread, if any. Fails if
/// the lease is lost: the shutdown then must not wait for requests in flight.
async fn running(
    end: &mut oneshot::Receiver<End>,
    election: &mut Election,
    signals: &mut StopSignals,
) -> anyhow::Result<Option<anyhow::Error>> {
    tokio::select! {
        signal = signals.received() => {
            tracing::info!(signal, "stopping after bindings in flight");
            Ok(None)
        }
        end = end => Ok(Some(match end {
            Ok(End::Panicked(text)) => anyhow!("the scheduling thread panicked: {text}"),
            _ => anyhow!("the scheduling thread ended"),
        })),
        // Without the lease, nothing more may be sent. What is in flight ends before the lease expires.
        lost = election.lost() => Err(lost),
    }
}

/// Prepares the configured extenders: callable clients, and their description for the engine.
fn extenders_of(effective: &Effective, settings: &Settings) -> Result<(Extenders, Prepared), ConfigError> {
    let extenders = Extenders::default();
    let prepared = extenders.prepare(&settings.extenders);
    let prepared = prepared.map_err(|why| ConfigError::of_field(effective, "extenders", why))?;
    // No watch runs yet, so nothing has to be relisted.
    extenders.add(&prepared);
    Ok((extenders, prepared))
}

/// Starts span creation and export, if `--otlp-endpoint` is set.
fn tracing_of(args: &Args, metrics: &Metrics) -> Result<(Option<Tracer>, Sending), Failure> {
    let Some(endpoint) = &args.otlp_endpoint else { return Ok((None, Sending::default())) };
    let started = traces::start(endpoint, &host_name(), metrics);
    let (tracer, sending) =
        started.map_err(|why| Failure { cause: anyhow!("--otlp-endpoint: {why}"), code: 2 })?;
    tracing::info!(endpoint, "sending spans of scheduling attempts");
    Ok((Some(tracer), sending))
}

/// Connects to the API server. Returns the client and the server's URL.
async fn connect(
    args: &Args,
    settings: &Settings,
    metrics: &Arc<Metrics>,
) -> anyhow::Result<(kube::Client, String)> {
    let source = source(args, settings)?;
    let connection = source.settings().await?;
    let server_url = connection.cluster_url.to_string();
    let layer = RestLayer::new(Arc::clone(metrics), &connection.cluster_url);
    let builder = source.client(&connection).context("cannot build the API client")?;
    Ok((builder.with_layer(&layer).build(), server_url))
}

/// Returns the source of the connection settings: the flag's kubeconfig, the configuration file's, or what
/// [`supercargo_apiserver::client::inferred`] finds.
///
/// # Errors
/// Returns an error when the kubeconfig cannot be read or `--master` is not a URL.
fn source(args: &Args, settings: &Settings) -> anyhow::Result<Source> {
    let flag = args.kubeconfig.as_ref().filter(|_| args.prefers_kubeconfig());
    let path = flag.or(settings.kubeconfig.as_ref());
    let file = path.map(|path| {
        Kubeconfig::read_from(path).with_context(|| format!("cannot read the kubeconfig {}", path.display()))
    });
    let master = args.master.as_ref().map(|master| {
        // As in kube-scheduler, a host and a port mean plain HTTP.
        let url = if master.contains("://") { master.clone() } else { format!("http://{master}") };
        url.parse::<http::Uri>().with_context(|| format!("--master {master} is not a URL"))
    });
    Ok(Source::new(file.transpose()?, path.cloned(), master.transpose()?))
}

/// Watches the configuration file, if there is one, and the version to behave as, and applies their changes.
fn follow(
    args: &Args,
    (flags, effective): (Flags, Effective),
    versions: Versions,
    inbox: &Inbox<Scheduler>,
    (watches, extenders): (&Watches, &Extenders),
    metrics: &Arc<Metrics>,
    in_force: &InForce,
) -> tokio::task::JoinHandle<()> {
    let (file, inbox) = (args.config.clone(), inbox.clone());
    let relist = (watches.relist_pods(), watches.relist_nodes());
    let (extenders, metrics, in_force) = (extenders.clone(), Arc::clone(metrics), in_force.clone());
    let reload = Reload::new(file, flags, effective, inbox, relist, extenders, metrics);
    tokio::spawn(reload.shown_in(in_force).run(versions))
}

/// Waits for writes in flight and logs those that did not finish.
async fn stop(
    ending: ShutdownBudget,
    inbox: &Inbox<Scheduler>,
    end: oneshot::Receiver<End>,
    dispatcher: &Dispatcher,
) -> anyhow::Result<()> {
    // One second less than the step's share, so that the thread itself can name unanswered bindings.
    let within = ending.share(Step::Bindings).saturating_sub(Duration::from_secs(1));
    let stopped = async {
        // If the thread has ended, the send fails and `end` holds the reason.
        let _ = inbox.send(Item::Stop { within }).await;
        end.await
    };
    let Some(end) = ending.take(Step::Bindings, stopped).await else {
        return Err(anyhow!("the scheduling thread did not stop in time"));
    };
    match end {
        Ok(End::Stopped { unanswered }) => {
            for pod in unanswered {
                let pod = format!("{}/{}", pod.namespace, pod.name);
                tracing::warn!(%pod, "stopping before the pod's binding was answered; the next leader reads its outcome from the API server");
            }
        }
        Ok(End::Panicked(text)) => return Err(anyhow!("the scheduling thread panicked: {text}")),
        Err(_) => return Err(anyhow!("the scheduling thread ended without a result")),
    }
    let left = dispatcher.drain(ending.share(Step::Requests)).await;
    if !left.is_empty() {
        tracing::warn!(?left, "stopping before these requests finished");
    }
    tracing::info!("stopped");
    Ok(())
}

/// Builds the engine. With leader election, or without the API server's version, it starts as a standby.
fn engine(beginning: &Header, settings: &Settings, extenders: &Prepared) -> Scheduler {
    let is_default = |profile: &ProfileSettings| profile.name == DEFAULT_NAME;
    if settings.election.is_none() && settings.profiles.iter().any(is_default) {
        tracing::warn!(
            "scheduling as {DEFAULT_NAME} without leader election; make sure that no kube-scheduler is running"
        );
    }
    beginning.engine(settings, |tables| extenders.for_engine(tables))
}

/// Returns the host name as used in events.
fn host_name() -> String {
    kernel_host_name().map_or_else(|| "unknown".to_owned(), |name| name.to_lowercase())
}

fn kernel_host_name() -> Option<String> {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Some(kernel.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Builds the health checks. Live: the scheduling thread answers and no watch is stuck. Ready: every kind has been
/// listed, no watch has been failing for long, the API server's version is known, and the lease is readable. A standby
/// replica passes both.
fn checks(watches: &Watches, heartbeat: Heartbeat, election: &Election, version: Known) -> Checks {
    let checks = checks_of(watches, heartbeat).with_ready(Check::new("version", move || version.check()));
    match election.standing.clone() {
        Some(standing) => {
            let lease = standing.clone();
            let checks = checks.with_ready(Check::new("lease", move || lease.check_lease()));
            checks.with_leader_election(move || standing.check())
        }
        None => checks,
    }
}

/// Builds the checks that do not depend on leader election.
fn checks_of(watches: &Watches, heartbeat: Heartbeat) -> Checks {
    let [listed, failing, attempts] = [(); 3].map(|()| watches.readiness());
    Checks::new()
        .with_ready(Check::new("sched-handler-sync", move || listed.check()))
        .with_ready(Check::new("watches", move || failing.check_failing(FAILING_MAX)))
        .with_live(Check::new("scheduling-thread", move || heartbeat.check(SILENCE_MAX)))
        .with_live(Check::new("watches", move || attempts.check_attempts(ATTEMPT_WITHIN)))
}

fn fill_of<E: 'static>(inbox: Inbox<E>) -> impl Fn() -> ChannelFill + Send + Sync + 'static {
    move || {
        let fill = inbox.fill();
        ChannelFill { length: fill.length, capacity: fill.capacity }
    }
}
