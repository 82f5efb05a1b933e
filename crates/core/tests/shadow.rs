//! Shadow mode: all verdicts on another scheduler's decisions, races, and decisions that are not compared.

mod support;

use std::sync::Arc;
use std::time::Duration;
use supercargo_core::compare::{Agreement, OtherDecision};
use supercargo_core::cycle::{Framework, Sampling};
use supercargo_core::framework::extension_point::ExtensionPoint;
use supercargo_core::model::event::{Event, Kind, ObjectKey};
use supercargo_core::model::intern::Tables;
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::registry::Plan;
use supercargo_core::shadow::{Judgement, Shadow, Step};
use support::language;

/// A shadow of the scheduler `them`, and its clock.
struct Watch {
    shadow: Shadow,
    now: Time,
}

impl Watch {
    /// Creates it with empty, complete lists.
    fn new() -> Self {
        let mut watch = Self::bare();
        for kind in Kind::ALL {
            watch.handle(Event::ListBegan(kind));
            watch.handle(Event::ListEnded(kind));
        }
        watch
    }

    fn bare() -> Self {
        Self::by(Framework::default())
    }

    fn by(framework: Framework) -> Self {
        let now = Time::from_secs(100);
        let shadow = Shadow::new("them", framework, Seed(7), Tables::new(), now);
        Self { shadow, now }
    }

    /// Creates it with these nodes.
    fn over(nodes: &[&str]) -> Self {
        let mut watch = Self::new();
        nodes.iter().for_each(|node| watch.node(node));
        watch
    }

    fn handle(&mut self, event: Event) {
        self.shadow.handle(self.now, event);
    }

    fn wait(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
    }

    fn node(&mut self, words: &str) {
        let words: Vec<&str> = words.split_whitespace().collect();
        let node = language::node(self.shadow.tables(), &words);
        self.handle(Event::NodeApplied(Box::new(Arc::unwrap_or_clone(node))));
    }

    fn pod(&mut self, words: &str) {
        let words: Vec<&str> = words.split_whitespace().collect();
        let pod = language::pod(self.shadow.tables(), &words);
        self.handle(Event::PodApplied(Box::new(Arc::unwrap_or_clone(pod))));
    }

    /// Adds a bound pod, too long ago to explain a race.
    fn placed(&mut self, words: &str) {
        self.pod(words);
        self.wait(5_000);
    }

    /// Adds a pod of the other scheduler, and binds it at once.
    fn bound(&mut self, words: &str, node: &str) {
        self.pod(&format!("{words} scheduler=them"));
        self.pod(&format!("{words} scheduler=them on={node}"));
    }

    fn gone(&mut self, uid: &str) {
        self.handle(Event::Gone(ObjectKey::Pod(uid.into())));
    }

    /// Returns all steps until idle.
    fn steps(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        loop {
            match self.shadow.step(self.now) {
                Step::Idle { .. } => return steps,
                step => steps.push(step),
            }
        }
    }

    /// Returns all steps until idle, as text.
    fn judgements(&mut self) -> Vec<String> {
        let word = |step| match step {
            Step::Judged(it) => match it.regret {
                Some(regret) => format!("{} {} {regret}", it.pod.name, it.agreement.as_str()),
                None => format!("{} {}", it.pod.name, it.agreement.as_str()),
            },
            Step::Unjudged(pod, why) => format!("{} unjudged: {}", pod.name, why.as_str()),
            other => panic!("unexpected step: {other:?}"),
        };
        self.steps().into_iter().map(word).collect()
    }

    /// Returns the only judgement after the windows have closed.
    fn settled_judgement(&mut self) -> Judgement {
        self.wait(2_000);
        let mut steps = self.steps();
        assert_eq!(steps.len(), 1, "{steps:?}");
        match steps.pop() {
            Some(Step::Judged(judgement)) => *judgement,
            other => panic!("expected a judgement: {other:?}"),
        }
    }
}

