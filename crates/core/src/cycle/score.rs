//! PreScore, Score and NormalizeScore of a decision.

use super::enabled_plugin::{Fails, Zero};
use super::{EnabledScore, Framework, Point, Probe};
use crate::cache::Snapshot;
use crate::framework::{CycleError, MAX_NODE_SCORE, PluginName, Prepared, ScoreRule};
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;

/// The scores of one plugin, by feasible node in slot order.
pub struct PluginScores {
    /// The plugin.
    pub plugin: PluginName,
    /// The factor of its scores.
    pub weight: i64,
    /// Normalized scores, 0 to 100.
    pub normalized: Vec<i64>,
}

/// The scores of all feasible nodes.
pub struct Scores {
    /// By plugin in order, without those that skipped.
    pub plugins: Vec<PluginScores>,
    /// The sum of weight times normalized score, by feasible node in slot order.
    pub totals: Vec<i64>,
}

pub(crate) type PreparedScore = (PluginName, i64, Box<dyn ScoreRule>);

impl Framework {
    /// Scores the feasible nodes of `pod`.
    ///
    /// # Errors
    ///
    /// If a plugin fails, returns the text of the FailedScheduling event.
    pub fn score(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        feasible: &NodeSet,
        probe: &mut dyn Probe,
    ) -> Result<Scores, CycleError> {
        probe.enter(Point::PreScore);
        let rules = self.pre_score(pod, snapshot, feasible, probe);
        probe.leave(Point::PreScore, if rules.is_ok() { "Success" } else { "Error" });
        let rules = rules?;
        probe.enter(Point::Score);
        let scores = run_score(&rules, snapshot, feasible, probe);
        probe.leave(Point::Score, if scores.is_ok() { "Success" } else { "Error" });
        scores
    }

    pub(crate) fn pre_score(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        feasible: &NodeSet,
        probe: &mut dyn Probe,
    ) -> Result<Vec<PreparedScore>, CycleError> {
        let mut rules = Vec::with_capacity(self.scores.len());
        for enabled in &self.scores {
            let name = enabled.plugin.name();
            let rule = if enabled.pre_score {
                let failed = |text: &str| CycleError(format!("running PreScore plugin \"{name}\": {text}"));
                probe.plugin_begins();
                let prepared = enabled.plugin.prepare(pod, snapshot, feasible);
                probe.plugin_ended(name, Point::PreScore, prepared.status(), 1);
                match prepared {
                    Prepared::Skip => None,
                    Prepared::Run { rule, .. } => Some(rule),
                    Prepared::Failed(CycleError(text)) => return Err(failed(&text)),
                    Prepared::Rejected(rejection) => return Err(failed(&rejection.message())),
                }
            } else {
                unprepared(enabled, pod, snapshot, feasible)
            };
            rules.extend(
                enabled.score.zip(rule).map(|(position, rule)| (position.rank, (name, enabled.weight, rule))),
            );
        }
        rules.sort_by_key(|&(rank, _)| rank);
        Ok(rules.into_iter().map(|(_, rule)| rule).collect())
    }
}

/// Returns the rule of a plugin whose PreScore is disabled. It scores nevertheless, and cannot skip.
fn unprepared(
    enabled: &EnabledScore,
    pod: &PodInfo,
    snapshot: Snapshot<'_>,
    feasible: &NodeSet,
) -> Option<Box<dyn ScoreRule>> {
    if let Some(error) = enabled.score?.fails {
        return Some(Box::new(Fails(error.to_owned())));
    }
    Some(match enabled.plugin.prepare(pod, snapshot, feasible) {
        Prepared::Skip => Box::new(Zero),
        Prepared::Run { rule, .. } => rule,
        Prepared::Failed(CycleError(text)) => Box::new(Fails(text)),
        Prepared::Rejected(rejection) => Box::new(Fails(rejection.message())),
    })
}

fn run_score(
    rules: &[PreparedScore],
    snapshot: Snapshot<'_>,
    feasible: &NodeSet,
    probe: &mut dyn Probe,
) -> Result<Scores, CycleError> {
    let count = feasible.len();
    let mut totals = vec![0i64; count];
    let mut plugins = Vec::with_capacity(rules.len());
    for (plugin, weight, rule) in rules {
        let mut cells = vec![0i64; count];
        probe.plugin_begins();
        let scored = rule.score(snapshot, feasible, &mut cells);
        probe.plugin_ended(plugin, Point::Score, if scored.is_ok() { "Success" } else { "Error" }, count);
        scored.map_err(|CycleError(text)| {
            CycleError(format!("running Score plugins: plugin \"{plugin}\" failed with: {text}"))
        })?;
        rule.normalize(snapshot, feasible, &mut cells);
        for (total, &score) in totals.iter_mut().zip(&cells) {
            if !(0..=MAX_NODE_SCORE).contains(&score) {
                return Err(CycleError(format!(
                    "applying score defaultWeights on Score plugins: plugin \"{plugin}\" returns an invalid score \
                     {score}, it should in the range of [0, {MAX_NODE_SCORE}] after normalizing"
                )));
            }
            *total += score * weight;
        }
        plugins.push(PluginScores { plugin, weight: *weight, normalized: cells });
    }
    Ok(Scores { plugins, totals })
}
