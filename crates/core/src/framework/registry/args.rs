//! The arguments of all plugins that have any, in the plugins' own types.

use crate::plugins::inter_pod_affinity::InterPodAffinity;
use crate::plugins::node_affinity::NodeAffinityArgs;
use crate::plugins::node_resources::{NodeResourcesBalancedAllocationArgs, NodeResourcesFitArgs};
use crate::plugins::pod_topology_spread::PodTopologySpread;
use crate::preemption::DefaultPreemptionArgs;
use std::time::Duration;

/// What a profile's `pluginConfig` says; the default is upstream's.
#[derive(Clone, Debug, Default)]
pub struct PluginArgs {
    /// Of NodeAffinity.
    pub node_affinity: NodeAffinityArgs,
    /// Of NodeResourcesFit.
    pub node_resources_fit: NodeResourcesFitArgs,
    /// Of NodeResourcesBalancedAllocation.
    pub node_resources_balanced_allocation: NodeResourcesBalancedAllocationArgs,
    /// Of InterPodAffinity.
    pub inter_pod_affinity: InterPodAffinity,
    /// Of PodTopologySpread.
    pub pod_topology_spread: PodTopologySpread,
    /// Of DefaultPreemption.
    pub default_preemption: DefaultPreemptionArgs,
    /// Of VolumeBinding.
    pub volume_binding: VolumeBindingArgs,
}

/// `VolumeBindingArgs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeBindingArgs {
    /// `bindTimeoutSeconds`: how long the volumes of a pod may take to be bound before the pod is tried anew.
    pub bind_timeout: Duration,
}

impl Default for VolumeBindingArgs {
    fn default() -> Self {
        Self { bind_timeout: Duration::from_secs(600) }
    }
}