#[test]
fn other_scheduler_chose_the_only_best_node() {
    let mut watch = Watch::over(&["a cpu=4", "b cpu=4"]);
    watch.placed("filler cpu=3 on=b");
    watch.bound("p cpu=1", "a");
    assert_eq!(watch.judgements(), ["p same 0"]);
}

#[test]
fn other_scheduler_chose_one_of_several_best_nodes() {
    let mut watch = Watch::over(&["a cpu=4", "b cpu=4"]);
    watch.bound("p cpu=1", "b");
    assert_eq!(watch.judgements(), ["p equal_score 0"]);
    watch.bound("q cpu=1", "a");
    assert_eq!(watch.judgements(), ["q same 0"], "the pod judged before counts from then on");
}

#[test]
fn worse_node_is_reported_after_two_seconds_with_both_score_tables() {
    let mut watch = Watch::over(&["a cpu=4", "b cpu=4"]);
    watch.placed("filler cpu=2 on=b");
    watch.bound("p cpu=1", "b");
    assert_eq!(watch.judgements(), [] as [&str; 0]);
    watch.wait(1_999);
    assert_eq!(watch.judgements(), [] as [&str; 0]);
    let judgement = {
        watch.wait(1);
        watch.steps()
    };
    let [Step::Judged(judgement)] = &*judgement else { panic!("{judgement:?}") };
    assert_eq!(judgement.agreement, Agreement::Different);
    assert_eq!(judgement.at, Time::from_secs(105));
    let comparison = judgement.comparison.as_ref().expect("a disagreement has tables");
    let ours = comparison.ours.as_ref().expect("a node exists");
    let OtherDecision::Scored(theirs) = &comparison.theirs else { panic!("{comparison:?}") };
    assert_eq!((&*ours.node, &*theirs.node, comparison.feasible), ("a", "b", 2));
    assert_eq!(judgement.regret, Some(ours.total - theirs.total));
    assert!(ours.total > theirs.total);
    for table in [ours, theirs] {
        let sum: i64 = table.plugins.iter().map(|cell| cell.normalized * cell.weight).sum();
        assert_eq!(sum, table.total);
    }
    let fit = |table: &supercargo_core::compare::Scored| {
        let cell = table.plugins.iter().find(|cell| cell.plugin == "NodeResourcesFit");
        cell.map(|cell| (cell.raw, cell.normalized, cell.weight)).expect("the plugin scores")
    };
    let ((a, _, weight), (b, normalized, _)) = (fit(ours), fit(theirs));
    assert!(a > b, "the emptier node is the better");
    assert_eq!((b, weight), (normalized, 1), "without normalization the raw score counts");
}

#[test]
fn infeasible_node_is_reported_with_the_reason() {
    let mut watch = Watch::over(&["a cpu=4", "b cpu=1"]);
    watch.bound("p cpu=2", "b");
    let judgement = watch.settled_judgement();
    assert_eq!(judgement.agreement, Agreement::TheyFitWeNot);
    let comparison = judgement.comparison.expect("a disagreement has tables");
    assert_eq!(comparison.ours.map(|ours| ours.node).as_deref(), Some("a"));
    let theirs = OtherDecision::Rejected {
        node: "b".to_owned(),
        plugin: Some("NodeResourcesFit"),
        reason: "Insufficient cpu".to_owned(),
    };
    assert_eq!(comparison.theirs, theirs);
}

#[test]
fn pod_the_other_scheduler_rejects_is_compared_at_its_status_update() {
    let mut watch = Watch::over(&["a cpu=4"]);
    watch.pod("p cpu=2 scheduler=them");
    watch.pod("p cpu=2 scheduler=them said=no_room");
    watch.pod("big cpu=9 scheduler=them");
    watch.pod("big cpu=9 scheduler=them said=no_room");
    watch.pod("big cpu=9 scheduler=them said=no_room");
    assert_eq!(watch.judgements(), ["big neither_fits"], "once for each time they say something else");
    let judgement = watch.settled_judgement();
    assert_eq!((&*judgement.pod.name, judgement.agreement), ("p", Agreement::WeFitTheyNot));
    let comparison = judgement.comparison.expect("a disagreement has tables");
    assert_eq!(comparison.theirs, OtherDecision::None { message: "no room".to_owned() });
    assert_eq!(comparison.ours.map(|ours| ours.node).as_deref(), Some("a"));
}

