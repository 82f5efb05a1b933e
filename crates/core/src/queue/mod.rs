//! The scheduling queue: which pod is tried next, and what brings a pod back after a failed attempt.
//!
//! Each waiting pod is in exactly one place: active, backing off, unschedulable or gated. The queue knows no cluster
//! and no plugin: verdicts of PreEnqueue and queueing hints are asked of the caller. There is no list of pods in flight
//! and of the events they missed, as upstream needs, because no event is handled while a decision runs.
//! Upstream: `pkg/scheduler/backend/queue`.

mod active;
mod backoff;
mod pod;
mod pool;
mod put;
mod rebuild;
mod reconsider;
mod stats;
mod unschedulable;

pub use pod::{QueuedPod, Search};
pub use reconsider::Reconsidered;
pub use stats::{Place, QueueStats};

use crate::framework::{ClusterEvent, Hint, PluginName, PodAction};
use crate::hash::{FixedMap, Keyed};
use crate::intern::holds_ids;
use crate::mutation::{self, Mutation};
use crate::pod::{PodInfo, Uid};
use crate::time::Time;
use active::ActiveQueue;
use backoff::{BackoffOrder, BackoffPolicy, BackoffQueue};
use pod::ActiveOrder;
use pool::Pool;
use put::Unmarked;
use stats::Counters;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use unschedulable::Unschedulable;

/// Labels of what brings pods to a place and is no event of the cluster.
mod label {
    pub(super) const ADD: &str = "UnschedulablePodAdd";
    pub(super) const UPDATE: &str = "UnschedulablePodUpdate";
    pub(super) const FAILURE: &str = "ScheduleAttemptFailure";
    pub(super) const BACKOFF_COMPLETE: &str = "BackoffComplete";
    pub(super) const POP_FROM_BACKOFF: &str = "PopFromBackoffQ";
    pub(super) const RECONFIGURED: &str = "ConfigurationChange";
    pub(super) const FORCE_ACTIVATE: &str = "ForceActivate";
}

/// How often pods are looked for that wait too long.
const FLUSH_PERIOD: Duration = Duration::from_secs(30);

/// How long pods wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// The backoff after the first failure; doubled with each further one (`podInitialBackoffSeconds`).
    pub initial_backoff: Duration,
    /// The longest backoff; zero for none at all (`podMaxBackoffSeconds`).
    pub max_backoff: Duration,
    /// How long a pod waits for an event before it is tried without one
    /// (`--pod-max-in-unschedulable-pods-duration`).
    pub max_in_unschedulable: Duration,
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(10),
            max_in_unschedulable: Duration::from_secs(300),
        }
    }
}

/// Where the record of a waiting pod is found.
#[derive(Clone, Copy)]
enum Slot {
    Active(ActiveOrder),
    Backoff(BackoffOrder),
    Unschedulable(u64),
    Gated(u64),
}

/// The pods that wait to be scheduled.
///
/// Times given to its methods never run backwards.
pub struct SchedulingQueue {
    backoff_policy: BackoffPolicy,
    max_in_unschedulable: Duration,
    active: ActiveQueue,
    backoff: BackoffQueue,
    unschedulable: Unschedulable,
    gated: Pool,
    slots: FixedMap<Uid, Slot>,
    /// Pods that may not be tried for now, and the plugin that says so.
    held: FixedMap<Uid, PluginName>,
    next_sequence: u64,
    next_flush: Time,
    counters: Counters,
    unmarked: Unmarked,
}

impl SchedulingQueue {
    /// An empty queue. Its checks for pods that wait too long count from `now`.
    pub fn new(config: QueueConfig, now: Time) -> Self {
        Self {
            backoff_policy: BackoffPolicy { initial: config.initial_backoff, max: config.max_backoff },
            max_in_unschedulable: config.max_in_unschedulable,
            active: ActiveQueue::default(),
            backoff: BackoffQueue::default(),
            unschedulable: Unschedulable::default(),
            gated: Pool::default(),
            slots: FixedMap::default(),
            held: FixedMap::default(),
            next_sequence: 0,
            next_flush: now + FLUSH_PERIOD,
            counters: Counters::default(),
            unmarked: Unmarked::default(),
        }
    }

    /// What users choose is hashed so. To be told while no pod waits.
    #[must_use]
    pub(crate) fn hashed_by(mut self, hashing: &Keyed) -> Self {
        self.unschedulable = Unschedulable::hashed_by(hashing.clone());
        self
    }

