//! Scripted conversations with an API server, on Tokio's paused clock.

use std::collections::VecDeque;
use std::sync::Mutex;

use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use supercargo_core::model::effect::{Nomination, Severity, Unscheduled};
use tokio::sync::mpsc;

use super::*;

mod claims;
mod evict;
mod extend;
mod fenced;
mod foreign;
mod nominations;
mod status;
mod volumes;

/// The API server's reaction to a request.
enum Reply {
    /// Carries it out and responds like the API server.
    Done,
    /// Responds like an API server without such an object.
    Gone,
    /// Responds with a Status or any other object.
    Json(u16, Value),
    /// Responds with a text, as a proxy might.
    Text(u16, &'static str),
    /// Responds with an owned text.
    Body(u16, String),
    /// Asks for a retry after this many seconds.
    Later(u16, u32),
    /// Carries it out after this long.
    Slow(Duration),
    /// Never responds.
    Silence,
    /// The connection breaks after the request was sent.
    Broken,
    /// The connection is refused.
    Refused,
}

#[derive(Clone, Debug, PartialEq)]
struct SentRequest {
    method: String,
    uri: String,
    content_type: String,
    body: Value,
}

impl SentRequest {
    /// Returns apiVersion, namespace, resource and name of the object.
    fn object(&self) -> (String, &str, &str, &str) {
        let path = self.uri.split('?').next().unwrap();
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let (api_version, rest) = match parts[0] {
            "api" => (parts[1].to_owned(), &parts[2..]),
            _ => (format!("{}/{}", parts[1], parts[2]), &parts[3..]),
        };
        let (namespace, rest) = if rest[0] == "namespaces" { (rest[1], &rest[2..]) } else { ("", rest) };
        let name = rest.get(1).copied().or_else(|| self.body["metadata"]["name"].as_str());
        (api_version, namespace, rest[0], name.expect("it is about one object"))
    }

    /// Returns the response of an API server that carries it out.
    fn carried_out(&self) -> (u16, Value) {
        let code = if self.method == "POST" { 201 } else { 200 };
        if self.uri.contains("/binding") {
            let body = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code,
            });
            return (code, body);
        }
        let (api_version, namespace, resource, name) = self.object();
        let kind = match resource {
            "pods" => "Pod",
            "persistentvolumes" => "PersistentVolume",
            "persistentvolumeclaims" => "PersistentVolumeClaim",
            "events" => "Event",
            "resourceclaims" => "ResourceClaim",
            other => panic!("{other}"),
        };
        let uid = [&self.body["metadata"]["uid"], &self.body["preconditions"]["uid"]];
        let uid = uid.into_iter().find_map(Value::as_str).unwrap_or("u1");
        let mut metadata = json!({ "name": name, "uid": uid });
        if !namespace.is_empty() {
            metadata["namespace"] = json!(namespace);
        }
        (code, json!({ "kind": kind, "apiVersion": api_version, "metadata": metadata }))
    }

    /// Returns the response of an API server without such an object.
    fn not_found(&self) -> Value {
        let (api_version, _, resource, name) = self.object();
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let dotted = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "NotFound", "code": 404,
            "message": format!("{dotted} {name:?} not found"),
            "details": { "name": name, "group": group, "kind": resource },
        })
    }
}

#[derive(Default)]
struct Script {
    replies: Mutex<VecDeque<Reply>>,
    asked: Mutex<Vec<SentRequest>>,
}

