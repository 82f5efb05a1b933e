//! Schedules two thousand pods through a hostile proxy: responses are late, foreign, swapped, truncated,
//! corrupted or missing, and connections break and freeze.
//!
//! Then the proxy becomes honest, and every pod must be bound once or have a reason. At no time may the
//! scheduler exceed the request rates that its backoff allows.
//!
//! Only detectable bit flips are simulated; see `crates/dev/src/harness/hostile/body.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::chaos::{PodFleet, cache_equals_a_fresh_list, name};
use crate::harness::hostile::{Fault, Hostile, RequestRecord, WINDOW, busiest};
use crate::harness::objects::{node_of, service_account_token};
use crate::harness::supercargo::{self, NAME, Setup};
use crate::harness::{Component, ControlPlane, http, nodes, wait_for};
use crate::world::{
    World, create_once, play, play_on, requested_cpu_milli, requesting, sample, scheduled_condition,
};

const PODS: usize = 2_000;
/// The number of waves in which pods are created.
const WAVES: usize = 5;
/// Capacity for exactly the pods that stay, so that a leaked reservation keeps another pod pending.
const NODES: usize = 20;
const NODE_MILLI: u64 = 8_000;
const POD_MILLI: u64 = 100;
/// The minimum number of occurrences of each fault.
const EACH_FAULT: usize = 3;
/// The types of requests that must have faults.
const MET: [&str; 8] = [
    "POST pods/binding",
    "GET pods",
    "PATCH pods/status",
    "POST events",
    "PUT leases",
    "GET leases",
    "watch pods",
    "watch nodes",
];
/// The timeout of the whole test on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);
/// The default seed of the faults; `SUPERCARGO_HOSTILE_SEED` overrides it.
const SEED: u64 = 1;

/// The planned life of a pod.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is bound and stays.
    Stays,
    /// It requests more than any node has.
    NeverFits,
    /// It is deleted right after its creation.
    GoesAtOnce,
    /// It is deleted when it is bound, or when the proxy becomes honest.
    GoesWhenBound,
}

fn fate(number: usize) -> Fate {
    match number % 20 {
        19 => Fate::NeverFits,
        7 => Fate::GoesAtOnce,
        3 | 13 => Fate::GoesWhenBound,
        _ => Fate::Stays,
    }
}

fn all(wanted: Fate) -> impl Iterator<Item = String> {
    (0..PODS).filter(move |&number| fate(number) == wanted).map(name)
}

#[tokio::test]
async fn hostile_proxy_every_pod_is_bound_once_or_explained_within_the_request_budget() -> Result<()> {
    let seed = match std::env::var("SUPERCARGO_HOSTILE_SEED") {
        Ok(text) => text.parse().context("SUPERCARGO_HOSTILE_SEED is a number")?,
        Err(_) => SEED,
    };
    let plane = ControlPlane::builder().with([Component::ControllerManager, Component::Kwok]).start().await?;
    supercargo::install(&plane).await?;
    play_on(&plane, "hostile", async |world| {
        hostile(world, seed).await.with_context(|| format!("seed {seed}"))
    })
    .await
}

async fn hostile(world: &mut World<'_>, seed: u64) -> Result<()> {
    let proxy = Arc::new(behind_a_proxy(world, seed, ("60s", "50s", "1s")).await?);
    let fleet: Vec<_> = (0..NODES)
        .map(|number| world.node(&format!("n{number}")).allocatable("cpu", &format!("{NODE_MILLI}m")))
        .collect();
    nodes::create_all(&world.client, &fleet).await?;
    world.create("first", &requesting(&json!({"cpu": format!("{POD_MILLI}m")}))).await?;
    world.bound("first").await?;
    world.delete("first").await?;
    let pod_fleet = PodFleet::default();
    let watching = tokio::spawn(pod_fleet.clone().watch(world.pods()));
    let health = HealthChecks::default();
    let looking = health.clone().look(world.supercargo.port());

    let began = Instant::now();
    proxy.record().begin();
    proxy.turn_hostile();
    create_in_waves(world, &pod_fleet).await?;
    every_fault_came_up(&proxy).await?;
    let hostile = began.elapsed();
    proxy.turn_honest();
    eprintln!(
        "hostile: seed {seed}, {} pods bound in {hostile:?}, {:?}",
        pod_fleet.seen().len(),
        proxy.record().hit
    );

    delete_all(world, all(Fate::GoesWhenBound).collect()).await?;
    every_pod_is_bound_or_has_a_reason(world, &pod_fleet).await?;
    cache_equals_a_fresh_list(world).await?;
    let took = began.elapsed();
    looking.abort();
    watching.abort();
    health.check(&world.metrics().await?);
    let record = proxy.record();
    eprintln!("hostile: seed {seed}, {took:?} in all, {:?}", record.faults);
    check_bindings(&record, &pod_fleet);
    check_budget(&record, took);
    Ok(())
}

