//! Garbage collection of ids: the ids of unused texts and sets are reused.

mod support;

use std::sync::Arc;
use supercargo_core::cycle::{Framework, NoProbe};
use supercargo_core::model::effect::Effect;
use supercargo_core::model::event::{BindOutcome, Event, ObjectKey};
use supercargo_core::model::node::NodeInfo;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::queue::QueueConfig;
use supercargo_core::scheduler::{Config, Profile, Scheduler, Step};
use support::{TestCluster, begin};

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
