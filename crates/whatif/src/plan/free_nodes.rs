//! Chooses the nodes to empty: those with the fewest evictions, or as many as possible.
//!
//! Every choice is checked by a pass in which the scheduler decides about each displaced pod. Small sets of candidates
//! are searched exhaustively; large ones start from what free CPU, memory and room allow, and give up what fails.

use super::answer::{Blocker, FreeNodesPlan, KeptNode};
use super::candidates::{Candidate, Nodes};
use super::movable::{Accepted, Resident, residents};
use super::passes::{Pass, PassOptions, Planner};
use super::steps::{Certainty, Step};
use crate::cluster::{Cluster, ClusterError};
use std::collections::{BTreeMap, BTreeSet};
use supercargo_core::cache::Snapshot;
use supercargo_core::model::node::{NodeIdx, NodeInfo};
use supercargo_core::scheduler::Trial;

/// Which nodes to empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goal {
    /// This many, with the fewest evictions.
    Count(usize),
    /// These.
    Nodes(Vec<String>),
    /// As many as possible.
    All,
}

/// Up to this many candidates, all sets are tried: 256.
const EXHAUSTIVE_MAX: usize = 8;
/// With more displaced pods than this, quick passes precede the certain ones, which try one order of pods.
const LARGE: usize = 1_000;
/// Number of orders that are tried for one set of nodes: a pod that fails is decided first in the next one.
const ORDERS_MAX: usize = 6;
/// No set is tried beyond the first that works once the planner made so many decisions; they take about four seconds.
const DECISIONS_MAX: usize = 100_000;
/// Fraction (1/64) of the hoped-for nodes that are given up at once when a pod is unschedulable.
const GIVEN_UP_SHARE: usize = 64;
/// How often nodes are given up for one pod before its own node is; the number doubles each time.
const TRIES_MAX: usize = 4;

/// Plans how to empty nodes. The cluster stays as it is.
///
/// # Errors
/// Fails if a named node does not exist.
pub fn free_nodes(
    cluster: &mut Cluster,
    goal: &Goal,
    accepted: Accepted,
) -> Result<FreeNodesPlan, ClusterError> {
    if let Goal::Nodes(names) = goal {
        let known: BTreeSet<&str> = cluster.nodes().into_iter().collect();
        if let Some(unknown) = names.iter().find(|name| !known.contains(name.as_str())) {
            return Err(ClusterError::NoNode(unknown.clone()));
        }
    }
    Ok(planned(cluster, goal, accepted, EXHAUSTIVE_MAX))
}

/// Plans for nodes that exist. Up to `exhaustive_max` candidates, all sets are tried.
pub(super) fn planned(
    cluster: &mut Cluster,
    goal: &Goal,
    accepted: Accepted,
    exhaustive_max: usize,
) -> FreeNodesPlan {
    let pending = cluster.pending().count();
    let pods = residents(cluster, accepted);
    let named = match goal {
        Goal::Nodes(names) => Some(names.as_slice()),
        Goal::Count(_) | Goal::All => None,
    };
    let nodes = Nodes::of(cluster.trial().snapshot(), &pods, named);
    let planner = Planner::new(cluster, &pods, &nodes);
    let mut search = Search { planner, candidates: &nodes.candidates, exhaustive_max, why: BTreeMap::new() };
    let (freed, steps) = search.run(goal);
    let why = search.why;
    cluster.trial_mut().refreshed();
    let moves = steps.iter().zip(1..).map(|(step, number)| step.shown(cluster.trial(), &pods, number));
    let moves = moves.collect();
    let mut kept = nodes.kept;
    // Once enough nodes are found, the others are not judged.
    let is_done = matches!(goal, Goal::Count(count) if freed.len() >= *count);
    let others = nodes.candidates.iter().enumerate().filter(|(at, _)| !freed.contains(at));
    for (at, candidate) in others.filter(|(at, _)| !is_done || why.contains_key(at)) {
        let blockers = why.get(&at).map(|(pod, reason)| blocker(&pods, *pod, reason));
        let node = candidate.name.clone();
        kept.insert(node.clone(), KeptNode { node, blockers: blockers.into_iter().collect() });
    }
    let mut freed: Vec<String> = freed.into_iter().map(|at| nodes.candidates[at].name.clone()).collect();
    freed.sort_unstable();
    FreeNodesPlan::new(freed, moves, kept.into_values().collect(), pending)
}

