//! Decisions about groups in trials, and those that are compared with recordings of kube-scheduler.

mod support;

use std::sync::Arc;
use supercargo_core::cycle::{Framework, NoProbe};
use supercargo_core::model::effect::Effect;
use supercargo_core::model::emulation::{Compat, GroupGates};
use supercargo_core::model::event::{Event, EvictOutcome, Kind, ObjectKey};
use supercargo_core::model::group::GroupKey;
use supercargo_core::model::intern::Tables;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::queue::QueueConfig;
use supercargo_core::registry::Plan;
use supercargo_core::report::group::{GroupOutcome, GroupReport};
use supercargo_core::scheduler::{
    Config, GroupDecision, Profile, Scheduler, Step, Trial, TrialDecision, TrialOptions,
};
use support::{arrival, begin, groups, language};

const START: Time = Time::from_secs(100);
const OPTIONS: TrialOptions = TrialOptions { uses_caches: true, preempts: true, is_comparable: false };
const COMPARABLE: TrialOptions = TrialOptions { is_comparable: true, ..OPTIONS };
const GATES: [&str; 3] = ["GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling"];

/// Returns tables with the gates, and the profiles that they lead to.
fn rules(gates: &[&str], compat: Compat) -> (Tables, Vec<Profile>) {
    let (mut tables, mut enabled) = (Tables::new(), GroupGates::OFF);
    for gate in gates {
        assert!(enabled.set(gate, true), "no gate {gate}");
    }
    tables.set_group_gates(enabled);
    tables.set_compat(compat);
    let framework = Framework::new(&Plan::of(tables.rules()));
    (tables, vec![Profile { name: "default-scheduler".to_owned(), framework }])
}

/// A cluster, a group and its pending members.
struct Case {
    trial: Trial,
    key: GroupKey,
    members: Vec<Arc<PodInfo>>,
}

impl Case {
    fn new(
        (tables, profiles): (Tables, Vec<Profile>),
        lines: &[&str],
        group: &str,
        members: &[&str],
    ) -> Self {
        let mut trial = Trial::new(Seed(7), profiles, tables);
        for line in lines {
            let event = arrival(trial.tables_mut(), line);
            trial.handle(event);
        }
        let words: Vec<&str> = group.split_whitespace().collect();
        let group = groups::group(trial.tables_mut(), &words);
        let key = group.key;
        trial.handle(Event::PodGroupApplied(Box::new(group)));
        let member = |line: &&str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let pod = language::pod(trial.tables_mut(), &words);
            trial.handle(Event::PodApplied(Box::new(PodInfo::clone(&pod))));
            pod
        };
        let members = members.iter().map(member).collect();
        Self { trial, key, members }
    }

    fn decide(&mut self, options: TrialOptions) -> GroupDecision {
        self.trial.decide_group(self.key, &self.members, options, &mut NoProbe)
    }

    /// Returns the nodes of the members, in order.
    fn nodes(&self, decided: &GroupDecision) -> Vec<String> {
        let text = |node| self.trial.tables().text(node).to_owned();
        decided.nodes.iter().map(|&(_, node)| text(node)).collect()
    }
}

#[test]
fn gang_with_too_few_members_is_not_tried_in_a_trial() {
    let members = ["p cpu=1 group=g", "q cpu=1 group=g"];
    let mut case = Case::new(rules(&GATES, Compat::Repaired), &["node a cpu=4"], "g min=3", &members);
    let decided = case.decide(OPTIONS);
    assert_eq!(decided.outcome, GroupOutcome::Unschedulable);
    assert_eq!(decided.status, "waiting for minCount pods from a gang to appear in scheduling queue");
    assert!(case.nodes(&decided).is_empty());
}

#[test]
fn group_with_unknown_annotation_value_is_refused_in_a_trial() {
    let group = "g min=1 replacements=never";
    let mut case = Case::new(rules(&GATES, Compat::Repaired), &["node a cpu=4"], group, &["p group=g"]);
    let decided = case.decide(OPTIONS);
    assert_eq!(decided.outcome, GroupOutcome::Refused);
    assert!(decided.status.contains("supercargo.dev/replacements"), "{}", decided.status);
}

