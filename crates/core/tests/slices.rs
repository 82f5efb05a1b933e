//! Attempts in slices: other pods are scheduled between slices, and the result equals that of an attempt in one step.
//!
//! Whatever changes between two slices, the pod is in exactly one place and makes progress.

mod support;
#[path = "slices/turns.rs"]
mod turns;

use std::sync::Arc;
use std::time::Duration;
use supercargo_core::cycle::{Framework, NoProbe, Sampling};
use supercargo_core::model::effect::{Effect, ExtenderCall, Question};
use supercargo_core::model::emulation::EmulatedVersion;
use supercargo_core::model::event::{BindOutcome, Event, EvictOutcome, ObjectKey};
use supercargo_core::model::extender::{Answer, CandidateAnswer, FilterAnswer};
use supercargo_core::model::lookup_objects::Service;
use supercargo_core::model::pod::Uid;
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::queue::QueueConfig;
use supercargo_core::report::{Outcome, Preemption};
use supercargo_core::scheduler::{Config, Limits, PodLocation, Profile, Reconfiguration, Scheduler, Step};
use support::TestCluster;

/// Limits that make each evaluation large, and slices as small as possible.
const SMALL: Limits = Limits { large: 20, slice: 1, most: 1_000_000 };
const LARGE_POD: &str =
    "large label:app=large anti=host/app=other anti=zone/app=none prefer-affinity=5/zone/app=a";

struct Harness {
    scheduler: Scheduler,
    cluster: TestCluster,
    now: Time,
    /// What extenders were asked.
    questions: Vec<Question>,
    /// Whether extenders do not answer for now, and the calls since.
    holds_answers: bool,
    held: Vec<ExtenderCall>,
}

impl Harness {
    fn new(limits: Limits) -> Self {
        Self::with_framework(limits, Framework::default())
    }

    fn with_framework(limits: Limits, framework: Framework) -> Self {
        Self::with_credits(limits, framework, 100_000)
    }

    /// As [`Self::with_framework`], with this number of credits for each lane.
    fn with_credits(limits: Limits, framework: Framework, credits: usize) -> Self {
        let now = Time::from_secs(100);
        let profile = Profile { name: "default-scheduler".to_owned(), framework };
        let (queue, seed) = (QueueConfig::default(), Seed(1));
        let mut scheduler = Scheduler::new(Config { seed, profiles: vec![profile], queue }, now);
        scheduler.limit_attempts(limits);
        support::begin(&mut scheduler, now, credits);
        let (questions, held) = (Vec::new(), Vec::new());
        Self { scheduler, cluster: TestCluster::new(), now, questions, holds_answers: false, held }
    }

    /// Adds ten nodes in two zones and thirty pods of thirty pod classes.
    fn with_cluster(limits: Limits) -> Self {
        let mut harness = Self::new(limits);
        harness.add_cluster();
        harness
    }

    fn add_cluster(&mut self) {
        (0..10).for_each(|at| self.apply(&format!("node n{at} zone=z{} cpu=8 mem=8Gi", at % 2)));
        (0..30).for_each(|at| self.apply(&format!("pod q{at} on=n{} label:app=a label:own=o{at}", at % 10)));
    }

    fn apply(&mut self, line: &str) {
        std::mem::swap(&mut self.cluster.tables, self.scheduler.tables());
        let event = support::arrival(&mut self.cluster.tables, line);
        std::mem::swap(&mut self.cluster.tables, self.scheduler.tables());
        self.scheduler.handle(self.now, event);
    }

    /// Does one step, and checks that every pending pod is in one place.
    fn step(&mut self) -> Step {
        let step = self.scheduler.step(self.now, &mut NoProbe);
        assert_eq!(self.scheduler.misplaced_pods().count(), 0);
        step
    }

