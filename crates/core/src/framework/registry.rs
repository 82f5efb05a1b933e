//! The table of in-tree plugins: the only place that names them.
//!
//! Order and weights are upstream's (`pkg/scheduler/apis/config/v1/default_plugins.go`). Where plugins of volumes and
//! devices will stand, `not_built` refuses what they would judge; NodeVolumeLimits and VolumeZone judge nothing that is not
//! refused there.

use super::{FilterPlugin, ScorePlugin};
use crate::cycle::Framework;
use crate::plugins::image_locality::ImageLocality;
use crate::plugins::inter_pod_affinity::InterPodAffinity;
use crate::plugins::node_affinity::NodeAffinity;
use crate::plugins::node_name::NodeName;
use crate::plugins::node_ports::NodePorts;
use crate::plugins::node_resources::{NodeResourcesBalancedAllocation, NodeResourcesFit};
use crate::plugins::node_unschedulable::NodeUnschedulable;
use crate::plugins::not_built;
use crate::plugins::pod_topology_spread::PodTopologySpread;
use crate::plugins::taint_toleration::TaintToleration;

type MakeFilter = fn() -> Box<dyn FilterPlugin>;
type MakeScore = fn() -> Box<dyn ScorePlugin>;

/// A row of the table.
struct Entry {
    filter: Option<MakeFilter>,
    /// The plugin's Score point and its default weight.
    score: Option<(MakeScore, i64)>,
}

fn filter<P: FilterPlugin + Default + 'static>() -> Box<dyn FilterPlugin> {
    Box::new(P::default())
}

fn score<P: ScorePlugin + Default + 'static>() -> Box<dyn ScorePlugin> {
    Box::new(P::default())
}

const IN_TREE: &[Entry] = &[
    Entry { filter: Some(filter::<NodeUnschedulable>), score: None },
    Entry { filter: Some(filter::<NodeName>), score: None },
    Entry { filter: Some(filter::<TaintToleration>), score: Some((score::<TaintToleration>, 3)) },
    Entry { filter: Some(filter::<NodeAffinity>), score: Some((score::<NodeAffinity>, 2)) },
    Entry { filter: Some(filter::<NodePorts>), score: None },
    Entry { filter: Some(filter::<NodeResourcesFit>), score: Some((score::<NodeResourcesFit>, 1)) },
    Entry { filter: Some(|| Box::new(not_built::VOLUME_RESTRICTIONS)), score: None },
    Entry { filter: Some(|| Box::new(not_built::VOLUME_BINDING)), score: None },
    Entry { filter: Some(filter::<PodTopologySpread>), score: Some((score::<PodTopologySpread>, 2)) },
    Entry { filter: Some(filter::<InterPodAffinity>), score: Some((score::<InterPodAffinity>, 2)) },
    Entry { filter: Some(|| Box::new(not_built::DYNAMIC_RESOURCES)), score: None },
    Entry { filter: None, score: Some((score::<NodeResourcesBalancedAllocation>, 1)) },
    Entry { filter: None, score: Some((score::<ImageLocality>, 1)) },
    Entry { filter: Some(|| Box::new(not_built::NODE_DECLARED_FEATURES)), score: None },
];

impl Default for Framework {
    /// The default plugins with their default weights and arguments, in upstream's order.
    fn default() -> Self {
        Self {
            filters: IN_TREE.iter().filter_map(|entry| entry.filter).map(|make| make()).collect(),
            scores: IN_TREE
                .iter()
                .filter_map(|entry| entry.score)
                .map(|(make, weight)| (make(), weight))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_plugins_stand_in_upstream_order_with_upstream_weights() {
        let framework = Framework::default();
        let filters: Vec<_> = framework.filters.iter().map(|p| p.name()).collect();
        assert_eq!(
            filters,
            [
                "NodeUnschedulable",
                "NodeName",
                "TaintToleration",
                "NodeAffinity",
                "NodePorts",
                "NodeResourcesFit",
                "VolumeRestrictions",
                "VolumeBinding",
                "PodTopologySpread",
                "InterPodAffinity",
                "DynamicResources",
                "NodeDeclaredFeatures",
            ]
        );
        let scores: Vec<_> = framework.scores.iter().map(|(p, weight)| (p.name(), *weight)).collect();
        assert_eq!(
            scores,
            [
                ("TaintToleration", 3),
                ("NodeAffinity", 2),
                ("NodeResourcesFit", 1),
                ("PodTopologySpread", 2),
                ("InterPodAffinity", 2),
                ("NodeResourcesBalancedAllocation", 1),
                ("ImageLocality", 1),
            ]
        );
    }
}
