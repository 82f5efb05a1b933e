//! A scheduling attempt: pops a pod from the queue, decides, and assumes the pod on the chosen node.

use super::alternative::Chosen;
use super::binding::Binding;
use super::budget::Size;
use super::departure::Departure;
use super::failure::Failure;
use super::groups::Scope;
use super::infeasible::Refusal;
use super::quarantine::{PANICS_MAX, panic_text};
use super::verify::Compared;
use super::{Scheduler, profile_named};
use crate::cache::slice::step_limit::StepLimit;
use crate::cache::slice::{Slice, SliceEnded};
use crate::cache::{PodState, Snapshot};
use crate::cycle::{
    Decision, Evaluation, Feasible, Framework, InfeasibleDecision, NoProbe, Nominate, Nomination, Options,
    PostFilter, Probe, Unschedulable,
};
use crate::framework::CycleError;
use crate::framework::extension_point::ExtensionPoint;
use crate::framework::post_filter::{Draws, ExtenderCandidates};
use crate::incremental::{DecisionCache, State};
use crate::model::effect::{PodRef, Severity};
use crate::model::node::NodeIdx;
use crate::model::pod::PodInfo;
use crate::model::time::Time;
use crate::model::volume::Reservation;
use crate::plugins::{dynamic_resources, node_affinity};
use crate::preemption;
use crate::queue::{QueuedPod, Search};
use crate::report::{Outcome, Preemption, Report};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The message if the cluster has no nodes (upstream `ErrNoNodesAvailable`).
pub(super) const NO_NODES: &str = "no nodes available to schedule pods";

/// The result of a decision.
pub(super) enum Decided {
    Node(Choice),
    Nowhere(Unschedulable),
    /// The chosen node was rejected by Reserve.
    Refused(Unschedulable),
    Failed(CycleError),
    /// A plugin panicked with this message.
    Panicked(String),
    /// The slice, or an attempt in one step, reached its limit of work. The decision continues in another slice.
    Unfinished,
}

/// How much of a decision is evaluated at once.
#[derive(Clone, Copy)]
pub(super) enum Extent<'s> {
    /// All of it.
    Whole,
    /// All of it, unless searches for devices need more work than one step for other pods may take.
    Limited,
    /// One slice.
    Slice(&'s Slice),
    /// One member in a slice of its group's cycle.
    Member(&'s StepLimit),
}

impl<'s> Extent<'s> {
    /// Returns the snapshot for such a decision.
    fn of(self, snapshot: Snapshot<'s>, limit: &'s StepLimit) -> Snapshot<'s> {
        match self {
            Self::Whole => snapshot,
            Self::Limited => snapshot.with_step_limit(limit),
            Self::Slice(slice) => snapshot.in_slice(slice),
            Self::Member(limit) => snapshot.with_step_limit(limit),
        }
    }

    /// Returns the limit of such a decision, which is `own` unless it is a group's.
    fn limit(self, own: &'s StepLimit) -> &'s StepLimit {
        match self {
            Self::Member(limit) => limit,
            Self::Whole | Self::Limited | Self::Slice(_) => own,
        }
    }

    fn is_slice(self) -> bool {
        matches!(self, Self::Slice(_))
    }
}

impl Decided {
    /// Returns the chosen node, or the reasons against every node and the result of preemption.
    fn chosen(&self) -> Chosen<'_> {
        match self {
            Self::Node(choice) => Chosen::Node(choice.node),
            Self::Nowhere(found) | Self::Refused(found) => Chosen::of(found),
            Self::Failed(CycleError(message)) | Self::Panicked(message) => {
                Chosen::Nowhere { message, room: &Preemption::NotTried }
            }
            Self::Unfinished => Chosen::Nowhere { message: "", room: &Preemption::NotTried },
        }
    }
}

/// The node chosen for a pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) node: NodeIdx,
    /// The number of nodes with a verdict.
    pub(super) evaluated: usize,
    /// The number of feasible nodes.
    pub(super) feasible: usize,
    /// The total of the node; `None` if nodes were not scored.
    pub(super) score: Option<i64>,
    /// The volumes to reserve for the pod on this node.
    pub(super) reservations: Vec<Reservation>,
}

