//! The queue built anew from the records it holds, for when it may have been left half changed.

use super::unschedulable::Unschedulable;
use super::{Place, SchedulingQueue, Slot};
use crate::time::Time;

impl SchedulingQueue {
    /// Puts every record into its place again, but that of the pod of uid `without`. Ranks, backoffs and what was counted
    /// stay.
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
            self.counters.blame(&queued);
            match place {
                Place::Active => self.put_active(now, queued),
                Place::Backoff => self.put_backoff(expiry.unwrap_or(now), queued),
                Place::Unschedulable => self.put_unschedulable(queued),
                Place::Gated => self.put_gated(queued),
            }
        }
    }
}
