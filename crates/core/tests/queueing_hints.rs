//! Property test of queueing hints: an event that makes a node feasible for an unschedulable pod requeues it, without
//! the flush.
//!
//! Random clusters with all kinds of objects change one object at a time. After each change and its consequences, no
//! pod may wait for an event if a full evaluation finds a node for it.

mod support;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use supercargo_core::cycle::{Decision, Framework, NoProbe, Options};
use supercargo_core::model::effect::{Effect, VolumeChange, VolumeWrite};
use supercargo_core::model::emulation::EmulatedVersion;
use supercargo_core::model::event::{BindOutcome, Event, ObjectKey, WriteOutcome};
use supercargo_core::model::intern::Tables;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::model::volume::{ClaimInfo, ClaimRef, PersistentVolumeInfo, StorageKey, StorageObject};
use supercargo_core::queue::{QueueConfig, SubQueue};
use supercargo_core::registry::Plan;
use supercargo_core::scheduler::{Config, Profile, Scheduler, Step};
use support::{arrival, begin, storage};

/// The variants of a node.
const NODES: [&str; 14] = [
    "zone=z1 cpu=4",
    "zone=z2 cpu=4",
    "zone=z1 cpu=1",
    "zone=z2 cpu=1 pods=1",
    "zone=z3 cpu=4",
    "cpu=4",
    "zone=z1 cpu=4 label:disk=ssd",
    "zone=z2 cpu=4 taint=gpu:NoSchedule",
    "zone=z1 cpu=4 taint=gpu:NoExecute label:disk=hdd",
    "zone=z1 cpu=4 unschedulable",
    "zone=z2 cpu=4 res:example.com/gpu=2",
    "zone=z1 cpu=4 declares=F",
    "nohost cpu=4 zone=z1",
    "zone=z2 cpu=4 label:disk=ssd taint=spot:NoSchedule",
];

/// The variants of a pod, without labels and volumes.
const WISHES: [&str; 27] = [
    "cpu=1",
    "cpu=3",
    "cpu=9",
    "cpu=1 res:example.com/gpu=1",
    "port=80",
    "port=UDP/:80",
    "tolerate=gpu",
    "select:disk=ssd",
    "require=zone:in:z1",
    "require=disk:absent",
    "require=@name:in:b",
    "spread=zone/1/DoNotSchedule/app=web",
    "spread=host/1/DoNotSchedule/app=web",
    "spread=zone/1/DoNotSchedule/app=web/min=3",
    "spread=zone/1/DoNotSchedule/app=web/honor-taints",
    "spread=zone/1/DoNotSchedule/app=db/ignore-affinity require=zone:in:z1",
    "spread=zone/1/DoNotSchedule/app=web spread=host/2/DoNotSchedule/app=web",
    "affinity=zone/app=web",
    "affinity=host/app=db affinity=zone/app=web",
    "affinity=zone/app=web/nssel=env=prod",
    "anti=zone/app=web",
    "anti=host/app=db anti=zone/app=web",
    "anti=host/app=web/nssel=env=prod",
    "cpu=2 anti=host/app=web",
    "feature=F",
    "spread=disk/1/DoNotSchedule/app=web",
    "",
];

const LABELS: [&str; 4] = ["label:app=web", "label:app=db", "", "label:app=web label:tier=front"];
const MOUNTS: [&str; 10] =
    ["", "", "", "claim=c", "claim=d", "claim=c claim=d", "gce=disk", "ebs=disk", "ephemeral=e", "claim=e"];
const NAMESPACES: [&str; 3] = ["", "", "ns=other"];

