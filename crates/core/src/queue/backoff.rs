//! The backoff queue: pods that are retried at a certain time.
//!
//! Upstream: `pkg/scheduler/backend/queue/backoff_queue.go`. Backoffs end on whole seconds, so that all pods of one
//! second become active together and compete by priority (KEP-5142).

use super::pod::{ActiveOrder, QueuedPod};
use crate::model::intern::{Marks, TraceIds, WorkBudget, mark_after};
use crate::model::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// The ordering window: backoffs that expire within one second all end at the end of that second.
const WINDOW: Duration = Duration::from_secs(1);

/// The backoff durations.
#[derive(Clone, Copy)]
pub(super) struct BackoffPolicy {
    pub(super) initial: Duration,
    pub(super) max: Duration,
}

impl BackoffPolicy {
    /// Returns the whole second in which the pod's backoff expires; `None` if it has no backoff.
    pub(super) fn expiry(&self, pod: &QueuedPod) -> Option<Time> {
        let failures =
            if pod.consecutive_errors > 0 { pod.consecutive_errors } else { pod.unschedulable_count };
        if failures == 0 || self.max.is_zero() {
            return None;
        }
        Some((pod.timestamp + self.duration(failures)).truncate_to_second())
    }

    /// Returns the second in which the pod's backoff expires; `None` if that second is over.
    pub(super) fn unexpired(&self, pod: &QueuedPod, now: Time) -> Option<Time> {
        self.expiry(pod).filter(|&expiry| !is_over(expiry, now))
    }

    fn duration(&self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.initial.saturating_mul(factor).min(self.max)
    }
}

/// Returns the time at which a backoff ends that expires in this second.
pub(super) fn end(expiry: Time) -> Time {
    expiry + WINDOW
}

fn is_over(expiry: Time, now: Time) -> bool {
    expiry < now.truncate_to_second()
}

/// The sort key of a pod in backoff.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BackoffOrder {
    expiry: Time,
    order: ActiveOrder,
}

impl BackoffOrder {
    pub(super) fn expiry(&self) -> Time {
        self.expiry
    }
}

/// The pods in backoff.
#[derive(Default)]
pub(super) struct BackoffQueue {
    /// Pods that plugins rejected (upstream `podBackoffQ`). An idle scheduler takes them before their backoff ends.
    rejected: BTreeMap<BackoffOrder, QueuedPod>,
    /// Pods that serve their full backoff: those that failed with an error (upstream `podErrorBackoffQ`), and members
    /// of groups that were retried early already.
    failed: BTreeMap<BackoffOrder, QueuedPod>,
    /// The last pods that the current garbage collection marked. Pods inserted since its start are marked separately.
    marked: [Option<BackoffOrder>; 2],
}

impl BackoffQueue {
    pub(super) fn insert(&mut self, expiry: Time, pod: QueuedPod) -> BackoffOrder {
        let order = BackoffOrder { expiry, order: pod.order() };
        let serves = pod.consecutive_errors > 0 || pod.was_early;
        let heap = if serves { &mut self.failed } else { &mut self.rejected };
        heap.insert(order, pod);
        order
    }

    /// Takes the rejected pod whose backoff expires first, even if it has not expired.
    pub(super) fn pop_early(&mut self) -> Option<QueuedPod> {
        self.rejected.pop_first().map(|(_, pod)| pod)
    }

    /// Returns the pod that [`Self::pop_early`] would take.
    pub(super) fn next_early(&self) -> Option<&QueuedPod> {
        self.rejected.first_key_value().map(|(_, pod)| pod)
    }

    /// Takes a pod whose backoff is over.
    pub(super) fn pop_expired(&mut self, now: Time) -> Option<QueuedPod> {
        [&mut self.rejected, &mut self.failed].into_iter().find_map(|heap| {
            let first = heap.first_entry()?;
            is_over(first.key().expiry, now).then(|| first.remove())
        })
    }

    /// Returns the time at which the next backoff ends.
    pub(super) fn next_end(&self) -> Option<Time> {
        let firsts = [&self.rejected, &self.failed].map(|heap| heap.first_key_value());
        firsts.into_iter().flatten().map(|(order, _)| order.expiry + WINDOW).min()
    }

    pub(super) fn remove(&mut self, order: &BackoffOrder) -> Option<QueuedPod> {
        self.rejected.remove(order).or_else(|| self.failed.remove(order))
    }

    pub(super) fn get(&self, order: &BackoffOrder) -> Option<&QueuedPod> {
        self.rejected.get(order).or_else(|| self.failed.get(order))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &QueuedPod> {
        self.rejected.values().chain(self.failed.values())
    }

    pub(super) fn begin_collection(&mut self) {
        self.marked = [None; 2];
    }

    pub(super) fn mark_some(&mut self, marks: &mut Marks, work: &mut WorkBudget) -> bool {
        let heaps = [&self.rejected, &self.failed].into_iter().zip(&mut self.marked);
        heaps
            .fold(true, |all, (heap, marked)| mark_after(heap, marked, work, |_, pod| pod.mark(marks)) && all)
    }

    pub(super) fn len(&self) -> usize {
        self.rejected.len() + self.failed.len()
    }
}

impl TraceIds for BackoffQueue {
    fn mark(&self, marks: &mut Marks) {
        let Self { rejected, failed, marked: _ } = self;
        rejected.values().chain(failed.values()).for_each(|pod| pod.mark(marks));
    }
}
