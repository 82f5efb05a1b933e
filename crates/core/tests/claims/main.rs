//! Property tests of ResourceClaims against a simulated API server that loses answers, delays watch events, and has
//! another scheduler, which allocates and frees claims. Some pods have claims, and for others the scheduler makes a
//! claim, since a DeviceClass serves the extended resource that they request.
//!
//! Every other device must be reported as ready before a pod that has it is bound.
//!
//! Invariants: No pod is bound unless each of its claims has ready devices on its node and is reserved for it. No
//! device is in two allocations. When the faults end, every pod gets bound, and no allocation stays in flight.

mod server;
#[path = "../support/mod.rs"]
mod support;

use proptest::prelude::*;
use server::{Claim, Server};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use supercargo_core::cycle::{Framework, NoProbe};
use supercargo_core::model::device::{
    AllocatedDevice, Allocation, ClaimSpec, Device, DeviceClass, DeviceCondition, DeviceId, DeviceStatus,
    NodeSelector, PodClaim, PodClaimSource, PoolId, Reach, Request, RequestKind, ResourceClaim,
    ResourceSlice,
};
use supercargo_core::model::effect::{Effect, VolumeChange, VolumeWrite};
use supercargo_core::model::event::{BindOutcome, Event, ObjectKey, WriteOutcome};
use supercargo_core::model::intern::Tables;
use supercargo_core::model::pod::Uid;
use supercargo_core::model::rng::Seed;
use supercargo_core::model::selector::{NodeSelectorTerm, TermDemands};
use supercargo_core::model::time::Time;
use supercargo_core::model::volume::StorageObject;
use supercargo_core::queue::{QueueConfig, SubQueue};
use supercargo_core::scheduler::{Config, PodLocation, Profile, Scheduler, Step};
use support::{arrival, begin, devices};

/// The pods and their claims. Two pods share a claim, and two share two claims, in another order.
const PODS: [(&str, &[&str]); 6] = [
    ("p", &["c0"]),
    ("q", &["c1"]),
    ("r", &["c2"]),
    ("s", &["c2"]),
    ("t", &["c3", "c4"]),
    ("u", &["c4", "c3"]),
];
const CLAIMS: [&str; 5] = ["c0", "c1", "c2", "c3", "c4"];
/// Pods that request an extended resource.
const EXTENDED: [&str; 2] = ["x", "y"];
/// Each node has this number of devices, so that all claims fit on one, and some that were made in vain.
const NODES: [&str; 2] = ["a", "b"];
const DEVICES: usize = 24;
/// An attempt that waits in vain times out after ten minutes, which must not be needed.
const SETTLE_MAX: Duration = Duration::from_secs(400);

fn pool(node: &str) -> PoolId {
    PoolId { driver: "gpu.example.com".into(), name: node.into() }
}

fn slice(tables: &mut Tables, node: &str) -> ResourceSlice {
    let device = |at: usize| Device {
        binding_conditions: (at % 2 == 1).then(|| ["ready".into()].into()),
        binding_failure_conditions: ["broken".into()].into(),
        ..devices::device(&format!("d{at}"))
    };
    ResourceSlice {
        name: tables.symbol(&format!("slice-{node}")),
        pool: pool(node),
        generation: 1,
        slices: 1,
        reach: Reach::Node(tables.symbol(node)),
        devices: (0..DEVICES).map(device).collect(),
        counters: [].into(),
    }
}

fn spec(tables: &mut Tables) -> ClaimSpec {
    let request = devices::request("r", tables.symbol("gpu"));
    let request = Request { name: "r".into(), kind: RequestKind::Exactly(request) };
    ClaimSpec { requests: [request].into(), ..ClaimSpec::default() }
}

/// Returns the names in the pod's `spec.resourceClaims`.
fn claims_of(pod: &str) -> &'static [&'static str] {
    PODS.iter().find(|(name, _)| *name == pod).map_or(&[], |(_, claims)| claims)
}

struct TestCluster {
    scheduler: Scheduler,
    server: Server,
    now: Time,
    pending: VecDeque<VolumeWrite>,
    /// Writes that are carried out after their answers were lost.
    late: VecDeque<VolumeWrite>,
    history: String,
}

