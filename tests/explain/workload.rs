//! `why`, and `explain` of workloads.

use crate::support::{Cluster, plain_node, pod, run};
use serde_json::{Value, json};

/// A pod of the Deployment `web`.
fn of_web(name: &str, cpu: &str, node: Option<&str>) -> Value {
    let mut pod = pod(name, cpu, &json!({}));
    pod["metadata"]["labels"] = json!({ "pod-template-hash": "5d9" });
    pod["metadata"]["ownerReferences"] =
        json!([{ "kind": "ReplicaSet", "name": "web-5d9", "uid": "u", "controller": true }]);
    if let Some(node) = node {
        pod["spec"]["nodeName"] = node.into();
    }
    pod
}

fn cluster() -> Cluster {
    Cluster::of(&[
        plain_node("a"),
        of_web("web-5d9-a", "1", Some("a")),
        of_web("web-5d9-c", "9", None),
        of_web("web-5d9-b", "9", None),
        pod("alone", "1", &json!({})),
    ])
}

#[test]
fn pending_pod_of_a_workload_is_explained() {
    let cluster = cluster();
    let of_pod = cluster.ask("web-5d9-b", &[]);
    for kind in ["deploy/web", "deployment/web"] {
        let of_workload = run(cluster.folder(), &["explain", kind, "--cluster", "cluster"]);
        assert_eq!((of_workload.code, &of_workload.stdout), (Some(3), &of_pod.stdout), "{kind}");
        let notice = "Deployment web has 3 pods, 2 of them pending; this is web-5d9-b";
        assert!(of_workload.stderr.contains(notice), "{}", of_workload.stderr);
    }
}

#[test]
fn unknown_workload_is_an_error_with_the_closest_name() {
    let ran = run(cluster().folder(), &["explain", "deploy", "wen", "--cluster", "cluster"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert!(
        ran.stderr.contains("no unfinished pod of Deployment wen in namespace default; did you mean web?"),
        "{}",
        ran.stderr
    );
    let other = run(cluster().folder(), &["explain", "configmap/web", "--cluster", "cluster"]);
    assert!(other.stderr.contains("for example deploy/NAME"), "{}", other.stderr);
}

#[test]
fn why_answers_as_explain_does() {
    let cluster = cluster();
    for (short, long) in [("alone", "pod/alone"), ("pod/alone", "pod/alone"), ("deploy/web", "deploy/web")] {
        let [short, long] =
            [["why", short, "--cluster", "cluster"], ["explain", long, "--cluster", "cluster"]]
                .map(|args| run(cluster.folder(), &args));
        assert!(!long.stdout.is_empty());
        assert_eq!((short.code, short.stdout), (long.code, long.stdout));
    }
}
