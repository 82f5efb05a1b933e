//! Makes room for pods that do not fit: finds the fewest pods to move so that they do.
//!
//! Room is made on one node per pod. The node is cordoned until the end, so that the evicted pods go elsewhere.

use super::answer::{MakeRoomPlan, PlannedPod};
use super::candidates::Nodes;
use super::movable::{Accepted, residents, share};
use super::passes::Planner;
use super::steps::{Certainty, Step, settle};
use crate::cluster::{Cluster, ClusterError};
use crate::explain::cordon;
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use supercargo_core::cycle::NoProbe;
use supercargo_core::model::group::GroupKey;
use supercargo_core::model::intern::Symbol;
use supercargo_core::model::node::NodeIdx;
use supercargo_core::model::node_set::NodeSet;
use supercargo_core::model::pod::{PodInfo, Uid};
use supercargo_core::report::group::GroupOutcome;
use supercargo_core::scheduler::{TrialMark, TrialOptions};

/// Number of evictions that are considered for one pod.
const EVICTIONS_MAX: usize = 4;
/// Number of pods of a node that are considered, the largest; they form at most 4,845 sets of four.
const PODS_MAX: usize = 20;
/// Number of sets of pods that are tried for one pod: some 100,000 decisions, which take a few seconds.
const SETS_MAX: usize = 20_000;

/// Plans how to make room for pods that are not part of the cluster. The cluster stays as it is.
///
/// Members of a pod group are decided together once the moves are done.
pub fn make_room(cluster: &mut Cluster, pods: &[Arc<PodInfo>], accepted: Accepted) -> MakeRoomPlan {
    let residents = residents(cluster, accepted);
    let nodes = Nodes::of(cluster.trial().snapshot(), &residents, None);
    let mut order: Vec<Arc<PodInfo>> = pods.to_vec();
    order.sort_by_key(|pod| (Reverse(pod.priority), Reverse(share(pod, nodes.largest))));
    let mut planner = Planner::new(cluster, &residents, &nodes);
    let start = planner.trial.mark();
    let found = planner.found(&order);
    planner.trial.roll_back_to(start);
    let (steps, placed) = planner.replayed(&found, &order);
    planner.trial.roll_back_to(start);
    planner.trial.refreshed();
    let trial = cluster.trial();
    let snapshot = trial.snapshot();
    let shown = order.iter().zip(placed).map(|(pod, placed)| {
        let (to, reason) = match placed {
            Ok(node) => (Some(snapshot.text(node).to_owned()), None),
            Err(why) => (None, Some(why)),
        };
        PlannedPod { pod: snapshot.pod_key(pod), to, reason }
    });
    let shown = shown.collect();
    let moves = steps.iter().zip(1..).map(|(step, number)| step.shown(trial, &residents, number)).collect();
    let mut cordoned: Vec<String> = found.nodes.iter().map(|&node| snapshot.text(node).to_owned()).collect();
    cordoned.sort_unstable();
    MakeRoomPlan::new(cordoned, moves, shown)
}

/// Plans how to make room for the pods among the objects, which are those that [`Cluster::place`] takes.
///
/// # Errors
/// As [`Cluster::place`].
pub fn make_room_for(
    cluster: &mut Cluster,
    objects: &[Value],
    accepted: Accepted,
) -> Result<MakeRoomPlan, ClusterError> {
    cluster.fork();
    let plan = cluster.given_pods(objects).map(|pods| make_room(cluster, &pods, accepted));
    cluster.undo()?;
    plan
}

/// What was found for all pods so far.
struct Found {
    /// The nodes on which room is made.
    nodes: BTreeSet<Symbol>,
    /// The pods to move, in order.
    moves: Vec<usize>,
}

