//! Faults with unusual, missing and repeated objects: B12, B13, B15, B17, B20.

use crate::bench::{Bench, says};
use crate::exhibit;
use supercargo_core::mutation::Mutation;

/// The bug: a pod pinned to a missing node caused a division by zero, so that one pod's spec crashed the scheduler.
#[test]
fn b12_a_pod_pinned_to_no_node_gets_an_answer_and_costs_nobody_anything() {
    exhibit(Some(Mutation::NoNodesUnheardOf), |bench| {
        bench.act("node a cpu=0 pods=0\nnode b cpu=4");
        let many = (0..1_000).map(|at| format!("x{at}")).collect::<Vec<_>>().join(",");
        for pinned in ["@name:in:ghost", "@name:in:a;@name:in:b", &format!("@name:in:{many}")] {
            let told = bench.act(&format!("pod p cpu=1 require={pinned}"));
            assert!(says(&told, "unschedulable p"), "{pinned}: {told:?}");
            bench.act("gone pod p");
        }
        assert!(says(&bench.act("pod p require=@name:in:b"), "bind p to b"));
        assert_eq!(bench.scheduler.stats().panics, 0);
    });
}

/// The bugs: updates of unknown objects, deletions before additions, and missing fields each crashed a scheduler.
#[test]
fn b13_what_is_absent_is_no_crash() {
    exhibit(Some(Mutation::ResourceTakenForGranted), |bench| {
        let told = bench.act(
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
        assert_eq!(told, [""; 0]);
        assert_eq!(bench.scheduler.stats().panics, 0);
        assert_eq!(bench.held(), []);
    });
}

/// The bug: pods deleted or recreated under the same name during an attempt left entries forever.
#[test]
fn b15_nothing_is_kept_of_pods_that_go_and_come_again_at_any_step() {
    exhibit(Some(Mutation::PodGoneLeaves), |bench| {
        let stages: [&[&str]; 6] = [
            &[],
            &["node a cpu=1"],
            &["node a cpu=4"],
            &["node a cpu=4", "unknown old"],
            &["node a cpu=4", "unknown old", "found old unbound"],
            &["node a cpu=4", "refused old"],
        ];
        for stage in stages {
            bench.act("pod old cpu=2");
            stage.iter().for_each(|line| drop(bench.act(line)));
            bench.act("gone pod old\npod new cpu=2");
            // A late result does not affect the new pod.
            bench.act("accepted old\nfound old gone");
            bench.wait(20);
            assert_eq!(bench.held().iter().any(|&(what, _)| what == "queue"), bench.place("new").is_some());
            bench.act("gone pod new\naccepted new\ngone node a");
            assert_eq!(bench.held(), [], "{stage:?}");
        }
        // A terminating pod is in no queue. Its deletion is known only from the list that does not contain it.
        bench.act("node a cpu=1\npod old cpu=2\npod old cpu=2 deleting");
        bench.wait(20);
        bench.act("list Pod\nlisted Pod\ngone node a");
        assert_eq!(bench.held(), []);
    });
}

/// The bug: the gauge of unschedulable pods ignored deletions from other queues.
#[test]
fn b17_the_gauge_follows_pods_out_of_every_queue() {
    exhibit(Some(Mutation::GaugeDrifts), |bench| {
        let blamed = |bench: &Bench| bench.scheduler.queue().stats().unschedulable.values().sum::<usize>();
        bench.act("node a cpu=1\npod p cpu=2\npod gated cpu=2 gate=g");
        assert_eq!(blamed(bench), 2);
        bench.act("gone pod p\ngone pod gated");
        assert_eq!(blamed(bench), 0, "from the pool, and from behind a gate");
        let mut bench = Bench::without_credit_for_bindings();
        bench.act("node a cpu=1\npod p cpu=2\nnode b cpu=1\npod q cpu=1");
        // While a binding waits for a credit, a requeued pod stays in its queue.
        bench.act("node c cpu=4");
        bench.act("gone pod p\ngone pod q");
        assert_eq!(blamed(&bench), 0, "from the active or the backoff queue");
    });
}

/// The bug: after missed, repeated or outdated events, the cache differed from the API server.
#[test]
fn b20_repeats_relists_and_older_states_leave_the_cache_as_it_should_be() {
    exhibit(Some(Mutation::CountedAgain), |bench| {
        bench.act("node a cpu=4\npod p cpu=1 on=a\npod p cpu=1 on=a\npod p cpu=2 on=a\npod p cpu=2 on=a");
        assert_eq!(bench.taken("a"), (2_000, 1));
    });
    exhibit(Some(Mutation::RelistAdds), |bench| {
        bench.act("node a cpu=4\npod p cpu=1 on=a\npod q cpu=1 on=a");
        bench.act("list Pod\npod q cpu=1 on=a\nlisted Pod");
        assert_eq!(bench.taken("a"), (1_000, 1));
    });
    exhibit(Some(Mutation::StepBack), |bench| {
        let told = bench.act("node a cpu=4\npod p cpu=1\naccepted p\npod p cpu=1 on=a");
        assert!(says(&told, "bound p to a"));
        assert_eq!(bench.act("list Pod\npod p cpu=1\nlisted Pod"), [""; 0], "a binding takes no step back");
        assert_eq!(bench.taken("a"), (1_000, 1));
    });
    exhibit(Some(Mutation::FreedTwice), |bench| {
        bench.act("node a cpu=4\npod p cpu=1 on=a\npod q cpu=1 on=a\ngone pod q\ngone pod q");
        assert_eq!(bench.taken("a"), (1_000, 1));
    });
}
