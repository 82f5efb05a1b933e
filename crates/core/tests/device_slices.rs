//! Searches for devices that need many steps: they go on in slices, other pods are decided in between, and the result
//! equals that of a search in one step.

#[path = "device_slices/others.rs"]
mod others;
mod support;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use supercargo_core::cache::slice::step_limit::search_steps;
use supercargo_core::cycle::{Framework, NoProbe};
use supercargo_core::model::device::{
    AllocationMode, Attribute, ClaimSpec, Constraint, ConstraintKind, Device, DeviceCapacity, DeviceClass,
    DeviceRequest, DeviceSelector, Expression, Facts, PodClaim, PodClaimSource, PoolId, Reach, Request,
    RequestKind, ResourceClaim, ResourceSlice,
};
use supercargo_core::model::effect::{Effect, Question, VolumeChange, VolumeWrite};
use supercargo_core::model::emulation::Compat;
use supercargo_core::model::event::{BindOutcome, Event, ObjectKey};
use supercargo_core::model::extender::{Answer, FilterAnswer};
use supercargo_core::model::quantity::Amount;
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::model::volume::StorageObject;
use supercargo_core::queue::QueueConfig;
use supercargo_core::report::Outcome;
use supercargo_core::report::group::{GroupOutcome, GroupReport};
use supercargo_core::scheduler::{Config, Limits, PodLocation, Profile, Scheduler, Step};
use support::{arrival, begin, devices, groups};

/// Limits of a few steps. Of pods without devices, no evaluation is large.
const SMALL: Limits = Limits { large: 400, slice: 400, most: 4_000_000_000 };
/// A device that does not exist.
const MISSING: usize = 99;

/// Selects the device with this number.
#[derive(Debug)]
struct Numbered(usize, String);

impl Expression for Numbered {
    fn text(&self) -> &str {
        &self.1
    }

    fn matches(&self, facts: &Facts) -> Result<bool, Arc<str>> {
        Ok(facts.0.downcast_ref() == Some(&self.0))
    }
}

/// A device that is equal to none with another number.
fn numbered(at: usize) -> Device {
    let size = Amount::parse(&at.to_string()).expect("a number is an amount");
    Device {
        attributes: [("parity".into(), Attribute::Int(at as i64 % 2))].into(),
        capacity: [("size".into(), DeviceCapacity { value: size, policy: None })].into(),
        facts: Facts(Arc::new(at)),
        ..devices::device(&format!("d{at}"))
    }
}

struct Cluster {
    scheduler: Scheduler,
    now: Time,
    /// The devices that claims got, as `claim: device ...`.
    allocated: Vec<String>,
    reports: Vec<(String, Outcome)>,
    groups: Vec<GroupReport>,
    /// The texts of events.
    records: Vec<String>,
    /// The most steps that searches for devices made in one step of the scheduler.
    longest: u64,
}

impl Cluster {
    /// Creates a cluster of a node `a` with devices, no two of which are equal, and a node without.
    fn new(limits: Limits) -> Self {
        let now = Time::from_secs(1_000);
        let profile = Profile { name: "default-scheduler".to_owned(), framework: Framework::default() };
        let config = Config { seed: Seed(1), profiles: vec![profile], queue: QueueConfig::default() };
        let mut scheduler = Scheduler::new(config, now);
        scheduler.limit_attempts(limits);
        begin(&mut scheduler, now, 1_000_000);
        let mut cluster = Self {
            scheduler,
            now,
            allocated: Vec::new(),
            reports: Vec::new(),
            groups: Vec::new(),
            records: Vec::new(),
            longest: 0,
        };
        cluster.apply("node a cpu=64");
        cluster.apply("node b cpu=64");
        let name = cluster.scheduler.tables().symbol("any");
        let implicit = cluster.scheduler.tables().symbol("deviceclass.resource.kubernetes.io/any");
        let class =
            DeviceClass { implicit, explicit: None, created: None, selectors: [].into(), config: [].into() };
        cluster.handle(Event::DeviceClassApplied { name, class: class.into() });
        cluster.set_devices(&[0, 1, 2, 3, 4, 5, 6, 7]);
        cluster
    }

