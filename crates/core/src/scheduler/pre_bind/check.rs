//! The watched state of the volumes of a pod in PreBind: written, bound, or failed.
//!
//! Upstream: `volumebinding/binder.go#checkBindings`, which also defines the error texts. Upstream stops at the first
//! claim that is not bound yet; this implementation finds failed claims behind it as well.

use super::ledger::{PreBind, Task};
use crate::cache::{NodeView, Snapshot};
use crate::framework::CycleError;
use crate::model::effect::{ClaimName, VolumeChange};
use crate::model::intern::Symbol;
use crate::model::volume::{ClaimInfo, ClaimRef, PersistentVolumeInfo, Reservation, StorageKey};
use crate::plugins::volume_binding;
use std::sync::Arc;

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
pub(super) struct Watched<'a>(pub(super) Snapshot<'a>);

impl<'a> Watched<'a> {
    /// Returns the state of the object that a task writes.
    pub(super) fn shown(&self, task: &Task) -> Shown {
        let volumes = self.0.volumes();
        let is_done = match &task.reservation {
            Reservation::Bind { volume, claim, .. } => {
                volumes.volume(*volume).is_some_and(|volume| volume.claim.as_ref() == Some(claim))
            }
            Reservation::Provision { namespace, name, node } => {
                volumes.claim(*namespace, *name).is_some_and(|claim| claim.selected_node == Some(*node))
            }
        };
        match volumes.version(task.key) {
            None => Shown::Gone,
            Some(_) if is_done => Shown::Done,
            Some(version) if *version == *task.version => Shown::AsDecided,
            Some(_) => Shown::Changed,
        }
    }

    /// Whether the claim for which a task binds a volume is still the decision's. Returns an error if it is gone.
    pub(super) fn is_claim_decided(&self, task: &Task) -> Result<bool, String> {
        let Reservation::Bind { claim: decided, .. } = &task.reservation else { return Ok(true) };
        let claim = self.claim(decided.namespace, decided.name)?;
        Ok(decided.uid.as_ref().is_none_or(|uid| *uid == claim.uid))
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
        }
    }

    /// Returns the chosen node, or an error if it does not exist any more.
    pub(super) fn node_of(&self, pre_bind: &PreBind) -> Result<NodeView<'a>, String> {
        let Self(snapshot) = *self;
        let name = snapshot.text(pre_bind.node);
        let node = snapshot.find_node(pre_bind.node).map(|idx| snapshot.node(idx));
        node.ok_or_else(|| format!("failed to get node \"{name}\": node \"{name}\" not found"))
    }

    /// Whether all written claims are bound. Returns an error if one of them cannot be bound any more.
    pub(super) fn are_bound(&self, pre_bind: &PreBind) -> Result<bool, String> {
        let node = self.node_of(pre_bind)?;
        let mut all = true;
        for task in &pre_bind.tasks {
            all &= match &task.reservation {
                Reservation::Bind { claim, .. } => self.is_bound(&node, task, claim)?,
                Reservation::Provision { namespace, name, .. } => {
                    self.is_provided(&node, task, *namespace, *name)?
                }
            };
        }
        Ok(all)
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

    /// Returns upstream's error text for a missing object (`apimachinery/pkg/api/errors#NewNotFound`).
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
