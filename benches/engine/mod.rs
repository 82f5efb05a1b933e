//! The engine with a cluster in it, fed as the watches would feed it, and timed: no network, one thread.
//!
//! Objects come in through the types and conversions that production uses, outside the time that is taken. What the API server
//! and other controllers would answer is answered at once.
#![allow(dead_code, unused_imports, reason = "every target that includes this tree uses its own part of it")]

mod clock;
mod course;

pub(crate) use clock::{Longest, Taken};
pub(crate) use course::{Measured, measure, measure_on};

use crate::workloads::{self, Size, Workload};
use clock::{Call, Stopwatch, cpu_time, thread_time};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use supercargo::api::Object;
use supercargo::convert::Watched;
use supercargo_core::cycle::Framework;
use supercargo_core::effect::{Effect, Lane, VolumeChange};
use supercargo_core::event::{BindOutcome, Event, EvictOutcome, Kind, ObjectKey, WriteOutcome};
use supercargo_core::intern::Tables;
use supercargo_core::pod::{PodInfo, Uid};
use supercargo_core::queue::QueueConfig;
use supercargo_core::report::{Outcome, Report};
use supercargo_core::rng::Seed;
use supercargo_core::scheduler::{Config, Profile, Scheduler, Step};
use supercargo_core::time::Time;

/// The event that an object is as it is now.
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
        other => panic!("no workload has {other:?}"),
    };
    event.expect("the objects of workloads are well formed")
}

/// The event that an object is gone.
fn gone(tables: &mut Tables, object: Value) -> Event {
    match Object::from_value(object).unwrap_or_else(|other| panic!("{other}")) {
        Object::Pod(object) => Event::Gone(object.key(tables)),
        Object::Node(object) => Event::Gone(object.key(tables)),
        other => panic!("no workload lets {other:?} go"),
    }
}

/// How a large pod fared among small ones.
#[derive(Default)]
pub(crate) struct Course {
    /// Of one step.
    pub(crate) longest: Duration,
    /// Of one event.
    pub(crate) taken_in: Duration,
    pub(crate) steps: usize,
    pub(crate) in_all: Duration,
    /// How many other pods were placed before the large one was decided about.
    pub(crate) before: usize,
    /// What became of the large one.
    pub(crate) outcome: String,
}

impl Course {
    fn note(&mut self, report: &Report) {
        if report.pod.name != "large" {
            self.before += usize::from(self.outcome.is_empty());
        } else if self.outcome.is_empty() {
            self.outcome = format!("{:?}", report.outcome).chars().take(160).collect();
        }
    }
}

/// The engine, and what it has done so far.
pub(crate) struct Engine {
    scheduler: Scheduler,
    now: Time,
    /// The pods whose binding is awaited, so that the watch can show them bound.
    pods: HashMap<Uid, PodInfo>,
    stopwatch: Stopwatch,
    /// How long each pod waited from its arrival until it was decided about.
    waits: Vec<Duration>,
    taken: Taken,
    longest: Longest,
    /// Steps since ids were given back.
    steps: usize,
    placed: usize,
    digest: u64,
}

impl Engine {
    /// An engine that has seen no list yet.
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

    /// An engine that knows the workload's cluster.
    pub(crate) fn furnished(workload: &Workload, size: Size) -> Self {
        let mut engine = Self::new();
        workload.cluster(size).for_each(|object| engine.feed(object));
        engine.end_lists();
        engine
    }

    /// Takes an object in and does nothing about it yet; a pod that comes so is not shown bound.
    pub(crate) fn feed(&mut self, object: Value) {
        let event = applied(self.scheduler.tables(), object);
        self.scheduler.handle(self.now, event);
    }

    pub(crate) fn end_lists(&mut self) {
        for kind in Kind::ALL {
            self.scheduler.handle(self.now, Event::ListEnded(kind));
        }
    }

    /// The event that an object is as it is now; a pod without a node is remembered.
    pub(crate) fn event(&mut self, object: Value) -> Event {
        let event = applied(self.scheduler.tables(), object);
        if let Event::PodApplied(pod) = &event
            && pod.node_name.is_none()
        {
            self.pods.insert(Arc::clone(&pod.uid), (**pod).clone());
        }
        event
    }

