//! Replays that the driver's tests do not cover: waiting for a lease, reconfiguration, and observed bindings
//! of another scheduler.

use crate::engine::recording::{Journal, Sink, SinkOptions, WhenFull};
use crate::engine::{Input, InputRecorder as _};
use crate::telemetry::metrics::{Metrics, Record};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use supercargo_config::redacted::decisive;
use supercargo_config::{Effective, Flags, Settings};
use supercargo_core::collections::hash::HashSeed;
use supercargo_core::compare::Agreement;
use supercargo_core::cycle::NoProbe;
use supercargo_core::model::effect::Lane;
use supercargo_core::model::emulation::{EmulatedVersion, GroupGates};
use supercargo_core::model::event::BindOutcome;
use supercargo_core::model::event::Event;
use supercargo_core::model::event::Kind;
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::report::Outcome;
use supercargo_core::scheduler::{Scheduler, Step};
use supercargo_objects::api::Object;
use supercargo_objects::convert::Watched as _;
use supercargo_objects::input_text::{applied, configured, list_began, list_ended};
use supercargo_objects::of_any_kind;
use supercargo_whatif::recording::replay::*;
use supercargo_whatif::recording::watched::{ObservedBinding, judge};
use supercargo_whatif::recording::{Entries, Header, Mode};

fn effective(rest: &str, flags: &Flags) -> Effective {
    let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    Effective::parse(Path::new("f.yaml"), &format!("{head}{rest}"), flags).unwrap()
}

/// A scheduler whose inputs are passed and recorded by the test.
struct Hand {
    engine: Scheduler,
    journal: Journal,
    now: Time,
    writer: std::thread::JoinHandle<()>,
    folder: tempfile::TempDir,
}

impl Hand {
    fn new(effective: &Effective, mode: Mode) -> Self {
        Self::of(effective, mode, |beginning| beginning)
    }

    fn of(effective: &Effective, mode: Mode, with: impl FnOnce(Header) -> Header) -> Self {
        let settings = Settings::of(effective).unwrap();
        let (now, wait) = (Time::from_secs(1_000), Duration::from_secs(300));
        let beginning = with(Header::new(mode, now, Seed(3), (effective, &settings), wait));
        let folder = tempfile::tempdir().unwrap();
        let options = SinkOptions {
            path: folder.path().join("recording.jsonl"),
            bytes_max: u64::MAX,
            when_full: WhenFull::Ends,
            header: Some(beginning.to_line()),
        };
        let (sink, writer) = Sink::open(options, Metrics::new().record_lines(Record::Input)).unwrap();
        let journal = Journal::default().with_recording(sink, now);
        let engine = beginning.engine(&settings, |_| Vec::new());
        Self { engine, journal, now, writer, folder }
    }

    fn event(&mut self, event: Event) {
        self.now = self.now + Duration::from_millis(1);
        self.journal.received(self.now, Input::Event(&event));
        self.engine.handle(self.now, event);
    }

    fn object(&mut self, object: Value) {
        self.now = self.now + Duration::from_millis(1);
        let Ok(object) = Object::from_value(object) else { panic!("the engine reads this kind") };
        let (text, event) =
            of_any_kind!(&object, it => (applied(&**it), it.applied(self.engine.tables()).unwrap()));
        self.journal.received(self.now, Input::Written(Some(text)));
        self.engine.handle(self.now, event);
    }

    fn lists(&mut self) {
        for lane in Lane::ALL {
            self.event(Event::Credits { lane, count: 100 });
        }
        let has_groups = self.engine.tables().rules().groups.workloads;
        for kind in Kind::watched(has_groups) {
            self.journal.received(self.now, Input::Written(Some(list_began(kind))));
            self.engine.handle(self.now, Event::ListBegan(kind));
            self.journal.received(self.now, Input::Written(Some(list_ended(kind))));
            self.engine.handle(self.now, Event::ListEnded(kind));
        }
    }

    fn reconfigure(&mut self, effective: &Effective) {
        let settings = Settings::of(effective).unwrap();
        self.journal.received(
            self.now,
            Input::Written(Some(configured(&decisive(effective), effective.emulated_version))),
        );
        let to = settings.reconfiguration(Vec::new(), self.engine.tables());
        self.engine.reconfigure(self.now, to);
    }

