//! Turns of slices and other work, and what counts as work.

use super::{Harness, LARGE_POD, SMALL, placed};
use std::time::Duration;
use supercargo_core::cycle::Framework;
use supercargo_core::report::{Outcome, Preemption};
use supercargo_core::scheduler::{Limits, Step};

#[test]
fn eight_other_pods_are_attempted_between_two_slices() {
    let mut harness = Harness::with_cluster(SMALL);
    harness.apply("node wide zone=z1 cpu=9999 mem=999Gi pods=9999");
    harness.apply(&format!("pod {LARGE_POD}"));
    harness.step();
    let mut slices = harness.scheduler.stats().slices;
    assert_eq!(slices, 1);
    (0..100).for_each(|at| harness.apply(&format!("pod small{at} cpu=1m")));
    let (mut placed, mut between) = (0, Vec::new());
    while between.len() < 5 {
        match harness.step() {
            Step::Report(report) if matches!(report.outcome, Outcome::Placed { .. }) => placed += 1,
            Step::Effect(effect) => harness.answer(effect),
            Step::Report(_) | Step::GroupReport(_) | Step::Notice(_) | Step::Idle { .. } => {}
        }
        let evaluated = harness.scheduler.stats().slices;
        if evaluated > slices {
            slices = evaluated;
            between.push(std::mem::take(&mut placed));
        }
    }
    assert_eq!(between, [8; 5]);
}

/// The next slice is due at once, so there is no idle time between two.
#[test]
fn cached_decisions_are_not_compared_between_slices() {
    const INTERVAL: Duration = Duration::from_secs(60);
    let mut harness = Harness::with_cluster(SMALL);
    harness.scheduler.verify_decisions(None);
    harness.scheduler.verify_within(harness.now, INTERVAL);
    harness.apply("pod small cpu=1");
    harness.run();
    harness.now = harness.now + INTERVAL / 2;
    harness.apply(&format!("pod {LARGE_POD}"));
    let compared = |harness: &Harness| harness.scheduler.stats().verified[0];
    for slices in 1..=5 {
        let step = harness.step();
        assert!(matches!(step, Step::Idle { wake_at: Some(at) } if at == harness.now), "{step:?}");
        assert_eq!((harness.scheduler.stats().slices, compared(&harness)), (slices, 0));
    }
    assert!(placed(&harness.run(), "large").is_some());
    assert!(compared(&harness) > 0, "afterwards they are");
}

/// The engine is idle then, although a large pod is not decided yet.
#[test]
fn wait_for_the_credit_of_a_binding_is_no_work() {
    let mut harness = Harness::with_credits(SMALL, Framework::default(), 0);
    harness.add_cluster();
    // It waits for a time, so that the engine does, too.
    harness.apply("pod huge cpu=999");
    harness.run();
    harness.apply(&format!("pod {LARGE_POD}"));
    harness.step();
    harness.apply("pod small cpu=1m");
    assert!(placed(&harness.run(), "small").is_some());
    let before = harness.scheduler.stats();
    assert_eq!((before.sliced, before.outgoing[0]), (1, 1));
    harness.now = harness.now + Duration::from_secs(5);
    let step = harness.step();
    assert!(matches!(step, Step::Idle { wake_at: Some(at) } if at > harness.now), "{step:?}");
    assert_eq!(harness.scheduler.stats().verification.busy, before.verification.busy);
}

/// A victim that matches several terms with one topology key counts once for each of them.
#[test]
fn large_pod_preempts_a_pod_that_matches_two_of_its_terms() {
    let preemption = |limits: Limits| {
        let mut harness = Harness::with_cluster(limits);
        for node in 0..10 {
            let priority = node % 3;
            harness
                .apply(&format!("pod v{node} on=n{node} priority={priority} label:app=other label:tier=low"));
        }
        harness.apply(&format!("pod {LARGE_POD} anti=host/tier=low priority=100"));
        match harness.run().into_iter().next() {
            Some((_, Outcome::Unschedulable { preemption, .. })) => preemption,
            other => panic!("{other:?}"),
        }
    };
    let expected = preemption(Limits::default());
    assert!(matches!(expected, Preemption::Nominated { .. }), "{expected:?}");
    assert_eq!(preemption(SMALL), expected);
}

/// A slice ends after each pod class that is compared with ten terms, whichever pods have them.
#[test]
fn comparisons_with_terms_of_all_pods_count_as_work() {
    let slices = |own: &str, of_others: &str| {
        // A comparison with a term of one requirement counts as two.
        let mut harness = Harness::new(Limits { slice: 20, ..SMALL });
        (0..10).for_each(|at| harness.apply(&format!("node n{at} zone=z{} cpu=8 mem=8Gi", at % 2)));
        (0..30).for_each(|at| {
            harness.apply(&format!("pod q{at} on=n{} label:app=a label:own=o{at} {of_others}", at % 10));
        });
        harness.apply(&format!("pod large label:app=large {own}"));
        assert!(placed(&harness.run(), "large").is_some(), "{own}, {of_others}");
        harness.scheduler.stats().slices
    };
    let ten = |term: &str| format!("{term} ").repeat(10);
    let one = "anti=zone/app=none";
    for (own, of_others) in [
        (ten("affinity=zone/app=a"), String::new()),
        (ten(one), String::new()),
        (one.to_owned(), ten("anti=zone/app=none")),
        (one.to_owned(), ten("affinity=zone/app=a")),
        (one.to_owned(), ten("prefer-anti=5/zone/app=none")),
    ] {
        let slices = slices(&own, &of_others);
        assert!(slices >= 30, "{slices} slices for 30 pod classes: {own}, {of_others}");
    }
}
