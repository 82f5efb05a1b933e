//! The service with a given clock: its answers equal those of a cluster with the changes, and users are kept apart. In
//! builds with assertions, each answer is checked against the OpenAPI document.

mod configuration;

use super::{Answer, DOCUMENT, Limits, Live, Method, Request, Service, Store, User};
use crate::cluster::tests::{Random, any_of, node, plain, pod, setup};
use crate::cluster::{Cluster, Interrupt, NodeTemplate, ScaleUpPods, ScaleUpTemplate};
use crate::plan::{Accepted, Goal, free_nodes};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use supercargo_core::model::event::Kind;

/// A service, the time, and what was asked.
struct Desk {
    service: Service,
    now: Duration,
    reads_cluster: bool,
    interrupt: Interrupt,
}

impl Desk {
    fn new(limits: Limits, live: Option<Live>) -> Self {
        let service = Service::new(setup(), limits, live).expect("the setup is valid");
        Self { service, now: Duration::from_secs(1), reads_cluster: true, interrupt: Interrupt::default() }
    }

    fn ask(&mut self, user: &str, method: Method, path: &str, body: &str) -> (u16, Value) {
        let user = User { name: user.to_owned(), uid: format!("uid of {user}") };
        let reads_cluster = self.reads_cluster;
        let request = Request { user, method, path: path.to_owned(), body: body.into(), reads_cluster };
        let Answer { status, body, .. } = self.service.answer(&request, self.now, &self.interrupt);
        let value =
            if body.is_empty() { Value::Null } else { serde_json::from_str(&body).expect("it is JSON") };
        (status, value)
    }

    fn get(&mut self, user: &str, path: &str) -> (u16, Value) {
        self.ask(user, Method::Get, path, "")
    }

    fn post(&mut self, user: &str, path: &str, body: &Value) -> (u16, Value) {
        self.ask(user, Method::Post, path, &body.to_string())
    }

    /// Posts what must succeed.
    fn done(&mut self, user: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.post(user, path, body);
        assert!(matches!(status, 200 | 201), "{path} {body}: {status} {answer}");
        answer
    }

    fn id(&mut self, user: &str, path: &str, body: &Value) -> String {
        self.done(user, path, body)["id"].as_str().expect("it has an id").to_owned()
    }
}

fn list(objects: &[Value]) -> Value {
    json!({ "apiVersion": "v1", "kind": "List", "items": objects })
}

fn nodes(count: usize, random: &mut Random) -> Vec<Value> {
    (0..count).map(|at| node(&format!("n{at}"), random)).collect()
}

/// A live cluster of these objects.
fn live(objects: &[Value]) -> (Arc<Store>, Live) {
    let store = Arc::new(Store::default());
    objects.iter().for_each(|object| show(&store, object, false));
    (Arc::clone(&store), Live { store, ready: Box::new(|| Ok(())) })
}

/// Shows an object as a watch does.
fn show(store: &Store, object: &Value, is_gone: bool) {
    let kind = Kind::EVERY.into_iter().find(|kind| object["kind"] == kind.as_str()).expect("it is watched");
    let version = object["apiVersion"].as_str().expect("it has one");
    let mut object = object.clone();
    if object["kind"] == "Pod" {
        object["metadata"]["namespace"] = "default".into();
        object["metadata"]["uid"] = object["metadata"]["name"].clone();
    }
    store.note(kind, version, &object.to_string(), is_gone);
}

