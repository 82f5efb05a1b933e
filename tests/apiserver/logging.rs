//! A log that cannot be written or is not read: pods are scheduled, probes succeed, lost lines are counted, and the
//! process ends on request.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::harness::supercargo::Setup;
use crate::world::{World, play, requesting, sample};

/// Bytes that a full pipe holds at least: 64 KiB in 16 pages, each of which may end with an unused part.
const FULL: usize = 48 * 1024;

/// Restarts the scheduler with the highest log level and this stderr.
async fn start_with(world: &mut World<'_>, stderr: OwnedFd) -> Result<()> {
    world.supercargo.terminate()?;
    let mut setup = Setup::called(&world.name);
    setup.args = vec![String::from("--v=10")];
    setup.stderr = Some(stderr);
    world.supercargo = setup.launch(world.plane).await?;
    world.supercargo.wait_until_ready().await
}

/// Checks that pods are scheduled and probes succeed.
async fn works(world: &World<'_>) -> Result<()> {
    world.node("a").allocatable("cpu", "8").create(&world.client).await?;
    for name in ["one", "two", "three"] {
        world.create(name, &requesting(&json!({"cpu": "1"}))).await?;
        world.bound(name).await?;
    }
    for path in ["/livez", "/readyz"] {
        assert_eq!(world.supercargo.get(path, None).await?, (200, String::from("ok")), "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn unwritable_log_stops_nothing_and_losses_are_counted() -> Result<()> {
    play("log-full", async |world| {
        let full = OpenOptions::new().write(true).open("/dev/full")?;
        start_with(world, full.into()).await?;
        works(world).await?;
        let lost = sample(&world.metrics().await?, "supercargo_log_lines_lost_total");
        ensure!(lost >= Some(100.0), "lost lines: {lost:?}");
        let end = world.supercargo.terminate()?;
        ensure!(end.success(), "it ended with {end}");
        start_with_its_log(world).await
    })
    .await
}

#[tokio::test]
async fn unread_log_blocks_nothing() -> Result<()> {
    play("log-unread", async |world| {
        let (mut reader, writer) = io::pipe()?;
        start_with(world, writer.into()).await?;
        works(world).await?;
        // Each request logs dozens of lines, including TLS handshakes: far more than a pipe holds.
        for _ in 0..40 {
            assert_eq!(world.supercargo.get("/livez", None).await?.0, 200);
        }
        world.create("four", &requesting(&json!({"cpu": "1"}))).await?;
        world.bound("four").await?;
        let end = world.supercargo.terminate()?;
        ensure!(end.success(), "it ended with {end}");
        // The previous process holds the pipe open until it is replaced.
        start_with_its_log(world).await?;
        let mut log = Vec::new();
        reader.read_to_end(&mut log)?;
        ensure!(log.len() >= FULL, "the pipe was not full: {} bytes", log.len());
        Ok(())
    })
    .await
}

/// Restarts the scheduler as usual, because a test ends with a running scheduler.
async fn start_with_its_log(world: &mut World<'_>) -> Result<()> {
    world.supercargo = Setup::called(&world.name).launch(world.plane).await?;
    world.supercargo.wait_until_ready().await
}
