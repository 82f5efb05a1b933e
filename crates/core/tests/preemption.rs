//! Preemption: tables of nodes, victims and messages, its limits, and property tests of choice and execution.

mod support;

#[path = "preemption/execution.rs"]
mod execution;
#[path = "preemption/laws.rs"]
mod laws;

use std::cell::Cell;
use std::sync::Arc;
use supercargo_core::cache::{NodeView, Snapshot};
use supercargo_core::cycle::{
    Decision, Filtered, Framework, InfeasibleDecision, NoProbe, Nomination, Options,
};
use supercargo_core::framework::extension_point::ExtensionPoint;
use supercargo_core::framework::post_filter::{
    Candidate, Draws, ExtenderCandidates, Judge, PostFilterPlugin, PostFiltered, Unplaced,
};
use supercargo_core::framework::{CycleError, PluginName, Rejection};
use supercargo_core::model::node::NodeIdx;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::model::rng::Seed;
use supercargo_core::model::time::Time;
use supercargo_core::preemption::{DefaultPreemption, DefaultPreemptionArgs};
use supercargo_core::queue::QueueConfig;
use supercargo_core::registry::Plan;
use supercargo_core::report::{Outcome, Preemption};
use supercargo_core::scheduler::{Config, Profile, Scheduler, Step};
use support::{TestCluster, arrival, begin, table};

/// Start times in tests have three digits, in seconds.
const NOW: Time = Time::from_secs(1_000);

fn draws(seed: u64) -> Draws {
    Draws { seed: Seed(seed), attempt: 1 }
}

/// Returns the default plugins, changed by words: `without=Name` removes one from PostFilter, `skip=Name` from
/// PreFilter.
fn framework(with: &[&str]) -> Framework {
    let mut plan = Plan::default();
    for word in with {
        let (point, name) = match word.split_once('=') {
            Some(("without", name)) => (ExtensionPoint::PostFilter, name),
            Some(("skip", name)) => (ExtensionPoint::PreFilter, name),
            _ => panic!("unknown word {word:?}"),
        };
        plan.points.get_mut(&point).expect("every point is in the plan").retain(|plugin| *plugin != name);
    }
    Framework::new(&plan)
}

/// Returns the verdicts of the filters for a pod without a feasible node.
fn infeasible(framework: &Framework, cluster: &TestCluster, pod: &PodInfo) -> Filtered {
    let options = Options { ignore_own_nomination: true, ..Options::default() };
    match framework.decide(pod, cluster.snapshot(), options, &mut NoProbe) {
        Ok(Decision::Infeasible(filtered)) => filtered,
        Ok(Decision::Feasible(_)) => panic!("{} fits somewhere", pod.name),
        Err(CycleError(text)) => panic!("{text}"),
    }
}

fn candidate(snapshot: Snapshot<'_>, candidate: &Candidate<'_>) -> String {
    let names: Vec<&str> = candidate.victims.iter().map(|victim| &*victim.name).collect();
    let node = snapshot.text(snapshot.node_info(candidate.node).name);
    let protected = match candidate.violations {
        0 => String::new(),
        some => format!(", {some} protected"),
    };
    format!("{node}: {}{protected}\n", names.join(" "))
}

/// Returns the full message, then one line per candidate with the least disruption, then the change of the
/// nomination.
fn describe(cluster: &mut TestCluster, with: &[&str], pod: &PodInfo) -> String {
    let framework = framework(with);
    let filtered = infeasible(&framework, cluster, pod);
    let snapshot = cluster.snapshot();
    let diagnosis = filtered.diagnose(snapshot);
    let failed = InfeasibleDecision { pod, snapshot, filtered: &filtered, diagnosis: &diagnosis };
    let outcome = framework.post_filter(failed, draws(1), NOW, &mut NoProbe);
    let mut text = format!("{}\n", outcome.complete(&diagnosis.message));
    match &outcome.nomination {
        Nomination::Keep => text.push_str("nomination kept\n"),
        Nomination::Clear => text.push_str("nomination cleared\n"),
        Nomination::To(candidates) => {
            let mut lines: Vec<String> = candidates.iter().map(|c| candidate(snapshot, c)).collect();
            lines.sort_unstable();
            text.extend(lines);
        }
    }
    text
}

#[test]
fn preemption_chooses_victims_as_upstream() {
    table::check_file_by("preemption.txt", &describe);
}

