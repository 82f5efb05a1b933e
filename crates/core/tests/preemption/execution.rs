//! Property tests of the execution of preemption over random histories.
//!
//! Only lower-priority pods are evicted, each once, for a pod that still needs their node. No pod waits forever,
//! however evictions, answers and watch events interleave.

use super::draws;
use crate::support::language;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use supercargo_core::cycle::{Decision, Framework, InfeasibleDecision, NoProbe, Nomination, Options};
use supercargo_core::model::effect::{Effect, Lane};
use supercargo_core::model::event::{BindOutcome, Event, EvictOutcome, Kind, ObjectKey};
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::queue::{QueueConfig, SubQueue};
use supercargo_core::report::{Outcome, Preemption};
use supercargo_core::scheduler::{Config, Profile, Scheduler, Step};

/// An input. Numbers select among existing objects.
#[derive(Clone, Debug)]
enum Action {
    Runs { node: u8, cpu: u8, priority: u8 },
    Comes { cpu: u8, priority: u8 },
    Answered { at: u8, with: EvictOutcome },
    ShownGoing(u8),
    Gone(u8),
    NodeGone(u8),
    Credit,
    Later,
}

fn act() -> impl Strategy<Value = Action> {
    let failed = EvictOutcome::Failed { message: "no".to_owned() };
    let outcome = prop::sample::select(vec![EvictOutcome::Deleted, EvictOutcome::Gone, failed]);
    prop_oneof![
        4 => (0..2u8, 1..4u8, 0..3u8).prop_map(|(node, cpu, priority)| Action::Runs { node, cpu, priority }),
        4 => (1..5u8, 1..6u8).prop_map(|(cpu, priority)| Action::Comes { cpu, priority }),
        4 => (any::<u8>(), outcome).prop_map(|(at, with)| Action::Answered { at, with }),
        3 => any::<u8>().prop_map(Action::ShownGoing),
        4 => any::<u8>().prop_map(Action::Gone),
        1 => (0..2u8).prop_map(Action::NodeGone),
        3 => Just(Action::Credit),
        1 => Just(Action::Later),
    ]
}

/// The state of a pod in the API server.
#[derive(Clone, Debug)]
struct PodState {
    cpu: u8,
    priority: i32,
    on: Option<String>,
    going: bool,
}

struct Run {
    scheduler: Scheduler,
    now: Time,
    pods: BTreeMap<String, PodState>,
    nodes: BTreeSet<String>,
    created: u32,
    /// Evictions without an answer.
    asked: Vec<String>,
    /// Evicted pods, except those whose eviction failed.
    evicted: BTreeSet<String>,
    /// The last chosen victims of each pod.
    chosen: BTreeMap<String, Vec<String>>,
}

impl Run {
    fn new() -> Self {
        let now = Time::from_secs(1_000);
        let profile = Profile { name: "default-scheduler".to_owned(), framework: Framework::default() };
        let config = Config { seed: Seed(1), profiles: vec![profile], queue: QueueConfig::default() };
        let mut run = Self {
            scheduler: Scheduler::new(config, now),
            now,
            pods: BTreeMap::new(),
            nodes: BTreeSet::new(),
            created: 0,
            asked: Vec::new(),
            evicted: BTreeSet::new(),
            chosen: BTreeMap::new(),
        };
        for kind in Kind::ALL {
            run.handle(Event::ListBegan(kind));
            run.handle(Event::ListEnded(kind));
        }
        for lane in [Lane::Bind, Lane::Status, Lane::Record] {
            run.handle(Event::Credits { lane, count: 10_000 });
        }
        run.add_node("n0");
        run.add_node("n1");
        run
    }

    fn handle(&mut self, event: Event) {
        self.scheduler.handle(self.now, event);
    }