fn blocker(pods: &[Resident], pod: usize, reason: &str) -> Blocker {
    Blocker { pod: pods[pod].key.clone(), reason: reason.to_owned(), passes: false }
}

/// A set of candidates, by position.
type Set = BTreeSet<usize>;

struct Search<'a> {
    planner: Planner<'a>,
    candidates: &'a [Candidate],
    exhaustive_max: usize,
    /// Why a candidate was given up last: a pod of it, and the reason.
    why: BTreeMap<usize, (usize, String)>,
}

impl Search<'_> {
    fn run(&mut self, goal: &Goal) -> (Set, Vec<Step>) {
        let all = self.candidates.len();
        match goal {
            Goal::Nodes(_) => self.steady((0..all).collect()),
            Goal::Count(count) if all > self.exhaustive_max => self.first(*count),
            Goal::Count(count) => self.exhaustive((*count).min(all)),
            Goal::All if all > self.exhaustive_max => {
                let hoped = self.hoped();
                let (freed, steps) = self.steady(hoped);
                self.grown(freed, steps, all)
            }
            Goal::All => self.exhaustive(all),
        }
    }

    fn pass(&mut self, set: &Set, options: PassOptions<'_>) -> Pass {
        let chosen: Vec<&Candidate> = set.iter().map(|&at| &self.candidates[at]).collect();
        self.planner.pass(&chosen, options)
    }

    /// Makes certain passes over a set, with failed pods first in the next one. Returns the one with fewest failures.
    fn certain(&mut self, set: &Set, swaps: bool, stops: bool) -> Pass {
        let mut first: Vec<usize> = Vec::new();
        let mut best: Option<Pass> = None;
        for _ in 0..ORDERS_MAX {
            let pass =
                self.pass(set, PassOptions { certainty: Certainty::Certain, swaps, stops, first: &first });
            let again: Vec<usize> = pass.failed.iter().map(|(pod, _)| *pod).collect();
            if best.as_ref().is_none_or(|best| pass.failed.len() < best.failed.len()) {
                best = Some(pass);
            }
            let is_known = again.iter().all(|pod| first.contains(pod));
            if is_known || self.is_large(set) || self.planner.decisions > DECISIONS_MAX {
                break;
            }
            first.retain(|pod| !again.contains(pod));
            first.splice(0..0, again);
        }
        best.unwrap_or_default()
    }

    /// Gives up nodes whose pods have no certain place until all others have one.
    fn steady(&mut self, mut set: Set) -> (Set, Vec<Step>) {
        // A quick pass finds most failures at a fraction of the price.
        let quick = PassOptions { certainty: Certainty::Quick, swaps: false, stops: false, first: &[] };
        while self.is_large(&set) {
            let pass = self.pass(&set, quick);
            if pass.failed.is_empty() {
                break;
            }
            self.give_up(&mut set, pass.failed);
        }
        loop {
            let pass = self.certain(&set, true, false);
            if pass.failed.is_empty() {
                return (set, pass.steps);
            }
            self.give_up(&mut set, pass.failed);
        }
    }

    /// Whether a pass over a set takes so long that only one order is tried.
    fn is_large(&self, set: &Set) -> bool {
        set.iter().map(|&at| self.candidates[at].pods.len()).sum::<usize>() > LARGE
    }

    fn give_up(&mut self, set: &mut Set, failed: Vec<(usize, String)>) {
        for (pod, why) in failed {
            let node = self.planner.pods[pod].node;
            if let Some(at) = set.iter().copied().find(|&at| self.candidates[at].node == node) {
                set.remove(&at);
                self.why.insert(at, (pod, why));
            }
        }
    }

    /// Empties `count` nodes: the first candidates, and later ones for those that fail.
    fn first(&mut self, count: usize) -> (Set, Vec<Step>) {
        let mut next = count.min(self.candidates.len());
        let mut set: Set = (0..next).collect();
        loop {
            let (freed, steps) = self.steady(set);
            let missing = count - freed.len();
            if missing == 0 || next == self.candidates.len() {
                return (freed, steps);
            }
            let more = (next + missing).min(self.candidates.len());
            set = freed;
            set.extend(next..more);
            next = more;
        }
    }

    /// Tries all sets of at most `count` candidates, large ones first, and those of equal size by evictions. Adds nodes
    /// that need swaps.
    fn exhaustive(&mut self, count: usize) -> (Set, Vec<Step>) {
        let mut possible: Vec<usize> = Vec::new();
        for at in 0..self.candidates.len() {
            let alone = self.certain(&[at].into(), false, true);
            match alone.failed.into_iter().next() {
                None => possible.push(at),
                Some(failure) => drop(self.why.insert(at, failure)),
            }
        }
        let evictions = |set: &Set| set.iter().map(|&at| self.candidates[at].pods.len()).sum::<usize>();
        let set = |bits: u32| -> Set {
            possible.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1).map(|(_, &it)| it).collect()
        };
        let sets = (0..1_u32 << possible.len()).map(set).filter(|set| set.len() <= count);
        let mut sets: Vec<(usize, Set)> = sets.map(|set| (evictions(&set), set)).collect();
        sets.sort_by(|a, b| b.1.len().cmp(&a.1.len()).then(a.0.cmp(&b.0)));
        sets.retain(|(_, set)| self.is_affordable(set));
        for (_, set) in sets {
            let pass = self.certain(&set, false, true);
            match pass.failed.into_iter().next() {
                None => return self.grown(set, pass.steps, count),
                Some(failure) => self.give_up(&mut set.clone(), vec![failure]),
            }
        }
        unreachable!("no pod leaves the empty set of nodes")
    }

    fn is_affordable(&self, set: &Set) -> bool {
        let mut room = Room::of(self.planner.trial.snapshot());
        set.iter()
            .all(|&at| room.takes(self.planner.trial.snapshot(), &self.candidates[at], self.planner.pods))
    }

    /// Adds one candidate after the other, up to `count`, as long as the decisions allow it. Swaps are allowed.
    fn grown(&mut self, mut set: Set, mut steps: Vec<Step>, count: usize) -> (Set, Vec<Step>) {
        for at in 0..self.candidates.len() {
            let cost = steps.len() + self.candidates[at].pods.len();
            let is_too_late = self.planner.decisions + cost > DECISIONS_MAX;
            if set.contains(&at) || set.len() >= count || is_too_late {
                continue;
            }
            let mut more = set.clone();
            more.insert(at);
            let pass = self.certain(&more, true, true);
            match pass.failed.into_iter().next() {
                None => (set, steps) = (more, pass.steps),
                Some(failure) => {
                    self.why.entry(at).or_insert(failure);
                }
            }
        }
        (set, steps)
    }

    /// Returns the candidates that can probably be emptied together: as many as there is room for, less those that
    /// are given up when a pod is unschedulable.
    fn hoped(&mut self) -> Set {
        let start = self.planner.trial.mark();
        let snapshot = self.planner.trial.snapshot();
        let mut room = Room::of(snapshot);
        let is_affordable = |at: &usize| room.takes(snapshot, &self.candidates[*at], self.planner.pods);
        let mut hoped: Vec<usize> = (0..self.candidates.len()).take_while(is_affordable).collect();
        let share = (hoped.len() / GIVEN_UP_SHARE).max(1);
        let nodes = hoped.iter().map(|&at| self.candidates[at].node).collect();
        let of_node: BTreeMap<_, usize> =
            self.candidates.iter().enumerate().map(|(at, it)| (it.node, at)).collect();
        let before: Vec<NodeInfo> =
            hoped.iter().map(|&at| info(self.planner.trial, &self.candidates[at])).collect();
        let mut avoided = self.planner.cordon(&nodes);
        let mut moved: BTreeSet<usize> = BTreeSet::new();
        for pod in self.planner.displaced(&nodes, &[]) {
            let own = of_node[&self.planner.pods[pod].node];
            for tried in 0.. {
                if hoped.binary_search(&own).is_err() {
                    break;
                }
                if self.planner.step(pod, &avoided, Certainty::Quick, false).is_ok() {
                    moved.insert(pod);
                    break;
                }
                let mut given_up: Vec<usize> = Vec::new();
                while given_up.len() < share << tried && tried < TRIES_MAX {
                    let Some(last) = hoped.iter().rposition(|&at| at != own) else { break };
                    given_up.push(hoped.remove(last));
                }
                if given_up.is_empty() {
                    hoped.retain(|&at| at != own);
                    given_up.push(own);
                }
                for at in given_up {
                    self.planner.give_back(&self.candidates[at], &before[at], &mut moved);
                    let node = self.planner.trial.snapshot().find_node(self.candidates[at].node);
                    if let Some(node) = node {
                        avoided.remove(node);
                    }
                }
            }
        }
        self.planner.trial.roll_back_to(start);
        hoped.into_iter().collect()
    }
}

