//! Property tests: the infeasible cache gives the results of full evaluations, with the same victims, after any
//! changes.

mod support;

use proptest::prelude::*;
use std::cell::Cell;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use supercargo_core::cycle::{
    Decision, Framework, InfeasibleDecision, NoProbe, Options, PostFilter, Sampling,
};
use supercargo_core::framework::post_filter::Draws;
use supercargo_core::incremental::DecisionCache;
use supercargo_core::model::emulation::GroupGates;
use supercargo_core::model::node::NodeIdx;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::preemption::DefaultPreemptionArgs;
use supercargo_core::registry::Plan;
use support::{TestCluster, groups, language};

const NODES: [&str; 6] = [
    "zone=z1 cpu=4 pods=5",
    "zone=z2 cpu=3 pods=4",
    "zone=z1 cpu=4 pods=5 taint=k:NoSchedule",
    "zone=z2 cpu=2 pods=3",
    "zone=z1 cpu=8 pods=2",
    "cpu=4 pods=5 unschedulable",
];
const PLACED: [&str; 12] = [
    "cpu=2 priority=1 group=g0",
    "cpu=1 priority=7 group=g1",
    "cpu=1",
    "cpu=2 priority=1",
    "cpu=1 priority=2 label:app=web",
    "cpu=3 priority=7",
    "label:app=web",
    "cpu=1 port=80 priority=1",
    "cpu=1 label:app=db anti=host/app=web",
    "cpu=2 deleting",
    "cpu=1 priority=2 label:app=db",
    "port=80 priority=2",
];
const STARTS: [&str; 4] = ["", " started=1", " started=2", " started=9"];
const WANTED: [&str; 8] = [
    "cpu=4 priority=5",
    "cpu=3 priority=5 label:app=web",
    "cpu=3 priority=2",
    "cpu=2 priority=9 port=80",
    "cpu=4",
    "cpu=9 priority=5",
    "cpu=3 priority=5 tolerate=k",
    "cpu=3 priority=5 label:app=web anti=host/app=db",
];
const BUDGETS: [&str; 3] = ["allowed=0 app=web", "allowed=1 app=web", "allowed=0 app=db"];
const GROUPS: [&str; 3] = ["priority=9", "priority=1", "priority=0 whole"];
const NAMES: usize = 5;
const PODS: usize = 14;

#[derive(Clone, Debug)]
enum Change {
    Node(usize, usize),
    NodeGone(usize),
    Place {
        pod: usize,
        node: usize,
        what: usize,
        start: usize,
    },
    Gone(usize),
    Nominate {
        pod: usize,
        node: Option<usize>,
        what: usize,
    },
    Budget(usize, Option<usize>),
    Group(usize, Option<usize>),
    Ask(usize),
    /// This many unschedulable pods arrive, each with another request.
    Unlike(usize),
}

fn change() -> impl Strategy<Value = Change> {
    let places = (0..PODS, 0..NAMES, 0..PLACED.len(), 0..STARTS.len());
    prop_oneof![
        1 => (0..NAMES, 0..NODES.len()).prop_map(|(name, what)| Change::Node(name, what)),
        1 => (0..NAMES).prop_map(Change::NodeGone),
        8 => places.prop_map(|(pod, node, what, start)| Change::Place { pod, node, what, start }),
        2 => (0..PODS).prop_map(Change::Gone),
        2 => (0..3_usize, prop::option::of(0..NAMES), 0..PLACED.len())
            .prop_map(|(pod, node, what)| Change::Nominate { pod, node, what }),
        1 => (0..2_usize, prop::option::of(0..BUDGETS.len())).prop_map(|(at, what)| Change::Budget(at, what)),
        // Now and then no group is left.
        3 => (0..2_usize, prop::option::weighted(0.4, 0..GROUPS.len()))
            .prop_map(|(at, what)| Change::Group(at, what)),
        12 => (0..WANTED.len()).prop_map(Change::Ask),
        // Close to the maximum number of cached signatures.
        1 => prop::sample::select(vec![1, 2, 63, 64, 65]).prop_map(Change::Unlike),
    ]
}

