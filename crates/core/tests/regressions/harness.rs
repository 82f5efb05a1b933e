//! A test engine: lines of the cluster language as input, short sentences as output.

use crate::support::{begin, language};
use std::sync::Arc;
use supercargo_core::cycle::{Framework, NoProbe};
use supercargo_core::model::effect::{Effect, Lane};
use supercargo_core::model::event::{BindOutcome, BindingState, Event, Kind, ObjectKey};
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::queue::{QueueConfig, SubQueue};
use supercargo_core::report::Outcome;
use supercargo_core::scheduler::{Config, Profile, Scheduler, Step};
use supercargo_core::switches::mutation::Mutation;

/// Checks that the scenario passes and, with the feature `mutations`, that it fails with the deliberate mistake.
pub(crate) fn check_scenario(mutation: Option<Mutation>, scenario: fn(&mut Harness)) {
    scenario(&mut Harness::new());
    #[cfg(feature = "mutations")]
    if let Some(mutation) = mutation {
        let mistaken = std::panic::catch_unwind(|| {
            supercargo_core::switches::mutation::with(Some(mutation), || scenario(&mut Harness::new()));
        });
        assert!(mistaken.is_err(), "{mutation:?} is not detected");
    }
    #[cfg(not(feature = "mutations"))]
    let _ = mutation;
}

pub(crate) struct Harness {
    pub(crate) scheduler: Scheduler,
    now: Time,
    output: Vec<String>,
}

impl Harness {
    /// Creates an empty cluster with complete lists and enough credits.
    fn new() -> Self {
        let now = Time::from_nanos(100_200_000_000);
        let profile = Profile { name: "default-scheduler".to_owned(), framework: Framework::default() };
        let config = Config { seed: Seed(1), profiles: vec![profile], queue: QueueConfig::default() };
        let mut harness = Self { scheduler: Scheduler::new(config, now), now, output: Vec::new() };
        begin(&mut harness.scheduler, now, 1_000);
        harness
    }

    /// Creates an empty cluster with complete lists and no credits in any lane.
    pub(crate) fn without_credit_for_bindings() -> Self {
        let mut harness = Self::new();
        let profile = Profile { name: "default-scheduler".to_owned(), framework: Framework::default() };
        let config = Config { seed: Seed(1), profiles: vec![profile], queue: QueueConfig::default() };
        harness.scheduler = Scheduler::new(config, harness.now);
        for kind in Kind::ALL {
            harness.handle(Event::ListBegan(kind));
            harness.handle(Event::ListEnded(kind));
        }
        harness
    }

    /// Passes an event to the engine without running it.
    pub(crate) fn handle(&mut self, event: Event) {
        self.scheduler.handle(self.now, event);
    }

