//! Tests that deliberate mistakes of the caches are found, and evict one signature.

#[cfg(debug_assertions)]
mod declarations;
mod evictions;
mod panics;

use super::*;
use crate::model::event::{BindOutcome, Event, ObjectKey};
use crate::scheduler::Step;
use crate::scheduler::quarantine::tests::{World, node};
use crate::switches::mutation::{Mutation, with};
use std::time::Duration;

#[test]
fn each_feasible_node_is_evaluated_individually_in_turn() {
    for (count, turns) in [(0, 1), (1, 1), (64, 1), (65, 2), (200, 4)] {
        let feasible: Vec<NodeIdx> = (0..count).map(NodeIdx).collect();
        assert_eq!(Nodes::All.among(&feasible), feasible);
        let all: Vec<NodeIdx> =
            (turns..2 * turns).flat_map(|turn| Nodes::Turn(turn).among(&feasible).to_vec()).collect();
        assert_eq!(all, feasible, "in {turns} turns");
        assert!((0..turns).all(|turn| Nodes::Turn(turn).among(&feasible).len() <= NODES_ONE_BY_ONE));
    }
}

/// A pod that takes 3 of 4 CPUs, and an identical one, which does not fit. Only the full evaluation detects this.
fn one_too_many(every: Option<u32>) -> (World, Vec<String>) {
    let mut world = World::new();
    world.scheduler.verify_decisions(every.and_then(NonZeroU32::new));
    let log = with(Some(Mutation::SignatureStatesNotUpdated), || {
        world.pod("first", 3_000, None);
        world.run();
        world.pod("second", 3_000, None);
        world.run()
    });
    (world, log)
}

#[test]
fn wrong_cached_decision_is_discarded_and_evicts_its_signature() {
    let (_, log) = one_too_many(None);
    assert!(log[0].starts_with("second: Placed"), "the mistake is one: {log:?}");
    let (mut world, log) = one_too_many(Some(1));
    assert_eq!(
        log[0],
        "Pod default/second: the cached decision for pods like it differs from a full evaluation (cached: 1 of 1 nodes fit, \
         a is best; full: none fits); the full evaluation counts, and all signatures with its node evaluation were evicted"
    );
    assert!(log.iter().any(|line| line.contains("Insufficient cpu")), "{log:?}");
    assert_eq!(world.scheduler.stats().verified, [1, 1]);
    let before = world.scheduler.stats().cached_decisions;
    world.pod("third", 500, None);
    assert!(world.run()[0].starts_with("third: Placed"));
    assert_eq!(world.scheduler.stats().cached_decisions, before + 1, "the cache is used on");
}

/// Repeats the fault that a cached decision is outdated: each time a pod takes resources that another one needs.
fn wrong_again(world: &mut World, number: usize) -> Vec<String> {
    with(Some(Mutation::SignatureStatesNotUpdated), || {
        world.pod(&format!("taker-{number}"), 3_000 + number as i64, None);
        let mut log = world.run();
        world.pod(&format!("late-{number}"), 3_000 + number as i64, None);
        log.append(&mut world.run());
        for name in ["taker", "late"] {
            world.handle(Event::Gone(ObjectKey::Pod(format!("{name}-{number}").into())));
        }
        log
    })
}

#[test]
fn third_difference_disables_the_cache_and_scheduling_continues() {
    let mut world = World::new();
    world.scheduler.verify_decisions(NonZeroU32::new(1));
    for number in 1..=DIFFERENCES_MAX {
        assert!(world.scheduler.stats().verification.is_trusting);
        let log = wrong_again(&mut world, number as usize);
        assert!(log[0].contains("Placed"), "{log:?}");
        let notice = log.iter().find(|line| line.contains("differs from a full evaluation"));
        let is_last = number == DIFFERENCES_MAX;
        let ends = if is_last { "used until the next start" } else { "node evaluation were evicted" };
        assert!(notice.is_some_and(|notice| notice.ends_with(ends)), "{log:?}");
        assert!(log.iter().any(|line| line.contains("Insufficient cpu")), "{log:?}");
    }
    let stats = world.scheduler.stats();
    assert_eq!((stats.verified[1], stats.verification.is_trusting), (DIFFERENCES_MAX, false));
    // With the caches disabled, the deliberate mistake has no effect.
    let log = wrong_again(&mut world, 9);
    assert!(log[0].starts_with("taker-9: Placed") && log.iter().any(|line| line.contains("Insufficient")));
    assert_eq!(world.scheduler.stats().cached_decisions, stats.cached_decisions);
}

