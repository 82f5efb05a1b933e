//! The start: from the launch of a process until the binding of a pod that was there before it is seen, in a cluster full of pods that run.
//!
//! One control plane is filled once; the sides take turns on it, each round in another order, every second one backwards. A turn ends with its process, and the pod
//! it bound is deleted, so that each begins with the same cluster. The first lists after a cluster was filled are read by nobody's count.

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

use crate::lister::READ;
use crate::load::NAMESPACE;
use crate::side::{self, Running, usage};
use crate::support::{Component, ControlPlane, Program, http, plane::ADMIN_TOKEN};
use crate::workloads::{Size, Workload, node_name};
use crate::{stage, start_tables, tell};

/// How long a start may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// Who starts.
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

    /// Starts it. The lister binds this pod; the others find it.
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
                let configuration = crate::support::supercargo::configuration("default-scheduler");
                side::supercargo(plane, &configuration, &["--v=3"])
            }
        }
    }

    /// Ends it, and waits until it is gone.
    fn end(self, plane: &ControlPlane, running: Running) -> Result<()> {
        drop(running);
        if self == Self::KubeScheduler { plane.stop(Component::Scheduler) } else { Ok(()) }
    }
}

/// What came of one start.
#[derive(Debug)]
pub(crate) struct Start {
    /// From the launch until the binding was seen.
    pub(crate) s: f64,
    /// Processor time until then, its own and the API server's.
    pub(crate) cpu_s: f64,
    pub(crate) server_cpu_s: f64,
    pub(crate) peak_mb: f64,
    /// What it read of lists, if that is known.
    pub(crate) read_mb: Option<f64>,
    pub(crate) parts: Option<Parts>,
}

/// The parts of supercargo's start in seconds, by its log, and the processor time of its engine's thread.
#[derive(Debug)]
pub(crate) struct Parts {
    /// From the launch until it asks for lists.
    pub(crate) launch: f64,
    /// Until the engine has all lists whole.
    pub(crate) lists: f64,
    /// Until the pod is decided about.
    pub(crate) decision: f64,
    /// Until its binding is seen.
    pub(crate) binding: f64,
    pub(crate) engine_cpu: f64,
}

/// A round: one start of each.
pub(crate) type Round = [Start; By::ALL.len()];

/// A cluster, and how long it took to fill it.
struct Filled {
    plane: ControlPlane,
    took: Duration,
}

impl Filled {
    async fn fill(workload: &Workload, size: Size) -> Result<Self> {
        let (plane, _, took) = stage::filled(workload, size).await?;
        Ok(Self { plane, took })
    }

    /// One start, from which nothing is left.
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
            WatchEvent::Deleted(_) | WatchEvent::Error(_) => bail!("the pod is gone"),
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

/// When the log says this.
fn when(log: &str, what: &str) -> Result<Timestamp> {
    let line = log.lines().find(|line| line.contains(what));
    let line = line.with_context(|| format!("the log says nothing of {what:?}: {log}"))?;
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

/// The megabytes of lists that were read, by who read them.
async fn read(by: By, log: &str, running: &Running) -> Result<Option<f64>> {
    let bytes: f64 = match by {
        By::KubeScheduler => return Ok(None),
        By::Lister => {
            let told = log.lines().find_map(|line| line.strip_prefix(READ));
            told.context("the lister says what it read")?.parse()?
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

/// What came of all rounds of a workload.
pub(crate) struct Measured {
    pub(crate) workload: &'static str,
    /// How long it took to fill the cluster.
    pub(crate) filled: Duration,
    pub(crate) rounds: Vec<Round>,
}

/// Runs all rounds on a cluster of each workload, and tells of them as text.
pub(crate) async fn measure(size: Size, rounds: usize, workloads: &[Workload]) -> Result<String> {
    let mut all = Vec::new();
    for workload in workloads {
        let filled = Filled::fill(workload, size).await?;
        tell(&format!("{}: filled within {:?}", workload.id, filled.took));
        let mut next = size.existing;
        let mut pod = || {
            next += 1;
            (workload.pod)(next, &size)
        };
        let warm = filled.start(By::Lister, pod()).await?;
        tell(&format!("not counted: {warm:?}"));
        let mut done = Vec::new();
        for round in 0..rounds {
            let mut order = By::ALL;
            order.rotate_left(round % By::ALL.len());
            // What one leaves behind in the API server, such as garbage, is not always the same one's to bear.
            if round % 2 == 1 {
                order.reverse();
            }
            let mut starts = Vec::new();
            for by in order {
                let start = filled.start(by, pod()).await?;
                tell(&format!("round {} of {rounds}: {}: {start:?}", round + 1, by.as_str()));
                starts.push((by, start));
            }
            starts.sort_by_key(|(by, _)| *by as usize);
            let starts: Vec<Start> = starts.into_iter().map(|(_, start)| start).collect();
            done.push(Round::try_from(starts).map_err(|_| anyhow::anyhow!("each has started"))?);
        }
        all.push(Measured { workload: workload.id, filled: filled.took, rounds: done });
    }
    Ok(start_tables::tell(size, rounds, &all))
}
