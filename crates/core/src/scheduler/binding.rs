//! Bindings from decision to confirmation: recheck, release, answer, and queries of unknown outcomes.
//!
//! The watch, not the answer, turns *assumed* into *added*. A pod whose binding has an unknown outcome stays assumed,
//! and is not sent to another node until the watch or a query gives the outcome. Otherwise its resources could be
//! given away while it is bound there.

mod delegate;
mod ledger;
mod pending;

pub(super) use ledger::{Binding, Bindings};

use super::Scheduler;
use super::budget::Size;
use super::failure::Failure;
use super::outbox::Outgoing;
use super::requeue::pod_actions;
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
use ledger::{Phase, UnknownOutcome};
use std::sync::Arc;
use std::time::Duration;

/// How long a binding that the API server does not show is resent, and how long after the last unanswered copy it is
/// given up.
///
/// This is longer than an API server works on a request (`--request-timeout`, 60 s), so a lost copy cannot be carried
/// out later.
pub(super) const UNKNOWN_MAX: Duration = Duration::from_secs(75);

impl Scheduler {
    /// Returns the next effect that has a credit.
    pub(super) fn release(&mut self, now: Time) -> Option<Effect> {
        while let Some(outgoing) = self.outbox.pop_bind() {
            let effect = match &outgoing {
                Outgoing::Bind(uid) => self.release_bind(now, uid),
                Outgoing::Query(uid) => self.release_query(now, uid),
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

    /// Stops for shutdown: drops the bindings that were not sent. The next leader decides about their pods.
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

    /// Returns the pods whose bindings were not sent, in a deterministic order.
    pub(super) fn unsent_bindings(&self) -> Vec<Uid> {
        let never_left = |binding: &Binding| binding.phase() == Phase::Waiting && binding.unknown.is_none();
        let mut unsent: Vec<_> =
            self.bindings.iter().filter(|(_, it)| never_left(it)).map(|(uid, _)| uid.clone()).collect();
        unsent.sort_unstable();
        unsent
    }

    /// Reverts a decision whose binding was not sent. The pod becomes active again, unless it was deleted or bound by
    /// another client. Other pods may use its resources in the meantime.
    pub(super) fn revert_unsent(&mut self, now: Time, uid: &str) {
        let Some(binding) = self.bindings.remove(uid) else { return };
        self.free(now, uid);
        if !binding.abandoned && binding.confirmed_on.is_none() {
            self.cache.nominate(&binding.queued.pod, binding.nominated);
            self.queue.activate(now, binding.queued);
        }
    }

    /// Returns the request for the binding of a pod; `None` if it is not needed, or if the recheck reverts the
    /// decision.
    fn release_bind(&mut self, now: Time, uid: &str) -> Option<Effect> {
        let binding = self.bindings.get(uid)?;
        if binding.abandoned || binding.confirmed_on.is_some() {
            self.bindings.remove(uid);
            return None;
        }
        if binding.unknown.is_none() && !self.recheck(uid) {
            self.recheck_failed(now, uid);
            return None;
        }
        self.bindings.enter(uid, Phase::InFlight);
        let binding = self.bindings.known(uid);
        binding.released = now;
        let (pod, node, is_ours) = (Arc::clone(&binding.queued.pod), binding.node, binding.is_ours);
        let (by, sent) = self.binding_effect(&pod, node, is_ours);
        self.bindings.known(uid).by = by;
        Some(sent)
    }

    /// Rechecks the chosen node: whether it still passes all filters, if relevant objects changed since the decision.
    /// The pod itself does not count in this evaluation.
    fn recheck(&mut self, uid: &str) -> bool {
        let binding = self.bindings.known(uid);
        let (pod, node, fingerprint) = (Arc::clone(&binding.queued.pod), binding.node, binding.fingerprint);
        if Some(self.cache.fingerprint_for(&pod)) == fingerprint || mutation::is_on(Mutation::RecheckSkipped)
        {
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
            // Without results from the slices, the pod is evaluated again in slices.
            Size::Large | Size::TooLarge(_) => self.fits_by_results(&pod, judge).unwrap_or(false),
        };
        self.cache.place(&pod, node, PodState::Assumed);
        self.cache.assume_volumes(&pod.uid, reserved);
        fits
    }

    /// Makes every binding that was not sent subject to the recheck, because nodes were rebuilt.
    pub(super) fn recheck_all_unsent(&mut self) {
        for binding in self.bindings.values_mut() {
            binding.fingerprint = None;
        }
    }

    /// Reverts a decision whose recheck failed. The pod becomes active at its old rank.
    fn recheck_failed(&mut self, now: Time, uid: &str) {
        self.rechecks_failed += 1;
        self.revert_unsent(now, uid);
    }

    /// Cancels a binding that was not sent, or PreBind, because the pod is a victim of preemption. Returns false if
    /// it is too late. No Binding was requested, so nothing has to be undone in the API server.
    pub(super) fn cancel_unsent(&mut self, now: Time, uid: &Uid) -> bool {
        const WHY: &str = "preempted by DefaultPreemption";
        if !matches!(self.cache.placed(uid), Some((_, _, PodState::Assumed))) {
            return false;
        }
        if self.is_in_pre_bind(uid) {
            self.pre_bind_failed(now, uid, WHY);
            return true;
        }
        let never_left = |binding: &Binding| {
            binding.phase() == Phase::Waiting && binding.unknown.is_none() && !binding.abandoned
        };
        if !self.bindings.get(uid).is_some_and(never_left) {
            return false;
        }
        let binding = self.bindings.remove(uid).expect("get_mut above returned the binding");
        self.outbox.drop_bind(uid);
        self.free(now, uid);
        let text = format!("running Bind plugin \"DefaultBinder\": {WHY}");
        self.fail(now, binding.queued, binding.began, Failure::Binding(text));
        true
    }

    /// Returns the query about a binding of unknown outcome; `None` if the outcome is known by now.
    fn release_query(&mut self, now: Time, uid: &str) -> Option<Effect> {
        let binding = self.bindings.get_mut(uid)?;
        if binding.phase() != Phase::Queried {
            return None;
        }
        if let Some(unknown) = &mut binding.unknown {
            unknown.queried_at = now;
        }
        let pod = Arc::clone(&binding.queued.pod);
        Some(Effect::QueryBinding { pod: self.pod_ref(&pod) })
    }

    /// Queries the bindings of unknown outcome that are due, and returns whether there were any.
    pub(super) fn query_unknown_outcomes(&mut self, now: Time) -> bool {
        let due = self.bindings.due(now);
        let any = !due.is_empty();
        for uid in due {
            self.bindings.enter(&uid, Phase::Queried);
            self.outbox.push_bind(Outgoing::Query(uid));
        }
        any
    }

    /// Deliberate fault for mutation tests: assumed pods expire after a fixed time.
    pub(super) fn expire_assumed(&mut self, now: Time) {
        if !mutation::is_on(Mutation::AssumedPodsExpire) {
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

    /// Returns when the next binding of unknown outcome is queried.
    pub(super) fn next_query(&self) -> Option<Time> {
        self.bindings.next_query()
    }

    /// Handles a pod that the watch shows on `node`.
    pub(super) fn binding_confirmed(&mut self, pod: &PodInfo, node: Symbol) {
        self.pre_bind_confirmed(&pod.uid, node);
        let Some(binding) = self.bindings.get_mut(&pod.uid) else { return };
        binding.unlisted = false;
        binding.came_again = false;
        binding.confirmed_on = Some(node);
        match binding.phase() {
            // The answer completes the binding.
            Phase::InFlight => {}
            // Another client bound the pod before the release.
            Phase::Waiting if binding.unknown.is_none() => {}
            Phase::Waiting | Phase::Unknown { .. } | Phase::Queried => self.bound_on(&pod.uid, node),
        }
    }

    /// Completes a binding of unknown outcome whose pod is on `node`.
    fn bound_on(&mut self, uid: &str, node: Symbol) {
        let binding = self.bindings.remove(uid).expect("the callers have looked the binding up");
        if node == binding.node {
            self.bound(&binding);
        }
    }

    /// Handles an update of a pod with an open binding that has no node in the watch yet.
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
            // The API server does not bind a terminating pod, and had not bound it before. Its resources are free.
            binding.abandoned = true;
            self.free(now, &pod.uid);
        }
    }

    /// Replaces an assumed pod by its newer state, and requeues pods that this may help.
    fn assumed_updated(&mut self, now: Time, pod: &Arc<PodInfo>) {
        let Some((old, node, PodState::Assumed)) = self.cache.placed(&pod.uid) else { return };
        if old.is_same_to_others(pod) {
            return;
        }
        let old = Arc::clone(old);
        self.cache.place(pod, node, PodState::Assumed);
        for action in pod_actions(&old, pod) {
            self.requeue_on(now, &ClusterEvent::AssignedPod { action, old: Some(&old), new: Some(pod) });
        }
    }

    /// Handles the deletion of a pod.
    pub(super) fn binding_abandoned(&mut self, uid: &Uid) {
        self.end_pre_bind(uid);
        let Some(binding) = self.bindings.get_mut(uid) else { return };
        match binding.phase() {
            // Answers identify a pod, not a binding. So no other binding of this pod is sent before this answer.
            Phase::InFlight => {
                binding.abandoned = true;
                binding.confirmed_on = None;
                binding.came_again = false;
            }
            Phase::Waiting => {
                self.bindings.remove(uid);
                self.outbox.drop_bind(uid);
            }
            Phase::Unknown { .. } | Phase::Queried => {
                self.bindings.remove(uid);
            }
        }
    }

    /// Whether a deletion implied by a list needs a query first, because the pod has an open binding.
    ///
    /// If the list is older than the cached state, the pod reappears later. It would then get a new decision, while
    /// the open binding could still put it on the first node.
    pub(super) fn needs_query(&mut self, now: Time, key: &ObjectKey) -> bool {
        let ObjectKey::Pod(uid) = key else { return false };
        let Some(binding) = self.bindings.get_mut(uid) else { return false };
        let has_left = binding.phase() != Phase::Waiting || binding.unknown.is_some();
        if !has_left || binding.abandoned || binding.confirmed_on.is_some() {
            return false;
        }
        binding.unlisted = true;
        let last_lost = binding.released;
        let message = || "a list does not name the pod".to_owned();
        binding.unknown.get_or_insert_with(|| UnknownOutcome::new(now, last_lost, message()));
        if binding.phase() == Phase::Waiting {
            self.bindings.enter(uid, Phase::Unknown { query_at: now });
            self.outbox.drop_bind(uid);
        }
        true
    }

    /// Removes an assumed pod from its node, and requeues pods that this may help.
    pub(super) fn free(&mut self, now: Time, uid: &str) {
        if !matches!(self.cache.placed(uid), Some((_, _, PodState::Assumed))) {
            return;
        }
        self.give_back_volumes(now, uid);
        if mutation::is_on(Mutation::FailedBindingKeepsResources) {
            return;
        }
        if let Some((pod, _, _)) = self.cache.remove_pod(uid) {
            self.victim_off(now, uid);
            if mutation::is_on(Mutation::FailedBindingRequeuesNoPod) {
                return;
            }
            let event = ClusterEvent::AssignedPod { action: PodAction::Delete, old: Some(&pod), new: None };
            self.requeue_on(now, &event);
        }
    }

    /// Handles the answer to a binding. An unknown outcome keeps the pod assumed and is queried.
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
                self.bindings.enter(uid, Phase::Unknown { query_at: now });
            }
            BindOutcome::Accepted => {
                let binding = self.bindings.remove(uid).expect("get_mut above returned the binding");
                self.bound(&binding);
            }
            BindOutcome::Refused { message } => self.bind_refused(now, uid, message),
            BindOutcome::NotNeeded(found) => self.state_found(now, uid, found),
            BindOutcome::Unknown { message } if mutation::is_on(Mutation::UnknownOutcomeCountsAsRejected) => {
                self.bind_refused(now, uid, message);
            }
            BindOutcome::Unknown { message } => {
                self.unknown_binds += 1;
                if let Some(node) = binding.confirmed_on {
                    self.bound_on(uid, node);
                } else if binding.abandoned && self.cache.placed(uid).is_none() {
                    self.bindings.remove(uid);
                } else if let Some(unknown) = &mut binding.unknown {
                    unknown.last_lost = binding.released;
                    let phase = unknown.next_query(now);
                    self.bindings.enter(uid, phase);
                } else {
                    let last_lost = binding.released;
                    binding.unknown = Some(UnknownOutcome::new(now, last_lost, message));
                    self.bindings.enter(uid, Phase::Unknown { query_at: now });
                }
            }
        }
    }

