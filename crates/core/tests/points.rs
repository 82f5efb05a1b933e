//! Effects of disabled extension points beyond one decision. Decisions are tested by the golden family `points`.

mod support;

use supercargo_core::cycle::{Decision, Framework, NoProbe, Options};
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

/// Without Reserve, upstream assumes nothing, so that the next pod gets the same volume.
#[test]
fn volumes_are_reserved_where_reserve_is_off_too() {
    let mut world = World::new();
    for line in ["node a", "class fast", "pv v class=fast", "pvc c class=fast"] {
        support::language::apply(&mut world, line);
    }
    let mut plan = Plan::default();
    plan.points.insert(ExtensionPoint::Reserve, Vec::new());
    let pod = world.pod_from("x claim=c");
    let framework = Framework::new(&plan);
    let decided = framework.decide(&pod, world.snapshot(), Options::default(), &mut NoProbe);
    let Ok(Decision::Feasible(feasible)) = decided else { panic!("the volume is there") };
    let node = world.idx("a");
    assert_eq!(feasible.filtered.reserve(world.snapshot(), node).expect("nothing is refused").len(), 1);
}
