//! The ledger of pods in PreBind: the progress of each pod, and indexes by object, node and time.

use super::{PreBindFailure, SHOWN_IF_STORED_WITHIN};
use crate::collections::hash::FixedMap;
use crate::model::device::ResourceClaim;
use crate::model::intern::Symbol;
use crate::model::intern::{Marks, TraceIds, trace_ids};
use crate::model::pod::{PodInfo, Uid};
use crate::model::time::Time;
use crate::model::volume::{Reservation, StorageKey, StorageObject};
use crate::queue::QueuedPod;
use crate::report::DeviceWait;
use crate::scheduler::outbox::Outbox;
use crate::scheduler::unknown_outcome::RetryInterval;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A reservation to be written.
pub(super) struct Task {
    /// The object to write.
    pub(super) key: StorageKey,
    pub(super) reservation: Reservation,
    /// The pod.
    pub(super) pod: Uid,
    /// The resource version of the object at the decision.
    pub(super) version: Box<str>,
    /// The latest write that was sent for it.
    pub(super) sent: Option<Sent>,
}

/// A write that was sent.
pub(super) struct Sent {
    /// The resource version of the object in the write.
    version: Box<str>,
    at: Time,
}

/// The progress of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The next write waits to be sent.
    Due,
    /// Another pod has sent a write of the same object, and the watch does not show a new version yet. If it shows none
    /// until this time, the write is sent all the same.
    Behind { until: Time },
    /// The write with this id is in flight.
    InFlight { write: u64 },
    /// The write got no answer. It is resent at this time, unless the watch shows the change. Or it waits until the
    /// watch shows that an earlier attempt gave up the reservation.
    Lost { retry_at: Time },
    /// All writes are done. The claims must be bound by this time.
    Waiting { until: Time },
}

/// The state of a write with an unknown outcome.
pub(super) struct UnknownOutcome {
    /// When its first copy remained unanswered.
    pub(super) since: Time,
    /// The backoff before the next copy.
    pub(super) retry: RetryInterval,
    /// The latest failure.
    pub(super) message: String,
}

/// A pod in PreBind.
pub(in crate::scheduler) struct PreBind {
    pub(super) queued: QueuedPod,
    pub(super) node: Symbol,
    pub(super) began: Time,
    /// The reservations to write, in order.
    pub(super) tasks: Vec<Task>,
    /// The index of the first task that is not completed.
    pub(super) at: usize,
    pub(super) stage: Stage,
    /// Set when a copy of the current write got no answer.
    pub(super) unknown: Option<UnknownOutcome>,
    /// When all writes were done.
    pub(super) written: Option<Time>,
    /// Whether it is queued in the volume lane.
    in_line: bool,
}

impl Task {
    /// Whether it writes a ResourceClaim.
    pub(super) fn is_of_devices(&self) -> bool {
        match self.reservation {
            Reservation::Bind { .. } | Reservation::Provision { .. } => false,
            Reservation::Allocate { .. } | Reservation::Share { .. } | Reservation::Create { .. } => true,
        }
    }

    /// Returns the uid of the ResourceClaim that it reserves.
    pub(super) fn claim(&self) -> Option<&Uid> {
        match &self.reservation {
            Reservation::Allocate { claim, .. } | Reservation::Share { claim } => Some(&claim.uid),
            Reservation::Bind { .. } | Reservation::Provision { .. } | Reservation::Create { .. } => None,
        }
    }

    /// Whether it makes a claim. Such a write is never repeated: each would make another claim.
    pub(super) fn makes_a_claim(&self) -> bool {
        matches!(self.reservation, Reservation::Create { .. })
    }

    /// Whether devices of the claim must become ready before the pod is bound.
    pub(super) fn has_conditions(&self) -> bool {
        self.devices().any(|(_, has_conditions)| has_conditions)
    }

    /// Returns the driver of each device of the claim, and whether the device has binding conditions.
    fn devices(&self) -> impl Iterator<Item = (&Arc<str>, bool)> {
        let allocation = match &self.reservation {
            Reservation::Bind { .. } | Reservation::Provision { .. } => None,
            Reservation::Share { claim } => claim.allocation.as_ref(),
            Reservation::Allocate { allocation, .. } | Reservation::Create { allocation, .. } => {
                Some(allocation)
            }
        };
        let results = allocation.into_iter().flat_map(|allocation| &allocation.results);
        results.map(|result| (&result.device.pool.driver, !result.binding_conditions.is_empty()))
    }

