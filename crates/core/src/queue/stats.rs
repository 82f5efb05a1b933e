//! Sizes and counters of the queue, under the labels of upstream's metrics.

use super::pod::QueuedPod;
use crate::framework::PluginName;
use crate::model::intern::Symbol;
use crate::model::intern::{Marks, TraceIds};
use std::collections::BTreeMap;

/// The place of a pod in the queue (upstream's label `queue`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SubQueue {
    /// Ready for an attempt.
    Active,
    /// Retried when the backoff ends.
    Backoff,
    /// Retried after an event that may help, or by the five-minute flush.
    Unschedulable,
    /// Kept out of the active queue by a PreEnqueue plugin.
    Gated,
}

impl SubQueue {
    /// All places.
    pub const ALL: [Self; 4] = [Self::Active, Self::Backoff, Self::Unschedulable, Self::Gated];

    /// Returns the place as the label `queue` of `scheduler_pending_pods` spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Backoff => "backoff",
            Self::Unschedulable => "unschedulable",
            Self::Gated => "gated",
        }
    }
}

/// Sizes and counters of the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Pods in each place, including empty places (`scheduler_pending_pods`).
    pub pending: BTreeMap<SubQueue, usize>,
    /// The number of groups of unschedulable pods. The pods of a group have the same signature and wait for the same
    /// plugins, so an event evaluates only one of them.
    pub groups: usize,
    /// Pods by rejecting plugin and profile (`scheduler_unschedulable_pods`). Entries whose pods have left remain at
    /// 0.
    pub unschedulable: BTreeMap<(PluginName, Symbol), usize>,
    /// Cumulative number of moves by place and event (`scheduler_queue_incoming_pods_total`). As upstream, a pod that
    /// becomes gated counts under [`SubQueue::Unschedulable`].
    pub incoming: BTreeMap<(SubQueue, &'static str), u64>,
}

/// The counts that cannot be derived from the places.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) unschedulable: BTreeMap<(PluginName, Symbol), usize>,
    pub(super) incoming: BTreeMap<(SubQueue, &'static str), u64>,
}

impl Counters {
    /// Counts a pod under each of its rejectors.
    ///
    /// Upstream does not reduce the count when a pod is deleted from the active or backoff queue, so that its gauge
    /// only grows. This implementation does.
    pub(super) fn count_rejectors(&mut self, pod: &QueuedPod) {
        for plugin in &pod.rejectors {
            *self.unschedulable.entry((plugin, pod.pod.scheduler_name)).or_default() += 1;
        }
    }

    /// Removes a pod from the count of each of its rejectors.
    pub(super) fn uncount_rejectors(&mut self, pod: &QueuedPod) {
        for plugin in &pod.rejectors {
            let count = self.unschedulable.get_mut(&(*plugin, pod.pod.scheduler_name));
            *count.expect("a waiting pod is counted under its rejectors") -= 1;
        }
    }

    /// Counts a pod that enters `place` because of `event`.
    pub(super) fn count_incoming(&mut self, place: SubQueue, event: &'static str) {
        *self.incoming.entry((place, event)).or_default() += 1;
    }
}

impl TraceIds for Counters {
    fn mark(&self, marks: &mut Marks) {
        let Self { unschedulable, incoming: _ } = self;
        unschedulable.keys().for_each(|(_, profile)| profile.mark(marks));
    }
}