    /// Runs until idle, answers requests, and returns the reports.
    fn run(&mut self) -> Vec<(String, Outcome)> {
        let mut reports = Vec::new();
        loop {
            match self.step() {
                Step::Idle { wake_at } if wake_at.is_none_or(|at| at > self.now) => return reports,
                Step::Idle { .. } | Step::GroupReport(_) | Step::Notice(_) => {}
                Step::Report(report) => reports.push((report.pod.name, report.outcome)),
                Step::Effect(effect) => self.answer(effect),
            }
        }
    }

    fn answer(&mut self, effect: Effect) {
        match effect {
            Effect::Bind { pod, .. } => {
                let outcome = BindOutcome::Accepted;
                self.scheduler.handle(self.now, Event::BindFinished { uid: pod.uid, outcome });
            }
            Effect::Evict(eviction) => {
                let uid = eviction.pod.uid;
                let outcome = EvictOutcome::Deleted;
                self.scheduler.handle(self.now, Event::EvictFinished { uid: Arc::clone(&uid), outcome });
                self.scheduler.handle(self.now, Event::Gone(ObjectKey::Pod(uid)));
            }
            Effect::Extend(call) => {
                self.held.push(call);
                if !self.holds_answers {
                    self.release_answers();
                }
            }
            _ => {}
        }
    }

    /// Answers all open calls to extenders.
    fn release_answers(&mut self) {
        for call in std::mem::take(&mut self.held) {
            let answer = Ok(answer_of(&call.question));
            self.questions.push(call.question);
            self.scheduler.handle(self.now, Event::Extended { call: call.call, answer });
        }
    }

    fn sub_queue_of(&self, uid: &str) -> Option<PodLocation> {
        self.scheduler.pending_one(&Uid::from(uid)).map(|pending| pending.at)
    }
}

fn placed(reports: &[(String, Outcome)], name: &str) -> Option<String> {
    reports.iter().find_map(|(of, outcome)| match outcome {
        Outcome::Placed { node, .. } if of == name => Some(node.clone()),
        _ => None,
    })
}

#[test]
fn large_pod_gets_the_node_it_gets_in_one_step() {
    let mut one_step = Harness::with_cluster(Limits::default());
    let mut sliced = Harness::with_cluster(SMALL);
    for harness in [&mut one_step, &mut sliced] {
        harness.apply(&format!("pod {LARGE_POD}"));
    }
    let expected = placed(&one_step.run(), "large").expect("a node is feasible");
    assert_eq!(placed(&sliced.run(), "large"), Some(expected));
    let slices = sliced.scheduler.stats().slices;
    assert!(slices > 30, "{slices} slices");
    assert_eq!(one_step.scheduler.stats().slices, 0);
}

#[test]
fn other_pods_are_decided_between_slices_even_if_the_large_pod_has_priority() {
    let mut harness = Harness::with_cluster(SMALL);
    harness.apply(&format!("pod {LARGE_POD} priority=1000"));
    (0..20).for_each(|at| harness.apply(&format!("pod small{at} cpu=10m")));
    let names: Vec<String> = harness
        .run()
        .into_iter()
        .filter(|(_, it)| matches!(it, Outcome::Placed { .. }))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names.len(), 21);
    assert_eq!(names[20], "large", "{names:?}");
}

/// A slice runs after a few other attempts, even if pods of a higher priority keep arriving.
#[test]
fn large_pod_gets_on_while_others_keep_coming() {
    let mut harness = Harness::with_cluster(SMALL);
    harness.apply("node wide zone=z1 cpu=9999 mem=999Gi pods=9999");
    harness.apply(&format!("pod {LARGE_POD}"));
    // Until its evaluation begins, the pod waits for those of a higher priority, as any pod does.
    harness.step();
    let mut others = 0;
    let mut slices = harness.scheduler.stats().slices;
    let mut since_slice = 0;
    loop {
        harness.apply(&format!("pod small{others} cpu=1m priority=1000"));
        others += 1;
        match harness.step() {
            Step::Report(report) if report.pod.name == "large" => break,
            Step::Report(_) => since_slice += 1,
            Step::Effect(effect) => harness.answer(effect),
            Step::GroupReport(_) | Step::Notice(_) | Step::Idle { .. } => {}
        }
        if harness.scheduler.stats().slices != slices {
            (slices, since_slice) = (harness.scheduler.stats().slices, 0);
        }
        // A bound pod has two reports: placed and bound.
        assert!(since_slice <= 20, "{since_slice} reports of others since the last slice");
        assert!(others < 10_000, "the large pod is postponed for ever");
    }
}

