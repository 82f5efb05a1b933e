//! A control plane that is filled once. Each run starts with a copy of its etcd data and a new API server.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::{Instant, sleep};

use crate::harness::{Component, ControlPlane};
use crate::load::Loader;
use crate::print_line;
use crate::side::usage;
use crate::watch::Bound;
use crate::workloads::{Size, Workload};

/// The API server is idle if it uses less than a tenth of a CPU for this long, and the timeout for that.
const QUIET: Duration = Duration::from_millis(500);
const REST_WITHIN: Duration = Duration::from_secs(60);

/// Starts a control plane with a workload's cluster. Returns it with the time it took to fill.
pub(crate) async fn filled(workload: &Workload, size: Size) -> Result<(ControlPlane, Loader, Duration)> {
    let began = Instant::now();
    // No controller runs here that removes the not-ready taint of new nodes.
    let no_taint = "--disable-admission-plugins=TaintNodesByCondition";
    let plane = ControlPlane::builder().arg(Component::ApiServer, no_taint).start().await?;
    let loader = Loader::new(&plane.admin()).await?;
    loader.prepare().await?;
    loader.create(workload.cluster(size)).await?;
    Ok((plane, loader, began.elapsed()))
}

/// Waits until the API server is idle.
pub(crate) async fn rest(plane: &ControlPlane) -> Result<()> {
    let server = *plane.pids().get(Component::ApiServer.name()).context("it runs")?;
    let by = Instant::now() + REST_WITHIN;
    loop {
        let before = usage(server)?.cpu;
        sleep(QUIET).await;
        if usage(server)?.cpu.saturating_sub(before) < QUIET / 10 {
            return Ok(());
        }
        ensure!(Instant::now() < by, "the API server does not become idle");
    }
}

/// The etcd data of a workload's cluster, with the unbound pods of a burst. The control plane is stopped between runs.
pub(crate) struct Stage {
    plane: ControlPlane,
    kept: PathBuf,
    size: Size,
}

/// A control plane in which a run has started.
pub(crate) struct Scene<'a> {
    pub(crate) plane: &'a ControlPlane,
    pub(crate) bound: Bound,
    pub(crate) loader: Loader,
}

impl Stage {
    /// Fills it. `further` pods are created before those of the burst.
    pub(crate) async fn fill(workload: &Workload, size: Size, further: Vec<Value>) -> Result<Self> {
        let (plane, loader, took) = filled(workload, size).await?;
        loader.create(further.into_iter()).await?;
        loader.create(workload.pods(size)).await?;
        print_line(&format!("{}: filled within {took:?}", workload.id));
        let kept = plane.folder().join("etcd-kept");
        plane.kill(Component::ApiServer)?;
        plane.stop(Component::Etcd)?;
        fs::rename(plane.etcd_data(), &kept)?;
        Ok(Self { plane, kept, size })
    }

    /// Starts a run on the original data; the previous run is stopped and its changes are discarded.
    pub(crate) async fn set(&mut self) -> Result<Scene<'_>> {
        let plane = &self.plane;
        for component in [Component::Scheduler, Component::ApiServer, Component::Etcd] {
            if plane.pids().contains_key(component.name()) {
                plane.kill(component)?;
            }
        }
        let data = plane.etcd_data();
        if data.exists() {
            fs::remove_dir_all(&data)?;
        }
        copy(&self.kept, &data).with_context(|| format!("cannot copy {}", self.kept.display()))?;
        plane.start(Component::Etcd).await?;
        plane.start(Component::ApiServer).await?;
        let loader = Loader::new(&plane.admin()).await?;
        let bound = Bound::follow(&plane.admin(), self.size.existing).await?;
        rest(plane).await?;
        Ok(Scene { plane, bound, loader })
    }
}

/// Copies a folder recursively.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