#[test]
fn pod_that_becomes_schedulable_within_two_seconds_is_raced() {
    let mut watch = Watch::over(&["a cpu=4"]);
    watch.pod("p cpu=2 scheduler=them");
    watch.pod("p cpu=2 scheduler=them said=no_room");
    watch.wait(100);
    watch.pod("p cpu=2 scheduler=them said=no_room on=a");
    assert_eq!(watch.judgements(), ["p same 0"]);
    assert_eq!(watch.settled_judgement().agreement, Agreement::Raced);
}

/// They place `q` on the emptier node first, and then `p` on the other one. The bindings arrive in reverse order.
#[test]
fn late_binding_explains_another_decision() {
    let mut watch = Watch::over(&["a cpu=8", "b cpu=8"]);
    watch.placed("filler cpu=1 on=b");
    watch.bound("p cpu=1", "b");
    watch.wait(2_000 - 1);
    watch.bound("q cpu=3", "a");
    assert_eq!(watch.judgements(), ["q same 0"]);
    watch.wait(1);
    assert_eq!(watch.judgements(), ["p raced"]);
}

#[test]
fn event_after_the_window_explains_nothing() {
    let mut watch = Watch::over(&["a cpu=8", "b cpu=8"]);
    watch.placed("filler cpu=1 on=b");
    watch.bound("p cpu=1", "b");
    watch.wait(2_001);
    watch.bound("q cpu=3", "a");
    let judgements = watch.judgements();
    assert!(judgements.iter().any(|it| it.starts_with("p different ")), "{judgements:?}");
}

/// They place `p` on the emptier node first, and then `q` on the same one. `q` arrives first.
#[test]
fn early_binding_explains_another_decision() {
    let mut watch = Watch::over(&["a cpu=8", "b cpu=8"]);
    watch.placed("filler cpu=1 on=b");
    watch.bound("q cpu=3", "a");
    watch.wait(1_000);
    watch.bound("p cpu=1", "a");
    assert_eq!(watch.judgements(), ["q same 0"]);
    assert_eq!(watch.settled_judgement().agreement, Agreement::Raced);
}

/// The placement of the updated pod was long ago.
#[test]
fn update_of_a_placed_pod_explains_nothing() {
    let mut watch = Watch::over(&["a cpu=4", "b cpu=4"]);
    watch.placed("filler cpu=2 on=b");
    watch.pod("filler cpu=2 on=b label:x=y");
    watch.bound("p cpu=1", "b");
    assert_eq!(watch.settled_judgement().agreement, Agreement::Different);
}

/// Far more events arrive in between than orders are tried. Pods on the relevant nodes are found nevertheless.
#[test]
fn explaining_binding_is_found_by_node_among_hundreds() {
    let mut watch = Watch::over(&["a cpu=8", "b cpu=8", "far cpu=100000 taint=away:NoSchedule"]);
    watch.placed("filler cpu=1 on=b");
    watch.bound("p cpu=1", "b");
    for at in 0..300 {
        watch.pod(&format!("other{at} cpu=1 on=far"));
    }
    watch.bound("q cpu=3", "a");
    assert_eq!(watch.judgements(), ["q same 0"]);
    assert_eq!(watch.settled_judgement().agreement, Agreement::Raced);
}

