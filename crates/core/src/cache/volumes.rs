//! Storage objects by name, and the assumed state of claims and volumes until the API server shows it.
//!
//! An assumption applies to one version of an object, and a newer version replaces it (upstream
//! `volumebinding/passive_assume_cache.go`). Two pods with one claim may assume the same state; it lasts until
//! both release it.

use super::candidate_volumes::CandidateVolumes;
use super::devices::Devices;
use super::hypothetical::Assumption;
use crate::collections::hash::{FixedMap, IdMap};
use crate::model::device::{DeviceId, ResourceClaim};
use crate::model::emulation::RepeatedClaims;
use crate::model::intern::{Marks, TraceIds};
use crate::model::intern::{Symbol, known};
use crate::model::pod::Uid;
use crate::model::time::Time;
use crate::model::volume::{
    ClaimInfo, CsiDriverInfo, CsiNodeInfo, CsiStorageCapacityInfo, PersistentVolumeInfo, Reservation,
    StorageClassInfo, StorageKey, StorageKind, StorageObject, VolumeAttachmentInfo,
};
use crate::switches::mutation::{self, Mutation};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An object as the API server shows it, with the assumed version and the pods that assume it.
struct Assumable<T> {
    object: Arc<T>,
    assumed: Option<(Arc<T>, Vec<Uid>)>,
}

impl<T: PartialEq> Assumable<T> {
    fn new(object: Arc<T>) -> Self {
        Self { object, assumed: None }
    }

    fn now(&self) -> &Arc<T> {
        self.assumed.as_ref().map_or(&self.object, |(object, _)| object)
    }

    fn holders(&self) -> &[Uid] {
        self.assumed.as_ref().map_or(&[], |(_, holders)| holders)
    }

    /// Replaces the API server's version and returns the previous one. A new version ends the assumption.
    fn renew(&mut self, object: Arc<T>, is_same_version: bool) -> Arc<T> {
        if !is_same_version {
            self.assumed = None;
        }
        std::mem::replace(&mut self.object, object)
    }

    fn assume(&mut self, holder: &Uid, change: impl FnOnce(&mut T))
    where
        T: Clone,
    {
        let mut object = T::clone(self.now());
        change(&mut object);
        let (assumed, holders) = self.assumed.get_or_insert_with(|| (Arc::new(object.clone()), Vec::new()));
        *assumed = Arc::new(object);
        holders.push(Arc::clone(holder));
    }

    fn forget(&mut self, holder: &str) {
        if let Some((_, holders)) = &mut self.assumed {
            holders.retain(|uid| **uid != *holder);
            if holders.is_empty() {
                self.assumed = None;
            }
        }
    }
}

/// All storage objects.
#[derive(Default)]
pub struct Volumes {
    volumes: IdMap<Symbol, Assumable<PersistentVolumeInfo>>,
    /// The index of `volumes` by claim.
    candidate_volumes: CandidateVolumes,
    claims: IdMap<(Symbol, Symbol), Assumable<ClaimInfo>>,
    classes: IdMap<Symbol, Arc<StorageClassInfo>>,
    csi_nodes: IdMap<Symbol, Arc<CsiNodeInfo>>,
    csi_drivers: IdMap<Symbol, Arc<CsiDriverInfo>>,
    /// By class, and then by namespace and name.
    capacities: IdMap<Symbol, BTreeMap<(Symbol, Symbol), Arc<CsiStorageCapacityInfo>>>,
    capacity_classes: IdMap<(Symbol, Symbol), Symbol>,
    /// By node, and then by name.
    attachments: IdMap<Symbol, BTreeMap<Symbol, Arc<VolumeAttachmentInfo>>>,
    attachment_nodes: IdMap<Symbol, Symbol>,
    /// The nodes whose CSINode or VolumeAttachments changed since the last refresh. May include names of
    /// deleted nodes.
    changed_nodes: BTreeSet<Symbol>,
    /// Reservations by the uid of the pod that holds them.
    reservations: FixedMap<Uid, Vec<Reservation>>,
    devices: Devices,
    /// The number of changes of objects.
    changes: u64,
}

impl Volumes {
    /// Returns the claims for devices and the slices that offer them.
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// Returns the number of pods with reservations.
    pub(super) fn assumed(&self) -> usize {
        self.reservations.len()
    }

    /// Returns the number of PersistentVolumes.
    pub fn count(&self) -> usize {
        self.volumes.len()
    }

    /// Returns a PersistentVolume as the API server shows it.
    pub fn volume(&self, name: Symbol) -> Option<&Arc<PersistentVolumeInfo>> {
        self.volumes.get(&name).map(|entry| &entry.object)
    }

