//! `supercargo plan`: steps, exit codes and errors of `free-nodes`, `make-room` and `rebalance`.

use crate::support::{Cluster, Ran, plain_node, pod, run};
use serde_json::{Value, json};

/// A pod of a ReplicaSet.
fn owned(name: &str, cpu: &str, on: &str) -> Value {
    let mut pod = pod(name, cpu, &json!({ "nodeName": on }));
    pod["metadata"]["ownerReferences"] = json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true }]);
    pod
}

fn objects() -> Vec<Value> {
    vec![
        plain_node("a"),
        plain_node("b"),
        plain_node("c"),
        owned("p", "1", "a"),
        owned("q", "2", "b"),
        owned("r", "2500m", "c"),
        pod("alone", "500m", &json!({ "nodeName": "c" })),
    ]
}

fn plan(more: &[&str]) -> Ran {
    let cluster = Cluster::of(&objects());
    cluster.write("pods", &pod("new", "3500m", &json!({})).to_string());
    cluster.write("large", &pod("new", "5", &json!({})).to_string());
    cluster.write(
        "service",
        &json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "s" } }).to_string(),
    );
    let mut args = vec!["plan"];
    args.extend(more);
    args.extend(["--cluster", "cluster"]);
    run(cluster.folder(), &args)
}

#[test]
fn freed_nodes_and_steps_have_a_stable_form() {
    let ran = plan(&["free-nodes", "--all-possible", "-o", "json"]);
    let answer = ran.json("FreeNodesPlan");
    assert_eq!((ran.code, &answer["freed"]), (Some(0), &json!(["a"])), "{answer:#}");
    let why = "the best of 2 feasible nodes; the ReplicaSet web creates it again";
    let step = json!({ "step": 1, "pod": "default/p", "from": "a", "to": "b", "ties": ["b"], "isForced": false,
        "feasible": 2, "isSwap": false, "why": why });
    assert_eq!(answer["moves"], json!([step]), "{answer:#}");
    let blockers = json!([{ "pod": "default/alone", "reason": "no controller would create it again" }]);
    assert_eq!(answer["kept"][1], json!({ "node": "c", "blockers": blockers }), "{answer:#}");
}

#[test]
fn exit_code_says_whether_all_nodes_can_be_freed() {
    let code = |more: &[&str]| plan(&[&["free-nodes"], more].concat()).code;
    assert_eq!(code(&["--count", "1"]), Some(0));
    assert_eq!(code(&["--nodes", "a"]), Some(0));
    assert_eq!(code(&["--count", "3"]), Some(3));
    assert_eq!(code(&["--nodes", "a,c"]), Some(3));
    let ran = plan(&["free-nodes", "--nodes", "c"]);
    assert_eq!(ran.code, Some(3));
    assert!(ran.stdout.contains("c  default/alone: no controller would create it again\n"), "{ran:?}");
}

#[test]
fn unknown_node_and_missing_goal_are_refused() {
    let ran = plan(&["free-nodes", "--nodes", "node/a,bb"]);
    assert_eq!(ran.refused(), "node bb not found; did you mean b?");
    assert_eq!(plan(&["free-nodes"]).code, Some(2));
    assert_eq!(plan(&["free-nodes", "--count", "1", "--all-possible"]).code, Some(2));
}

#[test]
fn room_is_made_or_the_reason_is_given() {
    let ran = plan(&["make-room", "-f", "pods", "-o", "json"]);
    let answer = ran.json("MakeRoomPlan");
    assert_eq!((ran.code, &answer["fits"]), (Some(0), &json!(true)), "{answer:#}");
    assert_eq!(answer["cordoned"], json!(["a"]), "{answer:#}");
    assert_eq!(answer["moves"][0]["pod"], "default/p", "{answer:#}");
    assert_eq!(answer["pods"], json!([{ "pod": "default/new", "to": "a", "reason": null }]));
    let ran = plan(&["make-room", "-f", "large"]);
    assert_eq!(ran.code, Some(3));
    assert!(
        ran.stdout.contains("default/new  stays pending: 0/3 nodes are available: 3 Insufficient cpu."),
        "{ran:?}"
    );
}

#[test]
fn file_without_new_pods_is_refused() {
    let ran = plan(&["make-room", "-f", "service"]);
    assert_eq!(ran.refused(), "service: expected a pod or a workload that is not placed yet");
    let ran = plan(&["make-room", "-f", "missing"]);
    assert!(ran.refused().starts_with("missing: "), "{ran:?}");
    let cluster = Cluster::of(&objects());
    cluster.write("pods", "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  containers:\n  - name: c\n    image: i\n    resources: {requests: {cpu: much}}\n");
    let ran = run(cluster.folder(), &["plan", "make-room", "-f", "pods", "--cluster", "cluster"]);
    let text = ran.refused();
    assert!(text.starts_with("pods:8") && text.contains("cpu") && text.contains("much"), "{text}");
}

#[test]
fn rebalanced_cluster_is_below_the_bounds() {
    let cluster = Cluster::of(&[
        plain_node("a"),
        plain_node("b"),
        owned("p", "2", "a"),
        owned("q", "1", "a"),
        owned("r", "500m", "a"),
        owned("s", "1", "b"),
    ]);
    let rebalance = |more: &[&str]| {
        let args = ["plan", "rebalance", "--cluster", "cluster"];
        run(cluster.folder(), &[&args[..], more].concat())
    };
    let ran = rebalance(&["--max-requested", "70%", "-o", "json"]);
    let answer = ran.json("RebalancePlan");
    assert_eq!((ran.code, &answer["isBalanced"]), (Some(0), &json!(true)), "{answer:#}");
    assert_eq!(answer["before"][0]["subject"], "node a", "{answer:#}");
    assert_eq!((&answer["moves"][0]["pod"], &answer["moves"][0]["to"]), (&json!("default/q"), &json!("b")));
    let ran = rebalance(&["--max-requested", "10%"]);
    assert_eq!(ran.code, Some(3));
    assert!(ran.stdout.contains("Above a bound after the moves\n"), "{ran:?}");
    let wrong_flags = [
        &["--max-requested", "0%"][..],
        &["--max-skew", "zone"],
        &["--max-skew", "no-such-label=1"],
        &["--max-fragmented", "cpu=10%"],
        &["--max-fragmented", "example.com/gpu=10%"],
        &[],
    ];
    for wrong in wrong_flags {
        assert_eq!(rebalance(wrong).code, Some(2), "{wrong:?}");
    }
}
