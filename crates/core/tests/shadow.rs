//! Shadow mode: all verdicts on another scheduler's decisions, races, and decisions that are not compared.

mod support;

use std::sync::Arc;
use std::time::Duration;
use supercargo_core::cycle::{Framework, Sampling};
use supercargo_core::event::{Event, Kind, ObjectKey};
use supercargo_core::framework::registry::{ExtensionPoint, Plan};
use supercargo_core::intern::Tables;
use supercargo_core::rng::Seed;
use supercargo_core::shadow::{Agreement, Judgement, Shadow, Step, Theirs};
use supercargo_core::time::Time;
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
    fn told(&mut self) -> Vec<String> {
        let word = |step| match step {
            Step::Judged(it) => match it.regret {
                Some(regret) => format!("{} {} {regret}", it.pod.name, it.agreement.as_str()),
                None => format!("{} {}", it.pod.name, it.agreement.as_str()),
            },
            Step::Unjudged(pod, why) => format!("{} unjudged: {}", pod.name, why.as_str()),
            other => panic!("nothing else is told of here: {other:?}"),
        };
        self.steps().into_iter().map(word).collect()
    }

    /// Returns the only judgement after the windows have closed.
    fn settled(&mut self) -> Judgement {
        self.wait(2_000);
        let mut steps = self.steps();
        assert_eq!(steps.len(), 1, "{steps:?}");
        match steps.pop() {
            Some(Step::Judged(judgement)) => *judgement,
            other => panic!("a judgement is told of: {other:?}"),
        }
    }
}

#[test]
fn their_node_is_the_only_best() {
    let mut watch = Watch::over(&["a cpu=4", "b cpu=4"]);
    watch.placed("filler cpu=3 on=b");
    watch.bound("p cpu=1", "a");
    assert_eq!(watch.told(), ["p same 0"]);
}

#[test]
fn their_node_is_one_of_the_best() {
    let mut watch = Watch::over(&["a cpu=4", "b cpu=4"]);
    watch.bound("p cpu=1", "b");
    assert_eq!(watch.told(), ["p equal_score 0"]);
    watch.bound("q cpu=1", "a");
    assert_eq!(watch.told(), ["q same 0"], "the pod judged before counts from then on");
}

#[test]
fn a_worse_node_is_told_of_after_two_seconds_with_both_tables() {
    let mut watch = Watch::over(&["a cpu=4", "b cpu=4"]);
    watch.placed("filler cpu=2 on=b");
    watch.bound("p cpu=1", "b");
    assert_eq!(watch.told(), [] as [&str; 0]);
    watch.wait(1_999);
    assert_eq!(watch.told(), [] as [&str; 0]);
    let judgement = {
        watch.wait(1);
        watch.steps()
    };
    let [Step::Judged(judgement)] = &*judgement else { panic!("{judgement:?}") };
    assert_eq!(judgement.agreement, Agreement::Different);
    assert_eq!(judgement.at, Time::from_secs(105));
    let comparison = judgement.comparison.as_ref().expect("a disagreement has tables");
    let ours = comparison.ours.as_ref().expect("there is a node");
    let Theirs::Scored(theirs) = &comparison.theirs else { panic!("{comparison:?}") };
    assert_eq!((&*ours.node, &*theirs.node, comparison.feasible), ("a", "b", 2));
    assert_eq!(judgement.regret, Some(ours.total - theirs.total));
    assert!(ours.total > theirs.total);
    for table in [ours, theirs] {
        let sum: i64 = table.plugins.iter().map(|cell| cell.normalized * cell.weight).sum();
        assert_eq!(sum, table.total);
    }
    let fit = |table: &supercargo_core::shadow::Scored| {
        let cell = table.plugins.iter().find(|cell| cell.plugin == "NodeResourcesFit");
        cell.map(|cell| (cell.raw, cell.normalized, cell.weight)).expect("the plugin scores")
    };
    let ((a, _, weight), (b, normalized, _)) = (fit(ours), fit(theirs));
    assert!(a > b, "the emptier node is the better");
    assert_eq!((b, weight), (normalized, 1), "a plugin that does not normalize says what counts");
}

#[test]
fn a_node_that_cannot_take_the_pod_is_told_of_with_the_reason() {
    let mut watch = Watch::over(&["a cpu=4", "b cpu=1"]);
    watch.bound("p cpu=2", "b");
    let judgement = watch.settled();
    assert_eq!(judgement.agreement, Agreement::TheyFitWeNot);
    let comparison = judgement.comparison.expect("a disagreement has tables");
    assert_eq!(comparison.ours.map(|ours| ours.node).as_deref(), Some("a"));
    let theirs = Theirs::Rejected {
        node: "b".to_owned(),
        plugin: Some("NodeResourcesFit"),
        reason: "Insufficient cpu".to_owned(),
    };
    assert_eq!(comparison.theirs, theirs);
}

