//! Property tests: cached decisions equal full evaluations for any number of topology domains and of nodes per
//! domain.
//!
//! Nodes, pods, namespaces and storage change between the decisions.

mod support;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use std::sync::Arc;
use supercargo_core::cache::Snapshot;
use supercargo_core::cache::slice::Evaluation;
use supercargo_core::cycle::{Decision, Framework, NoProbe, Options};
use supercargo_core::framework::CycleError;
use supercargo_core::incremental::DecisionCache;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::model::rng::Seed;
use supercargo_core::model::volume::{StorageKey, StorageKind};
use support::racks::{Racks, racks};
use support::{TestCluster, language};

/// The fields of a node other than name and rack.
const NODES: [&str; 11] = [
    "zone=z1 cpu=8 mem=8Gi",
    "zone=z2 cpu=8 mem=8Gi",
    "zone=z1 cpu=8 mem=8Gi taint=gpu:NoSchedule",
    "zone=z1 cpu=8 mem=8Gi unschedulable",
    "zone=z1 cpu=1 mem=8Gi",
    "zone=z1 cpu=8 mem=8Gi pods=1",
    "zone=z3 cpu=8 mem=8Gi label:disk=ssd",
    "zone=z2 cpu=8 mem=8Gi taint=spot:PreferNoSchedule label:disk=ssd",
    "zone=z1 cpu=8 mem=8Gi nohost",
    "cpu=8 mem=8Gi",
    "zone=z1 cpu=8 mem=8Gi label:rack=",
];
const PLACED: [&str; 19] = [
    "label:app=a",
    "label:app=b",
    "label:app=c label:tier=back cpu=1",
    "label:app=a ns=other",
    "label:app=a deleting",
    "label:app=a anti=rack/app=b",
    "label:app=b anti=rack/app=c",
    "label:app=a anti=rack/app=c/nssel=team=red ns=other",
    "label:app=b affinity=rack/app=a",
    "label:app=a prefer-anti=7/rack/app=a",
    "label:app=b prefer-affinity=5/rack/app=c",
    "label:app=a anti=host/app=b cpu=6",
    "label:app=a owner=ReplicaSet/rs",
    "label:app=a claim=c1",
    "label:app=b claim=once",
    "cpu=7",
    "cpu=7 priority=2",
    "port=80 label:app=a",
    "label:app=b prefer-anti=100/zone/app=a prefer-affinity=100/host/app=c",
];
/// Signatures that are decided repeatedly.
const WANTED: [&str; 39] = [
    "x affinity=rack/app=a",
    "x label:app=a affinity=rack/app=a",
    "x anti=rack/app=a",
    "x label:app=a anti=rack/app=a",
    "x label:app=b",
    "x label:app=c",
    "x affinity=rack/app=a/nssel=team=red",
    "x anti=rack/app=a/ns=other,default",
    "x affinity=rack/app=a affinity=zone/app=b",
    "x affinity=rack/app=a anti=host/app=b cpu=2",
    "x affinity=rack/app=a prefer=5/disk:in:ssd tolerate=spot",
    "x prefer-affinity=10/rack/app=a",
    "x prefer-anti=10/rack/app=b prefer-affinity=3/zone/app=a",
    "x prefer-affinity=10/rack/app=a/nssel=team=red",
    "x label:app=a spread=rack/1/DoNotSchedule/app=a",
    "x label:app=a spread=rack/2/DoNotSchedule/app=a/min=64",
    "x label:app=a spread=rack/1/DoNotSchedule/app=a/min=66/honor-taints",
    "x label:app=b spread=rack/1/DoNotSchedule/app=a/ignore-affinity select:disk=ssd",
    "x label:app=a spread=rack/1/DoNotSchedule/app=a spread=zone/5/DoNotSchedule/app=a",
    "x label:app=a spread=rack/1/ScheduleAnyway/app=a",
    "x label:app=a spread=rack/1/ScheduleAnyway/app=a spread=host/1/ScheduleAnyway/app=a",
    "x label:app=a spread=rack/1/ScheduleAnyway/app=a/honor-taints prefer-anti=4/rack/app=c",
    "x label:app=c label:tier=back",
    "x label:app=a owner=ReplicaSet/rs",
    "x affinity=rack/app=a claim=c1",
    "x label:app=a spread=rack/1/DoNotSchedule/app=a claim=open",
    "x anti=rack/app=b claim=once",
    "x select:rack=r1 anti=host/app=a",
    // More names than the limit for short lists, so that the nodes in question are cached.
    "x anti=rack/app=a require=@name:in:n0 require=@name:in:n1 require=@name:in:n2 require=@name:in:n3 \
     require=@name:in:n4 require=@name:in:n5 require=@name:in:n6 require=@name:in:n7 require=@name:in:n8 require=@name:in:n9",
    // Sums far apart, with three topology keys.
    "x prefer-affinity=100/rack/app=a prefer-anti=100/host/app=b prefer-affinity=90/zone/app=a prefer-anti=100/rack/app=c",
    "x affinity=rack/app=a nominated=n1",
    "x port=80 affinity=rack/app=a",
    // Signatures without affinity. Nodes with nominated pods are evaluated one by one.
    "x cpu=5",
    "x cpu=5 priority=1",
    "x port=80",
    // Rejected, or failing with an error, before any node is evaluated.
    "x require=@name:in:n1;@name:in:n2",
    "x prefer=?broken",
    "x spread=rack/1/DoNotSchedule/?broken",
    "x spread=rack/1/ScheduleAnyway/?broken",
];
/// The initial storage objects.
const STORAGE: [&str; 8] = [
    "class late of=driver",
    "pv v1 csi=driver/h1",
    "pv v4 csi=driver/h4 class=late size=10Gi modes=RWO at=disk=ssd",
    "pvc c1 bound=v1",
    "pvc once bound=v1 modes=RWOP",
    "pvc open class=late size=5Gi modes=RWO",
    "namespace default label:team=red",
    "namespace other label:team=red",
];
/// Changes of objects other than nodes and pods; @ stands for a node.
const OTHERS: [&str; 20] = [
    "namespace default",
    "namespace default label:team=red",
    "namespace other label:team=blue",
    "namespace other label:team=red",
    "service s select:tier=back",
    "service s select:app=a",
    "controller ReplicaSet/rs app=a",
    "controller ReplicaSet/rs app=b",
    "device-class gpus serves=example.com/gpu",
    "csinode @ driver=1",
    "csinode @ driver=0",
    "csinode @",
    "attachment one-@ on=@ by=driver of=v1",
    "pv v1 csi=driver/h1 zone=z1",
    "pv v1 csi=driver/h1",
    "pv v4 csi=driver/h4 class=late size=10Gi modes=RWO at=zone=z1",
    "pvc c1 bound=v1 deleting",
    "pvc c1 bound=v1",
    "class late of=driver topology=zone:in:z1",
    "class late of=driver immediate",
];
const PODS: usize = 24;

