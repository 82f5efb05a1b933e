//! Property tests: cached decisions equal full evaluations after any sequence of changes.

#[path = "incremental/explanation.rs"]
mod explanation;
#[path = "incremental/keys.rs"]
mod keys;
mod support;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use std::sync::Arc;
use supercargo_core::cycle::{Decision, Framework, NoProbe, Options};
use supercargo_core::framework::CycleError;
use supercargo_core::framework::extension_point::ExtensionPoint;
use supercargo_core::incremental::DecisionCache;
use supercargo_core::model::device::DeviceClass;
use supercargo_core::model::emulation::EmulatedVersion;
use supercargo_core::model::lookup_objects::Service;
use supercargo_core::model::node::NodeIdx;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::model::rng::Seed;
use supercargo_core::model::volume::{StorageKey, StorageKind};
use supercargo_core::registry::Plan;
use support::{TestCluster, storage};

const NODES: [&str; 13] = [
    "zone=z1 cpu=4 mem=8Gi",
    "zone=z2 cpu=4 mem=4Gi image=nginx:latest@900Mi",
    "zone=z1 cpu=2 mem=8Gi pods=2",
    "zone=z3 cpu=8 mem=8Gi taint=gpu:NoSchedule",
    "zone=z2 cpu=4 mem=8Gi taint=spot:PreferNoSchedule",
    "zone=z1 cpu=4 mem=8Gi unschedulable",
    "zone=z2 cpu=4 mem=8Gi res:example.com/gpu=2 label:disk=ssd",
    "zone=z1 cpu=4 label:disk=ssd declares=F",
    "cpu=4 mem=8Gi",
    "zone=z3 cpu=4 mem=8Gi label:disk=hdd image=nginx:latest@900Mi",
    "zone=z2 cpu=4 mem=8Gi label:rack=r1 label:disk=ssd",
    "zone=z1 cpu=4 mem=8Gi label:rack=r1",
    "zone=z3 cpu=8 mem=8Gi label:rack=r2",
];
const PLACED: [&str; 19] = [
    "label:app=web cpu=1 mem=1Gi",
    "label:app=db cpu=2 port=80",
    "label:app=web cpu=1 anti=zone/app=web",
    "label:app=job mem=2Gi prefer-anti=10/zone/app=web",
    "cpu=3",
    "label:app=web prefer-affinity=5/zone/app=db res:example.com/gpu=1",
    "label:app=web cpu=1 deleting",
    "mem=7Gi priority=5",
    "label:app=web anti=host/app=web",
    "label:app=db affinity=zone/app=web",
    "label:app=db prefer-anti=3/host/app=db label:tier=back",
    "label:app=web label:tier=back cpu=1 anti=rack/app=job",
    "label:app=job prefer-affinity=7/rack/app=web",
    "claim=c1 cpu=1",
    "claim=c2 claim=c3",
    "claim=once label:app=web",
    "iscsi=iqn1",
    "claim=missing label:app=db",
    "ephemeral=own",
];
/// The initial storage objects.
const STORAGE: [&str; 13] = [
    "class late of=driver",
    "class now of=driver immediate",
    "pv v1 csi=driver/h1",
    "pv v2 csi=driver/h2 zone=z1",
    "pv v3 csi=other/h3 at=zone:in:z1,z2",
    "pv v4 csi=driver/h4 class=late size=10Gi modes=RWO at=disk=ssd",
    "pvc c1 bound=v1",
    "pvc c2 bound=v2",
    "pvc c3 bound=v3",
    "pvc once bound=v1 modes=RWOP",
    "pvc open class=late size=5Gi modes=RWO",
    "pvc soon class=now size=5Gi modes=RWO",
    "csinode a driver=1",
];
/// Changes of storage objects; @ stands for a node.
const STORED: [&str; 15] = [
    "csinode @ driver=1",
    "csinode @ driver=2 other=1",
    "csinode @ driver=any other=3",
    "csinode @",
    "attachment one-@ on=@ by=driver of=v1",
    "attachment two-@ on=@ by=driver of=v2",
    "attachment one-@ on=b by=other of=v3",
    "pvc c1 bound=v1 deleting",
    "pvc c1 bound=v1",
    "pv v4 csi=driver/h4 class=late size=10Gi modes=RWO at=zone=z1",
    "csidriver driver required",
    "csidriver driver required tells",
    "csidriver driver",
    "capacity k1 class=late size=20Gi nodes=zone=z1",
    "capacity k2 class=late size=6Gi nodes=zone=z2",
];
/// Extension points of decisions.
const POINTS: [ExtensionPoint; 4] =
    [ExtensionPoint::PreFilter, ExtensionPoint::Filter, ExtensionPoint::PreScore, ExtensionPoint::Score];
