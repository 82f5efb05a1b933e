//! The three binders: how each is started, and its resource usage.

use anyhow::{Context, Result};
use std::fs;
use std::time::Duration;

use crate::harness::supercargo::binary;
use crate::harness::{Component, ControlPlane, Process, Program, ports::Port};

/// A binder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    NullBinder,
    KubeScheduler,
    Supercargo,
}

/// A running binder. Dropping it stops it, except kube-scheduler, which stops with its control plane.
pub(crate) struct Running {
    pid: u32,
    _process: Option<Process>,
    port: Option<Port>,
}

/// Resource usage of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    /// Peak resident memory, in bytes.
    pub(crate) peak: u64,
}

impl Side {
    pub(crate) const ALL: [Self; 3] = [Self::NullBinder, Self::KubeScheduler, Self::Supercargo];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::NullBinder => "null-binder",
            Self::KubeScheduler => "kube-scheduler",
            Self::Supercargo => "supercargo",
        }
    }

    /// Starts it without waiting for readiness.
    pub(crate) async fn start(self, plane: &ControlPlane) -> Result<Running> {
        let kubeconfig = plane.admin().kubeconfig().to_owned();
        match self {
            Self::NullBinder => {
                let program = Program::new(self.as_str(), std::env::current_exe()?);
                let process =
                    plane.launch(&program.arg(self.as_str()).arg(kubeconfig.display().to_string()))?;
                Ok(Running::of(process))
            }
            Self::KubeScheduler => {
                plane.start(Component::Scheduler).await?;
                Running::component(plane, Component::Scheduler)
            }
            Self::Supercargo => {
                supercargo(plane, &crate::harness::supercargo::configuration("default-scheduler"), &[])
            }
        }
    }
}

/// Starts supercargo with this configuration and additional flags.
pub(crate) fn supercargo(plane: &ControlPlane, configuration: &str, flags: &[&str]) -> Result<Running> {
    let (name, config) = (Side::Supercargo.as_str(), plane.folder().join("supercargo.yaml"));
    fs::write(&config, configuration)?;
    let port = Port::reserve()?;
    let mut program = Program::new(name, binary()?)
        // As in the image.
        .env("MALLOC_ARENA_MAX", "1")
        .arg(format!("--kubeconfig={}", plane.admin().kubeconfig().display()))
        .arg(format!("--config={}", config.display()))
        .arg("--bind-address=127.0.0.1")
        .arg(format!("--secure-port={}", port.number()));
    for flag in flags {
        program = program.arg(*flag);
    }
    let process = plane.launch(&program)?;
    Ok(Running { pid: process.pid(), _process: Some(process), port: Some(port) })
}

impl Running {
    /// Wraps a started program.
    pub(crate) fn of(process: Process) -> Self {
        Self { pid: process.pid(), _process: Some(process), port: None }
    }

    /// Wraps a started component of the control plane.
    pub(crate) fn component(plane: &ControlPlane, component: Component) -> Result<Self> {
        let pid = *plane.pids().get(component.name()).context("it was started just now")?;
        Ok(Self { pid, _process: None, port: None })
    }

    /// Returns its HTTPS port, if known.
    pub(crate) fn port(&self) -> Option<u16> {
        self.port.as_ref().map(Port::number)
    }

    /// Returns its resource usage.
    pub(crate) fn usage(&self) -> Result<Usage> {
        usage(self.pid)
    }

    /// Returns the CPU time of its threads with this name.
    pub(crate) fn cpu_of_threads(&self, name: &str) -> Result<Duration> {
        let mut all = Duration::ZERO;
        for thread in fs::read_dir(format!("/proc/{}/task", self.pid))? {
            let folder = thread?.path();
            if fs::read_to_string(folder.join("comm"))?.trim_end() == name {
                all += cpu(&fs::read_to_string(folder.join("stat"))?)?;
            }
        }
        Ok(all)
    }
}

/// Reads a process's resource usage from `/proc`.
pub(crate) fn usage(pid: u32) -> Result<Usage> {
    let cpu = cpu(&fs::read_to_string(format!("/proc/{pid}/stat"))?)?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next());
    let peak = peak.context("a process has a peak")?.parse::<u64>()? * 1024;
    Ok(Usage { cpu, peak })
}

/// Returns the CPU time in a line of `stat`, which counts ticks of 10 ms.
fn cpu(stat: &str) -> Result<Duration> {
    // After the name, which may contain anything: utime and stime are fields 14 and 15 of the line.
    let (_, fields) = stat.rsplit_once(')').context("a line of stat has a name")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    Ok(Duration::from_millis(ticks * 10))
}
