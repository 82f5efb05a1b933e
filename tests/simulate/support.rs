//! A directory with the files of a simulation, and the program run in it.

use crate::offline::{Folder, run_with_input, spec};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

pub(crate) use crate::offline::{Ran, list};

/// A directory with input files.
pub(crate) struct Files(Folder);

impl Files {
    /// Creates the files `cluster` and `pods`.
    pub(crate) fn with(cluster: &str, pods: &str) -> Self {
        let files = Self(Folder::with(cluster));
        files.write("pods", pods);
        files
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        self.0.write(name, text)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Simulates `cluster` and `pods` with further flags.
    pub(crate) fn simulate(&self, more: &[&str]) -> Ran {
        self.run(&[&["--cluster", "cluster", "--pods", "pods"], more].concat(), "")
    }

    /// Runs `supercargo simulate` in the directory with only these flags.
    pub(crate) fn run(&self, args: &[&str], stdin: &str) -> Ran {
        run_with_input(self.path(), &[&["simulate"], args].concat(), stdin)
    }
}

impl Ran {
    /// Returns the decisions of a JSON report.
    pub(crate) fn decisions(&self) -> Vec<Value> {
        let report = self.json("SimulationReport");
        report["decisions"].as_array().expect("a list").clone()
    }

    /// Returns the pods with their nodes, from a JSON report.
    pub(crate) fn placed(&self) -> Vec<(String, Option<String>)> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let each = self.decisions();
        each.iter().map(|it| (text(&it["pod"]).expect("a name"), text(&it["node"]))).collect()
    }
}

/// A node with this many cpus.
pub(crate) fn node(name: &str, cpu: u32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
        "status": { "capacity": { "cpu": cpu.to_string(), "memory": "8Gi", "pods": "10" } },
    })
}

/// A pod that requests this many cpus; `more` is merged into its spec.
pub(crate) fn pod(name: &str, cpu: u32, more: &Value) -> Value {
    let spec = spec(&cpu.to_string(), more);
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec })
}
