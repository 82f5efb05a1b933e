//! Affinity lists that cannot be parsed.

use crate::plugins;
use crate::support::World;
use crate::support::run::decide;
use supercargo_core::pod::{PodAffinity, PodInfo};

/// Returns the plugin's results for `pod` as filter and score.
fn said(world: &mut World, pod: &PodInfo, plugin: &str) -> String {
    let mut chosen = crate::Plugins::default();
    plugins(plugin, &mut world.tables, &mut chosen);
    decide(world, &chosen, pod)
}

fn two_nodes() -> World {
    let mut world = World::new();
    for name in ["a", "b"] {
        let node = world.node_from(name);
        world.add_node(&node);
    }
    world
}

/// Builds a pod in the cluster language, with lists replaced by `damage`.
fn broken(world: &mut World, words: &str, damage: impl FnOnce(&mut PodAffinity)) -> PodInfo {
    let mut pod = PodInfo::clone(&world.pod_from(words));
    let empty = PodAffinity {
        required_affinity: Ok([].into()),
        required_anti_affinity: Ok([].into()),
        preferred_affinity: Ok([].into()),
        preferred_anti_affinity: Ok([].into()),
    };
    damage(pod.pod_affinity.get_or_insert_with(|| Box::new(empty)));
    pod
}

#[test]
fn a_list_of_the_incoming_pod_that_cannot_be_parsed_rejects_it_everywhere_by_name() {
    type Damage = fn(&mut PodAffinity);
    let cases: [(&str, Damage); 4] = [
        ("requiredAffinityTerms", |a| a.required_affinity = Err("bad".into())),
        ("requiredAntiAffinityTerms", |a| a.required_anti_affinity = Err("bad".into())),
        ("preferredAffinityTerms", |a| a.preferred_affinity = Err("bad".into())),
        ("preferredAntiAffinityTerms", |a| a.preferred_anti_affinity = Err("bad".into())),
    ];
    for (list, damage) in cases {
        let mut world = two_nodes();
        let pod = broken(&mut world, "x label:app=web", damage);
        assert_eq!(
            said(&mut world, &pod, "InterPodAffinity"),
            format!("InterPodAffinity UnschedulableAndUnresolvable: parsing pod: {list}: bad\n")
        );
    }
}

#[test]
fn several_broken_lists_are_told_together() {
    let mut world = two_nodes();
    let pod = broken(&mut world, "x", |a| {
        a.preferred_anti_affinity = Err("third".into());
        a.required_affinity = Err("first".into());
    });
    assert_eq!(
        said(&mut world, &pod, "InterPodAffinity"),
        "InterPodAffinity UnschedulableAndUnresolvable: parsing pod: \
         [requiredAffinityTerms: first, preferredAntiAffinityTerms: third]\n"
    );
}

#[test]
fn scoring_alone_ends_the_cycle_at_a_broken_list() {
    let mut world = two_nodes();
    let pod = broken(&mut world, "x", |a| a.required_affinity = Err("bad".into()));
    assert_eq!(
        said(&mut world, &pod, "score:InterPodAffinity"),
        "a: fits\nb: fits\nInterPodAffinity score error: failed to parse pod: requiredAffinityTerms: bad\n"
    );
    assert_eq!(
        said(&mut world, &pod, "score:InterPodAffinity(ignore)"),
        "a: fits\nb: fits\nskip score: InterPodAffinity\n"
    );
}

#[test]
fn a_broken_list_of_a_pod_that_is_there_is_void_and_its_other_lists_hold() {
    let mut world = two_nodes();
    let e1 = "e1 on=a anti=host/app=web prefer-affinity=5/host/app=web";
    let e1 = broken(&mut world, e1, |a| a.required_anti_affinity = Err("bad".into()));
    let e2 = "e2 on=b anti=host/app=web prefer-affinity=5/host/app=web";
    let e2 = broken(&mut world, e2, |a| a.preferred_affinity = Err("bad".into()));
    for pod in [e1, e2] {
        world.place(&pod.into());
    }
    let pod = world.pod_from("x label:app=web");
    assert_eq!(
        said(&mut world, &pod, "InterPodAffinity"),
        "a: fits\nb: InterPodAffinity Unschedulable: node(s) didn't satisfy existing pods anti-affinity rules\n\
         InterPodAffinity: a 0 (5)\n"
    );
}
