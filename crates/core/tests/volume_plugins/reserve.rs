//! Reservations of claims and volumes: their content, their visibility to other pods, and their lifetime.

use crate::support::{World, storage};
use std::sync::Arc;
use supercargo_core::cache::Overlay;
use supercargo_core::framework::{CycleError, FilterPlugin, FilterRule, Prepared, Verdict};
use supercargo_core::plugins::node_volume_limits::NodeVolumeLimits;
use supercargo_core::plugins::volume_binding::VolumeBinding;
use supercargo_core::plugins::volume_restrictions::VolumeRestrictions;
use supercargo_core::pod::Uid;
use supercargo_core::volume::Reservation;

fn world(lines: &[&str]) -> World {
    let mut world = World::new();
    lines.iter().for_each(|line| crate::support::language::apply(&mut world, line));
    world
}

fn rule(world: &mut World, plugin: &impl FilterPlugin, pod: &str) -> Box<dyn FilterRule> {
    let pod = world.pod_from(pod);
    match plugin.prepare(&pod, world.snapshot()) {
        Prepared::Run { rule, .. } => rule,
        _ => panic!("{} has nothing to judge", plugin.name()),
    }
}

fn reserved(world: &mut World, pod: &str, node: &str) -> Vec<Reservation> {
    let rule = rule(world, &VolumeBinding, pod);
    rule.reserve(&world.snapshot().node(world.idx(node))).expect("nothing is refused")
}

/// Formats reservations: `v <- c` for a claim's volume, `v <= c` if it was reserved before, `c @ a` for one to be
/// provisioned.
fn told(world: &mut World, pod: &str, node: &str) -> Vec<String> {
    let reserved = reserved(world, pod, node);
    let text = |symbol| world.tables.text(symbol).to_owned();
    let told = |reservation: &Reservation| match reservation {
        Reservation::Bind { volume, claim, by_controller } => {
            assert!(claim.uid.is_some(), "a binding names the very claim");
            let arrow = if *by_controller { "<-" } else { "<=" };
            format!("{} {arrow} {}", text(*volume), text(claim.name))
        }
        Reservation::Provision { name, node, .. } => format!("{} @ {}", text(*name), text(*node)),
    };
    reserved.iter().map(told).collect()
}

fn fits(world: &mut World, pod: &str, node: &str) -> bool {
    let rule = rule(world, &VolumeBinding, pod);
    rule.check(&world.snapshot().node(world.idx(node))) == Verdict::Fits
}

#[test]
fn bound_claims_need_nothing() {
    let mut world = world(&["node a", "pv v", "pvc c bound=v"]);
    assert!(reserved(&mut world, "x claim=c", "a").is_empty());
}

#[test]
fn volumes_are_bound_and_made_claim_by_claim() {
    let mut world = world(&[
        "node a",
        "class hand",
        "class fast of=csi.x",
        "pv small class=hand size=1Gi",
        "pv large class=hand size=9Gi",
        "pv mine class=hand size=9Gi for=default/third",
        "pvc one class=hand size=5Gi",
        "pvc two class=hand size=1Gi",
        "pvc third class=hand",
        "pvc four class=fast",
        "pvc five class=fast selected=a",
    ]);
    let told = told(&mut world, "x claim=one claim=two claim=third claim=four claim=five", "a");
    assert_eq!(told, ["mine <= third", "small <- two", "large <- one", "five @ a", "four @ a"]);
}

#[test]
fn of_equal_volumes_the_one_with_the_smallest_name_is_taken() {
    let mut world = world(&[
        "node a",
        "class hand",
        "pv v9 class=hand size=2Gi",
        "pv v1 class=hand size=2Gi at=host=a",
        "pv v5 class=hand size=2Gi",
        "pvc c class=hand size=1Gi",
    ]);
    assert_eq!(told(&mut world, "x claim=c", "a"), ["v1 <- c"]);
}

#[test]
fn each_node_gets_its_own_volume_however_many_there_are() {
    let mut world = world(&["class hand", "pvc c class=hand size=1Gi"]);
    for at in 0..20 {
        crate::support::language::apply(&mut world, &format!("node n{at:02}"));
        let line =
            format!("pv v{at:02} class=hand size={}Gi at=host:in:n{at:02},n{:02}", 40 - at, (at + 1) % 20);
        crate::support::language::apply(&mut world, &line);
    }
    for at in 0..20_usize {
        // Of the two accessible volumes, the smaller one: that with the node's number, except for the first node.
        let expected = if at == 0 { "v19 <- c".to_owned() } else { format!("v{at:02} <- c") };
        assert_eq!(told(&mut world, "x claim=c", &format!("n{at:02}")), [expected]);
    }
}