struct Law {
    cluster: TestCluster,
    framework: Framework,
    decisions: DecisionCache,
    now: Time,
    asked: u32,
    /// How often the cache gave the result.
    answers: Cell<u32>,
}

impl Law {
    fn new(percentage: u32, absolute: u32) -> Self {
        let mut cluster = TestCluster::new();
        cluster.tables.set_group_gates(GroupGates {
            workloads: true,
            gangs: true,
            preemption: true,
            ..GroupGates::OFF
        });
        for at in 0..NAMES {
            let node = cluster.node_from(&format!("n{at} {}", NODES[0]));
            cluster.add_node(&node);
        }
        let mut plan = Plan::default();
        plan.args.default_preemption = DefaultPreemptionArgs {
            min_candidate_nodes_percentage: percentage,
            min_candidate_nodes_absolute: absolute,
        };
        let (framework, decisions) = (Framework::new(&plan), DecisionCache::default());
        Self { cluster, framework, decisions, now: Time::from_secs(5), asked: 0, answers: Cell::new(0) }
    }

    fn apply(&mut self, change: &Change) {
        let cluster = &mut self.cluster;
        match *change {
            Change::Node(name, what) => {
                let node = cluster.node_from(&format!("n{name} {}", NODES[what]));
                cluster.add_node(&node);
            }
            Change::NodeGone(name) => {
                let name = cluster.tables.symbol(&format!("n{name}"));
                cluster.cache.remove_node(name);
            }
            Change::Place { pod, node, what, start } => {
                let words = format!("q{pod} on=n{node} {}{}", PLACED[what], STARTS[start]);
                let pod = cluster.pod_from(&words);
                cluster.place(&pod);
            }
            Change::Gone(pod) => {
                cluster.cache.remove_pod(&format!("q{pod}"));
            }
            Change::Nominate { pod, node, what } => {
                let pod = cluster.pod_from(&format!("m{pod} {}", PLACED[what]));
                let node = node.map(|node| cluster.tables.symbol(&format!("n{node}")));
                cluster.cache.nominate(&pod, node);
            }
            Change::Budget(at, Some(what)) => {
                language::apply(cluster, &format!("budget b{at} {}", BUDGETS[what]));
            }
            Change::Budget(at, None) => {
                let (namespace, name) =
                    (cluster.tables.symbol("default"), cluster.tables.symbol(&format!("b{at}")));
                cluster.cache.lookups_mut().remove_disruption_budget(namespace, name);
            }
            Change::Group(at, what) => {
                // The cached results are asked for directly before and after the change.
                (0..2 * WANTED.len()).for_each(|wanted| self.ask(wanted % WANTED.len()));
                let cluster = &mut self.cluster;
                let group = format!("g{at} {}", GROUPS[what.unwrap_or_default()]);
                let group = groups::group(&mut cluster.tables, &group.split(' ').collect::<Vec<_>>());
                let lookups = cluster.cache.lookups_mut();
                drop(if what.is_some() { lookups.set_group(group) } else { lookups.remove_group(group.key) });
                (0..WANTED.len()).for_each(|wanted| self.ask(wanted));
            }
            Change::Ask(wanted) => self.ask(wanted),
            Change::Unlike(count) => {
                // Twice, since the first result is not cached.
                (0..2 * count).for_each(|at| self.ask_for(&format!("cpu={} priority=5", 10 + at % count)));
            }
        }
    }

    /// Decides about a pod that is identical to earlier ones except for its name.
    fn ask(&mut self, wanted: usize) {
        self.ask_for(WANTED[wanted]);
    }

    fn ask_for(&mut self, wanted: &str) {
        let pod = self.cluster.pod_from(&format!("x{} {wanted}", self.asked));
        self.ask_about(&pod);
    }

