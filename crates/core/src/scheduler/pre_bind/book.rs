//! Who is in PreBind, how far each has come, and who is to be looked at when something changes. Decides nothing.

use crate::hash::FixedMap;
use crate::intern::Symbol;
use crate::intern::{HoldsIds, Marks, holds_ids};
use crate::pod::{PodInfo, Uid};
use crate::queue::QueuedPod;
use crate::time::Time;
use crate::volume::{Reservation, StorageKey};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Something that was promised to the pod, and is to be written.
pub(super) struct Task {
    /// Of what.
    pub(super) key: StorageKey,
    pub(super) reservation: Reservation,
    /// The version of the object that was decided on.
    pub(super) version: Box<str>,
}

/// How far a pod has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The next write is to leave.
    Due,
    /// It has left as the write of this number, and is not answered.
    InFlight { write: u64 },
    /// It got no answer; to be sent again at this time, unless the watch shows it.
    Lost { retry_at: Time },
    /// All is written; the claims are to be bound by this time.
    Waiting { until: Time },
}

/// What is known of a write whose outcome is not.
pub(super) struct Doubt {
    /// When its first copy got no answer.
    pub(super) since: Time,
    /// The pause before it is sent again.
    pub(super) pause: Duration,
    /// What was seen last.
    pub(super) message: String,
}

/// A pod whose volumes are on their way.
pub(in crate::scheduler) struct PreBind {
    pub(super) queued: QueuedPod,
    pub(super) node: Symbol,
    pub(super) began: Time,
    /// What is to be written, in order.
    pub(super) tasks: Vec<Task>,
    /// The first of them that is not.
    pub(super) at: usize,
    pub(super) stage: Stage,
    /// Set once a copy of the write got no answer.
    pub(super) doubt: Option<Doubt>,
    /// It waits in the volume lane.
    in_line: bool,
}

impl Task {
    /// The objects whose change concerns it: what is written, and the claim it is for.
    fn objects(&self) -> impl Iterator<Item = StorageKey> {
        let claim = match &self.reservation {
            Reservation::Bind { claim, .. } => Some(StorageKey::of_claim(claim.namespace, claim.name)),
            Reservation::Provision { .. } => None,
        };
        std::iter::once(self.key).chain(claim)
    }
}

impl PreBind {
    pub(super) fn new(queued: QueuedPod, node: Symbol, tasks: Vec<Task>, began: Time) -> Self {
        Self { queued, node, began, tasks, at: 0, stage: Stage::Due, doubt: None, in_line: false }
    }

    fn time(&self) -> Option<Time> {
        match self.stage {
            Stage::Due | Stage::InFlight { .. } => None,
            Stage::Lost { retry_at: time } | Stage::Waiting { until: time } => Some(time),
        }
    }

    /// Whether the pod has sent the same, so that the version it was decided on will be no more.
    fn has_sent(&self, same: &Task) -> bool {
        let is_sent = matches!(self.stage, Stage::InFlight { .. }) || self.doubt.is_some();
        let sent = self.tasks.iter().take(self.at + usize::from(is_sent));
        sent.into_iter().any(|task| task.key == same.key && task.version == same.version)
    }
}

/// All pods in PreBind.
#[derive(Default)]
pub(in crate::scheduler) struct PreBinds {
    pods: FixedMap<Uid, PreBind>,
    /// The pods an object concerns.
    by_object: BTreeMap<StorageKey, BTreeSet<Uid>>,
    /// The pods that are to go to a node.
    by_node: BTreeMap<Symbol, BTreeSet<Uid>>,
    /// When pods are to be looked at whatever happens.
    times: BTreeSet<(Time, Uid)>,
    writes: u64,
}

impl PreBinds {
    pub(in crate::scheduler) fn len(&self) -> usize {
        self.pods.len()
    }

    pub(in crate::scheduler) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// All of them, each with its node and when it was decided about, in an order that is the same in every run.
    pub(in crate::scheduler) fn iter(&self) -> impl Iterator<Item = (&QueuedPod, Symbol, Time)> {
        let by_uid: BTreeMap<&Uid, &PreBind> = self.pods.iter().collect();
        by_uid.into_values().map(|it| (&it.queued, it.node, it.began))
    }

    /// One of them.
    pub(in crate::scheduler) fn pod(&self, uid: &Uid) -> Option<(&QueuedPod, Symbol, Time)> {
        self.pods.get(uid).map(|it| (&it.queued, it.node, it.began))
    }