/// Makes a random change of a fork and of the cluster that it must equal, and compares the answers.
fn change(desk: &mut Desk, fork: &str, real: &mut Cluster, number: usize, random: &mut Random) {
    let names: Vec<String> = real.nodes().into_iter().map(str::to_owned).collect();
    let placed: Vec<String> =
        real.pods().filter(|key| real.node_of(key).is_some()).map(str::to_owned).collect();
    let ask = |desk: &mut Desk, change: &str, body: Value| {
        desk.done("ann", &format!("forks/{fork}/{change}"), &body)
    };
    match random.below(6) {
        0 => {
            let objects = [pod(&format!("p{number}"), random), pod(&format!("q{number}"), random)];
            let answer = ask(desk, "place", json!({ "objects": objects }));
            assert_eq!(answer["placements"], json!(real.place(&objects).expect("valid")));
        }
        1 => {
            let template = pod(&format!("c{number}"), random);
            let answer = ask(desk, "place", json!({ "template": template, "count": 3 }));
            assert_eq!(answer["placements"], json!(real.place_copies(&template, 3).expect("valid")));
        }
        2 => {
            let answer = ask(desk, "place", json!({ "pending": true }));
            assert_eq!(answer["placements"], json!(real.place_pending()));
        }
        3 => {
            let Some(pod) = any_of(&placed, random) else { return };
            let answer = ask(desk, "evict", json!({ "pods": [pod] }));
            let is_pending = real.evict(&pod).expect("it is placed");
            assert_eq!(answer[if is_pending { "pending" } else { "gone" }], json!([pod]));
        }
        4 if names.len() > 1 => {
            let Some(node) = any_of(&names, random) else { return };
            let answer = ask(desk, "removeNodes", json!({ "nodes": [node] }));
            assert_eq!(answer["pending"], json!(real.remove_node(&node).expect("it exists")));
        }
        _ => {
            let Some(like) = any_of(&names, random) else { return };
            let answer = ask(desk, "addNodes", json!({ "like": like, "count": 2 }));
            assert_eq!(answer["nodes"], json!(real.add_nodes(NodeTemplate::Like(&like), 2).expect("valid")));
        }
    }
}

/// Compares questions about a fork with those about the cluster that it must equal.
fn compare(desk: &mut Desk, fork: &str, real: &mut Cluster) {
    let mut random = Random(9);
    let objects: Vec<Value> = (0..4).map(|at| pod(&format!("f{at}"), &mut random)).collect();
    let mut ask = |question: &str, body: Value| desk.done("ann", &format!("forks/{fork}/{question}"), &body);
    assert_eq!(ask("fits", json!({ "objects": objects })), json!(real.fits(&objects).expect("valid")));
    let feasible = ask("feasible", json!({ "objects": objects[..1] }));
    assert_eq!(feasible, json!(real.feasible_nodes(&objects[..1], None).expect("valid")));
    let explained = ask("explain", json!({ "objects": objects[..1] }));
    assert_eq!(explained, json!(real.explain_given(&objects[..1]).expect("valid")));
    let templates = [ScaleUpTemplate { name: "t", node: NodeTemplate::Object(&node("t", &mut Random(4))) }];
    let body =
        json!({ "templates": [{ "name": "t", "node": node("t", &mut Random(4)) }], "objects": objects });
    let scaled = real.scale_up(&templates, ScaleUpPods::Objects(&objects), 1_000).expect("valid");
    assert_eq!(ask("scaleUp", body), json!(scaled));
    let plan = free_nodes(real, &Goal::Count(1), Accepted::default()).expect("valid");
    assert_eq!(ask("plan/freeNodes", json!({ "count": 1 })), json!(plan));
}

#[test]
fn answers_of_a_fork_equal_those_of_a_cluster_with_its_changes() {
    for run in 0..12 {
        let mut random = Random(run);
        let objects = nodes(3, &mut random);
        let mut desk = Desk::new(Limits::default(), None);
        let snapshot = desk.id("ann", "snapshots", &list(&objects));
        let cluster = || Cluster::from_objects(objects.clone(), &setup()).expect("valid");
        let mut forks: Vec<(String, Cluster)> =
            (0..2).map(|_| (desk.id("ann", "forks", &json!({ "of": snapshot })), cluster())).collect();
        // Questions about two forks alternate, so that the engine goes back and forth.
        for number in 0..10 {
            let at = random.below(2);
            let (fork, real) = &mut forks[at];
            change(&mut desk, fork, real, number, &mut random);
            if number % 3 == 0 {
                let (fork, real) = &mut forks[1 - at];
                compare(&mut desk, fork, real);
            }
        }
        let (fork, real) = &mut forks[0];
        let copy = desk.id("ann", "forks", &json!({ "of": fork }));
        compare(&mut desk, &copy, real);
    }
}

