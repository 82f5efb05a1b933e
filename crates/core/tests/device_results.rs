//! Property test: cached decisions for pods with devices equal full evaluations, while slices, claims, classes, nodes
//! and pods change between the decisions.

#[path = "device_results/models.rs"]
mod models;
mod support;

use models::{EVALUATIONS, Is, MODELS, amount, device, selector};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;
use supercargo_core::cache::Snapshot;
use supercargo_core::cycle::{Decision, Framework, NoProbe, Options};
use supercargo_core::framework::extension_point::ExtensionPoint;
use supercargo_core::framework::{CycleError, PluginName};
use supercargo_core::incremental::DecisionCache;
use supercargo_core::model::device::{
    AllocatedDevice, Allocation, AllocationMode, ClaimSpec, Constraint, ConstraintKind, CounterSet, Device,
    DeviceClass, DeviceId, DeviceRequest, DeviceSelector, NodeSelector, PodClaim, PodClaimSource, PoolId,
    Reach, Request, RequestKind, ResourceClaim, ResourceSlice,
};
use supercargo_core::model::emulation::EmulatedVersion;
use supercargo_core::model::intern::Tables;
use supercargo_core::model::pod::{PodInfo, Uid};
use supercargo_core::model::quantity::Amount;
use supercargo_core::model::rng::Seed;
use supercargo_core::model::selector::{NodeSelectorTerm, Operator, Requirement, TermDemands};
use supercargo_core::model::volume::{Reservation, StorageKey, StorageKind, StorageObject};
use supercargo_core::plugins::dynamic_resources;
use supercargo_core::registry::Plan;
use support::{TestCluster, devices, storage};

/// More nodes than the limit for pods with few candidates.
const NODES: usize = 14;
const NODE: [&str; 4] = ["cpu=8 label:disk=ssd", "cpu=8", "cpu=1", "cpu=8 res:example.com/gpu=2"];
/// Pools of single nodes: this many nodes have one.
const LOCAL: usize = 10;
/// Slices for several nodes, and those of a pool with counters for one node, which every node may find incomplete.
const SHARED: [&str; 7] =
    ["everywhere", "ssd", "per-device", "parts-counters", "parts-devices", "own-counters", "own-devices"];
const CLAIMS: usize = 6;

/// The signatures: the fields of the pod, and the requests of its claims. A digit names one of the shared claims.
const WANTED: [(&str, &[&str]); 23] = [
    ("x", &["one"]),
    ("x cpu=2", &["one"]),
    ("x cpu=5", &["two"]),
    ("x", &["large"]),
    ("x", &["small", "large"]),
    ("x", &["all"]),
    ("x", &["first"]),
    ("x select:disk=ssd", &["first", "one"]),
    ("x", &["admin"]),
    ("x", &["matched"]),
    ("x anti=host/app=a", &["one"]),
    ("x label:app=a spread=zone/1/DoNotSchedule/app=a", &["one"]),
    ("x", &["0"]),
    ("x", &["1", "one"]),
    ("x", &["2", "3"]),
    ("x", &["4", "first"]),
    ("x res:example.com/gpu=1", &[]),
    ("x res:example.com/gpu=2 cpu=2", &["one"]),
    ("x res:deviceclass.resource.kubernetes.io/sized=1", &[]),
    ("x", &[]),
    // Has scores of storage in 1.37, too.
    ("x claim=open", &["one"]),
    // Small nodes, and those without storage, are only rejected by a filter that may come after the one for devices.
    ("x cpu=2", &["large"]),
    ("x claim=wide", &["large"]),
];

/// The storage of a claim that waits for a node.
const STORAGE: [&str; 6] = [
    "class late of=driver",
    "csidriver driver tells",
    "capacity large class=late size=100Gi nodes=disk=ssd",
    "capacity small class=late size=6Gi nodes=*",
    "pvc open class=late size=5Gi modes=RWO",
    "pvc wide class=late size=50Gi modes=RWO",
];

