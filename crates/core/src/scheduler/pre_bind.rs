//! PreBind: pods between decision and binding whose volumes or ResourceClaims wait for their node.
//!
//! The reserved volumes and claims are written one after the other; then the pod waits until the watch shows every
//! claim bound. Other pods continue: writes have their own lane, and everything else is an event or a time. A write
//! carries the resource version of the decision, so it is safe to resend or to drop it, and no volume is assigned
//! twice. Writes are not reverted if a later step fails; the next attempt finds them.
//!
//! Upstream: `pkg/scheduler/schedule_one.go#bindingCycle`, `volumebinding/binder.go#BindPodVolumes`.

mod check;
mod claims;
mod ledger;
mod transitions;

pub(super) use ledger::VolumeBindings;

use super::Scheduler;
use super::binding::Binding;
use super::failure::Failure;
use super::profile_named;
use crate::cache::PodState;
use crate::cycle::Timeouts;
use crate::framework::extension_point::ExtensionPoint;
use crate::framework::{ClusterEvent, PluginName};
use crate::model::device::{Allocation, ResourceClaim};
use crate::model::effect::{Effect, Nomination, Severity, StatusPatch, VolumeWrite};
use crate::model::event::WriteOutcome;
use crate::model::intern::Symbol;
use crate::model::pod::{PodInfo, Uid};
use crate::model::time::Time;
use crate::model::volume::{Reservation, StorageKey, StorageKind, StorageObject};
use crate::plugins::{dynamic_resources, volume_binding};
use crate::queue::QueuedPod;
use crate::report::Outcome;
use check::Watched;
use ledger::{PreBind, Task};
use std::sync::Arc;
use std::time::Duration;
use transitions::Next;

/// The id of a write that no pod in PreBind waits for.
const UNAWAITED: u64 = 0;
/// How long a gated pod waits until it gives up a claim again after the write failed.
const GIVE_UP_AGAIN: Duration = Duration::from_secs(60);
/// How long the watch may take to show a write that was answered.
const SHOWN_WITHIN: Duration = Duration::from_secs(600);
/// How long the watch may take to show a write that was not answered. Requests end long before.
const SHOWN_IF_STORED_WITHIN: Duration = Duration::from_secs(60);

/// Why PreBind failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PreBindFailure {
    /// The plugin.
    pub(super) plugin: PluginName,
    /// Its error.
    pub(super) message: String,
}

impl PreBindFailure {
    /// A failure of VolumeBinding.
    pub(super) fn of_volumes(message: impl Into<String>) -> Self {
        Self { plugin: volume_binding::NAME, message: message.into() }
    }

    /// A failure of DynamicResources.
    pub(super) fn of_devices(message: impl Into<String>) -> Self {
        Self { plugin: dynamic_resources::NAME, message: message.into() }
    }
}

impl Scheduler {
    /// Returns whether the pod's profile writes a reservation in PreBind.
    pub(super) fn writes_in_pre_bind(&self, pod: &PodInfo) -> impl Fn(&Reservation) -> bool + use<> {
        let runs = |plugin| {
            let profile = self.profile_of(pod);
            profile.is_some_and(|profile| profile.framework.runs(ExtensionPoint::PreBind, plugin))
        };
        let (volumes, claims) = (runs(volume_binding::NAME), runs(dynamic_resources::NAME));
        move |it| if it.object().kind == StorageKind::ResourceClaim { claims } else { volumes }
    }

    /// Returns the reservations of a pod that its profile writes in PreBind.
    fn reservations_to_write(&self, pod: &PodInfo) -> impl Iterator<Item = &Reservation> {
        let is_written = self.writes_in_pre_bind(pod);
        self.cache.volumes().reservations_of(&pod.uid).iter().filter(move |it| is_written(it))
    }

