//! Tests of decisions as JSON, the ring buffer, files, and reading recordings.

mod replay;

use super::*;
use crate::engine::recording::sink::Line;
use crate::telemetry::metrics::{Metrics, Record, RecordLines};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};
use supercargo_config::redacted::decisive;
use supercargo_config::{Effective, Flags, Settings};
use supercargo_core::model::effect::{Lane, PodRef};
use supercargo_core::model::event::{BindOutcome, BindingState, Event, EvictOutcome, WriteOutcome};
use supercargo_core::model::extender::{Answer, CandidateAnswer, FilterAnswer};
use supercargo_core::model::time::Time;
use supercargo_core::report::{Outcome, Preemption, Report};
use supercargo_whatif::recording::header::settings;
use supercargo_whatif::recording::input::OtherInput;
use supercargo_whatif::recording::{API_VERSION, Bad, Decision, Entries, Header, LINE_MAX, Mode};

fn pod(name: &str) -> PodRef {
    PodRef { namespace: "ns".to_owned(), name: name.to_owned(), uid: format!("uid-{name}").into() }
}

fn decision(name: &str, outcome: Outcome) -> Decision {
    let report = Report {
        pod: pod(name),
        profile: "supercargo".to_owned(),
        attempt: 2,
        first_queued: Time::from_secs(1_000_000),
        began: Time::from_nanos(1_000_001_500_000_000),
        rescued_by_flush: false,
        outcome,
    };
    Decision { report: Box::new(report), input: 7 }
}

fn placed(name: &str) -> Decision {
    decision(name, Outcome::Placed { node: "n1".to_owned(), nodes: 5, feasible: 3, score: Some(412) })
}

