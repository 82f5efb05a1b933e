//! Interruptions under load: restarts of supercargo and the API server, and token renewal. No pod is lost or bound
//! twice, no node is overcommitted, and no manual action is needed.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use crate::fleet::PodFleet;
use crate::harness::objects::node_of;
use crate::harness::supercargo::{self, NAME};
use crate::harness::wait::PATIENCE;
use crate::harness::{Access, Component, ControlPlane, wait_for};
use crate::world::{World, play, play_on};

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
        ensure!(placed < pod_fleet.count(), "it was too fast to be killed in the middle");
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
        ensure!(placed.len() < pod_fleet.count(), "it was too fast to be stopped in the middle");
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
            ensure!(
                events.len() == pod_fleet.count(),
                "{} of {} have an event",
                events.len(),
                pod_fleet.count()
            );
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