#[test]
fn undone_changes_leave_the_fork_as_before_and_diff_names_the_others() {
    let mut desk = Desk::new(Limits::default(), None);
    let snapshot = desk.id("ann", "snapshots", &list(&nodes(2, &mut Random(1))));
    let fork = desk.id("ann", "forks", &json!({ "of": snapshot }));
    desk.done("ann", &format!("forks/{fork}/place"), &json!({ "objects": [plain("p")] }));
    let (_, before) = desk.get("ann", &format!("forks/{fork}/diff"));
    assert!(before["pods"]["default/p"]["to"]["node"].is_string(), "{before}");
    desk.done("ann", &format!("forks/{fork}/evict"), &json!({ "pods": ["default/p"] }));
    desk.done("ann", &format!("forks/{fork}/addNodes"), &json!({ "like": "n0", "count": 1 }));
    let (_, diff) = desk.get("ann", &format!("forks/{fork}/diff"));
    assert_eq!(diff["addedNodes"], json!(["n0-new-1"]));
    assert_eq!(diff["pods"]["default/p"], json!({ "from": null, "to": "pending" }));
    let (status, why) = desk.post("ann", &format!("forks/{fork}/undo"), &json!({ "changes": 4 }));
    assert_eq!((status, &why["message"]), (400, &json!("changes: expected at most 3, the fork's changes")));
    assert_eq!(desk.done("ann", &format!("forks/{fork}/undo"), &json!({ "changes": 2 }))["changes"], 1);
    assert_eq!(desk.get("ann", &format!("forks/{fork}/diff")).1, before);
}

#[test]
fn snapshots_and_forks_exist_for_their_owner_only() {
    let mut desk = Desk::new(Limits::default(), None);
    let snapshot = desk.id("ann", "snapshots", &list(&nodes(1, &mut Random(1))));
    let fork = desk.id("ann", "forks", &json!({ "of": snapshot }));
    for path in [format!("snapshots/{snapshot}"), format!("forks/{fork}"), format!("forks/{fork}/diff")] {
        assert_eq!(desk.get("ann", &path).0, 200, "{path}");
        assert_eq!(desk.get("bob", &path).0, 404, "{path}");
    }
    let of = |id: &str| json!({ "of": id });
    assert_eq!(desk.post("bob", "forks", &of(&snapshot)).0, 404);
    assert_eq!(desk.post("bob", "forks", &of(&fork)).0, 404);
    let fits = json!({ "objects": [plain("p")] });
    for path in
        [format!("snapshots/{snapshot}/fits"), format!("forks/{fork}/fits"), format!("forks/{fork}/place")]
    {
        assert_eq!(desk.post("bob", &path, &fits).0, 404, "{path}");
    }
    for path in [format!("snapshots/{snapshot}"), format!("forks/{fork}")] {
        assert_eq!(desk.ask("bob", Method::Delete, &path, "").0, 404, "{path}");
    }
    for (path, own) in [("snapshots", &snapshot), ("forks", &fork)] {
        assert_eq!(desk.get("bob", path).1["items"], json!([]));
        assert_eq!(desk.get("ann", path).1["items"][0]["id"], json!(own));
    }
    // The same name with another uid is another user.
    let other = User { name: "ann".to_owned(), uid: String::new() };
    let path = format!("forks/{fork}");
    let request = Request { user: other, method: Method::Get, path, body: Vec::new(), reads_cluster: true };
    assert_eq!(desk.service.answer(&request, desk.now, &Interrupt::default()).status, 404);
    assert_eq!(desk.ask("ann", Method::Delete, &format!("snapshots/{snapshot}"), "").0, 204);
    assert_eq!(desk.get("ann", &format!("forks/{fork}")).0, 404, "it is gone with its snapshot");
}

