//! The cost of queries: the same burst and rates with supercargo, with and without a client that continuously queries
//! pending pods. Each run starts with the same data, and the two alternate, also in which is first.
//!
//! Another holder keeps the Lease until supercargo has listed everything and, with queries, has answered. The burst
//! starts when it leads.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

use crate::asker::{Asker, QueryResults};
use crate::harness::http;
use crate::harness::objects::service_account_token;
use crate::load::{NAMESPACE, post};
use crate::print_line;
use crate::report::{Numbers, Table, circumstances};
use crate::run::{self, AtRate, Burst, Plan};
use crate::side::{self, Running};
use crate::stage::{Scene, Stage};
use crate::workloads::Workload;

/// It leads soon after the Lease is free, and keeps it on a busy machine.
const CONFIGURATION: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
    leaderElection: {leaderElect: true, leaseDuration: 60s, renewDeadline: 40s, retryPeriod: 200ms, \
    resourceNamespace: load, resourceName: supercargo}\n";
/// Timeout for readiness.
const READY: Duration = Duration::from_secs(120);

/// Results of one run.
#[derive(Debug)]
struct Outcome {
    burst: Burst,
    rates: Vec<AtRate>,
    /// Queries during the burst and during each rate; empty without a client.
    asked: Vec<QueryResults>,
}

/// A measurement of a burst.
type OfBurst = fn(&Burst) -> f64;

/// Both runs of a round.
struct Pair {
    workload: &'static str,
    alone: Outcome,
    asked: Outcome,
}

fn name(number: usize) -> String {
    format!("nowhere-{number:05}")
}

/// Returns an unschedulable pod: its requests exceed every node.
fn nowhere(number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name(number), "namespace": NAMESPACE, "labels": {"app": "nowhere"}},
        "spec": {"containers": [{"name": "c", "image": "example.com/nowhere",
            "resources": {"requests": {"cpu": "10000", "memory": "1Gi"}}}]},
    })
}

/// Runs all rounds and returns the results as text.
pub(crate) async fn measure(
    plan: &Plan,
    rounds: usize,
    waiting: usize,
    workloads: &[Workload],
) -> Result<String> {
    let mut pairs = Vec::new();
    for workload in workloads {
        let mut stage = Stage::fill(workload, plan.size, (0..waiting).map(nowhere).collect()).await?;
        for round in 1..=rounds {
            let mut both = [None, None];
            for is_asked in [round % 2 == 0, round % 2 != 0] {
                let outcome = one(workload, plan, waiting, is_asked, &mut stage).await?;
                let by = if is_asked { "with queries" } else { "without queries" };
                print_line(&format!("round {round} of {rounds}: {} {by}: {outcome:?}", workload.id));
                both[usize::from(is_asked)] = Some(outcome);
            }
            let [Some(alone), Some(asked)] = both else { continue };
            pairs.push(Pair { workload: workload.id, alone, asked });
        }
    }
    Ok(section(plan, rounds, waiting, workloads, &pairs))
}

async fn one(
    workload: &Workload,
    plan: &Plan,
    waiting: usize,
    is_asked: bool,
    stage: &mut Stage,
) -> Result<Outcome> {
    let scene = stage.set().await?;
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases");
    let admin = scene.plane.admin();
    post(&admin.client().await?, &leases, &held()).await?;
    let running = side::supercargo(scene.plane, CONFIGURATION, &["--allow-second-default-scheduler"])?;
    ready(&running).await.with_context(|| scene.plane.log_tails())?;
    let asker = match is_asked {
        true => Some(asking(&scene, &running, waiting).await?),
        false => None,
    };
    admin.kubectl(&["delete", "lease", "supercargo", "-n", NAMESPACE]).await?;
    let burst =
        run::burst(&running, &scene.bound, plan.size).await.with_context(|| scene.plane.log_tails())?;
    let mut asked = Vec::new();
    asked.extend(asker.as_ref().map(|asker| asker.between(burst.began, burst.ended)).transpose()?);
    let rates = run::at_rates(workload, plan, &scene, &running).await?;
    for at in &rates {
        asked.extend(asker.as_ref().map(|asker| asker.between(at.began, at.ended)).transpose()?);
    }
    Ok(Outcome { burst, rates, asked })
}

/// Returns the Lease with another holder for the next hour.
fn held() -> Value {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "supercargo", "namespace": NAMESPACE},
        "spec": {"holderIdentity": "bench", "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now},
    })
}

