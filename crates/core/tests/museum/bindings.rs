//! Faults of bindings: B2, B6, B7, B24.

use crate::bench::says;
use crate::exhibit;
use supercargo_core::mutation::Mutation;
use supercargo_core::queue::Place;

/// The bug: rejecting plugins of an earlier attempt were kept, so a pod with a later error became unschedulable.
#[test]
fn b02_an_error_after_a_rejection_backs_off_and_waits_for_no_event() {
    exhibit(Some(Mutation::OldBlameStays), |bench| {
        assert!(says(&bench.act("node a cpu=1\npod p cpu=2"), "unschedulable p"));
        assert!(says(&bench.act("node b cpu=4"), "bind p to b"));
        bench.act("refused p");
        assert_eq!(bench.place("p"), Some(Place::Backoff));
        assert!(says(&bench.wait(5), "bind p to b"), "nothing happened in the cluster meanwhile");
    });
}

/// The bug: an assumed pod expired after 30 seconds, its binding succeeded later, and the node was overcommitted.
#[test]
fn b06_an_assumed_pod_holds_its_room_until_its_binding_is_settled() {
    let late = |bench: &mut crate::Bench| {
        assert!(says(&bench.act("node a cpu=1\npod p cpu=1"), "bind p to a"));
        bench.act("pod q cpu=1");
        // The answer takes two minutes.
        for _ in 0..12 {
            assert!(!says(&bench.wait(10), "bind q to a"));
        }
        bench.act("pod p cpu=1 on=a\naccepted p");
        assert_eq!(bench.taken("a"), (1_000, 1));
        assert!(!says(&bench.wait(60), "bind q to a"));
    };
    exhibit(Some(Mutation::AssumedExpire), late);
    exhibit(Some(Mutation::UnknownIsRefused), |bench| {
        bench.act("node a cpu=1\npod p cpu=1\npod q cpu=1");
        assert!(!says(&bench.act("unknown p"), "bind q to a"));
        for _ in 0..12 {
            assert!(!says(&bench.wait(10), "bind q to a"));
            bench.act("found p no-answer");
        }
        bench.act("found p a");
        assert_eq!(bench.taken("a"), (1_000, 1));
    });
}

/// The bug: a failed binding was undone on another node than the assumed one, whose resources stayed reserved.
#[test]
fn b07_a_failed_bind_forgets_on_the_node_it_was_assumed_on() {
    exhibit(Some(Mutation::FailedBindFreesNothing), |bench| {
        for round in 0..5 {
            assert!(says(&bench.act("node a cpu=1\nnode b cpu=1 unschedulable\npod p cpu=1"), "bind p to a"));
            bench.act("refused p");
            assert_eq!((bench.taken("a"), bench.taken("b")), ((0, 0), (0, 0)), "round {round}");
            bench.act("gone pod p");
        }
        assert!(says(&bench.act("pod q cpu=1"), "bind q to a"));
    });
}

/// The bug: a binding was carried out but its answer timed out, which caused endless retries and wrong failure
/// events.
#[test]
fn b24_a_bind_whose_answer_was_lost_is_told_of_once_and_as_done() {
    exhibit(Some(Mutation::BoundIsFailed), |bench| {
        bench.act("node a cpu=1\npod p cpu=1");
        let mut told = bench.act("unknown p");
        assert_eq!(told, ["settle p"]);
        told.extend(bench.act("found p a\npod p cpu=1 on=a"));
        told.extend(bench.wait(600));
        let records: Vec<_> = told.iter().filter(|line| line.starts_with("record")).collect();
        assert_eq!(records, ["record Scheduled p"], "{told:?}");
        assert!(!told.iter().any(|line| line.starts_with("bind ")), "{told:?}");
    });
}
