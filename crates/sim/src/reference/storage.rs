//! The rules about a pod's claims. All claims and volumes have the same size and modes.

use super::ReferenceCluster;
use std::collections::BTreeSet;
use std::sync::Arc;
use supercargo_core::cache::Snapshot;
use supercargo_core::model::intern::{Symbol, known};
use supercargo_core::model::node::NodeInfo;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::model::selector::Requirement;
use supercargo_core::model::volume::{
    BindingMode, ClaimInfo, CsiNodeInfo, PersistentVolumeInfo, StorageClassInfo, StorageKey, StorageKind,
};

/// A view of claims, volumes and classes at one moment.
#[derive(Default)]
pub struct Storage {
    /// All claims.
    pub claims: Vec<Arc<ClaimInfo>>,
    /// All volumes.
    pub volumes: Vec<Arc<PersistentVolumeInfo>>,
    /// All classes.
    pub classes: Vec<Arc<StorageClassInfo>>,
    /// All CSINodes.
    pub csi_nodes: Vec<Arc<CsiNodeInfo>>,
}

impl Storage {
    /// Creates the view of an engine, with the assumptions for pods other than `uid`.
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
        let csi_nodes = objects.keys(StorageKind::CsiNode).into_iter();
        storage.csi_nodes.extend(csi_nodes.filter_map(|key| objects.csi_node(key.name).cloned()));
        storage.volumes.sort_by(|a, b| snapshot.text(a.name).cmp(snapshot.text(b.name)));
        storage
    }

    fn volume(&self, name: Symbol) -> Option<&PersistentVolumeInfo> {
        self.volumes.iter().find(|volume| volume.name == name).map(Arc::as_ref)
    }
}

impl ReferenceCluster<'_> {
    /// Returns why the pod's claims make a node infeasible.
    pub(super) fn of_storage(&self, pod: &PodInfo, node: &NodeInfo) -> Option<String> {
        let mut open: Vec<&StorageClassInfo> = Vec::new();
        for (name, is_own) in pod.volumes.iter().filter_map(|volume| volume.claim()) {
            let text = self.tables.text(name);
            let Some(claim) = self.claim(pod, name) else {
                return Some(format!("claim {text} not found"));
            };
            if is_own && claim.controller.as_ref() != Some(&pod.uid) {
                return Some(format!("claim {text} belongs to another pod"));
            }
            if let Some(volume) = claim.bound_volume() {
                match self.storage.volume(volume) {
                    None => return Some(format!("volume of claim {text} not found")),
                    Some(volume) if !self.reaches(node, volume) => {
                        return Some(format!("volume of claim {text} does not allow the node"));
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
                    return Some(format!("volume of claim {text} is being provisioned for another node"));
                }
                // A volume can be provisioned regardless of existing ones.
                _ if class.provisioner != known::NO_PROVISIONER && self.allows(class, node) => continue,
                Some(_) => {
                    return Some(format!("class of claim {text} cannot provision a volume for the node"));
                }
                None => {}
            }
            match self.storage.volumes.iter().find(|volume| volume.is_for(claim)) {
                Some(volume) if !self.reaches(node, volume) => {
                    return Some(format!("volume for claim {text} does not allow the node"));
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

    /// Whether a class provisions volumes for a node.
    fn allows(&self, class: &StorageClassInfo, node: &NodeInfo) -> bool {
        let holds = |term: &[Requirement]| term.iter().all(|r| self.requirement_holds(r, node.labels));
        class.allowed_topologies.is_empty() || class.allowed_topologies.iter().flatten().any(|t| holds(t))
    }

    /// Returns why the node's volume limit is exceeded.
    pub(super) fn of_limits(&self, pod: &PodInfo, node: &NodeInfo) -> Option<String> {
        let csi_node = self.storage.csi_nodes.iter().find(|csi_node| csi_node.name == node.name)?;
        let here: BTreeSet<_> = self.pods_on(node).flat_map(|other| self.attached(other)).collect();
        let more: BTreeSet<_> = self.attached(pod).into_iter().filter(|it| !here.contains(it)).collect();
        // Without a limit, the pods on the node do not matter.
        let is_limited = csi_node.limits.iter().any(|(_, limit)| limit.is_some());
        let attaches = is_limited && !self.attached(pod).is_empty();
        if attaches && self.pods_on(node).any(|other| self.has_foreign_claim(other)) {
            return Some("a pod does not own the claim of its ephemeral volume".to_owned());
        }
        csi_node.limits.iter().find_map(|&(driver, limit)| {
            let of_driver = |all: &BTreeSet<_>| all.iter().filter(|&&(it, _)| it == driver).count();
            let (here, more) = (of_driver(&here), of_driver(&more));
            let is_too_many = more > 0 && limit.is_some_and(|limit| here + more > limit.max(0) as usize);
            is_too_many.then(|| format!("{here} volumes are attached, {more} more are not taken"))
        })
    }

    /// Whether the claim of one of the pod's ephemeral volumes belongs to another pod.
    fn has_foreign_claim(&self, pod: &PodInfo) -> bool {
        let claims = pod.volumes.iter().filter_map(|volume| volume.claim());
        let mut own = claims.filter_map(|(name, is_own)| self.claim(pod, name).filter(|_| is_own));
        own.any(|claim| claim.controller.as_ref() != Some(&pod.uid))
    }

    fn claim(&self, pod: &PodInfo, name: Symbol) -> Option<&ClaimInfo> {
        let is_it = |claim: &&Arc<ClaimInfo>| (claim.namespace, claim.name) == (pod.namespace, name);
        self.storage.claims.iter().find(is_it).map(Arc::as_ref)
    }

    /// Returns the volumes that a pod attaches, by driver. A volume is identified by its name, or by its claim
    /// before it is provisioned.
    fn attached(&self, pod: &PodInfo) -> Vec<(Symbol, (Option<Symbol>, Symbol))> {
        let claims = pod.volumes.iter().filter_map(|volume| self.claim(pod, volume.claim()?.0));
        let attached = claims.filter_map(|claim| {
            if let Some(volume) = claim.volume.and_then(|name| self.storage.volume(name)) {
                return Some((volume.csi.as_ref()?.driver, (None, volume.name)));
            }
            let class = self.storage.classes.iter().find(|class| class.name == claim.class)?;
            Some((class.provisioner, (Some(claim.namespace), claim.name)))
        });
        attached.collect()
    }

    fn reaches(&self, node: &NodeInfo, volume: &PersistentVolumeInfo) -> bool {
        volume.node_affinity.as_ref().is_none_or(|affinity| {
            affinity.terms.iter().any(|term| term.iter().all(|r| self.requirement_holds(r, node.labels)))
        })
    }
}