#[test]
fn a_pod_they_found_no_node_for_is_judged_when_they_say_so() {
    let mut watch = Watch::over(&["a cpu=4"]);
    watch.pod("p cpu=2 scheduler=them");
    watch.pod("p cpu=2 scheduler=them said=no_room");
    watch.pod("big cpu=9 scheduler=them");
    watch.pod("big cpu=9 scheduler=them said=no_room");
    watch.pod("big cpu=9 scheduler=them said=no_room");
    assert_eq!(watch.told(), ["big neither_fits"], "once for each time they say something else");
    let judgement = watch.settled();
    assert_eq!((&*judgement.pod.name, judgement.agreement), ("p", Agreement::WeFitTheyNot));
    let comparison = judgement.comparison.expect("a disagreement has tables");
    assert_eq!(comparison.theirs, Theirs::None { message: "no room".to_owned() });
    assert_eq!(comparison.ours.map(|ours| ours.node).as_deref(), Some("a"));
}

#[test]
fn a_pod_that_finds_a_place_within_two_seconds_raced_with_the_room() {
    let mut watch = Watch::over(&["a cpu=4"]);
    watch.pod("p cpu=2 scheduler=them");
    watch.pod("p cpu=2 scheduler=them said=no_room");
    watch.wait(100);
    watch.pod("p cpu=2 scheduler=them said=no_room on=a");
    assert_eq!(watch.told(), ["p same 0"]);
    assert_eq!(watch.settled().agreement, Agreement::Raced);
}

/// They place `q` on the emptier node first, and then `p` on the other one. The bindings arrive in reverse order.
#[test]
fn a_binding_that_arrives_later_than_it_was_decided_explains_another() {
    let mut watch = Watch::over(&["a cpu=8", "b cpu=8"]);
    watch.placed("filler cpu=1 on=b");
    watch.bound("p cpu=1", "b");
    watch.wait(2_000 - 1);
    watch.bound("q cpu=3", "a");
    assert_eq!(watch.told(), ["q same 0"]);
    watch.wait(1);
    assert_eq!(watch.told(), ["p raced"]);
}

#[test]
fn what_arrives_after_the_window_explains_nothing() {
    let mut watch = Watch::over(&["a cpu=8", "b cpu=8"]);
    watch.placed("filler cpu=1 on=b");
    watch.bound("p cpu=1", "b");
    watch.wait(2_001);
    watch.bound("q cpu=3", "a");
    let told = watch.told();
    assert!(told.iter().any(|it| it.starts_with("p different ")), "{told:?}");
}

/// They place `p` on the emptier node first, and then `q` on the same one. `q` arrives first.
#[test]
fn a_binding_that_arrives_earlier_than_it_was_decided_explains_another() {
    let mut watch = Watch::over(&["a cpu=8", "b cpu=8"]);
    watch.placed("filler cpu=1 on=b");
    watch.bound("q cpu=3", "a");
    watch.wait(1_000);
    watch.bound("p cpu=1", "a");
    assert_eq!(watch.told(), ["q same 0"]);
    assert_eq!(watch.settled().agreement, Agreement::Raced);
}

/// Far more events arrive in between than orders are tried. Pods on the relevant nodes are found nevertheless.
#[test]
fn a_neighbour_among_hundreds_is_found_by_its_node() {
    let mut watch = Watch::over(&["a cpu=8", "b cpu=8", "far cpu=100000 taint=away:NoSchedule"]);
    watch.placed("filler cpu=1 on=b");
    watch.bound("p cpu=1", "b");
    for at in 0..300 {
        watch.pod(&format!("other{at} cpu=1 on=far"));
    }
    watch.bound("q cpu=3", "a");
    assert_eq!(watch.told(), ["q same 0"]);
    assert_eq!(watch.settled().agreement, Agreement::Raced);
}

#[test]
fn what_can_no_longer_be_turned_back_is_not_judged() {
    let mut watch = Watch::over(&["a cpu=8", "b cpu=8", "far cpu=100000 taint=away:NoSchedule"]);
    watch.placed("filler cpu=1 on=b");
    watch.bound("p cpu=1", "b");
    for _ in 0..10_001 {
        watch.pod("flits cpu=1 on=far");
        watch.gone("flits");
    }
    watch.wait(2_000);
    assert_eq!(watch.told(), ["p unjudged: crowded"]);
}

#[test]
fn a_pod_that_leaves_right_after_explains_why_another_fits() {
    let mut watch = Watch::over(&["a cpu=1", "b cpu=4"]);
    watch.placed("old cpu=4 on=b");
    watch.bound("p cpu=2", "b");
    watch.wait(500);
    watch.gone("old");
    assert_eq!(watch.settled().agreement, Agreement::Raced);
}