impl TestCluster {
    fn new() -> Self {
        let now = Time::from_secs(1_000);
        let profile = Profile { name: "default-scheduler".to_owned(), framework: Framework::default() };
        let config = Config { seed: Seed(1), profiles: vec![profile], queue: QueueConfig::default() };
        let mut cluster = Self {
            scheduler: Scheduler::new(config, now),
            server: Server::default(),
            now,
            pending: VecDeque::new(),
            late: VecDeque::new(),
            history: String::new(),
        };
        begin(&mut cluster.scheduler, now, 1_000_000);
        for node in NODES {
            let event = arrival(cluster.scheduler.tables(), &format!("node {node} cpu=64"));
            cluster.handle(event);
            let slice = slice(cluster.scheduler.tables(), node);
            cluster.handle(Event::StorageApplied(StorageObject::ResourceSlice(slice.into())));
        }
        let tables = cluster.scheduler.tables();
        let class = DeviceClass {
            implicit: tables.symbol("deviceclass.resource.kubernetes.io/gpu"),
            explicit: Some(tables.symbol("example.com/gpu")),
            created: None,
            selectors: [].into(),
            config: [].into(),
        };
        let event = Event::DeviceClassApplied { name: tables.symbol("gpu"), class: class.into() };
        cluster.handle(event);
        PODS.iter().for_each(|(pod, _)| cluster.show_pod(pod, None));
        EXTENDED.iter().for_each(|pod| cluster.show_pod(pod, None));
        CLAIMS.iter().for_each(|claim| cluster.server.put(claim, Claim::default()));
        cluster
    }

    fn handle(&mut self, event: Event) {
        self.scheduler.handle(self.now, event);
    }

    fn show_pod(&mut self, name: &str, node: Option<&str>) {
        let on = node.map(|node| format!(" on={node}")).unwrap_or_default();
        let tables = self.scheduler.tables();
        let resource = if EXTENDED.contains(&name) { " res:example.com/gpu=1" } else { "" };
        let Event::PodApplied(mut pod) = arrival(tables, &format!("pod {name} cpu=1{resource}{on}")) else {
            panic!("a pod is applied as one")
        };
        let claims = claims_of(name);
        let claim = |name: &&str| PodClaim {
            name: (*name).into(),
            source: PodClaimSource::Named(tables.symbol(name)),
        };
        pod.claims = claims.iter().map(claim).collect();
        self.handle(Event::PodApplied(pod));
    }

    /// Shows a claim with the annotation of claims for extended resources, owned by a pod of this uid and name.
    fn show_claim_of(&mut self, uid: &str, owner: &str, has_requests: bool) {
        let tables = self.scheduler.tables();
        let spec = if has_requests { spec(tables) } else { ClaimSpec::default() };
        let claim = ResourceClaim {
            controller: Some((owner.into(), uid.into())),
            is_for_extended_resources: true,
            spec: spec.into(),
            ..support::storage::devices_claim(tables, "crafted")
        };
        self.handle(Event::StorageApplied(StorageObject::ResourceClaim(claim.into())));
    }

    fn deliver(&mut self) -> bool {
        let Some((name, claim, is_deleted)) = self.server.events.pop_front() else { return false };
        let what = if is_deleted { "deleted " } else { "" };
        let _ = writeln!(self.history, "{what}{name}: {claim:?}");
        let statuses = claim.statuses();
        let tables = self.scheduler.tables();
        let nodes = claim.allocation.as_ref().map(|(node, _)| {
            let demands = TermDemands { labels: [].into(), names: [(tables.symbol(node), false)].into() };
            let term = NodeSelectorTerm { demands: Some(demands), pinned_names: None };
            NodeSelector { parsed: Ok([term].into()), terms: [].into() }
        });
        let object = ResourceClaim {
            namespace: tables.symbol("default"),
            name: tables.symbol(&name),
            uid: format!("uid-{name}").into(),
            resource_version: claim.version.to_string().into(),
            controller: claim.made_for.as_ref().map(|pod| ((&**pod).into(), Arc::clone(pod))),
            deleting: false,
            is_for_extended_resources: claim.made_for.is_some(),
            is_protected: claim.is_protected,
            spec: spec(tables).into(),
            allocation: claim.allocation.map(|(_, allocation)| allocation),
            nodes,
            reserved_for: claim.reserved_for.into(),
            devices: statuses.into(),
        };
        let object = StorageObject::ResourceClaim(object.into());
        let event = if is_deleted {
            Event::Gone(ObjectKey::Storage(object.key()))
        } else {
            Event::StorageApplied(object)
        };
        self.handle(event);
        true
    }

    fn answer(&mut self, write: &VolumeWrite, outcome: WriteOutcome) {
        let _ = writeln!(self.history, "  answer to {}: {outcome:?}", write.write);
        let uid = Arc::clone(&write.pod.uid);
        self.handle(Event::VolumeWritten { uid, write: write.write, outcome });
    }

