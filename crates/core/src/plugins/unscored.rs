//! Score plugins that give every node 0 with upstream's default feature gates.
//!
//! They still have a weight and a place in the order, and decisions report them with 0. Upstream:
//! `volumebinding/volume_binding.go#Score` without StorageCapacityScoring,
//! `dynamicresources/dynamicresources.go#Score` of a pod without claims.

use crate::cache::Snapshot;
use crate::framework::{PluginName, Prepared, Reads, ScorePlugin, ScoreRule};
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;

/// A plugin whose Score is always 0.
#[derive(Clone, Copy, Debug)]
pub struct Unscored {
    name: PluginName,
}

/// VolumeBinding. Its PreScore skips, so decisions omit it unless PreScore is disabled.
pub const VOLUME_BINDING: Unscored = Unscored { name: "VolumeBinding" };
/// DynamicResources. It has no PreScore that could skip.
pub const DYNAMIC_RESOURCES: Unscored = Unscored { name: "DynamicResources" };

impl ScorePlugin for Unscored {
    fn name(&self) -> PluginName {
        self.name
    }

    fn reads(&self) -> Reads {
        Reads::Pod
    }

    fn prepare(
        &self,
        _pod: &PodInfo,
        _snapshot: Snapshot<'_>,
        _feasible: &NodeSet,
    ) -> Prepared<dyn ScoreRule> {
        Prepared::Skip
    }
}