    fn ask_about(&mut self, pod: &Arc<PodInfo>) {
        self.asked += 1;
        self.now = self.now + Duration::from_millis(300);
        self.cluster.cache.refresh();
        let snapshot = self.cluster.snapshot();
        let when = (Draws { seed: Seed(3), attempt: self.asked % 3 }, self.now);
        let tell = |failed: InfeasibleDecision<'_>, outcome: &PostFilter<'_>| {
            rejection(pod, failed, outcome, when.0)
        };
        let again =
            self.framework.reject_cached(&mut self.decisions, pod, snapshot, when, &mut NoProbe, tell);
        let plain = self.framework.decide(pod, snapshot, Options::default(), &mut NoProbe);
        let plain = match plain.expect("no filter fails here") {
            Decision::Infeasible(filtered) => {
                self.framework.note_infeasible(&mut self.decisions, pod, &filtered);
                let diagnosis = filtered.diagnose(snapshot);
                let failed = InfeasibleDecision { pod, snapshot, filtered: &filtered, diagnosis: &diagnosis };
                let outcome = self.framework.post_filter(failed, when.0, when.1, &mut NoProbe);
                tell(failed, &outcome)
            }
            Decision::Feasible(_) => "it fits".to_owned(),
        };
        if let Some(again) = again {
            self.answers.set(self.answers.get() + 1);
            assert_eq!(again, plain, "{pod:?}");
        }
    }
}