const INTERVAL: Duration = Duration::from_secs(300);

/// A world that compares in idle time only: without the passage of time there is no credit for decisions about pods.
fn idling() -> World {
    let mut world = World::new();
    world.scheduler.verify_decisions(None);
    world.scheduler.verify_within(world.now, INTERVAL);
    world
}

/// Lets half of the interval pass, and then time for as many comparisons as there are signatures.
fn idle(world: &mut World) -> Vec<String> {
    let mut log = world.run();
    world.now = world.now + INTERVAL / 2;
    for _ in 0..10 {
        log.append(&mut world.run());
        world.now = world.now + Duration::from_millis(10);
    }
    log
}

#[test]
fn idle_verification_finds_a_stale_cache() {
    let mut world = idling();
    let log = with(Some(Mutation::SignatureStatesNotUpdated), || {
        world.pod("first", 3_000, None);
        let log = idle(&mut world);
        assert_eq!(world.scheduler.stats().verified, [0, 1], "{log:?}");
        world.pod("second", 3_000, None);
        [log, world.run()].concat()
    });
    let notice = log.iter().find(|line| line.contains("differs from a full evaluation"));
    assert!(notice.is_some_and(|notice| notice.starts_with("Pod default/first: ")), "{log:?}");
    assert!(log.iter().any(|line| line.starts_with("second: Unschedulable")), "{log:?}");
    world.pod("small", 500, None);
    assert!(world.run()[0].starts_with("small: Placed"));
    assert!(world.scheduler.stats().verification.is_trusting);
}

#[test]
fn differences_found_when_idle_disable_the_cache() {
    let mut world = idling();
    with(Some(Mutation::SignatureStatesNotUpdated), || {
        for number in 0..DIFFERENCES_MAX as i64 {
            world.pod(&format!("p{number}"), 3_000 - number, None);
            idle(&mut world);
            world.handle(Event::Gone(ObjectKey::Pod(format!("p{number}").into())));
        }
    });
    let stats = world.scheduler.stats();
    assert_eq!((stats.verified[1], stats.verification.is_trusting), (DIFFERENCES_MAX, false));
    assert_eq!(stats.verification.unchecked_since, None, "nothing is left to be checked");
    world.pod("next", 3_000, None);
    assert!(world.run()[0].starts_with("next: Placed"));
}

#[test]
fn idle_verification_finds_a_stale_rejection() {
    let mut world = idling();
    world.pod("taker", 3_000, Some("a"));
    let log = with(Some(Mutation::SignatureStatesNotUpdated), || {
        // The infeasible cache answers from the third pod on. Results in `unschedulable` require an unchanged cluster.
        for number in 0..3 {
            world.pod(&format!("large-{number}"), 2_000, None);
            world.run();
            let bystander = format!("bystander-{number}");
            world.pod(&bystander, 100, Some("a"));
            world.handle(Event::Gone(ObjectKey::Pod(bystander.into())));
        }
        world.handle(Event::Gone(ObjectKey::Pod("taker".into())));
        for number in 0..3 {
            world.handle(Event::Gone(ObjectKey::Pod(format!("large-{number}").into())));
        }
        let log = idle(&mut world);
        world.pod("late", 2_000, None);
        [log, world.run()].concat()
    });
    assert_eq!(world.scheduler.stats().verified[1], 1, "{log:?}");
    assert!(log.iter().any(|line| line.contains("differs from a full evaluation")), "{log:?}");
    assert!(log.iter().any(|line| line.starts_with("late: Placed")), "{log:?}");
}

