//! Tests of exported spans: OTLP over HTTP from the engine's reports, decoded field by field, with unavailable or
//! hanging collectors and with the program on a real API server.
//!
//! Requires the feature `otlp`: `cargo test --features otlp --test otlp`.

#![allow(clippy::unwrap_used, reason = "the helpers of a test panic as its body may")]

use supercargo_dev::harness;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Result, ensure};
use harness::supercargo::{NAME, Setup, install};
use harness::wait::PATIENCE;
use harness::{Component, ControlPlane, KwokNode, objects, wait_for};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use supercargo::engine::{Accounts, Observer as _};
use supercargo::telemetry::metrics::{Exposition, Metrics};
use supercargo::telemetry::traces;
use supercargo_core::cycle::Point;
use supercargo_core::model::effect::PodRef;
use supercargo_core::model::time::Time;
use supercargo_core::report::{Outcome, Report};
use tokio::net::TcpListener;

/// A field of a protobuf message: a number, or bytes of a string or message.
#[derive(Clone, Debug)]
enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

/// The fields of a protobuf message by number, in order.
#[derive(Clone, Debug, Default)]
struct Message(BTreeMap<u64, Vec<Field>>);

impl Message {
    fn read(mut bytes: &[u8]) -> Self {
        let mut message = Self::default();
        while !bytes.is_empty() {
            let tag = varint(&mut bytes);
            let field = match tag & 7 {
                0 => Field::Number(varint(&mut bytes)),
                1 => Field::Number(u64::from_le_bytes(take(&mut bytes, 8).try_into().unwrap())),
                2 => {
                    let length = usize::try_from(varint(&mut bytes)).unwrap();
                    Field::Bytes(take(&mut bytes, length).to_vec())
                }
                5 => Field::Number(u64::from(u32::from_le_bytes(take(&mut bytes, 4).try_into().unwrap()))),
                kind => panic!("unexpected wire type {kind}"),
            };
            message.0.entry(tag >> 3).or_default().push(field);
        }
        message
    }

    fn bytes(&self, number: u64) -> Vec<Vec<u8>> {
        let fields = self.0.get(&number).into_iter().flatten();
        fields
            .map(|field| match field {
                Field::Bytes(bytes) => bytes.clone(),
                Field::Number(_) => panic!("{number} is a number"),
            })
            .collect()
    }

    fn messages(&self, number: u64) -> Vec<Self> {
        self.bytes(number).iter().map(|bytes| Self::read(bytes)).collect()
    }

    fn text(&self, number: u64) -> String {
        String::from_utf8(self.bytes(number).pop().unwrap_or_default()).unwrap()
    }

    fn number(&self, number: u64) -> Option<u64> {
        self.0.get(&number).map(|fields| match fields[..] {
            [Field::Number(number)] => number,
            _ => panic!("{number} is not a single number"),
        })
    }

    /// Returns attributes (`KeyValue` of `common.proto`) as strings.
    fn attributes(&self, number: u64) -> BTreeMap<String, String> {
        let value = |value: &Self| value.number(3).map_or_else(|| value.text(1), |number| number.to_string());
        self.messages(number).iter().map(|pair| (pair.text(1), value(&pair.messages(2)[0]))).collect()
    }
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(length);
    *bytes = rest;
    taken
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let byte = take(bytes, 1)[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

/// A collector that responds with a status and keeps each request's path, content type and body.
#[derive(Clone)]
struct Collector {
    status: StatusCode,
    got: Arc<Mutex<Vec<(String, Message)>>>,
}

impl Collector {
    /// Starts one. Returns its endpoint and the collector.
    async fn start(status: StatusCode) -> (String, Self) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let collector = Self { status, got: Arc::default() };
        let serving = collector.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let serving = serving.clone();
                let answer = service_fn(move |request| serving.clone().answer(request));
                let connection = hyper::server::conn::http1::Builder::new();
                tokio::spawn(connection.serve_connection(TokioIo::new(stream), answer));
            }
        });
        (endpoint, collector)
    }

    async fn answer(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let kind = request.headers()["content-type"].to_str().unwrap();
        let asked = format!("{} {} {kind}", request.method(), request.uri());
        let body = request.into_body().collect().await.unwrap().to_bytes();
        self.got.lock().unwrap().push((asked, Message::read(&body)));
        let mut response = Response::new(Full::default());
        *response.status_mut() = self.status;
        Ok(response)
    }
}