/// The variants of each storage object.
const STORAGE: [&str; 44] = [
    "attachment t on=a by=csi.x of=v",
    "attachment t on=b by=csi.x of=v",
    "attachment u on=a by=csi.x of=w",
    "pvc p1-e class=fast size=1Gi owner=p1",
    "pvc p1-e class=fast size=1Gi bound=w owner=p1",
    "pvc p2-e class=fast size=1Gi bound=v owner=p2",
    "pv w class=slow size=5Gi csi=csi.x/k",
    "pv v class=fast size=5Gi zone=z1",
    "pv v class=fast size=5Gi zone=z2",
    "pv v class=fast size=5Gi at=zone:in:z1 csi=csi.x/h",
    "pv v class=fast size=5Gi at=zone:in:z2 csi=csi.x/h for=default/c",
    "pv w class=slow size=5Gi at=zone:in:z1",
    "pv w class=slow size=1Gi",
    "pvc c class=fast size=1Gi bound=v",
    "pvc c class=fast size=1Gi",
    "pvc c class=slow size=1Gi",
    "pvc c class=fast bound=v modes=RWOP",
    "pvc c class=fast bound=v deleting",
    "pvc c class=fast bound=v lost",
    "pvc d class=slow size=2Gi",
    "pvc d class=slow size=2Gi bound=w",
    "class slow of=csi.x",
    "class slow of=csi.x",
    "class slow",
    "pvc c class=slow size=1Gi version=2",
    "pvc c class=slow size=1Gi version=3",
    "pvc d class=slow size=2Gi version=2",
    "pvc d class=fast size=2Gi",
    "pv w class=slow size=3Gi",
    "class fast of=csi.x immediate",
    "class fast of=csi.x",
    "class slow of=csi.x topology=zone:in:z1",
    "class slow of=csi.x topology=zone:in:z1,z2",
    "csinode a csi.x=1",
    "csinode a csi.x=3",
    "csinode b csi.x=0",
    "csidriver csi.x tells",
    "csidriver csi.x",
    "capacity k class=slow size=1Gi",
    "capacity k class=slow size=9Gi",
    "csinode a csi.x=2",
    "pvc d class=fast size=2Gi bound=v",
    "pvc e class=slow size=1Gi bound=u",
    "pv u class=slow size=5Gi csi=csi.x/l",
];

const NODE_NAMES: [&str; 3] = ["a", "b", "c"];
const PEERS: [&str; 4] = ["q1", "q2", "q3", "q4"];
const WAITERS: [&str; 4] = ["p1", "p2", "p3", "p4"];
/// Pending pods of another scheduler.
const NOMINEES: [&str; 3] = ["n1", "n2", "n3"];
/// What a nominated pod is: its priority decides for which pods it counts.
const PRIORITIES: [i32; 3] = [-1, 0, 9];

/// A change of the cluster.
#[derive(Clone, Debug)]
enum Change {
    Node(usize, usize),
    NodeGone(usize),
    Peer {
        name: usize,
        node: usize,
        labels: usize,
        wish: usize,
        mount: usize,
        namespace: usize,
        deleting: bool,
    },
    Nominee {
        name: usize,
        /// The node it is nominated to; none beyond the last.
        node: usize,
        labels: usize,
        wish: usize,
        mount: usize,
        priority: usize,
    },
    /// The first number selects the list of names.
    PodGone(usize, usize),
    Waiter {
        name: usize,
        labels: usize,
        wish: usize,
        other: usize,
        mount: usize,
        namespace: usize,
        tolerates: bool,
    },
    Storage(usize),
    StorageGone(usize),
    Namespace(usize, bool),
}

fn change() -> impl Strategy<Value = Change> {
    let (labels, mounts, namespaces) = (0..LABELS.len(), 0..MOUNTS.len(), 0..NAMESPACES.len());
    prop_oneof![
        5 => (0..NODE_NAMES.len(), 0..NODES.len()).prop_map(|(name, what)| Change::Node(name, what)),
        1 => (0..NODE_NAMES.len()).prop_map(Change::NodeGone),
        4 => (0..PEERS.len(), 0..NODE_NAMES.len(), labels.clone(), 0..WISHES.len(), mounts.clone(), namespaces.clone(),
              prop::bool::weighted(0.15))
            .prop_map(|(name, node, labels, wish, mount, namespace, deleting)| Change::Peer {
                name, node, labels, wish, mount, namespace, deleting
            }),
        1 => (0..NOMINEES.len(), 0..=NODE_NAMES.len(), labels.clone(), 0..WISHES.len(), mounts.clone(),
              0..PRIORITIES.len())
            .prop_map(|(name, node, labels, wish, mount, priority)| Change::Nominee {
                name, node, labels, wish, mount, priority
            }),
        3 => (0..3_usize, 0..PEERS.len()).prop_map(|(list, name)| Change::PodGone(list, name)),
        4 => (0..WAITERS.len(), labels, 0..WISHES.len(), 0..WISHES.len(), mounts, namespaces,
              prop::bool::weighted(0.2))
            .prop_map(|(name, labels, wish, other, mount, namespace, tolerates)| Change::Waiter {
                name, labels, wish, other, mount, namespace, tolerates
            }),
        4 => (0..STORAGE.len()).prop_map(Change::Storage),
        1 => (0..STORAGE.len()).prop_map(Change::StorageGone),
        1 => (0..2_usize, any::<bool>()).prop_map(|(name, prod)| Change::Namespace(name, prod)),
    ]
}

