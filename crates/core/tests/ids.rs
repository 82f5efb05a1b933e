//! Garbage collection of ids: the ids of unused texts and sets are reused.

mod support;

use std::sync::Arc;
use supercargo_core::cycle::{Framework, NoProbe};
use supercargo_core::model::effect::Effect;
use supercargo_core::model::event::{BindOutcome, Event, EvictOutcome, Kind, ObjectKey};
use supercargo_core::model::node::NodeInfo;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::queue::QueueConfig;
use supercargo_core::report::Outcome;
use supercargo_core::scheduler::{Config, Profile, Scheduler, Step};
use support::{TestCluster, arrival, begin, groups};

const NOW: Time = Time::from_secs(100);

fn engine() -> Scheduler {
    let profile = Profile { name: "default-scheduler".to_owned(), framework: Framework::default() };
    let config = Config { seed: Seed(1), profiles: vec![profile], queue: QueueConfig::default() };
    let mut engine = Scheduler::new(config, NOW);
    begin(&mut engine, NOW, usize::MAX / 2);
    engine
}

/// Reads objects with the engine's own tables.
fn read<T>(engine: &mut Scheduler, read: impl FnOnce(&mut TestCluster) -> T) -> T {
    let mut cluster = TestCluster::new();
    std::mem::swap(&mut cluster.tables, engine.tables());
    let object = read(&mut cluster);
    std::mem::swap(&mut cluster.tables, engine.tables());
    object
}

fn node(engine: &mut Scheduler, words: &str) -> NodeInfo {
    Arc::unwrap_or_clone(read(engine, |cluster| cluster.node_from(words)))
}

fn pod(engine: &mut Scheduler, words: &str) -> PodInfo {
    Arc::unwrap_or_clone(read(engine, |cluster| cluster.pod_from(words)))
}

/// Runs until idle, accepts bindings, and returns the node of the last one.
fn work(engine: &mut Scheduler) -> Option<String> {
    let mut bound = None;
    loop {
        match engine.step(NOW, &mut NoProbe) {
            Step::Effect(Effect::Bind { pod, node }) => {
                engine.handle(NOW, Event::BindFinished { uid: pod.uid, outcome: BindOutcome::Accepted });
                bound = Some(node);
            }
            Step::Effect(_) | Step::Report(_) | Step::GroupReport(_) | Step::Notice(_) => {}
            Step::Idle { .. } => return bound,
        }
    }
}

/// Handles an object in the cluster language, and runs until idle without answers.
fn apply(engine: &mut Scheduler, line: &str) {
    let event = arrival(engine.tables(), line);
    engine.handle(NOW, event);
    run(engine);
}

fn run(engine: &mut Scheduler) {
    while !matches!(engine.step(NOW, &mut NoProbe), Step::Idle { .. }) {}
}

/// Whether a text keeps its id in two collections. The second one drops the signatures of cached decisions.
fn keeps(engine: &mut Scheduler, text: &str) -> bool {
    for _ in 0..2 {
        engine.tables().symbol("garbage");
        while engine.collect_ids_by(usize::MAX) == 0 {}
    }
    engine.tables().find(text).is_some()
}

fn gone(engine: &mut Scheduler, pod: &str) {
    engine.handle(NOW, Event::Gone(ObjectKey::Pod(pod.into())));
}

#[test]
fn churn_leaks_no_ids() {
    let mut engine = engine();
    for at in 0..3 {
        let node = node(&mut engine, &format!("n{at} cpu=4 zone=z{at}"));
        engine.handle(NOW, Event::NodeApplied(Box::new(node)));
    }
    engine.collect_all_ids();
    let before = engine.tables().sizes();
    let mut most = 0;
    for at in 0..30_000 {
        let words = format!("p{at} cpu=1 label:job=job-{at} anti=host/job=job-{at}");
        let pending = pod(&mut engine, &words);
        let uid = Arc::clone(&pending.uid);
        engine.handle(NOW, Event::PodApplied(Box::new(pending)));
        let node = work(&mut engine).expect("a node is feasible");
        let bound = pod(&mut engine, &format!("{words} on={node}"));
        engine.handle(NOW, Event::PodApplied(Box::new(bound)));
        engine.handle(NOW, Event::Gone(ObjectKey::Pod(uid)));
        engine.collect_ids();
        most = most.max(engine.tables().sizes().total());
    }
    assert!(most < 20_000, "{most} ids at once, of one pod at a time");
    engine.collect_all_ids();
    assert_eq!(engine.tables().sizes(), before);
    assert_eq!(engine.held().iter().find(|(_, count)| *count > 3), None);
}

