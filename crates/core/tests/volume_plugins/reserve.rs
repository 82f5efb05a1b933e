//! Reservations of claims and volumes: their content, their visibility to other pods, and their lifetime.

use crate::support::{TestCluster, storage};
use std::sync::Arc;
use supercargo_core::cache::Overlay;
use supercargo_core::framework::{CycleError, FilterPlugin, FilterRule, Prepared, Verdict};
use supercargo_core::model::pod::Uid;
use supercargo_core::model::volume::Reservation;
use supercargo_core::plugins::node_volume_limits::NodeVolumeLimits;
use supercargo_core::plugins::volume_binding::VolumeBinding;
use supercargo_core::plugins::volume_restrictions::VolumeRestrictions;

fn cluster(lines: &[&str]) -> TestCluster {
    let mut cluster = TestCluster::new();
    lines.iter().for_each(|line| crate::support::language::apply(&mut cluster, line));
    cluster
}

fn rule(cluster: &mut TestCluster, plugin: &impl FilterPlugin, pod: &str) -> Box<dyn FilterRule> {
    let pod = cluster.pod_from(pod);
    match plugin.prepare(&pod, cluster.snapshot()) {
        Prepared::Run { rule, .. } => rule,
        _ => panic!("{} has nothing to judge", plugin.name()),
    }
}

fn reserved(cluster: &mut TestCluster, pod: &str, node: &str) -> Vec<Reservation> {
    let rule = rule(cluster, &VolumeBinding, pod);
    rule.reserve(&cluster.snapshot().node(cluster.idx(node))).expect("nothing is refused")
}

/// Formats reservations: `v <- c` for a claim's volume, `v <= c` if it was reserved before, `c @ a` for one to be
/// provisioned.
fn claim_state(cluster: &mut TestCluster, pod: &str, node: &str) -> Vec<String> {
    let reserved = reserved(cluster, pod, node);
    let text = |symbol| cluster.tables.text(symbol).to_owned();
    let claim_state = |reservation: &Reservation| match reservation {
        Reservation::Bind { volume, claim, by_controller } => {
            assert!(claim.uid.is_some(), "a binding names the very claim");
            let arrow = if *by_controller { "<-" } else { "<=" };
            format!("{} {arrow} {}", text(*volume), text(claim.name))
        }
        Reservation::Provision { name, node, .. } => format!("{} @ {}", text(*name), text(*node)),
        other => unreachable!("not of a volume: {other:?}"),
    };
    reserved.iter().map(claim_state).collect()
}

fn fits(cluster: &mut TestCluster, pod: &str, node: &str) -> bool {
    let rule = rule(cluster, &VolumeBinding, pod);
    rule.check(&cluster.snapshot().node(cluster.idx(node))) == Verdict::Fits
}

#[test]
fn bound_claims_need_no_write() {
    let mut cluster = cluster(&["node a", "pv v", "pvc c bound=v"]);
    assert!(reserved(&mut cluster, "x claim=c", "a").is_empty());
}

