//! Watches against a scripted API server, on Tokio's paused clock.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use serde_json::{Value, json};
use supercargo_core::model::event::{Event, ObjectKey};
use supercargo_core::model::intern::Tables;
use tokio::sync::mpsc;

use super::*;
use intake::{Channel, Observed};
use script::{Reply, Script};
use std::sync::atomic::Ordering;

mod ahead;
mod groups;
mod intake;
mod mixed;
mod rates;
mod script;
mod silent;

struct Fixture {
    script: Arc<Script>,
    items: mpsc::Receiver<(Convert, Written)>,
    tables: Tables,
    state: Arc<KindState>,
    observed: Arc<Observed>,
    relist_pods: Relist,
    _tasks: JoinSet<()>,
}

impl Fixture {
    fn new<K: Object>(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::of::<K>(Script { replies: Mutex::new(replies.into_iter().collect()), ..Script::default() })
    }

    fn of<K: Object>(script: Script) -> Self {
        Self::starting(script, K::KIND, |start| start.kind::<K>())
    }

    fn starting(script: Script, kind: Kind, begin: impl FnOnce(&mut Start<'_>)) -> Self {
        let script = Arc::new(script);
        let server = Arc::clone(&script);
        let service = tower::service_fn(move |request| Arc::clone(&server).reply(request));
        let client = kube::Client::new(service, "default");
        let (sender, items) = mpsc::channel(16);
        let observed = Arc::new(Observed::default());
        let observer = |_| -> Arc<dyn WatchObserver> { Arc::<Observed>::clone(&observed) };
        let states = Kind::EVERY.map(|kind| Arc::new(KindState::new(kind)));
        let mut start = Start {
            client: &client,
            inbox: Arc::new(Channel(sender)),
            observer: &observer,
            encoding: Encoding::Protobuf,
            states: &states,
            troubles: Arc::new(Troubles::new()),
            first: Arc::new(FirstLists::begin(Kind::ALL.len())),
            budget: Arc::new(Budget::new()),
            tasks: JoinSet::new(),
            relist_pods: Relist::default(),
            relist_nodes: Relist::default(),
            objects: Arc::new(RawObjects::default()),
        };
        begin(&mut start);
        let (tasks, relist_pods) = (start.tasks, start.relist_pods);
        let state = Arc::clone(&states[kind as usize]);
        Self { script, items, tables: Tables::new(), state, observed, relist_pods, _tasks: tasks }
    }

    async fn event(&mut self) -> String {
        let item = tokio::time::timeout(Duration::from_secs(3_600), self.items.recv()).await;
        let item = item.unwrap_or_else(|_| panic!("no event: {:?}", self.readiness()));
        let (convert, None) = item.expect("a watch sends objects") else { panic!("nothing is recorded") };
        let event = convert(&mut self.tables);
        self.describe(&event)
    }

    async fn events<const N: usize>(&mut self) -> [String; N] {
        let mut events = std::array::from_fn(|_| String::new());
        for event in &mut events {
            *event = self.event().await;
        }
        events
    }

    fn describe(&self, event: &Event) -> String {
        match event {
            Event::ListBegan(kind) => format!("{} list", kind.as_str()),
            Event::ListEnded(kind) => format!("{} list ends", kind.as_str()),
            Event::NodeApplied(node) => format!("node {}", self.tables.text(node.name)),
            Event::PodApplied(pod) => format!("pod {}", pod.uid),
            Event::PodGroupApplied(group) => format!("group {} of {:?}", group.uid, group.api),
            Event::Gone(key) => format!("gone {}", self.key(key)),
            Event::Unreadable(key) => format!("unreadable {}", self.key(key)),
            other => panic!("no watch sends {other:?}"),
        }
    }

    fn key(&self, key: &ObjectKey) -> String {
        match key {
            ObjectKey::Pod(uid) => uid.to_string(),
            ObjectKey::Node(name) => self.tables.text(*name).to_owned(),
            other => panic!("no test watches {other:?}"),
        }
    }

    /// Returns the queries of all requests, without their common parts.
    fn asked(&self) -> Vec<String> {
        let asked = self.script.asked.lock().unwrap();
        asked
            .iter()
            .map(|uri| {
                uri.split('&').filter(|part| !part.starts_with("timeout")).collect::<Vec<_>>().join("&")
            })
            .collect()
    }

    fn readiness(&self) -> Result<(), String> {
        Readiness { states: [Arc::clone(&self.state)].into() }.check()
    }
}

const STREAM: &str = "/api/v1/nodes?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";

fn follow(version: &str) -> String {
    format!("/api/v1/nodes?watch=true&allowWatchBookmarks=true&resourceVersion={version}")
}

fn node(change: &str, name: &str, version: &str) -> Value {
    json!({ "type": change, "object": {
        "kind": "Node", "apiVersion": "v1", "metadata": { "name": name, "resourceVersion": version },
        "status": { "allocatable": { "cpu": "4" } },
    } })
}

fn pod(change: &str, uid: &str, phase: &str) -> Value {
    json!({ "type": change, "object": {
        "kind": "Pod", "apiVersion": "v1",
        "metadata": { "name": uid, "namespace": "default", "uid": uid, "resourceVersion": "7" },
        "spec": { "containers": [{ "name": "c", "image": "i" }] }, "status": { "phase": phase },
    } })
}

fn bookmark(version: &str, ends_list: bool) -> Value {
    let annotations = if ends_list { json!({ "k8s.io/initial-events-end": "true" }) } else { json!({}) };
    json!({ "type": "BOOKMARK", "object": {
        "kind": "Node", "apiVersion": "v1",
        "metadata": { "resourceVersion": version, "annotations": annotations },
    } })
}

fn failure(code: u16, message: &str) -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "code": code })
}