/// Signatures that are decided repeatedly.
const WANTED: [&str; 34] = [
    "x",
    "x cpu=1 mem=1Gi",
    "x cpu=3 label:app=web image=nginx:latest",
    "x label:app=web spread=zone/1/DoNotSchedule/app=web",
    "x label:app=web spread=zone/1/ScheduleAnyway/app=web cpu=1",
    "x label:app=db anti=zone/app=db",
    "x affinity=zone/app=web cpu=1",
    "x prefer-affinity=10/zone/app=web",
    "x port=80",
    "x tolerate=gpu tolerate=spot cpu=1",
    "x select:disk=ssd",
    "x prefer=5/disk:in:ssd cpu=1",
    "x require=@name:in:a,b cpu=1",
    "x res:example.com/gpu=1",
    "x feature=F",
    "x cpu=1 priority=3 mem=100Mi",
    "x label:app=db anti=host/app=db",
    "x label:app=web affinity=zone/app=web anti=host/app=web",
    "x label:app=web spread=host/1/DoNotSchedule/app=web spread=zone/2/DoNotSchedule/app=web",
    "x label:app=web spread=zone/1/ScheduleAnyway/app=web spread=host/1/ScheduleAnyway/app=web",
    "x label:app=db prefer-anti=5/host/app=db prefer-affinity=20/zone/app=web",
    "x label:app=web spread=rack/1/DoNotSchedule/app=web",
    "x label:app=web spread=rack/1/ScheduleAnyway/app=web prefer=5/disk:in:ssd",
    "x label:tier=back label:app=web",
    "x label:tier=back label:app=job prefer-anti=9/rack/app=web tolerate=spot",
    "x label:app=web select:disk=ssd spread=zone/1/DoNotSchedule/app=web",
    "x claim=c1",
    "x cpu=1 claim=c1 claim=c3",
    "x claim=c2 tolerate=gpu prefer=5/disk:in:ssd",
    "x label:app=web claim=c3 anti=host/app=web spread=zone/1/ScheduleAnyway/app=web",
    "x label:app=web claim=c1 spread=zone/1/DoNotSchedule/app=web",
    "x claim=open cpu=1",
    "x claim=once cpu=1",
    "x iscsi=iqn1 label:app=db anti=zone/app=db",
];
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

#[derive(Clone, Debug)]
enum Change {
    Node(usize, usize),
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
    Class(bool),
    Service {
        app: usize,
        there: bool,
    },
    Namespace(bool),
    Stored {
        node: usize,
        what: usize,
    },
    StorageGone(usize),
    Version(usize),
    /// Disables a plugin at one extension point.
    Without {
        point: ExtensionPoint,
        plugin: prop::sample::Index,
    },
    Ask(usize),
}

fn change() -> impl Strategy<Value = Change> {
    let (node, what, node_number) = (0..NAMES.len(), 0..PLACED.len(), 0..NAMES.len());
    prop_oneof![
        4 => (node.clone(), 0..NODES.len()).prop_map(|(name, what)| Change::Node(name, what)),
        1 => node.clone().prop_map(Change::NodeGone),
        6 => (0..12_usize, node.clone(), what.clone())
            .prop_map(|(pod, node, what)| Change::Place { pod, node, what }),
        3 => (0..12_usize).prop_map(Change::Gone),
        1 => (0..3_usize, prop::option::of(node), what)
            .prop_map(|(pod, node, what)| Change::Nominate { pod, node, what }),
        1 => any::<bool>().prop_map(Change::Class),
        1 => (0..2_usize, any::<bool>()).prop_map(|(app, there)| Change::Service { app, there }),
        1 => any::<bool>().prop_map(Change::Namespace),
        3 => (0..NAMES.len(), 0..STORED.len()).prop_map(|(node, what)| Change::Stored { node, what }),
        1 => node_number.prop_map(Change::StorageGone),
        1 => (0..EmulatedVersion::ALL.len()).prop_map(Change::Version),
        1 => (prop::sample::select(&POINTS[..]), any::<prop::sample::Index>())
            .prop_map(|(point, plugin)| Change::Without { point, plugin }),
        12 => (0..WANTED.len()).prop_map(Change::Ask),
    ]
}

