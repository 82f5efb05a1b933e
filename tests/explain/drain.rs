//! `supercargo drain-check`: who would have no place.

use crate::support::{Cluster, Ran, node, plain_node, pod, run};
use serde_json::{Value, json};

fn drain(objects: &[Value], node: &str, more: &[&str]) -> Ran {
    let cluster = Cluster::of(objects);
    let mut args = vec!["drain-check", node, "--cluster", "cluster"];
    args.extend(more);
    run(cluster.folder(), &args)
}

fn answer(objects: &[Value]) -> (Value, Option<i32>) {
    let ran = drain(objects, "a", &["-o", "json"]);
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    assert_eq!(
        (&answer["apiVersion"], &answer["kind"]),
        (&json!("supercargo.dev/v1alpha1"), &json!("DrainCheck"))
    );
    (answer, ran.code)
}

fn on_a(name: &str, cpu: &str, priority: i32) -> Value {
    let mut pod = pod(name, cpu, &json!({ "nodeName": "a", "priority": priority }));
    pod["metadata"]["ownerReferences"] = json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true }]);
    pod
}

#[test]
fn each_pod_finds_another_node_or_is_named_the_important_ones_first() {
    let objects = [
        plain_node("a"),
        plain_node("b"),
        on_a("large", "3", 0),
        on_a("important", "2", 5),
        on_a("small", "1", 0),
    ];
    let (answer, code) = answer(&objects);
    let went: Vec<(&str, &Value)> = answer["pods"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|pod| (pod["pod"].as_str().expect("a text"), &pod["to"]))
        .collect();
    let b = json!("b");
    assert_eq!(went, [("default/important", &b), ("default/large", &Value::Null), ("default/small", &b)]);
    assert_eq!((&answer["withoutPlace"], code), (&json!(1), Some(3)));
    let reasons = &answer["pods"][1]["reasons"];
    assert_eq!(reasons[0]["code"], "NodeCordoned", "{answer:#}");
    assert_eq!(reasons[1]["text"], "wants 3 cpu; most free: 2 of 4, on b");
}

#[test]
fn a_node_whose_pods_all_find_a_place_is_free_to_go() {
    let objects = [plain_node("a"), plain_node("b"), on_a("p", "1", 0)];
    let ran = drain(&objects, "a", &[]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "a: 1 pod would have to go, and each has another place\n")
    );
    let wide = drain(&objects, "a", &["-o", "wide"]);
    assert!(wide.stdout.contains("  default/p would go to b\n"), "{wide:?}");
}

#[test]
fn what_belongs_to_the_node_stays_and_what_nobody_makes_anew_is_pointed_at() {
    let mut of_node = on_a("logs", "1", 0);
    of_node["metadata"]["ownerReferences"][0]["kind"] = json!("DaemonSet");
    let mut mirror = pod("etcd-a", "1", &json!({ "nodeName": "a" }));
    mirror["metadata"]["annotations"] = json!({ "kubernetes.io/config.mirror": "x" });
    let objects =
        [plain_node("a"), plain_node("b"), of_node, mirror, pod("lonely", "1", &json!({ "nodeName": "a" }))];
    let (answer, code) = answer(&objects);
    assert_eq!((answer["pods"].as_array().map(Vec::len), code), (Some(1), Some(0)));
    assert_eq!(answer["pods"][0]["isUnmanaged"], true);
    let stay = answer["stay"].as_object().expect("by name");
    assert_eq!(stay.keys().collect::<Vec<_>>(), ["default/etcd-a", "default/logs"]);
}

#[test]
fn a_pod_is_bound_to_the_labels_of_the_node_it_leaves() {
    let mut bound = on_a("p", "1", 0);
    bound["spec"]["nodeSelector"] = json!({ "disk": "ssd" });
    let (answer, code) = answer(&[node("a", &json!({ "disk": "ssd" }), &json!({})), plain_node("b"), bound]);
    assert_eq!((&answer["withoutPlace"], code), (&json!(1), Some(3)));
    let codes: Vec<&Value> =
        answer["pods"][0]["reasons"].as_array().expect("a list").iter().map(|group| &group["code"]).collect();
    assert_eq!(codes, [&json!("NodeCordoned"), &json!("NodeSelectorMismatch")]);
}

#[test]
fn a_budget_that_lets_too_few_go_is_told() {
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "web" },
        "spec": { "selector": { "matchLabels": { "app": "p" } } }, "status": { "disruptionsAllowed": 0 },
    });
    let (answer, code) = answer(&[plain_node("a"), plain_node("b"), on_a("p", "1", 0), budget]);
    assert_eq!(answer["budgets"], json!([{ "budget": "default/web", "allowed": 0, "pods": 1 }]));
    assert_eq!(code, Some(0));
}

#[test]
fn a_node_that_does_not_exist_is_told_with_the_name_that_does() {
    let ran = drain(&[plain_node("worker-1")], "worker-2", &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert_eq!(ran.stderr, "error: there is no node worker-2; did you mean worker-1?\n");
    assert_eq!(drain(&[plain_node("a")], "zzzz", &[]).stderr, "error: there is no node zzzz; there are 1\n");
}