#[test]
fn trial_names_each_victim_of_members_once() {
    let members = ["p cpu=1 group=g priority=9", "q cpu=1 group=g priority=9"];
    let lines = ["node a cpu=2", "pod low cpu=2 on=a"];
    let mut case = Case::new(rules(&GATES, Compat::Repaired), &lines, "g min=2", &members);
    let decided = case.decide(OPTIONS);
    assert_eq!(decided.outcome, GroupOutcome::WaitingForPreemption);
    assert_eq!(decided.victims, ["low".into()]);
}

#[test]
fn members_in_a_cluster_without_nodes_are_unplaced_for_this_reason() {
    let mut case = Case::new(rules(&GATES, Compat::Repaired), &[], "g min=1", &["p cpu=1 group=g"]);
    let decided = case.decide(OPTIONS);
    let [(_, TrialDecision::Unplaced { message, event, .. })] = &*decided.members else {
        panic!("{decided:?}")
    };
    assert_eq!([message, event], ["no nodes available to schedule pods"; 2]);
}

const FULL_NODES: [&str; 6] = [
    "node a cpu=1",
    "node b cpu=1",
    "node c cpu=1",
    "pod low-a cpu=1 on=a",
    "pod low-b cpu=1 on=b",
    "pod low-c cpu=1 on=c",
];

#[test]
fn upstream_group_spares_the_first_victim_by_name_and_nominates_nobody() {
    let gates = ["GenericWorkload", "GangScheduling", "WorkloadAwarePreemption"];
    let members = ["p cpu=1 group=g priority=9", "q cpu=1 group=g priority=9"];
    let group = "g min=2 priority=9";
    let mut case = Case::new(rules(&gates, Compat::Upstream), &FULL_NODES, group, &members);
    let decided = case.decide(OPTIONS);
    assert_eq!(decided.outcome, GroupOutcome::WaitingForPreemption);
    assert_eq!(decided.victims, ["low-b".into(), "low-c".into()]);
    let is_nominated = |(_, decision): &(Arc<PodInfo>, TrialDecision)| {
        matches!(decision, TrialDecision::Unplaced { room: Some(_), .. })
    };
    assert!(!decided.members.iter().any(is_nominated), "{:?}", decided.members);
}

#[test]
fn members_see_the_image_counts_of_the_start_of_the_cycle() {
    let image = "image=nginx:latest@900Mi";
    let members = ["p cpu=1 mem=2Gi select:disk=ssd group=g", "q cpu=1 mem=2Gi image=nginx:latest group=g"];
    let first = format!("node a cpu=20 mem=40Gi label:disk=ssd {image}");
    let mut case = Case::new(rules(&GATES, Compat::Repaired), &[&first], "g min=2", &members);
    case.trial.refreshed();
    for line in [format!("node b cpu=4 mem=8Gi {image}"), "node c cpu=1 mem=1Gi".to_owned()] {
        let event = arrival(case.trial.tables_mut(), &line);
        case.trial.handle(event);
    }
    // `a` still counts its image on one node, also after `p` is assumed there. With two, `q` would prefer `a`.
    for options in [OPTIONS, COMPARABLE] {
        let mark = case.trial.mark();
        let decided = case.decide(options);
        assert_eq!(case.nodes(&decided), ["a", "b"]);
        case.trial.roll_back_to(mark);
    }
    let pod = language::pod(case.trial.tables_mut(), &["later", "cpu=1", "mem=2Gi"]);
    let node = case.trial.tables_mut().symbol("a");
    case.trial.place_pod(&pod, node);
    let decided = case.decide(OPTIONS);
    assert_eq!(case.nodes(&decided), ["a", "a"], "a change of `a` refreshes its count");
}

