//! What one run of the command leaves for the next: which processes it started, in a file of the cluster's folder.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::support::pki::write_private;
use super::support::process::Record;

/// How much of a recorded cluster still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// All of it.
    Up,
    /// Some of it.
    Broken,
    /// Nothing, or nothing was recorded.
    Down,
}

/// The recorded cluster.
pub(crate) struct State {
    /// The administrator's kubeconfig file.
    pub(crate) kubeconfig: PathBuf,
    /// Its processes in the order of their start; empty if there is no cluster.
    pub(crate) records: Vec<Record>,
}

impl State {
    /// What the last `up` recorded in `folder`.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
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
                "{} is not what `up` writes; end its processes by hand and remove its folder",
                path.display()
            )
        })
    }

    /// Records it.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        let records: Vec<Value> = self.records.iter().map(Record::to_json).collect();
        let text = json!({"kubeconfig": self.kubeconfig, "processes": records});
        write_private(&file(folder), &format!("{text:#}\n"))
    }

    /// How much of it still runs.
    pub(crate) fn standing(&self) -> Standing {
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

/// Keeps a second `up` or `down` from the same folder while the returned file is open. It lies beside the folder, which comes and
/// goes.
pub(crate) fn lock(folder: &Path) -> Result<File> {
    let path = folder.with_extension("lock");
    let parent =
        folder.parent().with_context(|| format!("{} cannot be a cluster's folder", folder.display()))?;
    fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    if file.try_lock().is_err() {
        bail!("another `up` or `down` is at work ({} is locked); wait for it", path.display());
    }
    Ok(file)
}

fn file(folder: &Path) -> PathBuf {
    folder.join("processes.json")
}
