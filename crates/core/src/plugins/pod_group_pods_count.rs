//! PodGroupPodsCount prefers the placement that takes the most members of a group.
//!
//! Upstream: `pkg/scheduler/framework/plugins/podgrouppodscount/podgroup_pods_count.go`.

use crate::cache::Snapshot;
use crate::framework::placement::{PlacementScorePlugin, Proposal};
use crate::framework::{CycleError, MAX_NODE_SCORE, PluginName};

/// The plugin's name.
pub const NAME: PluginName = "PodGroupPodsCount";

/// The plugin.
pub struct PodGroupPodsCount;

impl PlacementScorePlugin for PodGroupPodsCount {
    fn name(&self) -> PluginName {
        NAME
    }

    fn score(&self, proposal: &Proposal<'_>, _snapshot: Snapshot<'_>) -> i64 {
        i64::try_from(proposal.scheduled + proposal.members.len()).unwrap_or(i64::MAX)
    }

    fn normalize(&self, scores: &mut [i64]) -> Result<(), CycleError> {
        let most = scores.iter().copied().max().unwrap_or(0);
        if most == 0 {
            let text = "no pods from pod group are assigned to any of the candidate placements";
            return Err(CycleError(text.to_owned()));
        }
        scores.iter_mut().for_each(|score| *score = *score * MAX_NODE_SCORE / most);
        Ok(())
    }
}
