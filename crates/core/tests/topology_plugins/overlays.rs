//! Verdicts with overlays, as for nominated pods and the dry runs of preemption.

use crate::support::TestCluster;
use supercargo_core::cache::Overlay;
use supercargo_core::framework::{FilterPlugin, FilterRule, Prepared, Verdict};
use supercargo_core::model::pod::PodInfo;
use supercargo_core::plugins::inter_pod_affinity::InterPodAffinity;
use supercargo_core::plugins::pod_topology_spread::PodTopologySpread;

const OVER_SKEW: &str = "node(s) didn't match pod topology spread constraints";

fn cluster(nodes: &[&str], pods: &[&str]) -> TestCluster {
    let mut cluster = TestCluster::new();
    for words in nodes {
        let node = cluster.node_from(words);
        cluster.add_node(&node);
    }
    for words in pods {
        let pod = cluster.pod_from(words);
        cluster.place(&pod);
    }
    cluster
}

fn rule(plugin: &dyn FilterPlugin, cluster: &TestCluster, pod: &PodInfo) -> Option<Box<dyn FilterRule>> {
    match plugin.prepare(pod, cluster.snapshot()) {
        Prepared::Run { rule, .. } => Some(rule),
        Prepared::Skip => None,
        Prepared::Rejected(rejection) => panic!("{rejection:?}"),
        Prepared::Failed(error) => panic!("{error:?}"),
    }
}

/// Returns the plugin's verdict on `node` for the pod, with some pods added and the named ones removed.
fn under(
    plugin: &dyn FilterPlugin,
    cluster: &mut TestCluster,
    pod: &str,
    (node, added, removed): (&str, &[&str], &[&str]),
) -> String {
    let pod = cluster.pod_from(pod);
    let added: Vec<_> = added.iter().map(|words| cluster.pod_from(words)).collect();
    let snapshot = cluster.snapshot();
    let mut overlay = Overlay::new();
    added.iter().for_each(|pod| overlay.add(pod));
    for name in removed {
        overlay.remove(cluster.cache.placed(name).expect("the pod is placed").0);
    }
    let rule = rule(plugin, cluster, &pod).expect("the plugin does not skip");
    match rule.check(&snapshot.node(cluster.idx(node)).with(&overlay)) {
        Verdict::Fits => "fits".to_owned(),
        Verdict::Rejected(rejection) => rejection.message(),
        Verdict::Failed(error) => error.0,
    }
}

fn spread(cluster: &mut TestCluster, pod: &str, change: (&str, &[&str], &[&str])) -> String {
    under(&PodTopologySpread::default(), cluster, pod, change)
}

fn affinity(cluster: &mut TestCluster, pod: &str, change: (&str, &[&str], &[&str])) -> String {
    under(&InterPodAffinity::default(), cluster, pod, change)
}

#[test]
fn nominated_pod_counts_in_its_domain() {
    let mut cluster = cluster(&["a zone=z1", "b zone=z2", "c zone=z2"], &[]);
    let x = "x label:app=web spread=zone/1/DoNotSchedule/app=web";
    assert_eq!(spread(&mut cluster, x, ("a", &["n label:app=web"], &[])), OVER_SKEW);
    assert_eq!(spread(&mut cluster, x, ("a", &["n label:app=db"], &[])), "fits");
    assert_eq!(spread(&mut cluster, x, ("a", &["n label:app=web ns=other"], &[])), "fits");
    assert_eq!(
        spread(&mut cluster, x, ("a", &["n label:app=web"], &[])),
        OVER_SKEW,
        "and nothing stays behind"
    );
}

#[test]
fn hypothetical_pod_in_the_emptiest_domain_raises_the_minimum() {
    let mut cluster =
        cluster(&["a zone=z1", "b zone=z2"], &["b1 on=b label:app=web", "b2 on=b label:app=web"]);
    let x = "x label:app=web spread=zone/1/DoNotSchedule/app=web";
    assert_eq!(spread(&mut cluster, x, ("a", &["n label:app=web"], &[])), "fits", "1 + 1 - 1");
    let three = ["n label:app=web", "o label:app=web", "p label:app=web"];
    assert_eq!(spread(&mut cluster, x, ("a", &three, &[])), OVER_SKEW, "3 + 1 - 2");
    assert_eq!(spread(&mut cluster, x, ("b", &[], &["b1"])), OVER_SKEW, "1 + 1 - 0");
    assert_eq!(spread(&mut cluster, x, ("b", &[], &["b1", "b2"])), "fits", "0 + 1 - 0");
}

