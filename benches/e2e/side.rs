//! The three that bind: how each is started, and what it has used.

use anyhow::{Context, Result};
use std::fs;
use std::time::Duration;

use crate::support::supercargo::binary;
use crate::support::{Component, ControlPlane, Process, Program, ports::Port};

/// Who binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    NullBinder,
    KubeScheduler,
    Supercargo,
}

/// One that was started. Dropping it ends it, save for kube-scheduler, which ends with its control plane.
pub(crate) struct Running {
    pid: u32,
    _process: Option<Process>,
    port: Option<Port>,
}

/// What a process has used so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    /// The most memory that was resident, in bytes.
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

    /// Starts it; it may not be ready yet.
    pub(crate) async fn start(self, plane: &ControlPlane) -> Result<Running> {
        let kubeconfig = plane.admin().kubeconfig().to_owned();
        match self {
            Self::NullBinder => {
                let program = Program::new(self.as_str(), std::env::current_exe()?);
                let process =
                    plane.launch(&program.arg(self.as_str()).arg(kubeconfig.display().to_string()))?;
                Ok(Running { pid: process.pid(), _process: Some(process), port: None })
            }
            Self::KubeScheduler => {
                plane.start(Component::Scheduler).await?;
                let pid = *plane.pids().get(self.as_str()).context("it was started just now")?;
                Ok(Running { pid, _process: None, port: None })
            }
            Self::Supercargo => {
                supercargo(plane, &crate::support::supercargo::configuration("default-scheduler"), &[])
            }
        }
    }
}

/// Starts supercargo with this configuration and further flags.
pub(crate) fn supercargo(plane: &ControlPlane, configuration: &str, flags: &[&str]) -> Result<Running> {
    let (name, config) = (Side::Supercargo.as_str(), plane.folder().join("supercargo.yaml"));
    fs::write(&config, configuration)?;
    let port = Port::reserve()?;
    let mut program = Program::new(name, binary()?)
        // As the image has it.
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
    /// Where it serves its pages, if that is known.
    pub(crate) fn port(&self) -> Option<u16> {
        self.port.as_ref().map(Port::number)
    }

    /// What it has used, from `/proc`: processor time in ticks of a hundredth of a second.
    pub(crate) fn usage(&self) -> Result<Usage> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid))?;
        // Behind the name, which may hold anything: utime and stime are fields 14 and 15 of the line.
        let (_, fields) = stat.rsplit_once(')').context("a line of stat has a name")?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let ticks = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next());
        let peak = peak.context("a process has a peak")?.parse::<u64>()? * 1024;
        Ok(Usage { cpu: Duration::from_millis(ticks * 10), peak })
    }
}