#[test]
fn idle_snapshots_and_forks_expire_and_used_ones_do_not() {
    let limits = Limits { idle: Duration::from_secs(60), ..Limits::default() };
    let mut desk = Desk::new(limits, None);
    let objects = list(&nodes(1, &mut Random(1)));
    let (used, idle) = (desk.id("ann", "snapshots", &objects), desk.id("ann", "snapshots", &objects));
    let (busy, lazy) =
        (desk.id("ann", "forks", &json!({ "of": used })), desk.id("ann", "forks", &json!({ "of": used })));
    for _ in 0..5 {
        desk.now += Duration::from_secs(50);
        // A question about a fork keeps its snapshot, too.
        assert_eq!(desk.get("ann", &format!("forks/{busy}")).1["expiresInSeconds"], 60);
    }
    assert_eq!(desk.get("ann", &format!("forks/{lazy}")).0, 404);
    assert_eq!(desk.get("ann", &format!("snapshots/{idle}")).0, 404);
    assert_eq!(desk.get("ann", &format!("snapshots/{used}")).0, 200);
    desk.now += Duration::from_secs(60);
    for path in [format!("forks/{busy}"), format!("snapshots/{used}")] {
        assert_eq!(desk.get("ann", &path).0, 404, "{path}");
    }
}

#[test]
fn numbers_and_sizes_of_a_user_are_limited() {
    let limits = Limits {
        snapshots_per_user: 1,
        snapshots: 2,
        forks_per_user: 2,
        forks: 3,
        changes: 2,
        fork_bytes: 2_000,
        added: 10,
        upload_bytes: 4_000,
        ..Limits::default()
    };
    let mut desk = Desk::new(limits, None);
    let objects = list(&nodes(2, &mut Random(1)));
    let snapshot = desk.id("ann", "snapshots", &objects);
    assert_eq!(desk.post("ann", "snapshots", &objects).0, 429);
    let other = desk.id("bob", "snapshots", &objects);
    assert_eq!(desk.post("eve", "snapshots", &objects).0, 429, "the server is full");
    let fork = desk.id("ann", "forks", &json!({ "of": snapshot }));
    let second = desk.id("ann", "forks", &json!({ "of": snapshot }));
    assert_eq!(desk.post("ann", "forks", &json!({ "of": snapshot })).0, 429);
    desk.id("bob", "forks", &json!({ "of": other }));
    assert_eq!(desk.post("bob", "forks", &json!({ "of": other })).0, 429, "the server is full");

    let place = format!("forks/{fork}/place");
    let copies = |count: usize| json!({ "template": plain("p"), "count": count });
    assert_eq!(desk.post("ann", &place, &copies(11)).0, 429);
    let many = json!({ "objects": [{ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "d" },
        "spec": { "replicas": 100_000, "template": { "spec": plain("p")["spec"] } } }] });
    for path in [&place, &format!("forks/{fork}/fits")] {
        assert_eq!(desk.post("ann", path, &many).0, 429, "{path}");
    }
    desk.done("ann", &place, &copies(6));
    assert_eq!(desk.post("ann", &place, &copies(5)).0, 429, "6 of 10 are taken");
    desk.done("ann", &format!("forks/{fork}/addNodes"), &json!({ "like": "n0", "count": 4 }));
    let (status, why) = desk.post("ann", &place, &json!({ "pending": true }));
    assert_eq!(status, 429);
    assert!(why["message"].as_str().is_some_and(|text| text.contains("2 changes")), "{why}");
    let mut large = plain("p");
    large["metadata"]["annotations"] = json!({ "text": "x".repeat(2_000) });
    assert_eq!(desk.post("ann", &format!("forks/{second}/place"), &json!({ "objects": [large] })).0, 429);
}