    fn handle(&mut self, event: Event) {
        self.scheduler.handle(self.now, event);
    }

    fn apply(&mut self, line: &str) {
        let event = arrival(self.scheduler.tables(), line);
        self.handle(event);
    }

    /// Publishes the devices of node `a`.
    fn set_devices(&mut self, numbers: &[usize]) {
        self.set_devices_of("a", numbers);
    }

    /// Publishes the devices of a node.
    fn set_devices_of(&mut self, node: &str, numbers: &[usize]) {
        self.publish(node, "gpu.example.com", 1, numbers.iter().map(|&at| numbered(at)).collect());
    }

    /// Publishes a pool of node `a` without a usable device: a slice is missing, or the pool lists a device twice.
    fn set_other_pool(&mut self, is_invalid: bool) {
        let device = Device { facts: Facts(Arc::new(MISSING + 1)), ..devices::device("twice") };
        let slices = if is_invalid { 1 } else { 2 };
        self.publish("a", "other.example.com", slices, vec![device.clone(), device]);
    }

    /// Publishes a slice of a node, of a pool with this number of slices.
    fn publish(&mut self, node: &str, driver: &str, slices: i64, devices: Vec<Device>) {
        let tables = self.scheduler.tables();
        let slice = ResourceSlice {
            name: tables.symbol(&format!("{driver}-{node}")),
            pool: PoolId { driver: driver.into(), name: node.into() },
            generation: 1,
            slices,
            reach: Reach::Node(tables.symbol(node)),
            devices: devices.into(),
            counters: [].into(),
        };
        self.handle(Event::StorageApplied(StorageObject::ResourceSlice(slice.into())));
    }

    /// Adds a pod with a claim for any devices, and after them for one with a number. With `constraint`, all have one
    /// value of the attribute `parity`.
    fn add_pod(&mut self, name: &str, any: usize, last: usize, constraint: bool) {
        self.add(name, "", any, last, constraint);
    }

    /// Adds a group of members, each with a claim as in [`Self::add_pod`]. All of them must start.
    fn add_group(&mut self, members: &[(&str, usize, usize)]) {
        self.add_group_with(&[&format!("min={}", members.len())], members);
    }

    /// Adds a group with these words of the cluster language.
    fn add_group_with(&mut self, words: &[&str], members: &[(&str, usize, usize)]) {
        groups::act(&mut self.scheduler, self.now, "gates", &["GenericWorkload", "GangScheduling"]);
        groups::act(&mut self.scheduler, self.now, "group", &[&["g"], words].concat());
        members
            .iter()
            .for_each(|&(name, any, last)| self.add(name, "group=g created=1000", any, last, false));
    }

    /// Adds a pod with these further words of the cluster language.
    fn add(&mut self, name: &str, words: &str, any: usize, last: usize, constraint: bool) {
        let tables = self.scheduler.tables();
        let class = tables.symbol("any");
        let request = |at: usize| {
            let selects = Arc::new(Numbered(last, last.to_string()));
            let request = DeviceRequest {
                selectors: if at == any { [Some(DeviceSelector(selects))].into() } else { [].into() },
                ..devices::request(&format!("r{at}"), class)
            };
            Request { name: format!("r{at}").into(), kind: RequestKind::Exactly(request) }
        };
        let kind = ConstraintKind::Match("gpu.example.com/parity".into());
        let constraint = constraint.then(|| Constraint { requests: [].into(), kind });
        let spec = ClaimSpec {
            requests: (0..=any).map(request).collect(),
            constraints: constraint.into_iter().collect(),
            config: [].into(),
        };
        let claim = ResourceClaim { spec: spec.into(), ..support::storage::devices_claim(tables, name) };
        self.handle(Event::StorageApplied(StorageObject::ResourceClaim(claim.into())));
        let tables = self.scheduler.tables();
        let Event::PodApplied(mut pod) = arrival(tables, &format!("pod {name} cpu=1 {words}")) else {
            panic!("a pod is applied as one")
        };
        let source = PodClaimSource::Named(tables.symbol(name));
        pod.claims = [PodClaim { name: "c".into(), source }].into();
        self.handle(Event::PodApplied(pod));
    }

