//! The outbox: effects that wait for credits. Bindings are sent first.
//!
//! Its size is bounded. At most one new binding waits, plus those whose PreBind ended meanwhile, because no decision
//! is made while one waits. Volume writes, evictions and status patches are at most one per pod. Events beyond
//! [`RECORDS_MAX`] replace the oldest. Extender calls belong to a bounded number of pods.

use super::indexed_queue::IndexedQueue;
use crate::collections::hash::FixedMap;
use crate::model::effect::{Effect, EventRecord, GroupPatch, Lane, Nomination, StatusPatch, VolumeWrite};
use crate::model::pod::Uid;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The maximum number of waiting Events.
///
/// Upstream's recorder holds 1,000 (`client-go/tools/events`, `maxQueuedEvents`), more than it binds while one is
/// written. Here bindings are sent first and much faster, so the Events of a large burst wait for its end.
const RECORDS_MAX: usize = 16_384;

const LANES: usize = Lane::ALL.len();

/// An entry of the bind lane.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Outgoing {
    /// The binding of the pod with this uid, which is rechecked when it is sent.
    Bind(Uid),
    /// The query of its outcome.
    Query(Uid),
}

#[derive(Default)]
pub(super) struct Outbox {
    credits: [usize; LANES],
    bind: IndexedQueue<Outgoing>,
    volume: VecDeque<Uid>,
    /// Writes to claims that no pod waits for, by the uids of pod and claim.
    claims: IndexedQueue<(Uid, Uid)>,
    claim_writes: BTreeMap<(Uid, Uid), VolumeWrite>,
    evict: IndexedQueue<Uid>,
    status: IndexedQueue<Uid>,
    patches: FixedMap<Uid, StatusPatch>,
    /// The groups whose status is patched, by uid.
    groups: IndexedQueue<Uid>,
    group_patches: FixedMap<Uid, GroupPatch>,
    records: VecDeque<EventRecord>,
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

    /// Whether another decision may be made.
    pub(super) fn has_room(&self) -> bool {
        self.bind.is_empty()
    }

    /// Removes the binding of a pod.
    pub(super) fn drop_bind(&mut self, uid: &Uid) {
        self.bind.remove(&Outgoing::Bind(Arc::clone(uid)));
    }

    pub(super) fn push_bind(&mut self, outgoing: Outgoing) {
        self.bind.push(outgoing);
    }

    /// Queues the eviction of the pod with this uid. It is built when it is sent.
    pub(super) fn push_eviction(&mut self, uid: Uid) {
        self.evict.push(uid);
    }

    /// Removes an eviction that is not needed any more.
    pub(super) fn cancel_eviction(&mut self, uid: &str) {
        self.evict.remove(uid);
    }

    /// Queues the next volume write of the pod with this uid. It is built when it is sent.
    pub(super) fn push_volume(&mut self, uid: Uid) {
        self.volume.push_back(uid);
    }

    /// Removes all volume writes.
    pub(super) fn clear_volumes(&mut self) {
        self.volume.clear();
        self.claims = IndexedQueue::default();
        self.claim_writes.clear();
    }

    /// Returns the writes to claims that no pod waits for: uids of pod and claim.
    pub(super) fn claim_writes(&self) -> Vec<(Uid, Uid)> {
        self.claim_writes.keys().cloned().collect()
    }

    /// Queues a write to a claim that no pod waits for. It replaces an earlier one for the same claim and pod.
    pub(super) fn push_claim(&mut self, claim: Uid, write: VolumeWrite) {
        let key = (Arc::clone(&write.pod.uid), claim);
        if self.claim_writes.insert(key.clone(), write).is_none() {
            self.claims.push(key);
        }
    }

    /// Removes the writes to claims for a pod that is bound meanwhile, and returns the uids of the claims.
    pub(super) fn cancel_claims(&mut self, pod: &Uid) -> Vec<Uid> {
        let from = (Arc::clone(pod), Uid::from(""));
        let of_pod = self.claim_writes.range(from..).take_while(|((of, _), _)| of == pod);
        let cancelled: Vec<_> = of_pod.map(|(key, _)| key.clone()).collect();
        for key in &cancelled {
            self.claims.remove(key);
            self.claim_writes.remove(key);
        }
        cancelled.into_iter().map(|(_, claim)| claim).collect()
    }

    /// Takes the next write to a claim that no pod waits for, if there is a credit, and spends the credit.
    pub(super) fn pop_claim(&mut self) -> Option<((Uid, Uid), VolumeWrite)> {
        if !self.has_credit(Lane::Volume) {
            return None;
        }
        let key = self.claims.pop()?;
        let write = self.claim_writes.remove(&key)?;
        self.spend(Lane::Volume);
        Some((key, write))
    }

