//! `percentageOfNodesToScore`: sampled decisions equal a naive node-by-node search in upstream's order and window.

mod support;

use proptest::prelude::*;
use proptest::sample::select;
use std::collections::BTreeSet;
use std::sync::Arc;
use supercargo_core::cycle::{Decision, Feasible, Filtered, Framework, NoProbe, Options, Sampling, Walk};
use supercargo_core::framework::extension_point::ExtensionPoint;
use supercargo_core::model::effect::Effect;
use supercargo_core::model::event::{BindOutcome, Event};
use supercargo_core::model::node::NodeInfo;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::queue::QueueConfig;
use supercargo_core::registry::Plan;
use supercargo_core::report::Outcome;
use supercargo_core::scheduler::{Config, Profile, Scheduler, Step};
use support::{TestCluster, begin, language};

/// A world whose search order follows its cache, and a plain list of zones for comparison.
#[derive(Default)]
struct Cluster {
    world: TestCluster,
    walk: Walk,
    zones: Vec<(&'static str, Vec<String>)>,
    start: usize,
}

impl Cluster {
    fn node(&mut self, name: &str, zone: &'static str, words: &str) {
        let zone_words = if zone.is_empty() { String::new() } else { format!("zone={zone}") };
        let node = self.world.node_from(&format!("{name} {zone_words} {words}"));
        self.world.add_node(&node);
        self.walk.node_applied(&node, &self.world.tables);
        let known = |nodes: &[String]| nodes.iter().any(|other| other == name);
        if self.zones.iter().any(|(other, nodes)| *other == zone && known(nodes)) {
            return;
        }
        self.forget(name);
        match self.zones.iter_mut().find(|(other, _)| *other == zone) {
            Some((_, nodes)) => nodes.push(name.to_owned()),
            None => self.zones.push((zone, vec![name.to_owned()])),
        }
    }

    fn gone(&mut self, name: &str) {
        let symbol = self.world.tables.symbol(name);
        self.world.cache.remove_node(symbol);
        self.walk.node_gone(symbol);
        self.forget(name);
    }

    fn forget(&mut self, name: &str) {
        self.zones.iter_mut().for_each(|(_, nodes)| nodes.retain(|other| other != name));
        self.zones.retain(|(_, nodes)| !nodes.is_empty());
    }

    /// Returns all node names, one of each zone in turn.
    fn order(&self) -> Vec<String> {
        let mut order = Vec::new();
        let mut round = 0;
        while order.len() < self.zones.iter().map(|(_, nodes)| nodes.len()).sum() {
            order.extend(self.zones.iter().filter_map(|(_, nodes)| nodes.get(round).cloned()));
            round += 1;
        }
        order
    }

    fn names(&self, filtered: &Filtered) -> (BTreeSet<String>, BTreeSet<String>) {
        let snapshot = self.world.snapshot();
        let name = |node| snapshot.text(snapshot.node_info(node).name).to_owned();
        let rejected = filtered.verdicts(snapshot).into_iter().map(|verdict| name(verdict.node)).collect();
        (filtered.feasible().iter().map(name).collect(), rejected)
    }

    fn filtered(&mut self, framework: &Framework, pod: &PodInfo, walking: bool) -> Filtered {
        let walk = walking.then_some(&mut self.walk);
        let options = Options { walk, ..Options::default() };
        match framework.decide(pod, self.world.cache.snapshot(&self.world.tables), options, &mut NoProbe) {
            Ok(Decision::Feasible(Feasible { filtered, .. }) | Decision::Infeasible(filtered)) => filtered,
            Err(error) => panic!("no plugin fails here: {error:?}"),
        }
    }

