//! Groups that require a topology domain: shared results equal those of the full evaluation, and save it.

mod support;

use std::sync::Arc;
use supercargo_core::cycle::{Evaluation, Framework, Point, Probe};
use supercargo_core::framework::extension_point::ExtensionPoint;
use supercargo_core::model::emulation::{Compat, GroupGates};
use supercargo_core::model::event::Event;
use supercargo_core::model::group::GroupKey;
use supercargo_core::model::intern::Tables;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::model::rng::Seed;
use supercargo_core::registry::Plan;
use supercargo_core::report::group::GroupOutcome;
use supercargo_core::scheduler::{GroupDecision, Profile, Trial, TrialDecision, TrialOptions};
use support::{arrival, groups, language};

/// Clusters of the law. Both versions decide in them in a few seconds of a debug build.
const CLUSTERS: u64 = 400;
const SHARED: TrialOptions = TrialOptions { uses_caches: true, preempts: true, is_comparable: false };
const FULL: TrialOptions = TrialOptions { uses_caches: false, ..SHARED };

/// A deterministic sequence of random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn one_of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

/// Counts full evaluations.
#[derive(Default)]
struct Evaluations(usize);

impl Probe for Evaluations {
    fn evaluated(&mut self, _: &Evaluation<'_>) {
        self.0 += 1;
    }
}

/// A cluster, a group and its pending members.
struct World {
    trial: Trial,
    key: GroupKey,
    members: Vec<Arc<PodInfo>>,
}

impl World {
    fn new(seed: u64, lines: &[String], group: &str, members: &[String]) -> Self {
        Self::with_plan(seed, lines, group, members, |_| {})
    }

    /// As [`Self::new`], with another choice of plugins.
    fn with_plan(
        seed: u64,
        lines: &[String],
        group: &str,
        members: &[String],
        change: impl Fn(&mut Plan),
    ) -> Self {
        let mut tables = Tables::new();
        let mut gates = GroupGates::OFF;
        for gate in ["GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling"] {
            assert!(gates.set(gate, true), "no gate {gate}");
        }
        tables.set_group_gates(gates);
        let mut plan = Plan::of(tables.rules());
        change(&mut plan);
        let framework = Framework::new(&plan);
        let profiles = vec![Profile { name: "default-scheduler".to_owned(), framework }];
        let mut trial = Trial::new(Seed(seed), profiles, tables);
        for line in lines {
            let event = arrival(trial.tables_mut(), line);
            trial.handle(event);
        }
        let words: Vec<&str> = group.split_whitespace().collect();
        let group = groups::group(trial.tables_mut(), &words);
        let key = group.key;
        trial.handle(Event::PodGroupApplied(Box::new(group)));
        let member = |line: &String| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let pod = language::pod(trial.tables_mut(), &words);
            trial.handle(Event::PodApplied(Box::new(PodInfo::clone(&pod))));
            pod
        };
        let members = members.iter().map(member).collect();
        Self { trial, key, members }
    }

    /// Decides on the group and undoes it. Returns the number of full evaluations, too.
    fn decide(&mut self, options: TrialOptions) -> (GroupDecision, usize) {
        let (mark, mut evaluations) = (self.trial.mark(), Evaluations::default());
        let decided = self.trial.decide_group(self.key, &self.members, options, &mut evaluations);
        self.trial.roll_back_to(mark);
        (decided, evaluations.0)
    }
}

