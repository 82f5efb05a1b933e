//! Times startup: from the launch of a process to the observed binding of a pending pod, in a cluster with many
//! running pods.
//!
//! One control plane is filled once, and the sides take turns on it, in a different order each round (every second
//! one reversed). A turn ends with its process, and the bound pod is deleted, so that every turn starts with the same
//! cluster. A first start after filling is not counted.

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use serde_json::Value;
use std::fs;
use std::time::Duration;
use tokio::time::{Instant, timeout};

use crate::harness::{Component, ControlPlane, Program, http, plane::ADMIN_TOKEN};
use crate::lister::READ;
use crate::load::NAMESPACE;
use crate::side::{self, Running, usage};
use crate::workloads::{Size, Workload, node_name};
use crate::{print_line, stage, start_tables};

/// Timeout of a startup.
const PATIENCE: Duration = Duration::from_secs(300);

/// A program to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Lister,
    KubeScheduler,
    Supercargo,
}

impl By {
    pub(crate) const ALL: [Self; 3] = [Self::Lister, Self::KubeScheduler, Self::Supercargo];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Lister => "lister",
            Self::KubeScheduler => "kube-scheduler",
            Self::Supercargo => "supercargo",
        }
    }

    /// Starts the program. The lister binds this pod; the others find it.
    fn start(self, plane: &ControlPlane, pod: &str) -> Result<Running> {
        match self {
            Self::Lister => {
                let kubeconfig = plane.admin().kubeconfig().display().to_string();
                let program = Program::new(self.as_str(), std::env::current_exe()?);
                let program = program.args([self.as_str(), &kubeconfig, pod, &node_name(0)]);
                Ok(Running::of(plane.launch(&program)?))
            }
            Self::KubeScheduler => {
                plane.spawn(Component::Scheduler)?;
                Running::component(plane, Component::Scheduler)
            }
            Self::Supercargo => {
                let configuration = crate::harness::supercargo::configuration("default-scheduler");
                side::supercargo(plane, &configuration, &["--v=3"])
            }
        }
    }

    /// Stops the program and waits for its end.
    fn end(self, plane: &ControlPlane, running: Running) -> Result<()> {
        drop(running);
        if self == Self::KubeScheduler { plane.stop(Component::Scheduler) } else { Ok(()) }
    }
}

/// Results of one startup.
#[derive(Debug)]
pub(crate) struct Start {
    /// From the launch to the observed binding, in seconds.
    pub(crate) s: f64,
    /// CPU time until then, of the program and of the API server.
    pub(crate) cpu_s: f64,
    pub(crate) server_cpu_s: f64,
    pub(crate) peak_mb: f64,
    /// Megabytes of lists read, if known.
    pub(crate) read_mb: Option<f64>,
    pub(crate) parts: Option<Parts>,
}

/// Phases of supercargo's startup in seconds, from its log, and the CPU time of its engine thread.
#[derive(Debug)]
pub(crate) struct Parts {
    /// From the launch to the first request.
    pub(crate) launch: f64,
    /// Until all lists are complete.
    pub(crate) lists: f64,
    /// Until the decision.
    pub(crate) decision: f64,
    /// Until the observed binding.
    pub(crate) binding: f64,
    pub(crate) engine_cpu: f64,
}

/// A round: one startup of each program.
pub(crate) type Round = [Start; By::ALL.len()];

/// A filled cluster, and the time it took to fill.
struct Filled {
    plane: ControlPlane,
    took: Duration,
}

impl Filled {
    async fn fill(workload: &Workload, size: Size) -> Result<Self> {
        let (plane, _, took) = stage::filled(workload, size).await?;
        Ok(Self { plane, took })
    }

    /// Performs one startup and restores the cluster.
    async fn start(&self, by: By, pod: Value) -> Result<Start> {
        stage::rest(&self.plane).await?;
        let plane = &self.plane;
        let pods = Api::<Pod>::namespaced(plane.client().await?, NAMESPACE);
        let pod = pods.create(&Default::default(), &serde_json::from_value(pod)?).await?;
        let name = pod.name_any();
        let start = timed(plane, by, &pods, &pod).await;
        let start = start.with_context(|| format!("{}\n{}", by.as_str(), plane.log_tails()))?;
        pods.delete(&name, &DeleteParams::default().grace_period(0)).await?;
        Ok(start)
    }
}

