//! Interruptions under load: restarts of supercargo and the API server, and token renewal. No pod is lost or bound
//! twice, no node is overcommitted, and no manual action is needed.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::harness::objects::node_of;
use crate::harness::supercargo::{self, NAME};
use crate::harness::wait::PATIENCE;
use crate::harness::{Access, Component, ControlPlane, nodes, wait_for};
use crate::world::{World, create_once, play, play_on, requested_cpu_milli, requesting};

/// Ten nodes, filled exactly by pods of 100 millicores.
const NODES: usize = 10;
const POD_MILLI: u64 = 100;

/// Timeout for token renewal; the client rereads the token once a minute.
const TOKEN_PATIENCE: Duration = Duration::from_secs(150);

#[tokio::test]
async fn kill_during_500_pods_loses_none_and_overcommits_nothing() -> Result<()> {
    play("killed", async |world| {
        let pod_fleet = PodFleet::new(world, 500).await?;
        let creating = pod_fleet.create(world);
        pod_fleet.placed_at_least(world, 100).await?;
        world.supercargo.kill()?;
        creating.await??;
        let placed = pod_fleet.placed(world).await?.len();
        ensure!(placed < pod_fleet.count, "it was too fast to be killed in the middle");
        world.supercargo.start_again(world.plane)?;
        pod_fleet.check_in_the_end(world).await
    })
    .await
}