    /// Changes the claim of a pod.
    fn change_claim(&mut self, name: &str, change: impl Fn(&mut ClaimSpec)) {
        let tables = self.scheduler.tables();
        let (namespace, symbol) = (tables.symbol("default"), tables.symbol(name));
        let shown = self.scheduler.snapshot().devices().claim(namespace, symbol);
        let mut claim = shown.map(|claim| ResourceClaim::clone(claim)).expect("the pod has a claim");
        change(Arc::make_mut(&mut claim.spec));
        self.handle(Event::StorageApplied(StorageObject::ResourceClaim(claim.into())));
    }

    /// Does one step, and checks that every pending pod is in one place. Returns whether there was work.
    fn step(&mut self) -> bool {
        let before = search_steps();
        let step = self.scheduler.step(self.now, &mut NoProbe);
        self.longest = self.longest.max(search_steps() - before);
        assert_eq!(self.scheduler.misplaced_pods().count(), 0);
        match step {
            Step::Idle { wake_at } => return wake_at.is_some_and(|at| at <= self.now),
            Step::Report(report) => self.reports.push((report.pod.name, report.outcome)),
            Step::Effect(Effect::Bind { pod, .. }) => {
                self.handle(Event::BindFinished { uid: pod.uid, outcome: BindOutcome::Accepted });
            }
            Step::Effect(Effect::WriteVolume(VolumeWrite {
                change: VolumeChange::Reserve { claim, allocation, .. },
                ..
            })) => {
                let devices =
                    allocation.iter().flat_map(|it| &it.results).map(|it| format!(" {}", it.device.device));
                self.allocated.push(format!("{}:{}", claim.name, devices.collect::<String>()));
            }
            Step::Effect(Effect::Extend(call)) => {
                let Question::Filter { nodes } = call.question else { panic!("the extender filters") };
                let answer = FilterAnswer { passed: nodes, failed: Vec::new(), unresolvable: Vec::new() };
                self.handle(Event::Extended { call: call.call, answer: Ok(Answer::Filtered(answer)) });
            }
            Step::Effect(Effect::Record(record)) => self.records.push(record.note),
            Step::GroupReport(report) => self.groups.push(*report),
            Step::Effect(_) | Step::Notice(_) => {}
        }
        true
    }

    fn run(&mut self) {
        while self.step() {}
    }

    /// Makes a change before each step, until the first report.
    fn run_with_changes(&mut self, change: impl Fn(&mut Self, usize)) {
        for at in 0.. {
            assert!(at < 300, "the search is restarted for ever, after {} slices", self.slices());
            change(self, at);
            self.step();
            if !self.reports.is_empty() || !self.groups.is_empty() {
                break;
            }
        }
        assert!(self.slices() > 5, "{} slices", self.slices());
    }

    fn slices(&self) -> u64 {
        self.scheduler.stats().slices
    }

    fn is_searching(&self, uid: &str) -> bool {
        matches!(
            self.scheduler.pending_one(&uid.into()).map(|pending| pending.at),
            Some(PodLocation::Evaluation)
        )
    }
}