/// A pod with priority 9 that needs a whole node, and `nodes` nodes that each hold a pod of another priority.
fn crowded_cluster(nodes: usize) -> (TestCluster, Arc<PodInfo>) {
    let mut cluster = TestCluster::new();
    for at in 0..nodes {
        let node = cluster.node_from(&format!("n{at} cpu=1"));
        cluster.add_node(&node);
        let pod = cluster.pod_from(&format!("p{at} on=n{at} cpu=1 priority=-{at}"));
        cluster.place(&pod);
    }
    let pod = cluster.pod_from("x cpu=1 priority=9");
    (cluster, pod)
}

/// Counts how often all filters run.
struct Counting<'a> {
    filtered: &'a Filtered,
    asked: Cell<usize>,
}

impl Judge for Counting<'_> {
    fn first_rejection(&self, node: &NodeView<'_>) -> Result<Option<(PluginName, Rejection)>, CycleError> {
        self.asked.set(self.asked.get() + 1);
        self.filtered.first_rejection(node)
    }

    fn is_candidate(&self, snapshot: Snapshot<'_>, node: NodeIdx) -> bool {
        self.filtered.is_candidate(snapshot, node)
    }
}

/// Returns the candidates with the least disruption, and how often all filters ran for them.
fn tried(
    cluster: &TestCluster,
    pod: &PodInfo,
    (percentage, absolute): (u32, u32),
    seed: u64,
) -> (Vec<usize>, usize) {
    let filtered = infeasible(&Framework::default(), cluster, pod);
    let diagnosis = filtered.diagnose(cluster.snapshot());
    let judge = Counting { filtered: &filtered, asked: Cell::new(0) };
    let unplaced = Unplaced {
        rooms: ExtenderCandidates::Free,
        pod,
        snapshot: cluster.snapshot(),
        curable: &diagnosis.curable,
        prepared_by: &[],
        judge: &judge,
        draws: draws(seed),
        now: NOW,
    };
    let args = DefaultPreemptionArgs {
        min_candidate_nodes_percentage: percentage,
        min_candidate_nodes_absolute: absolute,
    };
    let outcome = DefaultPreemption::new(args).post_filter(&unplaced);
    let nodes = match outcome {
        PostFiltered::Found(candidates) => {
            candidates.iter().map(|candidate| candidate.node.index()).collect()
        }
        PostFiltered::Nothing { .. } => Vec::new(),
        PostFiltered::Failed(CycleError(text)) => panic!("{text}"),
    };
    (nodes, judge.asked.get())
}

/// Each dry run evaluates the filters twice: without the victim, and after its reprieve.
#[test]
fn dry_runs_stop_at_the_candidate_limit() {
    let (cluster, pod) = crowded_cluster(300);
    for (limits, enough) in [((10, 100), 100), ((50, 100), 150), ((1, 2), 3), ((0, 1), 1), ((100, 0), 300)] {
        let (nodes, asked) = tried(&cluster, &pod, limits, 1);
        assert_eq!((nodes.len(), asked), (1, 2 * enough), "{limits:?}");
    }
}

/// Priorities decrease from node to node, so the last tried node is the best candidate, unless the search wraps
/// around.
#[test]
fn candidate_search_start_depends_on_the_seed() {
    let (cluster, pod) = crowded_cluster(300);
    let last: Vec<usize> = (0..40).map(|seed| tried(&cluster, &pod, (0, 5), seed).0[0]).collect();
    assert_eq!(last, (0..40).map(|seed| tried(&cluster, &pod, (0, 5), seed).0[0]).collect::<Vec<_>>());
    assert!(last.iter().all(|&node| node >= 4), "five nodes in a row: {last:?}");
    assert!(last.iter().any(|&node| node < 100) && last.iter().any(|&node| node > 200), "{last:?}");
}

/// Upstream re-adds a pod to its node, behind the others, when its status changes. Among pods with equal priority and
/// start time, the last one is evicted first.
#[test]
fn status_update_does_not_change_the_victims() {
    let mut cluster = TestCluster::new();
    let node = cluster.node_from("a cpu=2");
    cluster.add_node(&node);
    for words in ["first on=a cpu=1 started=7", "second on=a cpu=1 started=7"] {
        let pod = cluster.pod_from(words);
        cluster.place(&pod);
    }
    let newer = cluster.pod_from("first on=a cpu=1 started=7 said=anything");
    cluster.cache.replace_unchanged(&newer);
    let pod = cluster.pod_from("x cpu=1 priority=1");
    assert!(describe(&mut cluster, &[], &pod).ends_with("a: second\n"));
}