    /// Returns a PersistentVolume in its assumed state.
    pub fn assumed_volume(&self, name: Symbol) -> Option<&Arc<PersistentVolumeInfo>> {
        self.volumes.get(&name).map(Assumable::now)
    }

    /// Returns the candidate volumes of a claim in their assumed state, in arbitrary order: PersistentVolumes
    /// of the claim's class that are unclaimed or name the claim.
    pub fn volumes_for(&self, claim: &ClaimInfo) -> impl Iterator<Item = &Arc<PersistentVolumeInfo>> {
        let class = claim.class;
        let names = self.candidate_volumes.names(claim).filter_map(|name| self.volumes.get(&name));
        let offered = names.map(Assumable::now).filter(move |volume| volume.class == class);
        debug_assert_eq!(
            offered.clone().count(),
            self.count_by_scan(claim),
            "every volume is where it belongs"
        );
        offered
    }

    /// Counts the candidate volumes of a claim by reading every volume, to check the index.
    fn count_by_scan(&self, claim: &ClaimInfo) -> usize {
        let is_offered = |volume: &PersistentVolumeInfo| {
            let names = volume.claim.as_ref().map(|by| (by.namespace, by.name));
            volume.class == claim.class && names.is_none_or(|names| names == (claim.namespace, claim.name))
        };
        self.volumes.values().filter(|entry| is_offered(entry.now())).count()
    }

    /// Returns a claim as the API server shows it.
    pub fn claim(&self, namespace: Symbol, name: Symbol) -> Option<&Arc<ClaimInfo>> {
        self.claims.get(&(namespace, name)).map(|entry| &entry.object)
    }

    /// Returns a claim in its assumed state.
    pub fn assumed_claim(&self, namespace: Symbol, name: Symbol) -> Option<&Arc<ClaimInfo>> {
        self.claims.get(&(namespace, name)).map(Assumable::now)
    }

    /// Returns a PersistentVolume or a claim as the API server shows it.
    pub fn get(&self, key: StorageKey) -> Option<StorageObject> {
        match (key.kind, key.namespace) {
            (StorageKind::PersistentVolume, _) => self.volume(key.name).cloned().map(StorageObject::Volume),
            (StorageKind::PersistentVolumeClaim, Some(namespace)) => {
                self.claim(namespace, key.name).cloned().map(StorageObject::Claim)
            }
            (StorageKind::ResourceClaim, Some(namespace)) => {
                self.devices.claim(namespace, key.name).cloned().map(StorageObject::ResourceClaim)
            }
            _ => None,
        }
    }

    /// Returns the resource version of a PersistentVolume or a claim as the API server shows it.
    pub fn version(&self, key: StorageKey) -> Option<&str> {
        match (key.kind, key.namespace) {
            (StorageKind::PersistentVolume, _) => self.volume(key.name).map(|it| &*it.resource_version),
            (StorageKind::PersistentVolumeClaim, Some(namespace)) => {
                self.claim(namespace, key.name).map(|it| &*it.resource_version)
            }
            (StorageKind::ResourceClaim, Some(namespace)) => {
                self.devices.claim(namespace, key.name).map(|it| &*it.resource_version)
            }
            _ => None,
        }
    }

    /// Whether a pod assumes a state of a PersistentVolume or a claim that the API server does not show yet.
    pub fn is_assumed(&self, key: StorageKey) -> bool {
        !self.holders(key).is_empty()
    }

    /// Returns the pods that assume a state of a PersistentVolume or a claim.
    pub fn holders(&self, key: StorageKey) -> &[Uid] {
        match (key.kind, key.namespace) {
            (StorageKind::PersistentVolume, _) => self.volumes.get(&key.name).map_or(&[], Assumable::holders),
            (StorageKind::PersistentVolumeClaim, Some(namespace)) => {
                self.claims.get(&(namespace, key.name)).map_or(&[], Assumable::holders)
            }
            _ => &[],
        }
    }

    /// Returns a StorageClass.
    pub fn class(&self, name: Symbol) -> Option<&Arc<StorageClassInfo>> {
        self.classes.get(&name)
    }

    /// Returns the CSINode of a node.
    pub fn csi_node(&self, node: Symbol) -> Option<&Arc<CsiNodeInfo>> {
        self.csi_nodes.get(&node)
    }

    /// Returns a CSIDriver.
    pub fn csi_driver(&self, name: Symbol) -> Option<&Arc<CsiDriverInfo>> {
        self.csi_drivers.get(&name)
    }