/// What nodes of generated clusters have.
const NODES: [&str; 6] = [
    "cpu=4 mem=8Gi",
    "cpu=8 mem=16Gi image=nginx:latest@900Mi",
    "cpu=2 mem=8Gi label:disk=ssd",
    "cpu=4 mem=4Gi taint=spot:PreferNoSchedule",
    "cpu=8 mem=8Gi taint=gpu:NoSchedule",
    "cpu=4 mem=8Gi pods=3",
];
/// What pods on nodes have.
const PLACED: [&str; 5] = [
    "cpu=1 label:app=web",
    "cpu=2 mem=1Gi",
    "label:app=db anti=host/app=db cpu=1",
    "label:app=web prefer-anti=7/rack/app=web",
    "port=80 cpu=1",
];
/// What members have that only the nodes judge.
const PLAIN: [&str; 7] = [
    "cpu=1 mem=1Gi",
    "cpu=1 named",
    "cpu=2 mem=1Gi tolerate=gpu",
    "cpu=1 prefer=5/disk=ssd",
    "cpu=1 select:disk=ssd",
    "cpu=1 mem=2Gi image=nginx:latest",
    "cpu=3 mem=3Gi",
];
/// What members have that other pods matter for.
const BOUND_TO_OTHERS: [&str; 8] = [
    "label:app=web spread=zone/1/DoNotSchedule/app=web cpu=1",
    "label:app=web spread=host/1/ScheduleAnyway/app=web cpu=1",
    "label:app=db anti=host/app=db cpu=1",
    "label:app=db anti=rack/app=db cpu=1",
    "label:app=web affinity=rack/app=web cpu=1",
    "cpu=1 prefer-affinity=10/host/app=web",
    "port=80 cpu=1",
    "label:app=web spread=rack/1/DoNotSchedule/app=web cpu=1",
];

/// Generates racks of one, two, three and more nodes with pods on them, some of them members, and pending members.
fn generated(number: u64) -> World {
    let mut random = Random(number);
    let (mut lines, mut node) = (Vec::new(), 0);
    let racks = 1 + random.below(6);
    let own_rack = random.below(3 * racks);
    for rack in 0..racks {
        let size = [1, 2, 3, 9][random.below(4)];
        for at in 0..size {
            let label = if random.below(20) == 0 { String::new() } else { format!("label:rack=r{rack}") };
            lines.push(format!("node n{node} zone=z{} {label} {}", node % 3, random.one_of(&NODES)));
            if random.below(3) == 0 {
                lines.push(format!("pod e{node} on=n{node} {}", random.one_of(&PLACED)));
            }
            if rack == own_rack && at == 0 && !label.is_empty() {
                lines.push(format!("pod m{node} on=n{node} group=g cpu=1 label:app=web"));
            }
            node += 1;
        }
    }
    if random.below(6) == 0 {
        lines.push(format!("pod other nominated=n{} cpu=1 priority=5", random.below(node)));
    }
    let templates: Vec<&str> = match random.below(3) {
        0 => vec![random.one_of(&PLAIN)],
        1 => vec![random.one_of(&PLAIN), random.one_of(&PLAIN)],
        _ => vec![random.one_of(&PLAIN), random.one_of(&BOUND_TO_OTHERS), random.one_of(&BOUND_TO_OTHERS)],
    };
    let (count, is_indexed) = (1 + random.below(9), random.below(2) == 0);
    // Few names: such pods always get a full evaluation.
    let named = if random.below(2) == 0 { 3 } else { 12 };
    let names: String = (0..named).map(|at| format!(" require=@name:in:n{}", 2 * at)).collect();
    let member = |at: usize| {
        let template = templates[random.below(templates.len())].replace(" named", &names);
        let index = if is_indexed { format!("label:index={at}") } else { String::new() };
        let nominated = if random.below(40) == 0 { "nominated=n0" } else { "" };
        format!("p{at} group=g {template} {index} {nominated}")
    };
    let members: Vec<String> = (0..count).map(member).collect();
    let min = 1 + random.below(count);
    let topology = match number % 5 {
        0 => "preferred-topology=rack",
        1 => "key=rack preferred-topology=kubernetes.io/hostname",
        2 => "preferred-topology=topology.kubernetes.io/zone,rack rank-label=index",
        _ => "key=rack",
    };
    World::new(number, &lines, &format!("g min={min} {topology}"), &members)
}

#[test]
fn shared_results_in_placements_equal_full_evaluations() {
    let (mut shared_total, mut full_total, mut scheduled, mut several) = (0, 0, 0, 0);
    for number in 0..CLUSTERS {
        let mut world = generated(number);
        let (full, of_full) = world.decide(FULL);
        let (shared, of_shared) = world.decide(SHARED);
        assert_eq!(shared, full, "cluster {number}");
        assert_eq!(world.decide(SHARED).0, full, "cluster {number} again");
        (shared_total, full_total) = (shared_total + of_shared, full_total + of_full);
        scheduled += u64::from(full.outcome == GroupOutcome::Scheduled);
        several += u64::from(full.placements.iter().filter(|it| it.code == "Success").count() > 1);
    }
    assert!(5 * shared_total < 3 * full_total, "{shared_total} of {full_total} full evaluations");
    assert!(scheduled > CLUSTERS / 4 && scheduled < CLUSTERS * 9 / 10, "{scheduled} groups start");
    assert!(several > CLUSTERS / 8, "{several} groups fit in several racks");
}