#[test]
fn idle_engine_wakes_for_verification_only_with_cached_state() {
    let mut world = idling();
    let wake_at = |world: &mut World| {
        world.run();
        match world.scheduler.step(world.now, &mut NoProbe) {
            Step::Idle { wake_at } => wake_at,
            step => panic!("it idles: {step:?}"),
        }
    };
    assert_eq!(wake_at(&mut world), None, "no signature is live");
    let began = world.now;
    world.pod("first", 1_000, None);
    world.run();
    // Without a result, the binding would have to be queried.
    world.pod("first", 1_000, Some("a"));
    world.handle(Event::BindFinished { uid: "first".into(), outcome: BindOutcome::Accepted });
    assert_eq!(wake_at(&mut world), Some(began + INTERVAL / 2));
    world.handle(Event::Leading(false));
    assert_eq!(wake_at(&mut world), None, "who does not lead decides nothing");
    assert_eq!(world.scheduler.stats().verification.unchecked_since, None);
}

/// The full evaluation reads the same columns. Only the individual evaluation of nodes detects wrong columns.
#[test]
fn columns_that_differ_from_the_node_are_reported() {
    let mut world = World::new();
    world.scheduler.verify_decisions(NonZeroU32::new(1));
    let log = with(Some(Mutation::RequestedColumnsNotUpdated), || {
        world.pod("first", 3_000, Some("a"));
        world.pod("second", 3_000, None);
        world.run()
    });
    assert!(log[0].contains("(a is among the nodes that fit; judged by itself, "), "{log:?}");
    assert!(log[0].contains(" says Insufficient cpu)"), "{log:?}");
    assert_eq!(world.scheduler.stats().verified, [0, 1]);
}

#[test]
fn every_nth_cached_decision_is_verified() {
    let mut world = World::new();
    world.scheduler.verify_decisions(NonZeroU32::new(3));
    for number in 0..8 {
        world.pod(&format!("p{number}"), 100, None);
        world.run();
    }
    assert_eq!(world.scheduler.stats().verified, [2, 0]);
    assert_eq!(world.scheduler.stats().cached_decisions, 8);
}

#[test]
fn infeasible_cache_is_verified() {
    let mut world = World::new();
    world.scheduler.verify_decisions(NonZeroU32::new(1));
    world.pod("large", 9_000, None);
    world.pod("larger", 9_000, None);
    world.run();
    assert_eq!((world.scheduler.stats().recalled, world.scheduler.stats().verified), (1, [1, 0]));
    with(Some(Mutation::UnschedulableResultsNeverStale), || {
        world.pod("middle", 4_000, Some("a"));
        world.pod("wide", 4_000, None);
        world.run();
        world.handle(Event::Gone(ObjectKey::Pod("middle".into())));
        world.pod("twin", 4_000, None);
        let log = world.run();
        assert!(log[0].starts_with("Pod default/twin: the cached decision"), "{log:?}");
        assert!(log.iter().any(|line| line.starts_with("twin: Placed")), "{log:?}");
    });
    assert_eq!(world.scheduler.stats().verified[1], 1);
}

#[test]
fn difference_names_the_first_node_with_another_result() {
    let mut world = World::new();
    for name in ["b", "c"] {
        let node = node(world.scheduler.tables(), name);
        world.handle(Event::NodeApplied(node));
    }
    world.scheduler.verify_decisions(NonZeroU32::new(1));
    let log = with(Some(Mutation::SignatureStatesNotUpdated), || {
        world.pod("first", 3_000, None);
        let placed = world.run();
        world.pod("second", 3_000, None);
        [placed, world.run()].concat()
    });
    let is_on = |name: &&str| log[0].contains(&format!("node: \"{name}\""));
    let on = ["a", "b", "c"].into_iter().find(is_on).expect("the first pod is placed");
    let notice =
        log.iter().find(|line| line.contains("differs from a full evaluation")).expect("a difference");
    let (_, odd) = notice.split_once(&format!("; {on} has score ")).expect("the full node is named");
    let (score, rest) = odd.split_once(' ').expect("a score");
    assert!(score.parse::<i64>().is_ok() && rest.starts_with("and no place)"), "{notice}");
}

