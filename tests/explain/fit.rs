//! `supercargo fit`: how many more there is room for.

use crate::support::{Cluster, Ran, plain_node, pod, run};
use serde_json::{Value, json};

fn ask(cluster: &Cluster, template: &Value, more: &[&str]) -> Ran {
    cluster.write("template", &template.to_string());
    let mut args = vec!["fit", "-f", "template", "--cluster", "cluster"];
    args.extend(more);
    run(cluster.folder(), &args)
}

fn answer(objects: &[Value], template: &Value, more: &[&str]) -> (Value, Option<i32>) {
    let mut args = vec!["-o", "json"];
    args.extend(more);
    let ran = ask(&Cluster::of(objects), template, &args);
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    assert_eq!(
        (&answer["apiVersion"], &answer["kind"]),
        (&json!("supercargo.dev/v1alpha1"), &json!("FitCheck"))
    );
    (answer, ran.code)
}

#[test]
fn as_many_fit_as_there_is_room_for_and_the_scarce_thing_is_named() {
    let other = pod("other", "3", &json!({ "nodeName": "a" }));
    let objects = [plain_node("a"), plain_node("b"), other];
    let (answer, code) = answer(&objects, &pod("p", "1500m", &json!({})), &[]);
    assert_eq!((&answer["fits"], code), (&json!(2), Some(0)));
    assert_eq!(answer["nodes"], json!([{ "node": "b", "pods": 2 }]));
    assert_eq!(answer["limitedBy"][0]["text"], "wants 1500m cpu; most free: 1 of 4, on a");
}

#[test]
fn each_copy_counts_for_the_next() {
    let anti = json!({ "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "p" } } }] } } });
    let objects = [plain_node("a"), plain_node("b"), plain_node("c")];
    let (answer, _) = answer(&objects, &pod("p", "1", &anti), &[]);
    assert_eq!(answer["fits"], 3);
    assert_eq!(answer["limitedBy"][0]["code"], "PodAntiAffinity");
}

#[test]
fn a_workload_stands_for_its_pods() {
    let template = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": { "replicas": 5, "selector": { "matchLabels": { "app": "web" } }, "template": {
            "metadata": { "labels": { "app": "web" } }, "spec": pod("x", "2", &json!({}))["spec"].clone() } },
    });
    let (answer, _) = answer(&[plain_node("a"), plain_node("b")], &template, &[]);
    assert_eq!(answer["fits"], 4, "{answer:#}");
}

#[test]
fn nobody_looks_for_more_than_is_asked_for() {
    let (answer, code) = answer(&[plain_node("a")], &pod("p", "1m", &json!({})), &["--limit", "7"]);
    assert_eq!((&answer["fits"], &answer["atLimit"], code), (&json!(7), &json!(true), Some(0)));
    assert_eq!(answer["limitedBy"], json!([]));
}

#[test]
fn where_none_fits_the_reasons_are_told_and_the_exit_code_is_3() {
    let ran = ask(&Cluster::of(&[plain_node("a")]), &pod("p", "9", &json!({})), &[]);
    assert_eq!(ran.code, Some(3));
    assert_eq!(
        ran.stdout,
        "default/p: 0 would fit\n\nWhat keeps one more out\n  NODES  ONLY THIS  REASON           WHAT IT IS\n      1          1  \
         InsufficientCpu  wants 9 cpu; none of these has so much even when empty, the largest 4\n"
    );
}

#[test]
fn a_file_without_a_pod_is_refused() {
    let ran = ask(&Cluster::of(&[plain_node("a")]), &plain_node("b"), &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert_eq!(ran.stderr, "error: template: expected a pod, or a workload that makes some\n");
}