/// Restarts the scheduler behind a proxy, with leader election and these lease times.
async fn behind_a_proxy(world: &mut World<'_>, seed: u64, terms: (&str, &str, &str)) -> Result<Hostile> {
    let token = service_account_token(&world.client, &world.name, NAME).await?;
    let access = world.plane.token_bearer(&format!("{}-proxy", world.name), &token)?;
    let proxy = Hostile::to(world.plane, &access, seed).await?;
    world.allow_election().await?;
    world.supercargo.terminate()?;
    let mut setup = Setup { server: Some(proxy.server()), ..Setup::called(&world.name) };
    setup.configuration = supercargo::elected_configuration_with(&world.name, terms);
    // Probes and metrics must not depend on reviews by the API server.
    setup.args.push("--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics".to_owned());
    world.supercargo = setup.launch(world.plane).await?;
    world.supercargo.wait_until_ready().await?;
    Ok(proxy)
}

/// Creates the pods in waves, and deletes some of them. A wave starts when a quarter of the earlier pods are
/// bound, or after ten seconds.
async fn create_in_waves(world: &World<'_>, pod_fleet: &PodFleet) -> Result<()> {
    let (size, began) = (PODS / WAVES, Instant::now());
    for wave in 0..WAVES {
        let numbers = wave * size..(wave + 1) * size;
        let creating = numbers.clone().map(|number| async move {
            let cpu = if fate(number) == Fate::NeverFits { "9".to_owned() } else { format!("{POD_MILLI}m") };
            let pod = world.pod(&name(number), &requesting(&json!({"cpu": cpu})))?;
            create_once(world.pods(), pod).await?;
            if fate(number) == Fate::GoesAtOnce {
                delete(world.pods(), &name(number)).await?;
            }
            anyhow::Ok(())
        });
        stream::iter(creating).buffer_unordered(4).try_collect::<()>().await?;
        let wanted = numbers.start / 4;
        // This only paces the waves. A scheduler that backs off may take longer.
        let _ = wait_for(&format!("{wanted} pods to be seen bound"), WINDOW, || async {
            let seen = pod_fleet.seen();
            ensure!(seen.len() >= wanted, "{} are", seen.len());
            Ok(())
        })
        .await;
        let bound = pod_fleet.seen();
        eprintln!("hostile: {} created, {} bound, {:?}", numbers.end, bound.len(), began.elapsed());
        let going = (0..numbers.end).filter(|&number| fate(number) == Fate::GoesWhenBound).map(name);
        delete_all(world, going.filter(|name| bound.contains_key(name)).collect()).await?;
    }
    Ok(())
}

