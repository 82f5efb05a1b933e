//! A control plane filled once, from whose data each run begins anew: an etcd on a fresh copy, and an API server that has just started.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::{Instant, sleep};

use crate::load::Loader;
use crate::side::usage;
use crate::support::{Component, ControlPlane};
use crate::tell;
use crate::watch::Bound;
use crate::workloads::{Size, Workload};

/// The API server rests when it uses less than a tenth of a processor for this long; how long that is waited for.
const QUIET: Duration = Duration::from_millis(500);
const REST_WITHIN: Duration = Duration::from_secs(60);

/// A control plane with the cluster of a workload, and how long it took to fill it.
pub(crate) async fn filled(workload: &Workload, size: Size) -> Result<(ControlPlane, Loader, Duration)> {
    let began = Instant::now();
    // Nobody here would take the taint off new nodes.
    let no_taint = "--disable-admission-plugins=TaintNodesByCondition";
    let plane = ControlPlane::builder().arg(Component::ApiServer, no_taint).start().await?;
    let loader = Loader::new(&plane.admin()).await?;
    loader.prepare().await?;
    loader.create(workload.cluster(size)).await?;
    Ok((plane, loader, began.elapsed()))
}

/// Waits until the API server has nothing left to do.
pub(crate) async fn rest(plane: &ControlPlane) -> Result<()> {
    let server = *plane.pids().get(Component::ApiServer.name()).context("it runs")?;
    let by = Instant::now() + REST_WITHIN;
    loop {
        let before = usage(server)?.cpu;
        sleep(QUIET).await;
        if usage(server)?.cpu.saturating_sub(before) < QUIET / 10 {
            return Ok(());
        }
        ensure!(Instant::now() < by, "the API server does not come to rest");
    }
}

/// The cluster of a workload and the pods of a burst, which nobody binds yet, as they lie in etcd. The control plane stands still between
/// runs.
pub(crate) struct Stage {
    plane: ControlPlane,
    kept: PathBuf,
    size: Size,
}

/// A stage on which a run has begun.
pub(crate) struct Scene<'a> {
    pub(crate) plane: &'a ControlPlane,
    pub(crate) bound: Bound,
    pub(crate) loader: Loader,
}

impl Stage {
    /// Fills it, with further pods that were there before those of the burst.
    pub(crate) async fn fill(workload: &Workload, size: Size, further: Vec<Value>) -> Result<Self> {
        let (plane, loader, took) = filled(workload, size).await?;
        loader.create(further.into_iter()).await?;
        loader.create(workload.pods(size)).await?;
        tell(&format!("{}: filled within {took:?}", workload.id));
        let kept = plane.folder().join("etcd-kept");
        plane.kill(Component::ApiServer)?;
        plane.stop(Component::Etcd)?;
        fs::rename(plane.etcd_data(), &kept)?;
        Ok(Self { plane, kept, size })
    }

    /// Begins a run; whatever ran before is ended, and what it did is gone.
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

/// Copies a folder with all that is in it.
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
