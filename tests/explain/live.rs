//! Clusters over HTTP: answers in pages, rejections, silence, and no server at all.

use crate::support::{Ran, plain_node, pod, run};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The server's answers: status and body for a path with its query. A string is the body as it is.
type Answer = fn(&str) -> Option<(u16, Value)>;

/// Returns a kubeconfig for a server with these answers; `None` means no answer.
fn kubeconfig(answer: Answer) -> TempDir {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("the listener has an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(&stream, answer));
        }
    });
    written(port)
}

fn written(port: u16) -> TempDir {
    let folder = tempfile::tempdir().expect("the temporary directory is created");
    let context = |name: &str, namespace: &str| json!({ "name": name, "context": { "cluster": "c", "user": "u", "namespace": namespace } });
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{ "name": "c", "cluster": { "server": format!("http://127.0.0.1:{port}") } }],
        "users": [{ "name": "u", "user": {} }],
        "contexts": [context("here", "prod"), context("there", "other")],
    });
    std::fs::write(folder.path().join("kubeconfig"), config.to_string()).expect("the file is written");
    folder
}

fn serve(stream: &TcpStream, answer: Answer) {
    let mut lines = BufReader::new(stream).lines();
    while let Some(Ok(request)) = lines.next() {
        while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
        let path = request.split(' ').nth(1).unwrap_or_default();
        let Some((status, body)) = answer(path) else {
            // Until the client closes the connection.
            let _ = lines.next();
            return;
        };
        let body = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
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

/// A list as from an API server: its items have no kind and no apiVersion.
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
fn live_cluster_is_listed_in_pages_and_explained_like_files() {
    let folder = kubeconfig(cluster);
    let ran = ask(folder.path(), "p", &["-o", "json"]);
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    assert_eq!(
        (&answer["pod"], &answer["verdict"], ran.code),
        (&json!("prod/p"), &json!("blocked"), Some(3))
    );
    assert_eq!(answer["reasons"][0]["code"], "InsufficientCpu");
    assert_eq!(ran.stderr, "ignoring /apis/storage.k8s.io/v1/csinodes: no, you\n");
}

#[test]
fn feasible_pending_pod_of_a_live_cluster_names_the_next_step() {
    let folder = kubeconfig(|path| match path {
        "/api/v1/pods?limit=500" => list("PodList", vec![pod("p", "1", &json!({}))], ""),
        path => cluster(path),
    });
    let ran = ask(folder.path(), "p", &["--context", "here"]);
    let step = "  Next step: run `supercargo doctor --kubeconfig kubeconfig --context here`, which checks whether a \
                scheduler runs.\n";
    assert!(ran.code == Some(0) && ran.stdout.contains(step), "{ran:?}");
    let of_file = crate::support::Cluster::of(&[plain_node("a"), pod("p", "1", &json!({}))]).ask("p", &[]);
    assert!(of_file.code == Some(0) && !of_file.stdout.contains("Next step"), "{of_file:?}");
}

#[test]
fn namespace_defaults_to_the_kubeconfig_context() {
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
fn forbidden_pod_list_is_an_error() {
    let folder = kubeconfig(|path| if path.contains("pods") { refused(403) } else { cluster(path) });
    let ran = ask(folder.path(), "p", &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("rejects /api/v1/pods with 403: no, you"), "{ran:?}");
}

#[test]
fn malformed_object_is_skipped_with_a_warning() {
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
    assert!(ran.stderr.contains("ignoring 1 invalid object: Node b is malformed"), "{ran:?}");
}

#[test]
fn silent_server_ends_with_the_request_timeout() {
    let folder = kubeconfig(|_| None);
    let began = Instant::now();
    let ran = ask(folder.path(), "p", &["--request-timeout", "200ms"]);
    // The time is bounded; the exact duration depends on the machine.
    assert!(began.elapsed() < Duration::from_secs(60));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("does not answer: no response for /version within 200ms"), "{ran:?}");
}

#[test]
fn missing_server_and_invalid_kubeconfig_are_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let folder = written(listener.local_addr().expect("the listener has an address").port());
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
        none.stderr.contains("no cluster is configured") && none.stderr.contains("--cluster"),
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
fn lint_checks_workloads_of_a_live_cluster() {
    let folder = kubeconfig(with_workloads);
    let ran = run(folder.path(), &["lint", "--kubeconfig", "kubeconfig", "-o", "json"]);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    assert_eq!((&report["judged"], ran.code), (&json!(1), Some(3)), "{report:#}");
    let finding = &report["findings"][0];
    assert_eq!((&finding["rule"], &finding["name"]), (&json!("NodeSelectorMatchesNothing"), &json!("web")));
    assert!(ran.stderr.starts_with("ignoring /apis/apps/v1/daemonsets: "), "{}", ran.stderr);
}

#[test]
fn live_cluster_accepts_hypothetical_changes() {
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
    // Names without a namespace use the namespace of the context.
    let unknown =
        run(folder.path(), &["simulate", "--live", "--kubeconfig", "kubeconfig", "--scale", "web=3"]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.stderr.contains("workload web not found in namespace prod"), "{}", unknown.stderr);
}

#[test]
fn report_places_pods_of_a_file_in_a_live_cluster() {
    let folder = kubeconfig(cluster);
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": { "replicas": 2, "selector": { "matchLabels": { "app": "web" } }, "template": {
            "metadata": { "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "c", "image": "i", "resources": { "requests": { "memory": "1Gi" } } }] },
        } },
    });
    std::fs::write(folder.path().join("web.json"), deployment.to_string()).expect("the file is written");
    let ran = run(folder.path(), &["report", "--kubeconfig", "kubeconfig", "-f", "web.json", "-o", "json"]);
    let model: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    assert_eq!(ran.code, Some(0));
    assert_eq!(model["source"], "the cluster of the kubeconfig, with the pods of web.json");
    assert_eq!(model["owners"], json!([{ "namespace": 0, "kind": "Deployment", "name": "web" }]));
    assert_eq!(model["pods"]["node"], json!([[-2, -2, 0, -1], [0, 0, 0, -1]]));
    assert_eq!(model["pending"][0]["explanation"]["pod"], "prod/p");
    let left_out = "ignoring /apis/storage.k8s.io/v1/csinodes: no, you";
    assert_eq!(model["notices"], json!([left_out]));
    assert_eq!(ran.stderr, format!("{left_out}\n"));
}