/// Filter and Score fail without what PreFilter and PreScore compute.
#[test]
fn group_is_decided_in_full_if_a_plugin_lacks_its_preparation() {
    use ExtensionPoint::{PreFilter, PreScore};
    let node = |at: usize| format!("node n{at} cpu=4 mem=8Gi label:rack=r{}", at / 2);
    let lines: Vec<String> = (0..4).map(node).collect();
    for (point, plugin) in [(PreFilter, "InterPodAffinity"), (PreScore, "PodTopologySpread")] {
        let spread = "label:app=web spread=host/1/ScheduleAnyway/app=web affinity=rack/app=web cpu=1";
        let members: Vec<String> = (0..3).map(|at| format!("p{at} group=g {spread}")).collect();
        let mut world = World::with_plan(7, &lines, "g min=3 key=rack", &members, |plan| {
            plan.points.get_mut(&point).expect("a default point").retain(|name| *name != plugin);
        });
        let (full, _) = world.decide(FULL);
        assert_ne!(full.outcome, GroupOutcome::Scheduled, "{plugin}: {full:?}");
        assert_eq!(world.decide(SHARED).0, full, "{plugin}");
    }
}

#[test]
fn group_stays_in_the_domain_of_its_members() {
    let racks = |second: usize| {
        let node = |at: usize| format!("node n{at} cpu=8 mem=8Gi label:rack=r{}", at / 2);
        let mut lines: Vec<String> = (0..6).map(node).collect();
        lines.push("pod m0 on=n2 group=g cpu=1".to_owned());
        lines.push(format!("pod m1 on=n{second} group=g cpu=1"));
        World::new(7, &lines, "g min=3 key=rack", &["p group=g cpu=1".to_owned()]).decide(SHARED).0
    };
    let decided = racks(3);
    assert_eq!((decided.outcome, decided.chosen.as_deref()), (GroupOutcome::Scheduled, Some("r1")));
    let decided = racks(4);
    assert_ne!(decided.outcome, GroupOutcome::Scheduled);
    assert!(decided.status.contains("more than 1 domain found for pod group: r1, r2"), "{}", decided.status);
}

