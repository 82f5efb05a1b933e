//! Times decoding: an object from bytes to the engine's types, and a watch from the API server's response to the
//! engine.
//!
//! ```text
//! cargo bench --bench decode
//! ```
//!
//! The pods are those of `tests/fixtures/protobuf.jsonl.gz`: one from scheduler_perf, and one with the fields of a
//! production service. For the watch, the whole process counts: the watch's code, the channel and the conversion on
//! the scheduling thread. The API server's bytes are prepared before, and there is no network. Times are printed
//! without thresholds. Requires Linux for CPU time.

use bytes::Bytes;
use flate2::read::GzDecoder;
use futures::stream;
use http::Response;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use nix::time::{ClockId, clock_gettime};
use std::convert::Infallible;
use std::hint::black_box;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};
use supercargo::engine::{Accounts, Clock, EffectRunner, Engine, Mailbox};
use supercargo::telemetry::metrics::Metrics;
use supercargo_apiserver::watch::RawObjects;
use supercargo_apiserver::watch::{Watches, Watching};
use supercargo_core::cycle::Probe;
use supercargo_core::model::effect::Effect;
use supercargo_core::model::event::Event;
use supercargo_core::model::intern::Tables;
use supercargo_core::model::time::Time;
use supercargo_core::scheduler::Step;
use supercargo_objects::api::proto::{FromProtobuf, raw_object};
use supercargo_objects::api::{Encoding, Pod};
use supercargo_objects::convert::Watched;

/// Number and duration of rounds; the best round counts.
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(150);

/// Number of events of the timed watch.
const EVENTS: usize = 50_000;

/// Size of the chunks in which the API server sends.
const CHUNK: usize = 16 << 10;

/// The fields of a fixture line in use.
#[derive(serde::Deserialize)]
struct Line<'a> {
    written: &'a str,
    #[serde(borrow)]
    served: &'a serde_json::value::RawValue,
    protobuf: &'a str,
}

struct Sample {
    name: String,
    json: String,
    protobuf: Vec<u8>,
}

fn samples() -> Vec<Sample> {
    let packed = include_bytes!("../tests/fixtures/protobuf.jsonl.gz");
    let mut text = String::new();
    GzDecoder::new(&packed[..]).read_to_string(&mut text).expect("the fixture is text");
    let lines =
        text.lines().map(|line| serde_json::from_str::<Line<'_>>(line).expect("a line of the fixture"));
    let typical = lines.filter(|line| matches!(line.written, "small" | "production"));
    typical
        .map(|line| Sample {
            name: line.written.to_owned(),
            json: line.served.get().to_owned(),
            protobuf: bytes(line.protobuf),
        })
        .collect()
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a hexadecimal digit") as u8;
    hexadecimal.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// Returns the nanoseconds per call, in the best round.
fn time(mut work: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let (began, mut calls) = (Instant::now(), 0_u32);
        while began.elapsed() < ROUND {
            for _ in 0..16 {
                work();
            }
            calls += 16;
        }
        best = best.min(began.elapsed().as_nanos() as f64 / f64::from(calls));
    }
    best
}

fn objects(sample: &Sample, out: &mut impl std::io::Write) -> std::io::Result<()> {
    let Sample { name, json, protobuf } = sample;
    let from_json = || serde_json::from_str::<Pod>(black_box(json)).expect("a pod");
    let from_protobuf = || Pod::from_protobuf(raw_object(black_box(protobuf)).expect("an envelope"));
    let mut tables = Tables::new();
    let pod = from_protobuf();
    let times = [
        ("json", json.len(), time(|| drop(black_box(from_json())))),
        ("protobuf", protobuf.len(), time(|| drop(black_box(from_protobuf())))),
        ("conversion", 0, time(|| drop(black_box(pod.applied(&mut tables))))),
    ];
    for (what, bytes, nanoseconds) in times {
        writeln!(out, "{name:<11} {what:<11} {bytes:>6} bytes {nanoseconds:>9.0} ns")?;
    }
    Ok(())
}

/// An engine that consumes events and signals the last one.
struct Listener {
    tables: Tables,
    left: usize,
    done: Sender<()>,
}

impl Engine for Listener {
    fn tables(&mut self) -> &mut Tables {
        &mut self.tables
    }

    fn handle(&mut self, _: Time, event: Event) {
        if let Event::PodApplied(_) = black_box(event) {
            self.left -= 1;
            if self.left == 0 {
                // The receiver may be gone.
                let _ = self.done.send(());
            }
        }
    }

    fn event_label(&self) -> Option<&'static str> {
        None
    }

    fn step(&mut self, _: Time, _: &mut dyn Probe) -> Step {
        Step::Idle { wake_at: None }
    }

    fn is_settled(&self) -> bool {
        true
    }

    fn collect_ids(&mut self) {}
}

