//! `supercargo whatif serve`: answers questions about hypothetical clusters over HTTPS, for programs. Watches the
//! cluster, and writes nothing to it.
//!
//! `supercargo_whatif::server` has the answers; here are the watches, the thread with the engine, and the port.

mod admission;
mod args;
mod pages;
mod sink;
mod worker;

pub use args::{ServeArgs, WhatifArgs, WhatifCommand};

use crate::serve::{
    Certificate, Check, Checks, Gate, KubeReviewer, Port, Routes, ServeOptions, Server, pod_ip,
};
use crate::signals::StopSignals;
use crate::telemetry::log::{self, LoggingFormat};
use crate::telemetry::metrics::{Exposition, Metrics, WhatifMetrics};
use admission::Admission;
use pages::WhatifPages;
use sink::{Discard, Sink};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use supercargo_apiserver::watch::{FAILING_MAX, Readiness, Watches, Watching};
use supercargo_cli::cluster::Refused;
use supercargo_cli::live::{self, LiveError};
use supercargo_cli::screen::complain;
use supercargo_core::model::emulation::EmulatedVersion;
use supercargo_objects::api::Encoding;
use supercargo_whatif::cluster::Setup;
use supercargo_whatif::load::files::InputError;
use supercargo_whatif::server::{Live, Service, Store};
use tokio::sync::oneshot;
use worker::Worker;

/// Longest wait for running answers and log lines at the end.
const END_WITHIN: Duration = Duration::from_secs(5);

/// Runs the command and returns the exit code.
pub fn main(args: &WhatifArgs) -> ExitCode {
    let WhatifCommand::Serve(args) = &args.command;
    let log = match log::start(LoggingFormat::Text, args.verbosity) {
        Ok(log) => log,
        Err(error) => return failed(format!("cannot start the log: {error}")).report(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return failed(format!("cannot start the async runtime: {error}")).report(),
    };
    let outcome = runtime.block_on(serve(args));
    // Do not wait for a blocked DNS lookup.
    runtime.shutdown_background();
    log.lines.flush(END_WITHIN);
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(refused) => refused.report(),
    }
}

fn failed(text: String) -> Refused {
    Refused::Live(LiveError::Cluster(text))
}

/// Returns how the scheduler behaves, and checks the configuration.
fn setup(args: &ServeArgs, version: EmulatedVersion) -> Result<Setup, Refused> {
    let groups = args.emulation.groups(version)?;
    let (config, compat) = (args.config.clone(), args.emulation.compat);
    Ok(Setup { config, version, compat, groups, ..Setup::default() })
}

async fn serve(args: &ServeArgs) -> Result<(), Refused> {
    let invalid = |error: &dyn std::fmt::Display| Refused::Input(InputError(error.to_string()));
    // A wrong file is reported before the API server is asked.
    let before = setup(args, args.emulation.of_files())?;
    Service::new(before.clone(), args.limits(), None).map_err(|error| invalid(&error))?;
    let mut signals = StopSignals::register().map_err(|error| failed(format!("{error:#}")))?;
    let connection = args.live.clone();
    // A task of its own, since a credential plugin blocks the thread until its process ends.
    let connecting = tokio::spawn(async move { live::client(&connection).await });
    let (client, version) = tokio::select! {
        connected = connecting => {
            connected.map_err(|error| failed(format!("connecting failed: {error}")))?.map_err(Refused::Live)?
        }
        _ = signals.received() => return Ok(()),
    };
    let setup = match args.emulation.emulated_version {
        Some(_) => before,
        None => setup(args, version)?,
    };
    let (metrics, store) = (Arc::new(Metrics::new()), Arc::new(Store::default()));
    let address = SocketAddr::new(args.bind_address, args.secure_port);
    let certificate = match (&args.tls_cert_file, &args.tls_private_key_file) {
        (Some(cert), Some(key)) => Certificate::Files { certificate: cert.clone(), key: key.clone() },
        _ => Certificate::self_signed(pod_ip()),
    };
    let port = Port::bind(ServeOptions::new(address, certificate, &metrics)).await;
    let port = port.map_err(|error| failed(error.to_string()))?;

    let followed = (!args.uploads_only).then(|| follow(&client, &setup, &metrics, &store));
    let readiness = followed.as_ref().map(|(watches, _)| watches.readiness());
    let live = readiness
        .clone()
        .map(|readiness| Live { store: Arc::clone(&store), ready: Box::new(move || is_current(&readiness)) });
    let service = Service::new(setup, args.limits(), live).map_err(|error| invalid(&error))?;
    let worker = Worker::start(service, args.limits(), WhatifMetrics::register(&metrics));
    let (desk, ended) = worker.map_err(|error| failed(format!("cannot start a thread: {error}")))?;

    let mut checks = Checks::new();
    if let Some(readiness) = readiness {
        checks = checks.with_ready(Check::new("live", move || is_current(&readiness)));
    }
    let gate = Gate::new(KubeReviewer::new(client.clone()));
    let routes = Routes::new(Arc::new(checks), Exposition::new(metrics), gate);
    let server = Server::new(port, routes.with_extension(WhatifPages::new(Arc::clone(&desk), args.limits())));
    let address = server.local_addr().map_err(|error| failed(error.to_string()))?;
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(server.run(async move { drop(stopped.await) }));
    complain(&format!("serving whatif on https://{address}/whatif/v1/"));
    let outcome = tokio::select! {
        _ = signals.received() => Ok(()),
        () = ended => Err(failed("the thread that answers ended".to_owned())),
    };
    drop(followed);
    let _ = stop.send(());
    let _ = tokio::time::timeout(END_WITHIN, serving).await;
    desk.stop();
    outcome
}

/// Checks that the live cluster is known and current: all kinds are listed, and no watch has failed for long.
fn is_current(readiness: &Readiness) -> Result<(), String> {
    let checked = readiness.check().and_then(|()| readiness.check_failing(FAILING_MAX));
    checked.map_err(|why| format!("the live cluster is not current: {why}; retry, or upload a snapshot"))
}

/// Starts what fills the store: the watches, and the lists of what admission reads.
fn follow(
    client: &kube::Client,
    setup: &Setup,
    metrics: &Arc<Metrics>,
    store: &Arc<Store>,
) -> (Watches, Admission) {
    let watching = Watching { encoding: Encoding::Json, groups: setup.groups.workloads };
    let (intake, sink) = (Arc::new(Discard::default()), Sink(Arc::clone(store)));
    let watches = Watches::start(client, intake, &metrics.watches(), watching, None, &sink);
    (watches, Admission::follow(client.clone(), Arc::clone(store)))
}
