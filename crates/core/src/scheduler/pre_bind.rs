//! PreBind: pods between decision and binding whose volumes wait for their node.
//!
//! The reserved volumes are written one after the other; then the pod waits until the watch shows every claim bound.
//! Other pods continue: writes have their own lane, and everything else is an event or a time. A write carries the
//! resource version of the decision, so it is safe to resend or to drop it, and no volume is assigned twice. Writes
//! are not reverted if a later step fails; the next attempt finds them.
//!
//! Upstream: `pkg/scheduler/schedule_one.go#bindingCycle`, `volumebinding/binder.go#BindPodVolumes`.

mod check;
mod ledger;

pub(super) use ledger::VolumeBindings;

use super::Scheduler;
use super::binding::{Binding, UNKNOWN_MAX};
use super::failure::Failure;
use super::outbox::Outgoing;
use crate::cache::PodState;
use crate::effect::{ClaimName, Effect, Nomination, StatusPatch, VolumeChange, VolumeWrite};
use crate::event::WriteOutcome;
use crate::framework::ClusterEvent;
use crate::framework::registry::ExtensionPoint;
use crate::intern::Symbol;
use crate::mutation::{self, Mutation};
use crate::plugins::volume_binding;
use crate::pod::{PodInfo, Uid};
use crate::queue::QueuedPod;
use crate::report::Outcome;
use crate::time::Time;
use crate::volume::{Reservation, StorageKey, StorageObject};
use check::Shown;
use ledger::{PreBind, Stage, Task, UnknownOutcome};
use std::sync::Arc;
use std::time::Duration;

/// The backoff before an unanswered write is resent. It doubles up to the maximum.
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(250);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(8);

impl Scheduler {
    /// Whether the pod's profile writes reserved volumes in PreBind.
    pub(super) fn runs_pre_bind(&self, pod: &PodInfo) -> bool {
        self.profile_of(pod)
            .is_some_and(|profile| profile.framework.runs(ExtensionPoint::PreBind, volume_binding::NAME))
    }

    /// Whether the pod is in PreBind.
    pub(super) fn is_in_pre_bind(&self, uid: &Uid) -> bool {
        self.volume_bindings.get(uid).is_some()
    }

    /// Starts PreBind for a pod that has just been assumed.
    pub(super) fn pre_bind(&mut self, now: Time, mut queued: QueuedPod, node: Symbol) {
        let pod = Arc::clone(&queued.pod);
        let volumes = self.cache.volumes();
        let task = |reservation: &Reservation| {
            let key = reservation.object();
            Task {
                key,
                reservation: reservation.clone(),
                version: volumes.version(key).unwrap_or_default().into(),
            }
        };
        let tasks = volumes.reservations_of(&pod.uid).iter().map(task).collect();
        if pod.nominated_node != Some(node) {
            // PreBind takes a while, so the nomination shows others, such as the cluster autoscaler, where the pod
            // will run.
            let nomination = Nomination::Set(self.tables.text(node).to_owned());
            self.outbox.push_patch(StatusPatch { pod: self.pod_ref(&pod), condition: None, nomination });
            queued.nominated = true;
        }
        self.volume_bindings.insert(PreBind::new(queued, node, tasks, now));
        self.go_on(now, &pod.uid);
    }

    /// Skips completed writes, and continues with the next write or with the wait for the claims.
    fn go_on(&mut self, now: Time, uid: &Uid) {
        loop {
            let Some(pre_bind) = self.volume_bindings.get(uid) else { return };
            let Some(task) = pre_bind.tasks.get(pre_bind.at) else { break };
            match (self.shown(task), pre_bind.stage) {
                (Shown::Done, _) => self.volume_bindings.next_task(uid),
                // A write in flight will be answered.
                (_, Stage::InFlight { .. }) | (Shown::AsDecided, Stage::Lost { .. }) => return,
                (Shown::Changed | Shown::Gone, Stage::Lost { .. }) => {
                    let message =
                        pre_bind.unknown.as_ref().map(|unknown| unknown.message.clone()).unwrap_or_default();
                    return self.pre_bind_failed(now, uid, &message);
                }
                (_, Stage::Due | Stage::Waiting { .. }) => {
                    if self.volume_bindings.line_up(uid) {
                        self.outbox.push_volume(Arc::clone(uid));
                    }
                    return;
                }
            }
        }
        self.wait_for_volumes(now, uid);
    }