#[test]
fn comparable_members_take_the_first_node_by_name_in_their_rack() {
    let node = |at: usize| format!("node n{at} cpu=4 mem=8Gi label:rack=r{}", at / 4);
    let lines: Vec<String> = (0..8).rev().map(node).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let members = ["p cpu=1 mem=2Gi group=g", "q cpu=1 mem=2Gi group=g"];
    let mut case = Case::new(rules(&GATES, Compat::Repaired), &lines, "g min=2 key=rack", &members);
    let decided = case.decide(COMPARABLE);
    assert_eq!(
        (decided.chosen.as_deref(), case.nodes(&decided)),
        (Some("r0"), vec!["n0".into(), "n1".into()])
    );
}

/// The domains of a topology key are kept between decisions, as long as they are those of the nodes.
#[test]
fn groups_find_the_racks_of_nodes_that_were_relabelled_added_and_removed() {
    let lines = ["node a cpu=1 label:rack=x", "node b cpu=1 label:rack=y"];
    let members = ["p cpu=1 group=g", "q cpu=1 group=g"];
    let mut case = Case::new(rules(&GATES, Compat::Repaired), &lines, "g min=2 key=rack", &members);
    let outcome = |case: &mut Case| {
        let mark = case.trial.mark();
        let decided = case.decide(OPTIONS);
        case.trial.roll_back_to(mark);
        decided.outcome
    };
    assert_eq!(outcome(&mut case), GroupOutcome::Unschedulable, "each rack has one node");
    for (line, expected) in [
        ("node b cpu=1 label:rack=x", GroupOutcome::Scheduled),
        ("node b cpu=1 label:row=x", GroupOutcome::Unschedulable),
        ("node c cpu=1 label:rack=x", GroupOutcome::Scheduled),
        ("node c cpu=1 label:rack=z", GroupOutcome::Unschedulable),
        ("node d cpu=1 label:rack=z", GroupOutcome::Scheduled),
    ] {
        let event = arrival(case.trial.tables_mut(), line);
        case.trial.handle(event);
        assert_eq!(outcome(&mut case), expected, "{line}");
    }
    let node = case.trial.tables_mut().symbol("d");
    case.trial.handle(Event::Gone(ObjectKey::Node(node)));
    assert_eq!(outcome(&mut case), GroupOutcome::Unschedulable, "d is gone");
}

#[test]
fn score_of_a_placement_counts_with_the_weight_of_its_plugin() {
    let (tables, _) = rules(&GATES, Compat::Repaired);
    let mut plan = Plan::of(tables.rules());
    plan.weights.insert("NodeResourcesFit", 3);
    let framework = Framework::new(&plan);
    let profiles = vec![Profile { name: "default-scheduler".to_owned(), framework }];
    let lines = ["node a cpu=4 label:rack=r0", "node b cpu=8 label:rack=r1"];
    let members = ["p cpu=1 group=g", "q cpu=1 group=g"];
    let mut case = Case::new((tables, profiles), &lines, "g min=2 key=rack", &members);
    let decided = case.decide(OPTIONS);
    let scores: Vec<_> = decided.placements.iter().map(|it| it.scores.clone()).collect();
    let (half, quarter, all) = (3 * 50, 3 * 25, ("PodGroupPodsCount", 100));
    assert_eq!(scores, [vec![("NodeResourcesFit", half), all], vec![("NodeResourcesFit", quarter), all]]);
}

#[test]
fn search_begins_where_most_members_fit_whether_reports_name_them_or_not() {
    let racks = [("a", ["n1 cpu=4", "n2 cpu=4", "n3 cpu=2"]), ("b", ["n4 cpu=5", "n5 cpu=4", "n6 cpu=1"])];
    let of_rack =
        |(rack, nodes): (&str, [&str; 3])| nodes.map(|node| format!("node {node} label:rack={rack}"));
    let nodes: Vec<String> = racks.into_iter().flat_map(of_rack).collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let members = ["p cpu=1 group=g", "q cpu=1 group=g", "r cpu=4 group=g", "s cpu=4 group=g"];
    // In their order, two members fit in rack `a` and three in rack `b`.
    let mut case = Case::new(rules(&GATES, Compat::Repaired), &nodes, "g min=4 key=rack", &members);
    assert_eq!(case.decide(OPTIONS).chosen.as_deref(), Some("b"));
    let mut scheduler = Running::new(&GATES, Compat::Repaired);
    scheduler.handle(&nodes);
    let pods = members.map(|member| format!("pod {member}"));
    let pods = pods.iter().map(String::as_str);
    let reaction =
        scheduler.handle(&std::iter::once("group g min=4 key=rack").chain(pods).collect::<Vec<_>>());
    assert_eq!(reaction.reports.last().and_then(|report| report.chosen.as_deref()), Some("b"));
}

