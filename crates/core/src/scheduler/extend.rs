//! Pods whose decision waits for extenders.
//!
//! A decision that needs extenders becomes a [`SuspendedDecision`]. It resumes when all its calls are answered,
//! against the state of that time. It holds no locks or resources meanwhile, and other pods are scheduled. But while
//! a pod waits for an extender that is not ignorable, pods of the same profile with a lower priority wait as well.
//!
//! The evaluation itself is in `cycle::extended`. Upstream calls extenders synchronously in its scheduling loop:
//! `pkg/scheduler/schedule_one.go`.

mod ledger;

pub(super) use ledger::{ExtenderCalls, SuspendedDecision};

use super::attempt::Decided;
use super::failure::Failure;
use super::quarantine::panic_text;
use super::slices::Progress;
use super::{Scheduler, profile_named};
use crate::cache::Snapshot;
use crate::cache::slice::step_limit::StepLimit;
use crate::cache::slice::{Slice, SliceEnded};
use crate::cycle::{
    ExtendedDecision, ExtenderRequest, Filtered, Framework, InfeasibleDecision, Nomination, Options, Probe,
    RequestKind,
};
use crate::framework::CycleError;
use crate::framework::post_filter::{Draws, ExtenderCandidates};
use crate::model::effect::Effect;
use crate::model::extender::{self, Answer, Extender, ExtenderCandidate};
use crate::model::pod::PodInfo;
use crate::model::signature::Signature;
use crate::model::time::Time;
use crate::queue::QueuedPod;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// How often a decision restarts, because its nodes became stale, before the pod backs off.
const RESTARTS_MAX: u32 = 3;

/// The result of a decision with extenders, as far as their answers allow.
pub(super) enum Extended {
    /// These calls are needed first.
    Call(Vec<ExtenderRequest>),
    /// It must restart.
    Stale,
    /// It is complete.
    Decided(Decided),
    /// The slice ended.
    Unfinished,
}

impl Scheduler {
    /// Sets the extenders. Call it before the first decision; later changes are part of a new configuration.
    pub fn set_extenders(&mut self, extenders: Vec<Extender>) {
        let any = extenders.iter().any(|extender| extender.filters || extender.prioritizes);
        for (_, profile) in &mut self.profiles {
            profile.framework.extended = any;
        }
        self.extender_calls.extenders = extender::in_order(extenders);
    }

    /// Starts a decision with extenders.
    pub(super) fn begin_extended(&mut self, now: Time, queued: QueuedPod, probe: &mut dyn Probe) {
        let waiting = SuspendedDecision::new(queued, now, self.requeues.count);
        self.extended_decision(now, waiting, probe);
    }

    /// Resumes a decision whose calls are all answered, and returns whether there was one. A large pod goes on in
    /// slices.
    pub(super) fn resume(&mut self, now: Time, probe: &mut dyn Probe) -> bool {
        let Some(waiting) = self.extender_calls.take_ready() else { return false };
        if waiting.progress.is_some() {
            self.extender_calls.suspend(waiting);
            return true;
        }
        self.cache.refresh();
        if self.snapshot().nodes().is_empty() {
            let text = super::attempt::NO_NODES.to_owned();
            self.fail(now, waiting.queued, waiting.began, Failure::NoNodes(text));
            return true;
        }
        self.extended_decision(now, waiting, probe);
        true
    }

    fn extended_decision(&mut self, now: Time, waiting: SuspendedDecision, probe: &mut dyn Probe) {
        let mut next = Some(waiting);
        while let Some(mut waiting) = next {
            let made = self.decide_extended(now, &mut waiting, None, probe);
            if let Extended::Unfinished = made {
                // Its searches for devices need more steps than other pods may wait for.
                waiting.progress = Some(Progress::default());
                return self.extender_calls.suspend(waiting);
            }
            next = self.proceed(now, waiting, made);
        }
    }