    /// Waits for other components to bind the claims, after all writes are done.
    fn wait_for_volumes(&mut self, now: Time, uid: &Uid) {
        let Some(pre_bind) = self.volume_bindings.get(uid) else { return };
        if !matches!(pre_bind.stage, Stage::Waiting { .. }) {
            let timeout = self.profile_of(&pre_bind.queued.pod).map(|profile| profile.framework.bind_timeout);
            self.volume_bindings.enter(uid, Stage::Waiting { until: now + timeout.unwrap_or_default() });
        }
        match self.volume_bindings.get(uid).map(|pre_bind| self.are_bound(pre_bind)) {
            Some(Ok(all)) if all || mutation::is_on(Mutation::PodBoundBeforeVolumes) => {
                self.pre_bound(now, uid);
            }
            Some(Err(why)) => self.pre_bind_failed(now, uid, &format!("binding volumes: {why}")),
            Some(Ok(_)) | None => {}
        }
    }

    /// Returns the next volume write that has a credit.
    pub(super) fn release_volume(&mut self, now: Time) -> Option<Effect> {
        while let Some(uid) = self.outbox.pop_volume() {
            let effect = self.release_write(now, &uid);
            if effect.is_some() {
                self.outbox.spend_volume();
                return effect;
            }
        }
        None
    }

    fn release_write(&mut self, now: Time, uid: &Uid) -> Option<Effect> {
        self.volume_bindings.step_out(uid);
        let pre_bind = self.volume_bindings.get(uid)?;
        if pre_bind.stage != Stage::Due {
            return None;
        }
        if let Err(why) = self.node_of(pre_bind) {
            self.pre_bind_failed(now, uid, &format!("binding volumes: {why}"));
            return None;
        }
        let task = pre_bind.tasks.get(pre_bind.at)?;
        match self.shown(task) {
            Shown::AsDecided if self.volume_bindings.is_written_by_another(uid, task) => return None,
            Shown::AsDecided => {}
            Shown::Done => {
                self.go_on(now, uid);
                return None;
            }
            Shown::Gone => {
                let message = self.not_found(task.key);
                self.pre_bind_failed(now, uid, &message);
                return None;
            }
            Shown::Changed => {
                self.pre_bind_anew(now, uid);
                return None;
            }
        }
        let change = self.change(task);
        let pod = Arc::clone(&pre_bind.queued.pod);
        let write = self.volume_bindings.send(uid);
        Some(Effect::WriteVolume(VolumeWrite { write, pod: self.pod_ref(&pod), change }))
    }

    fn change(&self, task: &Task) -> VolumeChange {
        let text = |symbol| self.tables.text(symbol).to_owned();
        let version = task.version.to_string();
        match &task.reservation {
            Reservation::Bind { volume, claim, by_controller } => {
                let key = StorageKey::of_claim(claim.namespace, claim.name);
                VolumeChange::Bind {
                    volume: text(*volume),
                    version,
                    claim: ClaimName {
                        namespace: text(claim.namespace),
                        name: text(claim.name),
                        uid: claim.uid.clone().unwrap_or_default(),
                        version: self.cache.volumes().version(key).unwrap_or_default().to_owned(),
                    },
                    by_controller: *by_controller,
                }
            }
            Reservation::Provision { namespace, name, node } => VolumeChange::SelectNode {
                namespace: text(*namespace),
                name: text(*name),
                version,
                node: text(*node),
            },
        }
    }

    /// Handles the result of a write. Late results of earlier writes are ignored.
    pub(super) fn volume_written(&mut self, now: Time, uid: &Uid, write: u64, outcome: WriteOutcome) {
        let Some(pre_bind) = self.volume_bindings.get(uid).filter(|it| it.stage == Stage::InFlight { write })
        else {
            return;
        };
        match outcome {
            WriteOutcome::Done => {
                self.volume_bindings.next_task(uid);
                self.go_on(now, uid);
            }
            // An earlier copy may be the reason for the rejection. Then the watch will show it.
            WriteOutcome::Refused { message } if pre_bind.unknown.is_some() => {
                self.write_lost(now, uid, &message);
            }
            WriteOutcome::Refused { message } => self.pre_bind_failed(now, uid, &message),
            WriteOutcome::Unknown { message } => self.write_lost(now, uid, &message),
        }
    }