    fn add_node(&mut self, name: &str) {
        let node = language::node(self.scheduler.tables(), &[name, "cpu=4", "pods=9"]);
        self.nodes.insert(name.to_owned());
        self.handle(Event::NodeApplied(Box::new(Arc::unwrap_or_clone(node))));
    }

    fn show(&mut self, name: &str) {
        let known = &self.pods[name];
        let mut words =
            vec![name.to_owned(), format!("cpu={}", known.cpu), format!("priority={}", known.priority)];
        words.extend(known.on.as_ref().map(|node| format!("on={node}")));
        if known.going {
            words.extend(["deleting".to_owned(), "preempted".to_owned()]);
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let pod = language::pod(self.scheduler.tables(), &words);
        self.handle(Event::PodApplied(Box::new(Arc::unwrap_or_clone(pod))));
    }

    fn create(&mut self, cpu: u8, priority: i32, on: Option<String>) {
        self.created += 1;
        let name = format!("p{}", self.created);
        self.pods.insert(name.clone(), PodState { cpu, priority, on, going: false });
        self.show(&name);
    }

    fn pick(&self, at: u8, fits: impl Fn(&PodState) -> bool) -> Option<String> {
        let found: Vec<&String> =
            self.pods.iter().filter(|(_, known)| fits(known)).map(|(name, _)| name).collect();
        (!found.is_empty()).then(|| found[usize::from(at) % found.len()].clone())
    }

    fn gone(&mut self, name: &str) {
        self.pods.remove(name);
        self.chosen.remove(name);
        self.handle(Event::Gone(ObjectKey::Pod(name.into())));
    }

    fn going(&mut self, name: &str) {
        if let Some(known) = self.pods.get_mut(name)
            && known.on.is_some()
        {
            known.going = true;
            self.show(name);
        }
    }

    fn answer(&mut self, name: &str, outcome: EvictOutcome) {
        if matches!(outcome, EvictOutcome::Failed { .. }) {
            self.evicted.remove(name);
        }
        self.handle(Event::EvictFinished { uid: name.into(), outcome });
    }

    fn act(&mut self, act: Action) {
        match act {
            Action::Runs { node, cpu, priority } => {
                let node = format!("n{node}");
                if self.nodes.contains(&node) && self.room(&node) >= cpu {
                    self.create(cpu, priority.into(), Some(node));
                }
            }
            Action::Comes { cpu, priority } => self.create(cpu, priority.into(), None),
            Action::Answered { at, with } => {
                if !self.asked.is_empty() {
                    let name = self.asked.remove(usize::from(at) % self.asked.len());
                    self.answer(&name, with);
                }
            }
            Action::ShownGoing(at) => {
                if let Some(name) = self.pick(at, |known| known.on.is_some() && !known.going) {
                    self.going(&name);
                }
            }
            Action::Gone(at) => {
                if let Some(name) = self.pick(at, |_| true) {
                    self.gone(&name);
                }
            }
            Action::NodeGone(node) => {
                let name = format!("n{node}");
                if self.nodes.remove(&name) {
                    let symbol = self.scheduler.tables().symbol(&name);
                    self.handle(Event::Gone(ObjectKey::Node(symbol)));
                } else {
                    self.add_node(&name);
                }
            }
            Action::Credit => self.handle(Event::Credits { lane: Lane::Evict, count: 1 }),
            Action::Later => self.now = self.now + std::time::Duration::from_secs(20),
        }
    }

    fn room(&self, node: &str) -> u8 {
        let on = self.pods.values().filter(|known| known.on.as_deref() == Some(node));
        4_u8.saturating_sub(on.map(|known| known.cpu).sum())
    }

    /// Runs the scheduler until idle. Bindings are carried out at once.
    fn rest(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..1_000 {
            match self.scheduler.step(self.now, &mut NoProbe) {
                Step::Idle { .. } => return Ok(()),
                Step::Effect(Effect::Bind { pod, node }) => {
                    self.chosen.remove(&pod.name);
                    self.handle(Event::BindFinished { uid: pod.uid, outcome: BindOutcome::Accepted });
                    self.pods.get_mut(&pod.name).expect("only existing pods are bound").on = Some(node);
                    self.show(&pod.name);
                }
                Step::Effect(Effect::Evict(eviction)) => self.check_eviction(eviction.pod.name)?,
                Step::Report(report) => {
                    if let Outcome::Unschedulable { preemption, .. } = &report.outcome {
                        self.chosen.remove(&report.pod.name);
                        if let Preemption::Nominated { victims, .. } = preemption {
                            let victims = victims.iter().map(|victim| victim.name.clone()).collect();
                            self.chosen.insert(report.pod.name.clone(), victims);
                        }
                    }
                }
                _ => {}
            }
        }
        Err(TestCaseError::fail("the engine does not become idle"))
    }

    fn check_eviction(&mut self, name: String) -> Result<(), TestCaseError> {
        prop_assert!(self.evicted.insert(name.clone()), "{name} is evicted twice");
        let known = self.pods.get(&name);
        prop_assert!(known.is_some_and(|known| !known.going), "{name} is already terminating");
        let priority = known.map_or(0, |known| known.priority);
        let wants = |(pod, victims): (&String, &Vec<String>)| {
            let known = &self.pods[pod];
            victims.contains(&name) && known.on.is_none() && known.priority > priority
        };
        prop_assert!(self.chosen.iter().any(wants), "{name} is evicted for no preemptor: {:?}", self.chosen);
        self.asked.push(name);
        Ok(())
    }

    /// Completes everything that was started.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        self.handle(Event::Credits { lane: Lane::Evict, count: 10_000 });
        for _ in 0..200 {
            self.rest()?;
            if let Some(name) = self.asked.pop() {
                self.going(&name);
                self.answer(&name, EvictOutcome::Deleted);
                self.rest()?;
                self.gone(&name);
                continue;
            }
            // Answered evictions, and other deletions, also complete.
            let evicted = self.evicted.clone();
            let next = self.pods.iter().find(|(name, known)| known.going || evicted.contains(*name));
            match next.map(|(name, _)| name.clone()) {
                Some(name) => self.gone(&name),
                None => return Ok(()),
            }
        }
        Err(TestCaseError::fail("evictions do not come to an end"))
    }

