//! `make demo`: starts a control plane with four nodes and supercargo, runs the examples, and shows
//! where each pod was placed or why it is pending. Exits with 0 only if every expectation holds.
//!
//! The report goes to standard output, progress to standard error. Steps and expectations are read from `examples/`.

use supercargo_dev::harness;

mod metrics;
mod outcome;
mod page;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use harness::groups::GroupApi;
use harness::ports::Port;
use harness::steps::Example;
use harness::steps::runner::Runner;
use harness::supercargo::{self, NAME, Setup, Supercargo};
use harness::{Component, ControlPlane, Process, Program, binaries, wait_for};
use outcome::Outcome;
use page::Page;

/// supercargo's default HTTPS port, used if it is free.
const HTTPS_PORT: u16 = 10259;

/// Exit code of a command interrupted with Ctrl-C.
const INTERRUPTED: u8 = 130;

#[derive(Parser)]
#[command(
    name = "demo",
    about = "Run the examples on a real control plane and show where each pod is placed and why"
)]
struct Args {
    /// Examples to run, such as 01-reserve-a-node, reserve-a-node or 1 [default: all]
    #[arg(value_name = "NAME")]
    examples: Vec<String>,
    /// Use the real kube-scheduler with a profile named supercargo, to check that it meets the expectations
    #[arg(long)]
    upstream: bool,
}

/// The scheduler under demonstration.
enum Scheduler {
    Ours(Box<Supercargo>),
    Upstream { _process: Process, _port: Port },
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let mut terminate = match signal(SignalKind::terminate()) {
        Ok(terminate) => terminate,
        Err(error) => return failed(&error.into()),
    };
    // Leaving the block drops the demo, which stops everything it started.
    tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => interrupted(),
        _ = terminate.recv() => interrupted(),
        outcome = run(&args) => outcome.unwrap_or_else(|error| failed(&error)),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("demo: {error:#}");
    ExitCode::FAILURE
}

fn interrupted() -> ExitCode {
    eprintln!("demo: interrupted, stopping everything");
    ExitCode::from(INTERRUPTED)
}

async fn run(args: &Args) -> Result<ExitCode> {
    let all = Example::all()?;
    let chosen = choose(&all, &args.examples)?;
    let began = Instant::now();
    let progress = |what: &str| eprintln!("demo: {:5.1} s  {what}", began.elapsed().as_secs_f64());

    progress("starting etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok");
    let plane = ControlPlane::builder().with(Component::ALL).with_groups().start().await?;
    progress("creating four nodes");
    let runner = Runner::new(&plane).await?;
    let mut scheduler = start_scheduler(&plane, args.upstream, &progress).await?;
    progress("ready; to inspect the cluster from another terminal:");
    eprintln!("               export KUBECONFIG={}", plane.admin().kubeconfig().display());
    eprintln!("               {} get pods -A -o wide --watch", binaries::binary("kubectl")?.display());

    let mut page = Page::new();
    let mut outcomes = Vec::new();
    for example in &chosen {
        outcomes.push(outcome::run(&runner, example, &mut page).await?);
    }
    let mut good = outcomes.iter().all(Outcome::is_good);
    outcome::summary(&outcomes, &mut page)?;
    if let Scheduler::Ours(supercargo) = &mut scheduler {
        good &= metrics::show(&plane, supercargo, &mut page).await?;
        good &= healthy(supercargo);
    }
    progress("waiting for the examples' namespaces to be deleted");
    runner.wait_for_the_namespaces_to_go(&chosen).await?;
    plane.check()?;
    progress("stopping everything");
    // Clients of the API server stop before the API server does.
    drop(scheduler);
    drop(plane);
    progress("stopped");
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Reports whether supercargo still runs and no request of it was denied.
fn healthy(supercargo: &mut Supercargo) -> bool {
    let checked = supercargo.check().and_then(|()| supercargo.check_rights());
    if let Err(error) = &checked {
        eprintln!("demo: {error:#}");
    }
    checked.is_ok()
}

async fn start_scheduler(
    plane: &ControlPlane,
    upstream: bool,
    progress: &impl Fn(&str),
) -> Result<Scheduler> {
    if upstream {
        progress("starting kube-scheduler with a profile named supercargo");
        return upstream_scheduler(plane).await;
    }
    progress("applying manifests/base");
    supercargo::install(plane).await?;
    progress("starting supercargo with the ServiceAccount, permissions and configuration of the manifests");
    let mut setup = Setup::installed(plane).await?.with_groups();
    setup.port = Some(HTTPS_PORT);
    let mut supercargo = setup.launch(plane).await?;
    supercargo::wait_for_the_deployment(plane).await?;
    supercargo.wait_until_ready().await?;
    Ok(Scheduler::Ours(Box::new(supercargo)))
}

/// Starts the real kube-scheduler under our scheduler name, with kube-scheduler's permissions.
async fn upstream_scheduler(plane: &ControlPlane) -> Result<Scheduler> {
    let port = Port::reserve()?;
    let access = plane.user("system:kube-scheduler", None)?;
    let file = plane.folder().join("upstream.yaml");
    let connection = format!(
        "clientConnection:\n  kubeconfig: {}\n  qps: 5000\n  burst: 5000\n",
        access.kubeconfig().display()
    );
    std::fs::write(&file, supercargo::configuration(NAME) + &connection)
        .with_context(|| format!("cannot write {}", file.display()))?;
    let program = Program::new("kube-scheduler-as-supercargo", binaries::binary("kube-scheduler")?)
        .arg(format!("--config={}", file.display()))
        .arg("--bind-address=127.0.0.1")
        .arg(format!("--secure-port={}", port.number()))
        .args(GroupApi::of(&binaries::chosen_version()).map(GroupApi::gates_flag));
    let mut process = plane.launch(&program)?;
    let url = format!("https://127.0.0.1:{}/readyz", port.number());
    wait_for("kube-scheduler to serve", harness::wait::PATIENCE, || async {
        let (status, body) = harness::http::get(&url, None).await?;
        anyhow::ensure!(status == 200, "{url} answers {status}: {}", body.trim());
        Ok(())
    })
    .await?;
    process.check()?;
    Ok(Scheduler::Upstream { _process: process, _port: port })
}

/// Returns the named examples in folder order, or all without names.
fn choose<'a>(all: &'a [Example], names: &[String]) -> Result<Vec<&'a Example>> {
    let is_called = |example: &&Example, name: &str| {
        let number = example.name.split('-').next().unwrap_or_default();
        name == example.name || name == example.namespace() || number.parse::<u32>().ok() == name.parse().ok()
    };
    for name in names {
        if !all.iter().any(|example| is_called(&example, name)) {
            let known: Vec<&str> = all.iter().map(|example| example.name.as_str()).collect();
            bail!("unknown example {name:?}; available: {}", known.join(", "));
        }
    }
    let version = binaries::chosen_version();
    let wanted = |example: &&Example| names.is_empty() || names.iter().any(|name| is_called(example, name));
    Ok(all.iter().filter(wanted).filter(|example| example.runs_on(&version)).collect())
}
