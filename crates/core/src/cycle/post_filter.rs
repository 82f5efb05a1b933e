//! PostFilter: preemption candidates for a pod without a feasible node.
//!
//! Nothing is evicted here. Upstream: `pkg/scheduler/framework/runtime/framework.go#RunPostFilterPlugins`.

use super::{Diagnosis, Filtered, Framework, Point, Probe};
use crate::cache::{NodeView, Snapshot};
use crate::framework::dry_runs::DryRuns;
use crate::framework::extension_point::ExtensionPoint;
use crate::framework::post_filter::{
    Candidate, Deallocated, Draws, ExtenderCandidates, Judge, PostFilterPlugin, PostFiltered, Unplaced,
};
use crate::framework::{Code, CycleError, PluginName, Rejection};
use crate::model::node::NodeIdx;
use crate::model::pod::PodInfo;
use crate::model::rng::Purpose;
use crate::model::time::Time;
use std::collections::BTreeSet;

/// The result of PostFilter.
#[derive(Debug)]
pub struct PostFilter<'a> {
    /// PostFilter's part of the message; `None` if it has nothing to add.
    pub message: Option<String>,
    /// The change of the pod's nomination.
    pub nomination: Nomination<'a>,
    /// The plugins that ran, in order.
    pub asked: Vec<PluginName>,
    /// The plugins that would reject the pod even after evictions; empty if candidates were found.
    pub preemption_blockers: BTreeSet<PluginName>,
    /// The claim to free or to delete.
    pub deallocated: Option<Deallocated>,
}

impl PostFilter<'_> {
    /// The result if PostFilter does not run.
    pub(crate) fn not_run() -> Self {
        Self {
            message: None,
            nomination: Nomination::Keep,
            asked: Vec::new(),
            preemption_blockers: BTreeSet::new(),
            deallocated: None,
        }
    }

    /// Returns the complete text of the FailedScheduling event; `message` is the filters' part.
    pub fn complete(&self, message: &str) -> String {
        match &self.message {
            Some(more) => format!("{message} {more}"),
            None => message.to_owned(),
        }
    }

    /// Adds the chosen candidate to the message once extenders have restricted the candidates.
    fn report_victims(&mut self, unplaced: &Unplaced<'_>) {
        if !matches!(unplaced.rooms, ExtenderCandidates::All) {
            self.report_choice(unplaced.pod, unplaced.snapshot, unplaced.draws);
        }
    }

    /// Adds the chosen candidate to the message, in versions that report it.
    pub(crate) fn report_choice(&mut self, pod: &PodInfo, snapshot: Snapshot<'_>, draws: Draws) {
        if !snapshot.rules().reports_victims {
            return;
        }
        let Some(chosen) = self.nomination.choose(pod, draws) else { return };
        self.message = Some(format!(
            "preemption: found a potential placement for pod on node {}, preempting {} victims",
            snapshot.text(snapshot.node(chosen.node).name()),
            chosen.victims.len()
        ));
    }
}

/// The change of a pod's nomination (upstream `NominatingInfo`).
#[derive(Debug)]
pub enum Nomination<'a> {
    /// The nomination stays unchanged.
    Keep,
    /// The nomination is obsolete and must be cleared.
    Clear,
    /// The pod is nominated to one of these equally good candidates after its victims' evictions were requested.
    To(Vec<Candidate<'a>>),
}

impl<'a> Nomination<'a> {
    /// Draws one of the candidates; `None` if there are none. All have the same probability.
    pub fn choose(&self, pod: &PodInfo, draws: Draws) -> Option<&Candidate<'a>> {
        match self {
            Self::To(candidates) if !candidates.is_empty() => {
                let attempt = u64::from(draws.attempt);
                let at = draws.seed.draw(Purpose::PreemptionTie, &pod.uid, attempt, candidates.len());
                Some(&candidates[at])
            }
            Self::Keep | Self::Clear | Self::To(_) => None,
        }
    }
}

