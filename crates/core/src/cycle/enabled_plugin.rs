//! A plugin as enabled in a profile: which of its extension points run, and in which order.
//!
//! A configuration may enable Filter without PreFilter, or order the two differently. Here one object prepares and
//! filters, so these types record which results apply. Upstream: in `CycleState`, nothing is written by an extension
//! point that did not run.

use crate::cache::{NodeView, Snapshot};
use crate::framework::{
    CycleError, DependsOn, FilterPlugin, FilterRule, PluginName, ScorePlugin, ScoreRule, Verdict,
};
use crate::model::node_set::NodeSet;

/// A plugin's position at Filter or Score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// The position, from 0.
    pub rank: usize,
    /// The error that ends the decision at this extension point: the preparing point is disabled, and the plugin
    /// requires it.
    pub fails: Option<&'static str>,
}

/// A plugin with PreFilter or Filter.
pub struct EnabledFilter {
    /// The plugin.
    pub plugin: Box<dyn FilterPlugin>,
    /// Whether PreFilter is enabled.
    pub pre_filter: bool,
    /// Its position at Filter; `None` if Filter is disabled.
    pub filter: Option<Rank>,
    /// Its position at Reserve. Plugins without one reserve last, in the order of Filter.
    pub reserve: Option<usize>,
}

impl EnabledFilter {
    /// Returns the rule if PreFilter is disabled. `without_pre_filter` calls that method of the plugin.
    pub(crate) fn unprepared(
        &self,
        without_pre_filter: impl FnOnce() -> Option<Box<dyn FilterRule>>,
    ) -> Option<Box<dyn FilterRule>> {
        match self.filter?.fails {
            Some(error) => Some(Box::new(Fails(error.to_owned()))),
            None => without_pre_filter(),
        }
    }

    /// Returns the rule with the positions of the plugin; `None` if Filter is disabled.
    pub(crate) fn with(&self, rule: Box<dyn FilterRule>) -> Option<EnabledRule> {
        let (name, reserve) = (self.plugin.name(), self.reserve.unwrap_or(usize::MAX));
        self.filter.map(|Rank { rank, .. }| EnabledRule { name, filter: rank, reserve, rule })
    }
}

/// The rule of an enabled plugin for one pod.
pub(crate) struct EnabledRule {
    pub(crate) name: PluginName,
    /// The position at Filter.
    pub(crate) filter: usize,
    /// The position at Reserve, or the highest number.
    reserve: usize,
    pub(crate) rule: Box<dyn FilterRule>,
}

/// Returns the rules in the order in which they reserve.
pub(crate) fn in_order_of_reserve(rules: &[EnabledRule]) -> Vec<&EnabledRule> {
    let mut ordered: Vec<&EnabledRule> = rules.iter().collect();
    ordered.sort_by_key(|rule| (rule.reserve, rule.filter));
    ordered
}

/// A plugin with PreScore or Score.
pub struct EnabledScore {
    /// The plugin.
    pub plugin: Box<dyn ScorePlugin>,
    /// The factor of its scores.
    pub weight: i64,
    /// Whether PreScore is enabled.
    pub pre_score: bool,
    /// Its position at Score; `None` if Score is disabled.
    pub score: Option<Rank>,
}

/// A rule that fails with this text: the plugin's preparation is disabled or failed.
pub(super) struct Fails(pub(super) String);

impl FilterRule for Fails {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeSpec
    }

    fn filter(&self, _snapshot: Snapshot<'_>, feasible: &mut NodeSet) -> Result<(), CycleError> {
        if feasible.is_empty() { Ok(()) } else { Err(CycleError(self.0.clone())) }
    }

    fn check(&self, _node: &NodeView<'_>) -> Verdict {
        Verdict::Failed(CycleError(self.0.clone()))
    }
}

impl ScoreRule for Fails {
    fn score(
        &self,
        _snapshot: Snapshot<'_>,
        _feasible: &NodeSet,
        _raw: &mut [i64],
    ) -> Result<(), CycleError> {
        Err(CycleError(self.0.clone()))
    }
}

/// A rule that gives every node 0, for a score plugin that would skip but whose PreScore is disabled.
pub(super) struct Zero;

impl ScoreRule for Zero {
    fn score(
        &self,
        _snapshot: Snapshot<'_>,
        _feasible: &NodeSet,
        _raw: &mut [i64],
    ) -> Result<(), CycleError> {
        Ok(())
    }
}
