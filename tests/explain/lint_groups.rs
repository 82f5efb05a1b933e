//! `supercargo lint` for pod groups: each rule with a hit and a near miss.

use crate::groups::{GATES, group, in_rack, member};
use crate::offline::merge;
use crate::support::{Cluster, plain_node, pod, run};
use serde_json::{Value, json};

/// Returns object, rule and severity of all findings.
fn found(objects: &[Value], flags: &[&str]) -> Vec<(String, String, String)> {
    let cluster = Cluster::of(objects);
    let report = run(cluster.folder(), &[&["lint", "--cluster", "cluster", "-o", "json"], flags].concat());
    let report = report.json("LintReport");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let each = report["findings"].as_array().expect("a list").iter();
    let object = |it: &Value| format!("{}/{}", text(&it["kind"]), text(&it["name"]));
    each.map(|it| (object(it), text(&it["rule"]), text(&it["severity"]))).collect()
}

fn on(objects: &[Value]) -> Vec<(String, String, String)> {
    found(objects, &["--emulated-version", "1.36", GATES])
}

fn finding(object: &str, rule: &str, severity: &str) -> (String, String, String) {
    (object.to_owned(), rule.to_owned(), severity.to_owned())
}

/// A Job whose pods are members of the group `g`.
fn job(name: &str, pods: u32, cpu: &str, more: &Value) -> Value {
    let mut spec = member(name, cpu, more)["spec"].clone();
    merge(&mut spec, &json!({ "restartPolicy": "Never" }));
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name },
        "spec": { "parallelism": pods, "completions": pods, "template": { "metadata": { "labels": { "job": name } }, "spec": spec } },
    })
}

#[test]
fn missing_podgroup_is_an_error_of_the_workload() {
    let job = job("train", 2, "1", &json!({}));
    let expected = finding("Job/train", "PodGroupMissing", "error");
    assert_eq!(on(&[plain_node("a"), job.clone()]), [expected]);
    assert_eq!(on(&[plain_node("a"), job.clone(), group(2, None)]), []);
    // The group may exist elsewhere if the files are no cluster, and without the gate nothing waits for it.
    assert_eq!(on(std::slice::from_ref(&job)), []);
    assert_eq!(found(&[plain_node("a"), job], &[]), []);
}

#[test]
fn min_count_above_the_number_of_members_is_an_error() {
    let objects =
        |min| [plain_node("a"), group(min, None), job("x", 2, "1", &json!({})), member("y", "1", &json!({}))];
    assert_eq!(on(&objects(4)), [finding("PodGroup/g", "PodGroupTooFewMembers", "error")]);
    assert_eq!(on(&objects(3)), []);
}

#[test]
fn min_count_that_cannot_fit_in_an_empty_cluster_is_an_error() {
    let busy = pod("busy", "4", &json!({ "nodeName": "a" }));
    let objects =
        |cpu| [plain_node("a"), plain_node("b"), busy.clone(), group(3, None), job("x", 3, cpu, &json!({}))];
    assert_eq!(on(&objects("3")), [finding("PodGroup/g", "PodGroupNeverFits", "error")]);
    assert_eq!(on(&objects("2")), []);
    let racks =
        |cpu| [in_rack("a", "x"), in_rack("b", "y"), group(2, Some("rack")), job("x", 2, cpu, &json!({}))];
    assert_eq!(on(&racks("3")), [finding("PodGroup/g", "PodGroupNeverFits", "error")]);
    assert_eq!(on(&racks("2")), []);
}

#[test]
fn different_schedulers_and_priorities_of_members_are_found() {
    let objects = |more: &Value| {
        [plain_node("a"), group(2, None), job("x", 1, "1", &json!({})), job("y", 1, "1", more)]
    };
    let other = on(&objects(&json!({ "schedulerName": "supercargo" })));
    let differ = |job: &str| finding(job, "PodGroupSchedulersDiffer", "error");
    assert_eq!(other, [differ("Job/x"), differ("Job/y")]);
    let important = on(&objects(&json!({ "priority": 5 })));
    assert_eq!(important, [finding("PodGroup/g", "PodGroupPrioritiesDiffer", "warning")]);
    assert_eq!(on(&objects(&json!({}))), []);
    let mut newer = objects(&json!({ "priority": 5 }));
    newer[1]["apiVersion"] = json!("scheduling.k8s.io/v1beta1");
    assert_eq!(on(&newer), [finding("PodGroup/g", "PodGroupPrioritiesDiffer", "error")]);
}

#[test]
fn unknown_topology_key_and_unused_group_are_found() {
    let objects = |key| [in_rack("a", "x"), group(1, Some(key)), job("x", 1, "1", &json!({}))];
    let wrong = on(&objects("rak"));
    assert!(wrong.contains(&finding("PodGroup/g", "TopologyKeyUnknown", "error")), "{wrong:?}");
    assert_eq!(on(&objects("rack")), []);
    assert_eq!(
        on(&[plain_node("a"), group(1, None)]),
        [finding("PodGroup/g", "PodGroupNamedByNoPod", "warning")]
    );
}
