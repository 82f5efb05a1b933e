//! Devices that several claims may share.

use crate::support::run::decide;
use crate::support::{Plugins, TestCluster, devices, language, storage};
use std::sync::Arc;
use supercargo_core::model::device::{
    AllocatedDevice, Allocation, AllocationMode, ClaimSpec, Device, DeviceCapacity, DeviceId, DeviceRequest,
    PodClaim, PodClaimSource, PoolId, Reach, Request, RequestKind, ResourceClaim, ResourceSlice,
};
use supercargo_core::model::pod::PodInfo;
use supercargo_core::model::quantity::Amount;
use supercargo_core::model::volume::StorageObject;
use supercargo_core::plugins::dynamic_resources::DynamicResources;

fn amount(value: i64) -> Amount {
    Amount::parse(&value.to_string()).expect("a number is an amount")
}

fn memory(value: i64) -> Box<[(Arc<str>, Amount)]> {
    [("memory".into(), amount(value))].into()
}

fn pool() -> PoolId {
    PoolId { driver: "gpu.example.com".into(), name: "a".into() }
}

/// Judges a node with one device, which has a memory of 10 and may be shared; another claim has `used` of it. The pod's
/// claim requests this number of devices with so much memory each.
fn judged(used: Option<i64>, count: i64, wanted: i64) -> String {
    let mut cluster = TestCluster::new();
    language::apply(&mut cluster, "node a");
    language::apply(&mut cluster, "device-class any");
    let class = cluster.tables.symbol("any");
    let capacity = DeviceCapacity { value: amount(10), policy: None };
    let device =
        Device { is_shareable: true, capacity: [("memory".into(), capacity)].into(), ..devices::device("d") };
    let slice = ResourceSlice {
        name: cluster.tables.symbol("slice"),
        pool: pool(),
        generation: 1,
        slices: 1,
        reach: Reach::Node(cluster.tables.symbol("a")),
        devices: [device].into(),
        counters: [].into(),
    };
    cluster.cache.volumes_mut().apply(StorageObject::ResourceSlice(slice.into()));
    if let Some(used) = used {
        let id = DeviceId { pool: pool(), device: "d".into() };
        let share = AllocatedDevice {
            share: Some("share".into()),
            consumed: memory(used),
            ..AllocatedDevice::whole("r", id)
        };
        let allocation = Allocation { results: vec![share], ..Allocation::default() };
        let other = storage::devices_claim(&mut cluster.tables, "other");
        let other = ResourceClaim { allocation: Some(allocation.into()), ..other };
        cluster.cache.volumes_mut().apply(StorageObject::ResourceClaim(other.into()));
    }
    let request = DeviceRequest {
        mode: AllocationMode::ExactCount(count),
        has_capacity: true,
        capacity: memory(wanted),
        ..devices::request("r", class)
    };
    let request = Request { name: "r".into(), kind: RequestKind::Exactly(request) };
    let spec = ClaimSpec { requests: [request].into(), ..ClaimSpec::default() };
    let claim = storage::devices_claim(&mut cluster.tables, "claim");
    let claim = ResourceClaim { spec: spec.into(), ..claim };
    cluster.cache.volumes_mut().apply(StorageObject::ResourceClaim(claim.into()));
    let name = cluster.tables.symbol("claim");
    let mut pod = PodInfo::clone(&cluster.pod_from("p"));
    pod.claims = [PodClaim { name: "c".into(), source: PodClaimSource::Named(name) }].into();
    cluster.cache.refresh();
    let mut plugins = Plugins::default();
    plugins.filter(DynamicResources::default());
    decide(&cluster, &plugins, &pod)
}

#[test]
fn claims_share_a_device_up_to_its_capacity_and_one_request_gets_different_devices() {
    const FITS: &str = "a: fits\n";
    const REJECTED: &str = "a: DynamicResources UnschedulableAndUnresolvable: cannot allocate all claims\n";
    for (used, count, wanted, expected) in [
        (None, 1, 10, FITS),
        (None, 1, 11, REJECTED),
        (Some(4), 1, 6, FITS),
        (Some(4), 1, 7, REJECTED),
        (None, 2, 5, REJECTED),
    ] {
        assert_eq!(judged(used, count, wanted), expected, "{count} times {wanted}, {used:?} in use");
    }
}
