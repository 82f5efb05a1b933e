//! The decision about one member of a group, inside the group's cycle.

use super::super::attempt::{Choice, Decided, Extent, NO_NODES, reserve, unschedulable};
use super::super::budget::Size;
use super::super::quarantine::panic_text;
use super::super::{Scheduler, profile_named};
use super::cycle::{MemberResult, Mode, RunState};
use crate::cache::PodState;
use crate::cache::slice::step_limit::StepLimit;
use crate::cycle::{
    Decision, Evaluation, InfeasibleDecision, Nominate, Nomination, Options, PostFilter, Probe, Unschedulable,
};
use crate::framework::CycleError;
use crate::framework::post_filter::{Draws, ExtenderCandidates};
use crate::model::intern::Symbol;
use crate::model::node::NodeIdx;
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;
use crate::model::time::Time;
use crate::plugins::gang_scheduling::{self, Permit};
use crate::queue::QueuedPod;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Extenders answer later, but a group is decided in one cycle.
const EXTENDERS: &str = "extenders are not supported for members of a pod group";

/// How a decision differs from that of an ordinary attempt.
#[derive(Clone, Copy)]
pub(in crate::scheduler) struct Scope<'a> {
    /// The nodes to which the decision is restricted; `None` for all.
    pub(in crate::scheduler) within: Option<&'a NodeSet>,
    /// Whether PostFilter runs.
    pub(in crate::scheduler) preempts: bool,
    /// Whether the first name wins among equal nodes and candidates, as in recordings. Then a single feasible node is
    /// scored, the nomination that the recorded queue shows is tried first, and the dry run of preemption ignores
    /// host ports.
    pub(in crate::scheduler) is_comparable: bool,
    /// The limit of the searches for devices; `None` without one.
    pub(in crate::scheduler) limit: Option<&'a StepLimit>,
    /// Whether a rejection may leave out its reasons, and what could help.
    pub(in crate::scheduler) is_brief: bool,
}

impl Scope<'_> {
    /// Returns the scope of a decision that is compared with a recorded one of kube-scheduler.
    pub(in crate::scheduler) fn comparable() -> Self {
        Self { within: None, preempts: true, is_comparable: true, limit: None, is_brief: false }
    }
}

impl Scheduler {
    /// Decides about a member, and assumes it on its node for the members after it.
    pub(super) fn try_member(
        &mut self,
        now: Time,
        state: &mut RunState<'_>,
        queued: &QueuedPod,
        probe: &mut dyn Probe,
    ) -> MemberResult {
        let mark = state.checkpoint();
        let (tried, reservations) = match self.decide_member(now, state, queued, probe) {
            Decided::Node(choice) => {
                let node = self.snapshot().node_info(choice.node).name;
                self.assume_member(state, queued, (node, Some(choice.node)));
                let reservations = choice.reservations.clone();
                (MemberResult::Fits { choice, node, permit: Permit::Success }, reservations)
            }
            Decided::Nowhere(found) => match found.nominate {
                Nominate::To { node, .. } => {
                    self.assume_member(state, queued, (node, self.cache.find_slot(node)));
                    (MemberResult::Preempts { found, node, permit: Permit::Success }, Vec::new())
                }
                Nominate::Keep | Nominate::Clear => return MemberResult::Rejected(found),
            },
            Decided::Refused(found) => return MemberResult::Rejected(found),
            Decided::Failed(CycleError(text)) | Decided::Panicked(text) => return MemberResult::Failed(text),
            // The cycle ends with this slice, and its result is void.
            Decided::Unfinished => return MemberResult::Failed("the search for devices goes on".to_owned()),
        };
        if !reservations.is_empty() {
            self.cache.assume_volumes(&self.tables, &queued.pod.uid, reservations);
        }
        state.roles.place(&queued.pod, &self.tables);
        match self.permit(state) {
            Ok(permit) => {
                state.scheduled += 1;
                tried.permitted(permit)
            }
            Err(text) => {
                state.roll_back_to(mark, &mut self.cache);
                MemberResult::Failed(text)
            }
        }
    }

    /// Assumes a member on the node of this name and slot.
    fn assume_member(
        &mut self,
        state: &mut RunState<'_>,
        queued: &QueuedPod,
        (node, slot): (Symbol, Option<NodeIdx>),
    ) {
        if let Some(shared) = &mut state.shared
            && let Some(slot) = slot
            && shared.assume(&queued.pod, slot, &mut self.cache)
        {
            return;
        }
        let pod = match &mut state.gaps {
            Some(gaps) => gaps.assume(&queued.pod, node, &mut self.cache),
            None => Arc::clone(&queued.pod),
        };
        state.log.place(&mut self.cache, &pod, node, PodState::Assumed);
    }

    /// Runs Permit for a member that is assumed.
    fn permit(&self, state: &RunState<'_>) -> Result<Permit, String> {
        if !state.checks_minimum {
            return Ok(Permit::Success);
        }
        let key = (self.tables.text(state.key.namespace), self.tables.text(state.key.name));
        let permit = gang_scheduling::permit(state.group, key, state.scheduled + 1)?;
        Ok(if state.roles.are_short() { Permit::Wait } else { permit })
    }

