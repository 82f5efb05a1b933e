//! Preemptions that did not end: B4, B5, B11, B21. See also `tests/stories/preemption.txt` and `tests/preemption`.

use crate::bench::{Bench, says};
use crate::exhibit;

/// Creates a node with one victim for `high`, whose eviction has started. The rest is up to the caller.
fn one_victim(bench: &mut Bench) -> Vec<String> {
    bench.act("node a cpu=4\npod low cpu=3 priority=1 on=a\npod high cpu=2 priority=9")
}

/// The bug: the victim was deleted before its eviction, no event followed, and the preemptor waited forever.
#[test]
fn b04_a_victim_that_goes_by_itself_lets_the_preemptor_in_at_once() {
    exhibit(None, |bench| {
        assert!(says(&one_victim(bench), "evict low"));
        let told = bench.act("gone pod low");
        assert!(says(&told, "bind high to a") || says(&bench.wait(1), "bind high to a"), "{told:?}");
    });
}

/// The bug: deletions were slow, and dozens were started for one pod.
#[test]
fn b05_no_victim_is_told_twice_however_slow_the_answers_are() {
    exhibit(None, |bench| {
        let mut told = one_victim(bench);
        for _ in 0..20 {
            told.extend(bench.wait(30));
            told.extend(bench.act("node b cpu=1\ngone node b"));
        }
        assert_eq!(told.iter().filter(|line| line.starts_with("evict ")).count(), 1, "{told:?}");
    });
}

/// The bug: the preemptor was deleted, and its nomination stayed.
#[test]
fn b11_the_room_of_a_preemptor_that_is_gone_is_free_at_once() {
    exhibit(None, |bench| {
        assert!(says(&one_victim(bench), "evict low"));
        bench.act("gone pod high\ngone pod low");
        assert!(says(&bench.act("pod next cpu=4"), "bind next to a"));
        assert!(!bench.held().iter().any(|&(what, _)| what == "nominations"), "{:?}", bench.held());
    });
}

/// The bug: disruption budgets were counted wrongly, and the wrong pod was evicted.
#[test]
fn b21_who_is_protected_by_a_budget_stays_where_another_can_go() {
    exhibit(None, |bench| {
        let told = bench.act(
            "node a cpu=4
             node b cpu=4
             budget front allowed=0 app=front
             pod front cpu=3 on=a label:app=front
             pod back cpu=3 on=b label:app=back priority=3
             pod high cpu=2 priority=9",
        );
        assert!(says(&told, "evict back") && !says(&told, "evict front"), "{told:?}");
    });
}
