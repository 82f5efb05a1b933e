//! Verdicts with overlays, as for nominated pods and the dry runs of preemption.

use crate::support::World;
use supercargo_core::cache::Overlay;
use supercargo_core::framework::{FilterPlugin, FilterRule, Prepared, Verdict};
use supercargo_core::plugins::inter_pod_affinity::InterPodAffinity;
use supercargo_core::plugins::pod_topology_spread::PodTopologySpread;
use supercargo_core::pod::PodInfo;

const OVER_SKEW: &str = "node(s) didn't match pod topology spread constraints";

fn world(nodes: &[&str], pods: &[&str]) -> World {
    let mut world = World::new();
    for words in nodes {
        let node = world.node_from(words);
        world.add_node(&node);
    }
    for words in pods {
        let pod = world.pod_from(words);
        world.place(&pod);
    }
    world
}

fn rule(plugin: &dyn FilterPlugin, world: &World, pod: &PodInfo) -> Option<Box<dyn FilterRule>> {
    match plugin.prepare(pod, world.snapshot()) {
        Prepared::Run { rule, .. } => Some(rule),
        Prepared::Skip => None,
        Prepared::Rejected(rejection) => panic!("{rejection:?}"),
        Prepared::Failed(error) => panic!("{error:?}"),
    }
}

/// Returns the plugin's verdict on `node` for the pod, with some pods added and the named ones removed.
fn under(
    plugin: &dyn FilterPlugin,
    world: &mut World,
    pod: &str,
    (node, added, removed): (&str, &[&str], &[&str]),
) -> String {
    let pod = world.pod_from(pod);
    let added: Vec<_> = added.iter().map(|words| world.pod_from(words)).collect();
    let snapshot = world.snapshot();
    let mut overlay = Overlay::new();
    added.iter().for_each(|pod| overlay.add(pod));
    for name in removed {
        overlay.remove(world.cache.placed(name).expect("the pod is placed").0);
    }
    let rule = rule(plugin, world, &pod).expect("the plugin does not skip");
    match rule.check(&snapshot.node(world.idx(node)).with(&overlay)) {
        Verdict::Fits => "fits".to_owned(),
        Verdict::Rejected(rejection) => rejection.message(),
        Verdict::Failed(error) => error.0,
    }
}

fn spread(world: &mut World, pod: &str, change: (&str, &[&str], &[&str])) -> String {
    under(&PodTopologySpread::default(), world, pod, change)
}

fn affinity(world: &mut World, pod: &str, change: (&str, &[&str], &[&str])) -> String {
    under(&InterPodAffinity::default(), world, pod, change)
}

#[test]
fn a_nominated_pod_takes_its_place_in_the_domain() {
    let mut world = world(&["a zone=z1", "b zone=z2", "c zone=z2"], &[]);
    let x = "x label:app=web spread=zone/1/DoNotSchedule/app=web";
    assert_eq!(spread(&mut world, x, ("a", &["n label:app=web"], &[])), OVER_SKEW);
    assert_eq!(spread(&mut world, x, ("a", &["n label:app=db"], &[])), "fits");
    assert_eq!(spread(&mut world, x, ("a", &["n label:app=web ns=other"], &[])), "fits");
    assert_eq!(
        spread(&mut world, x, ("a", &["n label:app=web"], &[])),
        OVER_SKEW,
        "and nothing stays behind"
    );
}

#[test]
fn a_pod_thought_onto_the_emptiest_domain_raises_the_minimum() {
    let mut world = world(&["a zone=z1", "b zone=z2"], &["b1 on=b label:app=web", "b2 on=b label:app=web"]);
    let x = "x label:app=web spread=zone/1/DoNotSchedule/app=web";
    assert_eq!(spread(&mut world, x, ("a", &["n label:app=web"], &[])), "fits", "1 + 1 - 1");
    let three = ["n label:app=web", "o label:app=web", "p label:app=web"];
    assert_eq!(spread(&mut world, x, ("a", &three, &[])), OVER_SKEW, "3 + 1 - 2");
    assert_eq!(spread(&mut world, x, ("b", &[], &["b1"])), OVER_SKEW, "1 + 1 - 0");
    assert_eq!(spread(&mut world, x, ("b", &[], &["b1", "b2"])), "fits", "0 + 1 - 0");
}