#[test]
fn decision_json_has_all_fields() {
    let head = r#"{"time":"1970-01-12T13:46:41.5Z","input":7,"pod":{"namespace":"ns","name":"a","uid":"uid-a"},"profile":"supercargo","attempt":2,"queued":"1970-01-12T13:46:40Z","#;
    let shown = |outcome, tail: &str| {
        assert_eq!(decision("a", outcome).to_json(), format!("{head}{tail}"));
    };
    assert_eq!(
        placed("a").to_json(),
        format!(r#"{head}"result":"placed","node":"n1","nodes":5,"feasible":3,"score":412}}"#)
    );
    let nominated = Preemption::Nominated { node: "n2".to_owned(), victims: vec![pod("v")], evictions: 1 };
    shown(
        Outcome::Unschedulable {
            message: "0/5 nodes are available".to_owned(),
            rejectors: ["NodeResourcesFit"].into(),
            evaluated: 5,
            preemption: nominated,
        },
        r#""result":"unschedulable","message":"0/5 nodes are available","rejectedBy":["NodeResourcesFit"],"evaluated":5,"preemption":{"nominated":{"node":"n2","victims":[{"namespace":"ns","name":"v","uid":"uid-v"}],"evictions":1}}}"#,
    );
    shown(Outcome::Error { message: "no".to_owned() }, r#""result":"error","message":"no"}"#);
    shown(Outcome::Skipped, r#""result":"skipped"}"#);
    shown(
        Outcome::Bound { node: "n1".to_owned(), evaluated: 5, feasible: 3 },
        r#""result":"bound","node":"n1","evaluated":5,"feasible":3}"#,
    );
}

#[test]
fn ring_keeps_the_last_decisions_within_its_limits() {
    let names = |ring: &Ring| {
        let list: Value = serde_json::from_str(&ring.to_json()).unwrap();
        assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("DecisionList"), &json!(API_VERSION)));
        let decisions = list["decisions"].as_array().unwrap().clone();
        let names = decisions.iter().map(|it| it["pod"]["name"].as_str().unwrap().to_owned());
        (list["entered"].as_u64().unwrap(), names.collect::<Vec<_>>())
    };
    let ring = Ring::new(2, 1 << 20);
    ["a", "b", "c"].iter().for_each(|name| ring.enter(Arc::new(placed(name))));
    assert_eq!(names(&ring), (3, vec!["b".to_owned(), "c".to_owned()]));

    let ring = Ring::new(100, 3 * placed("a").bytes() + 10);
    ["a", "b", "c", "d"].iter().for_each(|name| ring.enter(Arc::new(placed(name))));
    assert_eq!(names(&ring).1, ["b", "c", "d"]);
    let large = decision("e", Outcome::Error { message: "x".repeat(100_000) });
    ring.enter(Arc::new(large));
    assert_eq!(names(&ring).1, ["e"], "the last is kept at any size");
}

#[test]
fn recorded_events_survive_a_round_trip() {
    let uid = || "u".into();
    let text = || "why".to_owned();
    let found = [
        BindingState::Bound("n".to_owned()),
        BindingState::Unbound,
        BindingState::Gone,
        BindingState::NoAnswer,
    ];
    let binds = [
        BindOutcome::Accepted,
        BindOutcome::Refused { message: text() },
        BindOutcome::NotNeeded(BindingState::Gone),
        BindOutcome::Unknown { message: text() },
    ];
    let writes = [
        WriteOutcome::Done,
        WriteOutcome::Refused { message: text() },
        WriteOutcome::Unknown { message: text() },
    ];
    let evictions = [EvictOutcome::Deleted, EvictOutcome::Gone, EvictOutcome::Failed { message: text() }];
    let pair = || vec![("n".to_owned(), "why".to_owned())];
    let answers = [
        Err(text()),
        Ok(Answer::Filtered(FilterAnswer {
            passed: vec!["a".to_owned()],
            failed: pair(),
            unresolvable: pair(),
        })),
        Ok(Answer::Scored(vec![("a".to_owned(), 3)])),
        Ok(Answer::Candidates(vec![CandidateAnswer {
            node: "a".to_owned(),
            victims: vec!["v".to_owned()],
            violations: 1,
        }])),
    ];
    let events = found
        .map(|found| Event::BindingQueried { uid: uid(), found })
        .into_iter()
        .chain(binds.map(|outcome| Event::BindFinished { uid: uid(), outcome }))
        .chain(writes.map(|outcome| Event::VolumeWritten { uid: uid(), write: 3, outcome }))
        .chain(evictions.map(|outcome| Event::EvictFinished { uid: uid(), outcome }))
        .chain(answers.map(|answer| Event::Extended { call: 9, answer }))
        .chain(Lane::ALL.map(|lane| Event::Credits { lane, count: 2 }))
        .chain([Event::Halt, Event::Leading(true), Event::Leading(false)]);
    for event in events {
        let text = serde_json::to_string(&OtherInput::of(&event).expect("it concerns no object")).unwrap();
        let again = serde_json::from_str::<OtherInput>(&text).unwrap().into_event().unwrap();
        assert_eq!(format!("{event:?}"), format!("{again:?}"), "{text}");
    }
    assert!(
        serde_json::from_str::<OtherInput>(r#"{"credits":{"lane":"fast","count":1}}"#)
            .unwrap()
            .into_event()
            .is_err()
    );
}

#[test]
fn recorded_configuration_gives_the_same_settings() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/config/valid");
    let flags = Flags { allow_second_default_scheduler: true, ..Flags::without_election() };
    let mut effectives = vec![Effective::without_file(&flags).unwrap()];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        effectives.push(Effective::load(&path, &flags).unwrap());
    }
    let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    for text in ["percentageOfNodesToScore: 0\n", "percentageOfNodesToScore: 30\n", ""] {
        effectives.push(Effective::parse(Path::new("f.yaml"), &format!("{head}{text}"), &flags).unwrap());
    }
    let mut compared = 0;
    for effective in effectives {
        let Ok(expected) = Settings::of(&effective) else { continue };
        let mut found =
            settings(&decisive(&effective), effective.emulated_version, effective.groups).unwrap();
        if expected.extenders.iter().any(|it| it.url_prefix.contains('@') || it.tls_config.is_some()) {
            found.extenders.clone_from(&expected.extenders);
        }
        let of =
            |it: &Settings| (it.profiles.clone(), it.initial_backoff, it.max_backoff, it.extenders.clone());
        assert_eq!(of(&found), of(&expected), "{}", effective.to_yaml());
        compared += 1;
    }
    assert!(compared > 10, "{compared}");
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("supercargo-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.join("lines.jsonl")
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }

    fn sink(
        &self,
        bytes_max: u64,
        when_full: WhenFull,
        metrics: &Metrics,
    ) -> (Sink, std::thread::JoinHandle<()>) {
        let header = (when_full == WhenFull::Ends).then(|| "{\"head\":1}\n".to_owned());
        let options = SinkOptions { path: self.file(), bytes_max, when_full, header };
        Sink::open(options, lines(metrics)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A leftover folder does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn lines(metrics: &Metrics) -> RecordLines {
    metrics.record_lines(Record::Input)
}

#[test]
fn lines_are_written_in_order_with_an_end_marker() {
    let (folder, metrics) = (Folder::new("order"), Metrics::new());
    let (sink, writer) = folder.sink(u64::MAX, WhenFull::Ends, &metrics);
    assert!(sink.hand(Line::Input(5, r#""told":{"leading":true}"#.into())));
    assert!(sink.hand(Line::Steps(vec![10, 12, 20])));
    assert!(sink.hand(Line::Came(Arc::new(placed("a")))));
    drop(sink);
    writer.join().unwrap();
    let expected = format!(
        "{{\"head\":1}}\n{{\"at\":5,\"told\":{{\"leading\":true}}}}\n{{\"at\":10,\"steps\":[0,2,10]}}\n{{\"decided\":{}}}\n{{\"ends\":\"stopped\"}}\n",
        placed("a").to_json()
    );
    assert_eq!(folder.text("lines.jsonl"), expected);
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(folder.file()).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    // The next process keeps the file.
    let (sink, writer) = folder.sink(u64::MAX, WhenFull::Ends, &metrics);
    drop(sink);
    writer.join().unwrap();
    assert_eq!(folder.text("lines.jsonl.1"), expected);
    assert_eq!(folder.text("lines.jsonl"), "{\"head\":1}\n{\"ends\":\"stopped\"}\n");
}

#[test]
fn full_recording_stops_and_full_log_rotates() {
    let (folder, metrics) = (Folder::new("size"), Metrics::new());
    let line = |number: u64| Line::Input(number, r#""told":{"leading":true}"#.into());
    let (sink, writer) = folder.sink(100, WhenFull::Ends, &metrics);
    assert_eq!((0..10).filter(|number| !sink.hand(line(*number))).count(), 0, "senders do not wait");
    drop(sink);
    writer.join().unwrap();
    let text = folder.text("lines.jsonl");
    assert!(text.ends_with("{\"at\":1,\"told\":{\"leading\":true}}\n{\"ends\":\"full\"}\n"), "{text}");

    let (folder, metrics) = (Folder::new("rotates"), Metrics::new());
    let one = placed("a").to_json().len() as u64 + 1;
    let (sink, writer) = folder.sink(2 * one, WhenFull::Rotates, &metrics);
    for name in ["a", "b", "c", "d", "e"] {
        assert!(sink.hand(Line::Logged(Arc::new(placed(name)))));
    }
    drop(sink);
    writer.join().unwrap();
    let names = |text: String| {
        let name = |line: &str| serde_json::from_str::<Value>(line).unwrap()["pod"]["name"].clone();
        text.lines().map(name).collect::<Vec<_>>()
    };
    assert_eq!(names(folder.text("lines.jsonl.1")), ["c", "d"]);
    assert_eq!(names(folder.text("lines.jsonl")), ["e"]);
    // A log is continued by the next process.
    let (sink, writer) = folder.sink(2 * one, WhenFull::Rotates, &metrics);
    assert!(sink.hand(Line::Logged(Arc::new(placed("f")))));
    drop(sink);
    writer.join().unwrap();
    assert_eq!(names(folder.text("lines.jsonl")), ["e", "f"]);
}

#[test]
fn rejected_line_is_counted_and_stops_the_recording() {
    let (folder, metrics) = (Folder::new("room"), Metrics::new());
    let (sink, writer) = folder.sink(u64::MAX, WhenFull::Ends, &metrics);
    let sink = sink.with_room(10);
    assert!(!sink.hand(Line::Steps(vec![1, 2, 3])));
    sink.overrun();
    assert!(!sink.hand(Line::Steps(vec![])), "no more lines are accepted");
    drop(sink);
    writer.join().unwrap();
    assert_eq!(folder.text("lines.jsonl"), "{\"head\":1}\n{\"ends\":\"overrun\"}\n");
    let exposed = crate::telemetry::metrics::Exposition::new(Arc::new(metrics));
    let text = futures::executor::block_on(exposed.render());
    assert!(
        text.contains("supercargo_record_lines_total{record=\"input\",result=\"dropped\"} 1\n"),
        "{text}"
    );
}

#[test]
fn unwritable_file_is_an_error() {
    let metrics = Metrics::new();
    let path = PathBuf::from("/dev/null/nowhere");
    let options = SinkOptions { path, bytes_max: 1, when_full: WhenFull::Ends, header: None };
    assert!(Sink::open(options, lines(&metrics)).is_err());
}

#[test]
fn folder_at_the_path_is_an_error_and_is_not_renamed() {
    let metrics = Metrics::new();
    let folder = Folder::new("a-folder");
    let path = folder.file();
    std::fs::create_dir_all(path.join("inside")).unwrap();
    let options = SinkOptions { path: path.clone(), bytes_max: 1, when_full: WhenFull::Ends, header: None };
    assert!(Sink::open(options, lines(&metrics)).is_err());
    assert!(path.join("inside").is_dir());
}

fn first_flaw(text: &str) -> String {
    let read = || -> Result<usize, Bad> {
        let (_, mut entries) = Entries::open(text.as_bytes())?;
        while entries.read()?.is_some() {}
        Ok(entries.line())
    };
    read().map_or_else(|bad| bad.to_string(), |lines| format!("{lines} lines"))
}

#[test]
fn invalid_recording_is_reported_with_its_line() {
    let flags = Flags::without_election();
    let effective = Effective::without_file(&flags).unwrap();
    let settings = Settings::of(&effective).unwrap();
    let beginning = Header::new(
        Mode::Scheduler,
        Time::from_secs(5),
        supercargo_core::model::rng::Seed(1),
        (&effective, &settings),
        std::time::Duration::from_secs(1),
    );
    let head = beginning.to_line();
    let after = |line: &str| first_flaw(&format!("{head}{line}"));
    assert_eq!(after("{\"ends\":\"stopped\"}\n"), "2 lines");
    assert_eq!(first_flaw(""), "the file is empty; expected the first line of a recording");
    assert_eq!(
        first_flaw("hello\n"),
        "line 1: not a recording of supercargo: expected value at line 1 column 1"
    );
    assert_eq!(first_flaw("{}\n"), "line 1: not a recording of supercargo: kind and apiVersion are missing");
    assert_eq!(
        first_flaw("{\"kind\":"),
        "line 1: not a recording of supercargo: the first line is incomplete"
    );
    assert_eq!(
        first_flaw(&head.replace("v1alpha1", "v9")),
        "line 1: Recording of supercargo.dev/v9 is not supported by this version of supercargo; expected supercargo.dev/v1alpha1"
    );
    assert_eq!(after("{}\n"), "line 2: the line has no content");
    assert_eq!(after("{\"ends\":\"a\",\"steps\":[]}\n"), "line 2: the line has more than one content");
    assert_eq!(after("{\"listBegan\":\"Cat\"}\n"), "line 2: unknown kind \"Cat\"");
    assert!(after("{\"sings\":1}\n").starts_with("line 2: unknown field `sings`"));
    assert_eq!(after("{\"steps\":[1,"), "2 lines", "an incomplete line is the end");
    assert_eq!(after(&"x".repeat(LINE_MAX + 1)), "line 2: longer than 16 MiB, the limit for a line");
}

#[test]
fn read_error_of_the_file_is_reported() {
    struct Broken;
    impl io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    let error = Entries::open(io::BufReader::new(Broken)).err().map(|bad| bad.to_string());
    assert_eq!(error.as_deref(), Some("cannot be read: the disk is gone"));
}