#[test]
fn object_that_moves_during_collection_keeps_its_ids() {
    for units in 16..40 {
        let mut engine = engine();
        for at in 0..5 {
            let node = node(&mut engine, &format!("n{at} cpu=4 zone=z{at} label:rack=r{at}"));
            engine.handle(NOW, Event::NodeApplied(Box::new(node)));
        }
        let mut rounds = 0;
        for at in 0..60 {
            // Each pod is queued, placed, bound and deleted.
            let words = format!("p{at} cpu=1 label:job=job-{at} anti=host/job=job-{at}");
            let pending = pod(&mut engine, &words);
            engine.handle(NOW, Event::PodApplied(Box::new(pending)));
            rounds += usize::from(engine.collect_ids_by(units) > 0);
            let on = work(&mut engine).expect("a node is feasible");
            rounds += usize::from(engine.collect_ids_by(units) > 0);
            let bound = pod(&mut engine, &format!("{words} on={on}"));
            engine.handle(NOW, Event::PodApplied(Box::new(bound)));
            rounds += usize::from(engine.collect_ids_by(units) > 0);
            let moved = node(&mut engine, &format!("n{} cpu=4 zone=z{} label:rack=s{at}", at % 5, at % 7));
            engine.handle(NOW, Event::NodeApplied(Box::new(moved)));
            rounds += usize::from(engine.collect_ids_by(units) > 0);
            if at >= 10 {
                engine.handle(NOW, Event::Gone(ObjectKey::Pod(format!("p{}", at - 10).into())));
            }
            let job = engine.tables().symbol("job");
            let snapshot = engine.snapshot();
            let placed: Vec<_> = snapshot.nodes().iter().flat_map(|node| snapshot.pods_on(node)).collect();
            assert_eq!(placed.len(), (at + 1).min(10));
            for pod in placed {
                let label = snapshot.labels(pod.labels).get(job).map(|value| snapshot.text(value));
                assert_eq!(label, Some(&*pod.name.replace('p', "job-")), "in pieces of {units}, at pod {at}");
            }
        }
        assert!(rounds > 0, "ids are given back in pieces of {units}");
    }
}

#[test]
fn every_gc_root_keeps_its_ids() {
    let mut engine = engine();
    for words in ["a cpu=4 zone=z1", "b cpu=4 zone=z2 taint=team:NoSchedule taint=own:UnknownEffect"] {
        let node = node(&mut engine, words);
        engine.handle(NOW, Event::NodeApplied(Box::new(node)));
    }
    let big = pod(&mut engine, "big cpu=8 label:app=big anti=zone/app=other");
    engine.handle(NOW, Event::PodApplied(Box::new(big)));
    assert_eq!(work(&mut engine), None);
    engine.collect_all_ids();
    for text in ["z1", "z2", "team", "UnknownEffect", "app", "big", "other", "default-scheduler"] {
        assert!(engine.tables().find(text).is_some(), "{text} is held");
    }
    // New texts would take the ids that are still held, if those were freed.
    for at in 0..100 {
        engine.tables().symbol(&format!("new-{at}"));
    }
    let larger = node(&mut engine, "a cpu=9 zone=z1");
    engine.handle(NOW, Event::NodeApplied(Box::new(larger)));
    let later = NOW + std::time::Duration::from_secs(60);
    let Step::Report(report) = engine.step(later, &mut NoProbe) else { panic!("the pod is tried again") };
    assert_eq!(report.pod.name, "big");
}

/// A signature used since the last garbage collection stays cached. If its ids were freed, another pod could get them.
#[test]
fn signature_in_use_keeps_its_ids_until_it_is_unused() {
    let mut engine = engine();
    let node = node(&mut engine, "a cpu=4 zone=z1");
    engine.handle(NOW, Event::NodeApplied(Box::new(node)));
    let collect = |engine: &mut Scheduler| {
        engine.tables().symbol("garbage");
        while engine.collect_ids_by(usize::MAX) == 0 {}
    };
    // The first pod has the same node evaluation, which holds the ids of the pod that it was made for.
    let peers = ["q", "r"].map(|name| format!("{name} cpu=1 label:job=alone anti=zone/job=alone"));
    for words in ["p cpu=1", &peers[0], &peers[1]] {
        let pending = pod(&mut engine, words);
        let uid = Arc::clone(&pending.uid);
        engine.handle(NOW, Event::PodApplied(Box::new(pending)));
        assert_eq!(work(&mut engine).as_deref(), Some("a"));
        engine.handle(NOW, Event::Gone(ObjectKey::Pod(uid)));
    }
    collect(&mut engine);
    assert!(engine.tables().find("alone").is_some(), "the signature was used");
    collect(&mut engine);
    assert!(engine.tables().find("alone").is_none(), "the signature was not used since");
}

