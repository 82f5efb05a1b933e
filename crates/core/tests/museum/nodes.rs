//! Faults with added, deleted and recreated nodes: B8, B9, B10, B25.

use crate::bench::{Bench, says};
use crate::exhibit;
use supercargo_core::mutation::Mutation;

/// The bug: a recreated node had the generation of the deleted one, and was mistaken for it.
#[test]
fn b08_a_node_created_anew_is_not_taken_for_the_old_one() {
    exhibit(Some(Mutation::NoLastLook), |_| {
        let mut bench = Bench::without_credit_for_bindings();
        let told = bench.act("node a cpu=4\npod p cpu=2");
        assert!(says(&told, "placed p on a, 1 of 1, attempt 1"), "{told:?}");
        let told = bench.act("gone node a\nnode a cpu=1\ncredit bind 10");
        assert!(!says(&told, "bind p to a"), "{told:?}");
        assert!(says(&told, "unschedulable p"), "{told:?}");
        assert!(says(&bench.act("gone node a\nnode a cpu=4"), "bind p to a"));
    });
}

/// The bug: a node was deleted before its pods, or recreated before they were deleted, and pods counted nowhere or
/// twice.
#[test]
fn b09_pods_of_a_node_that_is_gone_count_when_it_comes_again() {
    exhibit(Some(Mutation::NodeTakesItsPods), |bench| {
        let (gone, again, end) = ("gone node a", "node a cpu=1", "gone pod q");
        for order in [[gone, again, end], [gone, end, again], [end, gone, again]] {
            bench.act("node a cpu=1\npod q cpu=1 on=a\npod p cpu=1");
            let mut is_there = true;
            for (at, line) in order.iter().enumerate() {
                let told = bench.act(line);
                is_there &= *line != end;
                let bound = says(&told, "bind p to a");
                assert!(!bound || !is_there, "{order:?}: bound at {at} to a node that is full");
            }
            // Without a rejecting plugin left, the pod backs off.
            bench.wait(15);
            assert_eq!(bench.taken("a"), (1_000, 1), "{order:?}");
            bench.act("accepted p\ngone pod p\ngone node a");
            assert_eq!(bench.held(), [], "{order:?}");
        }
    });
}

/// The bug: after all nodes of a zone were deleted, the loop over zones did not end; with zones of different sizes,
/// nodes were skipped. This engine has no loop over zones, so no fault is planted.
#[test]
fn b10_every_node_is_looked_at_once_however_zones_come_and_go() {
    exhibit(None, |bench| {
        for (zone, nodes) in [("z1", 7), ("z2", 1), ("z3", 3)] {
            for at in 0..nodes {
                bench.act(&format!("node {zone}-{at} zone={zone} cpu=4"));
            }
        }
        let mut left = 11;
        let mut number = 0;
        for (zone, nodes) in [("z2", 1), ("z1", 7), ("z3", 3)] {
            for at in 0..nodes {
                bench.act(&format!("gone node {zone}-{at}"));
                left -= 1;
                number += 1;
                let told = bench.act(&format!("pod p{number}"));
                let all = format!(", {left} of {left}, attempt 1");
                let seen = told.iter().any(|line| line.starts_with("placed") && line.ends_with(&all));
                assert!(seen || left == 0, "{told:?}");
                bench.act(&format!("gone pod p{number}"));
            }
        }
        assert!(says(&bench.act("pod last"), "unschedulable last"));
    });
}

/// The bug: after a node joined, a burst of pods exceeded its limit.
#[test]
fn b25_a_burst_to_a_node_that_just_joined_stops_at_its_limit() {
    exhibit(Some(Mutation::PlacesUncounted), |bench| {
        for at in 0..30 {
            bench.act(&format!("pod p{at}"));
        }
        let mut told = bench.act("node a cpu=64 pods=10");
        told.extend(bench.wait(30));
        assert_eq!(told.iter().filter(|line| line.starts_with("bind ")).count(), 10, "{told:?}");
        for line in told.iter().filter_map(|line| line.strip_prefix("bind ")) {
            let pod = line.split(' ').next().expect("a binding names its pod");
            bench.act(&format!("accepted {pod}\npod {pod} on=a"));
        }
        let told = bench.wait(600);
        assert!(!told.iter().any(|line| line.starts_with("bind ")), "{told:?}");
        assert_eq!(bench.taken("a"), (0, 10));
    });
}
