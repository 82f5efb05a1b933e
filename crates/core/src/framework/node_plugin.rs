//! Traits of plugins that judge each node alone, whose results are cached.
//!
//! Such a plugin prepares a rule from the fields of a [`NodePod`] and from facts that change rarely. The rule holds
//! for all pods of the same [`NodeSignature`](crate::model::signature::NodeSignature) until a node is added or deleted
//! or a DeviceClass changes. It judges each node by that node alone.

use super::PluginName;
use super::event::{ClusterEvent, Hint};
use super::event_set::EventSet;
use super::plugin::{FilterPlugin, FilterRule, Prepared, ScorePlugin, ScoreRule};
use crate::cache::Snapshot;
use crate::model::node_pod::NodePod;
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;

/// A filter plugin that judges each node alone.
///
/// Implementing it implements [`FilterPlugin`]. A type cannot implement both, so the cached rule and the rule of the
/// full evaluation have the same source.
pub trait NodeFilterPlugin: Send + Sync {
    /// See [`FilterPlugin::name`].
    fn name(&self) -> PluginName;

    /// PreFilter: prepares a rule for this pod.
    ///
    /// Besides the pod, it may read which nodes exist, and which resources DeviceClasses serve.
    fn prepare(&self, pod: NodePod<'_>, snapshot: Snapshot<'_>) -> Prepared<dyn FilterRule>;

    /// See [`FilterPlugin::without_pre_filter`]; reads what [`prepare`](Self::prepare) may read.
    fn without_pre_filter(&self, pod: NodePod<'_>, snapshot: Snapshot<'_>) -> Option<Box<dyn FilterRule>> {
        self.prepare(pod, snapshot).into_rule()
    }

    /// See [`FilterPlugin::events`].
    fn events(&self) -> EventSet;

    /// See [`FilterPlugin::hint`]. Hints are not cached, so they may read the whole pod.
    fn hint(&self, event: &ClusterEvent<'_>, pod: &PodInfo, snapshot: Snapshot<'_>) -> Hint;
}

impl<P: NodeFilterPlugin> FilterPlugin for P {
    fn name(&self) -> PluginName {
        NodeFilterPlugin::name(self)
    }

    fn as_node_plugin(&self) -> Option<&dyn NodeFilterPlugin> {
        Some(self)
    }

    fn prepare(&self, pod: &PodInfo, snapshot: Snapshot<'_>) -> Prepared<dyn FilterRule> {
        NodeFilterPlugin::prepare(self, NodePod::of(pod), snapshot)
    }

    fn without_pre_filter(&self, pod: &PodInfo, snapshot: Snapshot<'_>) -> Option<Box<dyn FilterRule>> {
        NodeFilterPlugin::without_pre_filter(self, NodePod::of(pod), snapshot)
    }

    fn events(&self) -> EventSet {
        NodeFilterPlugin::events(self)
    }

    fn hint(&self, event: &ClusterEvent<'_>, pod: &PodInfo, snapshot: Snapshot<'_>) -> Hint {
        NodeFilterPlugin::hint(self, event, pod, snapshot)
    }
}

/// A score plugin that judges each node alone.
///
/// Implementing it implements [`ScorePlugin`].
pub trait NodeScorePlugin: Send + Sync {
    /// See [`ScorePlugin::name`].
    fn name(&self) -> PluginName;

    /// PreScore: prepares a rule for this pod, which scores any set of nodes.
    ///
    /// Besides the pod, it may read which nodes exist, and which resources DeviceClasses serve.
    fn prepare(&self, pod: NodePod<'_>, snapshot: Snapshot<'_>) -> Prepared<dyn ScoreRule>;
}

impl<P: NodeScorePlugin> ScorePlugin for P {
    fn name(&self) -> PluginName {
        NodeScorePlugin::name(self)
    }

    fn as_node_plugin(&self) -> Option<&dyn NodeScorePlugin> {
        Some(self)
    }

    fn prepare(&self, pod: &PodInfo, snapshot: Snapshot<'_>, _feasible: &NodeSet) -> Prepared<dyn ScoreRule> {
        NodeScorePlugin::prepare(self, NodePod::of(pod), snapshot)
    }
}
