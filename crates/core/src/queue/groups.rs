//! What a group's cycle needs of the queue: members that are taken along, put back together, and released.

use super::pod::QueuedPod;
use super::stats::SubQueue;
use super::{SchedulingQueue, Slot, label};
use crate::framework::PluginName;
use crate::model::group::GroupKey;
use crate::model::pod::{PodInfo, Uid};
use crate::model::time::Time;
use std::collections::BTreeSet;

impl SchedulingQueue {
    /// Lets an idle scheduler retry groups as often as kube-scheduler does.
    pub(crate) fn retry_groups_always(&mut self) {
        self.limits_groups = false;
    }

    /// Lets pods serve their backoff even if the scheduler is idle.
    pub(crate) fn keep_backoffs(&mut self) {
        self.pops_early = false;
    }

    /// Sets the priority of a group that is one entry of the queue. Without it, members have their own.
    pub(crate) fn set_group_priority(&mut self, key: GroupKey, priority: Option<i32>) {
        match priority {
            Some(priority) => self.group_priorities.insert(key, priority),
            None => self.group_priorities.remove(&key),
        };
    }

    /// Returns the priority of the group of a pod, if the group is one entry of the queue.
    pub(super) fn group_priority(&self, pod: &PodInfo) -> Option<i32> {
        self.group_priorities.get(&pod.group_key()?).copied()
    }

    /// Takes a pod out of the queue together with another member of its group, wherever it is. `gate` is the result of
    /// PreEnqueue now; a pod that is gated stays. So does one that was taken before the end of its backoff and failed
    /// with an error again: otherwise a Binding that is always refused would be sent without end.
    pub(crate) fn take_along(&mut self, now: Time, uid: &str, gate: Option<PluginName>) -> Option<QueuedPod> {
        let is_early = matches!(self.slots.get(uid), Some(Slot::Backoff(_)));
        if is_early && self.get(uid).is_some_and(|pod| pod.was_early && pod.consecutive_errors > 0) {
            return None;
        }
        let mut pod = self.take_ungated(uid, gate)?;
        pod.was_early = is_early && self.limits_groups;
        pod.initial_attempt.get_or_insert(now);
        Some(self.popped(pod))
    }

    /// Makes a waiting pod active, unless `gate` rejects it.
    pub(crate) fn activate_waiting(&mut self, now: Time, uid: &str, gate: Option<PluginName>) {
        if matches!(self.slots.get(uid), Some(Slot::Active(_)) | None) {
            return;
        }
        if let Some(pod) = self.take_ungated(uid, gate) {
            self.counters.count_incoming(SubQueue::Active, label::FORCE_ACTIVATE);
            self.insert_active(now, pod);
        }
    }

    /// Takes out a pod. One that is neither active nor in backoff must pass PreEnqueue again.
    fn take_ungated(&mut self, uid: &str, gate: Option<PluginName>) -> Option<QueuedPod> {
        let was_checked = matches!(self.slots.get(uid)?, Slot::Active(_) | Slot::Backoff(_));
        if !was_checked && (gate.is_some() || self.blocked.contains_key(uid)) {
            return None;
        }
        self.take_from_gate(uid)
    }

    fn take_from_gate(&mut self, uid: &str) -> Option<QueuedPod> {
        let (_, mut pod) = self.take(uid)?;
        if let Some(gate) = pod.gate.take() {
            self.counters.uncount_rejectors(&pod);
            pod.rejectors.remove(gate);
            self.counters.count_rejectors(&pod);
        }
        Some(pod)
    }

    /// Requeues gated pods whose gate is open now, in the order in which they came. A blocked pod goes behind the gate
    /// of the plugin that blocks it.
    pub(crate) fn release_gated(&mut self, now: Time, uids: &[Uid]) {
        let mut pods: Vec<QueuedPod> = Vec::new();
        for uid in uids {
            let gate = self.get(uid).and_then(|pod| pod.gate);
            if gate.is_none() || gate != self.blocked_by(uid) {
                pods.extend(self.take_from_gate(uid));
            }
        }
        pods.sort_by_key(|pod| pod.sequence);
        for pod in pods {
            self.requeue(now, pod, label::FORCE_ACTIVATE);
        }
    }

    /// Makes a pod that came back active at once, as if it had arrived at this rank: that of its group, which started.
    /// Its backoff begins anew.
    pub(crate) fn retry_at_once(&mut self, now: Time, uid: &str, rank: (Time, u64)) {
        if let Some(Slot::Backoff(_)) = self.slots.get(uid)
            && let Some((_, mut pod)) = self.take(uid)
        {
            (pod.timestamp, pod.rank) = rank;
            pod.unschedulable_count = 0;
            pod.consecutive_errors = 0;
            self.counters.count_incoming(SubQueue::Active, label::FAILURE);
            self.insert_active(now, pod);
        }
    }

    /// Lets a new pod wait out the backoff of another member of its group.
    pub(crate) fn follow(&mut self, now: Time, uid: &str, other: &str) {
        if let Some(Slot::Active(_)) = self.slots.get(uid)
            && let Some((SubQueue::Backoff, other)) = self.sub_queue_of(other)
        {
            let (timestamp, was_early) = (other.timestamp, other.was_early);
            let counts = (other.unschedulable_count, other.consecutive_errors);
            let Some((_, mut pod)) = self.take(uid) else { return };
            (pod.timestamp, pod.was_early) = (timestamp, was_early);
            (pod.unschedulable_count, pod.consecutive_errors) = counts;
            self.requeue(now, pod, label::FORCE_ACTIVATE);
        }
    }

    /// Puts a pod behind a gate that was closed after it passed, or instead of an earlier gate. With `anew`, its
    /// backoff begins anew.
    pub(crate) fn hold_back(&mut self, uid: &str, gate: PluginName, anew: bool) {
        if self.get(uid).is_none_or(|pod| pod.gate == Some(gate)) {
            return;
        }
        let Some((_, mut pod)) = self.take(uid) else { return };
        self.counters.uncount_rejectors(&pod);
        if let Some(earlier) = pod.gate.replace(gate) {
            pod.rejectors.remove(earlier);
        }
        pod.rejectors.insert(gate);
        if anew {
            pod.unschedulable_count = 0;
            pod.consecutive_errors = 0;
        }
        self.counters.count_rejectors(&pod);
        self.hold(pod, label::FORCE_ACTIVATE);
    }

    /// Puts back a pod that plugins rejected, to be retried after its backoff whatever happens. It is gated if there is
    /// a `gate`.
    pub(crate) fn return_after_backoff(
        &mut self,
        now: Time,
        pod: QueuedPod,
        rejectors: BTreeSet<PluginName>,
        gate: Option<PluginName>,
    ) {
        if let Some(pod) = self.come_back_rejected(now, pod, rejectors, gate) {
            self.requeue(now, pod, label::FAILURE);
        }
    }
}