    /// Lets things happen, works until there is nothing more to do, and answers, all of it timed; making the answers is not.
    pub(crate) fn run(&mut self, mut events: Vec<Event>) {
        let mut answers_wait = true;
        while answers_wait {
            let asked = self.timed(events);
            answers_wait = !asked.is_empty();
            events = asked.into_iter().flat_map(|effect| self.answers(effect)).collect();
        }
        // As often as the driver does, where nobody outside holds ids.
        if self.pods.is_empty() {
            let (began, cpu_began) = (Instant::now(), cpu_time());
            for _ in 0..std::mem::take(&mut self.steps) {
                self.longest.time(Call::Tidy, || self.scheduler.tidy());
            }
            self.taken.add(began.elapsed(), cpu_time().saturating_sub(cpu_began), Duration::ZERO);
        }
    }

    /// One round of it; what the API server is asked.
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
                Step::Notice(notice) => panic!("{}: {}", notice.object, notice.text),
                Step::Idle { .. } => break,
            }
        }
        let (wall, cpu) = (began.elapsed(), cpu_time().saturating_sub(cpu_began));
        self.taken.add(wall, cpu, self.stopwatch.take_decided());
        asked
    }

    fn note(&mut self, report: &Report, began: Instant) {
        let told = match &report.outcome {
            Outcome::Placed { node, .. } => {
                self.placed += 1;
                self.waits.push(began.elapsed());
                node
            }
            Outcome::Unschedulable { message, .. } | Outcome::Error { message } => message,
            _ => return,
        };
        for byte in report.pod.name.bytes().chain(told.bytes()) {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Takes the events in and works until there is nothing more to do; what came of the first report that names `large`.
    pub(crate) fn course(&mut self, events: Vec<Event>) -> Course {
        let mut course = Course::default();
        for event in events {
            let began = thread_time();
            self.scheduler.handle(self.now, event);
            course.taken_in = course.taken_in.max(thread_time().saturating_sub(began));
        }
        loop {
            let began = thread_time();
            let step = self.scheduler.step(self.now, &mut self.stopwatch);
            let took = thread_time().saturating_sub(began);
            course.longest = course.longest.max(took);
            course.in_all += took;
            course.steps += 1;
            match step {
                Step::Report(report) => course.note(&report),
                Step::Effect(effect) => {
                    for event in self.answers(effect) {
                        self.scheduler.handle(self.now, event);
                    }
                }
                Step::Notice(notice) => panic!("{}: {}", notice.object, notice.text),
                // Between two slices events are handled.
                Step::Idle { wake_at: Some(at) } if at <= self.now => {}
                Step::Idle { .. } => return course,
            }
        }
    }

    /// What the API server and the controllers answer to a request.
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
                let VolumeChange::SelectNode { name, .. } = write.change else {
                    panic!("no workload has volumes that wait for a claim")
                };
                let (uid, outcome) = (write.pod.uid, WriteOutcome::Done);
                let mut answers = vec![Event::VolumeWritten { uid, write: write.write, outcome }];
                let made = workloads::provisioned(&name);
                answers.extend(made.into_iter().map(|object| applied(self.scheduler.tables(), object)));
                answers
            }
            Effect::Settle { .. } | Effect::Patch(_) | Effect::Record(_) => Vec::new(),
            Effect::BindBy { .. } | Effect::Extend(_) => panic!("no workload has extenders"),
        }
    }

    /// Lets time pass until something is due.
    fn wait(&mut self) -> bool {
        let Step::Idle { wake_at: Some(at) } = self.scheduler.step(self.now, &mut self.stopwatch) else {
            return false;
        };
        self.now = at.max(self.now);
        true
    }

    /// Gives back all ids that nobody holds.
    pub(crate) fn give_back_ids(&mut self) {
        self.pods.clear();
        self.scheduler.give_back_ids();
    }

    /// Builds with assertions compare each remembered decision with a plain one; from here on this one does not.
    #[allow(dead_code, reason = "not everyone who times or counts needs it")]
    pub(crate) fn verify_nothing(&mut self) {
        self.scheduler.verify_decisions(None);
    }

    /// From here on it is noted when decisions begin.
    pub(crate) fn note_spans(&mut self) {
        self.stopwatch.begins = Some(Vec::new());
    }

    /// From here on nothing remembered is used.
    pub(crate) fn decide_afresh(&mut self) {
        self.scheduler.decide_afresh();
    }

    /// How many pods have been given a node, and what was decided about whom, as one number.
    pub(crate) fn decided(&self) -> (usize, u64) {
        (self.placed, self.digest)
    }
}
