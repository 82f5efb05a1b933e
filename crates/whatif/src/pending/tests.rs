//! Tests of reports and explanations of pending pods at every place.

use super::*;
use supercargo_core::cycle::{Framework, NoProbe};
use supercargo_core::model::effect::Lane;
use supercargo_core::model::emulation::{EmulatedVersion, GroupGates};
use supercargo_core::model::event::{Event, Kind, ObjectKey};
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::queue::{QueueConfig, SubQueue};
use supercargo_core::registry::Plan;
use supercargo_core::scheduler::{Config, GroupStats, Profile, Reconfiguration, Step};

const NOW: Time = Time::from_secs(1_800_000_000);

fn applied<K: supercargo_objects::convert::Watched + serde::de::DeserializeOwned>(
    engine: &mut Scheduler,
    object: &str,
) {
    let object: K = serde_json::from_str(object).expect("it is JSON");
    let event = object.applied(engine.tables()).expect("the object is well formed");
    engine.handle(NOW, event);
}

fn pod(engine: &mut Scheduler, namespace: &str, name: &str, cpu: &str, more: &str) {
    applied::<supercargo_objects::api::Pod>(
        engine,
        &format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","uid":"u-{name}","labels":{{"app":"{name}"}}}},
                "spec":{{"schedulerName":"supercargo","containers":[{{"name":"c","resources":{{"requests":{{"cpu":"{cpu}"}}}}}}]{more}}}}}"#
        ),
    );
}

fn decide(engine: &mut Scheduler) {
    while !matches!(engine.step(NOW, &mut NoProbe), Step::Idle { .. }) {}
}

