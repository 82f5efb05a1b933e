//! The scores of all feasible nodes with what they came from: raw, normalized, weighted.

use crate::cache::Snapshot;
use crate::cycle::Framework;
use crate::framework::{CycleError, PluginName};
use crate::node_set::NodeSet;
use crate::pod::PodInfo;

/// One plugin's scores, one cell per feasible node in slot order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginTable {
    /// The plugin.
    pub plugin: PluginName,
    /// Its weight.
    pub weight: i64,
    /// What Score said.
    pub raw: Vec<i64>,
    /// What NormalizeScore made of it, 0..=100.
    pub normalized: Vec<i64>,
}

/// All scores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScoreTable {
    /// Per plugin that did not skip, in order.
    pub plugins: Vec<PluginTable>,
    /// Sums of weight times normalized score, one per feasible node in slot order.
    pub totals: Vec<i64>,
}

impl Framework {
    /// Scores the nodes that can take the pod, and keeps what a decision throws away.
    ///
    /// # Errors
    /// When a plugin fails, as it would in a decision.
    pub fn explain_scores(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        feasible: &NodeSet,
    ) -> Result<ScoreTable, CycleError> {
        let count = feasible.len();
        let mut table = ScoreTable { plugins: Vec::new(), totals: vec![0; count] };
        for (plugin, weight, rule) in self.pre_score(pod, snapshot, feasible, &mut crate::cycle::NoProbe)? {
            let mut raw = vec![0; count];
            rule.score(snapshot, feasible, &mut raw)?;
            let mut normalized = raw.clone();
            rule.normalize(snapshot, feasible, &mut normalized);
            for (total, score) in table.totals.iter_mut().zip(&normalized) {
                *total += score * weight;
            }
            table.plugins.push(PluginTable { plugin, weight, raw, normalized });
        }
        Ok(table)
    }
}