impl Scheduler {
    /// Pops the next pod and makes an attempt. Returns false if there was no pod.
    pub(super) fn attempt(&mut self, now: Time, probe: &mut dyn Probe) -> bool {
        let Some(queued) = self.pop(now) else { return false };
        let pod = Arc::clone(&queued.pod);
        if let Some(key) = pod.group_key() {
            self.attempt_group(now, queued, key, probe);
            return true;
        }
        if !self.is_ours(&pod) {
            // The pod was requeued after a failed binding, and its profile has been removed in the meantime.
            self.pod_left(now, &pod.uid, &Departure::NotOurs(&pod));
            return true;
        }
        if self.is_elsewhere(&pod) {
            return true;
        }
        if pod.deleting {
            let note = format!("skip schedule deleting pod: {}", self.snapshot().pod_key(&pod));
            self.record(&pod, Severity::Warning, "FailedScheduling", "Scheduling", note);
            self.cache.forget_nomination(&pod.uid);
            self.report(&queued, now, Outcome::Skipped);
            return true;
        }
        probe.attempt_begins();
        self.cache.refresh();
        if self.snapshot().nodes().is_empty() {
            probe.attempt_decided();
            self.fail(now, queued, now, Failure::NoNodes(NO_NODES.to_owned()));
            return true;
        }
        match self.size_of(&pod) {
            Size::Usual => self.slices.note_other(),
            Size::Large => {
                probe.attempt_decided();
                self.begin_slices(now, queued);
                return true;
            }
            Size::TooLarge(text) => {
                probe.attempt_decided();
                self.fail(now, queued, now, Failure::TooLarge(text));
                return true;
            }
        }
        if let Some(found) = self.recall(&pod)
            && self.holds_true(now, &queued, &found)
        {
            self.evaluate_alternative(now, &queued, self.walk.start(), Chosen::of(&found));
            self.walk.advance(found.walked, self.snapshot().node_count());
            probe.attempt_decided();
            self.fail(now, queued, now, Failure::Unschedulable(found));
            return true;
        }
        if self.extender_calls.concerns(&pod) {
            self.begin_extended(now, queued, probe);
            return true;
        }
        let start = self.walk.start();
        let decided = self.decide_to(now, &queued, Extent::Limited, probe);
        if !matches!(decided, Decided::Unfinished) {
            self.evaluate_alternative(now, &queued, start, decided.chosen());
        }
        let is_placed = matches!(decided, Decided::Node(_));
        if !is_placed {
            probe.attempt_decided();
        }
        self.conclude(now, queued, now, decided);
        if is_placed {
            probe.attempt_decided();
        }
        true
    }

    fn pop(&mut self, now: Time) -> Option<QueuedPod> {
        match self.extender_calls.attempt_filter() {
            None => self.queue.pop(now),
            Some(may_go) => self.queue.pop_that(now, |pod| self.extender_calls.concerns(pod), may_go),
        }
    }

    /// Applies the result of a decision that began at `began`.
    pub(super) fn conclude(&mut self, now: Time, queued: QueuedPod, began: Time, decided: Decided) {
        match decided {
            Decided::Node(choice) => self.assume(now, queued, began, choice),
            Decided::Nowhere(found) => {
                if self.is_like_others(&queued.pod) {
                    self.decisions.store(self.state_version(), &queued.pod, &found);
                }
                self.fail(now, queued, began, Failure::Unschedulable(found));
            }
            Decided::Refused(found) => self.fail(now, queued, began, Failure::Unschedulable(found)),
            Decided::Failed(CycleError(text)) => self.fail(now, queued, began, Failure::Error(text)),
            Decided::Panicked(text) => self.panicked(now, queued, &text),
            // A limited attempt. Slices that are unfinished are handled in `slices`.
            Decided::Unfinished => self.begin_slices(now, queued),
        }
    }

    /// Returns the result for an unschedulable pod with the same signature, if the cluster has not changed since.
    pub(super) fn recall(&mut self, pod: &Arc<PodInfo>) -> Option<Unschedulable> {
        let may = self.verify.is_trusting() && self.is_like_others(pod);
        if may { self.decisions.recall(self.state_version(), pod) } else { None }
    }

    /// Returns the version of all state on which a result in the infeasible cache depends.
    pub(super) fn state_version(&self) -> State {
        (self.cache.version(), self.tables.rounds())
    }

