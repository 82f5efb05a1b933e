//! The scores of all feasible nodes in detail: raw, normalized and weighted.

use crate::cache::Snapshot;
use crate::cycle::Framework;
use crate::framework::{CycleError, PluginName};
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;

/// One plugin's scores, one entry per feasible node in slot order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginTable {
    /// The plugin.
    pub plugin: PluginName,
    /// Its weight.
    pub weight: i64,
    /// Raw scores.
    pub raw: Vec<i64>,
    /// Normalized scores, 0..=100.
    pub normalized: Vec<i64>,
}

/// The scores of all plugins, and the totals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScoreTable {
    /// One table for each plugin that did not skip, in order.
    pub plugins: Vec<PluginTable>,
    /// Sums of weight times normalized score, one per feasible node in slot order.
    pub totals: Vec<i64>,
}

impl Framework {
    /// Scores the feasible nodes and keeps the intermediate results that a decision discards.
    ///
    /// # Errors
    /// If a plugin fails, as in a decision.
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
