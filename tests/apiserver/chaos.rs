//! Combined faults: two thousand pods are created and deleted while watches break, the API server is killed,
//! and supercargo is suspended for a minute and killed. Afterwards, every pod is bound once and never moved,
//! and supercargo's cache equals the API server's state.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::harness::objects::node_of;
use crate::harness::proxy::Proxy;
use crate::harness::supercargo::{self, Setup};
use crate::harness::{Component, ControlPlane, nodes, wait_for};
use crate::world::{World, create_once, play_on, requested_cpu_milli, requesting, sample};

const PODS: usize = 2_000;
/// One in this many pods is deleted when it is bound, which frees capacity for others.
const CHURN: usize = 4;
/// Too little capacity for all pods at once, but enough for those that stay.
const NODES: usize = 20;
const NODE_MILLI: u64 = 8_000;
const POD_MILLI: u64 = 100;
/// The time for which supercargo is suspended: longer than a watch lives.
const HANG: Duration = Duration::from_secs(60);
/// The timeout of the whole test on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

#[tokio::test]
async fn through_chaos_every_pod_is_bound_once_and_the_cache_equals_a_fresh_list() -> Result<()> {
    let parts = [Component::ControllerManager, Component::Kwok];
    let plane = ControlPlane::builder().with(parts).start().await?;
    supercargo::install(&plane).await?;
    play_on(&plane, "chaos", async |world| {
        let proxy = Proxy::to(plane.port(Component::ApiServer)).await?;
        world.supercargo.terminate()?;
        let setup = Setup { server: Some(proxy.server()), ..Setup::called(&world.name) };
        world.supercargo = setup.launch(&plane).await?;
        world.supercargo.wait_until_ready().await?;
        let began = Instant::now();
        let pod_fleet = PodFleet::new(world).await?;
        let creating = tokio::spawn(pod_fleet.clone().create(world)?);
        let deleting = tokio::spawn(pod_fleet.clone().churn(world.pods()));
        let watching = tokio::spawn(pod_fleet.clone().watch(world.pods()));

        pod_fleet.bound_at_least(200).await?;
        proxy.cut();
        pod_fleet.bound_at_least(400).await?;
        plane.kill(Component::ApiServer)?;
        plane.start(Component::ApiServer).await?;
        world.supercargo.forgive_refusals()?;
        pod_fleet.bound_at_least(600).await?;
        world.supercargo.pause()?;
        tokio::time::sleep(HANG).await;
        world.supercargo.resume()?;
        pod_fleet.bound_at_least(900).await?;
        world.supercargo.kill()?;
        world.supercargo.start_again(&plane)?;
        pod_fleet.bound_at_least(1_200).await?;
        proxy.cut();

        creating.await??;
        pod_fleet.bound_at_least(PODS).await?;
        deleting.await??;
        pod_fleet.check(world).await?;
        cache_equals_a_fresh_list(world).await?;
        let rescued = sample(&world.metrics().await?, "supercargo_pods_rescued_by_flush_total");
        assert_eq!(rescued, Some(0.0), "the flush placed no pod");
        watching.abort();
        eprintln!("chaos: {PODS} pods, {} deleted, {:?}", PODS / CHURN, began.elapsed());
        Ok(())
    })
    .await
}

/// The pods, and the nodes of each in the order in which a watch reported them.
#[derive(Clone, Default)]
pub(crate) struct PodFleet {
    seen: Arc<Mutex<BTreeMap<String, Vec<String>>>>,
}

pub(crate) fn name(number: usize) -> String {
    format!("p{number:04}")
}

impl PodFleet {
    async fn new(world: &World<'_>) -> Result<Self> {
        let fleet: Vec<_> = (0..NODES)
            .map(|number| world.node(&format!("n{number}")).allocatable("cpu", &format!("{NODE_MILLI}m")))
            .collect();
        nodes::create_all(&world.client, &fleet).await?;
        Ok(Self::default())
    }

    /// Creates the pods, each with retries until the API server has it.
    fn create(self, world: &World<'_>) -> Result<impl Future<Output = Result<()>> + Send + use<>> {
        let spec = requesting(&json!({"cpu": format!("{POD_MILLI}m")}));
        let wanted: Vec<Pod> =
            (0..PODS).map(|number| world.pod(&name(number), &spec)).collect::<Result<_>>()?;
        let pods = world.pods();
        Ok(async move {
            let creating = wanted.into_iter().map(|pod| create_once(pods.clone(), pod));
            stream::iter(creating).buffer_unordered(4).try_collect().await
        })
    }