    /// Handles a write without a result: schedules a retry, unless the watch shows the change first. The resource
    /// version in the write makes the retry safe.
    fn write_lost(&mut self, now: Time, uid: &Uid, message: &str) {
        let unknown = self.volume_bindings.unknown(uid).get_or_insert(UnknownOutcome {
            since: now,
            pause: RETRY_PAUSE_MIN,
            message: String::new(),
        });
        message.clone_into(&mut unknown.message);
        if now.since(unknown.since) > UNKNOWN_MAX {
            return self.pre_bind_failed(now, uid, message);
        }
        let retry_at = now + unknown.pause;
        unknown.pause = (unknown.pause * 2).min(RETRY_PAUSE_MAX);
        self.volume_bindings.enter(uid, Stage::Lost { retry_at });
        self.go_on(now, uid);
    }

    /// Handles all pods whose time has come, and returns whether there were any.
    pub(super) fn pre_bind_times(&mut self, now: Time) -> bool {
        let due = self.volume_bindings.due(now);
        for uid in &due {
            match self.volume_bindings.get(uid).map(|pre_bind| pre_bind.stage) {
                Some(Stage::Lost { .. }) => {
                    self.volume_bindings.enter(uid, Stage::Due);
                    self.go_on(now, uid);
                }
                Some(Stage::Waiting { .. }) => {
                    self.pre_bind_failed(now, uid, "binding volumes: context deadline exceeded");
                }
                Some(Stage::Due | Stage::InFlight { .. }) | None => {}
            }
        }
        !due.is_empty()
    }

    /// Handles an added, changed or deleted storage object.
    pub(super) fn pre_bind_storage(
        &mut self,
        now: Time,
        old: Option<&StorageObject>,
        new: Option<&StorageObject>,
    ) {
        if self.volume_bindings.is_empty() {
            return;
        }
        let mut keys = Vec::new();
        for object in [old, new].into_iter().flatten() {
            keys.push(object.key());
            // A claim may have waited for this volume.
            if let StorageObject::Volume(volume) = object
                && let Some(claim) = &volume.claim
            {
                keys.push(StorageKey::of_claim(claim.namespace, claim.name));
            }
        }
        for uid in self.volume_bindings.concerned(&keys) {
            self.go_on(now, &uid);
        }
    }

    /// Handles the deletion of a node.
    pub(super) fn pre_bind_node_gone(&mut self, now: Time, node: Symbol) {
        for uid in self.volume_bindings.on(node) {
            self.go_on(now, &uid);
        }
    }

    /// Handles an update of the pod. Returns false if it is not in PreBind.
    pub(super) fn pre_bind_updated(&mut self, now: Time, pod: &Arc<PodInfo>) -> bool {
        let Some(before) = self.volume_bindings.renew(pod) else { return false };
        if pod.deleting && !before.deleting {
            self.end_pre_bind(&pod.uid);
            self.free(now, &pod.uid);
        }
        true
    }

    /// Handles a pod that another client has bound to `node`. PreBind continues if that is the chosen node.
    pub(super) fn pre_bind_confirmed(&mut self, uid: &Uid, node: Symbol) {
        if self.volume_bindings.get(uid).is_some_and(|pre_bind| pre_bind.node != node) {
            self.end_pre_bind(uid);
        }
    }

    /// Ends PreBind of all pods and returns those that are not bound. The next leader finds the completed writes.
    pub(super) fn give_up_pre_binds(&mut self, now: Time) -> Vec<QueuedPod> {
        let mut waiting = Vec::new();
        for PreBind { queued, .. } in self.volume_bindings.clear() {
            let uid = &queued.pod.uid;
            if matches!(self.cache.placed(uid), Some((_, _, PodState::Assumed))) {
                self.free(now, uid);
                waiting.push(queued);
            } else {
                self.give_back_volumes(now, uid);
            }
        }
        self.outbox.clear_volumes();
        waiting
    }

