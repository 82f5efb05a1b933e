//! Measures a group of a thousand members that no node can take: the CPU time that the scheduler uses while nothing
//! happens, and how fast the group starts once a node with room appears. Every run has a control plane of its own.
//!
//! The no-op binder starts when there is room; its rate is the API server's upper bound.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

use crate::harness::groups::GroupApi;
use crate::harness::{Component, ControlPlane, binaries::chosen_version, supercargo::configuration};
use crate::load::{Loader, NAMESPACE};
use crate::report::{Numbers, Table, circumstances};
use crate::side::{self, Running, Side};
use crate::watch::Bound;
use crate::workloads::{Size, objects};
use crate::{print_line, stage};

/// How long the scheduler may take to decide on the group and to settle.
const SETTLE: Duration = Duration::from_secs(20);
/// How long its CPU time is measured while nothing happens.
const IDLE: Duration = Duration::from_secs(30);
/// Timeout of a start.
const PATIENCE: Duration = Duration::from_secs(180);

/// Results of one run.
#[derive(Debug)]
struct Outcome {
    /// Share of one CPU while nothing happens, in percent; `None` for the no-op binder.
    idle_percent: Option<f64>,
    /// From the created node to the first and the last observed binding, in milliseconds.
    first_ms: f64,
    last_ms: f64,
    pods_per_s: f64,
    cpu_ms_per_pod: f64,
}

