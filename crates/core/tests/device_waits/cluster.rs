//! A cluster of one node with devices, whose claims the tests show as the API server does.

use super::support::{arrival, begin, devices};
use std::sync::Arc;
use std::time::Duration;
use supercargo_core::cycle::{Framework, NoProbe};
use supercargo_core::model::device::{
    Allocation, ClaimSpec, Device, DeviceClass, DeviceCondition, DeviceStatus, NodeSelector, PodClaim,
    PodClaimSource, PoolId, Reach, Request, RequestKind, ResourceClaim, ResourceSlice,
};
use supercargo_core::model::effect::{Effect, VolumeChange, VolumeWrite};
use supercargo_core::model::emulation::Compat;
use supercargo_core::model::event::{Event, WriteOutcome};
use supercargo_core::model::intern::Tables;
use supercargo_core::model::rng::Seed;
use supercargo_core::model::selector::{NodeSelectorTerm, TermDemands};
use supercargo_core::model::time::Time;
use supercargo_core::model::volume::StorageObject;
use supercargo_core::queue::QueueConfig;
use supercargo_core::report::{DeviceWait, Outcome};
use supercargo_core::scheduler::{Config, Profile, Scheduler, Step};

/// A claim as the API server shows it.
#[derive(Clone, Default)]
pub(super) struct Shown {
    pub(super) allocation: Option<Arc<Allocation>>,
    pub(super) reserved_for: Vec<&'static str>,
    /// The condition that the driver reports of the devices.
    pub(super) condition: Option<&'static str>,
    /// The pod for whose extended resources it was made, and the node of its devices.
    pub(super) made_for: Option<(&'static str, &'static str)>,
}

pub(super) struct Cluster {
    pub(super) scheduler: Scheduler,
    pub(super) now: Time,
    pub(super) versions: u32,
    pub(super) wake_at: Option<Time>,
    pub(super) waits: Vec<DeviceWait>,
    pub(super) bound: Vec<String>,
    pub(super) evicted: Vec<String>,
}

impl Cluster {
    /// Creates a cluster of one node with devices that have binding conditions.
    pub(super) fn new(devices: usize, compat: Compat) -> Self {
        Self::with_credits(devices, compat, 1_000_000)
    }

    /// As [`Self::new`], with at most so many writes at once.
    pub(super) fn with_credits(devices: usize, compat: Compat, credits: usize) -> Self {
        let now = Time::from_secs(1_000);
        let profile = Profile { name: "default-scheduler".to_owned(), framework: Framework::default() };
        let config = Config { seed: Seed(1), profiles: vec![profile], queue: QueueConfig::default() };
        let scheduler = Scheduler::new(config, now);
        let mut cluster = Self {
            scheduler,
            now,
            versions: 0,
            wake_at: None,
            waits: Vec::new(),
            bound: Vec::new(),
            evicted: Vec::new(),
        };
        cluster.scheduler.tables().set_compat(compat);
        begin(&mut cluster.scheduler, now, credits);
        let node = arrival(cluster.scheduler.tables(), "node a cpu=64");
        cluster.handle(node);
        let tables = cluster.scheduler.tables();
        let device = |at: usize| Device {
            binding_conditions: Some(["ready".into()].into()),
            binding_failure_conditions: ["broken".into()].into(),
            ..devices::device(&format!("d{at}"))
        };
        let slice = ResourceSlice {
            name: tables.symbol("slice"),
            pool: PoolId { driver: "gpu.example.com".into(), name: "a".into() },
            generation: 1,
            slices: 1,
            reach: Reach::Node(tables.symbol("a")),
            devices: (0..devices).map(device).collect(),
            counters: [].into(),
        };
        let class = DeviceClass {
            implicit: tables.symbol("deviceclass.resource.kubernetes.io/gpu"),
            explicit: None,
            created: None,
            selectors: [].into(),
            config: [].into(),
        };
        let class = Event::DeviceClassApplied { name: tables.symbol("gpu"), class: class.into() };
        cluster.handle(Event::StorageApplied(StorageObject::ResourceSlice(slice.into())));
        cluster.handle(class);
        cluster
    }

