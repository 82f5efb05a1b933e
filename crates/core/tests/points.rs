//! What a profile's points mean beyond one decision; decisions are in the golden family `points`.

mod support;

use supercargo_core::cycle::Framework;
use supercargo_core::framework::registry::{ExtensionPoint, Plan};
use support::World;

#[test]
fn a_gate_holds_a_pod_only_where_scheduling_gates_runs_before_the_queue() {
    let mut world = World::new();
    let (gated, free) = (world.pod("gated").gate("wait").build(), world.pod("free").build());
    let tables = world.snapshot();
    let framework = Framework::default();
    assert_eq!(framework.gate(&gated, tables.tables()), Some("SchedulingGates"));
    assert_eq!(framework.gate(&free, tables.tables()), None);

    let mut plan = Plan::default();
    let before_queue = plan.points.get_mut(&ExtensionPoint::PreEnqueue).expect("the default plugins have it");
    before_queue.retain(|name| *name != "SchedulingGates");
    assert_eq!(Framework::new(&plan).gate(&gated, tables.tables()), None);
}