#[derive(Clone, Debug)]
enum Change {
    /// A node moves to another rack.
    Move {
        node: usize,
        to: usize,
    },
    /// A node changes in its rack, or a deleted node is added again.
    Node {
        node: usize,
        what: usize,
    },
    /// Many nodes change at once, including whole blocks.
    Nodes {
        from: usize,
        what: usize,
    },
    NodeGone(usize),
    Place {
        pod: usize,
        node: usize,
        what: usize,
    },
    Gone(usize),
    Nominate {
        pod: usize,
        node: Option<usize>,
        what: usize,
    },
    Other {
        what: usize,
        node: usize,
    },
    OtherGone(usize),
    /// All caches are cleared, as after a panic.
    Clear,
    Ask(usize),
}

fn change() -> impl Strategy<Value = Change> {
    // Most changes affect a few nodes, so that they interact.
    let node = || prop_oneof![3 => 0..10_usize, 1 => 0..1_000_usize];
    let (pod, placed) = (0..PODS, 0..PLACED.len());
    prop_oneof![
        6 => (node(), any::<prop::sample::Index>())
            .prop_map(|(node, to)| Change::Move { node, to: to.index(10_000) }),
        3 => (node(), 0..NODES.len()).prop_map(|(node, what)| Change::Node { node, what }),
        1 => (0..2_usize, prop::sample::select(vec![0, 1, 4, 7]))
            .prop_map(|(from, what)| Change::Nodes { from: from * 64, what }),
        1 => node().prop_map(Change::NodeGone),
        8 => (pod.clone(), node(), placed.clone()).prop_map(|(pod, node, what)| Change::Place { pod, node, what }),
        2 => pod.prop_map(Change::Gone),
        2 => (0..3_usize, prop::option::weighted(0.8, node()), placed)
            .prop_map(|(pod, node, what)| Change::Nominate { pod, node, what }),
        3 => (0..OTHERS.len(), node()).prop_map(|(what, node)| Change::Other { what, node }),
        1 => (0..6_usize).prop_map(Change::OtherGone),
        1 => Just(Change::Clear),
        // Some signatures are decided often, and stay in the cache when it is small.
        8 => (0..4_usize).prop_map(|wanted| Change::Ask(wanted * 6)),
        16 => (0..WANTED.len()).prop_map(Change::Ask),
    ]
}