    /// When there is something to do by the clock.
    pub(in crate::scheduler) fn next_time(&self) -> Option<Time> {
        self.times.first().map(|&(time, _)| time)
    }

    pub(super) fn due(&self, now: Time) -> Vec<Uid> {
        self.times.iter().take_while(|(time, _)| *time <= now).map(|(_, uid)| Arc::clone(uid)).collect()
    }

    pub(super) fn get(&self, uid: &Uid) -> Option<&PreBind> {
        self.pods.get(uid)
    }

    pub(super) fn insert(&mut self, pre_bind: PreBind) {
        let uid = Arc::clone(&pre_bind.queued.pod.uid);
        for key in pre_bind.tasks.iter().flat_map(Task::objects) {
            self.by_object.entry(key).or_default().insert(Arc::clone(&uid));
        }
        self.by_node.entry(pre_bind.node).or_default().insert(Arc::clone(&uid));
        self.pods.insert(uid, pre_bind);
    }

    pub(super) fn remove(&mut self, uid: &Uid) -> Option<PreBind> {
        let pre_bind = self.pods.remove(uid)?;
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

    /// Forgets all; what they were, in an order that is the same in every run.
    pub(super) fn clear(&mut self) -> Vec<PreBind> {
        let writes = self.writes;
        let before = std::mem::replace(self, Self { writes, ..Self::default() });
        let by_uid: BTreeMap<Uid, PreBind> = before.pods.into_iter().collect();
        by_uid.into_values().collect()
    }

    fn known(&mut self, uid: &Uid) -> &mut PreBind {
        self.pods.get_mut(uid).expect("only a pod in PreBind moves on")
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

    /// What is known of the write that is on its way, if its outcome is not.
    pub(super) fn doubt(&mut self, uid: &Uid) -> &mut Option<Doubt> {
        &mut self.known(uid).doubt
    }

    /// This write is done.
    pub(super) fn next_task(&mut self, uid: &Uid) {
        self.enter(uid, Stage::Due);
        let pre_bind = self.known(uid);
        pre_bind.at += 1;
        pre_bind.doubt = None;
    }

    /// The write leaves; its number.
    pub(super) fn send(&mut self, uid: &Uid) -> u64 {
        self.writes += 1;
        let write = self.writes;
        self.enter(uid, Stage::InFlight { write });
        write
    }

    /// Whether the pod has something to write and was not in the volume lane, where it is from here on.
    pub(super) fn line_up(&mut self, uid: &Uid) -> bool {
        let pre_bind = self.known(uid);
        pre_bind.stage == Stage::Due && !std::mem::replace(&mut pre_bind.in_line, true)
    }

    /// The pod was taken out of the volume lane.
    pub(super) fn step_out(&mut self, uid: &Uid) {
        if let Some(pre_bind) = self.pods.get_mut(uid) {
            pre_bind.in_line = false;
        }
    }

    /// Puts a newer state of a pod in place; what it was.
    pub(super) fn renew(&mut self, pod: &Arc<PodInfo>) -> Option<Arc<PodInfo>> {
        let pre_bind = self.pods.get_mut(&pod.uid)?;
        Some(std::mem::replace(&mut pre_bind.queued.pod, Arc::clone(pod)))
    }

    /// The pods one of these objects concerns.
    pub(super) fn concerned(&self, keys: &[StorageKey]) -> BTreeSet<Uid> {
        keys.iter().filter_map(|key| self.by_object.get(key)).flatten().map(Arc::clone).collect()
    }

    /// The pods that are to go to a node.
    pub(super) fn on(&self, node: Symbol) -> BTreeSet<Uid> {
        self.by_node.get(&node).cloned().unwrap_or_default()
    }

    /// Whether another pod has written this, or may have, so that the watch will show another version of the object.
    pub(super) fn is_written_by_another(&self, uid: &Uid, task: &Task) -> bool {
        let others = self.by_object.get(&task.key).into_iter().flatten().filter(|other| *other != uid);
        others.filter_map(|other| self.pods.get(other)).any(|other| other.has_sent(task))
    }
}

holds_ids!(Task { key, reservation } but not { version });
holds_ids!(PreBind { queued, node, tasks } but not { began, at, stage, doubt, in_line });

impl HoldsIds for PreBinds {
    fn mark(&self, marks: &mut Marks) {
        let Self { pods, by_object, by_node: _, times: _, writes: _ } = self;
        pods.values().for_each(|pod| pod.mark(marks));
        by_object.keys().for_each(|key| key.mark(marks));
    }
}