    /// Returns a failure of the plugin that made the reservation.
    pub(super) fn failure(&self, message: impl Into<String>) -> PreBindFailure {
        if self.is_of_devices() {
            PreBindFailure::of_devices(message)
        } else {
            PreBindFailure::of_volumes(message)
        }
    }

    /// Returns the objects whose changes affect the task: the written object and its claim.
    fn objects(&self) -> impl Iterator<Item = StorageKey> {
        let claim = match &self.reservation {
            Reservation::Bind { claim, .. } => Some(StorageKey::of_claim(claim.namespace, claim.name)),
            Reservation::Provision { .. }
            | Reservation::Allocate { .. }
            | Reservation::Share { .. }
            | Reservation::Create { .. } => None,
        };
        std::iter::once(self.key).chain(claim)
    }
}

impl PreBind {
    /// Returns the pod, and when the attempt of this decision began.
    pub(in crate::scheduler) fn into_attempt(self) -> (QueuedPod, Time) {
        (self.queued, self.began)
    }

    pub(super) fn new(queued: QueuedPod, node: Symbol, tasks: Vec<Task>, began: Time) -> Self {
        Self {
            queued,
            node,
            began,
            tasks,
            at: 0,
            stage: Stage::Due,
            unknown: None,
            written: None,
            in_line: false,
        }
    }

    /// Returns the claims for which an allocation was sent, and whether it is known to be stored.
    pub(in crate::scheduler) fn sent_allocations(&self) -> impl Iterator<Item = (&Arc<ResourceClaim>, bool)> {
        let is_sent = matches!(self.stage, Stage::InFlight { .. }) || self.unknown.is_some();
        let sent = self.tasks.iter().enumerate().take(self.at + usize::from(is_sent));
        sent.filter_map(|(at, task)| match &task.reservation {
            Reservation::Allocate { claim, .. } | Reservation::Create { claim, .. } => {
                Some((claim, at < self.at))
            }
            Reservation::Bind { .. } | Reservation::Provision { .. } | Reservation::Share { .. } => None,
        })
    }

    /// Returns the wait for binding conditions, if there was one. `failure` tells how it ended.
    pub(super) fn device_wait(&self, now: Time, failure: Option<&PreBindFailure>) -> Option<DeviceWait> {
        let since = self.written.filter(|_| self.tasks.iter().any(Task::has_conditions))?;
        let status = match failure.map(|failure| &*failure.message) {
            None => "success",
            Some(text) if text.starts_with("device binding timeout") => "timeout",
            Some(text) if text.starts_with("device binding failed") => "failure",
            Some(_) => "error",
        };
        let devices = self.tasks.iter().flat_map(Task::devices);
        let devices = devices.map(|(driver, has_conditions)| (Arc::clone(driver), has_conditions)).collect();
        Some(DeviceWait { status, took: now.since(since), devices })
    }

    fn time(&self) -> Option<Time> {
        match self.stage {
            Stage::Due | Stage::InFlight { .. } => None,
            Stage::Lost { retry_at: time }
            | Stage::Behind { until: time }
            | Stage::Waiting { until: time } => Some(time),
        }
    }

    /// Whether the pod has sent a write of this version of an object, after which the watch will show another one. A
    /// write that was answered counts for a while only: the answer may be wrong.
    fn has_sent(&self, now: Time, key: StorageKey, version: &str) -> bool {
        let is_open = matches!(self.stage, Stage::InFlight { .. }) || self.unknown.is_some();
        self.tasks.iter().enumerate().filter(|(_, task)| task.key == key).any(|(at, task)| {
            let sent = task.sent.as_ref().filter(|sent| *sent.version == *version);
            sent.is_some_and(|sent| at == self.at && is_open || now.since(sent.at) < SHOWN_IF_STORED_WITHIN)
        })
    }
}