#[test]
fn pod_that_is_evaluated_in_slices_is_listed_and_forgotten_once_it_is_deleted() {
    let mut harness = Harness::with_cluster(SMALL);
    harness.apply(&format!("pod {LARGE_POD}"));
    (0..5).for_each(|_| _ = harness.step());
    assert!(matches!(harness.sub_queue_of("large"), Some(PodLocation::Evaluation)));
    assert_eq!((harness.scheduler.stats().sliced, harness.scheduler.stats().extender_calls), (1, 0));
    let sliced: Vec<&str> = harness.scheduler.pods_in_slices().map(|pod| &*pod.uid).collect();
    assert_eq!(sliced, ["large"]);
    assert_eq!(harness.scheduler.waiting_for_extenders().count(), 0);
    harness.scheduler.handle(harness.now, Event::Gone(ObjectKey::Pod("large".into())));
    assert_eq!(harness.scheduler.stats().sliced, 0);
    assert_eq!(harness.run().len(), 0);
}

#[test]
fn pod_that_becomes_small_between_slices_is_decided_at_once() {
    let mut harness = Harness::with_cluster(SMALL);
    harness.apply(&format!("pod {LARGE_POD}"));
    (0..5).for_each(|_| _ = harness.step());
    let slices = harness.scheduler.stats().slices;
    harness.apply("pod large label:app=large");
    assert!(placed(&harness.run(), "large").is_some());
    assert_eq!(harness.scheduler.stats().slices, slices);
}

#[test]
fn lost_lead_and_new_lead_begin_the_evaluation_again() {
    let mut harness = Harness::with_cluster(SMALL);
    harness.apply(&format!("pod {LARGE_POD}"));
    (0..5).for_each(|_| _ = harness.step());
    harness.scheduler.handle(harness.now, Event::Leading(false));
    assert!(matches!(harness.sub_queue_of("large"), Some(PodLocation::Queued(_))));
    harness.scheduler.handle(harness.now, Event::Leading(true));
    assert!(placed(&harness.run(), "large").is_some());
}

/// Each change of a namespace invalidates the results.
#[test]
fn evaluation_ends_although_namespaces_change_between_all_slices() {
    let mut harness = Harness::with_cluster(SMALL);
    harness.apply(&format!("pod {LARGE_POD}"));
    for turn in 0..1_000 {
        let name = harness.scheduler.tables().symbol("default");
        let label =
            (harness.scheduler.tables().symbol("turn"), harness.scheduler.tables().symbol(&turn.to_string()));
        let labels = harness.scheduler.tables().label_set(vec![label]);
        harness.scheduler.handle(harness.now, Event::NamespaceApplied { name, labels });
        if let Step::Report(report) = harness.step() {
            assert!(matches!(report.outcome, Outcome::Placed { .. }), "{report:?}");
            return;
        }
    }
    panic!("the pod is postponed for ever");
}

