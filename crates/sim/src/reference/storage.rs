//! Where a pod's claims let it go. All claims and volumes are taken to be of one size and kind.

use super::World;
use std::sync::Arc;
use supercargo_core::cache::Snapshot;
use supercargo_core::intern::{Symbol, known};
use supercargo_core::node::NodeInfo;
use supercargo_core::pod::PodInfo;
use supercargo_core::volume::{
    BindingMode, ClaimInfo, PersistentVolumeInfo, StorageClassInfo, StorageKey, StorageKind,
};

/// Claims, volumes and classes at one moment.
#[derive(Default)]
pub struct Storage {
    /// All claims.
    pub claims: Vec<Arc<ClaimInfo>>,
    /// All volumes.
    pub volumes: Vec<Arc<PersistentVolumeInfo>>,
    /// All classes.
    pub classes: Vec<Arc<StorageClassInfo>>,
}

impl Storage {
    /// What an engine knows, and takes to be for pods other than `uid`.
    pub fn seen_by(snapshot: Snapshot<'_>, uid: &str) -> Self {
        let objects = snapshot.volumes();
        let is_assumed = |key: StorageKey| objects.holders(key).iter().any(|holder| **holder != *uid);
        let mut storage = Self::default();
        for key in objects.keys(StorageKind::PersistentVolume) {
            let volume = objects.volume(key.name).expect("a key leads to its volume");
            let assumed = || objects.assumed_volume(key.name);
            storage.volumes.extend(if is_assumed(key) { assumed() } else { Some(volume) }.cloned());
        }
        for key in objects.keys(StorageKind::PersistentVolumeClaim) {
            let namespace = key.namespace.unwrap_or(known::EMPTY);
            let claim = if is_assumed(key) {
                objects.assumed_claim(namespace, key.name)
            } else {
                objects.claim(namespace, key.name)
            };
            storage.claims.extend(claim.cloned());
        }
        let classes = objects.keys(StorageKind::StorageClass).into_iter();
        storage.classes.extend(classes.filter_map(|key| objects.class(key.name).cloned()));
        storage.volumes.sort_by(|a, b| snapshot.text(a.name).cmp(snapshot.text(b.name)));
        storage
    }

    fn volume(&self, name: Symbol) -> Option<&PersistentVolumeInfo> {
        self.volumes.iter().find(|volume| volume.name == name).map(Arc::as_ref)
    }
}

impl World<'_> {
    /// Why the pod's claims keep it from a node.
    pub(super) fn of_storage(&self, pod: &PodInfo, node: &NodeInfo) -> Option<String> {
        let mut open: Vec<&StorageClassInfo> = Vec::new();
        for (name, _) in pod.volumes.iter().filter_map(|volume| volume.claim()) {
            let is_it = |claim: &&Arc<ClaimInfo>| (claim.namespace, claim.name) == (pod.namespace, name);
            let text = self.tables.text(name);
            let Some(claim) = self.storage.claims.iter().find(is_it) else {
                return Some(format!("there is no claim {text}"));
            };
            if let Some(volume) = claim.bound_volume() {
                match self.storage.volume(volume) {
                    None => return Some(format!("the volume of claim {text} is not there")),
                    Some(volume) if !self.reaches(node, volume) => {
                        return Some(format!("the volume of claim {text} is out of reach"));
                    }
                    Some(_) => continue,
                }
            }
            let waits = |class: &&Arc<StorageClassInfo>| {
                class.name == claim.class && class.binding_mode == Some(BindingMode::WaitForFirstConsumer)
            };
            let Some(class) = self.storage.classes.iter().find(waits) else {
                return Some(format!("claim {text} is not bound"));
            };
            match claim.selected_node {
                Some(selected) if selected != node.name => {
                    return Some(format!("the volume of claim {text} is being made elsewhere"));
                }
                Some(_) => continue,
                // Whatever volumes there are, one can be made.
                None if class.provisioner != known::NO_PROVISIONER => continue,
                None => {}
            }
            match self.storage.volumes.iter().find(|volume| volume.is_for(claim)) {
                Some(volume) if !self.reaches(node, volume) => {
                    return Some(format!("the volume for claim {text} is out of reach"));
                }
                Some(_) => {}
                None => open.push(class),
            }
        }
        open.iter().find_map(|class| {
            let wanted = open.iter().filter(|other| other.name == class.name).count();
            let is_free = |volume: &&Arc<PersistentVolumeInfo>| {
                volume.class == class.name && volume.claim.is_none() && self.reaches(node, volume)
            };
            let free = self.storage.volumes.iter().filter(is_free).count();
            (free < wanted).then(|| format!("{free} volumes are in reach and {wanted} are wanted"))
        })
    }

    fn reaches(&self, node: &NodeInfo, volume: &PersistentVolumeInfo) -> bool {
        volume.node_affinity.as_ref().is_none_or(|affinity| {
            affinity.terms.iter().any(|term| term.iter().all(|r| self.requirement_holds(r, node.labels)))
        })
    }
}
