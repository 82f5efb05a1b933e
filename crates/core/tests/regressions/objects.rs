//! Faults with unusual, missing and repeated objects: B12, B13, B15, B17, B20.

use crate::check_scenario;
use crate::harness::{Harness, contains_line};
use supercargo_core::switches::mutation::Mutation;

/// The bug: a pod pinned to a missing node caused a division by zero, so that one pod's spec crashed the scheduler.
#[test]
fn b12_pod_pinned_to_a_missing_node_is_rejected_without_a_panic() {
    check_scenario(Some(Mutation::NodeCountAssumedPositive), |harness| {
        harness.act("node a cpu=0 pods=0\nnode b cpu=4");
        let many = (0..1_000).map(|at| format!("x{at}")).collect::<Vec<_>>().join(",");
        for pinned in ["@name:in:ghost", "@name:in:a;@name:in:b", &format!("@name:in:{many}")] {
            let output = harness.act(&format!("pod p cpu=1 require={pinned}"));
            assert!(contains_line(&output, "unschedulable p"), "{pinned}: {output:?}");
            harness.act("gone pod p");
        }
        assert!(contains_line(&harness.act("pod p require=@name:in:b"), "bind p to b"));
        assert_eq!(harness.scheduler.stats().panics, 0);
    });
}

/// The bugs: updates of unknown objects, deletions before additions, and missing fields each crashed a scheduler.
#[test]
fn b13_missing_objects_and_fields_cause_no_panic() {
    check_scenario(Some(Mutation::ResourceAssumedToRemain), |harness| {
        let output = harness.act(
            "gone node ghost
             gone pod ghost
             accepted ghost
             refused ghost
             unknown ghost
             found ghost gone
             node a cpu=4 res:example.com/gpu=2
             pod q on=a res:example.com/gpu=1
             pod q on=a
             pod lost on=nowhere cpu=1
             pod lost on=nowhere
             gone pod lost
             node a
             gone node a
             gone node a
             gone pod q",
        );
        assert_eq!(output, [""; 0]);
        assert_eq!(harness.scheduler.stats().panics, 0);
        assert_eq!(harness.nonempty_sizes(), []);
    });
}

/// The bug: pods deleted or recreated under the same name during an attempt left entries forever.
#[test]
fn b15_pods_recreated_at_any_step_leave_no_state() {
    check_scenario(Some(Mutation::DeletedPodStateKept), |harness| {
        let stages: [&[&str]; 6] = [
            &[],
            &["node a cpu=1"],
            &["node a cpu=4"],
            &["node a cpu=4", "unknown old"],
            &["node a cpu=4", "unknown old", "found old unbound"],
            &["node a cpu=4", "refused old"],
        ];
        for stage in stages {
            harness.act("pod old cpu=2");
            stage.iter().for_each(|line| drop(harness.act(line)));
            harness.act("gone pod old\npod new cpu=2");
            // A late result does not affect the new pod.
            harness.act("accepted old\nfound old gone");
            harness.wait(20);
            assert_eq!(
                harness.nonempty_sizes().iter().any(|&(what, _)| what == "queue"),
                harness.place("new").is_some()
            );
            harness.act("gone pod new\naccepted new\ngone node a");
            assert_eq!(harness.nonempty_sizes(), [], "{stage:?}");
        }
        // A terminating pod is in no queue. Its deletion is known only from the list that does not contain it.
        harness.act("node a cpu=1\npod old cpu=2\npod old cpu=2 deleting");
        harness.wait(20);
        harness.act("list Pod\nlisted Pod\ngone node a");
        assert_eq!(harness.nonempty_sizes(), []);
    });
}

/// The bug: the gauge of unschedulable pods ignored deletions from other queues.
#[test]
fn b17_gauge_counts_deletions_from_every_queue() {
    check_scenario(Some(Mutation::GaugesIgnoreDeletedPods), |harness| {
        let blamed =
            |harness: &Harness| harness.scheduler.queue().stats().unschedulable.values().sum::<usize>();
        harness.act("node a cpu=1\npod p cpu=2\npod gated cpu=2 gate=g");
        assert_eq!(blamed(harness), 2);
        harness.act("gone pod p\ngone pod gated");
        assert_eq!(blamed(harness), 0, "from the pool, and from behind a gate");
        let mut harness = Harness::without_credit_for_bindings();
        harness.act("node a cpu=1\npod p cpu=2\nnode b cpu=1\npod q cpu=1");
        // While a binding waits for a credit, a requeued pod stays in its queue.
        harness.act("node c cpu=4");
        harness.act("gone pod p\ngone pod q");
        assert_eq!(blamed(&harness), 0, "from the active or the backoff queue");
    });
}

/// The bug: after missed, repeated or outdated events, the cache differed from the API server.
#[test]
fn b20_repeated_and_stale_events_leave_the_cache_correct() {
    check_scenario(Some(Mutation::RepeatedPodCountedAgain), |harness| {
        harness.act("node a cpu=4\npod p cpu=1 on=a\npod p cpu=1 on=a\npod p cpu=2 on=a\npod p cpu=2 on=a");
        assert_eq!(harness.taken("a"), (2_000, 1));
    });
    check_scenario(Some(Mutation::RelistRemovesNothing), |harness| {
        harness.act("node a cpu=4\npod p cpu=1 on=a\npod q cpu=1 on=a");
        harness.act("list Pod\npod q cpu=1 on=a\nlisted Pod");
        assert_eq!(harness.taken("a"), (1_000, 1));
    });
    check_scenario(Some(Mutation::OlderPodVersionApplied), |harness| {
        let output = harness.act("node a cpu=4\npod p cpu=1\naccepted p\npod p cpu=1 on=a");
        assert!(contains_line(&output, "bound p to a"));
        assert_eq!(harness.act("list Pod\npod p cpu=1\nlisted Pod"), [""; 0], "a binding takes no step back");
        assert_eq!(harness.taken("a"), (1_000, 1));
    });
    check_scenario(Some(Mutation::ResourcesReleasedTwice), |harness| {
        harness.act("node a cpu=4\npod p cpu=1 on=a\npod q cpu=1 on=a\ngone pod q\ngone pod q");
        assert_eq!(harness.taken("a"), (1_000, 1));
    });
}
