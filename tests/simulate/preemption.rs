//! The preemption modes: report, apply and off.

use crate::support::{Files, list, node, pod};
use serde_json::{Value, json};

fn important(name: &str) -> Value {
    pod(name, 2, &json!({ "priority": 100 }))
}

fn on(name: &str, node: &str) -> Value {
    pod(name, 2, &json!({ "nodeName": node, "priority": 0 }))
}

fn run(pods: &[Value], flags: &[&str]) -> (Option<i32>, Vec<Value>) {
    let cluster = list(&[node("a", 2), node("b", 2), on("v", "a"), on("w", "b")]);
    let mut all = vec!["-o", "json", "--tie-break", "name"];
    all.extend(flags);
    let ran = Files::with(&cluster, &list(pods)).simulate(&all);
    (ran.code, ran.decisions())
}

#[test]
fn report_mode_names_victims_and_keeps_them() {
    let (code, decisions) = run(&[important("p"), important("q")], &[]);
    let way = json!({ "nominatedNode": "a", "victims": ["default/v"] });
    for decision in &decisions {
        assert_eq!((&decision["node"], &decision["preemption"]), (&Value::Null, &way));
        assert_eq!(decision["message"], "0/2 nodes are available: 2 Insufficient cpu.");
        assert_eq!(
            decision["event"],
            "0/2 nodes are available: 2 Insufficient cpu. preemption: found a potential placement for pod on node a, preempting 1 victims"
        );
    }
    assert_eq!(code, Some(3));
}

#[test]
fn apply_mode_evicts_victims_and_places_the_pod() {
    let (code, decisions) =
        run(&[important("p"), important("q"), important("r")], &["--preemption", "apply"]);
    let nodes: Vec<&Value> = decisions.iter().map(|decision| &decision["node"]).collect();
    assert_eq!(nodes, [&json!("a"), &json!("b"), &Value::Null]);
    assert_eq!(decisions[1]["preemption"], json!({ "nominatedNode": "b", "victims": ["default/w"] }));
    assert_eq!(decisions[2]["preemption"], Value::Null);
    assert_eq!(code, Some(3));
    let (code, _) = run(&[important("p"), important("q")], &["--preemption", "apply"]);
    assert_eq!(code, Some(0));
}

#[test]
fn off_mode_tries_no_preemption() {
    let (_, decisions) = run(&[important("p")], &["--preemption", "off"]);
    assert_eq!(decisions[0]["preemption"], Value::Null);
    assert_eq!(decisions[0]["event"], "0/2 nodes are available: 2 Insufficient cpu.");
}

#[test]
fn event_contains_the_result_of_failed_preemption() {
    let (_, decisions) = run(&[pod("p", 2, &json!({ "priority": 0 }))], &[]);
    let filters = "0/2 nodes are available: 2 Insufficient cpu.";
    assert_eq!(decisions[0]["message"], filters);
    let event = decisions[0]["event"].as_str().expect("a text");
    let vain = "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.";
    assert_eq!(event, format!("{filters} {vain}"));
}

#[test]
fn pod_evicted_after_placement_does_not_count_as_placed() {
    let cluster = list(&[node("a", 2)]);
    let pods = list(&[pod("humble", 2, &json!({ "priority": 0 })), important("p")]);
    let ran = Files::with(&cluster, &pods).simulate(&["-o", "json", "--preemption", "apply"]);
    let nodes: Vec<Option<String>> = ran.placed().into_iter().map(|(_, node)| node).collect();
    assert_eq!(nodes, [Some("a".to_owned()), Some("a".to_owned())]);
    assert_eq!(ran.code, Some(3));
    assert!(ran.stderr.contains("1 of 2 pods placed"), "{}", ran.stderr);
}

#[test]
fn terminating_pod_of_the_cluster_holds_no_nomination() {
    let nominated = |is_terminating: bool| {
        let mut holder = important("holder");
        holder["status"] = json!({ "nominatedNodeName": "a" });
        if is_terminating {
            holder["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            holder["metadata"]["finalizers"] = json!(["example.com/wait"]);
        }
        let cluster = list(&[node("a", 2), holder]);
        let pods = list(&[pod("p", 2, &json!({ "priority": 0 }))]);
        let ran = Files::with(&cluster, &pods).simulate(&["-o", "json"]);
        ran.decisions()[0]["node"].clone()
    };
    assert_eq!((nominated(false), nominated(true)), (Value::Null, json!("a")));
}
