//! A folder with the files of a cluster, and the real program to report on it.

use crate::offline::{self, list, spec};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

pub(crate) use crate::offline::{Ran, root};

/// Runs `supercargo report` in a folder.
pub(crate) fn report(folder: &Path, args: &[&str]) -> Ran {
    offline::run(folder, &[&["report"], args].concat())
}

/// A folder with a cluster.
pub(crate) struct Folder(offline::Folder);

impl Folder {
    pub(crate) fn of(objects: &[Value]) -> Self {
        Self(offline::Folder::with(&list(objects)))
    }

    pub(crate) fn write(&self, name: &str, objects: &[Value]) -> PathBuf {
        self.0.write(name, &list(objects))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn run(&self, more: &[&str]) -> Ran {
        report(self.path(), &[&["--cluster", "cluster"], more].concat())
    }

    /// Returns the JSON report.
    pub(crate) fn model(&self, more: &[&str]) -> Value {
        let ran = self.run(&[&["-o", "json"], more].concat());
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        ran.json("ClusterReport")
    }

    /// Returns the HTML page.
    pub(crate) fn page(&self, more: &[&str]) -> String {
        let ran = self.run(more);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        ran.stdout
    }
}

/// A node with 4 cpus in a zone.
pub(crate) fn node(name: &str, zone: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone } },
        "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "10" } },
    })
}

/// A pod that requests cpu; `more` is merged into its spec.
pub(crate) fn pod(name: &str, cpu: &str, more: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": "a" } }, "spec": spec(cpu, more) })
}