    /// Whether a full evaluation gives the same result as the cached one.
    pub(super) fn still_holds(&mut self, now: Time, queued: &QueuedPod, remembered: &Unschedulable) -> bool {
        let start = self.walk.start();
        let trust = self.verify.suspend();
        let decided = self.decide(now, queued, None, &mut NoProbe);
        self.verify.resume(trust);
        self.walk.return_to(start);
        matches!(decided, Decided::Nowhere(found)
            if (&found.rejectors, &found.message, found.walked)
                == (&remembered.rejectors, &remembered.message, remembered.walked))
    }

    /// Whether the result depends on the pod's signature alone. It does not for a nominated pod, whose nomination is
    /// ignored for itself, nor for a pod that extenders judge.
    pub(super) fn is_like_others(&self, pod: &PodInfo) -> bool {
        self.cache.nomination(&pod.uid).is_none()
            && !self.extender_calls.concerns(pod)
            && !dynamic_resources::concerns(pod, self.snapshot())
    }

    /// Decides about a pod as [`Self::decide_to`] does, in whole or in a slice.
    pub(super) fn decide(
        &mut self,
        now: Time,
        queued: &QueuedPod,
        slice: Option<&Slice>,
        probe: &mut dyn Probe,
    ) -> Decided {
        self.decide_to(now, queued, slice.map_or(Extent::Whole, Extent::Slice), probe)
    }

    /// Decides about a pod, without changing the cluster state.
    ///
    /// A panic in a plugin cannot corrupt the cluster state, since plugins see it through a shared borrow. It costs
    /// the pod its attempt. A slice uses no cached decisions, and an unfinished search starts again at the same node.
    pub(super) fn decide_to(
        &mut self,
        now: Time,
        queued: &QueuedPod,
        extent: Extent<'_>,
        probe: &mut dyn Probe,
    ) -> Decided {
        if self.is_comparable {
            return self.decide_in(now, queued, Scope::comparable(), probe);
        }
        let whole = self.cache.snapshot(&self.tables);
        let own_limit = StepLimit::of(self.slices.limits().large);
        let comparing = StepLimit::of_comparison(self.slices.limits().large);
        let (snapshot, limit) = (extent.of(whole, &own_limit), extent.limit(&own_limit));
        let start = self.walk.start();
        let pod = self.as_nominated(&queued.pod);
        let Some(profile) = profile_named(&self.profiles, pod.scheduler_name) else {
            return Decided::Failed(CycleError("no profile of the pod's schedulerName".to_owned()));
        };
        let (framework, decisions, seed) = (&profile.framework, &mut self.decisions, self.seed);
        let options = Options { walk: Some(&mut self.walk), ..Options::default() };
        let (verify, mut differs) = (&mut self.verify, None);
        let decided = catch_unwind(AssertUnwindSafe(|| {
            #[cfg(test)]
            super::quarantine::tests::PanicPoint::Deciding.spring(self.panic_point, &queued.pod);
            let uses_caches = !extent.is_slice() && verify.is_trusting();
            let verified = verify.snapshot_to_compare((snapshot, limit), whole, &comparing);
            if uses_caches && let Some(mut cached) = framework.decide_cached(decisions, &pod, snapshot, probe)
            {
                let evaluated = candidates(framework, &pod, snapshot);
                if verify.is_due(now) {
                    let nodes = verify.nodes();
                    let compared =
                        Compared { framework, pod: &pod, cached: &mut cached, seed, evaluated, nodes };
                    let limits = [Some(limit), verified.step_limit()];
                    differs = verify.judged_within(limits, || compared.verdict(verified)).err();
                }
                let node = cached.choose(seed, &pod, queued.attempts);
                if differs.is_none()
                    && let Some(reservations) = cached.reserve(snapshot, node)
                {
                    let (feasible, score) = (cached.len(), cached.total(node));
                    return Decided::Node(Choice { node, evaluated, feasible, score, reservations });
                }
            }
            if limit.is_exceeded() {
                return Decided::Unfinished;
            }
            let draws = Draws { seed, attempt: queued.attempts };
            if differs.is_none() && uses_caches {
                let known = Refusal { framework, decisions, pod: &pod, draws, now };
                match known.recall((snapshot, verified), verify, probe) {
                    Ok(Some(found)) => return Decided::Nowhere(found),
                    Ok(None) => {}
                    Err(difference) => differs = Some(difference),
                }
            }
            // After a difference, nothing of the cache is used.
            let verdicts = decisions.device_verdicts().filter(|_| differs.is_none() && uses_caches);
            let snapshot = verdicts.as_deref().map_or(snapshot, |known| snapshot.with_device_verdicts(known));
            let decisions = (!extent.is_slice()).then_some(decisions);
            decide_in_full((framework, decisions), &pod, snapshot, options, (draws, now), probe)
        }));
        if let Some(difference) = differs.filter(|_| !limit.is_exceeded()) {
            self.differed(&queued.pod, &difference);
        }
        self.unless_ended(decided, limit.is_exceeded(), start)
    }