/// Selects nodes with the label `disk=ssd`.
fn with_ssd(tables: &mut Tables) -> NodeSelectorTerm {
    let operator = Operator::In([tables.symbol("ssd")].into());
    let requirement = Requirement { key: tables.symbol("disk"), operator };
    let demands = TermDemands { labels: [requirement].into(), names: [].into() };
    NodeSelectorTerm { demands: Some(demands), pinned_names: None }
}

fn allocation(device: DeviceId, request: &str) -> Allocation {
    Allocation { results: vec![AllocatedDevice::whole(request, device)], ..Allocation::default() }
}

fn request(tables: &mut Tables, name: &str, what: &str) -> DeviceRequest {
    let (class, mode, selectors) = match what {
        "large" => ("any", AllocationMode::ExactCount(1), [selector("large")].into()),
        "small" => ("sized", AllocationMode::ExactCount(1), [].into()),
        "two" | "matched" => ("any", AllocationMode::ExactCount(2), [].into()),
        "all" => ("any", AllocationMode::All, [].into()),
        _ => ("any", AllocationMode::ExactCount(1), [].into()),
    };
    DeviceRequest {
        selectors,
        mode,
        admin_access: what == "admin",
        ..devices::request(name, tables.symbol(class))
    }
}

struct Law {
    cluster: TestCluster,
    framework: Framework,
    decisions: DecisionCache,
    /// Number of pods that were placed with devices.
    placed: usize,
    /// How many decisions were cached.
    cached: usize,
    /// How many full evaluations began with known results of searches.
    known: usize,
}

/// Returns the feasible nodes, or why there are none.
fn outcome(decision: &Result<Decision, CycleError>, snapshot: Snapshot<'_>) -> String {
    match decision {
        Ok(Decision::Feasible(found)) => {
            format!(
                "{:?} {:?}",
                found.filtered.feasible(),
                found.scores.as_ref().map(|scores| &scores.totals)
            )
        }
        Ok(Decision::Infeasible(filtered)) => format!("{:?}", filtered.diagnose(snapshot)),
        Err(error) => format!("{error:?}"),
    }
}

impl Law {
    fn new() -> Self {
        let version = EmulatedVersion::default();
        Self::with(version, filters_of(version))
    }

    /// Behaves as a version, with these plugins of Filter. They reserve in the opposite order.
    fn with(version: EmulatedVersion, filters: Vec<PluginName>) -> Self {
        let mut cluster = TestCluster::new();
        cluster.tables.emulate(version);
        let mut plan = Plan::of(version.rules());
        let reserves = |name: &PluginName| plan.runs(ExtensionPoint::Reserve, name);
        let reserving = filters.iter().rev().copied().filter(reserves).collect();
        plan.points.insert(ExtensionPoint::Reserve, reserving);
        plan.points.insert(ExtensionPoint::Filter, filters);
        let framework = Framework::new(&plan);
        let decisions = DecisionCache::default();
        let mut law = Self { cluster, framework, decisions, placed: 0, cached: 0, known: 0 };
        (0..NODES).for_each(|node| law.set_node(node, node % 2));
        (0..LOCAL).for_each(|node| law.set_local(node, 2));
        STORAGE.iter().for_each(|line| assert!(storage::apply(&mut law.cluster, line), "{line}"));
        law.set_class("any", "any");
        law.set_class("sized", "small");
        (0..CLAIMS).for_each(|claim| law.set_claim(claim, None));
        law
    }

    fn set_node(&mut self, node: usize, what: usize) {
        let node = self.cluster.node_from(&format!("n{node} zone=z{} {}", node % 3, NODE[what]));
        self.cluster.add_node(&node);
    }

    fn set_class(&mut self, name: &str, selects: &'static str) {
        let tables = &mut self.cluster.tables;
        let class = DeviceClass {
            implicit: tables.symbol(&format!("deviceclass.resource.kubernetes.io/{name}")),
            explicit: (name == "any").then(|| tables.symbol("example.com/gpu")),
            created: None,
            selectors: [selector(selects)].into(),
            config: [].into(),
        };
        let name = tables.symbol(name);
        self.cluster.cache.set_device_class(&self.cluster.tables, name, &class.into());
    }