    pub(super) fn handle(&mut self, event: Event) {
        self.scheduler.handle(self.now, event);
    }

    pub(super) fn show_pod(&mut self, name: &str, claim: &str) {
        self.show_with_claims(&format!("pod {name} cpu=1"), &[claim]);
    }

    pub(super) fn show_with_claims(&mut self, line: &str, claims: &[&str]) {
        let tables = self.scheduler.tables();
        let Event::PodApplied(mut pod) = arrival(tables, line) else { panic!("a pod is applied as one") };
        let claim = |name: &&str| PodClaim {
            name: (*name).into(),
            source: PodClaimSource::Named(tables.symbol(name)),
        };
        pod.claims = claims.iter().map(claim).collect();
        self.handle(Event::PodApplied(pod));
    }

    pub(super) fn show_node(&mut self, line: &str) {
        let node = arrival(self.scheduler.tables(), line);
        self.handle(node);
    }

    /// Shows the pod `p` as pending with two claims that it holds, as a list of an older state may, and lets it fail.
    /// Returns its claims, and the writes by which it gives them up.
    pub(super) fn give_up_claims(&mut self) -> ([Shown; 2], Vec<VolumeWrite>) {
        let mut other = Self::new(1, Compat::Repaired);
        other.show("c", &Shown::default());
        other.show_pod("p", "c");
        let first = allocation_of(&other.write());
        let mut second = Allocation::clone(&first);
        second.results[0].device.device = "d1".into();
        let holds = |allocation: Arc<Allocation>| Shown {
            allocation: Some(allocation),
            reserved_for: vec!["p"],
            condition: Some("ready"),
            ..Shown::default()
        };
        let claims = [holds(first), holds(second.into())];
        self.show("c", &claims[0]);
        self.show("d", &claims[1]);
        self.show_node("node a cpu=0");
        self.show_with_claims("pod p cpu=1", &["c", "d"]);
        let writes = self.run();
        assert!(writes.iter().all(|it| matches!(it.change, VolumeChange::Unreserve { .. })), "{writes:?}");
        (claims, writes)
    }