/// All pods in PreBind.
#[derive(Default)]
pub(in crate::scheduler) struct VolumeBindings {
    pods: FixedMap<Uid, PreBind>,
    /// The pods affected by each object.
    by_object: BTreeMap<StorageKey, BTreeSet<Uid>>,
    /// The pods by chosen node.
    by_node: BTreeMap<Symbol, BTreeSet<Uid>>,
    /// The times at which pods are due.
    times: BTreeSet<(Time, Uid)>,
    writes: u64,
    /// The number of pods that were removed so far.
    ended: u64,
    /// Decisions that were reverted because a volume or claim had changed before it was written.
    pub(in crate::scheduler) rechecks_failed: u64,
}

impl VolumeBindings {
    /// Returns the number of pods.
    pub(in crate::scheduler) fn len(&self) -> usize {
        self.pods.len()
    }

    /// Returns the number of pods that left PreBind so far.
    pub(in crate::scheduler) fn ended(&self) -> u64 {
        self.ended
    }

    /// Whether there are no pods.
    pub(in crate::scheduler) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// Returns all pods with node and time of decision, ordered by uid.
    pub(in crate::scheduler) fn iter(&self) -> impl Iterator<Item = (&QueuedPod, Symbol, Time)> {
        let by_uid: BTreeMap<&Uid, &PreBind> = self.pods.iter().collect();
        by_uid.into_values().map(|it| (&it.queued, it.node, it.began))
    }

    /// Returns one pod with node and time of decision.
    pub(in crate::scheduler) fn pod(&self, uid: &Uid) -> Option<(&QueuedPod, Symbol, Time)> {
        self.pods.get(uid).map(|it| (&it.queued, it.node, it.began))
    }

    /// Returns what [`PreBind::sent_allocations`] returns for a pod.
    pub(in crate::scheduler) fn sent_allocations(&self, uid: &str) -> Vec<(Arc<ResourceClaim>, bool)> {
        let sent = self.pods.get(uid).into_iter().flat_map(PreBind::sent_allocations);
        sent.map(|(claim, is_stored)| (Arc::clone(claim), is_stored)).collect()
    }

    /// Returns when the next pod is due.
    pub(in crate::scheduler) fn next_time(&self) -> Option<Time> {
        self.times.first().map(|&(time, _)| time)
    }

    pub(super) fn due(&self, now: Time) -> Vec<Uid> {
        self.times.iter().take_while(|(time, _)| *time <= now).map(|(_, uid)| Arc::clone(uid)).collect()
    }

    /// Whether the pod is in PreBind.
    pub(in crate::scheduler) fn contains(&self, uid: &str) -> bool {
        self.pods.contains_key(uid)
    }

    pub(super) fn get(&self, uid: &Uid) -> Option<&PreBind> {
        self.pods.get(uid)
    }

    /// Returns the ResourceClaim that a pod's write in flight is for.
    pub(super) fn claim_written_by(&self, uid: &Uid, write: u64) -> Option<Uid> {
        let pre_bind = self.get(uid).filter(|it| it.stage == Stage::InFlight { write })?;
        pre_bind.tasks.get(pre_bind.at)?.claim().cloned()
    }

    pub(super) fn insert(&mut self, pre_bind: PreBind) {
        let uid = Arc::clone(&pre_bind.queued.pod.uid);
        for key in pre_bind.tasks.iter().flat_map(Task::objects) {
            self.by_object.entry(key).or_default().insert(Arc::clone(&uid));
        }
        self.by_node.entry(pre_bind.node).or_default().insert(Arc::clone(&uid));
        self.pods.insert(uid, pre_bind);
    }

    /// Removes a pod. Other pods that skipped a write because of this pod check it again.
    pub(in crate::scheduler) fn end(&mut self, uid: &Uid, outbox: &mut Outbox) -> Option<PreBind> {
        let pre_bind = self.remove(uid)?;
        let keys: Vec<StorageKey> = pre_bind.tasks.iter().map(|task| task.key).collect();
        for other in self.concerned(&keys) {
            if self.line_up(&other) {
                outbox.push_volume(other);
            }
        }
        Some(pre_bind)
    }

