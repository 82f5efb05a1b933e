//! Each verdict with its exit code.

use crate::support::{Cluster, node, plain_node, pod, reasons};
use serde_json::{Value, json};

fn verdict(objects: &[Value], more: &[&str]) -> (String, Option<i32>, Value) {
    let (answer, code) = Cluster::of(objects).answer("p", more);
    (answer["verdict"].as_str().expect("a text").to_owned(), code, answer)
}

fn assert_verdict(objects: &[Value], expected: &str, code: i32) -> Value {
    let (verdict, exit, answer) = verdict(objects, &[]);
    assert_eq!((verdict.as_str(), exit), (expected, Some(code)), "{answer:#}");
    answer
}

#[test]
fn feasible_pod_fits_now() {
    let answer = assert_verdict(&[plain_node("a"), plain_node("b"), pod("p", "1", &json!({}))], "fitsNow", 0);
    assert_eq!((&answer["fitsOn"], &answer["nodes"], &answer["event"]), (&json!(2), &json!(2), &Value::Null));
}

#[test]
fn pod_without_free_resources_is_blocked_with_amounts() {
    let other = pod("other", "3500m", &json!({ "nodeName": "a" }));
    let answer = assert_verdict(&[plain_node("a"), other, pod("p", "1", &json!({}))], "blocked", 3);
    assert_eq!(reasons(&answer), [("InsufficientCpu".to_owned(), 1)]);
    assert_eq!(answer["reasons"][0]["text"], "requests 1 cpu; most free: 500m of 4, on a");
    assert_eq!(answer["nearMisses"][0]["text"], "requests 1 cpu, 500m of 4 free");
    assert!(
        answer["event"].as_str().expect("a text").starts_with("0/1 nodes are available: 1 Insufficient cpu.")
    );
}

#[test]
fn pod_larger_than_every_node_never_fits() {
    let other = pod("other", "3500m", &json!({ "nodeName": "a" }));
    let answer =
        assert_verdict(&[plain_node("a"), plain_node("b"), other, pod("p", "5", &json!({}))], "neverFits", 3);
    assert_eq!(
        answer["reasons"][0]["text"],
        "requests 5 cpu; even when empty, the largest of these nodes has only 4"
    );
}