    /// Acts on the result of a decision with extenders. Returns the decision if it must be made again.
    pub(super) fn proceed(
        &mut self,
        now: Time,
        mut waiting: SuspendedDecision,
        made: Extended,
    ) -> Option<SuspendedDecision> {
        match made {
            Extended::Call(asks) => {
                for call in self.extender_calls.wait(waiting, asks) {
                    self.outbox.push_call(call);
                }
            }
            Extended::Stale if waiting.restarts < RESTARTS_MAX => {
                waiting.begin_again(self.requeues.count);
                return Some(waiting);
            }
            Extended::Stale => {
                let text = format!(
                    "the cluster changed while extenders were asked, {} times in a row",
                    waiting.restarts + 1
                );
                self.fail(now, waiting.queued, waiting.began, Failure::Error(text));
            }
            Extended::Decided(decided) => self.answered(now, waiting, decided),
            Extended::Unfinished => return Some(waiting),
        }
        None
    }

    /// Completes a decision. If extenders rejected nodes, and a cluster event arrived since they were called, the pod
    /// is requeued. Upstream does the same for events while a pod is in flight.
    fn answered(&mut self, now: Time, waiting: SuspendedDecision, decided: Decided) {
        let changed = waiting.changed || waiting.events != self.requeues.count;
        let by_extenders =
            matches!(&decided, Decided::Nowhere(found) if found.rejectors.contains(extender::NAME));
        let uid = Arc::clone(&waiting.queued.pod.uid);
        self.conclude(now, waiting.queued, waiting.began, decided);
        if changed && by_extenders {
            self.queue.requeue_now(now, &uid);
        }
    }

    pub(super) fn decide_extended(
        &mut self,
        now: Time,
        waiting: &mut SuspendedDecision,
        slice: Option<&Slice>,
        probe: &mut dyn Probe,
    ) -> Extended {
        let whole = self.cache.snapshot(&self.tables);
        let limit = StepLimit::of(self.slices.limits().large);
        let snapshot = slice.map_or(whole.with_step_limit(&limit), |slice| whole.in_slice(slice));
        let pod = self.as_nominated(&waiting.queued.pod);
        let Some(profile) = profile_named(&self.profiles, pod.scheduler_name) else {
            let text = "no profile of the pod's schedulerName".to_owned();
            return Extended::Decided(Decided::Failed(CycleError(text)));
        };
        let interested: Vec<&Extender> = self.extender_calls.interested_in(&pod).collect();
        // Each resumption searches the same sample of nodes. Other decisions have advanced the start in the meantime.
        let before = self.walk.start();
        let elsewhere = waiting.transcript.start.map(|start| (start, before));
        match elsewhere {
            Some((start, _)) => self.walk.return_to(start),
            None => waiting.transcript.start = Some(before),
        }
        let options = Options { walk: Some(&mut self.walk), ..Options::default() };
        let asking = Decision {
            framework: &profile.framework,
            snapshot,
            pod: &pod,
            extenders: &interested,
            draws: Draws { seed: self.seed, attempt: waiting.queued.attempts },
            now,
            version: self.cache.version(),
        };
        let made = catch_unwind(AssertUnwindSafe(|| {
            #[cfg(test)]
            super::quarantine::tests::PanicPoint::Deciding.spring(self.panic_point, &pod);
            asking.go_on(waiting, options, probe)
        }));
        if let Some((_, later)) = elsewhere {
            self.walk.return_to(later);
        }
        let made = match made {
            Ok(_) if limit.is_exceeded() => None,
            Err(panic) if panic.is::<SliceEnded>() => None,
            Ok(made) => Some(made),
            Err(panic) => Some(Extended::Decided(Decided::Panicked(panic_text(panic.as_ref())))),
        };
        made.unwrap_or_else(|| {
            if elsewhere.is_none() {
                self.walk.return_to(before);
                waiting.transcript.start = None;
            }
            Extended::Unfinished
        })
    }

    /// Returns the next call that has a credit.
    pub(super) fn release_call(&mut self) -> Option<Effect> {
        let call = self.outbox.pop_call()?;
        self.extender_calls.request(call, self.snapshot()).map(Effect::Extend)
    }

    /// Handles the result of a call. Results of cancelled calls are ignored.
    pub(super) fn extended(&mut self, call: u64, answer: Result<Answer, String>) {
        let snapshot = self.cache.snapshot(&self.tables);
        self.extender_calls.answered(call, answer, snapshot);
    }

