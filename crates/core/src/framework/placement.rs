//! Placements of a group: sets of nodes of which it must use one, and the plugins that score them.
//!
//! Upstream: `kube-scheduler/framework/interface.go#PlacementScorePlugin`.

use super::PluginName;
use super::status::CycleError;
use crate::cache::Snapshot;
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;

/// A set of nodes to which all members of a group may be restricted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The value of the node label; empty for all nodes.
    pub name: String,
    /// The nodes.
    pub nodes: NodeSet,
}

/// How a group would use a placement.
pub struct Proposal<'a> {
    /// The nodes.
    pub nodes: &'a NodeSet,
    /// The number of members that have a node already.
    pub scheduled: usize,
    /// The members that would get a node.
    pub members: &'a [&'a PodInfo],
}

/// A plugin with PlacementScore.
pub trait PlacementScorePlugin: Send + Sync {
    /// Upstream's name, as in KubeSchedulerConfiguration.
    fn name(&self) -> PluginName;

    /// Scores a placement; higher is better. The members do not count on their nodes in the snapshot.
    fn score(&self, proposal: &Proposal<'_>, snapshot: Snapshot<'_>) -> i64;

    /// Scales the scores of all placements to 0 to 100.
    ///
    /// # Errors
    /// If the scores cannot be compared.
    fn normalize(&self, _scores: &mut [i64]) -> Result<(), CycleError> {
        Ok(())
    }
}

/// A plugin with PlacementScore in a profile.
pub(crate) struct EnabledPlacementScore {
    /// The plugin.
    pub(crate) plugin: Box<dyn PlacementScorePlugin>,
    /// The factor of its scores.
    pub(crate) weight: i64,
}
