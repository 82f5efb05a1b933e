//! Searches for devices that other pods and members interrupt.

use super::support::groups;
use super::{Cluster, GANG, MISSING, SMALL};
use supercargo_core::scheduler::Limits;

/// The result for a domain is void if a slice ends in it, also if a member was rejected before.
#[test]
fn group_that_requires_a_rack_is_decided_in_slices_as_in_one_step() {
    let (mut one_step, mut sliced) = (Cluster::new(Limits::default()), Cluster::new(SMALL));
    for cluster in [&mut one_step, &mut sliced] {
        cluster.apply("node a cpu=64 label:rack=x");
        cluster.apply("node b cpu=64 label:rack=y");
        let gates = ["GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling"];
        groups::act(&mut cluster.scheduler, cluster.now, "gates", &gates);
        groups::act(&mut cluster.scheduler, cluster.now, "group", &["g", "min=3", "key=rack"]);
        for (name, any, last) in GANG {
            cluster.add(name, "group=g created=1000", any, last, false);
        }
        // It comes after `first`, and fits on no node.
        cluster.apply("pod large cpu=65 group=g created=1000");
        cluster.run();
        assert_eq!(cluster.allocated, ["first: d6", "second: d7", "third: d1 d2 d3 d4 d5 d0"]);
    }
    assert_eq!(one_step.slices(), 0);
    assert!(sliced.slices() > 2, "{} slices", sliced.slices());
    assert_eq!(groups::describe_report(&sliced.groups[0]), groups::describe_report(&one_step.groups[0]));
}

/// What is known of devices for the requests of one pod says nothing about those of another.
#[test]
fn search_in_slices_gets_its_devices_although_another_pod_finds_none_meanwhile() {
    let mut cluster = Cluster::new(SMALL);
    cluster.add_pod("hard", 4, 0, false);
    cluster.step();
    assert!(cluster.is_searching("hard"));
    cluster.add_pod("other", 0, MISSING, false);
    cluster.run();
    assert_eq!(cluster.reports.first().map(|(name, _)| name.as_str()), Some("other"));
    assert_eq!(cluster.allocated, ["hard: d1 d2 d3 d4 d0"]);
}

/// A member keeps results on the node whose devices a later one takes: they are needed again in the next slice.
#[test]
fn searches_of_several_members_end_although_each_takes_many_slices() {
    // With so many rejected members, the results of some are dropped.
    for rejected in [0, 20] {
        let unlimited = Limits { large: u64::MAX, ..Limits::default() };
        let (mut one_step, mut sliced) = (Cluster::new(unlimited), Cluster::new(SMALL));
        for cluster in [&mut one_step, &mut sliced] {
            cluster.set_devices_of("b", &[10, 11, 12, 13, 14, 15, 16, 17]);
            cluster.apply("node c cpu=64");
            cluster.set_devices_of("c", &[20, 21, 22, 23, 24, 25, 26, 27]);
            let names: Vec<String> = (0..rejected).map(|at| format!("a{at:02}")).collect();
            let rejected = names.iter().enumerate().map(|(at, name)| (name.as_str(), 3, MISSING + at));
            let placed = [("x-first", 5, 10), ("y-second", 5, 0), ("z-third", 5, 20)];
            cluster.add_group_with(&["min=3"], &rejected.chain(placed).collect::<Vec<_>>());
            for _ in 0..20_000 {
                cluster.step();
            }
            assert_eq!(cluster.groups.len(), 1, "the searches go on after {} slices", cluster.slices());
        }
        assert_eq!(one_step.slices(), 0);
        assert!(sliced.slices() > 100, "{} slices", sliced.slices());
        assert_eq!(sliced.allocated, one_step.allocated);
        let reports = [&sliced, &one_step].map(|it| groups::describe_report(&it.groups[0]));
        assert_eq!(reports[0], reports[1]);
    }
}
