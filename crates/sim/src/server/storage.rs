//! Claims and volumes of the simulated API server, and the pending work of its volume controllers.

use super::{Change, Server};
use crate::storage::{Claim, Class, Owner, Volume};
use std::sync::Arc;
use supercargo_core::model::effect::VolumeChange;
use supercargo_core::model::event::Kind;

/// A pending action of a volume controller.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// Bind a claim to the volume reserved for it.
    Bind { claim: String, volume: String },
    /// Find a volume for a claim with immediate binding.
    Find { claim: String },
    /// Provision a volume for a claim on its selected node.
    Make { claim: String, node: String },
    /// Release a volume whose claim is deleted or has another volume.
    Release { volume: String },
}

impl Server {
    /// Adds or replaces a claim.
    pub(crate) fn put_claim(&mut self, mut claim: Claim) {
        self.version += 1;
        claim.version = self.version;
        self.whole.claims = self.version;
        let claim = Arc::new(claim);
        self.claims.insert(claim.key(), Arc::clone(&claim));
        self.publish(Kind::PersistentVolumeClaim, Change::Claim(claim));
    }

    pub(crate) fn remove_claim(&mut self, key: &str) {
        if self.claims.remove(key).is_some() {
            self.version += 1;
            self.whole.claims = self.version;
            self.publish(Kind::PersistentVolumeClaim, Change::ClaimGone(key.to_owned()));
        }
    }

    /// Adds or replaces a volume.
    pub(crate) fn put_volume(&mut self, mut volume: Volume) {
        self.version += 1;
        volume.version = self.version;
        self.whole.volumes = self.version;
        let volume = Arc::new(volume);
        self.volumes.insert(volume.name.clone(), Arc::clone(&volume));
        self.publish(Kind::PersistentVolume, Change::Volume(volume));
    }

    pub(crate) fn remove_volume(&mut self, name: &str) {
        if self.volumes.remove(name).is_some() {
            self.version += 1;
            self.whole.volumes = self.version;
            self.publish(Kind::PersistentVolume, Change::VolumeGone(name.to_owned()));
        }
    }

    /// Adds all classes in one version, so that no older state contains only some.
    pub(crate) fn put_classes(&mut self) {
        self.version += 1;
        self.whole.classes = self.version;
        for class in Class::ALL {
            self.classes.insert(class, None);
            self.publish(Kind::StorageClass, Change::Class(class, None));
        }
    }

    /// Changes the only zone for which a class provisions volumes.
    pub(crate) fn put_class(&mut self, class: Class, zone: Option<&'static str>) {
        self.version += 1;
        self.whole.classes = self.version;
        self.classes.insert(class, zone);
        self.publish(Kind::StorageClass, Change::Class(class, zone));
    }

    /// Adds or replaces the CSINode of a node.
    pub(crate) fn put_csi_node(&mut self, node: &str, limit: Option<i32>) {
        self.version += 1;
        self.whole.csi_nodes = self.version;
        self.csi_nodes.insert(node.to_owned(), limit);
        self.publish(Kind::CsiNode, Change::CsiNode(node.to_owned(), limit));
    }

    pub(crate) fn remove_csi_node(&mut self, node: &str) {
        if self.csi_nodes.remove(node).is_some() {
            self.version += 1;
            self.whole.csi_nodes = self.version;
            self.publish(Kind::CsiNode, Change::CsiNodeGone(node.to_owned()));
        }
    }

    /// Returns the claim of a volume, if it still exists.
    pub(crate) fn owner(&self, volume: &Volume) -> Option<&Arc<Claim>> {
        let owner = volume.claim.as_ref()?;
        let key = crate::storage::claim_key(&owner.namespace, &owner.name);
        self.claims.get(&key).filter(|claim| claim.uid == owner.uid)
    }

    /// Handles the PATCH of a volume or a claim. It fails if the version has changed.
    pub(crate) fn write_volume(&mut self, change: &VolumeChange) -> Result<(), String> {
        let conflict = |what: &str| {
            Err(format!("Operation cannot be fulfilled on {what}: the object has been modified; try again"))
        };
        match change {
            VolumeChange::Bind { volume: name, version, claim, .. } => {
                let Some(volume) = self.volumes.get(name) else {
                    return Err(format!("persistentvolumes \"{name}\" not found"));
                };
                if volume.version.to_string() != *version {
                    return conflict(name);
                }
                let owner = Owner {
                    namespace: claim.namespace.clone(),
                    name: claim.name.clone(),
                    uid: claim.uid.to_string(),
                };
                self.put_volume(Volume { claim: Some(owner), ..Volume::clone(volume) });
            }
            VolumeChange::SelectNode { namespace, name, version, node } => {
                let Some(claim) = self.claims.get(&crate::storage::claim_key(namespace, name)) else {
                    return Err(format!("persistentvolumeclaims \"{name}\" not found"));
                };
                if claim.version.to_string() != *version {
                    return conflict(name);
                }
                self.put_claim(Claim { selected: Some(node.clone()), ..Claim::clone(claim) });
            }
            VolumeChange::Reserve { .. }
            | VolumeChange::Create { .. }
            | VolumeChange::Unreserve { .. }
            | VolumeChange::Deallocate { .. }
            | VolumeChange::Delete { .. } => {
                unreachable!("claims of devices are written elsewhere");
            }
        }
        Ok(())
    }

    /// Returns the pending work of the volume controllers.
    pub(crate) fn volume_work(&self) -> Vec<Work> {
        let mut work = Vec::new();
        for volume in self.volumes.values().filter(|volume| volume.claim.is_some()) {
            let name = volume.name.clone();
            match self.owner(volume) {
                Some(claim) if claim.volume.is_none() => {
                    work.push(Work::Bind { claim: claim.key(), volume: name });
                }
                Some(claim) if claim.volume.as_ref() == Some(&name) => {}
                Some(_) | None => work.push(Work::Release { volume: name }),
            }
        }
        for claim in self.claims.values().filter(|claim| claim.volume.is_none()) {
            let is_underway = self.volumes.values().any(|volume| volume.is_for(claim));
            match &claim.selected {
                _ if is_underway => {}
                None if claim.class == Class::Now => work.push(Work::Find { claim: claim.key() }),
                None => {}
                Some(node) => work.push(Work::Make { claim: claim.key(), node: node.clone() }),
            }
        }
        work
    }
}