#[test]
fn decision_that_cannot_be_rewound_is_not_compared() {
    let mut watch = Watch::over(&["a cpu=8", "b cpu=8", "far cpu=100000 taint=away:NoSchedule"]);
    watch.placed("filler cpu=1 on=b");
    watch.bound("p cpu=1", "b");
    for _ in 0..10_001 {
        watch.pod("flits cpu=1 on=far");
        watch.gone("flits");
    }
    watch.wait(2_000);
    assert_eq!(watch.judgements(), ["p unjudged: crowded"]);
}

#[test]
fn pod_deleted_right_after_explains_why_another_fits() {
    let mut watch = Watch::over(&["a cpu=1", "b cpu=4"]);
    watch.placed("old cpu=4 on=b");
    watch.bound("p cpu=2", "b");
    watch.wait(500);
    watch.gone("old");
    assert_eq!(watch.settled_judgement().agreement, Agreement::Raced);
}

/// In one order their node is infeasible, in another it is feasible but worse. So the race explains only half of the
/// difference.
#[test]
fn race_that_explains_feasibility_does_not_explain_a_worse_node() {
    let mut watch = Watch::over(&["a cpu=8", "b cpu=8"]);
    watch.placed("old cpu=7 on=b");
    watch.placed("stays cpu=4 on=b");
    watch.bound("p cpu=2", "b");
    watch.gone("old");
    let judgement = watch.settled_judgement();
    assert_eq!(judgement.agreement, Agreement::Different);
    assert!(judgement.regret > Some(0), "{judgement:?}");
}

#[test]
fn trying_event_orders_leaves_the_cache_unchanged() {
    let mut watch = Watch::over(&["a cpu=8", "b cpu=8"]);
    watch.placed("filler cpu=1 on=b");
    watch.bound("p cpu=1", "b");
    watch.bound("q cpu=2", "a");
    watch.pod("r cpu=1 on=a");
    watch.gone("q");
    let requested = |watch: &Watch| {
        let snapshot = watch.shadow.watched().snapshot();
        let nodes = snapshot.nodes().iter();
        nodes
            .map(|node| (snapshot.requested(node).cpu_milli, snapshot.pods_on(node).count()))
            .collect::<Vec<_>>()
    };
    let before = requested(&watch);
    assert_eq!(before, [(1_000, 1), (2_000, 2)]);
    watch.wait(2_000);
    assert!(!watch.judgements().is_empty());
    assert_eq!(requested(&watch), before);
}

#[test]
fn pods_of_the_first_list_are_not_compared() {
    let mut watch = Watch::bare();
    for kind in Kind::ALL {
        watch.handle(Event::ListBegan(kind));
        match kind {
            Kind::Node => watch.node("a cpu=4"),
            Kind::Pod => {
                watch.pod("old cpu=1 scheduler=them on=a");
                watch.pod("p cpu=1 scheduler=them");
            }
            _ => {}
        }
        watch.handle(Event::ListEnded(kind));
    }
    assert_eq!(watch.judgements(), [] as [&str; 0], "pods of the first list were decided before");
    watch.handle(Event::ListBegan(Kind::Pod));
    watch.pod("old cpu=1 scheduler=them on=a");
    watch.pod("p cpu=1 scheduler=them on=a");
    watch.handle(Event::ListEnded(Kind::Pod));
    assert_eq!(watch.judgements(), ["p unjudged: unordered"]);
}

#[test]
fn pods_of_other_schedulers_and_pods_created_with_a_node_are_not_compared() {
    let mut watch = Watch::over(&["a cpu=4"]);
    watch.placed("static cpu=1 scheduler=them on=a");
    watch.pod("other cpu=1 scheduler=another");
    watch.placed("other cpu=1 scheduler=another on=a");
    assert_eq!(watch.judgements(), [] as [&str; 0]);
    watch.bound("big cpu=3", "a");
    assert_eq!(watch.settled_judgement().agreement, Agreement::TheyFitWeNot, "and count all the same");
}

