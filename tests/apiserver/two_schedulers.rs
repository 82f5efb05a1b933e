//! The real kube-scheduler on the same nodes: each learns of the other's pods only when they are bound.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::harness::objects::node_of;
use crate::harness::wait::PATIENCE;
use crate::harness::{Component, ControlPlane, nodes, supercargo, wait_for};
use crate::world::{play_on, requesting};

/// As many pods as the nodes have room for, half of them for each scheduler.
const NODES: usize = 20;
const PODS_A_NODE: u64 = 20;
const POD_MILLI: u64 = 100;
/// A binding this old is known to every watcher.
const KNOWN_AFTER: Duration = Duration::from_secs(1);

/// A binding as seen by a watch.
struct ObservedBinding {
    at: Instant,
    pod: String,
    node: String,
    ours: bool,
}

#[tokio::test]
async fn beside_kube_scheduler_no_known_full_node_is_overcommitted() -> Result<()> {
    let parts = [Component::ControllerManager, Component::Kwok, Component::Scheduler];
    let plane = ControlPlane::builder().with(parts).start().await?;
    supercargo::install(&plane).await?;
    play_on(&plane, "beside", async |world| {
        let milli = PODS_A_NODE * POD_MILLI;
        let fleet: Vec<_> = (0..NODES)
            .map(|number| world.node(&format!("n{number}")).allocatable("cpu", &format!("{milli}m")))
            .collect();
        nodes::create_all(&world.client, &fleet).await?;
        let seen: Arc<Mutex<Vec<ObservedBinding>>> = Arc::default();
        let watching = tokio::spawn(watch(world.pods(), Arc::clone(&seen)));

        let count = NODES as u64 * PODS_A_NODE;
        let mut wanted = Vec::new();
        for number in 0..count {
            let mut spec = requesting(&json!({"cpu": format!("{POD_MILLI}m")}));
            let ours = number % 2 == 0;
            if !ours {
                spec["schedulerName"] = json!("default-scheduler");
            }
            wanted.push(world.pod(&format!("{}{number}", if ours { "ours" } else { "theirs" }), &spec)?);
        }
        let pods = world.pods();
        stream::iter(wanted)
            .map(|pod| {
                let pods = pods.clone();
                async move { pods.create(&PostParams::default(), &pod).await }
            })
            .buffer_unordered(8)
            .try_collect::<Vec<_>>()
            .await?;
        wait_for("all pods to be bound", PATIENCE, || async {
            let pods = pods.list(&ListParams::default()).await?.items;
            let bound = pods.iter().filter(|pod| node_of(pod).is_some()).count();
            ensure!(bound as u64 == count, "{bound} of {count} are");
            Ok(())
        })
        .await?;
        wait_for("the watch to see all bindings", PATIENCE, || async {
            let seen = seen.lock().unwrap_or_else(PoisonError::into_inner).len();
            ensure!(seen as u64 == count, "it has seen {seen}");
            Ok(())
        })
        .await?;
        watching.abort();
        let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        let [ours, theirs] = judge(&seen)?;
        eprintln!(
            "beside kube-scheduler: {count} pods; {ours} of ours and {theirs} of its overcommitted a node"
        );
        Ok(())
    })
    .await
}

/// Counts bindings to full nodes, ours and theirs. Ours may happen only if the node was filled at the same moment.
fn judge(seen: &[ObservedBinding]) -> Result<[usize; 2]> {
    let mut on: BTreeMap<&str, Vec<&ObservedBinding>> = BTreeMap::new();
    let mut beyond = [0, 0];
    for binding in seen {
        let before = on.entry(&binding.node).or_default();
        if before.len() as u64 >= PODS_A_NODE {
            beyond[usize::from(!binding.ours)] += 1;
            let known =
                |other: &&&ObservedBinding| other.ours || binding.at.duration_since(other.at) > KNOWN_AFTER;
            let known = before.iter().filter(known).count() as u64;
            ensure!(
                !binding.ours || known < PODS_A_NODE,
                "{} was bound to {}, which was known to be full",
                binding.pod,
                binding.node
            );
        }
        before.push(binding);
    }
    Ok(beyond)
}

async fn watch(pods: Api<Pod>, seen: Arc<Mutex<Vec<ObservedBinding>>>) {
    let mut changes = pin!(watcher(pods, watcher::Config::default()).default_backoff().applied_objects());
    let mut known = std::collections::BTreeSet::new();
    while let Some(change) = changes.next().await {
        let Ok(pod) = change else { continue };
        if let Some(node) = node_of(&pod)
            && known.insert(pod.name_any())
        {
            let ours = pod.name_any().starts_with("ours");
            let binding =
                ObservedBinding { at: Instant::now(), pod: pod.name_any(), node: node.to_owned(), ours };
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(binding);
        }
    }
}

#[test]
fn known_full_node_is_distinguished_from_concurrent_binding() -> Result<()> {
    let now = Instant::now();
    let binding = |number: u64, ours: bool, after: Duration| ObservedBinding {
        at: now + after,
        pod: format!("p{number}"),
        node: "n".to_owned(),
        ours,
    };
    let mut seen: Vec<ObservedBinding> =
        (0..PODS_A_NODE).map(|n| binding(n, false, Duration::ZERO)).collect();
    seen.push(binding(90, true, Duration::from_millis(10)));
    assert_eq!(judge(&seen)?, [1, 0], "the bindings were concurrent");
    seen.pop();
    seen.push(binding(90, false, Duration::from_secs(5)));
    assert_eq!(judge(&seen)?, [0, 1]);
    seen.pop();
    seen.push(binding(90, true, Duration::from_secs(5)));
    assert!(judge(&seen).is_err(), "it was known for five seconds");
    Ok(())
}
