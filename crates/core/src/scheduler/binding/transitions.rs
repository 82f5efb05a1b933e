//! The transitions of open bindings: what follows from an answer, a query or the watch.
//!
//! The watch, not the answer, turns *assumed* into *added*. This module changes only the state of
//! bindings and returns the next action; the scheduler performs it.

use super::ledger::{Binding, Bindings, Phase, UnknownOutcome};
use crate::cache::Cache;
use crate::model::event::{BindOutcome, BindingState};
use crate::model::intern::{Symbol, Tables};
use crate::model::pod::{PodInfo, Uid};
use crate::model::time::Time;
use crate::scheduler::outbox::{Outbox, Outgoing};
use crate::scheduler::unknown_outcome::UNKNOWN_MAX;
use crate::switches::mutation::{self, Mutation};
use std::sync::Arc;
use std::time::Duration;

/// What follows for a pod with a binding.
pub(super) enum Next {
    /// Nothing: the binding waits for an answer, a query or the watch, or has ended without a consequence.
    Nothing,
    /// The binding is sent again.
    Resend(Uid),
    /// The binding was carried out.
    Bound(Binding),
    /// The binding was not carried out, for this reason.
    Failed(Binding, String),
    /// Another client bound the pod to this node.
    BoundElsewhere(Binding, Symbol),
    /// The API server reports that the pod does not exist.
    Gone(Binding),
    /// The pod was deleted or terminating, and is pending again.
    Reappeared(Arc<PodInfo>),
}

impl Bindings {
    /// Handles the answer to a binding.
    pub(super) fn answered(
        &mut self,
        now: Time,
        uid: &str,
        outcome: BindOutcome,
        (cache, tables): (&Cache, &mut Tables),
    ) -> Next {
        let Some(binding) = self.get_mut(uid) else { return Next::Nothing };
        if binding.came_again {
            return Next::Reappeared(self.take(uid).queued.pod);
        }
        if let Some(next) = self.delegate_answered(now, uid, &outcome) {
            return next;
        }
        let binding = self.known(uid);
        match outcome {
            BindOutcome::Accepted if binding.unlisted && !binding.abandoned => {
                self.enter(uid, Phase::Unknown { query_at: now });
                Next::Nothing
            }
            BindOutcome::Accepted => Next::Bound(self.take(uid)),
            BindOutcome::Refused { message } => self.rejected(now, uid, message),
            BindOutcome::NotNeeded(found) => self.found(now, uid, found, tables),
            BindOutcome::Unknown { message } if mutation::is_on(Mutation::UnknownOutcomeCountsAsRejected) => {
                self.rejected(now, uid, message)
            }
            BindOutcome::Unknown { message } => self.lost(now, uid, message, cache),
        }
    }

    /// Handles a lost answer.
    fn lost(&mut self, now: Time, uid: &str, message: String, cache: &Cache) -> Next {
        let binding = self.known(uid);
        let last_lost_sent_at = binding.released;
        if let Some(node) = binding.confirmed_on {
            return self.bound_on(uid, node);
        }
        if binding.abandoned && cache.placed(uid).is_none() {
            self.remove(uid);
            return Next::Nothing;
        }
        if let Some(unknown) = &mut binding.unknown {
            unknown.last_lost_sent_at = last_lost_sent_at;
            return self.query_later(now, uid);
        }
        binding.unknown = Some(UnknownOutcome::new(now, last_lost_sent_at, message));
        self.enter(uid, Phase::Unknown { query_at: now });
        Next::Nothing
    }

    /// Handles a rejection. It counts only if no earlier copy has an unknown outcome.
    fn rejected(&mut self, now: Time, uid: &str, message: String) -> Next {
        let binding = self.known(uid);
        match (&mut binding.unknown, binding.confirmed_on) {
            // An earlier copy was carried out. That is the reason for this rejection.
            (Some(_), Some(node)) => self.bound_on(uid, node),
            // An earlier copy may have been carried out, or may still be. This answer does not show which.
            (Some(unknown), None) if !binding.abandoned => {
                unknown.message = message;
                self.query_later(now, uid)
            }
            _ => Next::Failed(self.take(uid), message),
        }
    }

    /// Handles the answer to a query. Late answers of earlier queries are ignored.
    pub(super) fn queried(&mut self, now: Time, uid: &str, found: BindingState, tables: &mut Tables) -> Next {
        if self.get(uid).is_some_and(|binding| binding.phase() == Phase::Queried) {
            self.found(now, uid, found, tables)
        } else {
            Next::Nothing
        }
    }

