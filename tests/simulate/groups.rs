//! Pod groups: the members of a group are decided together.

use crate::support::{Files, list, node, pod};
use serde_json::{Value, json};

const GATES: &str =
    "--feature-gates=GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true";

fn member(name: &str, priority: i32) -> Value {
    pod(name, 1, &json!({ "schedulingGroup": { "podGroupName": "g" }, "priority": priority }))
}

fn group(api: &str, min_count: usize, key: Option<&str>) -> Value {
    let mut spec = json!({ "schedulingPolicy": { "gang": { "minCount": min_count } } });
    if let Some(key) = key {
        spec["schedulingConstraints"] = json!({ "topology": [{ "key": key }] });
    }
    json!({
        "apiVersion": format!("scheduling.k8s.io/{api}"), "kind": "PodGroup",
        "metadata": { "name": "g", "namespace": "default", "uid": "g" }, "spec": spec,
    })
}

fn in_rack(name: &str, rack: &str, cpu: u32) -> Value {
    let mut node = node(name, cpu);
    node["metadata"]["labels"]["rack"] = json!(rack);
    node
}

/// Simulates members of a group in a cluster with a node of two CPUs and one of one.
fn run(group: &Value, members: usize, flags: &[&str]) -> (Option<i32>, Vec<Value>) {
    let cluster = list(&[in_rack("a", "x", 2), in_rack("b", "y", 1), group.clone()]);
    let pods: Vec<Value> = (0..members).map(|at| member(&format!("p{at}"), 0)).collect();
    let all = [&["-o", "json", "--emulated-version", "1.36"], flags].concat();
    let ran = Files::with(&cluster, &list(&pods)).simulate(&all);
    (ran.code, ran.decisions())
}

#[test]
fn gang_is_placed_whole_or_not_at_all() {
    for api in ["v1alpha2", "v1beta1"] {
        let (code, decisions) = run(&group(api, 3, None), 3, &[GATES]);
        assert_eq!(code, Some(0), "{decisions:#?}");
        let expected = json!({ "name": "default/g", "result": "scheduled", "status": "" });
        assert!(decisions.iter().all(|decision| decision["group"] == expected), "{decisions:#?}");
    }
    let (code, decisions) = run(&group("v1alpha2", 4, None), 4, &[GATES]);
    assert_eq!(code, Some(3));
    for decision in &decisions {
        assert_eq!(decision["node"], Value::Null, "{decision:#}");
        assert_eq!(decision["group"]["result"], "unschedulable");
    }
    let (code, decisions) = run(&group("v1alpha2", 4, None), 3, &[GATES]);
    assert_eq!(code, Some(3));
    assert_eq!(
        decisions[0]["message"],
        "waiting for minCount pods from a gang to appear in scheduling queue"
    );
}

#[test]
fn members_are_ordinary_pods_without_the_gate() {
    let (code, decisions) = run(&group("v1alpha2", 4, None), 4, &[]);
    assert_eq!(code, Some(3));
    let placed = decisions.iter().filter(|decision| !decision["node"].is_null()).count();
    assert_eq!(placed, 3, "{decisions:#?}");
    assert!(decisions.iter().all(|decision| decision["group"].is_null()), "{decisions:#?}");
}

#[test]
fn each_topology_domain_is_shown() {
    let (code, decisions) = run(&group("v1alpha2", 2, Some("rack")), 2, &[GATES]);
    assert_eq!(code, Some(0), "{decisions:#?}");
    let group = &decisions[0]["group"];
    assert_eq!(group["placement"], "x", "{group:#}");
    let counts = |at: usize| {
        let domain = &group["placements"][at];
        (domain["name"].as_str().map(str::to_owned), domain["nodes"].as_u64(), domain["members"].as_u64())
    };
    assert_eq!(counts(0), (Some("x".to_owned()), Some(1), Some(2)));
    assert_eq!(counts(1), (Some("y".to_owned()), Some(1), Some(1)));
    assert!(decisions.iter().all(|decision| decision["node"] == "a"), "{decisions:#?}");
}

#[test]
fn members_that_are_bound_count() {
    let bound = pod("old", 1, &json!({ "schedulingGroup": { "podGroupName": "g" }, "nodeName": "a" }));
    let cluster = list(&[node("a", 2), bound, group("v1alpha2", 2, None)]);
    let files = Files::with(&cluster, &list(&[member("new", 0)]));
    let ran = files.simulate(&["-o", "json", "--emulated-version", "1.36", GATES]);
    assert_eq!(ran.placed(), [("default/new".to_owned(), Some("a".to_owned()))]);
}

#[test]
fn victims_of_a_group_are_reported_or_evicted() {
    let gates = "--feature-gates=GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true";
    let mut gang = group("v1alpha2", 2, None);
    gang["spec"]["priority"] = json!(10);
    let on = |name: &str, at: &str| pod(name, 1, &json!({ "nodeName": at, "priority": 0 }));
    let cluster = list(&[node("a", 1), node("b", 1), on("v", "a"), on("w", "b"), gang]);
    let pods = list(&[member("p", 10), member("q", 10)]);
    let flags = ["-o", "json", "--emulated-version", "1.36", gates];
    let ran = Files::with(&cluster, &pods).simulate(&flags);
    let decisions = ran.decisions();
    assert_eq!(ran.code, Some(3));
    assert_eq!(decisions[0]["group"]["result"], "waiting_on_preemption", "{decisions:#?}");
    assert_eq!(decisions[0]["group"]["victims"], json!(["default/v", "default/w"]));
    // A more important pod would preempt one of them, and is not promised it, too.
    let late = list(&[member("p", 10), member("q", 10), pod("late", 1, &json!({ "priority": 20 }))]);
    let decisions = Files::with(&cluster, &late).simulate(&flags).decisions();
    assert_eq!(decisions[2]["preemption"]["victims"], json!([]), "{decisions:#?}");
    let ran = Files::with(&cluster, &pods).simulate(&[&flags[..], &["--preemption", "apply"]].concat());
    assert_eq!(ran.code, Some(0), "{:#?}", ran.decisions());
}

#[test]
fn gate_that_needs_another_or_is_unknown_is_refused() {
    let ran = Files::with(&list(&[]), &list(&[member("p", 0)])).simulate(&[
        "--emulated-version",
        "1.36",
        "--feature-gates=GangScheduling=true",
    ]);
    assert_eq!(ran.code, Some(2));
    let expected = "GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    let folder = crate::offline::Folder::with("");
    let ran = crate::offline::run_with_input(folder.path(), &["doctor", "--feature-gates=Typo=true"], "");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("--feature-gates: unrecognized feature gate: Typo"), "{}", ran.stderr);
}
