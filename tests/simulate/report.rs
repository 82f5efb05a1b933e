//! The output formats of the report.

use crate::offline::{assert_matches_file, assert_page_shows_output, command, root, run};
use crate::support::{Files, Ran, list, node, pod};
use serde_json::{Value, json};
use std::process::Stdio;

fn files() -> Files {
    let mut cordoned = node("c", 8);
    cordoned["spec"] = json!({ "unschedulable": true });
    let cluster = list(&[node("a", 2), node("b", 1), cordoned]);
    Files::with(&cluster, &list(&[pod("p", 2, &json!({})), pod("q", 4, &json!({}))]))
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn full_report_has_all_fields_of_each_decision() {
    let decisions = files().simulate(&["-o", "json", "--detail", "full"]).decisions();
    let all = [
        "event",
        "feasible",
        "message",
        "node",
        "pod",
        "preFilter",
        "preemption",
        "rejected",
        "scores",
        "totals",
    ];
    assert!(decisions.iter().all(|decision| keys(decision) == all), "{decisions:?}");
    let placed = &decisions[0];
    assert_eq!(
        (&placed["node"], &placed["message"], &placed["event"]),
        (&json!("a"), &Value::Null, &Value::Null)
    );
    assert_eq!(placed["feasible"], json!(["a"]));
    let fit = json!({ "plugin": "NodeResourcesFit", "code": "UnschedulableAndUnresolvable", "reasons": ["Insufficient cpu"] });
    assert_eq!(placed["rejected"]["b"], fit);
    // A single feasible node is scored, too. A plugin that ran has an entry, even 0; a plugin that skipped has none.
    let scores = placed["scores"]["a"].as_object().expect("scores");
    assert_eq!(scores["ImageLocality"], 0);
    assert!(!scores.contains_key("InterPodAffinity"), "{scores:?}");
    let sum: i64 = scores.values().filter_map(Value::as_i64).sum();
    assert_eq!(placed["totals"]["a"], sum);
    let failed = &decisions[1];
    assert_eq!(
        (&failed["feasible"], &failed["scores"], &failed["totals"]),
        (&json!([]), &json!({}), &json!({}))
    );
}

#[test]
fn brief_report_counts_nodes_per_reason() {
    let decisions = files().simulate(&["-o", "json", "--detail", "brief"]).decisions();
    assert_eq!(files().simulate(&["-o", "json"]).decisions(), decisions, "brief is the default");
    let all = ["counts", "event", "message", "node", "pod", "preFilter", "preemption"];
    assert!(decisions.iter().all(|decision| keys(decision) == all), "{decisions:?}");
    assert_eq!(decisions[0]["counts"], json!({ "Insufficient cpu": 1, "node(s) were unschedulable": 1 }));
    assert_eq!(decisions[1]["counts"], json!({ "Insufficient cpu": 2, "node(s) were unschedulable": 1 }));
}

#[test]
fn equal_pods_name_the_prefilter_plugin_at_every_detail() {
    let claim =
        json!({ "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "absent" } }] });
    let files = Files::with(&list(&[node("a", 4)]), &list(&[pod("p", 1, &claim), pod("q", 1, &claim)]));
    let rejected = |detail: &str| -> Vec<Value> {
        let decisions = files.simulate(&["-o", "json", "--detail", detail]).decisions();
        decisions.into_iter().map(|decision| decision["preFilter"].clone()).collect()
    };
    let full = rejected("full");
    assert!(full.iter().all(|it| it["plugin"].is_string()), "{full:?}");
    assert_eq!([rejected("brief"), rejected("none")], [full.clone(), full]);
}

#[test]
fn prefilter_rejection_is_reported_separately() {
    let terms = json!([{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["z"] }] }]);
    let required =
        json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } });
    let lost = pod("p", 1, &json!({ "affinity": { "nodeAffinity": required } }));
    let files = Files::with(&list(&[node("a", 2)]), &list(&[lost]));
    for detail in ["full", "brief"] {
        let decision = files.simulate(&["-o", "json", "--detail", detail]).decisions()[0].clone();
        assert!(decision["preFilter"].is_null() || decision["preFilter"]["plugin"].is_string(), "{decision}");
        assert!(decision["message"].is_string(), "{decision}");
    }
}