#[test]
fn deciding_afresh_uses_no_cache() {
    for afresh in [false, true] {
        let mut world = World::new();
        if afresh {
            world.scheduler.decide_afresh();
        }
        for number in 0..4 {
            world.pod(&format!("p{number}"), 100, None);
            world.run();
        }
        assert_eq!(world.scheduler.stats().cached_decisions == 0, afresh);
    }
}

/// Returns a world with two live signatures that were cached before the current time.
fn two_signatures() -> World {
    let mut world = idling();
    for (name, cpu_milli) in [("p", 100), ("q", 200)] {
        world.pod(name, cpu_milli, None);
        world.run();
        world.pod(name, cpu_milli, Some("a"));
        world.handle(Event::BindFinished { uid: name.into(), outcome: BindOutcome::Accepted });
        world.run();
    }
    world.now = world.now + INTERVAL / 2;
    world
}

#[test]
fn each_live_signature_is_verified_once_on_request() {
    let mut world = two_signatures();
    let (mut cursor, now) = (0, world.now);
    let were: Vec<bool> = (0..3).map(|_| world.scheduler.verify_one(now, &mut cursor, now)).collect();
    assert_eq!(were, [true, true, false]);
    assert_eq!(world.scheduler.stats().verified, [2, 0]);
}

#[test]
fn idle_comparisons_pause_four_times_as_long_as_the_last_one_took() {
    const PAUSE: Duration = Duration::from_millis(10);
    for (took, pause) in [(PAUSE / 2, PAUSE / 2), (100 * PAUSE, 4 * (100 - 2) * PAUSE)] {
        let mut world = two_signatures();
        let mut step = |now| match world.scheduler.step(now, &mut NoProbe) {
            Step::Idle { wake_at } => (wake_at, world.scheduler.stats().verified[0]),
            step => panic!("it idles: {step:?}"),
        };
        let began = Time::from_secs(100) + INTERVAL / 2;
        assert_eq!(step(began), (Some(began + PAUSE), 1));
        let ended = began + took;
        assert_eq!(step(ended), (Some(ended + pause), 1));
        assert_eq!(step(ended + pause), (Some(ended + pause + PAUSE), 2), "exactly then it goes on");
    }
}

#[test]
fn round_is_late_after_half_of_its_time() {
    let mut world = idling();
    let verify = &mut world.scheduler.verify;
    assert!(!verify.is_late(world.now), "no round has begun");
    let began = world.now + INTERVAL / 2;
    assert!(!verify.is_late(began));
    assert!(!verify.is_late(began + (INTERVAL / 4 - Duration::from_nanos(1))));
    assert!(verify.is_late(began + INTERVAL / 4));
    assert!(verify.is_late(began + INTERVAL / 2));
}

/// Returns how many live signatures are compared after a decision, so long after a round began and after so much work.
fn compared_after_a_decision(since_began: Duration, worked: Duration, has_verified: bool) -> u64 {
    let mut world = two_signatures();
    let began = world.now;
    let verify = &mut world.scheduler.verify;
    assert!(!verify.is_late(began), "the round begins");
    let now = began + since_began;
    verify.called(began + (since_began - worked));
    verify.called(now);
    if has_verified {
        verify.credit.verifies();
    }
    world.scheduler.verify_when_late(now);
    world.scheduler.stats().verified[0]
}

#[test]
fn late_round_goes_on_after_a_decision_if_there_is_credit() {
    let (late, second) = (INTERVAL / 4, Duration::from_secs(1));
    assert_eq!(compared_after_a_decision(late, second, false), 1);
    assert_eq!(
        compared_after_a_decision(late, Duration::ZERO, false),
        0,
        "no work was done that gives credit"
    );
    assert_eq!(compared_after_a_decision(second, second, false), 0, "idle time may suffice");
    assert_eq!(compared_after_a_decision(late, second, true), 0, "the decision itself was compared");
}

#[test]
fn idle_engine_compares_although_a_pod_waits_for_a_time() {
    let mut world = idling();
    world.pod("large", 9_000, None);
    world.pod("first", 1_000, None);
    let log = idle(&mut world);
    assert!(log.iter().any(|line| line.starts_with("large: Unschedulable")), "{log:?}");
    assert!(world.scheduler.stats().verified[0] > 0);
}