/// A decision that found no feasible node: the input of PostFilter.
#[derive(Clone, Copy)]
pub struct InfeasibleDecision<'a> {
    /// The pod.
    pub pod: &'a PodInfo,
    /// The state of the cluster at the decision.
    pub snapshot: Snapshot<'a>,
    /// The results of the filters.
    pub filtered: &'a Filtered,
    /// The diagnosis of these results.
    pub diagnosis: &'a Diagnosis,
}

/// Whether only the pod's group runs PostFilter, as from 1.37 on.
fn is_left_to_group(failed: InfeasibleDecision<'_>) -> bool {
    failed.pod.group.is_some() && failed.snapshot.rules().group_rules.asks_feasibility
}

impl Framework {
    /// Runs the PostFilter plugins in order, up to the first that finds candidates or fails.
    pub fn post_filter<'a>(
        &'a self,
        failed: InfeasibleDecision<'a>,
        draws: Draws,
        now: Time,
        probe: &mut dyn Probe,
    ) -> PostFilter<'a> {
        self.post_filter_with(failed, draws, now, ExtenderCandidates::Free, probe)
    }

    /// Runs the PostFilter plugins, with victims restricted by extenders.
    pub fn post_filter_with<'a>(
        &'a self,
        failed: InfeasibleDecision<'a>,
        draws: Draws,
        now: Time,
        rooms: ExtenderCandidates<'a>,
        probe: &mut dyn Probe,
    ) -> PostFilter<'a> {
        if is_left_to_group(failed) {
            return PostFilter::not_run();
        }
        probe.enter(Point::PostFilter);
        let unplaced = self.unplaced(failed, (draws, now), rooms);
        let (mut outcome, status) = self.run_post_filters(|plugin| plugin.post_filter(&unplaced));
        outcome.report_victims(&unplaced);
        probe.leave(Point::PostFilter, status);
        outcome
    }

    /// Runs the PostFilter plugins as [`Self::post_filter_with`] does, and replaces a chosen candidate that does not
    /// hold.
    ///
    /// A candidate holds if the pod passes all filters once its victims are gone. Upstream evicts without this check;
    /// only the result of this function may lead to evictions.
    pub fn find_room<'a>(
        &'a self,
        failed: InfeasibleDecision<'a>,
        (draws, now): (Draws, Time),
        rooms: ExtenderCandidates<'a>,
        probe: &mut dyn Probe,
    ) -> PostFilter<'a> {
        let outcome = self.post_filter_with(failed, draws, now, rooms, probe);
        self.find_room_instead(failed, (draws, now), rooms, &outcome).unwrap_or(outcome)
    }

    /// Returns a replacement of `outcome` if its chosen candidate does not hold. Returns `None` if it holds, or if
    /// there is none.
    pub fn find_room_instead<'a>(
        &'a self,
        failed: InfeasibleDecision<'a>,
        (draws, now): (Draws, Time),
        rooms: ExtenderCandidates<'a>,
        outcome: &PostFilter<'_>,
    ) -> Option<PostFilter<'a>> {
        let chosen = outcome.nomination.choose(failed.pod, draws)?;
        let unplaced = self.unplaced(failed, (draws, now), rooms);
        if self.post_filters.iter().all(|plugin| plugin.holds(&unplaced, chosen)) {
            return None;
        }
        let mut outcome = self.run_post_filters(|plugin| plugin.post_filter_to_hold(&unplaced)).0;
        outcome.report_victims(&unplaced);
        Some(outcome)
    }

    /// Runs the PostFilter plugins with cached dry runs of identical pods.
    pub(crate) fn post_filter_again<'a>(
        &'a self,
        failed: InfeasibleDecision<'a>,
        when: (Draws, Time),
        known: &mut DryRuns,
        probe: &mut dyn Probe,
    ) -> PostFilter<'a> {
        if is_left_to_group(failed) {
            return PostFilter::not_run();
        }
        probe.enter(Point::PostFilter);
        let unplaced = self.unplaced(failed, when, ExtenderCandidates::Free);
        let again = |plugin: &dyn PostFilterPlugin| plugin.post_filter_again(&unplaced, known);
        let (mut outcome, status) = self.run_post_filters(again);
        outcome.report_victims(&unplaced);
        probe.leave(Point::PostFilter, status);
        outcome
    }

    fn unplaced<'a>(
        &'a self,
        failed: InfeasibleDecision<'a>,
        (draws, now): (Draws, Time),
        rooms: ExtenderCandidates<'a>,
    ) -> Unplaced<'a> {
        Unplaced {
            pod: failed.pod,
            snapshot: failed.snapshot,
            curable: &failed.diagnosis.curable,
            prepared_by: self.prepared_by(failed.filtered),
            judge: failed.filtered,
            draws,
            now,
            rooms,
        }
    }

    fn run_post_filters<'a>(
        &self,
        mut ask: impl FnMut(&dyn PostFilterPlugin) -> PostFiltered<'a>,
    ) -> (PostFilter<'a>, &'static str) {
        let (mut reasons, mut asked, mut preemption_blockers) = (Vec::new(), Vec::new(), BTreeSet::new());
        let mut deallocated = None;
        // Upstream clears the nomination if no PostFilter plugin is enabled.
        let mut nomination = if self.post_filters.is_empty() { Nomination::Clear } else { Nomination::Keep };
        for plugin in &self.post_filters {
            asked.push(plugin.name());
            match ask(plugin.as_ref()) {
                PostFiltered::Found(candidates) => {
                    let nomination = Nomination::To(candidates);
                    preemption_blockers.clear();
                    let found =
                        PostFilter { message: None, nomination, asked, preemption_blockers, deallocated };
                    return (found, "Success");
                }
                PostFiltered::Failed(CycleError(text)) => {
                    let message = Some(text).filter(|text| !text.is_empty());
                    let nomination = Nomination::Keep;
                    let failed = PostFilter { message, nomination, asked, preemption_blockers, deallocated };
                    return (failed, "Error");
                }
                PostFiltered::Nothing {
                    reason,
                    clear_nomination,
                    preemption_blockers: more,
                    deallocated: claim,
                } => {
                    deallocated = deallocated.or(claim);
                    preemption_blockers.extend(more);
                    if clear_nomination {
                        nomination = Nomination::Clear;
                    }
                    reasons.extend(Some(reason).filter(|reason| !reason.is_empty()));
                }
            }
        }
        let message = Some(reasons.join(", ")).filter(|text| !text.is_empty());
        (PostFilter { message, nomination, asked, preemption_blockers, deallocated }, "Unschedulable")
    }

    /// Returns the plugins whose PreFilter ran. An unresolvable rejection ends PreFilter.
    fn prepared_by(&self, filtered: &Filtered) -> &[PluginName] {
        let all = self.plugins_at(ExtensionPoint::PreFilter);
        let stopped_by = filtered
            .prefilter_rejection()
            .filter(|(_, rejection)| rejection.code == Code::UnschedulableAndUnresolvable)
            .and_then(|(plugin, _)| all.iter().position(|name| *name == plugin));
        stopped_by.map_or(all, |at| &all[..=at])
    }
}

impl Judge for Filtered {
    fn is_candidate(&self, snapshot: Snapshot<'_>, node: NodeIdx) -> bool {
        self.prefilter_rejection().is_none() && self.candidates(snapshot).contains(node)
    }

    fn first_rejection(&self, node: &NodeView<'_>) -> Result<Option<(PluginName, Rejection)>, CycleError> {
        self.first_rejector(node)
    }

    fn reported_rejection(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        node: NodeIdx,
    ) -> Result<Option<(PluginName, Rejection)>, CycleError> {
        self.judge(pod, snapshot, node)
    }

    fn judges_nodes_alone(&self) -> bool {
        Self::judges_nodes_alone(self)
    }

    fn still_passes(&self, node: &NodeView<'_>) -> bool {
        let passes = self.passes_usage_rules(node);
        debug_assert_eq!(
            passes,
            matches!(self.first_rejector(node), Ok(None)),
            "the filters that are not evaluated again reject the node"
        );
        passes
    }
}