#[test]
fn failed_listing_writes_no_report() {
    let folder = kubeconfig(|_| None);
    let args = ["report", "--kubeconfig", "kubeconfig", "--request-timeout", "300ms", "--to", "page.html"];
    let ran = run(folder.path(), &args);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("does not answer"), "{}", ran.stderr);
    assert!(!folder.path().join("page.html").exists());
}

/// Runs `record` against a cluster with these answers; all other paths are forbidden.
fn record(answer: Answer) -> (Ran, bool) {
    let folder = kubeconfig(answer);
    let args = ["record", "recording", "--kubeconfig", "kubeconfig", "--request-timeout", "300ms"];
    let ran = run(folder.path(), &args);
    (ran, folder.path().join("recording").exists())
}

#[test]
fn record_without_list_permission_fails_at_once_with_advice() {
    let (ran, is_written) = record(|path| match path {
        "/version" => Some((200, json!({"gitVersion": "v1.36.3"}))),
        _ => refused(403),
    });
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{ran:?}");
    for part in ["rejects /api/v1/nodes with 403: no, you", "supercargo-read"] {
        assert!(ran.stderr.contains(part), "{ran:?}");
    }
    assert!(!is_written, "no recording is written");
}

#[test]
fn record_without_watch_permission_fails_within_the_timeout() {
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
fn rejected_token_is_a_doctor_problem_and_an_error_elsewhere() {
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
fn zero_request_timeout_means_no_limit() {
    let folder = kubeconfig(cluster);
    assert_eq!(ask(folder.path(), "p", &["--request-timeout", "0"]).code, Some(3));
}

/// An API server with a lease held by the node `n1`, and these pods on it.
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
            Some((
                200,
                serde_json::from_str(&report.expect("the entry exists")).expect("the text is valid JSON"),
            ))
        }
        _ => refused(404),
    }
}

