//! ResourceClaims and ResourceSlices of the simulated API server, and the pending work of the driver and the
//! resource-claim controller.

use super::{Change, Server};
use crate::devices::{DeviceClaim, DeviceKind, PodDevices, Slice};
use crate::storage::claim_key;
use std::sync::Arc;
use supercargo_core::model::device::Allocation;
use supercargo_core::model::effect::{ClaimName, PodRef, VolumeChange};
use supercargo_core::model::event::Kind;

/// A pending action of the driver or the resource-claim controller.
#[derive(Clone, Debug)]
pub(crate) enum DeviceWork {
    /// Make the claim of a pod's template.
    Make { pod: String, entry: usize },
    /// Remove pods that are gone from the consumers of a claim, and free it if none is left.
    Prune { claim: String },
    /// Delete a claim whose pod is gone.
    Collect { claim: String },
    /// Report on the devices of a claim.
    Report { claim: String },
    /// Publish the devices of a node.
    Publish { node: String },
    /// Remove the slice of a node that is gone.
    Withdraw { slice: String },
}

impl Server {
    pub(crate) fn put_device_classes(&mut self) {
        self.version += 1;
        self.whole.classes = self.version;
        self.has_device_classes = true;
        for kind in DeviceKind::ALL {
            self.publish(Kind::DeviceClass, Change::DeviceClass(kind));
        }
    }

    pub(crate) fn put_device_claim(&mut self, mut claim: DeviceClaim) {
        self.version += 1;
        claim.version = self.version;
        self.whole.claims = self.version;
        let claim = Arc::new(claim);
        self.device_claims.insert(claim.key(), Arc::clone(&claim));
        self.publish(Kind::ResourceClaim, Change::DeviceClaim(claim));
    }

    pub(crate) fn remove_device_claim(&mut self, key: &str) {
        if self.device_claims.remove(key).is_some() {
            self.version += 1;
            self.whole.claims = self.version;
            self.publish(Kind::ResourceClaim, Change::DeviceClaimGone(key.to_owned()));
        }
    }

    pub(crate) fn put_slice(&mut self, mut slice: Slice) {
        self.version += 1;
        slice.version = self.version;
        self.whole.volumes = self.version;
        let slice = Arc::new(slice);
        self.slices.insert(slice.name.clone(), Arc::clone(&slice));
        self.publish(Kind::ResourceSlice, Change::Slice(slice));
    }

    pub(crate) fn remove_slice(&mut self, name: &str) {
        if self.slices.remove(name).is_some() {
            self.version += 1;
            self.whole.volumes = self.version;
            self.publish(Kind::ResourceSlice, Change::SliceGone(name.to_owned()));
        }
    }

    /// Returns the pending work of the driver and the resource-claim controller.
    pub(crate) fn device_work(&self) -> Vec<DeviceWork> {
        let mut work = Vec::new();
        if !self.has_device_classes {
            return work;
        }
        for pod in self.pods.values().filter(|pod| !pod.deleting) {
            let is_open = |it: &PodDevices| matches!(it, PodDevices::Template(None));
            if let Some(entry) = pod.devices.iter().position(is_open) {
                work.push(DeviceWork::Make { pod: pod.uid.clone(), entry });
            }
        }
        for (key, claim) in &self.device_claims {
            let claim_key = key.clone();
            let is_gone = |uid: &String| !self.pods.contains_key(uid);
            if claim.reserved_for.iter().any(is_gone) {
                work.push(DeviceWork::Prune { claim: claim_key });
            } else if claim.deleting || claim.owner.as_ref().is_some_and(|(_, uid)| is_gone(uid)) {
                work.push(DeviceWork::Collect { claim: claim_key });
            } else if claim.needs_report() {
                work.push(DeviceWork::Report { claim: claim_key });
            }
        }
        for node in self.nodes.keys().filter(|name| !self.slices.contains_key(&format!("{name}-devices"))) {
            work.push(DeviceWork::Publish { node: node.clone() });
        }
        for slice in self.slices.values() {
            if slice.node.as_ref().is_some_and(|node| !self.nodes.contains_key(node)) {
                work.push(DeviceWork::Withdraw { slice: slice.name.clone() });
            }
        }
        work
    }

