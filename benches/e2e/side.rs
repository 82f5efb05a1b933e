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
    _port: Option<Port>,
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
        let launched = |program: &Program, port: Option<Port>| {
            let process = plane.launch(program)?;
            Ok(Running { pid: process.pid(), _process: Some(process), _port: port })
        };
        match self {
            Self::NullBinder => {
                let program = Program::new(self.as_str(), std::env::current_exe()?);
                launched(&program.arg(self.as_str()).arg(kubeconfig.display().to_string()), None)
            }
            Self::KubeScheduler => {
                plane.start(Component::Scheduler).await?;
                let pid = *plane.pids().get(self.as_str()).context("it was started just now")?;
                Ok(Running { pid, _process: None, _port: None })
            }
            Self::Supercargo => {
                let config = plane.folder().join("supercargo.yaml");
                fs::write(&config, crate::support::supercargo::configuration("default-scheduler"))?;
                let port = Port::reserve()?;
                let program = Program::new(self.as_str(), binary()?)
                    .arg(format!("--kubeconfig={}", kubeconfig.display()))
                    .arg(format!("--config={}", config.display()))
                    .arg("--bind-address=127.0.0.1")
                    .arg(format!("--secure-port={}", port.number()));
                launched(&program, Some(port))
            }
        }
    }
}

impl Running {
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