    fn apply(&mut self, object: StorageObject) {
        self.cluster.cache.volumes_mut().apply(object);
    }

    fn slice(&mut self, name: &str, pool: &str, reach: Reach, devices: Vec<Device>) -> ResourceSlice {
        ResourceSlice {
            name: self.cluster.tables.symbol(name),
            pool: PoolId { driver: "gpu.example.com".into(), name: pool.into() },
            generation: 1,
            slices: 1,
            reach,
            devices: devices.into(),
            counters: [].into(),
        }
    }

    /// Publishes the devices of one node; `what` says which.
    fn set_local(&mut self, node: usize, what: usize) {
        let name = format!("n{node}");
        let reach = Reach::Node(self.cluster.tables.symbol(&name));
        let models = [[].as_slice(), &[0], &[0, 1], &[1, 1, 0], &[0, 2], &[1, 0, 0, 0]][what % 6];
        let devices = models.iter().enumerate();
        let devices =
            devices.map(|(at, &model)| device(at, MODELS[model], what / 6 == 1 && at == 0)).collect();
        let mut slice = self.slice(&format!("local-{name}"), &name, reach, devices);
        // A pool of which one slice is missing cannot be used.
        slice.slices = if what == 12 { 2 } else { 1 };
        self.apply(StorageObject::ResourceSlice(slice.into()));
    }

    /// Publishes one of the slices for several nodes.
    fn set_shared(&mut self, which: usize, count: usize) {
        let name = SHARED[which];
        let devices: Vec<Device> = (0..count).map(|at| device(at, MODELS[at % 2], false)).collect();
        let ssd = with_ssd(&mut self.cluster.tables);
        let ssd = || Reach::Selector(NodeSelector { parsed: Ok([ssd.clone()].into()), terms: [].into() });
        let set =
            |amount: Amount| CounterSet { name: "set".into(), counters: [("memory".into(), amount)].into() };
        let slice = match name {
            "everywhere" => self.slice(name, name, Reach::AllNodes, devices),
            "ssd" => self.slice(name, name, ssd(), devices),
            "per-device" => {
                let mut devices = devices;
                for (at, device) in devices.iter_mut().enumerate() {
                    let node = self.cluster.tables.symbol(&format!("n{}", at * 3));
                    device.reach = if at % 2 == 0 { Reach::Node(node) } else { Reach::AllNodes };
                }
                self.slice(name, name, Reach::PerDevice, devices)
            }
            _ => {
                let own = Reach::Node(self.cluster.tables.symbol("n1"));
                let (pool, what) = name.split_once('-').expect("the pool and what the slice has");
                let reach = if pool == "own" { own } else { ssd() };
                let mut slice = self.slice(name, pool, reach, Vec::new());
                slice.slices = 2;
                if what == "counters" {
                    slice.counters = [set(amount(count as i64))].into();
                } else {
                    slice.devices = devices.into();
                    slice.devices.iter_mut().for_each(|device| device.consumes = [set(amount(2))].into());
                }
                slice
            }
        };
        self.apply(StorageObject::ResourceSlice(slice.into()));
    }

    fn remove_slice(&mut self, name: &str) {
        let name = self.cluster.tables.symbol(name);
        let key = StorageKey { kind: StorageKind::ResourceSlice, namespace: None, name };
        self.cluster.cache.volumes_mut().remove(key);
    }

    fn spec(&mut self, what: &str) -> ClaimSpec {
        let tables = &mut self.cluster.tables;
        let kind = match what {
            "first" => RequestKind::FirstAvailable(
                [request(tables, "best", "large"), request(tables, "other", "one")].into(),
            ),
            what => RequestKind::Exactly(request(tables, "r", what)),
        };
        let constraint =
            Constraint { requests: [].into(), kind: ConstraintKind::Match("gpu.example.com/slot".into()) };
        ClaimSpec {
            requests: [Request { name: "r".into(), kind }].into(),
            constraints: if what == "matched" { [constraint].into() } else { [].into() },
            config: [].into(),
        }
    }

