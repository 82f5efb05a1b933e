//! The ledger of open bindings, and the times of queries about unknown outcomes.

use super::delegate::Delegate;
use crate::cache::Fingerprint;
use crate::hash::FixedMap;
use crate::intern::{Marks, Symbol, TraceIds, trace_ids};
use crate::pod::Uid;
use crate::queue::QueuedPod;
use crate::time::Time;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The interval between queries about one binding. The first is sent at once; then the interval doubles up to the
/// maximum.
const QUERY_INTERVAL_MIN: Duration = Duration::from_millis(250);
const QUERY_INTERVAL_MAX: Duration = Duration::from_secs(8);

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
    pub(super) last_lost: Time,
    /// The latest failure.
    pub(super) message: String,
    /// The interval before the last query.
    interval: Duration,
    /// When the last query was sent. Its answer describes a later moment, and may itself arrive much later.
    pub(super) queried_at: Time,
}

impl UnknownOutcome {
    pub(super) fn new(since: Time, last_lost: Time, message: String) -> Self {
        Self { since, last_lost, message, interval: QUERY_INTERVAL_MIN, queried_at: since }
    }

    /// Doubles the interval and returns the phase with the time of the next query.
    pub(super) fn next_query(&mut self, now: Time) -> Phase {
        self.interval = (self.interval * 2).min(QUERY_INTERVAL_MAX);
        Phase::Unknown { query_at: now + self.interval }
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
        }
    }

    /// Returns the phase.
    pub(super) fn phase(&self) -> Phase {
        self.phase
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
    pub(super) fn remove(&mut self, uid: &str) -> Option<Binding> {
        let (uid, binding) = self.by_uid.remove_entry(uid)?;
        if let Some(time) = binding.query_time() {
            self.query_times.remove(&(time, uid));
        }
        Some(binding)
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

    /// Returns all bindings to change. Phases are changed by [`Self::enter`].
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Binding> {
        self.by_uid.values_mut()
    }

    /// Returns the time of the next query.
    pub(super) fn next_query(&self) -> Option<Time> {
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
        let Self { by_uid, query_times: _ } = self;
        by_uid.values().for_each(|binding| binding.mark(marks));
    }
}

trace_ids!(Binding { queued, node, confirmed_on, nominated } but not {
    fingerprint, began, phase, released, unknown, abandoned, unlisted, by, is_ours, came_again
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::NoProbe;
    use crate::effect::{Effect, Lane};
    use crate::event::{BindOutcome, Event};
    use crate::scheduler::Step;
    use crate::scheduler::quarantine::tests::World;

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
                Step::Effect(_) | Step::Report(_) | Step::Notice(_) => {}
            }
        }
    }
}
