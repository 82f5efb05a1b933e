//! Manifests of Jobs that exist: only the pods that their controller still starts are decided.

use crate::support::{Files, Ran, list, node, pod};
use serde_json::{Value, json};

const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The manifest of a Job; `spec` is merged into its spec.
fn job(spec: &Value) -> Value {
    let template = pod("x", 1, &json!({ "restartPolicy": "Never" }))["spec"].take();
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "migrate" },
        "spec": { "template": { "spec": template } },
    });
    crate::offline::merge(&mut job["spec"], spec);
    job
}

/// The Job in a cluster dump, with this status.
fn live(spec: &Value, status: Value) -> Value {
    let mut job = job(spec);
    job["metadata"]["uid"] = json!("j");
    job["status"] = status;
    job
}

/// A pod of the Job on the node, in a phase.
fn of_job(name: &str, phase: &str) -> Value {
    let mut pod = pod(&format!("migrate-{name}"), 1, &json!({ "nodeName": "a", "restartPolicy": "Never" }));
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "batch/v1", "kind": "Job", "name": "migrate", "uid": "j", "controller": true,
    }]);
    pod["status"] = json!({ "phase": phase });
    pod
}

fn with_index(mut pod: Value, index: usize) -> Value {
    pod["metadata"]["annotations"] = json!({ INDEX: index.to_string() });
    pod
}

/// Runs a plain simulation and a what-if with the Job and its pods, and a manifest of the Job. Returns the names of the
/// decided pods without their random ends, and the notice about the Job.
fn decided(objects: &[Value], manifest: &Value) -> (Vec<String>, String) {
    let cluster = [&[node("a", 8)], objects].concat();
    let files = Files::with(&list(&cluster), &manifest.to_string());
    let of = |ran: &Ran| {
        let placed = ran.placed().into_iter();
        let names: Vec<String> = placed
            .map(|(pod, node)| {
                assert_eq!(node.as_deref(), Some("a"), "{pod}");
                pod.rsplit_once('-').expect("a random end").0.to_owned()
            })
            .collect();
        let mut notices = ran.stderr.lines().filter(|line| line.starts_with("Job default/migrate"));
        (names, notices.next().expect("a notice").to_owned())
    };
    let plain = of(&files.simulate(&["-o", "json"]));
    let changed = of(&files.simulate(&["-o", "json", "--add-nodes", "0:template=a"]));
    assert_eq!(plain, changed);
    plain
}

#[test]
fn finished_job_starts_no_pods() {
    let spec = json!({ "parallelism": 2, "completions": 2 });
    let pods = [of_job("x", "Succeeded"), of_job("y", "Succeeded")];
    for condition in ["Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"] {
        let status = json!({ "conditions": [{ "type": condition, "status": "True" }] });
        let objects = [&[live(&spec, status)], &pods[..]].concat();
        let (names, notices) = decided(&objects, &job(&spec));
        assert_eq!(names, Vec::<String>::new());
        let expected =
            "Job default/migrate already exists; it has finished and starts no pods: 0 pods kept, 0 removed";
        assert!(notices.contains(expected), "{notices}");
    }
    // Its pods alone say the same.
    assert_eq!(decided(&pods, &job(&spec)).0, Vec::<String>::new());
}

#[test]
fn job_starts_only_the_pods_that_remaining_completions_need() {
    let new = |count: usize| vec!["default/migrate".to_owned(); count];
    let spec = |parallelism: u32, completions: u32| json!({ "parallelism": parallelism, "completions": completions });
    let one_runs = |succeeded: u32| {
        vec![live(&spec(2, 5), json!({ "succeeded": succeeded, "active": 1 })), of_job("x", "Running")]
    };
    let (names, notices) = decided(&one_runs(4), &job(&spec(2, 5)));
    assert_eq!(names, new(0));
    assert!(notices.contains("4 pods succeeded: 1 pod kept, 0 removed"), "{notices}");
    assert_eq!(decided(&one_runs(3), &job(&spec(2, 5))).0, new(1));
    let (names, notices) = decided(&one_runs(1), &job(&spec(4, 5)));
    assert_eq!(names, new(3));
    assert!(notices.contains("; parallelism 2 → 4; 1 pod succeeded: 1 pod kept, 0 removed"), "{notices}");
    // Failed and terminating pods are replaced.
    let mut going = of_job("z", "Running");
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let objects = [live(&spec(2, 5), json!({})), of_job("x", "Failed"), going];
    assert_eq!(decided(&objects, &job(&spec(2, 5))).0, new(2));
    // Without a number of completions, no pod starts after the first success.
    let work_queue = json!({ "parallelism": 3 });
    let objects = [live(&work_queue, json!({})), of_job("x", "Running"), of_job("y", "Succeeded")];
    assert_eq!(decided(&objects, &job(&work_queue)).0, new(0));
    assert_eq!(decided(&objects[..2], &job(&work_queue)).0, new(2));
}

#[test]
fn suspended_or_smaller_job_frees_the_resources_of_its_pods() {
    let spec = json!({ "parallelism": 2, "completions": 5 });
    let pods = [of_job("x", "Running"), of_job("y", "Running")];
    let of = |live: Value, manifest: Value| {
        let manifest = list(&[manifest, pod("large", 8, &json!({}))]);
        let cluster = [&[node("a", 8), live], &pods[..]].concat();
        let files = Files::with(&list(&cluster), &manifest);
        [&["-o", "json"][..], &["-o", "json", "--add-nodes", "0:template=a"]].map(|more| files.simulate(more))
    };
    // Kueue suspends a Job whose manifest says nothing about that.
    let suspended = json!({ "parallelism": 2, "completions": 5, "suspend": true });
    for ran in of(live(&suspended, json!({})), job(&spec)) {
        assert_eq!(ran.placed(), [("default/large".to_owned(), Some("a".to_owned()))], "{ran:?}");
        let expected = "it is suspended and starts no pods: 0 pods kept, 2 removed";
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
    let smaller = json!({ "parallelism": 0, "completions": 5 });
    for ran in of(live(&spec, json!({})), job(&smaller)) {
        assert_eq!(ran.placed(), [("default/large".to_owned(), Some("a".to_owned()))], "{ran:?}");
    }
}

#[test]
fn indexed_job_starts_its_lowest_free_indexes() {
    let spec = json!({ "parallelism": 4, "completions": 9, "completionMode": "Indexed" });
    let status = json!({ "succeeded": 3, "completedIndexes": "0,2-3", "failedIndexes": "5" });
    let objects = [
        live(&spec, status),
        with_index(of_job("1-x", "Running"), 1),
        with_index(of_job("4-x", "Succeeded"), 4),
        with_index(of_job("7-x", "Failed"), 7),
    ];
    let (names, notices) = decided(&objects, &job(&spec));
    assert_eq!(names, ["default/migrate-6", "default/migrate-7", "default/migrate-8"]);
    assert!(notices.contains("4 pods succeeded: 1 pod kept, 0 removed"), "{notices}");
    // An index that is twice there, or too large, is removed.
    let objects = [
        live(&spec, json!({})),
        with_index(of_job("0-x", "Running"), 0),
        with_index(of_job("0-y", "Running"), 0),
        with_index(of_job("9-x", "Running"), 9),
    ];
    let (names, notices) = decided(&objects, &job(&spec));
    assert_eq!(names, ["default/migrate-1", "default/migrate-2", "default/migrate-3"]);
    assert!(notices.contains("0 pods succeeded: 1 pod kept, 2 removed"), "{notices}");
}