struct Nowhere;

impl EffectRunner for Nowhere {
    fn credits(&self) -> Vec<Event> {
        Vec::new()
    }

    fn submit(&mut self, _: Effect) {}
}

fn varint(mut number: usize, to: &mut Vec<u8>) {
    while number > 0x7f {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    varint(content.len(), &mut field);
    field.extend_from_slice(content);
    field
}

/// Returns the response to a watch in which the pod changes repeatedly.
fn answer(sample: &Sample, encoding: Encoding) -> Vec<u8> {
    let event = match encoding {
        Encoding::Json => format!("{{\"type\":\"MODIFIED\",\"object\":{}}}\n", sample.json).into_bytes(),
        Encoding::Protobuf => {
            let event = [field(1, b"MODIFIED"), field(2, &field(1, &sample.protobuf))].concat();
            let length = u32::try_from(event.len()).expect("an event is small");
            [&length.to_be_bytes(), &event[..]].concat()
        }
    };
    event.repeat(EVENTS)
}

/// Returns the CPU time and wall time per thousand events, in milliseconds.
fn watch(sample: &Sample, encoding: Encoding) -> (f64, f64) {
    let answer: Bytes = answer(sample, encoding).into();
    let (done, wait) = channel();
    let mailbox = Mailbox::<Listener>::new();
    let (inbox, metrics) = (mailbox.inbox(), Arc::new(Metrics::new()));
    let engine = Listener { tables: Tables::new(), left: EVENTS, done };
    let accounts = Accounts::new(Arc::clone(&metrics), []);
    let _end = mailbox.start(engine, Clock::start(), Nowhere, accounts).expect("a thread can be started");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime can be started");
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let is_pods = request.uri().path() == "/api/v1/pods";
        let answer = if is_pods { answer.clone() } else { Bytes::new() };
        async move {
            if answer.is_empty() {
                std::future::pending::<()>().await;
            }
            let chunks = (0..answer.len()).step_by(CHUNK).map(move |at| {
                Ok::<_, Infallible>(Frame::data(answer.slice(at..answer.len().min(at + CHUNK))))
            });
            let body = StreamBody::new(futures::StreamExt::chain(stream::iter(chunks), stream::pending()));
            let kind = encoding.accept_watch().split(',').next().expect("one at least");
            Response::builder().header("content-type", kind).body(body.boxed_unsync())
        }
    });
    let entered = runtime.enter();
    let client = kube::Client::new(service, "default");
    let (began, used) = (Instant::now(), processor_time());
    let watches = Watches::start(
        &client,
        Arc::new(inbox),
        &metrics.watches(),
        Watching { encoding, groups: false },
        None,
        &RawObjects::default(),
    );
    wait.recv().expect("the events come");
    let (took, used) = (began.elapsed(), processor_time() - used);
    drop((watches, entered));
    let thousands = EVENTS as f64 / 1_000.0;
    (used.as_secs_f64() * 1_000.0 / thousands, took.as_secs_f64() * 1_000.0 / thousands)
}

fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("Linux counts it").into()
}

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for sample in samples() {
        objects(&sample, &mut out)?;
        for encoding in [Encoding::Json, Encoding::Protobuf] {
            let (processor, clock) = watch(&sample, encoding);
            writeln!(
                out,
                "{:<11} {:<11} 1,000 events of a watch: {processor:.2} ms of CPU time in {clock:.2} ms",
                sample.name,
                encoding.as_str()
            )?;
        }
    }
    Ok(())
}