#[test]
fn removing_a_terminating_pod_frees_a_place_that_was_never_counted() {
    let mut world =
        world(&["a", "b"], &["a1 on=a label:app=web priority=9", "a2 on=a label:app=web deleting"]);
    let x = "x label:app=web spread=host/1/DoNotSchedule/app=web";
    assert_eq!(spread(&mut world, x, ("a", &[], &[])), OVER_SKEW);
    assert_eq!(spread(&mut world, x, ("a", &[], &["a2"])), "fits");
    assert_eq!(spread(&mut world, x, ("b", &["n label:app=web deleting"], &[])), "fits", "1 + 1 - 1");
}

#[test]
fn an_empty_selector_counts_nominated_pods_though_it_counts_no_running_ones() {
    let five = ["1 on=a", "2 on=a", "3 on=a", "4 on=a", "5 on=a"];
    let mut world = world(&["a", "b"], &five);
    let x = "x spread=host/1/DoNotSchedule/*";
    assert_eq!(spread(&mut world, x, ("a", &[], &[])), "fits");
    assert_eq!(spread(&mut world, x, ("a", &["n"], &[])), OVER_SKEW);
}

#[test]
fn a_node_that_is_not_counted_is_not_counted_under_an_overlay_either() {
    let nodes = ["a zone=z1 taint=k=v:NoSchedule", "b zone=z2", "c zone=z3 nohost"];
    let mut world = world(&nodes, &[]);
    let x = "x label:app=web spread=zone/1/DoNotSchedule/app=web/honor-taints";
    assert_eq!(spread(&mut world, x, ("a", &["n label:app=web"], &[])), "fits");
    let both = "x label:app=web spread=zone/1/DoNotSchedule/app=web spread=host/1/DoNotSchedule/app=web";
    let missing = format!("{OVER_SKEW} (missing required label)");
    assert_eq!(spread(&mut world, both, ("c", &["n label:app=web"], &[])), missing);
}

#[test]
fn a_nominated_pod_is_a_peer_a_foe_and_has_its_own_wishes() {
    let mut world = world(&["a", "b"], &["b1 on=b label:app=web", "b2 on=b label:app=foe"]);
    let peer = "x affinity=host/app=web";
    assert_eq!(affinity(&mut world, peer, ("a", &[], &[])), "node(s) didn't match pod affinity rules");
    assert_eq!(affinity(&mut world, peer, ("a", &["n label:app=web"], &[])), "fits");
    let foe = "x label:app=x anti=host/app=foe";
    assert_eq!(
        affinity(&mut world, foe, ("a", &["n label:app=foe"], &[])),
        "node(s) didn't match pod anti-affinity rules"
    );
    assert_eq!(
        affinity(&mut world, foe, ("a", &["n anti=host/app=x"], &[])),
        "node(s) didn't satisfy existing pods anti-affinity rules"
    );
    assert_eq!(affinity(&mut world, foe, ("b", &[], &["b2"])), "fits");
}

#[test]
fn removing_the_last_peer_makes_the_pod_the_first_of_its_kind() {
    let mut world = world(&["a zone=z1", "b zone=z2"], &["a1 on=a label:app=web", "a2 on=a label:app=web"]);
    let x = "x label:app=web affinity=zone/app=web";
    let mismatch = "node(s) didn't match pod affinity rules";
    assert_eq!(affinity(&mut world, x, ("a", &[], &["a1"])), "fits");
    assert_eq!(affinity(&mut world, x, ("a", &[], &["a1", "a2"])), "fits");
    let stranger = "x affinity=zone/app=web";
    assert_eq!(affinity(&mut world, stranger, ("a", &[], &["a1"])), "fits");
    assert_eq!(affinity(&mut world, stranger, ("a", &[], &["a1", "a2"])), mismatch);
    assert_eq!(affinity(&mut world, x, ("b", &[], &[])), mismatch);
}

#[test]
fn a_plugin_that_skipped_has_no_rule_to_ask_about_nominated_pods() {
    let mut world = world(&["a"], &[]);
    let x = world.pod_from("x label:app=web");
    assert!(rule(&InterPodAffinity::default(), &world, &x).is_none());
    assert!(rule(&PodTopologySpread::default(), &world, &x).is_none());
}
