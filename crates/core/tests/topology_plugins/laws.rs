//! Property tests over generated clusters.

use crate::support::run::{rules, scores, sets_equal_verdicts};
use crate::support::{Plugins, TestCluster};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use std::sync::Arc;
use supercargo_core::cache::{Overlay, PodState};
use supercargo_core::framework::{FilterPlugin, FilterRule, Prepared, ScorePlugin, Verdict};
use supercargo_core::model::pod::PodInfo;
use supercargo_core::plugins::inter_pod_affinity::InterPodAffinity;
use supercargo_core::plugins::pod_topology_spread::PodTopologySpread;

const NODES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Generates the fields of a node other than its name.
fn node_words() -> impl Strategy<Value = String> {
    let zone = select(vec!["", "zone=z1", "zone=z2", "zone=z2"]);
    let odd = select(vec!["", "", "", "nohost", "label:disk=ssd", "taint=k=v:NoSchedule"]);
    (zone, odd).prop_map(|(zone, odd)| format!("{zone} {odd}"))
}

/// Generates labels and namespace of a pod.
fn identity() -> impl Strategy<Value = String> {
    let words = vec!["label:app=web", "label:tier=fe", "ns=other"];
    subsequence(words, 0..=3).prop_map(|words| {
        // The namespace is first, since terms use the namespace known so far.
        words.into_iter().rev().collect::<Vec<_>>().join(" ")
    })
}

/// Generates affinity terms of all kinds.
fn terms() -> impl Strategy<Value = String> {
    let kind = select(vec!["affinity=", "anti=", "prefer-affinity=5/", "prefer-anti=3/", "anti="]);
    let key = select(vec!["zone", "host", "disk"]);
    let selector = select(vec!["app=web", "tier:absent", "*", "-", "app=web;tier=fe"]);
    let namespaces =
        select(vec!["", "", "/ns=other", "/nssel=env=prod", "/nssel=env:notin:prod", "/nssel=*"]);
    let term = (kind, key, selector, namespaces).prop_map(|(k, key, s, n)| format!("{k}{key}/{s}{n}"));
    prop::collection::vec(term, 0..3).prop_map(|terms| terms.join(" "))
}