    /// Handles the rejection of a binding. It counts only if no earlier copy has an unknown outcome.
    fn bind_refused(&mut self, now: Time, uid: &str, message: String) {
        let binding = self.bindings.get_mut(uid).expect("the callers have looked the binding up");
        match (&mut binding.unknown, binding.confirmed_on) {
            // An earlier copy was carried out. That is the reason for this rejection.
            (Some(_), Some(node)) => self.bound_on(uid, node),
            // An earlier copy may have been carried out, or may still be. This answer does not tell.
            (Some(unknown), None) if !binding.abandoned => {
                unknown.message = message;
                let phase = unknown.next_query(now);
                self.bindings.enter(uid, phase);
            }
            _ => {
                let binding = self.bindings.remove(uid).expect("get_mut above returned the binding");
                self.refused(now, binding, &message);
            }
        }
    }

    /// Handles the answer to a query. Late answers of earlier queries are ignored.
    pub(super) fn binding_queried(&mut self, now: Time, uid: &str, found: Found) {
        if self.bindings.get(uid).is_some_and(|binding| binding.phase() == Phase::Queried) {
            self.state_found(now, uid, found);
        }
    }

    /// Handles the state of the pod in the API server.
    fn state_found(&mut self, now: Time, uid: &str, found: Found) {
        let Some(binding) = self.bindings.get_mut(uid) else { return };
        match (found, &mut binding.unknown) {
            (Found::NoAnswer, Some(unknown)) => {
                let phase = unknown.next_query(now);
                self.bindings.enter(uid, phase);
            }
            // The pod exists, contrary to the list. The watch will show it.
            (Found::Unbound, Some(unknown)) if binding.unlisted => {
                let phase = unknown.next_query(now);
                self.bindings.enter(uid, phase);
            }
            (Found::Unbound, Some(_)) => self.still_unbound(now, uid),
            // The answer itself carries this state, and no earlier copy has an unknown outcome: the binding was not
            // carried out.
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
                let binding = self.bindings.remove(uid).expect("get_mut above returned the binding");
                let node = self.tables.symbol(&name);
                if node == binding.node && mutation::is_on(Mutation::BoundCountsAsFailed) {
                    self.refused(now, binding, "found bound");
                } else if node == binding.node {
                    self.bound(&binding);
                } else if matches!(self.cache.placed(uid), Some((_, _, PodState::Assumed))) {
                    // Assume the pod on the node where it is, until the watch shows it. If the watch has already
                    // shown the pod as bound, terminating or deleted, that state stays.
                    self.free(now, uid);
                    self.cache.place(&binding.queued.pod, node, PodState::Assumed);
                }
            }
        }
    }

    /// Handles a lost binding that has not been carried out so far. For [`UNKNOWN_MAX`] it is resent unchanged;
    /// should the lost copy arrive later, both name the same node.
    ///
    /// It is given up once a query was sent so late that no copy could be carried out any more. A query's answer is
    /// valid only for the time after which it was sent, however late it arrives.
    fn still_unbound(&mut self, now: Time, uid: &str) {
        let binding = self.bindings.get_mut(uid).expect("the callers have looked the binding up");
        let unknown = binding.unknown.as_mut().expect("only bindings of unknown outcome are queried");
        let patience =
            if mutation::is_on(Mutation::LostBindingGivenUpAtOnce) { Duration::ZERO } else { UNKNOWN_MAX };
        if binding.abandoned || unknown.queried_at.since(unknown.last_lost) > patience {
            let message = unknown.message.clone();
            let binding = self.bindings.remove(uid).expect("get_mut above returned the binding");
            self.refused(now, binding, &message);
        } else if now.since(unknown.since) > UNKNOWN_MAX {
            let phase = unknown.next_query(now);
            self.bindings.enter(uid, phase);
        } else {
            let pod = Arc::clone(&binding.queued.pod);
            self.bindings.enter(uid, Phase::Waiting);
            let uid = Arc::clone(&pod.uid);
            self.outbox.push_bind(Outgoing::Bind(uid));
        }
    }

    /// Reports a binding that was carried out.
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

    /// Reverts a binding that was not carried out, and retries the pod.
    fn refused(&mut self, now: Time, binding: Binding, message: &str) {
        let uid = Arc::clone(&binding.queued.pod.uid);
        if matches!(self.cache.placed(&uid), Some((_, _, PodState::Added))) {
            // Another client has bound the pod; a PodScheduled=False condition would be wrong.
            return;
        }
        self.free(now, &uid);
        if binding.abandoned {
            return;
        }
        // Upstream reports an extender's error text unchanged.
        let text = match binding.by {
            Some(_) => message.to_owned(),
            None => format!("running Bind plugin \"DefaultBinder\": {message}"),
        };
        self.fail(now, binding.queued, binding.began, Failure::Binding(text));
    }
}