    /// Completes PreBind, and starts the binding.
    fn pre_bound(&mut self, now: Time, uid: &Uid) {
        let Some(PreBind { queued, node, began, .. }) = self.end_pre_bind(uid) else { return };
        let outcome = Outcome::PreBound { succeeded: true, took: now.since(began) };
        self.report(&queued, began, outcome);
        // The API server shows all reservations now.
        self.cache.forget_volumes(uid);
        if matches!(self.cache.placed(uid), Some((_, _, PodState::Assumed))) {
            // PreBind took time, and other nodes and pods changed, so the recheck is mandatory.
            let began = queued.found.map_or(began, |search| search.began);
            self.bindings.insert(Arc::clone(uid), Binding::new(queued, node, None, None, began));
            self.outbox.cancel_nomination(uid);
            self.outbox.push_bind(Outgoing::Bind(Arc::clone(uid)));
        }
    }

    /// Fails PreBind: releases the node and the reserved volumes, and retries the pod after its backoff.
    pub(super) fn pre_bind_failed(&mut self, now: Time, uid: &Uid, message: &str) {
        let Some(PreBind { queued, began, .. }) = self.end_pre_bind(uid) else { return };
        self.report(&queued, began, Outcome::PreBound { succeeded: false, took: now.since(began) });
        if matches!(self.cache.placed(uid), Some((_, _, PodState::Added))) {
            // Another client has bound the pod; a PodScheduled=False condition would be wrong.
            return self.give_back_volumes(now, uid);
        }
        self.free(now, uid);
        let text = format!("running PreBind plugin \"{}\": {message}", volume_binding::NAME);
        self.fail(now, queued, began, Failure::Binding(text));
    }

    /// Reverts a decision because a volume or claim changed before it was written. The pod becomes active at its old
    /// rank.
    fn pre_bind_anew(&mut self, now: Time, uid: &Uid) {
        let Some(pre_bind) = self.end_pre_bind(uid) else { return };
        if matches!(self.cache.placed(uid), Some((_, _, PodState::Added))) {
            return self.give_back_volumes(now, uid);
        }
        self.rechecks_failed += 1;
        self.free(now, uid);
        self.queue.activate(now, pre_bind.queued);
    }

    /// Reverts a decision for a reason that does not lie in the pod. The pod becomes active at its old rank.
    pub(super) fn pre_bind_given_up(&mut self, now: Time, uid: &Uid) {
        let Some(pre_bind) = self.end_pre_bind(uid) else { return };
        if matches!(self.cache.placed(uid), Some((_, _, PodState::Added))) {
            return self.give_back_volumes(now, uid);
        }
        self.free(now, uid);
        self.queue.activate(now, pre_bind.queued);
    }

    /// Removes the pod from PreBind. Other pods that skipped a write because of this pod check it again.
    pub(super) fn end_pre_bind(&mut self, uid: &Uid) -> Option<PreBind> {
        let pre_bind = self.volume_bindings.remove(uid)?;
        let keys: Vec<StorageKey> = pre_bind.tasks.iter().map(|task| task.key).collect();
        for other in self.volume_bindings.concerned(&keys) {
            if self.volume_bindings.line_up(&other) {
                self.outbox.push_volume(other);
            }
        }
        Some(pre_bind)
    }

    /// Releases the pod's reserved volumes and requeues pods that this may help. Upstream requeues none.
    pub(super) fn give_back_volumes(&mut self, now: Time, uid: &str) {
        let volumes = self.cache.volumes();
        let mut keys: Vec<StorageKey> =
            volumes.reservations_of(uid).iter().map(Reservation::object).collect();
        keys.retain(|&key| volumes.is_assumed(key));
        self.cache.forget_volumes(uid);
        for key in keys {
            let volumes = self.cache.volumes();
            if let Some(object) = volumes.get(key).filter(|_| !volumes.is_assumed(key)) {
                self.requeue_on(now, &ClusterEvent::Storage { old: Some(&object), new: Some(&object) });
            }
        }
    }
}