#[test]
fn pod_waiting_for_an_affinity_peer_is_blocked() {
    let affinity = json!({ "affinity": { "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "later" } } }] } } });
    let answer = assert_verdict(&[plain_node("a"), pod("p", "1", &affinity)], "blocked", 3);
    assert_eq!(reasons(&answer), [("PodAffinityUnmet".to_owned(), 1)]);
    assert_eq!(answer["hints"][0]["code"], "LabelValueUnknown");
}

#[test]
fn preempting_pod_lists_its_victims() {
    let other = pod("other", "4", &json!({ "nodeName": "a", "priority": 1 }));
    let answer = assert_verdict(
        &[plain_node("a"), other, pod("p", "1", &json!({ "priority": 9 }))],
        "waitsForPreemption",
        3,
    );
    assert_eq!(answer["preemption"], json!({ "node": "a", "victims": ["default/other"] }));
    assert_eq!(answer["changes"][0]["codes"], json!(["Preempt"]));
}

#[test]
fn nominated_pod_waits_for_preemption() {
    let leaving = |name: &str| {
        let mut leaving = pod(name, "4", &json!({ "nodeName": "a", "priority": 1 }));
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        leaving
    };
    let mut asked = pod("p", "1", &json!({ "priority": 9 }));
    asked["status"] = json!({ "nominatedNodeName": "a" });
    let answer = assert_verdict(&[plain_node("a"), leaving("other"), asked], "waitsForPreemption", 3);
    assert_eq!(answer["summary"], "it is nominated to a and waits until the preempted pods there terminate");
}

#[test]
fn gated_pod_reports_gates_and_later_reasons() {
    let gates = json!({ "schedulingGates": [{ "name": "example.com/budget" }] });
    let answer = assert_verdict(&[plain_node("a"), pod("p", "5", &gates)], "gated", 3);
    let summary = answer["summary"].as_str().expect("a text");
    assert!(
        summary.contains("example.com/budget") && summary.contains("unschedulable on every node"),
        "{summary}"
    );
}

#[test]
fn pod_of_another_scheduler_is_not_ours() {
    let mine = |name: &str| [plain_node("a"), pod("p", "1", &json!({ "schedulerName": name }))];
    let answer = assert_verdict(&mine("volcano"), "notOurs", 3);
    assert!(
        answer["summary"].as_str().expect("a text").starts_with("its schedulerName is volcano"),
        "{answer:#}"
    );
    assert_eq!(answer["hints"], json!([]), "{answer:#}");
    assert_verdict(&mine("supercargo"), "fitsNow", 0);
    assert_verdict(&mine("default-scheduler"), "fitsNow", 0);
    let cluster = Cluster::of(&mine("volcano"));
    let profile = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{schedulerName: volcano}]\n";
    cluster.write("config", profile);
    assert_eq!(cluster.answer("p", &["--config", "config"]).0["verdict"], "fitsNow");
}

#[test]
fn misspelt_scheduler_name_comes_first() {
    let objects = [plain_node("a"), pod("p", "1", &json!({ "schedulerName": "supercarg" }))];
    let answer = assert_verdict(&objects, "notOurs", 3);
    let summary = answer["summary"].as_str().expect("a text");
    assert!(
        summary
            .starts_with("no profile serves the schedulerName \"supercarg\": did you mean \"supercargo\"? "),
        "{summary}"
    );
    let hint = &answer["hints"][0];
    assert_eq!((&hint["code"], &hint["didYouMean"]), (&json!("SchedulerNameUnknown"), &json!("supercargo")));
    let shown = Cluster::of(&objects).ask("p", &[]).stdout;
    assert!(shown.starts_with("default/p: unknown schedulerName; did you mean \"supercargo\"?\n"), "{shown}");
}

#[test]
fn placed_pod_with_another_feasible_node_names_the_command_for_scores() {
    let placed = pod("p", "1", &json!({ "nodeName": "a" }));
    let command = "`supercargo explain pod p -n default --scores` shows their present scores.";
    let cluster = Cluster::of(&[plain_node("a"), plain_node("b"), placed.clone()]);
    let shown = cluster.ask("p", &[]).stdout;
    assert!(shown.contains(command), "{shown}");
    let shown = cluster.ask("p", &["--scores"]).stdout;
    assert!(!shown.contains(command) && shown.contains("note: scores of the present state"), "{shown}");
    let alone = Cluster::of(&[plain_node("a"), placed]).ask("p", &[]).stdout;
    assert!(!alone.contains(command), "{alone}");
}

#[test]
fn bound_finished_and_deleted_pods_have_their_verdicts() {
    let placed = pod("p", "1", &json!({ "nodeName": "a" }));
    let answer = assert_verdict(&[plain_node("a"), placed.clone()], "bound", 0);
    assert_eq!((&answer["node"], &answer["summary"]), (&json!("a"), &json!("the pod is on a")));
    let mut ended = placed;
    ended["status"] = json!({ "phase": "Succeeded" });
    assert_verdict(&[plain_node("a"), ended], "ended", 0);
    let mut going = pod("p", "1", &json!({}));
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_verdict(&[plain_node("a"), going], "deleting", 3);
}

#[test]
fn every_failing_check_of_a_node_is_reported() {
    let closed = node(
        "a",
        &json!({}),
        &json!({ "unschedulable": true, "taints": [
        { "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" }, { "key": "gpu", "value": "x", "effect": "NoSchedule" }] }),
    );
    let wants = json!({ "nodeSelector": { "disk": "ssd" } });
    let answer = assert_verdict(&[closed, pod("p", "5", &wants)], "neverFits", 3);
    let codes: Vec<String> = reasons(&answer).into_iter().map(|(code, _)| code).collect();
    assert_eq!(codes, ["NodeCordoned", "UntoleratedTaint", "NodeSelectorMismatch", "InsufficientCpu"]);
    assert_eq!(answer["nearMisses"], json!([]));
    assert!(
        answer["byNode"][0]["reasons"].as_array().is_some_and(|reasons| reasons.len() == 4),
        "{answer:#}"
    );
}

#[test]
fn missing_claim_is_reported_before_node_evaluation() {
    let volume = json!({ "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "data" } }] });
    let answer = assert_verdict(&[plain_node("a"), pod("p", "1", &volume)], "blocked", 3);
    assert_eq!(answer["beforeNodes"][0]["code"], "ClaimNotReady", "{answer:#}");
    assert!(
        answer["beforeNodes"][0]["text"].as_str().is_some_and(|text| text.contains("\"data\"")),
        "{answer:#}"
    );
}

#[test]
fn cluster_without_nodes_has_no_node_reasons() {
    let answer = assert_verdict(&[pod("p", "1", &json!({}))], "blocked", 3);
    assert_eq!((&answer["summary"], &answer["reasons"]), (&json!("the cluster has no nodes"), &json!([])));
}