/// Affinity does not depend on Services, nor on namespaces without pods.
#[test]
fn unrelated_services_and_namespaces_do_not_restart_the_evaluation() {
    let slices = |unrelated: bool| {
        let mut harness = Harness::with_cluster(SMALL);
        harness.apply(&format!("pod {LARGE_POD}"));
        for turn in 0.. {
            if unrelated {
                let name = harness.scheduler.tables().symbol(&format!("ns{turn}"));
                let labels = harness.scheduler.tables().label_set(Vec::new());
                harness.scheduler.handle(harness.now, Event::NamespaceApplied { name, labels });
                let tables = harness.scheduler.tables();
                let (namespace, name) = (tables.symbol("default"), tables.symbol(&format!("s{turn}")));
                let selector = Some([(tables.symbol("tier"), tables.symbol("none"))].into());
                let service = Service { selector };
                harness.scheduler.handle(harness.now, Event::ServiceApplied { namespace, name, service });
            }
            if let Step::Report(report) = harness.step() {
                assert!(matches!(report.outcome, Outcome::Placed { .. }), "{report:?}");
                break;
            }
        }
        harness.scheduler.stats().slices
    };
    assert_eq!(slices(true), slices(false));
}

/// Each slice uses the current cluster. If the only feasible node is filled between slices, the pod is not placed
/// there.
#[test]
fn decision_is_about_the_cluster_as_it_is_at_the_last_slice() {
    let mut harness = Harness::with_cluster(SMALL);
    harness.apply("node free zone=z9 cpu=100 mem=8Gi");
    harness.apply(&format!("pod {LARGE_POD} cpu=50"));
    (0..10).for_each(|_| _ = harness.step());
    harness.apply("pod foe on=free label:app=other");
    let reports = harness.run();
    let Some((_, Outcome::Unschedulable { message, .. })) = reports.first() else { panic!("{reports:?}") };
    assert!(message.contains("1 node(s) didn't match pod anti-affinity rules"), "{message}");
}

/// Lets a large pod preempt one of ten pods. Returns the reports until it has the place.
fn preempt(harness: &mut Harness) -> Vec<(String, Outcome)> {
    for node in 0..10 {
        harness.apply(&format!("pod v{node} on=n{node} cpu=7 priority={} label:app=other", node % 3));
    }
    harness.apply(&format!("pod {LARGE_POD} cpu=4 priority=100"));
    let mut reports = harness.run();
    harness.now = harness.now + Duration::from_secs(30);
    reports.append(&mut harness.run());
    reports
}

#[test]
fn large_pod_preempts_what_it_preempts_in_one_step() {
    let victims = |limits: Limits| {
        let mut harness = Harness::with_cluster(limits);
        let reports = preempt(&mut harness);
        let node = placed(&reports, "large").expect("its victim was deleted");
        let Some((_, Outcome::Unschedulable { preemption, .. })) = reports.into_iter().next() else {
            panic!()
        };
        assert!(matches!(preemption, Preemption::Nominated { .. }));
        (preemption, node, harness.scheduler.stats().slices)
    };
    let (expected, node, slices) = victims(Limits::default());
    assert_eq!(slices, 0);
    let (sliced, on, slices) = victims(SMALL);
    assert_eq!((&sliced, on), (&expected, node));
    assert!(slices > 30, "{slices}");
}

/// Whether terms match or not, each is compared with each pod class. What matching terms add is summed by node, in
/// slices, too, also if the pods on the nodes change in the meantime.
#[test]
fn sums_of_matching_terms_are_computed_in_slices() {
    let slices = |pod: &str, others: usize| {
        let mut harness = Harness::with_cluster(SMALL);
        harness.apply(&format!("pod large label:app=a {pod}"));
        (0..others).for_each(|at| harness.apply(&format!("pod small{at} cpu=1m label:own=s{at}")));
        assert!(placed(&harness.run(), "large").is_some(), "{pod}");
        harness.scheduler.stats().slices
    };
    for [matching, other] in [
        ["affinity=zone/app=a", "anti=zone/app=none"],
        ["prefer-affinity=5/zone/app=a", "prefer-affinity=5/zone/app=none"],
    ] {
        for others in [0, 20] {
            let (with, without) = (slices(matching, others), slices(other, others));
            // A slice of this size ends after one class or node; the cluster has 10 nodes.
            assert!(with >= without + 9, "{matching}: {with} slices, {without} without sums");
        }
    }
}