    fn remove(&mut self, uid: &Uid) -> Option<PreBind> {
        let pre_bind = self.pods.remove(uid)?;
        self.ended += 1;
        if let Some(time) = pre_bind.time() {
            self.times.remove(&(time, Arc::clone(uid)));
        }
        if let Some(there) = self.by_node.get_mut(&pre_bind.node) {
            there.remove(uid);
            if there.is_empty() {
                self.by_node.remove(&pre_bind.node);
            }
        }
        for key in pre_bind.tasks.iter().flat_map(Task::objects) {
            if let Some(pods) = self.by_object.get_mut(&key) {
                pods.remove(uid);
                if pods.is_empty() {
                    self.by_object.remove(&key);
                }
            }
        }
        Some(pre_bind)
    }

    /// Removes and returns all pods, ordered by uid.
    pub(super) fn clear(&mut self) -> Vec<PreBind> {
        let (writes, rechecks_failed) = (self.writes, self.rechecks_failed);
        let ended = self.ended + self.pods.len() as u64;
        let before = std::mem::replace(self, Self { writes, ended, rechecks_failed, ..Self::default() });
        let by_uid: BTreeMap<Uid, PreBind> = before.pods.into_iter().collect();
        by_uid.into_values().collect()
    }

    fn known(&mut self, uid: &Uid) -> &mut PreBind {
        self.pods.get_mut(uid).expect("only a pod in PreBind moves on")
    }

    /// Notes when all writes of a pod were done.
    pub(super) fn note_written(&mut self, now: Time, uid: &Uid) {
        self.known(uid).written.get_or_insert(now);
    }

    pub(super) fn enter(&mut self, uid: &Uid, stage: Stage) {
        let pre_bind = self.known(uid);
        let before = pre_bind.time();
        pre_bind.stage = stage;
        let after = pre_bind.time();
        if let Some(time) = before {
            self.times.remove(&(time, Arc::clone(uid)));
        }
        if let Some(time) = after {
            self.times.insert((time, Arc::clone(uid)));
        }
    }

    /// Returns the state of the current write's unknown outcome, if any.
    pub(super) fn unknown(&mut self, uid: &Uid) -> &mut Option<UnknownOutcome> {
        &mut self.known(uid).unknown
    }

    /// Completes the current write.
    pub(super) fn next_task(&mut self, uid: &Uid) {
        self.enter(uid, Stage::Due);
        let pre_bind = self.known(uid);
        pre_bind.at += 1;
        pre_bind.unknown = None;
    }

    /// Marks the current write, of this version of the object, as sent, and returns its id.
    pub(super) fn send(&mut self, now: Time, uid: &Uid, version: &str) -> u64 {
        self.writes += 1;
        let write = self.writes;
        self.enter(uid, Stage::InFlight { write });
        let pre_bind = self.known(uid);
        if let Some(task) = pre_bind.tasks.get_mut(pre_bind.at) {
            task.sent = Some(Sent { version: version.into(), at: now });
        }
        write
    }

    /// Enters the volume lane, and returns true if the pod has a write and was not in the lane.
    pub(super) fn line_up(&mut self, uid: &Uid) -> bool {
        if let Stage::Behind { .. } = self.known(uid).stage {
            self.enter(uid, Stage::Due);
        }
        let pre_bind = self.known(uid);
        pre_bind.stage == Stage::Due && !std::mem::replace(&mut pre_bind.in_line, true)
    }

    /// Leaves the volume lane.
    pub(super) fn step_out(&mut self, uid: &Uid) {
        if let Some(pre_bind) = self.pods.get_mut(uid) {
            pre_bind.in_line = false;
        }
    }

    /// Replaces the pod by a newer state, and returns the old one.
    pub(super) fn renew(&mut self, pod: &Arc<PodInfo>) -> Option<Arc<PodInfo>> {
        let pre_bind = self.pods.get_mut(&pod.uid)?;
        Some(std::mem::replace(&mut pre_bind.queued.pod, Arc::clone(pod)))
    }

    /// Returns the pods affected by an added, changed or deleted object.
    pub(super) fn affected_by(
        &self,
        old: Option<&StorageObject>,
        new: Option<&StorageObject>,
    ) -> BTreeSet<Uid> {
        if self.pods.is_empty() {
            return BTreeSet::new();
        }
        let (mut keys, mut owners) = (Vec::new(), BTreeSet::new());
        for object in [old, new].into_iter().flatten() {
            keys.push(object.key());
            // A claim may have waited for this volume.
            if let StorageObject::Volume(volume) = object
                && let Some(claim) = &volume.claim
            {
                keys.push(StorageKey::of_claim(claim.namespace, claim.name));
            }
            // A claim for extended resources has a name that its writer does not know in advance.
            if let StorageObject::ResourceClaim(claim) = object
                && let Some((_, owner)) = &claim.controller
                && self.pods.contains_key(owner)
            {
                owners.insert(Arc::clone(owner));
            }
        }
        owners.append(&mut self.concerned(&keys));
        owners
    }