    /// Handles the state of the pod in the API server.
    fn found(&mut self, now: Time, uid: &str, found: BindingState, tables: &mut Tables) -> Next {
        let binding = self.known(uid);
        match (found, &binding.unknown) {
            (BindingState::NoAnswer, Some(_)) => self.query_later(now, uid),
            // The pod exists, contrary to the list. The watch will show it.
            (BindingState::Unbound, Some(_)) if binding.unlisted => self.query_later(now, uid),
            (BindingState::Unbound, Some(_)) => self.still_unbound(now, uid),
            // The answer itself carries this state, and no earlier copy has an unknown outcome: the binding was not
            // carried out.
            (BindingState::NoAnswer | BindingState::Unbound, None) => {
                self.rejected(now, uid, "the pod is not bound".to_owned())
            }
            (BindingState::Gone, _) => Next::Gone(self.take(uid)),
            (BindingState::Bound(name), _) => {
                let (binding, node) = (self.take(uid), tables.symbol(&name));
                if node != binding.node {
                    Next::BoundElsewhere(binding, node)
                } else if mutation::is_on(Mutation::BoundCountsAsFailed) {
                    Next::Failed(binding, "found bound".to_owned())
                } else {
                    Next::Bound(binding)
                }
            }
        }
    }

    /// Handles a lost binding that has not been carried out so far. For [`UNKNOWN_MAX`] it is resent unchanged;
    /// should the lost copy arrive later, both name the same node.
    ///
    /// It fails once a query that was sent more than [`UNKNOWN_MAX`] after the last lost copy shows the pod unbound. An
    /// answer shows the pod at some moment after its query was sent, however late it arrives.
    fn still_unbound(&mut self, now: Time, uid: &str) -> Next {
        let binding = self.known(uid);
        let unknown = binding.unknown.as_ref().expect("only bindings of unknown outcome are queried");
        let patience =
            if mutation::is_on(Mutation::LostBindingGivenUpAtOnce) { Duration::ZERO } else { UNKNOWN_MAX };
        if binding.abandoned || unknown.queried_at.since(unknown.last_lost_sent_at) > patience {
            let message = unknown.message.clone();
            Next::Failed(self.take(uid), message)
        } else if now.since(unknown.since) > UNKNOWN_MAX {
            self.query_later(now, uid)
        } else {
            let uid = Arc::clone(&binding.queued.pod.uid);
            self.enter(&uid, Phase::Waiting);
            Next::Resend(uid)
        }
    }

    fn query_later(&mut self, now: Time, uid: &str) -> Next {
        let unknown = self.known(uid).unknown.as_mut().expect("only bindings of unknown outcome are queried");
        let phase = unknown.next_query(now);
        self.enter(uid, phase);
        Next::Nothing
    }

    /// Completes a binding whose pod is on `node`.
    pub(super) fn bound_on(&mut self, uid: &str, node: Symbol) -> Next {
        let binding = self.take(uid);
        if node == binding.node { Next::Bound(binding) } else { Next::Nothing }
    }

    /// Handles a pod that the watch shows on `node`.
    pub(super) fn confirmed(&mut self, uid: &str, node: Symbol) -> Next {
        let Some(binding) = self.get_mut(uid) else { return Next::Nothing };
        binding.unlisted = false;
        binding.came_again = false;
        binding.confirmed_on = Some(node);
        match binding.phase() {
            // The answer completes the binding.
            Phase::InFlight => Next::Nothing,
            // Another client bound the pod before the release.
            Phase::Waiting if binding.unknown.is_none() => Next::Nothing,
            Phase::Waiting | Phase::Unknown { .. } | Phase::Queried => self.bound_on(uid, node),
        }
    }

    /// Handles an update of a pod that has no node in the watch yet. Returns whether the pod has begun to terminate.
    pub(super) fn updated(&mut self, pod: &Arc<PodInfo>) -> bool {
        let Some(binding) = self.get_mut(&pod.uid) else { return false };
        binding.unlisted = false;
        let deleted_now = pod.deleting && !binding.queued.pod.deleting;
        binding.queued.pod = Arc::clone(pod);
        binding.came_again = binding.abandoned && !pod.deleting;
        // The API server does not bind a terminating pod, and had not bound it before. Its resources are free.
        binding.abandoned |= deleted_now;
        deleted_now
    }