struct Law {
    cluster: TestCluster,
    racks: Racks,
    /// For each node, its rack and the index of its other fields.
    nodes: Vec<(Option<usize>, usize)>,
    framework: Framework,
    decisions: DecisionCache,
    wanted: Vec<Arc<PodInfo>>,
    /// For each wanted pod, its evaluation in slices.
    evaluations: Vec<Evaluation>,
    /// The number of completed evaluations that needed several slices.
    sliced: usize,
}

/// Formats everything that a decision contains.
fn outcome(decision: &Result<Decision, CycleError>, snapshot: Snapshot<'_>) -> String {
    match decision {
        Err(CycleError(text)) => text.clone(),
        Ok(Decision::Infeasible(filtered)) => {
            let diagnosis = filtered.diagnose(snapshot);
            format!("{} {:?}", diagnosis.message, diagnosis.rejectors)
        }
        Ok(Decision::Feasible(found)) => {
            let nodes: Vec<_> = found.filtered.feasible().iter().collect();
            format!("{nodes:?} {:?}", found.scores.as_ref().map(|scores| &scores.totals))
        }
    }
}

impl Law {
    /// Creates the world; `room` limits the size of the decision cache in bytes.
    fn new(racks: &Racks, room: usize) -> Self {
        let mut cluster = TestCluster::new();
        let wanted = WANTED.map(|words| cluster.pod_from(words)).to_vec();
        STORAGE.iter().for_each(|line| language::apply(&mut cluster, line));
        let nodes = racks.of_nodes().into_iter().map(|rack| (rack, 0)).collect();
        let (framework, decisions) = (Framework::default(), DecisionCache::with_bytes_max(room));
        let evaluations = wanted.iter().map(|_| Evaluation::default()).collect();
        let racks = racks.clone();
        let mut law = Self { cluster, racks, nodes, framework, decisions, wanted, evaluations, sliced: 0 };
        (0..law.nodes.len()).for_each(|node| law.renew(node));
        law
    }

    /// Adds or changes a node.
    fn renew(&mut self, node: usize) {
        let (rack, what) = self.nodes[node];
        let rack = rack.map_or_else(String::new, |rack| format!("label:rack=r{rack}"));
        let words = NODES[what];
        let rack = if words.contains("label:rack=") { "" } else { &rack };
        let node = self.cluster.node_from(&format!("n{node} {rack} {words}"));
        self.cluster.add_node(&node);
    }

