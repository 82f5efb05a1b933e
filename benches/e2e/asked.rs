//! What it costs that somebody asks: the same burst and the same rates by supercargo, with and without a client that asks about pending pods
//! without a pause. Each run begins with the same data; the two take turns, and which of them is first, too.
//!
//! Somebody else holds the Lease until supercargo has listed all and, where somebody asks, has answered: the burst begins when it leads.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

use crate::asker::{Asked, Asker};
use crate::load::{NAMESPACE, post};
use crate::report::{Numbers, Table, circumstances};
use crate::run::{self, AtRate, Burst, Plan};
use crate::side::{self, Running};
use crate::stage::{Scene, Stage};
use crate::support::http;
use crate::support::objects::service_account_token;
use crate::tell;
use crate::workloads::Workload;

/// It leads soon after the Lease is free, and keeps it however busy the machine is.
const CONFIGURATION: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
    leaderElection: {leaderElect: true, leaseDuration: 60s, renewDeadline: 40s, retryPeriod: 200ms, \
    resourceNamespace: load, resourceName: supercargo}\n";
/// How long it may take to be ready.
const READY: Duration = Duration::from_secs(120);

/// What came of one run.
#[derive(Debug)]
struct Outcome {
    burst: Burst,
    rates: Vec<AtRate>,
    /// Of the questions during the burst, and during each rate; none where nobody asked.
    asked: Vec<Asked>,
}

/// A number of a burst.
type OfBurst = fn(&Burst) -> f64;

/// Both of a round.
struct Pair {
    workload: &'static str,
    alone: Outcome,
    asked: Outcome,
}

fn name(number: usize) -> String {
    format!("nowhere-{number:05}")
}

/// A pod that fits nowhere: it asks for more than any node has.
fn nowhere(number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name(number), "namespace": NAMESPACE, "labels": {"app": "nowhere"}},
        "spec": {"containers": [{"name": "c", "image": "example.com/nowhere",
            "resources": {"requests": {"cpu": "10000", "memory": "1Gi"}}}]},
    })
}

/// Runs all rounds and tells of them as text.
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
                let by = if is_asked { "with questions" } else { "without" };
                tell(&format!("round {round} of {rounds}: {} {by}: {outcome:?}", workload.id));
                both[usize::from(is_asked)] = Some(outcome);
            }
            let [Some(alone), Some(asked)] = both else { continue };
            pairs.push(Pair { workload: workload.id, alone, asked });
        }
    }
    Ok(told(plan, rounds, waiting, workloads, &pairs))
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

/// The Lease, held by somebody for the next hour.
fn held() -> Value {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "supercargo", "namespace": NAMESPACE},
        "spec": {"holderIdentity": "nobody", "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now},
    })
}

/// Waits until all is listed.
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

/// Somebody who asks and is answered.
async fn asking(scene: &Scene<'_>, running: &Running, waiting: usize) -> Result<Asker> {
    let port = running.port().context("supercargo has a port")?;
    let asker = Asker::begin(port, &reader(scene).await?, (0..waiting).map(name).collect())?;
    let by = Instant::now() + READY;
    while asker.is_unanswered() {
        ensure!(Instant::now() < by, "no question is answered: {}", asker.refusal());
        sleep(Duration::from_millis(50)).await;
    }
    Ok(asker)
}

/// The token of a ServiceAccount that may get the pods of the namespace and nothing else.
async fn reader(scene: &Scene<'_>) -> Result<String> {
    let (admin, account) = (scene.plane.admin(), format!("--serviceaccount={NAMESPACE}:default"));
    // Nobody here puts the shipped roles for users together.
    admin.kubectl(&["create", "role", "reader", "--verb=get", "--resource=pods", "-n", NAMESPACE]).await?;
    admin.kubectl(&["create", "rolebinding", "reader", "--role=reader", &account, "-n", NAMESPACE]).await?;
    service_account_token(&admin.client().await?, NAMESPACE, "default").await
}

fn numbers<'p>(pairs: &'p [Pair], workload: &str, number: impl Fn(&'p Pair) -> Option<f64>) -> String {
    pairs.iter().filter(|pair| pair.workload == workload).filter_map(number).collect::<Numbers>().told()
}

fn told(plan: &Plan, rounds: usize, waiting: usize, workloads: &[Workload], pairs: &[Pair]) -> String {
    let size = plan.size;
    let named = workloads.iter().map(|workload| format!("--workload {}", workload.id));
    let at = plan.rates.iter().map(|rate| format!("--rate {rate}"));
    let flags: Vec<String> = named.chain(at).collect();
    format!(
        "{}\n\n{} nodes, {} pods on them, {waiting} pods that fit nowhere; medians of {rounds} interleaved rounds with their ranges, ratios of \
         pairs. One client asks without a pause, by turns why a pod waits (`/debug/explain`) and where all do (`/debug/pending`); it runs on the same \
         machine. `cargo bench --bench e2e -- --part asked {} --nodes {} --existing {} --pods {} --seconds {} --waiting {waiting} --rounds {rounds}` repeats \
         it.\n\n\
         A burst of {} pods:\n\n{}\nPods created at a fixed rate for {} seconds, from the moment each was due until it was seen to be bound, in \
         milliseconds:\n\n{}\nThe answers, in milliseconds:\n\n{}\n",
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
        for (by, cells) in [("nobody asks", alone), ("somebody asks", asked), ("ratio", ratio)] {
            let head = [workload.to_owned(), by.to_owned()];
            table.row(&head.into_iter().chain(cells).collect::<Vec<_>>());
        }
    }
    table.text().to_owned()
}

fn rates(plan: &Plan, workloads: &[Workload], pairs: &[Pair]) -> String {
    let mut table =
        Table::new(&["workload", "pods/s", "", "p50", "p99", "CPU ms per pod", "not bound in a minute"]);
    let all: [fn(&AtRate) -> f64; 4] =
        [|at| at.p50_ms, |at| at.p99_ms, |at| at.cpu_ms_per_pod, |at| at.unbound as f64];
    for workload in workloads.iter().map(|workload| workload.id) {
        for (number, rate) in plan.rates.iter().enumerate() {
            for (by, is_asked) in [("nobody asks", false), ("somebody asks", true)] {
                let cells = all.map(|told| {
                    numbers(pairs, workload, |pair| {
                        let outcome = if is_asked { &pair.asked } else { &pair.alone };
                        Some(told(outcome.rates.get(number)?))
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
    let all: [fn(&Asked) -> f64; 5] = [
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
                all.map(|told| numbers(pairs, workload, |pair| Some(told(pair.asked.asked.get(number)?))));
            let head = [workload.to_owned(), during.clone()];
            table.row(&head.into_iter().chain(cells).collect::<Vec<_>>());
        }
    }
    table.text().to_owned()
}
