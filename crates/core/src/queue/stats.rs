//! What the queue counts of itself, under upstream's labels. Reading it changes nothing.

use super::pod::QueuedPod;
use crate::framework::PluginName;
use crate::intern::Symbol;
use crate::intern::{HoldsIds, Marks};
use std::collections::BTreeMap;

/// Where a pod waits (upstream's label `queue`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// To be tried next.
    Active,
    /// To be tried when its backoff is over.
    Backoff,
    /// To be tried after an event that may help, or after five minutes.
    Unschedulable,
    /// Held back by a PreEnqueue plugin.
    Gated,
}

impl Place {
    /// All places.
    pub const ALL: [Self; 4] = [Self::Active, Self::Backoff, Self::Unschedulable, Self::Gated];

    /// The place as the label `queue` of `scheduler_pending_pods` spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Backoff => "backoff",
            Self::Unschedulable => "unschedulable",
            Self::Gated => "gated",
        }
    }
}

/// The queue in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Waiting pods by place; every place is there (`scheduler_pending_pods`).
    pub pending: BTreeMap<Place, usize>,
    /// How many groups the unschedulable pods form: those of a group are alike and wait for the same, and cost an event
    /// as much as one.
    pub groups: usize,
    /// Waiting pods by plugin that keeps them so and by profile; those that no pod waits for any more stand at 0
    /// (`scheduler_unschedulable_pods`).
    pub unschedulable: BTreeMap<(PluginName, Symbol), usize>,
    /// How often a pod came to a place, by the event that brought it (`scheduler_queue_incoming_pods_total`). As
    /// upstream has it, a pod that is held back comes to [`Place::Unschedulable`].
    pub incoming: BTreeMap<(Place, &'static str), u64>,
}

/// What cannot be read off the pools.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) unschedulable: BTreeMap<(PluginName, Symbol), usize>,
    pub(super) incoming: BTreeMap<(Place, &'static str), u64>,
}

impl Counters {
    /// Counts a pod under each of its rejectors.
    ///
    /// Upstream forgets to take a pod off when it is deleted from the active or the backoff queue, so that its gauge
    /// only grows; this one does not.
    pub(super) fn blame(&mut self, pod: &QueuedPod) {
        for plugin in &pod.rejectors {
            *self.unschedulable.entry((plugin, pod.pod.scheduler_name)).or_default() += 1;
        }
    }

    /// Takes a pod off each of its rejectors.
    pub(super) fn unblame(&mut self, pod: &QueuedPod) {
        for plugin in &pod.rejectors {
            let count = self.unschedulable.get_mut(&(*plugin, pod.pod.scheduler_name));
            *count.expect("a waiting pod is counted under its rejectors") -= 1;
        }
    }

    /// Counts a pod that comes to `place` because of `event`.
    pub(super) fn came(&mut self, place: Place, event: &'static str) {
        *self.incoming.entry((place, event)).or_default() += 1;
    }
}

impl HoldsIds for Counters {
    fn mark(&self, marks: &mut Marks) {
        let Self { unschedulable, incoming: _ } = self;
        unschedulable.keys().for_each(|(_, profile)| profile.mark(marks));
    }
}