    fn apply(&mut self, change: &Change) {
        let count = self.nodes.len();
        match *change {
            Change::Move { node, to } => {
                self.nodes[node % count].0 = self.racks.pick(to);
                self.renew(node % count);
            }
            Change::Node { node, what } => {
                self.nodes[node % count].1 = what;
                self.renew(node % count);
            }
            Change::Nodes { from, what } => (from..count).for_each(|node| {
                self.nodes[node].1 = what;
                self.renew(node);
            }),
            Change::NodeGone(node) => {
                let name = self.cluster.tables.symbol(&format!("n{}", node % count));
                self.cluster.cache.remove_node(name);
            }
            Change::Place { pod, node, what } => {
                let words = format!("q{pod} on=n{} {}", node % count, PLACED[what]);
                let pod = self.cluster.pod_from(&words);
                self.cluster.place(&pod);
            }
            Change::Gone(pod) => {
                self.cluster.cache.remove_pod(&format!("q{pod}"));
            }
            Change::Nominate { pod, node, what } => {
                let pod = self.cluster.pod_from(&format!("m{pod} {}", PLACED[what]));
                let node = node.map(|node| self.cluster.tables.symbol(&format!("n{}", node % count)));
                self.cluster.cache.nominate(&pod, node);
            }
            Change::Other { what, node } => {
                language::apply(&mut self.cluster, &OTHERS[what].replace('@', &format!("n{}", node % count)));
            }
            Change::OtherGone(what) => self.lose(what),
            Change::Clear => self.decisions.clear(),
            Change::Ask(wanted) => _ = self.ask(wanted),
        }
    }

    fn lose(&mut self, what: usize) {
        let TestCluster { tables, cache, .. } = &mut self.cluster;
        let default = tables.symbol("default");
        let storage = [
            (StorageKind::PersistentVolume, None, "v4"),
            (StorageKind::PersistentVolumeClaim, Some(default), "open"),
            (StorageKind::StorageClass, None, "late"),
        ];
        match storage.get(what) {
            Some(&(kind, namespace, name)) => {
                let name = tables.symbol(name);
                cache.volumes_mut().remove(StorageKey { kind, namespace, name });
            }
            None if what == 3 => cache.lookups_mut().remove_service(default, tables.symbol("s")),
            None if what == 4 => cache.lookups_mut().remove_namespace(tables.symbol("other")),
            None => cache.lookups_mut().device_classes_mut().remove(tables.symbol("gpus")),
        }
    }

    /// Evaluates another slice for a signature, and returns whether it was the last one.
    fn slice(&mut self, wanted: usize) -> bool {
        const WORK: [u64; 5] = [1, 7, 40, 200, 2_000];
        self.cluster.cache.refresh();
        let (pod, snapshot) = (&self.wanted[wanted], self.cluster.snapshot());
        fn decide(framework: &Framework, pod: &PodInfo, snapshot: Snapshot<'_>) -> String {
            outcome(&framework.decide(pod, snapshot, Options::default(), &mut NoProbe), snapshot)
        }
        let found = self.evaluations[wanted].go_on(pod, snapshot, WORK[wanted % WORK.len()], |snapshot| {
            decide(&self.framework, pod, snapshot)
        });
        let Some(found) = found else {
            self.sliced += 1;
            return false;
        };
        assert_eq!(found, decide(&self.framework, pod, snapshot), "in slices: {}", WANTED[wanted]);
        true
    }

