//! The whole scheduler with pods that have claims: what waits, what is assumed and what is given back.

use crate::support::{language, storage};
use std::sync::Arc;
use supercargo_core::cycle::{Framework, NoProbe};
use supercargo_core::effect::{Effect, Lane};
use supercargo_core::event::{BindOutcome, Event, Kind, ObjectKey};
use supercargo_core::queue::QueueConfig;
use supercargo_core::report::{Outcome, Report};
use supercargo_core::rng::Seed;
use supercargo_core::scheduler::{Config, Profile, Scheduler, Step};
use supercargo_core::time::Time;

struct Run {
    scheduler: Scheduler,
    now: Time,
}

impl Run {
    fn new(volumes_act: bool, lines: &[&str]) -> Self {
        let now = Time::from_secs(100);
        let profile = Profile { name: "default-scheduler".to_owned(), framework: Framework::default() };
        let queue = QueueConfig::default();
        let config = Config { seed: Seed(1), profiles: vec![profile], queue, volumes_act };
        let mut run = Self { scheduler: Scheduler::new(config, now), now };
        for kind in Kind::ALL {
            run.handle(Event::ListBegan(kind));
            run.handle(Event::ListEnded(kind));
        }
        for lane in Lane::ALL {
            run.handle(Event::Credits { lane, count: 100 });
        }
        lines.iter().for_each(|line| run.apply(line));
        run
    }

    fn handle(&mut self, event: Event) {
        self.scheduler.handle(self.now, event);
    }

    fn apply(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let event = match words[0] {
            "node" => {
                let node = language::node(self.scheduler.tables(), &words[1..]);
                Event::NodeApplied(Box::new(Arc::unwrap_or_clone(node)))
            }
            "pod" => {
                let pod = language::pod(self.scheduler.tables(), &words[1..]);
                Event::PodApplied(Box::new(Arc::unwrap_or_clone(pod)))
            }
            _ => Event::StorageApplied(storage::object(self.scheduler.tables(), line).expect("an object")),
        };
        self.handle(event);
    }

    fn wait(&mut self, seconds: u64) {
        self.now = self.now + std::time::Duration::from_secs(seconds);
    }

    /// Steps until nothing is to be done; what was told of attempts, and the nodes of bindings that left.
    fn steps(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        loop {
            match self.scheduler.step(self.now, &mut NoProbe) {
                Step::Idle { .. } => return told,
                Step::Report(report) => told.extend(outcome(*report)),
                Step::Effect(Effect::Bind { pod, node }) => told.push(format!("bind {} {node}", pod.name)),
                Step::Effect(_) | Step::Notice(_) => {}
            }
        }
    }

    fn held(&self, uid: &str) -> usize {
        self.scheduler.snapshot().volumes().held_for(uid).len()
    }
}

fn outcome(report: Report) -> Option<String> {
    match report.outcome {
        Outcome::Unschedulable { message, rejectors, .. } => {
            Some(format!("{}: {message} {rejectors:?}", report.pod.name))
        }
        Outcome::Error { message } => Some(format!("{}: {message}", report.pod.name)),
        _ => None,
    }
}

const WAITING: &[&str] = &["node a cpu=4", "class hand", "pv v class=hand", "pvc c class=hand"];

#[test]
fn a_pod_whose_claim_waits_for_its_node_stays_pending_while_nothing_binds_volumes() {
    let mut run = Run::new(false, WAITING);
    run.apply("pod x cpu=1 claim=c");
    run.apply("pod y cpu=1");
    let told = run.steps();
    let text = "x: 0/1 nodes are available: pod has PersistentVolumeClaims that wait for its node, and this version of \
                supercargo does not bind volumes. [\"VolumeBinding\"]";
    assert!(told.contains(&text.to_owned()), "{told:?}");
    assert!(told.contains(&"bind y a".to_owned()), "others are not held up: {told:?}");
    assert_eq!(run.held("x"), 0);
    // Whoever binds the claim by hand wakes the pod.
    run.wait(20);
    run.apply("pvc c class=hand bound=v version=2");
    assert_eq!(run.steps(), ["bind x a"]);
}