    /// Returns the result of a decision, which is void if it ended early. The search for nodes began at `start`.
    fn unless_ended(
        &mut self,
        decided: Result<Decided, Box<dyn Any + Send>>,
        is_limit_exceeded: bool,
        start: usize,
    ) -> Decided {
        let decided = match decided {
            Ok(_) if is_limit_exceeded => Decided::Unfinished,
            Ok(decided) => decided,
            Err(panic) if panic.is::<SliceEnded>() => Decided::Unfinished,
            Err(panic) => {
                self.decisions.clear();
                Decided::Panicked(panic_text(panic.as_ref()))
            }
        };
        if let Decided::Unfinished = decided {
            self.walk.return_to(start);
        }
        decided
    }

    /// Counts a panic and fails the attempt. After [`PANICS_MAX`] panics the pod is excluded until it changes.
    fn panicked(&mut self, now: Time, mut queued: QueuedPod, text: &str) {
        self.quarantine.panics += 1;
        queued.panics += 1;
        let text = format!("the decision panicked: {text}");
        if queued.panics < PANICS_MAX {
            return self.fail(now, queued, now, Failure::Error(text));
        }
        self.quarantine.hold(&queued.pod);
        queued.panics = 0;
        let text = format!("{text}; it did so {PANICS_MAX} times, and the pod waits until it changes");
        self.fail(now, queued, now, Failure::HeldBack(text));
    }

    pub(super) fn assume(&mut self, now: Time, mut queued: QueuedPod, began: Time, choice: Choice) {
        let Choice { node, evaluated, feasible, score, reservations } = choice;
        queued.found = Some(Search { began, evaluated, feasible });
        let name = self.snapshot().node_info(node).name;
        let uid = Arc::clone(&queued.pod.uid);
        let outcome = Outcome::Placed {
            node: self.tables.text(name).to_owned(),
            nodes: self.snapshot().node_count(),
            feasible,
            score,
        };
        self.report(&queued, began, outcome);
        self.preemptor_left(now, &uid);
        let nominated = self.cache.nomination(&uid);
        self.cache.place(&queued.pod, name, PodState::Assumed);
        let has_reservations = !reservations.is_empty();
        self.nomination_fulfilled(now, &queued.pod, name);
        self.cache.assume_volumes(&self.tables, &uid, reservations);
        if has_reservations && self.has_reservations_to_write(&queued.pod) {
            return self.pre_bind(now, queued, name);
        }
        let fingerprint = self.cache.fingerprint_for(&queued.pod);
        let pod = Arc::clone(&queued.pod);
        self.bindings.insert(uid, Binding::new(queued, name, nominated, Some(fingerprint), began));
        self.queue_bind(&pod);
    }

    pub(super) fn report(&mut self, queued: &QueuedPod, began: Time, outcome: Outcome) {
        let profile = self.profile_of(&queued.pod).map(|p| p.name.clone()).unwrap_or_default();
        self.reports.push_back(Report {
            pod: self.pod_ref(&queued.pod),
            profile,
            attempt: queued.attempts,
            first_queued: queued.initial_attempt.unwrap_or(began),
            began,
            rescued_by_flush: queued.was_flushed,
            outcome,
        });
    }
}

impl Preemption {
    /// Returns the report of a PostFilter run.
    pub(crate) fn of(outcome: &PostFilter<'_>, failed: InfeasibleDecision<'_>, draws: Draws) -> Self {
        let snapshot = failed.snapshot;
        match outcome.nomination.choose(failed.pod, draws) {
            Some(candidate) => Self::Nominated {
                node: snapshot.text(snapshot.node_info(candidate.node).name).to_owned(),
                victims: candidate.victims.iter().map(|it| PodRef::new(it, snapshot.tables())).collect(),
                evictions: candidate.victims.iter().filter(|victim| !victim.deleting).count(),
            },
            None if outcome.asked.contains(&preemption::NAME) => Self::NoCandidate,
            None => Self::NotTried,
        }
    }
}

