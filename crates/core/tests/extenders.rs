//! Extenders: limits, and properties of every answer, which would make scenarios too long.

mod support;

use std::sync::Arc;
use supercargo_core::cycle::{Framework, NoProbe, Point, Probe, Sampling};
use supercargo_core::framework::extension_point::ExtensionPoint;
use supercargo_core::model::effect::{Effect, ExtenderCall, Question};
use supercargo_core::model::event::Event;
use supercargo_core::model::extender::{Answer, Extender, FilterAnswer};
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::queue::QueueConfig;
use supercargo_core::registry::Plan;
use supercargo_core::report::Outcome;
use supercargo_core::scheduler::{Config, Profile, Scheduler, Step};
use support::{begin, extenders, language};

const NOW: Time = Time::from_nanos(100_200_000_000);

struct Harness {
    scheduler: Scheduler,
    asked: Vec<ExtenderCall>,
    placed: Vec<(String, String)>,
}

impl Harness {
    fn new(extenders: &[&str]) -> Self {
        Self::by(extenders, Framework::default())
    }

    fn by(extenders: &[&str], framework: Framework) -> Self {
        let profile = Profile { name: "default-scheduler".to_owned(), framework };
        let config = Config { seed: Seed(1), profiles: vec![profile], queue: QueueConfig::default() };
        let mut scheduler = Scheduler::new(config, NOW);
        begin(&mut scheduler, NOW, 10_000);
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let extenders: Vec<Extender> = extenders
            .iter()
            .enumerate()
            .map(|(id, text)| {
                let words = words(text);
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                extenders::extender(scheduler.tables(), id as u64, &words)
            })
            .collect();
        scheduler.set_extenders(extenders);
        Self { scheduler, asked: Vec::new(), placed: Vec::new() }
    }

    fn node(&mut self, words: &str) {
        let words: Vec<&str> = words.split_whitespace().collect();
        let node = language::node(self.scheduler.tables(), &words);
        self.scheduler.handle(NOW, Event::NodeApplied(Box::new(Arc::unwrap_or_clone(node))));
    }

    fn pod(&mut self, words: &str) {
        let words: Vec<&str> = words.split_whitespace().collect();
        let pod = language::pod(self.scheduler.tables(), &words);
        self.scheduler.handle(NOW, Event::PodApplied(Box::new(Arc::unwrap_or_clone(pod))));
    }

    fn run(&mut self) {
        for _ in 0..10_000 {
            match self.scheduler.step(NOW, &mut NoProbe) {
                Step::Idle { .. } => return,
                Step::Effect(Effect::Extend(call)) => self.asked.push(call),
                Step::Report(report) => {
                    if let Outcome::Placed { node, .. } = report.outcome {
                        self.placed.push((report.pod.name, node));
                    }
                }
                Step::Effect(_) | Step::GroupReport(_) | Step::Notice(_) => {}
            }
        }
        panic!("the engine does not become idle");
    }

    fn answer(&mut self, call: &ExtenderCall, answer: Result<Answer, String>) {
        self.scheduler.handle(NOW, Event::Extended { call: call.call, answer });
    }

    /// Answers that every node in the call is feasible, with equal scores.
    fn accept_all(&mut self, call: &ExtenderCall) {
        let answer = match &call.question {
            Question::Filter { nodes } => {
                Answer::Filtered(FilterAnswer { passed: nodes.clone(), ..FilterAnswer::default() })
            }
            Question::Prioritize { .. } => Answer::Scored(Vec::new()),
            Question::Preempt { .. } => Answer::Candidates(Vec::new()),
        };
        self.answer(call, Ok(answer));
    }
}

#[test]
fn at_most_64_pods_wait_for_extenders_while_other_pods_are_decided() {
    let mut harness = Harness::new(&["g filter managed=example.com/fpga"]);
    harness.node("a cpu=900 pods=900 res:example.com/fpga=900");
    for number in 0..100 {
        harness.pod(&format!("p{number:03} cpu=1 res:example.com/fpga=1"));
    }
    harness.pod("plain cpu=1");
    harness.run();
    assert_eq!((harness.asked.len(), harness.scheduler.stats().extender_calls), (64, 64));
    assert_eq!(harness.placed, [("plain".to_owned(), "a".to_owned())], "it is behind them in the queue");
    while !harness.asked.is_empty() {
        for call in std::mem::take(&mut harness.asked) {
            harness.accept_all(&call);
        }
        harness.run();
        assert!(harness.scheduler.stats().extender_calls <= 64);
    }
    assert_eq!(harness.placed.len(), 101);
    assert_eq!(harness.scheduler.stats().extender_calls, 0);
}

#[test]
fn extender_that_accepts_everything_changes_no_decision() {
    for number in 0..20 {
        let (mut with, mut without) = (Harness::new(&["g filter prioritize=1"]), Harness::new(&[]));
        for harness in [&mut with, &mut without] {
            for node in ["a cpu=4", "b cpu=2", "c cpu=8 taint=x:PreferNoSchedule", "d cpu=0"] {
                harness.node(node);
            }
            harness.pod(&format!("there{number} cpu=1 on=a"));
            harness.pod(&format!("p{number} cpu=1"));
            harness.run();
        }
        while let Some(call) = with.asked.pop() {
            with.accept_all(&call);
            with.run();
        }
        assert_eq!(with.placed, without.placed, "the tie is drawn from the same seed");
        assert_eq!(with.placed.len(), 1);
    }
}