/// Bindings in flight finish; pending pods are left to the next process.
#[tokio::test]
async fn stop_finishes_bindings_in_flight_and_exits_with_0() -> Result<()> {
    play("stopped", async |world| {
        let pod_fleet = PodFleet::new(world, 300).await?;
        let creating = pod_fleet.create(world);
        pod_fleet.placed_at_least(world, 50).await?;
        let status = world.supercargo.terminate()?;
        assert_eq!(status.code(), Some(0), "{}", world.supercargo.log_tail());
        let placed = pod_fleet.placed(world).await?;
        ensure!(placed.len() < pod_fleet.count, "it was too fast to be stopped in the middle");
        // Every bound pod has an event.
        let events = event_counts(world).await?;
        let missing: Vec<&String> = placed.iter().filter(|pod| !events.contains_key(*pod)).collect();
        ensure!(missing.is_empty(), "placed without an event: {missing:?}");
        creating.await??;
        world.supercargo.start_again(world.plane)?;
        pod_fleet.check_in_the_end(world).await?;
        // The last events may arrive after the last binding.
        wait_for("exactly one event per pod", PATIENCE, || async {
            let events = event_counts(world).await?;
            let twice: Vec<_> = events.iter().filter(|(_, times)| **times > 1).collect();
            assert!(twice.is_empty(), "more than one event: {twice:?}");
            ensure!(events.len() == pod_fleet.count, "{} of {} have an event", events.len(), pod_fleet.count);
            Ok(())
        })
        .await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn scheduling_resumes_after_api_server_crash_under_load() -> Result<()> {
    let parts = [Component::ControllerManager, Component::Kwok];
    let plane = ControlPlane::builder().with(parts).start().await?;
    supercargo::install(&plane).await?;
    play_on(&plane, "crash", async |world| {
        let pod_fleet = PodFleet::new(world, 300).await?;
        let creating = pod_fleet.create(world);
        pod_fleet.placed_at_least(world, 60).await?;
        plane.kill(Component::ApiServer)?;
        plane.start(Component::ApiServer).await?;
        world.supercargo.forgive_refusals()?;
        creating.await??;
        pod_fleet.check_in_the_end(world).await?;
        world.supercargo.wait_until_ready().await
    })
    .await
}

/// An unanswered write may or may not have happened, so its resources stay reserved until the outcome is known.
#[tokio::test]
async fn hanging_api_server_under_load_causes_no_overcommit() -> Result<()> {
    let parts = [Component::ControllerManager, Component::Kwok];
    let plane = ControlPlane::builder().with(parts).start().await?;
    supercargo::install(&plane).await?;
    play_on(&plane, "hang", async |world| {
        let pod_fleet = PodFleet::new(world, 300).await?;
        let creating = pod_fleet.create(world);
        pod_fleet.placed_at_least(world, 60).await?;
        // Pods created before the API server hangs: their bindings get no answer.
        world.supercargo.pause()?;
        creating.await??;
        plane.pause(Component::ApiServer)?;
        world.supercargo.resume()?;
        wait_for("it to give up waiting for an answer", PATIENCE, || async {
            let is_lost = world.supercargo.log()?.contains("a binding whose response was lost");
            ensure!(is_lost, "nothing is lost so far");
            Ok(())
        })
        .await?;
        plane.resume(Component::ApiServer)?;
        pod_fleet.check_in_the_end(world).await
    })
    .await
}

/// A recreated ServiceAccount invalidates all its previous tokens.
#[tokio::test]
async fn renewed_token_file_is_used_without_restart() -> Result<()> {
    play("token", async |world| {
        world.node("a").create(&world.client).await?;
        world.create("before", &json!({})).await?;
        world.bound("before").await?;

        let old = std::fs::read_to_string(world.supercargo.token().path())?;
        let admin = world.plane.admin();
        for verb in ["delete", "create"] {
            admin.kubectl(&[verb, "serviceaccount", NAME, "-n", &world.name]).await?;
        }
        let bearer = world.plane.token_bearer(&format!("{}-old", world.name), &old)?;
        refused(&bearer).await?;
        world.supercargo.token().rotate().await?;
        world.create("after", &json!({})).await?;
        wait_for("the pod to be placed with the new token", TOKEN_PATIENCE, || async {
            let pod = world.pods().get("after").await?;
            ensure!(node_of(&pod).is_some(), "it has no node");
            Ok(())
        })
        .await
    })
    .await
}

/// Waits until the API server, which caches authentication, rejects this token.
async fn refused(bearer: &Access) -> Result<()> {
    let pods = Api::<Pod>::all(bearer.client().await?);
    wait_for("the old token to be rejected", PATIENCE, || async {
        match pods.list(&ListParams::default().limit(1)).await {
            Err(kube::Error::Api(status)) if status.code == 401 => Ok(()),
            other => anyhow::bail!("the answer is {:?}", other.map(|list| list.items.len())),
        }
    })
    .await
}

/// Pods that exactly fill a world's nodes, and a watch of their placements.
pub(crate) struct PodFleet {
    count: usize,
    /// Each pod's nodes, in the order seen by a watch.
    seen: Arc<Mutex<BTreeMap<String, Vec<String>>>>,
    watching: JoinHandle<()>,
}

impl PodFleet {
    /// Creates the nodes; [`Self::create`] creates the pods.
    pub(crate) async fn new(world: &World<'_>, count: usize) -> Result<Self> {
        let milli = POD_MILLI * u64::try_from(count / NODES)?;
        let fleet: Vec<_> = (0..NODES)
            .map(|number| world.node(&format!("n{number}")).allocatable("cpu", &format!("{milli}m")))
            .collect();
        nodes::create_all(&world.client, &fleet).await?;
        let seen = Arc::default();
        let watching = tokio::spawn(watch(world.pods(), Arc::clone(&seen)));
        Ok(Self { count, seen, watching })
    }

    /// Returns the number of its pods.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Creates the pods concurrently, retrying until the API server has each.
    pub(crate) fn create(&self, world: &World<'_>) -> JoinHandle<Result<()>> {
        let (pods, wanted) = (world.pods(), self.wanted(world));
        tokio::spawn(async move {
            let creating = wanted?.into_iter().map(|pod| create_once(pods.clone(), pod));
            stream::iter(creating).buffer_unordered(4).try_collect().await
        })
    }

    /// As [`Self::create`], one by one with a pause before each pod, so that the load lasts.
    pub(crate) fn create_every(&self, pause: Duration, world: &World<'_>) -> JoinHandle<Result<()>> {
        let (pods, wanted) = (world.pods(), self.wanted(world));
        tokio::spawn(async move {
            for pod in wanted? {
                tokio::time::sleep(pause).await;
                create_once(pods.clone(), pod).await?;
            }
            Ok(())
        })
    }

    fn wanted(&self, world: &World<'_>) -> Result<Vec<Pod>> {
        let spec = requesting(&json!({"cpu": format!("{POD_MILLI}m")}));
        (0..self.count).map(|number| world.pod(&format!("p{number}"), &spec)).collect()
    }

    pub(crate) async fn placed(&self, world: &World<'_>) -> Result<BTreeSet<String>> {
        let pods = world.pods().list(&ListParams::default()).await?.items;
        Ok(pods.iter().filter(|pod| node_of(pod).is_some()).map(ResourceExt::name_any).collect())
    }

    pub(crate) async fn placed_at_least(&self, world: &World<'_>, wanted: usize) -> Result<()> {
        wait_for(&format!("{wanted} pods to be placed"), PATIENCE, || async {
            let placed = self.placed(world).await?.len();
            ensure!(placed >= wanted, "{placed} are");
            Ok(())
        })
        .await
    }

    /// Checks that all pods are placed, none moved, and the nodes are exactly full.
    pub(crate) async fn check_in_the_end(&self, world: &World<'_>) -> Result<()> {
        self.placed_at_least(world, self.count).await?;
        let pods = world.pods().list(&ListParams::default()).await?.items;
        let full = POD_MILLI * u64::try_from(self.count / NODES)?;
        let requested: Vec<u64> = requested_cpu_milli(&pods)?.into_values().collect();
        assert_eq!(requested, [full; NODES], "every node is full, and none beyond");
        wait_for("the watch to see all placements", PATIENCE, || async {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            ensure!(seen.len() == self.count, "it has seen {}", seen.len());
            let moved: Vec<_> = seen.iter().filter(|(_, nodes)| nodes.len() > 1).collect();
            assert!(moved.is_empty(), "bound more than once: {moved:?}");
            Ok(())
        })
        .await
    }
}

impl Drop for PodFleet {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

/// Records every node on which a pod is seen.
async fn watch(pods: Api<Pod>, seen: Arc<Mutex<BTreeMap<String, Vec<String>>>>) {
    let mut changes = pin!(watcher(pods, watcher::Config::default()).default_backoff().applied_objects());
    while let Some(change) = changes.next().await {
        // API server outages are part of the test; the watch recovers.
        let Ok(pod) = change else { continue };
        if let Some(node) = node_of(&pod) {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            let nodes = seen.entry(pod.name_any()).or_default();
            if nodes.last().is_none_or(|last| last != node) {
                nodes.push(node.to_owned());
            }
        }
    }
}

/// Returns the number of placement events per pod.
async fn event_counts(world: &World<'_>) -> Result<BTreeMap<String, usize>> {
    let events = Api::<Event>::namespaced(world.client.clone(), &world.name);
    let mut counts = BTreeMap::new();
    for event in events.list(&ListParams::default()).await?.items {
        if event.reason.as_deref() == Some("Scheduled") {
            let about = event.regarding.and_then(|object| object.name).context("an event about nothing")?;
            *counts.entry(about).or_default() += 1;
        }
    }
    Ok(counts)
}