async fn delete(pods: Api<Pod>, name: &str) -> Result<()> {
    match pods.delete(name, &DeleteParams::default().grace_period(0)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn delete_all(world: &World<'_>, names: Vec<String>) -> Result<()> {
    let deleting = names.into_iter().map(|name| async move { delete(world.pods(), &name).await });
    stream::iter(deleting).buffer_unordered(4).try_collect().await
}

#[tokio::test]
async fn frozen_connections_end_the_process_in_time_and_a_standby_takes_over() -> Result<()> {
    const FEW: usize = 20;
    play("frozen", async |world| {
        let proxy = behind_a_proxy(world, SEED, ("15s", "10s", "2s")).await?;
        world.node("n").create(&world.client).await?;
        for number in 0..FEW {
            world.create(&name(number), &requesting(&json!({"cpu": format!("{POD_MILLI}m")}))).await?;
        }
        wait_for("a Binding to be posted", PATIENCE, || async {
            ensure!(proxy.record().sorts.contains_key("POST pods/binding"), "there is none");
            Ok(())
        })
        .await?;
        proxy.freeze();
        // Fails if the process does not end within the 30 s that the manifests grant.
        let status = world.supercargo.terminate()?;
        ensure!(status.success(), "it ended with {status}; {}", world.supercargo.log_tail());
        let leases = Api::<Lease>::namespaced(world.client.clone(), &world.name);
        let holder = leases.get(&world.name).await?.spec.and_then(|spec| spec.holder_identity);
        ensure!(
            holder.is_some_and(|holder| !holder.is_empty()),
            "the lease was released although its requests failed"
        );

        let mut setup = Setup::called(&world.name);
        setup.configuration = supercargo::elected_configuration(&world.name);
        world.supercargo = setup.launch(world.plane).await?;
        for number in 0..FEW {
            world.bound(&name(number)).await?;
        }
        ensure!(proxy.record().bound.values().all(|count| *count == 1), "bound more than once");
        Ok(())
    })
    .await
}

/// Waits until every fault has occurred often enough, for all required types of requests.
async fn every_fault_came_up(proxy: &Hostile) -> Result<()> {
    wait_for("every fault to come up", Duration::from_secs(90), || async {
        let record = proxy.record();
        let rare = Fault::ALL.into_iter().find(|fault| record.count(*fault) < EACH_FAULT);
        ensure!(rare.is_none(), "{rare:?} is missing in {:?}", record.faults);
        let spared = MET.into_iter().find(|sort| !record.hit.contains_key(*sort));
        ensure!(spared.is_none(), "{spared:?} is missing in {:?}", record.hit);
        let lists: usize =
            record.hit.iter().filter(|(sort, _)| sort.starts_with("list ")).map(|(_, hit)| hit).sum();
        ensure!(lists >= EACH_FAULT, "{lists} lists met a fault");
        ensure!(record.retry_afters >= EACH_FAULT, "{} Retry-After", record.retry_afters);
        Ok(())
    })
    .await
}

/// Waits until the pods that stay are bound and unschedulable pods have a reason. Checks that no node is
/// overcommitted.
async fn every_pod_is_bound_or_has_a_reason(world: &World<'_>, pod_fleet: &PodFleet) -> Result<()> {
    wait_for("the pods that stay to be bound", PATIENCE, || async {
        let seen = pod_fleet.seen();
        let waiting: Vec<_> = all(Fate::Stays).filter(|name| !seen.contains_key(name)).collect();
        ensure!(waiting.is_empty(), "{} wait, first {:?}", waiting.len(), waiting.first());
        Ok(())
    })
    .await?;
    wait_for("the other pods to be gone or explained", PATIENCE, || async {
        let pods = world.pods().list(&ListParams::default()).await?.items;
        let there: BTreeSet<_> = pods.iter().map(ResourceExt::name_any).collect();
        let wanted: BTreeSet<_> = all(Fate::Stays).chain(all(Fate::NeverFits)).collect();
        ensure!(
            there == wanted,
            "not the pods that are to be there: {:?}",
            there.symmetric_difference(&wanted)
        );
        let explained = explained(world).await?;
        for pod in pods.iter().filter(|pod| node_of(pod).is_none()) {
            let name = pod.name_any();
            let is_unschedulable = scheduled_condition(pod)
                .is_some_and(|condition| condition.reason.as_deref() == Some("Unschedulable"));
            ensure!(
                is_unschedulable || explained.contains(&name),
                "{name} is pending without a reported reason"
            );
        }
        for (node, milli) in requested_cpu_milli(&pods)? {
            assert!(milli <= NODE_MILLI, "{node} has {milli}m of {NODE_MILLI}m");
        }
        Ok(())
    })
    .await
}

/// Returns the pods with a FailedScheduling event.
async fn explained(world: &World<'_>) -> Result<BTreeSet<String>> {
    let api = Api::<Event>::namespaced(world.client.clone(), &world.name);
    let failed = ListParams::default().fields("reason=FailedScheduling");
    let events = api.list(&failed).await?.items.into_iter();
    let explaining =
        events.filter(|event| event.note.as_ref().is_some_and(|note| note.contains("nodes are available")));
    Ok(explaining.filter_map(|event| event.regarding?.name).collect())
}

/// Checks that no pod moved, and that the API server accepted at most one Binding for each.
fn check_bindings(record: &RequestRecord, pod_fleet: &PodFleet) {
    let seen = pod_fleet.seen();
    let moved: Vec<_> = seen.iter().filter(|(_, nodes)| nodes.len() > 1).collect();
    assert!(moved.is_empty(), "on more than one node: {moved:?}");
    let twice: Vec<_> = record.bound.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "bound more than once: {twice:?}");
    assert!(record.bound.len() >= seen.len(), "{} Bindings for {} pods", record.bound.len(), seen.len());
}

/// A reflector's minimum backoff in seconds (`crates/apiserver/src/watch/backoff.rs`).
const PAUSE_MIN: f64 = 0.8;
/// The maximum number of requests of all reflectors in a [`WINDOW`]: a burst of 100, and 50 per second
/// (`crates/apiserver/src/watch/backoff.rs`).
const REFLECTORS: usize = 100 + 50 * WINDOW.as_secs() as usize;
/// Returns the maximum number of lists.
///
/// After a failure that forces a list, the backoff does not reset for two minutes. In that time, backoffs of
/// 0.8 s, 1.6 s, … allow eight lists (`crates/apiserver/src/watch/tests/rates.rs`). The first list, and one for each
/// further two minutes of the test, are added.
fn lists_max(took: Duration) -> usize {
    (8 + 1) * (1 + (took.as_secs() / 120) as usize)
}

/// Returns the maximum number of requests of this type for one object in a [`WINDOW`].
fn limit_of(sort: &str) -> Option<usize> {
    let paced = (WINDOW.as_secs_f64() / PAUSE_MIN) as usize + 1;
    Some(match sort.split(' ').next()? {
        "watch" | "list" | "probe" => paced,
        // A complete list in pages of 500.
        "page" => paced * (PODS / 500 + 1),
        _ => match sort {
            // Repeated after a query: at once, and after 0.5 s, 1 s, 2 s and 4 s. A `Retry-After` is at least
            // one second.
            "POST pods/binding" | "GET pods" => 2 + WINDOW.as_secs() as usize,
            // Four attempts for each decision: at once, and after 1 s, 2 s and 4 s.
            "PATCH pods/status" => 4 * 4,
            // Ten seconds between attempts. A `Retry-After` is at least one second.
            "POST events" | "PATCH events" => 1 + WINDOW.as_secs() as usize,
            // One attempt per second: a write, or a write, a read and a write.
            "PUT leases" => 2 * (1 + WINDOW.as_secs() as usize),
            "GET leases" => 1 + WINDOW.as_secs() as usize,
            _ => return None,
        },
    })
}

/// Checks that requests are not more frequent than backoff allows, and that none ignored a `Retry-After`.
fn check_budget(record: &RequestRecord, took: Duration) {
    assert!(record.early.is_empty(), "before Retry-After: {:?}", record.early);
    let mut most: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for ((sort, object), times) in &record.objects {
        let entry = most.entry(sort).or_default();
        *entry = (*entry).max((busiest(times), object));
    }
    for (sort, times) in &record.sorts {
        let (busy, object) = most.get(&**sort).copied().unwrap_or_default();
        eprintln!("{:>6} {sort:32} {busy:>4} in {WINDOW:?} of {object}", times.len());
    }
    for (sort, (busy, object)) in &most {
        let limit = limit_of(sort);
        assert!(
            limit.is_none_or(|limit| *busy <= limit),
            "{sort} {object}: {busy} in {WINDOW:?}, not {limit:?}"
        );
    }
    let of = |words: &[&str]| {
        let sorts = record.sorts.iter().filter(|(sort, _)| words.iter().any(|word| sort.starts_with(word)));
        let mut times: Vec<_> = sorts.flat_map(|(_, times)| times.iter().copied()).collect();
        times.sort_unstable();
        times
    };
    let reflectors = busiest(&of(&["watch ", "list ", "page ", "probe "]));
    assert!(reflectors <= REFLECTORS, "{reflectors} lists and watches in {WINDOW:?}, {REFLECTORS} at most");
    for (sort, times) in record.sorts.iter().filter(|(sort, _)| sort.starts_with("list ")) {
        let most = lists_max(took);
        assert!(times.len() <= most, "{sort}: {} in {took:?}, {most} at most", times.len());
    }
    // About one in three requests has a fault, so each pod needs fewer than two attempts of each type on
    // average.
    for sort in ["POST pods/binding", "GET pods", "PATCH pods/status", "POST events"] {
        let count = record.sorts.get(sort).map_or(0, Vec::len);
        assert!(count <= 3 * PODS, "{sort}: {count} for {PODS} pods");
    }
}

/// Continuous checks of the scheduler's health.
#[derive(Clone, Default)]
struct HealthChecks {
    seen: Arc<Mutex<HealthResults>>,
}

#[derive(Default)]
struct HealthResults {
    looks: usize,
    /// Responses of `/livez` other than 200.
    dead: Vec<String>,
    /// The maximum number of pods that were in no place of the queue, or in two.
    lost: f64,
}

impl HealthChecks {
    fn look(self, port: u16) -> JoinHandle<()> {
        tokio::spawn(async move {
            let url = format!("https://127.0.0.1:{port}");
            let mut ticks = tokio::time::interval(Duration::from_millis(250));
            loop {
                ticks.tick().await;
                let livez = http::get(&format!("{url}/livez?verbose"), None).await;
                let metrics = http::get(&format!("{url}/metrics"), None).await;
                let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                if !matches!(livez, Ok((200, _))) {
                    seen.dead.push(format!("{livez:?}"));
                }
                let lost = metrics.ok().and_then(|(_, text)| sample(&text, "supercargo_lost_pods"));
                seen.lost = seen.lost.max(lost.unwrap_or_default());
                seen.looks += usize::from(lost.is_some());
            }
        })
    }

    fn check(&self, metrics: &str) {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(seen.looks > 20, "{} looks show nothing", seen.looks);
        assert_eq!(seen.dead, [""; 0], "/livez");
        assert_eq!(seen.lost, 0.0, "lost pods at some moment");
        for series in ["supercargo_lost_pods", "supercargo_lost_pods_repaired_total"] {
            assert_eq!(sample(metrics, series), Some(0.0), "{series}");
        }
    }
}