    /// Handles the deletion of a pod.
    pub(in crate::scheduler) fn pod_left(&mut self, uid: &Uid, outbox: &mut Outbox) {
        let Some(binding) = self.get_mut(uid) else { return };
        match binding.phase() {
            // Answers identify a pod, not a binding. So no other binding of this pod is sent before this answer.
            Phase::InFlight => {
                binding.abandoned = true;
                binding.confirmed_on = None;
                binding.came_again = false;
            }
            Phase::Waiting => {
                self.remove(uid);
                outbox.drop_bind(uid);
            }
            Phase::Unknown { .. } | Phase::Queried => {
                self.remove(uid);
            }
        }
    }

    /// Whether a deletion implied by a list needs a query first, because the pod has an open binding.
    ///
    /// If the list is older than the cached state, the pod reappears later. It would then get a new decision, while
    /// the open binding could still put it on the first node.
    pub(in crate::scheduler) fn needs_query(&mut self, now: Time, uid: &Uid, outbox: &mut Outbox) -> bool {
        let Some(binding) = self.get_mut(uid) else { return false };
        if !binding.was_sent() || binding.abandoned || binding.confirmed_on.is_some() {
            return false;
        }
        binding.unlisted = true;
        let last_lost_sent_at = binding.released;
        let message = || "a list does not name the pod".to_owned();
        binding.unknown.get_or_insert_with(|| UnknownOutcome::new(now, last_lost_sent_at, message()));
        if binding.phase() == Phase::Waiting {
            self.enter(uid, Phase::Unknown { query_at: now });
            outbox.drop_bind(uid);
        }
        true
    }

    /// Queues the queries that are due, and returns whether there were any.
    pub(in crate::scheduler) fn queue_queries(&mut self, now: Time, outbox: &mut Outbox) -> bool {
        let due = self.due(now);
        let any = !due.is_empty();
        for uid in due {
            self.enter(&uid, Phase::Queried);
            outbox.push_bind(Outgoing::Query(uid));
        }
        any
    }

    /// Returns the pod to query about now; `None` if the outcome is known by now.
    pub(super) fn query_sent(&mut self, now: Time, uid: &str) -> Option<Arc<PodInfo>> {
        let binding = self.get_mut(uid).filter(|binding| binding.phase() == Phase::Queried)?;
        if let Some(unknown) = &mut binding.unknown {
            unknown.queried_at = now;
        }
        Some(Arc::clone(&binding.queued.pod))
    }

    /// Removes a binding that was not sent. Returns it if its pod is still pending.
    pub(in crate::scheduler) fn cancel_unsent(&mut self, uid: &Uid, outbox: &mut Outbox) -> Option<Binding> {
        self.get(uid).filter(|binding| !binding.was_sent())?;
        outbox.drop_bind(uid);
        self.remove(uid).filter(Binding::is_open)
    }

    /// Returns the pods whose bindings were not sent, in a deterministic order.
    pub(in crate::scheduler) fn unsent(&self) -> Vec<Uid> {
        self.sorted(|binding| !binding.was_sent())
    }

    /// Deliberate fault for mutation tests: returns the bindings that are older than 30 seconds.
    pub(super) fn expired(&self, now: Time) -> Vec<Uid> {
        let is_old = |binding: &Binding| now.since(binding.began) > Duration::from_secs(30);
        self.sorted(|binding| binding.phase() != Phase::Waiting && is_old(binding))
    }

