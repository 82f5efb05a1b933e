//! Invalid input gives a clear message and the right exit code, and writes no report.

use crate::support::{Folder, node, pod, report};
use serde_json::json;

#[test]
fn unreadable_file_is_named_and_no_report_is_written() {
    let folder = Folder::of(&[node("n", "z")]);
    let ran = report(folder.path(), &["--cluster", "nowhere", "--to", "page.html"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("nowhere: cannot be read"), "{}", ran.stderr);
    assert!(!folder.path().join("page.html").exists());
}

#[test]
fn files_without_pods_are_reported_and_place_nothing() {
    let folder = Folder::of(&[node("n", "z")]);
    folder.write("none", &[node("m", "z")]);
    let ran = folder.run(&["-f", "none"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("none: expected pods or workloads"), "{}", ran.stderr);
}

#[test]
fn unwritable_report_file_is_an_error() {
    let folder = Folder::of(&[node("n", "z")]);
    let ran = folder.run(&["--to", "no/such/folder.html"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("cannot write the report no/such/folder.html"), "{}", ran.stderr);
}

#[test]
fn finished_pod_of_a_file_is_not_placed() {
    let folder = Folder::of(&[node("n", "z")]);
    let mut ended = pod("done", "1", &json!({}));
    ended["status"] = json!({ "phase": "Succeeded" });
    folder.write("new", &[ended, pod("p", "1", &json!({}))]);
    let model = folder.model(&["-f", "new"]);
    assert_eq!(model["pods"]["name"], json!(["p"]));
    assert_eq!(model["simulated"]["pods"], 1);
}

#[test]
fn report_rejects_changes_to_missing_objects_like_simulate() {
    let ran = Folder::of(&[node("worker-1", "z")]).run(&["--remove-node", "worker1"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("node worker1 not found; did you mean worker-1?"), "{}", ran.stderr);
}

#[test]
fn report_rejects_scaling_of_a_workload_in_its_files() {
    let folder = Folder::of(&[node("n", "z")]);
    let web = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": { "replicas": 1, "selector": { "matchLabels": { "app": "web" } }, "template": {
            "metadata": { "labels": { "app": "web" } }, "spec": pod("p", "1", &json!({}))["spec"],
        } },
    });
    folder.write("new", &[web]);
    let ran = folder.run(&["-f", "new", "--scale", "web=3"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("Deployment default/web is among the pods to place"), "{}", ran.stderr);
}