#[test]
fn search_in_slices_gets_the_devices_it_gets_in_one_step() {
    for (any, last, constraint, expected) in [
        (4, 0, false, "hard: d1 d2 d3 d4 d0"),
        (3, 5, true, "hard: d1 d3 d7 d5"),
        (7, 0, false, "hard: d1 d2 d3 d4 d5 d6 d7 d0"),
    ] {
        let (mut one_step, mut sliced) = (Cluster::new(Limits::default()), Cluster::new(SMALL));
        for cluster in [&mut one_step, &mut sliced] {
            cluster.add_pod("hard", any, last, constraint);
            cluster.run();
            assert_eq!(cluster.allocated, [expected]);
        }
        assert_eq!(one_step.slices(), 0);
        assert!(sliced.slices() > 1, "{} slices", sliced.slices());
    }
}

#[test]
fn failed_search_in_slices_has_the_message_of_one_in_one_step() {
    let (mut one_step, mut sliced) = (Cluster::new(Limits::default()), Cluster::new(SMALL));
    for cluster in [&mut one_step, &mut sliced] {
        cluster.add_pod("hard", 4, MISSING, false);
        cluster.run();
    }
    assert_eq!(format!("{:?}", sliced.reports), format!("{:?}", one_step.reports));
    assert!(sliced.slices() > 100, "{} slices of 50 steps", sliced.slices());
    assert!(sliced.longest < 150, "{} steps at once", sliced.longest);
}

/// kube-scheduler forgets the value of a request with the last device that it tried. The search must go on with what it
/// has forgotten, not with what follows from its choices.
#[test]
fn search_in_slices_has_the_defect_of_distinct_attributes_as_in_one_step() {
    let (mut one_step, mut sliced) = (Cluster::new(Limits::default()), Cluster::new(SMALL));
    for cluster in [&mut one_step, &mut sliced] {
        cluster.scheduler.tables().set_compat(Compat::Upstream);
        cluster.add_pod("hard", 2, MISSING, false);
        cluster.change_claim("hard", |spec| {
            let RequestKind::Exactly(request) = &mut spec.requests[0].kind else {
                panic!("an exact request")
            };
            request.mode = AllocationMode::ExactCount(3);
            let kind = ConstraintKind::Distinct("gpu.example.com/parity".into());
            spec.constraints = [Constraint { requests: ["r0".into()].into(), kind }].into();
        });
        cluster.run();
    }
    assert_eq!(format!("{:?}", sliced.reports), format!("{:?}", one_step.reports));
    assert!(sliced.slices() > 10, "{} slices", sliced.slices());
}

#[test]
fn other_pods_are_decided_while_devices_are_searched() {
    let mut cluster = Cluster::new(SMALL);
    cluster.add_pod("hard", 4, MISSING, false);
    (0..20).for_each(|at| cluster.apply(&format!("pod small{at} cpu=10m")));
    cluster.run();
    let first = |name: &str| cluster.reports.iter().position(|(of, _)| of == name);
    assert!((0..20).all(|at| first(&format!("small{at}")) < first("hard")), "{:?}", cluster.reports);
}

#[test]
fn new_devices_restart_a_search() {
    let mut cluster = Cluster::new(SMALL);
    cluster.add_pod("hard", 4, 8, false);
    (0..30).for_each(|_| _ = cluster.step());
    assert!(cluster.is_searching("hard"));
    cluster.set_devices(&[8, 0, 1, 2, 3]);
    cluster.run();
    assert_eq!(cluster.allocated, ["hard: d0 d1 d2 d3 d8"]);
}

/// Publishes nine devices, the last of which differs at each step.
fn change_devices(cluster: &mut Cluster, at: usize) {
    cluster.set_devices(&[0, 1, 2, 3, 4, 5, 6, 7, 8 + at]);
}

/// Changes the object of node `a` at each step.
fn change_node(cluster: &mut Cluster, at: usize) {
    cluster.apply(&format!("node a cpu=64 label:changed={at}"));
}

#[test]
fn search_ends_although_devices_or_their_node_change_all_the_time() {
    for change in [change_devices, change_node] {
        let mut cluster = Cluster::new(SMALL);
        cluster.add_pod("hard", 5, MISSING, false);
        cluster.run_with_changes(change);
    }
}