impl Script {
    async fn reply(self: Arc<Self>, request: Request<Body>) -> Result<Response<Body>, tower::BoxError> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let asked = SentRequest {
            method: head.method.to_string(),
            uri: head.uri.to_string(),
            content_type: head.headers[http::header::CONTENT_TYPE].to_str()?.to_owned(),
            body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        };
        self.asked.lock().unwrap().push(asked.clone());
        let reply =
            self.replies.lock().unwrap().pop_front().expect("the script has a reply for each request");
        let response = Response::builder();
        Ok(match reply {
            Reply::Done => {
                let (code, value) = asked.carried_out();
                response.status(code).body(value.to_string().into_bytes().into())?
            }
            Reply::Gone => response.status(404).body(asked.not_found().to_string().into_bytes().into())?,
            Reply::Json(code, value) => response.status(code).body(value.to_string().into_bytes().into())?,
            Reply::Body(code, text) => response.status(code).body(text.into_bytes().into())?,
            Reply::Text(code, text) => response.status(code).body(text.as_bytes().to_vec().into())?,
            Reply::Later(code, seconds) => {
                let text = if code == 429 { "Too many requests, please try again later.\n" } else { "" };
                response.status(code).header("Retry-After", seconds).body(text.as_bytes().to_vec().into())?
            }
            Reply::Slow(pause) => {
                tokio::time::sleep(pause).await;
                let (code, value) = asked.carried_out();
                response.status(code).body(value.to_string().into_bytes().into())?
            }
            Reply::Silence => std::future::pending().await,
            Reply::Broken => return Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into()),
            Reply::Refused => return Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into()),
        })
    }
}

struct AnswerSink(mpsc::UnboundedSender<Vec<Event>>);

impl Answers for AnswerSink {
    fn answer(&self, events: Vec<Event>) -> futures::future::BoxFuture<'_, ()> {
        // The test may have ended already.
        let _ = self.0.send(events);
        Box::pin(std::future::ready(()))
    }
}

struct Fixture {
    script: Arc<Script>,
    dispatcher: Dispatcher,
    answers: mpsc::UnboundedReceiver<Vec<Event>>,
}

fn dispatcher(client: kube::Client, server: &str) -> (Dispatcher, mpsc::UnboundedReceiver<Vec<Event>>) {
    behind(client, server, Fence::default())
}

fn behind(
    client: kube::Client,
    server: &str,
    fence: Fence,
) -> (Dispatcher, mpsc::UnboundedReceiver<Vec<Event>>) {
    let (heard, answers) = mpsc::unbounded_channel();
    let identity = Identity { server: server.to_owned(), host: "host".to_owned() };
    let metrics = Arc::new(Metrics::new());
    let answer = Arc::new(AnswerSink(heard));
    let limits = Limits::default();
    (Dispatcher::new(Handle::current(), client, &identity, limits, metrics, answer, fence), answers)
}

impl Fixture {
    fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::behind(replies, Fence::default())
    }

    fn behind(replies: impl IntoIterator<Item = Reply>, fence: Fence) -> Self {
        let script =
            Arc::new(Script { replies: Mutex::new(replies.into_iter().collect()), ..Script::default() });
        let server = Arc::clone(&script);
        let service = tower::service_fn(move |request| Arc::clone(&server).reply(request));
        let (dispatcher, answers) =
            behind(kube::Client::new(service, "default"), "https://10.0.0.1:6443", fence);
        Self { script, dispatcher, answers }
    }

    async fn answer(&mut self) -> Vec<Event> {
        self.answers.recv().await.expect("the dispatcher is running")
    }

    async fn bind(&mut self) -> BindOutcome {
        self.dispatcher.submit(Effect::Bind { pod: pod(), node: "n1".to_owned() });
        let events = self.answer().await;
        assert!(matches!(events[1], Event::Credits { lane: Lane::Bind, count: 1 }), "{events:?}");
        let Event::BindFinished { uid, outcome } = &events[0] else { panic!("{events:?}") };
        assert_eq!(**uid, *"u1");
        outcome.clone()
    }

    async fn query_binding(&mut self) -> BindingState {
        self.dispatcher.submit(Effect::QueryBinding { pod: pod() });
        let events = self.answer().await;
        let Event::BindingQueried { found, .. } = &events[0] else { panic!("{events:?}") };
        found.clone()
    }

    async fn patch(&mut self, message: &str) {
        self.dispatcher.submit(Effect::Patch(unscheduled(message, None)));
        let events = self.answer().await;
        assert!(matches!(events[..], [Event::Credits { lane: Lane::Status, count: 1 }]), "{events:?}");
    }

    async fn record(&mut self, record: EventRecord) {
        self.dispatcher.submit(Effect::Record(record));
        let events = self.answer().await;
        assert!(matches!(events[..], [Event::Credits { lane: Lane::Record, count: 1 }]), "{events:?}");
    }

    fn asked(&self) -> Vec<SentRequest> {
        self.script.asked.lock().unwrap().clone()
    }

    fn methods(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.method).collect()
    }
}