#[test]
fn lowest_priority_is_that_of_existing_pods() {
    let mut cluster = TestCluster::new();
    let node = cluster.node_from("a cpu=9");
    cluster.add_node(&node);
    assert_eq!(cluster.snapshot().lowest_priority(), None);
    for (words, lowest) in [("p on=a priority=5", 5), ("q on=a priority=-3", -3), ("r on=a priority=-3", -3)]
    {
        let pod = cluster.pod_from(words);
        cluster.place(&pod);
        assert_eq!(cluster.snapshot().lowest_priority(), Some(lowest));
    }
    let newer = cluster.pod_from("q on=a priority=7");
    cluster.cache.replace_unchanged(&newer);
    assert_eq!(cluster.snapshot().lowest_priority(), Some(-3));
    cluster.cache.remove_pod("r");
    assert_eq!(cluster.snapshot().lowest_priority(), Some(5));
    cluster.cache.remove_pod("p");
    assert_eq!(cluster.snapshot().lowest_priority(), Some(7));
}

/// The percentage of a small cluster may be zero. Then there are no candidates, as upstream's lists have no capacity.
#[test]
fn candidate_percentage_of_zero_nodes_allows_no_candidate() {
    let (cluster, pod) = crowded_cluster(50);
    assert_eq!(tried(&cluster, &pod, (1, 0), 1).0, Vec::<usize>::new());
    assert_eq!(tried(&cluster, &pod, (2, 0), 1).0.len(), 1);
}

/// Candidates with violations never end the search; it continues for one without.
#[test]
fn search_continues_until_a_candidate_violates_no_budget() {
    let (mut cluster, pod) = crowded_cluster(40);
    let (namespace, name, budget) =
        support::language::budget(&mut cluster.tables, &["b", "allowed=0", "app=web"]);
    cluster.cache.lookups_mut().set_disruption_budget(namespace, name, budget);
    for at in (0..40).filter(|&at| at != 17) {
        let pod = cluster.pod_from(&format!("p{at} on=n{at} cpu=1 priority=-{at} label:app=web"));
        cluster.place(&pod);
    }
    for seed in 0..10 {
        assert_eq!(tried(&cluster, &pod, (0, 1), seed).0, [17]);
    }
}

/// Returns what an engine reports about preemption for a pod that needs all of a node with these pods.
fn reported(with: &[&str], there: &[&str]) -> Preemption {
    let profile = Profile { name: "default-scheduler".to_owned(), framework: framework(with) };
    let config = Config { seed: Seed(1), profiles: vec![profile], queue: QueueConfig::default() };
    let mut scheduler = Scheduler::new(config, NOW);
    begin(&mut scheduler, NOW, 10);
    for line in [&["node a cpu=4"][..], there, &["pod x cpu=4 priority=5"]].concat() {
        let event = arrival(scheduler.tables(), line);
        scheduler.handle(NOW, event);
    }
    loop {
        match scheduler.step(NOW, &mut NoProbe) {
            Step::Report(report) => match report.outcome {
                Outcome::Unschedulable { preemption, .. } => return preemption,
                other => panic!("{other:?}"),
            },
            Step::Idle { .. } => panic!("the pod is tried"),
            Step::Effect(_) | Step::GroupReport(_) | Step::Notice(_) => {}
        }
    }
}

#[test]
fn report_says_whether_preemption_was_tried_and_how_many_victims_are_evicted() {
    assert_eq!(reported(&["without=DefaultPreemption"], &["pod v cpu=4 on=a"]), Preemption::NotTried);
    assert_eq!(reported(&[], &["pod v cpu=4 on=a priority=9"]), Preemption::NoCandidate);
    let there = ["pod v cpu=1 on=a", "pod w cpu=1 on=a", "pod going cpu=2 on=a deleting"];
    let Preemption::Nominated { victims, evictions, .. } = reported(&[], &there) else {
        panic!("all of them are less important")
    };
    assert_eq!((victims.len(), evictions), (3, 2), "one terminates already");
}
