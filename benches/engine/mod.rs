//! Runs the engine on a cluster with events as from watches, and times it: no network, one thread.
//!
//! Objects pass through the same types and conversions as in production, outside the measured time. Requests to
//! the API server and other controllers are answered at once.
#![allow(dead_code, unused_imports, reason = "every target that includes this tree uses its own part of it")]

mod clock;
mod measure;

pub(crate) use clock::{Longest, Taken};
pub(crate) use measure::{Measured, measure, measure_on};

use crate::workloads::{self, Size, Workload};
use clock::{Call, Stopwatch, cpu_time, thread_time};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use supercargo_core::cycle::Framework;
use supercargo_core::model::device::ResourceClaim;
use supercargo_core::model::effect::{Effect, Lane, VolumeChange, VolumeWrite};
use supercargo_core::model::event::{BindOutcome, Event, EvictOutcome, Kind, ObjectKey, WriteOutcome};
use supercargo_core::model::intern::Tables;
use supercargo_core::model::pod::{PodInfo, Uid};
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::model::volume::StorageObject;
use supercargo_core::queue::QueueConfig;
use supercargo_core::report::{Outcome, Report};
use supercargo_core::scheduler::{Config, Profile, Scheduler, Step};
use supercargo_objects::api::Object;
use supercargo_objects::convert::Watched;

/// Returns the event with an object's current state.
pub(crate) fn applied(tables: &mut Tables, object: Value) -> Event {
    let object = Object::from_value(object).unwrap_or_else(|other| panic!("{other}"));
    let event = match &object {
        Object::Pod(object) => object.applied(tables),
        Object::Node(object) => object.applied(tables),
        Object::Namespace(object) => object.applied(tables),
        Object::Service(object) => object.applied(tables),
        Object::StorageClass(object) => object.applied(tables),
        Object::CsiNode(object) => object.applied(tables),
        Object::PersistentVolume(object) => object.applied(tables),
        Object::PersistentVolumeClaim(object) => object.applied(tables),
        Object::DeviceClass(object) => object.applied(tables),
        Object::ResourceSlice(object) => object.applied(tables),
        Object::ResourceClaim(object) => object.applied(tables),
        other => panic!("no workload has {other:?}"),
    };
    event.expect("the objects of workloads are well formed")
}

/// Returns the event that an object was deleted.
fn gone(tables: &mut Tables, object: Value) -> Event {
    match Object::from_value(object).unwrap_or_else(|other| panic!("{other}")) {
        Object::Pod(object) => Event::Gone(object.key(tables)),
        Object::Node(object) => Event::Gone(object.key(tables)),
        other => panic!("no workload lets {other:?} go"),
    }
}

/// The evaluation of a large pod among small ones.
#[derive(Default)]
pub(crate) struct LargePodRun {
    /// The longest CPU time of a step.
    pub(crate) longest: Duration,
    /// The longest CPU time of an event.
    pub(crate) taken_in: Duration,
    pub(crate) steps: usize,
    pub(crate) in_all: Duration,
    /// The number of other pods decided before the large one.
    pub(crate) before: usize,
    /// The large pod's outcome.
    pub(crate) outcome: String,
}

impl LargePodRun {
    fn note(&mut self, report: &Report) {
        if report.pod.name != "large" {
            self.before += usize::from(self.outcome.is_empty());
        } else if self.outcome.is_empty() {
            self.outcome = format!("{:?}", report.outcome).chars().take(160).collect();
        }
    }
}

/// An engine and its measurements so far.
pub(crate) struct Engine {
    scheduler: Scheduler,
    now: Time,
    /// Pods without a confirmed binding, so that the watch can report them bound.
    pods: HashMap<Uid, PodInfo>,
    stopwatch: Stopwatch,
    /// The time of each pod from its arrival to its decision.
    waits: Vec<Duration>,
    taken: Taken,
    longest: Longest,
    /// The number of steps since the last garbage collection.
    steps: usize,
    placed: usize,
    digest: u64,
}

impl Engine {
    /// Creates an engine whose lists have begun but not ended.
    pub(crate) fn new() -> Self {
        let now = Time::from_secs(1_000_000);
        let profile = Profile { name: "default-scheduler".to_owned(), framework: Framework::default() };
        let config = Config { seed: Seed(1), profiles: vec![profile], queue: QueueConfig::default() };
        let mut scheduler = Scheduler::new(config, now);
        for lane in Lane::ALL {
            scheduler.handle(now, Event::Credits { lane, count: usize::MAX / 2 });
        }
        for kind in Kind::ALL {
            scheduler.handle(now, Event::ListBegan(kind));
        }
        Self {
            scheduler,
            now,
            pods: HashMap::new(),
            stopwatch: Stopwatch::default(),
            waits: Vec::new(),
            taken: Taken::default(),
            longest: Longest::default(),
            steps: 0,
            placed: 0,
            digest: 0xcbf2_9ce4_8422_2325,
        }
    }