/// Lets a large pod be decided, and returns the number of slices that it takes.
fn slices_of(harness: &mut Harness, name: &str, words: &str) -> u64 {
    let before = harness.scheduler.stats().slices;
    harness.apply(&format!("pod {} {words}", LARGE_POD.replacen("large", name, 1)));
    assert!(placed(&harness.run(), name).is_some(), "{name}");
    harness.scheduler.stats().slices - before
}

/// Pods with the same signature reuse the results of the first one. Those of four signatures are kept.
#[test]
fn results_serve_the_next_pod_alike() {
    let mut harness = Harness::with_cluster(SMALL);
    let signatures: Vec<String> = (0..5).map(|kind| format!("label:kind=k{kind}")).collect();
    let kinds = || signatures[..4].iter().enumerate();
    let first: Vec<u64> =
        kinds().map(|(at, words)| slices_of(&mut harness, &format!("first{at}"), words)).collect();
    let next: Vec<u64> =
        kinds().map(|(at, words)| slices_of(&mut harness, &format!("next{at}"), words)).collect();
    let nominated = slices_of(&mut harness, "nominated", &format!("{} nominated=n3", signatures[3]));
    assert!(
        nominated * 5 < first[3],
        "a nomination does not change the results: {nominated} after {first:?}"
    );
    assert!(first.iter().zip(&next).all(|(first, next)| next * 5 < *first), "{next:?} after {first:?}");
    for words in [&signatures[4], &signatures[0]] {
        assert!(slices_of(&mut harness, "fifth", words) > 30, "{words}");
        harness.scheduler.handle(harness.now, Event::Gone(ObjectKey::Pod("fifth".into())));
    }
}

#[test]
fn results_of_another_configuration_are_not_used() {
    let mut harness = Harness::with_cluster(SMALL);
    let first = slices_of(&mut harness, "first", "");
    let QueueConfig { initial_backoff, max_backoff, .. } = QueueConfig::default();
    let profiles = vec![Profile { name: "default-scheduler".to_owned(), framework: Framework::default() }];
    let (emulated_version, extenders) = (EmulatedVersion::V1_37, Vec::new());
    let to = Reconfiguration { emulated_version, profiles, initial_backoff, max_backoff, extenders };
    harness.scheduler.reconfigure(harness.now, to);
    let next = slices_of(&mut harness, "next", "");
    assert!(next > first / 2, "{next} after {first}");
}

#[test]
fn large_pod_is_not_explained() {
    let mut harness = Harness::with_cluster(SMALL);
    harness.apply(&format!("pod {LARGE_POD}"));
    (0..5).for_each(|_| _ = harness.step());
    let pending = harness.scheduler.pending_one(&"large".into()).expect("it is evaluated");
    let part = harness.scheduler.explain_pending(&pending, 0, 99);
    assert!(part.findings.is_none() && part.next.is_none(), "{part:?}");
}

/// Decides about a large pod that fits on `free` only, changes the cluster before its binding is released, and returns
/// the bindings of the next steps, the reverted decisions, and the slices meanwhile.
fn recheck(change: &str) -> (Vec<String>, u64, u64) {
    let mut harness = Harness::with_cluster(SMALL);
    harness.apply("node free zone=z9 cpu=100 mem=8Gi");
    harness.apply(&format!("pod {LARGE_POD} cpu=50"));
    while !matches!(harness.step(), Step::Report(report) if report.pod.name == "large") {}
    let before = harness.scheduler.stats();
    harness.apply(change);
    let mut bound = Vec::new();
    while let Step::Effect(effect) = harness.step() {
        if let Effect::Bind { pod, node } = &effect {
            bound.push(format!("{} to {node}", pod.name));
        }
        harness.answer(effect);
    }
    let after = harness.scheduler.stats();
    (bound, after.rechecks_failed - before.rechecks_failed, after.slices - before.slices)
}