#[test]
fn claims_are_bound_or_provisioned_one_by_one() {
    let mut cluster = cluster(&[
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
    let claim_state =
        claim_state(&mut cluster, "x claim=one claim=two claim=third claim=four claim=five", "a");
    assert_eq!(claim_state, ["mine <= third", "small <- two", "large <- one", "five @ a", "four @ a"]);
}

#[test]
fn equal_volumes_are_chosen_by_name() {
    let mut cluster = cluster(&[
        "node a",
        "class hand",
        "pv v9 class=hand size=2Gi",
        "pv v1 class=hand size=2Gi at=host=a",
        "pv v5 class=hand size=2Gi",
        "pvc c class=hand size=1Gi",
    ]);
    assert_eq!(claim_state(&mut cluster, "x claim=c", "a"), ["v1 <- c"]);
}

#[test]
fn every_node_is_matched_to_its_own_volume() {
    let mut cluster = cluster(&["class hand", "pvc c class=hand size=1Gi"]);
    for at in 0..20 {
        crate::support::language::apply(&mut cluster, &format!("node n{at:02}"));
        let line =
            format!("pv v{at:02} class=hand size={}Gi at=host:in:n{at:02},n{:02}", 40 - at, (at + 1) % 20);
        crate::support::language::apply(&mut cluster, &line);
    }
    for at in 0..20_usize {
        // Of the two accessible volumes, the smaller one: that with the node's number, except for the first node.
        let expected = if at == 0 { "v19 <- c".to_owned() } else { format!("v{at:02} <- c") };
        assert_eq!(claim_state(&mut cluster, "x claim=c", &format!("n{at:02}")), [expected]);
    }
}

#[test]
fn assumed_volume_is_unavailable_to_other_claims_until_released() {
    let mut cluster =
        cluster(&["node a", "class hand", "pv v class=hand", "pvc c class=hand", "pvc d class=hand"]);
    let held = reserved(&mut cluster, "x claim=c", "a");
    let x: Uid = "x".into();
    cluster.cache.assume_volumes(&cluster.tables, &x, held.clone());
    assert!(!fits(&mut cluster, "y claim=d", "a"));
    assert!(fits(&mut cluster, "y claim=c", "a"), "a second pod of the claim shares the volume");
    assert_eq!(cluster.cache.forget_volumes("x"), held);
    assert!(fits(&mut cluster, "y claim=d", "a"));
    assert!(cluster.cache.forget_volumes("x").is_empty());
}

#[test]
fn claim_to_be_provisioned_on_a_node_binds_other_pods_to_that_node() {
    let mut cluster = cluster(&["node a", "node b", "class fast of=csi.x", "pvc c class=fast"]);
    let held = reserved(&mut cluster, "x claim=c", "a");
    cluster.cache.assume_volumes(&cluster.tables, &"x".into(), held);
    assert!(fits(&mut cluster, "y claim=c", "a") && !fits(&mut cluster, "y claim=c", "b"));
}

#[test]
fn claim_assumed_by_two_pods_is_held_until_both_release_it() {
    let mut cluster = cluster(&[
        "node a",
        "node b",
        "class fast of=csi.x",
        "class hand",
        "pv v class=hand",
        "pvc c class=fast",
    ]);
    crate::support::language::apply(&mut cluster, "pvc d class=hand");
    crate::support::language::apply(&mut cluster, "pvc e class=hand");
    for uid in ["x", "y"] {
        let held = reserved(&mut cluster, &format!("{uid} claim=c claim=d"), "a");
        cluster.cache.assume_volumes(&cluster.tables, &uid.into(), held);
    }
    cluster.cache.forget_volumes("x");
    assert!(!fits(&mut cluster, "z claim=c", "b") && !fits(&mut cluster, "z claim=e", "a"));
    cluster.cache.forget_volumes("y");
    assert!(fits(&mut cluster, "z claim=c", "b") && fits(&mut cluster, "z claim=e", "a"));
}

#[test]
fn newer_version_replaces_assumed_state_and_the_same_version_does_not() {
    let mut cluster = cluster(&["node a", "node b", "class fast of=csi.x", "pvc c class=fast"]);
    let held = reserved(&mut cluster, "x claim=c", "a");
    cluster.cache.assume_volumes(&cluster.tables, &"x".into(), held);
    assert!(storage::apply(&mut cluster, "pvc c class=fast"));
    assert!(!fits(&mut cluster, "y claim=c", "b"), "a list that repeats it changes nothing");
    assert!(storage::apply(&mut cluster, "pvc c class=fast version=2"));
    assert!(fits(&mut cluster, "y claim=c", "b"));
    // The reservation does not include the newer state, so its release does not revert it.
    assert!(storage::apply(&mut cluster, "pvc c class=fast version=3 selected=a"));
    cluster.cache.forget_volumes("x");
    assert!(!fits(&mut cluster, "y claim=c", "b"));
}

#[test]
fn read_write_once_pod_claim_is_available_to_a_preemptor_of_its_user() {
    let mut cluster = cluster(&["node a", "node b", "pvc c modes=RWOP", "pvc c ns=other"]);
    let user = cluster.pod_from("p on=a claim=c");
    let namesake = cluster.pod_from("q ns=other on=b claim=c");
    cluster.place(&user);
    cluster.place(&namesake);
    let rule = rule(&mut cluster, &VolumeRestrictions, "x claim=c");
    let verdict = |node: &str, gone: &Arc<_>, come: &[&Arc<_>]| {
        let mut overlay = Overlay::new();
        overlay.remove(gone);
        come.iter().for_each(|pod| overlay.add(pod));
        rule.check(&cluster.snapshot().node(cluster.idx(node)).with(&overlay)) == Verdict::Fits
    };
    assert!(verdict("a", &user, &[]));
    assert!(!verdict("a", &user, &[&namesake]), "a nominated pod with the claim takes its place");
    // As upstream: the claim with the same name in another namespace is mistaken for it.
    assert!(verdict("b", &namesake, &[]));
}

#[test]
fn first_of_several_failing_nodes_gives_the_error() {
    let mut cluster = cluster(&[
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
    let rule = rule(&mut cluster, &NodeVolumeLimits, "x claim=d");
    let mut nodes = cluster.snapshot().nodes().clone();
    let CycleError(text) = rule.filter(cluster.snapshot(), &mut nodes).expect_err("claims of others");
    assert_eq!(text, "PVC default/p-e was not created for pod default/p (pod is not owner)");
}
