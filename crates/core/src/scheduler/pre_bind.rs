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
mod transitions;

pub(super) use ledger::VolumeBindings;

use super::Scheduler;
use super::binding::Binding;
use super::failure::Failure;
use super::outbox::Outgoing;
use super::profile_named;
use crate::cache::PodState;
use crate::framework::ClusterEvent;
use crate::framework::extension_point::ExtensionPoint;
use crate::model::effect::{Effect, Nomination, StatusPatch, VolumeWrite};
use crate::model::event::WriteOutcome;
use crate::model::intern::Symbol;
use crate::model::pod::{PodInfo, Uid};
use crate::model::time::Time;
use crate::model::volume::{Reservation, StorageKey, StorageObject};
use crate::plugins::volume_binding;
use crate::queue::QueuedPod;
use crate::report::Outcome;
use check::Watched;
use ledger::{PreBind, Task};
use std::sync::Arc;
use transitions::Next;

impl Scheduler {
    /// Whether the pod's profile writes reserved volumes in PreBind.
    pub(super) fn runs_pre_bind(&self, pod: &PodInfo) -> bool {
        self.profile_of(pod)
            .is_some_and(|profile| profile.framework.runs(ExtensionPoint::PreBind, volume_binding::NAME))
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
        if self.tables.rules().nominates_before_pre_bind && pod.nominated_node != Some(node) {
            // PreBind takes a while, so the nomination shows others, such as the cluster autoscaler, where the pod
            // will run.
            let nomination = Nomination::Set(self.tables.text(node).to_owned());
            self.outbox.push_patch(StatusPatch { pod: self.pod_ref(&pod), condition: None, nomination });
            queued.nominated = true;
        }
        self.volume_bindings.insert(PreBind::new(queued, node, tasks, now));
        self.pre_bind_goes_on(now, &pod.uid, Next::GoOn);
    }

    /// Carries out what follows for a pod in PreBind.
    fn pre_bind_goes_on(&mut self, now: Time, uid: &Uid, next: Next) {
        let next = if let Next::GoOn = next { self.next_stage(now, uid) } else { next };
        match next {
            Next::QueueWrite => self.outbox.push_volume(Arc::clone(uid)),
            Next::Bound => self.pre_bound(now, uid),
            Next::Failed(message) => self.pre_bind_failed(now, uid, &message),
            Next::Outdated => {
                let is_reverted = self.revert_pre_bind(now, uid);
                self.volume_bindings.rechecks_failed += u64::from(is_reverted);
            }
            Next::Nothing | Next::GoOn | Next::Write(..) => {}
        }
    }

    fn next_stage(&mut self, now: Time, uid: &Uid) -> Next {
        let Some((queued, ..)) = self.volume_bindings.pod(uid) else { return Next::Nothing };
        let profile = profile_named(&self.profiles, queued.pod.scheduler_name);
        let timeout = profile.map(|profile| profile.framework.bind_timeout).unwrap_or_default();
        let watched = Watched(self.cache.snapshot(&self.tables));
        self.volume_bindings.go_on(now, uid, watched, timeout)
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
        let watched = Watched(self.cache.snapshot(&self.tables));
        match self.volume_bindings.write(uid, watched) {
            Next::Write(write, change) => {
                let (queued, ..) = self.volume_bindings.pod(uid)?;
                Some(Effect::WriteVolume(VolumeWrite { write, pod: self.pod_ref(&queued.pod), change }))
            }
            next => {
                self.pre_bind_goes_on(now, uid, next);
                None
            }
        }
    }

    /// Handles the result of a write.
    pub(super) fn volume_written(&mut self, now: Time, uid: &Uid, write: u64, outcome: WriteOutcome) {
        let next = self.volume_bindings.written(now, uid, write, outcome);
        self.pre_bind_goes_on(now, uid, next);
    }