#[test]
fn searches_that_changes_restart_too_often_fail_the_attempt() {
    for is_group in [false, true] {
        let mut cluster = Cluster::new(Limits { large: 160, slice: 80, ..SMALL });
        if is_group {
            cluster.add_group(&[("hard", 6, MISSING)]);
        } else {
            cluster.add_pod("hard", 6, MISSING, false);
        }
        cluster.run_with_changes(change_devices);
        cluster.run();
        let message =
            "running \"DynamicResources\" filter plugin: node a: too many steps trying to allocate devices";
        let expected = [("hard".to_owned(), Outcome::Error { message: message.to_owned() })];
        assert_eq!(cluster.reports, expected);
        assert!(cluster.slices() < 30, "{} slices", cluster.slices());
        // What one attempt lost does not count against the next one.
        cluster.now = cluster.now + Duration::from_secs(60);
        cluster.reports.clear();
        cluster.step();
        change_devices(&mut cluster, 0);
        cluster.run();
        let outcomes: Vec<_> = cluster.reports.iter().map(|(_, outcome)| outcome).collect();
        assert!(matches!(&outcomes[..], [Outcome::Unschedulable { .. }]), "{outcomes:?}");
    }
}

#[test]
fn pod_in_a_search_is_forgotten_once_it_is_deleted() {
    let mut cluster = Cluster::new(SMALL);
    cluster.add_pod("hard", 4, MISSING, false);
    (0..5).for_each(|_| _ = cluster.step());
    assert!(cluster.is_searching("hard"));
    cluster.handle(Event::Gone(ObjectKey::Pod("hard".into())));
    assert_eq!(cluster.scheduler.stats().sliced, 0);
    cluster.run();
    assert!(cluster.reports.is_empty(), "{:?}", cluster.reports);
}

#[test]
fn search_of_a_pod_with_extenders_goes_on_in_slices() {
    let mut cluster = Cluster::new(SMALL);
    let extender = support::extenders::extender(cluster.scheduler.tables(), 0, &["http://one", "filter"]);
    cluster.scheduler.set_extenders(vec![extender]);
    cluster.add_pod("hard", 7, 0, false);
    cluster.run();
    assert_eq!(cluster.allocated, ["hard: d1 d2 d3 d4 d5 d6 d7 d0"]);
    assert!(cluster.slices() > 1, "{} slices", cluster.slices());
}

/// Members that together need all eight devices. The third takes its devices after a long search.
const GANG: [(&str, usize, usize); 3] = [("first", 0, 6), ("second", 0, 7), ("third", 5, 0)];

#[test]
fn search_of_a_member_gets_the_devices_in_slices_that_it_gets_in_one_step() {
    let (mut one_step, mut sliced) = (Cluster::new(Limits::default()), Cluster::new(SMALL));
    for cluster in [&mut one_step, &mut sliced] {
        cluster.add_group(&GANG);
        cluster.run();
        assert_eq!(cluster.allocated, ["first: d6", "second: d7", "third: d1 d2 d3 d4 d5 d0"]);
        assert_eq!(cluster.groups.len(), 1);
    }
    assert_eq!(one_step.slices(), 0);
    assert!((3..200).contains(&sliced.slices()), "{} slices", sliced.slices());
    assert!(sliced.longest < 600, "{} steps at once", sliced.longest);
    assert_eq!(groups::describe_report(&sliced.groups[0]), groups::describe_report(&one_step.groups[0]));
}

