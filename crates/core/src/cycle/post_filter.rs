//! PostFilter: what is said, and what could be done, for a pod no node can take.
//!
//! Nothing is carried out here. Upstream: `pkg/scheduler/framework/runtime/framework.go#RunPostFilterPlugins`.

use super::{Diagnosis, Filtered, Framework, Point, Probe};
use crate::cache::{NodeView, Snapshot};
use crate::framework::dry_runs::DryRuns;
use crate::framework::post_filter::{
    Candidate, Draws, Judge, PostFilterPlugin, PostFiltered, Rooms, Unplaced,
};
use crate::framework::registry::ExtensionPoint;
use crate::framework::{Code, CycleError, PluginName, Rejection};
use crate::pod::PodInfo;
use crate::rng::Purpose;
use crate::time::Time;
use std::collections::BTreeSet;

/// What PostFilter came to.
#[derive(Debug)]
pub struct PostFilter<'a> {
    /// What it adds to the message; `None` where a way was found, or there is nothing to say.
    pub message: Option<String>,
    /// What it means for the pod's nomination.
    pub nomination: Nomination<'a>,
    /// The plugins that were asked, in order.
    pub asked: Vec<PluginName>,
    /// The plugins that would keep the pod out even if others went; none where a way was found.
    pub hindered_by: BTreeSet<PluginName>,
}

impl PostFilter<'_> {
    /// The whole text of the FailedScheduling event, of which the filters' part is `message`.
    pub fn complete(&self, message: &str) -> String {
        match &self.message {
            Some(more) => format!("{message} {more}"),
            None => message.to_owned(),
        }
    }
}

/// What becomes of a pod's nomination (upstream `NominatingInfo`).
#[derive(Debug)]
pub enum Nomination<'a> {
    /// It stays as it is.
    Keep,
    /// It leads nowhere and is to be cleared.
    Clear,
    /// The pod is to be nominated to one of these once its victims are told to go; each is as good as the others.
    To(Vec<Candidate<'a>>),
}

impl<'a> Nomination<'a> {
    /// The candidate chosen, where there are any: an even draw.
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

/// A decision that found no node.
#[derive(Clone, Copy)]
pub struct Failed<'a> {
    /// The pod.
    pub pod: &'a PodInfo,
    /// The cluster in which it was decided about.
    pub snapshot: Snapshot<'a>,
    /// What the filters said.
    pub filtered: &'a Filtered,
    /// What was made of it.
    pub diagnosis: &'a Diagnosis,
}

impl Framework {
    /// Asks the PostFilter plugins, in order: the first that finds a way, or fails, has the last word.
    pub fn post_filter<'a>(
        &'a self,
        failed: Failed<'a>,
        draws: Draws,
        now: Time,
        probe: &mut dyn Probe,
    ) -> PostFilter<'a> {
        self.post_filter_with(failed, draws, now, Rooms::Free, probe)
    }

    /// The same, where extenders have a say in whom a pod may send away.
    pub fn post_filter_with<'a>(
        &'a self,
        failed: Failed<'a>,
        draws: Draws,
        now: Time,
        rooms: Rooms<'a>,
        probe: &mut dyn Probe,
    ) -> PostFilter<'a> {
        probe.enter(Point::PostFilter);
        let unplaced = self.unplaced(failed, (draws, now), rooms);
        let (outcome, status) = self.run_post_filters(|plugin| plugin.post_filter(&unplaced));
        probe.leave(Point::PostFilter, status);
        outcome
    }

    /// The same, and the candidate that is chosen holds: if upstream's does not, the next best that does takes its place.
    ///
    /// [`Self::post_filter_with`] decides as upstream does. This is what a pod may be evicted for.
    pub fn find_room<'a>(
        &'a self,
        failed: Failed<'a>,
        (draws, now): (Draws, Time),
        rooms: Rooms<'a>,
        probe: &mut dyn Probe,
    ) -> PostFilter<'a> {
        let outcome = self.post_filter_with(failed, draws, now, rooms, probe);
        self.find_room_instead(failed, (draws, now), rooms, &outcome).unwrap_or(outcome)
    }

    /// What takes the place of an outcome whose chosen candidate does not hold; `None` where it does, or there is none.
    pub fn find_room_instead<'a>(
        &'a self,
        failed: Failed<'a>,
        (draws, now): (Draws, Time),
        rooms: Rooms<'a>,
        outcome: &PostFilter<'_>,
    ) -> Option<PostFilter<'a>> {
        let chosen = outcome.nomination.choose(failed.pod, draws)?;
        let unplaced = self.unplaced(failed, (draws, now), rooms);
        if self.post_filters.iter().all(|plugin| plugin.holds(&unplaced, chosen)) {
            return None;
        }
        Some(self.run_post_filters(|plugin| plugin.post_filter_to_hold(&unplaced)).0)
    }

    /// The same, with what is known of nodes from pods like it.
    pub(crate) fn post_filter_again<'a>(
        &'a self,
        failed: Failed<'a>,
        when: (Draws, Time),
        known: &mut DryRuns,
        probe: &mut dyn Probe,
    ) -> PostFilter<'a> {
        probe.enter(Point::PostFilter);
        let unplaced = self.unplaced(failed, when, Rooms::Free);
        let again = |plugin: &dyn PostFilterPlugin| plugin.post_filter_again(&unplaced, known);
        let (outcome, status) = self.run_post_filters(again);
        probe.leave(Point::PostFilter, status);
        outcome
    }

    fn unplaced<'a>(
        &'a self,
        failed: Failed<'a>,
        (draws, now): (Draws, Time),
        rooms: Rooms<'a>,
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
        let (mut reasons, mut asked, mut hindered_by) = (Vec::new(), Vec::new(), BTreeSet::new());
        // Where nobody has a say, upstream clears the nomination.
        let mut nomination = if self.post_filters.is_empty() { Nomination::Clear } else { Nomination::Keep };
        for plugin in &self.post_filters {
            asked.push(plugin.name());
            match ask(plugin.as_ref()) {
                PostFiltered::Found(candidates) => {
                    let nomination = Nomination::To(candidates);
                    hindered_by.clear();
                    return (PostFilter { message: None, nomination, asked, hindered_by }, "Success");
                }
                PostFiltered::Failed(CycleError(text)) => {
                    let message = Some(text).filter(|text| !text.is_empty());
                    let nomination = Nomination::Keep;
                    return (PostFilter { message, nomination, asked, hindered_by }, "Error");
                }
                PostFiltered::Nothing { reason, clear_nomination, hindered_by: more } => {
                    hindered_by.extend(more);
                    if clear_nomination {
                        nomination = Nomination::Clear;
                    }
                    reasons.push(reason);
                }
            }
        }
        let message = Some(reasons.join(", ")).filter(|text| !text.is_empty());
        (PostFilter { message, nomination, asked, hindered_by }, "Unschedulable")
    }

    /// The plugins whose PreFilter ran: one that cannot be cured stops those behind it.
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
    fn first_rejection(&self, node: &NodeView<'_>) -> Result<Option<(PluginName, Rejection)>, CycleError> {
        self.first_rejector(node)
    }

    fn still_passes(&self, node: &NodeView<'_>) -> bool {
        let passes = self.passes_but_for_object(node);
        debug_assert_eq!(passes, matches!(self.first_rejector(node), Ok(None)), "the short way errs");
        passes
    }
}