    /// Steps until idle. Returns the chosen nodes.
    fn work(&mut self) -> Vec<String> {
        let mut nodes = Vec::new();
        loop {
            let step = self.engine.step(self.now, &mut NoProbe);
            self.journal.stepped(self.now, matches!(step, Step::Idle { .. }));
            match step {
                Step::Idle { .. } => return nodes,
                Step::Report(report) => {
                    if let Outcome::Placed { node, .. } = &report.outcome {
                        nodes.push(node.clone());
                    }
                    self.journal.reported(report);
                }
                Step::Effect(_) | Step::GroupReport(_) | Step::Notice(_) => {}
            }
        }
    }

    fn recording(self) -> String {
        let Self { journal, writer, folder, .. } = self;
        drop(journal);
        writer.join().unwrap();
        std::fs::read_to_string(folder.path().join("recording.jsonl")).unwrap()
    }
}

fn node(name: &str, cpu: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}}})
}

fn pod(name: &str, scheduler: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"schedulerName": scheduler, "nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}})
}

#[test]
fn leadership_and_reconfiguration_are_replayed_in_place() {
    let flags = Flags::default();
    let start = effective("leaderElection: {resourceName: a}\nprofiles: [{schedulerName: a}]\n", &flags);
    let most = "  pluginConfig:\n  - name: NodeResourcesFit\n    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}\n";
    let later = effective(
        &format!(
            "leaderElection: {{resourceName: a}}\nprofiles:\n- schedulerName: a\n{most}- schedulerName: b\n"
        ),
        &flags,
    );
    let mut hand = Hand::new(&start, Mode::Scheduler);
    hand.lists();
    hand.object(node("large", "16"));
    hand.object(node("small", "2"));
    hand.object(pod("p1", "a", ""));
    assert_eq!(hand.work(), [""; 0], "it does not lead");
    hand.event(Event::Leading(true));
    assert_eq!(hand.work(), ["large"]);
    hand.reconfigure(&later);
    hand.object(pod("p2", "a", ""));
    hand.object(pod("p3", "b", ""));
    assert_eq!(hand.work(), ["small", "large"]);
    let recording = hand.recording();

    let summary = Replay::open(recording.as_bytes()).unwrap().run(|_, _| {}).unwrap();
    assert_eq!((summary.divergence, summary.placed), (None, 3), "{recording}");
    // Without the new configuration p2 gets another node, which is the first difference.
    let line = recording.lines().position(|line| line.contains("\"node\":\"small\"")).unwrap();
    let without: Vec<&str> = recording.lines().filter(|line| !line.contains("\"configured\"")).collect();
    let summary = Replay::open(without.join("\n").as_bytes()).unwrap().run(|_, _| {}).unwrap();
    assert_eq!(summary.divergence.map(|it| it.line), Some(line), "one line less");
    // Without leadership nothing is decided.
    let without: Vec<&str> = recording.lines().filter(|line| !line.contains("\"leading\"")).collect();
    let divergence = Replay::open(without.join("\n").as_bytes()).unwrap().run(|_, _| {}).unwrap().divergence;
    assert_eq!(divergence.map(|it| it.now), Some(None));
}

