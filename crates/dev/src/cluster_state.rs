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
    /// supercargo's port, if it runs.
    pub port: Option<SupercargoPort>,
}

/// The port of supercargo, which runs outside the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupercargoPort {
    /// Number of the HTTPS port.
    pub number: u16,
    /// File with a token that may read the pending pods of all namespaces.
    pub token: PathBuf,
}

impl SupercargoPort {
    /// Returns what to know about the scheduler, with a command that reaches it.
    pub fn describe(&self) -> String {
        let (number, token) = (self.number, quoted(&self.token));
        format!(
            "supercargo runs outside this cluster, as a process of this machine; its pods in kube-system only appear to run.\n\
             `supercargo queue` and `supercargo top` therefore need its URL and a token, and `supercargo doctor` cannot check everything \
             (exit code 4):\n  \
             supercargo queue -A --server https://127.0.0.1:{number} --insecure-skip-tls-verify --token-file {token}"
        )
    }
}

/// Returns the path as a word of the shell, quoted if it has special characters.
pub fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let plain = path.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+".contains(c));
    if plain { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

impl State {
    /// Reads the state that the last `up` recorded in `folder`.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = file(folder);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self { kubeconfig: PathBuf::new(), records: Vec::new(), port: None });
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
        let port = self.port.as_ref().map(|it| json!({"number": it.number, "token": it.token}));
        let text = json!({"kubeconfig": self.kubeconfig, "processes": records, "supercargo": port});
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
        // A cluster of an older program, or one without supercargo, has none.
        let port = value["supercargo"].as_object().and_then(|it| {
            let number = u16::try_from(it.get("number")?.as_u64()?).ok()?;
            Some(SupercargoPort { number, token: PathBuf::from(it.get("token")?.as_str()?) })
        });
        Some(Self { kubeconfig: PathBuf::from(value["kubeconfig"].as_str()?), records, port })
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

#[cfg(test)]
mod tests {
    //! The state file.

    use super::*;

    #[test]
    fn state_file_keeps_the_port_and_older_files_have_none() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let port = SupercargoPort { number: 10259, token: PathBuf::from("/a b/token") };
        let state = State { kubeconfig: "/k".into(), records: Vec::new(), port: Some(port.clone()) };
        state.write(folder.path()).expect("it is written");
        assert_eq!(State::read(folder.path()).expect("it is read").port, Some(port.clone()));
        assert!(port.describe().ends_with("\n  supercargo queue -A --server https://127.0.0.1:10259 --insecure-skip-tls-verify --token-file '/a b/token'"));
        let old = State::parse(r#"{"kubeconfig": "/k", "processes": []}"#).expect("it is valid");
        assert_eq!(old.port, None);
    }
}
