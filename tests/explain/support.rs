//! Small clusters, and the real program asked about their pods.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the program in a folder.
pub(crate) fn run(folder: &Path, args: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_supercargo"));
    command.args(args).current_dir(folder).env_remove("KUBECONFIG").env("HOME", folder);
    let out = command.output().expect("the program is built");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it speaks UTF-8");
    Ran { code: out.status.code(), stdout: text(out.stdout), stderr: text(out.stderr) }
}

/// A folder with a cluster in it.
pub(crate) struct Cluster(TempDir);

impl Cluster {
    pub(crate) fn of(objects: &[Value]) -> Self {
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
        Self::written(&list.to_string())
    }

    pub(crate) fn written(text: &str) -> Self {
        let cluster = Self(tempfile::tempdir().expect("a folder can be made"));
        cluster.write("cluster", text);
        cluster
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).expect("a file can be written");
        path
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
        let answer: Value =
            serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
        assert_eq!(
            (&answer["apiVersion"], &answer["kind"]),
            (&json!("supercargo.dev/v1alpha1"), &json!("PodExplanation"))
        );
        (answer, ran.code)
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
    let mut spec =
        json!({ "containers": [{ "name": "c", "image": "i", "resources": { "requests": { "cpu": cpu } } }] });
    merge(&mut spec, more);
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": name } }, "spec": spec })
}

fn merge(into: &mut Value, more: &Value) {
    let fields = into.as_object_mut().expect("an object");
    fields.extend(more.as_object().cloned().unwrap_or_default());
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