#[test]
fn a_volume_that_is_assumed_for_one_claim_is_gone_for_others_until_it_is_given_back() {
    let mut world =
        world(&["node a", "class hand", "pv v class=hand", "pvc c class=hand", "pvc d class=hand"]);
    let held = reserved(&mut world, "x claim=c", "a");
    let x: Uid = "x".into();
    world.cache.assume_volumes(&x, held.clone());
    assert!(!fits(&mut world, "y claim=d", "a"));
    assert!(fits(&mut world, "y claim=c", "a"), "a second pod of the claim shares the volume");
    assert_eq!(world.cache.forget_volumes("x"), held);
    assert!(fits(&mut world, "y claim=d", "a"));
    assert!(world.cache.forget_volumes("x").is_empty());
}

#[test]
fn a_claim_whose_volume_is_to_be_made_on_a_node_draws_other_pods_there() {
    let mut world = world(&["node a", "node b", "class fast of=csi.x", "pvc c class=fast"]);
    let held = reserved(&mut world, "x claim=c", "a");
    world.cache.assume_volumes(&"x".into(), held);
    assert!(fits(&mut world, "y claim=c", "a") && !fits(&mut world, "y claim=c", "b"));
}

#[test]
fn what_two_pods_assume_of_one_claim_lasts_until_both_let_go() {
    let mut world = world(&[
        "node a",
        "node b",
        "class fast of=csi.x",
        "class hand",
        "pv v class=hand",
        "pvc c class=fast",
    ]);
    crate::support::language::apply(&mut world, "pvc d class=hand");
    crate::support::language::apply(&mut world, "pvc e class=hand");
    for uid in ["x", "y"] {
        let held = reserved(&mut world, &format!("{uid} claim=c claim=d"), "a");
        world.cache.assume_volumes(&uid.into(), held);
    }
    world.cache.forget_volumes("x");
    assert!(!fits(&mut world, "z claim=c", "b") && !fits(&mut world, "z claim=e", "a"));
    world.cache.forget_volumes("y");
    assert!(fits(&mut world, "z claim=c", "b") && fits(&mut world, "z claim=e", "a"));
}

#[test]
fn a_newer_version_from_the_api_server_takes_the_place_of_what_was_assumed_and_the_same_one_does_not() {
    let mut world = world(&["node a", "node b", "class fast of=csi.x", "pvc c class=fast"]);
    let held = reserved(&mut world, "x claim=c", "a");
    world.cache.assume_volumes(&"x".into(), held);
    assert!(storage::apply(&mut world, "pvc c class=fast"));
    assert!(!fits(&mut world, "y claim=c", "b"), "a list that repeats it changes nothing");
    assert!(storage::apply(&mut world, "pvc c class=fast version=2"));
    assert!(fits(&mut world, "y claim=c", "b"));
    // The reservation does not include the newer state, so its release does not revert it.
    assert!(storage::apply(&mut world, "pvc c class=fast version=3 selected=a"));
    world.cache.forget_volumes("x");
    assert!(!fits(&mut world, "y claim=c", "b"));
}

#[test]
fn a_claim_for_one_pod_is_free_for_who_would_preempt_its_user_and_counts_by_name_alone() {
    let mut world = world(&["node a", "node b", "pvc c modes=RWOP", "pvc c ns=other"]);
    let user = world.pod_from("p on=a claim=c");
    let namesake = world.pod_from("q ns=other on=b claim=c");
    world.place(&user);
    world.place(&namesake);
    let rule = rule(&mut world, &VolumeRestrictions, "x claim=c");
    let verdict = |node: &str, gone: &Arc<_>, come: &[&Arc<_>]| {
        let mut overlay = Overlay::new();
        overlay.remove(gone);
        come.iter().for_each(|pod| overlay.add(pod));
        rule.check(&world.snapshot().node(world.idx(node)).with(&overlay)) == Verdict::Fits
    };
    assert!(verdict("a", &user, &[]));
    assert!(!verdict("a", &user, &[&namesake]), "a nominated pod with the claim takes its place");
    // As upstream: the claim with the same name in another namespace is mistaken for it.
    assert!(verdict("b", &namesake, &[]));
}

#[test]
fn of_several_nodes_that_end_the_cycle_the_first_one_tells() {
    let mut world = world(&[
        "node a",
        "node b",
        "csinode a d=1",
        "csinode b d=1",
        "class fast of=d",
        "pvc d class=fast",
        "pvc p-e class=fast owner=other",
        "pvc q-e class=fast owner=other",
        "pod p on=a ephemeral=e",
        "pod q on=b ephemeral=e",
    ]);
    let rule = rule(&mut world, &NodeVolumeLimits, "x claim=d");
    let mut nodes = world.snapshot().nodes().clone();
    let CycleError(text) = rule.filter(world.snapshot(), &mut nodes).expect_err("claims of others");
    assert_eq!(text, "PVC default/p-e was not created for pod default/p (pod is not owner)");
}