/// Generates spread constraints.
fn constraints() -> impl Strategy<Value = String> {
    let key = select(vec!["zone", "host", "disk"]);
    let when = select(vec!["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]);
    let selector = select(vec!["app=web", "tier:absent", "-", "app=web;tier=fe"]);
    let options = select(vec!["", "", "/min=2", "/min=3/honor-taints", "/honor-taints", "/ignore-affinity"]);
    let constraint = (key, 1..4, when, selector, options)
        .prop_map(|(key, skew, when, s, options)| format!("spread={key}/{skew}/{when}/{s}{options}"));
    let select = select(vec!["", "", "select:disk=ssd", "tolerate=k=v"]);
    (prop::collection::vec(constraint, 0..3), select)
        .prop_map(|(c, select)| format!("{} {select}", c.join(" ")))
}

#[derive(Clone, Debug)]
struct Cluster {
    nodes: Vec<String>,
    /// Each with the index of its node, and its fields other than the name.
    pods: Vec<(usize, String)>,
    incoming: String,
}

fn cluster() -> impl Strategy<Value = Cluster> {
    let placed = (0..NODES.len(), (identity(), terms(), select(vec!["", "", "", "deleting"])));
    (
        prop::collection::vec(node_words(), 1..=NODES.len()),
        prop::collection::vec(placed, 0..8),
        (identity(), terms(), constraints()),
    )
        .prop_map(|(nodes, pods, (identity, terms, constraints))| {
            let count = nodes.len();
            let pods = pods.into_iter().map(|(at, (i, t, d))| (at % count, format!("{i} {t} {d}")));
            Cluster { pods: pods.collect(), nodes, incoming: format!("{identity} {terms} {constraints}") }
        })
}

impl Cluster {
    /// Returns the world without pods, the pods, and the incoming pod.
    fn parts(&self) -> (TestCluster, Vec<Arc<PodInfo>>, Arc<PodInfo>) {
        let mut world = TestCluster::new();
        for (name, words) in NODES.iter().zip(&self.nodes) {
            let node = world.node_from(&format!("{name} {words}"));
            world.add_node(&node);
        }
        for (name, env) in [("default", "test"), ("other", "prod")] {
            let (key, value) = (world.tables.symbol("env"), world.tables.symbol(env));
            let (name, labels) = (world.tables.symbol(name), world.tables.label_set(vec![(key, value)]));
            world.cache.lookups_mut().set_namespace(name, labels);
        }
        let pod = |world: &mut TestCluster, at: usize, (node, words): &(usize, String)| {
            world.pod_from(&format!("p{at} on={} {words}", NODES[*node]))
        };
        let pods = self.pods.iter().enumerate().map(|(at, spec)| pod(&mut world, at, spec)).collect();
        let incoming = world.pod_from(&format!("x {}", self.incoming));
        (world, pods, incoming)
    }

    fn build(&self) -> (TestCluster, Arc<PodInfo>) {
        let (mut world, pods, incoming) = self.parts();
        pods.iter().for_each(|pod| world.place(pod));
        (world, incoming)
    }
}

fn filters() -> Plugins {
    let mut plugins = Plugins::default();
    plugins.filter(PodTopologySpread::default());
    plugins.filter(InterPodAffinity::default());
    plugins
}

fn rule(plugin: &dyn FilterPlugin, world: &TestCluster, pod: &PodInfo) -> Option<Box<dyn FilterRule>> {
    match plugin.prepare(pod, world.snapshot()) {
        Prepared::Run { rule, .. } => Some(rule),
        _ => None,
    }
}

proptest! {
    #[test]
    fn filter_equals_check(cluster in cluster()) {
        let (world, incoming) = cluster.build();
        sets_equal_verdicts(world.snapshot(), &rules(&world, &filters(), &incoming));
    }

    /// The verdict with an overlay equals the verdict in a world where the overlay is applied.
    #[test]
    fn overlay_equals_the_changed_cluster(cluster in cluster(), node in 0..NODES.len(), split in 0usize..256) {
        let node = node % cluster.nodes.len();
        let (mut before, pods, incoming) = cluster.parts();
        let (mut after, ..) = cluster.parts();
        let mut overlay = Overlay::new();
        for (at, pod) in pods.iter().enumerate() {
            // Terminating pods count differently in the world and in an overlay.
            let here = cluster.pods[at].0 == node && !pod.deleting;
            let comes = here && split >> at & 1 == 1;
            let goes = here && !comes && split >> (7 - at % 8) & 1 == 1;
            let name = pod.node_name.expect("each is on a node");
            if comes {
                overlay.add(pod);
            } else {
                before.cache.place(pod, name, PodState::Added);
            }
            if goes {
                overlay.remove(pod);
            } else {
                after.cache.place(pod, name, PodState::Added);
            }
        }
        let idx = before.idx(NODES[node]);
        for plugin in &filters().filters {
            // A plugin that skips the pod gives no verdict, whatever the nominations.
            let Some(rule_before) = rule(&**plugin, &before, &incoming) else { continue };
            let thought = rule_before.check(&before.snapshot().node(idx).with(&overlay));
            let real = rule(&**plugin, &after, &incoming)
                .map_or(Verdict::Fits, |rule| rule.check(&after.snapshot().node(after.idx(NODES[node]))));
            prop_assert_eq!(thought, real, "{}", plugin.name());
        }
    }

    /// The results do not depend on the order of pods, or on their former nodes.
    #[test]
    fn verdicts_and_scores_depend_on_the_state_alone(cluster in cluster()) {
        let (world, incoming) = cluster.build();
        let (mut other, pods, _) = cluster.parts();
        for pod in pods.iter().rev() {
            let elsewhere = other.nodes[0];
            other.cache.place(pod, elsewhere, PodState::Assumed);
        }
        for pod in &pods {
            other.cache.place(pod, pod.node_name.expect("each is on a node"), PodState::Added);
        }
        for plugin in &filters().filters {
            let rules = [&world, &other].map(|w| rule(&**plugin, w, &incoming));
            prop_assert_eq!(rules[0].is_some(), rules[1].is_some());
            if let [Some(one), Some(two)] = rules {
                for idx in world.snapshot().nodes().iter() {
                    let said = one.check(&world.snapshot().node(idx));
                    prop_assert_eq!(said, two.check(&other.snapshot().node(idx)));
                }
            }
        }
        let plugins: [&dyn ScorePlugin; 2] = [&PodTopologySpread::default(), &InterPodAffinity::default()];
        for plugin in plugins {
            let cells = [&world, &other].map(|w| {
                let all = w.snapshot().nodes().clone();
                match plugin.prepare(&incoming, w.snapshot(), &all) {
                    Prepared::Run { rule, .. } => Some(scores(w.snapshot(), &*rule, &all)),
                    _ => None,
                }
            });
            prop_assert_eq!(&cells[0], &cells[1]);
        }
    }
}
