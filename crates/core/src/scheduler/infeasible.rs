//! Decisions from the infeasible cache, and their comparison with full evaluations.

use super::attempt::unschedulable;
use super::failure::Unschedulable;
use super::verify::Verify;
use crate::cache::Snapshot;
use crate::cycle::{Decision, Framework, InfeasibleDecision, NoProbe, Options, PostFilter, Probe};
use crate::framework::CycleError;
use crate::framework::post_filter::{Draws, ExtenderCandidates};
use crate::incremental::DecisionCache;
use crate::pod::PodInfo;
use crate::time::Time;
use std::sync::Arc;

/// A decision about a pod that the infeasible cache may answer.
pub(super) struct Refusal<'s> {
    pub(super) framework: &'s Framework,
    pub(super) decisions: &'s mut DecisionCache,
    pub(super) pod: &'s Arc<PodInfo>,
    pub(super) draws: Draws,
    pub(super) now: Time,
}

impl Refusal<'_> {
    /// Returns the cached result, if no node is feasible for the pod according to the cache.
    ///
    /// # Errors
    /// Describes the difference, if a comparison with the full evaluation is due and differs.
    pub(super) fn recall(
        self,
        snapshot: Snapshot<'_>,
        verify: &mut Verify,
        probe: &mut dyn Probe,
    ) -> Result<Option<Unschedulable>, String> {
        let Self { framework, decisions, pod, draws, now } = self;
        let then = conclusion(framework, (draws, now));
        let Some(found) = framework.reject_cached(decisions, pod, snapshot, (draws, now), probe, then) else {
            return Ok(None);
        };
        if verify.is_due(now) {
            verify.judged(verdict(framework, pod, snapshot, (draws, now), &found))?;
        }
        Ok(Some(found))
    }
}

/// Returns the function that builds the result from cached rejections and preemption.
pub(super) fn conclusion(
    framework: &Framework,
    (draws, now): (Draws, Time),
) -> impl FnOnce(InfeasibleDecision<'_>, &PostFilter<'_>) -> Unschedulable {
    move |failed, outcome| {
        let instead = framework.find_room_instead(failed, (draws, now), ExtenderCandidates::Free, outcome);
        unschedulable(failed, instead.as_ref().unwrap_or(outcome), draws)
    }
}

/// Compares the cached result with the full evaluation.
///
/// # Errors
/// Describes the difference.
pub(super) fn verdict(
    framework: &Framework,
    pod: &PodInfo,
    snapshot: Snapshot<'_>,
    draws: (Draws, Time),
    cached: &Unschedulable,
) -> Result<(), String> {
    let full = full(framework, pod, snapshot, draws);
    if full.as_ref() == Ok(cached) { Ok(()) } else { Err(format!("cached: {cached:?}; full: {full:?}")) }
}

/// Runs the full evaluation.
///
/// # Errors
/// Describes the result if it is anything else than that no node is feasible.
fn full(
    framework: &Framework,
    pod: &PodInfo,
    snapshot: Snapshot<'_>,
    (draws, now): (Draws, Time),
) -> Result<Unschedulable, String> {
    let filtered = match framework.decide(pod, snapshot, Options::default(), &mut NoProbe) {
        Ok(Decision::Infeasible(filtered)) => filtered,
        Ok(Decision::Feasible(found)) => return Err(format!("{} fit", found.filtered.feasible().len())),
        Err(CycleError(text)) => return Err(text),
    };
    let diagnosis = filtered.diagnose(snapshot);
    let failed = InfeasibleDecision { pod, snapshot, filtered: &filtered, diagnosis: &diagnosis };
    let outcome = framework.find_room(failed, (draws, now), ExtenderCandidates::Free, &mut NoProbe);
    Ok(unschedulable(failed, &outcome, draws))
}
