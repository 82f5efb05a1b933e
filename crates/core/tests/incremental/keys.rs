//! Topology keys that nodes lack, and scores that no API server admits.

use super::{Change, Law};
use supercargo_core::cycle::{NoProbe, Options};
use supercargo_core::model::node::NodeIdx;

/// Adds nodes in the cluster language.
fn add_nodes(law: &mut Law, nodes: &[&str]) {
    for node in nodes {
        let node = law.cluster.node_from(node);
        law.cluster.add_node(&node);
    }
}

/// Without one of the keys, a node is in no domain of the others either.
#[test]
fn pods_on_a_node_that_lacks_a_topology_key_do_not_count() {
    let mut law = Law::new();
    add_nodes(
        &mut law,
        &["a zone=z1 label:rack=r1 cpu=4", "b zone=z2 label:rack=r2 cpu=4", "c zone=z1 cpu=4"],
    );
    for pod in ["q1 on=c label:app=web", "q2 on=c label:app=web"] {
        let pod = law.cluster.pod_from(pod);
        law.cluster.place(&pod);
    }
    law.cluster.cache.refresh();
    let constraints = "spread=zone/1/DoNotSchedule/app=web spread=rack/1/DoNotSchedule/app=web";
    let pod = law.cluster.pod_from(&format!("x label:app=web {constraints}"));
    let (decisions, snapshot) = (&mut law.decisions, law.cluster.snapshot());
    let quick = law.framework.decide_cached(decisions, &pod, snapshot, &mut NoProbe);
    let feasible = quick.expect("nodes are feasible").feasible();
    assert_eq!(feasible.iter().collect::<Vec<_>>(), [NodeIdx(0), NodeIdx(1)]);
}

/// The default constraints need no key. Only a key with an empty value is left to the full evaluation.
#[test]
fn pods_of_a_service_are_cached_although_a_node_lacks_its_zone() {
    let mut law = Law::new();
    add_nodes(&mut law, &["a zone=z1 cpu=4", "b cpu=4"]);
    law.apply(&Change::Service { app: 1, there: true });
    law.cluster.cache.refresh();
    law.evaluate("x label:app=web");
}

/// The API server admits no such `maxSkew`.
#[test]
fn scores_out_of_range_are_left_to_the_full_evaluation_which_fails() {
    let mut law = Law::new();
    for words in ["a zone=z1 cpu=4 mem=8Gi", "b zone=z2 cpu=4 mem=8Gi"] {
        let node = law.cluster.node_from(words);
        law.cluster.add_node(&node);
    }
    for number in 0..20 {
        let placed = law.cluster.pod_from(&format!("q{number} on=a label:app=web"));
        law.cluster.place(&placed);
    }
    let pod = law.cluster.pod_from("x label:app=web spread=zone/-9/ScheduleAnyway/app=web");
    let snapshot = law.cluster.snapshot();
    let full = law.framework.decide(&pod, snapshot, Options::default(), &mut NoProbe);
    let quick = law.framework.decide_cached(&mut law.decisions, &pod, snapshot, &mut NoProbe);
    assert!(full.is_err() && quick.is_none(), "{quick:?}");
}
