//! Pods that waited forever: B1, B3.

use crate::bench::says;
use crate::exhibit;
use supercargo_core::mutation::Mutation;

/// The bug: an event arrived before the pod that it helps was in the unschedulable pool.
#[test]
fn b01_an_event_at_any_point_of_a_failing_cycle_wakes_the_pod() {
    exhibit(Some(Mutation::EventInFlightLost), |bench| {
        // All at the same time, so that only the event itself can requeue the pod.
        let (small, large, pod) = ("node c cpu=1", "node b cpu=4", "pod p cpu=2");
        bench.act("node a cpu=1");
        for lines in [[small, large, pod], [small, pod, large], [pod, small, large], [pod, large, small]] {
            let told = bench.act(&lines.join("\n"));
            assert!(says(&told, "bind p to b"), "{lines:?}: {told:?}");
            bench.act("accepted p\ngone pod p\ngone node c\ngone node b");
        }
    });
}

/// The bug: the last matching pod was deleted, so that the pod became the first of its kind. The hint handled only
/// additions, and the pod waited for five minutes (kubernetes issue 141354).
#[test]
fn b03_the_last_peer_that_goes_wakes_a_pod_with_affinity_to_itself_once() {
    exhibit(Some(Mutation::DeafAffinityDelete), |bench| {
        bench.act("node a zone=z1 cpu=4 unschedulable\nnode b zone=z2 cpu=4");
        bench.act("pod peer on=a label:app=web");
        assert!(says(&bench.act("pod p label:app=web affinity=zone/app=web"), "unschedulable p"));
        assert_eq!(
            bench.act("pod other on=a label:app=db\ngone pod other"),
            [""; 0],
            "no wake-up for nothing"
        );
        let told = bench.act("gone pod peer");
        assert!(says(&told, "placed p on b, 1 of 2, attempt 2"), "{told:?}");
    });
}
