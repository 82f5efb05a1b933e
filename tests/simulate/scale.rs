//! A large cluster is changed and compared whole; what is told of it stays short, whatever the time it takes here.

use crate::support::{Files, list, node, pod};
use serde_json::{Value, json};

#[test]
fn a_thousand_nodes_and_ten_thousand_pods_are_placed_anew() {
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
    assert!(ran.stdout.contains("puts elsewhere: 0\n") && ran.stdout.lines().count() < 60, "{}", ran.stdout);
}
