//! Bindings from decision to confirmation: recheck, release, answer, and queries of unknown outcomes.
//!
//! [`Bindings`] keeps the state of each open binding and says what follows from an answer. The scheduler carries that
//! out. A pod whose binding has an unknown outcome stays assumed, and is not sent to another node until the watch or a
//! query gives the outcome. Otherwise its resources could be given away while it is bound there.

mod delegate;
mod ledger;
mod transitions;

pub(super) use ledger::{Binding, Bindings};

use super::Scheduler;
use super::budget::Size;
use super::failure::Failure;
use super::outbox::Outgoing;
use super::pre_bind::PreBindFailure;
use super::requeue::pod_actions;
use crate::cache::{PodState, Snapshot};
use crate::framework::{ClusterEvent, PodAction};
use crate::model::effect::{Effect, Severity};
use crate::model::event::{BindOutcome, BindingState, ObjectKey};
use crate::model::intern::Symbol;
use crate::model::pod::{PodInfo, Uid};
use crate::model::time::Time;
use crate::model::volume::Reservation;
use crate::queue::Search;
use crate::report::Outcome;
use crate::switches::mutation::{self, Mutation};
use std::sync::Arc;
use transitions::Next;

/// An assumed pod that does not count on its node, for a recheck.
struct TakenOff<W> {
    pod: Arc<PodInfo>,
    node: Symbol,
    is_written: W,
    reserved: Vec<Reservation>,
}