#[test]
fn deleted_pod_keeps_its_ids_until_its_binding_is_answered() {
    let mut engine = engine();
    apply(&mut engine, "node a cpu=4");
    apply(&mut engine, "pod p cpu=1 label:app=own");
    gone(&mut engine, "p");
    assert!(keeps(&mut engine, "own"));
    engine.handle(NOW, Event::BindFinished { uid: "p".into(), outcome: BindOutcome::Accepted });
    run(&mut engine);
    assert!(!keeps(&mut engine, "own"));
}

#[test]
fn deleted_preemptor_keeps_its_ids_while_its_victims_are_evicted() {
    let mut engine = engine();
    apply(&mut engine, "node a cpu=4");
    apply(&mut engine, "pod victim cpu=4 on=a");
    apply(&mut engine, "pod high cpu=4 priority=9 label:app=own");
    gone(&mut engine, "high");
    assert!(keeps(&mut engine, "own"));
    engine.handle(NOW, Event::EvictFinished { uid: "victim".into(), outcome: EvictOutcome::Deleted });
    gone(&mut engine, "victim");
    run(&mut engine);
    assert!(!keeps(&mut engine, "own"));
}

/// The end of the nomination of a member whose group was given up replaces no condition.
#[test]
fn node_of_the_nomination_that_was_sent_last_keeps_its_ids() {
    let mut engine = engine();
    groups::act(&mut engine, NOW, "gates", &["GenericWorkload", "GangScheduling"]);
    let group = ["g", "min=2", "start-within=10s", "reserve=true"];
    groups::act(&mut engine, NOW, "group", &group);
    for line in ["node a cpu=2", "node b cpu=2", "pod old cpu=2 on=b"] {
        apply(&mut engine, line);
    }
    let members = ["p", "q"].map(|name| format!("pod {name} cpu=2 group=g created=100"));
    members.iter().for_each(|line| apply(&mut engine, line));
    let later = NOW + std::time::Duration::from_secs(20);
    while !matches!(engine.step(later, &mut NoProbe), Step::Idle { .. }) {}
    let a = engine.tables().symbol("a");
    engine.handle(later, Event::Gone(ObjectKey::Node(a)));
    assert!(keeps(&mut engine, "a"));
    ["p", "q"].into_iter().for_each(|pod| gone(&mut engine, pod));
    assert!(!keeps(&mut engine, "a"));
}

/// Without its id, an object with the same id would count as listed.
#[test]
fn object_of_a_running_list_keeps_its_ids() {
    let mut engine = engine();
    let name = engine.tables().symbol("unreadable");
    engine.handle(NOW, Event::ListBegan(Kind::Node));
    engine.handle(NOW, Event::Unreadable(ObjectKey::Node(name)));
    assert!(keeps(&mut engine, "unreadable"));
    engine.handle(NOW, Event::ListEnded(Kind::Node));
    assert!(!keeps(&mut engine, "unreadable"));
}

#[test]
fn group_of_a_terminating_pod_keeps_its_ids() {
    let mut engine = engine();
    groups::act(&mut engine, NOW, "gates", &["GenericWorkload"]);
    apply(&mut engine, "pod p cpu=1 group=own deleting");
    assert!(engine.queue().waiting().next().is_none());
    assert!(keeps(&mut engine, "own"));
    gone(&mut engine, "p");
    assert!(!keeps(&mut engine, "own"));
}

/// The pods that are rejected for the name of a resource are forgotten before another resource gets its id.
#[test]
fn cached_rejection_does_not_name_the_resource_that_had_the_same_id() {
    let mut engine = engine();
    apply(&mut engine, "node a cpu=4");
    let message = |engine: &mut Scheduler, resource: &str| {
        let event = arrival(engine.tables(), &format!("pod p cpu=1 res:{resource}=1"));
        engine.handle(NOW, event);
        let mut messages = Vec::new();
        loop {
            match engine.step(NOW, &mut NoProbe) {
                Step::Report(report) => {
                    let Outcome::Unschedulable { message, .. } = report.outcome else { panic!("it fits") };
                    messages.push(message);
                }
                Step::Idle { .. } => break,
                _ => {}
            }
        }
        gone(engine, "p");
        messages.join("\n")
    };
    for at in 0..3 {
        // The same rejection in the same state would be given as a whole.
        apply(&mut engine, &format!("node a cpu=4 label:state=s{at}"));
        assert!(message(&mut engine, "example.com/first").contains("Insufficient example.com/first"));
    }
    assert!(!keeps(&mut engine, "example.com/first"));
    for at in 0..9 {
        let name = format!("example.com/{at}");
        let message = message(&mut engine, &name);
        assert!(message.contains(&format!("Insufficient {name}")), "{name}: {message}");
    }
}
