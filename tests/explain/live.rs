//! A cluster that is asked over HTTP: one that answers in pages, one that refuses, one that is silent, none at all.

use crate::support::{Ran, plain_node, pod, run};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What the server answers: a status and a body for a path with its query.
type Answer = fn(&str) -> Option<(u16, Value)>;

/// A kubeconfig for a server that answers so; `None` is silence.
fn kubeconfig(answer: Answer) -> TempDir {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let port = listener.local_addr().expect("it has one").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(&stream, answer));
        }
    });
    written(port)
}

fn written(port: u16) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let context = |name: &str, namespace: &str| json!({ "name": name, "context": { "cluster": "c", "user": "u", "namespace": namespace } });
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{ "name": "c", "cluster": { "server": format!("http://127.0.0.1:{port}") } }],
        "users": [{ "name": "u", "user": {} }],
        "contexts": [context("here", "prod"), context("there", "other")],
    });
    std::fs::write(folder.path().join("kubeconfig"), config.to_string()).expect("it can be written");
    folder
}

fn serve(stream: &TcpStream, answer: Answer) {
    let mut lines = BufReader::new(stream).lines();
    while let Some(Ok(request)) = lines.next() {
        while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
        let path = request.split(' ').nth(1).unwrap_or_default();
        let Some((status, body)) = answer(path) else {
            // Until the other side has had enough.
            let _ = lines.next();
            return;
        };
        let body = body.to_string();
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let mut stream = stream;
        if stream.write_all(format!("{head}{body}").as_bytes()).is_err() {
            return;
        }
    }
}

fn ask(folder: &Path, pod: &str, more: &[&str]) -> Ran {
    let mut args = vec!["explain", "pod", pod, "--kubeconfig", "kubeconfig"];
    args.extend(more);
    run(folder, &args)
}

/// As an API server lists them: items without kind and version.
fn list(kind: &str, mut items: Vec<Value>, next: &str) -> Option<(u16, Value)> {
    for item in &mut items {
        let fields = item.as_object_mut().expect("an object");
        fields.remove("kind");
        fields.remove("apiVersion");
        let metadata = &mut item["metadata"];
        if kind == "PodList" {
            metadata["namespace"] = json!("prod");
        }
        metadata["uid"] = json!(format!("uid-{}", metadata["name"].as_str().unwrap_or_default()));
    }
    Some((200, json!({ "kind": kind, "apiVersion": "v1", "metadata": { "continue": next }, "items": items })))
}

fn refused(code: u16) -> Option<(u16, Value)> {
    Some((
        code,
        json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "message": "no, you" }),
    ))
}

fn cluster(path: &str) -> Option<(u16, Value)> {
    match path {
        "/api/v1/nodes?limit=500" => list("NodeList", vec![plain_node("a")], ""),
        "/api/v1/pods?limit=500" => list("PodList", vec![pod("p", "1", &json!({}))], "to be/continued"),
        "/api/v1/pods?limit=500&continue=to%20be%2Fcontinued" => {
            list("PodList", vec![pod("other", "4", &json!({ "nodeName": "a" }))], "")
        }
        "/apis/storage.k8s.io/v1/csinodes?limit=500" => refused(403),
        path if path.starts_with("/apis/") => refused(404),
        _ => list("List", Vec::new(), ""),
    }
}

#[test]
fn a_running_cluster_is_listed_page_by_page_and_explained_as_files_are() {
    let folder = kubeconfig(cluster);
    let ran = ask(folder.path(), "p", &["-o", "json"]);
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    assert_eq!(
        (&answer["pod"], &answer["verdict"], ran.code),
        (&json!("prod/p"), &json!("blocked"), Some(3))
    );
    assert_eq!(answer["reasons"][0]["code"], "InsufficientCpu");
    assert_eq!(ran.stderr, "what rests on /apis/storage.k8s.io/v1/csinodes is left out: no, you\n");
}

