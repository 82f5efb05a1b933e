//! What the watch shows of the volumes of a pod in PreBind: written, bound, or not to be had any more.
//!
//! Upstream: `volumebinding/binder.go#checkBindings`, whose texts these are. It ends at the first claim that is not bound
//! yet; here a claim that failed is seen whatever the others do.

use super::book::{PreBind, Task};
use crate::cache::NodeView;
use crate::framework::CycleError;
use crate::intern::Symbol;
use crate::plugins::volume_binding;
use crate::scheduler::Scheduler;
use crate::volume::{ClaimInfo, PersistentVolumeInfo, Reservation, StorageKey};
use std::sync::Arc;

/// What the watch shows of an object that is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// What was to be written stands there.
    Done,
    /// The version that was decided on.
    AsDecided,
    /// Another version, without it.
    Changed,
    /// Nothing.
    Gone,
}

impl Scheduler {
    pub(super) fn shown(&self, task: &Task) -> Shown {
        let volumes = self.cache.volumes();
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

    /// The node the pod is to go to, or why it cannot any more.
    pub(super) fn node_of(&self, pre_bind: &PreBind) -> Result<NodeView<'_>, String> {
        let snapshot = self.snapshot();
        let name = snapshot.text(pre_bind.node);
        let node = snapshot.find_node(pre_bind.node).map(|idx| snapshot.node(idx));
        node.ok_or_else(|| format!("failed to get node \"{name}\": node \"{name}\" not found"))
    }

    /// Whether all claims that were written of are bound; an error where one cannot be.
    pub(super) fn are_bound(&self, pre_bind: &PreBind) -> Result<bool, String> {
        let node = self.node_of(pre_bind)?;
        let mut all = true;
        for task in &pre_bind.tasks {
            all &= match &task.reservation {
                Reservation::Bind { claim, .. } => self.is_bound(&node, task, claim.namespace, claim.name)?,
                Reservation::Provision { namespace, name, .. } => {
                    self.is_provided(&node, task, *namespace, *name)?
                }
            };
        }
        Ok(all)
    }

    /// Whether a claim is bound to the volume that is there for it.
    fn is_bound(
        &self,
        node: &NodeView<'_>,
        task: &Task,
        namespace: Symbol,
        name: Symbol,
    ) -> Result<bool, String> {
        let check = |text: String| format!("failed to check binding: {text}");
        let volume =
            self.cache.volumes().volume(task.key.name).ok_or_else(|| check(self.not_found(task.key)))?;
        let claim = self.claim(namespace, name).map_err(check)?;
        if self.shown(task) == Shown::AsDecided {
            return Ok(false);
        }
        let failed = |CycleError(text)| format!("failed to translate pv to csi: {text}");
        self.must_reach(node, volume, failed)?;
        if volume.claim.as_ref().is_none_or(|claim| claim.uid.is_none()) {
            return Err(format!("ClaimRef got reset for pv \"{}\"", self.tables.text(volume.name)));
        }
        Ok(claim.bound_volume().is_some())
    }

    /// Whether a claim has the volume that was made for it.
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
                let name = self.tables.text(name);
                return Err(if claim.annotated {
                    // So the provisioner says that it could not, and that another node may do.
                    format!("provisioning failed for PVC \"{name}\"")
                } else {
                    format!("selectedNode annotation reset for PVC \"{name}\"")
                });
            }
        }
        let Some(volume) = claim.volume else { return Ok(false) };
        // A volume that is not there may be on its way.
        let Some(volume) = self.cache.volumes().volume(volume) else { return Ok(false) };
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
        let (volume, node) = (self.tables.text(volume.name), self.tables.text(node.name()));
        Err(format!(
            "pv \"{volume}\" node affinity doesn't match node \"{node}\": no matching NodeSelectorTerms"
        ))
    }

    fn claim(&self, namespace: Symbol, name: Symbol) -> Result<&Arc<ClaimInfo>, String> {
        let claim = self.cache.volumes().claim(namespace, name);
        claim.ok_or_else(|| self.not_found(StorageKey::of_claim(namespace, name)))
    }

    /// The text of an object that is not there (`apimachinery/pkg/api/errors#NewNotFound`).
    pub(super) fn not_found(&self, key: StorageKey) -> String {
        let name = self.tables.text(key.name);
        match key.namespace {
            Some(namespace) => {
                format!("persistentvolumeclaims \"{}/{name}\" not found", self.tables.text(namespace))
            }
            None => format!("persistentvolumes \"{name}\" not found"),
        }
    }
}