    /// Handles an update of a suspended pod. If its signature changed, the decision starts again.
    pub(super) fn suspended_updated(&mut self, now: Time, pod: &Arc<PodInfo>) {
        let Some(old) = self.extender_calls.updated(pod) else { return };
        self.nomination_shown(now, Some(&old), pod);
        if !Signature::of(&old).is_of(pod)
            && let Some(waiting) = self.extender_calls.end(&pod.uid, &mut self.outbox)
        {
            self.activate(now, waiting.queued);
        }
    }

    /// Cancels all suspended decisions, and returns their pods.
    pub(super) fn end_all_suspended(&mut self) -> Vec<QueuedPod> {
        self.extender_calls.end_all(&mut self.outbox)
    }
}

/// One decision about a pod with the extenders' answers so far.
struct Decision<'a> {
    framework: &'a Framework,
    snapshot: Snapshot<'a>,
    pod: &'a PodInfo,
    extenders: &'a [&'a Extender],
    draws: Draws,
    now: Time,
    version: u64,
}

impl Decision<'_> {
    fn go_on(
        &self,
        waiting: &mut SuspendedDecision,
        options: Options<'_>,
        probe: &mut dyn Probe,
    ) -> Extended {
        let &Self { framework, snapshot, pod, extenders, draws, .. } = self;
        let said = (extenders, &waiting.transcript);
        match framework.decide_with(pod, snapshot, options, said, probe) {
            Err(error) => Extended::Decided(Decided::Failed(error)),
            Ok(ExtendedDecision::Call(asks)) => Extended::Call(asks),
            Ok(ExtendedDecision::Stale) => Extended::Stale,
            Ok(ExtendedDecision::Feasible(feasible)) => {
                let node = feasible.choose(draws.seed, pod, draws.attempt);
                Extended::Decided(super::attempt::reserve(&feasible, snapshot, node))
            }
            Ok(ExtendedDecision::Infeasible(filtered)) => self.make_room(waiting, &filtered, probe),
        }
    }

    /// Runs PostFilter, and passes its candidates to extenders.
    fn make_room(
        &self,
        waiting: &mut SuspendedDecision,
        filtered: &Filtered,
        probe: &mut dyn Probe,
    ) -> Extended {
        let &Self { framework, snapshot, pod, extenders, draws, now, version } = self;
        let transcript = &waiting.transcript;
        let ask = |extender| Extended::Call(vec![ExtenderRequest { extender, kind: RequestKind::Preempt }]);
        if transcript.rooms().is_some()
            && let Some(next) = transcript.next_for_room(extenders)
        {
            return ask(next);
        }
        let diagnosis = filtered.diagnose(snapshot);
        let failed = InfeasibleDecision { pod, snapshot, filtered, diagnosis: &diagnosis };
        let changed = waiting.version != version;
        let said = transcript.rooms().cloned();
        let (rooms, any_room) = match &said {
            None if transcript.next_for_room(extenders).is_none() => (ExtenderCandidates::Free, false),
            None => (ExtenderCandidates::All, false),
            Some(Ok(rooms)) => {
                (ExtenderCandidates::Answered { rooms: Ok(rooms), changed }, !rooms.is_empty())
            }
            Some(Err(why)) => (ExtenderCandidates::Answered { rooms: Err(why), changed }, false),
        };
        let outcome = framework.post_filter_with(failed, draws, now, rooms, probe);
        if any_room && changed && !matches!(outcome.nomination, Nomination::To(_)) {
            return Extended::Stale;
        }
        if let (ExtenderCandidates::All, Nomination::To(candidates)) = (rooms, &outcome.nomination) {
            let room = |candidate: &crate::framework::post_filter::Candidate<'_>| ExtenderCandidate {
                node: snapshot.node_info(candidate.node).name,
                victims: candidate.victims.iter().map(|victim| Arc::clone(&victim.uid)).collect(),
                violations: candidate.violations,
            };
            let found = candidates.iter().map(room).collect();
            // The victims are found again when the answers have arrived.
            waiting.version = version;
            waiting.transcript.note_rooms(found);
            if let Some(next) = waiting.transcript.next_for_room(extenders) {
                return ask(next);
            }
        }
        let instead = framework.find_room_instead(failed, (draws, now), rooms, &outcome);
        let outcome = instead.unwrap_or(outcome);
        Extended::Decided(Decided::Nowhere(super::attempt::unschedulable(failed, &outcome, draws)))
    }
}