    fn device_claim(&self, id: &ClaimName) -> Result<Arc<DeviceClaim>, String> {
        let found = self.device_claims.get(&claim_key(&id.namespace, &id.name));
        let found = found.filter(|claim| *claim.uid == *id.uid);
        found.cloned().ok_or_else(|| format!("resourceclaims \"{}\" not found", id.name))
    }

    fn device_claim_at(&self, id: &ClaimName) -> Result<Arc<DeviceClaim>, String> {
        let claim = self.device_claim(id)?;
        if claim.version.to_string() == id.version {
            return Ok(claim);
        }
        let name = &id.name;
        Err(format!(
            "Operation cannot be fulfilled on resourceclaims \"{name}\": the object has been modified"
        ))
    }

    /// Makes a claim for a pod's extended resources.
    fn make_claim(&mut self, pod: &PodRef, requests: &[(String, String, i64)]) -> DeviceClaim {
        let made = DeviceClaim {
            uid: format!("made-{}", self.version),
            namespace: if *pod.namespace == *"other" { "other" } else { "default" },
            name: format!("{}-extended-resources-{}", pod.name, self.version),
            version: 0,
            owner: Some((pod.name.to_string(), pod.uid.to_string())),
            is_made: true,
            deleting: false,
            protected: true,
            wanted: requests.iter().map(|&(.., count)| (DeviceKind::Whole, count)).collect(),
            allocation: None,
            reserved_for: Vec::new(),
            ready: None,
        };
        self.put_device_claim(made.clone());
        made
    }

    /// Handles the writes of a claim. Of a late one that has several requests, only the first is on its way.
    pub(crate) fn write_device_claim(
        &mut self,
        pod: &PodRef,
        change: &VolumeChange,
        is_late: bool,
    ) -> Result<(), String> {
        let uid = pod.uid.to_string();
        match change {
            VolumeChange::Create { requests, allocation, .. } => {
                let made = self.make_claim(pod, requests);
                if !is_late {
                    let allocation = Some(Arc::clone(allocation));
                    self.put_device_claim(DeviceClaim { allocation, reserved_for: vec![uid], ..made });
                }
            }
            VolumeChange::Delete { claim } => {
                let claim = self.device_claim(claim)?;
                self.remove_device_claim(&claim.key());
            }
            VolumeChange::Reserve { claim, allocation, .. } => {
                let claim = self.device_claim_at(claim)?;
                self.reserve(&claim, uid, allocation.as_ref())?;
            }
            VolumeChange::Unreserve { claim } => {
                let mut claim = DeviceClaim::clone(&*self.device_claim(claim)?);
                claim.reserved_for.retain(|other| *other != uid);
                self.put_device_claim(claim);
            }
            VolumeChange::Deallocate { claim } => {
                let claim = self.device_claim_at(claim)?;
                if claim.reserved_for.iter().any(|other| *other != uid) {
                    return Err(format!("{} is taken from others", claim.key()));
                }
                self.put_device_claim(claim.freed());
            }
            VolumeChange::Bind { .. } | VolumeChange::SelectNode { .. } => {
                unreachable!("volumes are written elsewhere")
            }
        }
        Ok(())
    }

    fn reserve(
        &mut self,
        claim: &DeviceClaim,
        uid: String,
        allocation: Option<&Arc<Allocation>>,
    ) -> Result<(), String> {
        let mut claim = DeviceClaim { protected: true, ..claim.clone() };
        match (&claim.allocation, allocation) {
            (Some(_), Some(_)) => {
                return Err("status.allocation: Invalid value: field is immutable".to_owned());
            }
            (None, None) => return Err("status.reservedFor: Forbidden: not allocated".to_owned()),
            (None, Some(new)) => claim.allocation = Some(Arc::clone(new)),
            (Some(_), None) => {}
        }
        if !claim.reserved_for.contains(&uid) {
            claim.reserved_for.push(uid);
        }
        self.put_device_claim(claim);
        Ok(())
    }
}