    fn sorted(&self, which: impl Fn(&Binding) -> bool) -> Vec<Uid> {
        let mut uids: Vec<_> =
            self.iter().filter(|(_, binding)| which(binding)).map(|(uid, _)| Arc::clone(uid)).collect();
        uids.sort_unstable();
        uids
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{QueueConfig, SchedulingQueue};
    use crate::scheduler::quarantine::tests::pod;

    /// One binding of pod `p` to node `a`, without a scheduler.
    struct Alone {
        bindings: Bindings,
        cache: Cache,
        tables: Tables,
        now: Time,
    }

    impl Alone {
        fn sent() -> Self {
            let mut alone = Self::unsent();
            alone.bindings.sent(alone.now, "p", None);
            alone
        }

        fn unsent() -> Self {
            let (mut tables, now) = (Tables::new(), Time::from_secs(100));
            let (pod, node) = (pod(&mut tables, "p", 500, None), tables.symbol("a"));
            let mut bindings = Bindings::default();
            let mut queue = SchedulingQueue::new(QueueConfig::default(), now);
            queue.add(now, Arc::new(*pod), None);
            let queued = queue.pop(now).expect("the pod is active");
            let binding = Binding::new(queued, node, None, None, now);
            bindings.insert("p".into(), binding);
            Self { bindings, cache: Cache::default(), tables, now }
        }

        fn answer(&mut self, outcome: BindOutcome) -> &'static str {
            let state = (&self.cache, &mut self.tables);
            name(&self.bindings.answered(self.now, "p", outcome, state))
        }

        /// Sends the query that is due, and answers it.
        fn query(&mut self, found: BindingState) -> &'static str {
            assert!(self.bindings.queue_queries(self.now, &mut Outbox::default()), "a query is due");
            self.bindings.query_sent(self.now, "p").expect("the outcome is unknown");
            name(&self.bindings.queried(self.now, "p", found, &mut self.tables))
        }
    }

    fn name(next: &Next) -> &'static str {
        match next {
            Next::Nothing => "nothing",
            Next::Resend(_) => "resend",
            Next::Bound(_) => "bound",
            Next::Failed(..) => "failed",
            Next::BoundElsewhere(..) => "bound elsewhere",
            Next::Gone(_) => "gone",
            Next::Reappeared(_) => "reappeared",
        }
    }

    fn lost() -> BindOutcome {
        BindOutcome::Unknown { message: "no answer".to_owned() }
    }

    fn refused() -> BindOutcome {
        BindOutcome::Refused { message: "conflict".to_owned() }
    }

    #[test]
    fn rejection_counts_only_while_no_earlier_copy_is_unknown() {
        assert_eq!(Alone::sent().answer(refused()), "failed");
        let mut alone = Alone::sent();
        assert_eq!(alone.answer(lost()), "nothing");
        assert_eq!(alone.query(BindingState::Unbound), "resend");
        alone.bindings.sent(alone.now, "p", None);
        assert_eq!(alone.answer(refused()), "nothing", "the first copy may be the reason");
        alone.now = alone.now + Duration::from_secs(1);
        assert_eq!(alone.query(BindingState::Bound("a".to_owned())), "bound");
        assert!(alone.bindings.is_empty());
    }

    #[test]
    fn lost_binding_fails_only_after_no_copy_can_be_carried_out() {
        let mut alone = Alone::sent();
        alone.answer(lost());
        assert_eq!(alone.query(BindingState::NoAnswer), "nothing");
        alone.now = alone.now + UNKNOWN_MAX;
        assert_eq!(alone.query(BindingState::Unbound), "resend");
        alone.bindings.sent(alone.now, "p", None);
        alone.answer(lost());
        for _ in 0..20 {
            assert_eq!(alone.bindings.len(), 1);
            alone.now = alone.bindings.next_query().expect("an unknown outcome is queried");
            if alone.query(BindingState::Unbound) == "failed" {
                let waited = alone.now.since(Time::from_secs(175));
                assert!(waited > UNKNOWN_MAX && waited < UNKNOWN_MAX + Duration::from_secs(9), "{waited:?}");
                return;
            }
        }
        panic!("it is never given up");
    }

    #[test]
    fn answer_of_a_deleted_pods_binding_is_awaited_before_the_pod_counts_again() {
        let mut alone = Alone::sent();
        alone.bindings.pod_left(&"p".into(), &mut Outbox::default());
        assert_eq!(alone.bindings.len(), 1, "the answer identifies the pod, not the binding");
        let again = Arc::new(*pod(&mut alone.tables, "p", 500, None));
        assert!(!alone.bindings.updated(&again), "it is not deleted now");
        assert_eq!(alone.answer(refused()), "reappeared");
    }

    #[test]
    fn rejected_copy_for_a_deleted_pod_ends_its_binding() {
        let mut alone = Alone::sent();
        alone.answer(lost());
        assert_eq!(alone.query(BindingState::Unbound), "resend");
        alone.bindings.sent(alone.now, "p", None);
        alone.bindings.pod_left(&"p".into(), &mut Outbox::default());
        assert_eq!(alone.answer(refused()), "failed", "nobody waits for the outcome of the first copy");
        assert!(alone.bindings.is_empty());
    }

    #[test]
    fn list_without_the_pod_needs_a_query_only_for_a_sent_and_open_binding() {
        let needs_query = |mut alone: Alone| {
            let needs = alone.bindings.needs_query(alone.now, &"p".into(), &mut Outbox::default());
            assert_eq!(alone.bindings.known("p").unlisted, needs);
            needs
        };
        assert!(needs_query(Alone::sent()));
        assert!(!needs_query(Alone::unsent()), "it cannot be carried out");
        let mut deleted = Alone::sent();
        deleted.bindings.pod_left(&"p".into(), &mut Outbox::default());
        assert!(!needs_query(deleted));
        let mut confirmed = Alone::sent();
        let node = confirmed.tables.symbol("a");
        assert_eq!(name(&confirmed.bindings.confirmed("p", node)), "nothing", "the answer completes it");
        assert!(!needs_query(confirmed));
    }
}
