//! Signatures that differ only in their label selectors. Later ones start from the base partition of the first.
//!
//! Their decisions must equal full evaluations. Memory use is tested in `two_queue.rs`.

mod support;

use supercargo_core::cycle::{Framework, NoProbe, Options};
use supercargo_core::incremental::DecisionCache;
use supercargo_core::model::rng::Seed;
use supercargo_core::registry::Plan;
use support::TestCluster;

/// More than two blocks of slots, and more racks than are listed by name.
const NODES: usize = 210;

struct Cluster {
    world: TestCluster,
    framework: Framework,
    decisions: DecisionCache,
    state: u64,
    pods: usize,
}

impl Cluster {
    fn new() -> Self {
        let (framework, decisions) = (Framework::default(), DecisionCache::default());
        let mut cluster = Self { world: TestCluster::new(), framework, decisions, state: 1, pods: 0 };
        (0..NODES).for_each(|number| cluster.renew(number, number % 3));
        cluster
    }

    /// A deterministic number below a bound.
    fn below(&mut self, bound: usize) -> usize {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) as usize % bound
    }

    /// Adds a node, or changes its zone. Some nodes have no rack.
    fn renew(&mut self, number: usize, zone: usize) {
        let rack =
            if number.is_multiple_of(20) { String::new() } else { format!("label:rack=r{}", number / 3) };
        let node = self.world.node_from(&format!("n{number} zone=z{zone} {rack} cpu=8 mem=8Gi"));
        self.world.add_node(&node);
        self.world.cache.refresh();
    }

    /// Places a pod on a node.
    fn place(&mut self, words: &str, node: usize) {
        self.place_named(&format!("p{}", self.pods), words, node);
        self.pods += 1;
    }

    fn place_named(&mut self, name: &str, words: &str, node: usize) {
        let pod = self.world.pod_from(&format!("{name} on=n{node} {words}"));
        self.world.place(&pod);
        self.world.cache.refresh();
    }

    /// Decides about a pod, checks that the full evaluation gives the same node, and returns it.
    fn decide(&mut self, words: &str) -> Option<usize> {
        let (pod, snapshot) = (self.world.pod_from(&format!("x {words}")), self.world.snapshot());
        let plain = self.framework.decide(&pod, snapshot, Options::default(), &mut NoProbe);
        let mut quick = self.framework.decide_cached(&mut self.decisions, &pod, snapshot, &mut NoProbe)?;
        assert!(quick.equals(&plain, Seed(7), &pod), "{words}: {quick:?}");
        Some(quick.choose(Seed(7), &pod, 1).index())
    }
}

/// Affinity, anti-affinity and spread constraints of a pod. Signatures differ only in the name of the app.
const TIES: [&str; 9] = [
    "",
    "anti=host/app=APP",
    "affinity=zone/app=APP",
    "prefer-anti=7/host/app=APP",
    "spread=zone/1/DoNotSchedule/app=APP spread=host/1/ScheduleAnyway/app=APP",
    "spread=zone/1/ScheduleAnyway/app=APP spread=host/1/ScheduleAnyway/app=APP",
    "spread=rack/1/DoNotSchedule/app=APP",
    "prefer-affinity=3/rack/app=APP anti=host/app=APP",
    "spread=zone/2/DoNotSchedule/app=APP/honor-taints prefer-anti=1/rack/app=APP",
];

fn of(app: &str, ties: &str) -> String {
    format!("label:app={app} cpu=100m {}", ties.replace("APP", app))
}

#[test]
fn decision_from_the_base_partition_equals_full_evaluation() {
    let mut cluster = Cluster::new();
    let mut answers = 0;
    for turn in 0..700 {
        // Some apps return again and again, some occur once, and one has pods on most nodes.
        let app = match cluster.below(3) {
            0 => format!("often-{}", cluster.below(5)),
            1 => "everywhere".to_owned(),
            _ => format!("once-{turn}"),
        };
        let words = of(&app, TIES[cluster.below(TIES.len())]);
        if let Some(node) = cluster.decide(&words) {
            answers += 1;
            cluster.place(&words, node);
        }
        // Pods bound by others, deleted pods, and changed nodes.
        let (node, zone, gone) = (cluster.below(NODES), cluster.below(4), cluster.below(cluster.pods.max(1)));
        if turn % 3 == 0 {
            cluster.place(&of("everywhere", ""), turn / 3 % NODES);
            cluster.place(&of(&format!("once-{}", turn + 1), ""), node);
        }
        // A node is full for a while, and then accepts pods again without a change of its object.
        match turn % 5 {
            0 => cluster.place_named("large", "cpu=8", node),
            3 => _ = cluster.world.cache.remove_pod("large"),
            _ => {}
        }
        match turn % 40 {
            10 | 20 => _ = cluster.world.cache.remove_pod(&format!("p{gone}")),
            30 => cluster.renew(node, zone),
            _ => {}
        }
        cluster.world.cache.refresh();
    }
    assert!(answers > 400, "{answers} decisions were remembered");
}

#[test]
fn pods_with_self_matching_terms_are_fully_evaluated_once() {
    for ties in TIES {
        let mut cluster = Cluster::new();
        let words = of("a", ties);
        let node = cluster.decide(&words).expect("a node is feasible");
        cluster.place(&words, node);
        for _ in 0..2 {
            let node = cluster.decide(&words).expect("a node is feasible");
            cluster.place(&words, node);
        }
        assert_eq!(cluster.decisions.computed(), 1, "{ties}");
    }
}

/// The totals of cached decisions have 32 bits.
#[test]
fn decisions_with_enormous_weights_are_not_cached() {
    let mut cluster = Cluster::new();
    let pod = cluster.world.pod_from("x cpu=1");
    for (weight, is_cached) in [(1, true), (i64::from(i32::MAX), false)] {
        let mut plan = Plan::of(cluster.world.tables.rules());
        plan.weights.insert("NodeResourcesFit", weight);
        let framework = Framework::new(&plan);
        let mut decisions = DecisionCache::default();
        let snapshot = cluster.world.snapshot();
        let cached = framework.decide_cached(&mut decisions, &pod, snapshot, &mut NoProbe);
        assert_eq!(cached.is_some(), is_cached, "{weight}");
    }
}