    /// Returns the pods affected by one of these objects.
    fn concerned(&self, keys: &[StorageKey]) -> BTreeSet<Uid> {
        keys.iter().filter_map(|key| self.by_object.get(key)).flatten().map(Arc::clone).collect()
    }

    /// Returns the pods with this chosen node.
    pub(super) fn on(&self, node: Symbol) -> BTreeSet<Uid> {
        self.by_node.get(&node).cloned().unwrap_or_default()
    }

    /// Whether another pod has sent a write of this version of the object, so that the watch will show another one.
    pub(super) fn is_written_by_another(&self, now: Time, uid: &Uid, task: &Task, version: &str) -> bool {
        if task.makes_a_claim() {
            return false;
        }
        let others = self.by_object.get(&task.key).into_iter().flatten().filter(|other| *other != uid);
        others.filter_map(|other| self.pods.get(other)).any(|other| other.has_sent(now, task.key, version))
    }
}

trace_ids!(Task { key, reservation } but not { pod, version, sent });
trace_ids!(PreBind { queued, node, tasks } but not { began, at, stage, unknown, written, in_line });

impl TraceIds for VolumeBindings {
    fn mark(&self, marks: &mut Marks) {
        let Self { pods, by_object, by_node: _, times: _, writes: _, ended: _, rechecks_failed: _ } = self;
        pods.values().for_each(|pod| pod.mark(marks));
        by_object.keys().for_each(|key| key.mark(marks));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::intern::Tables;
    use crate::scheduler::quarantine::tests::pod;
    use std::time::Duration;

    #[test]
    fn write_counts_while_it_has_no_result_and_for_a_minute() {
        let mut tables = Tables::default();
        let now = Time::from_secs(100);
        let (namespace, node) = (tables.symbol("default"), tables.symbol("a"));
        let mut task = |name: &str, sent: Option<&str>| {
            let name = tables.symbol(name);
            Task {
                key: StorageKey::of_claim(namespace, name),
                reservation: Reservation::Provision { namespace, name, node },
                pod: "p".into(),
                version: "1".into(),
                sent: sent.map(|version| Sent { version: version.into(), at: now }),
            }
        };
        let tasks = vec![task("first", Some("1")), task("second", None)];
        let keys = [tasks[0].key, tasks[1].key];
        let queued = QueuedPod::new(pod(&mut tables, "p", 0, None).into(), None);
        let mut pre_bind = PreBind::new(queued, node, tasks, now);
        let (soon, late) =
            (now + (SHOWN_IF_STORED_WITHIN - Duration::from_nanos(1)), now + SHOWN_IF_STORED_WITHIN);
        let lost = || UnknownOutcome {
            since: now,
            retry: RetryInterval::starting_at(Duration::from_secs(1)),
            message: String::new(),
        };
        let stages = [
            (0, Stage::InFlight { write: 1 }, None, true),
            (0, Stage::Lost { retry_at: late }, Some(lost()), true),
            (0, Stage::Lost { retry_at: late }, None, false),
            (0, Stage::Due, Some(lost()), true),
            (0, Stage::Due, None, false),
            (1, Stage::InFlight { write: 2 }, None, false),
            (1, Stage::Due, None, false),
        ];
        for (at, stage, unknown, is_open) in stages {
            (pre_bind.at, pre_bind.stage, pre_bind.unknown) = (at, stage, unknown);
            assert!(pre_bind.has_sent(soon, keys[0], "1"), "{stage:?}");
            assert_eq!(pre_bind.has_sent(late, keys[0], "1"), is_open, "task {at}, {stage:?}");
            assert!(!pre_bind.has_sent(soon, keys[0], "2"), "another version");
            assert!(!pre_bind.has_sent(soon, keys[1], "1"), "another object");
        }
    }
}