/// Changes of a cluster in which pods share a few volumes, and the only node attaches no more than three.
fn volume_change() -> impl Strategy<Value = Change> {
    let is_counted = |&at: &usize| {
        let line = STORAGE[at];
        line.starts_with("csinode a")
            || line.starts_with("attachment")
            || line.contains(" csi=")
            || line.starts_with("pvc") && line.contains("bound=")
    };
    let storage: Vec<usize> = (0..STORAGE.len()).filter(is_counted).collect();
    let claims = || prop::sample::select(vec![3_usize, 4, 5, 9]);
    let plain = WISHES.len() - 1;
    prop_oneof![
        1 => Just(Change::Node(0, 0)),
        4 => (0..PEERS.len(), claims()).prop_map(move |(name, mount)| Change::Peer {
            name, node: 0, labels: 2, wish: plain, mount, namespace: 0, deleting: false
        }),
        4 => (0..NOMINEES.len(), claims(), 0..PRIORITIES.len()).prop_map(move |(name, mount, priority)| {
            Change::Nominee { name, node: 0, labels: 2, wish: plain, mount, priority }
        }),
        4 => (0..WAITERS.len(), claims()).prop_map(move |(name, mount)| Change::Waiter {
            name, labels: 2, wish: plain, other: plain, mount, namespace: 0, tolerates: false
        }),
        4 => (0..3_usize, 0..PEERS.len()).prop_map(|(list, name)| Change::PodGone(list, name)),
        3 => prop::sample::select(storage.clone()).prop_map(Change::Storage),
        1 => prop::sample::select(storage).prop_map(Change::StorageGone),
    ]
}

/// What is there before such changes.
const VOLUMES: [&str; 10] = [
    "node a zone=z1 cpu=4",
    "class fast of=csi.x",
    "class slow of=csi.x",
    "csinode a csi.x=2",
    "pv v class=fast size=5Gi at=zone:in:z1 csi=csi.x/h",
    "pv w class=slow size=5Gi csi=csi.x/k",
    "pv u class=slow size=5Gi csi=csi.x/l",
    "pvc c class=fast size=1Gi bound=v",
    "pvc d class=slow size=2Gi bound=w",
    "pvc e class=slow size=1Gi bound=u",
];

struct TestCluster {
    scheduler: Scheduler,
    framework: Framework,
    now: Time,
    /// The description of each existing pod, without labels.
    specs: BTreeMap<&'static str, String>,
    /// The history, for failure messages.
    history: String,
    /// The number of pods placed after an event requeued them.
    woken: usize,
    /// The number of volume writes.
    written: usize,
}

impl TestCluster {
    fn new(version: EmulatedVersion) -> Self {
        let now = Time::from_secs(1_000);
        let mut tables = Tables::new();
        tables.emulate(version);
        let plan = Plan::of(version.rules());
        let profile = Profile { name: "default-scheduler".to_owned(), framework: Framework::new(&plan) };
        // The flush is disabled, so a missed event leaves the pod unschedulable.
        let queue =
            QueueConfig { max_in_unschedulable: Duration::from_secs(1 << 40), ..QueueConfig::default() };
        let config = Config { seed: Seed(1), profiles: vec![profile], queue };
        let scheduler = Scheduler::with_tables(config, tables, now);
        let mut cluster = Self {
            scheduler,
            framework: Framework::new(&plan),
            now,
            specs: BTreeMap::new(),
            history: format!("emulate {version}\n"),
            woken: 0,
            written: 0,
        };
        begin(&mut cluster.scheduler, now, 1_000_000);
        cluster
    }

    fn handle(&mut self, event: Event) {
        self.scheduler.handle(self.now, event);
    }

    fn line(&mut self, line: &str) {
        let _ = writeln!(self.history, "{line}");
        let event = arrival(self.scheduler.tables(), line);
        self.handle(event);
    }

    fn gone(&mut self, what: &str, key: ObjectKey) {
        let _ = writeln!(self.history, "gone {what}");
        self.handle(Event::Gone(key));
    }