    fn claim(&mut self, name: &str, what: &str) -> ResourceClaim {
        let spec = self.spec(what).into();
        ResourceClaim { spec, ..support::storage::devices_claim(&mut self.cluster.tables, name) }
    }

    /// Sets a claim that pods share: without devices, or with one of a node.
    fn set_claim(&mut self, claim: usize, on: Option<usize>) {
        let mut object = self.claim(&claim.to_string(), ["one", "first"][claim % 2]);
        if let Some(node) = on {
            let node = format!("n{node}");
            let device = DeviceId {
                pool: PoolId { driver: "gpu.example.com".into(), name: node.as_str().into() },
                device: "d0".into(),
            };
            object.allocation = Some(Arc::new(allocation(device, ["r", "r/best"][claim % 2])));
            let term = with_ssd(&mut self.cluster.tables);
            let parsed: Box<[NodeSelectorTerm]> = [term].into();
            object.nodes =
                (!claim.is_multiple_of(3)).then(|| NodeSelector { parsed: Ok(parsed), terms: [].into() });
        }
        self.apply(StorageObject::ResourceClaim(object.into()));
    }

    /// Returns a pod of a signature with claims of its own.
    fn pod(&mut self, wanted: usize, name: &str) -> Arc<PodInfo> {
        let (words, claims) = WANTED[wanted];
        let pod = self.cluster.pod_from(&words.replacen('x', name, 1));
        let mut entries = Vec::new();
        for (at, what) in claims.iter().enumerate() {
            let is_shared = what.parse::<usize>().is_ok();
            let claim = if is_shared { (*what).to_owned() } else { format!("{name}-{at}") };
            if !is_shared {
                let object = self.claim(&claim, what);
                self.apply(StorageObject::ResourceClaim(object.into()));
            }
            let source = PodClaimSource::Named(self.cluster.tables.symbol(&claim));
            entries.push(PodClaim { name: format!("c{at}").into(), source });
        }
        PodInfo { claims: entries.into(), ..Arc::unwrap_or_clone(pod) }.into()
    }

    /// Decides a pod in both ways. Places it, if asked to, as the scheduler does: with its devices assumed.
    fn ask(&mut self, wanted: usize, places: bool) {
        let name = format!("p{}", self.placed);
        let pod = self.pod(wanted, &name);
        self.cluster.cache.refresh();
        let snapshot = self.cluster.snapshot();
        let plain = self.framework.decide(&pod, snapshot, Options::default(), &mut NoProbe);
        let quick = self.framework.decide_cached(&mut self.decisions, &pod, snapshot, &mut NoProbe);
        if let Some(mut quick) = quick {
            self.cached += 1;
            assert!(quick.equals(&plain, Seed(7), &pod), "{:?}: {quick:?}", WANTED[wanted]);
            let Ok(Decision::Feasible(plain)) = &plain else { unreachable!("they are the same") };
            let node = quick.choose(Seed(7), &pod, 1);
            let (quick, plain) = (quick.reserve(snapshot, node), plain.filtered.reserve(snapshot, node).ok());
            assert_eq!(quick, plain);
        } else if let Some(known) = self.decisions.device_verdicts() {
            self.known += 1;
            let snapshot = snapshot.with_device_verdicts(&known);
            let again = self.framework.decide(&pod, snapshot, Options::default(), &mut NoProbe);
            assert_eq!(outcome(&again, snapshot), outcome(&plain, snapshot), "{:?}", WANTED[wanted]);
        }
        let Ok(Decision::Feasible(plain)) = plain else { return };
        let node = plain.choose(Seed(7), &pod, 1);
        let Some(reservations) = plain.filtered.reserve(snapshot, node).ok().filter(|_| places) else {
            return;
        };
        let node = snapshot.node_info(node).name;
        let own: Vec<Reservation> = reservations;
        self.cluster.cache.assume_volumes(&self.cluster.tables, &pod.uid, own);
        let placed = PodInfo { node_name: Some(node), ..PodInfo::clone(&pod) };
        self.cluster.place(&placed.into());
        self.placed += 1;
    }

