//! The watched state of the volumes of a pod in PreBind: written, bound, or failed.
//!
//! Upstream: `volumebinding/binder.go#checkBindings`, which also defines the error texts. Upstream stops at the first
//! claim that is not bound yet; this implementation finds failed claims behind it as well.

use super::PreBindFailure;
use super::ledger::{PreBind, Task};
use crate::cache::{DeviceUsage, NodeView, Snapshot};
use crate::cycle::Timeouts;
use crate::framework::CycleError;
use crate::model::device::{Allocation, AllocationMode, Request, RequestKind, ResourceClaim};
use crate::model::effect::{ClaimName, VolumeChange};
use crate::model::intern::Symbol;
use crate::model::time::Time;
use crate::model::volume::{ClaimInfo, ClaimRef, PersistentVolumeInfo, Reservation, StorageKey};
use crate::plugins::dynamic_resources::{Readiness, readiness};
use crate::plugins::volume_binding;
use std::sync::Arc;
use std::time::Duration;

/// The watched state of an object that is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// The object contains the change.
    Done,
    /// The object still has the version of the decision.
    AsDecided,
    /// The object has another version, without the change.
    Changed,
    /// The object does not exist.
    Gone,
}

/// The watched state of the cluster, as far as PreBind reads it.
#[derive(Clone, Copy)]
pub(super) struct Watched<'a>(pub(super) Snapshot<'a>, pub(super) Timeouts);

impl<'a> Watched<'a> {
    /// Returns the state of the object that a task writes.
    pub(super) fn shown(&self, task: &Task) -> Shown {
        let volumes = self.0.volumes();
        if let Some(shown) = self.shown_claim(task) {
            return shown;
        }
        let is_done = match &task.reservation {
            Reservation::Bind { volume, claim, .. } => {
                volumes.volume(*volume).is_some_and(|volume| volume.claim.as_ref() == Some(claim))
            }
            Reservation::Provision { namespace, name, node } => {
                volumes.claim(*namespace, *name).is_some_and(|claim| claim.selected_node == Some(*node))
            }
            Reservation::Allocate { .. } | Reservation::Share { .. } | Reservation::Create { .. } => false,
        };
        match volumes.version(task.key) {
            None => Shown::Gone,
            Some(_) if is_done => Shown::Done,
            Some(version) if *version == *task.version => Shown::AsDecided,
            Some(_) => Shown::Changed,
        }
    }