#[test]
fn group_whose_member_cannot_get_devices_is_rejected_in_slices_as_in_one_step() {
    let (mut one_step, mut sliced) = (Cluster::new(Limits::default()), Cluster::new(SMALL));
    for cluster in [&mut one_step, &mut sliced] {
        cluster.add_group(&[("first", 0, 7), ("second", 4, MISSING), ("third", 4, MISSING)]);
        cluster.run();
        assert!(cluster.allocated.is_empty());
    }
    assert_eq!(groups::describe_report(&sliced.groups[0]), groups::describe_report(&one_step.groups[0]));
    assert_eq!(sliced.groups[0].outcome, GroupOutcome::Unschedulable);
    assert!(sliced.slices() > 20, "{} slices", sliced.slices());
    assert!(sliced.longest < 600, "{} steps at once", sliced.longest);
}

#[test]
fn other_pods_are_decided_while_devices_of_a_member_are_searched() {
    let mut cluster = Cluster::new(SMALL);
    cluster.add_group(&[("first", 0, 7), ("second", 4, MISSING)]);
    (0..20).for_each(|at| cluster.apply(&format!("pod small{at} cpu=10m")));
    cluster.run();
    let first = |name: &str| cluster.reports.iter().position(|(of, _)| of == name);
    assert!((0..20).all(|at| first(&format!("small{at}")) < first("second")), "{:?}", cluster.reports);
}

#[test]
fn new_member_joins_a_group_whose_search_goes_on() {
    let mut cluster = Cluster::new(SMALL);
    cluster.add_group(&GANG);
    (0..4).for_each(|_| _ = cluster.step());
    assert!(["first", "second", "third"].iter().all(|name| cluster.is_searching(name)));
    cluster.apply("pod fourth cpu=1 group=g");
    cluster.run();
    assert_eq!(cluster.groups.len(), 1);
    assert_eq!(cluster.groups[0].members.len(), 4);
    assert_eq!(cluster.allocated.len(), 3);
}

#[test]
fn group_is_decided_without_a_member_that_was_deleted_in_its_search() {
    let mut cluster = Cluster::new(SMALL);
    cluster.add_group(&[("first", 4, MISSING), ("second", 0, 7)]);
    (0..4).for_each(|_| _ = cluster.step());
    assert!(cluster.is_searching("first") && cluster.is_searching("second"));
    cluster.handle(Event::Gone(ObjectKey::Pod("first".into())));
    cluster.run();
    assert_eq!(cluster.scheduler.stats().sliced, 0);
    assert!(cluster.allocated.is_empty() && !cluster.is_searching("second"));
    cluster.add("third", "group=g created=1001", 0, 6, false);
    cluster.run();
    assert_eq!(cluster.allocated, ["second: d7", "third: d6"]);
}

#[test]
fn search_of_a_member_ends_although_devices_or_their_node_change_all_the_time() {
    for change in [change_devices, change_node] {
        let mut cluster = Cluster::new(SMALL);
        cluster.add_group(&[("first", 5, MISSING)]);
        cluster.run_with_changes(change);
    }
}

#[test]
fn pool_that_becomes_invalid_between_slices_is_invalid_for_the_whole_cycle() {
    let members = [("first", 3, MISSING), ("second", 4, MISSING)];
    let mut whole = Cluster::new(Limits::default());
    whole.set_other_pool(true);
    whole.add_group(&members);
    whole.run();
    let expected = groups::describe_report(&whole.groups[0]);
    assert!(expected.contains("invalid resource pools"), "{expected}");
    let mut changes = 0;
    for steps in (1..).step_by(40) {
        let mut sliced = Cluster::new(SMALL);
        sliced.set_other_pool(false);
        sliced.add_group(&members);
        (0..steps).for_each(|_| _ = sliced.step());
        if !sliced.groups.is_empty() {
            break;
        }
        changes += 1;
        sliced.set_other_pool(true);
        sliced.run();
        assert_eq!(groups::describe_report(&sliced.groups[0]), expected, "after {steps} steps");
    }
    assert!(changes > 8, "{changes} changes");
}