    /// Creates an engine with the workload's cluster.
    pub(crate) fn with_cluster(workload: &Workload, size: Size) -> Self {
        let mut engine = Self::new();
        workload.cluster(size).for_each(|object| engine.feed(object));
        engine.end_lists();
        engine
    }

    /// Adds an object without running the engine. A pod added this way gets no confirmation of its binding.
    pub(crate) fn feed(&mut self, object: Value) {
        let event = applied(self.scheduler.tables(), object);
        self.scheduler.handle(self.now, event);
    }

    pub(crate) fn end_lists(&mut self) {
        for kind in Kind::ALL {
            self.scheduler.handle(self.now, Event::ListEnded(kind));
        }
    }

    /// Returns the event with an object's current state, and keeps a pod without a node for its confirmation.
    pub(crate) fn event(&mut self, object: Value) -> Event {
        let event = applied(self.scheduler.tables(), object);
        if let Event::PodApplied(pod) = &event
            && pod.node_name.is_none()
        {
            self.pods.insert(Arc::clone(&pod.uid), (**pod).clone());
        }
        event
    }

    /// Handles events until the engine is idle, with answers to its effects. All of it is timed except for the
    /// creation of the answers.
    pub(crate) fn run(&mut self, mut events: Vec<Event>) {
        let mut answers_wait = true;
        while answers_wait {
            let asked = self.timed(events);
            answers_wait = !asked.is_empty();
            events = asked.into_iter().flat_map(|effect| self.answers(effect)).collect();
        }
        // As often as the driver runs it. The ids of kept pods are not gc roots, so there must be none.
        if self.pods.is_empty() {
            let (began, cpu_began) = (Instant::now(), cpu_time());
            for _ in 0..std::mem::take(&mut self.steps) {
                self.longest.time(Call::Tidy, || self.scheduler.collect_ids());
            }
            self.taken.add(began.elapsed(), cpu_time().saturating_sub(cpu_began), Duration::ZERO);
        }
    }

    /// Handles the events until the engine is idle, timed, and returns the effects.
    pub(crate) fn timed(&mut self, events: Vec<Event>) -> Vec<Effect> {
        let (began, cpu_began) = (Instant::now(), cpu_time());
        for event in events {
            self.now = self.now + Duration::from_micros(1);
            self.longest.time(Call::Handle, || self.scheduler.handle(self.now, event));
        }
        let mut asked = Vec::new();
        loop {
            self.steps += 1;
            let Self { scheduler, longest, stopwatch, now, .. } = self;
            match longest.time(Call::Step, || scheduler.step(*now, stopwatch)) {
                Step::Report(report) => self.note(&report, began),
                Step::Effect(effect) => asked.push(effect),
                Step::GroupReport(_) => {}
                Step::Notice(notice) => panic!("{}: {}", notice.object, notice.text),
                Step::Idle { .. } => break,
            }
        }
        let (wall, cpu) = (began.elapsed(), cpu_time().saturating_sub(cpu_began));
        self.taken.add(wall, cpu, self.stopwatch.take_decided());
        asked
    }