#[test]
fn cluster_with_too_many_names_of_questions_is_loaded_again() {
    let (_, live) = live(&nodes(1, &mut Random(1)));
    let mut desk = Desk::new(Limits { ids: 40, ..Limits::default() }, Some(live));
    let uploaded = desk.id("ann", "snapshots", &list(&nodes(1, &mut Random(1))));
    let mut status = 200;
    // Each question has a new label key.
    for at in 0..60 {
        let mut pod = plain("p");
        pod["metadata"]["labels"] = json!({ format!("key-{at}"): "x" });
        let fits = json!({ "objects": [pod] });
        assert_eq!(desk.post("ann", "snapshots/live/fits", &fits).0, 200, "question {at}");
        status = status.max(desk.post("ann", &format!("snapshots/{uploaded}/fits"), &fits).0);
    }
    assert_eq!(status, 404, "the upload is gone");
    let base = desk.service.live.as_ref().and_then(|of| of.base.as_ref()).expect("it was asked about");
    assert!(!base.is_worn(50), "{} ids", base.cluster.ids());
}

#[test]
fn late_answer_is_504_and_nothing_is_applied() {
    let mut desk = Desk::new(Limits::default(), None);
    let snapshot = desk.id("ann", "snapshots", &list(&nodes(2, &mut Random(1))));
    let fork = desk.id("ann", "forks", &json!({ "of": snapshot }));
    let place = format!("forks/{fork}/place");
    let body = json!({ "template": plain("p"), "count": 50 });
    let left = AtomicUsize::new(20);
    desk.interrupt = Interrupt::new(move || left.fetch_sub(1, Ordering::Relaxed) == 0);
    let (status, why) = desk.post("ann", &place, &body);
    assert_eq!((status, &why["reason"]), (504, &json!("Timeout")));
    for (question, body) in [
        (
            "scaleUp",
            json!({ "templates": [{ "name": "t", "like": "n0" }], "template": plain("p"), "count": 9 }),
        ),
        ("plan/freeNodes", json!({ "allPossible": true })),
        ("plan/rebalance", json!({ "maxRequestedPercent": 1 })),
        ("plan/makeRoom", json!({ "objects": [plain("p")] })),
    ] {
        desk.interrupt = Interrupt::default();
        let before = desk.get("ann", &format!("forks/{fork}/diff"));
        assert_eq!(before.1["pods"], json!({}));
        desk.interrupt = Interrupt::new(|| true);
        // A plan without a pod to move makes no decision, and is in time.
        let (status, answer) = desk.post("ann", &format!("forks/{fork}/{question}"), &body);
        assert!(status == 504 || question.starts_with("plan"), "{question}: {status} {answer}");
    }
    desk.interrupt = Interrupt::default();
    assert_eq!(desk.done("ann", &place, &body)["placements"].as_array().map(Vec::len), Some(50));
}

#[test]
fn live_cluster_needs_the_right_to_read_it() {
    let (_, live) = live(&nodes(1, &mut Random(1)));
    let mut desk = Desk::new(Limits::default(), Some(live));
    let fork = desk.id("ann", "forks", &json!({ "of": "live" }));
    desk.reads_cluster = false;
    let fits = json!({ "objects": [plain("p")] });
    for path in
        [format!("forks/{fork}/fits"), "snapshots/live/fits".to_owned(), format!("forks/{fork}/place")]
    {
        assert_eq!(desk.post("ann", &path, &fits).0, 403, "{path}");
    }
    assert_eq!(desk.post("ann", "forks", &json!({ "of": "live" })).0, 403);
    assert_eq!(desk.post("ann", "forks", &json!({ "of": fork })).0, 403);
    assert_eq!(desk.get("ann", "snapshots/live").0, 403);
    assert_eq!(desk.get("ann", &format!("forks/{fork}/diff")).0, 403);
    let uploaded = desk.id("ann", "snapshots", &list(&nodes(1, &mut Random(1))));
    assert_eq!(desk.post("ann", &format!("snapshots/{uploaded}/fits"), &fits).0, 200);
}