/// Formats everything that follows from the decision.
fn rejection(
    pod: &PodInfo,
    failed: InfeasibleDecision<'_>,
    outcome: &PostFilter<'_>,
    draws: Draws,
) -> String {
    let (snapshot, diagnosis) = (failed.snapshot, failed.diagnosis);
    let mut text = outcome.complete(&diagnosis.message);
    let curable: Vec<NodeIdx> = diagnosis.curable.iter().collect();
    let _ = write!(text, "\n{:?} {curable:?}", diagnosis.rejectors);
    let _ = write!(text, "\n{} {}", failed.filtered.evaluated(snapshot), failed.filtered.walked());
    let _ = write!(text, "\n{:?} {:?}", outcome.asked, outcome.preemption_blockers);
    match outcome.nomination.choose(pod, draws) {
        Some(chosen) => {
            let victims: Vec<&str> = chosen.victims.iter().map(|victim| &*victim.name).collect();
            let _ = write!(text, "\n{:?} {victims:?} {}", chosen.node, chosen.violations);
        }
        None => {
            let _ = write!(text, "\n{:?}", outcome.nomination);
        }
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn cached_rejection_equals_full_evaluation(
        changes in prop::collection::vec(change(), 1..150),
        (percentage, absolute) in prop::sample::select(vec![(10, 100), (0, 1), (0, 2), (50, 1)]),
    ) {
        let mut law = Law::new(percentage, absolute);
        changes.iter().for_each(|change| law.apply(change));
        (0..WANTED.len()).for_each(|wanted| law.ask(wanted));
    }
}

/// Full nodes, and pods that preempt others.
fn crowded_cluster() -> Law {
    let mut law = Law::new(10, 100);
    for pod in 0..NAMES {
        law.apply(&Change::Place { pod, node: pod, what: 3, start: 1 });
        law.apply(&Change::Place { pod: pod + NAMES, node: pod, what: 3, start: 1 });
    }
    law
}

#[test]
fn second_identical_unschedulable_pod_is_answered_by_the_cache() {
    let mut law = crowded_cluster();
    for answers in 0..3 {
        law.ask(0);
        assert_eq!(law.answers.get(), answers);
    }
}

#[test]
fn signatures_that_alternate_are_answered_by_the_cache_as_well() {
    let mut law = crowded_cluster();
    for answers in [0, 3] {
        [0, 1, 4].into_iter().for_each(|wanted| law.ask(wanted));
        assert_eq!(law.answers.get(), answers);
    }
}

/// Each of more than 1,024 groups of nodes with the same rejection would take memory.
#[test]
fn rejection_by_thousands_of_nodes_for_one_reason_is_cached() {
    for node in ["cpu=1", "cpu=4 taint=k:NoSchedule"] {
        let mut law = Law::new(10, 100);
        (0..1_100).for_each(|at| {
            let node = law.cluster.node_from(&format!("n{at} {node}"));
            law.cluster.add_node(&node);
        });
        (0..3).for_each(|_| law.ask(1));
        assert_eq!(law.answers.get(), 2, "{node}");
    }
}

/// The room of a nominated pod is taken for all pods but itself.
#[test]
fn nominated_pod_is_not_answered_by_the_rejection_of_identical_pods() {
    let mut law = crowded_cluster();
    let node = law.cluster.node_from("free cpu=4 pods=5");
    law.cluster.add_node(&node);
    let nominated = law.cluster.pod_from("first cpu=4 priority=5 nominated=free");
    law.cluster.cache.nominate(&nominated, nominated.nominated_node);
    (0..3).for_each(|_| law.ask(0));
    assert_eq!(law.answers.get(), 2, "others do not fit");
    law.ask_about(&nominated);
    assert_eq!(law.answers.get(), 2, "it fits");
}

#[test]
fn last_group_that_goes_invalidates_cached_dry_runs_of_its_members() {
    let mut law = crowded_cluster();
    law.apply(&Change::Group(0, Some(0)));
    law.apply(&Change::Place { pod: 0, node: 0, what: 0, start: 1 });
    (0..3).for_each(|_| law.ask(1));
    law.apply(&Change::Group(0, None));
    (0..3).for_each(|_| law.ask(1));
}

#[test]
fn start_times_nominations_and_budgets_invalidate_cached_dry_runs() {
    let mut law = crowded_cluster();
    law.ask(1);
    law.ask(1);
    let changes = [
        Change::Place { pod: 0, node: 0, what: 3, start: 2 },
        Change::Nominate { pod: 0, node: Some(1), what: 5 },
        Change::Budget(0, Some(0)),
        Change::Place { pod: 3, node: 3, what: 3, start: 0 },
        Change::Place { pod: 4, node: 4, what: 3, start: 3 },
        Change::Nominate { pod: 0, node: None, what: 5 },
        Change::Budget(0, None),
    ];
    for change in &changes {
        law.apply(change);
        (0..20).for_each(|_| law.ask(1));
    }
    assert_eq!(law.answers.get(), 141, "each answer came from the cache");
}

/// There is a limit on different rejections, not on nodes.
#[test]
fn thousands_of_nodes_with_equal_rejections_are_answered_by_the_cache() {
    let mut law = crowded_cluster();
    for number in 0..1_100 {
        let node = law.cluster.node_from(&format!("m{number} cpu=4 pods=5 taint=k:NoSchedule"));
        law.cluster.add_node(&node);
    }
    for (wanted, answers) in [("cpu=9 priority=5", 1), ("cpu=9 priority=5 tolerate=k", 2)] {
        (0..2).for_each(|_| law.ask_for(wanted));
        assert_eq!(law.answers.get(), answers, "{wanted}");
    }
}

#[test]
fn rejections_of_nominated_pods_and_of_profiles_that_sample_nodes_are_not_cached() {
    const WORDS: &str = "cpu=4 priority=5";
    let mut law = crowded_cluster();
    (0..3).for_each(|_| law.ask_for(WORDS));
    assert_eq!(law.answers.get(), 2);
    (0..3).for_each(|_| law.ask_for(&format!("{WORDS} nominated=n0")));
    assert_eq!(law.answers.get(), 2, "a nominated pod like those before");
    let pod = law.cluster.pod_from(&format!("x {WORDS}"));
    let sampling = Framework::default().with_sampling(Some(Sampling::new(50)));
    let (decisions, snapshot) = (&mut law.decisions, law.cluster.snapshot());
    let when = (Draws { seed: Seed(3), attempt: 0 }, law.now);
    let mut is_answered = |framework: &Framework| {
        framework.reject_cached(decisions, &pod, snapshot, when, &mut NoProbe, |_, _| ()).is_some()
    };
    assert!(!is_answered(&sampling));
    assert!(is_answered(&law.framework));
}

#[test]
fn rejections_that_are_not_cached_displace_no_others() {
    for uncached in ["nominated=n0", "affinity=zone/app=none"] {
        let mut law = crowded_cluster();
        law.ask_for("cpu=9 priority=5");
        (0..100).for_each(|cpu| law.ask_for(&format!("cpu={} priority=5 {uncached}", 10 + cpu)));
        assert_eq!(law.answers.get(), 0);
        law.ask_for("cpu=9 priority=5");
        assert_eq!(law.answers.get(), 1, "{uncached}");
    }
}
