//! The arguments of all plugins that have any.

use crate::plugins::dynamic_resources::DynamicResourcesArgs;
use crate::plugins::inter_pod_affinity::InterPodAffinity;
use crate::plugins::node_affinity::NodeAffinityArgs;
use crate::plugins::node_resources::{NodeResourcesBalancedAllocationArgs, NodeResourcesFitArgs};
use crate::plugins::pod_topology_spread::PodTopologySpread;
use crate::plugins::shape::ShapePoint;
use crate::preemption::DefaultPreemptionArgs;
use std::time::Duration;

/// The `pluginConfig` of a profile; the default is upstream's.
#[derive(Clone, Debug, Default)]
pub struct PluginArgs {
    /// Arguments of NodeAffinity.
    pub node_affinity: NodeAffinityArgs,
    /// Arguments of NodeResourcesFit.
    pub node_resources_fit: NodeResourcesFitArgs,
    /// Arguments of NodeResourcesBalancedAllocation.
    pub node_resources_balanced_allocation: NodeResourcesBalancedAllocationArgs,
    /// Arguments of InterPodAffinity.
    pub inter_pod_affinity: InterPodAffinity,
    /// Arguments of PodTopologySpread.
    pub pod_topology_spread: PodTopologySpread,
    /// Arguments of DefaultPreemption.
    pub default_preemption: DefaultPreemptionArgs,
    /// Arguments of VolumeBinding.
    pub volume_binding: VolumeBindingArgs,
    /// Arguments of DynamicResources.
    pub dynamic_resources: DynamicResourcesArgs,
}

/// `VolumeBindingArgs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeBindingArgs {
    /// `bindTimeoutSeconds`: the time limit for binding a pod's volumes before the pod is retried.
    pub bind_timeout: Duration,
    /// `shape`: the score of a storage class by the utilization of its capacity.
    pub shape: Box<[ShapePoint]>,
}

impl Default for VolumeBindingArgs {
    fn default() -> Self {
        let point = |(utilization, score)| ShapePoint { utilization, score };
        Self { bind_timeout: Duration::from_secs(600), shape: [(0, 10), (100, 0)].map(point).into() }
    }
}