    /// Carries out the oldest write, or loses it.
    fn answer_next(&mut self, arrives: bool, answered: bool) -> bool {
        let Some(write) = self.pending.pop_front() else { return false };
        let lost = WriteOutcome::Unknown { message: "context deadline exceeded".to_owned() };
        if arrives {
            let outcome = self.server.write(&write);
            self.answer(&write, if answered { outcome } else { lost });
        } else {
            self.answer(&write, lost);
            self.late.push_back(write);
        }
        true
    }

    fn advance(&mut self, choice: u8) {
        let other = usize::from(choice / 12);
        let claim = CLAIMS[other % CLAIMS.len()];
        match choice % 12 {
            0 | 1 => drop(self.deliver()),
            2 | 3 => drop(self.answer_next(true, true)),
            4 => drop(self.answer_next(true, false)),
            5 => drop(self.answer_next(false, false)),
            6 => {
                let late = self.late.pop_front();
                late.inspect(|write| self.server.write_late(write));
            }
            7 => self.server.allocate_elsewhere(claim, NODES[other % 2]),
            8 => self.server.free(claim),
            9 if other.is_multiple_of(2) => self.now = self.now + Duration::from_secs(1),
            9 => {
                // A request does not arrive after its deadline, and a watch is not that late.
                while self.answer_next(false, false) {}
                while self.deliver() {}
                self.now = self.now + Duration::from_secs(40);
                self.late.clear();
            }
            10 => {
                if other.is_multiple_of(2) {
                    let all: Vec<String> = self.server.claims.keys().cloned().collect();
                    self.server.report(&all[other / 2 % all.len()], !other.is_multiple_of(3));
                }
                // Another client changes a field that is not read here.
                let same = self.server.claims[claim].clone();
                self.server.put(claim, same);
            }
            _ => {
                // The lease covers every write.
                self.late.clear();
                self.pending.clear();
                self.handle(Event::Leading(false));
                self.handle(Event::Leading(true));
            }
        }
        self.run();
    }

    /// Runs the engine until idle. Bindings are carried out and shown by the watch at once.
    fn run(&mut self) {
        loop {
            match self.scheduler.step(self.now, &mut NoProbe) {
                Step::Idle { .. } => break,
                Step::Effect(Effect::WriteVolume(write)) => {
                    let _ = writeln!(
                        self.history,
                        "  write {} for {}: {:?}",
                        write.write, write.pod.name, write.change
                    );
                    self.pending.push_back(write);
                }
                Step::Effect(Effect::Bind { pod, node }) => self.bind(&pod.name, &node),
                Step::Effect(_) | Step::Report(_) => {}
                Step::GroupReport(_) => {}
                Step::Notice(notice) => panic!("{}: {}\n{}", notice.object, notice.text, self.history),
            }
        }
        self.check();
    }

    fn bind(&mut self, pod: &str, node: &str) {
        let _ = writeln!(self.history, "  bind {pod} to {node}");
        let is_usable = |claim: &Claim| {
            let is_here = claim.allocation.as_ref().is_some_and(|(on, _)| on == node);
            let is_ready = claim.is_ready == Some(true) || !claim.needs_report() && claim.is_ready.is_none();
            is_here && is_ready && claim.reserved_for.iter().any(|uid| **uid == *pod)
        };
        for name in claims_of(pod) {
            let claim = &self.server.claims[*name];
            assert!(is_usable(claim), "{pod} is bound to {node}, {name} is {claim:?}:\n{}", self.history);
        }
        if EXTENDED.contains(&pod) {
            let mut made = self.server.claims.values().filter(|claim| claim.made_for.as_deref() == Some(pod));
            assert!(made.any(is_usable), "{pod} is bound to {node} without a claim:\n{}", self.history);
        }
        let before = self.server.bound.insert(pod.to_owned(), node.to_owned());
        assert_eq!(before, None, "{pod} is bound twice:\n{}", self.history);
        self.show_pod(pod, Some(node));
        self.handle(Event::BindFinished { uid: pod.into(), outcome: BindOutcome::Accepted });
    }

    fn check(&self) {
        let mut taken = BTreeSet::new();
        for (name, claim) in &self.server.claims {
            for result in claim.allocation.iter().flat_map(|(_, allocation)| &allocation.results) {
                assert!(taken.insert(&result.device), "{name} shares {:?}:\n{}", result.device, self.history);
            }
        }
    }