    /// Decides about a signature in all ways, and returns whether there was a cached decision.
    fn ask(&mut self, wanted: usize) -> bool {
        self.slice(wanted);
        self.cluster.cache.refresh();
        let (pod, snapshot) = (&self.wanted[wanted], self.cluster.snapshot());
        let plain = self.framework.decide(pod, snapshot, Options::default(), &mut NoProbe);
        let quick = self.framework.decide_cached(&mut self.decisions, pod, snapshot, &mut NoProbe);
        let Some(mut quick) = quick else { return false };
        assert!(quick.equals(&plain, Seed(7), pod), "{}: {quick:?}", WANTED[wanted]);
        let Ok(Decision::Feasible(plain)) = plain else { unreachable!("they are the same") };
        let node = quick.choose(Seed(7), pod, 1);
        assert_eq!(quick.reserve(snapshot, node), plain.filtered.reserve(snapshot, node).ok());
        true
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn cached_decision_equals_full_evaluation_at_any_number_of_domains(
        racks in racks(),
        room in prop::sample::select(vec![1 << 13, 1 << 15, 1 << 17, usize::MAX]),
        changes in prop::collection::vec(change(), 1..120),
    ) {
        let mut law = Law::new(&racks, room);
        changes.iter().for_each(|change| law.apply(change));
        for (wanted, words) in WANTED.iter().enumerate() {
            law.ask(wanted);
            let slices = (0..100_000).take_while(|_| !law.slice(wanted)).count();
            prop_assert!(slices < 100_000, "without an end: {}", words);
        }
    }
}

fn place_in(cluster: &mut TestCluster, node: usize, rack: usize) {
    let node = cluster.node_from(&format!("n{node} cpu=8 mem=8Gi label:rack=r{rack}"));
    cluster.add_node(&node);
}

/// Returns a cluster of two nodes per rack with more racks than are listed by name, and a pod that is attracted by
/// another on `n0`.
fn racks_of_two() -> (TestCluster, Arc<PodInfo>) {
    let mut cluster = TestCluster::new();
    (0..132).for_each(|node| place_in(&mut cluster, node, node / 2));
    let peer = cluster.pod_from("peer on=n0 label:app=a");
    cluster.place(&peer);
    let pod = cluster.pod_from("x affinity=rack/app=a");
    (cluster, pod)
}

/// One of two nodes leaves with the pod that attracted others.
#[test]
fn node_that_leaves_a_domain_of_two_takes_its_pods_from_the_other() {
    let (mut cluster, pod) = racks_of_two();
    let (framework, mut decisions) = (Framework::default(), DecisionCache::default());
    let mut feasible = |cluster: &TestCluster| {
        let quick = framework.decide_cached(&mut decisions, &pod, cluster.snapshot(), &mut NoProbe);
        quick.expect("the cluster has nodes").feasible().iter().map(|node| node.index()).collect::<Vec<_>>()
    };
    assert_eq!(feasible(&cluster), [0, 1]);
    place_in(&mut cluster, 0, 9);
    assert_eq!(feasible(&cluster), [0, 18, 19], "n1 is alone");
    place_in(&mut cluster, 0, 0);
    assert_eq!(feasible(&cluster), [0, 1], "n1 has its peer again");
}

/// More racks than are listed by name, and a single one with two nodes: a pod on one of them counts for both.
#[test]
fn pods_count_for_all_nodes_of_the_only_shared_domain() {
    let mut cluster = TestCluster::new();
    for number in 0..80_usize {
        let node = cluster.node_from(&format!("n{number} cpu=8 mem=8Gi label:rack=r{}", number.max(1)));
        cluster.add_node(&node);
    }
    let (framework, mut decisions) = (Framework::default(), DecisionCache::default());
    let placed = cluster.pod_from("placed on=n0 label:app=a");
    cluster.place(&placed);
    // The second signature shares the node evaluation of the first, and so begins with a base partition.
    for (words, first_feasible) in [("x", 0), ("x anti=rack/app=a", 2)] {
        let pod = cluster.pod_from(words);
        let quick = framework.decide_cached(&mut decisions, &pod, cluster.snapshot(), &mut NoProbe);
        let feasible = quick.expect("other racks are free").feasible();
        let feasible: Vec<_> = feasible.iter().map(|node| node.index()).collect();
        assert_eq!(feasible, (first_feasible..80).collect::<Vec<_>>(), "{words}");
    }
}

/// More racks than are listed by name, and pods in most of them: more nodes change than a base partition is worth.
#[test]
fn pods_count_for_all_nodes_if_most_domains_have_some() {
    let mut cluster = TestCluster::new();
    for number in 0..140 {
        let node = cluster.node_from(&format!("n{number} cpu=8 mem=8Gi label:rack=r{}", number / 2));
        cluster.add_node(&node);
    }
    for number in (0..100).step_by(2) {
        let placed = cluster.pod_from(&format!("placed{number} on=n{number} label:app=a"));
        cluster.place(&placed);
    }
    let (framework, mut decisions) = (Framework::default(), DecisionCache::default());
    for (words, first_feasible) in [("x", 0), ("x anti=rack/app=a", 100)] {
        let pod = cluster.pod_from(words);
        let quick = framework.decide_cached(&mut decisions, &pod, cluster.snapshot(), &mut NoProbe);
        let feasible = quick.expect("other racks are free").feasible();
        let feasible: Vec<_> = feasible.iter().map(|node| node.index()).collect();
        assert_eq!(feasible, (first_feasible..140).collect::<Vec<_>>(), "{words}");
    }
}

/// A domain whose nodes the pod cannot use anyway has no pods that count, and is not the minimum.
#[test]
fn domain_without_a_counting_node_is_not_the_minimum() {
    let mut cluster = TestCluster::new();
    for words in ["a label:rack=r1 label:disk=ssd", "b label:rack=r2 label:disk=ssd", "c label:rack=r3"] {
        let node = cluster.node_from(&format!("{words} cpu=8 mem=8Gi"));
        cluster.add_node(&node);
    }
    for words in ["p on=a", "q on=a", "r on=b"] {
        let placed = cluster.pod_from(&format!("{words} label:app=a"));
        cluster.place(&placed);
    }
    let (framework, mut decisions) = (Framework::default(), DecisionCache::default());
    let pod = cluster.pod_from("x label:app=a select:disk=ssd spread=rack/2/DoNotSchedule/app=a");
    let plain = framework.decide(&pod, cluster.snapshot(), Options::default(), &mut NoProbe);
    let quick = framework.decide_cached(&mut decisions, &pod, cluster.snapshot(), &mut NoProbe);
    let mut quick = quick.expect("two nodes are feasible");
    assert_eq!(quick.feasible().iter().map(|node| node.index()).collect::<Vec<_>>(), [0, 1]);
    assert!(quick.equals(&plain, Seed(7), &pod), "{quick:?}");
}

/// The only node of a rack moves to another rack: the empty rack does not count any more.
#[test]
fn domain_that_lost_its_last_node_is_not_the_minimum() {
    let mut cluster = TestCluster::new();
    (0..3).for_each(|node| place_in(&mut cluster, node, node));
    for words in ["p on=n0", "q on=n1"] {
        let placed = cluster.pod_from(&format!("{words} label:app=a"));
        cluster.place(&placed);
    }
    let (framework, mut decisions) = (Framework::default(), DecisionCache::default());
    let pod = cluster.pod_from("x label:app=a spread=rack/1/DoNotSchedule/app=a");
    let mut feasible = |cluster: &TestCluster| {
        let quick = framework.decide_cached(&mut decisions, &pod, cluster.snapshot(), &mut NoProbe);
        quick.expect("some nodes fit").feasible().iter().map(|node| node.index()).collect::<Vec<_>>()
    };
    assert_eq!(feasible(&cluster), [2]);
    place_in(&mut cluster, 2, 0);
    assert_eq!(feasible(&cluster), [0, 1, 2]);
}

/// Returns the clusters and changes of the property test, the same in every run.
fn draws() -> impl Iterator<Item = (Racks, Vec<Change>)> {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let draw = (racks(), prop::collection::vec(change(), 100));
    std::iter::repeat_with(move || draw.new_tree(&mut runner).expect("a draw").current())
}

/// The property test evaluates many slices.
#[test]
fn most_evaluations_of_the_law_need_several_slices() {
    let mut sliced = 0;
    for (racks, changes) in draws().take(6) {
        let mut law = Law::new(&racks, usize::MAX);
        changes.iter().for_each(|change| law.apply(change));
        sliced += law.sliced;
    }
    assert!(sliced > 100, "{sliced}");
}

/// The property test compares many cached decisions.
#[test]
fn most_decisions_of_the_law_are_cached() {
    let (mut asked, mut answers) = (0, 0);
    for (racks, changes) in draws().take(12) {
        let mut law = Law::new(&racks, usize::MAX);
        for change in &changes {
            if let Change::Ask(wanted) = *change {
                asked += 1;
                answers += u32::from(law.ask(wanted));
            } else {
                law.apply(change);
            }
        }
    }
    assert!(answers * 2 > asked, "{answers} cached of {asked}");
}

/// The property test finds each of these faults within a fifth of its cases.
#[cfg(feature = "mutations")]
#[test]
fn law_notices_stale_domains_and_stale_partial_results() {
    use supercargo_core::switches::mutation::{Mutation, with};
    let holds = |(racks, changes): (Racks, Vec<Change>)| {
        let mut law = Law::new(&racks, usize::MAX);
        changes.iter().for_each(|change| law.apply(change));
        (0..WANTED.len()).for_each(|wanted| while !law.slice(wanted) {});
    };
    for mutation in [Mutation::DomainPeersNotUpdated, Mutation::SliceResultsNotDropped] {
        let is_noticed = |draw| {
            let law = || with(Some(mutation), || holds(draw));
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(law)).is_err()
        };
        assert!(draws().take(40).any(is_noticed), "{mutation:?} is not noticed in 40 cases");
    }
}

