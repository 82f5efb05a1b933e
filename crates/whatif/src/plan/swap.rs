//! Swaps: a pod leaves a node that stays, so that a displaced pod gets its place.

use super::passes::Planner;
use super::steps::{Certainty, Step};
use std::collections::BTreeSet;
use supercargo_core::model::intern::Symbol;
use supercargo_core::model::node::NodeIdx;
use supercargo_core::model::node_set::NodeSet;
use supercargo_core::model::pod::PodInfo;

/// Number of swaps that are tried for one pod.
const TRIED_MAX: usize = 64;

impl Planner<'_> {
    /// Finds a pod whose move, by the scheduler's own decision, lets the pod at `at` leave its node. Returns both
    /// steps. Pods of `moved` move only once.
    pub(super) fn swap(
        &mut self,
        at: usize,
        avoided: &NodeSet,
        moved: &BTreeSet<usize>,
    ) -> Option<Vec<Step>> {
        let pairs = self.swap_candidates(at, avoided, moved);
        for (other, target) in pairs.into_iter().take(TRIED_MAX) {
            if self.swaps_left == 0 {
                return None;
            }
            self.swaps_left -= 1;
            let before = self.trial.mark();
            let mut elsewhere = avoided.clone();
            elsewhere.insert(target);
            if let Ok(first) = self.step(other, &elsewhere, Certainty::Certain, true)
                && let Ok(second) = self.step(at, avoided, Certainty::Certain, false)
            {
                return Some(vec![first, second]);
            }
            self.trial.roll_back_to(before);
        }
        None
    }

    /// Returns pods, each with its node, whose absence would leave enough CPU, memory and room there; small pods first.
    fn swap_candidates(
        &self,
        at: usize,
        avoided: &NodeSet,
        moved: &BTreeSet<usize>,
    ) -> Vec<(usize, NodeIdx)> {
        let pod = &self.pods[at].pod;
        let mut pairs: Vec<(i64, usize, NodeIdx)> = Vec::new();
        let is_target = |node: &Symbol| *node != self.pods[at].node;
        for (&node, others) in self.on.iter().filter(|(node, _)| is_target(node)) {
            let Some(target) = self.trial.snapshot().find_node(node) else { continue };
            if avoided.contains(target) || self.trial.snapshot().cordoned_nodes().contains(target) {
                continue;
            }
            let lacking = self.lacking(target, pod);
            let is_enough = |other: &PodInfo| {
                let placed = &other.resources.placed;
                placed.cpu_milli >= lacking.0 && placed.memory >= lacking.1
            };
            let here = others.iter().filter(|other| !moved.contains(other));
            let fitting = here.filter(|&&other| is_enough(&self.pods[other].pod));
            pairs.extend(
                fitting.map(|&other| (self.pods[other].pod.resources.placed.cpu_milli, other, target)),
            );
        }
        pairs.sort_unstable();
        pairs.into_iter().map(|(_, other, target)| (other, target)).collect()
    }

    /// Returns the CPU and memory that a node lacks for a pod; not positive if it has enough.
    pub(super) fn lacking(&self, node: NodeIdx, pod: &PodInfo) -> (i64, i64) {
        let (snapshot, request) = (self.trial.snapshot(), &pod.resources.request);
        let (allocatable, requested) = (&snapshot.node_info(node).allocatable, snapshot.requested(node));
        (
            request.cpu_milli - (allocatable.cpu_milli - requested.cpu_milli),
            request.memory - (allocatable.memory - requested.memory),
        )
    }
}
