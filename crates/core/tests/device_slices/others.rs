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
