//! Limits on memory allocations per decision and on memory kept by the engine. These numbers do not depend on the
//! machine's load.
//!
//! A decision counts as one whole cycle of a pod of a known kind: adding it, queueing, deciding, assuming it on its
//! node and releasing its binding. Limits are the numbers measured when they were written, rounded up; for bytes,
//! with a reserve of 5 %. When you reduce a number, lower its limit here.

#[path = "../benches/engine/mod.rs"]
mod engine;
#[path = "../benches/workloads/mod.rs"]
mod workloads;

use engine::Engine;
use serde_json::{Value, json};
use std::sync::Arc;
use supercargo::engine::recording::{Journal, Ring, Sink, SinkOptions, WhenFull};
use supercargo::engine::{Input, InputRecorder as _};
use supercargo::telemetry::metrics::{Metrics, Record};
use supercargo_core::model::effect::PodRef;
use supercargo_core::model::event::{BindOutcome, Event};
use supercargo_core::model::time::Time;
use supercargo_core::report::{Outcome, Report};
use workloads::{Size, Workload};

/// Pods placed before counting starts: three of each of 50 apps.
const MET: usize = 150;

/// Pods that are counted.
const COUNTED: usize = 50;

fn size() -> Size {
    Size { nodes: 200, existing: 100, pods: MET + COUNTED, signatures: 1, waiting: 0 }
}

/// Returns the mean number of allocations per cycle.
fn per_cycle(workload: &Workload) -> f64 {
    let mut engine = Engine::with_cluster(workload, size());
    engine.verify_nothing();
    let mut counted = 0;
    for (turn, pod) in workload.pods(size()).enumerate() {
        let event = engine.event(pod);
        let mut asked = Vec::new();
        let cycle = allocation_counter::measure(|| asked = engine.timed(vec![event]));
        if turn >= MET {
            counted += cycle.count_total;
        }
        let answers = asked.into_iter().flat_map(|effect| engine.answers(effect)).collect();
        engine.run(answers);
    }
    assert_eq!(engine.decided().0, MET + COUNTED, "{}: each pod is placed", workload.id);
    counted as f64 / COUNTED as f64
}

