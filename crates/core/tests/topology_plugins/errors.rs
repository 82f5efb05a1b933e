//! Affinity lists that cannot be parsed.

use crate::plugins;
use crate::support::TestCluster;
use crate::support::run::decide;
use supercargo_core::model::pod::{PodAffinity, PodInfo};

/// Returns the plugin's results for `pod` as filter and score.
fn rejection_text(cluster: &mut TestCluster, pod: &PodInfo, plugin: &str) -> String {
    let mut chosen = crate::Plugins::default();
    plugins(plugin, &mut cluster.tables, &mut chosen);
    decide(cluster, &chosen, pod)
}

fn two_nodes() -> TestCluster {
    let mut cluster = TestCluster::new();
    for name in ["a", "b"] {
        let node = cluster.node_from(name);
        cluster.add_node(&node);
    }
    cluster
}

/// Builds a pod in the cluster language, with lists replaced by `damage`.
fn broken(cluster: &mut TestCluster, words: &str, damage: impl FnOnce(&mut PodAffinity)) -> PodInfo {
    let mut pod = PodInfo::clone(&cluster.pod_from(words));
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
fn malformed_terms_of_the_pod_reject_every_node_with_the_field_name() {
    type Damage = fn(&mut PodAffinity);
    let cases: [(&str, Damage); 4] = [
        ("requiredAffinityTerms", |a| a.required_affinity = Err("bad".into())),
        ("requiredAntiAffinityTerms", |a| a.required_anti_affinity = Err("bad".into())),
        ("preferredAffinityTerms", |a| a.preferred_affinity = Err("bad".into())),
        ("preferredAntiAffinityTerms", |a| a.preferred_anti_affinity = Err("bad".into())),
    ];
    for (list, damage) in cases {
        let mut cluster = two_nodes();
        let pod = broken(&mut cluster, "x label:app=web", damage);
        assert_eq!(
            rejection_text(&mut cluster, &pod, "InterPodAffinity"),
            format!("InterPodAffinity UnschedulableAndUnresolvable: parsing pod: {list}: bad\n")
        );
    }
}

#[test]
fn several_malformed_lists_are_reported_together() {
    let mut cluster = two_nodes();
    let pod = broken(&mut cluster, "x", |a| {
        a.preferred_anti_affinity = Err("third".into());
        a.required_affinity = Err("first".into());
    });
    assert_eq!(
        rejection_text(&mut cluster, &pod, "InterPodAffinity"),
        "InterPodAffinity UnschedulableAndUnresolvable: parsing pod: \
         [requiredAffinityTerms: first, preferredAntiAffinityTerms: third]\n"
    );
}

#[test]
fn score_only_plugin_fails_the_attempt_on_a_malformed_list() {
    let mut cluster = two_nodes();
    let pod = broken(&mut cluster, "x", |a| a.required_affinity = Err("bad".into()));
    assert_eq!(
        rejection_text(&mut cluster, &pod, "score:InterPodAffinity"),
        "a: fits\nb: fits\nInterPodAffinity score error: failed to parse pod: requiredAffinityTerms: bad\n"
    );
    assert_eq!(
        rejection_text(&mut cluster, &pod, "score:InterPodAffinity(ignore)"),
        "a: fits\nb: fits\nskip score: InterPodAffinity\n"
    );
}

#[test]
fn malformed_list_of_an_existing_pod_is_ignored_and_its_other_lists_apply() {
    let mut cluster = two_nodes();
    let e1 = "e1 on=a anti=host/app=web prefer-affinity=5/host/app=web";
    let e1 = broken(&mut cluster, e1, |a| a.required_anti_affinity = Err("bad".into()));
    let e2 = "e2 on=b anti=host/app=web prefer-affinity=5/host/app=web";
    let e2 = broken(&mut cluster, e2, |a| a.preferred_affinity = Err("bad".into()));
    for pod in [e1, e2] {
        cluster.place(&pod.into());
    }
    let pod = cluster.pod_from("x label:app=web");
    assert_eq!(
        rejection_text(&mut cluster, &pod, "InterPodAffinity"),
        "a: fits\nb: InterPodAffinity Unschedulable: node(s) didn't satisfy existing pods anti-affinity rules\n\
         InterPodAffinity: a 0 (5)\n"
    );
}
