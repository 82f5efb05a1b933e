//! A Score plugin that gives every node 0: DynamicResources, for pods without claims.
//!
//! It still has a weight and a place in the order, and decisions report it with 0. Upstream:
//! `dynamicresources/dynamicresources.go#Score`.

use crate::cache::Snapshot;
use crate::framework::{PluginName, Prepared, Reads, ScorePlugin, ScoreRule};
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;

/// A plugin whose Score is always 0.
#[derive(Clone, Copy, Debug)]
pub struct Unscored {
    name: PluginName,
}

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
