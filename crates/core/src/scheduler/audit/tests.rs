//! The audit finds pods in no place or in two, and repairs them.

use super::*;
use crate::cycle::NoProbe;
use crate::model::effect::Effect;
use crate::model::event::{BindOutcome, Event};
use crate::model::volume::Reservation;
use crate::queue::QueuedPod;
use crate::scheduler::Step;
use crate::scheduler::extend::SuspendedDecision;
use crate::scheduler::quarantine::tests::{World, pod};

fn lost(world: &World) -> (usize, u64) {
    let stats = world.scheduler.stats();
    (stats.lost_pods, stats.lost_pods_repaired)
}

/// Lets the Binding of `p` fail without requeueing it, and returns what follows.
fn lose(world: &mut World) -> Vec<String> {
    let outcome = BindOutcome::Refused { message: "no".to_owned() };
    mutation::with(Some(Mutation::FailedPodNotRequeued), || {
        world.handle(Event::BindFinished { uid: "p".into(), outcome });
        world.run()
    })
}

/// Queues `p` although it is decided, and returns what follows.
fn queue_again(world: &mut World) -> Vec<String> {
    let again: Arc<PodInfo> = pod(world.scheduler.tables(), "p", 500, None).into();
    world.scheduler.queue.add(world.now, again, None);
    world.run()
}

#[test]
fn audit_requeues_a_pod_missing_from_all_collections() {
    let mut world = World::new();
    world.pod("p", 500, None);
    world.run();
    let log = lose(&mut world);
    assert!(log.iter().any(|line| line.contains("it was pending and in no queue")), "{log:?}");
    assert!(log.iter().any(|line| line.starts_with("Bind {")), "{log:?}");
    assert_eq!(lost(&world), (1, 1), "it is not bound yet");
    let bound = pod(world.scheduler.tables(), "p", 500, Some("a"));
    world.handle(Event::PodApplied(bound));
    assert_eq!(lost(&world), (0, 1));
}

#[test]
fn audit_keeps_the_most_advanced_of_two_states() {
    let mut world = World::new();
    world.pod("p", 500, None);
    world.run();
    let log = queue_again(&mut world);
    assert!(
        matches!(&log[..], [line] if line.contains("in two places")),
        "it is not decided about again: {log:?}"
    );
    assert!(!world.scheduler.queue().contains("p") && world.scheduler.bindings.contains("p"));
    assert_eq!(lost(&world), (1, 1));
    // If the pod is not about to be popped, the check finds it.
    let mut gated = pod(world.scheduler.tables(), "p", 500, None);
    gated.resource_version = "2".into();
    world.scheduler.queue.add(world.now, gated.into(), Some("SchedulingGates"));
    world.pod("other", 9_000, None);
    let log = world.run();
    assert!(log.iter().any(|line| line.contains("in two places")), "{log:?}");
    assert!(!world.scheduler.queue().contains("p") && world.scheduler.bindings.contains("p"));
    assert_eq!(lost(&world), (1, 2), "it is one pod, twice");
}

#[test]
fn audit_unblocks_a_pod_without_victims() {
    let mut world = World::new();
    world.pod("large", 9_000, None);
    world.run();
    world.scheduler.queue.block(&"large".into(), preemption::NAME);
    let log = world.run();
    assert_eq!(log, [""; 0], "nothing happened since it was checked");
    world.pod("other", 9_000, None);
    let log = world.run();
    assert!(log.iter().any(|line| line.contains("victims that are not being evicted")), "{log:?}");
}

#[test]
fn pod_reported_gone_but_still_present_is_requeued_after_the_deadline() {
    let mut world = World::new();
    world.pod("p", 500, None);
    world.run();
    world
        .handle(Event::BindFinished { uid: "p".into(), outcome: BindOutcome::NotNeeded(BindingState::Gone) });
    assert_eq!(world.run(), [""; 0]);
    let Step::Idle { wake_at: Some(at) } = world.scheduler.step(world.now, &mut NoProbe) else {
        panic!("it is to be looked for")
    };
    assert_eq!(at, world.now + UNKNOWN_MAX);
    world.now = at;
    let log = world.run();
    assert!(log.iter().any(|line| line.starts_with("p: Placed")), "{log:?}");
    assert_eq!(lost(&world), (0, 0), "the report was wrong, and no pod was lost");
}