fn listed() -> Reply {
    Reply::Open(vec![node("ADDED", "a", "3"), bookmark("5", true)])
}

#[tokio::test(start_paused = true)]
async fn kind_is_listed_as_a_stream_then_watched() {
    let changes = vec![node("MODIFIED", "a", "6"), node("ADDED", "b", "7"), node("DELETED", "a", "8")];
    let mut fixture = Fixture::new::<Node>([listed(), Reply::Open(changes)]);
    let events = fixture.events::<6>().await;
    assert_eq!(events, ["Node list", "node a", "Node list ends", "node a", "node b", "gone a"]);
    assert_eq!(fixture.asked(), [STREAM.to_owned(), follow("5")]);
}

#[tokio::test(start_paused = true)]
async fn requested_relist_of_pods_is_followed_by_a_watch() {
    let mut end = bookmark("8", true);
    end["object"]["kind"] = json!("Pod");
    let listed = || Reply::Open(vec![pod("ADDED", "u1", "Pending"), end.clone()]);
    let mut fixture = Fixture::new::<Pod>([listed(), Reply::Open(Vec::new()), listed()]);
    let list = ["Pod list", "pod u1", "Pod list ends"];
    assert_eq!(fixture.events::<3>().await, list);
    // There is nothing to interrupt before the watch starts.
    while fixture.asked().len() < 2 {
        tokio::task::yield_now().await;
    }
    fixture.relist_pods.request();
    assert_eq!(fixture.events::<3>().await, list);
    let is_list: Vec<bool> = fixture.asked().iter().map(|uri| uri.contains("sendInitialEvents")).collect();
    assert_eq!(is_list[..3], [true, false, true]);
}

#[tokio::test(start_paused = true)]
async fn ended_watch_resumes_at_its_version() {
    let first = Reply::Lines(vec![node("MODIFIED", "a", "6"), bookmark("9", false)]);
    let mut fixture = Fixture::new::<Node>([listed(), first, Reply::Open(vec![node("MODIFIED", "a", "10")])]);
    fixture.events::<5>().await;
    assert_eq!(fixture.asked(), [STREAM.to_owned(), follow("5"), follow("9")]);
}