    /// Removes a placed pod and its claims.
    fn remove(&mut self, pod: usize) {
        let name = format!("p{pod}");
        self.cluster.cache.forget_volumes(&name);
        self.cluster.cache.remove_pod(&name);
        let namespace = Some(self.cluster.tables.symbol("default"));
        for at in 0..2 {
            let claim = self.cluster.tables.symbol(&format!("{name}-{at}"));
            let key = StorageKey { kind: StorageKind::ResourceClaim, namespace, name: claim };
            self.cluster.cache.volumes_mut().remove(key);
        }
    }

    fn change(&mut self, change: &Change) {
        match *change {
            Change::Ask { wanted, places } => self.ask(wanted, places),
            Change::Remove(pod) => self.remove(pod.index(self.placed.max(1))),
            Change::Node { node, what } => self.set_node(node, what),
            Change::NodeGone(node) => {
                let name = self.cluster.tables.symbol(&format!("n{node}"));
                self.cluster.cache.remove_node(name);
            }
            Change::Local { node, what: Some(what) } => self.set_local(node, what),
            Change::Local { node, what: None } => self.remove_slice(&format!("local-n{node}")),
            Change::Shared { which, count: Some(count) } => self.set_shared(which, count),
            Change::Shared { which, count: None } => self.remove_slice(SHARED[which]),
            Change::Claim { claim, on } => self.set_claim(claim, on),
            Change::Class(small) => self.set_class("sized", if small { "small" } else { "large" }),
            Change::Avoid { claim, node } => {
                let pool =
                    |node| PoolId { driver: "gpu.example.com".into(), name: format!("n{node}").into() };
                let devices = node.map(|node| DeviceId { pool: pool(node), device: "d0".into() });
                let devices: Option<BTreeSet<DeviceId>> = devices.map(|device| [device].into());
                let uid: Uid = claim.to_string().into();
                self.cluster.cache.avoid_devices(&uid, devices);
            }
            Change::Nominate { node, what } => {
                let pod = self.cluster.pod_from(&format!("m cpu={} priority=5", 2 + what));
                let node = node.map(|node| self.cluster.tables.symbol(&format!("n{node}")));
                self.cluster.cache.nominate(&pod, node);
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Change {
    Ask { wanted: usize, places: bool },
    Remove(prop::sample::Index),
    Node { node: usize, what: usize },
    NodeGone(usize),
    Local { node: usize, what: Option<usize> },
    Shared { which: usize, count: Option<usize> },
    Claim { claim: usize, on: Option<usize> },
    Class(bool),
    Avoid { claim: usize, node: Option<usize> },
    Nominate { node: Option<usize>, what: usize },
}

fn change() -> impl Strategy<Value = Change> {
    let wanted = prop_oneof![2 => 0..4_usize, 1 => Just(WANTED.len() - 1), 3 => 0..WANTED.len()];
    prop_oneof![
        24 => (wanted, any::<bool>()).prop_map(|(wanted, places)| Change::Ask { wanted, places }),
        4 => any::<prop::sample::Index>().prop_map(Change::Remove),
        3 => (0..NODES, 0..NODE.len()).prop_map(|(node, what)| Change::Node { node, what }),
        1 => (0..NODES).prop_map(Change::NodeGone),
        4 => (0..NODES, prop::option::weighted(0.8, 0..13_usize))
            .prop_map(|(node, what)| Change::Local { node, what }),
        2 => (0..SHARED.len(), prop::option::weighted(0.7, 0..6_usize))
            .prop_map(|(which, count)| Change::Shared { which, count }),
        2 => (0..CLAIMS, prop::option::weighted(0.7, 0..NODES)).prop_map(|(claim, on)| Change::Claim { claim, on }),
        1 => any::<bool>().prop_map(Change::Class),
        1 => (0..CLAIMS, prop::option::of(0..NODES)).prop_map(|(claim, node)| Change::Avoid { claim, node }),
        1 => (prop::option::weighted(0.8, 0..NODES), 0..3_usize)
            .prop_map(|(node, what)| Change::Nominate { node, what }),
    ]
}

/// Returns the default plugins of Filter, in the default order.
fn filters_of(version: EmulatedVersion) -> Vec<PluginName> {
    Plan::of(version.rules()).at(ExtensionPoint::Filter).to_vec()
}

/// A version and its plugins of Filter, mostly in the default order.
fn version_and_filters() -> impl Strategy<Value = (EmulatedVersion, Vec<PluginName>)> {
    let versions = prop::sample::select(&[EmulatedVersion::V1_36, EmulatedVersion::V1_37][..]);
    versions.prop_flat_map(|version| {
        let filters = || Just(filters_of(version));
        let with_a_later_one = filters().prop_shuffle().prop_map(|mut filters| {
            let later = filters.pop().into_iter().filter(|name| *name != dynamic_resources::NAME);
            filters.retain(|name| *name != dynamic_resources::NAME);
            filters.push(dynamic_resources::NAME);
            filters.extend(later);
            filters
        });
        (Just(version), prop_oneof![2 => filters(), 1 => filters().prop_shuffle(), 1 => with_a_later_one])
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn cached_decision_with_devices_equals_full_evaluation(
        (version, filters) in version_and_filters(),
        changes in prop::collection::vec(change(), 1..120),
    ) {
        let mut law = Law::with(version, filters);
        (0..NODES).step_by(4).for_each(|node| law.set_node(node, 2));
        changes.iter().for_each(|change| law.change(change));
        (0..WANTED.len()).for_each(|wanted| law.ask(wanted, false));
    }
}

/// The search for devices fails on a node that only a later filter rejects.
#[test]
fn error_of_devices_on_a_node_that_later_filters_reject_fails_the_decision() {
    let version = EmulatedVersion::default();
    let default = filters_of(version);
    // Node 0 is small, or has no storage.
    for (later, wanted, what) in [("NodeResourcesFit", 21, 2), ("VolumeBinding", 22, 1)] {
        let mut last = default.clone();
        let is_late = |name: &PluginName| [dynamic_resources::NAME, later].contains(name);
        last.sort_by_key(|name| (is_late(name), *name));
        for (filters, is_error) in [(last, true), (default.clone(), false)] {
            let mut law = Law::with(version, filters.clone());
            law.set_node(0, what);
            law.set_local(0, 4);
            let pod = law.pod(wanted, "p");
            law.cluster.cache.refresh();
            let snapshot = law.cluster.snapshot();
            let plain = law.framework.decide(&pod, snapshot, Options::default(), &mut NoProbe);
            let quick = law.framework.decide_cached(&mut law.decisions, &pod, snapshot, &mut NoProbe);
            assert_eq!((plain.is_err(), quick.is_none()), (is_error, is_error), "{later}: {filters:?}");
        }
    }
}

/// Pods of one template have a claim each. After the first, a decision searches devices only on nodes that changed.
#[test]
fn next_pod_of_a_template_judges_only_nodes_whose_devices_changed() {
    let mut law = Law::new();
    let judged = |law: &mut Law| {
        let pod = law.pod(0, &format!("p{}", law.placed));
        let before = EVALUATIONS.get();
        let snapshot = law.cluster.snapshot();
        let quick = law.framework.decide_cached(&mut law.decisions, &pod, snapshot, &mut NoProbe);
        quick.expect("some nodes have devices");
        EVALUATIONS.get() - before
    };
    assert_eq!(
        judged(&mut law),
        1,
        "one device of one node is looked at, since the nodes' devices are equal"
    );
    assert_eq!(judged(&mut law), 0, "nothing changed");
    law.ask(0, true);
    assert_eq!((law.placed, law.cached), (1, 1));
    assert_eq!(judged(&mut law), 1, "one node has a device less");
    law.set_local(3, 3);
    assert_eq!(judged(&mut law), 1, "one node has other devices");
    law.set_local(4, 3);
    assert_eq!(judged(&mut law), 0, "another has the same");
    law.set_node(LOCAL + 1, 0);
    assert_eq!(judged(&mut law), 0, "the changed node has no devices");
    law.set_shared(0, 1);
    assert_eq!(judged(&mut law), NODES, "every node can use the new device");
    assert_eq!(law.decisions.signatures(), 1);
}

/// Each pod has another claim: devices are searched once for all nodes whose devices the expressions cannot tell apart.
#[test]
fn new_requests_search_once_for_nodes_with_equal_devices() {
    let mut law = Law::new();
    let evaluated = |law: &mut Law, wanted: usize| {
        let pod = law.pod(wanted, "p");
        let before = EVALUATIONS.get();
        let snapshot = law.cluster.snapshot();
        law.framework.decide_cached(&mut law.decisions, &pod, snapshot, &mut NoProbe);
        EVALUATIONS.get() - before
    };
    // Three devices of the first node, the first of them large; a small and a large one of the others. Each device
    // looked at is evaluated by its class and by the request's selector, if it has one.
    law.set_local(0, 3);
    assert_eq!(evaluated(&mut law, 3), 2 + 4, "one device of the first node, two of one other node");
    assert_eq!(evaluated(&mut law, 3), 0, "the requests of another claim with the same expression are equal");
    assert_eq!(evaluated(&mut law, 0), 1 + 1, "one device of the first node, and one of one other");
    let each = 3 * (LOCAL - 1);
    assert_eq!(
        evaluated(&mut law, 4),
        5 + each,
        "each node, since it is not known what selects small devices"
    );
}

/// The numbers of equal nodes hold in their table alone, which is rebuilt if too many others were used since.
#[test]
fn results_of_an_evicted_table_of_equal_nodes_are_not_used_again() {
    let mut law = Law::new();
    law.ask(3, false);
    let (pod, mut spec) = (law.pod(0, "p"), law.spec("one"));
    for at in 0..16 {
        // Each request reads other attributes.
        let reads: Box<[Arc<str>]> = [format!("gpu.example.com/{at}").into()].into();
        let RequestKind::Exactly(request) = &mut spec.requests[0].kind else { panic!("one exact request") };
        request.selectors =
            [Some(DeviceSelector(Arc::new(Is(format!("small {at}").leak(), Some(reads)))))].into();
        let claim = support::storage::devices_claim(&mut law.cluster.tables, "p-0");
        let claim = ResourceClaim { spec: spec.clone().into(), ..claim };
        law.apply(StorageObject::ResourceClaim(claim.into()));
        let snapshot = law.cluster.snapshot();
        let decided = law.framework.decide_cached(&mut law.decisions, &pod, snapshot, &mut NoProbe);
        assert!(decided.is_some());
    }
    // The first node whose devices are compared again gets the number of other devices in the old table.
    law.set_local(0, 1);
    law.ask(3, false);
}

/// Versions before 1.36 allocate devices whatever their taints are.
#[test]
fn cleared_cache_keeps_no_results_of_another_version() {
    let mut law = Law::new();
    (0..LOCAL / 2).for_each(|node| law.set_local(node, 7));
    for version in [EmulatedVersion::V1_34, EmulatedVersion::V1_36, EmulatedVersion::V1_34] {
        law.cluster.tables.emulate(version);
        law.decisions.clear();
        let before = law.cached;
        law.ask(6, false);
        assert_eq!(law.cached, before + 1, "{version}");
    }
}

/// If no node is feasible for a pod, its full evaluation searches no devices again.
#[test]
fn infeasible_pod_searches_each_node_once() {
    let mut law = Law::new();
    (0..LOCAL).for_each(|node| law.set_local(node, 1));
    let pod = law.pod(2, "p");
    let before = EVALUATIONS.get();
    let snapshot = law.cluster.snapshot();
    assert!(law.framework.decide_cached(&mut law.decisions, &pod, snapshot, &mut NoProbe).is_none());
    assert_eq!(EVALUATIONS.get() - before, 1, "all nodes have one device");
    let known = law.decisions.device_verdicts().expect("the cache has searched");
    let snapshot = snapshot.with_device_verdicts(&known);
    let decision = law.framework.decide(&pod, snapshot, Options::default(), &mut NoProbe);
    assert!(
        outcome(&decision, snapshot).contains("cannot allocate all claims"),
        "{:?}",
        outcome(&decision, snapshot)
    );
    assert_eq!(EVALUATIONS.get() - before, 1);
}
