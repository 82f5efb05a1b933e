//! Exhaustive tests over small clusters, compared with the API documentation.
//!
//! A world has up to three nodes in two zones or none, and up to three pods with one of two labels.

use crate::support::TestCluster;
use supercargo_core::framework::{FilterPlugin, Prepared};
use supercargo_core::model::node_set::NodeSet;
use supercargo_core::plugins::inter_pod_affinity::InterPodAffinity;
use supercargo_core::plugins::pod_topology_spread::PodTopologySpread;

const NODES: [&str; 3] = ["a", "b", "c"];
const LABELS: [&str; 2] = ["web", "db"];

/// A world as numbers: the zone of each node, and node and label of each pod.
struct SmallCluster {
    zones: Vec<Option<usize>>,
    pods: Vec<(usize, usize)>,
}

impl SmallCluster {
    /// Returns the domain of a node: its zone, or itself.
    fn domain(&self, node: usize, by_zone: bool) -> Option<usize> {
        if by_zone { self.zones[node] } else { Some(node) }
    }

    /// Returns the number of pods with a label in a domain.
    fn count(&self, domain: usize, label: usize, by_zone: bool) -> i32 {
        let inside = |&&(node, l): &&(usize, usize)| l == label && self.domain(node, by_zone) == Some(domain);
        self.pods.iter().filter(inside).count() as i32
    }

    /// Builds the world; `anti` is an optional anti-affinity of every pod.
    fn build(&self, anti: Option<&str>) -> TestCluster {
        let mut cluster = TestCluster::new();
        for (node, zone) in self.zones.iter().enumerate() {
            let zone = zone.map_or_else(String::new, |zone| format!("zone=z{zone}"));
            let node = cluster.node_from(&format!("{} {zone}", NODES[node]));
            cluster.add_node(&node);
        }
        for (at, &(node, label)) in self.pods.iter().enumerate() {
            let anti = anti.map_or_else(String::new, |term| format!("anti={term}"));
            let pod =
                cluster.pod_from(&format!("p{at} on={} label:app={} {anti}", NODES[node], LABELS[label]));
            cluster.place(&pod);
        }
        cluster
    }
}

/// Calls `each` for every small world. Worlds that differ only in the order of pods are the same.
fn for_each_cluster(mut each: impl FnMut(&SmallCluster)) {
    for nodes in 1..=NODES.len() {
        let places: Vec<(usize, usize)> = (0..nodes).flat_map(|node| [(node, 0), (node, 1)]).collect();
        for code in 0..3usize.pow(nodes as u32) {
            let zone = |node: usize| (code / 3usize.pow(node as u32) % 3).checked_sub(1);
            let mut small = SmallCluster { zones: (0..nodes).map(zone).collect(), pods: Vec::new() };
            with_more_pods(&mut small, &places, 3, &mut each);
        }
    }
}

fn with_more_pods(
    small: &mut SmallCluster,
    places: &[(usize, usize)],
    more: usize,
    each: &mut dyn FnMut(&SmallCluster),
) {
    each(small);
    if more > 0 {
        for at in 0..places.len() {
            small.pods.push(places[at]);
            with_more_pods(small, &places[at..], more - 1, each);
            small.pods.pop();
        }
    }
}

/// Returns for each node whether the plugin accepts the pod.
fn allowed(plugin: &dyn FilterPlugin, cluster: &mut TestCluster, pod: &str, nodes: usize) -> Vec<bool> {
    let pod = cluster.pod_from(pod);
    let snapshot = cluster.snapshot();
    let mut set: NodeSet = snapshot.nodes().clone();
    match plugin.prepare(&pod, snapshot) {
        Prepared::Run { rule, .. } => rule.filter(snapshot, &mut set).expect("nothing fails here"),
        Prepared::Skip => {}
        Prepared::Rejected(_) | Prepared::Failed(_) => panic!("nothing is malformed here"),
    }
    NODES[..nodes].iter().map(|name| set.contains(cluster.idx(name))).collect()
}

/// Generates all combinations of: by zone or host, selected label, own label.
fn questions() -> impl Iterator<Item = (bool, usize, usize)> {
    (0..8).map(|code| (code & 1 == 1, code >> 1 & 1, code >> 2 & 1))
}

fn key(by_zone: bool) -> &'static str {
    if by_zone { "zone" } else { "host" }
}

