//! Small clusters in files, and the program run on them.

use crate::offline::{Folder, list, merge, spec};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

pub(crate) use crate::offline::{Ran, root, run};

/// A directory with a cluster file.
pub(crate) struct Cluster(Folder);

impl Cluster {
    pub(crate) fn of(objects: &[Value]) -> Self {
        Self::written(&list(objects))
    }

    pub(crate) fn written(text: &str) -> Self {
        Self(Folder::with(text))
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        self.0.write(name, text)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }

    /// Runs `explain` for a pod, with further flags.
    pub(crate) fn ask(&self, pod: &str, more: &[&str]) -> Ran {
        let mut args = vec!["explain", "pod", pod, "--cluster", "cluster"];
        args.extend(more);
        run(self.folder(), &args)
    }

    /// Returns the JSON answer and the exit code.
    pub(crate) fn answer(&self, pod: &str, more: &[&str]) -> (Value, Option<i32>) {
        let mut all = vec!["-o", "json"];
        all.extend(more);
        let ran = self.ask(pod, &all);
        (ran.json("PodExplanation"), ran.code)
    }
}

/// A node with 4 cpus and 10 pods; `more` is merged into its spec.
pub(crate) fn node(name: &str, labels: &Value, more: &Value) -> Value {
    let mut all = json!({ "kubernetes.io/hostname": name });
    merge(&mut all, labels);
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": all }, "spec": more,
        "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "10" } },
    })
}

pub(crate) fn plain_node(name: &str) -> Value {
    node(name, &json!({}), &json!({}))
}

/// A pod that requests cpu; `more` is merged into its spec.
pub(crate) fn pod(name: &str, cpu: &str, more: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": name } }, "spec": spec(cpu, more) })
}

/// Returns the codes of the suggested changes.
pub(crate) fn codes(answer: &Value) -> Vec<String> {
    let changes = answer["changes"].as_array().expect("a list");
    let joined = |change: &Value| {
        let codes = change["codes"].as_array().expect("a list").iter();
        codes.map(|code| code.as_str().expect("a text")).collect::<Vec<_>>().join("+")
    };
    changes.iter().map(joined).collect()
}

/// Returns the reasons with their number of nodes.
pub(crate) fn reasons(answer: &Value) -> Vec<(String, u64)> {
    let groups = answer["reasons"].as_array().expect("a list");
    let each = groups.iter().map(|group| {
        let code = group["code"].as_str().expect("a text").to_owned();
        (code, group["nodes"].as_u64().expect("a number"))
    });
    each.collect()
}
