//! The ledger of open bindings, and the times of queries about unknown outcomes.

use super::delegate::Delegate;
use crate::cache::Fingerprint;
use crate::collections::hash::FixedMap;
use crate::model::intern::{Marks, Symbol, TraceIds, trace_ids};
use crate::model::pod::Uid;
use crate::model::time::Time;
use crate::queue::QueuedPod;
use crate::scheduler::groups::QueuedStart;
use crate::scheduler::unknown_outcome::RetryInterval;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The interval between the first two queries about a binding; the first query is sent at once. Then it doubles.
const QUERY_INTERVAL_MIN: Duration = Duration::from_millis(500);

/// The phase of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Decided, not yet sent.
    Waiting,
    /// Sent, without an answer.
    InFlight,
    /// The outcome is unknown. A query is due at this time.
    Unknown { query_at: Time },
    /// A query is queued or in flight.
    Queried,
}

/// The state of a binding with an unknown outcome. Kept until the outcome is known, however often the binding is
/// resent.
#[derive(Clone, Debug)]
pub(super) struct UnknownOutcome {
    /// When the outcome first became unknown.
    pub(super) since: Time,
    /// When the last unanswered copy was sent. It may be carried out long after a later copy was rejected.
    pub(super) last_lost_sent_at: Time,
    /// The latest failure.
    pub(super) message: String,
    /// The interval before the next query.
    interval: RetryInterval,
    /// When the last query was sent. Its answer describes a later moment, and may itself arrive much later.
    pub(super) queried_at: Time,
}

impl UnknownOutcome {
    pub(super) fn new(since: Time, last_lost_sent_at: Time, message: String) -> Self {
        Self {
            since,
            last_lost_sent_at,
            message,
            interval: RetryInterval::starting_at(QUERY_INTERVAL_MIN),
            queried_at: since,
        }
    }

    /// Returns the phase with the time of the next query.
    pub(super) fn next_query(&mut self, now: Time) -> Phase {
        Phase::Unknown { query_at: now + self.interval.advance() }
    }
}

/// A binding that is not completed yet.
pub(in crate::scheduler) struct Binding {
    pub(super) queued: QueuedPod,
    pub(super) node: Symbol,
    /// The version of the state that the decision depends on, when the pod was assumed; `None` always rechecks.
    pub(super) fingerprint: Option<Fingerprint>,
    /// When the attempt of this decision began.
    pub(super) began: Time,
    phase: Phase,
    /// When it was last sent.
    pub(super) released: Time,
    /// Set when a copy of it got no answer.
    pub(super) unknown: Option<UnknownOutcome>,
    /// The pod was deleted or is terminating: it is not retried, whatever the answer.
    pub(super) abandoned: bool,
    /// The node on which the watch shows the pod.
    pub(super) confirmed_on: Option<Symbol>,
    /// The pod's nominated node at the decision.
    pub(super) nominated: Option<Symbol>,
    /// A list did not contain the pod, and no object or answer has shown it since.
    pub(super) unlisted: bool,
    /// The extender that was last asked to carry it out; `None` if the engine posts it itself.
    pub(super) by: Option<Delegate>,
    /// An ignorable extender failed, so the engine posts the binding itself.
    pub(super) is_ours: bool,
    /// The pod was deleted or terminating, and reappeared because a list was older. It is queued after the answer.
    pub(super) came_again: bool,
    /// The error with which it failed before. It is sent again to the same node.
    pub(super) error_before: Option<String>,
    /// The members of its group that start together with it, until the first of their bindings is sent.
    start: Option<Arc<QueuedStart>>,
}

impl Binding {
    pub(in crate::scheduler) fn new(
        queued: QueuedPod,
        node: Symbol,
        nominated: Option<Symbol>,
        fingerprint: Option<Fingerprint>,
        began: Time,
    ) -> Self {
        Self {
            queued,
            node,
            fingerprint,
            began,
            phase: Phase::Waiting,
            released: began,
            unknown: None,
            abandoned: false,
            confirmed_on: None,
            nominated,
            unlisted: false,
            by: None,
            is_ours: false,
            came_again: false,
            error_before: None,
            start: None,
        }
    }

    /// Returns the pod, and when the attempt of this decision began.
    pub(in crate::scheduler) fn into_attempt(self) -> (QueuedPod, Time) {
        (self.queued, self.began)
    }

    /// Returns a new binding to the same node, which is rechecked before it is sent.
    pub(super) fn repeated(self, error: String) -> Self {
        let again = Self::new(self.queued, self.node, self.nominated, None, self.began);
        Self { error_before: Some(error), ..again }
    }

    /// Returns the phase.
    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether it was sent, so that it may be carried out.
    pub(super) fn was_sent(&self) -> bool {
        self.phase != Phase::Waiting || self.unknown.is_some()
    }

    /// Whether its outcome matters: the pod is neither bound nor deleted.
    pub(super) fn is_open(&self) -> bool {
        !self.abandoned && self.confirmed_on.is_none()
    }