#[test]
fn devices_that_change_between_slices_are_those_that_a_member_gets() {
    let (before, after) = ([0, 1, 2, 3, 4, 5, 6, 7], [8, 1, 2, 3, 4, 5, 6, 7]);
    // The device that `first` has found goes, and one that it needs arrives.
    for (last, result) in [(0, None), (8, Some("first: d1 d2 d3 d8"))] {
        let mut changes = 0;
        for steps in (1..).step_by(4) {
            let mut cluster = Cluster::new(SMALL);
            cluster.set_devices(&before);
            cluster.add_group_with(&["min=1"], &[("first", 3, last), ("second", 3, MISSING)]);
            (0..steps).for_each(|_| _ = cluster.step());
            if !cluster.groups.is_empty() {
                break;
            }
            changes += 1;
            cluster.set_devices(&after);
            cluster.run();
            assert_eq!(cluster.allocated.first().map(String::as_str), result, "after {steps} steps");
        }
        assert!(changes > 2, "{changes} changes");
    }
}

#[test]
fn comparison_that_a_slice_ends_is_no_difference() {
    let mut cluster = Cluster::new(SMALL);
    cluster.scheduler.verify_decisions(NonZeroU32::new(1));
    cluster.apply("node c cpu=64");
    cluster.set_devices_of("c", &[0, 11, 12, 13, 14, 15, 16, 17]);
    cluster.add_group(&[("first", 4, 0)]);
    cluster.run();
    assert_eq!(cluster.allocated.len(), 1);
    let stats = cluster.scheduler.stats();
    assert!(stats.slices > 5, "{} slices", stats.slices);
    assert_eq!(stats.verified[1], 0);
    assert!(stats.verification.is_trusting);
}

#[test]
fn slice_ends_although_none_of_its_searches_needs_another() {
    // Each of the searches is longer than a short one, and makes fewer steps than a slice may make.
    let mut cluster = Cluster::new(Limits { large: 40_960, ..SMALL });
    for at in 0..200 {
        cluster.apply(&format!("node n{at} cpu=64"));
        cluster.set_devices_of(&format!("n{at}"), &[100 + at, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    }
    cluster.add_group(&[("first", 1, MISSING)]);
    cluster.run();
    assert_eq!(cluster.groups[0].outcome, GroupOutcome::Unschedulable);
    assert!(cluster.slices() > 2, "{} slices", cluster.slices());
    assert!(cluster.longest < 20_000, "{} steps at once", cluster.longest);
}

#[test]
fn group_that_is_given_up_in_its_search_keeps_no_node() {
    let mut cluster = Cluster::new(SMALL);
    let words = ["min=2", "reserve=true", "start-within=60s"];
    cluster.add_group_with(&words, &[("first", 4, 0), ("second", 3, MISSING)]);
    cluster.run();
    assert_eq!(cluster.groups.len(), 1);
    assert_eq!(cluster.scheduler.snapshot().nodes_with_nominations().len(), 1);
    cluster.now = Time::from_secs(1_030);
    cluster.apply("node d cpu=64");
    cluster.set_devices_of("d", &[20, 21, 22, 23, 24, 25, 26, 27]);
    (0..5).for_each(|_| _ = cluster.step());
    assert!(cluster.is_searching("first") && cluster.is_searching("second"));
    cluster.now = Time::from_secs(1_070);
    cluster.run();
    assert!(!cluster.is_searching("first") && !cluster.is_searching("second"));
    assert!(cluster.scheduler.snapshot().nodes_with_nominations().is_empty());
    let given_up = cluster.records.iter().filter(|text| text.contains("did not start within 60 s"));
    assert_eq!(given_up.count(), 2, "{:?}", cluster.records);
}

#[test]
fn search_of_a_member_goes_on_although_another_member_changes_all_the_time() {
    let mut cluster = Cluster::new(SMALL);
    cluster.add_group(&[("first", 0, 7), ("second", 4, MISSING)]);
    cluster.run_with_changes(|cluster, at| {
        if at % 3 == 0 {
            cluster.add("first", &format!("group=g label:changed={at}"), 0, 7, false);
        }
    });
}