    pub(super) fn show(&mut self, name: &str, shown: &Shown) {
        self.versions += 1;
        let tables = self.scheduler.tables();
        let request = devices::request("r", tables.symbol("gpu"));
        let request = Request { name: "r".into(), kind: RequestKind::Exactly(request) };
        let results = shown.allocation.iter().flat_map(|allocation| &allocation.results);
        let condition = |kind: &'static str| DeviceCondition {
            kind: kind.into(),
            is_true: true,
            reason: "Report".into(),
            message: "".into(),
        };
        let status = results.map(|result| DeviceStatus {
            device: result.device.clone(),
            conditions: shown.condition.map(condition).into_iter().collect(),
        });
        let claim = ResourceClaim {
            namespace: tables.symbol("default"),
            name: tables.symbol(name),
            uid: format!("uid-{name}").into(),
            resource_version: self.versions.to_string().into(),
            controller: shown.made_for.map(|(pod, _)| (pod.into(), pod.into())),
            deleting: false,
            is_for_extended_resources: shown.made_for.is_some(),
            is_protected: true,
            spec: ClaimSpec { requests: [request].into(), ..ClaimSpec::default() }.into(),
            allocation: shown.allocation.clone(),
            nodes: shown.made_for.map(|(_, node)| only(tables, node)),
            reserved_for: shown.reserved_for.iter().map(|pod| (*pod).into()).collect(),
            devices: status.collect(),
        };
        self.handle(Event::StorageApplied(StorageObject::ResourceClaim(claim.into())));
    }

    /// Runs the engine until it is idle, and returns its writes.
    pub(super) fn run(&mut self) -> Vec<VolumeWrite> {
        let mut writes = Vec::new();
        loop {
            match self.scheduler.step(self.now, &mut NoProbe) {
                Step::Idle { wake_at } => {
                    self.wake_at = wake_at;
                    return writes;
                }
                Step::Effect(Effect::WriteVolume(write)) => writes.push(write),
                Step::Report(report) => {
                    if let Outcome::PreBound { devices, .. } = report.outcome {
                        self.waits.extend(devices);
                    }
                }
                Step::Effect(Effect::Bind { pod, .. }) => self.bound.push(pod.name.to_string()),
                Step::Effect(Effect::Evict(eviction)) => self.evicted.push(eviction.pod.name.to_string()),
                Step::Effect(_) => {}
                Step::GroupReport(_) => {}
                Step::Notice(notice) => panic!("{}: {}", notice.object, notice.text),
            }
        }
    }

    /// Returns the only write.
    pub(super) fn write(&mut self) -> VolumeWrite {
        let mut writes = self.run();
        assert_eq!(writes.len(), 1, "{writes:?}");
        writes.remove(0)
    }

    /// Waits until the next write, which is the only one.
    pub(super) fn next_write(&mut self, at_most: Duration) -> VolumeWrite {
        let end = self.now + at_most;
        loop {
            let mut writes = self.run();
            if let Some(write) = writes.pop() {
                assert!(writes.is_empty(), "{writes:?}");
                return write;
            }
            self.now = self.wake_at.expect("something is due");
            assert!(self.now <= end, "no write");
        }
    }

    pub(super) fn answer(&mut self, write: &VolumeWrite, outcome: WriteOutcome) {
        let uid = Arc::clone(&write.pod.uid);
        self.handle(Event::VolumeWritten { uid, write: write.write, outcome });
    }

    /// Lets the claim `c` of the pod `p` get a device, which then fails. Returns the device's name.
    pub(super) fn get_device_that_fails(&mut self) -> String {
        let write = self.next_write(Duration::from_secs(30));
        let allocation = allocation_of(&write);
        let mut shown =
            Shown { allocation: Some(Arc::clone(&allocation)), reserved_for: vec!["p"], ..Shown::default() };
        self.show("c", &shown);
        self.answer(&write, WriteOutcome::Done);
        assert!(self.run().is_empty());
        shown.condition = Some("broken");
        self.show("c", &shown);
        let unreserved = self.write();
        assert!(matches!(unreserved.change, VolumeChange::Unreserve { .. }), "{unreserved:?}");
        shown.reserved_for.clear();
        self.show("c", &shown);
        self.answer(&unreserved, WriteOutcome::Done);
        let freed = self.next_write(Duration::from_secs(30));
        assert!(matches!(freed.change, VolumeChange::Deallocate { .. }), "{freed:?}");
        self.show("c", &Shown::default());
        self.answer(&freed, WriteOutcome::Done);
        allocation.results[0].device.device.to_string()
    }
}

/// Returns a selector of one node by its name.
pub(super) fn only(tables: &mut Tables, node: &str) -> NodeSelector {
    let demands = TermDemands { labels: [].into(), names: [(tables.symbol(node), false)].into() };
    let term = NodeSelectorTerm { demands: Some(demands), pinned_names: None };
    NodeSelector { parsed: Ok([term].into()), terms: [].into() }
}

pub(super) fn allocation_of(write: &VolumeWrite) -> Arc<Allocation> {
    match &write.change {
        VolumeChange::Reserve { allocation: Some(allocation), .. } => Arc::clone(allocation),
        other => panic!("{other:?}"),
    }
}

pub(super) fn with_pod(devices: usize, compat: Compat) -> Cluster {
    let mut cluster = Cluster::new(devices, compat);
    cluster.show("c", &Shown::default());
    cluster.show_pod("p", "c");
    cluster
}