/// Nodes beyond [`NAMES`], mostly alike, so that whole blocks of 64 slots are evaluated at once.
const MANY: usize = 200;

struct Law {
    cluster: TestCluster,
    /// Node names, by the number used in changes.
    names: Vec<String>,
    framework: Framework,
    decisions: DecisionCache,
    wanted: Vec<Arc<PodInfo>>,
}

impl Law {
    fn new() -> Self {
        let mut cluster = TestCluster::new();
        let wanted = WANTED.map(|words| cluster.pod_from(words)).to_vec();
        STORAGE.iter().for_each(|line| assert!(storage::apply(&mut cluster, line), "{line}"));
        let names = NAMES.map(str::to_owned).to_vec();
        Self { cluster, names, framework: Framework::default(), decisions: DecisionCache::default(), wanted }
    }

    /// Creates a world with many nodes. Only `odd` ones, far apart, change.
    fn with_many_nodes(odd: &[usize]) -> Self {
        let mut law = Self::new();
        for number in 0..MANY {
            let words = if odd.contains(&number) { NODES[number % NODES.len()] } else { NODES[11] };
            let node = law.cluster.node_from(&format!("n{number} {words}"));
            law.cluster.add_node(&node);
        }
        law.names = (0..NAMES.len()).map(|at| format!("n{}", at * 39)).collect();
        law
    }

    fn apply(&mut self, change: &Change) {
        let cache = &mut self.cluster.cache;
        match *change {
            Change::Node(name, what) => {
                let node = self.cluster.node_from(&format!("{} {}", self.names[name], NODES[what]));
                self.cluster.add_node(&node);
            }
            Change::NodeGone(name) => {
                let name = self.cluster.tables.symbol(&self.names[name]);
                cache.remove_node(name);
            }
            Change::Place { pod, node, what } => {
                let words = format!("q{pod} on={} {}", self.names[node], PLACED[what]);
                let pod = self.cluster.pod_from(&words);
                self.cluster.place(&pod);
            }
            Change::Gone(pod) => {
                cache.remove_pod(&format!("q{pod}"));
            }
            Change::Nominate { pod, node, what } => {
                let pod = self.cluster.pod_from(&format!("n{pod} {}", PLACED[what]));
                let node = node.map(|node| self.cluster.tables.symbol(&self.names[node]));
                self.cluster.cache.nominate(&pod, node);
            }
            Change::Class(there) => {
                let name = self.cluster.tables.symbol("gpus");
                let class = DeviceClass {
                    implicit: self.cluster.tables.symbol("deviceclass.resource.kubernetes.io/gpus"),
                    explicit: Some(self.cluster.tables.symbol("example.com/gpu")),
                    created: None,
                    selectors: [].into(),
                    config: [].into(),
                };
                if there {
                    cache.set_device_class(&self.cluster.tables, name, &Arc::new(class));
                } else {
                    cache.lookups_mut().device_classes_mut().remove(name);
                }
            }
            Change::Service { app, there } => {
                let tables = &mut self.cluster.tables;
                let (namespace, name) = (tables.symbol("default"), tables.symbol(["tier", "app"][app]));
                let value = tables.symbol(["back", "web"][app]);
                if there {
                    let service = Service { selector: Some([(name, value)].into()) };
                    cache.lookups_mut().set_service(namespace, name, service);
                } else {
                    cache.lookups_mut().remove_service(namespace, name);
                }
            }
            Change::Namespace(labelled) => {
                let tables = &mut self.cluster.tables;
                let pair = (tables.symbol("team"), tables.symbol("red"));
                let labels = tables.label_set(if labelled { vec![pair] } else { Vec::new() });
                let name = tables.symbol("default");
                cache.lookups_mut().set_namespace(name, labels);
            }
            Change::Stored { node, what } => {
                let line = STORED[what].replace('@', &self.names[node]);
                assert!(storage::apply(&mut self.cluster, &line), "{line}");
            }
            Change::StorageGone(node) => self.lose_storage(node),
            Change::Version(version) => self.emulate(EmulatedVersion::ALL[version], |_| {}),
            Change::Without { point, ref plugin } => self.disable(point, plugin),
            Change::Ask(wanted) => self.ask(wanted),
        }
    }

