//! The API server's version rises while supercargo schedules.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::fleet::PodFleet;
use crate::harness::binaries::PINNED;
use crate::harness::{Component, ControlPlane, supercargo, wait_for};
use crate::world::{play_on, requesting, sample};

/// The version after [`PINNED`].
const NEXT: &str = "1.37";

/// Longer than the three reads that have to agree.
const RISING: Duration = Duration::from_secs(150);

/// Pods are created for longer than a rise takes.
const PODS: usize = 1000;
const PAUSE: Duration = Duration::from_millis(150);

#[tokio::test]
async fn upgraded_api_server_switches_behavior_once_and_loses_no_pod() -> Result<()> {
    let parts = [Component::ControllerManager, Component::Kwok];
    let plane = ControlPlane::builder().version(PINNED).with(parts).start().await?;
    supercargo::install(&plane).await?;
    play_on(&plane, "upgrade", async |world| {
        let series = |version: &str| format!("supercargo_emulated_version{{version=\"{version}\"}}");
        world.counted(&series(PINNED), 1.0).await?;
        let fleet = PodFleet::new(world, PODS).await?;
        let creating = fleet.create_every(PAUSE, world);
        fleet.placed_at_least(world, 100).await?;

        plane.set_version(NEXT);
        plane.stop(Component::ApiServer)?;
        plane.start(Component::ApiServer).await?;
        world.supercargo.forgive_refusals()?;
        // It behaves as before until the reads agree.
        world.create("large", &requesting(&json!({"cpu": "900"}))).await?;
        world.waiting("large", "no new claims to deallocate").await?;
        wait_for("the version to rise", RISING, || async {
            let scrape = world.metrics().await?;
            ensure!(sample(&scrape, &series(NEXT)) == Some(1.0), "it did not");
            Ok(())
        })
        .await?;
        let placed = fleet.placed(world).await?.len();
        ensure!(placed < PODS, "all pods were placed before the version rose");
        world.create("larger", &requesting(&json!({"cpu": "901"}))).await?;
        let larger = world.waiting("larger", "Insufficient cpu").await?;
        let text = serde_json::to_string(&larger.status)?;
        ensure!(!text.contains("no new claims to deallocate"), "it does not behave as {NEXT}: {text}");

        creating.await??;
        world.delete("large").await?;
        world.delete("larger").await?;
        fleet.check_in_the_end(world).await?;
        let log = world.supercargo.log()?;
        let changes: Vec<&str> =
            log.lines().filter(|line| line.contains("behaving as another version")).collect();
        ensure!(changes.len() == 1, "it changes once: {changes:#?}");
        Ok(())
    })
    .await
}
