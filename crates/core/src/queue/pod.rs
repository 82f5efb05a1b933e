//! The record of a pod in the queue, and the order of the active queue.

use crate::framework::PluginName;
use crate::model::intern::trace_ids;
use crate::model::pod::PodInfo;
use crate::model::time::Time;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A pod in the queue with the history of its attempts (upstream `QueuedPodInfo`).
///
/// Between [`pop`](super::SchedulingQueue::pop) and the return of the pod, the caller owns the record. It may replace
/// `pod` by a newer object with the same uid, and must not change the counts.
#[derive(Clone, Debug)]
pub struct QueuedPod {
    /// The latest state of the pod.
    pub pod: Arc<PodInfo>,
    /// The number of attempts: how often the pod was popped.
    pub attempts: u32,
    /// When the pod was added, or returned from its last failed attempt.
    pub timestamp: Time,
    /// When the pod first became active. Time as a gated pod does not count. Never changes afterwards.
    pub initial_attempt: Option<Time>,
    /// The number of attempts that ended with a rejection by plugins. Never decreases.
    pub unschedulable_count: u32,
    /// The number of attempts that ended with an error since the last rejection.
    pub consecutive_errors: u32,
    /// The number of attempts that panicked; maintained by the caller.
    pub panics: u32,
    /// The number of decisions that were reverted since the pod was added, or returned from its last failed attempt.
    pub(super) reverts: u32,
    /// The plugins that rejected the last attempt, and the plugin that gates the pod. Empty while the pod is popped.
    pub rejectors: BTreeSet<PluginName>,
    /// The plugins that made preemption fail in the last attempt. Their events requeue the pod like those of its
    /// rejectors, but metrics do not count the pod under them. Empty while the pod is popped.
    pub preemption_blockers: BTreeSet<PluginName>,
    /// The PreEnqueue plugin that gates the pod.
    pub gate: Option<PluginName>,
    /// Whether the flush, not an event, requeued the pod last. If such a pod is then scheduled, a queueing hint
    /// missed an event (`scheduler_pod_scheduled_after_flush_total`).
    pub was_flushed: bool,
    /// Whether the API server was asked to set a nomination before binding, and was not asked to clear it since.
    pub nominated: bool,
    /// The last search that found a node, for the report of the binding.
    pub found: Option<Search>,
    /// Whether the last attempt of this member of a group began before its backoff ended. The next one waits for the
    /// end.
    pub(super) was_early: bool,
    /// The priority of the pod's group, if the group is one entry of the queue.
    pub(super) group_priority: Option<i32>,
    /// A unique number in order of arrival. Renewed together with `timestamp`.
    pub(super) sequence: u64,
    /// Breaks ties of `timestamp`: the pod's own number, or that of a member of its group which started.
    pub(super) rank: u64,
}

/// The statistics of a search that found a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// When the attempt began.
    pub began: Time,
    /// The number of nodes with a verdict.
    pub evaluated: usize,
    /// The number of feasible nodes.
    pub feasible: usize,
}

impl QueuedPod {
    pub(crate) fn new(pod: Arc<PodInfo>, gate: Option<PluginName>) -> Self {
        Self {
            pod,
            attempts: 0,
            timestamp: Time::default(),
            initial_attempt: None,
            unschedulable_count: 0,
            consecutive_errors: 0,
            panics: 0,
            reverts: 0,
            rejectors: gate.into_iter().collect(),
            preemption_blockers: BTreeSet::new(),
            gate,
            was_flushed: false,
            nominated: false,
            found: None,
            was_early: false,
            group_priority: None,
            sequence: 0,
            rank: 0,
        }
    }

    /// Allows another attempt before the end of the backoff.
    pub(crate) fn allow_early(&mut self) {
        self.was_early = false;
    }

    /// Marks the attempt as one after the end of the backoff.
    pub(super) fn on_time(self) -> Self {
        Self { was_early: false, ..self }
    }

    /// Returns the plugins whose queueing hints can requeue the pod.
    pub(super) fn requeuing_plugins(&self) -> BTreeSet<PluginName> {
        self.rejectors.union(&self.preemption_blockers).copied().collect()
    }

    /// Clears the plugins that the pod waits for.
    pub(super) fn clear_rejectors(&mut self) {
        self.rejectors.clear();
        self.preemption_blockers.clear();
    }

    /// Returns the order of a member in its group: by priority, attempts, and the time of its return.
    ///
    /// Upstream: `pkg/scheduler/framework/types.go#PodGroupMemberPodsOrderingFunc` of 1.37.
    pub(crate) fn rank_in_group(&self) -> (Reverse<i32>, Reverse<u32>, Time, u64) {
        (Reverse(self.pod.priority), Reverse(self.attempts), self.timestamp, self.sequence)
    }

    /// Returns what orders the pod among others of its priority.
    pub(crate) fn arrival(&self) -> (Time, u64) {
        (self.timestamp, self.rank)
    }

    pub(super) fn order(&self) -> ActiveOrder {
        ActiveOrder {
            priority: Reverse(self.group_priority.unwrap_or(self.pod.priority)),
            timestamp: self.timestamp,
            rank: self.rank,
            sequence: self.sequence,
        }
    }
}

/// The order of PrioritySort, made total: priority (descending), timestamp, rank, sequence number.
///
/// Upstream: `pkg/scheduler/framework/plugins/queuesort/priority_sort.go`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ActiveOrder {
    priority: Reverse<i32>,
    timestamp: Time,
    rank: u64,
    sequence: u64,
}

trace_ids!(QueuedPod { pod } but not {
    attempts, timestamp, initial_attempt, unschedulable_count, consecutive_errors, panics, reverts, rejectors, preemption_blockers, gate,
    was_flushed, nominated, found, was_early, group_priority, sequence, rank
});