/// Decides with a full evaluation, and runs preemption if no node is feasible. Records the rejections in `decisions`.
fn decide_in_full(
    (framework, decisions): (&Framework, Option<&mut DecisionCache>),
    pod: &Arc<PodInfo>,
    snapshot: Snapshot<'_>,
    options: Options<'_>,
    (draws, now): (Draws, Time),
    probe: &mut dyn Probe,
) -> Decided {
    let decision = framework.decide(pod, snapshot, options, probe);
    if let Ok(decision) = &decision {
        probe.evaluated(&Evaluation { framework, pod, snapshot, decision });
    }
    match decision {
        Ok(Decision::Feasible(feasible)) => {
            let node = feasible.choose(draws.seed, pod, draws.attempt);
            reserve(&feasible, snapshot, node)
        }
        Ok(Decision::Infeasible(filtered)) => {
            if let Some(decisions) = decisions {
                framework.note_infeasible(decisions, pod, &filtered);
            }
            let diagnosis = filtered.diagnose(snapshot);
            let failed = InfeasibleDecision { pod, snapshot, filtered: &filtered, diagnosis: &diagnosis };
            let outcome = framework.find_room(failed, (draws, now), ExtenderCandidates::Free, probe);
            Decided::Nowhere(unschedulable(failed, &outcome, draws))
        }
        Err(error) => Decided::Failed(error),
    }
}

/// Combines the rejections of the filters with the result of PostFilter.
pub(super) fn unschedulable(
    failed: InfeasibleDecision<'_>,
    outcome: &PostFilter<'_>,
    draws: Draws,
) -> Unschedulable {
    let snapshot = failed.snapshot;
    let chosen = outcome.nomination.choose(failed.pod, draws);
    let preemption = Preemption::of(outcome, failed, draws);
    let nominate = match (chosen, &outcome.nomination) {
        (Some(candidate), _) => Nominate::To {
            node: snapshot.node_info(candidate.node).name,
            victims: candidate.victims.iter().map(|victim| Arc::clone(&victim.uid)).collect(),
        },
        (None, Nomination::Clear) => Nominate::Clear,
        (None, Nomination::Keep | Nomination::To(_)) => Nominate::Keep,
    };
    Unschedulable {
        rejectors: failed.diagnosis.rejectors.clone(),
        preemption_blockers: outcome.preemption_blockers.clone(),
        message: outcome.complete(&failed.diagnosis.message),
        filters_len: failed.diagnosis.message.len(),
        preemption,
        nominate,
        evaluated: failed.filtered.evaluated(snapshot),
        deallocated: outcome.deallocated.clone().map(Box::new),
        walked: failed.filtered.walked(),
    }
}

/// Reserves volumes for the pod on the chosen node, and returns the decision.
pub(super) fn reserve(found: &Feasible, snapshot: Snapshot<'_>, node: NodeIdx) -> Decided {
    let filtered = &found.filtered;
    match filtered.reserve(snapshot, node) {
        Ok(reservations) => {
            let (evaluated, feasible) = (filtered.evaluated(snapshot), filtered.feasible().len());
            Decided::Node(Choice { node, evaluated, feasible, score: found.best(), reservations })
        }
        Err((plugin, rejection)) => {
            let message =
                format!("0/{} nodes are available: 1 {}.", snapshot.node_count(), rejection.message());
            Decided::Refused(Unschedulable {
                rejectors: [plugin].into(),
                preemption_blockers: Default::default(),
                filters_len: message.len(),
                message,
                preemption: Preemption::NotTried,
                nominate: Nominate::Clear,
                evaluated: filtered.evaluated(snapshot),
                deallocated: None,
                walked: 0,
            })
        }
    }
}

/// Returns the number of nodes that a full evaluation filters: all, or those that the node affinity names.
pub(super) fn candidates(framework: &Framework, pod: &PodInfo, snapshot: Snapshot<'_>) -> usize {
    let pinned = node_affinity::pinned(&pod.node_affinity, snapshot);
    let pinned = pinned.filter(|_| framework.runs(ExtensionPoint::PreFilter, node_affinity::NAME));
    pinned.unwrap_or_else(|| snapshot.node_count())
}