    fn apply(&mut self, change: &Change) {
        match *change {
            Change::Node(name, what) => self.line(&format!("node {} {}", NODE_NAMES[name], NODES[what])),
            Change::NodeGone(name) => {
                let key = ObjectKey::Node(self.scheduler.tables().symbol(NODE_NAMES[name]));
                self.gone(NODE_NAMES[name], key);
            }
            Change::Peer { name, node, labels, wish, mount, namespace, deleting } => {
                let rest = [WISHES[wish], MOUNTS[mount], NAMESPACES[namespace]].join(" ");
                let on = format!("on={} {rest}", NODE_NAMES[node]);
                // A bound pod keeps its node and its spec. Its labels may change, and it may start terminating, which
                // is final.
                let spec = self.specs.entry(PEERS[name]).or_insert(on);
                if deleting && !spec.ends_with(" deleting") {
                    spec.push_str(" deleting");
                }
                let line = format!("pod {} {} {spec}", PEERS[name], LABELS[labels]);
                self.line(&line);
            }
            Change::Nominee { name, node, labels, wish, mount, priority } => {
                let rest = [LABELS[labels], WISHES[wish], MOUNTS[mount]].join(" ");
                self.nominee(name, node, format!("{rest} priority={} scheduler=other", PRIORITIES[priority]));
            }
            Change::PodGone(list, name) => {
                let names: &[&'static str] = [&PEERS[..], &WAITERS, &NOMINEES][list];
                let Some(&name) = names.get(name) else { return };
                self.specs.remove(name);
                self.gone(name, ObjectKey::Pod(name.into()));
            }
            Change::Waiter { name, labels, wish, other, mount, namespace, tolerates } => {
                let name = WAITERS[name];
                // A bound pod does not become pending again.
                if self.scheduler.snapshot().nodes().iter().any(|node| self.holds(node, name)) {
                    return;
                }
                let rest = [WISHES[wish], WISHES[other], MOUNTS[mount], NAMESPACES[namespace]].join(" ");
                let spec = self.specs.entry(name).or_insert(rest);
                // Only the tolerations of a pending pod may grow.
                if tolerates {
                    spec.push_str(" tolerate=gpu");
                }
                let line = format!("pod {name} {} {spec}", LABELS[labels]);
                self.line(&line);
            }
            Change::Storage(what) => self.line(STORAGE[what]),
            Change::StorageGone(what) => {
                let object = storage::object(self.scheduler.tables(), STORAGE[what]).expect("storage");
                let key: StorageKey = object.key();
                self.gone(STORAGE[what], ObjectKey::Storage(key));
            }
            Change::Namespace(name, prod) => {
                let tables = self.scheduler.tables();
                let name = tables.symbol(["default", "other"][name]);
                let pair = (tables.symbol("env"), tables.symbol(if prod { "prod" } else { "test" }));
                let labels = tables.label_set(vec![pair]);
                let _ = writeln!(self.history, "namespace {name:?} prod={prod}");
                self.handle(Event::NamespaceApplied { name, labels });
            }
        }
    }

    /// Shows a pending pod of another scheduler. Only its nomination changes later.
    fn nominee(&mut self, name: usize, node: usize, spec: String) {
        let name = NOMINEES[name];
        let spec = self.specs.entry(name).or_insert(spec);
        let nominated = NODE_NAMES.get(node).map(|node| format!(" nominated={node}"));
        let line = format!("pod {name} {spec}{}", nominated.unwrap_or_default());
        self.line(&line);
    }

    fn holds(&self, node: supercargo_core::model::node::NodeIdx, pod: &str) -> bool {
        self.scheduler.snapshot().pods_on(node).any(|there| &*there.name == pod)
    }

    /// Runs the engine until idle. Bindings are carried out and shown at once. Of the volume writes, some are carried
    /// out, some are rejected, and some get no answer.
    fn run(&mut self) {
        loop {
            match self.scheduler.step(self.now, &mut NoProbe) {
                Step::Idle { .. } => return,
                Step::Effect(Effect::Bind { pod, node }) => {
                    let _ = writeln!(self.history, "  {} is bound to {node}", pod.name);
                    let bound = self.bound(&pod.uid, &node);
                    self.handle(Event::PodApplied(Box::new(bound)));
                    self.handle(Event::BindFinished { uid: pod.uid, outcome: BindOutcome::Accepted });
                }
                Step::Report(report) => {
                    let bound = matches!(report.outcome, supercargo_core::report::Outcome::Bound { .. });
                    self.woken += usize::from(bound && report.attempt > 1);
                }
                Step::Effect(Effect::WriteVolume(write)) => self.write(&write),
                Step::Effect(_) => {}
                Step::GroupReport(_) => {}
                Step::Notice(notice) => panic!("{}: {}\n{}", notice.object, notice.text, self.history),
            }
        }
    }

    fn write(&mut self, write: &VolumeWrite) {
        let _ = writeln!(self.history, "  for {} is written: {:?}", write.pod.name, write.change);
        self.written += 1;
        let outcome = match write.write % 5 {
            0 => WriteOutcome::Refused { message: "no".to_owned() },
            4 => return,
            _ => {
                self.complete_write(&write.change, write.write);
                WriteOutcome::Done
            }
        };
        self.handle(Event::VolumeWritten { uid: Arc::clone(&write.pod.uid), write: write.write, outcome });
    }

    /// Carries out a volume write, and binds the claim as the controllers do.
    fn complete_write(&mut self, change: &VolumeChange, number: u64) {
        let version: Box<str> = format!("written-{number}").into();
        let tables = self.scheduler.tables();
        let (volume, namespace, name) = match change {
            VolumeChange::Bind { volume, claim, .. } => (volume, &claim.namespace, &claim.name),
            VolumeChange::SelectNode { namespace, name, .. } => (&format!("made-{number}"), namespace, name),
            _ => return,
        };
        let (volume, namespace, name) =
            (tables.symbol(volume), tables.symbol(namespace), tables.symbol(name));
        let volumes = self.scheduler.snapshot().volumes();
        let Some(claim) = volumes.claim(namespace, name) else { return };
        let mut claim = ClaimInfo::clone(claim);
        let mut made = match volumes.volume(volume).map(|found| PersistentVolumeInfo::clone(found)) {
            Some(found) => found,
            None => {
                let line = format!("pv made-{number} size=9Gi");
                let Some(StorageObject::Volume(made)) = storage::object(self.scheduler.tables(), &line)
                else {
                    panic!("{line} is no volume")
                };
                PersistentVolumeInfo { class: claim.class, ..Arc::unwrap_or_clone(made) }
            }
        };
        made.claim = Some(ClaimRef { namespace, name, uid: Some(Arc::clone(&claim.uid)) });
        if let VolumeChange::SelectNode { node, .. } = change {
            claim.selected_node = Some(self.scheduler.tables().symbol(node));
        }
        (claim.volume, claim.bind_completed) = (Some(volume), true);
        (made.resource_version, claim.resource_version) = (version.clone(), version);
        self.handle(Event::StorageApplied(StorageObject::Volume(Arc::new(made))));
        self.handle(Event::StorageApplied(StorageObject::Claim(Arc::new(claim))));
    }

    fn bound(&mut self, uid: &str, node: &str) -> PodInfo {
        let snapshot = self.scheduler.snapshot();
        let assumed =
            snapshot.nodes().iter().flat_map(|idx| snapshot.pods_on(idx)).find(|pod| *pod.uid == *uid);
        let mut pod = assumed.expect("a pod that is bound is assumed").clone();
        pod.node_name = Some(self.scheduler.tables().symbol(node));
        pod
    }

    /// Checks that no pending pod has a feasible node.
    fn check(&self) {
        let snapshot = self.scheduler.snapshot();
        for (place, queued) in self.scheduler.queue().waiting() {
            if place != SubQueue::Unschedulable || queued.pod.deleting {
                continue;
            }
            let decided = self.framework.decide(&queued.pod, snapshot, Options::default(), &mut NoProbe);
            let Ok(Decision::Feasible(found)) = decided else { continue };
            let node = found.winners()[0];
            panic!(
                "{} fits on {} and waits for {:?}:\n{}",
                queued.pod.name,
                snapshot.text(snapshot.node_info(node).name),
                queued.rejectors,
                self.history
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn hint_never_skips_an_event_that_makes_a_pod_schedulable(
        version in prop::sample::select(EmulatedVersion::ALL.to_vec()),
        changes in prop::collection::vec(change(), 1..60),
    ) {
        no_pod_waits_in_vain(TestCluster::new(version), &changes);
    }

    #[test]
    fn hint_never_skips_an_event_that_helps_a_pod_over_a_volume_limit(
        version in prop::sample::select(EmulatedVersion::ALL.to_vec()),
        changes in prop::collection::vec(volume_change(), 1..60),
    ) {
        let mut cluster = TestCluster::new(version);
        VOLUMES.iter().for_each(|line| cluster.line(line));
        no_pod_waits_in_vain(cluster, &changes);
    }
}

fn no_pod_waits_in_vain(mut cluster: TestCluster, changes: &[Change]) {
    for change in changes {
        cluster.apply(change);
        cluster.run();
        cluster.check();
        cluster.now = cluster.now + Duration::from_secs(30);
        cluster.run();
        cluster.check();
    }
}

#[test]
fn random_clusters_requeue_pods_often_enough() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = prop::collection::vec(change(), 60);
    let (mut woken, mut written) = (0, 0);
    for _ in 0..80 {
        let changes = strategy.new_tree(&mut runner).expect("changes are drawn").current();
        let mut cluster = TestCluster::new(EmulatedVersion::NEWEST);
        for change in &changes {
            cluster.apply(change);
            cluster.now = cluster.now + Duration::from_secs(30);
            cluster.run();
        }
        woken += cluster.woken;
        written += cluster.written;
    }
    assert!(woken > 20 && written > 2, "{woken} woken, {written} written");
}