    /// Returns the shown version of the object that a task writes.
    pub(super) fn version(&self, task: &Task) -> &'a str {
        self.0.volumes().version(task.key).unwrap_or_default()
    }

    /// Whether the claim for which a task binds a volume is still the decision's. Returns an error if it is gone.
    pub(super) fn is_claim_decided(&self, task: &Task) -> Result<bool, String> {
        let Reservation::Bind { claim: decided, .. } = &task.reservation else { return Ok(true) };
        let claim = self.claim(decided.namespace, decided.name)?;
        Ok(decided.uid.as_ref().is_none_or(|uid| *uid == claim.uid))
    }

    /// Whether the devices that a task allocates have another claim by now: that of another scheduler, or one whose
    /// write was taken for lost. The API server does not compare claims.
    pub(super) fn are_devices_taken(&self, task: &Task) -> bool {
        let (Reservation::Allocate { allocation, .. } | Reservation::Create { allocation, .. }) =
            &task.reservation
        else {
            return false;
        };
        let allocated = self.0.devices().allocated();
        let mut results = allocation.results.iter().filter(|result| !result.admin_access);
        results.any(|result| allocated.of(&result.device).is_some_and(DeviceUsage::is_taken_twice))
    }

    /// Returns the write of a task.
    pub(super) fn change(&self, task: &Task) -> VolumeChange {
        let text = |symbol| self.0.text(symbol).to_owned();
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
                        version: self.0.volumes().version(key).unwrap_or_default().to_owned(),
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
            Reservation::Allocate { claim, allocation } => self.reserve(claim, Some(allocation)),
            Reservation::Share { claim } => self.reserve(claim, None),
            Reservation::Create { claim, allocation, mappings } => VolumeChange::Create {
                namespace: text(claim.namespace),
                requests: claim.spec.requests.iter().filter_map(|request| self.exact(request)).collect(),
                allocation: Arc::clone(allocation),
                mappings: mappings
                    .iter()
                    .map(|it| (it.container.to_string(), text(it.resource), it.request.to_string()))
                    .collect(),
            },
        }
    }

    /// Returns name, class and number of a request for extended resources.
    fn exact(&self, request: &Request) -> Option<(String, String, i64)> {
        let RequestKind::Exactly(exact) = &request.kind else { return None };
        let AllocationMode::ExactCount(count) = exact.mode else { return None };
        Some((request.name.to_string(), self.0.text(exact.class).to_owned(), count))
    }

    fn reserve(&self, claim: &ResourceClaim, allocation: Option<&Arc<Allocation>>) -> VolumeChange {
        let shown = self.0.devices().claim(claim.namespace, claim.name).map_or(claim, |shown| shown);
        let is_stamped = allocation.is_none()
            && shown.allocation.as_ref().is_some_and(|allocation| allocation.allocated_at.is_some());
        VolumeChange::Reserve {
            claim: ClaimName {
                namespace: self.0.text(claim.namespace).to_owned(),
                name: self.0.text(claim.name).to_owned(),
                uid: Arc::clone(&claim.uid),
                version: shown.resource_version.to_string(),
            },
            add_finalizer: allocation.is_some() && !shown.is_protected,
            allocation: allocation.cloned(),
            stamps: self.0.rules().waits_for_devices() && !is_stamped,
        }
    }

    /// Returns until when the claim cannot be reserved, since an earlier attempt of the pod gave up the reservation
    /// and the watch does not show that yet.
    pub(super) fn given_up_until(&self, task: &Task) -> Option<Time> {
        let until = self.0.devices().given_up_until(task.claim()?, &task.pod);
        until.filter(|until| *until > self.0.now())
    }

    /// Returns the state of the ResourceClaim that a task writes; `None` if it writes another kind of object.
    fn shown_claim(&self, task: &Task) -> Option<Shown> {
        let (decided, allocation) = match &task.reservation {
            Reservation::Bind { .. } | Reservation::Provision { .. } => return None,
            Reservation::Create { claim, allocation, .. } => return Some(self.shown_made(claim, allocation)),
            Reservation::Allocate { claim, allocation } => (claim, Some(allocation)),
            Reservation::Share { claim } => (claim, None),
        };
        let claim = self.0.devices().claim(decided.namespace, decided.name);
        let Some(claim) = claim.filter(|claim| claim.uid == decided.uid) else { return Some(Shown::Gone) };
        let is_reserved = self.0.devices().is_reserved(claim, &task.pod);
        let has_devices = |expected: &Allocation| {
            claim.allocation.as_ref().is_some_and(|shown| shown.results == expected.results)
        };
        Some(match (allocation, &decided.allocation) {
            (Some(expected), _) if has_devices(expected) && is_reserved => Shown::Done,
            (Some(_), _) if claim.allocation.is_none() && !claim.deleting => Shown::AsDecided,
            (None, Some(expected)) if has_devices(expected) && is_reserved => Shown::Done,
            (None, Some(expected)) if has_devices(expected) && !claim.deleting => Shown::AsDecided,
            _ => Shown::Changed,
        })
    }

    /// Returns the state of a claim that is made for the pod's extended resources. An earlier attempt may have left
    /// another one.
    fn shown_made(&self, planned: &ResourceClaim, expected: &Allocation) -> Shown {
        if self.made(planned, expected).is_some() {
            Shown::Done
        } else if self.made_as(planned).next().is_some() {
            Shown::Changed
        } else {
            Shown::AsDecided
        }
    }

    /// Returns the claim that was made as planned, with these devices.
    pub(super) fn made(
        &self,
        planned: &ResourceClaim,
        expected: &Allocation,
    ) -> Option<&'a Arc<ResourceClaim>> {
        let has_devices = |claim: &ResourceClaim| {
            claim.allocation.as_ref().is_some_and(|shown| shown.results == expected.results)
        };
        let is_reserved = |claim: &ResourceClaim| {
            planned.controller.as_ref().is_some_and(|(_, pod)| claim.reserved_for.contains(pod))
        };
        self.made_as(planned).find(|claim| has_devices(claim) && is_reserved(claim))
    }

    /// Returns the claims that exist for the pod of a planned one.
    fn made_as<'b>(
        &self,
        planned: &'b ResourceClaim,
    ) -> impl Iterator<Item = &'a Arc<ResourceClaim>> + use<'a, 'b> {
        let devices = self.0.devices();
        planned.controller.iter().flat_map(|(name, uid)| devices.made_for(name, uid))
    }

    /// Returns the chosen node, or an error if it does not exist any more.
    pub(super) fn node_of(&self, pre_bind: &PreBind) -> Result<NodeView<'a>, String> {
        let Self(snapshot, _) = *self;
        let name = snapshot.text(pre_bind.node);
        let node = snapshot.find_node(pre_bind.node).map(|idx| snapshot.node(idx));
        node.ok_or_else(|| format!("failed to get node \"{name}\": node \"{name}\" not found"))
    }

    /// Returns the time limit for the claims of a pod.
    pub(super) fn timeout(&self, pre_bind: &PreBind) -> Duration {
        let has_volumes = pre_bind.tasks.iter().any(|task| !task.is_of_devices());
        if has_volumes { self.1.volumes } else { self.1.devices }
    }

    /// Whether all written claims are bound. Returns an error if one of them cannot be bound any more.
    pub(super) fn are_bound(&self, pre_bind: &PreBind) -> Result<bool, PreBindFailure> {
        let of_volumes = |why| PreBindFailure::of_volumes(format!("binding volumes: {why}"));
        let node = self.node_of(pre_bind).map_err(of_volumes)?;
        let mut all = true;
        for task in &pre_bind.tasks {
            all &= match &task.reservation {
                Reservation::Bind { claim, .. } => self.is_bound(&node, task, claim).map_err(of_volumes)?,
                Reservation::Provision { namespace, name, .. } => {
                    self.is_provided(&node, task, *namespace, *name).map_err(of_volumes)?
                }
                Reservation::Allocate { claim, .. } | Reservation::Share { claim } => {
                    self.is_reserved(task, claim).map_err(PreBindFailure::of_devices)?
                }
                Reservation::Create { claim, allocation, .. } => {
                    self.is_made(claim, allocation).map_err(PreBindFailure::of_devices)?
                }
            };
        }
        Ok(all)
    }

    /// Whether the claim for the pod's extended resources exists with its devices, and these are ready.
    fn is_made(&self, planned: &ResourceClaim, expected: &Allocation) -> Result<bool, String> {
        self.made(planned, expected).map_or(Ok(false), |claim| self.is_ready(claim))
    }

    /// Whether the devices of a claim are ready. Returns an error if one failed, or took too long.
    fn is_ready(&self, claim: &ResourceClaim) -> Result<bool, String> {
        if !self.0.rules().waits_for_devices() {
            return Ok(true);
        }
        let name = self.0.text(claim.name);
        match readiness(claim, self.1.devices, self.0.now()) {
            Readiness::Ready => Ok(true),
            Readiness::Waiting => Ok(false),
            Readiness::TimedOut => Err(format!("device binding timeout: claim={name}")),
            Readiness::Failed { reason, message } => {
                Err(format!("device binding failed: claim={name}, reason={reason}, message={message:?}"))
            }
        }
    }

    /// Whether a ResourceClaim is reserved for the pod, with its devices. Returns an error if it was deallocated or
    /// deleted since.
    fn is_reserved(&self, task: &Task, claim: &ResourceClaim) -> Result<bool, String> {
        let name = || format!("{}/{}", self.0.text(claim.namespace), self.0.text(claim.name));
        match self.shown(task) {
            Shown::Done => {
                let shown = self.0.devices().claim(claim.namespace, claim.name);
                shown.map_or(Ok(false), |claim| self.is_ready(claim))
            }
            // The watch does not show the write yet.
            Shown::AsDecided => Ok(false),
            Shown::Changed => Err(format!("claim {} got deallocated elsewhere in the meantime", name())),
            Shown::Gone => Err(format!("claim {} got deleted in the meantime", name())),
        }
    }

    /// Whether a claim is bound to its volume. Returns an error if the volume or the claim is no longer the decision's:
    /// the volume was given to another claim, or another claim has the name.
    fn is_bound(&self, node: &NodeView<'_>, task: &Task, decided: &ClaimRef) -> Result<bool, String> {
        let check = |text: String| format!("failed to check binding: {text}");
        let volume = self.0.volumes().volume(task.key.name).ok_or_else(|| check(self.not_found(task.key)))?;
        let claim = self.claim(decided.namespace, decided.name).map_err(check)?;
        if !self.is_claim_decided(task).map_err(check)? {
            return Err(check(self.not_found(StorageKey::of_claim(decided.namespace, decided.name))));
        }
        let shown = self.shown(task);
        if shown == Shown::AsDecided {
            return Ok(false);
        }
        let failed = |CycleError(text)| format!("failed to translate pv to csi: {text}");
        self.must_reach(node, volume, failed)?;
        if shown != Shown::Done {
            return Err(format!("ClaimRef got reset for pv \"{}\"", self.0.text(volume.name)));
        }
        Ok(claim.bound_volume().is_some())
    }

    /// Whether a claim is bound to the volume provisioned for it.
    fn is_provided(
        &self,
        node: &NodeView<'_>,
        task: &Task,
        namespace: Symbol,
        name: Symbol,
    ) -> Result<bool, String> {
        let missing = |text| format!("failed to check provisioning pvc: {text}");
        let claim = self.claim(namespace, name).map_err(missing)?;
        match self.shown(task) {
            Shown::AsDecided => return Ok(false),
            Shown::Done => {}
            Shown::Changed | Shown::Gone => {
                let name = self.0.text(name);
                return Err(if claim.annotated {
                    // The provisioner removes the annotation to report that it failed and that another node may be
                    // chosen.
                    format!("provisioning failed for PVC \"{name}\"")
                } else {
                    format!("selectedNode annotation reset for PVC \"{name}\"")
                });
            }
        }
        let Some(volume) = claim.volume else { return Ok(false) };
        // The volume may not have arrived in the watch yet.
        let Some(volume) = self.0.volumes().volume(volume) else { return Ok(false) };
        self.must_reach(node, volume, |CycleError(text)| text)?;
        Ok(claim.bound_volume().is_some())
    }

    fn must_reach(
        &self,
        node: &NodeView<'_>,
        volume: &PersistentVolumeInfo,
        failed: impl Fn(CycleError) -> String,
    ) -> Result<(), String> {
        if volume_binding::reaches(node, volume).map_err(failed)? {
            return Ok(());
        }
        let (volume, node) = (self.0.text(volume.name), self.0.text(node.name()));
        Err(format!(
            "pv \"{volume}\" node affinity doesn't match node \"{node}\": no matching NodeSelectorTerms"
        ))
    }

    fn claim(&self, namespace: Symbol, name: Symbol) -> Result<&'a Arc<ClaimInfo>, String> {
        let claim = self.0.volumes().claim(namespace, name);
        claim.ok_or_else(|| self.not_found(StorageKey::of_claim(namespace, name)))
    }

    /// Returns upstream's error text for a missing volume or claim (`apimachinery/pkg/api/errors#NewNotFound`).
    pub(super) fn not_found(&self, key: StorageKey) -> String {
        let name = self.0.text(key.name);
        match key.namespace {
            Some(namespace) => {
                format!("persistentvolumeclaims \"{}/{name}\" not found", self.0.text(namespace))
            }
            None => format!("persistentvolumes \"{name}\" not found"),
        }
    }
}
