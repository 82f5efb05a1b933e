//! Plugins for volumes and node features: tables, hints, property tests, reservations, and their use by the
//! scheduler.

mod support;

#[path = "volume_plugins/hints.rs"]
mod hints;
#[path = "volume_plugins/laws.rs"]
mod laws;
#[path = "volume_plugins/reserve.rs"]
mod reserve;
#[path = "volume_plugins/scheduler.rs"]
mod scheduler;

use supercargo_core::model::intern::Tables;
use supercargo_core::plugins::node_declared_features::NodeDeclaredFeatures;
use supercargo_core::plugins::node_volume_limits::NodeVolumeLimits;
use supercargo_core::plugins::shape::ShapePoint;
use supercargo_core::plugins::volume_binding::{StorageScore, VolumeBinding};
use supercargo_core::plugins::volume_restrictions::VolumeRestrictions;
use supercargo_core::plugins::volume_zone::VolumeZone;
use support::{Plugins, TestCluster, language, table};

fn plugins(word: &str, _tables: &mut Tables, to: &mut Plugins) {
    match word {
        "NodeDeclaredFeatures" => to.filter(NodeDeclaredFeatures),
        "NodeVolumeLimits" => to.filter(NodeVolumeLimits),
        "StorageScore" => {
            let shape = [(0, 0), (100, 10)].map(|(utilization, score)| ShapePoint { utilization, score });
            to.score(StorageScore::new(shape.into(), true, true));
        }
        "VolumeBinding" => to.filter(VolumeBinding),
        "VolumeRestrictions" => to.filter(VolumeRestrictions),
        "VolumeZone" => to.filter(VolumeZone),
        other => panic!("no plugin {other:?} here"),
    }
}

#[test]
fn volume_binding_filters_as_upstream() {
    table::check_file("volume-binding.txt", &plugins);
}

#[test]
fn storage_capacity_is_scored_as_upstream() {
    table::check_file("storage-score.txt", &plugins);
}

#[test]
fn volume_zone_filters_as_upstream() {
    table::check_file("volume-zone.txt", &plugins);
}

#[test]
fn volume_restrictions_filter_as_upstream() {
    table::check_file("volume-restrictions.txt", &plugins);
}

#[test]
fn node_volume_limits_filter_as_upstream() {
    table::check_file("node-volume-limits.txt", &plugins);
}

#[test]
fn node_declared_features_filters_as_upstream() {
    table::check_file("node-declared-features.txt", &plugins);
}

#[test]
fn claim_is_in_use_until_the_last_of_its_pods_leaves() {
    let mut cluster = TestCluster::new();
    ["node a cpu=4", "pod p on=a claim=c", "pod q on=a claim=c", "pod r on=a claim=d"]
        .iter()
        .for_each(|line| language::apply(&mut cluster, line));
    let in_use = |cluster: &TestCluster| {
        let held = cluster.cache.held();
        held.iter().find(|(what, _)| *what == "claims in use").map(|(_, count)| *count)
    };
    assert_eq!(in_use(&cluster), Some(2));
    for (pod, left) in [("p", 2), ("q", 1), ("r", 0)] {
        cluster.cache.remove_pod(pod);
        assert_eq!(in_use(&cluster), Some(left), "after {pod}");
    }
}

/// The row in FIDELITY.md: a volume that several pods of a node use counts once, through one claim or two.
#[test]
fn volume_shared_by_pods_of_a_node_counts_once() {
    let table = "
        with NodeVolumeLimits
        == claims without volumes count by themselves
        node a
        csinode a csi.x=1
        class fast of=csi.x
        pvc c class=fast
        pvc d class=fast
        pod p on=a claim=c
        schedule same claim=c
        schedule other claim=d
        ----
        same
        a: fits
        other
        a: NodeVolumeLimits Unschedulable: node(s) exceed max volume count
    ";
    table::check(table, &plugins);
}