    /// Takes in a pod that is new, or replaces the record under its uid by a fresh one.
    ///
    /// `gate` is the plugin that holds the pod back, if PreEnqueue says so.
    pub fn add(&mut self, now: Time, pod: Arc<PodInfo>, gate: Option<PluginName>) {
        self.remove(&pod.uid);
        self.enter(now, pod, gate, label::ADD);
    }

    /// Takes note that a waiting pod changed; a pod that is not known is taken in.
    ///
    /// `gate` is PreEnqueue's verdict on the pod as it is now. A pod whose gate is gone is set free. A pod that waits
    /// for an event has its rejecting plugins asked about each of `events`, what happened to the pod itself, until one
    /// is worth an attempt. Elsewhere the pod keeps its place.
    pub fn update(
        &mut self,
        now: Time,
        pod: Arc<PodInfo>,
        gate: Option<PluginName>,
        events: &[ClusterEvent<'_>],
        wakes: &mut dyn FnMut(&ClusterEvent<'_>, PluginName, &PodInfo) -> Hint,
    ) {
        let Some((slot, mut queued)) = self.take(&pod.uid) else {
            return self.enter(now, pod, gate, label::UPDATE);
        };
        self.counters.unblame(&queued);
        queued.pod = pod;
        queued.gate = gate;
        queued.rejectors.extend(gate);
        self.counters.blame(&queued);
        match slot {
            Slot::Unschedulable(_) | Slot::Gated(_) if gate.is_some() => self.put_gated(queued),
            Slot::Active(_) | Slot::Backoff(_) if gate.is_some() => self.hold(queued, label::UPDATE),
            Slot::Active(_) => self.put_active(now, queued),
            Slot::Backoff(order) => self.put_backoff(order.expiry(), queued),
            Slot::Gated(_) => self.requeue(now, queued, release_label(events)),
            Slot::Unschedulable(_) => {
                let mut helps = |event: &ClusterEvent<'_>| {
                    queued.wakers().iter().any(|plugin| wakes(event, plugin, &queued.pod) == Hint::Queue)
                };
                match events.iter().find(|event| helps(event)) {
                    Some(event) => self.requeue(now, queued, event.label()),
                    None => self.put_unschedulable(queued),
                }
            }
        }
    }

    /// Takes a pod out for good; whether it was there.
    pub fn remove(&mut self, uid: &str) -> bool {
        let taken = self.take(uid);
        if let Some((_, pod)) = &taken
            && !mutation::is_on(Mutation::GaugeDrifts)
        {
            self.counters.unblame(pod);
        }
        taken.is_some()
    }

    /// Whether the pod waits here.
    pub fn contains(&self, uid: &str) -> bool {
        self.slots.contains_key(uid)
    }

    /// The record of a pod that waits here.
    pub fn get(&self, uid: &str) -> Option<&QueuedPod> {
        match self.slots.get(uid)? {
            Slot::Active(order) => self.active.get(order),
            Slot::Backoff(order) => self.backoff.get(order),
            Slot::Unschedulable(sequence) => self.unschedulable.get(*sequence),
            Slot::Gated(sequence) => self.gated.get(*sequence),
        }
    }

    /// The same with where it waits.
    pub fn place_of(&self, uid: &str) -> Option<(Place, &QueuedPod)> {
        let place = match self.slots.get(uid)? {
            Slot::Active(_) => Place::Active,
            Slot::Backoff(_) => Place::Backoff,
            Slot::Unschedulable(_) => Place::Unschedulable,
            Slot::Gated(_) => Place::Gated,
        };
        Some((place, self.get(uid)?))
    }

    /// The pod to be tried next, which is the caller's from here on.
    ///
    /// When nothing is active, that is the rejected pod whose backoff ends first, for there is nothing it could hold
    /// up. A pod that failed with an error is never taken early.
    pub fn pop(&mut self, now: Time) -> Option<QueuedPod> {
        self.tick(now);
        let pod = self.active.pop().or_else(|| self.pop_early())?;
        Some(self.popped(pod))
    }

    /// The same, of the pods that may go now: the others keep their places.
    ///
    /// Whether a pod may go depends on its profile, its class and its priority alone, and where one may, a more important one of the
    /// same profile and class may, too. So only the first pod of each profile and class is asked about.
    pub fn pop_that(
        &mut self,
        now: Time,
        class_of: impl Fn(&PodInfo) -> bool,
        may_go: impl Fn(&PodInfo, bool) -> bool,
    ) -> Option<QueuedPod> {
        self.tick(now);
        let firsts = self.active.first_of_each_line(&class_of);
        let next = firsts.filter(|(queued, class)| may_go(&queued.pod, *class));
        let next = next.map(|(queued, _)| queued.order()).min();
        let may_go_early = |it: &QueuedPod| may_go(&it.pod, class_of(&it.pod));
        let pod = match next {
            Some(order) => self.active.remove(&order),
            None if self.active.len() == 0 && self.backoff.next_early().is_some_and(may_go_early) => {
                self.pop_early()
            }
            None => None,
        };
        pod.map(|pod| self.popped(pod))
    }

    fn pop_early(&mut self) -> Option<QueuedPod> {
        let early = self.backoff.pop_early()?;
        self.counters.came(Place::Active, label::POP_FROM_BACKOFF);
        Some(early)
    }

    fn popped(&mut self, mut pod: QueuedPod) -> QueuedPod {
        self.slots.remove(&pod.pod.uid);
        self.counters.unblame(&pod);
        pod.absolve();
        pod.attempts = pod.attempts.saturating_add(1);
        pod
    }

    /// Takes back a pod that plugins rejected; it waits for an event, or behind `gate` if there is one.
    ///
    /// With no plugin to blame it is an error. Of a pod that came anew in the meantime, the new record stays.
    pub fn return_unschedulable(
        &mut self,
        now: Time,
        mut pod: QueuedPod,
        rejectors: BTreeSet<PluginName>,
        gate: Option<PluginName>,
    ) {
        if rejectors.is_empty() && gate.is_none() {
            return self.return_error(now, pod);
        }
        if self.contains(&pod.pod.uid) {
            return;
        }
        pod.unschedulable_count = pod.unschedulable_count.saturating_add(1);
        pod.consecutive_errors = 0;
        pod.rejectors = rejectors;
        pod.rejectors.extend(gate);
        pod.gate = gate;
        self.come_back(now, &mut pod);
        if gate.is_some() {
            self.hold(pod, label::FAILURE);
        } else {
            self.counters.came(Place::Unschedulable, label::FAILURE);
            self.put_unschedulable(pod);
        }
    }

    /// Takes back a pod whose attempt or binding failed with no plugin to blame; it backs off, and no event helps.
    ///
    /// Of a pod that came anew in the meantime, the new record stays.
    pub fn return_error(&mut self, now: Time, mut pod: QueuedPod) {
        if pod.unschedulable_count > 0 && mutation::is_on(Mutation::OldBlameStays) {
            return self.return_unschedulable(now, pod, ["NodeResourcesFit"].into(), None);
        }
        if self.contains(&pod.pod.uid) {
            return;
        }
        pod.consecutive_errors = pod.consecutive_errors.saturating_add(1);
        pod.absolve();
        pod.gate = None;
        self.come_back(now, &mut pod);
        self.requeue(now, pod, label::FAILURE);
    }

    /// Takes back a pod that has to be decided anew: it is active at once, at its old rank, and nothing failed.
    ///
    /// Of a pod that came anew in the meantime, the new record stays.
    pub fn activate(&mut self, now: Time, mut pod: QueuedPod) {
        if self.contains(&pod.pod.uid) {
            return;
        }
        pod.absolve();
        pod.gate = None;
        self.counters.came(Place::Active, label::FORCE_ACTIVATE);
        self.put_active(now, pod);
    }

    /// From now on PreEnqueue of `plugin` keeps the pod from being tried. As upstream has it, it waits for its event
    /// where it is, and the event that wakes it only puts it behind the gate.
    pub fn keep_back(&mut self, uid: &Uid, plugin: PluginName) {
        self.held.insert(Arc::clone(uid), plugin);
    }

    /// The plugin that keeps the pod from being tried, if one does.
    pub fn kept_back_by(&self, uid: &str) -> Option<PluginName> {
        self.held.get(uid).copied()
    }

    /// The pod is kept back no longer. If something woke it in the meantime, it is queued.
    pub fn let_go(&mut self, now: Time, uid: &str) {
        if let Some(plugin) = self.held.remove(uid)
            && let Some(pod) = self.take_gated_by(uid, plugin)
        {
            self.requeue(now, pod, label::FORCE_ACTIVATE);
        }
    }

    /// Queues a pod that waits for an event, as one that helps would.
    pub fn rouse(&mut self, now: Time, uid: &str) {
        if let Some(Slot::Unschedulable(_)) = self.slots.get(uid)
            && let Some((_, pod)) = self.take(uid)
        {
            self.requeue(now, pod, label::FORCE_ACTIVATE);
        }
    }

    /// The pod is kept back no longer, because of an error: it sits its backoff out, and is queued whatever it waited for.
    pub fn rouse_later(&mut self, now: Time, uid: &str) {
        let gated = self.held.remove(uid).and_then(|plugin| self.take_gated_by(uid, plugin));
        let pod = match self.slots.get(uid) {
            Some(Slot::Unschedulable(_)) => self.take(uid).map(|(_, pod)| pod),
            _ => gated,
        };
        let Some(mut pod) = pod else { return };
        self.counters.unblame(&pod);
        pod.absolve();
        pod.consecutive_errors = pod.unschedulable_count.max(1);
        self.come_back(now, &mut pod);
        self.requeue(now, pod, label::FORCE_ACTIVATE);
    }

    /// Takes out a pod that waits behind this gate, and takes the gate away.
    fn take_gated_by(&mut self, uid: &str, plugin: PluginName) -> Option<QueuedPod> {
        if self.get(uid)?.gate != Some(plugin) {
            return None;
        }
        let (_, mut pod) = self.take(uid)?;
        self.counters.unblame(&pod);
        pod.gate = None;
        pod.rejectors.remove(plugin);
        self.counters.blame(&pod);
        Some(pod)
    }

    /// Asks the rejecting plugins that hear `event` whether it is worth an attempt, once for all unschedulable pods that
    /// wait for the same, and queues the pods of which one plugin says so: as active, or with the rest of their backoff.
    /// Gated pods are not looked at.
    pub fn move_all(
        &mut self,
        now: Time,
        event: &ClusterEvent<'_>,
        hears: &dyn Fn(PluginName) -> bool,
        wakes: &mut dyn FnMut(PluginName, &PodInfo) -> Hint,
    ) {
        let woken = match event {
            ClusterEvent::UnschedulableTimeout => self.unschedulable.take_all(),
            _ => self.unschedulable.take_woken(hears, wakes),
        };
        for pod in woken {
            if pod.timestamp == now && mutation::is_on(Mutation::EventInFlightLost) {
                self.put_unschedulable(pod);
                continue;
            }
            self.requeue(now, pod, event.label());
        }
    }

    /// Does what time alone brings about: ends backoffs, and queues pods that have waited too long for an event.
    pub fn tick(&mut self, now: Time) {
        while let Some(pod) = self.backoff.pop_expired(now) {
            self.counters.came(Place::Active, label::BACKOFF_COMPLETE);
            self.put_active(now, pod);
        }
        if now >= self.next_flush {
            self.flush(now);
        }
    }

    /// When [`tick`](Self::tick) is to be called next, at `now` or later; `None` when no pod waits for a time.
    pub fn next_wakeup(&self, now: Time) -> Option<Time> {
        let flush = (!self.unschedulable.is_empty()).then_some(self.next_flush);
        self.backoff.next_end().into_iter().chain(flush).min().map(|time| time.max(now))
    }

    /// All waiting pods and where each of them is, place by place, and within a place in its order.
    pub fn waiting(&self) -> impl Iterator<Item = (Place, &QueuedPod)> {
        let active = self.active.iter().map(|pod| (Place::Active, pod));
        let backoff = self.backoff.iter().map(|pod| (Place::Backoff, pod));
        let unschedulable = self.unschedulable.iter().map(|pod| (Place::Unschedulable, pod));
        let gated = self.gated.iter().map(|pod| (Place::Gated, pod));
        active.chain(backoff).chain(unschedulable).chain(gated)
    }

    /// When a pod that waits at this place is tried at the latest: when its backoff is over, or when it has waited too long for an event. `None` where no time
    /// brings that about.
    pub fn next_try(&self, place: Place, pod: &QueuedPod) -> Option<Time> {
        match place {
            Place::Active | Place::Gated => None,
            Place::Backoff => self.backoff_policy.expiry(pod).map(backoff::end),
            Place::Unschedulable => {
                let overdue = pod.timestamp + self.max_in_unschedulable;
                let looks = overdue.since(self.next_flush).as_nanos() / FLUSH_PERIOD.as_nanos();
                // It is looked for now and then, and has to have waited longer.
                let looks = if overdue < self.next_flush { 0 } else { looks + 1 };
                Some(self.next_flush + FLUSH_PERIOD * u32::try_from(looks).unwrap_or(u32::MAX))
            }
        }
    }

    /// How many pods wait.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no pod waits.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The queue in numbers.
    pub fn stats(&self) -> QueueStats {
        let pending = Place::ALL.map(|place| (place, self.pending(place)));
        QueueStats {
            pending: pending.into_iter().collect(),
            groups: self.unschedulable.groups(),
            unschedulable: self.counters.unschedulable.clone(),
            incoming: self.counters.incoming.clone(),
        }
    }

    fn pending(&self, place: Place) -> usize {
        match place {
            Place::Active => self.active.len(),
            Place::Backoff => self.backoff.len(),
            Place::Unschedulable => self.unschedulable.len(),
            Place::Gated => self.gated.len(),
        }
    }

    /// Queues the pods that have waited too long for an event.
    ///
    /// As upstream's, the next check comes a period after this one, not after the time this one was due: a pod that
    /// fails right after a check is then overdue at the tenth after it, not at the eleventh. With nothing to check the
    /// phase stays as it is, because nobody has to wake for that.
    fn flush(&mut self, now: Time) {
        let late = now.since(self.next_flush);
        self.next_flush = if self.unschedulable.is_empty() {
            let into_period = late.as_nanos() % FLUSH_PERIOD.as_nanos();
            now + (FLUSH_PERIOD
                - Duration::from_nanos(u64::try_from(into_period).expect("is below the period")))
        } else {
            now + FLUSH_PERIOD
        };
        for mut pod in self.unschedulable.take_overdue(now, self.max_in_unschedulable) {
            pod.was_flushed = true;
            self.requeue(now, pod, ClusterEvent::UnschedulableTimeout.label());
        }
    }

    /// Takes in a pod under a fresh record.
    fn enter(&mut self, now: Time, pod: Arc<PodInfo>, gate: Option<PluginName>, event: &'static str) {
        let mut pod = QueuedPod::new(pod, gate);
        self.come_back(now, &mut pod);
        if gate.is_some() {
            self.hold(pod, event);
        } else {
            self.requeue(now, pod, event);
        }
    }

    /// Gives a pod that comes from outside its rank, and counts it under its rejectors.
    fn come_back(&mut self, now: Time, pod: &mut QueuedPod) {
        pod.timestamp = now;
        pod.sequence = self.next_sequence;
        pod.was_flushed = false;
        self.next_sequence += 1;
        self.counters.blame(pod);
    }

    /// Makes a pod active, or lets it back off as long as it still has to; one that is kept back goes behind its gate.
    fn requeue(&mut self, now: Time, mut pod: QueuedPod, event: &'static str) {
        if let Some(&plugin) = self.held.get(&pod.pod.uid) {
            self.counters.unblame(&pod);
            pod.gate = Some(plugin);
            pod.rejectors.insert(plugin);
            self.counters.blame(&pod);
            return self.hold(pod, event);
        }
        match self.backoff_policy.unexpired(&pod, now) {
            Some(expiry) => {
                self.counters.came(Place::Backoff, event);
                self.put_backoff(expiry, pod);
            }
            None => {
                self.counters.came(Place::Active, event);
                self.put_active(now, pod);
            }
        }
    }

    /// Puts a pod that did not wait for an event before behind its gate.
    fn hold(&mut self, pod: QueuedPod, event: &'static str) {
        self.counters.came(Place::Unschedulable, event);
        self.put_gated(pod);
    }

    /// Takes a record out of its place. It is still counted under its rejectors.
    fn take(&mut self, uid: &str) -> Option<(Slot, QueuedPod)> {
        let slot = self.slots.remove(uid)?;
        let pod = match &slot {
            Slot::Active(order) => self.active.remove(order),
            Slot::Backoff(order) => self.backoff.remove(order),
            Slot::Unschedulable(sequence) => self.unschedulable.remove(*sequence),
            Slot::Gated(sequence) => self.gated.remove(*sequence),
        };
        Some((slot, pod.expect("a slot leads to a pod")))
    }
}

/// The label of what set a gated pod free: its last gate is gone, or else whatever was noticed first.
fn release_label(events: &[ClusterEvent<'_>]) -> &'static str {
    let is_release = |event: &&ClusterEvent<'_>| {
        matches!(event, ClusterEvent::OwnPod { action: PodAction::UpdateGatesEliminated, .. })
    };
    let event = events.iter().find(is_release).or_else(|| events.first());
    event.map_or(label::UPDATE, ClusterEvent::label)
}

holds_ids!(SchedulingQueue { active, backoff, unschedulable, gated, counters } but not {
    backoff_policy, max_in_unschedulable, slots, held, next_sequence, next_flush, unmarked
});