/// Waits until supercargo is ready.
async fn ready(running: &Running) -> Result<()> {
    let port = running.port().context("supercargo has a port")?;
    let by = Instant::now() + READY;
    loop {
        let said = http::get(&format!("https://127.0.0.1:{port}/readyz"), None).await;
        if said.as_ref().is_ok_and(|(status, _)| *status == 200) {
            return Ok(());
        }
        ensure!(Instant::now() < by, "supercargo is not ready: {said:?}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Starts a client and waits for its first answer.
async fn asking(scene: &Scene<'_>, running: &Running, waiting: usize) -> Result<Asker> {
    let port = running.port().context("supercargo has a port")?;
    let asker = Asker::begin(port, &reader(scene).await?, (0..waiting).map(name).collect())?;
    let by = Instant::now() + READY;
    while asker.is_unanswered() {
        ensure!(Instant::now() < by, "no query is answered: {}", asker.refusal());
        sleep(Duration::from_millis(50)).await;
    }
    Ok(asker)
}

/// Returns a token that may only read the namespace's pods.
async fn reader(scene: &Scene<'_>) -> Result<String> {
    let (admin, account) = (scene.plane.admin(), format!("--serviceaccount={NAMESPACE}:default"));
    // No controller aggregates the shipped user roles here.
    admin.kubectl(&["create", "role", "reader", "--verb=get", "--resource=pods", "-n", NAMESPACE]).await?;
    admin.kubectl(&["create", "rolebinding", "reader", "--role=reader", &account, "-n", NAMESPACE]).await?;
    service_account_token(&admin.client().await?, NAMESPACE, "default").await
}

fn numbers<'p>(pairs: &'p [Pair], workload: &str, number: impl Fn(&'p Pair) -> Option<f64>) -> String {
    pairs
        .iter()
        .filter(|pair| pair.workload == workload)
        .filter_map(number)
        .collect::<Numbers>()
        .median_and_range()
}

fn section(plan: &Plan, rounds: usize, waiting: usize, workloads: &[Workload], pairs: &[Pair]) -> String {
    let size = plan.size;
    let named = workloads.iter().map(|workload| format!("--workload {}", workload.id));
    let at = plan.rates.iter().map(|rate| format!("--rate {rate}"));
    let flags: Vec<String> = named.chain(at).collect();
    format!(
        "{}\n\n{} nodes, {} pods on them, {waiting} unschedulable pods; medians of {rounds} interleaved rounds with their ranges, ratios of \
         pairs. One client on the same machine queries continuously, alternating between one pod's reasons (`/debug/explain`) and all pending pods \
         (`/debug/pending`). `cargo bench --bench e2e -- --part asked {} --nodes {} --existing {} --pods {} --seconds {} --waiting {waiting} --rounds {rounds}` repeats \
         the run.\n\n\
         A burst of {} pods:\n\n{}\nPods created at a fixed rate for {} seconds, from the due time of each to its observed binding, in \
         milliseconds:\n\n{}\nLatency of the queries, in milliseconds:\n\n{}\n",
        circumstances("kube-apiserver v1.36.3, etcd v3.7.3"),
        size.nodes,
        size.existing,
        flags.join(" "),
        size.nodes,
        size.existing,
        size.pods,
        plan.seconds,
        size.pods,
        bursts(workloads, pairs),
        plan.seconds,
        rates(plan, workloads, pairs),
        answers(plan, workloads, pairs),
    )
}

fn bursts(workloads: &[Workload], pairs: &[Pair]) -> String {
    let mut table = Table::new(&["workload", "", "pods/s", "CPU ms per pod"]);
    let all: [OfBurst; 2] = [|burst| burst.pods_per_s, |burst| burst.cpu_ms_per_pod];
    for workload in workloads.iter().map(|workload| workload.id) {
        let alone = all.map(|of| numbers(pairs, workload, |pair| Some(of(&pair.alone.burst))));
        let asked = all.map(|of| numbers(pairs, workload, |pair| Some(of(&pair.asked.burst))));
        let ratio = all
            .map(|of| numbers(pairs, workload, |pair| Some(of(&pair.asked.burst) / of(&pair.alone.burst))));
        for (by, cells) in [("without queries", alone), ("with queries", asked), ("ratio", ratio)] {
            let head = [workload.to_owned(), by.to_owned()];
            table.row(&head.into_iter().chain(cells).collect::<Vec<_>>());
        }
    }
    table.text().to_owned()
}

fn rates(plan: &Plan, workloads: &[Workload], pairs: &[Pair]) -> String {
    let mut table =
        Table::new(&["workload", "pods/s", "", "p50", "p99", "CPU ms per pod", "unbound after a minute"]);
    let all: [fn(&AtRate) -> f64; 4] =
        [|at| at.p50_ms, |at| at.p99_ms, |at| at.cpu_ms_per_pod, |at| at.unbound as f64];
    for workload in workloads.iter().map(|workload| workload.id) {
        for (number, rate) in plan.rates.iter().enumerate() {
            for (by, is_asked) in [("without queries", false), ("with queries", true)] {
                let cells = all.map(|field| {
                    numbers(pairs, workload, |pair| {
                        let outcome = if is_asked { &pair.asked } else { &pair.alone };
                        Some(field(outcome.rates.get(number)?))
                    })
                });
                let head = [workload.to_owned(), rate.to_string(), by.to_owned()];
                table.row(&head.into_iter().chain(cells).collect::<Vec<_>>());
            }
        }
    }
    table.text().to_owned()
}

fn answers(plan: &Plan, workloads: &[Workload], pairs: &[Pair]) -> String {
    let mut table =
        Table::new(&["workload", "during", "answers/s", "explain p50", "p99", "pending p50", "p99"]);
    let all: [fn(&QueryResults) -> f64; 5] = [
        |asked| asked.answers_per_s,
        |asked| asked.explain_ms[0],
        |asked| asked.explain_ms[1],
        |asked| asked.pending_ms[0],
        |asked| asked.pending_ms[1],
    ];
    let during = std::iter::once("the burst".to_owned());
    let during: Vec<String> = during.chain(plan.rates.iter().map(|rate| format!("{rate} pods/s"))).collect();
    for workload in workloads.iter().map(|workload| workload.id) {
        for (number, during) in during.iter().enumerate() {
            let cells =
                all.map(|field| numbers(pairs, workload, |pair| Some(field(pair.asked.asked.get(number)?))));
            let head = [workload.to_owned(), during.clone()];
            table.row(&head.into_iter().chain(cells).collect::<Vec<_>>());
        }
    }
    table.text().to_owned()
}