/// A scheduler that runs.
struct Running {
    scheduler: Scheduler,
    now: Time,
}

/// What a scheduler did in reaction to an input.
#[derive(Default)]
struct Reaction {
    evicted: Vec<String>,
    bound: Vec<(String, String)>,
    reports: Vec<GroupReport>,
}

impl Running {
    fn new(gates: &[&str], compat: Compat) -> Self {
        let (tables, profiles) = rules(gates, compat);
        let config = Config { seed: Seed(7), profiles, queue: QueueConfig::default() };
        let mut scheduler = Scheduler::with_tables(config, tables, START);
        begin(&mut scheduler, START, 1_000);
        scheduler.handle(START, Event::ListBegan(Kind::PodGroup));
        scheduler.handle(START, Event::ListEnded(Kind::PodGroup));
        Self { scheduler, now: START }
    }

    /// Creates one whose decisions are compared with recordings.
    fn comparable(gates: &[&str], compat: Compat) -> Self {
        let mut running = Self::new(gates, compat);
        running.scheduler.set_comparable();
        running
    }

    fn handle(&mut self, lines: &[&str]) -> Reaction {
        for line in lines {
            let event = match line.strip_prefix("group ") {
                Some(group) => {
                    let words: Vec<&str> = group.split_whitespace().collect();
                    Event::PodGroupApplied(Box::new(groups::group(self.scheduler.tables(), &words)))
                }
                None => arrival(self.scheduler.tables(), line),
            };
            self.scheduler.handle(self.now, event);
        }
        self.run()
    }

    fn run(&mut self) -> Reaction {
        let mut reaction = Reaction::default();
        loop {
            match self.scheduler.step(self.now, &mut NoProbe) {
                Step::Idle { .. } => return reaction,
                Step::Effect(Effect::Evict(eviction)) => reaction.evicted.push(eviction.pod.name),
                Step::Effect(Effect::Bind { pod, node }) => reaction.bound.push((pod.name, node)),
                Step::GroupReport(report) => reaction.reports.push(*report),
                Step::Effect(_) | Step::Report(_) | Step::Notice(_) => {}
            }
        }
    }
}

#[test]
fn comparable_scheduler_gives_each_member_the_first_node_by_name() {
    let mut compared = Running::comparable(&GATES, Compat::Upstream);
    let nodes: Vec<String> = (0..8).rev().map(|at| format!("node n{at} cpu=4 mem=8Gi")).collect();
    compared.handle(&nodes.iter().map(String::as_str).collect::<Vec<_>>());
    let reaction =
        compared.handle(&["group g min=2", "pod p cpu=1 mem=2Gi group=g", "pod q cpu=1 mem=2Gi group=g"]);
    let bound: Vec<(&str, &str)> = reaction.bound.iter().map(|(pod, node)| (&**pod, &**node)).collect();
    assert_eq!(bound, [("p", "n0"), ("q", "n1")]);
}

#[test]
fn comparable_scheduler_ignores_nominations_that_the_recorded_queue_lacks() {
    let mut compared = Running::comparable(&GATES, Compat::Upstream);
    compared.handle(&[
        "node a cpu=4 mem=8Gi",
        "node b cpu=4 mem=8Gi",
        "group g min=2",
        "pod p cpu=1 group=g",
    ]);
    compared.handle(&["pod p cpu=1 group=g nominated=b"]);
    let reaction = compared.handle(&["pod q cpu=1 group=g"]);
    assert_eq!(reaction.bound.first(), Some(&("p".to_owned(), "a".to_owned())));
}