#[tokio::test(start_paused = true)]
async fn unsupported_list_stream_falls_back_to_pages() {
    let forbidden = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
    let page = |name: &str, more: Value| {
        let item = node("", name, "3")["object"].clone();
        json!({ "kind": "NodeList", "apiVersion": "v1", "metadata": { "resourceVersion": "5", "continue": more }, "items": [item] })
    };
    let mut fixture = Fixture::new::<Node>([
        Reply::Json(422, failure(422, forbidden)),
        Reply::Json(200, page("a", json!("x/="))),
        Reply::Json(200, page("b", Value::Null)),
    ]);
    let events = fixture.events::<4>().await;
    assert_eq!(events, ["Node list", "node a", "node b", "Node list ends"]);
    tokio::task::yield_now().await;
    let pages = ["/api/v1/nodes?limit=500", "/api/v1/nodes?limit=500&continue=x%2F%3D"].map(str::to_owned);
    assert_eq!(fixture.asked()[..3], [STREAM.to_owned(), pages[0].clone(), pages[1].clone()]);
}

#[tokio::test(start_paused = true)]
async fn oversized_page_is_retried_with_smaller_pages() {
    let page = json!({ "kind": "NodeList", "apiVersion": "v1", "metadata": { "resourceVersion": "5" }, "items": [] });
    let forbidden = Reply::Json(422, failure(422, "sendInitialEvents is forbidden"));
    let mut fixture = Fixture::new::<Node>([forbidden, Reply::Huge, Reply::Json(200, page)]);
    assert_eq!(fixture.events::<2>().await, ["Node list", "Node list ends"]);
    let pages = ["/api/v1/nodes?limit=500", "/api/v1/nodes?limit=50"].map(str::to_owned);
    assert_eq!(fixture.asked()[..3], [STREAM.to_owned(), pages[0].clone(), pages[1].clone()]);
}

#[tokio::test(start_paused = true)]
async fn expired_version_forces_a_relist() {
    let too_old = failure(410, "too old resource version: 5 (7)");
    let ahead = failure(504, "Too large resource version: 5, current: 2");
    let replies = [
        Reply::Json(410, too_old.clone()),
        Reply::Lines(vec![json!({ "type": "ERROR", "object": too_old })]),
        Reply::Json(504, ahead),
    ];
    for reply in replies {
        let mut fixture = Fixture::new::<Node>([listed(), reply, listed()]);
        let events = fixture.events::<6>().await;
        assert_eq!(events[3..], ["Node list", "node a", "Node list ends"]);
        assert_eq!(fixture.asked()[..3], [STREAM.to_owned(), follow("5"), STREAM.to_owned()]);
    }
}

#[tokio::test(start_paused = true)]
async fn interrupted_list_stream_is_retried_with_pages() {
    let item = node("", "a", "3")["object"].clone();
    let page = json!({ "kind": "NodeList", "apiVersion": "v1", "metadata": { "resourceVersion": "5" }, "items": [item] });
    let broken = Reply::Lines(vec![node("ADDED", "a", "3")]);
    let mut fixture = Fixture::new::<Node>([broken, Reply::Json(200, page)]);
    let events = fixture.events::<5>().await;
    assert_eq!(events, ["Node list", "node a", "Node list", "node a", "Node list ends"]);
}

#[tokio::test(start_paused = true)]
async fn lines_are_assembled_from_any_chunks_and_truncated_ones_discarded() {
    let list = vec![node("ADDED", "a", "3"), node("ADDED", "b", "4"), bookmark("5", true)];
    let mut fixture =
        Fixture::new::<Node>([Reply::Pieces(7, list), Reply::Pieces(11, vec![node("ADDED", "c", "6")])]);
    let events = fixture.events::<5>().await;
    assert_eq!(events, ["Node list", "node a", "node b", "Node list ends", "node c"]);
}

