//! `percentageOfNodesToScore`: a search that ends once enough nodes are feasible; the next one continues from there.
//!
//! Order and window equal upstream's with one worker (`parallelism: 1`). With more workers, upstream's order depends
//! on threads. Profiles without the setting search all nodes and use nothing of this module. Upstream:
//! `pkg/scheduler/schedule_one.go#findNodesThatPassFilters`, `pkg/scheduler/backend/cache/node_tree.go`.

use super::{Filtered, Framework, Probe};
use crate::cache::Snapshot;
use crate::collections::hash::IdMap;
use crate::framework::CycleError;
use crate::framework::extension_point::ExtensionPoint;
use crate::model::intern::trace_ids;
use crate::model::intern::{LabelSetId, Symbol, Tables};
use crate::model::node::{NodeIdx, NodeInfo};
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;

/// Smaller clusters are searched completely, and a search finds at least this many feasible nodes (upstream
/// `minFeasibleNodesToFind`).
const NODES_MIN: usize = 100;
/// Minimum of the adaptive rule, in percent (upstream `minFeasibleNodesPercentageToFind`).
const ADAPTIVE_MIN: usize = 5;

/// The number of feasible nodes that ends a search, as a percentage of all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    percentage: u8,
}

impl Sampling {
    /// Creates it from a percentage of all nodes, 0 to 100. 0 is upstream's adaptive rule: 50 % minus 1 % for each
    /// 125 nodes, at least 5 %.
    pub fn new(percentage: u8) -> Self {
        Self { percentage: percentage.min(100) }
    }

    /// Returns the number of feasible nodes that ends a search among `nodes` nodes (upstream
    /// `numFeasibleNodesToFind`).
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

/// Region and zone; an empty label value counts as absent.
type Zone = (Option<Symbol>, Option<Symbol>);

/// The order of nodes in sampled searches, round-robin over zones, and the start of the next search. All profiles
/// share it.
#[derive(Debug, Default)]
pub struct Walk {
    start: usize,
    /// In the order of their first node; none is empty.
    zones: Vec<(Zone, Vec<Symbol>)>,
    zone_of: IdMap<Symbol, Zone>,
}

impl Walk {
    /// Adds or updates a node. It keeps its position unless its zone changed.
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

    /// Removes a node.
    pub fn node_gone(&mut self, name: Symbol) {
        let Some(zone) = self.zone_of.remove(&name) else { return };
        for (_, nodes) in self.zones.iter_mut().filter(|(other, _)| *other == zone) {
            nodes.retain(|other| *other != name);
        }
        self.zones.retain(|(_, nodes)| !nodes.is_empty());
    }

    /// Returns the position at which the next search starts.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Moves the start after a search that evaluated `walked` of `nodes` nodes.
    pub fn advance(&mut self, walked: usize, nodes: usize) {
        self.start = (self.start + walked) % nodes.max(1);
    }

    /// Sets the start of the next search.
    pub(crate) fn return_to(&mut self, start: usize) {
        self.start = start;
    }

    /// Returns all nodes in the order of a search that starts at the first. Unknown nodes come last.
    pub(crate) fn in_order(&self, snapshot: Snapshot<'_>) -> Vec<NodeIdx> {
        self.unrotated(snapshot, snapshot.nodes())
    }

    /// Returns `among`, a set of the snapshot's nodes, in search order. Unknown nodes come last.
    fn order(&self, snapshot: Snapshot<'_>, among: &NodeSet) -> Vec<NodeIdx> {
        let mut order = self.unrotated(snapshot, among);
        if !order.is_empty() {
            let first = self.start % order.len();
            order.rotate_left(first);
        }
        order
    }

    fn unrotated(&self, snapshot: Snapshot<'_>, among: &NodeSet) -> Vec<NodeIdx> {
        let longest = self.zones.iter().map(|(_, nodes)| nodes.len()).max().unwrap_or(0);
        let names = (0..longest).flat_map(|at| self.zones.iter().filter_map(move |(_, nodes)| nodes.get(at)));
        let mut rest = among.clone();
        let known = names.filter_map(|&name| snapshot.find_node(name));
        let mut order: Vec<NodeIdx> = known.filter(|&node| rest.remove(node)).collect();
        order.extend(rest.iter());
        order
    }
}

/// Returns the zone of a node; of each pair of labels the older one takes precedence (upstream `GetZoneKey`).
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
    /// Sets the sampling; `None` searches all nodes.
    #[must_use]
    pub fn with_sampling(mut self, sampling: Option<Sampling>) -> Self {
        self.sampling = sampling;
        self
    }

    /// Runs Filter until enough nodes are feasible. `before` is the nominated node, if it was tried alone and
    /// rejected.
    pub(super) fn filter_sample(
        &self,
        (sampling, walk): (Sampling, &mut Walk),
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        rejected: Option<NodeIdx>,
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
                filtered.truncate(&order, enough);
                Ok(())
            }
            // The node with the error may be beyond the end of the search.
            Err(_) => filtered.walk(pod, snapshot, &order, enough),
        };
        filtered.add_walked(rejected);
        walk.advance(filtered.walked(), snapshot.node_count());
        outcome
    }
}

trace_ids!(Walk { zones, zone_of } but not { start });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_clusters_are_not_sampled_and_adaptive_minimum_is_five_percent() {
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
