//! Trials decide as the scheduler's attempts do, and can be undone.

#[path = "trial/nodes.rs"]
mod nodes;
mod support;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use supercargo_core::cycle::{Decision, Evaluation, Framework, NoProbe, Probe, Sampling};
use supercargo_core::model::event::Event;
use supercargo_core::model::intern::Tables;
use supercargo_core::model::node::NodeIdx;
use supercargo_core::model::node_set::NodeSet;
use supercargo_core::model::pod::{ControllerKind, PodInfo, Uid};
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::model::volume::StorageObject;
use supercargo_core::queue::QueueConfig;
use supercargo_core::report::{Outcome, Preemption};
use supercargo_core::scheduler::{
    Config, Profile, Room, Scheduler, Step, Trial, TrialDecision, TrialOptions,
};
use support::{arrival, begin, groups, language};

const START: Time = Time::from_secs(100);
const SEED: Seed = Seed(7);
/// Clusters of the law; each has up to 16 decisions, and both versions decide in a few seconds of a debug build.
const CLUSTERS: u64 = 150;
const OPTIONS: TrialOptions = TrialOptions { uses_caches: true, preempts: true, is_comparable: false };

const NODES: [&str; 7] = [
    "zone=z1 cpu=4 mem=8Gi",
    "zone=z2 cpu=4 mem=4Gi image=nginx:latest@900Mi",
    "zone=z3 cpu=8 mem=8Gi taint=gpu:NoSchedule",
    "zone=z2 cpu=2 mem=8Gi taint=spot:PreferNoSchedule",
    "zone=z1 cpu=4 mem=8Gi unschedulable",
    "zone=z3 cpu=4 mem=8Gi label:disk=ssd label:rack=r1",
    "zone=z1 cpu=2 mem=8Gi label:rack=r2",
];
const PODS: [&str; 11] = [
    "cpu=1 mem=1Gi",
    "cpu=2 image=nginx:latest label:app=web",
    "label:app=web spread=zone/1/DoNotSchedule/app=web cpu=1",
    "label:app=web spread=rack/1/ScheduleAnyway/app=web cpu=1",
    "label:app=db anti=rack/app=db cpu=1",
    "affinity=zone/app=web cpu=1",
    "port=80",
    "tolerate=gpu cpu=3",
    "select:disk=ssd cpu=2",
    "cpu=16",
    "cpu=3 mem=3Gi",
];

/// A deterministic sequence of random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

fn profiles() -> Vec<Profile> {
    vec![Profile { name: "default-scheduler".to_owned(), framework: Framework::default() }]
}

fn trial(lines: &[String]) -> Trial {
    let mut trial = Trial::new(SEED, profiles(), Tables::new());
    for line in lines {
        let event = arrival(trial.tables_mut(), line);
        trial.handle(event);
    }
    trial
}

fn pod(trial: &mut Trial, words: &str) -> Arc<PodInfo> {
    let words: Vec<&str> = words.split_whitespace().collect();
    language::pod(trial.tables_mut(), &words)
}

/// Generates nodes with pods of low priorities on them, and pending pods, some of which are equal and some nominated.
fn cluster(number: u64) -> (Vec<String>, Vec<String>) {
    let mut random = Random(number);
    let nodes = 1 + random.below(6);
    let mut lines: Vec<String> =
        (0..nodes).map(|at| format!("node n{at} {}", NODES[random.below(NODES.len())])).collect();
    for at in 0..random.below(12) {
        let (on, like) = (random.below(nodes), PODS[random.below(PODS.len())]);
        // Different start times, since the order of equally important victims is arbitrary.
        lines.push(format!("pod b{at} on=n{on} priority={} started={at} {like}", random.below(4)));
    }
    let kinds = 1 + random.below(PODS.len());
    let pending = (0..1 + random.below(16)).map(|at| {
        let nominated = match random.below(6) {
            0 => format!("nominated=n{}", random.below(nodes)),
            _ => String::new(),
        };
        format!("p{at} priority=5 {} {nominated}", PODS[random.below(kinds)])
    });
    (lines, pending.collect())
}