    /// Returns the CSIStorageCapacities of a class.
    pub fn capacities_of(&self, class: Symbol) -> impl Iterator<Item = &Arc<CsiStorageCapacityInfo>> {
        self.capacities.get(&class).into_iter().flat_map(BTreeMap::values)
    }

    /// Returns the VolumeAttachments of a node.
    pub fn attachments_on(&self, node: Symbol) -> impl Iterator<Item = &Arc<VolumeAttachmentInfo>> {
        self.attachments.get(&node).into_iter().flat_map(BTreeMap::values)
    }

    /// Takes the names of the nodes whose CSINode or VolumeAttachments changed since the last call.
    pub(super) fn take_changed_nodes(&mut self) -> BTreeSet<Symbol> {
        std::mem::take(&mut self.changed_nodes)
    }

    /// Whether [`Self::take_changed_nodes`] would return no names.
    pub(super) fn is_refreshed(&self) -> bool {
        self.changed_nodes.is_empty()
    }

    /// Returns the number of changes of objects. Assumptions do not count.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Adds or replaces an object and returns its previous version.
    pub fn apply(&mut self, object: StorageObject) -> Option<StorageObject> {
        let new = object.clone();
        let old = self.put(object);
        self.changes += u64::from(old != Some(new));
        old
    }

    fn put(&mut self, object: StorageObject) -> Option<StorageObject> {
        match object {
            StorageObject::Volume(it) => self.set_volume(it).map(StorageObject::Volume),
            StorageObject::Claim(it) => self.set_claim(it).map(StorageObject::Claim),
            StorageObject::Class(it) => self.classes.insert(it.name, it).map(StorageObject::Class),
            StorageObject::CsiNode(it) => {
                self.changed_nodes.insert(it.name);
                self.csi_nodes.insert(it.name, it).map(StorageObject::CsiNode)
            }
            StorageObject::CsiDriver(it) => {
                self.csi_drivers.insert(it.name, it).map(StorageObject::CsiDriver)
            }
            StorageObject::Capacity(it) => {
                let key = (it.namespace, it.name);
                let old = self.remove_capacity(key);
                self.capacity_classes.insert(key, it.class);
                self.capacities.entry(it.class).or_default().insert(key, it);
                old
            }
            StorageObject::Attachment(it) => {
                let old = self.remove_attachment(it.name);
                self.changed_nodes.insert(it.node);
                self.attachment_nodes.insert(it.name, it.node);
                self.attachments.entry(it.node).or_default().insert(it.name, it);
                old
            }
            StorageObject::ResourceClaim(it) => self.devices.set_claim(&it).map(StorageObject::ResourceClaim),
            StorageObject::ResourceSlice(it) => self.devices.set_slice(it).map(StorageObject::ResourceSlice),
        }
    }

    /// Removes and returns an object.
    pub fn remove(&mut self, key: StorageKey) -> Option<StorageObject> {
        let old = self.take_out(key);
        self.changes += u64::from(old.is_some());
        old
    }

    fn take_out(&mut self, key: StorageKey) -> Option<StorageObject> {
        let name = key.name;
        let namespaced = (key.namespace.unwrap_or(known::EMPTY), name);
        match key.kind {
            StorageKind::PersistentVolume => {
                let old = self.volumes.remove(&name)?;
                self.candidate_volumes.remove(old.now());
                Some(StorageObject::Volume(old.object))
            }
            StorageKind::PersistentVolumeClaim => {
                self.claims.remove(&namespaced).map(|entry| StorageObject::Claim(entry.object))
            }
            StorageKind::StorageClass => self.classes.remove(&name).map(StorageObject::Class),
            StorageKind::CsiNode => {
                self.changed_nodes.insert(name);
                self.csi_nodes.remove(&name).map(StorageObject::CsiNode)
            }
            StorageKind::CsiDriver => self.csi_drivers.remove(&name).map(StorageObject::CsiDriver),
            StorageKind::CsiStorageCapacity => self.remove_capacity(namespaced),
            StorageKind::VolumeAttachment => self.remove_attachment(name),
            StorageKind::ResourceClaim => {
                self.devices.remove_claim(namespaced.0, name).map(StorageObject::ResourceClaim)
            }
            StorageKind::ResourceSlice => self.devices.remove_slice(name).map(StorageObject::ResourceSlice),
        }
    }

