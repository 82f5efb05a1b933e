//! Sessions as the page uses them, natively.

use crate::Session;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

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

/// A gang of four members that must share a rack. Rack a has room for two of them, and rack b for three.
const RACKS: &str = include_str!("../../../docs/groups/racks.yaml");

fn load_racks(session: &mut Session, text: &str, version: &str, gates: &str) -> Value {
    let load = json!({ "do": "load", "inputs": ["racks"], "version": version, "featureGates": gates });
    answer(session, &load, text)
}

#[test]
fn group_waits_as_a_whole_with_its_reason_and_a_new_node_starts_it() {
    for version in ["1.36", "1.37"] {
        let mut session = Session::default();
        let loaded = load_racks(&mut session, RACKS, version, "");
        assert!(loaded["featureGates"].to_string().contains("GenericWorkload=true"), "{loaded}");
        assert!(loaded["notes"].to_string().contains("pod groups are on, since"), "{loaded}");
        let outcome = ask(&mut session, &json!([]));
        assert_eq!(
            (&outcome["placed"], &outcome["pending"]),
            (&json!(0), &json!(4)),
            "no member starts alone"
        );
        assert_eq!((&outcome["groups"], &outcome["groupsWaiting"]), (&json!(1), &json!(1)), "{outcome}");
        let row = rows(&mut session, "groups").remove(0);
        assert_eq!((&row["group"], &row["progress"]), (&json!("ml/training"), &json!("waits")), "{row}");
        assert_eq!((&row["members"], &row["bound"], &row["minCount"]), (&json!(4), &json!(0), &json!(4)));
        assert_eq!((&row["closest"]["name"], &row["closest"]["members"]), (&json!("b"), &json!(3)), "{row}");
        assert!(row["message"].to_string().contains("0/2 placements are available"), "{row}");
        assert!(row["short"]["message"].to_string().contains("2 Insufficient cpu"), "{row}");

        let explained = answer(&mut session, &json!({ "do": "explainGroup", "group": "ml/training" }), "");
        let group = &explained["explanation"];
        assert_eq!(
            (&group["verdict"], &group["closest"], &group["lacks"]),
            (&json!("blocked"), &json!("b"), &json!(1))
        );
        assert_eq!(group["short"][0]["examples"], json!(["ml/worker-3"]));
        assert!(group["short"][0]["reasons"][0]["text"].to_string().contains("requests 4 cpu"), "{group}");
        assert!(group["changes"].to_string().contains("add a node like b1"), "{group}");
        let members = explained["members"]["rows"].as_array().expect("rows");
        assert!(members.len() == 4 && members.iter().all(|row| row["node"].is_null()), "{members:?}");

        let node = json!({ "change": "addNodes", "like": "b1", "count": 1 });
        let outcome = ask(&mut session, &json!([node]));
        assert_eq!((&outcome["placed"], &outcome["groupsWaiting"]), (&json!(4), &json!(0)), "{outcome}");
        assert_eq!(outcome["groupsWaitingBefore"], 1);
        let row = rows(&mut session, "groups").remove(0);
        assert_eq!(
            (&row["progress"], &row["bound"], &row["isMoved"]),
            (&json!("starts"), &json!(4), &json!(true))
        );
        let pods = rows(&mut session, "pods");
        let members: Vec<&Value> = pods.iter().filter(|row| row["group"] == "ml/training").collect();
        assert_eq!(members.len(), 4);
        let is_in_rack_b = |row: &&Value| row["node"].as_str().is_some_and(|node| node.starts_with('b'));
        assert!(members.iter().all(is_in_rack_b), "{members:?}");
    }
}

