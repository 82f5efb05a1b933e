//! What is wrong is told with its place, and ends the program with code 2 before anything is decided.

use crate::support::{Files, list, node, pod};
use serde_json::json;

const NODE: &str =
    "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {capacity: {cpu: 4, pods: 10}}\n";
const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n";

/// The message about bad files, which is all that is said.
fn complaint(files: &Files) -> String {
    let ran = files.simulate(&["-o", "json"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    ran.stderr.strip_prefix("error: ").expect("an error").trim_end().to_owned()
}

fn of_pods(text: &str) -> String {
    complaint(&Files::with(NODE, text))
}

#[test]
fn a_file_that_is_no_yaml_or_json_is_told_with_line_and_column() {
    let text = of_pods("kind: Pod\nspec: [\n");
    assert!(text.starts_with("pods:2:7: expected YAML or JSON: "), "{text}");
    let text = of_pods("{\"kind\": \"Pod\",\n  }");
    assert!(text.starts_with("pods:2:3: expected YAML or JSON: "), "{text}");
    let text = of_pods("kind: Pod\nkind: Pod\n");
    assert!(text.starts_with("pods:2:1: expected YAML or JSON: duplicate mapping key: kind"), "{text}");
}

#[test]
fn an_object_needs_a_kind_a_version_and_a_name() {
    assert!(of_pods("- 1\n").starts_with("pods:1:1: expected an object with apiVersion and kind"));
    let text = of_pods(&format!("{POD}---\nmetadata: {{name: q}}\nkind: Pod\n"));
    assert!(text.starts_with("pods:6:1: expected apiVersion to be a string"), "{text}");
    let text = of_pods("apiVersion: v1\nkind: Pod\nmetadata: {labels: {}}\n");
    assert_eq!(text, "pods:3:11: expected metadata.name to be a string");
}

#[test]
fn a_field_of_the_wrong_type_is_told_with_its_place() {
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
fn a_field_of_a_template_is_told_where_it_stands_in_the_workload() {
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
fn the_same_object_twice_is_told_with_both_places() {
    let text = of_pods(&format!("{POD}---\n{POD}"));
    assert_eq!(text, "pods:9:9: Pod default/p is defined twice, first at pods:4:9; define each object once");
    let cluster = format!("{NODE}---\n{POD}---\n{POD}  namespace: default\n");
    let both = complaint(&Files::with(&cluster, POD));
    let told = "Pod default/p is defined twice, first at cluster:9:9; define each object once";
    assert!(both.starts_with("cluster:14:9: ") && both.ends_with(told), "{both}");
    let elsewhere = Files::with(NODE, &format!("{POD}---\n{POD}  namespace: other\n"));
    assert_eq!(elsewhere.simulate(&[]).code, Some(0));
}

#[test]
fn an_object_of_the_cluster_is_judged_before_anything_is_decided() {
    let cluster = list(&[
        node("a", 4),
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "b" },
        "status": { "allocatable": { "cpu": "x" } } }),
    ]);
    let text = complaint(&Files::with(&cluster, &list(&[pod("p", 1, &json!({}))])));
    assert!(text.starts_with("cluster:1:") && text.contains("Node b is malformed"), "{text}");
}

#[test]
fn classes_that_no_file_holds_are_told_with_the_pod_that_names_them() {
    let text = of_pods(&format!("{POD}spec:\n  priorityClassName: gold\n"));
    assert!(text.starts_with("pods:6:22: PriorityClass \"gold\" is in no file; "), "{text}");
    let files = Files::with(NODE, &format!("{POD}spec:\n  priorityClassName: gold\n"));
    // As written the node has no allocatable, so nothing fits; but nobody asks for a class.
    assert_eq!(files.simulate(&["--as-written"]).code, Some(3));
}

#[test]
fn files_that_cannot_be_read_and_flags_that_are_none_are_told() {
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
fn a_configuration_with_extenders_is_not_simulated_without_them() {
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
fn a_wrong_configuration_is_told_with_its_place() {
    let files = Files::with(NODE, POD);
    files.write(
        "config",
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofile: []\n",
    );
    let ran = files.simulate(&["--config", "config"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.starts_with("error: config:3:") && ran.stderr.contains("profile"), "{}", ran.stderr);
}