#[test]
fn yaml_and_json_reports_are_equal() {
    let files = files();
    let json: Value = serde_json::from_str(&files.simulate(&["-o", "json"]).stdout).expect("JSON");
    let yaml: Value = serde_saphyr::from_str(&files.simulate(&["-o", "yaml"]).stdout).expect("YAML");
    assert_eq!(json, yaml);
    let nothing = Files::with(&list(&[node("a", 1)]), "");
    let empty: Value = serde_saphyr::from_str(&nothing.simulate(&["-o", "yaml"]).stdout).expect("YAML");
    assert_eq!(empty["decisions"], json!([]));
    assert_eq!(nothing.simulate(&["-o", "json"]).decisions(), [Value::Null; 0]);
}

#[test]
fn table_has_one_row_per_pod() {
    let ran = files().simulate(&[]);
    let event = "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu.";
    assert_eq!(ran.stdout, format!("POD        NODE    MESSAGE\ndefault/p  a\ndefault/q  <none>  {event}\n"));
    assert_eq!(ran.stderr, "1 of 2 pods placed\n");
    let wide = files().simulate(&["-o", "wide"]).stdout;
    let lines: Vec<Vec<&str>> = wide.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["POD", "NODE", "SCORE", "FEASIBLE", "PREEMPTS", "ON", "VICTIMS", "MESSAGE"]);
    assert_eq!((lines[1][0], lines[1][1], lines[1][3]), ("default/p", "a", "1/3"));
    assert_eq!((lines[2][0], lines[2][1], lines[2][3]), ("default/q", "<none>", "0/3"));
}

/// The second of two equal pods is decided from the cache.
#[test]
fn wide_table_without_details_shows_the_total_of_cached_decisions() {
    let cluster = list(&[node("a", 4), node("b", 4), node("c", 4)]);
    let pods: Vec<Value> = ["p", "q"].iter().map(|name| pod(name, 1, &json!({}))).collect();
    let files = Files::with(&cluster, &list(&pods));
    let totals = |detail: &str| {
        let wide = files.simulate(&["-o", "wide", "--detail", detail]).stdout;
        let rows = wide.lines().skip(1);
        rows.map(|row| row.split_whitespace().nth(2).expect("a score").parse().expect("a number")).collect()
    };
    let (none, full): (Vec<i64>, Vec<i64>) = (totals("none"), totals("full"));
    assert_eq!(none, full);
    assert_eq!((none.len(), none.iter().all(|total| *total > 0)), (2, true), "{none:?}");
}

#[test]
fn documented_examples_match_the_output() {
    assert_page_shows_output("docs/simulate.md", 4);
}

#[test]
fn what_if_output_matches_in_every_format() {
    let flags = "simulate --cluster docs/simulate/shop.yaml -n shop --remove-node worker-1 --compare-config docs/simulate/packing.yaml --detail none -o";
    for form in ["table", "wide", "json", "yaml"] {
        let output = run(root(), &flags.split(' ').chain([form]).collect::<Vec<_>>()).stdout;
        assert_matches_file(&format!("tests/simulate/shown/what-if.{form}.txt"), &output);
    }
}

#[test]
fn closed_pipe_is_not_reported_as_an_error() {
    let pods: Vec<Value> =
        (0..3_000).map(|at| pod(&format!("pod-with-a-long-name-{at}"), 1, &json!({}))).collect();
    let files = Files::with(&list(&[node("a", 1)]), &list(&pods));
    let mut child = command(files.path(), &["simulate", "--cluster", "cluster", "--pods", "pods"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program is built");
    drop(child.stdout.take());
    let ran = Ran::of(child.wait_with_output().expect("the program ends"));
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), ""));
}
