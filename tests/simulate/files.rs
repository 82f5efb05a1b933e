//! The formats of input files, and the handling of each kind of object.

use crate::support::{Files, list, node, pod};
use serde_json::{Value, json};

fn nodes_and(more: &[Value]) -> String {
    let mut objects = vec![node("a", 2), node("b", 2)];
    objects.extend(more.iter().cloned());
    list(&objects)
}

fn placed(cluster: &str, pods: &str, flags: &[&str]) -> Vec<(String, Option<String>)> {
    let mut all = vec!["-o", "json", "--tie-break", "name"];
    all.extend(flags);
    Files::with(cluster, pods).simulate(&all).placed()
}

fn on(pod: &str, node: &str) -> (String, Option<String>) {
    (pod.to_owned(), Some(node.to_owned()))
}

#[test]
fn yaml_documents_json_streams_and_lists_are_equivalent() {
    let yaml = "# a comment\napiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {capacity: {cpu: 2, pods: 10}}\n---\n---\n\
                apiVersion: v1\nkind: NodeList\nitems:\n- metadata: {name: b}\n  status: {capacity: {cpu: 2, pods: 10}}\n";
    let stream = format!("{}\n{}", pod("p", 2, &json!({})), pod("q", 2, &json!({})));
    let expected = [on("default/p", "a"), on("default/q", "b")];
    assert_eq!(placed(yaml, &stream, &[]), expected);
    assert_eq!(placed(yaml, &list(&[pod("p", 2, &json!({})), pod("q", 2, &json!({}))]), &[]), expected);
}

#[test]
fn files_and_standard_input_are_read_in_order() {
    let files = Files::with(&nodes_and(&[]), &pod("first", 1, &json!({})).to_string());
    files.write("more", &pod("last", 1, &json!({})).to_string());
    let args = ["--cluster", "cluster", "--pods", "pods", "-", "more", "-o", "json"];
    let names: Vec<String> = files
        .run(&args, &pod("middle", 1, &json!({})).to_string())
        .placed()
        .into_iter()
        .map(|(pod, _)| pod)
        .collect();
    assert_eq!(names, ["default/first", "default/middle", "default/last"]);
}

#[test]
fn irrelevant_kinds_are_skipped_and_counted() {
    let object = |api: &str, kind: &str, name: &str| json!({ "apiVersion": api, "kind": kind, "metadata": { "name": name } });
    let cluster = nodes_and(&[object("v1", "ConfigMap", "c"), object("apps/v1", "Deployment", "d")]);
    let pods =
        list(&[object("v1", "ConfigMap", "e"), object("v1", "ConfigMap", "e"), pod("p", 1, &json!({}))]);
    let ran = Files::with(&cluster, &pods).simulate(&[]);
    assert_eq!(ran.code, Some(0));
    let expected = "skipped 4 objects irrelevant to scheduling: 1 apps/v1 Deployment, 3 v1 ConfigMap\n";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
}

#[test]
fn cluster_pods_use_their_node_unless_finished() {
    let bound = |name: &str, node: &str, phase: &str| {
        let mut bound = pod(name, 2, &json!({ "nodeName": node }));
        bound["status"] = json!({ "phase": phase });
        bound
    };
    let cluster = nodes_and(&[
        bound("running", "a", "Running"),
        bound("ended", "b", "Succeeded"),
        bound("failed", "b", "Failed"),
        pod("pending", 2, &json!({})),
    ]);
    let pods = list(&[pod("p", 2, &json!({}))]);
    assert_eq!(placed(&cluster, &pods, &[]), [on("default/p", "b")]);
}

#[test]
fn other_objects_in_pods_files_join_the_cluster() {
    let pods = list(&[pod("p", 4, &json!({})), node("big", 8)]);
    assert_eq!(placed(&nodes_and(&[]), &pods, &[]), [on("default/p", "big")]);
}

#[test]
fn as_written_disables_defaults() {
    let mut greedy = pod("greedy", 0, &json!({}));
    greedy["spec"]["containers"][0]["resources"] = json!({ "limits": { "cpu": "9" } });
    let pods = list(&[greedy]);
    let in_default = |node: Option<&str>| [("default/greedy".to_owned(), node.map(str::to_owned))];
    assert_eq!(placed(&nodes_and(&[]), &pods, &[]), in_default(None));
    let mut cluster = node("a", 1);
    cluster["status"] = json!({ "allocatable": { "cpu": "1", "pods": "1" } });
    let written = placed(&list(&[cluster]), &pods, &["--as-written"]);
    assert_eq!(written, [("/greedy".to_owned(), Some("a".to_owned()))]);
}

#[test]
fn undefined_namespace_has_the_name_label() {
    let term = |namespace: &str| {
        json!({
            "topologyKey": "kubernetes.io/hostname", "labelSelector": {},
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": namespace } },
        })
    };
    let required = |namespace: &str| {
        let terms = [term(namespace)];
        json!({ "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": terms } } })
    };
    let mut there = pod("there", 1, &json!({ "nodeName": "a" }));
    there["metadata"]["namespace"] = "team".into();
    let pods = list(&[pod("shy", 1, &required("team")), pod("bold", 1, &required("absent"))]);
    let placed = placed(&nodes_and(&[there]), &pods, &[]);
    assert_eq!(placed[0], on("default/shy", "b"));
}

#[test]
fn workloads_expand_to_pods_in_file_order() {
    let template = json!({
        "metadata": { "labels": { "app": "w" } },
        "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "1" } } }] },
    });
    let workload = |api: &str, kind: &str, name: &str, replicas: u32| {
        json!({
            "apiVersion": api, "kind": kind, "metadata": { "name": name },
            "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": "w" } }, "template": template },
        })
    };
    let pods = list(&[
        workload("apps/v1", "StatefulSet", "db", 2),
        pod("alone", 0, &json!({})),
        workload("apps/v1", "Deployment", "web", 2),
        workload("apps/v1", "DaemonSet", "agent", 0),
    ]);
    let placed = placed(&nodes_and(&[]), &pods, &[]);
    let starts = [
        "default/db-0",
        "default/db-1",
        "default/alone",
        "default/web-",
        "default/web-",
        "default/agent-",
        "default/agent-",
    ];
    assert_eq!(placed.len(), starts.len());
    for ((name, _), start) in placed.iter().zip(starts) {
        assert!(name.starts_with(start), "{name} is no {start}");
    }
    let spread: Vec<Option<&str>> = placed[..2].iter().map(|(_, node)| node.as_deref()).collect();
    assert_eq!(spread, [Some("a"), Some("b")]);
}

#[test]
fn generated_names_are_deterministic() {
    let mut nameless = pod("", 1, &json!({}));
    nameless["metadata"] = json!({ "generateName": "run-" });
    let pods = list(&[nameless.clone(), nameless]);
    let once = placed(&nodes_and(&[]), &pods, &[]);
    assert_eq!(once, placed(&nodes_and(&[]), &pods, &[]));
    assert_ne!(once[0].0, once[1].0);
    assert!(once[0].0.starts_with("default/run-"));
}