/// Returns the first attempt of every pod, as the scheduler reports it.
fn attempts(lines: &[String], pending: &[String]) -> Vec<String> {
    let config = Config { seed: SEED, profiles: profiles(), queue: QueueConfig::default() };
    let mut scheduler = Scheduler::new(config, START);
    begin(&mut scheduler, START, usize::MAX / 2);
    for line in lines.iter().cloned().chain(pending.iter().map(|line| format!("pod {line}"))) {
        let event = arrival(scheduler.tables(), &line);
        scheduler.handle(START, event);
    }
    let mut log = Vec::new();
    loop {
        match scheduler.step(START, &mut NoProbe) {
            Step::Idle { .. } => return log,
            Step::Report(report) if report.attempt == 1 => {
                let pod = &report.pod.name;
                match report.outcome {
                    Outcome::Placed { node, feasible, score, .. } => {
                        log.push(format!("{pod} on {node}, {feasible} feasible, {score:?}"));
                    }
                    Outcome::Unschedulable { message, preemption, .. } => {
                        let room = match preemption {
                            Preemption::Nominated { node, victims, .. } => {
                                let victims: Vec<String> = victims.into_iter().map(|it| it.name).collect();
                                Some((node, victims))
                            }
                            Preemption::NotTried | Preemption::NoCandidate => None,
                        };
                        log.push(format!("{pod}: {message} {room:?}"));
                    }
                    Outcome::Error { message } => log.push(format!("{pod} failed: {message}")),
                    _ => {}
                }
            }
            Step::GroupReport(_) => {}
            Step::Notice(notice) => panic!("{notice:?}"),
            Step::Report(_) | Step::Effect(_) => {}
        }
    }
}

/// Decides about every pod in a trial, and returns the same texts.
fn decisions(trial: &mut Trial, pods: &[Arc<PodInfo>], options: TrialOptions) -> Vec<String> {
    let mut log = Vec::new();
    for pod in pods {
        let name = &pod.name;
        match trial.decide(pod, options, &mut NoProbe) {
            TrialDecision::Placed { node, feasible, score } => {
                let node = trial.tables().text(node);
                log.push(format!("{name} on {node}, {feasible} feasible, {score:?}"));
            }
            TrialDecision::Unplaced { message, event, room, .. } => {
                assert!(event.starts_with(&message), "{event}");
                let shown = room.as_ref().map(|room| describe_room(trial, room));
                log.push(format!("{name}: {event} {shown:?}"));
                if let Some(room) = room {
                    trial.nominate_to_room(pod, &room);
                }
            }
            TrialDecision::Failed(text) => log.push(format!("{name} failed: {text}")),
        }
    }
    log
}

fn describe_room(trial: &Trial, room: &Room) -> (String, Vec<String>) {
    let name = |uid: &Uid| trial.placement(uid).expect("a victim is on a node").0.name.to_string();
    (trial.tables().text(room.node).to_owned(), room.victims.iter().map(name).collect())
}

/// Returns everything that a decision reads, as text.
fn seen(trial: &mut Trial) -> String {
    let snapshot = trial.refreshed();
    let mut nodes: Vec<String> = Vec::new();
    for node in snapshot.nodes().iter() {
        // In order: ties between victims depend on it.
        let pods: Vec<&PodInfo> = snapshot.pods_on(node).collect();
        let mut nominated: Vec<_> = snapshot.nominated_on(node).iter().map(|pod| &pod.uid).collect();
        nominated.sort_unstable();
        let info = snapshot.node_info(node);
        let images: Vec<_> = info.images.iter().map(|&(name, _)| snapshot.image(node, name)).collect();
        let name = snapshot.text(info.name);
        nodes.push(format!(
            "{name} {info:?} {images:?} {:?} {nominated:?} {pods:?}",
            snapshot.requested(node)
        ));
    }
    nodes.sort_unstable();
    let mut text = nodes.join("\n");
    let claims = ["claim", "other"].map(|name| {
        let (namespace, name) = (snapshot.tables().find("default")?, snapshot.tables().find(name)?);
        snapshot.volumes().claim(namespace, name).cloned()
    });
    write!(text, "{claims:?} {}", snapshot.volumes().count()).expect("a string takes all text");
    text
}

