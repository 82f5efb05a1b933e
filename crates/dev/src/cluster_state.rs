//! State kept between invocations: the processes started, in a file in the cluster's folder.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::harness::pki::write_private;
use crate::harness::process::Record;

/// Whether a recorded cluster still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// All processes run.
    Up,
    /// Some processes have ended.
    Broken,
    /// No process runs, or none was recorded.
    Down,
}

/// The recorded cluster.
pub struct State {
    /// The administrator's kubeconfig file.
    pub kubeconfig: PathBuf,
    /// Its processes in start order; empty without a cluster.
    pub records: Vec<Record>,
}

impl State {
    /// Reads the state that the last `up` recorded in `folder`.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = file(folder);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self { kubeconfig: PathBuf::new(), records: Vec::new() });
            }
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        Self::parse(&text).with_context(|| {
            format!(
                "{} is not a valid state file; stop the cluster's processes by hand and remove its folder",
                path.display()
            )
        })
    }

    /// Writes the state file.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let records: Vec<Value> = self.records.iter().map(Record::to_json).collect();
        let text = json!({"kubeconfig": self.kubeconfig, "processes": records});
        write_private(&file(folder), &format!("{text:#}\n"))
    }

    /// Returns whether all, some or none of the processes run.
    pub fn standing(&self) -> Standing {
        match self.records.iter().filter(|record| record.is_alive()).count() {
            0 => Standing::Down,
            alive if alive == self.records.len() => Standing::Up,
            _ => Standing::Broken,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let records = value["processes"].as_array()?.iter().map(Record::from_json).collect::<Option<_>>()?;
        Some(Self { kubeconfig: PathBuf::from(value["kubeconfig"].as_str()?), records })
    }
}

/// Locks the folder against another `up` or `down` while the returned file is open. The lock file is next to the
/// folder, because `down` removes the folder.
pub fn lock(folder: &Path) -> Result<File> {
    let path = folder.with_extension("lock");
    let parent = folder
        .parent()
        .with_context(|| format!("{} has no parent folder and cannot hold a cluster", folder.display()))?;
    fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    if file.try_lock().is_err() {
        bail!("another `up` or `down` is running ({} is locked); retry when it has finished", path.display());
    }
    Ok(file)
}

fn file(folder: &Path) -> PathBuf {
    folder.join("processes.json")
}
