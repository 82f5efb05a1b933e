//! Pods that waited forever: B1, B3.

use crate::check_scenario;
use crate::harness::contains_line;
use supercargo_core::switches::mutation::Mutation;

/// The bug: an event arrived before the pod that it helps was in the unschedulable pool.
#[test]
fn b01_event_at_any_point_of_a_failing_attempt_requeues_the_pod() {
    check_scenario(Some(Mutation::EventDuringAttemptLost), |harness| {
        // All at the same time, so that only the event itself can requeue the pod.
        let (small, large, pod) = ("node c cpu=1", "node b cpu=4", "pod p cpu=2");
        harness.act("node a cpu=1");
        for lines in [[small, large, pod], [small, pod, large], [pod, small, large], [pod, large, small]] {
            let output = harness.act(&lines.join("\n"));
            assert!(contains_line(&output, "bind p to b"), "{lines:?}: {output:?}");
            harness.act("accepted p\ngone pod p\ngone node c\ngone node b");
        }
    });
}

/// The bug: the last matching pod was deleted, so that the pod became the first of its kind. The hint handled only
/// additions, and the pod waited for five minutes (kubernetes issue 141354).
#[test]
fn b03_last_matching_pod_deleted_requeues_a_self_matching_pod_once() {
    check_scenario(Some(Mutation::AffinityHintIgnoresDeletions), |harness| {
        harness.act("node a zone=z1 cpu=4 unschedulable\nnode b zone=z2 cpu=4");
        harness.act("pod peer on=a label:app=web");
        assert!(contains_line(&harness.act("pod p label:app=web affinity=zone/app=web"), "unschedulable p"));
        assert_eq!(
            harness.act("pod other on=a label:app=db\ngone pod other"),
            [""; 0],
            "no wake-up for nothing"
        );
        let output = harness.act("gone pod peer");
        assert!(contains_line(&output, "placed p on b, 1 of 2, attempt 2"), "{output:?}");
    });
}