#[tokio::test(start_paused = true)]
async fn silent_watch_times_out_and_is_reopened() {
    let change = Reply::Open(vec![node("MODIFIED", "a", "6")]);
    let mut fixture = Fixture::new::<Node>([listed(), Reply::Open(vec![]), Reply::Silence, change]);
    let events = fixture.events::<4>().await;
    assert_eq!(events[2..], ["Node list ends", "node a"]);
    assert_eq!(fixture.asked(), [STREAM.to_owned(), follow("5"), follow("5"), follow("5")]);
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_immediately_are_retried_with_backoff() {
    let ends = (0..3).map(|_| Reply::Lines(vec![]));
    let last = Reply::Open(vec![node("MODIFIED", "a", "6")]);
    let mut fixture = Fixture::new::<Node>([listed()].into_iter().chain(ends).chain([last]));
    let began = tokio::time::Instant::now();
    fixture.events::<4>().await;
    assert!(began.elapsed() >= Duration::from_millis(800 + 1_600 + 3_200), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn terminated_pods_are_filtered_out_and_count_as_gone() {
    let lines =
        vec![pod("ADDED", "u1", "Running"), pod("ADDED", "u2", "Succeeded"), pod("MODIFIED", "u1", "Failed")];
    let mut fixture = Fixture::new::<Pod>([Reply::Open(lines)]);
    assert_eq!(fixture.events::<4>().await, ["Pod list", "pod u1", "gone u2", "gone u1"]);
    let uri = fixture.asked()[0].clone();
    assert!(uri.ends_with("&fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"), "{uri}");
}

#[tokio::test(start_paused = true)]
async fn deleted_pod_is_identified_by_uid() {
    let mut fixture = Fixture::new::<Pod>([Reply::Open(vec![
        pod("ADDED", "u1", "Pending"),
        pod("DELETED", "u1", "Pending"),
    ])]);
    assert_eq!(fixture.events::<3>().await, ["Pod list", "pod u1", "gone u1"]);
}

#[tokio::test(start_paused = true)]
async fn malformed_object_is_counted_and_skipped() {
    let mut broken = node("ADDED", "broken", "3");
    broken["object"]["status"]["allocatable"]["cpu"] = json!("four");
    let lines = vec![broken, node("ADDED", "a", "4"), bookmark("5", true)];
    let mut fixture = Fixture::new::<Node>([Reply::Open(lines)]);
    let events = fixture.events::<4>().await;
    assert_eq!(events, ["Node list", "unreadable broken", "node a", "Node list ends"]);
    assert_eq!(fixture.observed.malformed.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn unreachable_api_server_is_retried_until_it_responds() {
    let mut fixture = Fixture::new::<Node>([Reply::Away, Reply::Away, listed()]);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let trouble = fixture.readiness().unwrap_err();
    assert!(trouble.starts_with("not yet listed: Node (no answer from the API server: "), "{trouble}");
    assert_eq!(fixture.events::<3>().await[2], "Node list ends");
    assert_eq!(fixture.readiness(), Ok(()));
    assert_eq!(fixture.asked()[..3], [STREAM, STREAM, STREAM]);
}

#[tokio::test(start_paused = true)]
async fn missing_permission_is_reported_with_verb_and_resource() {
    let message = "nodes is forbidden: User \"x\" cannot watch resource \"nodes\" in API group \"\" at the cluster scope";
    let mut fixture = Fixture::new::<Node>([Reply::Json(403, failure(403, message)), listed()]);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(fixture.readiness(), Err(format!("not yet listed: Node ({message})")));
    assert_eq!(fixture.events::<3>().await[2], "Node list ends");
    assert_eq!(fixture.asked()[..2], [STREAM, STREAM]);
}

/// Returns the discovery documents of an API server that serves one version of a group with these resources.
fn discovery(group: &str, version: &str, resources: &[&str]) -> [Reply; 2] {
    let versions = json!([{ "groupVersion": format!("{group}/{version}"), "version": version }]);
    let groups = json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": [{ "name": group, "versions": versions }] });
    let resources: Vec<Value> = resources.iter().map(|name| json!({ "name": name })).collect();
    let list = json!({ "kind": "APIResourceList", "apiVersion": "v1", "resources": resources });
    [Reply::Json(200, groups), Reply::Json(200, list)]
}

/// API servers before 1.34 have no `resource.k8s.io/v1`. Without the group, they answer with plain text.
#[tokio::test(start_paused = true)]
async fn kind_that_is_not_served_is_empty_until_it_appears() {
    let [other_group, _] = discovery("apps", "v1", &[]);
    let [other_version, _] = discovery("resource.k8s.io", "v1beta1", &[]);
    let unreadable = json!({ "kind": "Status", "apiVersion": "v1", "reason": "Forbidden", "message": "forbidden", "code": 403 });
    let discoveries = [
        vec![other_group],
        vec![other_version],
        discovery("resource.k8s.io", "v1", &["deviceclasses"]).to_vec(),
        vec![Reply::Json(403, unreadable)],
    ];
    let messages = ["404 page not found", "the server could not find the requested resource"];
    for (at, discovery) in discoveries.into_iter().enumerate() {
        let mut absent = vec![Reply::Json(404, failure(404, messages[at % 2]))];
        absent.extend(discovery);
        let mut end_of_list = bookmark("5", true);
        end_of_list["object"]["apiVersion"] = json!("resource.k8s.io/v1");
        end_of_list["object"]["kind"] = json!("ResourceClaim");
        let appears = vec![Reply::Open(vec![end_of_list])];
        let mut fixture = Fixture::new::<ResourceClaim>([absent.clone(), absent, appears].concat());
        assert_eq!(fixture.events::<2>().await, ["ResourceClaim list", "ResourceClaim list ends"]);
        assert_eq!(fixture.readiness(), Ok(()));
        assert_eq!(fixture.events::<2>().await, ["ResourceClaim list", "ResourceClaim list ends"]);
        // The watch after the list may be asked for already.
        let asked = fixture.asked();
        let lists = asked.iter().filter(|uri| uri.contains("sendInitialEvents=true")).count();
        assert_eq!(lists, 3, "{asked:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn other_404_or_another_kind_is_a_failure() {
    let absent = |text| Reply::Json(404, failure(404, text));
    let fixture = Fixture::new::<ResourceClaim>([absent("no backend"), Reply::Silence]);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(fixture.readiness(), Err("not yet listed: ResourceClaim (no backend)".to_owned()));
    let fixture = Fixture::new::<Node>([absent("404 page not found"), Reply::Silence]);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(fixture.readiness(), Err("not yet listed: Node (404 page not found)".to_owned()));
}

/// A proxy written in Go answers with the API server's text if it has no route.
#[tokio::test(start_paused = true)]
async fn absence_that_discovery_does_not_confirm_is_a_failure() {
    let [groups, resources] = discovery("resource.k8s.io", "v1", &["deviceclasses", "resourceclaims"]);
    let confused = Reply::Json(200, json!({ "kind": "NodeList", "apiVersion": "v1", "items": [] }));
    let cases = [
        vec![groups.clone(), resources],
        vec![groups, Reply::Json(404, json!("404 page not found"))],
        vec![Reply::Json(404, failure(404, "404 page not found"))],
        vec![Reply::Json(403, json!("<html>"))],
        vec![Reply::Json(200, json!("<html>"))],
        vec![confused],
        vec![Reply::Away],
    ];
    for discovery in cases {
        let absent = Reply::Json(404, failure(404, "404 page not found"));
        let replies = [absent].into_iter().chain(discovery.clone()).chain([Reply::Silence]);
        let fixture = Fixture::new::<ResourceClaim>(replies);
        tokio::time::sleep(Duration::from_millis(100)).await;
        let expected = "not yet listed: ResourceClaim (404 page not found)";
        assert_eq!(fixture.readiness(), Err(expected.to_owned()));
        assert_eq!(fixture.asked().len(), 1 + discovery.len());
    }
}

#[tokio::test(start_paused = true)]
async fn kind_is_ready_only_once_the_engine_processed_its_list() {
    let mut fixture = Fixture::new::<Node>([listed()]);
    fixture.events::<2>().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(fixture.readiness().is_err(), "the end of the list is still in the channel");
    fixture.event().await;
    assert_eq!(fixture.readiness(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn requested_reopening_resumes_the_watch_immediately() {
    let later = Reply::Open(vec![node("ADDED", "b", "6")]);
    let mut fixture = Fixture::new::<Node>([listed(), Reply::Open(vec![]), later]);
    fixture.events::<3>().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let began = tokio::time::Instant::now();
    let states: Arc<[_]> = [Arc::clone(&fixture.state)].into();
    let check = Readiness { states }.catch_up();
    assert_eq!(check(), Err("not yet reopened: watch of Node".to_owned()));
    assert_eq!(fixture.event().await, "node b");
    assert_eq!((check(), began.elapsed()), (Ok(()), Duration::ZERO));
    let asked = fixture.asked();
    let version = |uri: &String| uri.split('&').next_back().map(str::to_owned);
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert_eq!(version(&asked[1]), version(&asked[2]));
}

#[tokio::test(start_paused = true)]
async fn all_kinds_are_watched() {
    let script = Arc::new(Script::default());
    let server = Arc::clone(&script);
    let service = tower::service_fn(move |request| Arc::clone(&server).reply(request));
    let (sender, _items) = mpsc::channel(16);
    let client = kube::Client::new(service, "default");
    let observer = |_| -> Arc<dyn WatchObserver> { Arc::new(Observed::default()) };
    let (intake, objects) = (Arc::new(Channel(sender)), RawObjects::default());
    let watching = Watching { encoding: Encoding::Protobuf, groups: true };
    let watches = Watches::start(&client, intake, &observer, watching, None, &objects);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut paths: Vec<_> =
        script.asked.lock().unwrap().iter().map(|uri| uri.split('?').next().unwrap().to_owned()).collect();
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), Kind::EVERY.len(), "{paths:?}");
    for path in [
        "/api/v1/pods",
        "/apis/scheduling.k8s.io/v1beta1/podgroups",
        "/api/v1/replicationcontrollers",
        "/apis/apps/v1/statefulsets",
    ] {
        assert!(paths.contains(&path.to_owned()), "{path}");
    }
    assert_eq!(watches.readiness().kinds().len(), Kind::EVERY.len());
}

/// Encodes a field of bytes or a message.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let (length, more) = (content.len() & 0x7f, content.len() >> 7);
    let length = if more == 0 { vec![length as u8] } else { vec![length as u8 | 0x80, more as u8] };
    [&[number << 3 | 2], &length[..], content].concat()
}

fn enveloped(kind: &str, message: &[u8]) -> Vec<u8> {
    let type_meta = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
    [b"k8s\0", &field(1, &type_meta)[..], &field(2, message)].concat()
}

/// Encodes a node with this `Quantity` message as its allocatable CPU.
fn node_message(name: &str, version: &str, cpu: &[u8]) -> Vec<u8> {
    let metadata = [field(1, name.as_bytes()), field(6, version.as_bytes())].concat();
    let amount = [field(1, b"cpu"), field(2, cpu)].concat();
    [field(1, &metadata), field(3, &field(2, &amount))].concat()
}

fn frame(change: &str, message: &[u8]) -> Vec<u8> {
    let object = field(1, &enveloped(if change == "ERROR" { "Status" } else { "Node" }, message));
    let event = [field(1, change.as_bytes()), field(2, &object)].concat();
    [&u32::try_from(event.len()).unwrap().to_be_bytes(), &event[..]].concat()
}

fn node_frame(change: &str, name: &str, version: &str) -> Vec<u8> {
    frame(change, &node_message(name, version, &field(1, b"4")))
}

fn bookmark_frame(version: &str, ends_list: bool) -> Vec<u8> {
    let note = field(12, &[field(1, b"k8s.io/initial-events-end"), field(2, b"true")].concat());
    let note = if ends_list { note } else { Vec::new() };
    frame("BOOKMARK", &field(1, &[field(6, version.as_bytes()), note].concat()))
}

/// Encodes a refusal with code 410.
fn too_old() -> Vec<u8> {
    enveloped("Status", &too_old_message())
}

fn too_old_message() -> Vec<u8> {
    [field(3, b"too old resource version"), field(4, b"Expired"), vec![0x30, 0x9a, 0x03]].concat()
}

#[tokio::test(start_paused = true)]
async fn protobuf_watch_is_decoded_from_any_chunks() {
    for size in [1, 5, 4_096] {
        let list = [node_frame("ADDED", "a", "3"), bookmark_frame("5", true)].concat();
        let changes = [
            node_frame("MODIFIED", "a", "6"),
            bookmark_frame("7", false),
            frame("ADDED", &node_message("broken", "8", &[0xff])),
            frame("ADDED", &node_message("no-quantity", "9", &field(1, b"four"))),
            node_frame("DELETED", "a", "10"),
            frame("ERROR", &too_old_message()),
        ];
        let replies = [Reply::Frames(size, list), Reply::Frames(size, changes.concat()), listed()];
        let mut fixture = Fixture::new::<Node>(replies);
        let events = fixture.events::<10>().await;
        assert_eq!(events[..3], ["Node list", "node a", "Node list ends"]);
        assert_eq!(events[3..7], ["node a", "unreadable broken", "unreadable no-quantity", "gone a"]);
        // The next response is JSON.
        assert_eq!(events[7..], ["Node list", "node a", "Node list ends"]);
        assert_eq!(fixture.asked()[..3], [STREAM.to_owned(), follow("5"), STREAM.to_owned()]);
        let accepts = fixture.script.accepts.lock().unwrap().clone();
        assert_eq!(accepts[0], "application/vnd.kubernetes.protobuf;stream=watch,application/json");
    }
}

#[tokio::test(start_paused = true)]
async fn protobuf_pages_and_refusals_are_decoded() {
    let page = |name: &str, more: &str| {
        let metadata = field(1, &[field(2, b"5"), field(3, more.as_bytes())].concat());
        let broken = node_message("broken", "3", &[0xff]);
        let items = [field(2, &broken), field(2, &node_message(name, "3", &field(1, b"4")))].concat();
        Reply::Protobuf(200, enveloped("NodeList", &[metadata, items].concat()))
    };
    let forbidden = [field(3, b"sendInitialEvents is forbidden"), vec![0x30, 0xa6, 0x03]].concat();
    let mut fixture = Fixture::new::<Node>([
        Reply::Protobuf(422, enveloped("Status", &forbidden)),
        page("a", "more"),
        page("b", ""),
        Reply::Protobuf(410, too_old()),
    ]);
    let events = fixture.events::<6>().await;
    assert_eq!(
        events,
        ["Node list", "unreadable broken", "node a", "unreadable broken", "node b", "Node list ends"]
    );
    tokio::time::sleep(Duration::from_secs(2)).await;
    let pages = ["/api/v1/nodes?limit=500", "/api/v1/nodes?limit=500&continue=more"].map(str::to_owned);
    assert_eq!(fixture.asked()[..4], [STREAM.to_owned(), pages[0].clone(), pages[1].clone(), follow("5")]);
    assert_eq!(fixture.asked()[4], STREAM, "410 forces a relist");
    let accepts = fixture.script.accepts.lock().unwrap().clone();
    assert_eq!(accepts[1], "application/vnd.kubernetes.protobuf,application/json");
}
