//! The placement score of NodeResourcesFit: prefers the placement whose nodes are used most.
//!
//! It is always MostAllocated, whatever the strategy for nodes is. Upstream:
//! `pkg/scheduler/framework/plugins/noderesources/resource_allocation.go#scorePlacement`.

use super::allocation::{ResourceSpec, mean_utilization};
use super::fit::NAME;
use crate::cache::Snapshot;
use crate::framework::PluginName;
use crate::framework::placement::{PlacementScorePlugin, Proposal};
use crate::model::intern::Symbol;
use crate::model::node::NodeIdx;
use crate::model::pod::PodInfo;
use crate::model::resources::Resources;

/// The plugin, with the resources and weights of NodeResourcesFit's arguments.
pub struct PlacementUtilization {
    resources: Vec<ResourceSpec>,
}

impl PlacementUtilization {
    /// Creates the plugin with the scored resources.
    pub fn new(resources: Vec<ResourceSpec>) -> Self {
        Self { resources }
    }
}

impl PlacementScorePlugin for PlacementUtilization {
    fn name(&self) -> PluginName {
        NAME
    }

    fn score(&self, proposal: &Proposal<'_>, snapshot: Snapshot<'_>) -> i64 {
        let nodes: Vec<NodeIdx> = proposal.nodes.iter().collect();
        let shares = self.resources.iter().map(|resource| {
            let amount = Amount::of(&resource.name, snapshot);
            let mut requested: i64 = proposal.members.iter().map(|pod| amount.request(pod)).sum();
            let is_scalar = matches!(amount, Amount::Scalar(_));
            let mut allocatable = 0;
            for &node in &nodes {
                // A scalar resource that nothing has requested up to this node does not count on it.
                if requested == 0 && is_scalar {
                    continue;
                }
                let (capacity, used) = amount.capacity(node, snapshot);
                if capacity != 0 {
                    allocatable += capacity;
                    requested += used;
                }
            }
            (requested, allocatable, resource.weight)
        });
        mean_utilization(shares)
    }
}

/// A scored resource.
#[derive(Clone, Copy)]
enum Amount {
    Cpu,
    Memory,
    EphemeralStorage,
    /// Any other; `None` if no node and no pod names it.
    Scalar(Option<Symbol>),
}

impl Amount {
    fn of(resource: &str, snapshot: Snapshot<'_>) -> Self {
        match resource {
            "cpu" => Self::Cpu,
            "memory" => Self::Memory,
            "ephemeral-storage" => Self::EphemeralStorage,
            other => Self::Scalar(snapshot.tables().find(other)),
        }
    }

    /// Returns a pod's request, with defaults for containers without cpu or memory requests.
    fn request(self, pod: &PodInfo) -> i64 {
        let asked = &pod.resources.score;
        match self {
            Self::Cpu => asked.cpu_milli,
            Self::Memory => asked.memory,
            Self::EphemeralStorage => asked.ephemeral_storage,
            Self::Scalar(name) => name.and_then(|name| asked.scalar(name)).unwrap_or(0),
        }
    }

    /// Returns the allocatable amount of a node, and what its pods request.
    fn capacity(self, node: NodeIdx, snapshot: Snapshot<'_>) -> (i64, i64) {
        let (columns, at) = (snapshot.columns(), node.index());
        match self {
            Self::Cpu => (columns.allocatable_cpu_milli[at], columns.non_zero_cpu_milli[at]),
            Self::Memory => (columns.allocatable_memory[at], columns.non_zero_memory[at]),
            Self::EphemeralStorage => {
                (columns.allocatable_ephemeral_storage[at], columns.requested_ephemeral_storage[at])
            }
            Self::Scalar(name) => {
                let of = |amounts: &Resources| name.and_then(|name| amounts.scalar(name)).unwrap_or(0);
                (of(&snapshot.node_info(node).allocatable), of(snapshot.requested(node)))
            }
        }
    }
}
