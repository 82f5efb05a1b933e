//! A folder with the files of a cluster, and the real program that reports of it.

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

/// Runs `supercargo report` in a folder, at a time that never changes.
pub(crate) fn report(folder: &Path, args: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_supercargo"));
    command.arg("report").args(args).current_dir(folder);
    command.env_remove("KUBECONFIG").env("HOME", folder).env("SOURCE_DATE_EPOCH", "0");
    let out = command.output().expect("the program is built");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it speaks UTF-8");
    Ran { code: out.status.code(), stdout: text(out.stdout), stderr: text(out.stderr) }
}

/// A folder with a cluster in it.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn of(objects: &[Value]) -> Self {
        let folder = Self(tempfile::tempdir().expect("a folder can be made"));
        folder.write("cluster", objects);
        folder
    }

    pub(crate) fn write(&self, name: &str, objects: &[Value]) -> PathBuf {
        let path = self.0.path().join(name);
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
        std::fs::write(&path, list.to_string()).expect("a file can be written");
        path
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn run(&self, more: &[&str]) -> Ran {
        let mut args = vec!["--cluster", "cluster"];
        args.extend(more);
        report(self.path(), &args)
    }

    /// The report for programs.
    pub(crate) fn model(&self, more: &[&str]) -> Value {
        let mut args = vec!["-o", "json"];
        args.extend(more);
        let ran = self.run(&args);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        let model: Value =
            serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
        assert_eq!(
            (&model["apiVersion"], &model["kind"]),
            (&json!("supercargo.dev/v1alpha1"), &json!("ClusterReport"))
        );
        model
    }

    /// The page.
    pub(crate) fn page(&self, more: &[&str]) -> String {
        let ran = self.run(more);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        ran.stdout
    }
}

/// A node of 4 cpus in a zone.
pub(crate) fn node(name: &str, zone: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone } },
        "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "10" } },
    })
}

/// A pod that asks for cpu; `more` joins its spec.
pub(crate) fn pod(name: &str, cpu: &str, more: &Value) -> Value {
    let mut spec =
        json!({ "containers": [{ "name": "c", "image": "i", "resources": { "requests": { "cpu": cpu } } }] });
    let fields = spec.as_object_mut().expect("an object");
    fields.extend(more.as_object().cloned().unwrap_or_default());
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": "a" } }, "spec": spec })
}