#[test]
fn trial_decides_as_attempts_do() {
    let (mut placed, mut rooms, mut all) = (0, 0, 0);
    for number in 0..CLUSTERS {
        let (lines, pending) = cluster(number);
        let attempts = attempts(&lines, &pending);
        assert_eq!(attempts.len(), pending.len(), "cluster {number}: {attempts:?}");
        for uses_caches in [true, false] {
            let mut trial = trial(&lines);
            let pods: Vec<_> = pending.iter().map(|words| pod(&mut trial, words)).collect();
            pods.iter().for_each(|pod| trial.nominate(pod, pod.nominated_node));
            let log = decisions(&mut trial, &pods, TrialOptions { uses_caches, ..OPTIONS });
            assert_eq!(log, attempts, "cluster {number}, caches: {uses_caches}");
        }
        all += attempts.len();
        placed += attempts.iter().filter(|it| it.contains(" feasible, ")).count();
        rooms += attempts.iter().filter(|it| it.contains("Some((")).count();
    }
    assert!(placed > 200 && rooms > 50 && all > placed + rooms, "{all} decisions: {placed}, {rooms}");
}

#[test]
fn roll_back_restores_cluster_and_decisions() {
    for number in 0..CLUSTERS / 3 {
        let (mut lines, pending) = cluster(number);
        lines.push("pvc claim size=1Gi".to_owned());
        let mut trial = trial(&lines);
        let pods: Vec<_> = pending.iter().map(|words| pod(&mut trial, words)).collect();
        pods.iter().for_each(|pod| trial.nominate(pod, pod.nominated_node));
        let (before, mark) = (seen(&mut trial), trial.mark());
        let first = decisions(&mut trial, &pods, OPTIONS);

        let Event::NodeApplied(mut node) = arrival(trial.tables_mut(), "node n0 cpu=1 mem=1Gi") else {
            panic!("a node is applied")
        };
        trial.set_node(&Arc::new(*node.clone()));
        node.name = trial.tables_mut().symbol("new");
        trial.set_node(&Arc::new(*node));
        for name in ["claim", "other"] {
            let claim = arrival(trial.tables_mut(), &format!("pvc {name} size=2Gi"));
            let Event::StorageApplied(claim) = claim else { panic!("a claim is applied") };
            let claim: StorageObject = claim;
            trial.set_storage(claim);
        }
        let placed: Vec<_> = trial.placed_pods().map(|(pod, node)| (Arc::clone(pod), node)).collect();
        for (at, (pod, _)) in placed.iter().enumerate() {
            let other = placed[(at + 1) % placed.len()].1;
            match at % 3 {
                0 => assert!(trial.remove_pod(&pod.uid)),
                1 => trial.place_pod(pod, other),
                _ => trial.nominate(pod, Some(other)),
            }
        }
        let gone = trial.tables_mut().symbol("n0");
        let here: Vec<_> =
            trial.placed_pods().filter(|(_, on)| *on == gone).map(|(pod, _)| Arc::clone(pod)).collect();
        here.iter().for_each(|pod| assert!(trial.remove_pod(&pod.uid)));
        assert!(trial.remove_node(gone) && !trial.remove_node(gone));
        assert_ne!(seen(&mut trial), before);
        trial.roll_back_to(mark);
        assert_eq!(trial.changes_since(mark), 0);
        assert_eq!(seen(&mut trial), before, "cluster {number}");
        assert_eq!(decisions(&mut trial, &pods, OPTIONS), first, "cluster {number}");
    }
}

