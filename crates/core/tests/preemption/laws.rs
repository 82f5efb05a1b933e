//! Property tests of victims, over small full clusters with mixed priorities.
//!
//! Victims have a lower priority, are necessary, and equal those of a naive search that actually removes pods from
//! nodes and puts them back.
//!
//! These clusters contain no terminating pods, and no nominated pods with affinity or spread constraints. With one
//! exception, no two pods of a node have the same port. In these cases upstream's dry run differs from the actual
//! eviction.

use super::{NOW, draws, infeasible};
use crate::support::TestCluster;
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use supercargo_core::cache::Cache;
use supercargo_core::cycle::{Decision, Framework, InfeasibleDecision, NoProbe, Nomination, Options};
use supercargo_core::framework::post_filter::{Candidate, ExtenderCandidates};
use supercargo_core::model::pod::PodInfo;

/// The descriptions of nodes, pods, disruption budgets, and the incoming pod.
#[derive(Clone, Debug)]
struct ClusterSpec {
    nodes: Vec<String>,
    pods: Vec<String>,
    nominated: Vec<String>,
    budgets: Vec<String>,
    incoming: String,
}

fn node() -> impl Strategy<Value = String> {
    (2..=5u32, prop::sample::select(vec!["z1", "z2"]), prop::bool::weighted(0.1)).prop_map(
        |(cpu, zone, tainted)| {
            format!("cpu={cpu} pods=5 zone={zone}{}", if tainted { " taint=k:NoSchedule" } else { "" })
        },
    )
}

fn traits() -> impl Strategy<Value = String> {
    let app = prop::sample::select(vec!["", " label:app=web", " label:app=db"]);
    let wish = prop::sample::select(vec!["", "", "", " anti=host/app=web", " anti=zone/app=db"]);
    (0..=3u32, app, wish).prop_map(|(cpu, app, wish)| format!("cpu={cpu}{app}{wish}"))
}

fn running(nodes: usize, (share, ports): Ports) -> impl Strategy<Value = String> {
    let start = prop::option::weighted(0.7, 1..4u32);
    (0..nodes, traits(), -1..5i32, start, prop::option::weighted(share, 80..80 + ports)).prop_map(
        |(node, traits, priority, start, port)| {
            let start = start.map_or(String::new(), |start| format!(" started={start}"));
            let port = port.map_or(String::new(), |port| format!(" port={port}"));
            format!("on=n{node} {traits} priority={priority}{start}{port}")
        },
    )
}

/// The fraction of pods with a host port, and the number of distinct ports.
type Ports = (f64, u16);

/// Pods of one node seldom share a port.
const RARE: Ports = (0.2, 10);
/// Pods of one node often share a port.
const SHARED: Ports = (0.7, 2);

fn incoming() -> impl Strategy<Value = String> {
    let more = prop::sample::select(vec![
        "",
        "",
        "",
        " port=80",
        " spread=host/1/DoNotSchedule/app=web",
        " spread=zone/1/DoNotSchedule/app=web",
        " affinity=zone/app=db",
    ]);
    (traits(), more, 0..6i32)
        .prop_map(|(traits, more, priority)| format!("{traits}{more} priority={priority}"))
}

fn budget() -> impl Strategy<Value = String> {
    let selector = prop::sample::select(vec!["app=web", "app=db", "app:exists", "app:absent", "*", "-"]);
    (0..3i32, selector, prop::option::of(0..6u8)).prop_map(|(allowed, selector, disrupted)| {
        let disrupted = disrupted.map_or(String::new(), |at| format!(" disrupted=p{at}"));
        format!("allowed={allowed}{disrupted} {selector}")
    })
}

fn words(ports: Ports) -> impl Strategy<Value = ClusterSpec> {
    prop::collection::vec(node(), 1..4).prop_flat_map(move |nodes| {
        let count = nodes.len();
        let nominated = (0..count, 0..=3u32, 0..6i32)
            .prop_map(|(node, cpu, priority)| format!("nominated=n{node} cpu={cpu} priority={priority}"));
        (
            Just(nodes),
            prop::collection::vec(running(count, ports), 0..12),
            prop::collection::vec(nominated, 0..2),
            prop::collection::vec(budget(), 0..3),
            incoming(),
        )
            .prop_map(|(nodes, pods, nominated, budgets, incoming)| ClusterSpec {
                nodes,
                pods,
                nominated,
                budgets,
                incoming,
            })
    })
}