/// Returns an engine with pods at many places, in two namespaces.
fn engine() -> Scheduler {
    let profile = Profile { name: "supercargo".to_owned(), framework: Framework::default() };
    let config = Config { seed: Seed(1), profiles: vec![profile], queue: QueueConfig::default() };
    let mut engine = Scheduler::new(config, NOW);
    for kind in Kind::ALL {
        engine.handle(NOW, Event::ListBegan(kind));
        engine.handle(NOW, Event::ListEnded(kind));
    }
    engine.handle(NOW, Event::Credits { lane: Lane::Bind, count: 8 });
    for namespace in ["team", "other"] {
        applied::<supercargo_objects::api::Namespace>(
            &mut engine,
            &format!(r#"{{"metadata":{{"name":"{namespace}"}}}}"#),
        );
    }
    let node =
        r#"{"metadata":{"name":"n1"},"status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"10"}}}"#;
    applied::<supercargo_objects::api::Node>(&mut engine, node);
    pod(&mut engine, "team", "large", "9", "");
    pod(&mut engine, "other", "theirs", "9", "");
    pod(&mut engine, "team", "bound", "1", "");
    decide(&mut engine);
    pod(&mut engine, "team", "held", "1", r#","schedulingGates":[{"name":"g1"},{"name":"g2"}]"#);
    let class =
        r#"{"metadata":{"name":"fast"},"provisioner":"p","volumeBindingMode":"WaitForFirstConsumer"}"#;
    applied::<supercargo_objects::api::StorageClass>(&mut engine, class);
    let claim =
        r#"{"metadata":{"name":"c","namespace":"team","uid":"u-c"},"spec":{"storageClassName":"fast"}}"#;
    applied::<supercargo_objects::api::PersistentVolumeClaim>(&mut engine, claim);
    let volumes = r#","volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}]"#;
    pod(&mut engine, "team", "slow", "1", volumes);
    decide(&mut engine);
    engine
}

/// Returns a report, without interruptions.
fn report(engine: &Scheduler, now: Time, question: &Question) -> QueueReport {
    let mut reporting = Reporting::new(question.clone());
    while !reporting.is_done() {
        reporting.go_on(engine, now);
    }
    reporting.done().expect("it was looked at")
}

/// Returns an explanation, without interruptions.
fn explain(engine: &Scheduler, now: Time, namespace: &str, name: &str) -> Option<PendingExplanation> {
    let mut explaining = Explaining::new(namespace.to_owned(), name.to_owned());
    while !explaining.is_done() {
        explaining.go_on(engine, now);
    }
    explaining.done()
}

fn rows(report: &QueueReport) -> Vec<String> {
    let each = report.pods.iter().map(|pod| {
        let next = pod.next_try.as_deref().unwrap_or("-");
        format!("{}/{} {}: {}; {} {next}", pod.namespace, pod.name, pod.place, pod.waits_for, pod.attempts)
    });
    each.collect()
}

#[test]
fn report_shows_place_cause_and_next_attempt_of_each_pod() {
    let report = report(&engine(), NOW, &Question::default());
    assert_eq!(
        rows(&report),
        [
            "other/theirs unschedulable: a cluster change relevant to NodeResourcesFit; 1 2027-01-15T08:05:30Z",
            "team/bound binding: confirmation of binding to node n1; 1 -",
            "team/held gated: removal of its scheduling gates: g1, g2; 0 -",
            "team/large unschedulable: a cluster change relevant to NodeResourcesFit; 1 2027-01-15T08:05:30Z",
            "team/slow volumes: its volumes to be bound on node n1; 1 -",
        ]
    );
    let counts: Vec<_> = report.counts.iter().map(|(place, pods)| format!("{place} {pods}")).collect();
    assert_eq!(counts, ["binding 1", "gated 1", "unschedulable 2", "volumes 1"]);
    assert!(report.leading && report.complete && report.is_of_this_version());
    assert_eq!(report.time, "2027-01-15T08:00:00Z");
}

#[test]
fn report_and_counts_cover_only_selected_namespaces() {
    let engine = engine();
    let question =
        Question { namespaces: Some(["other".to_owned()].into()), is_part: true, ..Question::default() };
    let report = report(&engine, NOW, &question);
    assert_eq!(report.pods.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>(), ["theirs"]);
    assert_eq!(report.counts, [("unschedulable".to_owned(), 1)].into());
    assert!(!report.complete);
    assert!(!serde_json::to_string(&report).expect("it is JSON").contains("team"));
    assert_eq!(namespaces(&engine), ["other", "team"]);
}

#[test]
fn report_filters_pods_by_labels() {
    let labels = LabelQuery::parse("app in (held,theirs),!other").expect("it is a selector");
    let report = report(&engine(), NOW, &Question { labels, ..Question::default() });
    assert_eq!(report.pods.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>(), ["theirs", "held"]);
}

#[test]
fn report_survives_a_json_round_trip() {
    let report = report(&engine(), NOW, &Question::default());
    let text = serde_json::to_string(&report).expect("it is JSON");
    assert_eq!(serde_json::from_str::<QueueReport>(&text).expect("it is a report"), report);
}

#[test]
fn pending_explanation_names_no_nodes_or_other_pods() {
    let engine = engine();
    let explained = explain(&engine, NOW, "team", "large").expect("it waits");
    let json = serde_json::to_value(&explained).expect("it is JSON");
    assert_eq!(
        (&json["kind"], &json["pod"]["place"]),
        (&"PendingExplanation".into(), &"unschedulable".into())
    );
    assert_eq!(
        json["reasons"],
        serde_json::json!([{"code": "InsufficientCpu", "plugin": "NodeResourcesFit", "nodes": 1, "aloneOn": 1, "text": "Insufficient cpu"}])
    );
    let text = json.to_string();
    assert!(!text.contains("n1") && !text.contains("bound"), "nodes and other pods are not named: {text}");
    let slow = explain(&engine, NOW, "team", "slow").expect("it waits");
    assert_eq!((slow.pod.place.as_str(), slow.reasons.len()), ("volumes", 0));
    assert!(explain(&engine, NOW, "other", "large").is_none());
}

#[test]
fn stepwise_explanation_equals_a_full_one() {
    let mut engine = engine();
    for number in 0..1_200 {
        let node = format!(
            r#"{{"metadata":{{"name":"m{number}"}},"spec":{{"unschedulable":{}}},"status":{{"allocatable":{{"cpu":"2","pods":"10"}}}}}}"#,
            number % 3 == 0
        );
        applied::<supercargo_objects::api::Node>(&mut engine, &node);
    }
    let mut explaining = Explaining::new("team".to_owned(), "large".to_owned());
    let mut parts = 0;
    while !explaining.is_done() {
        explaining.go_on(&engine, NOW);
        parts += 1;
    }
    let explained = explaining.done().expect("it waits");
    let reasons: Vec<_> =
        explained.reasons.iter().map(|it| (it.text.as_str(), it.nodes, it.alone_on)).collect();
    assert_eq!(reasons, [("Insufficient cpu", 1_201, 801), ("node(s) were unschedulable", 400, 0)]);
    assert_eq!((explained.nodes, explained.fits_on, parts), (1_201, 0, 3));
}

#[test]
fn pods_that_leave_during_a_report_are_skipped() {
    let mut engine = engine();
    for number in 0..300 {
        pod(&mut engine, "team", &format!("p{number}"), "9", "");
    }
    let mut reporting = Reporting::new(Question::default());
    reporting.go_on(&engine, NOW);
    reporting.go_on(&engine, NOW);
    for uid in ["u-held", "u-p299"] {
        engine.handle(NOW, Event::Gone(ObjectKey::Pod(uid.into())));
    }
    assert!(!reporting.is_done());
    reporting.go_on(&engine, NOW);
    assert!(reporting.is_done());
    let report = reporting.done().expect("it was looked at");
    assert_eq!(report.pods.len(), 303);
    assert_eq!(report.counts.values().sum::<usize>(), 303);
    assert_eq!((report.counts["active"], report.counts.get("gated")), (299, None));
}

#[test]
fn pod_that_leaves_during_its_explanation_has_no_result() {
    let mut engine = engine();
    for number in 0..600 {
        let node = format!(
            r#"{{"metadata":{{"name":"m{number}"}},"status":{{"allocatable":{{"cpu":"2","pods":"10"}}}}}}"#
        );
        applied::<supercargo_objects::api::Node>(&mut engine, &node);
    }
    let mut explaining = Explaining::new("team".to_owned(), "large".to_owned());
    explaining.go_on(&engine, NOW);
    assert!(!explaining.is_done());
    engine.handle(NOW, Event::Gone(ObjectKey::Pod("u-large".into())));
    explaining.go_on(&engine, NOW);
    assert!(explaining.is_done() && explaining.done().is_none());
}

/// Returns an engine that schedules groups: `g` wants three members and has two.
fn engine_with_group() -> Scheduler {
    engine_with_group_in(EmulatedVersion::V1_36)
}

fn engine_with_group_in(version: EmulatedVersion) -> Scheduler {
    let mut engine = engine();
    engine.tables().emulate(version);
    let mut gates = GroupGates::OFF;
    assert!(["GenericWorkload", "GangScheduling"].iter().all(|gate| gates.set(gate, true)));
    engine.tables().set_group_gates(gates);
    let rules = engine.tables().rules();
    let profile = Profile { name: "supercargo".to_owned(), framework: Framework::new(&Plan::of(rules)) };
    let QueueConfig { initial_backoff, max_backoff, .. } = QueueConfig::default();
    let (emulated_version, extenders) = (rules.version, Vec::new());
    let profiles = vec![profile];
    let to = Reconfiguration { emulated_version, profiles, initial_backoff, max_backoff, extenders };
    engine.reconfigure(NOW, to);
    for event in [Event::ListBegan(Kind::PodGroup), Event::ListEnded(Kind::PodGroup)] {
        engine.handle(NOW, event);
    }
    group(&mut engine, "g", 3, "");
    for name in ["m1", "m2"] {
        pod(&mut engine, "team", name, "1", r#","schedulingGroup":{"podGroupName":"g"}"#);
    }
    decide(&mut engine);
    engine
}

fn group(engine: &mut Scheduler, name: &str, min: usize, more: &str) {
    applied::<supercargo_objects::api::PodGroupV1Alpha2>(
        engine,
        &format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"team","uid":"u-{name}"}},
                "spec":{{"schedulingPolicy":{{"gang":{{"minCount":{min}}}}}}}{more}}}"#
        ),
    );
}