/// Scores are normalized over the feasible nodes: without the best one, the second best has its points.
#[test]
fn node_that_becomes_full_leaves_its_points_to_others() {
    let rack = |rack: usize| {
        let nodes = ["cpu=1 label:tier=a", "cpu=4 label:tier=b", "cpu=8", "cpu=8"];
        nodes
            .into_iter()
            .enumerate()
            .map(move |(at, words)| format!("node n{rack}{at} label:rack=r{rack} mem=8Gi {words}"))
    };
    let lines: Vec<String> = (0..2).flat_map(rack).collect();
    let member = |at: usize| format!("p{at} group=g cpu=1 prefer=10/tier=a prefer=5/tier=b");
    let members: Vec<String> = (0..4).map(member).collect();
    let mut world = World::new(7, &lines, "g min=4 key=rack", &members);
    let (full, _) = world.decide(FULL);
    let (shared, evaluations) = world.decide(SHARED);
    assert_eq!((shared, evaluations), (full.clone(), 0));
    let scores: Vec<_> = full
        .members
        .iter()
        .map(|(_, decision)| match decision {
            TrialDecision::Placed { score, .. } => *score,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(scores[1] >= scores[0], "the second node has the points of the best: {scores:?}");
}

/// Racks of five equal nodes each.
fn equal_racks(racks: usize, member: impl Fn(usize) -> String) -> World {
    let node = |at: usize| format!("node n{at} cpu=4 mem=8Gi label:rack=r{}", at / 5);
    let lines: Vec<String> = (0..5 * racks).map(node).collect();
    let members: Vec<String> = (0..12).map(|at| format!("p{at} group=g {}", member(at))).collect();
    World::new(7, &lines, "g min=12 key=rack", &members)
}

#[test]
fn members_that_differ_in_unread_labels_need_no_full_evaluation() {
    let mut world = equal_racks(8, |at| format!("cpu=1 label:index={at}"));
    let (decided, evaluations) = world.decide(SHARED);
    assert_eq!((decided.outcome, evaluations), (GroupOutcome::Scheduled, 0));
    assert_eq!(world.decide(FULL).1, 8 * 12);
}

#[test]
fn rejection_of_equal_members_is_found_once_in_a_placement() {
    let mut world = equal_racks(8, |_| "cpu=2".to_owned());
    let (decided, evaluations) = world.decide(SHARED);
    // One in each rack, and one that finds the reasons.
    assert_eq!((decided.outcome, evaluations), (GroupOutcome::Unschedulable, 8 + 1));
    // Decisions that share nothing know the reasons: no placement is tried again.
    let alone = TrialOptions { is_comparable: true, preempts: false, ..FULL };
    assert_eq!(world.decide(alone).1, 8 * 12);
}

/// A small cluster with a group, for a search over all assignments.
struct Small {
    /// By node: its rack, and its CPUs.
    nodes: Vec<(usize, usize)>,
    /// By member: its CPUs, and its constraint.
    members: Vec<(usize, Constraint)>,
    min: usize,
    needs_rack: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Constraint {
    None,
    /// No two members with it share a node.
    Apart,
    /// All members with it share a rack.
    Together,
}

impl Small {
    fn generated(number: u64) -> Self {
        let mut random = Random(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let racks = 1 + random.below(3);
        let nodes = (0..2 + random.below(3)).map(|at| (at % racks, 2 + random.below(5))).collect();
        let constraint = |random: &mut Random| match random.below(4) {
            0 => Constraint::Apart,
            1 => Constraint::Together,
            _ => Constraint::None,
        };
        let count = 2 + random.below(4);
        let members: Vec<_> = (0..count).map(|_| (1 + random.below(4), constraint(&mut random))).collect();
        let min = count - random.below(2);
        Self { nodes, members, min, needs_rack: random.below(3) == 0 }
    }

    fn world(&self, compat: Compat, options: &str) -> World {
        let nodes = self.nodes.iter().enumerate();
        let lines: Vec<String> = nodes
            .map(|(at, (rack, cpu))| format!("node n{at} cpu={cpu} mem=64Gi label:rack=r{rack}"))
            .collect();
        let members = self.members.iter().enumerate().map(|(at, (cpu, constraint))| {
            let constraint = match constraint {
                Constraint::None => "",
                Constraint::Apart => "label:app=x anti=host/app=x",
                Constraint::Together => "label:app=y affinity=rack/app=y",
            };
            let role = if at + 1 == self.members.len() { "leader" } else { "worker" };
            format!("p{at} group=g cpu={cpu} {constraint} label:role={role}")
        });
        let members: Vec<String> = members.collect();
        let key = if self.needs_rack { "key=rack" } else { "" };
        let mut world = World::new(7, &lines, &format!("g min={} {key} {options}", self.min), &members);
        world.trial.tables_mut().set_compat(compat);
        world
    }

    /// Whether the group may start with its members on these nodes.
    fn allows(&self, nodes: &[Option<usize>]) -> bool {
        let placed: Vec<_> =
            self.members.iter().zip(nodes).filter_map(|(member, node)| Some((member, (*node)?))).collect();
        let used =
            |node: usize| placed.iter().filter(|(_, on)| *on == node).map(|((cpu, _), _)| cpu).sum::<usize>();
        let with = |constraint| placed.iter().filter(move |((_, own), _)| *own == constraint);
        let apart: std::collections::BTreeSet<_> = with(Constraint::Apart).map(|(_, node)| node).collect();
        let racks_of = |nodes: Vec<usize>| -> std::collections::BTreeSet<usize> {
            nodes.into_iter().map(|node| self.nodes[node].0).collect()
        };
        placed.len() >= self.min
            && self.nodes.iter().enumerate().all(|(node, (_, cpu))| used(node) <= *cpu)
            && apart.len() == with(Constraint::Apart).count()
            && racks_of(with(Constraint::Together).map(|(_, node)| *node).collect()).len() <= 1
            && (!self.needs_rack || racks_of(placed.iter().map(|(_, node)| *node).collect()).len() == 1)
    }

    /// Whether any assignment of members to nodes lets the group start.
    fn can_start(&self) -> bool {
        self.can_start_with(|_| true)
    }

    /// Whether any assignment with this property lets the group start.
    fn can_start_with(&self, is_allowed: impl Fn(&[Option<usize>]) -> bool) -> bool {
        let choices = self.nodes.len() + 1;
        let assignments = choices.pow(self.members.len() as u32);
        (0..assignments).any(|mut number| {
            let mut next = || {
                let choice = number % choices;
                number /= choices;
                choice.checked_sub(1)
            };
            let nodes: Vec<Option<usize>> = self.members.iter().map(|_| next()).collect();
            is_allowed(&nodes) && self.allows(&nodes)
        })
    }

    /// Decides on the group. Returns the nodes of its members if it starts.
    fn started(&self, compat: Compat) -> Option<Vec<Option<usize>>> {
        self.started_with(compat, "")
    }

    /// As [`Self::started`], with annotations of the group.
    fn started_with(&self, compat: Compat, options: &str) -> Option<Vec<Option<usize>>> {
        let mut world = self.world(compat, options);
        let (decided, _) = world.decide(SHARED);
        let node = |decision: &TrialDecision| match decision {
            TrialDecision::Placed { node, .. } => world.trial.tables().text(*node)[1..].parse().ok(),
            TrialDecision::Unplaced { .. } | TrialDecision::Failed(_) => None,
        };
        let nodes = decided.members.iter().map(|(_, decision)| node(decision)).collect();
        (decided.outcome == GroupOutcome::Scheduled).then_some(nodes)
    }
}

#[test]
fn search_starts_groups_that_the_greedy_order_does_not_and_never_wrongly() {
    let (mut possible, mut greedy_failed, mut found, mut missed) = (0, 0, 0, 0);
    for number in 0..1_500 {
        let small = Small::generated(number);
        let (greedy, started) = (small.started(Compat::Upstream), small.started(Compat::Repaired));
        if let Some(nodes) = &started {
            assert!(small.allows(nodes), "cluster {number}: {nodes:?}");
        }
        assert!(greedy.is_none() || started.is_some(), "cluster {number}: worse than the greedy order");
        if !small.can_start() {
            continue;
        }
        possible += 1;
        greedy_failed += usize::from(greedy.is_none());
        found += usize::from(greedy.is_none() && started.is_some());
        missed += usize::from(started.is_none());
    }
    let counts = format!(
        "of {possible} groups that can start, the greedy order misses {greedy_failed}; the search finds {found} of \
         them and misses {missed}"
    );
    assert!(greedy_failed > possible / 20, "{counts}");
    assert!(10 * missed <= greedy_failed, "{counts}");
}

#[test]
fn search_ends_after_a_bounded_number_of_decisions() {
    // 88 CPUs in each of 10 racks, and 90 requested: all members but one fit, in every order.
    let lines: Vec<String> = (0..40).map(|at| format!("node n{at} cpu=22 label:rack=r{}", at / 4)).collect();
    let members: Vec<String> = (0..60).map(|at| format!("p{at} group=g cpu={}", 1 + at % 2)).collect();
    let mut world = World::new(7, &lines, "g min=60 key=rack", &members);
    let mut filters = Filters::default();
    let decided = world.trial.decide_group(world.key, &world.members, SHARED, &mut filters);
    assert_eq!(decided.outcome, GroupOutcome::Unschedulable);
    // 2.5 million visits, and 4 + 300 for each decision; a rejection is decided twice.
    assert!((4_000..9_000).contains(&filters.0), "{} decisions", filters.0);
}

/// Counts the decisions that filter nodes.
#[derive(Default)]
struct Filters(usize);

impl Probe for Filters {
    fn enter(&mut self, point: Point) {
        self.0 += usize::from(point == Point::Filter);
    }
}

#[test]
fn preferred_domain_costs_no_member_its_node() {
    let racks_of = |small: &Small, nodes: &[Option<usize>]| {
        let racks: std::collections::BTreeSet<usize> =
            nodes.iter().flatten().map(|&node| small.nodes[node].0).collect();
        racks.len()
    };
    let placed = |nodes: &[Option<usize>]| nodes.iter().flatten().count();
    let (mut nearer, mut several) = (0, 0);
    for number in 0..1_500 {
        let small = Small::generated(number);
        let near = small.started_with(Compat::Repaired, "preferred-topology=rack");
        let (Some(near), Some(anywhere)) = (&near, &small.started(Compat::Repaired)) else {
            assert!(
                near.is_some() || small.started(Compat::Repaired).is_none(),
                "cluster {number} does not start"
            );
            continue;
        };
        assert!(small.allows(near), "cluster {number}: {near:?}");
        assert!(placed(near) >= placed(anywhere), "cluster {number}: {near:?} instead of {anywhere:?}");
        for left in (0..near.len()).filter(|&member| near[member].is_none()) {
            let fits_on = |node: &usize| {
                let mut more = near.clone();
                more[left] = Some(*node);
                small.allows(&more)
            };
            let fits = (0..small.nodes.len()).find(fits_on);
            assert!(fits.is_none(), "cluster {number}: {near:?}, and member {left} fits on {fits:?}");
        }
        nearer += usize::from(racks_of(&small, near) < racks_of(&small, anywhere));
        several += usize::from(racks_of(&small, near) > 1);
    }
    assert!(nearer > 100 && several > 100, "{nearer} groups are nearer, {several} in several racks");
}

#[test]
fn minimum_of_a_role_holds_and_the_search_knows_it() {
    let (mut possible, mut found) = (0, 0);
    for number in 0..1_500 {
        let small = Small::generated(number);
        let has_leader = |nodes: &[Option<usize>]| nodes.last().is_some_and(Option::is_some);
        let started = small.started_with(Compat::Repaired, "role-label=role min-per-role=leader=1");
        if let Some(nodes) = &started {
            assert!(small.allows(nodes) && has_leader(nodes), "cluster {number}: {nodes:?}");
        }
        possible += usize::from(small.can_start_with(has_leader));
        found += usize::from(started.is_some());
    }
    assert!(100 * found >= 98 * possible && possible > 500, "{found} of {possible} groups start");
}

/// Nominates another pod to a node of the first rack. Members then share no evaluations of all nodes.
fn nominate_another_pod(world: &mut World) {
    let event = arrival(world.trial.tables_mut(), "pod other nominated=n0 cpu=1 priority=5");
    world.trial.handle(event);
}

#[test]
fn only_the_first_of_equal_members_is_evaluated_in_full_if_results_are_not_shared() {
    let mut world = equal_racks(8, |_| "cpu=1".to_owned());
    nominate_another_pod(&mut world);
    let (decided, evaluations) = world.decide(SHARED);
    // One in each rack.
    assert_eq!((decided.outcome, evaluations), (GroupOutcome::Scheduled, 8));
}

#[test]
fn run_without_rejections_is_made_once() {
    let node = |at: usize| format!("node n{at} cpu=4 mem=8Gi label:rack=r{}", at / 5);
    let lines: Vec<String> = (0..10).map(node).collect();
    // No member equals the one before it.
    let members: Vec<String> = (0..4).map(|at| format!("p{at} group=g cpu={}", 1 + at % 2)).collect();
    let mut world = World::new(7, &lines, "g min=4 key=rack", &members);
    nominate_another_pod(&mut world);
    let (decided, evaluations) = world.decide(SHARED);
    assert_eq!((decided.outcome, evaluations), (GroupOutcome::Scheduled, 2 * 4));
}

#[test]
fn rejection_of_the_first_member_is_found_once_in_a_placement() {
    let mut world = equal_racks(8, |_| "cpu=5".to_owned());
    let (decided, evaluations) = world.decide(SHARED);
    // One in each rack, and one that finds the reasons.
    assert_eq!((decided.outcome, evaluations), (GroupOutcome::Unschedulable, 8 + 1));
}

#[test]
fn run_in_the_only_placement_finds_its_reasons_at_once() {
    let node = |at: usize| format!("node n{at} cpu=4 mem=8Gi label:rack=r0");
    let mut lines: Vec<String> = (0..5).map(node).collect();
    lines.push("node outside cpu=4 mem=8Gi".to_owned());
    let members: Vec<String> = (0..12).map(|at| format!("p{at} group=g cpu=2")).collect();
    let (decided, evaluations) = World::new(7, &lines, "g min=12 key=rack", &members).decide(SHARED);
    // The first member, and the first that is rejected.
    assert_eq!((decided.outcome, evaluations), (GroupOutcome::Unschedulable, 2));
}