    /// Returns the keys of all objects of a kind, in arbitrary order.
    pub fn keys(&self, kind: StorageKind) -> Vec<StorageKey> {
        fn of<'a>(kind: StorageKind, names: impl Iterator<Item = &'a Symbol>) -> Vec<StorageKey> {
            names.map(|&name| StorageKey { kind, namespace: None, name }).collect()
        }
        fn namespaced<'a>(
            kind: StorageKind,
            names: impl Iterator<Item = &'a (Symbol, Symbol)>,
        ) -> Vec<StorageKey> {
            names.map(|&(ns, name)| StorageKey { kind, namespace: Some(ns), name }).collect()
        }
        match kind {
            StorageKind::PersistentVolume => of(kind, self.volumes.keys()),
            StorageKind::PersistentVolumeClaim => namespaced(kind, self.claims.keys()),
            StorageKind::StorageClass => of(kind, self.classes.keys()),
            StorageKind::CsiNode => of(kind, self.csi_nodes.keys()),
            StorageKind::CsiDriver => of(kind, self.csi_drivers.keys()),
            StorageKind::CsiStorageCapacity => namespaced(kind, self.capacity_classes.keys()),
            StorageKind::VolumeAttachment => of(kind, self.attachment_nodes.keys()),
            StorageKind::ResourceClaim => namespaced(kind, self.devices.claim_keys()),
            StorageKind::ResourceSlice => of(kind, self.devices.slice_names()),
        }
    }

    fn set_volume(&mut self, volume: Arc<PersistentVolumeInfo>) -> Option<Arc<PersistentVolumeInfo>> {
        let name = volume.name;
        if !self.volumes.contains_key(&name) {
            self.candidate_volumes.add(&volume);
            self.volumes.insert(name, Assumable::new(volume));
            return None;
        }
        self.change_volume(name, |entry| {
            let is_same = entry.object.resource_version == volume.resource_version;
            entry.renew(volume, is_same)
        })
    }

    /// Changes a volume, if it exists, and keeps the index of candidates current.
    fn change_volume<R>(
        &mut self,
        name: Symbol,
        change: impl FnOnce(&mut Assumable<PersistentVolumeInfo>) -> R,
    ) -> Option<R> {
        let entry = self.volumes.get_mut(&name)?;
        self.candidate_volumes.remove(entry.now());
        let done = change(entry);
        self.candidate_volumes.add(entry.now());
        Some(done)
    }

    fn set_claim(&mut self, claim: Arc<ClaimInfo>) -> Option<Arc<ClaimInfo>> {
        let key = (claim.namespace, claim.name);
        let Some(entry) = self.claims.get_mut(&key) else {
            self.claims.insert(key, Assumable::new(claim));
            return None;
        };
        let is_same = entry.object.resource_version == claim.resource_version;
        Some(entry.renew(claim, is_same))
    }

    fn remove_capacity(&mut self, key: (Symbol, Symbol)) -> Option<StorageObject> {
        let class = self.capacity_classes.remove(&key)?;
        remove_in(&mut self.capacities, class, &key).map(StorageObject::Capacity)
    }

    fn remove_attachment(&mut self, name: Symbol) -> Option<StorageObject> {
        let node = self.attachment_nodes.remove(&name)?;
        self.changed_nodes.insert(node);
        remove_in(&mut self.attachments, node, &name).map(StorageObject::Attachment)
    }

    /// Assumes the result of a pod's reservations before the API server shows it.
    pub(super) fn assume(&mut self, pod: &Uid, reservations: Vec<Reservation>, repeated: RepeatedClaims) {
        if reservations.is_empty() {
            return;
        }
        for (at, reservation) in reservations.iter().enumerate() {
            let others = match repeated {
                RepeatedClaims::First => &reservations[..at],
                RepeatedClaims::Last => &reservations[at + 1..],
            };
            match reservation {
                // Upstream allocates a claim once for each of its names.
                Reservation::Allocate { claim, .. } if others.iter().any(|other| other.allocates(claim)) => {}
                Reservation::Bind { volume, claim, by_controller } => {
                    self.change_volume(*volume, |entry| {
                        entry.assume(pod, |volume| {
                            volume.claim = Some(claim.clone());
                            volume.bound_by_controller |= by_controller;
                        });
                    });
                }
                Reservation::Provision { namespace, name, node } => {
                    if let Some(entry) = self.claims.get_mut(&(*namespace, *name)) {
                        entry.assume(pod, |claim| claim.selected_node = Some(*node));
                    }
                }
                Reservation::Allocate { claim, allocation }
                | Reservation::Create { claim, allocation, .. } => self.devices.assume(claim, allocation),
                Reservation::Share { .. } => {}
            }
        }
        self.reservations.insert(Arc::clone(pod), reservations);
    }

    /// Returns the assumed state of a PersistentVolume or a claim.
    pub(super) fn assumption(&self, key: StorageKey) -> Option<Assumption> {
        match (key.kind, key.namespace) {
            (StorageKind::PersistentVolume, _) => {
                let (object, holders) = self.volumes.get(&key.name)?.assumed.as_ref()?;
                Some(Assumption::Volume(Arc::clone(object), holders.clone()))
            }
            (StorageKind::PersistentVolumeClaim, Some(namespace)) => {
                let (object, holders) = self.claims.get(&(namespace, key.name))?.assumed.as_ref()?;
                Some(Assumption::Claim(Arc::clone(object), holders.clone()))
            }
            _ => None,
        }
    }

    /// Sets the assumed state of a PersistentVolume or a claim.
    pub(super) fn restore_assumption(&mut self, key: StorageKey, assumption: Assumption) {
        match assumption {
            Assumption::Volume(object, holders) => {
                self.change_volume(key.name, |entry| entry.assumed = Some((object, holders)));
            }
            Assumption::Claim(object, holders) => {
                let namespace = key.namespace.unwrap_or(known::EMPTY);
                if let Some(entry) = self.claims.get_mut(&(namespace, key.name)) {
                    entry.assumed = Some((object, holders));
                }
            }
        }
    }

    pub(super) fn linger(&mut self, claim: &ResourceClaim, until: Time) {
        self.devices.linger(claim, until);
    }

    /// Releases the devices that lingered until now. Returns their claims, with the devices.
    pub(super) fn expire(&mut self, now: Time) -> Vec<Arc<ResourceClaim>> {
        self.devices.expire(now)
    }

    /// Changes which devices claims avoid. Returns whether anything changed.
    pub(super) fn avoid(&mut self, claim: &Uid, devices: Option<BTreeSet<DeviceId>>) -> bool {
        self.devices.avoid(claim, devices)
    }

    pub(super) fn devices_mut(&mut self) -> &mut Devices {
        &mut self.devices
    }

    pub(super) fn settle_claim(&mut self, pod: &Uid, claim: &ResourceClaim) {
        self.devices.settle(pod, claim);
    }

    pub(super) fn unsettle_claim(&mut self, pod: &str) {
        self.devices.unsettle(pod);
    }

    /// Removes and returns the reservations of a pod.
    pub(super) fn forget(&mut self, pod: &str) -> Vec<Reservation> {
        if mutation::is_on(Mutation::VolumesNotReleased) {
            return Vec::new();
        }
        let reservations = self.reservations.remove(pod).unwrap_or_default();
        for reservation in &reservations {
            match reservation {
                Reservation::Bind { volume, .. } => {
                    self.change_volume(*volume, |entry| entry.forget(pod));
                }
                Reservation::Provision { namespace, name, .. } => {
                    if let Some(entry) = self.claims.get_mut(&(*namespace, *name)) {
                        entry.forget(pod);
                    }
                }
                Reservation::Allocate { claim, .. } | Reservation::Create { claim, .. } => {
                    self.devices.forget(claim);
                }
                Reservation::Share { .. } => {}
            }
        }
        reservations
    }

    /// Returns the reservations of a pod.
    pub fn reservations_of(&self, pod: &str) -> &[Reservation] {
        self.reservations.get(pod).map_or(&[], Vec::as_slice)
    }
}

