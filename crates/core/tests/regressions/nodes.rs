//! Faults with added, deleted and recreated nodes: B8, B9, B10, B25.

use crate::check_scenario;
use crate::harness::{Harness, contains_line};
use supercargo_core::switches::mutation::Mutation;

/// The bug: a recreated node had the generation of the deleted one, and was mistaken for it.
#[test]
fn b08_recreated_node_is_not_mistaken_for_the_deleted_one() {
    check_scenario(Some(Mutation::RecheckSkipped), |_| {
        let mut harness = Harness::without_credit_for_bindings();
        let output = harness.act("node a cpu=4\npod p cpu=2");
        assert!(contains_line(&output, "placed p on a, 1 of 1, attempt 1"), "{output:?}");
        let output = harness.act("gone node a\nnode a cpu=1\ncredit bind 10");
        assert!(!contains_line(&output, "bind p to a"), "{output:?}");
        assert!(contains_line(&output, "unschedulable p"), "{output:?}");
        assert!(contains_line(&harness.act("gone node a\nnode a cpu=4"), "bind p to a"));
    });
}

/// The bug: a node was deleted before its pods, or recreated before they were deleted, and pods counted nowhere or
/// twice.
#[test]
fn b09_pods_of_a_deleted_node_count_when_it_is_recreated() {
    check_scenario(Some(Mutation::NodeDeletionDropsPods), |harness| {
        let (gone, again, end) = ("gone node a", "node a cpu=1", "gone pod q");
        for order in [[gone, again, end], [gone, end, again], [end, gone, again]] {
            harness.act("node a cpu=1\npod q cpu=1 on=a\npod p cpu=1");
            let mut is_there = true;
            for (at, line) in order.iter().enumerate() {
                let output = harness.act(line);
                is_there &= *line != end;
                let bound = contains_line(&output, "bind p to a");
                assert!(!bound || !is_there, "{order:?}: bound at {at} to a node that is full");
            }
            // Without a rejecting plugin left, the pod backs off.
            harness.wait(15);
            assert_eq!(harness.taken("a"), (1_000, 1), "{order:?}");
            harness.act("accepted p\ngone pod p\ngone node a");
            assert_eq!(harness.nonempty_sizes(), [], "{order:?}");
        }
    });
}

/// The bug: after all nodes of a zone were deleted, the loop over zones did not end; with zones of different sizes,
/// nodes were skipped. This engine has no loop over zones, so there is no deliberate mistake.
#[test]
fn b10_every_node_is_evaluated_once_while_zones_change() {
    check_scenario(None, |harness| {
        for (zone, nodes) in [("z1", 7), ("z2", 1), ("z3", 3)] {
            for at in 0..nodes {
                harness.act(&format!("node {zone}-{at} zone={zone} cpu=4"));
            }
        }
        let mut left = 11;
        let mut number = 0;
        for (zone, nodes) in [("z2", 1), ("z1", 7), ("z3", 3)] {
            for at in 0..nodes {
                harness.act(&format!("gone node {zone}-{at}"));
                left -= 1;
                number += 1;
                let output = harness.act(&format!("pod p{number}"));
                let all = format!(", {left} of {left}, attempt 1");
                let seen = output.iter().any(|line| line.starts_with("placed") && line.ends_with(&all));
                assert!(seen || left == 0, "{output:?}");
                harness.act(&format!("gone pod p{number}"));
            }
        }
        assert!(contains_line(&harness.act("pod last"), "unschedulable last"));
    });
}

/// The bug: after a node joined, a burst of pods exceeded its limit.
#[test]
fn b25_burst_to_a_new_node_stops_at_its_pod_limit() {
    check_scenario(Some(Mutation::PodCountNotUpdated), |harness| {
        for at in 0..30 {
            harness.act(&format!("pod p{at}"));
        }
        let mut output = harness.act("node a cpu=64 pods=10");
        output.extend(harness.wait(30));
        assert_eq!(output.iter().filter(|line| line.starts_with("bind ")).count(), 10, "{output:?}");
        for line in output.iter().filter_map(|line| line.strip_prefix("bind ")) {
            let pod = line.split(' ').next().expect("a binding names its pod");
            harness.act(&format!("accepted {pod}\npod {pod} on=a"));
        }
        let output = harness.wait(600);
        assert!(!output.iter().any(|line| line.starts_with("bind ")), "{output:?}");
        assert_eq!(harness.taken("a"), (0, 10));
    });
}