#[test]
fn the_namespace_is_the_contexts_unless_it_is_given() {
    let folder = kubeconfig(cluster);
    let there = ask(folder.path(), "p", &["--context", "there"]);
    assert_eq!(there.code, Some(2));
    assert!(there.stderr.contains("pod p not found in namespace other; it exists with -n prod"), "{there:?}");
    assert_eq!(ask(folder.path(), "p", &["--context", "there", "-n", "prod"]).code, Some(3));
    let nowhere = ask(folder.path(), "p", &["--context", "nowhere"]);
    assert_eq!(nowhere.code, Some(2));
    assert!(nowhere.stderr.contains("the kubeconfig is not usable"), "{nowhere:?}");
}

#[test]
fn a_cluster_that_does_not_let_us_see_its_pods_is_told() {
    let folder = kubeconfig(|path| if path.contains("pods") { refused(403) } else { cluster(path) });
    let ran = ask(folder.path(), "p", &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("refuses /api/v1/pods with 403: no, you"), "{ran:?}");
}

#[test]
fn an_object_that_cannot_be_read_is_left_out_and_told() {
    let folder = kubeconfig(|path| match path {
        "/api/v1/nodes?limit=500" => {
            let mut broken = plain_node("b");
            broken["status"]["allocatable"]["cpu"] = json!("many");
            list("NodeList", vec![plain_node("a"), broken], "")
        }
        path => cluster(path),
    });
    let ran = ask(folder.path(), "p", &["-o", "json"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.stderr.contains("1 objects cannot be read and are left out: Node b is malformed"), "{ran:?}");
}

#[test]
fn a_silent_server_is_not_waited_for_longer_than_was_said() {
    let folder = kubeconfig(|_| None);
    let began = Instant::now();
    let ran = ask(folder.path(), "p", &["--request-timeout", "200ms"]);
    // What it takes is bounded; how long exactly is the machine's affair.
    assert!(began.elapsed() < Duration::from_secs(60));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(
        ran.stderr.contains("does not answer: nothing came of /api/v1/nodes?limit=500 within 200ms"),
        "{ran:?}"
    );
}

#[test]
fn a_server_that_is_not_there_and_a_kubeconfig_that_is_none_are_told() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let folder = written(listener.local_addr().expect("it has one").port());
    drop(listener);
    let ran = ask(folder.path(), "p", &[]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("does not answer"), "{ran:?}");
    let absent = run(folder.path(), &["explain", "pod", "p", "--kubeconfig", "absent"]);
    assert_eq!(absent.code, Some(2));
    assert!(absent.stderr.contains("cannot read the kubeconfig absent"), "{absent:?}");
    let none = run(folder.path(), &["explain", "pod", "p"]);
    assert_eq!(none.code, Some(2));
    assert!(
        none.stderr.contains("there is no cluster to ask") && none.stderr.contains("--cluster"),
        "{none:?}"
    );
}

fn with_workloads(path: &str) -> Option<(u16, Value)> {
    match path {
        "/api/v1/nodes?limit=500" => list("NodeList", vec![plain_node("a")], ""),
        "/apis/apps/v1/deployments?limit=500" => {
            let template = json!({ "spec": { "nodeSelector": { "disk": "ssd" }, "priorityClassName": "gold", "containers": [] } });
            let of = json!({ "metadata": { "name": "web", "namespace": "prod" }, "spec": { "selector": {}, "template": template } });
            let (status, mut body) = list("DeploymentList", vec![of], "")?;
            body["apiVersion"] = json!("apps/v1");
            Some((status, body))
        }
        "/apis/apps/v1/daemonsets?limit=500" => refused(403),
        _ => list("List", Vec::new(), ""),
    }
}

