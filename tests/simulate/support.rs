//! A folder with the files of a simulation, and the real program run over them.

use serde_json::{Value, json};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A folder of files.
pub(crate) struct Files(TempDir);

impl Files {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder can be made"))
    }

    /// With the files `cluster` and `pods`.
    pub(crate) fn with(cluster: &str, pods: &str) -> Self {
        let files = Self::new();
        files.write("cluster", cluster);
        files.write("pods", pods);
        files
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).expect("a file can be written");
        path
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs the program in the folder over `cluster` and `pods`, with more flags.
    pub(crate) fn simulate(&self, more: &[&str]) -> Ran {
        let mut args = vec!["--cluster", "cluster", "--pods", "pods"];
        args.extend(more);
        self.run(&args, "")
    }

    /// Runs `supercargo simulate` in the folder with these flags alone.
    pub(crate) fn run(&self, args: &[&str], stdin: &str) -> Ran {
        let mut child = Command::new(env!("CARGO_BIN_EXE_supercargo"))
            .arg("simulate")
            .args(args)
            .current_dir(self.0.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program is built");
        let mut to = child.stdin.take().expect("it was asked for");
        // A program that ends without reading is no failure of the writer.
        let _ = to.write_all(stdin.as_bytes());
        drop(to);
        let out = child.wait_with_output().expect("it ends");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it speaks UTF-8");
        Ran { code: out.status.code(), stdout: text(out.stdout), stderr: text(out.stderr) }
    }
}

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// The decisions of a report in JSON.
    pub(crate) fn decisions(&self) -> Vec<Value> {
        let report: Value =
            serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"));
        assert_eq!(report["apiVersion"], "supercargo.dev/v1alpha1");
        assert_eq!(report["kind"], "SimulationReport");
        report["decisions"].as_array().expect("a list").clone()
    }

    /// Pods and where they went, of a report in JSON.
    pub(crate) fn placed(&self) -> Vec<(String, Option<String>)> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let each = self.decisions();
        each.iter().map(|it| (text(&it["pod"]).expect("a name"), text(&it["node"]))).collect()
    }
}

/// A node with room for pods by number of cpus.
pub(crate) fn node(name: &str, cpu: u32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
        "status": { "capacity": { "cpu": cpu.to_string(), "memory": "8Gi", "pods": "10" } },
    })
}

/// A pod that asks for cpus; `more` joins its spec.
pub(crate) fn pod(name: &str, cpu: u32, more: &Value) -> Value {
    let mut spec = json!({
        "containers": [{ "name": "c", "image": "i", "resources": { "requests": { "cpu": cpu.to_string() } } }],
    });
    let fields = spec.as_object_mut().expect("it was made an object");
    fields.extend(more.as_object().cloned().unwrap_or_default());
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec })
}

/// Objects as one list.
pub(crate) fn list(objects: &[Value]) -> String {
    json!({ "apiVersion": "v1", "kind": "List", "items": objects }).to_string()
}
