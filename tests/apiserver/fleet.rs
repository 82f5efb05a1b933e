//! Pods that exactly fill the nodes of a test, and a watch of their placements: a load for tests of interruptions.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::harness::objects::node_of;
use crate::harness::wait::PATIENCE;
use crate::harness::{nodes, wait_for};
use crate::world::{World, create_once, requested_cpu_milli, requesting};

/// Ten nodes, filled exactly by pods of 100 millicores.
const NODES: usize = 10;
const POD_MILLI: u64 = 100;

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

    /// Waits until this many pods are placed, as long as their number keeps growing.
    pub(crate) async fn placed_at_least(&self, world: &World<'_>, wanted: usize) -> Result<()> {
        let mut placed = 0;
        while placed < wanted {
            let before = placed;
            placed = wait_for(&format!("{wanted} pods to be placed"), PATIENCE, || async {
                let placed = self.placed(world).await?.len();
                ensure!(placed >= wanted || placed > before, "{placed} are");
                Ok(placed)
            })
            .await?;
        }
        Ok(())
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
