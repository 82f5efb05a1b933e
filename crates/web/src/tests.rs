//! Sessions as the page uses them, natively.

use crate::Session;
use serde_json::{Value, json};
use std::io::Read;

const OBJECTS: &str = "\
apiVersion: v1
kind: Node
metadata: {name: small}
status: {allocatable: {cpu: '2', memory: 8Gi, pods: '110'}}
---
apiVersion: v1
kind: Node
metadata: {name: large}
spec: {taints: [{key: team, value: a, effect: PreferNoSchedule}]}
status: {allocatable: {cpu: '4', memory: 8Gi, pods: '110'}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: c, image: i, resources: {requests: {cpu: '2'}}}
";

fn answer(session: &mut Session, request: &Value, text: &str) -> Value {
    let mut inputs = |_: usize| -> Box<dyn Read> { Box::new(std::io::Cursor::new(text.as_bytes().to_vec())) };
    session.answer(request.to_string().as_bytes(), &mut inputs)
}

fn loaded(text: &str) -> Session {
    let mut session = Session::default();
    let answered = answer(&mut session, &json!({ "do": "load", "inputs": ["objects"] }), text);
    assert_eq!(answered["error"], Value::Null);
    session
}

fn ask(session: &mut Session, changes: &Value) -> Value {
    answer(session, &json!({ "do": "ask", "changes": changes }), "")
}

fn rows(session: &mut Session, table: &str) -> Vec<Value> {
    let answered = answer(session, &json!({ "do": table, "limit": 100 }), "");
    answered["rows"].as_array().expect("rows").clone()
}

fn error(answered: &Value) -> &str {
    answered["error"].as_str().unwrap_or_default()
}

#[test]
fn manifest_without_pods_is_expanded_and_decided() {
    let mut session = loaded(OBJECTS);
    let outcome = ask(&mut session, &json!([]));
    assert_eq!(
        (&outcome["placed"], &outcome["pending"], &outcome["nodes"]),
        (&json!(3), &json!(0), &json!(2))
    );
    let pods = rows(&mut session, "pods");
    let on = |node: &str| pods.iter().filter(|row| row["node"] == node).count();
    assert_eq!((on("small"), on("large")), (1, 2), "{pods:?}");
}

#[test]
fn workload_of_a_dump_keeps_its_pods() {
    let pod = "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: web-1-a\n  namespace: shop\n  labels: {pod-template-hash: '1'}\n  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-1, uid: u, controller: true}]\nspec: {nodeName: small, containers: [{name: c, image: i}]}\n";
    let mut session = loaded(&(OBJECTS.to_owned() + pod));
    assert_eq!(ask(&mut session, &json!([]))["decided"], 0, "its pods are in the input");
    let listed = OBJECTS.replace("{name: web, namespace: shop}", "{name: web, namespace: shop, uid: u}");
    assert_eq!(ask(&mut loaded(&listed), &json!([]))["decided"], 0, "an API server wrote it");
}

#[test]
fn changes_are_decided_and_the_next_question_starts_from_the_loaded_cluster() {
    let mut session = loaded(OBJECTS);
    let five =
        json!({ "change": "scale", "kind": "Deployment", "namespace": "shop", "name": "web", "replicas": 5 });
    let outcome = ask(&mut session, &json!([five]));
    assert_eq!(
        (&outcome["placed"], &outcome["pending"], &outcome["placedBefore"]),
        (&json!(3), &json!(2), &json!(3))
    );
    let more = json!({ "change": "addNodes", "like": "large", "count": 1 });
    let outcome = ask(&mut session, &json!([five, more]));
    assert_eq!((&outcome["placed"], &outcome["nodes"]), (&json!(5), &json!(3)));
    let one =
        json!({ "change": "scale", "kind": "Deployment", "namespace": "shop", "name": "web", "replicas": 1 });
    assert_eq!(ask(&mut session, &json!([one]))["decided"], 1);
    let gone = json!({ "change": "removeNode", "node": "large" });
    let outcome = ask(&mut session, &json!([gone]));
    assert_eq!(
        (&outcome["placed"], &outcome["pending"], &outcome["moved"]),
        (&json!(1), &json!(2), &json!(2))
    );
    let before = ask(&mut session, &json!([]));
    assert_eq!((&before["placed"], &before["moved"], &before["nodes"]), (&json!(3), &json!(0), &json!(2)));
}

#[test]
fn taint_keeps_pods_off_a_node_until_it_is_removed() {
    let mut session = loaded(OBJECTS);
    let taint = json!({ "change": "taint", "node": "large", "taint": "team=b:NoSchedule" });
    assert_eq!(ask(&mut session, &json!([taint]))["placed"], 1);
    let nodes = rows(&mut session, "nodes");
    assert_eq!(nodes[0]["taints"], json!(["team=a:PreferNoSchedule", "team=b:NoSchedule"]));
    let untaint = json!({ "change": "untaint", "node": "large", "taint": "team=b:NoSchedule" });
    assert_eq!(ask(&mut session, &json!([taint, untaint]))["placed"], 3);
    let replaced = json!({ "change": "taint", "node": "large", "taint": "team=c:PreferNoSchedule" });
    ask(&mut session, &json!([replaced]));
    assert_eq!(rows(&mut session, "nodes")[0]["taints"], json!(["team=c:PreferNoSchedule"]));
}