impl Planner<'_> {
    /// Decides about the pods in turn, and makes room for each that does not fit.
    fn found(&mut self, pods: &[Arc<PodInfo>]) -> Found {
        let mut found = Found { nodes: BTreeSet::new(), moves: Vec::new() };
        for pod in pods {
            if settle(self.trial, pod, &NodeSet::new(), Certainty::Quick).is_ok() {
                continue;
            }
            let mut sets_left = SETS_MAX;
            for evictions in 1..=EVICTIONS_MAX {
                if let Some((node, moved)) = self.room(pod, evictions, &found, &mut sets_left) {
                    found.nodes.insert(node);
                    found.moves.extend(moved);
                    break;
                }
            }
        }
        found
    }

    /// Finds a node on which the pod fits once `evictions` pods have moved, moves them, and assumes the pod there. The
    /// node stays cordoned.
    fn room(
        &mut self,
        pod: &Arc<PodInfo>,
        evictions: usize,
        found: &Found,
        sets_left: &mut usize,
    ) -> Option<(Symbol, Vec<usize>)> {
        let nodes: Vec<(Symbol, Vec<usize>)> =
            self.on.iter().map(|(&node, pods)| (node, pods.clone())).collect();
        for (node, here) in nodes {
            let Some(target) = self.trial.snapshot().find_node(node) else { continue };
            if found.nodes.contains(&node) || self.trial.snapshot().cordoned_nodes().contains(target) {
                continue;
            }
            let mut here: Vec<usize> = here.into_iter().filter(|at| !found.moves.contains(at)).collect();
            here.sort_by_key(|&at| Reverse(self.pods[at].pod.resources.placed.cpu_milli));
            here.truncate(PODS_MAX);
            for set in self.sets(pod, target, &here, evictions) {
                if *sets_left == 0 || self.interrupt.is_over() {
                    return None;
                }
                *sets_left -= 1;
                let before = self.trial.mark();
                if self.makes_room(pod, target, &set, before) {
                    return Some((node, set));
                }
                self.trial.roll_back_to(before);
            }
        }
        None
    }

    /// Returns the sets of so many of these pods without which the node has the CPU and memory for the pod.
    fn sets(&self, pod: &PodInfo, node: NodeIdx, here: &[usize], size: usize) -> Vec<Vec<usize>> {
        let (cpu, memory) = self.lacking(node, pod);
        let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
        for _ in 0..size {
            let longer = |set: &Vec<usize>| {
                let after = set.last().copied();
                let next = here.iter().skip_while(move |&&at| after.is_some_and(|after| at != after));
                let next = next.skip(usize::from(after.is_some()));
                next.map(|&at| set.iter().copied().chain([at]).collect()).collect::<Vec<Vec<usize>>>()
            };
            sets = sets.iter().flat_map(longer).collect();
        }
        let sum = |set: &[usize], of: fn(&PodInfo) -> i64| {
            set.iter().map(|&at| of(&self.pods[at].pod)).sum::<i64>()
        };
        sets.retain(|set| {
            sum(set, |pod| pod.resources.placed.cpu_milli) >= cpu
                && sum(set, |pod| pod.resources.placed.memory) >= memory
        });
        sets
    }

    /// Whether the pod fits on the node once the pods of a set have moved; then all of them are where they go.
    fn makes_room(&mut self, pod: &Arc<PodInfo>, target: NodeIdx, set: &[usize], before: TrialMark) -> bool {
        for &at in set {
            let uid = Arc::clone(&self.pods[at].pod.uid);
            self.trial.remove_pod(&uid);
        }
        let within: NodeSet = [target].into_iter().collect();
        let fits = self.trial.best_nodes(pod, Some(&within)).is_ok();
        self.decisions += 1;
        self.trial.roll_back_to(before);
        if !fits {
            return false;
        }
        let info = Arc::new(self.trial.snapshot().node_info(target).clone());
        self.cordon_node(target);
        if !set.iter().all(|&at| self.step(at, &within, Certainty::Certain, true).is_ok()) {
            return false;
        }
        // The cordon would keep the pod off, too.
        self.trial.set_node(&info);
        let best = self.trial.best_nodes(pod, Some(&within));
        let is_placed = best.is_ok_and(|best| self.trial.assume_on(pod, best.nodes[0]));
        self.cordon_node(target);
        is_placed
    }

    fn cordon_node(&mut self, node: NodeIdx) {
        let snapshot = self.trial.snapshot();
        let name = snapshot.text(snapshot.node_info(node).name).to_owned();
        cordon(self.trial, &name);
    }

    /// Makes the moves in order with the nodes cordoned, and then decides about the pods without. Returns the steps,
    /// and the node of each pod.
    fn replayed(&mut self, found: &Found, pods: &[Arc<PodInfo>]) -> (Vec<Step>, Vec<Result<Symbol, String>>) {
        let infos: Vec<_> = found
            .nodes
            .iter()
            .filter_map(|&node| {
                let snapshot = self.trial.snapshot();
                Some(Arc::new(snapshot.node_info(snapshot.find_node(node)?).clone()))
            })
            .collect();
        let avoided = self.cordon(&found.nodes);
        let steps: Result<Vec<Step>, String> =
            found.moves.iter().map(|&at| self.step(at, &avoided, Certainty::Certain, true)).collect();
        infos.iter().for_each(|info| self.trial.set_node(info));
        let (steps, problem) = match steps {
            Ok(steps) => (steps, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        if let Some(why) = problem {
            let text = format!("no order of the moves makes room for all pods: {why}");
            return (steps, pods.iter().map(|_| Err(text.clone())).collect());
        }
        let mut groups: BTreeMap<GroupKey, Group> = BTreeMap::new();
        let placed = pods.iter().map(|pod| {
            if let Some(key) = pod.group_key() {
                let group = groups.entry(key).or_insert_with(|| self.group(key, pods));
                return group.nodes.get(&pod.uid).copied().ok_or_else(|| group.status.clone());
            }
            let (node, _) = settle(self.trial, pod, &NodeSet::new(), Certainty::Quick)?;
            Ok(self.trial.snapshot().node_info(node).name)
        });
        let placed = placed.collect();
        (steps, placed)
    }

    /// Decides about the members of a group among the pods.
    fn group(&mut self, key: GroupKey, pods: &[Arc<PodInfo>]) -> Group {
        let members: Vec<Arc<PodInfo>> =
            pods.iter().filter(|pod| pod.group_key() == Some(key)).cloned().collect();
        let options = TrialOptions { uses_caches: true, preempts: false, is_comparable: false };
        let decided = self.trial.decide_group(key, &members, options, &mut NoProbe);
        let starts = decided.outcome == GroupOutcome::Scheduled;
        let nodes = decided.nodes.into_iter().filter(|_| starts).collect();
        Group { nodes, status: format!("the pod group does not start: {}", decided.status) }
    }
}

/// The result of a group.
struct Group {
    /// The nodes of its members; empty if it does not start.
    nodes: BTreeMap<Uid, Symbol>,
    status: String,
}