/// Runs all sides in turn. Returns the section of `docs/benchmarks.md`.
pub(crate) async fn measure(size: Size, rounds: usize, sides: &[Side]) -> Result<String> {
    let version = chosen_version();
    let api = GroupApi::of(&version).context("pod groups exist from 1.36 on")?;
    let mut outcomes: Vec<Vec<Outcome>> = sides.iter().map(|_| Vec::new()).collect();
    for round in 1..=rounds {
        for turn in 0..sides.len() {
            let at = (round + turn) % sides.len();
            let outcome = run(api, sides[at], size).await?;
            print_line(&format!("round {round} of {rounds}: {}: {outcome:?}", sides[at].as_str()));
            outcomes[at].push(outcome);
        }
    }
    let mut table = Table::new(&[
        "by",
        "CPU while the group waits, % of one CPU",
        "first binding, ms",
        "last binding, ms",
        "pods/s",
        "CPU ms per pod",
        "pods/s, ratio to the no-op binder",
    ]);
    let null = sides.iter().position(|side| *side == Side::NullBinder);
    for (at, side) in sides.iter().enumerate() {
        let numbers = |number: fn(&Outcome) -> f64| {
            outcomes[at].iter().map(number).collect::<Numbers>().median_and_range()
        };
        let ratios = null.map(|null| {
            let pairs = outcomes[at].iter().zip(&outcomes[null]);
            pairs.map(|(own, null)| own.pods_per_s / null.pods_per_s).collect::<Numbers>().median_and_range()
        });
        let idle = outcomes[at].iter().filter_map(|outcome| outcome.idle_percent);
        table.row(&[
            side.as_str().to_owned(),
            idle.collect::<Numbers>().median_and_range(),
            numbers(|outcome| outcome.first_ms),
            numbers(|outcome| outcome.last_ms),
            numbers(|outcome| outcome.pods_per_s),
            numbers(|outcome| outcome.cpu_ms_per_pod),
            ratios.unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    let Size { nodes, pods, .. } = size;
    Ok(format!(
        "{}\n\n{nodes} full nodes, a gang of {pods} members that waits, then one more node that takes them all; medians of \
         {rounds} interleaved rounds with their ranges. `cargo bench --bench e2e -- --part group --nodes {nodes} --pods \
         {pods} --rounds {rounds}` repeats the run.\n\n{}",
        circumstances(&format!("Kubernetes {version}, client limits of kube-scheduler raised")),
        table.text(),
    ))
}

async fn run(api: GroupApi, side: Side, size: Size) -> Result<Outcome> {
    // No controller runs here that removes the not-ready taint of new nodes.
    let no_taint = "--disable-admission-plugins=TaintNodesByCondition";
    let plane = ControlPlane::builder().with_groups().arg(Component::ApiServer, no_taint).start().await?;
    let loader = Loader::new(&plane.admin()).await?;
    loader.prepare().await?;
    let full = json!({"cpu": "0", "memory": "1Gi", "pods": "110"});
    loader.create((0..size.nodes).map(|number| objects::node(number, &full))).await?;
    loader.create([group(api, size.pods)].into_iter()).await?;
    loader.create((0..size.pods).map(member)).await?;
    let bound = Bound::follow(&plane.admin(), 0).await?;
    stage::rest(&plane).await?;
    let outcome = async {
        let (running, idle_percent) = match side {
            Side::NullBinder => (None, None),
            _ => {
                let running = start(&plane, api, side).await?;
                let percent = idle(&running).await?;
                (Some(running), Some(percent))
            }
        };
        let room = json!({"cpu": "2000", "memory": "2000Gi", "pods": (size.pods + 10).to_string()});
        loader.create([objects::node(size.nodes, &room)].into_iter()).await?;
        let created = Instant::now();
        let running = match running {
            Some(running) => running,
            None => start(&plane, api, side).await?,
        };
        starts(&running, &bound, (size.pods, created), idle_percent).await
    };
    outcome.await.with_context(|| plane.log_tails())
}

/// Starts a side with the gates of pod groups.
async fn start(plane: &ControlPlane, api: GroupApi, side: Side) -> Result<Running> {
    match side {
        Side::Supercargo => {
            side::supercargo(plane, &configuration("default-scheduler"), &[&api.gates_flag()])
        }
        _ => side.start(plane).await,
    }
}

/// Waits until the group was decided, and returns the share of a CPU that the scheduler uses from then on.
async fn idle(running: &Running) -> Result<f64> {
    sleep(SETTLE).await;
    let (before, began) = (running.usage()?.cpu, Instant::now());
    sleep(IDLE).await;
    let used = running.usage()?.cpu.saturating_sub(before);
    Ok(100.0 * used.as_secs_f64() / began.elapsed().as_secs_f64())
}

/// Waits until all members are bound.
async fn starts(
    running: &Running,
    bound: &Bound,
    (pods, created): (usize, Instant),
    idle_percent: Option<f64>,
) -> Result<Outcome> {
    let used = running.usage()?.cpu;
    let before = bound.until(1, PATIENCE).await;
    ensure!(before > 0, "nothing was bound");
    let first = Instant::now();
    let all = bound.until(pods, PATIENCE).await;
    ensure!(all == pods, "{} of {pods} members were not bound", pods - all);
    let (last, cpu) = (Instant::now(), running.usage()?.cpu.saturating_sub(used));
    let ms = |at: Instant| (at - created).as_secs_f64() * 1e3;
    Ok(Outcome {
        idle_percent,
        first_ms: ms(first),
        last_ms: ms(last),
        pods_per_s: (pods - before) as f64 / (last - first).as_secs_f64(),
        cpu_ms_per_pod: cpu.as_secs_f64() * 1e3 / pods as f64,
    })
}

/// Returns a gang that needs all its members.
fn group(api: GroupApi, members: usize) -> Value {
    json!({
        "apiVersion": format!("scheduling.k8s.io/{}", api.version), "kind": "PodGroup",
        "metadata": {"name": "gang", "namespace": NAMESPACE},
        "spec": {"schedulingPolicy": {"gang": {"minCount": members}}},
    })
}

fn member(number: usize) -> Value {
    let pod = objects::pod(&format!("member-{number:05}"), json!({"app": "gang"}), &json!({"cpu": "1"}));
    objects::with(pod, "schedulingGroup", json!({"podGroupName": "gang"}))
}
