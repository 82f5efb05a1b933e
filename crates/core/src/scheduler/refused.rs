//! Pods like those that no node could take: what is remembered of those, and whether a fresh look comes to the same.

use super::attempt::unschedulable;
use super::failure::Unschedulable;
use super::verify::Verify;
use crate::cache::Snapshot;
use crate::cycle::{Decision, Failed, Framework, NoProbe, Options, PostFilter, Probe, Shapes};
use crate::framework::CycleError;
use crate::framework::post_filter::{Draws, Rooms};
use crate::pod::PodInfo;
use crate::time::Time;
use std::sync::Arc;

/// A decision about a pod that may be refused as others were.
pub(super) struct Refusal<'s> {
    pub(super) framework: &'s Framework,
    pub(super) shapes: &'s mut Shapes,
    pub(super) pod: &'s Arc<PodInfo>,
    pub(super) draws: Draws,
    pub(super) now: Time,
}

impl Refusal<'_> {
    /// What follows from what is remembered, if it is known that no node can take the pod.
    ///
    /// # Errors
    /// With what differs, where a fresh look comes to something else.
    pub(super) fn recall(
        self,
        snapshot: Snapshot<'_>,
        verify: &mut Verify,
        probe: &mut dyn Probe,
    ) -> Result<Option<Unschedulable>, String> {
        let Self { framework, shapes, pod, draws, now } = self;
        let tell = |failed: Failed<'_>, outcome: &PostFilter<'_>| {
            let instead = framework.find_room_instead(failed, (draws, now), Rooms::Free, outcome);
            unschedulable(failed, instead.as_ref().unwrap_or(outcome), draws)
        };
        let Some(found) = framework.refuse(shapes, pod, snapshot, (draws, now), probe, tell) else {
            return Ok(None);
        };
        if verify.is_due() {
            let fresh = fresh(framework, pod, snapshot, (draws, now));
            let is_same = fresh.as_ref() == Ok(&found);
            let differs = || format!("remembered is: {found:?}; a fresh look: {fresh:?}");
            verify.judged(if is_same { Ok(()) } else { Err(differs()) })?;
        }
        Ok(Some(found))
    }
}

/// What a plain decision comes to; where it is another than that no node can take the pod, in words.
fn fresh(
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
    let failed = Failed { pod, snapshot, filtered: &filtered, diagnosis: &diagnosis };
    let outcome = framework.find_room(failed, (draws, now), Rooms::Free, &mut NoProbe);
    Ok(unschedulable(failed, &outcome, draws))
}