    /// Behaves as another version or with other plugins, as after a reconfiguration.
    fn emulate(&mut self, version: EmulatedVersion, change: impl Fn(&mut Plan)) {
        self.cluster.tables.emulate(version);
        let mut plan = Plan::of(version.rules());
        change(&mut plan);
        self.framework = Framework::new(&plan);
        self.decisions.clear();
    }

    fn disable(&mut self, point: ExtensionPoint, plugin: &prop::sample::Index) {
        self.emulate(self.cluster.tables.rules().version, |plan| {
            let plugins = plan.points.get_mut(&point).expect("a default point");
            plugins.remove(plugin.index(plugins.len()));
        });
    }

    fn lose_storage(&mut self, node: usize) {
        let name = &self.names[node];
        let gone =
            [(StorageKind::CsiNode, name.clone()), (StorageKind::VolumeAttachment, format!("one-{name}"))];
        for (kind, name) in gone {
            let name = self.cluster.tables.symbol(&name);
            self.cluster.cache.volumes_mut().remove(StorageKey { kind, namespace: None, name });
        }
    }

    /// Decides about a pod that must be schedulable.
    fn evaluate(&mut self, words: &str) {
        let pod = self.cluster.pod_from(words);
        let quick =
            self.framework.decide_cached(&mut self.decisions, &pod, self.cluster.snapshot(), &mut NoProbe);
        assert!(quick.is_some(), "{words}");
    }