    /// Decides with a sample of the nodes, and checks the result against the definition.
    fn decide_by_definition(&mut self, percentage: u8, pod: &Arc<PodInfo>) {
        self.world.cache.refresh();
        let unhurried = PodInfo { nominated_node: None, ..PodInfo::clone(pod) };
        let all = self.filtered(&Framework::default(), &unhurried, false);
        let (fits, rejected) = self.names(&all);
        let all_nodes = self.order();
        // Nodes that PreFilter excludes are neither feasible nor rejected.
        let order: Vec<String> = all_nodes
            .iter()
            .filter(|name| fits.contains(*name) || rejected.contains(*name))
            .cloned()
            .collect();
        let nominated = pod.nominated_node.map(|name| self.world.tables.text(name).to_owned());

        let sampled = Framework::default().with_sampling(Some(Sampling::new(percentage)));
        let found = self.filtered(&sampled, pod, true);
        let (found_fits, found_rejected) = self.names(&found);

        if let Some(name) = nominated.as_ref().filter(|name| fits.contains(*name)) {
            assert_eq!(found_fits, [name.clone()].into(), "the nominated node alone");
            assert_eq!(self.walk.start(), self.start, "and the window stays");
            return;
        }
        let enough = match (order.len(), percentage) {
            (nodes, _) if nodes < 100 => nodes,
            (nodes, 0) => (nodes * (50 - nodes / 125).max(5) / 100).max(100),
            (nodes, percentage) => (nodes * usize::from(percentage) / 100).max(100),
        };
        let (mut kept, mut seen) = (BTreeSet::new(), BTreeSet::new());
        for at in 0..order.len() {
            let name = &order[(self.start + at) % order.len()];
            if rejected.contains(name) {
                seen.insert(name.clone());
            } else if kept.len() < enough {
                kept.insert(name.clone());
            } else {
                break;
            }
        }
        assert_eq!(found_fits, kept);
        assert_eq!(found_rejected, seen);
        let failed_before = nominated.filter(|name| all_nodes.contains(name));
        seen.extend(failed_before);
        self.start = (self.start + kept.len() + seen.len()) % all_nodes.len();
        assert_eq!(self.walk.start(), self.start);
    }
}

#[derive(Clone, Debug)]
enum Action {
    Change { node: usize, zone: &'static str },
    Remove(usize),
    Decide { cpu: u32, words: &'static str, nominated: Option<usize> },
}

fn zone() -> impl Strategy<Value = &'static str> {
    select(vec!["", "z1", "z1", "z2", "z3"])
}

fn act() -> impl Strategy<Value = Action> {
    let decide = (
        1..4u32,
        select(vec!["", "", "select:disk=ssd", "require=@name:in:n3", "require=@name:in:n3,n4,n5"]),
        prop::option::weighted(0.2, 0..300usize),
    );
    prop_oneof![
        (0..320usize, zone()).prop_map(|(node, zone)| Action::Change { node, zone }),
        (0..300usize).prop_map(Action::Remove),
        decide.clone().prop_map(|(cpu, words, nominated)| Action::Decide { cpu, words, nominated }),
        decide.prop_map(|(cpu, words, nominated)| Action::Decide { cpu, words, nominated }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn sampled_filtering_equals_a_node_by_node_walk(
        nodes in prop::collection::vec((zone(), 1..4u32, select(vec!["", "label:disk=ssd"])), 90..260),
        percentage in select(vec![0, 1, 30, 60, 100]),
        acts in prop::collection::vec(act(), 1..10),
    ) {
        let mut cluster = Cluster::default();
        for (at, (zone, cpu, words)) in nodes.iter().enumerate() {
            cluster.node(&format!("n{at}"), zone, &format!("cpu={cpu} {words}"));
        }
        for (at, act) in acts.into_iter().enumerate() {
            match act {
                Action::Change { node, zone } => cluster.node(&format!("n{node}"), zone, "cpu=2"),
                Action::Remove(node) => cluster.gone(&format!("n{node}")),
                Action::Decide { cpu, words, nominated } => {
                    let nominated = nominated.map(|node| format!("nominated=n{node}")).unwrap_or_default();
                    let pod = cluster.world.pod_from(&format!("p{at} cpu={cpu} {words} {nominated}"));
                    cluster.decide_by_definition(percentage, &pod);
                }
            }
        }
    }
}

#[test]
fn each_search_starts_where_the_last_one_ended() {
    let mut cluster = Cluster::default();
    for at in 0..250 {
        cluster.node(&format!("n{at}"), "", "cpu=4");
    }
    let pod = cluster.world.pod_from("p cpu=1");
    let framework = Framework::default().with_sampling(Some(Sampling::new(1)));
    let mut starts = Vec::new();
    for _ in 0..4 {
        starts.push(cluster.walk.start());
        assert_eq!(cluster.filtered(&framework, &pod, true).feasible().len(), 100);
    }
    assert_eq!(starts, [0, 100, 200, 50]);
}

#[test]
fn without_score_plugins_one_feasible_node_is_enough() {
    let mut cluster = Cluster::default();
    for at in 0..10 {
        cluster.node(&format!("n{at}"), "", if at < 3 { "cpu=1" } else { "cpu=4" });
    }
    let pod = cluster.world.pod_from("p cpu=2");
    let mut plan = Plan::default();
    plan.points.remove(&ExtensionPoint::Score);
    let framework = Framework::new(&plan).with_sampling(Some(Sampling::new(100)));
    let found = cluster.filtered(&framework, &pod, true);
    assert_eq!(cluster.names(&found).0, ["n3".to_owned()].into());
    assert_eq!(cluster.walk.start(), 4);
}

#[test]
fn error_ends_the_search_and_the_next_one_starts_at_its_node() {
    let mut cluster = Cluster::default();
    for at in 0..150 {
        cluster.node(&format!("n{at}"), "", if at < 20 { "cpu=4 unschedulable" } else { "cpu=4" });
    }
    let pod = cluster.world.pod_from("p cpu=1");
    let mut plan = Plan::default();
    let prepared = plan.points.get_mut(&ExtensionPoint::PreFilter).expect("the default plugins prepare");
    prepared.retain(|plugin| *plugin != "NodeResourcesFit");
    let framework = Framework::new(&plan).with_sampling(Some(Sampling::new(0)));
    let options = Options { walk: Some(&mut cluster.walk), ..Options::default() };
    let decided = framework.decide(&pod, cluster.world.snapshot(), options, &mut NoProbe);
    assert!(decided.is_err_and(|error| error.0.contains("PreFilterNodeResourcesFit")));
    assert_eq!(cluster.walk.start(), 20);
}

/// Returns the placements of the next decisions, with the numbers of nodes.
fn placements(scheduler: &mut Scheduler, now: Time) -> Vec<String> {
    let mut log = Vec::new();
    loop {
        match scheduler.step(now, &mut NoProbe) {
            Step::Idle { .. } => return log,
            Step::Report(report) => match report.outcome {
                Outcome::Placed { nodes, feasible, .. } => log.push(format!("{feasible} of {nodes}")),
                Outcome::Unschedulable { message, .. } => log.push(message[..24].to_owned()),
                other => panic!("nothing else happens here: {other:?}"),
            },
            Step::Effect(_) | Step::GroupReport(_) | Step::Notice(_) => {}
        }
    }
}

/// Creates an engine with 600 nodes, of which the first `cordoned` are cordoned. One profile samples, and one does
/// not.
fn engine(now: Time, cordoned: usize) -> Scheduler {
    let profile = |name: &str, sampling| {
        let framework = Framework::default().with_sampling(sampling);
        Profile { name: name.to_owned(), framework }
    };
    let profiles = vec![profile("default-scheduler", Some(Sampling::new(20))), profile("thorough", None)];
    let config = Config { seed: Seed(1), profiles, queue: QueueConfig::default() };
    let mut scheduler = Scheduler::new(config, now);
    begin(&mut scheduler, now, 1_000);
    for at in 0..600 {
        let node = format!("n{at} cpu=4{}", if at < cordoned { " unschedulable" } else { "" });
        let node = language::node(scheduler.tables(), &node.split(' ').collect::<Vec<_>>());
        scheduler.handle(now, Event::NodeApplied(Box::new(NodeInfo::clone(&node))));
    }
    scheduler
}

fn apply(scheduler: &mut Scheduler, now: Time, words: &str, scheduler_name: &str) {
    let pod = language::pod(scheduler.tables(), &words.split(' ').collect::<Vec<_>>());
    let scheduler_name = scheduler.tables().symbol(scheduler_name);
    let mut pod = PodInfo::clone(&pod);
    pod.scheduler_name = scheduler_name;
    scheduler.handle(now, Event::PodApplied(Box::new(pod)));
}

#[test]
fn engine_samples_nodes_only_if_the_profile_sets_a_percentage() {
    let now = Time::from_secs(100);
    let mut scheduler = engine(now, 0);
    // Two unschedulable pods with one signature. The second is answered from the cache.
    for (words, scheduler_name) in [
        ("a cpu=1", "default-scheduler"),
        ("b cpu=1", "thorough"),
        ("c cpu=9", "default-scheduler"),
        ("d cpu=9", "default-scheduler"),
        ("e cpu=1", "default-scheduler"),
    ] {
        apply(&mut scheduler, now, words, scheduler_name);
    }
    let nowhere = "0/600 nodes are availabl";
    assert_eq!(placements(&mut scheduler, now), ["120 of 600", "600 of 600", nowhere, nowhere, "120 of 600"]);
    assert_eq!(scheduler.stats().recalled, 1);
}

#[test]
fn report_counts_evaluated_and_feasible_nodes() {
    let now = Time::from_secs(100);
    let mut scheduler = engine(now, 300);
    let mut log = Vec::new();
    for (words, scheduler_name) in [
        ("all cpu=1", "thorough"),
        ("alike cpu=1", "thorough"),
        ("part cpu=1", "default-scheduler"),
        // PreFilter leaves one node only.
        ("pinned cpu=1 require=@name:in:n400", "thorough"),
        ("nominated cpu=1 nominated=n500", "thorough"),
    ] {
        apply(&mut scheduler, now, words, scheduler_name);
        loop {
            match scheduler.step(now, &mut NoProbe) {
                Step::Idle { .. } => break,
                Step::Effect(Effect::Bind { pod, .. }) => {
                    scheduler
                        .handle(now, Event::BindFinished { uid: pod.uid, outcome: BindOutcome::Accepted });
                }
                Step::Report(report) => {
                    if let Outcome::Bound { evaluated, feasible, .. } = report.outcome {
                        log.push(format!("{} {feasible} of {evaluated}", report.pod.name));
                    }
                }
                Step::Effect(_) | Step::GroupReport(_) | Step::Notice(_) => {}
            }
        }
    }
    let expected =
        ["all 300 of 600", "alike 300 of 600", "part 120 of 420", "pinned 1 of 1", "nominated 1 of 1"];
    assert_eq!(log, expected);
}

#[test]
fn engine_searches_on_where_its_last_search_ended() {
    let now = Time::from_secs(100);
    let mut scheduler = engine(now, 0);
    let mut parts = Vec::new();
    for words in ["a cpu=1", "b cpu=1", "c cpu=1"] {
        apply(&mut scheduler, now, words, "default-scheduler");
        loop {
            match scheduler.step(now, &mut NoProbe) {
                Step::Idle { .. } => break,
                Step::Report(report) => {
                    if let Outcome::Placed { node, .. } = report.outcome {
                        let number = node.strip_prefix('n').and_then(|number| number.parse::<usize>().ok());
                        parts.push(number.expect("nodes are numbered") / 120);
                    }
                }
                Step::Effect(_) | Step::GroupReport(_) | Step::Notice(_) => {}
            }
        }
    }
    assert_eq!(parts, [0, 1, 2], "each search ends after 120 nodes");
}
