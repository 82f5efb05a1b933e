//! One step: takes a pod off its node and decides about its replacement, as the scheduler will.

use super::answer::Move;
use super::movable::{Fate, Resident};
use crate::explain::claims::{afresh, with_new_ephemeral_claims};
use crate::explain::device_claims::{crowded, publish, release};
use std::sync::Arc;
use supercargo_core::cycle::NoProbe;
use supercargo_core::model::intern::{Symbol, known};
use supercargo_core::model::node::{NodeIdx, Taint, TaintEffect};
use supercargo_core::model::node_set::NodeSet;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::scheduler::{BestNodes, Trial, TrialDecision, TrialOptions};

/// The taint of a cordoned node.
const CORDON: Taint =
    Taint { key: known::UNSCHEDULABLE, value: known::EMPTY, effect: TaintEffect::NoSchedule };
/// How many of the tied nodes are tried as the one to force. If the first cannot be forced, others rarely can.
const FORCED_MAX: usize = 8;

/// The result of a step: the node of the replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// The position of the pod among the residents.
    pub(super) pod: usize,
    pub(super) from: Symbol,
    pub(super) to: Symbol,
    pub(super) ties: Vec<NodeIdx>,
    pub(super) feasible: usize,
    pub(super) is_swap: bool,
}

impl Step {
    /// Words a step; `number` counts from 1.
    pub(super) fn shown(&self, trial: &Trial, pods: &[Resident], number: usize) -> Move {
        let snapshot = trial.snapshot();
        let name = |node: &NodeIdx| snapshot.text(snapshot.node_info(*node).name).to_owned();
        let mut ties: Vec<String> = self.ties.iter().map(name).collect();
        ties.sort_unstable();
        let pod = &pods[self.pod];
        let allowed = match &pod.fate {
            Fate::Moves(why) => why.as_str(),
            Fate::Stays | Fate::Blocks { .. } => unreachable!("only pods that may move are in steps"),
        };
        let best = match (self.feasible, ties.len()) {
            (1, _) => "the only feasible node".to_owned(),
            (all, 1) => format!("the best of {all} feasible nodes"),
            (all, tied) => format!(
                "one of {tied} best of {all} feasible nodes, and the only one while the others are cordoned"
            ),
        };
        Move {
            step: number,
            pod: pod.key.clone(),
            from: snapshot.text(self.from).to_owned(),
            to: snapshot.text(self.to).to_owned(),
            is_forced: ties.len() > 1,
            ties,
            feasible: self.feasible,
            is_swap: self.is_swap,
            why: format!("{best}; {allowed}"),
        }
    }
}

/// How certain the result of a decision must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Certainty {
    /// One of the tied nodes is drawn.
    Quick,
    /// The result is one that can be forced.
    Certain,
}

/// Removes a pod from its node and returns its replacement.
pub(super) fn displace(trial: &mut Trial, pod: &Arc<PodInfo>) -> Arc<PodInfo> {
    trial.remove_pod(&pod.uid);
    let pod = match is_plain(pod) {
        true => afresh(pod),
        false => {
            // Its devices are free only once it has left.
            release(trial, pod);
            with_new_ephemeral_claims(trial, afresh(pod))
        }
    };
    Arc::new(pod)
}

fn is_plain(pod: &PodInfo) -> bool {
    pod.volumes.is_empty() && pod.claims.is_empty() && pod.container_requests.is_empty()
}

/// Decides about a replacement and assumes it on its node.
///
/// # Errors
/// Fails with the reason if no node is feasible, or if no certain result avoids the nodes of `avoided`. The pod may be
/// assumed on one of these nodes then.
pub(super) fn settle(
    trial: &mut Trial,
    pod: &Arc<PodInfo>,
    avoided: &NodeSet,
    certainty: Certainty,
) -> Result<(NodeIdx, BestNodes), String> {
    if let Some(claim) = crowded(trial, pod) {
        return Err(format!("too many pods use its claim {}", trial.tables().text(claim)));
    }
    if certainty == Certainty::Quick {
        return decide(trial, pod, avoided);
    }
    let best = trial.best_nodes(pod, None)?;
    let node = choose(trial, pod, &best, avoided)?;
    if !trial.assume_on(pod, node) {
        return Err("its volumes or devices cannot be reserved on the best node".to_owned());
    }
    if !is_plain(pod) {
        publish(trial, pod);
    }
    Ok((node, best))
}

/// Lets the scheduler draw one of the best nodes.
fn decide(trial: &mut Trial, pod: &Arc<PodInfo>, avoided: &NodeSet) -> Result<(NodeIdx, BestNodes), String> {
    let options = TrialOptions { uses_caches: true, preempts: false, is_comparable: false };
    let (name, feasible, score) = match trial.decide(pod, options, &mut NoProbe) {
        TrialDecision::Placed { node, feasible, score } => (node, feasible, score),
        TrialDecision::Unplaced { message: why, .. } | TrialDecision::Failed(why) => return Err(why),
    };
    let node = trial.snapshot().find_node(name).expect("a pod is placed on a node that exists");
    if avoided.contains(node) {
        return Err(format!("it would go to {}, which must not get pods", trial.tables().text(name)));
    }
    if !is_plain(pod) {
        publish(trial, pod);
    }
    Ok((node, BestNodes { nodes: vec![node], feasible, score }))
}

fn choose(
    trial: &mut Trial,
    pod: &Arc<PodInfo>,
    best: &BestNodes,
    avoided: &NodeSet,
) -> Result<NodeIdx, String> {
    let mut allowed = best.nodes.iter().copied().filter(|&node| !avoided.contains(node)).peekable();
    if let Some(&first) = allowed.peek()
        && best.nodes.len() == 1
    {
        return Ok(first);
    }
    let name = |trial: &Trial, node: NodeIdx| {
        let snapshot = trial.snapshot();
        snapshot.text(snapshot.node_info(node).name).to_owned()
    };
    if allowed.peek().is_none() {
        return Err(format!("it would go to {}, which must not get pods", name(trial, best.nodes[0])));
    }
    if reads_cordons(pod) {
        let nodes = best.nodes.len();
        return Err(format!("{nodes} nodes are equally good, and a cordon does not keep it off a node"));
    }
    for node in allowed.take(FORCED_MAX) {
        let mut within = trial.snapshot().nodes().clone();
        for &other in best.nodes.iter().filter(|&&other| other != node) {
            within.remove(other);
        }
        // As if the others were cordoned: the pod reads cordons nowhere else.
        if trial.best_nodes(pod, Some(&within)).is_ok_and(|alone| alone.nodes == [node]) {
            return Ok(node);
        }
    }
    Err(format!("{} nodes are equally good, and none is the best without the others", best.nodes.len()))
}

/// Whether a cordon of a node means more to the pod than that it is infeasible.
fn reads_cordons(pod: &PodInfo) -> bool {
    CORDON.is_tolerated_by(&pod.tolerations) || pod.spread.iter().any(|it| it.honor_node_taints)
}
