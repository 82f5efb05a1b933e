//! Invalid input is reported with its position, and the program exits with code 2 before any decision.

use crate::support::{Files, list, node, pod};
use serde_json::json;

const NODE: &str =
    "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {capacity: {cpu: 4, pods: 10}}\n";
const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n";

/// Returns the error message, which must be the only output.
fn complaint(files: &Files) -> String {
    let ran = files.simulate(&["-o", "json"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    ran.stderr.strip_prefix("error: ").expect("an error").trim_end().to_owned()
}

fn of_pods(text: &str) -> String {
    complaint(&Files::with(NODE, text))
}

#[test]
fn syntax_error_is_reported_with_line_and_column() {
    let text = of_pods("kind: Pod\nspec: [\n");
    assert!(text.starts_with("pods:2:7: expected YAML or JSON: "), "{text}");
    let text = of_pods("{\"kind\": \"Pod\",\n  }");
    assert!(text.starts_with("pods:2:3: expected YAML or JSON: "), "{text}");
    let text = of_pods("kind: Pod\nkind: Pod\n");
    assert!(text.starts_with("pods:2:1: expected YAML or JSON: duplicate mapping key: kind"), "{text}");
}

#[test]
fn object_without_kind_version_or_name_is_rejected() {
    assert!(of_pods("- 1\n").starts_with("pods:1:1: expected an object with apiVersion and kind"));
    let text = of_pods(&format!("{POD}---\nmetadata: {{name: q}}\nkind: Pod\n"));
    assert!(text.starts_with("pods:6:1: expected apiVersion to be a string"), "{text}");
    let text = of_pods("apiVersion: v1\nkind: Pod\nmetadata: {labels: {}}\n");
    assert_eq!(text, "pods:3:11: expected metadata.name to be a string");
}

#[test]
fn field_of_wrong_type_is_reported_with_its_position() {
    let text =
        of_pods(&format!("{POD}spec:\n  containers:\n  - name: c\n    ports:\n    - hostPort: eighty\n"));
    assert!(
        text.starts_with("pods:9:17: Pod default/p is malformed: spec.containers[0].ports[0].hostPort: "),
        "{text}"
    );
    let requests = "    resources: {requests: {example.com/gpu: 1, cpu: lots}}\n";
    let text = of_pods(&format!("{POD}spec:\n  containers:\n  - name: c\n{requests}"));
    assert!(text.starts_with("pods:8:53: Pod default/p is malformed: "), "{text}");
    assert!(text.contains("requests[cpu]: \"lots\": "), "{text}");
}

#[test]
fn template_field_is_reported_with_its_position_in_the_workload() {
    let text = of_pods(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  selector: {matchLabels: {a: b}}\n  template:\n    \
         metadata: {labels: {a: b}}\n    spec:\n      priority: high\n",
    );
    assert!(text.starts_with("pods:9:17: Pod default/d-"), "{text}");
    let text = of_pods(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {parallelism: -2, template: {}}\n",
    );
    assert_eq!(text, "pods:4:21: expected spec.parallelism to be a count, found -2");
}

#[test]
fn duplicate_object_is_reported_with_both_positions() {
    let text = of_pods(&format!("{POD}---\n{POD}"));
    assert_eq!(text, "pods:9:9: Pod default/p is defined twice, first at pods:4:9; define each object once");
    let cluster = format!("{NODE}---\n{POD}---\n{POD}  namespace: default\n");
    let both = complaint(&Files::with(&cluster, POD));
    let expected = "Pod default/p is defined twice, first at cluster:9:9; define each object once";
    assert!(both.starts_with("cluster:14:9: ") && both.ends_with(expected), "{both}");
    let elsewhere = Files::with(NODE, &format!("{POD}---\n{POD}  namespace: other\n"));
    assert_eq!(elsewhere.simulate(&[]).code, Some(0));
}

#[test]
fn invalid_cluster_object_is_rejected_before_any_decision() {
    let cluster = list(&[
        node("a", 4),
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "b" },
        "status": { "allocatable": { "cpu": "x" } } }),
    ]);
    let text = complaint(&Files::with(&cluster, &list(&[pod("p", 1, &json!({}))])));
    assert!(text.starts_with("cluster:1:") && text.contains("Node b is malformed"), "{text}");
}

#[test]
fn unknown_priority_class_is_reported_at_its_pod() {
    let text = of_pods(&format!("{POD}spec:\n  priorityClassName: gold\n"));
    assert!(text.starts_with("pods:6:22: PriorityClass \"gold\" is in no file; "), "{text}");
    let files = Files::with(NODE, &format!("{POD}spec:\n  priorityClassName: gold\n"));
    // Without defaults the node has no allocatable resources, so nothing fits; the missing class is not an error.
    assert_eq!(files.simulate(&["--as-written"]).code, Some(3));
}

#[test]
fn unreadable_files_and_unknown_flags_are_rejected() {
    let files = Files::with(NODE, POD);
    let missing = files.run(&["--cluster", "absent", "--pods", "pods"], "");
    assert_eq!(missing.code, Some(2));
    assert!(missing.stderr.starts_with("error: absent: cannot be read: "), "{}", missing.stderr);
    let twice = files.run(&["--cluster", "-", "--pods", "-"], NODE);
    assert_eq!(
        (twice.code, twice.stderr.as_str()),
        (Some(2), "error: -: standard input can be read only once; pass it only once\n")
    );
    for flags in
        [&["--cluster", "cluster"][..], &["--cluster", "cluster", "--pods", "pods", "--tie-break", "luck"]]
    {
        let ran = files.run(flags, "");
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{flags:?}");
    }
}

#[test]
fn configuration_with_extenders_is_rejected() {
    let files = Files::with(NODE, POD);
    files.write(
        "config",
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
         extenders: [{urlPrefix: http://x, filterVerb: f}]\n",
    );
    let ran = files.simulate(&["--config", "config"]);
    assert_eq!(ran.code, Some(2));
    assert_eq!(
        ran.stderr,
        "error: extenders: a simulation does not call extenders; remove the field from the file for the simulation\n"
    );
}

#[test]
fn invalid_configuration_is_reported_with_its_position() {
    let files = Files::with(NODE, POD);
    files.write(
        "config",
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofile: []\n",
    );
    let ran = files.simulate(&["--config", "config"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.starts_with("error: config:3:") && ran.stderr.contains("profile"), "{}", ran.stderr);
}