fn report(attempt: u32, outcome: Outcome) -> Report {
    Report {
        pod: PodRef { namespace: "default".to_owned(), name: "web".to_owned(), uid: "u1".into() },
        profile: "supercargo".to_owned(),
        attempt,
        first_queued: Time::from_secs(5),
        began: Time::from_secs(1_000),
        rescued_by_flush: false,
        outcome,
    }
}

/// Reports attempts that are placed and bound. Returns the metrics after all spans were sent or lost.
async fn trace(endpoint: &str, attempts: u32) -> String {
    let metrics = Arc::new(Metrics::new());
    let (tracer, sending) = traces::start(endpoint, "here", &metrics).unwrap();
    let mut accounts = Accounts::new(Arc::clone(&metrics), ["supercargo"]).traced(Some(tracer));
    for attempt in 1..=attempts {
        accounts.probe().enter(Point::Filter);
        accounts.probe().leave(Point::Filter, "Success");
        let placed = Outcome::Placed { node: "n1".to_owned(), nodes: 3, feasible: 2, score: None };
        accounts.report(Time::from_secs(1_001), &report(attempt, placed), Duration::from_millis(1));
        let bound = Outcome::Bound { node: "n1".to_owned(), evaluated: 3, feasible: 2 };
        accounts.report(Time::from_secs(1_003), &report(attempt, bound), Duration::from_millis(1));
    }
    drop(accounts);
    sending.end(PATIENCE).await;
    Exposition::new(metrics).render().await
}

/// Returns the number of spans per result.
fn spans(metrics: &str) -> BTreeMap<&str, u64> {
    let lines =
        metrics.lines().filter_map(|line| line.strip_prefix("supercargo_trace_spans_total{result=\""));
    lines
        .map(|line| {
            let (result, count) = line.split_once("\"} ").unwrap();
            (result, count.parse().unwrap())
        })
        .collect()
}

#[tokio::test]
async fn collector_receives_an_attempt_as_a_tree_of_spans() {
    let (endpoint, collector) = Collector::start(StatusCode::OK).await;
    let metrics = trace(&endpoint, 1).await;
    assert_eq!(spans(&metrics), BTreeMap::from([("dropped", 0), ("failed", 0), ("sent", 4)]));

    let got = collector.got.lock().unwrap().clone();
    let [(asked, request)] = &got[..] else { panic!("one request: {got:?}") };
    assert_eq!(asked, "POST /v1/traces application/x-protobuf");
    let resources = request.messages(1);
    let [of_us] = &resources[..] else { panic!("one resource: {resources:?}") };
    let about = of_us.messages(1)[0].attributes(1);
    let about: Vec<_> = about.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(about, [("host.name", "here"), ("service.name", "supercargo"), ("service.version", version)]);
    let scopes = of_us.messages(2);
    let [scope] = &scopes[..] else { panic!("one scope: {scopes:?}") };
    assert_eq!(scope.messages(1)[0].text(1), "supercargo");

    let spans = scope.messages(2);
    let names: Vec<String> = spans.iter().map(|span| span.text(5)).collect();
    assert_eq!(names, ["Filter", "decision", "Bind", "scheduling attempt"]);
    let [filter, decision, bind, whole] = &spans[..] else { panic!("{spans:?}") };
    assert!(spans.iter().all(|span| span.bytes(1) == whole.bytes(1) && span.bytes(1)[0].len() == 16));
    assert!(spans.iter().all(|span| span.bytes(2)[0].len() == 8));
    // The root's parent ID is omitted or empty.
    assert!(whole.bytes(4).concat().is_empty());
    assert_eq!(filter.bytes(4), decision.bytes(2));
    assert_eq!([decision.bytes(4), bind.bytes(4)], [whole.bytes(2), whole.bytes(2)]);
    let times = |span: &Message| [7, 8].map(|number| span.number(number).unwrap() / 1_000_000_000);
    assert_eq!(
        [times(decision), times(bind), times(whole)],
        [[1_000, 1_001], [1_001, 1_003], [1_000, 1_003]]
    );
    let said = whole.attributes(9);
    for (key, value) in [
        ("k8s.namespace.name", "default"),
        ("k8s.pod.name", "web"),
        ("k8s.pod.uid", "u1"),
        ("k8s.node.name", "n1"),
        ("scheduler.profile", "supercargo"),
        ("scheduler.attempt", "1"),
        ("scheduler.result", "scheduled"),
        ("scheduler.evaluated_nodes", "3"),
        ("scheduler.feasible_nodes", "2"),
    ] {
        assert_eq!(said.get(key).map(String::as_str), Some(value), "{key} of {said:?}");
    }
}