#[test]
fn profile_that_samples_nodes_is_compared_over_all_nodes() {
    let framework = Framework::default().with_sampling(Some(Sampling::new(5)));
    let mut watch = Watch::by(framework);
    for kind in Kind::ALL {
        watch.handle(Event::ListBegan(kind));
        watch.handle(Event::ListEnded(kind));
    }
    (0..200).for_each(|at| watch.node(&format!("n{at} cpu=4")));
    watch.node("last cpu=64");
    watch.bound("p cpu=1", "last");
    assert_eq!(watch.judgements(), ["p same 0"]);
}

#[test]
fn disagreement_is_checked_again_by_the_rules_of_its_decision() {
    let mut watch = Watch::over(&["a cpu=4", "b cpu=4"]);
    watch.placed("filler cpu=2 on=b");
    watch.bound("p cpu=1", "b");
    let mut plan = Plan::default();
    plan.points.insert(ExtensionPoint::Score, Vec::new());
    watch.shadow.judge_by(Framework::new(&plan).with_sampling(Some(Sampling::new(1))));
    watch.bound("q cpu=1", "b");
    assert_eq!(watch.judgements(), ["q equal_score 0"], "by the new ones every node is as good");
    let judgement = watch.settled_judgement();
    assert_eq!((&*judgement.pod.name, judgement.agreement), ("p", Agreement::Different));
    assert!(judgement.regret > Some(0), "{judgement:?}");
}

/// Ids held only by a pending pod, or by an open judgement, are not freed.
#[test]
fn ids_held_only_by_shadow_mode_are_not_reused() {
    let mut watch = Watch::over(&["a cpu=4 label:color=red"]);
    let tidied = |watch: &mut Watch, round: u32| {
        (0..100_000).for_each(|at| {
            watch.shadow.tables().symbol(&format!("junk{round}-{at}"));
        });
        assert!((0..100_000).any(|_| watch.shadow.collect_ids() > 0), "unused ids exist");
        // Freed ids are reused.
        (0..1_000).for_each(|at| watch.node(&format!("n{round}-{at} cpu=1 label:color=c{round}-{at}")));
    };
    watch.pod("p cpu=2 select:color=mauve scheduler=them");
    tidied(&mut watch, 1);
    watch.pod("p cpu=2 select:color=mauve scheduler=them on=n1-7");
    watch.pod("q cpu=3 select:color=red scheduler=them");
    watch.pod("q cpu=3 select:color=red scheduler=them on=gone");
    tidied(&mut watch, 2);
    watch.wait(2_000);
    let names = |step: &Step| match step {
        Step::Judged(it) => match &it.comparison.as_ref().expect("they disagree").theirs {
            OtherDecision::Rejected { node, reason, .. } => format!("{} on {node}: {reason}", it.pod.name),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    let judgements: Vec<String> = watch.steps().iter().map(names).collect();
    let expected =
        ["p on n1-7: node(s) didn't match Pod's node affinity/selector", "q on gone: the node is not known"];
    assert_eq!(judgements, expected);
}

#[test]
fn deleted_pods_leave_no_state() {
    let mut watch = Watch::over(&["a cpu=4", "b cpu=4"]);
    watch.pod("waits cpu=9 scheduler=them");
    watch.placed("filler cpu=2 on=b");
    watch.bound("p cpu=1", "b");
    watch.shadow.collect_ids();
    watch.wait(2_000);
    assert!(!watch.judgements().is_empty());
    ["waits", "filler", "p"].iter().for_each(|uid| watch.gone(uid));
    watch.wait(10_000);
    watch.pod("last cpu=1 on=a");
    watch.gone("last");
    watch.wait(10_000);
    watch.gone("last");
    let a = watch_name(&mut watch, "a");
    watch.handle(Event::Gone(ObjectKey::Node(a)));
    let b = watch_name(&mut watch, "b");
    watch.handle(Event::Gone(ObjectKey::Node(b)));
    let held: Vec<_> = watch.shadow.held().into_iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(held, []);
}

fn watch_name(watch: &mut Watch, name: &str) -> supercargo_core::model::intern::Symbol {
    watch.shadow.tables().symbol(name)
}
