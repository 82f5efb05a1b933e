//! Large clusters are simulated and compared completely, and the output stays short. Time is not measured.

use crate::support::{Files, list, node, pod};
use serde_json::{Value, json};

#[test]
fn thousand_nodes_and_ten_thousand_pods_are_rescheduled() {
    let mut objects: Vec<Value> = (0..1_000).map(|at| node(&format!("n{at:04}"), 12)).collect();
    objects.extend((0..10_000).map(|at| {
        let owner = format!("w{:03}", at % 500);
        let spec = json!({ "nodeName": format!("n{:04}", at / 10) });
        let mut pod = pod(&format!("{owner}-{at}"), 1, &spec);
        pod["metadata"]["labels"] = json!({ "app": owner });
        pod["metadata"]["ownerReferences"] =
            json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true }]);
        pod
    }));
    let files = Files::with(&list(&objects), "");
    let flags = [
        "--cluster",
        "cluster",
        "--remove-node",
        "n0000",
        "--add-nodes",
        "5:template=n0001",
        "--scale",
        "w007=60",
    ];
    let ran = files.run(&flags, "");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stderr, "50 of 50 pods placed\n");
    assert!(ran.stdout.contains("  before   1000        10000             0\n"), "{}", ran.stdout);
    assert!(ran.stdout.contains("  after    1004        10040             0\n"), "{}", ran.stdout);
    let config =
        json!({ "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration" });
    files.write("same", &config.to_string());
    let ran = files.run(&["--cluster", "cluster", "--compare-config", "same"], "");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), "10000 of 10000 pods placed\n"));
    assert!(
        ran.stdout.contains("places differently: 0\n") && ran.stdout.lines().count() < 60,
        "{}",
        ran.stdout
    );
}

/// Adds what an API server sets, so that no default is needed, and fields that scheduling never reads.
fn as_listed(mut object: Value, at: usize) -> Value {
    let metadata = object["metadata"].as_object_mut().expect("an object");
    metadata.insert("uid".to_owned(), json!(format!("uid-{at}")));
    metadata.insert("managedFields".to_owned(), json!([{ "fieldsV1": "x".repeat(9_000) }]));
    if object["kind"] == "Pod" {
        object["metadata"]["namespace"] = json!("default");
    }
    object
}

#[test]
fn large_and_small_files_give_equal_results() {
    let mut objects: Vec<Value> = (0..100).map(|at| node(&format!("n{at}"), 4)).collect();
    let on = |at: usize| json!({ "nodeName": format!("n{}", at % 100), "priorityClassName": "high" });
    objects.extend((0..450).map(|at| pod(&format!("old-{at}"), 1, &on(at * 7 % 100))));
    objects.push(json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": { "name": "high" }, "value": 7 }));
    let large: Vec<Value> = objects.into_iter().enumerate().map(|(at, it)| as_listed(it, at)).collect();
    let small: Vec<Value> = large
        .iter()
        .cloned()
        .map(|mut it| {
            it["metadata"].as_object_mut().expect("an object").remove("managedFields");
            it
        })
        .collect();
    let vip = json!({ "priority": 1000 });
    let pods = list(&[pod("p", 1, &json!({})), pod("q", 4, &vip), pod("r", 9, &json!({}))]);
    let simulated =
        |cluster: String| Files::with(&cluster, &pods).simulate(&["-o", "json", "--preemption", "report"]);
    let (small, large) = (list(&small), list(&large));
    assert!(small.len() < 4 << 20 && large.len() > 4 << 20);
    let (small, as_yaml) = (
        simulated(small),
        serde_saphyr::to_string(&serde_json::from_str::<Value>(&large).expect("the text is valid JSON")),
    );
    let (large, yaml) = (simulated(large), simulated(as_yaml.expect("the list serializes to YAML")));
    assert_eq!(small.code, Some(3), "{}", small.stderr);
    assert_eq!((&large.stdout, &yaml.stdout), (&small.stdout, &small.stdout));
}

#[test]
fn error_in_a_large_file_names_the_object_number() {
    let mut objects: Vec<Value> = (0..500).map(|at| as_listed(node(&format!("n{at}"), 4), at)).collect();
    let mut wrong = as_listed(pod("p", 1, &json!({ "nodeName": "n1", "priorityClassName": "absent" })), 500);
    objects.push(wrong.clone());
    let simulated =
        |objects: &[Value]| Files::with(&list(objects), &pod("q", 1, &json!({})).to_string()).simulate(&[]);
    let ran = simulated(&objects);
    assert!(ran.refused().starts_with("cluster: object 501: "), "{ran:?}");
    assert!(ran.refused().contains("absent"), "{ran:?}");
    wrong["spec"] =
        json!({ "nodeName": "n1", "containers": [{ "resources": { "requests": { "cpu": "x" } } }] });
    objects.pop();
    objects.push(wrong);
    let ran = simulated(&objects);
    assert!(
        ran.refused().starts_with("cluster: object 501: Pod default/p is malformed: spec.containers"),
        "{ran:?}"
    );
    objects.push(objects[3].clone());
    let ran =
        simulated(&objects[..objects.len() - 2].iter().chain(&objects[3..4]).cloned().collect::<Vec<_>>());
    assert!(ran.refused().contains("Node n3 is defined twice, first at cluster: object 4"), "{ran:?}");
}
