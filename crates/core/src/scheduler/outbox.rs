//! Effects that wait for credit. Bindings leave first.
//!
//! Bounds: of bindings decided about, at most one waits for its first release beside those whose volumes came meanwhile,
//! since nothing is decided while one does; writes of volumes, evictions and status patches are at most one a pod; records
//! beyond [`RECORDS_MAX`] push out the oldest; questions are those of the pods that wait for extenders, whose number has a bound.

use super::line::Line;
use crate::effect::{Effect, Lane, Nomination, Record, StatusPatch};
use crate::hash::FixedMap;
use crate::pod::Uid;
use std::collections::VecDeque;
use std::sync::Arc;

/// Upstream's recorder holds 1,000 (`client-go/tools/events`, `maxQueuedEvents`), which is more than it binds while one is written. Here bindings
/// leave first and many times as fast, so that the events of a large burst wait for its end.
const RECORDS_MAX: usize = 16_384;

const LANES: usize = Lane::ALL.len();

/// What waits in the bind lane.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Outgoing {
    /// The binding of the pod of this uid, looked at once more when it leaves.
    Bind(Uid),
    /// The question what became of it.
    Settle(Uid),
}

#[derive(Default)]
pub(super) struct Outbox {
    credits: [usize; LANES],
    bind: Line<Outgoing>,
    volume: VecDeque<Uid>,
    evict: Line<Uid>,
    status: Line<Uid>,
    patches: FixedMap<Uid, StatusPatch>,
    records: VecDeque<Record>,
    extend: VecDeque<u64>,
    dropped_records: u64,
}

impl Outbox {
    pub(super) fn grant(&mut self, lane: Lane, count: usize) {
        self.credits[lane as usize] += count;
    }

    fn has_credit(&self, lane: Lane) -> bool {
        self.credits[lane as usize] > 0
    }

    fn spend(&mut self, lane: Lane) {
        self.credits[lane as usize] -= 1;
    }

    /// Whether another binding may be decided.
    pub(super) fn has_room(&self) -> bool {
        self.bind.is_empty()
    }

    /// Takes out the binding of a pod that is not to leave.
    pub(super) fn drop_bind(&mut self, uid: &Uid) {
        self.bind.remove(&Outgoing::Bind(Arc::clone(uid)));
    }

    pub(super) fn push_bind(&mut self, outgoing: Outgoing) {
        self.bind.push(outgoing);
    }

    /// Queues the eviction of the pod of this uid, looked at once more when it leaves.
    pub(super) fn push_eviction(&mut self, uid: Uid) {
        self.evict.push(uid);
    }

    /// Drops an eviction that nobody wants any more.
    pub(super) fn cancel_eviction(&mut self, uid: &str) {
        self.evict.remove(uid);
    }

    /// Queues the next write of the pod of this uid, which is worked out when it leaves.
    pub(super) fn push_volume(&mut self, uid: Uid) {
        self.volume.push_back(uid);
    }

    /// Forgets all writes of volumes that wait.
    pub(super) fn clear_volumes(&mut self) {
        self.volume.clear();
    }

    /// Queues a patch. A newer one takes the place of one that still waits, with what it says nothing of.
    pub(super) fn push_patch(&mut self, patch: StatusPatch) {
        let uid = patch.pod.uid.clone();
        match self.patches.remove(&uid) {
            Some(earlier) => {
                self.patches.insert(uid, patch.over(earlier));
            }
            None => {
                self.patches.insert(uid.clone(), patch);
                self.status.push(uid);
            }
        }
    }

    /// Drops the patch that waits for a pod, since it would not be true any more.
    pub(super) fn cancel_patch(&mut self, uid: &str) {
        if self.patches.remove(uid).is_some() {
            self.status.remove(uid);
        }
    }

    /// Drops a nomination that waits for a pod: it is about to be bound.
    pub(super) fn cancel_nomination(&mut self, uid: &str) {
        let Some(patch) = self.patches.get_mut(uid) else { return };
        if patch.condition.is_some() {
            patch.nomination = Nomination::Keep;
        } else {
            self.cancel_patch(uid);
        }
    }