    /// Queues a status patch. It replaces an earlier patch of the pod, and keeps the fields that it does not set.
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

    /// Queues a patch of a group's status. It replaces an earlier one.
    pub(super) fn push_group_patch(&mut self, patch: GroupPatch) {
        let uid = Arc::clone(&patch.uid);
        self.group_patches.insert(Arc::clone(&uid), patch);
        self.groups.push(uid);
    }

    /// Removes the patch of a group that is gone.
    pub(super) fn cancel_group_patch(&mut self, uid: &str) {
        if self.group_patches.remove(uid).is_some() {
            self.groups.remove(uid);
        }
    }

    /// Removes the patch of a pod, because it is outdated.
    pub(super) fn cancel_patch(&mut self, uid: &str) {
        if self.patches.remove(uid).is_some() {
            self.status.remove(uid);
        }
    }

    /// Removes the nomination from the patch of a pod that is about to be bound.
    pub(super) fn cancel_nomination(&mut self, uid: &str) {
        let Some(patch) = self.patches.get_mut(uid) else { return };
        if patch.condition.is_some() {
            patch.nomination = Nomination::Keep;
        } else {
            self.cancel_patch(uid);
        }
    }

    pub(super) fn push_record(&mut self, record: EventRecord) {
        if self.records.len() == RECORDS_MAX {
            self.records.pop_front();
            self.dropped_records += 1;
        }
        self.records.push_back(record);
    }

    /// Takes the next entry of the bind lane, if there is a credit.
    pub(super) fn pop_bind(&mut self) -> Option<Outgoing> {
        if self.has_credit(Lane::Bind) { self.bind.pop() } else { None }
    }

    /// Spends the credit of an entry of the bind lane that was sent.
    pub(super) fn spend_bind(&mut self) {
        self.spend(Lane::Bind);
    }

    /// Takes the next pod of the volume lane, if there is a credit.
    pub(super) fn pop_volume(&mut self) -> Option<Uid> {
        if self.has_credit(Lane::Volume) { self.volume.pop_front() } else { None }
    }

    /// Spends the credit of a write that was sent.
    pub(super) fn spend_volume(&mut self) {
        self.spend(Lane::Volume);
    }

    /// Takes the next eviction, if there is a credit.
    pub(super) fn pop_eviction(&mut self) -> Option<Uid> {
        if self.has_credit(Lane::Evict) { self.evict.pop() } else { None }
    }

    /// Spends the credit of an eviction that was sent.
    pub(super) fn spend_eviction(&mut self) {
        self.spend(Lane::Evict);
    }

    /// Takes the next patch or Event that has a credit, and spends the credit.
    pub(super) fn pop_other(&mut self) -> Option<Effect> {
        if self.has_credit(Lane::Status)
            && let Some(uid) = self.groups.pop()
        {
            let patch = self.group_patches.remove(&uid).expect("a uid in line has its patch");
            self.spend(Lane::Status);
            return Some(Effect::PatchGroup(patch));
        }
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

    /// Queues the call with this id. It is built when it is sent.
    pub(super) fn push_call(&mut self, call: u64) {
        self.extend.push_back(call);
    }

    /// Removes calls that were cancelled.
    pub(super) fn retain_calls(&mut self, mut keep: impl FnMut(u64) -> bool) {
        self.extend.retain(|&call| keep(call));
    }

    /// Takes the next call, if there is a credit, and spends the credit.
    pub(super) fn pop_call(&mut self) -> Option<u64> {
        let call = if self.has_credit(Lane::Extend) { self.extend.pop_front() } else { None }?;
        self.spend(Lane::Extend);
        Some(call)
    }

    /// Returns the number of waiting effects by lane, in the order of `Lane::ALL`.
    pub(super) fn waiting(&self) -> [usize; LANES] {
        [
            self.bind.len(),
            self.volume.len() + self.claims.len(),
            self.evict.len(),
            self.status.len() + self.groups.len(),
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
    use crate::model::effect::{PodRef, Severity};

    fn record(name: &str) -> EventRecord {
        let pod = PodRef { namespace: "default".to_owned(), name: name.to_owned(), uid: name.into() };
        EventRecord {
            pod,
            resource_version: "1".to_owned(),
            scheduler_name: "supercargo".to_owned(),
            severity: Severity::Normal,
            reason: "Scheduled",
            action: "Binding",
            note: String::new(),
            related: None,
        }
    }

    #[test]
    fn outbox_holds_events_of_10000_pods_and_drops_the_oldest_beyond() {
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