#[test]
fn recheck_of_a_large_pod_uses_the_results_of_its_slices() {
    assert_eq!(recheck("pod other on=n1 label:app=a"), (vec!["large to free".to_owned()], 0, 0));
    let (bound, failed, _) = recheck("pod foe on=free label:app=other");
    assert_eq!((bound, failed), (Vec::new(), 1));
}

/// Sets an extender with these duties, and lets it answer: it rejects n0, prefers n7, and leaves all candidates.
fn extend(harness: &mut Harness, duties: &[&str]) {
    let words = [&["http://one"], duties].concat();
    let extender = support::extenders::extender(harness.scheduler.tables(), 0, &words);
    harness.scheduler.set_extenders(vec![extender]);
}

fn answer_of(question: &Question) -> Answer {
    match question {
        Question::Filter { nodes } => Answer::Filtered(FilterAnswer {
            passed: nodes.iter().filter(|node| *node != "n0").cloned().collect(),
            failed: vec![("n0".to_owned(), "no".to_owned())],
            unresolvable: Vec::new(),
        }),
        Question::Prioritize { .. } => Answer::Scored(vec![("n7".to_owned(), 10)]),
        Question::Preempt { rooms } => Answer::Candidates(
            rooms
                .iter()
                .map(|room| CandidateAnswer {
                    node: room.node.clone(),
                    victims: room.pods.iter().map(|pod| pod.uid.to_string()).collect(),
                    violations: 0,
                })
                .collect(),
        ),
    }
}

#[test]
fn large_pod_with_extenders_is_decided_in_slices_as_in_one_step() {
    let decided = |limits: Limits, nodes: usize| {
        // Of more than 100 nodes, each search visits 100.
        let framework = Framework::default().with_sampling(Some(Sampling::new(1)));
        let mut harness = Harness::with_framework(limits, framework);
        (0..nodes).for_each(|at| harness.apply(&format!("node n{at} zone=z{} cpu=8 mem=8Gi", at % 2)));
        (0..30)
            .for_each(|at| harness.apply(&format!("pod q{at} on=n{} label:app=a label:own=o{at}", at % 10)));
        extend(&mut harness, &["filter", "prioritize=5"]);
        harness.apply(&format!("pod {LARGE_POD}"));
        let mut reports = harness.run();
        harness.apply("pod small cpu=1");
        reports.append(&mut harness.run());
        let nodes = ["large", "small"].map(|name| placed(&reports, name).expect("a node is feasible"));
        (nodes, std::mem::take(&mut harness.questions), harness.scheduler.stats().slices)
    };
    for nodes in [10, 150] {
        let (chosen, questions, slices) = decided(Limits::default(), nodes);
        assert_eq!(slices, 0);
        assert_eq!(questions.len(), 4, "filter and prioritize for each pod");
        let (sliced_nodes, sliced_questions, slices) = decided(SMALL, nodes);
        assert_eq!((sliced_nodes, sliced_questions), (chosen, questions));
        assert!(slices > 30, "{slices} slices");
    }
}

#[test]
fn large_pod_with_extenders_preempts_what_it_preempts_in_one_step() {
    let victims = |limits: Limits| {
        let mut harness = Harness::with_cluster(limits);
        extend(&mut harness, &["filter", "preempt"]);
        let reports = preempt(&mut harness);
        (placed(&reports, "large").expect("its victim was deleted"), std::mem::take(&mut harness.questions))
    };
    let (expected, sliced) = (victims(Limits::default()), victims(SMALL));
    assert!(expected.1.iter().any(|question| matches!(question, Question::Preempt { .. })), "{expected:?}");
    assert_eq!(sliced, expected);
}