/// On a single thread, the exporter runs only after the last report, so a report that waited would hang.
#[tokio::test]
async fn rejected_and_excess_spans_are_lost_and_counted() {
    let (endpoint, collector) = Collector::start(StatusCode::SERVICE_UNAVAILABLE).await;
    let metrics = trace(&endpoint, 1_000).await;
    let counted = spans(&metrics);
    assert_eq!(counted["dropped"] + counted["failed"], 4_000, "{counted:?}");
    assert!(counted["dropped"] > 0 && counted["failed"] > 0, "{counted:?}");
    assert!(!collector.got.lock().unwrap().is_empty());
}

#[tokio::test]
async fn unreachable_collector_costs_only_its_spans() {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let endpoint = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let metrics = trace(&endpoint, 2).await;
    assert_eq!(spans(&metrics), BTreeMap::from([("dropped", 0), ("failed", 8), ("sent", 0)]));
    let bound = "scheduler_schedule_attempts_total{profile=\"supercargo\",result=\"scheduled\"} 2";
    assert!(metrics.lines().any(|line| line == bound), "{metrics}");
}

/// Time is paused, and advances to the next deadline when all tasks are idle.
#[tokio::test(start_paused = true)]
async fn hanging_collector_times_out() {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let metrics = trace(&endpoint, 1).await;
    assert_eq!(spans(&metrics), BTreeMap::from([("dropped", 0), ("failed", 4), ("sent", 0)]));
}

#[tokio::test]
async fn program_exports_the_trace_of_a_bound_pod() -> Result<()> {
    let (endpoint, collector) = Collector::start(StatusCode::OK).await;
    let plane = ControlPlane::builder().with([Component::ControllerManager, Component::Kwok]).start().await?;
    install(&plane).await?;
    let client = plane.client().await?;
    KwokNode::new("only").create(&client).await?;
    let mut setup = Setup::installed(&plane).await?;
    setup.args.push(format!("--otlp-endpoint={endpoint}"));
    let program = setup.launch(&plane).await?;
    let pods = Api::<Pod>::namespaced(client.clone(), "default");
    let pod = objects::pod("web", "default", &json!({"schedulerName": NAME}))?;
    pods.create(&PostParams::default(), &pod).await?;
    wait_for("the trace of the pod", PATIENCE, || async {
        let got = collector.got.lock().unwrap().clone();
        let spans: Vec<Message> = got
            .iter()
            .flat_map(|(_, request)| request.messages(1))
            .flat_map(|resource| resource.messages(2))
            .flat_map(|scope| scope.messages(2))
            .collect();
        let of_pod = |span: &&Message| {
            let said = span.attributes(9);
            said.get("k8s.pod.name").is_some_and(|name| name == "web")
                && said.get("scheduler.result").is_some_and(|result| result == "scheduled")
                && said.get("k8s.node.name").is_some_and(|node| node == "only")
        };
        let whole = spans.iter().find(of_pod);
        ensure!(whole.is_some(), "the trace is missing among {} spans: {}", spans.len(), program.log_tail());
        let trace = whole.map(|span| span.bytes(1)).unwrap_or_default();
        let mut parts: Vec<String> =
            spans.iter().filter(|span| span.bytes(1) == trace).map(|span| span.text(5)).collect();
        parts.sort();
        // With a single node, scoring is skipped.
        assert_eq!(parts, ["Bind", "Filter", "PreFilter", "decision", "scheduling attempt"]);
        Ok(())
    })
    .await
}

#[test]
fn invalid_endpoint_exits_with_2_and_names_the_flag() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("none");
    for (wrong, words) in [
        ("collector", "--otlp-endpoint: \"collector\" is not an http or https URL"),
        ("grpc://collector:4317", "--otlp-endpoint: \"grpc://collector:4317\" is not an http or https URL"),
    ] {
        let program = Command::new(env!("CARGO_BIN_EXE_supercargo"))
            .args([&format!("--otlp-endpoint={wrong}"), &format!("--kubeconfig={}", kubeconfig.display())])
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&program.stderr).replace('\\', "");
        assert_eq!(program.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(words), "{stderr}");
    }
}