async fn timed(plane: &ControlPlane, by: By, pods: &Api<Pod>, pod: &Pod) -> Result<Start> {
    let name = pod.name_any();
    let bound = WatchParams::default().fields(&format!("metadata.name={name},spec.nodeName!="));
    let mut events = pods.watch_metadata(&bound, &pod.resource_version().unwrap_or_default()).await?.boxed();
    let log = plane.folder().join(format!("logs/{}.log", by.as_str()));
    let logged = fs::read_to_string(&log).unwrap_or_default().len();
    let server = *plane.pids().get(Component::ApiServer.name()).context("it runs")?;
    let before = usage(server)?.cpu;
    let (began, launched) = (Instant::now(), Timestamp::now());
    let running = by.start(plane, &name)?;
    loop {
        let event = timeout(PATIENCE, events.next()).await.context("the pod was not bound in time")?;
        match event.context("the watch of the pod ended")?? {
            WatchEvent::Added(_) | WatchEvent::Modified(_) => break,
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Deleted(_) | WatchEvent::Error(_) => bail!("the pod was deleted"),
        }
    }
    let (took, seen) = (began.elapsed(), Timestamp::now());
    let (own, after) = (running.usage()?, usage(server)?.cpu);
    let log = fs::read_to_string(&log)?;
    let log = &log[logged..];
    let parts = match by {
        By::Supercargo => Some(parts(log, [launched, seen], &running)?),
        By::Lister | By::KubeScheduler => None,
    };
    let read_mb = read(by, log, &running).await?;
    by.end(plane, running)?;
    Ok(Start {
        s: took.as_secs_f64(),
        cpu_s: own.cpu.as_secs_f64(),
        server_cpu_s: after.saturating_sub(before).as_secs_f64(),
        peak_mb: own.peak as f64 / 1e6,
        read_mb,
        parts,
    })
}

/// Returns the time of a log line.
fn when(log: &str, what: &str) -> Result<Timestamp> {
    let line = log.lines().find(|line| line.contains(what));
    let line = line.with_context(|| format!("the log has no line {what:?}: {log}"))?;
    Ok(line.split_whitespace().next().unwrap_or_default().parse()?)
}

fn parts(log: &str, [launched, seen]: [Timestamp; 2], running: &Running) -> Result<Parts> {
    let asks = when(log, " starting ")?;
    let known = when(log, "initial lists of all kinds complete")?;
    let decided = when(log, "Attempting to bind pod to node")?;
    let between = |from: Timestamp, to: Timestamp| to.duration_since(from).as_secs_f64();
    Ok(Parts {
        launch: between(launched, asks),
        lists: between(asks, known),
        decision: between(known, decided),
        binding: between(decided, seen),
        engine_cpu: running.cpu_of_threads("scheduler")?.as_secs_f64(),
    })
}

/// Returns the megabytes of lists read, from the program's own figures.
async fn read(by: By, log: &str, running: &Running) -> Result<Option<f64>> {
    let bytes: f64 = match by {
        By::KubeScheduler => return Ok(None),
        By::Lister => {
            let logged = log.lines().find_map(|line| line.strip_prefix(READ));
            logged.context("the lister logs the bytes it read")?.parse()?
        }
        By::Supercargo => {
            let port = running.port().context("supercargo has a port")?;
            let (_, text) =
                http::get(&format!("https://127.0.0.1:{port}/metrics"), Some(ADMIN_TOKEN)).await?;
            let series =
                text.lines().filter(|line| line.starts_with("supercargo_watch_received_bytes_total{"));
            series.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
        }
    };
    Ok(Some(bytes / 1e6))
}

/// Results of all rounds of a workload.
pub(crate) struct Measured {
    pub(crate) workload: &'static str,
    /// Time to fill the cluster.
    pub(crate) filled: Duration,
    pub(crate) rounds: Vec<Round>,
}

/// Runs all rounds on a cluster per workload, and returns the results as text.
pub(crate) async fn measure(size: Size, rounds: usize, workloads: &[Workload]) -> Result<String> {
    let mut all = Vec::new();
    for workload in workloads {
        let filled = Filled::fill(workload, size).await?;
        print_line(&format!("{}: filled within {:?}", workload.id, filled.took));
        let mut next = size.existing;
        let mut pod = || {
            next += 1;
            (workload.pod)(next, &size)
        };
        let warm = filled.start(By::Lister, pod()).await?;
        print_line(&format!("not counted: {warm:?}"));
        let mut done = Vec::new();
        for round in 0..rounds {
            let mut order = By::ALL;
            order.rotate_left(round % By::ALL.len());
            // Every second round is reversed, so that garbage one program leaves in the API server does not always
            // affect the same next one.
            if round % 2 == 1 {
                order.reverse();
            }
            let mut starts = Vec::new();
            for by in order {
                let start = filled.start(by, pod()).await?;
                print_line(&format!("round {} of {rounds}: {}: {start:?}", round + 1, by.as_str()));
                starts.push((by, start));
            }
            starts.sort_by_key(|(by, _)| *by as usize);
            let starts: Vec<Start> = starts.into_iter().map(|(_, start)| start).collect();
            done.push(Round::try_from(starts).map_err(|_| anyhow::anyhow!("each has started"))?);
        }
        all.push(Measured { workload: workload.id, filled: filled.took, rounds: done });
    }
    Ok(start_tables::section(size, rounds, &all))
}