    /// Returns the pod, its node, the time of the decision, and whether the outcome is unknown; `None` if the outcome
    /// no longer matters.
    pub(in crate::scheduler) fn pending(&self) -> Option<(&QueuedPod, Symbol, Time, bool)> {
        self.is_open().then_some((&self.queued, self.node, self.began, self.unknown.is_some()))
    }

    /// Returns the time of the next query, if one is due later.
    fn query_time(&self) -> Option<Time> {
        #[cfg(test)]
        tests::LOOKED_AT.set(tests::LOOKED_AT.get() + 1);
        match self.phase {
            Phase::Unknown { query_at } => Some(query_at),
            Phase::Waiting | Phase::InFlight | Phase::Queried => None,
        }
    }
}

/// All bindings that are not completed.
#[derive(Default)]
pub(in crate::scheduler) struct Bindings {
    by_uid: FixedMap<Uid, Binding>,
    /// Query times of the bindings in [`Phase::Unknown`]. A step reads only the first, however many bindings are
    /// open.
    query_times: BTreeSet<(Time, Uid)>,
    /// Bindings that the recheck stopped so far.
    pub(in crate::scheduler) rechecks_failed: u64,
}

impl Bindings {
    /// Adds a binding.
    pub(in crate::scheduler) fn insert(&mut self, uid: Uid, binding: Binding) {
        self.remove(&uid);
        if let Some(time) = binding.query_time() {
            self.query_times.insert((time, Arc::clone(&uid)));
        }
        self.by_uid.insert(uid, binding);
    }

    /// Removes a binding.
    pub(in crate::scheduler) fn remove(&mut self, uid: &str) -> Option<Binding> {
        let (uid, binding) = self.by_uid.remove_entry(uid)?;
        if let Some(time) = binding.query_time() {
            self.query_times.remove(&(time, uid));
        }
        Some(binding)
    }

    /// Removes a binding that must exist.
    pub(super) fn take(&mut self, uid: &str) -> Binding {
        self.remove(uid).expect("the caller knows that the binding exists")
    }

    /// Marks a binding as sent, and names the extender that carries it out, if any.
    pub(super) fn sent(&mut self, now: Time, uid: &str, by: Option<Delegate>) {
        self.enter(uid, Phase::InFlight);
        let binding = self.known(uid);
        (binding.released, binding.by) = (now, by);
    }

    /// Sets the phase of a binding.
    pub(super) fn enter(&mut self, uid: &str, phase: Phase) {
        let binding = self.by_uid.get_mut(uid).expect("the caller knows that the binding exists");
        let uid = &binding.queued.pod.uid;
        if let Some(time) = binding.query_time() {
            self.query_times.remove(&(time, Arc::clone(uid)));
        }
        binding.phase = phase;
        if let Some(time) = binding.query_time() {
            self.query_times.insert((time, Arc::clone(&binding.queued.pod.uid)));
        }
    }

    /// Returns a binding.
    pub(in crate::scheduler) fn get(&self, uid: &str) -> Option<&Binding> {
        self.by_uid.get(uid)
    }

    /// Returns a binding to change. Its phase is changed by [`Self::enter`].
    pub(super) fn get_mut(&mut self, uid: &str) -> Option<&mut Binding> {
        self.by_uid.get_mut(uid)
    }

    /// Returns a binding that must exist.
    pub(super) fn known(&mut self, uid: &str) -> &mut Binding {
        self.get_mut(uid).expect("the caller knows that the binding exists")
    }

    /// Whether the pod has a binding.
    pub(in crate::scheduler) fn contains(&self, uid: &str) -> bool {
        self.by_uid.contains_key(uid)
    }

    /// Whether the pod has a binding that was not sent.
    pub(in crate::scheduler) fn is_unsent(&self, uid: &str) -> bool {
        self.get(uid).is_some_and(|binding| !binding.was_sent())
    }

    /// Whether the pod has a binding that is still to be sent.
    pub(in crate::scheduler) fn is_due(&self, uid: &str) -> bool {
        self.get(uid).is_some_and(|binding| !binding.was_sent() && binding.is_open())
    }

    /// Whether the pod has a binding that was sent.
    pub(in crate::scheduler) fn was_sent(&self, uid: &str) -> bool {
        self.get(uid).is_some_and(Binding::was_sent)
    }

    /// Whether the pod has a binding that was not sent, and that does not repeat one that failed, also at an extender.
    pub(in crate::scheduler) fn was_never_sent(&self, uid: &str) -> bool {
        let is_first = |binding: &Binding| binding.error_before.is_none() && !binding.is_ours;
        self.get(uid).is_some_and(|binding| !binding.was_sent() && is_first(binding))
    }

    /// Returns the number of bindings.
    pub(in crate::scheduler) fn len(&self) -> usize {
        self.by_uid.len()
    }

    /// Whether there is no binding.
    pub(in crate::scheduler) fn is_empty(&self) -> bool {
        self.by_uid.is_empty()
    }

