//! The way of a pod from its decision to the watch's word: last look, release, answer, settlement.
//!
//! The watch turns *assumed* into *added*, not the answer. A binding of unknown outcome stays assumed, and is never sent
//! to another node, until a watch or a question settles it: forgetting it early would free room that may be taken.

mod book;
mod delegate;
mod pending;

pub(super) use book::{Binding, Bindings};

use super::Scheduler;
use super::budget::Size;
use super::failure::Failure;
use super::outbox::Outgoing;
use super::wake::pod_actions;
use crate::cache::{PodState, Snapshot};
use crate::effect::{Effect, Severity};
use crate::event::{BindOutcome, Found, ObjectKey};
use crate::framework::{ClusterEvent, PodAction};
use crate::intern::Symbol;
use crate::mutation::{self, Mutation};
use crate::pod::{PodInfo, Uid};
use crate::queue::Search;
use crate::report::Outcome;
use crate::time::Time;
use book::{Doubt, Phase};
use std::sync::Arc;
use std::time::Duration;

/// How long a binding that the API server does not show is sent again, and how long after the last copy without an answer it is given up:
/// longer than an API server works on a request (`--request-timeout`, 60 s), so that a lost one cannot be carried out afterwards.
pub(super) const UNKNOWN_MAX: Duration = Duration::from_secs(75);

impl Scheduler {
    /// The next effect there is credit for.
    pub(super) fn release(&mut self, now: Time) -> Option<Effect> {
        while let Some(outgoing) = self.outbox.pop_bind() {
            let effect = match &outgoing {
                Outgoing::Bind(uid) => self.release_bind(now, uid),
                Outgoing::Settle(uid) => self.release_question(now, uid),
            };
            if effect.is_some() {
                self.outbox.spend_bind();
                return effect;
            }
        }
        if let Some(call) = self.release_call() {
            return Some(call);
        }
        while let Some(uid) = self.outbox.pop_eviction() {
            if let Some(eviction) = self.release_eviction(now, &uid) {
                self.outbox.spend_eviction();
                return Some(Effect::Evict(eviction));
            }
        }
        self.release_volume(now).or_else(|| self.outbox.pop_other())
    }

    /// Gives up the bindings that never left; whoever takes over decides about their pods.
    pub(super) fn halt(&mut self, now: Time) {
        self.halted = true;
        self.drop_preemptions();
        self.give_up_pre_binds(now);
        self.give_up_asking();
        for uid in self.unsent_bindings() {
            self.bindings.remove(&uid);
            if matches!(self.cache.placed(&uid), Some((_, _, PodState::Assumed))) {
                self.cache.remove_pod(&uid);
            }
        }
    }

    /// The pods whose bindings never left, in an order that is the same in every run.
    pub(super) fn unsent_bindings(&self) -> Vec<Uid> {
        let never_left = |binding: &Binding| binding.phase() == Phase::Waiting && binding.doubt.is_none();
        let mut unsent: Vec<_> =
            self.bindings.iter().filter(|(_, it)| never_left(it)).map(|(uid, _)| uid.clone()).collect();
        unsent.sort_unstable();
        unsent
    }

    /// Takes back a decision that never left: the pod is active again, unless it is gone or somebody bound it. Others may
    /// find room where it was, which it need not find again.
    pub(super) fn give_back(&mut self, now: Time, uid: &str) {
        let Some(binding) = self.bindings.remove(uid) else { return };
        self.free(now, uid);
        if !binding.abandoned && binding.confirmed_on.is_none() {
            self.cache.nominate(&binding.queued.pod, binding.nominated);
            self.queue.activate(now, binding.queued);
        }
    }

    fn release_bind(&mut self, now: Time, uid: &str) -> Option<Effect> {
        let binding = self.bindings.get(uid)?;
        if binding.abandoned || binding.confirmed_on.is_some() {
            self.bindings.remove(uid);
            return None;
        }
        if binding.doubt.is_none() && !self.last_look(uid) {
            self.decide_anew(now, uid);
            return None;
        }
        self.bindings.enter(uid, Phase::InFlight);
        let binding = self.bindings.known(uid);
        binding.released = now;
        let (pod, node, is_ours) = (Arc::clone(&binding.queued.pod), binding.node, binding.is_ours);
        let (by, sent) = self.sent_to(&pod, node, is_ours);
        self.bindings.known(uid).by = by;
        Some(sent)
    }

