//! InterPodAffinity attracts pods to and repels them from domains with other pods, as a filter and as a
//! score. It applies the terms of the incoming pod and of existing pods.
//!
//! `filter` and `score` count all pods for each decision; `tally` gives the same results from incremental
//! counts. Selectors are validated during conversion. Upstream:
//! `pkg/scheduler/framework/plugins/interpodaffinity`; golden family `pod-affinity`.

mod counts;
mod filter;
mod hint;
mod score;
mod tally;
mod terms;

use crate::cache::Snapshot;
use crate::framework::tally::{FilterTally, ScoreTally};
use crate::framework::{
    ClusterEvent, CycleError, EventSet, FilterPlugin, FilterRule, Hint, NodeAction, PluginName, PodAction,
    Prepared, Rejection, ScorePlugin, ScoreRule, Tallied,
};
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;

const NAME: PluginName = "InterPodAffinity";

/// The plugin with its arguments (upstream `InterPodAffinityArgs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterPodAffinity {
    /// The score for each existing pod that requires affinity to the incoming one: 0 (none) to 100.
    pub hard_pod_affinity_weight: i32,
    /// Whether preferred terms of existing pods are ignored if the incoming pod has none of its own.
    pub ignore_preferred_terms_of_existing_pods: bool,
}

impl Default for InterPodAffinity {
    fn default() -> Self {
        Self { hard_pod_affinity_weight: 1, ignore_preferred_terms_of_existing_pods: false }
    }
}

impl FilterPlugin for InterPodAffinity {
    fn name(&self) -> PluginName {
        NAME
    }

    fn prepare(&self, pod: &PodInfo, snapshot: Snapshot<'_>) -> Prepared<dyn FilterRule> {
        if let Some(error) = terms::parse_error(pod) {
            return Prepared::Rejected(Rejection::unresolvable(format!("parsing pod: {error}")));
        }
        match filter::AffinityFilter::new(pod, snapshot) {
            Some(rule) => Prepared::Run { rule: Box::new(rule), only: None },
            None => Prepared::Skip,
        }
    }

    fn tally(&self, pod: &PodInfo, snapshot: Snapshot<'_>) -> Tallied<dyn FilterTally> {
        match terms::parse_error(pod) {
            Some(_) => Tallied::No,
            None => Tallied::Yes(Box::new(tally::RequiredTally::new(pod, snapshot))),
        }
    }

    fn events(&self) -> EventSet {
        EventSet::NEW_NODE
            | EventSet::node(NodeAction::UpdateLabel)
            | EventSet::node(NodeAction::Delete)
            | EventSet::assigned_pod(PodAction::Add)
            | EventSet::assigned_pod(PodAction::UpdateLabel)
            | EventSet::assigned_pod(PodAction::Delete)
            | EventSet::OTHER
    }

    fn hint(&self, event: &ClusterEvent<'_>, pod: &PodInfo, snapshot: Snapshot<'_>) -> Hint {
        hint::hint_of(event, pod, snapshot)
    }
}

impl ScorePlugin for InterPodAffinity {
    fn name(&self) -> PluginName {
        NAME
    }

    fn tally(&self, pod: &PodInfo, snapshot: Snapshot<'_>) -> Tallied<dyn ScoreTally> {
        if self.ignore_preferred_terms_of_existing_pods && !terms::has_preferences(pod) {
            return Tallied::Silent;
        }
        match terms::parse_error(pod) {
            Some(_) => Tallied::No,
            None => {
                let preferences = score::Preferences::new(*self, pod, snapshot);
                Tallied::Yes(Box::new(tally::PreferredTally::new(preferences, pod, snapshot)))
            }
        }
    }

    fn prepare(&self, pod: &PodInfo, snapshot: Snapshot<'_>, _feasible: &NodeSet) -> Prepared<dyn ScoreRule> {
        let has_preferences = terms::has_preferences(pod);
        if self.ignore_preferred_terms_of_existing_pods && !has_preferences {
            return Prepared::Skip;
        }
        if let Some(error) = terms::parse_error(pod) {
            return Prepared::Failed(CycleError(format!("failed to parse pod: {error}")));
        }
        match score::AffinityScore::new(self, pod, snapshot, has_preferences) {
            Some(rule) => Prepared::Run { rule: Box::new(rule), only: None },
            None => Prepared::Skip,
        }
    }
}
