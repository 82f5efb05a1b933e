//! Faults of bindings: B2, B6, B7, B24.

use crate::check_scenario;
use crate::harness::contains_line;
use supercargo_core::queue::SubQueue;
use supercargo_core::switches::mutation::Mutation;

/// The bug: rejecting plugins of an earlier attempt were kept, so a pod with a later error became unschedulable.
#[test]
fn b02_error_after_rejection_backs_off_without_waiting_for_an_event() {
    check_scenario(Some(Mutation::EarlierRejectorsKept), |harness| {
        assert!(contains_line(&harness.act("node a cpu=1\npod p cpu=2"), "unschedulable p"));
        assert!(contains_line(&harness.act("node b cpu=4"), "bind p to b"));
        harness.act("refused p");
        assert_eq!(harness.place("p"), Some(SubQueue::Backoff));
        assert!(contains_line(&harness.wait(5), "bind p to b"), "nothing happened in the cluster meanwhile");
    });
}

/// The bug: an assumed pod expired after 30 seconds, its binding succeeded later, and the node was overcommitted.
#[test]
fn b06_assumed_pod_keeps_its_reservation_until_binding_is_settled() {
    let late = |harness: &mut crate::Harness| {
        assert!(contains_line(&harness.act("node a cpu=1\npod p cpu=1"), "bind p to a"));
        harness.act("pod q cpu=1");
        // The answer takes two minutes.
        for _ in 0..12 {
            assert!(!contains_line(&harness.wait(10), "bind q to a"));
        }
        harness.act("pod p cpu=1 on=a\naccepted p");
        assert_eq!(harness.taken("a"), (1_000, 1));
        assert!(!contains_line(&harness.wait(60), "bind q to a"));
    };
    check_scenario(Some(Mutation::AssumedPodsExpire), late);
    check_scenario(Some(Mutation::UnknownOutcomeCountsAsRejected), |harness| {
        harness.act("node a cpu=1\npod p cpu=1\npod q cpu=1");
        assert!(!contains_line(&harness.act("unknown p"), "bind q to a"));
        for _ in 0..12 {
            assert!(!contains_line(&harness.wait(10), "bind q to a"));
            harness.act("found p no-answer");
        }
        harness.act("found p a");
        assert_eq!(harness.taken("a"), (1_000, 1));
    });
}

/// The bug: a failed binding was undone on another node than the assumed one, whose resources stayed reserved.
#[test]
fn b07_failed_binding_is_undone_on_the_assumed_node() {
    check_scenario(Some(Mutation::FailedBindingKeepsResources), |harness| {
        for round in 0..5 {
            assert!(contains_line(
                &harness.act("node a cpu=1\nnode b cpu=1 unschedulable\npod p cpu=1"),
                "bind p to a"
            ));
            harness.act("refused p");
            assert_eq!((harness.taken("a"), harness.taken("b")), ((0, 0), (0, 0)), "round {round}");
            harness.act("gone pod p");
        }
        assert!(contains_line(&harness.act("pod q cpu=1"), "bind q to a"));
    });
}

/// The bug: a binding was carried out but its answer timed out, which caused endless retries and wrong failure
/// events.
#[test]
fn b24_binding_with_lost_answer_is_reported_once_as_bound() {
    check_scenario(Some(Mutation::BoundCountsAsFailed), |harness| {
        harness.act("node a cpu=1\npod p cpu=1");
        let mut output = harness.act("unknown p");
        assert_eq!(output, ["query p"]);
        output.extend(harness.act("found p a\npod p cpu=1 on=a"));
        output.extend(harness.wait(600));
        let records: Vec<_> = output.iter().filter(|line| line.starts_with("record")).collect();
        assert_eq!(records, ["record Scheduled p"], "{output:?}");
        assert!(!output.iter().any(|line| line.starts_with("bind ")), "{output:?}");
    });
}