impl<W: Fn(&Reservation) -> bool> TakenOff<W> {
    /// Whether the pod passes all filters on its node.
    fn fits(&self, scheduler: &Scheduler, snapshot: Snapshot<'_>) -> bool {
        let Some(node) = snapshot.find_node(self.node) else { return false };
        scheduler.profile_of(&self.pod).is_some_and(|profile| {
            matches!(profile.framework.fits_on(&self.pod, snapshot, node, &self.is_written), Ok(true))
        })
    }
}

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
        self.end_all_pre_binds(now);
        self.end_all_suspended();
        self.drop_starts();
        for uid in self.bindings.unsent() {
            self.bindings.remove(&uid);
            if matches!(self.cache.placed(&uid), Some((_, _, PodState::Assumed))) {
                self.cache.remove_pod(&uid);
            }
        }
    }

    /// Reverts a decision whose binding was not sent. The pod becomes active again, unless it was deleted or bound by
    /// another client. Other pods may use its resources in the meantime.
    pub(super) fn revert_unsent(&mut self, now: Time, uid: &str) {
        let Some(binding) = self.bindings.remove(uid) else { return };
        self.free(now, uid);
        if binding.is_open() {
            self.cache.nominate(&binding.queued.pod, binding.nominated);
            self.nomination_restored(&binding.queued.pod);
            self.decide_again(now, binding.queued);
        }
    }

    /// Returns the request for the binding of a pod; `None` if it is not needed, or if the recheck reverts the
    /// decision.
    fn release_bind(&mut self, now: Time, uid: &str) -> Option<Effect> {
        self.confirm_queued_start(now, uid);
        let binding = self.bindings.get(uid)?;
        if !binding.is_open() {
            self.bindings.remove(uid);
            return None;
        }
        let was_sent = binding.was_sent();
        if !was_sent && self.waits_for_start(&binding.queued.pod) {
            let pod = Arc::clone(&binding.queued.pod);
            self.queue_bind(&pod);
            return None;
        }
        let fits = if was_sent { Some(true) } else { self.recheck(uid) };
        if fits != Some(true) {
            self.recheck_failed(now, uid, fits.is_none());
            return None;
        }
        let binding = self.bindings.get(uid)?;
        let (pod, node) = (&binding.queued.pod, self.tables.text(binding.node).to_owned());
        let binder = self.extender_calls.binder(pod).filter(|_| !binding.is_ours);
        let (by, effect) = delegate::request(binder, self.pod_ref(pod), node);
        let key = pod.group_key();
        self.bindings.sent(now, uid, by);
        if let Some(key) = key {
            self.groups.leaves_rest(key, uid);
            self.check_started(now, key);
        }
        Some(effect)
    }

    /// Reverts the decision. The pod becomes active at its old rank, or serves a backoff if its Binding was refused
    /// before.
    fn recheck_failed(&mut self, now: Time, uid: &str, is_large: bool) {
        self.bindings.rechecks_failed += 1;
        if let Some(error) = self.bindings.known(uid).error_before.clone() {
            // Otherwise a pod whose bindings fail would be decided and sent without end.
            if let Some(binding) = self.bindings.remove(uid) {
                self.not_bound(now, binding, &error);
            }
            return;
        }
        // The next attempt of a large pod keeps the claim made for it. Otherwise it would be made and deleted for ever,
        // whenever the results of slices do not outlast PreBind.
        let claim = self.cache.volumes().devices().settled(uid).filter(|_| is_large).cloned();
        self.revert_unsent(now, uid);
        if let Some(claim) = claim {
            self.cache.settle_claim(&Uid::from(uid), &claim);
        }
    }

    /// Rechecks the chosen node: whether it still passes all filters, if relevant objects changed since the decision.
    /// The pod itself does not count in this evaluation. Returns `None` for a large pod that must be evaluated in
    /// slices again.
    fn recheck(&mut self, uid: &str) -> Option<bool> {
        let binding = self.bindings.known(uid);
        let (pod, node, fingerprint) = (Arc::clone(&binding.queued.pod), binding.node, binding.fingerprint);
        if Some(self.cache.fingerprint_for(&pod)) == fingerprint || mutation::is_on(Mutation::RecheckSkipped)
        {
            return Some(true);
        }
        // As in the group's cycle, the members do not keep each other from nodes that they are nominated to.
        let nominations = self.hide_members_nominations(&pod);
        let taken = self.take_off_node(&pod, node);
        let judge = |scheduler: &Self, snapshot: Snapshot<'_>| taken.fits(scheduler, snapshot);
        let fits = match self.size_of(&pod) {
            Size::Usual => Some(judge(self, self.snapshot())),
            Size::Large | Size::TooLarge(_) => self.fits_by_results(&pod, judge),
        };
        self.put_back(taken);
        self.show_nominations(&nominations);
        fits
    }

    /// Rechecks the members of a group that start together, each beside those before it only, as in the group's cycle.
    /// Reverts the decisions of those that do not fit any more.
    pub(super) fn recheck_members(&mut self, now: Time, members: &[Uid]) {
        let is_open = |uid: &&Uid| self.bindings.get(uid).is_some_and(Binding::is_open);
        let open = || members.iter().filter(is_open).filter_map(|uid| self.bindings.get(uid));
        let is_current =
            |binding: &Binding| binding.fingerprint == Some(self.cache.fingerprint_for(&binding.queued.pod));
        if open().all(is_current) || mutation::is_on(Mutation::RecheckSkipped) {
            return;
        }
        let decided: Vec<_> = open().map(|it| (Arc::clone(&it.queued.pod), it.node)).collect();
        let nominations =
            decided.first().map(|(pod, _)| self.hide_members_nominations(pod)).unwrap_or_default();
        let taken: Vec<_> = decided.iter().map(|(pod, node)| self.take_off_node(pod, *node)).collect();
        let (mut fitting, mut failing) = (Vec::new(), Vec::new());
        for member in taken {
            let is_evaluated = !matches!(self.size_of(&member.pod), Size::TooLarge(_));
            if is_evaluated && member.fits(self, self.snapshot()) {
                fitting.push(Arc::clone(&member.pod));
                self.put_back(member);
            } else {
                failing.push(member);
            }
        }
        let lost: Vec<Uid> = failing.iter().map(|member| Arc::clone(&member.pod.uid)).collect();
        failing.into_iter().for_each(|member| self.put_back(member));
        self.show_nominations(&nominations);
        lost.iter().for_each(|uid| self.recheck_failed(now, uid, false));
        // Otherwise each would be rechecked beside all others when its Binding is sent.
        for pod in fitting {
            self.bindings.checked(&pod.uid, self.cache.fingerprint_for(&pod));
        }
    }

    /// Takes an assumed pod off its node for a recheck.
    fn take_off_node(
        &mut self,
        pod: &Arc<PodInfo>,
        node: Symbol,
    ) -> TakenOff<impl Fn(&Reservation) -> bool + use<>> {
        let is_written = self.writes_in_pre_bind(pod);
        let reserved = self.cache.forget_volumes(&pod.uid);
        self.cache.remove_pod(&pod.uid);
        TakenOff { pod: Arc::clone(pod), node, is_written, reserved }
    }

    fn put_back<W>(&mut self, taken: TakenOff<W>) {
        self.cache.place(&taken.pod, taken.node, PodState::Assumed);
        self.cache.assume_volumes(&self.tables, &taken.pod.uid, taken.reserved);
    }

    fn show_nominations(&mut self, nominations: &[(Arc<PodInfo>, Symbol)]) {
        nominations.iter().for_each(|(pod, node)| self.cache.nominate(pod, Some(*node)));
    }

    /// Cancels a binding that was not sent, or PreBind, because the pod is a victim of preemption. Returns false if
    /// it is too late. No Binding was requested, so nothing has to be undone in the API server.
    pub(super) fn cancel_unsent(&mut self, now: Time, uid: &Uid) -> bool {
        const WHY: &str = "preempted by DefaultPreemption";
        if !matches!(self.cache.placed(uid), Some((_, _, PodState::Assumed))) {
            return false;
        }
        if self.volume_bindings.contains(uid) {
            self.pre_bind_failed(now, uid, &PreBindFailure::of_volumes(WHY));
            return true;
        }
        let Some(binding) = self.bindings.cancel_unsent(uid, &mut self.outbox) else { return false };
        self.free(now, uid);
        let message = format!("running Bind plugin \"DefaultBinder\": {WHY}");
        self.fail(now, binding.queued, binding.began, Failure::Binding { message, node: None });
        true
    }

    /// Returns the query about a binding of unknown outcome; `None` if the outcome is known by now.
    fn release_query(&mut self, now: Time, uid: &str) -> Option<Effect> {
        let pod = self.bindings.query_sent(now, uid)?;
        Some(Effect::QueryBinding { pod: self.pod_ref(&pod) })
    }

    /// Deliberate fault for mutation tests: assumed pods expire after a fixed time.
    pub(super) fn expire_assumed(&mut self, now: Time) {
        if !mutation::is_on(Mutation::AssumedPodsExpire) {
            return;
        }
        for uid in self.bindings.expired(now) {
            if let Some(binding) = self.bindings.remove(&uid) {
                self.not_bound(now, binding, "expired");
            }
        }
    }

    /// Handles the answer to a binding. An unknown outcome keeps the pod assumed and is queried.
    pub(super) fn bind_finished(&mut self, now: Time, uid: &str, outcome: BindOutcome) {
        let next = self.bindings.answered(now, uid, outcome, (&self.cache, &mut self.tables));
        self.binding_goes_on(now, next);
    }

    /// Handles the answer to a query about a binding of unknown outcome.
    pub(super) fn binding_queried(&mut self, now: Time, uid: &str, found: BindingState) {
        let next = self.bindings.queried(now, uid, found, &mut self.tables);
        self.binding_goes_on(now, next);
    }

    /// Handles a pod that the watch shows on `node`.
    pub(super) fn binding_confirmed(&mut self, now: Time, uid: &Uid, node: Symbol) {
        self.pre_bind_confirmed(uid, node);
        let next = self.bindings.confirmed(uid, node);
        self.binding_goes_on(now, next);
    }

    /// Carries out what follows from an answer, a query or the watch.
    fn binding_goes_on(&mut self, now: Time, next: Next) {
        match next {
            Next::Nothing => {}
            Next::Resend(uid) => self.outbox.push_bind(Outgoing::Bind(uid)),
            Next::Bound(binding) => self.bound(now, &binding),
            Next::Failed(binding, message) if self.is_repeatable(&binding) => {
                let uid = Arc::clone(&binding.queued.pod.uid);
                self.bindings.insert(Arc::clone(&uid), binding.repeated(message));
                self.outbox.push_bind(Outgoing::Bind(uid));
            }
            Next::Failed(binding, message) => self.not_bound(now, binding, &message),
            Next::BoundElsewhere(binding, node) => {
                let pod = &binding.queued.pod;
                if matches!(self.cache.placed(&pod.uid), Some((_, _, PodState::Assumed))) {
                    // Assume the pod on the node where it is, until the watch shows it. If the watch has already
                    // shown the pod as bound, terminating or deleted, that state stays.
                    self.free_from(now, &pod.uid, true);
                    self.cache.place(pod, node, PodState::Assumed);
                }
                if let Some(key) = pod.group_key() {
                    self.note_bound(now, key, false);
                }
            }
            Next::Gone(binding) => {
                let uid = &binding.queued.pod.uid;
                self.audit.said_gone(now, uid);
                self.free(now, uid);
                if binding.unlisted {
                    self.gone(now, &ObjectKey::Pod(Arc::clone(uid)));
                }
            }
            Next::Reappeared(pod) => self.pending_pod(now, &pod),
        }
    }

    /// Whether a binding that was refused is sent once more, to the same node and at once: a group should not lose a
    /// member for an error that passes. What is left of a gang that cannot start any more is not bound.
    fn is_repeatable(&self, binding: &Binding) -> bool {
        let pod = &binding.queued.pod;
        let is_assumed = matches!(self.cache.placed(&pod.uid), Some((_, _, PodState::Assumed)));
        let is_first = binding.error_before.is_none() && binding.unknown.is_none() && binding.by.is_none();
        let may_send = self.leading && !self.halted;
        let is_usable = may_send && is_first && is_assumed && !binding.abandoned;
        is_usable && !self.tables.copies_defects() && self.is_of_start(pod)
    }

    /// Handles an update of a pod with an open binding that has no node in the watch yet.
    pub(super) fn binding_updated(&mut self, now: Time, pod: &Arc<PodInfo>) {
        self.assumed_updated(now, pod);
        if self.pre_bind_updated(now, pod) {
            return;
        }
        if self.bindings.updated(pod) {
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
        self.member_relabeled(now, &old, pod);
        for action in pod_actions(&old, pod, self.tables.rules()) {
            self.requeue_on(now, &ClusterEvent::AssignedPod { action, old: Some(&old), new: Some(pod) });
        }
    }

    /// Removes an assumed pod from its node, and requeues pods that this may help. Returns the node.
    pub(super) fn free(&mut self, now: Time, uid: &str) -> Option<Symbol> {
        self.free_from(now, uid, false)
    }

    /// As [`Self::free`]. The pod may be bound to another node.
    pub(super) fn free_from(&mut self, now: Time, uid: &str, is_bound_elsewhere: bool) -> Option<Symbol> {
        let Some((_, node, PodState::Assumed)) = self.cache.placed(uid) else { return None };
        self.give_back_volumes(now, uid);
        self.cache.unsettle_claim(uid);
        if mutation::is_on(Mutation::FailedBindingKeepsResources) {
            return Some(node);
        }
        if let Some((pod, _, _)) = self.cache.remove_pod(uid) {
            if !is_bound_elsewhere {
                self.member_freed(now, &pod);
            }
            self.victim_off(now, uid);
            if mutation::is_on(Mutation::FailedBindingRequeuesNoPod) {
                return Some(node);
            }
            let event = ClusterEvent::AssignedPod { action: PodAction::Delete, old: Some(&pod), new: None };
            self.requeue_on(now, &event);
        }
        Some(node)
    }

    /// Reports a binding that was carried out.
    fn bound(&mut self, now: Time, binding: &Binding) {
        let pod = Arc::clone(&binding.queued.pod);
        if let Some(key) = pod.group_key() {
            self.note_bound(now, key, true);
        }
        let node = self.tables.text(binding.node).to_owned();
        let note = format!("Successfully assigned {} to {node}", self.snapshot().pod_key(&pod));
        self.record(&pod, Severity::Normal, "Scheduled", "Binding", note);
        self.conditions.pod_left(&pod.uid);
        self.outbox.cancel_patch(&pod.uid);
        let Search { evaluated, feasible, .. } =
            binding.queued.found.expect("a bound pod has a search result");
        self.report(&binding.queued, binding.began, Outcome::Bound { node, evaluated, feasible });
    }

    /// Reverts a binding that was not carried out, and retries the pod.
    fn not_bound(&mut self, now: Time, binding: Binding, message: &str) {
        let uid = Arc::clone(&binding.queued.pod.uid);
        if matches!(self.cache.placed(&uid), Some((_, _, PodState::Added))) {
            // Another client has bound the pod; a PodScheduled=False condition would be wrong.
            return;
        }
        let node = self.free(now, &uid);
        if binding.abandoned {
            return;
        }
        let node = node.filter(|_| self.keeps_node_after_failure(now, &binding.queued.pod));
        // Upstream reports an extender's error text unchanged.
        let message = match binding.by {
            Some(_) => message.to_owned(),
            None => format!("running Bind plugin \"DefaultBinder\": {message}"),
        };
        self.fail(now, binding.queued, binding.began, Failure::Binding { message, node });
    }
}