    fn note(&mut self, report: &Report, began: Instant) {
        let text = match &report.outcome {
            Outcome::Placed { node, .. } => {
                self.placed += 1;
                self.waits.push(began.elapsed());
                node
            }
            Outcome::Unschedulable { message, .. } | Outcome::Error { message } => message,
            _ => return,
        };
        for byte in report.pod.name.bytes().chain(text.bytes()) {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Handles the events until the engine is idle, and returns the evaluation of the pod named `large`.
    pub(crate) fn evaluate_large(&mut self, events: Vec<Event>) -> LargePodRun {
        let mut evaluate_large = LargePodRun::default();
        for event in events {
            let began = thread_time();
            self.scheduler.handle(self.now, event);
            evaluate_large.taken_in = evaluate_large.taken_in.max(thread_time().saturating_sub(began));
        }
        loop {
            let began = thread_time();
            let step = self.scheduler.step(self.now, &mut self.stopwatch);
            let took = thread_time().saturating_sub(began);
            evaluate_large.longest = evaluate_large.longest.max(took);
            evaluate_large.in_all += took;
            evaluate_large.steps += 1;
            match step {
                Step::Report(report) => evaluate_large.note(&report),
                Step::Effect(effect) => {
                    for event in self.answers(effect) {
                        self.scheduler.handle(self.now, event);
                    }
                }
                Step::GroupReport(_) => {}
                Step::Notice(notice) => panic!("{}: {}", notice.object, notice.text),
                // Between two slices, events are handled.
                Step::Idle { wake_at: Some(at) } if at <= self.now => {}
                Step::Idle { .. } => return evaluate_large,
            }
        }
    }

    /// Returns the answers of the API server and the controllers to an effect.
    pub(crate) fn answers(&mut self, effect: Effect) -> Vec<Event> {
        match effect {
            Effect::Bind { pod, node } => {
                let mut bound = self.pods.remove(&pod.uid).expect("a pod is bound once");
                bound.node_name = Some(self.scheduler.tables().symbol(&node));
                let answer = Event::BindFinished { uid: pod.uid, outcome: BindOutcome::Accepted };
                vec![answer, Event::PodApplied(Box::new(bound))]
            }
            Effect::Evict(eviction) => {
                let uid = eviction.pod.uid;
                let answer = Event::EvictFinished { uid: Arc::clone(&uid), outcome: EvictOutcome::Deleted };
                vec![answer, Event::Gone(ObjectKey::Pod(uid))]
            }
            Effect::WriteVolume(write) => {
                let mut answers = vec![Event::VolumeWritten {
                    uid: Arc::clone(&write.pod.uid),
                    write: write.write,
                    outcome: WriteOutcome::Done,
                }];
                answers.extend(self.shown(&write));
                answers
            }
            Effect::QueryBinding { .. } | Effect::Patch(_) | Effect::Record(_) => Vec::new(),
            Effect::PatchGroup(_) => panic!("no workload has groups"),
            Effect::BindBy { .. } | Effect::Extend(_) => panic!("no workload has extenders"),
        }
    }

    /// Returns what the watches show after a write.
    fn shown(&mut self, write: &VolumeWrite) -> Vec<Event> {
        match &write.change {
            VolumeChange::SelectNode { name, .. } => {
                let made = workloads::provisioned(name).into_iter();
                made.map(|object| applied(self.scheduler.tables(), object)).collect()
            }
            VolumeChange::Reserve { claim, allocation, .. } => {
                let tables = self.scheduler.tables();
                let (namespace, name) = (tables.symbol(&claim.namespace), tables.symbol(&claim.name));
                let claim = self.scheduler.snapshot().devices().claim(namespace, name);
                let mut claim = ResourceClaim::clone(claim.expect("the claim exists"));
                claim.resource_version = "2".into();
                claim.is_protected = true;
                claim.reserved_for = [Arc::clone(&write.pod.uid)].into();
                claim.allocation = allocation.clone();
                vec![Event::StorageApplied(StorageObject::ResourceClaim(claim.into()))]
            }
            VolumeChange::Create { namespace, requests, allocation, .. } => {
                let pod = &write.pod;
                let requests: Vec<Value> = requests.iter().map(|(name, class, count)| {
                    json!({"name": name, "exactly": {"deviceClassName": class, "count": count}})
                }).collect();
                let name = format!("{}-extended", pod.name);
                let object = json!({
                    "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
                    "metadata": {
                        "name": name, "namespace": namespace, "uid": name, "resourceVersion": "1",
                        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
                        "ownerReferences": [{
                            "apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": &*pod.uid, "controller": true,
                        }],
                    },
                    "spec": {"devices": {"requests": requests}},
                });
                let event = applied(self.scheduler.tables(), object);
                let Event::StorageApplied(StorageObject::ResourceClaim(claim)) = event else {
                    panic!("the object is a claim")
                };
                let mut claim = ResourceClaim::clone(&claim);
                claim.is_protected = true;
                claim.reserved_for = [Arc::clone(&pod.uid)].into();
                claim.allocation = Some(Arc::clone(allocation));
                vec![Event::StorageApplied(StorageObject::ResourceClaim(claim.into()))]
            }
            other => panic!("no workload needs {other:?}"),
        }
    }

    /// Advances the clock to the next due time.
    fn wait(&mut self) -> bool {
        let Step::Idle { wake_at: Some(at) } = self.scheduler.step(self.now, &mut self.stopwatch) else {
            return false;
        };
        self.now = at.max(self.now);
        true
    }

    /// Runs a complete garbage collection.
    pub(crate) fn collect_all_ids(&mut self) {
        self.pods.clear();
        self.scheduler.collect_all_ids();
    }

    /// Disables the verification of cached decisions, which builds with assertions enable.
    #[allow(dead_code, reason = "not everyone who times or counts needs it")]
    pub(crate) fn verify_nothing(&mut self) {
        self.scheduler.verify_decisions(None);
    }

    /// Starts recording the start times of decisions.
    pub(crate) fn note_spans(&mut self) {
        self.stopwatch.begins = Some(Vec::new());
    }

    /// Disables the cache: every decision becomes a full evaluation.
    pub(crate) fn disable_cache(&mut self) {
        self.scheduler.decide_afresh();
    }

    /// Returns the number of placed pods and a hash of all decisions.
    pub(crate) fn decided(&self) -> (usize, u64) {
        (self.placed, self.digest)
    }
}
