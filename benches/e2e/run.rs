//! One run: a binder on freshly restored data, with a burst and with pods at fixed rates.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

use crate::harness::{ControlPlane, http, plane::ADMIN_TOKEN};
use crate::side::{Running, Side};
use crate::stage::{Scene, Stage};
use crate::watch::Bound;
use crate::workloads::{Size, Workload};

/// Timeouts for a burst, and for a rate after its last pod was due.
const PATIENCE: Duration = Duration::from_secs(180);
const DRAIN: Duration = Duration::from_secs(60);

/// How long the metrics must be unchanged before all writes are considered done.
const QUIET: Duration = Duration::from_millis(700);

/// Parameters of each run.
pub(crate) struct Plan {
    pub(crate) size: Size,
    pub(crate) rates: Vec<u32>,
    pub(crate) seconds: u32,
}

/// Results of one run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) pods_per_s: f64,
    /// From the first to the last observed binding.
    pub(crate) cpu_ms_per_pod: f64,
    /// From process start to the last binding, including lists and decisions before the first.
    pub(crate) cpu_ms_with_start: f64,
    pub(crate) writes_per_pod: f64,
    pub(crate) peak_mb: f64,
    pub(crate) rates: Vec<AtRate>,
}

/// Results of pods created at a rate.
#[derive(Debug)]
pub(crate) struct AtRate {
    pub(crate) rate: u32,
    /// From a pod's due time to its observed binding, in milliseconds; for a pod that was not bound in time, the time
    /// waited.
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) unbound: usize,
    pub(crate) cpu_ms_per_pod: f64,
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
}

/// Results of a burst, from the first to the last observed binding.
#[derive(Debug)]
pub(crate) struct Burst {
    pub(crate) pods_per_s: f64,
    pub(crate) cpu_ms_per_pod: f64,
    /// CPU time since process start.
    pub(crate) cpu_ms_with_start: f64,
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
}

pub(crate) async fn run(side: Side, workload: &Workload, plan: &Plan, stage: &mut Stage) -> Result<Outcome> {
    let scene = stage.set().await?;
    let (plane, size) = (scene.plane, plan.size);
    let before = writes(plane).await?;
    let running = side.start(plane).await?;
    let Burst { pods_per_s, cpu_ms_per_pod, cpu_ms_with_start, .. } =
        burst(&running, &scene.bound, size).await.with_context(|| plane.log_tails())?;
    let after = writes_at_rest(plane).await?;
    let rates = at_rates(workload, plan, &scene, &running).await?;
    let peak_mb = running.usage()?.peak as f64 / 1e6;
    let writes_per_pod = (after - before) / size.pods as f64;
    Ok(Outcome { pods_per_s, cpu_ms_per_pod, cpu_ms_with_start, writes_per_pod, peak_mb, rates })
}

/// Creates pods at each rate, until a rate exceeds what can be bound.
pub(crate) async fn at_rates(
    workload: &Workload,
    plan: &Plan,
    scene: &Scene<'_>,
    running: &Running,
) -> Result<Vec<AtRate>> {
    let size = plan.size;
    let mut rates = Vec::new();
    let mut next = size.existing + size.pods;
    for &rate in &plan.rates {
        let count = (rate * plan.seconds) as usize;
        let pods: Vec<Value> = (next..next + count).map(|number| (workload.pod)(number, &size)).collect();
        next += count;
        let at = at_rate(rate, pods, next, scene, running).await?;
        let is_behind = at.unbound > 0;
        rates.push(at);
        if is_behind {
            break;
        }
    }
    Ok(rates)
}

/// Waits until the pods of the burst are bound.
pub(crate) async fn burst(running: &Running, bound: &Bound, size: Size) -> Result<Burst> {
    let first = bound.until(size.existing + 1, PATIENCE).await;
    ensure!(first > size.existing, "nothing was bound");
    let (began, used) = (Instant::now(), running.usage()?.cpu);
    let last = bound.until(size.existing + size.pods, PATIENCE).await;
    ensure!(last >= size.existing + size.pods, "{} pods were not bound", size.existing + size.pods - last);
    let pods = (last - first) as f64;
    let (ended, all) = (Instant::now(), running.usage()?.cpu);
    let per_pod = |cpu: Duration, pods: f64| cpu.as_secs_f64() * 1e3 / pods;
    Ok(Burst {
        pods_per_s: pods / (ended - began).as_secs_f64(),
        cpu_ms_per_pod: per_pod(all.saturating_sub(used), pods),
        cpu_ms_with_start: per_pod(all, size.pods as f64),
        began,
        ended,
    })
}

async fn at_rate(
    rate: u32,
    pods: Vec<Value>,
    wanted: usize,
    Scene { bound, loader, .. }: &Scene<'_>,
    running: &Running,
) -> Result<AtRate> {
    let names: Vec<String> =
        pods.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect();
    let (began, used) = (Instant::now(), running.usage()?.cpu);
    let dues = loader.create_at(rate, pods).await?;
    bound.until(wanted, DRAIN).await;
    let cpu = running.usage()?.cpu.saturating_sub(used);
    let end = Instant::now();
    let seen: Vec<Option<Instant>> = names.iter().map(|name| bound.when(name)).collect();
    let waits = seen.iter().zip(&dues).map(|(seen, due)| seen.unwrap_or(end).saturating_duration_since(*due));
    let mut waits: Vec<Duration> = waits.collect();
    waits.sort_unstable();
    let percentile =
        |percent: usize| waits[(waits.len() * percent / 100).min(waits.len() - 1)].as_secs_f64() * 1e3;
    Ok(AtRate {
        rate,
        p50_ms: percentile(50),
        p99_ms: percentile(99),
        unbound: seen.iter().filter(|seen| seen.is_none()).count(),
        cpu_ms_per_pod: cpu.as_secs_f64() * 1e3 / names.len() as f64,
        began,
        ended: end,
    })
}

/// Returns the number of writes of pods, events and claims that the API server has answered.
async fn writes(plane: &ControlPlane) -> Result<f64> {
    let (status, text) = http::get(&format!("{}/metrics", plane.server()), Some(ADMIN_TOKEN)).await?;
    ensure!(status == 200, "the API server's metrics: {status}");
    let mut all = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("apiserver_request_total{")) {
        let (series, value) = line.rsplit_once(' ').context("a series has a value")?;
        let has = |label: &str, values: &[&str]| {
            values.iter().any(|value| series.contains(&format!("{label}=\"{value}\"")))
        };
        if has("resource", &["pods", "events", "resourceclaims"])
            && has("verb", &["POST", "PUT", "PATCH", "DELETE"])
        {
            all.insert(series.to_owned(), value.parse::<f64>()?);
        }
    }
    Ok(all.values().sum())
}

/// Returns the same number once it no longer grows.
async fn writes_at_rest(plane: &ControlPlane) -> Result<f64> {
    let mut last = writes(plane).await?;
    loop {
        tokio::time::sleep(QUIET).await;
        let now = writes(plane).await?;
        if now <= last {
            return Ok(now);
        }
        last = now;
    }
}
