//! Effects of disabled extension points beyond one decision. Decisions are tested by the golden family `points`.

mod support;

use supercargo_core::cycle::{Decision, Framework, NoProbe, Options};
use supercargo_core::framework::extension_point::ExtensionPoint;
use supercargo_core::registry::Plan;
use support::TestCluster;

#[test]
fn gate_blocks_pod_only_if_scheduling_gates_is_enabled_at_pre_enqueue() {
    let mut cluster = TestCluster::new();
    let (gated, free) = (cluster.pod("gated").gate("wait").build(), cluster.pod("free").build());
    let snapshot = cluster.snapshot();
    let framework = Framework::default();
    assert_eq!(framework.gate(&gated, snapshot), Some("SchedulingGates"));
    assert_eq!(framework.gate(&free, snapshot), None);

    let mut plan = Plan::default();
    let before_queue = plan.points.get_mut(&ExtensionPoint::PreEnqueue).expect("the default plugins have it");
    before_queue.retain(|name| *name != "SchedulingGates");
    assert_eq!(Framework::new(&plan).gate(&gated, snapshot), None);
}

/// Without Reserve, upstream assumes nothing, so that the next pod gets the same volume.
#[test]
fn volumes_are_reserved_even_if_reserve_is_disabled() {
    let mut cluster = TestCluster::new();
    for line in ["node a", "class fast", "pv v class=fast", "pvc c class=fast"] {
        support::language::apply(&mut cluster, line);
    }
    let mut plan = Plan::default();
    plan.points.insert(ExtensionPoint::Reserve, Vec::new());
    let pod = cluster.pod_from("x claim=c");
    let framework = Framework::new(&plan);
    let decided = framework.decide(&pod, cluster.snapshot(), Options::default(), &mut NoProbe);
    let Ok(Decision::Feasible(feasible)) = decided else { panic!("the volume is reserved") };
    let node = cluster.idx("a");
    assert_eq!(feasible.filtered.reserve(cluster.snapshot(), node).expect("nothing is refused").len(), 1);
}
