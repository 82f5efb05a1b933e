//! Small clusters, and the real program asked about their pods.

use crate::offline::{Folder, list, merge, spec};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

pub(crate) use crate::offline::{Ran, root, run};

/// A folder with a cluster in it.
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

    /// Asks about a pod, with more flags.
    pub(crate) fn ask(&self, pod: &str, more: &[&str]) -> Ran {
        let mut args = vec!["explain", "pod", pod, "--cluster", "cluster"];
        args.extend(more);
        run(self.folder(), &args)
    }

    /// The answer for programs, and the exit code.
    pub(crate) fn answer(&self, pod: &str, more: &[&str]) -> (Value, Option<i32>) {
        let mut all = vec!["-o", "json"];
        all.extend(more);
        let ran = self.ask(pod, &all);
        (ran.json("PodExplanation"), ran.code)
    }
}

/// A node of 4 cpus with room for ten pods; `more` joins its spec.
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

/// A pod that asks for cpu; `more` joins its spec.
pub(crate) fn pod(name: &str, cpu: &str, more: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": name } }, "spec": spec(cpu, more) })
}

/// The codes of the changes that are told.
pub(crate) fn codes(answer: &Value) -> Vec<String> {
    let changes = answer["changes"].as_array().expect("a list");
    let joined = |change: &Value| {
        let codes = change["codes"].as_array().expect("a list").iter();
        codes.map(|code| code.as_str().expect("a text")).collect::<Vec<_>>().join("+")
    };
    changes.iter().map(joined).collect()
}

/// The reasons with the nodes they are told of.
pub(crate) fn reasons(answer: &Value) -> Vec<(String, u64)> {
    let groups = answer["reasons"].as_array().expect("a list");
    let each = groups.iter().map(|group| {
        let code = group["code"].as_str().expect("a text").to_owned();
        (code, group["nodes"].as_u64().expect("a number"))
    });
    each.collect()
}