#[test]
fn deletion_of_a_pod_reported_gone_clears_its_state() {
    let mut world = World::new();
    world.pod("p", 500, None);
    world.run();
    world
        .handle(Event::BindFinished { uid: "p".into(), outcome: BindOutcome::NotNeeded(BindingState::Gone) });
    world.run();
    world.handle(Event::Gone(ObjectKey::Pod("p".into())));
    world.run();
    assert_eq!(world.scheduler.audit.len(), 0);
    world.now = world.now + UNKNOWN_MAX;
    assert_eq!(world.run(), [""; 0]);
}

/// Counts work instead of measuring time.
#[test]
fn audit_checks_one_pod_per_step_and_more_when_idle() {
    let mut world = World::new();
    // A standby decides nothing, but checks nevertheless.
    world.handle(Event::Leading(false));
    let pods = 3 * PIECE;
    for number in 0..pods {
        world.pod(&format!("p{number}"), 9_000, None);
    }
    assert_eq!(world.scheduler.audit.left, pods);
    let mut left = Vec::new();
    while let Step::Idle { wake_at: Some(at) } = world.scheduler.step(world.now, &mut NoProbe) {
        left.push(world.scheduler.audit.left);
        assert!(at > world.now && at.since(world.now) <= PAUSE, "the next piece is due");
        // Nothing more is checked before that time.
        world.scheduler.step(world.now, &mut NoProbe);
        assert_eq!(Some(world.scheduler.audit.left + 1), left.last().copied());
        world.now = at;
    }
    assert_eq!(left, [pods - 1 - PIECE, pods - 3 - 2 * PIECE]);
    assert_eq!(world.scheduler.audit.left, 0, "nothing changed since, and nothing is checked again");
}

#[test]
fn audit_skips_bound_foreign_and_terminating_pods() {
    let mut world = World::new();
    world.pod("bound", 500, Some("a"));
    let mut deleting = pod(world.scheduler.tables(), "deleting", 500, None);
    deleting.deleting = true;
    world.handle(Event::PodApplied(deleting));
    let mut other = pod(world.scheduler.tables(), "other", 500, None);
    other.template = {
        let name = world.scheduler.tables().symbol("other-scheduler");
        let mut template = (*other.template).clone();
        template.scheduler_name = name;
        template.into()
    };
    world.handle(Event::PodApplied(other));
    assert_eq!(world.scheduler.audit.len(), 0);
    let is_bind = |effect: &Effect| matches!(effect, Effect::Bind { .. });
    while let Step::Effect(effect) = world.scheduler.step(world.now, &mut NoProbe) {
        assert!(!is_bind(&effect));
    }
}

/// Suspends a pod that is in another place already, and runs the audit.
fn suspend(world: &mut World, name: &str) -> Vec<String> {
    let pod: Arc<PodInfo> = pod(world.scheduler.tables(), name, 500, None).into();
    let waiting = SuspendedDecision::in_slices(QueuedPod::new(pod, None), world.now, 0, false);
    world.scheduler.extender_calls.suspend(waiting);
    world.handle(Event::Leading(true));
    world.run()
}

#[test]
fn audit_ends_the_evaluation_of_a_pod_that_has_a_node() {
    let mut world = World::new();
    world.pod("p", 500, None);
    world.run();
    let log = suspend(&mut world, "p");
    assert!(matches!(&log[..], [line] if line.contains("in two places")), "{log:?}");
    assert_eq!((world.scheduler.extender_calls.len(), world.scheduler.bindings.len()), (0, 1));
    // Without a binding, the pod is only assumed.
    world.handle(Event::BindFinished { uid: "p".into(), outcome: BindOutcome::Accepted });
    world.run();
    let log = suspend(&mut world, "p");
    assert!(matches!(&log[..], [line] if line.contains("in two places")), "{log:?}");
    assert_eq!((world.scheduler.extender_calls.len(), world.scheduler.bindings.len()), (0, 0));
    assert_eq!(world.scheduler.stats().cache.assumed_pods, 1);
}