/// Builds a world in which no two pods of a node have the same port.
fn build(words: &ClusterSpec) -> (TestCluster, Arc<PodInfo>) {
    build_with(words, false)
}

fn build_with(words: &ClusterSpec, may_share_ports: bool) -> (TestCluster, Arc<PodInfo>) {
    let mut cluster = TestCluster::new();
    for (at, node) in words.nodes.iter().enumerate() {
        let node = cluster.node_from(&format!("n{at} {node}"));
        cluster.add_node(&node);
    }
    for (at, pod) in words.pods.iter().enumerate() {
        let pod = cluster.pod_from(&format!("p{at} {pod}"));
        let shares_port = |cluster: &TestCluster| {
            let node = cluster.snapshot().find_node(pod.node_name.expect("it runs")).expect("it exists");
            cluster
                .snapshot()
                .pods_on(node)
                .any(|other| other.ports.iter().any(|port| pod.ports.contains(port)))
        };
        if may_share_ports || !shares_port(&cluster) {
            cluster.place(&pod);
        }
    }
    for (at, pod) in words.nominated.iter().enumerate() {
        let pod = cluster.pod_from(&format!("m{at} {pod}"));
        cluster.cache.nominate(&pod, pod.nominated_node);
    }
    for (at, budget) in words.budgets.iter().enumerate() {
        let line = format!("budget b{at} {budget}");
        crate::support::language::apply(&mut cluster, &line);
    }
    let pod = cluster.pod_from(&format!("x {}", words.incoming));
    cluster.cache.refresh();
    (cluster, pod)
}

/// Whether all filters accept the pod on the node.
fn fits(cluster: &TestCluster, pod: &PodInfo, node: &str) -> bool {
    Framework::default()
        .fits_on(pod, cluster.snapshot(), cluster.idx(node), |_| false)
        .expect("no filter fails here")
}

fn fits_somewhere(cluster: &TestCluster, pod: &PodInfo) -> bool {
    let options = Options { ignore_own_nomination: true, ..Options::default() };
    let decision = Framework::default().decide(pod, cluster.snapshot(), options, &mut NoProbe);
    matches!(decision.expect("no filter fails here"), Decision::Feasible(_))
}

type Choice = BTreeMap<String, (Vec<String>, usize)>;

/// Returns the candidates with the least disruption by node: victims in descending order of importance, and the
/// violations.
fn chosen(cluster: &TestCluster, pod: &PodInfo, seed: u64) -> Choice {
    let framework = Framework::default();
    let filtered = infeasible(&framework, cluster, pod);
    let snapshot = cluster.snapshot();
    let diagnosis = filtered.diagnose(snapshot);
    let failed = InfeasibleDecision { pod, snapshot, filtered: &filtered, diagnosis: &diagnosis };
    let outcome = framework.post_filter(failed, draws(seed), NOW, &mut NoProbe);
    let Nomination::To(candidates) = &outcome.nomination else { return Choice::new() };
    let choice = candidates.iter().map(|candidate| {
        let node = snapshot.text(snapshot.node_info(candidate.node).name).to_owned();
        let victims = candidate.victims.iter().map(|victim| victim.name.to_string()).collect();
        (node, (victims, candidate.violations))
    });
    choice.collect()
}

fn remove_pods(cache: &mut Cache, pods: &[Arc<PodInfo>]) {
    pods.iter().for_each(|pod| drop(cache.remove_pod(&pod.uid)));
}

/// Sorts by descending importance. Pods without a start time are in reverse order of addition, others in order of
/// addition.
///
/// For such short lists, upstream's sort is an insertion sort.
fn by_importance(pods: &mut [Arc<PodInfo>]) {
    let first = |a: &PodInfo, b: &PodInfo| {
        let start = |pod: &PodInfo| pod.start_time.unwrap_or(NOW);
        let equal = a.priority == b.priority;
        a.priority > b.priority
            || equal && (start(a) < start(b) || a.start_time.is_none() && b.start_time.is_none())
    };
    for at in 1..pods.len() {
        for item in (1..=at).rev() {
            if !first(&pods[item], &pods[item - 1]) {
                break;
            }
            pods.swap(item, item - 1);
        }
    }
}