    /// Returns all bindings in arbitrary order.
    pub(in crate::scheduler) fn iter(&self) -> impl Iterator<Item = (&Uid, &Binding)> {
        self.by_uid.iter()
    }

    /// Sets what a binding that was not sent was last checked against.
    pub(in crate::scheduler) fn checked(&mut self, uid: &str, fingerprint: Fingerprint) {
        if let Some(binding) = self.by_uid.get_mut(uid) {
            binding.fingerprint = Some(fingerprint);
        }
    }

    /// Sets the members that start together with this one.
    pub(in crate::scheduler) fn set_start(&mut self, uid: &str, start: &Arc<QueuedStart>) {
        if let Some(binding) = self.by_uid.get_mut(uid) {
            binding.start = Some(Arc::clone(start));
        }
    }

    /// Returns the members that start together with this one, and forgets them.
    pub(in crate::scheduler) fn take_start(&mut self, uid: &str) -> Option<Arc<QueuedStart>> {
        self.by_uid.get_mut(uid)?.start.take()
    }

    /// Makes every binding that was not sent subject to the recheck, because nodes were rebuilt.
    pub(in crate::scheduler) fn recheck_all(&mut self) {
        for binding in self.by_uid.values_mut() {
            binding.fingerprint = None;
        }
    }

    /// Returns the time of the next query.
    pub(in crate::scheduler) fn next_query(&self) -> Option<Time> {
        self.query_times.first().map(|&(time, _)| time)
    }

    /// Returns the bindings whose queries are due, ordered by uid.
    pub(super) fn due(&self, now: Time) -> Vec<Uid> {
        let due = self.query_times.iter().take_while(|(time, _)| *time <= now);
        let mut uids: Vec<Uid> = due.map(|(_, uid)| Arc::clone(uid)).collect();
        uids.sort_unstable();
        uids
    }
}

impl TraceIds for Bindings {
    fn mark(&self, marks: &mut Marks) {
        let Self { by_uid, query_times: _, rechecks_failed: _ } = self;
        by_uid.values().for_each(|binding| binding.mark(marks));
    }
}

trace_ids!(Binding { queued, node, confirmed_on, nominated } but not {
    fingerprint, began, phase, released, unknown, abandoned, unlisted, by, is_ours, came_again, error_before, start
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::NoProbe;
    use crate::model::effect::{Effect, Lane};
    use crate::model::event::{BindOutcome, Event};
    use crate::scheduler::Step;
    use crate::scheduler::quarantine::tests::{PanicPoint, World};

    thread_local! {
        /// How often the query time of a binding was read.
        pub(super) static LOOKED_AT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    /// A scan of all open bindings at each step would read the time two hundred thousand times.
    #[test]
    fn step_visits_only_bindings_with_a_due_query() {
        /// Fits on one node.
        const PODS: usize = 110;
        let mut world = World::new();
        for lane in [Lane::Status, Lane::Record] {
            world.handle(Event::Credits { lane, count: 9 * PODS });
        }
        world.handle(Event::Credits { lane: Lane::Bind, count: PODS });
        let mut sent = Vec::new();
        for number in 0..PODS {
            world.pod(&format!("p{number}"), 1, None);
            run(&mut world, &mut sent);
        }
        assert_eq!(sent.len(), PODS, "all are placed");
        for uid in &sent {
            let outcome = BindOutcome::Unknown { message: "no answer".to_owned() };
            world.handle(Event::BindFinished { uid: Arc::clone(uid), outcome });
        }
        let before = LOOKED_AT.get();
        for _ in 0..1_000 {
            world.scheduler.step(world.now, &mut NoProbe);
        }
        let looked_at = LOOKED_AT.get() - before;
        assert!(looked_at <= 8 * PODS, "bindings were looked at {looked_at} times in 1,000 steps");
        assert!(looked_at >= sent.len(), "each was asked about");
    }

    fn run(world: &mut World, sent: &mut Vec<Uid>) {
        loop {
            match world.scheduler.step(world.now, &mut NoProbe) {
                Step::Idle { .. } => return,
                Step::Effect(Effect::Bind { pod, .. }) => sent.push(pod.uid),
                Step::Effect(_) | Step::Report(_) | Step::GroupReport(_) | Step::Notice(_) => {}
            }
        }
    }

    /// In a rebuilt cache an equal fingerprint does not mean an equal state.
    #[test]
    fn rebuilt_cache_subjects_unsent_bindings_to_the_recheck() {
        let mut world = World::new();
        world.pod("p", 500, None);
        assert!(world.scheduler.attempt(world.now, &mut NoProbe));
        let has_fingerprint =
            |world: &World| world.scheduler.bindings.get("p").map(|binding| binding.fingerprint.is_some());
        assert_eq!(has_fingerprint(&world), Some(true));
        world.scheduler.panic_point = Some(PanicPoint::TakingIn);
        world.pod("poison", 500, None);
        assert_eq!(has_fingerprint(&world), Some(false));
    }
}
