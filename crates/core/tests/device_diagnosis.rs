//! Why the devices of a node do not satisfy a pod's claims, as explanations show it.

mod support;

use supercargo_core::model::device::{
    ClaimSpec, Constraint, ConstraintKind, CounterSet, Device, DeviceRequest, DeviceTaint, DeviceToleration,
    PodClaim, PodClaimSource, PoolId, Reach, Request, RequestKind, ResourceClaim, ResourceSlice,
};
use supercargo_core::model::emulation::EmulatedVersion;
use supercargo_core::model::intern::{Symbol, Tables};
use supercargo_core::model::pod::PodInfo;
use supercargo_core::model::quantity::{Amount, Quantity};
use supercargo_core::model::volume::StorageObject;
use supercargo_core::plugins::dynamic_resources::diagnosis::{Diagnosis, Hindrance, diagnose};
use support::devices::{self, request};
use support::{TestCluster, language, storage};

fn amount(value: i64) -> Amount {
    Amount::parse(&value.to_string()).expect("a number")
}

/// Returns a set of these counters.
fn counters(counters: &[(&str, i64)]) -> Box<[CounterSet]> {
    let counters = counters.iter().map(|&(name, value)| (name.into(), amount(value)));
    [CounterSet { name: "set".into(), counters: counters.collect() }].into()
}

fn device(name: &str, consumes: &[(&str, i64)]) -> Device {
    Device { consumes: counters(consumes), ..devices::device(name) }
}

/// Returns one of two slices of the pool `a` of a node.
fn slice(tables: &mut Tables, name: &str, node: &str) -> ResourceSlice {
    ResourceSlice {
        name: tables.symbol(name),
        pool: PoolId { driver: "gpu.example.com".into(), name: "a".into() },
        generation: 1,
        slices: 2,
        reach: Reach::Node(tables.symbol(node)),
        devices: [].into(),
        counters: [].into(),
    }
}

/// Returns a cluster of the nodes `a` and `b` with the device class `any`.
fn cluster() -> TestCluster {
    let mut cluster = TestCluster::new();
    ["node a cpu=4", "node b cpu=4", "device-class any"]
        .iter()
        .for_each(|line| language::apply(&mut cluster, line));
    cluster
}

/// Publishes the slices, and returns a pod with a claim for devices of the class.
fn pod_with_claim(
    cluster: &mut TestCluster,
    slices: Vec<ResourceSlice>,
    spec: impl Fn(Symbol) -> ClaimSpec,
) -> PodInfo {
    for slice in slices {
        cluster.cache.volumes_mut().apply(StorageObject::ResourceSlice(slice.into()));
    }
    let class = cluster.tables.symbol("any");
    let claim = storage::devices_claim(&mut cluster.tables, "claim");
    let source = PodClaimSource::Named(claim.name);
    let claim = ResourceClaim { spec: spec(class).into(), ..claim };
    cluster.cache.volumes_mut().apply(StorageObject::ResourceClaim(claim.into()));
    let mut pod = PodInfo::clone(&cluster.pod_from("p"));
    pod.claims = [PodClaim { name: "c".into(), source }].into();
    cluster.cache.refresh();
    pod
}

/// Returns a claim for a device of the class.
fn one_device(class: Symbol) -> ClaimSpec {
    let requests = [Request { name: "r".into(), kind: RequestKind::Exactly(request("r", class)) }].into();
    ClaimSpec { requests, ..ClaimSpec::default() }
}

/// Diagnoses a node whose pool has four of the counter `memory` and two of `slots`, for a pod with a claim.
fn diagnosed(devices: Vec<Device>, spec: impl Fn(Symbol) -> ClaimSpec) -> Diagnosis {
    let mut cluster = cluster();
    let tables = &mut cluster.tables;
    let of_devices = ResourceSlice { devices: devices.into(), ..slice(tables, "devices", "a") };
    let counters = counters(&[("memory", 4), ("slots", 2)]);
    let of_counters = ResourceSlice { counters, ..slice(tables, "counters", "a") };
    let pod = pod_with_claim(&mut cluster, vec![of_devices, of_counters], spec);
    diagnose(&pod, cluster.snapshot(), cluster.idx("a")).expect("the pod needs devices")
}

#[test]
fn each_alternative_is_judged_with_the_constraints_that_concern_it() {
    let constraint = |request: &str| Constraint {
        requests: [request.into()].into(),
        kind: ConstraintKind::Match("gpu.example.com/model".into()),
    };
    let diagnosis = diagnosed(vec![device("d", &[])], |class| ClaimSpec {
        requests: [
            Request {
                name: "r".into(),
                kind: RequestKind::FirstAvailable([request("best", class), request("other", class)].into()),
            },
            Request { name: "s".into(), kind: RequestKind::Exactly(request("s", class)) },
        ]
        .into(),
        constraints: [constraint("r/other"), constraint("s")].into(),
        config: [].into(),
    });
    assert_eq!(diagnosis.error, None);
    let requests = diagnosis.requests.iter().map(|request| {
        let constraints = request.constraints.iter().map(|&(at, _)| at).collect::<Vec<_>>();
        (&*request.request, request.alternative.as_deref(), constraints)
    });
    let expected = [("r", Some("best"), vec![]), ("r", Some("other"), vec![0]), ("s", None, vec![1])];
    assert_eq!(requests.collect::<Vec<_>>(), expected);
}

