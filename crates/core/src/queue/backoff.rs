//! Pods that wait for a time, not for an event: the arithmetic of the backoff and the two heaps behind "backoffQ".
//!
//! Upstream: `pkg/scheduler/backend/queue/backoff_queue.go`. Backoffs end on whole seconds, so that all pods of one
//! second come back together and compete by priority (KEP-5142).

use super::pod::{ActiveOrder, QueuedPod};
use crate::intern::{HoldsIds, Marks, Work, mark_after};
use crate::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// All backoffs that expire within one second end together, at the end of that second.
const WINDOW: Duration = Duration::from_secs(1);

/// How long pods back off.
#[derive(Clone, Copy)]
pub(super) struct BackoffPolicy {
    pub(super) initial: Duration,
    pub(super) max: Duration,
}

impl BackoffPolicy {
    /// The whole second in which the pod's backoff expires; `None` when it has none.
    pub(super) fn expiry(&self, pod: &QueuedPod) -> Option<Time> {
        let failures =
            if pod.consecutive_errors > 0 { pod.consecutive_errors } else { pod.unschedulable_count };
        if failures == 0 || self.max.is_zero() {
            return None;
        }
        Some((pod.timestamp + self.duration(failures)).truncate_to_second())
    }

    /// The second in which the pod's backoff expires, as long as that second is not over.
    pub(super) fn unexpired(&self, pod: &QueuedPod, now: Time) -> Option<Time> {
        self.expiry(pod).filter(|&expiry| !is_over(expiry, now))
    }

    fn duration(&self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.initial.saturating_mul(factor).min(self.max)
    }
}

/// When a backoff that expires in this second is over.
pub(super) fn end(expiry: Time) -> Time {
    expiry + WINDOW
}

fn is_over(expiry: Time, now: Time) -> bool {
    expiry < now.truncate_to_second()
}

/// Where a pod stands in the backoff queue.
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

/// Pods that back off.
#[derive(Default)]
pub(super) struct BackoffQueue {
    /// Rejected by plugins (upstream `podBackoffQ`); an idle scheduler takes from it early.
    rejected: BTreeMap<BackoffOrder, QueuedPod>,
    /// Failed with no plugin to blame (upstream `podErrorBackoffQ`); sits its time out.
    failed: BTreeMap<BackoffOrder, QueuedPod>,
    /// Up to these they are marked, but for those that were put here since the round began.
    marked: [Option<BackoffOrder>; 2],
}

impl BackoffQueue {
    pub(super) fn insert(&mut self, expiry: Time, pod: QueuedPod) -> BackoffOrder {
        let order = BackoffOrder { expiry, order: pod.order() };
        let heap = if pod.consecutive_errors > 0 { &mut self.failed } else { &mut self.rejected };
        heap.insert(order, pod);
        order
    }

    /// The rejected pod whose backoff expires first, expired or not.
    pub(super) fn pop_early(&mut self) -> Option<QueuedPod> {
        self.rejected.pop_first().map(|(_, pod)| pod)
    }

    /// The pod that [`Self::pop_early`] would give.
    pub(super) fn next_early(&self) -> Option<&QueuedPod> {
        self.rejected.first_key_value().map(|(_, pod)| pod)
    }

    /// A pod whose backoff is over.
    pub(super) fn pop_expired(&mut self, now: Time) -> Option<QueuedPod> {
        [&mut self.rejected, &mut self.failed].into_iter().find_map(|heap| {
            let first = heap.first_entry()?;
            is_over(first.key().expiry, now).then(|| first.remove())
        })
    }

    /// When the next backoff ends.
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

    pub(super) fn begin_round(&mut self) {
        self.marked = [None; 2];
    }

    pub(super) fn mark_some(&mut self, marks: &mut Marks, work: &mut Work) -> bool {
        let heaps = [&self.rejected, &self.failed].into_iter().zip(&mut self.marked);
        heaps
            .fold(true, |all, (heap, marked)| mark_after(heap, marked, work, |_, pod| pod.mark(marks)) && all)
    }

    pub(super) fn len(&self) -> usize {
        self.rejected.len() + self.failed.len()
    }
}

impl HoldsIds for BackoffQueue {
    fn mark(&self, marks: &mut Marks) {
        let Self { rejected, failed, marked: _ } = self;
        rejected.values().chain(failed.values()).for_each(|pod| pod.mark(marks));
    }
}