/// Returns the protected pods, if the pods are evicted in this order.
fn protected(cluster: &TestCluster, pods: &[Arc<PodInfo>]) -> Vec<Arc<PodInfo>> {
    let snapshot = cluster.snapshot();
    let default = cluster.tables.find("default").expect("the pods exist");
    let mut left: Vec<_> =
        snapshot.lookups().disruption_budgets(default).map(|b| (b, b.disruptions_allowed)).collect();
    let mut protected = Vec::new();
    for pod in pods {
        let labels = snapshot.labels(pod.labels);
        let mut broken = false;
        for (budget, left) in &mut left {
            if labels.iter().count() > 0
                && !budget.selector.is_empty()
                && budget.selector.matches(&cluster.tables, labels)
                && !budget.disrupted_pods.contains(&pod.name)
            {
                *left -= 1;
                broken |= *left < 0;
            }
        }
        if broken {
            protected.push(Arc::clone(pod));
        }
    }
    protected
}

/// Victims in descending order of importance, and the number of violations.
type Victims = (Vec<Arc<PodInfo>>, usize);

/// Returns the victims on one node, by removing all lower-priority pods and putting back as many as fit.
fn naive_victims(words: &ClusterSpec, node: &str) -> Option<Victims> {
    let (mut cluster, pod) = build(words);
    let on_node = |cluster: &TestCluster| -> Vec<Arc<PodInfo>> {
        cluster.snapshot().pods_on(cluster.idx(node)).map(|pod| Arc::new(pod.clone())).collect()
    };
    let mut lesser: Vec<_> = on_node(&cluster).into_iter().filter(|p| p.priority < pod.priority).collect();
    remove_pods(&mut cluster.cache, &lesser);
    if lesser.is_empty() || !fits(&cluster, &pod, node) {
        return None;
    }
    by_importance(&mut lesser);
    let protected = protected(&cluster, &lesser);
    let is_protected = |p: &Arc<PodInfo>| protected.iter().any(|other| other.uid == p.uid);
    let (first, then): (Vec<_>, Vec<_>) = lesser.into_iter().partition(is_protected);
    let mut victims = Vec::new();
    for lesser in first.iter().chain(&then) {
        cluster.place(lesser);
        if !fits(&cluster, &pod, node) {
            cluster.cache.remove_pod(&lesser.uid);
            victims.push(Arc::clone(lesser));
        }
    }
    let violations = victims.iter().filter(|victim| is_protected(victim)).count();
    if !first.is_empty() && !then.is_empty() {
        by_importance(&mut victims);
    }
    Some((victims, violations))
}

/// Returns the nodes whose rejection may be resolved by evictions.
fn curable(cluster: &TestCluster, pod: &PodInfo) -> Vec<String> {
    let framework = Framework::default();
    let filtered = infeasible(&framework, cluster, pod);
    let snapshot = cluster.snapshot();
    let curable = filtered.diagnose(snapshot).curable;
    curable.iter().map(|node| snapshot.text(snapshot.node_info(node).name).to_owned()).collect()
}

/// Applies upstream's criteria one after the other, each to the remaining candidates.
fn naive_choice(words: &ClusterSpec, nodes: &[String]) -> Choice {
    let tried = nodes.iter().filter_map(|node| Some((node.clone(), naive_victims(words, node)?)));
    let mut left: Vec<(String, Victims)> = tried.collect();
    let starts = |victims: &[Arc<PodInfo>]| {
        let top = victims.iter().filter(|victim| victim.priority == victims[0].priority);
        top.map(|victim| victim.start_time.unwrap_or(NOW)).min()
    };
    keep_least(&mut left, |(_, violations)| *violations);
    keep_least(&mut left, |(victims, _)| victims[0].priority);
    keep_least(&mut left, |(victims, _)| {
        victims.iter().map(|victim| i64::from(victim.priority) + (1 << 31)).sum::<i64>()
    });
    keep_least(&mut left, |(victims, _)| victims.len());
    keep_least(&mut left, |(victims, _)| Reverse(starts(victims)));
    let choice = left.into_iter().map(|(node, (victims, violations))| {
        (node, (victims.iter().map(|victim| victim.name.to_string()).collect(), violations))
    });
    choice.collect()
}