#[test]
fn image_counts_of_unchanged_nodes_are_rolled_back() {
    // As upstream, `a` keeps the count of before `b` joined, until it changes itself.
    let image = "image=nginx:latest@900Mi";
    let mut trial = trial(&[format!("node a cpu=4 mem=8Gi {image}")]);
    trial.refreshed();
    let event = arrival(trial.tables_mut(), &format!("node b cpu=4 mem=8Gi {image}"));
    trial.handle(event);
    let before = seen(&mut trial);
    let (p, a) = (pod(&mut trial, "p cpu=1"), trial.tables_mut().symbol("a"));
    let mark = trial.mark();
    trial.place_pod(&p, a);
    assert_ne!(seen(&mut trial), before);
    trial.roll_back_to(mark);
    assert_eq!(seen(&mut trial), before);
}

#[test]
fn best_nodes_are_those_of_a_full_evaluation() {
    let (mut tied, mut unplaced) = (0, 0);
    for number in 0..CLUSTERS {
        let (lines, pending) = cluster(number);
        let mut trial = trial(&lines);
        for words in pending.iter().filter(|words| !words.contains("nominated=")) {
            let pod = pod(&mut trial, words);
            let best = trial.best_nodes(&pod, None);
            let (mut probe, mark) = (Winners::default(), trial.mark());
            let options = TrialOptions { uses_caches: false, preempts: false, is_comparable: false };
            let decided = trial.decide(&pod, options, &mut probe);
            trial.roll_back_to(mark);
            match (best, decided) {
                (Ok(best), TrialDecision::Placed { feasible, score, .. }) => {
                    assert_eq!(
                        (&best.nodes, best.feasible, best.score),
                        (&probe.0, feasible, score),
                        "{number}: {words}"
                    );
                    let last = *best.nodes.last().expect("at least one");
                    let alone: NodeSet = [last].into_iter().collect();
                    let within = trial.best_nodes(&pod, Some(&alone)).expect("it is feasible");
                    assert_eq!((within.nodes, within.feasible), (vec![last], 1), "{number}: {words}");
                    assert!(trial.assume_on(&pod, last));
                    let name = trial.snapshot().node_info(last).name;
                    assert_eq!(trial.placement(&pod.uid).map(|(_, node)| node), Some(name));
                    tied += usize::from(best.nodes.len() > 1);
                }
                (Err(why), TrialDecision::Unplaced { message, .. }) => {
                    assert_eq!(why, message, "{number}: {words}");
                    unplaced += 1;
                }
                (best, decided) => panic!("{number}: {words}: {best:?} and {decided:?}"),
            }
        }
    }
    assert!(tied > 20 && unplaced > 50, "{tied} and {unplaced}");
}

/// The best nodes of a full evaluation.
#[derive(Default)]
struct Winners(Vec<NodeIdx>);

impl Probe for Winners {
    fn evaluated(&mut self, evaluation: &Evaluation<'_>) {
        if let Decision::Feasible(found) = evaluation.decision {
            self.0 = found.winners();
        }
    }
}

#[test]
fn foreign_pod_is_decided_by_default_profile() {
    let mut trial = trial(&["node a cpu=4 mem=8Gi".to_owned()]);
    let mut foreign = PodInfo::clone(&pod(&mut trial, "p cpu=1"));
    foreign.scheduler_name = trial.tables_mut().symbol("other");
    let foreign = Arc::new(foreign);
    let log = decisions(&mut trial, &[foreign], OPTIONS);
    assert_eq!(log, ["p on a, 1 feasible, None"]);
    assert_eq!(trial.profile_names().collect::<Vec<_>>(), ["default-scheduler"]);
}

