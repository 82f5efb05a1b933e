//! PodTopologySpread spreads matching pods evenly over topology domains, as a filter and as a score.
//!
//! `filter` and `score` count all pods for each decision; `tally` gives the same results from incremental
//! counts. The configuration validates the arguments. Upstream:
//! `pkg/scheduler/framework/plugins/podtopologyspread`; golden families `spread` and `spread-default`.

mod constraints;
mod counts;
mod filter;
mod go_log;
mod hint;
mod score;
mod tally;

use crate::cache::Snapshot;
use crate::framework::tally::{FilterTally, ScoreTally};
use crate::framework::{
    ClusterEvent, CycleError, EventSet, FilterPlugin, FilterRule, Hint, NodeAction, PluginName, Prepared,
    ScorePlugin, ScoreRule, Tallied,
};
use crate::model::intern::Symbol;
use crate::model::node_set::NodeSet;
use crate::model::pod::{PodInfo, WhenUnsatisfiable};

const NAME: PluginName = "PodTopologySpread";

/// The plugin with its arguments (upstream `PodTopologySpreadArgs`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodTopologySpread {
    /// The default constraints, for pods without their own.
    pub defaults: Defaults,
}

/// Constraints for pods without their own (upstream `defaultingType` and `defaultConstraints`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Defaults {
    /// The system defaults: soft constraints over hosts (`maxSkew` 3) and zones (5). Nodes that lack one
    /// label are scored by the other.
    #[default]
    System,
    /// A list from the configuration.
    List(Vec<DefaultConstraint>),
}

/// A default constraint. Its selector is derived for each pod from its Services and controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultConstraint {
    /// `maxSkew`, greater than 0.
    pub max_skew: i32,
    /// The node label whose values are the domains.
    pub topology_key: Symbol,
    /// `whenUnsatisfiable`.
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// `minDomains`; 1 when absent.
    pub min_domains: i32,
    /// `nodeAffinityPolicy` is not Ignore.
    pub honor_node_affinity: bool,
    /// `nodeTaintsPolicy` is Honor.
    pub honor_node_taints: bool,
}

impl PodTopologySpread {
    /// Whether nodes must have all topology keys to be counted; false if the system defaults apply.
    fn requires_all_keys(&self, pod: &PodInfo) -> bool {
        !pod.spread.is_empty() || self.defaults != Defaults::System
    }
}

impl FilterPlugin for PodTopologySpread {
    fn name(&self) -> PluginName {
        NAME
    }

    fn prepare(&self, pod: &PodInfo, snapshot: Snapshot<'_>) -> Prepared<dyn FilterRule> {
        match self.constraints(pod, snapshot, WhenUnsatisfiable::DoNotSchedule) {
            Err(error) => Prepared::Failed(CycleError(format!("get constraints from pod: {error}"))),
            Ok(constraints) if constraints.is_empty() => Prepared::Skip,
            Ok(constraints) => Prepared::Run {
                rule: Box::new(filter::SpreadFilter::new(pod, snapshot, constraints)),
                only: None,
            },
        }
    }

    fn tally(&self, pod: &PodInfo, snapshot: Snapshot<'_>) -> Tallied<dyn FilterTally> {
        match self.constraints(pod, snapshot, WhenUnsatisfiable::DoNotSchedule) {
            Err(_) => Tallied::No,
            Ok(constraints) if constraints.is_empty() => Tallied::Silent,
            Ok(constraints) => Tallied::Yes(Box::new(tally::SpreadTally::hard(pod, snapshot, constraints))),
        }
    }

    fn events(&self) -> EventSet {
        EventSet::TAINTS
            | EventSet::node(NodeAction::Delete)
            | EventSet::node(NodeAction::UpdateLabel)
            | EventSet::ASSIGNED_PODS
    }

    fn hint(&self, event: &ClusterEvent<'_>, pod: &PodInfo, snapshot: Snapshot<'_>) -> Hint {
        self.hint_of(event, pod, snapshot)
    }
}

impl ScorePlugin for PodTopologySpread {
    fn name(&self) -> PluginName {
        NAME
    }

    fn tally(&self, pod: &PodInfo, snapshot: Snapshot<'_>) -> Tallied<dyn ScoreTally> {
        match self.constraints(pod, snapshot, WhenUnsatisfiable::ScheduleAnyway) {
            Err(_) => Tallied::No,
            Ok(constraints) if constraints.is_empty() => Tallied::Silent,
            Ok(constraints) => {
                let require_all = self.requires_all_keys(pod);
                Tallied::Yes(Box::new(tally::SpreadTally::soft(pod, constraints, require_all)))
            }
        }
    }

    fn prepare(&self, pod: &PodInfo, snapshot: Snapshot<'_>, feasible: &NodeSet) -> Prepared<dyn ScoreRule> {
        match self.constraints(pod, snapshot, WhenUnsatisfiable::ScheduleAnyway) {
            Err(error) => Prepared::Failed(CycleError(format!("calculating preScoreState: {error}"))),
            Ok(constraints) if constraints.is_empty() => Prepared::Skip,
            Ok(constraints) => {
                let require_all = self.requires_all_keys(pod);
                let rule = score::SpreadScore::new(pod, snapshot, constraints, feasible, require_all);
                Prepared::Run { rule: Box::new(rule), only: None }
            }
        }
    }
}
