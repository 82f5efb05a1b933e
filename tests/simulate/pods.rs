//! The result for pods in different states, the choice of the profile, and tie-breaking.

use crate::support::{Files, list, node, pod};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn nodes() -> String {
    list(&[node("a", 2), node("b", 2)])
}

fn decided(pods: &[Value], flags: &[&str]) -> (Option<i32>, Vec<Value>) {
    let mut all = vec!["-o", "json", "--detail", "full"];
    all.extend(flags);
    let ran = Files::with(&nodes(), &list(pods)).simulate(&all);
    (ran.code, ran.decisions())
}

#[test]
fn each_placed_pod_counts_for_the_next_decision() {
    let pods: Vec<Value> = ["p", "q", "r"].iter().map(|name| pod(name, 2, &json!({}))).collect();
    let (code, decisions) = decided(&pods, &["--tie-break", "name"]);
    let nodes: Vec<&Value> = decisions.iter().map(|decision| &decision["node"]).collect();
    assert_eq!(nodes, [&json!("a"), &json!("b"), &Value::Null]);
    assert_eq!(decisions[2]["message"], "0/2 nodes are available: 2 Insufficient cpu.");
    assert_eq!(code, Some(3));
}

#[test]
fn bound_pod_is_reported_and_counts_on_its_node() {
    let pods = [
        pod("there", 2, &json!({ "nodeName": "a" })),
        pod("p", 2, &json!({})),
        pod("far", 1, &json!({ "nodeName": "z" })),
    ];
    let (code, decisions) = decided(&pods, &["--tie-break", "name"]);
    assert_eq!((&decisions[0]["node"], &decisions[0]["feasible"]), (&json!("a"), &json!([])));
    assert_eq!(decisions[0]["message"], Value::Null);
    assert_eq!(decisions[1]["node"], "b");
    assert_eq!((&decisions[2]["node"], code), (&json!("z"), Some(0)));
}

