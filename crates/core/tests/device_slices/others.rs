//! Searches for devices that other pods and members interrupt.

use super::support::groups;
use super::{Cluster, GANG, MISSING, SMALL, numbered};
use std::num::NonZeroU32;
use std::time::Duration;
use supercargo_core::model::device::{CounterSet, Device, PoolId, Reach, ResourceSlice};
use supercargo_core::model::emulation::{Compat, EmulatedVersion};
use supercargo_core::model::event::Event;
use supercargo_core::model::quantity::Amount;
use supercargo_core::model::volume::StorageObject;
use supercargo_core::report::Outcome;
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

/// A pod for which the scheduler makes a claim, so that other pods may have the same signature.
const EXTENDED: &str = "pod pod cpu=1 res:deviceclass.resource.kubernetes.io/any=4";

impl Cluster {
    /// Adds 50 nodes, each with the devices of these numbers.
    fn add_nodes(&mut self, devices: impl Fn(usize) -> Vec<usize>) {
        for at in 0..50 {
            self.apply(&format!("node n{at} cpu=64"));
            self.set_devices_of(&format!("n{at}"), &devices(at));
        }
    }
}

/// A cached decision judges one of several nodes with equal devices, and a full evaluation each of them.
#[test]
fn comparison_makes_no_more_steps_than_one_attempt_may() {
    const STEPS: u64 = 6_000;
    let mut cluster = Cluster::new(Limits { large: 8 * STEPS, ..SMALL });
    cluster.scheduler.verify_decisions(NonZeroU32::new(1));
    cluster.add_nodes(|_| vec![1, 2, 3, 4, 5, 6, 7, 0]);
    cluster.add_pod("pod", 4, 0, false);
    cluster.run();
    assert_eq!(cluster.allocated.len(), 1);
    assert_eq!((cluster.slices(), cluster.scheduler.stats().verified), (0, [0, 0]));
    assert!(cluster.longest > STEPS, "{} steps: the comparison was ended", cluster.longest);
    assert!(cluster.longest < 3 * STEPS, "{} steps at once", cluster.longest);
}

/// Searches that end without a pause do not exceed the limit of an attempt, whether they find devices or not.
#[test]
fn attempt_of_many_short_searches_needs_no_slices() {
    let mut cluster = Cluster::new(SMALL);
    cluster.add_nodes(|at| if at < 40 { (at * 8..at * 8 + 8).collect() } else { Vec::new() });
    cluster.apply(EXTENDED);
    cluster.run();
    assert!(
        matches!(&cluster.reports[..], [(_, Outcome::Placed { feasible: 41, .. })]),
        "{:?}",
        cluster.reports
    );
    assert_eq!(cluster.slices(), 0);
    assert!(cluster.longest > SMALL.large / 8, "{} steps", cluster.longest);
}

#[test]
fn comparison_in_idle_time_that_needs_too_many_steps_is_void() {
    for (steps, compared) in [(800, 0), (40_000, 1)] {
        let mut cluster = Cluster::new(Limits { large: 8 * steps, ..SMALL });
        cluster.scheduler.verify_decisions(None);
        cluster.add_nodes(|_| (0..8).collect());
        cluster.apply(EXTENDED);
        cluster.run();
        assert_eq!((cluster.reports.len(), cluster.slices()), (1, 0));
        let (now, mut cursor) = (cluster.now + Duration::from_secs(1), 0);
        assert!(cluster.scheduler.verify_one(now, &mut cursor, now), "a signature is live");
        assert_eq!(cluster.scheduler.stats().verified, [compared, 0], "with {steps} steps");
    }
}

/// As in builds with assertions.
#[test]
fn comparison_of_each_decision_is_made_to_its_end() {
    let mut cluster = Cluster::new(Limits { large: 8 * 800, ..SMALL });
    cluster.add_nodes(|_| (0..8).collect());
    cluster.apply(EXTENDED);
    cluster.run();
    assert!(cluster.longest > 800, "{} steps", cluster.longest);
    assert_eq!(cluster.scheduler.stats().verified, [1, 0]);
}

/// kube-scheduler 1.36 takes the counters of the first pool that it comes to for those of all pools of the same name.
#[test]
fn search_in_slices_mixes_up_counters_as_in_one_step() {
    let (mut one_step, mut sliced) = (Cluster::new(Limits::default()), Cluster::new(SMALL));
    for cluster in [&mut one_step, &mut sliced] {
        cluster.scheduler.tables().emulate(EmulatedVersion::V1_36);
        cluster.scheduler.tables().set_compat(Compat::Upstream);
        let units = |amount: &str| CounterSet {
            name: "set".into(),
            counters: [("units".into(), Amount::parse(amount).expect("a number is an amount"))].into(),
        };
        for (driver, first, amount) in [("gpu.example.com", 0, "3"), ("other.example.com", 10, "100")] {
            let device = |at: usize| Device { consumes: [units("1")].into(), ..numbered(at) };
            let devices = (first..first + 6).map(device).collect();
            for (part, devices, counters) in
                [("devices", devices, Vec::new()), ("counters", Vec::new(), vec![units(amount)])]
            {
                let tables = cluster.scheduler.tables();
                let slice = ResourceSlice {
                    name: tables.symbol(&format!("{driver}-{part}")),
                    pool: PoolId { driver: driver.into(), name: "a".into() },
                    generation: 2,
                    slices: 2,
                    reach: Reach::Node(tables.symbol("a")),
                    devices: devices.into(),
                    counters: counters.into(),
                };
                cluster.handle(Event::StorageApplied(StorageObject::ResourceSlice(slice.into())));
            }
        }
        cluster.add_pod("pod", 4, 15, false);
        cluster.run();
    }
    assert_eq!(format!("{:?}", sliced.reports), format!("{:?}", one_step.reports));
    assert_eq!(sliced.allocated, one_step.allocated);
    assert!(sliced.slices() > 10, "{} slices", sliced.slices());
}