#[test]
fn feature_gates_decide_groups_as_on_the_command_line() {
    let mut session = Session::default();
    let placed = |session: &mut Session| ask(session, &json!([]))["placed"].clone();
    let loaded = load_racks(&mut session, RACKS, "1.36", "GenericWorkload=false");
    assert_eq!(loaded["featureGates"], "GenericWorkload=false");
    assert_eq!(placed(&mut session), 4, "members are ordinary pods");
    assert_eq!(rows(&mut session, "groups"), Vec::<Value>::new());
    load_racks(&mut session, RACKS, "1.36", "GenericWorkload=true,GangScheduling=true");
    assert_eq!(placed(&mut session), 4, "no rack is required without its gate");
    assert_eq!(rows(&mut session, "groups")[0]["topologyKey"], Value::Null);
    for (gates, part) in [
        ("GangScheduling=true", "depends on features that are disabled: [GenericWorkload]"),
        ("Nonsense=true", "unrecognized feature gate: Nonsense"),
    ] {
        assert!(error(&load_racks(&mut session, RACKS, "1.36", gates)).contains(part), "{gates}");
        assert_eq!(rows(&mut session, "nodes").len(), 4, "the old cluster stays");
    }
    let loaded = load_racks(&mut session, RACKS, "1.35", "");
    assert_eq!((&loaded["featureGates"], placed(&mut session)), (&json!(""), json!(4)));
    assert!(loaded["notes"].to_string().contains("scheduled from 1.36 on, not by 1.35"), "{loaded}");
    let foreign = RACKS.replace("scheduling.k8s.io/v1alpha2", "scheduling.volcano.sh/v1beta1");
    let loaded = load_racks(&mut session, &foreign, "1.37", "");
    assert_eq!(loaded["featureGates"], "", "a PodGroup of another API changes nothing");
    assert!(loaded["notes"].to_string().contains("the objects have no PodGroup"), "{loaded}");
}

