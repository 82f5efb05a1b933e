//! Property tests over small clusters with many edge cases: no requests, empty nodes, full nodes, one pod too many.

use crate::support::run::{rules, scores, sets_equal_verdicts};
use crate::support::{Plugins, TestCluster};
use proptest::prelude::*;
use std::sync::Arc;
use supercargo_core::cache::Overlay;
use supercargo_core::framework::{Prepared, Verdict};
use supercargo_core::model::intern::Tables;
use supercargo_core::model::pod::PodInfo;

/// All plugins of this file, with arguments that cover their branches.
const PLUGINS: &str = "NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts ImageLocality \
    NodeResourcesFit NodeResourcesFit(MostAllocated+cpu=3+memory=1+ephemeral-storage=2+example.com/a=100) \
    NodeResourcesFit(RequestedToCapacityRatio=0:10,30:0,100:7+cpu=5+memory=1+ignore-group=example.com) \
    NodeAffinity(require=zone:in:z1+prefer=7/disk=ssd) \
    NodeResourcesBalancedAllocation NodeResourcesBalancedAllocation(cpu+memory+ephemeral-storage+example.com/a)";

fn all(tables: &mut Tables) -> Plugins {
    let mut plugins = Plugins::default();
    PLUGINS.split_whitespace().for_each(|word| crate::plugins(word, tables, &mut plugins));
    plugins
}

fn amount() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => prop::sample::select(vec![0, 1, 2, 3, 4, 5]),
        1 => prop::sample::select(vec![99, 100, 101, i64::MAX / 100, i64::MAX / 2, i64::MAX]),
    ]
}

/// Returns a subset of `words`.
fn some_of(words: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    prop::sample::subsequence(words, 0..=words.len().min(4))
}

fn node() -> impl Strategy<Value = String> {
    let amounts = (amount(), amount(), amount(), amount(), prop::sample::select(vec![0, 1, 2, 110]));
    let rest = some_of(&[
        "unschedulable",
        "zone=z1",
        "label:disk=ssd",
        "label:n=5",
        "taint=k=v:NoSchedule",
        "taint=k=w:NoExecute",
        "taint=j:PreferNoSchedule",
        "taint=k=v:PreferNoSchedule",
        "image=i:latest@900Mi",
        "image=j:latest@40Mi",
    ]);
    (amounts, rest).prop_map(|((cpu, mem, eph, gpu, pods), rest)| {
        format!("cpu={cpu}m mem={mem} eph={eph} res:example.com/a={gpu} pods={pods} {}", rest.join(" "))
    })
}

fn pod() -> impl Strategy<Value = String> {
    let amounts = prop::collection::vec(prop::option::of(amount()), 5);
    let rest = some_of(&[
        "tolerate=*:NoSchedule",
        "tolerate=k",
        "tolerate=k=v:NoSchedule",
        "tolerate=j:PreferNoSchedule",
        "port=80",
        "port=127.0.0.1:80",
        "port=UDP/:80",
        "select:zone=z1",
        "require=disk=ssd",
        "require=n:gt:4;zone:absent",
        "require=@name:in:n1",
        "require=@name:notin:n1",
        "prefer=3/zone=z1",
        "prefer=100/disk:absent",
        "image=i:latest",
        "image=j:latest",
        "containers=3",
    ]);
    (amounts, rest).prop_map(|(amounts, rest)| {
        let keys = ["cpu", "mem", "eph", "res:example.com/a", "res:example.com/b"];
        let asked = keys.iter().zip(amounts).filter_map(|(key, amount)| {
            let unit = if *key == "cpu" { "m" } else { "" };
            amount.map(|amount| format!("{key}={amount}{unit} "))
        });
        format!("{}{}", asked.collect::<String>(), rest.join(" "))
    })
}

/// Generates nodes, pods with their nodes, and a pod to decide about.
fn cluster() -> impl Strategy<Value = (Vec<String>, Vec<(usize, String)>, String)> {
    let nodes = prop::collection::vec(node(), 1..5);
    let pods = prop::collection::vec((0usize..4, pod()), 0..6);
    (nodes, pods, pod())
}