fn info(trial: &Trial, candidate: &Candidate) -> NodeInfo {
    let snapshot = trial.snapshot();
    let node = snapshot.find_node(candidate.node).expect("a candidate exists");
    snapshot.node_info(node).clone()
}

/// The CPU, memory and number of pods that the nodes that stay have free, and that displaced pods request.
struct Room {
    free: [i128; 3],
    requested: [i128; 3],
}

impl Room {
    /// Returns the room of a cluster without displaced pods.
    fn of(snapshot: Snapshot<'_>) -> Self {
        let mut room = Self { free: [0; 3], requested: [0; 3] };
        for node in snapshot.nodes().iter() {
            room.free.iter_mut().zip(free_on(snapshot, node)).for_each(|(sum, of)| *sum += of);
        }
        room
    }

    /// Counts a node as emptied. Returns whether the others have room for all displaced pods.
    fn takes(&mut self, snapshot: Snapshot<'_>, candidate: &Candidate, pods: &[Resident]) -> bool {
        if let Some(node) = snapshot.find_node(candidate.node) {
            self.free.iter_mut().zip(free_on(snapshot, node)).for_each(|(sum, of)| *sum -= of);
        }
        for &at in &candidate.pods {
            let placed = &pods[at].pod.resources.placed;
            let of = [placed.cpu_milli, placed.memory, 1].map(i128::from);
            self.requested.iter_mut().zip(of).for_each(|(sum, of)| *sum += of);
        }
        self.requested.iter().zip(&self.free).all(|(requested, free)| requested <= free)
    }
}

/// Returns the free CPU, memory and number of pods of a node; none if it is cordoned.
fn free_on(snapshot: Snapshot<'_>, node: NodeIdx) -> [i128; 3] {
    if snapshot.cordoned_nodes().contains(node) {
        return [0; 3];
    }
    let (info, requested) = (snapshot.node_info(node), snapshot.requested(node));
    let pods = i64::try_from(snapshot.pods_on(node).count()).unwrap_or(i64::MAX);
    [
        info.allocatable.cpu_milli - requested.cpu_milli,
        info.allocatable.memory - requested.memory,
        info.allocatable_pods - pods,
    ]
    .map(|left| i128::from(left.max(0)))
}

impl Planner<'_> {
    /// Uncordons a node, and puts its pods back.
    fn give_back(&mut self, candidate: &Candidate, before: &NodeInfo, moved: &mut BTreeSet<usize>) {
        self.trial.set_node(&std::sync::Arc::new(before.clone()));
        for &at in candidate.pods.iter().filter(|at| moved.remove(*at)) {
            let pod = &self.pods[at].pod;
            self.trial.remove_pod(&pod.uid);
            self.trial.place_pod(pod, candidate.node);
        }
    }
}