    /// Whether the claims of a pod are allocated on different nodes, as the other scheduler may do.
    fn is_torn(&self, claims: &[&str]) -> bool {
        let nodes = claims.iter().filter_map(|name| self.server.claims[*name].allocation.as_ref());
        nodes.map(|(node, _)| node).collect::<BTreeSet<_>>().len() > 1
    }

    /// Ends all faults: writes are carried out, answered and shown. Returns whether every pod is then bound, or torn.
    fn settle(&mut self) -> bool {
        let end = self.now + SETTLE_MAX;
        self.late.clear();
        while self.now < end {
            while self.answer_next(true, true) || self.deliver() {
                self.run();
            }
            let all: Vec<String> = self.server.claims.keys().cloned().collect();
            all.iter().for_each(|claim| self.server.report(claim, true));
            self.now = self.now + Duration::from_secs(1);
            self.run();
        }
        let in_flight = self.scheduler.snapshot().devices().all_in_flight().count();
        assert_eq!(in_flight, 0, "nothing stays in flight:\n{}", self.history);
        let is_done =
            |pod: &str, claims: &[&str]| self.server.bound.contains_key(pod) || self.is_torn(claims);
        PODS.iter().all(|(pod, claims)| is_done(pod, claims)) && EXTENDED.iter().all(|pod| is_done(pod, &[]))
    }
}

/// Plays these choices, and checks that all pods are bound in the end.
fn play(choices: &[u8]) -> TestCluster {
    play_in(TestCluster::new(), choices)
}

fn play_in(mut cluster: TestCluster, choices: &[u8]) -> TestCluster {
    cluster.run();
    choices.iter().for_each(|&choice| cluster.advance(choice));
    assert!(cluster.settle(), "{:?}\n{}", cluster.server.bound, cluster.history);
    cluster
}

/// The watch shows the pod's reservation of c3, its attempt fails, and c4 is shown before the end of the reservation.
#[test]
fn reservation_that_was_given_up_is_written_again_before_the_binding() {
    let cluster = play(&[0, 36, 0, 12, 0, 110, 213, 43, 251, 168, 158, 38, 74, 59, 22, 0, 0, 74, 0]);
    assert!(cluster.history.contains("for t: Unreserve"), "{}", cluster.history);
}

/// A write for x arrives late, after another claim was made for it.
#[test]
fn claim_made_in_vain_is_deleted_beside_the_one_with_which_the_pod_is_bound() {
    let cluster = play(&[0, 62, 59, 14, 12, 0, 0]);
    assert!(cluster.history.contains("for x: Delete"), "{}", cluster.history);
    let claims = cluster.server.claims.values();
    assert_eq!(
        claims.filter(|claim| claim.made_for.as_deref() == Some("x")).count(),
        1,
        "{}",
        cluster.history
    );
}

/// Another scheduler has allocated c3 and c4. The pods reserve them in opposite order.
#[test]
fn pods_that_share_two_claims_do_not_wait_for_each_other() {
    let cluster = play(&[103, 55, 0, 0, 0, 0, 0, 0, 0]);
    for pod in ["t", "u"] {
        assert_eq!(cluster.server.bound.get(pod).map(String::as_str), Some("a"), "{}", cluster.history);
    }
}

/// Anyone may create a claim that names a pod as its owner.
#[test]
fn claim_whose_owner_has_the_uid_but_not_the_name_of_a_pod_is_not_the_pods() {
    let mut cluster = TestCluster::new();
    cluster.show_claim_of("x", "other", true);
    assert!(cluster.settle(), "{:?}\n{}", cluster.server.bound, cluster.history);
}

/// Such a claim without requests looks like one that an earlier attempt made, and the pod can never use it.
#[test]
fn pod_whose_decision_is_reverted_again_and_again_serves_its_backoff() {
    let mut cluster = TestCluster::new();
    cluster.show_claim_of("x", "x", false);
    cluster.run();
    let place = cluster.scheduler.pending_one(&"x".into()).map(|pending| pending.at);
    assert_eq!(place, Some(PodLocation::Queued(SubQueue::Backoff)));
    cluster.settle();
    let bound: Vec<&str> = cluster.server.bound.keys().map(String::as_str).collect();
    assert_eq!(bound, ["p", "q", "r", "s", "t", "u", "y"]);
}