#[test]
fn upstream_evicts_the_victims_of_members_whose_group_cannot_start() {
    let mut compared = Running::comparable(&GATES, Compat::Upstream);
    compared.handle(&["node a cpu=1", "pod low cpu=1 on=a", "group g min=3"]);
    let members = ["p", "q", "r"].map(|name| format!("pod {name} cpu=1 group=g priority=9"));
    let reaction = compared.handle(&members.each_ref().map(String::as_str));
    assert_eq!(reaction.evicted, ["low"]);
    assert_eq!(reaction.reports[0].outcome, GroupOutcome::Unschedulable);
}

#[test]
fn upstream_reports_a_victim_once_for_each_member_that_chose_it() {
    let mut compared = Running::comparable(&GATES, Compat::Upstream);
    compared.handle(&["node a cpu=2", "pod low cpu=2 on=a", "group g min=2"]);
    let members = ["p", "q"].map(|name| format!("pod {name} cpu=1 group=g priority=9"));
    let reaction = compared.handle(&members.each_ref().map(String::as_str));
    let victims: Vec<&str> = reaction.reports[0].victims.iter().map(|victim| &*victim.name).collect();
    assert_eq!(victims, ["low", "low"]);
}

/// Returns a scheduler whose group has evicted the first of two victims.
fn preempting() -> Running {
    let gates = ["GenericWorkload", "GangScheduling", "WorkloadAwarePreemption"];
    let mut compared = Running::comparable(&gates, Compat::Upstream);
    compared.handle(&FULL_NODES);
    let members =
        ["pod p cpu=1 group=g priority=9", "pod q cpu=1 group=g priority=9", "group g min=2 priority=9"];
    assert_eq!(compared.handle(&members).evicted, ["low-b"]);
    compared.now = Time::from_secs(120);
    compared
}

impl Running {
    /// Tells the scheduler that the victim of [`preempting`] is deleted.
    fn first_victim_is_deleted(&mut self) {
        let deleted = Event::EvictFinished { uid: "low-b".into(), outcome: EvictOutcome::Deleted };
        self.scheduler.handle(self.now, deleted);
    }
}

#[test]
fn upstream_group_that_starts_elsewhere_evicts_no_further_victims() {
    let mut compared = preempting();
    let reaction = compared.handle(&["node d cpu=2"]);
    assert_eq!((reaction.bound.len(), reaction.evicted.len()), (2, 0));
    compared.first_victim_is_deleted();
    assert!(compared.run().evicted.is_empty());
}

#[test]
fn upstream_evicts_the_chosen_victims_even_if_the_group_fails_meanwhile() {
    let mut compared = preempting();
    let failed = compared.handle(&["node a cpu=1 unschedulable", "node b cpu=1 unschedulable"]);
    assert_eq!(failed.reports.last().map(|report| report.outcome), Some(GroupOutcome::Unschedulable));
    compared.first_victim_is_deleted();
    assert_eq!(compared.run().evicted, ["low-c"]);
}

/// Each kind of request takes time on every node.
#[test]
fn room_of_empty_nodes_is_counted_for_up_to_eight_different_requests() {
    for (kinds, is_counted) in [(8, true), (9, false)] {
        let members: Vec<String> = (1..=kinds).map(|cpu| format!("p{cpu} cpu={cpu} group=g")).collect();
        let members: Vec<&str> = members.iter().map(String::as_str).collect();
        let group = format!("g min={kinds}");
        let mut case = Case::new(rules(&GATES, Compat::Repaired), &["node a cpu=1"], &group, &members);
        let decided = case.decide(OPTIONS);
        assert_eq!(decided.outcome, GroupOutcome::Unschedulable);
        assert_eq!(decided.status.contains("the nodes take at most 1 of"), is_counted, "{}", decided.status);
    }
}
