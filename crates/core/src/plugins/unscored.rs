//! A Score plugin that gives every node 0: DynamicResources, for pods without claims.
//!
//! It still has a weight and a place in the order, and decisions report it with 0. Upstream:
//! `dynamicresources/dynamicresources.go#Score`.

use crate::cache::Snapshot;
use crate::framework::{NodeScorePlugin, PluginName, Prepared, ScoreRule};
use crate::model::node_pod::NodePod;

/// A plugin whose Score is always 0.
#[derive(Clone, Copy, Debug)]
pub struct Unscored {
    name: PluginName,
}

/// DynamicResources. It has no PreScore that could skip.
pub const DYNAMIC_RESOURCES: Unscored = Unscored { name: "DynamicResources" };

impl NodeScorePlugin for Unscored {
    fn name(&self) -> PluginName {
        self.name
    }

    fn prepare(&self, _pod: NodePod<'_>, _snapshot: Snapshot<'_>) -> Prepared<dyn ScoreRule> {
        Prepared::Skip
    }
}