#[test]
fn removing_a_terminating_pod_does_not_change_its_domain_count() {
    let mut cluster =
        cluster(&["a", "b"], &["a1 on=a label:app=web priority=9", "a2 on=a label:app=web deleting"]);
    let x = "x label:app=web spread=host/1/DoNotSchedule/app=web";
    assert_eq!(spread(&mut cluster, x, ("a", &[], &[])), OVER_SKEW);
    assert_eq!(spread(&mut cluster, x, ("a", &[], &["a2"])), "fits");
    assert_eq!(spread(&mut cluster, x, ("b", &["n label:app=web deleting"], &[])), "fits", "1 + 1 - 1");
}

#[test]
fn empty_selector_counts_nominated_but_no_running_pods() {
    let five = ["1 on=a", "2 on=a", "3 on=a", "4 on=a", "5 on=a"];
    let mut cluster = cluster(&["a", "b"], &five);
    let x = "x spread=host/1/DoNotSchedule/*";
    assert_eq!(spread(&mut cluster, x, ("a", &[], &[])), "fits");
    assert_eq!(spread(&mut cluster, x, ("a", &["n"], &[])), OVER_SKEW);
}

#[test]
fn excluded_node_is_excluded_under_an_overlay() {
    let nodes = ["a zone=z1 taint=k=v:NoSchedule", "b zone=z2", "c zone=z3 nohost"];
    let mut cluster = cluster(&nodes, &[]);
    let x = "x label:app=web spread=zone/1/DoNotSchedule/app=web/honor-taints";
    assert_eq!(spread(&mut cluster, x, ("a", &["n label:app=web"], &[])), "fits");
    let both = "x label:app=web spread=zone/1/DoNotSchedule/app=web spread=host/1/DoNotSchedule/app=web";
    let missing = format!("{OVER_SKEW} (missing required label)");
    assert_eq!(spread(&mut cluster, both, ("c", &["n label:app=web"], &[])), missing);
}

#[test]
fn nominated_pod_applies_affinity_in_both_directions() {
    let mut cluster = cluster(&["a", "b"], &["b1 on=b label:app=web", "b2 on=b label:app=foe"]);
    let peer = "x affinity=host/app=web";
    assert_eq!(affinity(&mut cluster, peer, ("a", &[], &[])), "node(s) didn't match pod affinity rules");
    assert_eq!(affinity(&mut cluster, peer, ("a", &["n label:app=web"], &[])), "fits");
    let foe = "x label:app=x anti=host/app=foe";
    assert_eq!(
        affinity(&mut cluster, foe, ("a", &["n label:app=foe"], &[])),
        "node(s) didn't match pod anti-affinity rules"
    );
    assert_eq!(
        affinity(&mut cluster, foe, ("a", &["n anti=host/app=x"], &[])),
        "node(s) didn't satisfy existing pods anti-affinity rules"
    );
    assert_eq!(affinity(&mut cluster, foe, ("b", &[], &["b2"])), "fits");
}

#[test]
fn removing_the_last_match_enables_the_first_pod_exception() {
    let mut cluster =
        cluster(&["a zone=z1", "b zone=z2"], &["a1 on=a label:app=web", "a2 on=a label:app=web"]);
    let x = "x label:app=web affinity=zone/app=web";
    let mismatch = "node(s) didn't match pod affinity rules";
    assert_eq!(affinity(&mut cluster, x, ("a", &[], &["a1"])), "fits");
    assert_eq!(affinity(&mut cluster, x, ("a", &[], &["a1", "a2"])), "fits");
    let stranger = "x affinity=zone/app=web";
    assert_eq!(affinity(&mut cluster, stranger, ("a", &[], &["a1"])), "fits");
    assert_eq!(affinity(&mut cluster, stranger, ("a", &[], &["a1", "a2"])), mismatch);
    assert_eq!(affinity(&mut cluster, x, ("b", &[], &[])), mismatch);
}

#[test]
fn skipped_plugin_does_not_judge_nominated_pods() {
    let mut cluster = cluster(&["a"], &[]);
    let x = cluster.pod_from("x label:app=web");
    assert!(rule(&InterPodAffinity::default(), &cluster, &x).is_none());
    assert!(rule(&PodTopologySpread::default(), &cluster, &x).is_none());
}