#[test]
fn the_workloads_of_a_running_cluster_are_judged() {
    let folder = kubeconfig(with_workloads);
    let ran = run(folder.path(), &["lint", "--kubeconfig", "kubeconfig", "-o", "json"]);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    assert_eq!((&report["judged"], ran.code), (&json!(1), Some(3)), "{report:#}");
    let finding = &report["findings"][0];
    assert_eq!((&finding["rule"], &finding["name"]), (&json!("NodeSelectorMatchesNothing"), &json!("web")));
    assert!(ran.stderr.starts_with("what rests on /apis/apps/v1/daemonsets is left out: "), "{}", ran.stderr);
}

#[test]
fn a_running_cluster_is_changed_in_mind() {
    let folder = kubeconfig(cluster);
    let flags = [
        "simulate",
        "--live",
        "--kubeconfig",
        "kubeconfig",
        "--add-nodes",
        "1:template=a",
        "-o",
        "json",
        "--detail",
        "none",
    ];
    let ran = run(folder.path(), &flags);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    let decision = &report["decisions"][0];
    assert_eq!(
        (&decision["pod"], &decision["node"], ran.code),
        (&json!("prod/p"), &json!("a-new-1"), Some(0)),
        "{report:#}"
    );
    assert_eq!(
        (&report["summary"]["before"]["pending"], &report["summary"]["after"]["pending"]),
        (&json!(1), &json!(0))
    );
    // Names without a namespace are the context's.
    let unknown =
        run(folder.path(), &["simulate", "--live", "--kubeconfig", "kubeconfig", "--scale", "web=3"]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.stderr.contains("workload web not found in namespace prod"), "{}", unknown.stderr);
}

#[test]
fn a_report_of_a_running_cluster_places_the_pods_of_a_file_in_it() {
    let folder = kubeconfig(cluster);
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": { "replicas": 2, "selector": { "matchLabels": { "app": "web" } }, "template": {
            "metadata": { "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "c", "image": "i", "resources": { "requests": { "memory": "1Gi" } } }] },
        } },
    });
    std::fs::write(folder.path().join("web.json"), deployment.to_string()).expect("it can be written");
    let ran = run(folder.path(), &["report", "--kubeconfig", "kubeconfig", "-f", "web.json", "-o", "json"]);
    let model: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    assert_eq!(ran.code, Some(0));
    assert_eq!(model["source"], "the cluster of the kubeconfig, with the pods of web.json");
    assert_eq!(model["owners"], json!([{ "namespace": 0, "kind": "Deployment", "name": "web" }]));
    assert_eq!(model["pods"]["node"], json!([[-2, -2, 0, -1], [0, 0, 0, -1]]));
    assert_eq!(model["pending"][0]["explanation"]["pod"], "prod/p");
    let left_out = "what rests on /apis/storage.k8s.io/v1/csinodes is left out: no, you";
    assert_eq!(model["notices"], json!([left_out]));
    assert_eq!(ran.stderr, format!("{left_out}\n"));
}

#[test]
fn no_report_is_written_of_a_cluster_that_does_not_answer() {
    let folder = kubeconfig(|_| None);
    let args = ["report", "--kubeconfig", "kubeconfig", "--request-timeout", "300ms", "--to", "page.html"];
    let ran = run(folder.path(), &args);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("does not answer"), "{}", ran.stderr);
    assert!(!folder.path().join("page.html").exists());
}

/// A cluster that answers what `answer` has, and refuses the rest.
fn record(answer: Answer) -> (Ran, bool) {
    let folder = kubeconfig(answer);
    let args = ["record", "recording", "--kubeconfig", "kubeconfig", "--request-timeout", "300ms"];
    let ran = run(folder.path(), &args);
    (ran, folder.path().join("recording").exists())
}

#[test]
fn record_without_the_right_to_list_nodes_ends_at_once_and_says_how_to_grant_it() {
    let (ran, is_written) = record(|path| match path {
        "/version" => Some((200, json!({"gitVersion": "v1.36.3"}))),
        _ => refused(403),
    });
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{ran:?}");
    for part in ["refuses /api/v1/nodes with 403: no, you", "supercargo-read"] {
        assert!(ran.stderr.contains(part), "{ran:?}");
    }
    assert!(!is_written, "a recording of nothing");
}

