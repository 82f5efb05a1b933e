//! Where a plugin sits in a profile: which of its points run, and in which place.
//!
//! A configuration may enable Filter and not PreFilter, or put them in different orders. A plugin here prepares and judges
//! through one object; its seat says what of that is carried out. Upstream: `CycleState`, which a point that was not run
//! has written nothing to.

use crate::cache::{NodeView, Snapshot};
use crate::framework::{CycleError, DependsOn, FilterPlugin, FilterRule, ScorePlugin, ScoreRule, Verdict};
use crate::node_set::NodeSet;

/// A plugin's place in the order of a point that judges nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// The place, from 0.
    pub rank: usize,
    /// The error that ends the cycle at this point, where what prepares for it is disabled and the plugin cannot do without.
    pub fails: Option<&'static str>,
}

/// A plugin with PreFilter or Filter.
pub struct EnabledFilter {
    /// The plugin.
    pub plugin: Box<dyn FilterPlugin>,
    /// Whether PreFilter runs.
    pub pre_filter: bool,
    /// Its place in Filter; `None` where Filter does not run.
    pub filter: Option<Rank>,
}

/// A plugin with PreScore or Score.
pub struct EnabledScore {
    /// The plugin.
    pub plugin: Box<dyn ScorePlugin>,
    /// What its scores are multiplied by.
    pub weight: i64,
    /// Whether PreScore runs.
    pub pre_score: bool,
    /// Its place in Score; `None` where Score does not run.
    pub score: Option<Rank>,
}

/// The rule of a plugin whose point cannot do without what was not prepared, or could not be.
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

/// The rule of a score plugin that has nothing to say and no PreScore to say so in: every node gets 0.
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
