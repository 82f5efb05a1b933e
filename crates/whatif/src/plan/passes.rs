//! One pass over all pods that a set of nodes displaces: each is decided in turn, and everything is undone at the end.

use super::candidates::{Candidate, Nodes};
use super::movable::Resident;
use super::steps::{Certainty, Step, displace, settle};
use crate::cluster::{Cluster, Interrupt};
use crate::explain::cordon;
use std::collections::{BTreeMap, BTreeSet};
use supercargo_core::model::intern::Symbol;
use supercargo_core::model::node_set::NodeSet;
use supercargo_core::scheduler::Trial;

/// The planner's view of a cluster.
pub(super) struct Planner<'a> {
    pub(super) trial: &'a mut Trial,
    pub(super) pods: &'a [Resident],
    /// The positions of all pods that may move, in the order of decisions.
    order: Vec<usize>,
    /// The pods that may move, by node.
    pub(super) on: BTreeMap<Symbol, Vec<usize>>,
    /// Number of decisions so far.
    pub(super) decisions: usize,
    /// Number of swaps that may still be tried. Each takes a few decisions.
    pub(super) swaps_left: usize,
    /// Ends the search early; its result is not used then.
    pub(super) interrupt: Interrupt,
}

/// The result of a pass.
#[derive(Debug, Default)]
pub(super) struct Pass {
    pub(super) steps: Vec<Step>,
    /// The pods without a certain place, with the reasons. The other pods of their nodes were not tried.
    pub(super) failed: Vec<(usize, String)>,
}

/// How to make a pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct PassOptions<'a> {
    pub(super) certainty: Certainty,
    /// Whether pods of other nodes may be moved to make room.
    pub(super) swaps: bool,
    /// Whether the first failure ends the pass.
    pub(super) stops: bool,
    /// The pods to decide first.
    pub(super) first: &'a [usize],
}

/// Number of swaps that are tried for a whole plan: at most some 10,000 decisions, which take about a second.
const SWAPS_MAX: usize = 4_000;

impl<'a> Planner<'a> {
    pub(super) fn new(cluster: &'a mut Cluster, pods: &'a [Resident], nodes: &Nodes) -> Self {
        let interrupt = cluster.interrupt().clone();
        let trial = cluster.trial_mut();
        let mut order: Vec<usize> = (0..pods.len()).filter(|&at| pods[at].moves()).collect();
        order.sort_by(|&a, &b| pods[a].rank(nodes.largest).cmp(&pods[b].rank(nodes.largest)));
        let mut on: BTreeMap<Symbol, Vec<usize>> = BTreeMap::new();
        for &at in order.iter().rev() {
            on.entry(pods[at].node).or_default().push(at);
        }
        Self { trial, pods, order, on, decisions: 0, swaps_left: SWAPS_MAX, interrupt }
    }

    /// Returns the pods of these nodes in the order of decisions.
    pub(super) fn displaced(&self, nodes: &BTreeSet<Symbol>, first: &[usize]) -> Vec<usize> {
        let is_meant = |at: &usize| nodes.contains(&self.pods[*at].node);
        let early: BTreeSet<usize> = first.iter().copied().collect();
        let rest = self.order.iter().filter(|at| !early.contains(at));
        first.iter().chain(rest).copied().filter(is_meant).collect()
    }

    /// Cordons nodes, and returns them as a set.
    pub(super) fn cordon(&mut self, nodes: &BTreeSet<Symbol>) -> NodeSet {
        let mut set = NodeSet::new();
        for &node in nodes {
            let name = self.trial.tables().text(node).to_owned();
            cordon(self.trial, &name);
            if let Some(node) = self.trial.snapshot().find_node(node) {
                set.insert(node);
            }
        }
        set
    }

    /// Empties these nodes at once: decides about every displaced pod, and undoes all of it.
    pub(super) fn pass(&mut self, freed: &[&Candidate], options: PassOptions<'_>) -> Pass {
        let start = self.trial.mark();
        let nodes: BTreeSet<Symbol> = freed.iter().map(|it| it.node).collect();
        let avoided = self.cordon(&nodes);
        let mut pass = Pass::default();
        let mut given_up: BTreeSet<Symbol> = BTreeSet::new();
        let mut moved: BTreeSet<usize> = BTreeSet::new();
        for at in self.displaced(&nodes, options.first) {
            if given_up.contains(&self.pods[at].node) || moved.contains(&at) {
                continue;
            }
            match self.step_or_swap(at, &avoided, options, &moved) {
                Ok(steps) => {
                    moved.extend(steps.iter().map(|step| step.pod));
                    pass.steps.extend(steps);
                }
                Err(why) => {
                    given_up.insert(self.pods[at].node);
                    pass.failed.push((at, why));
                    if options.stops {
                        break;
                    }
                }
            }
        }
        self.trial.roll_back_to(start);
        pass
    }

    /// Moves a pod, if necessary after another one that makes room for it. `moved` are the pods that moved before.
    fn step_or_swap(
        &mut self,
        at: usize,
        avoided: &NodeSet,
        options: PassOptions<'_>,
        moved: &BTreeSet<usize>,
    ) -> Result<Vec<Step>, String> {
        match self.step(at, avoided, options.certainty, false) {
            Ok(step) => Ok(vec![step]),
            Err(why) if options.swaps => self.swap(at, avoided, moved).ok_or(why),
            Err(why) => Err(why),
        }
    }

    /// Moves a pod to where the scheduler decides.
    ///
    /// # Errors
    /// Fails with the reason if it has no certain place; then it stays where it is.
    pub(super) fn step(
        &mut self,
        at: usize,
        avoided: &NodeSet,
        certainty: Certainty,
        is_swap: bool,
    ) -> Result<Step, String> {
        if self.interrupt.is_over() {
            return Err("the time limit of the plan is exceeded".to_owned());
        }
        self.decisions += 1;
        let before = self.trial.mark();
        let Resident { pod, node: from, .. } = &self.pods[at];
        let again = displace(self.trial, pod);
        match settle(self.trial, &again, avoided, certainty) {
            Ok((node, best)) => {
                let to = self.trial.snapshot().node_info(node).name;
                let (ties, feasible) = (best.nodes, best.feasible);
                Ok(Step { pod: at, from: *from, to, ties, feasible, is_swap })
            }
            Err(why) => {
                self.trial.roll_back_to(before);
                Err(why)
            }
        }
    }
}
