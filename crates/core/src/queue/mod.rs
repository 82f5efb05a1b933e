//! The scheduling queue: orders pending pods for attempts, and requeues pods after failed attempts.
//!
//! Each pod in the queue is in exactly one place: active, backoff, unschedulable or gated. The queue reads neither
//! the cluster nor the plugins; the caller supplies PreEnqueue results and queueing hints. Upstream also keeps a list
//! of pods in flight and the events that they missed. This queue needs none, because no event is handled during a
//! decision.
//!
//! Upstream: `pkg/scheduler/backend/queue`.

mod active;
mod backoff;
mod gated;
mod groups;
mod insert;
mod pod;
mod rebuild;
mod reconsider;
mod stats;
mod unschedulable;

pub use pod::{QueuedPod, Search};
pub use reconsider::QueueDecision;
pub use stats::{QueueStats, SubQueue};

use crate::collections::hash::{FixedMap, Keyed};
use crate::framework::{ClusterEvent, Hint, PluginName, PodAction, pending_pod_label};
use crate::model::emulation::VersionRules;
use crate::model::group::GroupKey;
use crate::model::intern::trace_ids;
use crate::model::pod::{PodInfo, Uid};
use crate::model::time::Time;
use crate::switches::mutation::{self, Mutation};
use active::ActiveQueue;
use backoff::{BackoffOrder, BackoffPolicy, BackoffQueue};
use gated::GatedPods;
use insert::WriteBarrier;
use pod::ActiveOrder;
use stats::Counters;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use unschedulable::Unschedulable;

/// Event labels for moves that no cluster event causes.
mod label {
    pub(super) const FAILURE: &str = "ScheduleAttemptFailure";
    pub(super) const BACKOFF_COMPLETE: &str = "BackoffComplete";
    pub(super) const POP_FROM_BACKOFF: &str = "PopFromBackoffQ";
    pub(super) const RECONFIGURED: &str = "ConfigurationChange";
    pub(super) const FORCE_ACTIVATE: &str = "ForceActivate";
}

/// The interval of the five-minute flush: how often the queue searches for overdue pods.
const FLUSH_PERIOD: Duration = Duration::from_secs(30);

/// The delays of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// The backoff after the first failure (`podInitialBackoffSeconds`). It doubles with each further failure.
    pub initial_backoff: Duration,
    /// The maximum backoff (`podMaxBackoffSeconds`); zero disables backoff.
    pub max_backoff: Duration,
    /// How long an unschedulable pod waits for an event before it is retried
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

/// The location of a pod's record.
#[derive(Clone, Copy)]
enum Slot {
    Active(ActiveOrder),
    Backoff(BackoffOrder),
    Unschedulable(u64),
    Gated(u64),
}

/// The scheduling queue.
///
/// The times passed to its methods must not decrease.
pub struct SchedulingQueue {
    backoff_policy: BackoffPolicy,
    max_in_unschedulable: Duration,
    active: ActiveQueue,
    backoff: BackoffQueue,
    unschedulable: Unschedulable,
    gated: GatedPods,
    slots: FixedMap<Uid, Slot>,
    /// Pods whose attempts are blocked, each with the PreEnqueue plugin that blocks it.
    blocked: FixedMap<Uid, PluginName>,
    next_sequence: u64,
    next_flush: Time,
    counters: Counters,
    barrier: WriteBarrier,
    rules: VersionRules,
    /// Whether an idle scheduler takes pods before their backoff ends.
    pops_early: bool,
    /// Whether it takes the members of a group so at most once in a backoff.
    limits_groups: bool,
    /// The priorities of groups that are entries of the queue.
    group_priorities: BTreeMap<GroupKey, i32>,
}

impl SchedulingQueue {
    /// Creates an empty queue. The first flush is due one period after `now`.
    pub fn new(config: QueueConfig, now: Time) -> Self {
        Self {
            backoff_policy: BackoffPolicy { initial: config.initial_backoff, max: config.max_backoff },
            max_in_unschedulable: config.max_in_unschedulable,
            active: ActiveQueue::default(),
            backoff: BackoffQueue::default(),
            unschedulable: Unschedulable::default(),
            gated: GatedPods::default(),
            slots: FixedMap::default(),
            blocked: FixedMap::default(),
            next_sequence: 0,
            next_flush: now + FLUSH_PERIOD,
            counters: Counters::default(),
            barrier: WriteBarrier::default(),
            rules: VersionRules::default(),
            pops_early: true,
            limits_groups: true,
            group_priorities: BTreeMap::new(),
        }
    }

