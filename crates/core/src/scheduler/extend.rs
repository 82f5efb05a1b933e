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
use super::{Scheduler, profile_named};
use crate::cache::Snapshot;
use crate::cycle::{
    ExtendedDecision, ExtenderAnswers, ExtenderRequest, Filtered, Framework, InfeasibleDecision, Nomination,
    Options, Probe, RequestKind,
};
use crate::effect::{Effect, ExtenderCall, PodRef, Question, Victims};
use crate::extender::{self, Answer, Extender, ExtenderCandidate};
use crate::framework::CycleError;
use crate::framework::post_filter::{Draws, ExtenderCandidates};
use crate::pod::{PodInfo, Uid};
use crate::queue::QueuedPod;
use crate::signature::Signature;
use crate::time::Time;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// How often a decision restarts, because its nodes became stale, before the pod backs off.
const RESTARTS_MAX: u32 = 3;

/// The result of a decision with extenders, as far as their answers allow.
enum Asking {
    /// These calls are needed first.
    Call(Vec<ExtenderRequest>),
    /// It must restart.
    Stale,
    /// It is complete.
    Made(Decided),
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

    /// Returns the extender that binds the pod, if any.
    pub(super) fn binder(&self, pod: &PodInfo) -> Option<&Extender> {
        self.extender_calls.extenders.iter().find(|extender| extender.binds && extender.is_interested(pod))
    }

    /// Starts a decision with extenders.
    pub(super) fn begin_asking(&mut self, now: Time, queued: QueuedPod, probe: &mut dyn Probe) {
        let waiting = SuspendedDecision::new(queued, now, self.events);
        self.go_on_asking(now, waiting, probe);
    }

    /// Resumes a decision whose calls are all answered, and returns whether there was one.
    pub(super) fn resume(&mut self, now: Time, probe: &mut dyn Probe) -> bool {
        let Some(waiting) = self.extender_calls.take_ready() else { return false };
        self.cache.refresh();
        if self.snapshot().nodes().is_empty() {
            let text = super::attempt::NO_NODES.to_owned();
            self.fail(now, waiting.queued, waiting.began, Failure::NoNodes(text));
            return true;
        }
        self.go_on_asking(now, waiting, probe);
        true
    }

    fn go_on_asking(&mut self, now: Time, mut waiting: SuspendedDecision, probe: &mut dyn Probe) {
        loop {
            match self.decide_asking(now, &mut waiting, probe) {
                Asking::Call(asks) => {
                    for call in self.extender_calls.wait(waiting, asks) {
                        self.outbox.push_call(call);
                    }
                    return;
                }
                Asking::Stale if waiting.restarts < RESTARTS_MAX => waiting.begin_again(self.events),
                Asking::Stale => {
                    let text = format!(
                        "the cluster changed while extenders were asked, {} times in a row",
                        waiting.restarts + 1
                    );
                    return self.fail(now, waiting.queued, waiting.began, Failure::Error(text));
                }
                Asking::Made(decided) => return self.answered(now, waiting, decided),
            }
        }
    }

    /// Completes a decision. If extenders rejected nodes, and a cluster event arrived since they were called, the pod
    /// is requeued. Upstream does the same for events while a pod is in flight.
    fn answered(&mut self, now: Time, waiting: SuspendedDecision, decided: Decided) {
        let changed = waiting.changed || waiting.events != self.events;
        let by_extenders =
            matches!(&decided, Decided::Nowhere(found) if found.rejectors.contains(extender::NAME));
        let uid = Arc::clone(&waiting.queued.pod.uid);
        self.conclude(now, waiting.queued, waiting.began, decided);
        if changed && by_extenders {
            self.queue.requeue_now(now, &uid);
        }
    }