#[test]
fn answers_about_the_live_cluster_follow_its_changes() {
    let mut objects = nodes(2, &mut Random(3));
    for node in &mut objects {
        node["status"]["allocatable"]["cpu"] = "1".into();
        node["spec"] = json!({});
    }
    let (store, live) = live(&objects);
    let mut desk = Desk::new(Limits::default(), Some(live));
    let fork = desk.id("ann", "forks", &json!({ "of": "live" }));
    let fits = |desk: &mut Desk, path: &str, count: usize| {
        let objects: Vec<Value> = (0..count).map(|at| plain(&format!("f{at}"))).collect();
        desk.done("ann", &format!("{path}/fits"), &json!({ "objects": objects }))["fits"] == true
    };
    let of_fork = format!("forks/{fork}");
    assert!(fits(&mut desk, "snapshots/live", 8) && !fits(&mut desk, "snapshots/live", 9));
    desk.done("ann", &format!("{of_fork}/addNodes"), &json!({ "like": "n0", "count": 1 }));
    assert!(fits(&mut desk, &of_fork, 12) && !fits(&mut desk, &of_fork, 13));
    // A pod starts in the cluster: the fork has less room, too.
    let mut running = plain("running");
    running["spec"]["nodeName"] = "n1".into();
    show(&store, &running, false);
    assert!(fits(&mut desk, &of_fork, 11) && !fits(&mut desk, &of_fork, 12));
    let (_, snapshot) = desk.get("ann", "snapshots/live");
    assert_eq!(
        (&snapshot["nodes"], &snapshot["pods"], &snapshot["pending"]),
        (&json!(2), &json!(1), &json!(0))
    );
    show(&store, &running, true);
    assert!(fits(&mut desk, &of_fork, 12));
    // A list without a node means that it is gone.
    store.list_began(Kind::Node);
    show(&store, &objects[1], false);
    store.list_ended(Kind::Node);
    let (status, why) = desk.post("ann", &format!("{of_fork}/fits"), &json!({ "objects": [plain("p")] }));
    let text = "change 1 of the fork (addNodes) does not apply any more: node n0 not found; undo it, or make a new fork";
    assert_eq!((status, &why["message"]), (409, &json!(text)));
    desk.done("ann", &format!("{of_fork}/undo"), &json!({}));
    assert!(fits(&mut desk, &of_fork, 4) && !fits(&mut desk, &of_fork, 5));
}

#[test]
fn live_cluster_is_503_until_its_objects_are_listed() {
    let is_ready = Arc::new(AtomicBool::new(false));
    let (store, ready) = (Arc::new(Store::default()), Arc::clone(&is_ready));
    let ready =
        move || if ready.load(Ordering::Relaxed) { Ok(()) } else { Err("not listed: Pod".to_owned()) };
    let mut desk = Desk::new(Limits::default(), Some(Live { store, ready: Box::new(ready) }));
    assert_eq!(desk.get("ann", "snapshots/live").0, 503);
    is_ready.store(true, Ordering::Relaxed);
    assert_eq!(desk.get("ann", "snapshots/live").0, 200);
    let mut without = Desk::new(Limits::default(), None);
    assert_eq!(without.get("ann", "snapshots/live").0, 404);
    assert_eq!(without.post("ann", "forks", &json!({ "of": "live" })).0, 404);
}

#[test]
fn live_cluster_is_followed_without_requests() {
    let (store, live) = live(&nodes(3, &mut Random(1)));
    let mut desk = Desk::new(Limits::default(), Some(live));
    while !desk.service.follow() {}
    assert!(store.take(10).is_empty(), "the service has taken all changes");
    assert_eq!(desk.get("ann", "snapshots/live").1["nodes"], 3);
}