#[test]
fn trial_without_preemption_keeps_nomination_and_names_no_victims() {
    let lines = ["node a cpu=1 mem=8Gi".to_owned(), "pod b on=a cpu=1".to_owned()];
    let mut trial = trial(&lines);
    let high = pod(&mut trial, "p cpu=1 priority=5 nominated=a");
    trial.nominate(&high, high.nominated_node);
    let log = decisions(&mut trial, &[Arc::clone(&high)], TrialOptions { preempts: false, ..OPTIONS });
    assert_eq!(log, ["p: 0/1 nodes are available: 1 Insufficient cpu. None"]);
    let node = high.nominated_node.and_then(|node| trial.refreshed().find_node(node)).expect("node a exists");
    assert_eq!(trial.snapshot().nominated_on(node).len(), 1);
    let log = decisions(&mut trial, &[high], OPTIONS);
    assert!(log[0].ends_with("Some((\"a\", [\"b\"]))"), "{log:?}");
}

#[test]
fn comparable_trial_takes_nominated_or_first_node_and_scores_single_node() {
    let mut trial = trial(&["node b cpu=4 mem=8Gi".to_owned(), "node a cpu=4 mem=8Gi".to_owned()]);
    let options = TrialOptions { is_comparable: true, ..OPTIONS };
    let cases = [
        ("p cpu=1", "p on a, 2"),
        ("q cpu=1 require=@name:in:b", "q on b, 1"),
        ("r cpu=1 nominated=b", "r on b, 1"),
    ];
    for (words, on) in cases {
        let pod = pod(&mut trial, words);
        let line = decisions(&mut trial, &[pod], options).remove(0);
        assert!(line.starts_with(on) && line.contains("Some("), "{line}");
    }
}

/// Counts full evaluations.
#[derive(Default)]
struct Evaluations(usize);

impl Probe for Evaluations {
    fn evaluated(&mut self, _evaluation: &Evaluation<'_>) {
        self.0 += 1;
    }
}

/// Returns the number of full evaluations for equal pods.
fn evaluations(trial: &mut Trial, pods: usize, words: &str, options: TrialOptions) -> usize {
    let mut probe = Evaluations::default();
    for number in 0..pods {
        let pod = pod(trial, &format!("{words}-{number} {words}"));
        trial.decide(&pod, options, &mut probe);
    }
    probe.0
}

#[test]
fn trial_without_caches_evaluates_every_pod_in_full() {
    let cached = |words| {
        let mut trial = trial(&["node a cpu=4 mem=8Gi".to_owned()]);
        evaluations(&mut trial, 3, words, OPTIONS)
    };
    let full = |words| {
        let mut trial = trial(&["node a cpu=4 mem=8Gi".to_owned()]);
        evaluations(&mut trial, 3, words, TrialOptions { uses_caches: false, ..OPTIONS })
    };
    assert_eq!([full("cpu=1"), full("cpu=9")], [3, 3]);
    assert!(cached("cpu=1") < 3);
    assert_eq!(cached("cpu=9"), 1, "the second equal pod gets the rejection of the first");
    // With sampling there is no incremental cache of rejections, only that of exact results.
    let mut sampled = trial(&["node a cpu=4 mem=8Gi".to_owned()]);
    let framework = Framework::default().with_sampling(Some(Sampling::new(50)));
    sampled.set_profiles(vec![Profile { name: "default-scheduler".to_owned(), framework }]);
    assert_eq!(evaluations(&mut sampled, 3, "cpu=9", OPTIONS), 1);
    assert_eq!(cached("require=@name:in:a;@name:in:b"), 3, "a report needs each rejection by PreFilter");
}

#[test]
fn rejection_without_preemption_is_no_answer_with_preemption() {
    let mut trial = trial(&["node a cpu=1 mem=8Gi".to_owned(), "pod b on=a cpu=1".to_owned()]);
    let pods = ["p", "q"].map(|name| pod(&mut trial, &format!("{name} cpu=1 priority=5")));
    let log = decisions(&mut trial, &pods[..1], TrialOptions { preempts: false, ..OPTIONS });
    assert_eq!(log, ["p: 0/1 nodes are available: 1 Insufficient cpu. None"]);
    let log = decisions(&mut trial, &pods[1..], OPTIONS);
    assert!(log[0].ends_with("Some((\"a\", [\"b\"]))"), "{log:?}");
}