/// Builds the cluster, and returns it with the bound pods.
fn build(nodes: &[String], pods: &[(usize, String)]) -> (TestCluster, Vec<Arc<PodInfo>>) {
    let mut world = TestCluster::new();
    for (at, words) in nodes.iter().enumerate() {
        let node = world.node_from(&format!("n{at} {words}"));
        world.add_node(&node);
    }
    let placed = pods.iter().enumerate().map(|(at, (node, words))| {
        let pod = world.pod_from(&format!("p{at} on=n{} {words}", node % nodes.len()));
        world.place(&pod);
        pod
    });
    let placed = placed.collect();
    world.cache.refresh();
    (world, placed)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn filter_equals_check((nodes, pods, pod) in cluster()) {
        let (mut world, _) = build(&nodes, &pods);
        let plugins = all(&mut world.tables);
        let pod = world.pod_from(&format!("x {pod}"));
        sets_equal_verdicts(world.snapshot(), &rules(&world, &plugins, &pod));
    }

    /// Verdict numbers are 0 for feasible nodes, and equal only for equal rejections.
    #[test]
    fn reason_numbers_equal_verdicts((nodes, pods, pod) in cluster(), come in pod()) {
        let (mut world, _) = build(&nodes, &pods);
        let plugins = all(&mut world.tables);
        let (pod, come) = (world.pod_from(&format!("x {pod}")), world.pod_from(&format!("y {come}")));
        let mut overlay = Overlay::new();
        overlay.add(&come);
        let snapshot = world.snapshot();
        for (name, rule) in rules(&world, &plugins, &pod) {
            let views = snapshot.nodes().iter().map(|idx| snapshot.node(idx)).flat_map(|it| [it, it.with(&overlay)]);
            let verdicts: Vec<_> = views.map(|view| (rule.verdict_number(&view), rule.check(&view))).collect();
            for (number, verdict) in verdicts.iter().filter(|(number, _)| number.is_some()) {
                prop_assert_eq!(*number == Some(0), *verdict == Verdict::Fits, "{}", name);
                let same = verdicts.iter().filter(|(other, _)| other == number);
                prop_assert!(same.into_iter().all(|(_, other)| other == verdict), "{}", name);
            }
        }
    }

    /// A node with an overlay is evaluated like a node where the overlay is applied.
    #[test]
    fn overlay_equals_the_changed_node((nodes, pods, pod) in cluster(), gone in any::<u8>(), come in pod()) {
        let (mut world, placed) = build(&nodes, &pods);
        let plugins = all(&mut world.tables);
        let pod = world.pod_from(&format!("x {pod}"));
        let come = world.pod_from(&format!("y on=n0 {come}"));
        let on_first = |p: &&Arc<PodInfo>| p.node_name == come.node_name;
        let gone: Vec<_> = placed.iter().filter(on_first).enumerate()
            .filter(|(at, _)| gone & (1 << at) != 0).map(|(_, p)| p).collect();
        prop_assume!(sums_stay_in_range(&placed, &come));

        let mut overlay = Overlay::new();
        gone.iter().for_each(|p| overlay.remove(p));
        overlay.add(&come);
        let thought: Vec<(&str, Verdict)> = {
            let view = world.snapshot().node(world.idx("n0")).with(&overlay);
            rules(&world, &plugins, &pod).iter().map(|(name, rule)| (*name, rule.check(&view))).collect()
        };
        for p in &gone {
            world.cache.remove_pod(&p.uid);
        }
        world.place(&come);
        let view = world.snapshot().node(world.idx("n0"));
        let done: Vec<(&str, Verdict)> =
            rules(&world, &plugins, &pod).iter().map(|(name, rule)| (*name, rule.check(&view))).collect();
        prop_assert_eq!(thought, done);
    }

    /// `scores` checks the range.
    #[test]
    fn scores_are_in_range((nodes, pods, pod) in cluster()) {
        let (mut world, _) = build(&nodes, &pods);
        let plugins = all(&mut world.tables);
        let pod = world.pod_from(&format!("x {pod}"));
        let (snapshot, feasible) = (world.snapshot(), world.snapshot().nodes());
        for plugin in &plugins.scores {
            if let Prepared::Run { rule, .. } = plugin.prepare(&pod, snapshot, feasible) {
                prop_assert!(scores(snapshot, &*rule, feasible).is_ok());
            }
        }
    }
}

/// Whether no sum of requests overflows. After an overflow, subtraction does not undo addition.
fn sums_stay_in_range(placed: &[Arc<PodInfo>], come: &Arc<PodInfo>) -> bool {
    let pods = || placed.iter().chain([come]).map(|pod| &pod.resources);
    let fits = |amount: &dyn Fn(&supercargo_core::model::resources::Resources) -> i64| {
        pods().try_fold(0i64, |sum, r| sum.checked_add(amount(&r.placed))).is_some()
    };
    fits(&|r| r.cpu_milli)
        && fits(&|r| r.memory)
        && fits(&|r| r.ephemeral_storage)
        && pods().flat_map(|r| &r.placed.scalar).try_fold(0i64, |sum, s| sum.checked_add(s.1)).is_some()
        && pods().try_fold(0i64, |sum, r| sum.checked_add(r.non_zero_cpu_milli)).is_some()
        && pods().try_fold(0i64, |sum, r| sum.checked_add(r.non_zero_memory)).is_some()
}
