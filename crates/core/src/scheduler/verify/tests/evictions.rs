//! A difference evicts what the wrong decision was computed from, and nothing else.

use crate::model::event::{Event, ObjectKey};
use crate::model::pod::PodInfo;
use crate::scheduler::quarantine::tests::{World, pod};
use crate::switches::mutation::{Mutation, with};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// Builds a pod with the label `app` if its value is not empty.
fn labeled(world: &mut World, name: &str, cpu_milli: i64, app: &str) -> Box<PodInfo> {
    let tables = world.scheduler.tables();
    let mut pod = pod(tables, name, cpu_milli, None);
    if !app.is_empty() {
        let pair = (tables.symbol("app"), tables.symbol(app));
        pod.labels = tables.label_set(vec![pair]);
    }
    pod
}

/// Lets three pods of this size be rejected in different states of the cluster, and deletes them. The infeasible cache
/// then has their signature.
fn reject(world: &mut World, cpu_milli: i64) {
    for number in 0..3 {
        let (name, bystander) = (format!("large-{number}"), format!("bystander-{number}"));
        world.pod(&name, cpu_milli, None);
        world.run();
        world.pod(&bystander, 100, Some("a"));
        for gone in [bystander, name] {
            world.handle(Event::Gone(ObjectKey::Pod(gone.into())));
        }
    }
}

/// Returns how many live signatures were last compared or cached before the current time.
fn unchecked(world: &mut World) -> usize {
    let (mut cursor, now) = (0, world.now);
    (0..20).take_while(|_| world.scheduler.verify_one(now, &mut cursor, now)).count()
}

#[test]
fn difference_evicts_all_signatures_with_the_same_node_evaluation() {
    // Labels are not part of the node signature.
    let kinds = [(100, ""), (200, ""), (200, "web"), (300, "")];
    let mut world = World::new();
    world.scheduler.verify_decisions(None);
    let computes = |world: &mut World, (cpu_milli, app): (i64, &str)| {
        let before = world.scheduler.decisions.computed();
        let pod = labeled(world, &format!("p{before}-{cpu_milli}-{app}"), cpu_milli, app);
        world.handle(Event::PodApplied(pod));
        assert!(world.run()[0].contains("Placed"));
        world.scheduler.decisions.computed() - before
    };
    assert_eq!(kinds.map(|kind| computes(&mut world, kind)), [1, 1, 1, 1]);
    let bytes = world.scheduler.decisions.bytes();
    let wrong = labeled(&mut world, "wrong", 200, "web");
    world.scheduler.differed(&Arc::from(wrong), "as the test says");
    assert!(world.scheduler.decisions.bytes() < bytes);
    assert!(world.run()[0].contains("as the test says"));
    assert_eq!(kinds.map(|kind| computes(&mut world, kind)), [0, 1, 1, 0]);
    assert_eq!(world.scheduler.decisions.bytes(), bytes);
}

#[test]
fn difference_evicts_the_rejection_of_one_signature() {
    let mut world = World::new();
    world.pod("taker", 3_000, Some("a"));
    for cpu_milli in [2_000, 2_500, 2_700] {
        reject(&mut world, cpu_milli);
    }
    world.now = world.now + Duration::from_secs(1);
    assert_eq!(
        unchecked(&mut world),
        6,
        "each signature has a rejection, and a state without feasible nodes"
    );
    let wrong = labeled(&mut world, "wrong", 2_500, "");
    world.scheduler.differed(&Arc::from(wrong), "as the test says");
    world.now = world.now + Duration::from_secs(1);
    assert_eq!(unchecked(&mut world), 4);
}

#[test]
fn signature_cached_or_compared_at_the_current_time_is_not_compared() {
    let mut world = World::new();
    world.pod("taker", 3_000, Some("a"));
    world.pod("small", 100, None);
    reject(&mut world, 2_000);
    assert_eq!(unchecked(&mut world), 0);
    world.now = world.now + Duration::from_secs(1);
    assert_eq!(unchecked(&mut world), 3, "a decision, and a rejection with its state");
    assert_eq!(unchecked(&mut world), 0);
}

#[test]
fn wrong_result_for_an_unschedulable_pod_is_not_used_again() {
    let mut world = World::new();
    world.scheduler.verify_decisions(NonZeroU32::new(1));
    with(Some(Mutation::UnschedulableResultsNeverStale), || {
        world.pod("middle", 4_000, Some("a"));
        world.pod("first", 4_000, None);
        world.run();
        for gone in ["first", "middle"] {
            world.handle(Event::Gone(ObjectKey::Pod(gone.into())));
        }
        for name in ["second", "third"] {
            world.pod(name, 4_000, None);
            let log = world.run();
            assert!(log.iter().any(|line| line.starts_with(&format!("{name}: Placed"))), "{log:?}");
            assert_eq!(world.scheduler.stats().verified[1], 1, "{log:?}");
            world.handle(Event::Gone(ObjectKey::Pod(name.into())));
        }
    });
}