#[test]
fn rejected_question_names_the_mistake_and_keeps_the_answer() {
    let mut session = loaded(OBJECTS);
    let more = json!({ "change": "addNodes", "like": "large", "count": 2 });
    assert_eq!(ask(&mut session, &json!([more]))["nodes"], 4);
    let mistakes = [
        (json!({ "change": "taint", "node": "large", "taint": "a:Never" }), "KEY[=VALUE]:EFFECT"),
        (json!({ "change": "untaint", "node": "large", "taint": "a:NoSchedule" }), "does not have the taint"),
        (json!({ "change": "taint", "node": "none", "taint": "a:NoSchedule" }), "node none not found"),
        (json!({ "change": "removeNode", "node": "none" }), "node none not found"),
        (json!({ "change": "addNodes", "like": "large", "count": 10_001 }), "maximum of 10000"),
        (
            json!({ "change": "scale", "kind": "Deployment", "namespace": "shop", "name": "no", "replicas": 1 }),
            "Deployment shop/no: has no pods",
        ),
        (
            json!({ "change": "scale", "kind": "DaemonSet", "namespace": "shop", "name": "no", "replicas": 1 }),
            "one pod per node",
        ),
        (
            json!({ "change": "scale", "kind": "Deployment", "namespace": "shop", "name": "web", "replicas": 100_001 }),
            "maximum of 100000",
        ),
    ];
    for (mistake, part) in mistakes {
        let answered = ask(&mut session, &json!([more, mistake]));
        assert!(error(&answered).contains(part), "{part}: {answered}");
        assert_eq!(rows(&mut session, "nodes").len(), 4, "the answer before stays");
    }
    let answered = answer(&mut session, &json!({ "do": "ask", "config": "kind: Nothing" }), "");
    assert!(error(&answered).starts_with("configuration:"), "{answered}");
}

#[test]
fn configuration_changes_where_pods_go() {
    let packing = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- plugins: {multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, {name: DefaultBinder}]}}\n";
    let mut session = loaded(OBJECTS);
    let outcome = answer(&mut session, &json!({ "do": "ask", "config": packing }), "");
    assert_eq!((&outcome["placed"], &outcome["pending"]), (&json!(3), &json!(0)), "{outcome}");
    let extender = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders: [{urlPrefix: 'http://x/', filterVerb: f}]\n";
    let answered = answer(&mut session, &json!({ "do": "ask", "config": extender }), "");
    assert!(error(&answered).contains("extenders"), "{answered}");
}

#[test]
fn explanation_has_reasons_and_scores() {
    let mut session = loaded(OBJECTS);
    ask(
        &mut session,
        &json!([{ "change": "scale", "kind": "Deployment", "namespace": "shop", "name": "web", "replicas": 4 }]),
    );
    let pods = rows(&mut session, "pods");
    let of = |is_pending: bool| {
        pods.iter().find(|row| row["node"].is_null() == is_pending).expect("a pod")["pod"].clone()
    };
    let explained = answer(&mut session, &json!({ "do": "explain", "pod": of(true) }), "");
    assert_eq!((&explained["verdict"], &explained["fitsOn"]), (&json!("blocked"), &json!(0)), "{explained}");
    let explained = answer(&mut session, &json!({ "do": "explain", "pod": of(false) }), "");
    assert_eq!(explained["verdict"], "bound");
    assert!(explained["scores"]["nodes"].as_array().is_some_and(|nodes| !nodes.is_empty()), "{explained}");
    assert!(
        error(&answer(&mut session, &json!({ "do": "explain", "pod": "a/b" }), ""))
            .contains("pod a/b not found")
    );
}

#[test]
fn invalid_objects_name_line_and_field_and_the_old_cluster_stays() {
    let mut session = loaded(OBJECTS);
    let load = json!({ "do": "load", "inputs": ["pasted"] });
    let answered = answer(&mut session, &load, &OBJECTS.replace("cpu: '4'", "cpu: four"));
    assert!(
        error(&answered).starts_with("pasted:10:") && error(&answered).contains("status.allocatable"),
        "{answered}"
    );
    assert_eq!(rows(&mut session, "nodes").len(), 2);
    let answered = answer(&mut session, &load, "kind: [");
    assert!(error(&answered).starts_with("pasted:"), "{answered}");
    let answered = answer(&mut session, &load, &OBJECTS.replace("replicas: 3", "replicsa: 3"));
    assert!(answered["notes"].to_string().contains("did you mean replicas"), "{answered}");
    let answered = answer(&mut session, &json!({ "do": "load", "inputs": [], "version": "1.2" }), "");
    assert!(error(&answered).contains("use one of 1.34"), "{answered}");
    assert!(
        error(&answer(&mut Session::default(), &json!({ "do": "ask" }), "")).contains("no cluster is loaded")
    );
}

#[test]
fn window_returns_only_its_rows_and_the_total() {
    let mut session = loaded(OBJECTS);
    ask(&mut session, &json!([]));
    let window = |session: &mut Session, request: Value| answer(session, &request, "");
    let part = window(&mut session, json!({ "do": "pods", "offset": 1, "limit": 1 }));
    assert_eq!((&part["total"], part["rows"].as_array().map(Vec::len)), (&json!(3), Some(1)));
    let part = window(&mut session, json!({ "do": "pods", "filter": "WEB small", "limit": 9 }));
    assert_eq!(part["total"], 1);
    for (only, total) in [("decided", 3), ("pending", 0), ("moved", 0), ("all", 3)] {
        assert_eq!(window(&mut session, json!({ "do": "pods", "only": only }))["total"], total, "{only}");
    }
    assert_eq!(window(&mut session, json!({ "do": "workloads", "limit": 9 }))["rows"][0]["pods"], 3);
}