#[test]
fn deleted_pod_leaves_no_extender_state() {
    let mut harness = Harness::new(&["g filter", "h prioritize=1"]);
    harness.node("a cpu=4");
    for number in 0..10 {
        harness.pod(&format!("p{number} cpu=100m"));
    }
    harness.run();
    assert_eq!(harness.asked.len(), 10);
    assert_eq!(harness.scheduler.waiting_for_extenders().count(), 10);
    assert_eq!(harness.scheduler.pods_in_slices().count(), 0);
    for number in 0..10 {
        let key = supercargo_core::model::event::ObjectKey::Pod(format!("p{number}").as_str().into());
        harness.scheduler.handle(NOW, Event::Gone(key));
    }
    for call in std::mem::take(&mut harness.asked) {
        harness.accept_all(&call);
    }
    harness.run();
    assert_eq!(harness.placed, []);
    let held =
        harness.scheduler.held().into_iter().filter(|(what, count)| what.contains("extender") && *count > 0);
    assert_eq!(held.collect::<Vec<_>>(), []);
}

#[test]
fn pods_on_a_node_count_after_an_extender_accepted_it() {
    let mut harness = Harness::new(&["g filter"]);
    harness.node("full cpu=4");
    harness.node("empty cpu=4");
    harness.pod("there cpu=3 on=full");
    harness.pod("p cpu=1");
    harness.run();
    let call = harness.asked.remove(0);
    harness.accept_all(&call);
    harness.run();
    assert_eq!(harness.placed, [("p".to_owned(), "empty".to_owned())]);
}

/// Returns how many of 150 nodes the first call names.
fn nodes_in_call(extenders: &[&str], framework: Framework) -> usize {
    let mut harness = Harness::by(extenders, framework);
    (0..150).for_each(|number| harness.node(&format!("n{number} cpu=4")));
    harness.pod("p cpu=1");
    harness.run();
    match &harness.asked[0].question {
        Question::Filter { nodes } | Question::Prioritize { nodes } => nodes.len(),
        Question::Preempt { .. } => panic!("the pod fits"),
    }
}

#[test]
fn extenders_are_called_about_the_sample_of_nodes() {
    for extenders in [["g filter"], ["g prioritize=1"], ["g filter prioritize=1"]] {
        let sampled = || Framework::default().with_sampling(Some(Sampling::new(1)));
        assert_eq!(nodes_in_call(&extenders, sampled()), 100, "{extenders:?}: the minimum of a sample");
        assert_eq!(nodes_in_call(&extenders, Framework::default()), 150, "{extenders:?}");
        let mut plan = Plan::default();
        plan.points.insert(ExtensionPoint::Score, Vec::new());
        let unscored = Framework::new(&plan).with_sampling(Some(Sampling::new(1)));
        assert_eq!(nodes_in_call(&extenders, unscored), 100, "{extenders:?}: extenders need a choice");
    }
}

#[test]
fn next_sample_begins_where_the_last_search_ended() {
    let framework = Framework::default().with_sampling(Some(Sampling::new(1)));
    let mut harness = Harness::by(&["g filter"], framework);
    (0..150).for_each(|number| harness.node(&format!("n{number:03} cpu=4")));
    ["p cpu=1", "q cpu=1"].into_iter().for_each(|words| harness.pod(words));
    harness.run();
    let samples: Vec<(usize, bool)> = harness
        .asked
        .iter()
        .map(|call| match &call.question {
            Question::Filter { nodes } => (nodes.len(), nodes.iter().any(|name| name == "n149")),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(samples, [(100, false), (100, true)]);
}

/// Collects the status of each filter stage.
#[derive(Default)]
struct Statuses(Vec<&'static str>);

impl Probe for Statuses {
    fn leave(&mut self, point: Point, status: &'static str) {
        if point == Point::Filter {
            self.0.push(status);
        }
    }
}

#[test]
fn filter_stage_of_a_pod_with_extenders_has_upstreams_status() {
    let status = |pod: &str| {
        let mut harness = Harness::new(&["g filter"]);
        harness.node("a cpu=4");
        harness.pod(pod);
        let mut statuses = Statuses::default();
        while !matches!(harness.scheduler.step(NOW, &mut statuses), Step::Idle { .. }) {}
        statuses.0
    };
    assert_eq!(status("p cpu=1"), ["Success"]);
    assert_eq!(status("p cpu=9"), ["Unschedulable"]);
}

#[test]
fn decisions_of_pods_that_an_extender_only_binds_are_cached() {
    let mut harness = Harness::new(&["g bind"]);
    harness.node("a cpu=9");
    for number in 0..3 {
        harness.pod(&format!("p{number} cpu=1"));
    }
    harness.run();
    assert_eq!((harness.placed.len(), harness.asked.len()), (3, 0));
    assert_eq!(harness.scheduler.stats().cached_decisions, 3);
}

#[test]
fn calls_for_scores_are_counted_until_they_are_answered() {
    let mut harness = Harness::new(&["f filter", "g prioritize=1", "h prioritize=1"]);
    let prioritizing = |harness: &Harness| harness.scheduler.stats().prioritizing;
    harness.node("a cpu=4");
    harness.node("b cpu=4");
    harness.pod("p cpu=1");
    harness.run();
    assert_eq!((harness.asked.len(), prioritizing(&harness)), (1, 0), "a filter call gives no scores");
    let call = harness.asked.remove(0);
    harness.accept_all(&call);
    harness.run();
    assert_eq!((harness.asked.len(), prioritizing(&harness)), (2, 2));
    for left in [1, 0] {
        let call = harness.asked.remove(0);
        harness.accept_all(&call);
        assert_eq!(prioritizing(&harness), left);
    }
}