#[test]
fn allocations_per_cycle_stay_within_limits() {
    let ceilings = [
        ("basic", 29.0),
        ("soft-anti", 39.0),
        ("hard-anti", 39.0),
        ("zone-affinity", 39.0),
        ("spread", 42.0),
        ("soft-spread", 47.0),
        ("node-affinity", 29.0),
        ("W3", 47.0),
    ];
    let mut broken = Vec::new();
    for (id, ceiling) in ceilings {
        let workload = Workload::named(id).expect("the workload exists");
        let counted = per_cycle(&workload);
        println!("{id:<14} {counted:7.2} allocations per cycle, at most {ceiling}");
        if counted > ceiling {
            broken.push(format!("{id}: {counted} allocations per cycle, the limit is {ceiling}"));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Returns the increase of kept bytes by `what`, per item.
fn kept_per(engine: &mut Engine, count: usize, what: impl FnOnce(&mut Engine)) -> f64 {
    let kept = allocation_counter::measure(|| what(engine)).bytes_current;
    kept as f64 / count as f64
}

fn labelled(mut pod: Value, labels: Value) -> Value {
    pod["metadata"]["labels"] = labels;
    pod
}

#[test]
fn kept_bytes_per_object_stay_within_limits() {
    const NODES: usize = 2_000;
    const PODS: usize = 20_000;
    let workload = Workload::named("W12").expect("the workload exists");
    let size = Size { nodes: NODES, existing: PODS, pods: 0, signatures: 50, waiting: 0 };
    let mut engine = Engine::new();
    let node = kept_per(&mut engine, NODES, |engine| {
        (0..NODES).for_each(|number| engine.feed((workload.node)(number, &size)));
    });
    let bound = kept_per(&mut engine, PODS, |engine| {
        (0..PODS).for_each(|number| {
            engine.feed(labelled(
                workload.running(number, &size),
                json!({"app": format!("app-{}", number % 50)}),
            ));
        });
    });
    engine.end_lists();
    let pending = kept_per(&mut engine, 2_000, |engine| {
        (0..2_000).for_each(|number| engine.feed((workload.waiting)(PODS + number, &size)));
        engine.run(Vec::new());
    });
    let mut broken = Vec::new();
    for (what, kept, ceiling) in
        // Of these, about 40 bytes each are the log of node changes, which is bounded at 1.5 MB in total. About 600
        // bytes of a pending pod are cached decisions on 50 signatures, whose total is bounded, too. The pointer to a
        // pod's group takes 8.
        [("node", node, 750.0), ("bound pod", bound, 286.0), ("pending pod", pending, 1_640.0)]
    {
        println!("{kept:7.0} bytes per {what}, at most {ceiling}");
        if kept > ceiling {
            broken.push(format!("{kept:.0} bytes per {what}, the limit is {ceiling}"));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn deleted_pods_leave_no_memory_behind() {
    const PODS: usize = 1_000;
    let workload = Workload::named("basic").expect("the workload exists");
    let size = Size { nodes: 20, existing: 0, pods: PODS, signatures: 1, waiting: 0 };
    let mut engine = Engine::with_cluster(&workload, size);
    let come_and_go = |engine: &mut Engine, from: usize| {
        for number in from..from + PODS {
            let pod = labelled((workload.pod)(number, &size), json!({"unique": format!("value-{number}")}));
            let gone = engine.goes(pod.clone());
            let came = engine.event(pod);
            engine.run(vec![came]);
            engine.run(vec![gone]);
        }
        engine.forget_times();
        engine.collect_all_ids();
    };
    come_and_go(&mut engine, 0);
    // The log of node changes grows up to its bound, so fill it.
    for number in 0..70_000 {
        let mut node = (workload.node)(0, &size);
        node["metadata"]["labels"]["seen"] = ["once", "twice"][number % 2].into();
        engine.feed(node);
    }
    let left = kept_per(&mut engine, PODS, |engine| come_and_go(engine, PODS));
    println!("{left:.0} bytes remain of each deleted pod with a unique label, at most 0");
    assert!(left <= 0.0, "{left:.0} bytes remain of each deleted pod");
}

/// Returns the allocations per decision on the scheduling thread for recording it: pod added, decision, report and
/// answered binding. The report itself is made in any case.
fn per_kept_decision(mut journal: Journal) -> f64 {
    const DECISIONS: usize = 2_000;
    let (now, text) = (Time::from_secs(1_000_000), r#""applied":{"kind":"Pod"}"#);
    let mut counted = 0;
    for turn in 0..DECISIONS {
        let uid: Arc<str> = format!("uid-{turn}").into();
        let report = Report {
            pod: PodRef {
                namespace: "default".to_owned(),
                name: format!("pod-{turn}"),
                uid: Arc::clone(&uid),
            },
            profile: "supercargo".to_owned(),
            attempt: 1,
            first_queued: now,
            began: now,
            rescued_by_flush: false,
            outcome: Outcome::Placed {
                node: "node-1".to_owned(),
                nodes: 100,
                feasible: 90,
                score: Some(400),
            },
        };
        let (report, written) = (Box::new(report), journal.wants_text().then(|| text.into()));
        let answer = Event::BindFinished { uid, outcome: BindOutcome::Accepted };
        let kept = allocation_counter::measure(|| {
            journal.received(now, Input::Written(written));
            journal.stepped(now, false);
            journal.reported(report);
            journal.stepped(now, false);
            journal.stepped(now, true);
            journal.received(now, Input::Event(&answer));
        });
        // The ring is full by now.
        counted += if turn < DECISIONS / 2 { 0 } else { kept.count_total };
    }
    counted as f64 / (DECISIONS / 2) as f64
}

#[test]
fn recording_decisions_costs_few_allocations_on_the_scheduling_thread() {
    let folder = tempfile::tempdir().expect("there is room for a file");
    let metrics = Metrics::new();
    let options = SinkOptions {
        path: folder.path().join("recording.jsonl"),
        bytes_max: u64::MAX,
        when_full: WhenFull::Ends,
        header: None,
    };
    let (sink, writer) =
        Sink::open(options, metrics.record_lines(Record::Input)).expect("the file can be written");
    let ring = || Arc::new(Ring::new(100, 1 << 20));
    let nothing = per_kept_decision(Journal::default());
    let shown = per_kept_decision(Journal::default().with_ring(ring()));
    let recorded =
        per_kept_decision(Journal::default().with_ring(ring()).with_recording(sink, Time::default()));
    writer.join().expect("the writer thread ends");
    println!(
        "allocations per decision: {nothing} without records, {shown} with /debug/decisions, {recorded} with a recording"
    );
    assert!(nothing <= 1.0 && shown <= 1.0, "{nothing} {shown}");
    assert!(recorded <= 9.0, "{recorded}");
}