    /// Sets the rules of the version of kube-scheduler to behave as.
    pub(crate) fn emulate(&mut self, rules: VersionRules) {
        self.rules = rules;
    }

    /// Sets the hashing for keys that users control. Must be called while the queue is empty.
    #[must_use]
    pub(crate) fn hashed_by(mut self, hashing: &Keyed) -> Self {
        self.unschedulable = Unschedulable::hashed_by(hashing.clone());
        self
    }

    /// Adds a pod with a new record. An existing record with the same uid is dropped.
    ///
    /// `gate` is the PreEnqueue plugin that keeps the pod out of the active queue, if any.
    pub fn add(&mut self, now: Time, pod: Arc<PodInfo>, gate: Option<PluginName>) {
        self.remove(&pod.uid);
        self.enter(now, pod, gate, pending_pod_label(PodAction::Add, self.rules));
    }

    /// Updates a pending pod. An unknown pod is added.
    ///
    /// `gate` is the result of PreEnqueue for the updated pod. A gated pod is requeued if it is `None`. For an
    /// unschedulable pod, each of `events` (changes of the pod itself) is passed to the queueing hints of its
    /// rejecting plugins, until one returns [`Hint::Queue`]. All other pods keep their place.
    pub fn update(
        &mut self,
        now: Time,
        pod: Arc<PodInfo>,
        gate: Option<PluginName>,
        events: &[ClusterEvent<'_>],
        wakes: &mut dyn FnMut(&ClusterEvent<'_>, PluginName, &PodInfo) -> Hint,
    ) {
        let Some((slot, mut queued)) = self.take(&pod.uid) else {
            // A version that splits the events of pods counts it as added.
            let action = if self.rules.splits_pod_events { PodAction::Add } else { PodAction::Update };
            return self.enter(now, pod, gate, pending_pod_label(action, self.rules));
        };
        self.counters.uncount_rejectors(&queued);
        queued.pod = pod;
        queued.gate = gate;
        queued.rejectors.extend(gate);
        self.counters.count_rejectors(&queued);
        match slot {
            Slot::Unschedulable(_) | Slot::Gated(_) if gate.is_some() => self.insert_gated(queued),
            Slot::Active(_) | Slot::Backoff(_) if gate.is_some() => {
                self.hold(queued, release_label(events, self.rules));
            }
            Slot::Active(_) => self.insert_active(now, queued),
            Slot::Backoff(order) => self.insert_backoff(order.expiry(), queued),
            Slot::Gated(_) => self.requeue(now, queued, release_label(events, self.rules)),
            Slot::Unschedulable(_) => {
                let mut helps = |event: &ClusterEvent<'_>| {
                    queued
                        .requeuing_plugins()
                        .iter()
                        .any(|plugin| wakes(event, plugin, &queued.pod) == Hint::Queue)
                };
                match events.iter().find(|event| helps(event)) {
                    Some(event) => self.requeue(now, queued, event.label(self.rules)),
                    None => self.insert_unschedulable(queued),
                }
            }
        }
    }

    /// Removes a pod, and returns whether the queue contained it.
    pub fn remove(&mut self, uid: &str) -> bool {
        let taken = self.take(uid);
        if let Some((_, pod)) = &taken
            && !mutation::is_on(Mutation::GaugesIgnoreDeletedPods)
        {
            self.counters.uncount_rejectors(pod);
        }
        taken.is_some()
    }

    /// Whether the queue contains the pod.
    pub fn contains(&self, uid: &str) -> bool {
        self.slots.contains_key(uid)
    }

    /// Returns the record of a pod.
    pub fn get(&self, uid: &str) -> Option<&QueuedPod> {
        match self.slots.get(uid)? {
            Slot::Active(order) => self.active.get(order),
            Slot::Backoff(order) => self.backoff.get(order),
            Slot::Unschedulable(sequence) => self.unschedulable.get(*sequence),
            Slot::Gated(sequence) => self.gated.get(*sequence),
        }
    }

    /// Returns the record of a pod and the place of the pod.
    pub fn sub_queue_of(&self, uid: &str) -> Option<(SubQueue, &QueuedPod)> {
        let place = match self.slots.get(uid)? {
            Slot::Active(_) => SubQueue::Active,
            Slot::Backoff(_) => SubQueue::Backoff,
            Slot::Unschedulable(_) => SubQueue::Unschedulable,
            Slot::Gated(_) => SubQueue::Gated,
        };
        Some((place, self.get(uid)?))
    }

    /// Takes the next pod to attempt out of the queue.
    ///
    /// If no pod is active, takes the rejected pod whose backoff ends first, since it delays no other pod. A pod that
    /// failed with an error always serves its full backoff.
    pub fn pop(&mut self, now: Time) -> Option<QueuedPod> {
        self.tick(now);
        let pod = self.active.pop().map(QueuedPod::on_time).or_else(|| self.pop_early())?;
        Some(self.popped(pod))
    }

    /// Takes the next pod for which `may_go` returns true out of the queue. The other pods keep their places.
    ///
    /// `may_go` must depend only on profile, class and priority. If it accepts a pod, it must also accept every pod
    /// of the same profile and class with a higher priority. Therefore it is called only for the first pod of each
    /// profile and class.
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
            Some(order) => self.active.remove(&order).map(QueuedPod::on_time),
            None if self.active.len() == 0 && self.backoff.next_early().is_some_and(may_go_early) => {
                self.pop_early()
            }
            None => None,
        };
        pod.map(|pod| self.popped(pod))
    }

    fn pop_early(&mut self) -> Option<QueuedPod> {
        if !self.pops_early {
            return None;
        }
        let mut early = self.backoff.pop_early()?;
        early.was_early = early.pod.group.is_some() && self.limits_groups;
        self.counters.count_incoming(SubQueue::Active, label::POP_FROM_BACKOFF);
        Some(early)
    }

    fn popped(&mut self, mut pod: QueuedPod) -> QueuedPod {
        self.slots.remove(&pod.pod.uid);
        self.counters.uncount_rejectors(&pod);
        pod.clear_rejectors();
        pod.attempts = pod.attempts.saturating_add(1);
        pod
    }

    /// Puts back a pod that plugins rejected. It becomes unschedulable, or gated if there is a `gate`.
    ///
    /// Without any rejecting plugin this is an error, as in [`Self::return_error`]. If the pod was added again in the
    /// meantime, the new record stays.
    pub fn return_unschedulable(
        &mut self,
        now: Time,
        pod: QueuedPod,
        rejectors: BTreeSet<PluginName>,
        gate: Option<PluginName>,
    ) {
        if rejectors.is_empty() && gate.is_none() {
            return self.return_error(now, pod);
        }
        if let Some(pod) = self.come_back_rejected(now, pod, rejectors, gate) {
            self.counters.count_incoming(SubQueue::Unschedulable, label::FAILURE);
            self.insert_unschedulable(pod);
        }
    }

    /// Puts back a pod whose attempt or binding failed with an error. It goes to backoff, which no event shortens.
    ///
    /// If the pod was added again in the meantime, the new record stays.
    pub fn return_error(&mut self, now: Time, mut pod: QueuedPod) {
        if pod.unschedulable_count > 0 && mutation::is_on(Mutation::EarlierRejectorsKept) {
            return self.return_unschedulable(now, pod, ["NodeResourcesFit"].into(), None);
        }
        if self.contains(&pod.pod.uid) {
            return;
        }
        pod.consecutive_errors = pod.consecutive_errors.saturating_add(1);
        pod.clear_rejectors();
        pod.gate = None;
        self.come_back(now, &mut pod);
        self.requeue(now, pod, label::FAILURE);
    }

    /// Puts back a pod that needs a new decision. It becomes active at its old rank, unless `gate` now rejects it. This
    /// does not count as a failure.
    ///
    /// If the pod was added again in the meantime, the new record stays.
    pub fn activate(&mut self, now: Time, mut pod: QueuedPod, gate: Option<PluginName>) {
        if self.contains(&pod.pod.uid) {
            return;
        }
        pod.clear_rejectors();
        pod.gate = gate;
        if let Some(gate) = gate {
            pod.rejectors.extend([gate]);
            self.counters.count_rejectors(&pod);
            return self.hold(pod, label::FORCE_ACTIVATE);
        }
        self.counters.count_incoming(SubQueue::Active, label::FORCE_ACTIVATE);
        self.insert_active(now, pod);
    }

    /// Blocks attempts of a pod, as if PreEnqueue of `plugin` rejected it. As upstream, an unschedulable pod stays in
    /// its place, and an event that requeues it only makes it gated.
    pub fn block(&mut self, uid: &Uid, plugin: PluginName) {
        self.blocked.insert(Arc::clone(uid), plugin);
    }

    /// Returns the plugin that blocks attempts of the pod, if any.
    pub fn blocked_by(&self, uid: &str) -> Option<PluginName> {
        self.blocked.get(uid).copied()
    }

    /// Unblocks a pod. If an event made it gated in the meantime, it is requeued.
    pub fn unblock(&mut self, now: Time, uid: &str) {
        let Some(plugin) = self.blocked.remove(uid) else { return };
        match self.take_gated_by(uid, plugin) {
            Some(pod) => self.requeue(now, pod, label::FORCE_ACTIVATE),
            None => self.look_at_claims(uid, now),
        }
    }

    /// Requeues an unschedulable pod as a matching event would.
    pub fn requeue_now(&mut self, now: Time, uid: &str) {
        if let Some(Slot::Unschedulable(_)) = self.slots.get(uid)
            && let Some((_, pod)) = self.take(uid)
        {
            self.requeue(now, pod, label::FORCE_ACTIVATE);
        }
    }

    /// Unblocks a pod after an error: it is requeued and serves its backoff, whichever event it waited for.
    pub fn requeue_after_backoff(&mut self, now: Time, uid: &str) {
        let gated = self.blocked.remove(uid).and_then(|plugin| self.take_gated_by(uid, plugin));
        let pod = match self.slots.get(uid) {
            Some(Slot::Unschedulable(_)) => self.take(uid).map(|(_, pod)| pod),
            _ => gated,
        };
        let Some(mut pod) = pod else { return };
        self.counters.uncount_rejectors(&pod);
        pod.clear_rejectors();
        pod.consecutive_errors = pod.unschedulable_count.max(1);
        self.come_back(now, &mut pod);
        self.requeue(now, pod, label::FORCE_ACTIVATE);
    }

    /// Takes out a pod that is gated by this plugin, and removes the gate.
    fn take_gated_by(&mut self, uid: &str, plugin: PluginName) -> Option<QueuedPod> {
        if self.get(uid)?.gate != Some(plugin) {
            return None;
        }
        let (_, mut pod) = self.take(uid)?;
        self.counters.uncount_rejectors(&pod);
        pod.gate = None;
        pod.rejectors.remove(plugin);
        self.counters.count_rejectors(&pod);
        Some(pod)
    }

    /// Requeues the unschedulable pods for which a rejecting plugin returns [`Hint::Queue`] for `event`.
    ///
    /// Only plugins that registered for the event (`hears`) are called, once for each group of pods that wait for the
    /// same. A requeued pod becomes active, or serves the rest of its backoff. Gated pods are not requeued.
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
            if pod.timestamp == now && mutation::is_on(Mutation::EventDuringAttemptLost) {
                self.insert_unschedulable(pod);
                continue;
            }
            self.requeue(now, pod, event.label(self.rules));
        }
    }

    /// Applies what depends on time alone: ends backoffs, and flushes overdue unschedulable pods.
    pub fn tick(&mut self, now: Time) {
        while let Some(pod) = self.backoff.pop_expired(now) {
            self.counters.count_incoming(SubQueue::Active, label::BACKOFF_COMPLETE);
            self.insert_active(now, pod);
        }
        if now >= self.next_flush {
            self.flush(now);
        }
    }

    /// Returns when to call [`tick`](Self::tick) next, at `now` or later; `None` if no pod waits for a time.
    pub fn next_wakeup(&self, now: Time) -> Option<Time> {
        let flush = (!self.unschedulable.is_empty()).then_some(self.next_flush);
        self.backoff.next_end().into_iter().chain(flush).min().map(|time| time.max(now))
    }

    /// Returns all pods in the queue with their places: place by place, and within a place in its order.
    pub fn waiting(&self) -> impl Iterator<Item = (SubQueue, &QueuedPod)> {
        let active = self.active.iter().map(|pod| (SubQueue::Active, pod));
        let backoff = self.backoff.iter().map(|pod| (SubQueue::Backoff, pod));
        let unschedulable = self.unschedulable.iter().map(|pod| (SubQueue::Unschedulable, pod));
        let gated = self.gated().map(|pod| (SubQueue::Gated, pod));
        active.chain(backoff).chain(unschedulable).chain(gated)
    }

    /// Returns the latest time of the pod's next attempt in this place: the end of its backoff, or the flush that
    /// finds it overdue. `None` if time alone does not requeue it.
    pub fn next_try(&self, place: SubQueue, pod: &QueuedPod) -> Option<Time> {
        match place {
            SubQueue::Active | SubQueue::Gated => None,
            SubQueue::Backoff => self.backoff_policy.expiry(pod).map(backoff::end),
            SubQueue::Unschedulable => {
                let overdue = pod.timestamp + self.max_in_unschedulable;
                let looks = overdue.since(self.next_flush).as_nanos() / FLUSH_PERIOD.as_nanos();
                // A flush takes pods that have waited longer than the limit, not exactly as long.
                let looks = if overdue < self.next_flush { 0 } else { looks + 1 };
                Some(self.next_flush + FLUSH_PERIOD * u32::try_from(looks).unwrap_or(u32::MAX))
            }
        }
    }

    /// Returns the number of pods in the queue.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns sizes and counters.
    pub fn stats(&self) -> QueueStats {
        let pending = SubQueue::ALL.map(|place| (place, self.pending(place)));
        QueueStats {
            pending: pending.into_iter().collect(),
            groups: self.unschedulable.groups(),
            unschedulable: self.counters.unschedulable.clone(),
            incoming: self.counters.incoming.clone(),
        }
    }

    fn pending(&self, place: SubQueue) -> usize {
        match place {
            SubQueue::Active => self.active.len(),
            SubQueue::Backoff => self.backoff.len(),
            SubQueue::Unschedulable => self.unschedulable.len(),
            SubQueue::Gated => self.gated.len(),
        }
    }

    /// Requeues overdue unschedulable pods.
    ///
    /// As upstream, the next flush follows one period after this one, not one period after the time this one was due.
    /// A pod that fails right after a flush is therefore overdue at the tenth flush after it, not at the eleventh. If
    /// there is nothing to flush, the phase is kept, so that the engine need not wake up for it.
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
            self.requeue(now, pod, ClusterEvent::UnschedulableTimeout.label(self.rules));
        }
    }

    /// Adds a pod with a new record.
    fn enter(&mut self, now: Time, pod: Arc<PodInfo>, gate: Option<PluginName>, event: &'static str) {
        let mut pod = QueuedPod::new(pod, gate);
        self.come_back(now, &mut pod);
        if gate.is_some() {
            self.hold(pod, event);
        } else {
            self.requeue(now, pod, event);
        }
    }

    /// Sets timestamp and sequence number of a pod that enters the queue, and counts it under its rejectors.
    fn come_back(&mut self, now: Time, pod: &mut QueuedPod) {
        pod.timestamp = now;
        pod.sequence = self.next_sequence;
        pod.rank = pod.sequence;
        pod.was_flushed = false;
        pod.reverts = 0;
        self.next_sequence += 1;
        self.counters.count_rejectors(pod);
    }

    /// Makes a pod active, or puts it in backoff until its backoff ends. A blocked pod becomes gated.
    fn requeue(&mut self, now: Time, mut pod: QueuedPod, event: &'static str) {
        if let Some(&plugin) = self.blocked.get(&pod.pod.uid) {
            self.counters.uncount_rejectors(&pod);
            pod.gate = Some(plugin);
            pod.rejectors.insert(plugin);
            self.counters.count_rejectors(&pod);
            return self.hold(pod, event);
        }
        match self.backoff_policy.unexpired(&pod, now) {
            Some(expiry) => {
                self.counters.count_incoming(SubQueue::Backoff, event);
                self.insert_backoff(expiry, pod);
            }
            None => {
                self.counters.count_incoming(SubQueue::Active, event);
                self.insert_active(now, pod);
            }
        }
    }

    /// Puts a pod that was not in the unschedulable pool behind its gate.
    fn hold(&mut self, pod: QueuedPod, event: &'static str) {
        self.counters.count_incoming(SubQueue::Unschedulable, event);
        self.insert_gated(pod);
    }

    /// Takes a record out of its place. The pod still counts under its rejectors.
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

/// Returns the label for a released pod: the removal of its last gate if there is one, otherwise the first event.
fn release_label(events: &[ClusterEvent<'_>], rules: VersionRules) -> &'static str {
    let is_release = |event: &&ClusterEvent<'_>| {
        matches!(event, ClusterEvent::OwnPod { action: PodAction::UpdateGatesEliminated, .. })
    };
    let event = events.iter().find(is_release).or_else(|| events.first());
    event.map_or(pending_pod_label(PodAction::Update, rules), |event| event.label(rules))
}

trace_ids!(SchedulingQueue { active, backoff, unschedulable, gated, counters, group_priorities } but not {
    backoff_policy, max_in_unschedulable, slots, blocked, next_sequence, next_flush, barrier,
    rules, pops_early, limits_groups
});