/// With the default constraints, nodes without a zone are in one domain with those whose zone has no name.
#[test]
fn node_that_loses_its_empty_zone_stays_in_the_domain_of_the_others() {
    let mut cluster = TestCluster::new();
    language::apply(&mut cluster, "service s select:app=a");
    let labels = "label:kubernetes.io/hostname= label:topology.kubernetes.io/zone=";
    for name in ["a", "b", "c"] {
        language::apply(&mut cluster, &format!("node {name} nohost cpu=8 mem=8Gi {labels}"));
    }
    language::apply(&mut cluster, "pod p on=c label:app=a");
    let pod = cluster.pod_from("x label:app=a");
    let (framework, mut decisions) = (Framework::default(), DecisionCache::default());
    let mut is_equal = |cluster: &TestCluster| {
        let snapshot = cluster.snapshot();
        let plain = framework.decide(&pod, snapshot, Options::default(), &mut NoProbe);
        let quick = framework.decide_cached(&mut decisions, &pod, snapshot, &mut NoProbe);
        quick.is_none_or(|mut quick| quick.equals(&plain, Seed(7), &pod))
    };
    assert!(is_equal(&cluster));
    language::apply(&mut cluster, "node c cpu=8 mem=8Gi");
    assert!(is_equal(&cluster));
}

/// One of two nodes in a rack leaves it with the pod that attracts others, and an update misses the other node.
#[cfg(feature = "mutations")]
#[test]
fn stale_class_is_noticed_before_its_node_is_reserved() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use supercargo_core::switches::mutation::{Mutation, with};
    let (mut cluster, pod) = racks_of_two();
    let (framework, mut decisions) = (Framework::default(), DecisionCache::default());
    assert!(framework.decide_cached(&mut decisions, &pod, cluster.snapshot(), &mut NoProbe).is_some());
    place_in(&mut cluster, 0, 9);
    let (snapshot, framework, decisions, pod) = (cluster.snapshot(), &framework, &mut decisions, &pod);
    let quick = with(Some(Mutation::DomainPeersNotUpdated), move || {
        framework.decide_cached(decisions, pod, snapshot, &mut NoProbe)
    });
    let quick = quick.expect("some nodes are feasible");
    let node = cluster.idx("n1");
    assert!(quick.feasible().contains(node), "its class is stale");
    // A build with assertions panics.
    let reserved = catch_unwind(AssertUnwindSafe(|| quick.reserve(snapshot, node)));
    assert!(!matches!(reserved, Ok(Some(_))), "{reserved:?}");
}
