//! Preemptions that did not end: B4, B5, B11, B21. See also `tests/scenarios/preemption.txt` and `tests/preemption`.

use crate::check_scenario;
use crate::harness::{Harness, contains_line};

/// Creates a node with one victim for `high`, whose eviction has started. The rest is up to the caller.
fn one_victim(harness: &mut Harness) -> Vec<String> {
    harness.act("node a cpu=4\npod low cpu=3 priority=1 on=a\npod high cpu=2 priority=9")
}

/// The bug: the victim was deleted before its eviction, no event followed, and the preemptor waited forever.
#[test]
fn b04_victim_deleted_before_eviction_requeues_the_preemptor_at_once() {
    check_scenario(None, |harness| {
        assert!(contains_line(&one_victim(harness), "evict low"));
        let output = harness.act("gone pod low");
        assert!(
            contains_line(&output, "bind high to a") || contains_line(&harness.wait(1), "bind high to a"),
            "{output:?}"
        );
    });
}

/// The bug: deletions were slow, and dozens were started for one pod.
#[test]
fn b05_no_victim_is_evicted_twice_while_answers_are_slow() {
    check_scenario(None, |harness| {
        let mut output = one_victim(harness);
        for _ in 0..20 {
            output.extend(harness.wait(30));
            output.extend(harness.act("node b cpu=1\ngone node b"));
        }
        assert_eq!(output.iter().filter(|line| line.starts_with("evict ")).count(), 1, "{output:?}");
    });
}

/// The bug: the preemptor was deleted, and its nomination stayed.
#[test]
fn b11_nomination_of_a_deleted_preemptor_is_released_at_once() {
    check_scenario(None, |harness| {
        assert!(contains_line(&one_victim(harness), "evict low"));
        harness.act("gone pod high\ngone pod low");
        assert!(contains_line(&harness.act("pod next cpu=4"), "bind next to a"));
        assert!(
            !harness.nonempty_sizes().iter().any(|&(what, _)| what == "nominations"),
            "{:?}",
            harness.nonempty_sizes()
        );
    });
}

/// The bug: disruption budgets were counted wrongly, and the wrong pod was evicted.
#[test]
fn b21_pod_protected_by_a_budget_is_not_evicted_if_another_can_be() {
    check_scenario(None, |harness| {
        let output = harness.act(
            "node a cpu=4
             node b cpu=4
             budget front allowed=0 app=front
             pod front cpu=3 on=a label:app=front
             pod back cpu=3 on=b label:app=back priority=3
             pod high cpu=2 priority=9",
        );
        assert!(contains_line(&output, "evict back") && !contains_line(&output, "evict front"), "{output:?}");
    });
}
