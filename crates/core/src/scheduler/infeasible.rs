//! Decisions from the infeasible cache, and their comparison with full evaluations.

use super::attempt::unschedulable;
use super::verify::Verify;
use crate::cache::Snapshot;
use crate::cycle::{
    Decision, Framework, InfeasibleDecision, NoProbe, Options, PostFilter, Probe, Unschedulable,
};
use crate::framework::CycleError;
use crate::framework::post_filter::{Draws, ExtenderCandidates};
use crate::incremental::DecisionCache;
use crate::model::pod::PodInfo;
use crate::model::time::Time;
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
    /// Returns the cached result, if no node is feasible for the pod according to the cache. Comparisons read the
    /// second snapshot.
    ///
    /// # Errors
    /// Describes the difference, if a comparison with the full evaluation is due and differs.
    pub(super) fn recall(
        self,
        (snapshot, verified): (Snapshot<'_>, Snapshot<'_>),
        verify: &mut Verify,
        probe: &mut dyn Probe,
    ) -> Result<Option<Unschedulable>, String> {
        let Self { framework, decisions, pod, draws, now } = self;
        let then = conclusion(framework, (draws, now));
        let Some(found) = framework.reject_cached(decisions, pod, snapshot, (draws, now), probe, then) else {
            return Ok(None);
        };
        if verify.is_due(now) {
            let verdict = || verdict(framework, pod, verified, (draws, now), &found);
            verify.judged_within([snapshot.step_limit(), verified.step_limit()], verdict)?;
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

#[cfg(test)]
mod tests {
    use crate::cycle::{Point, Probe};
    use crate::model::event::Event;
    use crate::model::pod::{PodAffinity, PodAffinityTerm};
    use crate::model::selector::Selector;
    use crate::scheduler::Step;
    use crate::scheduler::quarantine::tests::{World, pod};

    /// Counts the evaluations of nodes.
    #[derive(Default)]
    struct Filters(usize);

    impl Probe for Filters {
        fn enter(&mut self, point: Point) {
            self.0 += usize::from(matches!(point, Point::Filter));
        }
    }

    /// A workload of pods that need a pod which does not exist. No level of single nodes serves them: their rejection
    /// depends on other pods.
    #[test]
    fn identical_pods_rejected_by_affinity_cost_one_evaluation_while_nothing_changes() {
        const PODS: usize = 300;
        let mut world = World::new();
        for number in 0..PODS {
            let tables = world.scheduler.tables();
            let mut lonely = pod(tables, &format!("p{number}"), 10, None);
            let term = PodAffinityTerm {
                namespaces: [tables.symbol("elsewhere")].into(),
                namespace_selector: Selector::Nothing,
                selector: Selector::All([].into()),
                topology_key: tables.symbol("kubernetes.io/hostname"),
            };
            lonely.template.pod_affinity = Some(Box::new(PodAffinity {
                required_affinity: Ok([term].into()),
                required_anti_affinity: Ok([].into()),
                preferred_affinity: Ok([].into()),
                preferred_anti_affinity: Ok([].into()),
            }));
            world.handle(Event::PodApplied(lonely));
        }
        // Builds with assertions compare every cached result; the comparisons do not use this probe.
        let mut filters = Filters::default();
        let mut unschedulable = 0;
        loop {
            match world.scheduler.step(world.now, &mut filters) {
                Step::Idle { .. } => break,
                Step::Report(report) => {
                    let text = format!("{:?}", report.outcome);
                    assert!(text.contains("didn't match pod affinity rules"), "{text}");
                    unschedulable += 1;
                }
                Step::Effect(_) | Step::GroupReport(_) | Step::Notice(_) => {}
            }
        }
        // The first pod enters Filter twice: in the cached path, which has no answer, and in the full evaluation.
        assert_eq!((unschedulable, filters.0), (PODS, 2));
        assert_eq!(world.scheduler.stats().recalled, PODS as u64 - 1);
    }
}