#[test]
fn record_without_the_right_to_watch_some_kind_ends_within_the_request_timeout() {
    for is_silent in [true, false] {
        let (ran, _) = if is_silent {
            record(|path| if path.ends_with("?limit=1") || path == "/version" { cluster(path) } else { None })
        } else {
            record(|path| {
                if path.ends_with("?limit=1") || path == "/version" { cluster(path) } else { refused(403) }
            })
        };
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{ran:?}");
        assert!(ran.stderr.contains("cannot watch the cluster"), "{ran:?}");
    }
}

#[test]
fn rejected_token_is_a_problem_for_the_doctor_and_an_error_for_the_others() {
    let folder = kubeconfig(|_| refused(401));
    let ran = ask(folder.path(), "p", &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{ran:?}");
    assert!(
        ran.stderr.contains("does not accept the credentials") && ran.stderr.contains("log in again"),
        "{ran:?}"
    );
    let ran = run(folder.path(), &["doctor", "--kubeconfig", "kubeconfig", "-o", "json"]);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    assert_eq!((ran.code, &report["problems"]), (Some(3), &json!(1)), "{report:#}");
    assert_eq!(
        (&report["checks"][0]["id"], &report["checks"][0]["status"]),
        (&json!("Credentials"), &json!("problem"))
    );
}

#[test]
fn request_timeout_of_zero_is_no_limit_as_it_is_to_kubectl() {
    let folder = kubeconfig(cluster);
    assert_eq!(ask(folder.path(), "p", &["--request-timeout", "0"]).code, Some(3));
}

/// An API server with a lease that the node `n1` holds, and these pods there.
fn host_network(path: &str) -> Option<(u16, Value)> {
    let own = |name: &str| {
        json!({ "metadata": { "name": name, "labels": { "app.kubernetes.io/name": "supercargo" } },
            "spec": { "nodeName": "n1", "hostNetwork": true } })
    };
    let mut other = own("proxy");
    other["metadata"]["labels"] = json!({ "app.kubernetes.io/name": "kube-proxy" });
    match path {
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/supercargo" => {
            Some((200, json!({ "spec": { "holderIdentity": "n1_5e0e" } })))
        }
        "/api/v1/namespaces/kube-system/pods?limit=500&fieldSelector=spec.nodeName%3Dn1" => {
            Some((200, json!({ "items": [other, own("supercargo-n1")] })))
        }
        path if path.starts_with(
            "/api/v1/namespaces/kube-system/pods/https:supercargo-n1:10259/proxy/debug/pending",
        ) =>
        {
            let report = std::fs::read_to_string(crate::support::root().join("docs/queue/report.json"));
            Some((200, serde_json::from_str(&report.expect("it is there")).expect("it is JSON")))
        }
        _ => refused(404),
    }
}

#[test]
fn queue_finds_a_leader_that_holds_the_lease_by_the_name_of_its_node() {
    let folder = kubeconfig(host_network);
    let ran = run(folder.path(), &["queue", "-A", "--kubeconfig", "kubeconfig"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("cart-5b8d-9wq2m"), "{ran:?}");
}

#[test]
fn queue_says_what_to_name_if_the_holder_is_neither_a_pod_nor_a_node_with_a_scheduler() {
    let folder = kubeconfig(|path| match path {
        path if path.contains("fieldSelector") => Some((200, json!({ "items": [] }))),
        path => host_network(path),
    });
    let ran = run(folder.path(), &["queue", "-A", "--kubeconfig", "kubeconfig"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{ran:?}");
    assert!(ran.stderr.contains("n1 holds the lease") && ran.stderr.contains("--pod"), "{ran:?}");
}
