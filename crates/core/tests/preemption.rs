//! Preemption: tables of nodes, victims and messages, its limits, and property tests of choice and execution.

mod support;

#[path = "preemption/carrying.rs"]
mod carrying;
#[path = "preemption/laws.rs"]
mod laws;

use std::cell::Cell;
use std::sync::Arc;
use supercargo_core::cache::{NodeView, Snapshot};
use supercargo_core::cycle::{Decision, Failed, Filtered, Framework, NoProbe, Nomination, Options};
use supercargo_core::framework::post_filter::{
    Candidate, Draws, Judge, PostFilterPlugin, PostFiltered, Rooms, Unplaced,
};
use supercargo_core::framework::registry::{ExtensionPoint, Plan};
use supercargo_core::framework::{CycleError, PluginName, Rejection};
use supercargo_core::pod::PodInfo;
use supercargo_core::preemption::{DefaultPreemption, DefaultPreemptionArgs};
use supercargo_core::rng::Seed;
use supercargo_core::time::Time;
use support::{World, table};

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
            _ => panic!("nobody knows {word:?} here"),
        };
        plan.points.get_mut(&point).expect("every point is in the plan").retain(|plugin| *plugin != name);
    }
    Framework::new(&plan)
}

/// Returns the verdicts of the filters for a pod without a feasible node.
fn infeasible(framework: &Framework, world: &World, pod: &PodInfo) -> Filtered {
    let options = Options { ignore_own_nomination: true, ..Options::default() };
    match framework.decide(pod, world.snapshot(), options, &mut NoProbe) {
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
fn say(world: &mut World, with: &[&str], pod: &PodInfo) -> String {
    let framework = framework(with);
    let filtered = infeasible(&framework, world, pod);
    let snapshot = world.snapshot();
    let diagnosis = filtered.diagnose(snapshot);
    let failed = Failed { pod, snapshot, filtered: &filtered, diagnosis: &diagnosis };
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
fn rooms_are_made_as_upstream_makes_them() {
    table::check_file_by("preemption.txt", &say);
}

/// A pod with priority 9 that needs a whole node, and `nodes` nodes that each hold a pod of another priority.
fn crowd(nodes: usize) -> (World, Arc<PodInfo>) {
    let mut world = World::new();
    for at in 0..nodes {
        let node = world.node_from(&format!("n{at} cpu=1"));
        world.add_node(&node);
        let pod = world.pod_from(&format!("p{at} on=n{at} cpu=1 priority=-{at}"));
        world.place(&pod);
    }
    let pod = world.pod_from("x cpu=1 priority=9");
    (world, pod)
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
}

/// Returns the candidates with the least disruption, and how often all filters ran for them.
fn tried(world: &World, pod: &PodInfo, (percentage, absolute): (u32, u32), seed: u64) -> (Vec<usize>, usize) {
    let filtered = infeasible(&Framework::default(), world, pod);
    let diagnosis = filtered.diagnose(world.snapshot());
    let judge = Counting { filtered: &filtered, asked: Cell::new(0) };
    let unplaced = Unplaced {
        rooms: Rooms::Free,
        pod,
        snapshot: world.snapshot(),
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
fn no_more_nodes_are_tried_than_make_enough_candidates() {
    let (world, pod) = crowd(300);
    for (limits, enough) in [((10, 100), 100), ((50, 100), 150), ((1, 2), 3), ((0, 1), 1), ((100, 0), 300)] {
        let (nodes, asked) = tried(&world, &pod, limits, 1);
        assert_eq!((nodes.len(), asked), (1, 2 * enough), "{limits:?}");
    }
}

/// Priorities decrease from node to node, so the last tried node is the best candidate, unless the search wraps
/// around.
#[test]
fn where_the_search_begins_is_drawn_by_seed() {
    let (world, pod) = crowd(300);
    let last: Vec<usize> = (0..40).map(|seed| tried(&world, &pod, (0, 5), seed).0[0]).collect();
    assert_eq!(last, (0..40).map(|seed| tried(&world, &pod, (0, 5), seed).0[0]).collect::<Vec<_>>());
    assert!(last.iter().all(|&node| node >= 4), "five nodes in a row: {last:?}");
    assert!(last.iter().any(|&node| node < 100) && last.iter().any(|&node| node > 200), "{last:?}");
}

/// Upstream re-adds a pod to its node, behind the others, when its status changes. Among pods with equal priority and
/// start time, the last one is evicted first.
#[test]
fn a_status_update_does_not_change_who_goes() {
    let mut world = World::new();
    let node = world.node_from("a cpu=2");
    world.add_node(&node);
    for words in ["first on=a cpu=1 started=7", "second on=a cpu=1 started=7"] {
        let pod = world.pod_from(words);
        world.place(&pod);
    }
    let newer = world.pod_from("first on=a cpu=1 started=7 said=anything");
    world.cache.renew_pod(&newer);
    let pod = world.pod_from("x cpu=1 priority=1");
    assert!(say(&mut world, &[], &pod).ends_with("a: second\n"));
}

#[test]
fn the_lowest_priority_is_that_of_the_pods_that_are_there() {
    let mut world = World::new();
    let node = world.node_from("a cpu=9");
    world.add_node(&node);
    assert_eq!(world.snapshot().lowest_priority(), None);
    for (words, lowest) in [("p on=a priority=5", 5), ("q on=a priority=-3", -3), ("r on=a priority=-3", -3)]
    {
        let pod = world.pod_from(words);
        world.place(&pod);
        assert_eq!(world.snapshot().lowest_priority(), Some(lowest));
    }
    let newer = world.pod_from("q on=a priority=7");
    world.cache.renew_pod(&newer);
    assert_eq!(world.snapshot().lowest_priority(), Some(-3));
    world.cache.remove_pod("r");
    assert_eq!(world.snapshot().lowest_priority(), Some(5));
    world.cache.remove_pod("p");
    assert_eq!(world.snapshot().lowest_priority(), Some(7));
}

/// The percentage of a small cluster may be zero. Then there are no candidates, as upstream's lists have no capacity.
#[test]
fn a_share_of_no_nodes_lets_no_candidate_in() {
    let (world, pod) = crowd(50);
    assert_eq!(tried(&world, &pod, (1, 0), 1).0, Vec::<usize>::new());
    assert_eq!(tried(&world, &pod, (2, 0), 1).0.len(), 1);
}

/// Candidates with violations never end the search; it continues for one without.
#[test]
fn the_search_goes_on_until_a_candidate_breaks_no_budget() {
    let (mut world, pod) = crowd(40);
    let (namespace, name, budget) =
        support::language::budget(&mut world.tables, &["b", "allowed=0", "app=web"]);
    world.cache.lookups_mut().set_disruption_budget(namespace, name, budget);
    for at in (0..40).filter(|&at| at != 17) {
        let pod = world.pod_from(&format!("p{at} on=n{at} cpu=1 priority=-{at} label:app=web"));
        world.place(&pod);
    }
    for seed in 0..10 {
        assert_eq!(tried(&world, &pod, (0, 1), seed).0, [17]);
    }
}
