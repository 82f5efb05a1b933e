//! Rebuilds the queue from its records after a panic that may have left it inconsistent.

use super::unschedulable::Unschedulable;
use super::{SchedulingQueue, Slot, SubQueue};
use crate::model::time::Time;

impl SchedulingQueue {
    /// Puts each record back into its place, except the pod with the uid `without`. Ranks, backoffs and cumulative
    /// counters are kept.
    pub(crate) fn rebuild(&mut self, now: Time, without: Option<&str>) {
        let records: Vec<_> = self.waiting().map(|(place, queued)| (place, queued.clone())).collect();
        let expiries: Vec<_> = records
            .iter()
            .map(|(_, queued)| match self.slots.get(&queued.pod.uid) {
                Some(Slot::Backoff(order)) => Some(order.expiry()),
                _ => None,
            })
            .collect();
        self.active = Default::default();
        self.backoff = Default::default();
        self.unschedulable = Unschedulable::hashed_by(self.unschedulable.hashing());
        self.gated = Default::default();
        self.slots = Default::default();
        for count in self.counters.unschedulable.values_mut() {
            *count = 0;
        }
        for ((place, queued), expiry) in records.into_iter().zip(expiries) {
            if without == Some(&*queued.pod.uid) || self.slots.contains_key(&queued.pod.uid) {
                continue;
            }
            self.counters.count_rejectors(&queued);
            match place {
                SubQueue::Active => self.insert_active(now, queued),
                SubQueue::Backoff => self.insert_backoff(expiry.unwrap_or(now), queued),
                SubQueue::Unschedulable => self.insert_unschedulable(queued),
                SubQueue::Gated => self.insert_gated(queued),
            }
        }
    }
}