/// "The difference between the number of matching pods in the target topology and the global minimum", which is "the
/// minimum number of matching pods in an eligible domain, or zero if there are fewer of them than minDomains".
fn spread_allows(
    small: &SmallCluster,
    ask: (bool, usize, usize),
    skew: i32,
    min_domains: usize,
    node: usize,
) -> bool {
    let (by_zone, wanted, own) = ask;
    let Some(here) = small.domain(node, by_zone) else { return false };
    let domains: Vec<usize> =
        (0..3).filter(|&d| (0..small.zones.len()).any(|n| small.domain(n, by_zone) == Some(d))).collect();
    let fewest = domains.iter().map(|&d| small.count(d, wanted, by_zone)).min().unwrap_or(0);
    let global_minimum = if domains.len() < min_domains { 0 } else { fewest };
    small.count(here, wanted, by_zone) + i32::from(wanted == own) - global_minimum <= skew
}

#[test]
fn spreading_follows_the_api_in_every_small_cluster() {
    for_each_cluster(|small| {
        let mut cluster = small.build(None);
        for ask in questions() {
            for (skew, min_domains) in [(1, 1), (1, 3), (2, 1), (2, 2)] {
                let (key, wanted, own) = (key(ask.0), LABELS[ask.1], LABELS[ask.2]);
                let pod = format!(
                    "x label:app={own} spread={key}/{skew}/DoNotSchedule/app={wanted}/min={min_domains}"
                );
                let naive: Vec<bool> = (0..small.zones.len())
                    .map(|node| spread_allows(small, ask, skew, min_domains, node))
                    .collect();
                let said = allowed(&PodTopologySpread::default(), &mut cluster, &pod, naive.len());
                assert_eq!(said, naive, "{pod} in zones {:?} with pods {:?}", small.zones, small.pods);
            }
        }
    });
}

/// Required affinity: "co-located in a domain with a pod that matches". If no pod matches anywhere, a pod that
/// matches its own term may run on any node with the key.
fn affinity_allows(small: &SmallCluster, (by_zone, wanted, own): (bool, usize, usize), node: usize) -> bool {
    let Some(here) = small.domain(node, by_zone) else { return false };
    let nowhere = (0..3).all(|domain| small.count(domain, wanted, by_zone) == 0);
    small.count(here, wanted, by_zone) > 0 || nowhere && wanted == own
}

/// Required anti-affinity: "not co-located in a domain with a pod that matches". Without the key there is no domain.
fn anti_affinity_allows(
    small: &SmallCluster,
    (by_zone, wanted, _): (bool, usize, usize),
    node: usize,
) -> bool {
    small.domain(node, by_zone).is_none_or(|here| small.count(here, wanted, by_zone) == 0)
}

/// Anti-affinity of all existing pods, which applies to the incoming pod if it matches.
fn existing_anti_affinity_allows(
    small: &SmallCluster,
    (by_zone, wanted, own): (bool, usize, usize),
    node: usize,
) -> bool {
    let hated = |here: usize| (0..2).any(|label| small.count(here, label, by_zone) > 0);
    wanted != own || !small.domain(node, by_zone).is_some_and(hated)
}

#[test]
fn affinity_follows_the_api_in_every_small_cluster() {
    type Naive = fn(&SmallCluster, (bool, usize, usize), usize) -> bool;
    let plugin = InterPodAffinity::default();
    for_each_cluster(|small| {
        let mut cluster = small.build(None);
        for ask in questions() {
            let term = format!("{}/app={}", key(ask.0), LABELS[ask.1]);
            let own = LABELS[ask.2];
            let judge =
                |naive: Naive| (0..small.zones.len()).map(|node| naive(small, ask, node)).collect::<Vec<_>>();
            let compare = |cluster: &mut TestCluster, pod: &str, naive: Naive| {
                let said = allowed(&plugin, cluster, pod, small.zones.len());
                assert_eq!(said, judge(naive), "{pod} in zones {:?} with pods {:?}", small.zones, small.pods);
            };
            compare(&mut cluster, &format!("x label:app={own} affinity={term}"), affinity_allows);
            compare(&mut cluster, &format!("x label:app={own} anti={term}"), anti_affinity_allows);
            if ask.2 == 0 {
                compare(
                    &mut small.build(Some(&term)),
                    &format!("x label:app={own}"),
                    existing_anti_affinity_allows,
                );
            }
        }
    });
}