    fn decide_member(
        &mut self,
        now: Time,
        state: &mut RunState<'_>,
        queued: &QueuedPod,
        probe: &mut dyn Probe,
    ) -> Decided {
        let pod = &queued.pod;
        // `group_evaluations` already checked the size, extenders and nominations of such members.
        if state.sole_evaluation().is_some()
            && let Some(decided) = self.decide_from_shared(now, state, queued, probe)
        {
            return decided;
        }
        if self.snapshot().nodes().is_empty() {
            return Decided::Nowhere(no_nodes());
        }
        if let Size::TooLarge(text) = self.size_of(pod) {
            return Decided::Failed(CycleError(text));
        }
        if self.extender_calls.concerns(pod) {
            return Decided::Failed(CycleError(EXTENDERS.to_owned()));
        }
        if let Some(gaps) = &mut state.gaps {
            gaps.show_to(pod, &mut self.cache);
        }
        self.cache.refresh();
        let preempts = state.mode == Mode::WithPostFilters;
        let uses_caches = state.within.is_none() && preempts && state.gaps.is_none();
        if uses_caches && !self.is_comparable {
            let extent = state.limit.map_or(Extent::Whole, Extent::Member);
            return self.decide_to(now, queued, extent, probe);
        }
        if state.sole_evaluation().is_none()
            && let Some(decided) = self.decide_from_shared(now, state, queued, probe)
        {
            return decided;
        }
        let is_comparable = self.is_comparable;
        let RunState { within, limit, is_brief, .. } = *state;
        let scope = Scope { within, preempts, is_comparable, limit, is_brief };
        let decided = self.decide_in(now, queued, scope, probe);
        self.keep_rejection(state, queued, &decided);
        decided
    }

    /// Decides with a full evaluation in this scope, without changing the cluster state.
    pub(in crate::scheduler) fn decide_in(
        &mut self,
        now: Time,
        queued: &QueuedPod,
        scope: Scope<'_>,
        probe: &mut dyn Probe,
    ) -> Decided {
        let pod = &if scope.is_comparable { Arc::clone(&queued.pod) } else { self.as_nominated(&queued.pod) };
        let shows_late = scope.is_comparable && self.shows_late();
        let whole = self.cache.snapshot(&self.tables);
        let snapshot = scope.limit.map_or(whole, |limit| whole.with_step_limit(limit));
        let Some(profile) = profile_named(&self.profiles, pod.scheduler_name) else {
            return Decided::Failed(CycleError("no profile of the pod's schedulerName".to_owned()));
        };
        let framework = &profile.framework;
        let options = Options {
            always_score: scope.is_comparable,
            ignore_own_nomination: false,
            walk: Some(&mut self.walk),
            within: scope.within,
        };
        let draws = Draws { seed: self.seed, attempt: queued.attempts };
        let shown = shows_late.then(|| PodInfo {
            nominated_node: self.shown_nominations.get(&pod.uid).copied(),
            ..PodInfo::clone(pod)
        });
        let of_filter = shown.as_ref().unwrap_or(pod);
        let name = |node| snapshot.text(snapshot.node_info(node).name);
        let decided = catch_unwind(AssertUnwindSafe(|| {
            let decision = match framework.decide(of_filter, snapshot, options, probe) {
                Ok(decision) => decision,
                Err(error) => return Decided::Failed(error),
            };
            probe.evaluated(&Evaluation { framework, pod, snapshot, decision: &decision });
            let filtered = match decision {
                Decision::Feasible(feasible) => {
                    let by_name = || feasible.winners().into_iter().min_by_key(|&node| name(node));
                    let by_name = scope.is_comparable.then(by_name).flatten();
                    let node = by_name.unwrap_or_else(|| feasible.choose(draws.seed, pod, draws.attempt));
                    return reserve(&feasible, snapshot, node);
                }
                Decision::Infeasible(_) if scope.is_brief => return Decided::Nowhere(rejected()),
                Decision::Infeasible(filtered) => filtered,
            };
            let diagnosis = filtered.diagnose(snapshot);
            let failed = InfeasibleDecision { pod, snapshot, filtered: &filtered, diagnosis: &diagnosis };
            let outcome = if !scope.preempts {
                PostFilter::not_run()
            } else if scope.is_comparable {
                let mut outcome = framework.post_filter(failed, draws, now, probe);
                if let Nomination::To(candidates) = &mut outcome.nomination {
                    candidates.sort_by_key(|candidate| name(candidate.node));
                    candidates.truncate(1);
                    outcome.report_choice(pod, snapshot, draws);
                }
                outcome
            } else {
                framework.find_room(failed, (draws, now), ExtenderCandidates::Free, probe)
            };
            Decided::Nowhere(unschedulable(failed, &outcome, draws))
        }));
        decided.unwrap_or_else(|panic| Decided::Panicked(panic_text(panic.as_ref())))
    }
}

/// The result for a cluster without nodes.
fn no_nodes() -> Unschedulable {
    Unschedulable { message: NO_NODES.to_owned(), filters_len: NO_NODES.len(), ..rejected() }
}

/// A rejection without reasons.
fn rejected() -> Unschedulable {
    Unschedulable {
        rejectors: Default::default(),
        preemption_blockers: Default::default(),
        message: String::new(),
        filters_len: 0,
        preemption: crate::report::Preemption::NotTried,
        nominate: Nominate::Clear,
        evaluated: 0,
        deallocated: None,
        walked: 0,
    }
}

impl MemberResult {
    /// Returns the chosen node of a member that fits.
    pub(super) fn choice(self) -> Option<Choice> {
        match self {
            Self::Fits { choice, .. } => Some(choice),
            Self::Preempts { .. } | Self::Rejected(_) | Self::Failed(_) => None,
        }
    }
}