    /// Whether the node still passes all filters, judged in full if anything that a filter reads changed since the decision. The pod
    /// itself is taken away meanwhile.
    fn last_look(&mut self, uid: &str) -> bool {
        let binding = self.bindings.known(uid);
        let (pod, node, stamp) = (Arc::clone(&binding.queued.pod), binding.node, binding.stamp);
        if Some(self.cache.stamp_for(&pod)) == stamp || mutation::is_on(Mutation::NoLastLook) {
            return true;
        }
        let as_it_is = self.runs_pre_bind(&pod);
        let reserved = self.cache.forget_volumes(uid);
        self.cache.remove_pod(uid);
        let judge = |scheduler: &Self, snapshot: Snapshot<'_>| {
            snapshot.find_node(node).is_some_and(|idx| {
                scheduler.profile_of(&pod).is_some_and(|profile| {
                    matches!(profile.framework.fits_on(&pod, snapshot, idx, as_it_is), Ok(true))
                })
            })
        };
        let fits = match self.size_of(&pod) {
            Size::Usual => judge(self, self.snapshot()),
            // Without results it is evaluated again, in slices.
            Size::Large | Size::TooLarge(_) => self.fits_by_results(&pod, judge).unwrap_or(false),
        };
        self.cache.place(&pod, node, PodState::Assumed);
        self.cache.assume_volumes(&pod.uid, reserved);
        fits
    }

    /// Has every binding that has not left looked at once more when it does: nodes were counted anew.
    pub(super) fn doubt_all_stamps(&mut self) {
        for binding in self.bindings.values_mut() {
            binding.stamp = None;
        }
    }

    /// The node changed under a decision that has not left yet: the pod goes back to the head of the line.
    fn decide_anew(&mut self, now: Time, uid: &str) {
        self.last_looks_failed += 1;
        self.give_back(now, uid);
    }

    /// Takes back a binding that has not left yet, or waits for volumes, because its pod's room goes to a more important
    /// one; whether it could be. No binding was asked for, so none has to be undone.
    pub(super) fn take_back(&mut self, now: Time, uid: &Uid) -> bool {
        const WHY: &str = "preempted by DefaultPreemption";
        if !matches!(self.cache.placed(uid), Some((_, _, PodState::Assumed))) {
            return false;
        }
        if self.is_in_pre_bind(uid) {
            self.pre_bind_failed(now, uid, WHY);
            return true;
        }
        let never_left = |binding: &Binding| {
            binding.phase() == Phase::Waiting && binding.doubt.is_none() && !binding.abandoned
        };
        if !self.bindings.get(uid).is_some_and(never_left) {
            return false;
        }
        let binding = self.bindings.remove(uid).expect("it was there a moment ago");
        self.outbox.drop_bind(uid);
        self.free(now, uid);
        let text = format!("running Bind plugin \"DefaultBinder\": {WHY}");
        self.fail(now, binding.queued, binding.began, Failure::Binding(text));
        true
    }

    fn release_question(&mut self, now: Time, uid: &str) -> Option<Effect> {
        let binding = self.bindings.get_mut(uid)?;
        if binding.phase() != Phase::Asked {
            return None;
        }
        if let Some(doubt) = &mut binding.doubt {
            doubt.asked = now;
        }
        let pod = Arc::clone(&binding.queued.pod);
        Some(Effect::Settle { pod: self.pod_ref(&pod) })
    }

    /// Asks about the bindings of unknown outcome whose time has come; whether there were any.
    pub(super) fn ask_again(&mut self, now: Time) -> bool {
        let due = self.bindings.due(now);
        let any = !due.is_empty();
        for uid in due {
            self.bindings.enter(&uid, Phase::Asked);
            self.outbox.push_bind(Outgoing::Settle(uid));
        }
        any
    }

    /// The mistake of forgetting assumed pods by the clock.
    pub(super) fn expire_assumed(&mut self, now: Time) {
        if !mutation::is_on(Mutation::AssumedExpire) {
            return;
        }
        let old = |binding: &Binding| {
            binding.phase() != Phase::Waiting && now.since(binding.began) > Duration::from_secs(30)
        };
        let mut expired: Vec<_> =
            self.bindings.iter().filter(|(_, binding)| old(binding)).map(|(uid, _)| uid.clone()).collect();
        expired.sort_unstable();
        for uid in expired {
            if let Some(binding) = self.bindings.remove(&uid) {
                self.refused(now, binding, "expired");
            }
        }
    }

    /// When the next binding of unknown outcome is to be asked about.
    pub(super) fn next_question(&self) -> Option<Time> {
        self.bindings.next_question()
    }

    /// The watch shows the pod on `node`.
    pub(super) fn binding_confirmed(&mut self, pod: &PodInfo, node: Symbol) {
        self.pre_bind_confirmed(&pod.uid, node);
        let Some(binding) = self.bindings.get_mut(&pod.uid) else { return };
        binding.unlisted = false;
        binding.came_again = false;
        binding.confirmed_on = Some(node);
        match binding.phase() {
            // The answer will find out.
            Phase::InFlight => {}
            // Somebody was faster than the release.
            Phase::Waiting if binding.doubt.is_none() => {}
            Phase::Waiting | Phase::Unknown { .. } | Phase::Asked => self.settled_on(&pod.uid, node),
        }
    }

    /// The pod of a binding in doubt is on `node`.
    fn settled_on(&mut self, uid: &str, node: Symbol) {
        let binding = self.bindings.remove(uid).expect("only a known binding is settled");
        if node == binding.node {
            self.bound(&binding);
        }
    }

    /// The pod changed while its binding is on its way; it has no node yet as far as the watch knows.
    pub(super) fn binding_updated(&mut self, now: Time, pod: &Arc<PodInfo>) {
        self.assumed_updated(now, pod);
        if self.pre_bind_updated(now, pod) {
            return;
        }
        let Some(binding) = self.bindings.get_mut(&pod.uid) else { return };
        binding.unlisted = false;
        let deleted_now = pod.deleting && !binding.queued.pod.deleting;
        binding.queued.pod = Arc::clone(pod);
        binding.came_again = binding.abandoned && !pod.deleting;
        if deleted_now {
            // The API server binds no pod that is being deleted, and had not bound it before: its room is free.
            binding.abandoned = true;
            self.free(now, &pod.uid);
        }
    }

    /// A pod that is assumed counts as it is now, and may matter less to others than before.
    fn assumed_updated(&mut self, now: Time, pod: &Arc<PodInfo>) {
        let Some((old, node, PodState::Assumed)) = self.cache.placed(&pod.uid) else { return };
        if old.is_same_to_others(pod) {
            return;
        }
        let old = Arc::clone(old);
        self.cache.place(pod, node, PodState::Assumed);
        for action in pod_actions(&old, pod) {
            self.wake(now, &ClusterEvent::AssignedPod { action, old: Some(&old), new: Some(pod) });
        }
    }

    /// The pod is gone.
    pub(super) fn binding_abandoned(&mut self, uid: &Uid) {
        self.end_pre_bind(uid);
        let Some(binding) = self.bindings.get_mut(uid) else { return };
        match binding.phase() {
            // Answers name a pod, not a binding: no other is sent before this one is answered.
            Phase::InFlight => {
                binding.abandoned = true;
                binding.confirmed_on = None;
                binding.came_again = false;
            }
            Phase::Waiting => {
                self.bindings.remove(uid);
                self.outbox.drop_bind(uid);
            }
            Phase::Unknown { .. } | Phase::Asked => {
                self.bindings.remove(uid);
            }
        }
    }

    /// Whether a list that does not name this object is not believed before the API server was asked: a pod with an open
    /// binding. Should the list be of an older state than ours, the pod would come again, be decided about anew, and
    /// the open binding could still take it to the first node.
    pub(super) fn is_to_be_asked_about(&mut self, now: Time, key: &ObjectKey) -> bool {
        let ObjectKey::Pod(uid) = key else { return false };
        let Some(binding) = self.bindings.get_mut(uid) else { return false };
        let has_left = binding.phase() != Phase::Waiting || binding.doubt.is_some();
        if !has_left || binding.abandoned || binding.confirmed_on.is_some() {
            return false;
        }
        binding.unlisted = true;
        let last_lost = binding.released;
        let message = || "a list does not name the pod".to_owned();
        binding.doubt.get_or_insert_with(|| Doubt::new(now, last_lost, message()));
        if binding.phase() == Phase::Waiting {
            self.bindings.enter(uid, Phase::Unknown { ask_at: now });
            self.outbox.drop_bind(uid);
        }
        true
    }

    /// Takes an assumed pod off its node and lets others know of the room.
    pub(super) fn free(&mut self, now: Time, uid: &str) {
        if !matches!(self.cache.placed(uid), Some((_, _, PodState::Assumed))) {
            return;
        }
        self.give_back_volumes(now, uid);
        if mutation::is_on(Mutation::FailedBindFreesNothing) {
            return;
        }
        if let Some((pod, _, _)) = self.cache.remove_pod(uid) {
            self.victim_off(now, uid);
            if mutation::is_on(Mutation::FailedBindWakesNobody) {
                return;
            }
            let event = ClusterEvent::AssignedPod { action: PodAction::Delete, old: Some(&pod), new: None };
            self.wake(now, &event);
        }
    }

    pub(super) fn bind_finished(&mut self, now: Time, uid: &str, outcome: BindOutcome) {
        let Some(binding) = self.bindings.get_mut(uid) else { return };
        if binding.came_again {
            let pod = Arc::clone(&binding.queued.pod);
            self.bindings.remove(uid);
            return self.pending_pod(now, &pod);
        }
        if self.delegate_answered(now, uid, &outcome) {
            return;
        }
        let binding = self.bindings.known(uid);
        match outcome {
            BindOutcome::Accepted if binding.unlisted && !binding.abandoned => {
                self.bindings.enter(uid, Phase::Unknown { ask_at: now });
            }
            BindOutcome::Accepted => {
                let binding = self.bindings.remove(uid).expect("it was there a moment ago");
                self.bound(&binding);
            }
            BindOutcome::Refused { message } => self.bind_refused(now, uid, message),
            BindOutcome::Moot(found) => self.found(now, uid, found),
            BindOutcome::Unknown { message } if mutation::is_on(Mutation::UnknownIsRefused) => {
                self.bind_refused(now, uid, message);
            }
            BindOutcome::Unknown { message } => {
                self.unknown_binds += 1;
                if let Some(node) = binding.confirmed_on {
                    self.settled_on(uid, node);
                } else if binding.abandoned && self.cache.placed(uid).is_none() {
                    self.bindings.remove(uid);
                } else if let Some(doubt) = &mut binding.doubt {
                    doubt.last_lost = binding.released;
                    let phase = doubt.next_question(now);
                    self.bindings.enter(uid, phase);
                } else {
                    let last_lost = binding.released;
                    binding.doubt = Some(Doubt::new(now, last_lost, message));
                    self.bindings.enter(uid, Phase::Unknown { ask_at: now });
                }
            }
        }
    }

    fn bind_refused(&mut self, now: Time, uid: &str, message: String) {
        let binding = self.bindings.get_mut(uid).expect("only a known binding is refused");
        match (&mut binding.doubt, binding.confirmed_on) {
            // An earlier copy was carried out: that is what this one was refused for.
            (Some(_), Some(node)) => self.settled_on(uid, node),
            // An earlier copy may have been carried out, or may be yet; this one says nothing about it.
            (Some(doubt), None) if !binding.abandoned => {
                doubt.message = message;
                let phase = doubt.next_question(now);
                self.bindings.enter(uid, phase);
            }
            _ => {
                let binding = self.bindings.remove(uid).expect("it was there a moment ago");
                self.refused(now, binding, &message);
            }
        }
    }

    pub(super) fn settled(&mut self, now: Time, uid: &str, found: Found) {
        if self.bindings.get(uid).is_some_and(|binding| binding.phase() == Phase::Asked) {
            self.found(now, uid, found);
        }
    }

    /// The API server says where the pod of a binding is.
    fn found(&mut self, now: Time, uid: &str, found: Found) {
        let Some(binding) = self.bindings.get_mut(uid) else { return };
        match (found, &mut binding.doubt) {
            (Found::NoAnswer, Some(doubt)) => {
                let phase = doubt.next_question(now);
                self.bindings.enter(uid, phase);
            }
            // It is there after all: the watch will name it.
            (Found::Unbound, Some(doubt)) if binding.unlisted => {
                let phase = doubt.next_question(now);
                self.bindings.enter(uid, phase);
            }
            (Found::Unbound, Some(_)) => self.still_unbound(now, uid),
            // Nobody asked, and so nothing is in doubt: it was not carried out.
            (Found::NoAnswer | Found::Unbound, None) => {
                self.bind_refused(now, uid, "the pod is not bound".to_owned());
            }
            (Found::Gone, _) => {
                let unlisted = self.bindings.remove(uid).is_some_and(|binding| binding.unlisted);
                self.audit.said_gone(now, uid);
                self.free(now, uid);
                if unlisted {
                    self.gone(now, &ObjectKey::Pod(uid.into()));
                }
            }
            (Found::Bound(name), _) => {
                let binding = self.bindings.remove(uid).expect("it was there a moment ago");
                let node = self.tables.symbol(&name);
                if node == binding.node && mutation::is_on(Mutation::BoundIsFailed) {
                    self.refused(now, binding, "found bound");
                } else if node == binding.node {
                    self.bound(&binding);
                } else if matches!(self.cache.placed(uid), Some((_, _, PodState::Assumed))) {
                    // Until the watch says the same: its room is there, not where we wanted it. What the watch said already
                    // stands, be it that the pod is there, going or gone.
                    self.free(now, uid);
                    self.cache.place(&binding.queued.pod, node, PodState::Assumed);
                }
            }
        }
    }

    /// The lost binding was not carried out, so far. For a while the same one is sent again: should the lost one arrive
    /// after all, both say the same. It is given up when no copy of it could be carried out any more when it was asked about:
    /// what was asked before says nothing of what came between, however late the answer is read.
    fn still_unbound(&mut self, now: Time, uid: &str) {
        let binding = self.bindings.get_mut(uid).expect("only a known binding is settled");
        let doubt = binding.doubt.as_mut().expect("only bindings in doubt are asked about");
        let patience = if mutation::is_on(Mutation::NoPatience) { Duration::ZERO } else { UNKNOWN_MAX };
        if binding.abandoned || doubt.asked.since(doubt.last_lost) > patience {
            let message = doubt.message.clone();
            let binding = self.bindings.remove(uid).expect("it was there a moment ago");
            self.refused(now, binding, &message);
        } else if now.since(doubt.since) > UNKNOWN_MAX {
            let phase = doubt.next_question(now);
            self.bindings.enter(uid, phase);
        } else {
            let pod = Arc::clone(&binding.queued.pod);
            self.bindings.enter(uid, Phase::Waiting);
            let uid = Arc::clone(&pod.uid);
            self.outbox.push_bind(Outgoing::Bind(uid));
        }
    }

    fn bound(&mut self, binding: &Binding) {
        let pod = Arc::clone(&binding.queued.pod);
        let node = self.tables.text(binding.node).to_owned();
        let note = format!("Successfully assigned {} to {node}", self.snapshot().pod_key(&pod));
        self.record(&pod, Severity::Normal, "Scheduled", "Binding", note);
        self.sent_conditions.remove(&pod.uid);
        self.outbox.cancel_patch(&pod.uid);
        let Search { evaluated, feasible, .. } = binding.queued.found.expect("who is bound was found a node");
        self.report(&binding.queued, binding.began, Outcome::Bound { node, evaluated, feasible });
    }

    fn refused(&mut self, now: Time, binding: Binding, message: &str) {
        let uid = Arc::clone(&binding.queued.pod.uid);
        if matches!(self.cache.placed(&uid), Some((_, _, PodState::Added))) {
            // Bound by someone else meanwhile; to say it is not scheduled would be untrue.
            return;
        }
        self.free(now, &uid);
        if binding.abandoned {
            return;
        }
        // Upstream gives an extender's words as they are.
        let text = match binding.by {
            Some(_) => message.to_owned(),
            None => format!("running Bind plugin \"DefaultBinder\": {message}"),
        };
        self.fail(now, binding.queued, binding.began, Failure::Binding(text));
    }
}