#[test]
fn gated_and_terminating_pods_are_not_placed() {
    let gated =
        pod("gated", 1, &json!({ "schedulingGates": [{ "name": "example.com/wait" }, { "name": "x" }] }));
    let mut leaving = pod("leaving", 1, &json!({}));
    leaving["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z".into();
    let (code, decisions) = decided(&[gated, leaving], &[]);
    assert_eq!((&decisions[0]["node"], &decisions[0]["event"]), (&Value::Null, &Value::Null));
    assert_eq!(decisions[0]["message"], "waiting for scheduling gates: [example.com/wait x]");
    assert_eq!(decisions[1]["node"], Value::Null);
    assert_eq!(decisions[1]["message"], "skip schedule deleting pod: default/leaving");
    assert_eq!(code, Some(3));
}

#[test]
fn profile_without_scheduling_gates_places_gated_pods() {
    let disabled = json!({ "plugins": { "preEnqueue": { "disabled": [{ "name": "SchedulingGates" }] } } });
    let gated = pod("p", 1, &json!({ "schedulingGates": [{ "name": "example.com/gate" }] }));
    let files = Files::with(&nodes(), &list(&[gated]));
    for (profile, node) in [(json!({}), json!(null)), (disabled, json!("a"))] {
        let config = json!({ "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [profile] });
        files.write("config", &config.to_string());
        let ran = files.simulate(&["-o", "json", "--tie-break", "name", "--config", "config"]);
        assert_eq!(ran.decisions()[0]["node"], node, "{profile}");
    }
}

/// More than 3,000,000 comparisons of resources with nodes.
#[test]
fn pod_above_the_work_limit_is_reported_and_others_are_placed() {
    let nodes: Vec<Value> = (0..1_001).map(|at| node(&format!("n{at}"), 2)).collect();
    let large = |resources: usize| {
        let requests: serde_json::Map<_, _> =
            (0..resources).map(|at| (format!("example.com/r{at}"), json!(1))).collect();
        let mut pod = pod("large", 1, &json!({}));
        pod["spec"]["containers"][0]["resources"]["requests"] = json!(requests);
        pod
    };
    let decided = |large: Value| {
        let files = Files::with(&list(&nodes), &list(&[large, pod("p", 1, &json!({}))]));
        let ran = files.simulate(&["-o", "json", "--tie-break", "name"]);
        assert_eq!(ran.code, Some(3), "{ran:?}");
        ran.decisions()
    };
    let text = "the pod's 3000 resources, each compared with 1001 nodes, are more work than one attempt may be (3003000 comparisons \
                of at most 3000000): give the pod fewer";
    let decisions = decided(large(3_000));
    let told = &decisions[0];
    assert_eq!((&told["node"], &told["message"], &told["event"]), (&Value::Null, &json!(text), &json!(text)));
    assert_eq!(decisions[1]["node"], "n0", "the next pod is decided");
    let told = decided(large(60))[0]["message"].clone();
    assert!(told.as_str().is_some_and(|it| it.contains("Insufficient example.com/r0")), "{told}");
}

#[test]
fn cluster_without_nodes_has_a_fixed_message() {
    let ran = Files::with("", &list(&[pod("p", 1, &json!({}))])).simulate(&["-o", "json"]);
    assert_eq!(ran.decisions()[0]["message"], "no nodes available to schedule pods");
    assert_eq!(ran.code, Some(3));
}

#[test]
fn tie_breaking_depends_only_on_the_seed() {
    let cluster: Vec<Value> = (0..8).map(|at| node(&format!("n{at}"), 4)).collect();
    let files = Files::with(&list(&cluster), &list(&[pod("p", 1, &json!({}))]));
    let drawn = |seed: &str| files.simulate(&["-o", "json", "--seed", seed]).placed()[0].1.clone();
    assert_eq!(drawn("7"), drawn("7"));
    let seeds: Vec<String> = (0..12).map(|seed: u32| seed.to_string()).collect();
    let nodes: BTreeSet<Option<String>> = seeds.iter().map(|seed| drawn(seed)).collect();
    assert!(nodes.len() > 2, "{nodes:?}");
    assert_eq!(files.simulate(&["-o", "json", "--tie-break", "name"]).placed()[0].1.as_deref(), Some("n0"));
}

#[test]
fn nominated_node_is_tried_first() {
    let mut nominated = pod("p", 1, &json!({}));
    nominated["status"] = json!({ "nominatedNodeName": "b" });
    let busy = pod("busy", 1, &json!({ "nodeName": "b" }));
    let (_, decisions) = decided(&[busy, nominated], &[]);
    assert_eq!(decisions[1]["node"], "b");
    assert_eq!(decisions[1]["feasible"], json!(["b"]));
}

#[test]
fn profile_is_own_then_default_then_first() {
    let config = |names: &[&str]| {
        let head =
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n";
        let profile = |name: &&str| {
            let disabled = if name.starts_with("blind") {
                "    plugins: {filter: {disabled: [{name: NodeResourcesFit}]}}\n"
            } else {
                ""
            };
            format!("  - schedulerName: {name}\n{disabled}")
        };
        format!("{head}{}", names.iter().map(profile).collect::<String>())
    };
    let pods: Vec<Value> = ["blind", "default-scheduler", "stranger"]
        .iter()
        .map(|name| pod(name, 9, &json!({ "schedulerName": name })))
        .collect();
    let placed = |names: &[&str]| {
        let files = Files::with(&nodes(), &list(&pods));
        files.write("config", &config(names));
        let ran = files.simulate(&["--config", "config", "-o", "json"]);
        ran.placed().into_iter().map(|(_, node)| node.is_some()).collect::<Vec<_>>()
    };
    assert_eq!(placed(&["blind", "default-scheduler"]), [true, false, false]);
    assert_eq!(placed(&["blind-2", "sees"]), [true, true, true]);
    assert_eq!(placed(&["sees", "blind"]), [true, false, false]);
}