#[test]
fn a_reservation_goes_with_its_pod_and_comes_back_when_the_binding_is_refused() {
    let mut run = Run::new(true, WAITING);
    run.apply("pvc d class=hand");
    run.apply("pod x cpu=1 claim=c");
    assert_eq!(run.steps(), ["bind x a"]);
    assert_eq!(run.held("x"), 1);
    run.apply("pod y cpu=1 claim=d");
    let told = run.steps();
    let why = "node(s) didn't find available persistent volumes to bind";
    assert!(told[0].starts_with(&format!("y: 0/1 nodes are available: 1 {why}.")), "{told:?}");
    let outcome = BindOutcome::Refused { message: "no".to_owned() };
    run.handle(Event::BindFinished { uid: "x".into(), outcome });
    assert_eq!(run.held("x"), 0);
}

#[test]
fn a_pod_that_goes_while_it_is_bound_leaves_its_volume_to_others() {
    let mut run = Run::new(true, WAITING);
    run.apply("pod x cpu=1 claim=c");
    assert_eq!(run.steps(), ["bind x a"]);
    run.handle(Event::Gone(ObjectKey::Pod("x".into())));
    assert_eq!(run.held("x"), 0);
    run.apply("pvc d class=hand");
    run.apply("pod y cpu=1 claim=d");
    assert_eq!(run.steps(), ["bind y a"]);
}

#[test]
fn a_confirmed_pod_keeps_its_volume_until_the_api_server_shows_it() {
    let mut run = Run::new(true, WAITING);
    run.apply("pod x cpu=1 claim=c");
    assert_eq!(run.steps(), ["bind x a"]);
    run.apply("pod x cpu=1 claim=c on=a");
    run.apply("pvc d class=hand");
    run.apply("pod y cpu=1 claim=d");
    let told = run.steps();
    assert!(told[0].starts_with("y: 0/1 nodes are available: 1 node(s) didn't find"), "{told:?}");
}

#[test]
fn a_last_look_keeps_what_is_reserved() {
    let mut run = Run::new(true, WAITING);
    // Uses up the credits of the bind lane: without one a binding waits, and looks again at a node that changed since.
    for _ in 0..100 {
        run.apply("pod other cpu=0");
        run.steps();
        run.handle(Event::BindFinished { uid: "other".into(), outcome: BindOutcome::Accepted });
        run.handle(Event::Gone(ObjectKey::Pod("other".into())));
    }
    run.apply("pod x cpu=1 claim=c");
    assert!(run.steps().is_empty(), "no credit, no binding");
    assert_eq!(run.held("x"), 1);
    run.apply("node a cpu=8");
    run.handle(Event::Credits { lane: Lane::Bind, count: 1 });
    assert_eq!(run.steps(), ["bind x a"]);
    assert_eq!(run.held("x"), 1);
}

#[test]
fn objects_of_storage_that_a_new_list_does_not_name_are_gone() {
    let lines =
        ["node a", "pv v", "pvc c bound=v", "class f", "csinode a d=1", "csidriver d", "capacity k class=f"];
    let mut run = Run::new(false, &lines);
    run.apply("attachment t on=a by=d of=v");
    for kind in Kind::ALL.into_iter().filter(|kind| kind.storage().is_some()) {
        let keys = |run: &Run| {
            let kind = kind.storage().expect("filtered above");
            run.scheduler.snapshot().volumes().keys(kind).len()
        };
        assert_eq!(keys(&run), 1, "{}", kind.as_str());
        run.handle(Event::ListBegan(kind));
        run.handle(Event::ListEnded(kind));
        assert_eq!(keys(&run), 0, "{}", kind.as_str());
    }
}
