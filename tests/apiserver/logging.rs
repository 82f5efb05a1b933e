//! A log that cannot be written, or that nobody reads: pods are scheduled, probes are green, the loss is counted, and the process ends when
//! it is told to.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::support::supercargo::Setup;
use crate::world::{World, play, requesting, sample};

/// Bytes that a full pipe holds at least: 64 KiB in 16 pages, each of which may end with room for less than a line.
const FULL: usize = 48 * 1024;

/// Starts the scheduler anew, with everything logged, and its stderr there.
async fn start_with(world: &mut World<'_>, stderr: OwnedFd) -> Result<()> {
    world.supercargo.terminate()?;
    let mut setup = Setup::called(&world.name);
    setup.args = vec![String::from("--v=10")];
    setup.stderr = Some(stderr);
    world.supercargo = setup.launch(world.plane).await?;
    world.supercargo.wait_until_ready().await
}

/// Pods are scheduled and probes answered.
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
async fn log_that_cannot_be_written_stops_nothing_and_is_counted() -> Result<()> {
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
async fn log_that_nobody_reads_blocks_nothing() -> Result<()> {
    play("log-unread", async |world| {
        let (mut reader, writer) = io::pipe()?;
        start_with(world, writer.into()).await?;
        works(world).await?;
        // Each request is logged in dozens of lines, down to the steps of its handshake: far more than a pipe holds.
        for _ in 0..40 {
            assert_eq!(world.supercargo.get("/livez", None).await?.0, 200);
        }
        world.create("four", &requesting(&json!({"cpu": "1"}))).await?;
        world.bound("four").await?;
        let end = world.supercargo.terminate()?;
        ensure!(end.success(), "it ended with {end}");
        // The one that has ended holds the pipe open until another takes its place.
        start_with_its_log(world).await?;
        let mut log = Vec::new();
        reader.read_to_end(&mut log)?;
        ensure!(log.len() >= FULL, "the pipe was not full: {} bytes", log.len());
        Ok(())
    })
    .await
}

/// Starts it as usual: a test ends with a scheduler that runs.
async fn start_with_its_log(world: &mut World<'_>) -> Result<()> {
    world.supercargo = Setup::called(&world.name).launch(world.plane).await?;
    world.supercargo.wait_until_ready().await
}