fn keep_least<T, K: Ord>(left: &mut Vec<(String, T)>, key: impl Fn(&T) -> K) {
    if let Some(least) = left.iter().map(|(_, item)| key(item)).min() {
        left.retain(|(_, item)| key(item) == least);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, max_global_rejects: 100_000, ..ProptestConfig::default() })]

    /// The dry run equals the naive search: node, victims and their order.
    #[test]
    fn hypothetical_removal_equals_actual_removal(words in words(RARE), seed in any::<u64>()) {
        let (cluster, pod) = build(&words);
        prop_assume!(!fits_somewhere(&cluster, &pod));
        prop_assert_eq!(chosen(&cluster, &pod, seed), naive_choice(&words, &curable(&cluster, &pod)));
    }

    /// Every victim has a lower priority. Without all victims the pod fits, and with any of them it does not.
    #[test]
    fn preemption_victims_are_minimal(words in words(RARE)) {
        let (mut cluster, pod) = build(&words);
        prop_assume!(!fits_somewhere(&cluster, &pod));
        for (node, (names, _)) in chosen(&cluster, &pod, 1) {
            let victims: Vec<Arc<PodInfo>> =
                names.iter().map(|name| Arc::clone(cluster.cache.placed(name).expect("a victim runs").0)).collect();
            prop_assert!(victims.iter().all(|victim| victim.priority < pod.priority));
            remove_pods(&mut cluster.cache, &victims);
            prop_assert!(fits(&cluster, &pod, &node));
            for victim in &victims {
                cluster.place(victim);
                prop_assert!(!fits(&cluster, &pod, &node), "{} is an unnecessary victim", victim.name);
                cluster.cache.remove_pod(&victim.uid);
            }
            victims.iter().for_each(|victim| cluster.place(victim));
        }
    }

    /// Pods of a node may share a host port, which upstream's dry run frees with the first of them. Here, the pod
    /// fits after the evictions, and no node is missed where evictions could help.
    #[test]
    fn preemption_frees_host_ports_shared_by_pods(words in words(SHARED), port in 80..82u16, seed in any::<u64>()) {
        let words = ClusterSpec { incoming: format!("{} port={port}", words.incoming.replace(" port=80", "")), ..words };
        let (mut cluster, pod) = build_with(&words, true);
        prop_assume!(!fits_somewhere(&cluster, &pod));
        let framework = Framework::default();
        let filtered = infeasible(&framework, &cluster, &pod);
        let snapshot = cluster.snapshot();
        let diagnosis = filtered.diagnose(snapshot);
        let failed = InfeasibleDecision { pod: &pod, snapshot, filtered: &filtered, diagnosis: &diagnosis };
        let when = (draws(seed), NOW);
        let owned = |it: &Candidate<'_>| {
            let victims: Vec<Arc<PodInfo>> = it.victims.iter().map(|&victim| Arc::new(victim.clone())).collect();
            (snapshot.text(snapshot.node_info(it.node).name).to_owned(), victims)
        };
        let room = framework.find_room(failed, when, ExtenderCandidates::Free, &mut NoProbe);
        let evicted_for = room.nomination.choose(&pod, when.0).map(owned);
        let as_upstream = framework.post_filter_with(failed, when.0, when.1, ExtenderCandidates::All, &mut NoProbe);
        let all: Vec<_> = match &as_upstream.nomination {
            Nomination::To(candidates) => candidates.iter().map(owned).collect(),
            Nomination::Keep | Nomination::Clear => Vec::new(),
        };
        let mut fits_without = |(node, victims): &(String, Vec<Arc<PodInfo>>)| {
            remove_pods(&mut cluster.cache, victims);
            let fits = fits(&cluster, &pod, node);
            victims.iter().for_each(|victim| cluster.place(victim));
            fits
        };
        match evicted_for {
            Some(candidate) => prop_assert!(fits_without(&candidate), "{candidate:?} are evicted in vain"),
            None => prop_assert!(!all.iter().any(fits_without), "evicting one of {all:?} would suffice"),
        }
    }
}
