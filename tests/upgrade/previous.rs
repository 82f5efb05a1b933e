//! Replicas of this release and of the previous one share a Lease, with different configurations.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;

use crate::fleet::PodFleet;
use crate::harness::binaries::target_dir;
use crate::harness::supercargo::{Setup, Supercargo, elected_configuration};
use crate::harness::wait::PATIENCE;
use crate::harness::{Component, ControlPlane, supercargo, wait_for};
use crate::world::{World, play_on};

/// Pods are created for longer than three handovers take.
const PODS: usize = 900;
const PAUSE: std::time::Duration = std::time::Duration::from_millis(60);

/// Returns the program of the previous release, which `tests/release/previous.sh` builds.
fn previous() -> Result<PathBuf> {
    let path = target_dir().join("previous/supercargo");
    ensure!(path.is_file(), "{} is missing; run `tests/release/previous.sh` first", path.display());
    Ok(path)
}

/// Starts a replica, and waits until it is ready.
async fn start(
    world: &World<'_>,
    name: &str,
    program: Option<PathBuf>,
    settings: &str,
) -> Result<Supercargo> {
    let mut setup = Setup::called(&world.name);
    setup.name = format!("{}-{name}", world.name);
    setup.program = program;
    setup.configuration = format!("{}{settings}", elected_configuration(&world.name));
    let mut replica = setup.launch(world.plane).await?;
    replica.wait_until_ready().await?;
    Ok(replica)
}

/// Waits until another replica than `before` leads and has placed a pod. Returns the leader's identity.
async fn led_after(world: &World<'_>, fleet: &PodFleet, before: &str) -> Result<String> {
    let leases = Api::<Lease>::namespaced(world.client.clone(), &world.name);
    let placed = fleet.placed(world).await?.len();
    ensure!(placed < PODS, "all pods were placed before the handover");
    wait_for("the other replica to lead and place pods", PATIENCE, || async {
        let lease = leases.get_opt(&world.name).await?;
        let holder = lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default();
        ensure!(!holder.is_empty() && holder != before, "the lease is held by {holder:?}");
        let now_placed = fleet.placed(world).await?.len();
        ensure!(now_placed > placed, "{now_placed} pods are placed, as before");
        Ok(holder)
    })
    .await
}

#[tokio::test]
async fn previous_release_is_upgraded_and_rolled_back_under_load() -> Result<()> {
    let previous = previous()?;
    let plane = ControlPlane::builder().with([Component::ControllerManager, Component::Kwok]).start().await?;
    supercargo::install(&plane).await?;
    play_on(&plane, "rollout", async |world| {
        world.allow_election().await?;
        world.supercargo.terminate()?;
        // The older replica does not know what this release's configuration may have.
        let (ours, older) = ("podMaxBackoffSeconds: 5\nparallelism: 8\n", "podInitialBackoffSeconds: 2\n");
        let mut old = start(world, "old", Some(previous.clone()), older).await?;
        let fleet = PodFleet::new(world, PODS).await?;
        let creating = fleet.create_every(PAUSE, world);
        let first = led_after(world, &fleet, "").await?;

        // Roll forward: the leader is killed.
        let mut new = start(world, "new", None, ours).await?;
        old.kill()?;
        let second = led_after(world, &fleet, &first).await?;
        // Roll back: the leader releases the Lease.
        old.start_again(world.plane)?;
        old.wait_until_ready().await?;
        new.terminate()?;
        let third = led_after(world, &fleet, &second).await?;
        // And forward again.
        new.start_again(world.plane)?;
        new.wait_until_ready().await?;
        old.kill()?;
        led_after(world, &fleet, &third).await?;

        creating.await??;
        fleet.check_in_the_end(world).await?;
        world.supercargo = new;
        Ok(())
    })
    .await
}