    /// Handles all pods whose time has come, and returns whether there were any.
    pub(super) fn pre_bind_times(&mut self, now: Time) -> bool {
        let due = self.volume_bindings.due(now);
        for uid in &due {
            let next = self.volume_bindings.time_is_up(uid);
            self.pre_bind_goes_on(now, uid, next);
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
        for uid in self.volume_bindings.affected_by(old, new) {
            self.pre_bind_goes_on(now, &uid, Next::GoOn);
        }
    }

    /// Handles the deletion of a node.
    pub(super) fn pre_bind_node_gone(&mut self, now: Time, node: Symbol) {
        for uid in self.volume_bindings.on(node) {
            self.pre_bind_goes_on(now, &uid, Next::GoOn);
        }
    }

    /// Handles an update of the pod. Returns false if it is not in PreBind.
    pub(super) fn pre_bind_updated(&mut self, now: Time, pod: &Arc<PodInfo>) -> bool {
        let Some(before) = self.volume_bindings.renew(pod) else { return false };
        if pod.deleting && !before.deleting && self.tables.rules().frees_terminating_pods {
            self.volume_bindings.end(&pod.uid, &mut self.outbox);
            self.free(now, &pod.uid);
        }
        true
    }

    /// Handles a pod that another client has bound to `node`. PreBind continues if that is the chosen node.
    pub(super) fn pre_bind_confirmed(&mut self, uid: &Uid, node: Symbol) {
        if self.volume_bindings.pod(uid).is_some_and(|(_, chosen, _)| chosen != node) {
            self.volume_bindings.end(uid, &mut self.outbox);
        }
    }

    /// Ends PreBind of all pods and returns those that are not bound. The next leader finds the completed writes.
    pub(super) fn end_all_pre_binds(&mut self, now: Time) -> Vec<QueuedPod> {
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
        let Some(PreBind { queued, node, began, .. }) = self.volume_bindings.end(uid, &mut self.outbox)
        else {
            return;
        };
        let outcome = Outcome::PreBound { succeeded: true, took: now.since(began) };
        self.report(&queued, began, outcome);
        // The API server shows all reservations now.
        self.cache.forget_volumes(uid);
        if queued.pod.deleting {
            // The API server binds no terminating pod.
            self.free(now, uid);
        } else if matches!(self.cache.placed(uid), Some((_, _, PodState::Assumed))) {
            // PreBind took time, and other nodes and pods changed, so the recheck is mandatory.
            let began = queued.found.map_or(began, |search| search.began);
            self.bindings.insert(Arc::clone(uid), Binding::new(queued, node, None, None, began));
            self.outbox.cancel_nomination(uid);
            self.outbox.push_bind(Outgoing::Bind(Arc::clone(uid)));
        }
    }

    /// Fails PreBind: releases the node and the reserved volumes, and retries the pod after its backoff.
    pub(super) fn pre_bind_failed(&mut self, now: Time, uid: &Uid, message: &str) {
        let Some(PreBind { queued, began, .. }) = self.volume_bindings.end(uid, &mut self.outbox) else {
            return;
        };
        self.report(&queued, began, Outcome::PreBound { succeeded: false, took: now.since(began) });
        if matches!(self.cache.placed(uid), Some((_, _, PodState::Added))) {
            // Another client has bound the pod; a PodScheduled=False condition would be wrong.
            return self.give_back_volumes(now, uid);
        }
        self.free(now, uid);
        let text = format!("running PreBind plugin \"{}\": {message}", volume_binding::NAME);
        self.fail(now, queued, began, Failure::Binding(text));
    }

    /// Reverts a decision for a reason that does not lie in the pod. The pod becomes active at its old rank. Returns
    /// false if the pod is not in PreBind, or is bound already.
    pub(super) fn revert_pre_bind(&mut self, now: Time, uid: &Uid) -> bool {
        let Some(pre_bind) = self.volume_bindings.end(uid, &mut self.outbox) else { return false };
        if matches!(self.cache.placed(uid), Some((_, _, PodState::Added))) {
            self.give_back_volumes(now, uid);
            return false;
        }
        self.free(now, uid);
        self.queue.activate(now, pre_bind.queued);
        true
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