#[test]
fn queue_finds_a_leader_by_its_node_name() {
    let folder = kubeconfig(host_network);
    let ran = run(folder.path(), &["queue", "-A", "--kubeconfig", "kubeconfig"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("cart-5b8d-9wq2m"), "{ran:?}");
}

#[test]
fn queue_reports_an_unknown_lease_holder_with_advice() {
    let folder = kubeconfig(|path| match path {
        path if path.contains("fieldSelector") => Some((200, json!({ "items": [] }))),
        path => host_network(path),
    });
    let ran = run(folder.path(), &["queue", "-A", "--kubeconfig", "kubeconfig"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{ran:?}");
    assert!(ran.stderr.contains("the lease holder n1 is neither") && ran.stderr.contains("--pod"), "{ran:?}");
}

/// A pod of a ReplicaSet on the node `a`, which also fits on `b`.
fn to_drain(path: &str) -> Option<(u16, Value)> {
    match path {
        "/api/v1/nodes?limit=500" => list("NodeList", vec![plain_node("a"), plain_node("b")], ""),
        "/api/v1/pods?limit=500" => {
            let mut pod = pod("p", "1", &json!({ "nodeName": "a" }));
            pod["metadata"]["ownerReferences"] = json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true }]);
            list("PodList", vec![pod], "")
        }
        _ => list("List", Vec::new(), ""),
    }
}

const BUDGETS: &str = "/apis/policy/v1/poddisruptionbudgets";

fn drain_check(folder: &Path, more: &[&str]) -> Ran {
    run(folder, &[&["drain-check", "a", "--kubeconfig", "kubeconfig"], more].concat())
}

#[test]
fn drain_check_without_permission_to_read_budgets_does_not_pass() {
    let folder = kubeconfig(|path| if path.starts_with(BUDGETS) { refused(403) } else { to_drain(path) });
    let ran = drain_check(folder.path(), &["-o", "json"]);
    let answer = ran.json("DrainCheck");
    assert_eq!((&answer["willDrain"], ran.code), (&json!(false), Some(4)), "{answer:#}");
    let text = "a disruption budget may protect it: the budgets could not be read";
    let unknown = json!([{ "code": "BudgetsUnknown", "pods": ["prod/p"], "text": text, "acceptedBy": "--disable-eviction" }]);
    assert_eq!((&answer["obstacles"], &answer["unread"]), (&unknown, &json!([BUDGETS])), "{answer:#}");
    assert_eq!(
        drain_check(folder.path(), &[]).stdout,
        format!(
            "a: 1 pod to evict, all fit elsewhere; unknown whether the drain can evict all of them\n\n\
             Pods that the drain may be unable to evict\n  prod/p: {text} (accepted with --disable-eviction)\n"
        )
    );
    let deletes = drain_check(folder.path(), &["--disable-eviction", "-o", "json"]);
    assert_eq!((&deletes.json("DrainCheck")["willDrain"], deletes.code), (&json!(true), Some(0)));
    let plan = run(folder.path(), &["plan", "free-nodes", "--nodes", "a", "--kubeconfig", "kubeconfig"]);
    assert_eq!((plan.code, plan.stdout.as_str()), (Some(1), ""), "{plan:?}");
    assert!(
        plan.stderr.contains("the disruption budgets cannot be read")
            && plan.stderr.contains("supercargo-read")
    );
}

#[test]
fn drain_check_passes_if_budgets_are_read_or_not_served() {
    let answers: [Answer; 4] = [
        to_drain,
        |path| if path.starts_with(BUDGETS) { refused(404) } else { to_drain(path) },
        |path| {
            if path.starts_with(BUDGETS) {
                Some((404, json!("404 page not found\n")))
            } else {
                to_drain(path)
            }
        },
        |path| if path.starts_with(BUDGETS) { Some((200, json!({ "items": null }))) } else { to_drain(path) },
    ];
    for answer in answers {
        let ran = drain_check(kubeconfig(answer).path(), &[]);
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (Some(0), "a: 1 pod to evict, all fit elsewhere\n"),
            "{ran:?}"
        );
        assert_eq!(ran.stderr, "");
    }
}

#[test]
fn answers_of_a_proxy_do_not_count_as_kinds_without_objects() {
    let answers: [Answer; 3] = [
        |path| match path.starts_with(BUDGETS) {
            true => Some((404, json!("<html><body>no such page</body></html>"))),
            false => to_drain(path),
        },
        |path| match path.starts_with(BUDGETS) {
            true => Some((404, json!({ "code": 404, "message": "no such page" }))),
            false => to_drain(path),
        },
        |path| match path.starts_with(BUDGETS) {
            true => Some((200, json!({ "message": "log in" }))),
            false => to_drain(path),
        },
    ];
    for answer in answers {
        let ran = drain_check(kubeconfig(answer).path(), &[]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{ran:?}");
        let parts = ["answers otherwise than an API server", BUDGETS, "check server and proxy-url"];
        assert!(parts.iter().all(|part| ran.stderr.contains(part)), "{ran:?}");
    }
}