    /// Checks that no pod waits for something that has already happened.
    fn check_rest(&mut self) -> Result<(), TestCaseError> {
        self.rest()?;
        let stats = self.scheduler.stats();
        prop_assert_eq!((stats.preemptions, stats.evictions), (0, 0));
        let framework = Framework::default();
        for (place, queued) in self.scheduler.queue().waiting() {
            prop_assert!(
                place != SubQueue::Gated,
                "{} is blocked without a running preemption",
                queued.pod.name
            );
            if place != SubQueue::Unschedulable {
                continue;
            }
            let (pod, snapshot) = (&*queued.pod, self.scheduler.snapshot());
            let Ok(Decision::Infeasible(filtered)) =
                framework.decide(pod, snapshot, Options::default(), &mut NoProbe)
            else {
                return Err(TestCaseError::fail(format!("{} waits, and has a place", pod.name)));
            };
            let diagnosis = filtered.diagnose(snapshot);
            let failed = InfeasibleDecision { pod, snapshot, filtered: &filtered, diagnosis: &diagnosis };
            let outcome = framework.post_filter(failed, draws(1), self.now, &mut NoProbe);
            let waits = !matches!(outcome.nomination, Nomination::To(_));
            prop_assert!(waits, "{} is pending although preemption could make room", pod.name);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn victims_have_lower_priority_are_evicted_once_and_every_preemptor_is_placed(
        acts in prop::collection::vec(act(), 1..60)
    ) {
        let mut run = Run::new();
        for act in acts {
            run.act(act);
            run.rest()?;
        }
        run.settle()?;
        run.check_rest()?;
    }
}