/// Late answers to writes of an earlier term must not be taken for those to later writes, and counters never decrease.
#[test]
fn numbers_of_writes_and_reverted_decisions_go_on_when_the_lease_returns() {
    let mut cluster = TestCluster::new();
    while cluster.deliver() {
        cluster.run();
    }
    cluster.server.allocate_elsewhere("c0", "b");
    while cluster.answer_next(true, true) {}
    while cluster.deliver() {}
    cluster.run();
    let reverted = cluster.scheduler.stats().rechecks_failed;
    let awaited = |cluster: &TestCluster| -> BTreeSet<u64> {
        cluster.pending.iter().map(|write| write.write).filter(|&write| write > 0).collect()
    };
    let before = awaited(&cluster).last().copied();
    assert!(reverted > 0 && before > Some(5), "{}", cluster.history);
    cluster.pending.clear();
    cluster.handle(Event::Leading(false));
    cluster.handle(Event::Leading(true));
    cluster.run();
    let after = awaited(&cluster).first().copied();
    assert!(after > before, "{}", cluster.history);
    assert!(cluster.scheduler.stats().rechecks_failed >= reverted, "{}", cluster.history);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn pods_are_bound_with_their_devices_through_faults(
        choices in prop::collection::vec(any::<u8>(), 0..120),
        has_foreign_claim in any::<bool>(),
    ) {
        let mut cluster = TestCluster::new();
        if has_foreign_claim {
            cluster.show_claim_of("x", "other", true);
        }
        play_in(cluster, &choices);
    }
}

/// PostFilter deletes one of the claims that were made for a pod. The pod may wait long for its next attempt.
#[test]
fn pod_without_room_gives_up_every_claim_that_was_made_for_it() {
    let mut cluster = TestCluster::new();
    let pod: Uid = "z".into();
    let made = [(); 2].map(|()| cluster.server.make(&pod));
    for name in &made {
        cluster.server.allocate_elsewhere(name, "a");
        let claim = Claim { reserved_for: vec![Arc::clone(&pod)], ..cluster.server.claims[name].clone() };
        cluster.server.put(name, claim);
    }
    while cluster.deliver() {}
    let event = arrival(cluster.scheduler.tables(), "pod z cpu=100 res:example.com/gpu=1");
    cluster.handle(event);
    cluster.run();
    let deleted =
        cluster.pending.iter().filter(|write| *write.pod.uid == *pod).map(|write| match &write.change {
            VolumeChange::Delete { claim } => claim.name.clone(),
            other => panic!("{other:?}\n{}", cluster.history),
        });
    assert_eq!(deleted.collect::<BTreeSet<_>>(), made.into(), "{}", cluster.history);
}

#[test]
fn pod_waits_without_condition_until_its_claim_exists() {
    let mut cluster = TestCluster::new();
    loop {
        match cluster.scheduler.step(cluster.now, &mut NoProbe) {
            Step::Idle { .. } => break,
            // PreEnqueue neither patches nor records.
            Step::Effect(Effect::WriteVolume(write)) => {
                assert!(EXTENDED.contains(&&*write.pod.name));
                cluster.pending.push_back(write);
            }
            Step::Effect(Effect::Patch(patch)) => assert!(EXTENDED.contains(&&*patch.pod.name)),
            Step::Effect(effect) => panic!("{effect:?}"),
            Step::Report(_) | Step::GroupReport(_) | Step::Notice(_) => {}
        }
    }
    assert_eq!(cluster.pending.len(), EXTENDED.len());
    assert!(cluster.settle(), "{}", cluster.history);
    let nodes: BTreeSet<&str> = cluster.server.bound.values().map(String::as_str).collect();
    assert_eq!((cluster.server.bound.len(), nodes.len() <= 2), (8, true));
}

#[test]
fn deletion_of_a_slice_brings_back_pods_without_devices() {
    let mut cluster = TestCluster::new();
    // A pool with more slices than it should have gives no devices.
    let surplus: Vec<StorageObject> = NODES
        .iter()
        .map(|node| {
            let tables = cluster.scheduler.tables();
            let name = tables.symbol(&format!("surplus-{node}"));
            StorageObject::ResourceSlice(ResourceSlice { name, ..slice(tables, node) }.into())
        })
        .collect();
    surplus.iter().for_each(|slice| cluster.handle(Event::StorageApplied(slice.clone())));
    cluster.run();
    while cluster.deliver() {
        cluster.run();
    }
    assert!(cluster.pending.is_empty(), "{}", cluster.history);

    surplus.iter().for_each(|slice| cluster.handle(Event::Gone(ObjectKey::Storage(slice.key()))));
    cluster.now = cluster.now + Duration::from_secs(10);
    cluster.run();
    assert_eq!(cluster.pending.len(), PODS.len() + EXTENDED.len() - 2, "{}", cluster.history);
}
