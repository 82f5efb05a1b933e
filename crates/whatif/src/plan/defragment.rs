//! Takes the pods that use a resource off nodes that use little of it, so that what is free is not in small parts.
//!
//! A free unit is *fragmented* if a pod uses another unit of its node. Nodes that the scheduler must not choose are
//! cordoned during the moves: the emptied ones and those that no pod uses.

use super::passes::Planner;
use super::steps::{Certainty, Step};
use std::collections::BTreeSet;
use supercargo_core::cache::Snapshot;
use supercargo_core::model::intern::Symbol;
use supercargo_core::model::node::NodeIdx;
use supercargo_core::model::node_set::NodeSet;
use supercargo_core::model::resources::Resources;

/// The bound on one resource.
pub(super) struct Fragments {
    /// The extended resource.
    pub(super) resource: Symbol,
    /// The share of the free units that may be fragmented, in percent.
    percent: u32,
    /// The nodes that accept pods before the plan.
    open: NodeSet,
}

/// How much of a resource is free on nodes that accept pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Free {
    pub(super) all: i64,
    pub(super) fragmented: i64,
}

impl Free {
    /// Returns the share that is fragmented, in millionths.
    pub(super) fn share(self) -> i64 {
        let share = i128::from(self.fragmented) * 1_000_000 / i128::from(self.all.max(1));
        i64::try_from(share).expect("a part is not more than the whole")
    }
}

/// A node whose pods may leave.
struct Partial {
    node: Symbol,
    /// The pods that use the resource.
    pods: Vec<usize>,
    used: i64,
}

impl Fragments {
    /// Returns `None` if no node has the resource.
    pub(super) fn new(snapshot: Snapshot<'_>, name: &str, percent: u32) -> Option<Self> {
        let resource = snapshot.tables().find(name)?;
        let has_some = |node: NodeIdx| amount(&snapshot.node_info(node).allocatable, resource) > 0;
        if !snapshot.nodes().iter().any(has_some) {
            return None;
        }
        let is_open = |node: &NodeIdx| !snapshot.cordoned_nodes().contains(*node);
        let open = snapshot.nodes().iter().filter(is_open).collect();
        Some(Self { resource, percent, open })
    }

    /// Returns the allocatable and the requested amount on a node.
    fn of(&self, snapshot: Snapshot<'_>, node: NodeIdx) -> (i64, i64) {
        let of = |resources| amount(resources, self.resource);
        (of(&snapshot.node_info(node).allocatable), of(snapshot.requested(node)))
    }

    pub(super) fn free(&self, snapshot: Snapshot<'_>) -> Free {
        let mut free = Free::default();
        for node in self.open.iter() {
            let (allocatable, used) = self.of(snapshot, node);
            let left = (allocatable - used).max(0);
            free.all += left;
            free.fragmented += if used > 0 { left } else { 0 };
        }
        free
    }

    /// Returns by how much the bound is exceeded, in millionths.
    pub(super) fn excess(&self, snapshot: Snapshot<'_>) -> i64 {
        (self.free(snapshot).share() - i64::from(self.percent) * 10_000).max(0)
    }

    /// Empties one node after the other until the bound holds or no node can be emptied. Returns the steps, and the
    /// nodes that are cordoned during all of them.
    pub(super) fn lower(&self, planner: &mut Planner<'_>) -> (Vec<Step>, BTreeSet<Symbol>) {
        let start = planner.trial.mark();
        let unused = self.unused(planner.trial.snapshot());
        let mut emptied: Vec<Partial> = Vec::new();
        while self.excess(planner.trial.snapshot()) > 0 {
            let Some(next) = self.next(planner, &unused, &emptied) else { break };
            emptied.push(next);
        }
        // The nodes that were chosen later are cordoned from the first step on.
        loop {
            planner.trial.roll_back_to(start);
            let closed = closed(&unused, &emptied);
            if emptied.is_empty() {
                return Default::default();
            }
            let avoided = planner.cordon(&closed);
            let mut steps = Vec::new();
            let failed = emptied.iter().position(|partial| match partial.leave(planner, &avoided) {
                Some(left) => {
                    steps.extend(left);
                    false
                }
                None => true,
            });
            match failed {
                Some(at) => drop(emptied.remove(at)),
                None => return (steps, closed),
            }
        }
    }

    /// Empties the first node of which all pods have a certain place and after which less is fragmented.
    fn next(
        &self,
        planner: &mut Planner<'_>,
        unused: &BTreeSet<Symbol>,
        emptied: &[Partial],
    ) -> Option<Partial> {
        let before = self.free(planner.trial.snapshot()).share();
        let moved: BTreeSet<usize> = emptied.iter().flat_map(|partial| &partial.pods).copied().collect();
        self.partial(planner, &moved).into_iter().find(|partial| {
            let mark = planner.trial.mark();
            let mut closed = closed(unused, emptied);
            closed.insert(partial.node);
            let avoided = planner.cordon(&closed);
            let is_better = partial.leave(planner, &avoided).is_some()
                && self.free(planner.trial.snapshot()).share() < before;
            if !is_better {
                planner.trial.roll_back_to(mark);
            }
            is_better
        })
    }

    /// Returns the nodes with the resource that no pod uses.
    fn unused(&self, snapshot: Snapshot<'_>) -> BTreeSet<Symbol> {
        let is_unused = |node: &NodeIdx| matches!(self.of(snapshot, *node), (1.., ..=0));
        self.open.iter().filter(is_unused).map(|node| snapshot.node_info(node).name).collect()
    }

    /// Returns the nodes with fragmented units whose pods may all leave, in the order in which they are tried: least
    /// use first.
    fn partial(&self, planner: &Planner<'_>, moved: &BTreeSet<usize>) -> Vec<Partial> {
        let snapshot = planner.trial.snapshot();
        let uses = |at: usize| amount(&planner.pods[at].pod.resources.placed, self.resource);
        let mut partial: Vec<Partial> = Vec::new();
        for node in self.open.iter() {
            let (allocatable, used) = self.of(snapshot, node);
            let node = snapshot.node_info(node).name;
            let here = planner.on.get(&node).into_iter().flatten();
            let pods: Vec<usize> = here.copied().filter(|at| uses(*at) > 0).collect();
            let movable: i64 = pods.iter().map(|&at| uses(at)).sum();
            // Something else uses it if the pods that may leave do not request all that is used.
            if used > 0 && used < allocatable && movable == used && !pods.iter().any(|at| moved.contains(at))
            {
                partial.push(Partial { node, pods, used });
            }
        }
        let name = |of: &Partial| snapshot.text(of.node).to_owned();
        partial.sort_by_cached_key(|of| (of.used, of.pods.len(), name(of)));
        partial
    }
}

impl Partial {
    /// Moves the pods that use the resource. Returns `None` if one has no certain place.
    fn leave(&self, planner: &mut Planner<'_>, avoided: &NodeSet) -> Option<Vec<Step>> {
        self.pods.iter().map(|&at| planner.step(at, avoided, Certainty::Certain, false).ok()).collect()
    }
}

/// Returns the nodes that must not get pods.
fn closed(unused: &BTreeSet<Symbol>, emptied: &[Partial]) -> BTreeSet<Symbol> {
    unused.iter().copied().chain(emptied.iter().map(|partial| partial.node)).collect()
}

fn amount(resources: &Resources, resource: Symbol) -> i64 {
    resources.scalar(resource).unwrap_or(0)
}