fn pod() -> PodRef {
    PodRef { namespace: "default".to_owned(), name: "plain0".to_owned(), uid: "u1".into() }
}

fn unscheduled(message: &str, since: Option<&str>) -> StatusPatch {
    let condition = Unscheduled {
        reason: "Unschedulable",
        message: message.to_owned(),
        observed_generation: 1,
        since: since.map(str::to_owned),
    };
    StatusPatch { pod: pod(), condition: Some(condition), nomination: Nomination::Keep }
}

fn failed(note: &str) -> EventRecord {
    EventRecord {
        pod: pod(),
        resource_version: "12590".to_owned(),
        scheduler_name: "supercargo".to_owned(),
        severity: Severity::Warning,
        reason: "FailedScheduling",
        action: "Scheduling",
        note: note.to_owned(),
        related: None,
    }
}

fn status(code: u16, reason: &str, message: &str) -> Reply {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    Reply::Json(code, body)
}

/// The pod as the API server returns it.
fn shown(uid: &str, node: Option<&str>, deleted: Option<&str>) -> Value {
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": { "namespace": "default", "name": "plain0", "uid": uid, "deletionTimestamp": deleted },
        "spec": { "nodeName": node },
    })
}

fn created() -> Reply {
    Reply::Done
}

fn refused(message: &str) -> BindOutcome {
    BindOutcome::Refused { message: message.to_owned() }
}

fn unknown(message: &str) -> BindOutcome {
    BindOutcome::Unknown { message: message.to_owned() }
}

#[tokio::test(start_paused = true)]
async fn binding_request_equals_upstreams() {
    let mut fixture = Fixture::new([created()]);
    assert_eq!(fixture.bind().await, BindOutcome::Accepted);
    let asked = SentRequest {
        method: "POST".to_owned(),
        uri: "/api/v1/namespaces/default/pods/plain0/binding?timeout=10s".to_owned(),
        content_type: "application/json".to_owned(),
        body: json!({
            "kind": "Binding", "apiVersion": "v1",
            "metadata": { "name": "plain0", "namespace": "default", "uid": "u1" },
            "target": { "kind": "Node", "name": "n1" },
        }),
    };
    assert_eq!(fixture.asked(), [asked]);
}

fn assigned_to(node: &str) -> String {
    format!(
        "Operation cannot be fulfilled on pods/binding \"plain0\": pod plain0 is already assigned to node \"{node}\""
    )
}

#[tokio::test(start_paused = true)]
async fn conflict_with_our_own_binding_counts_as_success() {
    let mut fixture = Fixture::new([status(409, "Conflict", &assigned_to("n1"))]);
    assert_eq!(fixture.bind().await, BindOutcome::Accepted);
}

#[tokio::test(start_paused = true)]
async fn binding_of_a_pod_bound_elsewhere_or_deleted_is_not_needed() {
    for node in ["n2", "n10"] {
        let mut fixture = Fixture::new([status(409, "Conflict", &assigned_to(node))]);
        assert_eq!(fixture.bind().await, BindOutcome::NotNeeded(BindingState::Bound(node.to_owned())));
    }
    let mut fixture = Fixture::new([Reply::Gone]);
    assert_eq!(fixture.bind().await, BindOutcome::NotNeeded(BindingState::Gone));
}