    pub(super) fn push_record(&mut self, record: Record) {
        if self.records.len() == RECORDS_MAX {
            self.records.pop_front();
            self.dropped_records += 1;
        }
        self.records.push_back(record);
    }

    /// The next entry of the bind lane, if there is credit for it.
    pub(super) fn pop_bind(&mut self) -> Option<Outgoing> {
        if self.has_credit(Lane::Bind) { self.bind.pop() } else { None }
    }

    /// Uses up the credit of an entry of the bind lane that really left.
    pub(super) fn spend_bind(&mut self) {
        self.spend(Lane::Bind);
    }

    /// The next pod in the volume lane, if there is credit for a write.
    pub(super) fn pop_volume(&mut self) -> Option<Uid> {
        if self.has_credit(Lane::Volume) { self.volume.pop_front() } else { None }
    }

    /// Uses up the credit of a write that really left.
    pub(super) fn spend_volume(&mut self) {
        self.spend(Lane::Volume);
    }

    /// The next eviction, if there is credit for it.
    pub(super) fn pop_eviction(&mut self) -> Option<Uid> {
        if self.has_credit(Lane::Evict) { self.evict.pop() } else { None }
    }

    /// Uses up the credit of an eviction that really left.
    pub(super) fn spend_eviction(&mut self) {
        self.spend(Lane::Evict);
    }

    /// The next patch or record there is credit for.
    pub(super) fn pop_other(&mut self) -> Option<Effect> {
        if self.has_credit(Lane::Status)
            && let Some(uid) = self.status.pop()
        {
            let patch = self.patches.remove(&uid).expect("a uid in line has its patch");
            self.spend(Lane::Status);
            return Some(Effect::Patch(patch));
        }
        if self.has_credit(Lane::Record)
            && let Some(record) = self.records.pop_front()
        {
            self.spend(Lane::Record);
            return Some(Effect::Record(record));
        }
        None
    }

    /// Queues the question of this number, which is put into words when it leaves.
    pub(super) fn push_call(&mut self, call: u64) {
        self.extend.push_back(call);
    }

    /// Forgets questions nobody waits for any more.
    pub(super) fn retain_calls(&mut self, mut keep: impl FnMut(u64) -> bool) {
        self.extend.retain(|&call| keep(call));
    }

    /// The next question to an extender, if there is credit for it.
    pub(super) fn pop_call(&mut self) -> Option<u64> {
        let call = if self.has_credit(Lane::Extend) { self.extend.pop_front() } else { None }?;
        self.spend(Lane::Extend);
        Some(call)
    }

    /// How many wait, per lane in the order of `Lane::ALL`.
    pub(super) fn waiting(&self) -> [usize; LANES] {
        [
            self.bind.len(),
            self.volume.len(),
            self.evict.len(),
            self.status.len(),
            self.records.len(),
            self.extend.len(),
        ]
    }

    pub(super) fn dropped_records(&self) -> u64 {
        self.dropped_records
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::{PodRef, Severity};

    fn record(name: &str) -> Record {
        let pod = PodRef { namespace: "default".to_owned(), name: name.to_owned(), uid: name.into() };
        Record {
            pod,
            resource_version: "1".to_owned(),
            scheduler_name: "supercargo".to_owned(),
            severity: Severity::Normal,
            reason: "Scheduled",
            action: "Binding",
            note: String::new(),
        }
    }

    #[test]
    fn a_burst_of_ten_thousand_pods_loses_no_event_and_of_too_many_the_oldest_go() {
        let mut outbox = Outbox::default();
        let mut push = |count: usize| {
            for number in 0..count {
                outbox.push_record(record(&format!("p{number}")));
            }
            outbox.dropped_records()
        };
        assert_eq!(push(10_000), 0);
        assert_eq!(push(RECORDS_MAX - 10_000), 0);
        assert_eq!(push(3), 3);
        assert_eq!(outbox.records.front().map(|record| &*record.pod.name), Some("p3"));
    }
}
