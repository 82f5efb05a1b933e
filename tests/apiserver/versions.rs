//! The version of kube-scheduler to behave as follows the API server's.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::harness::binaries::chosen_version;
use crate::harness::hostile::Hostile;
use crate::harness::objects::service_account_token;
use crate::harness::supercargo::{NAME, Setup, configuration};
use crate::harness::wait_for;
use crate::reload::reconfigure;
use crate::world::{World, play, requesting, sample};

/// Longer than the three reads that have to agree.
const RISING: Duration = Duration::from_secs(150);

/// The part of a message that ends with 1.36.
const TO_1_36: &str = "no new claims to deallocate";

fn emulates(version: &str) -> String {
    format!("supercargo_emulated_version{{version=\"{version}\"}}")
}

/// Restarts the scheduler behind a proxy that reports this minor version.
async fn behind_a_proxy(world: &mut World<'_>, minor: u32) -> Result<Hostile> {
    let token = service_account_token(&world.client, &world.name, NAME).await?;
    let access = world.plane.token_bearer(&format!("{}-proxy", world.name), &token)?;
    let proxy = Hostile::to(world.plane, &access, 1).await?;
    proxy.report_minor_version(minor);
    world.supercargo.terminate()?;
    let setup = Setup { server: Some(proxy.server()), ..Setup::called(&world.name) };
    world.supercargo = setup.launch(world.plane).await?;
    world.supercargo.wait_until_ready().await?;
    Ok(proxy)
}

async fn message_has(world: &World<'_>, pod: &str, is_to_1_36: bool) -> Result<()> {
    world.create(pod, &requesting(&json!({"cpu": "9"}))).await?;
    world.waiting(pod, "Insufficient cpu").await?;
    let texts: Vec<String> =
        world.events(pod, "FailedScheduling").await?.into_iter().filter_map(|it| it.note).collect();
    ensure!(texts.iter().any(|text| text.contains(TO_1_36)) == is_to_1_36, "{texts:?}");
    Ok(())
}

#[tokio::test]
async fn version_is_that_of_the_api_server_and_rises_with_it() -> Result<()> {
    play("versions", async |world| {
        world.node("a").allocatable("cpu", "4").create(&world.client).await?;
        world.counted(&emulates(&chosen_version()), 1.0).await?;
        let proxy = behind_a_proxy(world, 35).await?;
        world.counted(&emulates("1.35"), 1.0).await?;
        message_has(world, "of-35", true).await?;
        let of_35 = world.metrics().await?;
        ensure!(
            of_35.contains("SchedulerQueueingHints") && !of_35.contains("SchedulerPreQueueingHints"),
            "{of_35}"
        );
        ensure!(!of_35.contains("scheduler_pod_scheduled_after_flush_total"), "{of_35}");
        world.create("first", &requesting(&json!({"cpu": "1"}))).await?;
        world.bound("first").await?;

        proxy.report_minor_version(38);
        // Three reads over a minute have to agree first.
        message_has(world, "still-of-35", true).await?;
        wait_for("the version to rise", RISING, || async {
            ensure!(sample(&world.metrics().await?, &emulates("1.37")) == Some(1.0), "it did not");
            Ok(())
        })
        .await?;
        message_has(world, "of-37", false).await?;
        let scrape = world.metrics().await?;
        ensure!(scrape.contains("git_version=\"v1.37."), "kubernetes_build_info has another version");
        ensure!(
            scrape.contains("SchedulerPreQueueingHints") && !scrape.contains("SchedulerQueueingHints"),
            "{scrape}"
        );
        ensure!(scrape.contains("scheduler_queued_entities{"), "{scrape}");
        world.create("second", &requesting(&json!({"cpu": "1"}))).await?;
        world.bound("second").await?;

        // A reload keeps the version, and a lower version has no effect before a restart.
        proxy.report_minor_version(34);
        reconfigure(world, &format!("{}podMaxBackoffSeconds: 5\n", configuration(&world.name)))?;
        world.counted(&crate::reload::reloads("applied"), 1.0).await?;
        world.counted(&emulates("1.37"), 1.0).await?;
        Ok(())
    })
    .await
}