#[test]
fn groups_and_their_gates_are_replayed() {
    let mut groups = GroupGates::OFF;
    assert!(["GenericWorkload", "GangScheduling"].iter().all(|gate| groups.set(gate, true)));
    let emulated_version = EmulatedVersion::V1_36;
    let flags = Flags { groups, emulated_version, ..Flags::without_election() };
    let rules = effective("profiles: [{schedulerName: a}]\n", &flags);
    let mut hand = Hand::new(&rules, Mode::Scheduler);
    hand.lists();
    hand.object(node("n", "1"));
    hand.object(json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "ns", "uid": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}));
    for name in ["p1", "p2"] {
        let mut member = pod(name, "a", "");
        member["spec"]["schedulingGroup"] = json!({"podGroupName": "g"});
        hand.object(member);
    }
    assert_eq!(hand.work(), [""; 0], "one member has no room");
    hand.reconfigure(&rules);
    hand.object(node("m", "1"));
    assert_eq!(hand.work().len(), 2);
    let recording = hand.recording();
    let summary = Replay::open(recording.as_bytes()).unwrap().run(|_, _| {}).unwrap();
    assert_eq!((summary.divergence, summary.placed), (None, 2), "{recording}");
    // Without the gates in its head, the first member is placed alone.
    let without = recording.replace("\"featureGates\":[\"GangScheduling\",\"GenericWorkload\"],", "");
    assert_ne!(without, recording);
    let divergence = Replay::open(without.as_bytes()).unwrap().run(|_, _| {}).unwrap().divergence;
    assert!(divergence.is_some_and(|it| it.now.is_some_and(|now| now.contains("placed"))), "{without}");
}

/// The replacement of `--decision-log` in docs/record.md holds the same lines.
#[test]
fn decision_log_equals_the_decisions_of_the_recording() {
    let rules = effective("profiles: [{schedulerName: a}]\n", &Flags::without_election());
    let mut hand = Hand::new(&rules, Mode::Scheduler);
    let path = hand.folder.path().join("decisions.jsonl");
    let options =
        SinkOptions { path: path.clone(), bytes_max: u64::MAX, when_full: WhenFull::Rotates, header: None };
    let (sink, writer) = Sink::open(options, Metrics::new().record_lines(Record::Decisions)).unwrap();
    hand.journal = std::mem::take(&mut hand.journal).with_log(sink);
    hand.lists();
    hand.object(node("n", "2"));
    let refused = || BindOutcome::Refused { message: "why".to_owned() };
    for (name, outcome) in [("p1", refused()), ("p2", BindOutcome::Accepted), ("p3", BindOutcome::Accepted)] {
        hand.object(pod(name, "a", ""));
        hand.work();
        hand.event(Event::BindFinished { uid: name.into(), outcome });
        hand.work();
    }
    hand.object(pod("p2", "a", "n"));
    hand.object(pod("p4", "a", ""));
    hand.work();
    let Hand { journal, writer: recorder, folder, .. } = hand;
    drop(journal);
    recorder.join().unwrap();
    writer.join().unwrap();
    let logged = std::fs::read_to_string(path).unwrap();
    let recording = std::fs::read_to_string(folder.path().join("recording.jsonl")).unwrap();
    // Other results are consequences of these.
    let results = ["placed", "unschedulable", "error", "skipped", "bindFailed"];
    let decided = recording.lines().filter_map(|line| {
        let decided = line.strip_prefix("{\"decided\":")?.strip_suffix('}')?;
        let result = serde_json::from_str::<Value>(decided).unwrap()["result"].clone();
        results.iter().any(|it| result == *it).then_some(decided)
    });
    let decided: Vec<&str> = decided.collect();
    assert_eq!(logged.lines().collect::<Vec<_>>(), decided, "{recording}");
    for result in ["placed", "unschedulable", "bindFailed"] {
        assert!(logged.contains(&format!("\"result\":\"{result}\"")), "{logged}");
    }
    let consequence = "\"result\":\"bound\"";
    assert!(recording.contains(consequence) && !logged.contains(consequence), "{recording}");
}

/// Recordings of older versions have no hash seed. A different one gives the same replay, since it affects no
/// decision.
#[test]
fn hash_seed_is_recorded_and_does_not_affect_a_replay() {
    let rules = effective("profiles: [{schedulerName: a}]\n", &Flags::without_election());
    let mut hand = Hand::of(&rules, Mode::Scheduler, |it| it.hashing_with(HashSeed(u64::MAX)));
    hand.lists();
    for number in 0..9 {
        hand.object(node(&format!("n{number}"), "2"));
        hand.object(pod(&format!("p{number}"), "a", ""));
        assert_eq!(hand.work().len(), 1);
    }
    let recording = hand.recording();
    let field = "\"hashSeed\":18446744073709551615,";
    assert!(recording.lines().next().unwrap().contains(field), "{recording}");
    for other in [field, "", "\"hashSeed\":7,"] {
        let recording = recording.replace(field, other);
        let summary = Replay::open(recording.as_bytes()).unwrap().run(|_, _| {}).unwrap();
        assert_eq!((summary.divergence, summary.placed), (None, 9), "{other}");
    }
}

