//! kube-scheduler is replaced under load, and takes over again: both use one Lease and the same configuration file.
//!
//! No pod is lost or bound twice, and no node is overcommitted.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;

use crate::fleet::PodFleet;
use crate::harness::binaries::binary;
use crate::harness::ports::Port;
use crate::harness::supercargo::{self, LEASE_TERMS};
use crate::harness::wait::PATIENCE;
use crate::harness::{Component, ControlPlane, Process, Program, wait_for};
use crate::world::{World, play_on};

/// The time in which a scheduler that is stopped has to end.
const END: Duration = Duration::from_secs(30);

/// The time between two pods: 600 pods take half a minute, in which two handovers happen.
const PAUSE: Duration = Duration::from_millis(50);

/// Starts a scheduler as `system:kube-scheduler`, which uses the Lease kube-system/kube-scheduler.
fn start(world: &World<'_>, name: &str, path: std::path::PathBuf) -> Result<(Process, Port)> {
    let identity = world.plane.user("system:kube-scheduler", None)?;
    let kubeconfig = identity.kubeconfig().display();
    let config = world.plane.folder().join("takeover.yaml");
    // kube-scheduler's usual limit of 50 requests a second.
    let (lease, renew, retry) = LEASE_TERMS;
    let text = format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
         leaderElection:\n  leaseDuration: {lease}\n  renewDeadline: {renew}\n  retryPeriod: {retry}\n\
         clientConnection:\n  kubeconfig: {kubeconfig}\nprofiles:\n- schedulerName: {}\n",
        world.name
    );
    fs::write(&config, text)?;
    let port = Port::reserve()?;
    let program = Program::new(name, path).args([
        format!("--config={}", config.display()),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        String::from("--bind-address=127.0.0.1"),
        format!("--secure-port={}", port.number()),
    ]);
    Ok((world.plane.launch(&program)?, port))
}

/// Returns the holder of the Lease, or "".
async fn holder(world: &World<'_>) -> Result<String> {
    let lease =
        Api::<Lease>::namespaced(world.client.clone(), "kube-system").get_opt("kube-scheduler").await?;
    Ok(lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default())
}

/// Stops the leader, and returns once its successor has placed pods; writes how long no pod was placed.
async fn hand_over(world: &World<'_>, fleet: &PodFleet, from: &mut Process, to: &Process) -> Result<()> {
    let before = holder(world).await?;
    from.stop(END)?;
    let (stopped, placed) = (Instant::now(), fleet.placed(world).await?.len());
    let done = format!("of {}", fleet.count());
    ensure!(
        placed < fleet.count(),
        "{placed} {done} pods were placed: too fast for a handover in the middle"
    );
    wait_for(&format!("{} to hold the Lease and place pods", to.name()), PATIENCE, || async {
        let now = holder(world).await?;
        ensure!(!now.is_empty() && now != before, "it is held by {now:?}");
        let now_placed = fleet.placed(world).await?.len();
        ensure!(now_placed > placed, "{now_placed} {done} pods are placed, as before");
        Ok(())
    })
    .await
    .with_context(|| to.log_tail(20))?;
    eprintln!("takeover: {} places pods {:?} after {} ended", to.name(), stopped.elapsed(), from.name());
    Ok(())
}

#[tokio::test]
async fn kube_scheduler_is_replaced_and_returns_under_load() -> Result<()> {
    let plane = ControlPlane::builder().with([Component::ControllerManager, Component::Kwok]).start().await?;
    supercargo::install(&plane).await?;
    play_on(&plane, "takeover", async |world| {
        world.supercargo.terminate()?;
        let (mut first, _first_port) = start(world, "kube-scheduler", binary("kube-scheduler")?)?;
        wait_for("kube-scheduler to lead", PATIENCE, || async {
            ensure!(!holder(world).await?.is_empty(), "the Lease has no holder");
            Ok(())
        })
        .await?;
        let (mut ours, _our_port) = start(world, "supercargo-takeover", supercargo::binary()?)?;
        let fleet = PodFleet::new(world, 600).await?;
        let creating = fleet.create_every(PAUSE, world);
        fleet.placed_at_least(world, 60).await?;
        hand_over(world, &fleet, &mut first, &ours).await?;
        let (mut last, _last_port) = start(world, "kube-scheduler-again", binary("kube-scheduler")?)?;
        hand_over(world, &fleet, &mut ours, &last).await?;
        creating.await??;
        fleet.check_in_the_end(world).await?;
        last.stop(END)?;
        world.supercargo.start_again(world.plane)?;
        world.supercargo.wait_until_ready().await
    })
    .await
}