#[test]
fn invalid_request_is_400_and_names_object_and_field() {
    let mut desk = Desk::new(Limits::default(), None);
    let snapshot = desk.id("ann", "snapshots", &list(&nodes(1, &mut Random(1))));
    let fork = desk.id("ann", "forks", &json!({ "of": snapshot }));
    let mut wrong = plain("p");
    wrong["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "much".into();
    let place = format!("forks/{fork}/place");
    for (path, body, named) in [
        (place.clone(), json!({ "objects": [plain("q"), wrong] }), &["default/p", "cpu"][..]),
        (place.clone(), json!({ "object": [] }), &["unknown field `object`"]),
        (place.clone(), json!({ "objects": [], "pending": true }), &["exactly one of objects"]),
        (place, json!({ "objects": [], "count": 1 }), &["count", "template"]),
        (format!("forks/{fork}/evict"), json!({ "pods": ["default/none"] }), &["default/none not found"]),
        (format!("forks/{fork}/evict"), json!({}), &["missing field `pods`"]),
        (format!("forks/{fork}/addNodes"), json!({ "count": 1 }), &["exactly one of like and template"]),
        (format!("forks/{fork}/removeNodes"), json!({ "nodes": ["none"] }), &["node none not found"]),
        (
            format!("forks/{fork}/feasible"),
            json!({ "objects": [plain("p")], "nodes": ["none"] }),
            &["none not found"],
        ),
        (format!("forks/{fork}/scaleUp"), json!({ "templates": [], "pending": true }), &["templates"]),
        (
            format!("forks/{fork}/scaleUp"),
            json!({ "templates": [{ "name": "t", "node": { "kind": "Node" } }], "pending": true }),
            &["template t"],
        ),
        (format!("forks/{fork}/plan/freeNodes"), json!({ "nodes": ["none"] }), &["node none not found"]),
        ("snapshots".to_owned(), list(&[wrong.clone()]), &["the request body", "cpu"]),
    ] {
        let (status, answer) = desk.post("ann", &path, &body);
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(
            status == 400 && named.iter().all(|name| message.contains(name)),
            "{path}: {status} {answer}"
        );
    }
    assert_eq!(desk.get("ann", &format!("forks/{fork}")).1["changes"], 0);
    assert_eq!(desk.get("ann", &format!("forks/{fork}/diff")).1["pods"], json!({}));
    assert_eq!(desk.ask("ann", Method::Delete, "forks", "").0, 405);
    assert_eq!(desk.get("ann", "forks/x/fits").0, 405);
    assert_eq!(desk.get("ann", "elsewhere").0, 404);
}

#[test]
fn upload_may_be_yaml_and_compressed() {
    use std::io::Write as _;
    let mut desk = Desk::new(Limits::default(), None);
    let yaml = "apiVersion: v1\nkind: Node\nmetadata:\n  name: a\n---\napiVersion: v1\nkind: Node\nmetadata: {name: b}\n";
    let (status, snapshot) = desk.ask("ann", Method::Post, "snapshots", yaml);
    assert_eq!((status, &snapshot["nodes"]), (201, &json!(2)), "{snapshot}");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(yaml.as_bytes()).expect("memory can be written");
    let user = User { name: "ann".to_owned(), uid: "uid of ann".to_owned() };
    let body = gzip.finish().expect("memory can be written");
    let (method, path) = (Method::Post, "snapshots".to_owned());
    let request = Request { user, method, path, body, reads_cluster: false };
    assert_eq!(desk.service.answer(&request, desk.now, &Interrupt::default()).status, 201);
}

/// The page with the documented question and answer.
const PAGE: &str = include_str!("../../../../docs/whatif-server.md");

#[test]
fn documented_answer_is_the_answer() {
    let mut desk = Desk::new(Limits::default(), None);
    let cluster = include_str!("../../../../docs/what-if/cluster.yaml");
    assert_eq!(desk.ask("ann", Method::Post, "snapshots", cluster).0, 201);
    let question = include_str!("../../../../docs/whatif-server/question.json");
    let (status, answer) = desk.ask("ann", Method::Post, "snapshots/upload-1/scaleUp", question);
    let shown =
        PAGE.split("```json").nth(1).and_then(|rest| rest.split("```").next()).expect("there is a block");
    let shown: Value = serde_json::from_str(shown).unwrap_or_default();
    assert_eq!((status, &answer), (200, &shown), "{answer}");
}

#[test]
fn every_path_of_the_document_is_on_the_page() {
    let document: Value = serde_json::from_str(DOCUMENT).expect("the document is JSON");
    for path in document["paths"].as_object().expect("there are paths").keys() {
        let last = path.trim_start_matches('/').rsplit("/{id}/").next().expect("a path has an end");
        assert!(PAGE.contains(last.trim_end_matches("/{id}")), "{path} is not documented");
    }
}

#[test]
fn document_describes_each_path_once_and_refers_to_what_it_has() {
    let document: Value = serde_json::from_str(DOCUMENT).expect("the document is JSON");
    let schemas = document["components"]["schemas"].as_object().expect("there are schemas");
    let mut names = BTreeSet::new();
    let mut rest = DOCUMENT;
    while let Some((_, after)) = rest.split_once("#/components/schemas/") {
        let end = after.find('"').expect("a string ends");
        names.insert(&after[..end]);
        rest = &after[end..];
    }
    let known: BTreeSet<&str> = schemas.keys().map(String::as_str).collect();
    assert_eq!(names, known);
    let operations = document["paths"].as_object().expect("there are paths");
    let ids: Vec<&Value> = operations
        .values()
        .flat_map(|path| path.as_object().into_iter().flat_map(|methods| methods.values()))
        .map(|operation| &operation["operationId"])
        .collect();
    let distinct: BTreeSet<String> = ids.iter().map(ToString::to_string).collect();
    assert_eq!((ids.len(), distinct.len()), (30, 30));
    let mut desk = Desk::new(Limits::default(), None);
    assert_eq!(desk.get("ann", "openapi.json").1, document);
}

#[test]
fn check_of_answers_finds_undocumented_fields_and_statuses() {
    let check = |path: &str, status: u16, body: Value| {
        super::check_answer(Method::Get, path, &Answer { status, body: body.to_string(), retry_after: None })
    };
    let fork = json!({ "id": "fork-1", "snapshot": "upload-1", "changes": 0, "expiresInSeconds": 9 });
    assert_eq!(check("forks/fork-1", 200, fork.clone()), Ok(()));
    let mut more = fork.clone();
    more["owner"] = "ann".into();
    assert_eq!(
        check("forks/fork-1", 200, more),
        Err("get forks/fork-1: .owner is not documented".to_owned())
    );
    let mut less = fork.clone();
    less["changes"] = Value::Null;
    assert!(check("forks/fork-1", 200, less).is_err_and(|why| why.contains(".changes")));
    assert!(check("forks/fork-1", 202, fork.clone()).is_err());
    assert!(check("nowhere", 200, fork).is_err());
}

#[test]
fn bodies_in_memory_are_limited_for_a_user_and_for_all() {
    use super::Bodies;
    let limits = Limits { upload_bytes: 100, request_bytes: 30, ..Limits::default() };
    let bodies = Bodies::new(limits);
    let user = |name: &str| User { name: name.to_owned(), uid: String::new() };
    assert_eq!(Answer::from(bodies.reserve(&user("a"), 31, false).expect_err("too large")).status, 413);
    assert_eq!(Answer::from(bodies.reserve(&user("a"), 101, true).expect_err("too large")).status, 413);
    let upload = bodies.reserve(&user("a"), 80, true).expect("there is room");
    let small = bodies.reserve(&user("a"), 20, false).expect("there is room");
    let busy = Answer::from(bodies.reserve(&user("a"), 1, false).expect_err("the user has no room"));
    assert_eq!((busy.status, busy.retry_after), (429, Some(1)));
    let others: Vec<_> = ["b", "c", "d"]
        .iter()
        .map(|name| bodies.reserve(&user(name), 100, true).expect("there is room"))
        .collect();
    assert!(bodies.reserve(&user("e"), 1, false).is_err(), "all together have no room");
    drop((upload, small, others));
    assert!(bodies.reserve(&user("a"), 100, true).is_ok());
}