#[test]
fn counter_that_a_device_lacks_is_named_with_its_amounts() {
    let devices = vec![
        device("fits", &[("memory", 4), ("slots", 2)]),
        device("large", &[("memory", 8), ("slots", 1)]),
        device("wide", &[("memory", 1), ("slots", 3)]),
    ];
    let diagnosis = diagnosed(devices, one_device);
    let lacks = |name: &str, wanted: i64, total: i64| {
        let [wanted, total]: [Quantity; 2] = [wanted, total].map(|value| amount(value).quantity);
        Some(Hindrance::Counter { set: "set".into(), name: name.into(), wanted, free: total, total })
    };
    let found: Vec<_> =
        diagnosis.requests[0].devices.iter().map(|(id, why)| (&*id.device, why.clone())).collect();
    let expected = [("fits", None), ("large", lacks("memory", 8, 4)), ("wide", lacks("slots", 3, 2))];
    assert_eq!(found, expected);
}

#[test]
fn taint_that_repels_and_is_not_tolerated_is_named() {
    let taint =
        |key: &str, effect: &str| DeviceTaint { key: key.into(), value: "".into(), effect: effect.into() };
    let tainted = |name: &str, taints: &[DeviceTaint]| Device { taints: taints.into(), ..device(name, &[]) };
    let devices = vec![
        tainted("tolerated", &[taint("known", "NoSchedule")]),
        tainted("harmless", &[taint("other", "None")]),
        tainted("both", &[taint("known", "NoExecute"), taint("other", "NoExecute")]),
    ];
    let tolerations =
        [DeviceToleration { key: "known".into(), operator: "Exists".into(), ..Default::default() }];
    let diagnosis = diagnosed(devices, |class| {
        let request = DeviceRequest { tolerations: tolerations.clone().into(), ..request("r", class) };
        let requests = [Request { name: "r".into(), kind: RequestKind::Exactly(request) }].into();
        ClaimSpec { requests, ..ClaimSpec::default() }
    });
    let found: Vec<_> =
        diagnosis.requests[0].devices.iter().map(|(id, why)| (&*id.device, why.clone())).collect();
    let repelled = Some(Hindrance::Taint(taint("other", "NoExecute")));
    assert_eq!(found, [("tolerated", None), ("harmless", None), ("both", repelled)]);
}

/// A node whose pool is published in part: its counters, but not its devices. In 1.36, a slice with counters concerns
/// every node.
#[test]
fn pool_without_all_of_its_slices_is_incomplete_on_the_nodes_that_its_counters_concern() {
    let mut cluster = cluster();
    let counters = counters(&[("memory", 4)]);
    let of_counters = ResourceSlice { counters, ..slice(&mut cluster.tables, "counters", "a") };
    let pool = of_counters.pool.clone();
    let pod = pod_with_claim(&mut cluster, vec![of_counters], one_device);
    for (version, concerned) in
        [(EmulatedVersion::V1_36, [true, true]), (EmulatedVersion::V1_37, [true, false])]
    {
        cluster.tables.emulate(version);
        let unusable = ["a", "b"].map(|node| {
            let diagnosis = diagnose(&pod, cluster.snapshot(), cluster.idx(node));
            diagnosis.expect("the pod needs devices").unusable_pools
        });
        let incomplete = vec![(pool.clone(), true)];
        let expected = concerned.map(|is| if is { incomplete.clone() } else { Vec::new() });
        assert_eq!(unusable, expected, "{version}");
    }
}

/// Until 1.36, a slice with counters concerns every node, so that devices of other nodes can consume them.
#[test]
fn devices_may_consume_counters_that_are_published_for_another_node() {
    let mut cluster = cluster();
    let tables = &mut cluster.tables;
    let counters = counters(&[("memory", 4)]);
    let of_counters = ResourceSlice { counters, ..slice(tables, "counters", "a") };
    let devices = [device("d", &[("memory", 1)])].into();
    let of_devices = ResourceSlice { devices, ..slice(tables, "devices", "b") };
    let pod = pod_with_claim(&mut cluster, vec![of_counters, of_devices], one_device);
    for version in [EmulatedVersion::V1_36, EmulatedVersion::V1_37] {
        cluster.tables.emulate(version);
        let diagnosis = diagnose(&pod, cluster.snapshot(), cluster.idx("b")).expect("the pod needs devices");
        assert!(diagnosis.unusable_pools.is_empty(), "{version}: {:?}", diagnosis.unusable_pools);
    }
}
