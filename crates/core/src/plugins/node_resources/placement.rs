//! The placement score of NodeResourcesFit: prefers the placement whose nodes are used most.
//!
//! It is always MostAllocated, whatever the strategy for nodes is. Upstream:
//! `pkg/scheduler/framework/plugins/noderesources/resource_allocation.go#scorePlacement`.

use super::allocation::{ResourceSpec, mean_utilization};
use super::fit::NAME;
use crate::cache::Snapshot;
use crate::framework::PluginName;
use crate::framework::placement::{PlacementScorePlugin, Proposal};
use crate::model::node::NodeIdx;
use crate::model::pod::PodInfo;

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
        let shares = self.resources.iter().map(|resource| {
            let ask = |pod: &&PodInfo| request(pod, &resource.name, snapshot);
            let mut requested: i64 = proposal.members.iter().map(ask).sum();
            let is_scalar = !matches!(&*resource.name, "cpu" | "memory" | "ephemeral-storage");
            let mut allocatable = 0;
            for node in proposal.nodes.iter() {
                // A scalar resource that nothing has requested up to this node does not count on it.
                if requested == 0 && is_scalar {
                    continue;
                }
                let (capacity, used) = capacity(node, &resource.name, snapshot);
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

/// Returns a pod's request of a resource, with defaults for containers without cpu or memory requests.
fn request(pod: &PodInfo, resource: &str, snapshot: Snapshot<'_>) -> i64 {
    let asked = &pod.resources.score;
    match resource {
        "cpu" => asked.cpu_milli,
        "memory" => asked.memory,
        "ephemeral-storage" => asked.ephemeral_storage,
        other => snapshot.tables().find(other).and_then(|name| asked.scalar(name)).unwrap_or(0),
    }
}

/// Returns the allocatable amount of a resource of a node, and what its pods request.
fn capacity(node: NodeIdx, resource: &str, snapshot: Snapshot<'_>) -> (i64, i64) {
    let (allocatable, requested) = (&snapshot.node_info(node).allocatable, snapshot.requested(node));
    let columns = snapshot.columns();
    match resource {
        "cpu" => (allocatable.cpu_milli, columns.non_zero_cpu_milli[node.index()]),
        "memory" => (allocatable.memory, columns.non_zero_memory[node.index()]),
        "ephemeral-storage" => (allocatable.ephemeral_storage, requested.ephemeral_storage),
        other => {
            let name = snapshot.tables().find(other);
            let of =
                |amounts: &crate::model::resources::Resources| name.and_then(|name| amounts.scalar(name));
            (of(allocatable).unwrap_or(0), of(requested).unwrap_or(0))
        }
    }
}