/// Removes an entry from a map of maps, and the inner map if it becomes empty.
fn remove_in<K: Ord, V>(maps: &mut IdMap<Symbol, BTreeMap<K, V>>, outer: Symbol, inner: &K) -> Option<V> {
    let map = maps.get_mut(&outer)?;
    let removed = map.remove(inner);
    if map.is_empty() {
        maps.remove(&outer);
    }
    removed
}

impl<T: TraceIds> TraceIds for Assumable<T> {
    fn mark(&self, marks: &mut Marks) {
        let Self { object, assumed } = self;
        object.mark(marks);
        assumed.iter().for_each(|(object, _)| object.mark(marks));
    }
}

impl TraceIds for Volumes {
    fn mark(&self, marks: &mut Marks) {
        let Self {
            volumes,
            // Names and classes of `volumes`, and the claims that these name.
            candidate_volumes: _,
            claims,
            classes,
            csi_nodes,
            csi_drivers,
            capacities,
            capacity_classes,
            attachments,
            attachment_nodes,
            changed_nodes: _,
            reservations,
            devices,
            changes: _,
        } = self;
        volumes.mark(marks);
        claims.mark(marks);
        classes.mark(marks);
        csi_nodes.mark(marks);
        csi_drivers.mark(marks);
        capacities.mark(marks);
        capacity_classes.mark(marks);
        attachments.mark(marks);
        attachment_nodes.mark(marks);
        devices.mark(marks);
        reservations.values().for_each(|of_pod| of_pod.mark(marks));
    }
}