    /// Whether the pod, which has just been assumed, has reservations to be written in PreBind.
    pub(super) fn has_reservations_to_write(&self, pod: &PodInfo) -> bool {
        self.reservations_to_write(pod).next().is_some()
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
                pod: Arc::clone(&pod.uid),
                version: volumes.version(key).unwrap_or_default().into(),
                sent: None,
            }
        };
        let tasks = self.reservations_to_write(&pod).map(task).collect();
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
            Next::Failed(failure) => self.pre_bind_failed(now, uid, &failure),
            Next::Outdated => {
                let is_reverted = self.revert_pre_bind(now, uid);
                self.volume_bindings.rechecks_failed += u64::from(is_reverted);
            }
            Next::WaitsForConditions => self.note_conditions(uid),
            Next::Nothing | Next::GoOn | Next::Write(..) => {}
        }
    }

    /// Reports that a pod waits until its devices are reported as ready.
    fn note_conditions(&mut self, uid: &Uid) {
        let Some((queued, node, _)) = self.volume_bindings.pod(uid) else { return };
        let (pod, node) = (Arc::clone(&queued.pod), self.tables.text(node));
        let note = format!("waiting for binding conditions for device on node {node}");
        self.record(&pod, Severity::Normal, "BindingConditionsPending", "Scheduling", note);
    }

    fn next_stage(&mut self, now: Time, uid: &Uid) -> Next {
        let Some((queued, ..)) = self.volume_bindings.pod(uid) else { return Next::Nothing };
        let profile = profile_named(&self.profiles, queued.pod.scheduler_name);
        let timeouts = profile.map(|profile| profile.framework.timeouts).unwrap_or_default();
        let watched = Watched(self.cache.snapshot(&self.tables), timeouts);
        self.volume_bindings.go_on(now, uid, watched)
    }

    /// Returns the next volume write that has a credit.
    pub(super) fn release_volume(&mut self, now: Time) -> Option<Effect> {
        if let Some(((pod, claim), write)) = self.outbox.pop_claim() {
            self.cache.give_up_sent(&claim, &pod, now);
            return Some(Effect::WriteVolume(write));
        }
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
        let watched = Watched(self.cache.snapshot(&self.tables), Timeouts::default());
        match self.volume_bindings.write(now, uid, watched) {
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
        if write == UNAWAITED {
            if outcome != WriteOutcome::Done {
                // The pod tries again. Without the write, no event would bring it back.
                self.use_or_give_up_claims(now, uid, now + GIVE_UP_AGAIN);
            }
            return;
        }
        if outcome == WriteOutcome::Done
            && let Some(claim) = self.volume_bindings.claim_written_by(uid, write)
        {
            self.cache.reservation_written(&claim, uid);
        }
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

    /// Handles a pod that keeps claims which it was about to give up.
    pub(super) fn pre_bind_looks_again(&mut self, now: Time, uid: &Uid) {
        self.pre_bind_goes_on(now, uid, Next::GoOn);
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
            self.end_pre_bind(&pod.uid);
            self.free(now, &pod.uid);
        }
        true
    }

    /// Handles a pod that another client has bound to `node`. PreBind continues if that is the chosen node.
    pub(super) fn pre_bind_confirmed(&mut self, uid: &Uid, node: Symbol) {
        let Some((_, chosen, _)) = self.volume_bindings.pod(uid) else { return };
        if chosen != node {
            self.end_pre_bind(uid);
        }
        // The start of a group does not wait for a member that is bound.
        self.look_at_starts();
    }

    /// Ends PreBind of all pods and returns those that are not bound. The next leader finds the completed writes.
    pub(super) fn end_all_pre_binds(&mut self, now: Time) -> Vec<QueuedPod> {
        let mut waiting = Vec::new();
        for pre_bind in self.volume_bindings.clear() {
            self.linger(&pre_bind);
            let queued = pre_bind.queued;
            let uid = &queued.pod.uid;
            if matches!(self.cache.placed(uid), Some((_, _, PodState::Assumed))) {
                self.free(now, uid);
                waiting.push(queued);
            } else {
                self.forget_given_up_if_bound(uid);
                self.give_back_volumes(now, uid);
            }
        }
        self.outbox.clear_volumes();
        waiting
    }

    /// Takes a pod out of PreBind. Devices that were sent for its claims stay taken until the watch shows them: the API
    /// server may have stored them.
    pub(super) fn end_pre_bind(&mut self, uid: &Uid) -> Option<PreBind> {
        let pre_bind = self.volume_bindings.end(uid, &mut self.outbox)?;
        self.linger(&pre_bind);
        self.forget_given_up_if_bound(uid);
        Some(pre_bind)
    }

    fn linger(&mut self, pre_bind: &PreBind) {
        let sent = pre_bind.sent_allocations().map(|(claim, is_stored)| (Arc::clone(claim), is_stored));
        self.linger_sent(sent.collect());
    }

    fn linger_sent(&mut self, sent: Vec<(Arc<ResourceClaim>, bool)>) {
        let now = self.snapshot().now();
        for (claim, is_stored) in sent {
            let wait = if is_stored { SHOWN_WITHIN } else { SHOWN_IF_STORED_WITHIN };
            self.cache.linger(&claim, now + wait);
        }
    }

    /// Requeues pods that wait for the devices which a claim had, or would have had. Upstream requeues none.
    pub(super) fn devices_freed(&mut self, now: Time, claim: &Arc<ResourceClaim>) {
        let freed = ResourceClaim { allocation: None, ..ResourceClaim::clone(claim) };
        let old = StorageObject::ResourceClaim(Arc::clone(claim));
        let new = StorageObject::ResourceClaim(freed.into());
        self.requeue_on(now, &ClusterEvent::Storage { old: Some(&old), new: Some(&new) });
    }

    /// Completes PreBind, and starts the binding.
    fn pre_bound(&mut self, now: Time, uid: &Uid) {
        let Some(pre_bind) = self.volume_bindings.end(uid, &mut self.outbox) else { return };
        let devices = pre_bind.device_wait(now, None);
        self.forget_given_up_if_bound(uid);
        let PreBind { queued, node, began, .. } = pre_bind;
        let outcome = Outcome::PreBound { succeeded: true, failed: None, took: now.since(began), devices };
        self.report(&queued, began, outcome);
        // The API server shows all reservations now.
        for claim in self.claims_reserved_by(uid) {
            self.cache.avoid_devices(&claim, None);
        }
        let made = self.claim_made_for(uid);
        self.cache.forget_volumes(uid);
        if let Some(made) = made {
            self.cache.settle_claim(uid, &made);
            self.delete_surplus_claims(uid);
        }
        if queued.pod.deleting {
            // The API server binds no terminating pod.
            self.free(now, uid);
        } else if matches!(self.cache.placed(uid), Some((_, _, PodState::Assumed))) {
            // PreBind took time, and other nodes and pods changed, so the recheck is mandatory.
            let began = queued.found.map_or(began, |search| search.began);
            let pod = Arc::clone(&queued.pod);
            self.bindings.insert(Arc::clone(uid), Binding::new(queued, node, None, None, began));
            self.outbox.cancel_nomination(uid);
            self.queue_bind(&pod);
        }
    }

    /// Fails PreBind: releases the node and the reserved volumes, and retries the pod after its backoff.
    pub(super) fn pre_bind_failed(&mut self, now: Time, uid: &Uid, failure: &PreBindFailure) {
        let Some(pre_bind) = self.end_pre_bind(uid) else { return };
        let devices = pre_bind.device_wait(now, Some(failure));
        let PreBind { queued, began, .. } = pre_bind;
        let (failed, took) = (Some(failure.plugin), now.since(began));
        self.report(&queued, began, Outcome::PreBound { succeeded: false, failed, took, devices });
        let text = format!("running PreBind plugin \"{}\": {}", failure.plugin, failure.message);
        self.not_pre_bound(now, (queued, began), text, None);
    }

    /// Retries a pod whose PreBind ended. `keeps` says whether it keeps its node; `None` if its group decides that.
    pub(super) fn not_pre_bound(
        &mut self,
        now: Time,
        (queued, began): (QueuedPod, Time),
        message: String,
        keeps: Option<bool>,
    ) {
        if matches!(self.cache.placed(&queued.pod.uid), Some((_, _, PodState::Added))) {
            // Another client has bound the pod; a PodScheduled=False condition would be wrong.
            return self.give_back_volumes(now, &queued.pod.uid);
        }
        let node = self.free(now, &queued.pod.uid);
        let keeps = keeps.unwrap_or_else(|| self.keeps_node_after_failure(now, &queued.pod));
        self.fail(now, queued, began, Failure::Binding { message, node: node.filter(|_| keeps) });
    }

    /// Returns the uids of the ResourceClaims that are reserved for a pod in PreBind.
    fn claims_reserved_by(&self, uid: &str) -> Vec<Uid> {
        let reservations = self.cache.volumes().reservations_of(uid).iter();
        let claims = reservations.filter_map(|reservation| match reservation {
            Reservation::Allocate { claim, .. }
            | Reservation::Create { claim, .. }
            | Reservation::Share { claim } => Some(Arc::clone(&claim.uid)),
            Reservation::Bind { .. } | Reservation::Provision { .. } => None,
        });
        claims.collect()
    }

    /// Returns the claim that PreBind made for a pod.
    fn claim_made_for(&self, uid: &Uid) -> Option<Arc<ResourceClaim>> {
        let reservations = self.cache.volumes().reservations_of(uid).iter();
        let expected = reservations.filter_map(|reservation| match reservation {
            Reservation::Create { claim, allocation, .. } => Some((claim, allocation)),
            _ => None,
        });
        let watched = Watched(self.cache.snapshot(&self.tables), Timeouts::default());
        expected.filter_map(|(planned, expected)| watched.made(planned, expected)).next().cloned()
    }

    /// Returns a claim with the allocation that is being written to it, until the watch shows the change.
    pub(super) fn hidden_allocation(&self, key: StorageKey) -> Option<Arc<ResourceClaim>> {
        if key.kind != StorageKind::ResourceClaim {
            return None;
        }
        let devices = self.cache.volumes().devices();
        let claim = devices.claim(key.namespace?, key.name)?;
        let hidden = devices.in_flight(&claim.uid)?;
        Some(Arc::new(ResourceClaim { allocation: Some(Arc::clone(hidden)), ..ResourceClaim::clone(claim) }))
    }

    /// Requeues pods that wait for such devices, if the watch has shown the claim without them.
    pub(super) fn hidden_allocation_ended(&mut self, now: Time, hidden: Option<Arc<ResourceClaim>>) {
        let Some(hidden) = hidden else { return };
        let devices = self.cache.volumes().devices();
        let shown = devices.claim(hidden.namespace, hidden.name).filter(|shown| shown.uid == hidden.uid);
        let results = |claim: &ResourceClaim| claim.allocation.as_ref().map(|it| it.results.clone());
        let is_shown = shown.is_some_and(|shown| results(shown) == results(&hidden));
        if devices.in_flight(&hidden.uid).is_none() && !is_shown {
            self.devices_freed(now, &hidden);
        }
    }

    /// Returns the claims that a pod in PreBind allocates, with their new devices.
    fn devices_reserved_by(&self, uid: &str) -> Vec<Arc<ResourceClaim>> {
        let with = |claim: &ResourceClaim, allocation: &Arc<Allocation>| {
            Arc::new(ResourceClaim { allocation: Some(Arc::clone(allocation)), ..claim.clone() })
        };
        let reservations = self.cache.volumes().reservations_of(uid).iter();
        let claims = reservations.filter_map(|reservation| match reservation {
            Reservation::Allocate { claim, allocation } | Reservation::Create { claim, allocation, .. } => {
                Some(with(claim, allocation))
            }
            Reservation::Share { .. } | Reservation::Bind { .. } | Reservation::Provision { .. } => None,
        });
        claims.collect()
    }

    /// Reverts a decision for a reason that does not lie in the pod. The pod becomes active at its old rank, unless
    /// that happened several times. Returns false if the pod is not in PreBind, or is bound already.
    pub(super) fn revert_pre_bind(&mut self, now: Time, uid: &Uid) -> bool {
        let Some(pre_bind) = self.end_pre_bind(uid) else { return false };
        if matches!(self.cache.placed(uid), Some((_, _, PodState::Added))) {
            self.give_back_volumes(now, uid);
            return false;
        }
        self.free(now, uid);
        self.decide_again(now, pre_bind.queued);
        true
    }

    /// Releases the pod's reserved volumes and requeues pods that this may help. Upstream requeues none.
    pub(super) fn give_back_volumes(&mut self, now: Time, uid: &str) {
        // PreBind may still run, if another client has bound the pod elsewhere.
        self.linger_sent(self.volume_bindings.sent_allocations(uid));
        let volumes = self.cache.volumes();
        let keys = volumes.reservations_of(uid).iter().map(Reservation::object);
        let keys: Vec<StorageKey> = keys.filter(|&key| volumes.is_assumed(key)).collect();
        let devices = self.devices_reserved_by(uid);
        self.cache.forget_volumes(uid);
        for claim in devices {
            // Devices that were sent linger, and others wait until that ends.
            if self.cache.volumes().devices().in_flight(&claim.uid).is_none() {
                self.devices_freed(now, &claim);
            }
        }
        for key in keys {
            let volumes = self.cache.volumes();
            if let Some(object) = volumes.get(key).filter(|_| !volumes.is_assumed(key)) {
                self.requeue_on(now, &ClusterEvent::Storage { old: Some(&object), new: Some(&object) });
            }
        }
    }
}
