//! `percentageOfNodesToScore`: a profile that has it stops looking once enough nodes are feasible, and looks on from there
//! for the next pod.
//!
//! The order and the window are upstream's with one worker (`parallelism: 1`): with more, the order of a list depends on
//! threads. A profile without it looks at every node, and nothing here runs. Upstream:
//! `pkg/scheduler/schedule_one.go#findNodesThatPassFilters`, `pkg/scheduler/backend/cache/node_tree.go`.

use super::{Filtered, Framework, Probe};
use crate::cache::Snapshot;
use crate::framework::CycleError;
use crate::framework::registry::ExtensionPoint;
use crate::hash::IdMap;
use crate::intern::holds_ids;
use crate::intern::{LabelSetId, Symbol, Tables};
use crate::node::{NodeIdx, NodeInfo};
use crate::node_set::NodeSet;
use crate::pod::PodInfo;

/// Fewer nodes than this are all looked at, and no search ends with fewer feasible ones.
const NODES_MIN: usize = 100;
/// The least that the adaptive rule comes to, in percent.
const ADAPTIVE_MIN: usize = 5;

/// How much of the nodes is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    percentage: u8,
}

impl Sampling {
    /// So many percent of the nodes, 0..=100; 0 is upstream's adaptive rule, which asks for less the more nodes there are.
    pub fn new(percentage: u8) -> Self {
        Self { percentage: percentage.min(100) }
    }

    /// How many feasible nodes of so many are enough (upstream `numFeasibleNodesToFind`).
    pub fn enough_of(self, nodes: usize) -> usize {
        if nodes < NODES_MIN {
            return nodes;
        }
        let percentage = match self.percentage {
            0 => 50usize.saturating_sub(nodes / 125).max(ADAPTIVE_MIN),
            set => usize::from(set),
        };
        (nodes * percentage / 100).max(NODES_MIN)
    }
}

/// Region and zone; empty ones count as absent.
type Zone = (Option<Symbol>, Option<Symbol>);

/// The order in which nodes are looked at, zone by zone in turns, and where the next search begins. One for all profiles.
#[derive(Debug, Default)]
pub struct Walk {
    start: usize,
    /// In the order in which they were first seen; none is empty.
    zones: Vec<(Zone, Vec<Symbol>)>,
    zone_of: IdMap<Symbol, Zone>,
}

impl Walk {
    /// A node is there, or changed. It keeps its place unless its zone changed.
    pub fn node_applied(&mut self, node: &NodeInfo, tables: &Tables) {
        let zone = zone_of(node.labels, tables);
        if self.zone_of.get(&node.name) == Some(&zone) {
            return;
        }
        self.node_gone(node.name);
        self.zone_of.insert(node.name, zone);
        match self.zones.iter_mut().find(|(other, _)| *other == zone) {
            Some((_, nodes)) => nodes.push(node.name),
            None => self.zones.push((zone, vec![node.name])),
        }
    }

    /// A node is gone.
    pub fn node_gone(&mut self, name: Symbol) {
        let Some(zone) = self.zone_of.remove(&name) else { return };
        for (_, nodes) in self.zones.iter_mut().filter(|(other, _)| *other == zone) {
            nodes.retain(|other| *other != name);
        }
        self.zones.retain(|(_, nodes)| !nodes.is_empty());
    }

    /// Where the next search begins.
    pub fn start(&self) -> usize {
        self.start
    }

    /// A search looked at `walked` of all `nodes`.
    pub fn advance(&mut self, walked: usize, nodes: usize) {
        self.start = (self.start + walked) % nodes.max(1);
    }

    /// The next search begins where an earlier one did.
    pub(crate) fn return_to(&mut self, start: usize) {
        self.start = start;
    }

    /// `among` the nodes of the snapshot, in the order they are looked at. Those this was never told of come last.
    fn order(&self, snapshot: Snapshot<'_>, among: &NodeSet) -> Vec<NodeIdx> {
        let longest = self.zones.iter().map(|(_, nodes)| nodes.len()).max().unwrap_or(0);
        let names = (0..longest).flat_map(|at| self.zones.iter().filter_map(move |(_, nodes)| nodes.get(at)));
        let mut rest = among.clone();
        let known = names.filter_map(|&name| snapshot.find_node(name));
        let mut order: Vec<NodeIdx> = known.filter(|&node| rest.remove(node)).collect();
        order.extend(rest.iter());
        if !order.is_empty() {
            let first = self.start % order.len();
            order.rotate_left(first);
        }
        order
    }
}

/// Upstream `GetZoneKey`: of each pair of labels the older one wins.
fn zone_of(labels: LabelSetId, tables: &Tables) -> Zone {
    let labels = tables.labels(labels);
    let value = |keys: [&str; 2]| {
        let found = keys.into_iter().find_map(|key| labels.get(tables.find(key)?));
        found.filter(|&value| !tables.text(value).is_empty())
    };
    (
        value(["failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"]),
        value(["failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"]),
    )
}

impl Framework {
    /// The same plugins, looking at a part of the nodes or, with `None`, at all of them.
    #[must_use]
    pub fn with_sampling(mut self, sampling: Option<Sampling>) -> Self {
        self.sampling = sampling;
        self
    }

    /// Filter, up to enough feasible nodes. `before` is the nominated node that was tried alone and rejected.
    pub(super) fn filter_sample(
        &self,
        (sampling, walk): (Sampling, &mut Walk),
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        before: Option<NodeIdx>,
        filtered: &mut Filtered,
        probe: &mut dyn Probe,
    ) -> Result<(), CycleError> {
        let candidates = filtered.candidates(snapshot);
        let order = walk.order(snapshot, &candidates);
        let enough = if self.plugins_at(ExtensionPoint::Score).is_empty() && !self.extended {
            1
        } else {
            sampling.enough_of(order.len())
        };
        let outcome = match filtered.run(pod, snapshot, candidates, probe) {
            Ok(()) => {
                filtered.cut(&order, enough);
                Ok(())
            }
            // The node with the error may lie behind where the search ends.
            Err(_) => filtered.walk(pod, snapshot, &order, enough),
        };
        filtered.also_walked(before);
        walk.advance(filtered.walked(), snapshot.nodes().len());
        outcome
    }
}

holds_ids!(Walk { zones, zone_of } but not { start });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_than_a_hundred_nodes_are_never_sampled_and_the_adaptive_rule_ends_at_five_percent() {
        let enough = |percentage, nodes| Sampling::new(percentage).enough_of(nodes);
        for (percentage, nodes, expected) in [
            (0, 99, 99),
            (0, 150, 100),
            (0, 600, 276),
            (0, 6_000, 300),
            (0, 100_000, 5_000),
            (10, 600, 100),
            (50, 600, 300),
            (100, 600, 600),
            (1, 99, 99),
            (1, 20_000, 200),
            (30, 5_001, 1_500),
        ] {
            assert_eq!(enough(percentage, nodes), expected, "{percentage} % of {nodes}");
        }
    }
}