/// In one order their node is infeasible, in another it is feasible but worse. So the race explains only half of the
/// difference.
#[test]
fn a_race_that_explains_why_it_fits_does_not_explain_a_worse_node() {
    let mut watch = Watch::over(&["a cpu=8", "b cpu=8"]);
    watch.placed("old cpu=7 on=b");
    watch.placed("stays cpu=4 on=b");
    watch.bound("p cpu=2", "b");
    watch.gone("old");
    let judgement = watch.settled();
    assert_eq!(judgement.agreement, Agreement::Different);
    assert!(judgement.regret > Some(0), "{judgement:?}");
}

#[test]
fn trying_orders_leaves_the_cluster_as_it_is() {
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
    assert!(!watch.told().is_empty());
    assert_eq!(requested(&watch), before);
}

#[test]
fn what_a_list_shows_first_is_not_judged() {
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
    assert_eq!(watch.told(), [] as [&str; 0], "whoever was there before was decided about before");
    watch.handle(Event::ListBegan(Kind::Pod));
    watch.pod("old cpu=1 scheduler=them on=a");
    watch.pod("p cpu=1 scheduler=them on=a");
    watch.handle(Event::ListEnded(Kind::Pod));
    assert_eq!(watch.told(), ["p unjudged: unordered"]);
}

#[test]
fn pods_of_others_and_those_made_with_a_node_are_not_judged() {
    let mut watch = Watch::over(&["a cpu=4"]);
    watch.placed("static cpu=1 scheduler=them on=a");
    watch.pod("other cpu=1 scheduler=somebody");
    watch.placed("other cpu=1 scheduler=somebody on=a");
    assert_eq!(watch.told(), [] as [&str; 0]);
    watch.bound("big cpu=3", "a");
    assert_eq!(watch.settled().agreement, Agreement::TheyFitWeNot, "and count all the same");
}

#[test]
fn a_profile_that_looks_at_a_part_of_the_nodes_is_judged_over_all() {
    let framework = Framework::default().with_sampling(Some(Sampling::new(5)));
    let mut watch = Watch::by(framework);
    for kind in Kind::ALL {
        watch.handle(Event::ListBegan(kind));
        watch.handle(Event::ListEnded(kind));
    }
    (0..200).for_each(|at| watch.node(&format!("n{at} cpu=4")));
    watch.node("last cpu=64");
    watch.bound("p cpu=1", "last");
    assert_eq!(watch.told(), ["p same 0"]);
}

#[test]
fn what_disagreed_by_other_rules_is_looked_at_again_by_those() {
    let mut watch = Watch::over(&["a cpu=4", "b cpu=4"]);
    watch.placed("filler cpu=2 on=b");
    watch.bound("p cpu=1", "b");
    let mut plan = Plan::default();
    plan.points.insert(ExtensionPoint::Score, Vec::new());
    watch.shadow.judge_by(Framework::new(&plan).with_sampling(Some(Sampling::new(1))));
    watch.bound("q cpu=1", "b");
    assert_eq!(watch.told(), ["q equal_score 0"], "by the new ones every node is as good");
    let judgement = watch.settled();
    assert_eq!((&*judgement.pod.name, judgement.agreement), ("p", Agreement::Different));
    assert!(judgement.regret > Some(0), "{judgement:?}");
}

/// Ids held only by a pending pod, or by an open judgement, are not freed.
#[test]
fn ids_that_a_shadow_alone_holds_stay_what_they_are() {
    let mut watch = Watch::over(&["a cpu=4 label:color=red"]);
    let tidied = |watch: &mut Watch, round: u32| {
        (0..100_000).for_each(|at| {
            watch.shadow.tables().symbol(&format!("junk{round}-{at}"));
        });
        assert!((0..100_000).any(|_| watch.shadow.tidy() > 0), "there is something to give back");
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
            Theirs::Rejected { node, reason, .. } => format!("{} on {node}: {reason}", it.pod.name),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    let told: Vec<String> = watch.steps().iter().map(names).collect();
    let expected =
        ["p on n1-7: node(s) didn't match Pod's node affinity/selector", "q on gone: the node is not known"];
    assert_eq!(told, expected);
}

#[test]
fn nothing_is_held_of_pods_that_are_gone() {
    let mut watch = Watch::over(&["a cpu=4", "b cpu=4"]);
    watch.pod("waits cpu=9 scheduler=them");
    watch.placed("filler cpu=2 on=b");
    watch.bound("p cpu=1", "b");
    watch.shadow.tidy();
    watch.wait(2_000);
    assert!(!watch.told().is_empty());
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

fn watch_name(watch: &mut Watch, name: &str) -> supercargo_core::intern::Symbol {
    watch.shadow.tables().symbol(name)
}