    /// Handles lines of the cluster language that describe nodes, pods and budgets, and `gone KIND NAME`,
    /// `accepted POD`, `refused POD`, `unknown POD`, `found POD unbound|gone|no-answer|NODE`, `list KIND`,
    /// `listed KIND`, `credit LANE COUNT`. The engine runs after each line.
    pub(crate) fn act(&mut self, lines: &str) -> Vec<String> {
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let event = self.event(line);
            self.handle(event);
            self.run();
        }
        std::mem::take(&mut self.output)
    }

    fn event(&mut self, line: &str) -> Event {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (verb, rest) = words.split_first().expect("a line has a command");
        let answer = |outcome| Event::BindFinished { uid: rest[0].into(), outcome };
        match *verb {
            "node" => {
                let node = language::node(self.scheduler.tables(), rest);
                Event::NodeApplied(Box::new(Arc::unwrap_or_clone(node)))
            }
            "pod" => {
                let pod = language::pod(self.scheduler.tables(), rest);
                Event::PodApplied(Box::new(Arc::unwrap_or_clone(pod)))
            }
            "budget" => {
                let (namespace, name, budget) = language::budget(self.scheduler.tables(), rest);
                Event::DisruptionBudgetApplied { namespace, name, budget }
            }
            "gone" if rest[0] == "node" => {
                Event::Gone(ObjectKey::Node(self.scheduler.tables().symbol(rest[1])))
            }
            "gone" => Event::Gone(ObjectKey::Pod(rest[1].into())),
            "accepted" => answer(BindOutcome::Accepted),
            "refused" => answer(BindOutcome::Refused { message: "no".to_owned() }),
            "unknown" => answer(BindOutcome::Unknown { message: "lost".to_owned() }),
            "found" => {
                let found = match rest[1] {
                    "unbound" => BindingState::Unbound,
                    "gone" => BindingState::Gone,
                    "no-answer" => BindingState::NoAnswer,
                    node => BindingState::Bound(node.to_owned()),
                };
                Event::BindingQueried { uid: rest[0].into(), found }
            }
            "list" => Event::ListBegan(kind(rest[0])),
            "listed" => Event::ListEnded(kind(rest[0])),
            "credit" => {
                let lane = Lane::ALL.into_iter().find(|lane| lane.as_str() == rest[0]).expect("a lane");
                Event::Credits { lane, count: rest[1].parse().expect("a number") }
            }
            other => panic!("unknown command {other}"),
        }
    }

    /// Advances the time, and runs the engine at each requested wake-up.
    pub(crate) fn wait(&mut self, seconds: u64) -> Vec<String> {
        let end = self.now + std::time::Duration::from_secs(seconds);
        while let Some(wake_at) = self.run().filter(|&at| at < end) {
            self.now = wake_at;
        }
        self.now = end;
        self.run();
        std::mem::take(&mut self.output)
    }

    fn run(&mut self) -> Option<Time> {
        for _ in 0..10_000 {
            match self.scheduler.step(self.now, &mut NoProbe) {
                Step::Idle { wake_at } => return wake_at,
                Step::Effect(effect) => self.output.extend(describe_effect(&effect)),
                Step::Report(report) => {
                    let (pod, attempt) = (&report.pod.name, report.attempt);
                    self.output.extend(match &report.outcome {
                        Outcome::Placed { node, nodes, feasible, .. } => {
                            Some(format!("placed {pod} on {node}, {feasible} of {nodes}, attempt {attempt}"))
                        }
                        Outcome::Unschedulable { .. } => Some(format!("unschedulable {pod}")),
                        Outcome::Error { message } => Some(format!("error {pod}: {message}")),
                        Outcome::Bound { node, .. } => Some(format!("bound {pod} to {node}")),
                        Outcome::BindFailed { .. } => Some(format!("bind failed {pod}")),
                        _ => None,
                    });
                }
                Step::GroupReport(_) => {}
                Step::Notice(notice) => self.output.push(format!("notice {notice:?}")),
            }
        }
        panic!("the engine does not become idle");
    }

    /// Returns the part of the queue that holds the pod.
    pub(crate) fn place(&self, pod: &str) -> Option<SubQueue> {
        let mut waiting = self.scheduler.queue().waiting();
        waiting.find(|(_, queued)| *queued.pod.uid == *pod).map(|(place, _)| place)
    }

    /// Returns the CPU in millicores that a node's pods request, and the number of pods.
    pub(crate) fn taken(&self, node: &str) -> (i64, i64) {
        let snapshot = self.scheduler.snapshot();
        let name = snapshot.tables().find(node).expect("the node was named");
        let at = snapshot.find_node(name).expect("the node exists").index();
        (snapshot.columns().requested_cpu_milli[at], snapshot.columns().pods[at])
    }

    /// Returns the engine's collections that are not empty, with their sizes.
    pub(crate) fn nonempty_sizes(&self) -> Vec<(&'static str, usize)> {
        self.scheduler.held().into_iter().filter(|&(_, count)| count > 0).collect()
    }
}

fn kind(name: &str) -> Kind {
    Kind::ALL.into_iter().find(|kind| kind.as_str() == name).expect("a kind")
}

fn describe_effect(effect: &Effect) -> Option<String> {
    match effect {
        Effect::Bind { pod, node } => Some(format!("bind {} to {node}", pod.name)),
        Effect::QueryBinding { pod } => Some(format!("query {}", pod.name)),
        Effect::Evict(eviction) => Some(format!("evict {}", eviction.pod.name)),
        Effect::Record(record) => Some(format!("record {} {}", record.reason, record.pod.name)),
        _ => None,
    }
}

/// Whether the output contains this sentence.
pub(crate) fn contains_line(output: &[String], sentence: &str) -> bool {
    output.iter().any(|line| line == sentence)
}