    fn decide_asking(&mut self, now: Time, waiting: &mut SuspendedDecision, probe: &mut dyn Probe) -> Asking {
        let snapshot = self.cache.snapshot(&self.tables);
        let pod = self.as_nominated(&waiting.queued.pod);
        let Some(profile) = profile_named(&self.profiles, pod.scheduler_name) else {
            let text = "no profile of the pod's schedulerName".to_owned();
            return Asking::Made(Decided::Failed(CycleError(text)));
        };
        let interested: Vec<&Extender> =
            self.extender_calls.extenders.iter().filter(|extender| extender.is_interested(&pod)).collect();
        // Each resumption searches the same sample of nodes. Other decisions have advanced the start in the meantime.
        let elsewhere = waiting.transcript.start.map(|start| (start, self.walk.start()));
        match elsewhere {
            Some((start, _)) => self.walk.return_to(start),
            None => waiting.transcript.start = Some(self.walk.start()),
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
        made.unwrap_or_else(|panic| Asking::Made(Decided::Panicked(panic_text(panic.as_ref()))))
    }

    /// Returns the next call that has a credit.
    pub(super) fn release_call(&mut self) -> Option<Effect> {
        let call = self.outbox.pop_call()?;
        let (waiting, ask) = self.extender_calls.asked(call)?;
        let text = |nodes: &[_]| nodes.iter().map(|&node| self.tables.text(node).to_owned()).collect();
        let question = match &ask.kind {
            RequestKind::Filter { nodes, .. } => Question::Filter { nodes: text(nodes) },
            RequestKind::Prioritize { nodes } => Question::Prioritize { nodes: text(nodes) },
            RequestKind::Preempt => Question::Preempt { rooms: self.victims(&waiting.transcript) },
        };
        let (extender, pod) = (ask.extender, self.pod_ref(&waiting.queued.pod));
        Some(Effect::Extend(ExtenderCall { call, extender, pod, question }))
    }

    /// Returns the candidates of preemption with their victims as references. Deleted victims are left out.
    fn victims(&self, transcript: &ExtenderAnswers) -> Vec<Victims> {
        let named = |room: &ExtenderCandidate| {
            let pods = room.victims.iter().filter_map(|uid| self.cache.placed(uid));
            let pods: Vec<PodRef> = pods.map(|(pod, ..)| self.pod_ref(pod)).collect();
            let node = self.tables.text(room.node).to_owned();
            (!pods.is_empty()).then_some(Victims { node, pods, violations: room.violations })
        };
        transcript
            .rooms()
            .and_then(|rooms| rooms.as_ref().ok())
            .into_iter()
            .flatten()
            .filter_map(named)
            .collect()
    }

    /// Handles the result of a call. Results of cancelled calls are ignored.
    pub(super) fn extended(&mut self, call: u64, answer: Result<Answer, String>) {
        let snapshot = self.cache.snapshot(&self.tables);
        self.extender_calls.hear(call, answer, snapshot);
    }

    /// Handles an update of a waiting pod. If its signature changed, the decision starts again.
    pub(super) fn asking_updated(&mut self, now: Time, pod: &Arc<PodInfo>) {
        let Some(waiting) = self.extender_calls.get_mut(&pod.uid) else { return };
        let old = std::mem::replace(&mut waiting.queued.pod, Arc::clone(pod));
        if old == *pod {
            return;
        }
        waiting.changed = true;
        self.nomination_shown(now, Some(&old), pod);
        if !Signature::of(&old).is_of(pod)
            && let Some(waiting) = self.end_asking(&pod.uid)
        {
            self.queue.activate(now, waiting.queued);
        }
    }

    /// Cancels the decision about a pod, and its calls.
    pub(super) fn end_asking(&mut self, uid: &str) -> Option<SuspendedDecision> {
        let ended = self.extender_calls.end(uid)?;
        let calls = &self.extender_calls;
        self.outbox.retain_calls(|call| calls.is_open(call));
        Some(ended)
    }

    /// Cancels all decisions with extenders, and returns their pods.
    pub(super) fn give_up_asking(&mut self) -> Vec<QueuedPod> {
        let uids: Vec<Uid> = self.extender_calls.uids().cloned().collect();
        uids.iter().filter_map(|uid| self.end_asking(uid)).map(|waiting| waiting.queued).collect()
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
    fn go_on(&self, waiting: &mut SuspendedDecision, options: Options<'_>, probe: &mut dyn Probe) -> Asking {
        let &Self { framework, snapshot, pod, extenders, draws, .. } = self;
        let said = (extenders, &waiting.transcript);
        match framework.decide_with(pod, snapshot, options, said, probe) {
            Err(error) => Asking::Made(Decided::Failed(error)),
            Ok(ExtendedDecision::Call(asks)) => Asking::Call(asks),
            Ok(ExtendedDecision::Stale) => Asking::Stale,
            Ok(ExtendedDecision::Feasible(feasible)) => {
                let node = feasible.choose(draws.seed, pod, draws.attempt);
                Asking::Made(super::attempt::reserve(&feasible, snapshot, node))
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
    ) -> Asking {
        let &Self { framework, snapshot, pod, extenders, draws, now, version } = self;
        let transcript = &waiting.transcript;
        let ask = |extender| Asking::Call(vec![ExtenderRequest { extender, kind: RequestKind::Preempt }]);
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
            Some(Ok(rooms)) => (ExtenderCandidates::Said { rooms: Ok(rooms), changed }, !rooms.is_empty()),
            Some(Err(why)) => (ExtenderCandidates::Said { rooms: Err(why), changed }, false),
        };
        let outcome = framework.post_filter_with(failed, draws, now, rooms, probe);
        if any_room && changed && !matches!(outcome.nomination, Nomination::To(_)) {
            return Asking::Stale;
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
        Asking::Made(Decided::Nowhere(super::attempt::unschedulable(failed, &outcome, draws)))
    }
}