#[test]
fn nomination_to_a_room_removes_those_of_lower_priority_only() {
    let mut trial = trial(&["node a cpu=4 mem=8Gi".to_owned()]);
    let [low, high, equal, own] = ["low priority=1", "high priority=9", "equal priority=5", "own priority=5"]
        .map(|words| pod(&mut trial, words));
    let node = trial.tables_mut().symbol("a");
    [&low, &high, &equal].into_iter().for_each(|pod| trial.nominate(pod, Some(node)));
    trial.nominate_to_room(&own, &Room { node, victims: Vec::new() });
    let snapshot = trial.refreshed();
    let nominated = snapshot.find_node(node).map(|idx| snapshot.nominated_on(idx)).expect("node a exists");
    let mut names: Vec<&str> = nominated.iter().map(|pod| &*pod.name).collect();
    names.sort_unstable();
    assert_eq!(names, ["equal", "high", "own"]);
}

#[test]
fn changes_of_a_trial_take_effect() {
    let mut trial = trial(&["node a cpu=4 mem=8Gi".to_owned()]);
    let (p, a) = (pod(&mut trial, "p cpu=3"), trial.tables_mut().symbol("a"));
    assert!(!trial.remove_pod("p"), "it is on no node");
    trial.place_pod(&p, a);
    assert_eq!(trial.placement("p").map(|(_, node)| node), Some(a));
    let q = pod(&mut trial, "q cpu=3");
    let log = decisions(&mut trial, &[Arc::clone(&q)], OPTIONS);
    assert!(log[0].contains("Insufficient cpu"), "{log:?}");
    let Event::NodeApplied(larger) = arrival(trial.tables_mut(), "node a cpu=8 mem=8Gi") else {
        panic!("a node is applied")
    };
    trial.set_node(&Arc::new(*larger));
    assert_eq!(decisions(&mut trial, &[q], OPTIONS), ["q on a, 1 feasible, None"]);
    assert!(trial.remove_pod("p"));
    assert_eq!(trial.placement("p"), None);
    let Event::StorageApplied(claim) = arrival(trial.tables_mut(), "pvc claim size=1Gi") else {
        panic!("a claim is applied")
    };
    trial.set_storage(claim);
    let names = ["default", "claim"].map(|name| trial.tables_mut().symbol(name));
    assert!(trial.snapshot().volumes().claim(names[0], names[1]).is_some());
}

#[test]
fn changes_are_counted_and_undone_until_they_are_kept() {
    let mut trial = trial(&["node a cpu=4 mem=8Gi".to_owned()]);
    let a = trial.tables_mut().symbol("a");
    let [single, member] = ["p cpu=1", "m cpu=1 group=g"].map(|words| pod(&mut trial, words));
    let start = trial.mark();
    trial.place_pod(&single, a);
    let (middle, first) = (trial.mark(), trial.changes_since(start));
    trial.place_pod(&member, a);
    let second = trial.changes_since(middle);
    assert!(0 < first && first < second, "a member counts in its group, too: {first} and {second} changes");
    assert_eq!(trial.changes_since(start), first + second);
    assert_eq!(trial.changes_since(trial.mark()), 0);
    trial.roll_back_to(middle);
    assert_eq!((trial.changes_since(start), trial.changes_since(middle)), (first, 0));
    trial.place_pod(&member, a);
    trial.keep_changes();
    let kept = seen(&mut trial);
    assert_eq!(trial.changes_since(trial.mark()), 0);
    trial.roll_back_to(start);
    assert_eq!(seen(&mut trial), kept);
}