    /// Decides about a signature with and without the cache.
    fn ask(&mut self, wanted: usize) {
        self.cluster.cache.refresh();
        let (pod, snapshot) = (&self.wanted[wanted], self.cluster.snapshot());
        let plain = self.framework.decide(pod, snapshot, Options::default(), &mut NoProbe);
        let quick = self.framework.decide_cached(&mut self.decisions, pod, snapshot, &mut NoProbe);
        if let Some(mut quick) = quick {
            let full = match &plain {
                Ok(Decision::Feasible(it)) => {
                    format!(
                        "{:?} {:?}",
                        it.filtered.feasible(),
                        it.scores.as_ref().map(|scores| &scores.totals)
                    )
                }
                Ok(Decision::Infeasible(_)) => "no node".to_owned(),
                Err(error) => error.0.clone(),
            };
            let equals = quick.equals(&plain, Seed(7), pod);
            assert!(equals, "{}: {quick:?}, but {full}", WANTED[wanted]);
            let Ok(Decision::Feasible(plain)) = plain else { unreachable!("they are the same") };
            let node = quick.choose(Seed(7), pod, 1);
            assert_eq!(quick.reserve(snapshot, node), plain.filtered.reserve(snapshot, node).ok());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn cached_decision_equals_full_evaluation(changes in prop::collection::vec(change(), 1..150)) {
        let mut law = Law::new();
        for change in &changes {
            law.apply(change);
        }
        for wanted in 0..WANTED.len() {
            law.ask(wanted);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn cached_decision_equals_full_evaluation_on_many_nodes(
        odd in prop::collection::vec(0..MANY, 0..40),
        changes in prop::collection::vec(change(), 1..80),
    ) {
        let mut law = Law::with_many_nodes(&odd);
        for change in &changes {
            law.apply(change);
        }
        for wanted in 0..WANTED.len() {
            law.ask(wanted);
        }
    }
}

#[test]
fn most_decisions_of_known_signatures_are_cached() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut law = Law::new();
    let mut changes =
        prop::collection::vec(change(), 3_000).new_tree(&mut runner).expect("changes").current();
    // Such plugins often need the full evaluation.
    changes.retain(|change| !matches!(change, Change::Without { .. }));
    for change in &changes {
        law.apply(change);
    }
    let asked = changes.iter().filter(|change| matches!(change, Change::Ask(_))).count() as u64;
    let answers = law.decisions.hits();
    // The other signatures find no node, or only fail.
    assert!(answers * 2 > asked, "{answers} cached of {asked}");
}

#[test]
fn all_signatures_are_cached_and_evicted_over_the_limit() {
    let mut law = Law::new();
    law.apply(&Change::Node(0, 0));
    law.apply(&Change::Node(1, 0));
    for number in 0..9_000 {
        law.evaluate(&format!("x label:number={number}"));
        assert!(law.decisions.signatures() <= 8_193, "{} signatures", law.decisions.signatures());
    }
    assert!(law.decisions.signatures() > 4_096, "{} signatures", law.decisions.signatures());
}

/// The comparison in production must notice a wrong cached decision: other nodes, other totals, an error.
#[test]
fn comparison_notices_other_nodes_totals_and_errors() {
    // In all clusters, c is the best node.
    let clusters = [
        ["a cpu=4 mem=8Gi", "b cpu=4 mem=8Gi", "c cpu=16 mem=8Gi"],
        // Other nodes are feasible, with equal totals.
        ["a cpu=4 mem=8Gi unschedulable", "b cpu=4 mem=8Gi", "c cpu=16 mem=8Gi"],
        ["a cpu=4 mem=8Gi", "b cpu=4 mem=8Gi unschedulable", "c cpu=16 mem=8Gi"],
        // The same nodes are feasible. The total of a worse node differs, or that of the best.
        ["a cpu=5 mem=8Gi", "b cpu=4 mem=8Gi", "c cpu=16 mem=8Gi"],
        ["a cpu=4 mem=8Gi", "b cpu=4 mem=8Gi", "c cpu=32 mem=8Gi"],
    ];
    let mut decided: Vec<(Law, Arc<PodInfo>, _)> = Vec::new();
    for nodes in clusters {
        let mut law = Law::new();
        for node in nodes {
            let node = law.cluster.node_from(node);
            law.cluster.add_node(&node);
        }
        let pod = law.cluster.pod_from("x cpu=1");
        let full = law.framework.decide(&pod, law.cluster.snapshot(), Options::default(), &mut NoProbe);
        decided.push((law, pod, full));
    }
    let failed = Err(CycleError("failed".to_owned()));
    for cached in 0..clusters.len() {
        let ((law, pod, _), mut decisions) = (&decided[cached], DecisionCache::default());
        let quick = law.framework.decide_cached(&mut decisions, pod, law.cluster.snapshot(), &mut NoProbe);
        let mut quick = quick.expect("nodes are feasible");
        assert!(!quick.is_empty());
        assert_eq!(format!("{quick:?}").matches("feasible").count(), 1, "{quick:?}");
        assert_eq!(quick.choose(Seed(7), pod, 1), NodeIdx(2));
        for (other, (_, _, full)) in decided.iter().enumerate() {
            assert_eq!(quick.equals(full, Seed(7), pod), other == cached, "{cached} and {other}");
        }
        assert!(!quick.equals(&failed, Seed(7), pod));
    }
}

/// Each pod of a DaemonSet selects its own node. Caching the nodes of each signature would be useless.
#[test]
fn pods_restricted_to_one_node_are_not_cached() {
    let mut law = Law::with_many_nodes(&[]);
    for number in 0..MANY {
        let pod = law.cluster.pod_from(&format!("x cpu=1 require=@name:in:n{number}"));
        let quick =
            law.framework.decide_cached(&mut law.decisions, &pod, law.cluster.snapshot(), &mut NoProbe);
        assert!(quick.is_none(), "n{number}");
    }
    assert_eq!((law.decisions.node_signatures(), law.decisions.bytes()), (0, 0));
    law.evaluate("x cpu=1");
    assert_eq!(law.decisions.node_signatures(), 1, "the signature of other pods is cached");
}

/// Each pod of a StatefulSet has its own claim, and all have the same signature.
#[test]
fn pods_that_differ_only_in_claims_share_a_signature() {
    let mut law = Law::with_many_nodes(&[]);
    for number in 0..MANY {
        assert!(storage::apply(&mut law.cluster, &format!("csinode n{number} driver=2")));
        assert!(storage::apply(&mut law.cluster, &format!("pv pv{number} csi=driver/h{number}")));
        assert!(storage::apply(&mut law.cluster, &format!("pvc data-{number} bound=pv{number}")));
    }
    for number in 0..MANY {
        law.cluster.cache.refresh();
        law.evaluate(&format!("x cpu=1 claim=data-{number}"));
    }
    law.evaluate("x cpu=1");
    assert_eq!(law.decisions.signatures(), 1);
}

/// Volume limits count volumes of pods, of attachments, and of both.
#[test]
fn nodes_at_their_volume_limit_are_infeasible() {
    let mut law = Law::with_many_nodes(&[]);
    let place = |law: &mut Law, pod: &str| {
        let pod = law.cluster.pod_from(pod);
        law.cluster.place(&pod);
    };
    for number in 0..8 {
        assert!(storage::apply(&mut law.cluster, &format!("csinode n{number} driver=1")));
    }
    place(&mut law, "p1 on=n1 claim=c2");
    place(&mut law, "p2 on=n2 claim=c3");
    place(&mut law, "p3 on=n3 claim=c1");
    assert!(storage::apply(&mut law.cluster, "attachment one on=n4 by=driver of=v2"));
    assert!(storage::apply(&mut law.cluster, "attachment two on=n5 by=other of=v3"));
    law.cluster.cache.refresh();
    let pod = law.cluster.pod_from("x claim=c1");
    let (decisions, snapshot) = (&mut law.decisions, law.cluster.snapshot());
    let quick =
        law.framework.decide_cached(decisions, &pod, snapshot, &mut NoProbe).expect("the cluster has nodes");
    let feasible: Vec<bool> = (0..8).map(|slot| quick.feasible().contains(NodeIdx(slot))).collect();
    // The third node already has the same volume; some nodes have volumes of another driver.
    assert_eq!(feasible, [true, false, true, true, false, true, true, true]);
}

/// Signatures with topology counts need many times the memory of others. So the limit is in bytes, not in signatures.
#[test]
fn cache_stays_within_its_byte_limit() {
    const ROOM: usize = 1 << 20;
    let mut law = Law { decisions: DecisionCache::with_bytes_max(ROOM), ..Law::new() };
    for number in 0..300 {
        let node = law.cluster.node_from(&format!("n{number} zone=z{} cpu=8 mem=8Gi", number % 3));
        law.cluster.add_node(&node);
    }
    let mut largest = 0;
    for number in 0..200 {
        let app = format!("label:app=a{number}");
        law.evaluate(&format!("x {app} anti=host/app=a{number} spread=host/1/DoNotSchedule/app=a{number}"));
        largest = largest.max(law.decisions.bytes());
    }
    assert_eq!(law.decisions.node_signatures(), 1, "nodes are the same to all of them");
    let each = law.decisions.bytes() / law.decisions.signatures();
    // New signatures share a quarter of the limit.
    assert!(largest > ROOM / 4 - each && largest <= ROOM / 4 + each, "{largest} bytes, some {each} each");
    // Signatures that return, and fit into the limit together, stay cached.
    let few = ROOM / each / 4;
    for _ in 0..3 {
        (0..few).for_each(|number| law.evaluate(&format!("x label:number={number}")));
    }
    let before = law.decisions.signatures();
    (0..few).for_each(|number| law.evaluate(&format!("x label:number={number}")));
    assert_eq!(law.decisions.signatures(), before);
}

/// The size of cached signatures grows with the cluster.
#[test]
fn cache_size_is_measured_again_when_nodes_are_added() {
    let with = |nodes: std::ops::Range<usize>, law: &mut Law| {
        for number in nodes {
            let node = law.cluster.node_from(&format!("n{number} zone=z{} cpu=8 mem=8Gi", number % 3));
            law.cluster.add_node(&node);
        }
        ["x", "x label:app=a", "x label:app=a spread=zone/1/DoNotSchedule/app=a"]
            .iter()
            .for_each(|pod| law.evaluate(pod));
    };
    let (mut grown, mut large) = (Law::new(), Law::new());
    with(0..10, &mut grown);
    let small = grown.decisions.bytes();
    with(10..600, &mut grown);
    with(0..600, &mut large);
    assert_eq!(grown.decisions.bytes(), large.decisions.bytes());
    assert!(large.decisions.bytes() > 5 * small, "{small} bytes before");
    assert_eq!((grown.decisions.signatures(), grown.decisions.node_signatures()), (3, 1));
}