#[test]
fn audit_finds_a_lost_pod_among_others() {
    let mut world = World::new();
    for name in ["first", "second"] {
        world.pod(name, 9_000, None);
    }
    world.run();
    world.pod("p", 500, None);
    world.run();
    let log = lose(&mut world);
    assert!(log.iter().any(|line| line.starts_with("Pod default/p: the pod was lost")), "{log:?}");
}

#[test]
fn few_pods_are_checked_without_an_interval() {
    let left_after = |pods: usize| {
        let mut world = World::new();
        world.handle(Event::Leading(false));
        for number in 0..pods {
            world.pod(&format!("p{number}"), 9_000, None);
        }
        world.run();
        world.scheduler.audit.stir();
        world.scheduler.check_piece(world.now);
        world.scheduler.audit.left
    };
    assert_eq!([FEW, FEW + 1].map(left_after), [0, FEW + 1]);
}

#[test]
fn deleted_pod_that_was_reported_gone_does_not_wake_the_engine() {
    let mut world = World::new();
    let gate = world.scheduler.tables().symbol("later");
    let mut gated = pod(world.scheduler.tables(), "gated", 500, None);
    gated.template.gates = [gate].into();
    world.handle(Event::PodApplied(gated));
    world.pod("p", 500, None);
    world.run();
    let outcome = BindOutcome::NotNeeded(BindingState::Gone);
    world.handle(Event::BindFinished { uid: "p".into(), outcome });
    let wake_at = |world: &mut World| {
        world.run();
        match world.scheduler.step(world.now, &mut NoProbe) {
            Step::Idle { wake_at } => wake_at,
            step => panic!("it idles: {step:?}"),
        }
    };
    let due = world.now + UNKNOWN_MAX;
    assert_eq!(wake_at(&mut world), Some(due), "it may exist after all");
    world.handle(Event::Gone(ObjectKey::Pod("p".into())));
    assert_eq!(wake_at(&mut world), None);
}

#[test]
fn misplaced_pods_are_in_no_place_and_not_reported_gone() {
    let misplaced = |world: &World| -> Vec<String> {
        world.scheduler.misplaced_pods().map(|pod| pod.name.to_string()).collect()
    };
    let mut world = World::new();
    world.pod("p", 500, None);
    world.pod("large", 9_000, None);
    world.run();
    assert_eq!(misplaced(&world), [""; 0]);
    world.scheduler.queue.remove("large");
    assert_eq!(misplaced(&world), ["large"]);
    let outcome = BindOutcome::NotNeeded(BindingState::Gone);
    world.handle(Event::BindFinished { uid: "p".into(), outcome });
    assert_eq!(misplaced(&world), ["large"], "one that does not exist needs no place");
    world.handle(Event::Halt);
    assert_eq!(misplaced(&world), [""; 0], "they are left to the next leader");
}

#[test]
fn audit_ends_pre_bind_of_a_pod_with_a_binding() {
    let mut world = World::new();
    world.pod("p", 500, None);
    world.run();
    let tables = world.scheduler.tables();
    let again: Arc<PodInfo> = pod(tables, "p", 500, None).into();
    let (namespace, name, node) = (tables.symbol("default"), tables.symbol("c"), tables.symbol("a"));
    let Scheduler { cache, tables, .. } = &mut world.scheduler;
    cache.assume_volumes(tables, &again.uid, vec![Reservation::Provision { namespace, name, node }]);
    world.scheduler.pre_bind(world.now, QueuedPod::new(again, None), node);
    assert!(world.scheduler.volume_bindings.contains("p") && world.scheduler.bindings.contains("p"));
    world.handle(Event::Leading(true));
    let log = world.run();
    assert!(matches!(&log[..], [line] if line.contains("in two places")), "{log:?}");
    assert!(!world.scheduler.volume_bindings.contains("p") && world.scheduler.bindings.contains("p"));
}

/// Its binding was accepted, so only the cache knows of it.
#[test]
fn assumed_pod_in_the_queue_gets_no_second_decision() {
    let mut world = World::new();
    world.pod("p", 500, None);
    world.run();
    world.handle(Event::BindFinished { uid: "p".into(), outcome: BindOutcome::Accepted });
    world.run();
    let log = queue_again(&mut world);
    assert!(matches!(&log[..], [line] if line.contains("in two places")), "{log:?}");
    assert_eq!(world.scheduler.stats().cache.assumed_pods, 1);
}