#[test]
fn report_lists_groups_with_their_state() {
    let mut engine = engine_with_group();
    let first = report(&engine, NOW, &Question::default());
    let g = PendingGroup {
        namespace: "team".to_owned(),
        name: "g".to_owned(),
        exists: true,
        min_count: Some(3),
        members: 2,
        ..PendingGroup::default()
    };
    assert_eq!(first.groups, std::slice::from_ref(&g));
    let waiting = rows(&first);
    let expected = "team/m1 gated: its pod group g: the PodGroup, or enough members; 0 -";
    assert!(waiting.iter().any(|row| row == expected), "{waiting:#?}");
    // Now it has enough members, but the third one is unschedulable.
    pod(&mut engine, "team", "m3", "9", r#","schedulingGroup":{"podGroupName":"g"}"#);
    decide(&mut engine);
    let second = report(&engine, NOW, &Question::default());
    let [group] = second.groups.as_slice() else { panic!("{:?}", second.groups) };
    assert_eq!((group.members, group.placed, group.scheduled), (3, 0, false));
    assert_eq!(
        group.message,
        "pod group is unschedulable; the nodes take at most 2 of the 3 members that must start, even without other pods"
    );
    let text = serde_json::to_string(&second).expect("it is JSON");
    assert_eq!(serde_json::from_str::<QueueReport>(&text).expect("it is a report"), second);
}

#[test]
fn waiting_groups_and_those_that_lost_members_are_counted() {
    let numbers = |engine: &Scheduler| {
        let GroupStats { waiting, below_min_count, .. } = engine.stats().groups;
        (waiting, below_min_count)
    };
    let mut engine = engine_with_group();
    assert_eq!(numbers(&engine), (1, 0));
    let was_scheduled = r#","status":{"conditions":[{"type":"PodGroupScheduled","status":"True"}]}"#;
    group(&mut engine, "h", 2, was_scheduled);
    let member = r#","nodeName":"n1","schedulingGroup":{"podGroupName":"h"}"#;
    pod(&mut engine, "team", "h1", "1", member);
    assert_eq!(numbers(&engine), (1, 1));
    pod(&mut engine, "team", "h2", "1", member);
    assert_eq!(numbers(&engine), (1, 0));
}

#[test]
fn groups_are_entries_of_the_queue_from_1_37_on() {
    assert_eq!(engine_with_group().stats().groups.entries, None);
    let mut engine = engine_with_group_in(EmulatedVersion::V1_37);
    pod(&mut engine, "team", "x", "1", r#","schedulingGroup":{"podGroupName":"unknown"}"#);
    pod(&mut engine, "team", "alone", "9000", "");
    decide(&mut engine);
    let entries = engine.stats().groups.entries.expect("groups are entries");
    assert_eq!(entries.groups, [(SubQueue::Gated, 1)].into());
    assert_eq!((entries.members, entries.incomplete), ([(SubQueue::Gated, 2)].into(), 1));
}
