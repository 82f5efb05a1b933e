//! The scheduler with claims: waiting pods, reservations, and their release.

use crate::support::{begin, language, storage};
use std::sync::Arc;
use supercargo_core::cycle::{Framework, NoProbe};
use supercargo_core::framework::extension_point::ExtensionPoint;
use supercargo_core::model::effect::{Effect, Lane};
use supercargo_core::model::event::{BindOutcome, Event, Kind, ObjectKey, WriteOutcome};
use supercargo_core::model::pod::PodInfo;
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::queue::QueueConfig;
use supercargo_core::registry::Plan;
use supercargo_core::report::{Outcome, Report};
use supercargo_core::scheduler::{Config, Profile, Scheduler, Step};

struct Run {
    scheduler: Scheduler,
    now: Time,
}

impl Run {
    fn new(lines: &[&str]) -> Self {
        Self::with(&Plan::default(), lines)
    }

    fn with(plan: &Plan, lines: &[&str]) -> Self {
        let now = Time::from_secs(100);
        let profile = Profile { name: "default-scheduler".to_owned(), framework: Framework::new(plan) };
        let config = Config { seed: Seed(1), profiles: vec![profile], queue: QueueConfig::default() };
        let mut run = Self { scheduler: Scheduler::new(config, now), now };
        begin(&mut run.scheduler, now, 100);
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

    /// Runs until idle, and returns reports of attempts, volume writes, and the nodes of bindings.
    fn steps(&mut self) -> Vec<String> {
        let mut log = Vec::new();
        loop {
            match self.scheduler.step(self.now, &mut NoProbe) {
                Step::Idle { .. } => return log,
                Step::Report(report) => log.extend(outcome(*report)),
                Step::Effect(Effect::Bind { pod, node }) => log.push(format!("bind {} {node}", pod.name)),
                Step::Effect(Effect::WriteVolume(write)) => log.push(format!("write {}", write.pod.name)),
                Step::Effect(_) | Step::GroupReport(_) | Step::Notice(_) => {}
            }
        }
    }

    fn held(&self, uid: &str) -> usize {
        self.scheduler.snapshot().volumes().reservations_of(uid).len()
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
fn reservation_is_released_when_pod_is_deleted_or_write_is_rejected() {
    let mut run = Run::new(WAITING);
    run.apply("pvc d class=hand");
    run.apply("pod x cpu=1 claim=c");
    assert_eq!(run.steps(), ["write x"]);
    assert_eq!(run.held("x"), 1);
    run.apply("pod y cpu=1 claim=d");
    let log = run.steps();
    let why = "node(s) didn't find available persistent volumes to bind";
    assert!(log[0].starts_with(&format!("y: 0/1 nodes are available: 1 {why}.")), "{log:?}");
    let outcome = WriteOutcome::Refused { message: "no".to_owned() };
    run.handle(Event::VolumeWritten { uid: "x".into(), write: 1, outcome });
    assert_eq!(run.held("x"), 0);
}

#[test]
fn pod_deleted_during_volume_write_releases_the_volume() {
    let mut run = Run::new(WAITING);
    run.apply("pod x cpu=1 claim=c");
    assert_eq!(run.steps(), ["write x"]);
    run.handle(Event::Gone(ObjectKey::Pod("x".into())));
    assert_eq!(run.held("x"), 0);
    run.apply("pvc d class=hand");
    run.apply("pod y cpu=1 claim=d");
    assert_eq!(run.steps(), ["write y"]);
}

#[test]
fn confirmed_pod_keeps_its_volume_until_the_watch_shows_the_claim_bound() {
    let mut run = Run::new(WAITING);
    run.apply("pod x cpu=1 claim=c");
    assert_eq!(run.steps(), ["write x"]);
    run.apply("pod x cpu=1 claim=c on=a");
    run.apply("pvc d class=hand");
    run.apply("pod y cpu=1 claim=d");
    let log = run.steps();
    assert!(log[0].starts_with("y: 0/1 nodes are available: 1 node(s) didn't find"), "{log:?}");
}

#[test]
fn no_reservation_remains_once_the_watch_shows_the_volumes_bound() {
    let mut run = Run::new(WAITING);
    run.apply("pod x cpu=1 claim=c");
    assert_eq!(run.steps(), ["write x"]);
    run.apply("pv v class=hand for=default/c/c version=2");
    run.apply("pvc c class=hand bound=v version=2");
    assert_eq!(run.steps(), ["bind x a"]);
    assert_eq!(run.held("x"), 0);
}

/// A configuration may disable PreBind. Then another component has to write the volumes.
#[test]
fn disabled_pre_bind_writes_nothing_and_recheck_keeps_reservations() {
    let mut plan = Plan::default();
    plan.points.insert(ExtensionPoint::PreBind, Vec::new());
    let mut run = Run::with(&plan, WAITING);
    // Uses up the credits for bindings. Without a credit a binding waits, and is rechecked because its node has
    // changed.
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
fn storage_objects_missing_from_a_relist_are_deleted() {
    let lines =
        ["node a", "pv v", "pvc c bound=v", "class f", "csinode a d=1", "csidriver d", "capacity k class=f"];
    let mut run = Run::new(&lines);
    run.apply("attachment t on=a by=d of=v");
    run.apply("devices-claim dc");
    run.apply("devices-slice ds");
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

/// A StatefulSet recreates its pods under the same names. The new pod has another uid than its predecessor, which still
/// owns the claim of the ephemeral volume.
#[test]
fn recreated_pod_does_not_get_the_rejection_of_its_predecessor() {
    let mut run = Run::new(&["node a cpu=1", "pv v", "pvc web-0-data bound=v owner=first"]);
    let recreated = |run: &mut Run, uid: &str| {
        let pod = language::pod(run.scheduler.tables(), &["web-0", "cpu=2", "ephemeral=data"]);
        run.handle(Event::PodApplied(Box::new(PodInfo { uid: uid.into(), ..Arc::unwrap_or_clone(pod) })));
        run.steps()
    };
    let log = recreated(&mut run, "first");
    assert!(log[0].contains("Insufficient cpu"), "{log:?}");
    run.handle(Event::Gone(ObjectKey::Pod("first".into())));
    let log = recreated(&mut run, "second");
    assert!(log[0].contains("PVC default/web-0-data was not created for pod default/web-0"), "{log:?}");
}
