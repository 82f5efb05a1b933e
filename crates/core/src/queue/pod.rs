//! The record of a waiting pod and the order of the active queue. Moves nothing.

use crate::framework::PluginName;
use crate::intern::holds_ids;
use crate::pod::PodInfo;
use crate::time::Time;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A pod that waits to be scheduled, and what is known of its attempts (upstream `QueuedPodInfo`).
///
/// The caller holds it between [`pop`](super::SchedulingQueue::pop) and its return, may replace `pod` by a newer object
/// of the same uid, and leaves the counts to the queue.
#[derive(Clone, Debug)]
pub struct QueuedPod {
    /// The pod as it is now.
    pub pod: Arc<PodInfo>,
    /// How often it was popped.
    pub attempts: u32,
    /// When it came to the queue, or last came back from an attempt that failed.
    pub timestamp: Time,
    /// When it first came to the active queue; time behind a gate does not count. Kept ever after.
    pub initial_attempt: Option<Time>,
    /// How many attempts ended with a plugin's rejection; never goes down.
    pub unschedulable_count: u32,
    /// How many attempts since the last rejection ended with an error.
    pub consecutive_errors: u32,
    /// How many of its attempts panicked; the caller's count.
    pub panics: u32,
    /// The plugins that keep it waiting: those that rejected the last attempt, and the one that gates it. Empty once
    /// it is popped.
    pub rejectors: BTreeSet<PluginName>,
    /// The plugins because of which preemption did not help at its last attempt. What they hear of wakes the pod as what its
    /// rejectors hear of does; it is not counted under them. Empty once it is popped.
    pub hindered_by: BTreeSet<PluginName>,
    /// The PreEnqueue plugin that holds it back.
    pub gate: Option<PluginName>,
    /// It was last moved because it had waited too long, not because an event promised anything. If it is scheduled now,
    /// some hint missed a wake-up (`scheduler_pod_scheduled_after_flush_total`).
    pub was_flushed: bool,
    /// The API server was asked to nominate it, as it was about to be bound, and not to take that back since.
    pub nominated: bool,
    /// The last search that found a node for it: for the account of its binding.
    pub found: Option<Search>,
    /// Numbers the records as they come to the queue, so that no two are ever equal in order. Renewed with `timestamp`.
    pub(super) sequence: u64,
}

/// A search that found a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// When the attempt began.
    pub began: Time,
    /// How many nodes it came to a verdict on.
    pub evaluated: usize,
    /// How many of them could take the pod.
    pub feasible: usize,
}

impl QueuedPod {
    pub(super) fn new(pod: Arc<PodInfo>, gate: Option<PluginName>) -> Self {
        Self {
            pod,
            attempts: 0,
            timestamp: Time::default(),
            initial_attempt: None,
            unschedulable_count: 0,
            consecutive_errors: 0,
            panics: 0,
            rejectors: gate.into_iter().collect(),
            hindered_by: BTreeSet::new(),
            gate,
            was_flushed: false,
            nominated: false,
            found: None,
            sequence: 0,
        }
    }

    /// The plugins whose hints can wake it.
    pub(super) fn wakers(&self) -> BTreeSet<PluginName> {
        self.rejectors.union(&self.hindered_by).copied().collect()
    }

    /// Nothing keeps it waiting any more.
    pub(super) fn absolve(&mut self) {
        self.rejectors.clear();
        self.hindered_by.clear();
    }

    pub(super) fn order(&self) -> ActiveOrder {
        ActiveOrder {
            priority: Reverse(self.pod.priority),
            timestamp: self.timestamp,
            sequence: self.sequence,
        }
    }
}

/// The order of PrioritySort, made total: higher priority first, then who has waited longer, then who came first.
///
/// Upstream: `pkg/scheduler/framework/plugins/queuesort/priority_sort.go`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ActiveOrder {
    priority: Reverse<i32>,
    timestamp: Time,
    sequence: u64,
}

holds_ids!(QueuedPod { pod } but not {
    attempts, timestamp, initial_attempt, unschedulable_count, consecutive_errors, panics, rejectors, hindered_by, gate,
    was_flushed, nominated, found, sequence
});
