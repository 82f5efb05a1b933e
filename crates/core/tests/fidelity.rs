//! Intended differences from kube-scheduler. Each test shows upstream's result and this one; FIDELITY.md lists them.

mod support;

use supercargo_core::cycle::{
    Decision, Feasible, Framework, InfeasibleDecision, NoProbe, Options, PostFilter,
};
use supercargo_core::framework::post_filter::{Draws, ExtenderCandidates};
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use support::TestCluster;

fn decide(cluster: &TestCluster, pod: &supercargo_core::model::pod::PodInfo) -> Option<Feasible> {
    match Framework::default().decide(pod, cluster.snapshot(), Options::default(), &mut NoProbe) {
        Ok(Decision::Feasible(feasible)) => Some(feasible),
        Ok(Decision::Infeasible(_)) => None,
        Err(error) => panic!("no plugin fails here: {error:?}"),
    }
}

fn place(cluster: &mut TestCluster, words: &str) {
    let pod = cluster.pod_from(words);
    cluster.place(&pod);
}

/// Upstream keeps a node's used ports as a set. When one of two pods with the same port is deleted, the port counts
/// as free while the other pod still uses it.
#[test]
fn host_port_of_two_pods_stays_in_use_after_one_is_deleted() {
    let mut cluster = TestCluster::new();
    let node = cluster.node_from("a cpu=4");
    cluster.add_node(&node);
    place(&mut cluster, "first port=80 on=a");
    place(&mut cluster, "second port=80 on=a");
    cluster.cache.remove_pod("first");
    cluster.cache.refresh();
    let incoming = cluster.pod_from("p port=80");
    assert!(decide(&cluster, &incoming).is_none());
    cluster.cache.remove_pod("second");
    cluster.cache.refresh();
    assert!(decide(&cluster, &incoming).is_some());
}

/// Upstream evicts one of two pods with the same port, and places the incoming pod although the port is still in use.
#[test]
fn no_pod_is_evicted_for_a_host_port_that_stays_in_use() {
    let mut cluster = TestCluster::new();
    let node = cluster.node_from("a cpu=4");
    cluster.add_node(&node);
    place(&mut cluster, "low port=80 on=a");
    place(&mut cluster, "stays port=80 on=a priority=9");
    let incoming = cluster.pod_from("p port=80 priority=5");
    let [upstream, ours] = rooms(&cluster, &incoming);
    assert_eq!(upstream, "a without low");
    assert_eq!(
        ours,
        "no new claims to deallocate, preemption: 0/1 nodes are available: 1 node(s) didn't have free ports for the \
         requested pod ports."
    );
    // The next best candidate is used.
    let node = cluster.node_from("b cpu=4");
    cluster.add_node(&node);
    place(&mut cluster, "other port=80 on=b priority=4");
    let [upstream, ours] = rooms(&cluster, &incoming);
    assert_eq!(upstream, "a without low");
    assert_eq!(ours, "b without other");
}

/// Returns the victims and the node of preemption, as upstream chooses them and as this engine does.
fn rooms(cluster: &TestCluster, pod: &supercargo_core::model::pod::PodInfo) -> [String; 2] {
    let (framework, snapshot) = (Framework::default(), cluster.snapshot());
    let decided = framework.decide(pod, snapshot, Options::default(), &mut NoProbe);
    let Ok(Decision::Infeasible(filtered)) = decided else { panic!("it fits") };
    let diagnosis = filtered.diagnose(snapshot);
    let failed = InfeasibleDecision { pod, snapshot, filtered: &filtered, diagnosis: &diagnosis };
    let draws = Draws { seed: Seed(1), attempt: 1 };
    let say = |outcome: PostFilter<'_>| match outcome.nomination.choose(pod, draws) {
        None => outcome.message.unwrap_or_default(),
        Some(chosen) => {
            let victims: Vec<&str> = chosen.victims.iter().map(|victim| &*victim.name).collect();
            format!("{} without {}", snapshot.text(snapshot.node_info(chosen.node).name), victims.join(" "))
        }
    };
    [
        say(framework.post_filter(failed, draws, Time::from_secs(0), &mut NoProbe)),
        say(framework.find_room(failed, (draws, Time::from_secs(0)), ExtenderCandidates::Free, &mut NoProbe)),
    ]
}

/// Upstream adds requests modulo 2^64: four pods of 2^62 bytes make a full node appear empty.
#[test]
fn overflowing_requests_leave_a_node_full() {
    let mut cluster = TestCluster::new();
    let node = cluster.node_from("a cpu=4 mem=9223372036854775807");
    cluster.add_node(&node);
    for name in ["p1", "p2", "p3", "p4"] {
        let pod = cluster.pod(name).memory(1 << 62).on("a").build();
        cluster.place(&pod);
    }
    let incoming = cluster.pod("p").memory(1).build();
    assert!(decide(&cluster, &incoming).is_none());
    for name in ["p1", "p2", "p3"] {
        cluster.cache.remove_pod(name);
    }
    assert_eq!(
        cluster.snapshot().requested(cluster.idx("a")).memory,
        1 << 62,
        "what was added can be taken away"
    );
    assert!(decide(&cluster, &incoming).is_some());
}

/// By default, upstream scores only a part of the nodes of a large cluster (100 of 200 here).
#[test]
fn every_node_is_scored() {
    let mut cluster = TestCluster::new();
    for at in 0..200 {
        let node = cluster.node_from(&format!("n{at} cpu={}", if at == 199 { 8 } else { 4 }));
        cluster.add_node(&node);
    }
    let incoming = cluster.pod_from("p cpu=1");
    let feasible = decide(&cluster, &incoming).expect("200 nodes can take it");
    assert_eq!(feasible.filtered.feasible().len(), 200);
    assert_eq!(feasible.winners(), [cluster.idx("n199")]);
}

/// Upstream's choice among equal totals follows from its heap: always the first node of its list if all totals are
/// equal.
#[test]
fn tie_break_is_uniform_and_repeatable_by_seed_and_pod() {
    let mut cluster = TestCluster::new();
    for name in ["a", "b", "c", "d"] {
        let node = cluster.node_from(&format!("{name} cpu=4"));
        cluster.add_node(&node);
    }
    let mut won = [0u32; 4];
    for at in 0..4_000 {
        let pod = cluster.pod_from(&format!("p{at} cpu=1"));
        let feasible = decide(&cluster, &pod).expect("a node is feasible");
        let node = feasible.choose(Seed(3), &pod, 1);
        assert_eq!(node, feasible.choose(Seed(3), &pod, 1));
        won[node.index()] += 1;
    }
    // Chi-square test over four cells. The bound 16.27 is exceeded for one in a thousand seeds; this seed is fixed.
    let expected = 1_000.0;
    let chi: f64 = won.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
    assert!(chi < 16.27, "{won:?}");
}