#[test]
fn group_that_lacks_members_or_its_object_waits_and_says_so() {
    let mut session = Session::default();
    let verdict = |session: &mut Session, group: &str| {
        let explained = answer(session, &json!({ "do": "explainGroup", "group": group }), "");
        explained["explanation"]["verdict"].clone()
    };
    load_racks(&mut session, &RACKS.replace("minCount: 4", "minCount: 5"), "1.37", "");
    assert_eq!(ask(&mut session, &json!([]))["groupsWaiting"], 1);
    assert_eq!(verdict(&mut session, "ml/training"), "tooFewMembers");
    let object = "metadata: {name: training, namespace: ml}";
    load_racks(&mut session, &RACKS.replace(object, "metadata: {name: other, namespace: ml}"), "1.37", "");
    ask(&mut session, &json!([]));
    let groups = rows(&mut session, "groups");
    let shown: Vec<(&Value, &Value)> = groups.iter().map(|row| (&row["group"], &row["exists"])).collect();
    assert_eq!(shown, [(&json!("ml/other"), &json!(true)), (&json!("ml/training"), &json!(false))]);
    assert_eq!(verdict(&mut session, "ml/training"), "noGroup");
    let waiting = answer(&mut session, &json!({ "do": "groups", "only": "pending", "filter": "train" }), "");
    assert_eq!(waiting["total"], 1);
    let unknown = answer(&mut session, &json!({ "do": "explainGroup", "group": "ml/none" }), "");
    assert!(error(&unknown).contains("pod group ml/none not found"), "{unknown}");
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

fn example(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/page").join(name);
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Returns a row of the example's table without its first cell: the page's text (`show` in `page.js`), the pods of
/// `web` per zone, and the node of `db-0`.
fn example_row(session: &mut Session, changes: &Value) -> String {
    let outcome = ask(session, changes);
    assert_eq!(outcome["error"], Value::Null);
    let number = |name: &str| outcome[name].as_u64().expect("a number");
    let mut text = format!("{} of {} pending pods placed", number("placed"), number("decided"));
    if changes != &json!([]) {
        let before = number("placedBefore");
        text += &format!("; without changes {before} of {}", before + number("pendingBefore"));
    }
    let (mut zones, mut db) = (BTreeMap::<&str, usize>::new(), "missing");
    let pods = rows(session, "pods");
    for pod in &pods {
        let node = pod["node"].as_str();
        if pod["pod"] == "shop/db-0" {
            db = node.unwrap_or("pending");
        } else if let Some(zone) = node.and_then(|node| node.strip_prefix("node-")?.get(..1)) {
            *zones.entry(zone).or_default() += 1;
        }
    }
    let zones: Vec<String> = zones.iter().map(|(zone, pods)| format!("{zone} {pods}")).collect();
    format!("| {text}. | {} | {db} |", zones.join(", "))
}

/// Returns the messages of the pending pods.
fn pending(session: &mut Session) -> Vec<String> {
    let answered = answer(session, &json!({ "do": "pods", "only": "pending", "limit": 100 }), "");
    let rows = answered["rows"].as_array().expect("rows").iter();
    rows.map(|row| row["message"].as_str().expect("a message").to_owned()).collect()
}

/// The changes are in the page's order: new nodes first.
#[test]
fn readme_of_the_page_example_states_each_answer() {
    let (text, readme) = (example("scenario.yaml"), example("README.md"));
    let load = json!({ "do": "load", "inputs": ["scenario.yaml"] });
    let mut session = Session::default();
    let loaded = answer(&mut session, &load, &text);
    assert_eq!(
        (&loaded["nodes"], &loaded["pending"], &loaded["notes"]),
        (&json!(3), &json!(7), &json!([])),
        "{loaded}"
    );
    let more = |like: &str, count: usize| json!({ "change": "addNodes", "like": like, "count": count });
    let gone = json!({ "change": "removeNode", "node": "node-b" });
    let nine =
        json!({ "change": "scale", "kind": "Deployment", "namespace": "shop", "name": "web", "replicas": 9 });
    let steps = [
        json!([]),
        json!([gone]),
        json!([more("node-b", 1), gone]),
        json!([nine]),
        json!([more("node-b", 1), nine]),
    ];
    for (number, changes) in (1..).zip(&steps) {
        let row = example_row(&mut session, changes);
        let start = format!("| {number}. ");
        let written = readme.lines().find(|line| line.starts_with(&start)).unwrap_or_default();
        assert!(written.ends_with(&row), "step {number} of examples/page/README.md must end with\n{row}");
        for message in pending(&mut session) {
            assert!(
                readme.contains(&format!("`{message}`")),
                "the README gives the message of step {number}: {message}"
            );
        }
    }
    let others = example_row(&mut session, &json!([more("node-a", 20), gone]));
    assert!(others.ends_with("| pending |"), "nodes like node-a do not help db-0: {others}");
}

#[test]
fn pending_pods_of_the_page_example_have_the_reasons_of_its_readme() {
    let mut session = loaded(&example("scenario.yaml"));
    ask(&mut session, &json!([{ "change": "removeNode", "node": "node-b" }]));
    let explained = answer(&mut session, &json!({ "do": "explain", "pod": "shop/db-0" }), "");
    assert!(explained["reasons"].to_string().contains("NodeSelectorMismatch"), "{explained}");
    let nine =
        json!({ "change": "scale", "kind": "Deployment", "namespace": "shop", "name": "web", "replicas": 9 });
    ask(&mut session, &json!([nine]));
    let free: Vec<i64> = rows(&mut session, "nodes")
        .iter()
        .map(|node| {
            node["cpuMilli"][1].as_i64().expect("a number") - node["cpuMilli"][0].as_i64().expect("a number")
        })
        .collect();
    assert_eq!(free, [1000, 0, 1000], "node-b is full, the others have a free CPU each");
}

#[test]
fn controls_that_the_page_example_names_exist() {
    let (readme, page) = (example("README.md"), include_str!("../page/page.html"));
    let steps = readme.lines().filter(|line| line.starts_with("| "));
    let named: Vec<&str> = steps.flat_map(|line| line.split("**").skip(1).step_by(2)).collect();
    assert_eq!(named.len(), 6, "{named:?}");
    for name in named {
        let is_there = [format!(">{name}<"), format!(">{name} <")].iter().any(|text| page.contains(text));
        assert!(is_there, "page.html has no control {name:?}");
    }
}