#[tokio::test(start_paused = true)]
async fn refused_binding_keeps_the_api_servers_message() {
    let table = [
        (409, "Conflict", "Operation cannot be fulfilled on pods/binding \"plain0\": pod plain0 is being deleted, cannot be assigned to a host".to_owned()),
        (403, "Forbidden", "pods \"plain0\" is forbidden: User \"x\" cannot create resource \"pods/binding\" in API group \"\" in the namespace \"default\"".to_owned()),
        (422, "Invalid", "Binding \"plain0\" is invalid".to_owned()),
        (400, "BadRequest", "bad".to_owned()),
    ];
    for (code, reason, message) in table {
        let mut fixture = Fixture::new([status(code, reason, &message)]);
        assert_eq!(fixture.bind().await, refused(&message), "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn ambiguous_response_is_unknown_and_worded_as_upstream() {
    let table = [
        (status(500, "InternalError", "Internal error occurred: x"), "Internal error occurred: x"),
        (Reply::Text(503, ""), "the server is currently unable to handle the request (post pods plain0)"),
        (
            Reply::Text(502, "bad gateway"),
            "an error on the server (\"bad gateway\") has prevented the request from succeeding (post pods plain0)",
        ),
        (
            Reply::Broken,
            "Post \"https://10.0.0.1:6443/api/v1/namespaces/default/pods/plain0/binding\": read: connection reset by peer",
        ),
        (
            Reply::Silence,
            "Post \"https://10.0.0.1:6443/api/v1/namespaces/default/pods/plain0/binding\": context deadline exceeded",
        ),
    ];
    for (reply, message) in table {
        let mut fixture = Fixture::new([reply]);
        assert_eq!(fixture.bind().await, unknown(message));
        assert_eq!(fixture.methods(), ["POST"], "sent once");
    }
}

#[tokio::test(start_paused = true)]
async fn silent_server_times_out_at_the_deadline() {
    let mut fixture = Fixture::new([Reply::Silence]);
    let began = tokio::time::Instant::now();
    fixture.bind().await;
    assert_eq!(began.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_obeyed() {
    let mut fixture = Fixture::new([Reply::Later(429, 2), Reply::Later(429, 1), created()]);
    let began = tokio::time::Instant::now();
    assert_eq!(fixture.bind().await, BindOutcome::Accepted);
    assert!(began.elapsed() >= Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn endless_retry_after_counts_as_refusal() {
    let mut fixture = Fixture::new((0..11).map(|_| Reply::Later(429, 1)));
    let text =
        "the server has received too many requests and has asked us to try again later (post pods plain0)";
    assert_eq!(fixture.bind().await, refused(text));
    assert_eq!(fixture.asked().len(), 10);
}

#[tokio::test(start_paused = true)]
async fn retry_after_beyond_the_patience_counts_as_refusal() {
    let mut fixture = Fixture::new([Reply::Later(429, 3_600)]);
    let began = tokio::time::Instant::now();
    assert!(matches!(fixture.bind().await, BindOutcome::Refused { .. }));
    assert!(began.elapsed() >= Limits::default().patience, "the slot stays taken until then");
    assert_eq!(fixture.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn refusal_after_an_unknown_try_is_unknown() {
    let mut fixture = Fixture::new([Reply::Later(503, 1), status(403, "Forbidden", "no")]);
    assert_eq!(fixture.bind().await, unknown("no"));
    let mut fixture = Fixture::new([Reply::Later(503, 1), status(409, "Conflict", &assigned_to("n1"))]);
    assert_eq!(fixture.bind().await, BindOutcome::Accepted);
    let mut fixture = Fixture::new([Reply::Later(503, 1), status(409, "Conflict", &assigned_to("n2"))]);
    assert_eq!(fixture.bind().await, BindOutcome::NotNeeded(BindingState::Bound("n2".to_owned())));
}

/// As from 1.37 on; an older kube-scheduler gives up at once.
#[tokio::test(start_paused = true)]
async fn binding_is_sent_up_to_four_times_while_connections_are_refused() {
    let began = tokio::time::Instant::now();
    let mut fixture = Fixture::new([Reply::Refused, Reply::Refused, Reply::Refused, created()]);
    assert_eq!(fixture.bind().await, BindOutcome::Accepted);
    let waited = began.elapsed();
    assert!(waited >= Duration::from_millis(310) && waited < Duration::from_millis(350), "{waited:?}");
    let mut fixture = Fixture::new((0..4).map(|_| Reply::Refused));
    let outcome = fixture.bind().await;
    assert!(
        matches!(&outcome, BindOutcome::Refused { message } if message.contains("refused")),
        "{outcome:?}"
    );
    let mut fixture = Fixture::new([Reply::Refused, status(409, "Conflict", "no")]);
    assert_eq!(fixture.bind().await, refused("no"), "a conflict is no reason to send it again");
    let mut fixture =
        Fixture::new([Reply::Refused, Reply::Later(503, 1), Reply::Refused, status(403, "Forbidden", "no")]);
    assert_eq!(fixture.bind().await, unknown("no"), "the second try may have been carried out");
}

#[tokio::test]
async fn failed_connection_counts_as_refusal() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = format!("http://127.0.0.1:{port}");
    let config = kube::Config::new(server.parse().unwrap());
    let (mut dispatcher, mut answers) = dispatcher(kube::Client::try_from(config).unwrap(), &server);
    dispatcher.submit(Effect::Bind { pod: pod(), node: "n1".to_owned() });
    let events = answers.recv().await.unwrap();
    let text = format!(
        "Post \"{server}/api/v1/namespaces/default/pods/plain0/binding\": dial tcp 127.0.0.1:{port}: connect: connection refused"
    );
    let Event::BindFinished { outcome, .. } = &events[0] else { panic!("{events:?}") };
    assert_eq!(*outcome, refused(&text));
}

#[tokio::test(start_paused = true)]
async fn query_distinguishes_bound_unbound_and_gone() {
    let table = [
        (Reply::Json(200, shown("u1", Some("n1"), None)), BindingState::Bound("n1".to_owned())),
        (Reply::Json(200, shown("u1", None, None)), BindingState::Unbound),
        (Reply::Json(200, shown("u2", Some("n1"), None)), BindingState::Gone),
        (Reply::Gone, BindingState::Gone),
        (status(403, "Forbidden", "no"), BindingState::NoAnswer),
        (Reply::Text(503, ""), BindingState::NoAnswer),
        (Reply::Text(200, "<html>"), BindingState::NoAnswer),
        (Reply::Silence, BindingState::NoAnswer),
        (Reply::Broken, BindingState::NoAnswer),
    ];
    for (reply, found) in table {
        let mut fixture = Fixture::new([reply]);
        assert_eq!(fixture.query_binding().await, found);
        assert_eq!(fixture.asked()[0].uri, "/api/v1/namespaces/default/pods/plain0");
    }
}

#[tokio::test(start_paused = true)]
async fn slow_patch_does_not_delay_the_binding_of_another_pod() {
    let mut fixture = Fixture::new([Reply::Silence, created()]);
    fixture.dispatcher.submit(Effect::Patch(unscheduled("slow", None)));
    tokio::task::yield_now().await;
    let other = PodRef { uid: "u2".into(), ..pod() };
    fixture.dispatcher.submit(Effect::Bind { pod: other, node: "n1".to_owned() });
    let events = fixture.answer().await;
    assert!(matches!(events[0], Event::BindFinished { outcome: BindOutcome::Accepted, .. }), "{events:?}");
    assert_eq!(fixture.dispatcher.pending().patches, 1);
}

#[tokio::test(start_paused = true)]
async fn event_creation_request_equals_upstreams() {
    let mut fixture = Fixture::new([created()]);
    fixture.record(failed("100% of 4 nodes are available: none")).await;
    let asked = fixture.asked();
    assert_eq!(
        (&*asked[0].method, &*asked[0].uri),
        ("POST", "/apis/events.k8s.io/v1/namespaces/default/events")
    );
    let mut body = asked[0].body.clone();
    let name = body["metadata"]["name"].take();
    let nanos = i128::from_str_radix(name.as_str().unwrap().strip_prefix("plain0.").unwrap(), 16).unwrap();
    let time = body["eventTime"].take();
    let time: jiff::Timestamp = time.as_str().unwrap().parse().unwrap();
    assert_eq!(time.as_nanosecond() / 1_000, nanos / 1_000);
    let expected = json!({
        "kind": "Event", "apiVersion": "events.k8s.io/v1",
        "metadata": { "name": null, "namespace": "default" },
        "eventTime": null,
        "reportingController": "supercargo", "reportingInstance": "supercargo-host",
        "action": "Scheduling", "reason": "FailedScheduling", "type": "Warning",
        "regarding": {
            "kind": "Pod", "namespace": "default", "name": "plain0", "uid": "u1",
            "apiVersion": "v1", "resourceVersion": "12590",
        },
        "note": "100% of 4 nodes are available: none",
    });
    assert_eq!(body, expected);
}

#[tokio::test(start_paused = true)]
async fn second_event_patches_a_series_and_the_third_is_only_counted() {
    let mut fixture = Fixture::new([created(), Reply::Done]);
    for _ in 0..3 {
        fixture.record(failed("no")).await;
    }
    let asked = fixture.asked();
    assert_eq!(fixture.methods(), ["POST", "PATCH"]);
    let name = asked[0].body["metadata"]["name"].as_str().unwrap();
    assert_eq!(asked[1].uri, format!("/apis/events.k8s.io/v1/namespaces/default/events/{name}"));
    assert_eq!(asked[1].content_type, "application/strategic-merge-patch+json");
    assert_eq!(asked[1].body["series"]["count"], 2);
    assert_eq!(asked[1].body.as_object().unwrap().len(), 1);
    let last = asked[1].body["series"]["lastObservedTime"].as_str().unwrap();
    assert_eq!(last.len(), "2026-11-20T19:18:17.107094Z".len());
}

#[tokio::test(start_paused = true)]
async fn series_of_an_expired_event_is_created_again() {
    let mut fixture = Fixture::new([created(), Reply::Gone, created()]);
    fixture.record(failed("no")).await;
    fixture.record(failed("no")).await;
    let asked = fixture.asked();
    assert_eq!(fixture.methods(), ["POST", "PATCH", "POST"]);
    assert_eq!(asked[2].body["series"]["count"], 2);
    assert_eq!(asked[2].body["metadata"]["name"], asked[0].body["metadata"]["name"]);
}

#[tokio::test(start_paused = true)]
async fn event_is_retried_while_unreachable_but_not_after_a_refusal() {
    let mut fixture = Fixture::new([Reply::Broken, Reply::Silence, created()]);
    fixture.record(failed("no")).await;
    assert_eq!(fixture.asked().len(), 3);
    let mut fixture = Fixture::new((0..12).map(|_| Reply::Broken));
    fixture.record(failed("no")).await;
    assert_eq!(fixture.asked().len(), 12);
    let terminating = "events \"x\" is forbidden: unable to create new content in namespace default because it is being terminated";
    let mut fixture = Fixture::new([status(403, "Forbidden", terminating)]);
    fixture.record(failed("no")).await;
    assert_eq!(fixture.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn drain_waits_for_requests_in_flight_and_returns_the_unfinished() {
    let mut fixture = Fixture::new([Reply::Slow(Duration::from_secs(3)), Reply::Silence]);
    fixture.dispatcher.submit(Effect::Bind { pod: pod(), node: "n1".to_owned() });
    assert_eq!(fixture.dispatcher.drain(Duration::from_secs(20)).await, Pending::default());
    fixture.dispatcher.submit(Effect::Patch(unscheduled("slow", None)));
    let left = fixture.dispatcher.drain(Duration::from_secs(2)).await;
    assert_eq!(left, Pending { patches: 1, ..Pending::default() });
    assert!(!left.is_empty());
}

#[tokio::test(start_paused = true)]
async fn each_lane_grants_credits_up_to_its_limit() {
    let fixture = Fixture::new([]);
    let credits: Vec<_> = fixture
        .dispatcher
        .credits()
        .into_iter()
        .map(|event| match event {
            Event::Credits { lane, count } => (lane, count),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = [
        (Lane::Bind, 100),
        (Lane::Volume, 64),
        (Lane::Evict, 16),
        (Lane::Status, 32),
        (Lane::Record, 16),
        (Lane::Extend, 64),
    ];
    assert_eq!(credits, expected);
}