#[test]
fn pod_assumed_on_a_best_node_reserves_what_a_decision_reserves() {
    let lines = [
        "node a cpu=4 mem=8Gi",
        "node b cpu=4 mem=8Gi",
        "class fast of=provisioner",
        "pv v1 class=fast size=10Gi at=host=b",
        "pvc claim class=fast size=1Gi",
    ];
    let mut trial = trial(&lines.map(str::to_owned));
    let pod = pod(&mut trial, "p cpu=1 claim=claim");
    let start = trial.mark();
    let decided = trial.decide(&pod, OPTIONS, &mut NoProbe);
    let TrialDecision::Placed { node, .. } = decided else { panic!("{decided:?}") };
    let reserved = trial.reservations_of("p").to_vec();
    assert_eq!(reserved.len(), 1);
    trial.roll_back_to(start);
    assert_eq!(trial.reservations_of("p"), []);

    let node = trial.refreshed().find_node(node).expect("it was chosen");
    let best = trial.best_nodes(&pod, None).expect("a node is feasible");
    assert!(best.nodes.contains(&node) && trial.assume_on(&pod, node));
    assert_eq!(trial.reservations_of("p"), reserved);
    let assumed = trial.mark();
    assert!(trial.remove_pod("p"));
    assert_eq!(trial.reservations_of("p"), []);
    trial.roll_back_to(assumed);
    assert_eq!(trial.reservations_of("p"), reserved);
}

#[test]
fn namespaces_controllers_and_groups_are_replaced_and_rolled_back() {
    let lines = [
        "node a cpu=64 mem=64Gi zone=z1",
        "node b cpu=4 mem=8Gi zone=z2",
        "pod w0 on=a ns=team label:app=web",
        "pod w1 on=a label:app=api",
        "pod w2 on=a label:app=api",
    ];
    let mut trial = trial(&lines.map(str::to_owned));
    let start = trial.mark();
    let apart = pod(&mut trial, "p anti=host/app=web/nssel=env=prod");
    let spread = pod(&mut trial, "q owner=ReplicaSet/rs label:app=api");
    let chosen = |trial: &mut Trial| {
        [&apart, &spread].map(|pod| {
            let best = trial.best_nodes(pod, None).expect("a node is feasible");
            trial.tables().text(trial.snapshot().node_info(best.nodes[0]).name).to_owned()
        })
    };
    assert_eq!(chosen(&mut trial), ["a", "a"]);
    let tables = trial.tables_mut();
    let [team, default, rs, env, prod] =
        ["team", "default", "rs", "env", "prod"].map(|text| tables.symbol(text));
    let labels = tables.label_set(vec![(env, prod)]);
    let demands = [language::requirement(tables, "app=api")].into();
    trial.set_namespace(team, labels);
    assert_eq!(chosen(&mut trial), ["b", "a"]);
    trial.set_controller(ControllerKind::ReplicaSet, default, rs, demands);
    assert_eq!(chosen(&mut trial), ["b", "b"]);

    let group = groups::group(trial.tables_mut(), &["g", "min=2"]);
    assert_eq!(trial.replace_group(group.key, Some(group.clone())), None);
    assert_eq!(trial.replace_group(group.key, None), Some(group.clone()));
    trial.replace_group(group.key, Some(group.clone()));
    trial.roll_back_to(start);
    assert_eq!(trial.replace_group(group.key, None), None);
    assert_eq!(chosen(&mut trial), ["a", "a"]);
}

#[test]
fn seed_selects_among_equal_nodes() {
    let lines: Vec<String> = (0..10).map(|number| format!("node n{number} cpu=4 mem=8Gi")).collect();
    let (mut trial, mut nodes) = (trial(&lines), BTreeSet::new());
    let pod = pod(&mut trial, "p cpu=1");
    let mark = trial.mark();
    for seed in 0..8 {
        trial.set_seed(Seed(seed));
        nodes.extend(decisions(&mut trial, &[Arc::clone(&pod)], OPTIONS));
        trial.roll_back_to(mark);
    }
    assert!(nodes.len() > 2, "{nodes:?}");
}