    /// Deletes every fourth pod when it is bound.
    async fn churn(self, pods: Api<Pod>) -> Result<()> {
        for number in (0..PODS).step_by(CHURN) {
            let name = name(number);
            wait_for(&format!("pod {name} to be bound and deleted"), PATIENCE, || async {
                ensure!(self.seen().contains_key(&name), "it is not bound");
                match pods.delete(&name, &DeleteParams::default().grace_period(0)).await {
                    Ok(_) => Ok(()),
                    Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                    Err(error) => Err(error.into()),
                }
            })
            .await?;
        }
        Ok(())
    }

    /// Records every node on which a pod is seen.
    pub(crate) async fn watch(self, pods: Api<Pod>) {
        let mut changes = pin!(watcher(pods, watcher::Config::default()).default_backoff().applied_objects());
        while let Some(change) = changes.next().await {
            // API server outages are part of the test; the watch recovers.
            let Ok(pod) = change else { continue };
            if let Some(node) = node_of(&pod) {
                let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                let nodes = seen.entry(pod.name_any()).or_default();
                if nodes.last().is_none_or(|last| last != node) {
                    nodes.push(node.to_owned());
                }
            }
        }
    }

    /// Returns the nodes of each pod so far.
    pub(crate) fn seen(&self) -> BTreeMap<String, Vec<String>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn bound_at_least(&self, wanted: usize) -> Result<()> {
        wait_for(&format!("{wanted} pods to be seen bound"), PATIENCE, || async {
            let bound = self.seen().len();
            ensure!(bound >= wanted, "{bound} are");
            Ok(())
        })
        .await
    }

    /// Checks that all pods that stay are bound, none moved, and no node is overcommitted.
    async fn check(&self, world: &World<'_>) -> Result<()> {
        let pods = world.pods().list(&ListParams::default()).await?.items;
        let unbound: Vec<_> =
            pods.iter().filter(|pod| node_of(pod).is_none()).map(ResourceExt::name_any).collect();
        assert_eq!(unbound, [""; 0], "all that are there are bound");
        assert_eq!(pods.len(), PODS - PODS / CHURN);
        let seen = self.seen();
        let moved: Vec<_> = seen.iter().filter(|(_, nodes)| nodes.len() > 1).collect();
        assert!(moved.is_empty(), "bound more than once: {moved:?}");
        for (node, milli) in requested_cpu_milli(&pods)? {
            assert!(milli <= NODE_MILLI, "{node} has {milli}m of {NODE_MILLI}m");
        }
        Ok(())
    }
}

/// The names of pods by node.
type Placement = BTreeMap<String, BTreeSet<String>>;

/// Waits until supercargo's dump of its cache equals a list from the API server.
pub(crate) async fn cache_equals_a_fresh_list(world: &mut World<'_>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let before = world.supercargo.log()?.len();
        world.supercargo.signal(Signal::SIGUSR2)?;
        let dump = wait_for("the dump to be in the log", PATIENCE, || async {
            let log = world.supercargo.log()?;
            let (nodes, queue) = log[before..].split_once("Dump of scheduling queue").context("it is not")?;
            ensure!(queue.contains("activeQ:") && queue.ends_with('\n'), "it is not complete");
            Ok(nodes.to_owned())
        })
        .await?;
        let (cached, listed) = (placement_of(&dump), listed(world).await?);
        if cached == listed {
            return Ok(());
        }
        // Concurrent changes reach one of the two first.
        ensure!(Instant::now() < deadline, "the cache holds {cached:?}\nand the API server {listed:?}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn placement_of(dump: &str) -> Placement {
    let (mut placement, mut node) = (Placement::new(), None);
    for line in dump.lines() {
        if let Some((_, name)) = line.split_once("Node name: ") {
            placement.insert(name.to_owned(), BTreeSet::new());
            node = placement.get_mut(name);
        } else if let Some(pod) = line.trim_start().strip_prefix("name: ")
            && let Some(node) = &mut node
        {
            let name = pod.split(',').next().unwrap_or_default();
            let namespace = pod.split("namespace: ").nth(1).and_then(|rest| rest.split(',').next());
            node.insert(format!("{}/{name}", namespace.unwrap_or_default()));
        }
    }
    placement
}

async fn listed(world: &World<'_>) -> Result<Placement> {
    let nodes = Api::<k8s_openapi::api::core::v1::Node>::all(world.client.clone());
    let mut placement: Placement = nodes
        .list(&ListParams::default())
        .await?
        .items
        .iter()
        .map(|node| (node.name_any(), BTreeSet::new()))
        .collect();
    for pod in Api::<Pod>::all(world.client.clone()).list(&ListParams::default()).await?.items {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if let Some(node) = node_of(&pod)
            && !matches!(phase, Some("Succeeded" | "Failed"))
        {
            let pod = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
            placement.entry(node.to_owned()).or_default().insert(pod);
        }
    }
    Ok(placement)
}