#[test]
fn recordings_with_and_without_idle_verification_replay() {
    let rules = effective("profiles: [{schedulerName: a}]\n", &Flags::without_election());
    let mut hand = Hand::of(&rules, Mode::Scheduler, |it| it.verifying(None, Some(Duration::from_secs(4))));
    hand.lists();
    hand.object(node("large", "16"));
    hand.object(node("small", "2"));
    let mut idle = 0;
    for number in 0..6 {
        hand.object(pod(&format!("p{number}"), "a", ""));
        assert_eq!(hand.work().len(), 1);
        let before = hand.engine.stats().verified[0];
        // A late call looks like a long comparison, after which the engine pauses comparisons.
        for pause in [3_000, 10, 10].map(Duration::from_millis) {
            hand.now = hand.now + pause;
            assert_eq!(hand.work(), [""; 0]);
        }
        idle += hand.engine.stats().verified[0] - before;
    }
    assert!(idle >= 4, "{idle} comparisons in idle time");
    let recording = hand.recording();
    let with = r#""verifyWithinNanos":4000000000,"#;
    assert!(recording.contains(with), "{recording}");
    for recording in [recording.clone(), recording.replacen(with, "", 1)] {
        let summary = Replay::open(recording.as_bytes()).unwrap().run(|_, _| {}).unwrap();
        assert_eq!((summary.divergence, summary.placed), (None, 6), "{recording}");
    }
}

#[test]
fn observed_bindings_are_compared_with_recorded_or_other_profiles() {
    let flags = Flags::without_election();
    let rules = effective("profiles: [{schedulerName: other}]\n", &flags);
    let mut hand = Hand::new(&rules, Mode::Watcher { of: "other".to_owned() });
    hand.engine = Scheduler::new(
        supercargo_core::scheduler::Config {
            seed: Seed(3),
            profiles: Vec::new(),
            queue: supercargo_core::queue::QueueConfig::default(),
        },
        hand.now,
    );
    hand.lists();
    hand.object(node("large", "16"));
    hand.object(node("small", "2"));
    hand.object(node("full", "500m"));
    for (name, bound_to) in [("p1", "large"), ("p2", "small"), ("p3", "full")] {
        hand.object(pod(name, "other", ""));
        hand.object(pod(name, "other", bound_to));
        // Old events explain no race.
        hand.now = hand.now + Duration::from_secs(60);
    }
    let recording = hand.recording();
    let judged = |other: Option<&Settings>| {
        let (beginning, entries) = Entries::open(recording.as_bytes()).unwrap();
        let mut agreements = Vec::new();
        let summary = judge(&beginning, entries, "other", other, |_, seen| match seen {
            ObservedBinding::Judged(it) => agreements.push(it.agreement),
            ObservedBinding::Unjudged(why) => panic!("{why:?}"),
        });
        assert_eq!(summary.unwrap().ends.as_deref(), Some("stopped"));
        agreements
    };
    assert_eq!(judged(None), [Agreement::Same, Agreement::Different, Agreement::TheyFitWeNot]);
    let most = "pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 9}]}}}]";
    let packing = effective(&format!("profiles: [{{schedulerName: other, {most}}}]\n"), &flags);
    let packing = judged(Some(&Settings::of(&packing).unwrap()));
    assert_eq!(packing, [Agreement::Different, Agreement::Same, Agreement::TheyFitWeNot]);
    // With several profiles, one with the recorded name is required.
    let two = effective("profiles: [{schedulerName: a}, {schedulerName: b}]\n", &flags);
    let (beginning, entries) = Entries::open(recording.as_bytes()).unwrap();
    let refused = judge(&beginning, entries, "other", Some(&Settings::of(&two).unwrap()), |_, _| {});
    let error = refused.err().map(|bad| bad.to_string());
    assert_eq!(
        error.as_deref(),
        Some("line 1: the configuration has several profiles, and none is named other")
    );
}