/// While a large pod is evaluated, it delays no others, even if it will need an extender.
#[test]
fn others_are_decided_between_slices_of_a_large_pod_with_extenders() {
    let mut harness = Harness::with_cluster(SMALL);
    extend(&mut harness, &["filter", "managed=example.com/fpga"]);
    (0..10).for_each(|at| {
        harness.apply(&format!("node n{at} zone=z{} cpu=8 mem=8Gi res:example.com/fpga=1", at % 2));
    });
    harness.apply(&format!("pod {LARGE_POD} res:example.com/fpga=1 priority=1000"));
    (0..20).for_each(|at| harness.apply(&format!("pod small{at} cpu=10m")));
    let reports = harness.run().into_iter();
    let names: Vec<String> =
        reports.filter(|(_, it)| matches!(it, Outcome::Placed { .. })).map(|(name, _)| name).collect();
    let before_large = names.iter().position(|name| name == "large").expect("it is placed");
    assert!(names.len() == 21 && before_large > 10, "{names:?}");
}

/// At most 64 pods wait for extenders at the same time.
#[test]
fn large_pods_that_need_no_extender_do_not_delay_a_pod_that_needs_one() {
    let mut harness = Harness::with_cluster(SMALL);
    extend(&mut harness, &["filter", "managed=example.com/fpga"]);
    harness.apply("node n1 zone=z1 cpu=8 mem=8Gi res:example.com/fpga=1");
    for at in 0..70 {
        harness.apply(&format!("pod {}", LARGE_POD.replacen("large", &format!("large{at}"), 1)));
    }
    harness.apply("pod small cpu=10m res:example.com/fpga=1");
    let placed = |(_, outcome): &&(String, Outcome)| matches!(outcome, Outcome::Placed { .. });
    let reports = harness.run();
    let names: Vec<&String> = reports.iter().filter(placed).map(|(name, _)| name).collect();
    let before_small = names.iter().position(|name| *name == "small").expect("it is placed");
    assert!(names.len() == 71 && before_small < 6, "{names:?}");
}

/// While the pod waits for an extender, others are decided, and what changes counts.
#[test]
fn large_pod_that_waits_for_an_extender_keeps_its_results() {
    let mut harness = Harness::with_cluster(SMALL);
    extend(&mut harness, &["filter", "ignorable", "managed=example.com/fpga"]);
    (0..10).for_each(|at| {
        harness.apply(&format!("node n{at} zone=z{} cpu=8 mem=8Gi res:example.com/fpga=1", at % 2));
    });
    harness.holds_answers = true;
    harness.apply(&format!("pod {LARGE_POD} res:example.com/fpga=1"));
    harness.run();
    let before = harness.scheduler.stats();
    assert_eq!((before.sliced, before.extender_calls), (0, 1));
    assert!(matches!(harness.sub_queue_of("large"), Some(PodLocation::Extenders)));
    assert!(harness.scheduler.held().contains(&("questions to extenders", 1)));
    harness.apply("pod small cpu=1");
    assert!(placed(&harness.run(), "small").is_some());
    (1..10).for_each(|at| harness.apply(&format!("pod other{at} on=n{at} label:app=other")));
    harness.holds_answers = false;
    harness.release_answers();
    let reports = harness.run();
    assert!(
        reports
            .iter()
            .any(|(name, outcome)| name == "large" && matches!(outcome, Outcome::Unschedulable { .. }))
    );
    let slices = harness.scheduler.stats().slices - before.slices;
    assert!(slices < before.slices, "{slices} more after {}", before.slices);
    assert_eq!((harness.scheduler.stats().sliced, harness.scheduler.stats().extender_calls), (0, 0));
}

#[test]
fn at_most_64_large_pods_need_extenders_at_the_same_time() {
    let mut harness = Harness::with_cluster(SMALL);
    extend(&mut harness, &["filter"]);
    harness.holds_answers = true;
    (0..70).for_each(|at| {
        harness.apply(&format!("pod {} cpu=1m", LARGE_POD.replacen("large", &format!("l{at}"), 1)));
    });
    harness.run();
    assert_eq!(harness.scheduler.stats().extender_calls, 64);
    harness.holds_answers = false;
    harness.release_answers();
    let placed =
        harness.run().into_iter().filter(|(_, outcome)| matches!(outcome, Outcome::Placed { .. })).count();
    assert_eq!(placed, 70);
}
