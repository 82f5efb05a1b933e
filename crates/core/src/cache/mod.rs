//! The engine's state of the cluster: node columns, the pods on nodes, and objects that plugins look up by
//! name.
//!
//! The scheduler is the only writer. Plugins read through a [`Snapshot`], which borrows the cache. The cache
//! does not depend on plugins or the queue. Upstream: `pkg/scheduler/backend/cache`.

mod attachable;
mod candidate_volumes;
mod device_classes;
mod device_clocks;
mod device_verdicts;
mod devices;
mod fence;
mod hypothetical;
mod images;
mod log;
mod lookups;
mod node_sums;
mod nodes;
mod nominated;
mod pod_classes;
mod pods;
mod rebuild;
pub mod slice;
mod snapshot;
mod view;
mod volumes;

pub use attachable::Attachable;
pub use device_classes::DeviceClasses;
pub(crate) use device_clocks::DeviceClocks;
pub use device_verdicts::{DeviceVerdicts, Judgement};
pub use devices::{AllocatedDevices, DeviceChange, DeviceUsage, Devices};
pub(crate) use fence::Facts;
pub use hypothetical::Hypothetical;
pub(crate) use hypothetical::UndoLog;
pub use images::ImageState;
pub use lookups::Lookups;
pub(crate) use node_sums::NodeColumns;
pub use nodes::{Columns, NodeChange};
pub(crate) use pod_classes::CLASS_LOOKUP_STEPS;
pub use pod_classes::{PodClass, PodClassId};
pub use pods::PodState;
pub use snapshot::Snapshot;
pub use view::{NodeView, Overlay};
pub use volumes::Volumes;

use crate::collections::hash::Keyed;
use crate::model::device::{DeviceClass, DeviceId, ResourceClaim, planned_uid};
use crate::model::emulation::RepeatedClaims;
use crate::model::group::GroupKey;
use crate::model::intern::{Marks, Symbol, Tables, TraceIds, WorkBudget, holds_no_ids, trace_ids};
use crate::model::node::{NodeIdx, NodeInfo};
use crate::model::pod::{PodInfo, Uid};
use crate::model::time::Time;
use crate::model::volume::{PodVolume, Reservation};
use crate::switches::mutation::{self, Mutation};
use images::Images;
use log::Log;
use nodes::Nodes;
use nominated::Nominated;
use pod_classes::PodClasses;
use pods::{PodEntry, Pods};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The index of a pod's slot in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodIdx(u32);

/// Numbers of objects in the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheSize {
    /// Nodes. As upstream, deleted nodes count until their last pod is removed.
    pub nodes: usize,
    /// Pods on nodes, including assumed pods.
    pub pods: usize,
    /// Assumed pods: placed by this scheduler and not yet confirmed by a watch.
    pub assumed_pods: usize,
}

/// A fingerprint of the state that a pod's filters read. See [`Cache::fingerprint_for`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    nodes: u64,
    lookups: (u64, u64),
    storage: u64,
}

/// The cluster state of the engine.
#[derive(Default)]
pub struct Cache {
    nodes: Nodes,
    /// Nodes with changes that only preemption and nominated pods read: the pods nominated to a node, and the
    /// start times of its pods. The capacity is many times the number of such changes between two decisions.
    preemption_log: Log<NodeIdx, 16_384>,
    pods: Pods,
    pod_classes: PodClasses,
    images: Images,
    nominated: Nominated,
    lookups: Lookups,
    volumes: Volumes,
    version: u64,
    /// The time of the last event or step.
    now: Time,
    /// Claims that count as unused: upstream's snapshot does not show that members of a group use them. Empty outside a
    /// group's cycle.
    hidden_claims: BTreeSet<(Symbol, Symbol)>,
    /// Whether undoing also restores what ties depend on: the order of a node's pods, and the image counts of nodes
    /// that did not change. The scheduler itself needs neither.
    undoes_exactly: bool,
}

impl Cache {
    /// Creates an empty cache whose maps with keys chosen by users use `hashing`.
    pub(crate) fn hashed_by(hashing: &Keyed) -> Self {
        Self { pod_classes: PodClasses::hashed_by(hashing.clone()), ..Self::default() }
    }

    /// Returns the version of the state: a number that grows with every change that a decision may depend on.
    /// An event without an effect does not change it, so results of decisions stay valid as long as the version
    /// is equal.
    pub fn version(&self) -> u64 {
        let lookups = &self.lookups;
        let looked_up = lookups.changes() + lookups.budget_changes() + lookups.group_changes();
        self.version + looked_up + self.lookups.device_classes().changes() + self.volumes.changes()
    }

    /// Sets the time that decisions read: the time limit of binding conditions depends on it.
    pub fn set_now(&mut self, now: Time) {
        self.now = now;
    }

    /// Gives back the devices that lingered until now. Returns their claims, with the devices.
    pub fn expire(&mut self, now: Time) -> Vec<Arc<ResourceClaim>> {
        let freed = self.volumes.expire(now);
        self.version += u64::from(!freed.is_empty());
        freed
    }

    /// Lets a claim avoid devices whose binding conditions failed for it, as long as others fit. `None` ends that.
    /// Returns whether anything changed.
    pub fn avoid_devices(&mut self, claim: &Uid, devices: Option<BTreeSet<DeviceId>>) -> bool {
        let is_other = self.volumes.avoid(claim, devices);
        self.version += u64::from(is_other);
        is_other
    }

    /// Keeps the devices of a claim whose allocation was sent, although the pod's reservation ends, until the watch
    /// shows it or the time has come.
    pub fn linger(&mut self, claim: &ResourceClaim, until: Time) {
        self.volumes.linger(claim, until);
    }

    /// Lets every undo restore the exact state.
    pub(crate) fn undo_exactly(&mut self) {
        self.undoes_exactly = true;
    }

    /// Borrows the whole state for a decision.
    pub fn snapshot<'a>(&'a self, tables: &'a Tables) -> Snapshot<'a> {
        Snapshot::new(self, tables)
    }

    /// Adds or replaces a node and returns its previous object.
    pub fn apply_node(&mut self, node: &Arc<NodeInfo>) -> Option<Arc<NodeInfo>> {
        self.version += 1;
        let idx = self.nodes.slot_of(node.name);
        let old = self.nodes.set_info(idx, Some(Arc::clone(node)));
        self.images.replace(old.as_deref(), Some(node));
        old
    }

    /// Removes a node. Its pods stay counted, invisible to decisions, until they are removed or the node
    /// returns.
    pub fn remove_node(&mut self, name: Symbol) -> Option<Arc<NodeInfo>> {
        self.version += 1;
        let idx = self.nodes.find(name)?;
        if mutation::is_on(Mutation::NodeDeletionDropsPods) {
            let here = self.pods.iter().filter(|entry| entry.node == idx);
            let here: Vec<Uid> = here.map(|entry| Arc::clone(&entry.info.uid)).collect();
            here.iter().for_each(|uid| drop(self.take_off(uid)));
        }
        let old = self.nodes.set_info(idx, None);
        self.images.replace(old.as_deref(), None);
        self.nodes.release_if_empty(idx);
        old
    }

    /// Counts `pod` on the node named `node`, as assumed or added, and removes it from the node where it was
    /// counted before.
    ///
    /// If a watch reports another node than the assumed one, the pod moves: the API server is right. An unknown
    /// node gets a slot, so that its pods count as soon as the node appears.
    pub fn place(&mut self, pod: &Arc<PodInfo>, node: Symbol, state: PodState) {
        let known = self.pods.by_uid(&pod.uid);
        let is_known = known.is_some();
        if known.is_some_and(|known| self.is_there_already(known, pod, node))
            && !mutation::is_on(Mutation::RepeatedPodCountedAgain)
        {
            self.replace_pod(pod);
            self.pods.confirm(&pod.uid, state);
            return;
        }
        self.version += 1;
        let was_there = is_known && self.take_off(&pod.uid).is_some();
        let idx = self.nodes.slot_of(node);
        let pod_class = self.pod_classes.add(pod, idx);
        let pod_idx = self.pods.insert(Arc::clone(pod), idx, state);
        let at = self.nodes.add_pod(idx, pod_idx, pod_class, pod);
        self.pods.set_position(pod_idx, at);
        if was_there && mutation::is_on(Mutation::RepeatedPodCountedAgain) {
            self.nodes.count(idx, pod, 1);
        }
    }

    /// Counts what a pod requests on a node, or with `sign` -1 not any more, and nothing else: the pod is not listed,
    /// and the change is not logged. Callers undo it before anything else changes the node.
    pub(crate) fn count_requests(&mut self, node: NodeIdx, pod: &PodInfo, sign: i8) {
        self.version += 1;
        self.nodes.count(node, pod, sign);
    }

    /// Returns the number of pods of a group that count on nodes and are not terminating.
    pub(crate) fn members_of(&self, key: GroupKey) -> usize {
        self.pods.members(key)
    }

    /// Whether the pod already counts on this node, with no difference that other pods could notice. Then the
    /// node's state does not change.
    fn is_there_already(&self, known: &PodEntry, pod: &PodInfo, node: Symbol) -> bool {
        self.nodes.name(known.node) == node
            // An assumed pod has no node name yet.
            && (known.info.node_name == pod.node_name || known.info.node_name.is_none())
            && known.info.is_same_but_for_node(pod)
    }

    /// Replaces a counted pod with a newer version that does not differ for other pods. The node's state does
    /// not change.
    pub fn replace_unchanged(&mut self, pod: &Arc<PodInfo>) {
        self.replace_pod(pod);
    }

    fn replace_pod(&mut self, pod: &Arc<PodInfo>) {
        if let Some(node) = self.pods.replace(pod) {
            self.version += 1;
            self.preemption_log.push(node);
        }
    }

    /// Removes a pod from its node, together with its assumed volumes, and returns its previous state.
    pub fn remove_pod(&mut self, uid: &str) -> Option<(Arc<PodInfo>, Symbol, PodState)> {
        self.forget_volumes(uid);
        let removed = self.take_off(uid);
        self.version += u64::from(removed.is_some());
        removed
    }

    fn take_off(&mut self, uid: &str) -> Option<(Arc<PodInfo>, Symbol, PodState)> {
        let entry = self.pods.remove(uid)?;
        let name = self.nodes.name(entry.node);
        if let Some(moved) = self.nodes.remove_pod(entry.node, entry.at, &entry.info) {
            self.pods.set_position(moved, entry.at);
        }
        self.pod_classes.remove(&entry.info, entry.node);
        self.nodes.release_if_empty(entry.node);
        Some((entry.info, name, entry.state))
    }

    /// Returns a pod with its node's name and state if the pod is counted on a node.
    pub fn placed(&self, uid: &str) -> Option<(&Arc<PodInfo>, Symbol, PodState)> {
        let entry = self.pods.by_uid(uid)?;
        Some((&entry.info, self.nodes.name(entry.node), entry.state))
    }

    /// Returns the position of a pod in its node's list of pods.
    fn position(&self, uid: &str) -> Option<u32> {
        self.pods.by_uid(uid).map(|entry| entry.at)
    }

    /// Moves a pod to a position in its node's list; the pod there takes its place.
    fn restore_position(&mut self, uid: &str, at: u32) {
        let Some((node, now)) = self.pods.by_uid(uid).map(|entry| (entry.node, entry.at)) else { return };
        if let Some((here, other)) = self.nodes.swap_pods(node, now, at) {
            self.pods.set_position(here, at);
            self.pods.set_position(other, now);
        }
    }

    /// Returns the image counts of a node that has images, if they are refreshed with the node's next change.
    fn settled_images(&self, node: Symbol) -> Option<&[(Symbol, ImageState)]> {
        self.nodes.settled_images(node)
    }

    /// Replaces the image counts of a node. The node must have changed since the last decision.
    fn restore_images(&mut self, node: Symbol, images: Box<[(Symbol, ImageState)]>) {
        self.version += 1;
        self.nodes.restore_images(node, images);
    }

    /// Assumes what a pod had reserved before its reservations were released.
    fn assume_again(&mut self, pod: &Uid, reservations: Vec<Reservation>, repeated: RepeatedClaims) {
        self.version += u64::from(!reservations.is_empty());
        self.volumes.assume(pod, reservations, repeated);
    }

    /// Returns the uids of all pods counted on nodes, in arbitrary order.
    pub fn placed_uids(&self) -> impl Iterator<Item = &Uid> {
        self.pods.iter().map(|entry| &entry.info.uid)
    }

    /// Nominates `pod` to the node named `node`, or removes its nomination.
    pub fn nominate(&mut self, pod: &Arc<PodInfo>, node: Option<Symbol>) {
        let before = self.nominated.get(&pod.uid);
        if node.is_none() && before.is_none() {
            return;
        }
        let is_same = before.is_some_and(|(old, on)| node == Some(on) && old.is_same_but_for_node(pod));
        if !is_same {
            self.version += 1;
            self.nomination_changes(&pod.uid, node);
        }
        self.nominated.set(pod, node);
    }

    /// Removes a pod's nomination and returns the pod if it had one.
    pub fn forget_nomination(&mut self, uid: &str) -> Option<Arc<PodInfo>> {
        self.nomination_changes(uid, None);
        let pod = self.nominated.remove(uid);
        self.version += u64::from(pod.is_some());
        pod
    }

    fn nomination_changes(&mut self, uid: &str, node: Option<Symbol>) {
        for name in self.nominated.node_of(uid).into_iter().chain(node) {
            if let Some(node) = self.nodes.find(name) {
                self.preemption_log.push(node);
            }
        }
    }

    /// Returns the pods nominated to the node named `node`.
    pub fn nominated_to(&self, node: Symbol) -> &[Arc<PodInfo>] {
        self.nominated.on(node)
    }

    /// Returns the uids of all nominated pods, in arbitrary order.
    pub fn nominated_uids(&self) -> impl Iterator<Item = &Uid> {
        self.nominated.uids()
    }

    /// Returns the name of the node to which `uid` is nominated.
    pub fn nomination(&self, uid: &str) -> Option<Symbol> {
        self.nominated.node_of(uid)
    }

    /// Borrows namespaces, Services, controllers, disruption budgets and DeviceClasses mutably.
    pub fn lookups_mut(&mut self) -> &mut Lookups {
        &mut self.lookups
    }

    /// Adds or replaces a DeviceClass and returns its previous state.
    pub fn set_device_class(
        &mut self,
        tables: &Tables,
        name: Symbol,
        class: &Arc<DeviceClass>,
    ) -> Option<Arc<DeviceClass>> {
        self.lookups.device_classes_mut().set(tables, name, class)
    }

    /// Returns namespaces, Services, controllers, disruption budgets and DeviceClasses.
    pub fn lookups(&self) -> &Lookups {
        &self.lookups
    }

    /// Assumes the claims and volumes that a placed pod reserves. The assumption lasts until the pod is removed
    /// from its node or the API server shows newer versions of these objects.
    pub fn assume_volumes(&mut self, tables: &Tables, pod: &Uid, reservations: Vec<Reservation>) {
        self.version += u64::from(!reservations.is_empty());
        self.volumes.assume(pod, reservations, tables.rules().devices.repeated_claims);
    }

    /// Removes and returns the volume reservations of a pod.
    pub fn forget_volumes(&mut self, pod: &str) -> Vec<Reservation> {
        let forgotten = self.volumes.forget(pod);
        self.version += u64::from(!forgotten.is_empty());
        forgotten
    }

    /// Forgets the devices that the claim to be made for a pod avoids.
    pub fn forget_failed_devices(&mut self, pod: &Uid) {
        if self.volumes.devices().avoiding_count() > 0 {
            self.volumes.avoid(&planned_uid(pod), None);
        }
    }

    /// Records that a request was sent by which a pod gives up its reservation of a claim. Until the API server shows
    /// that, the claim counts as not reserved for the pod. A request that names a `version` takes effect on no other.
    pub fn give_up_reservation(&mut self, claim: &Uid, pod: &Uid, version: Option<u64>, now: Time) {
        self.volumes.devices_mut().give_up(claim, pod, version, now);
    }

    /// Records that such a request left later than expected.
    pub fn give_up_sent(&mut self, claim: &str, pod: &str, now: Time) {
        self.volumes.devices_mut().give_up_sent(claim, pod, now);
    }

    /// Records that a claim was reserved for a pod after it gave it up.
    pub fn reservation_written(&mut self, claim: &str, pod: &str) {
        self.volumes.devices_mut().end_given_up(claim, pod);
    }

    /// Forgets the reservations that a pod gave up.
    pub fn forget_given_up(&mut self, pod: &Uid) {
        self.volumes.devices_mut().forget_given_up(pod);
    }

    /// Records that the claim that was made for a pod's extended resources serves the pod, which is about to be bound.
    pub fn settle_claim(&mut self, pod: &Uid, claim: &ResourceClaim) {
        self.volumes.settle_claim(pod, claim);
    }

    /// Withdraws what [`Self::settle_claim`] recorded: the pod is not bound after all.
    pub fn unsettle_claim(&mut self, pod: &str) {
        self.volumes.unsettle_claim(pod);
    }

    /// Hides that claims of a pod are in use, except those that already are.
    pub(crate) fn hide_unused_claims(&mut self, pod: &PodInfo) {
        for (claim, _) in pod.volumes.iter().filter_map(PodVolume::claim) {
            let mut users = self.nodes.users_of(pod.namespace, claim);
            if users.all(|idx| !self.nodes.present().contains(idx)) {
                self.hidden_claims.insert((pod.namespace, claim));
            }
        }
    }

    /// Ends [`Self::hide_unused_claims`].
    pub(crate) fn show_claims(&mut self) {
        self.hidden_claims.clear();
    }

    /// Borrows the storage objects mutably.
    pub fn volumes_mut(&mut self) -> &mut Volumes {
        &mut self.volumes
    }

    /// Returns the storage objects.
    pub fn volumes(&self) -> &Volumes {
        &self.volumes
    }

    /// Returns the names of all nodes that exist, in slot order.
    pub fn node_names(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.nodes.present().iter().map(|idx| self.nodes.name(idx))
    }

    /// Updates the image counts and volume limits of changed nodes. Must be called before a decision.
    ///
    /// Upstream copies a node's image counts when it copies the node into the snapshot, so an unchanged node
    /// keeps an older count (`pkg/scheduler/backend/cache/cache.go#UpdateSnapshot`). This function reproduces
    /// that.
    pub fn refresh(&mut self) {
        let Self { images, volumes, nodes, .. } = self;
        nodes.refresh_changed(volumes, |node| images.view(node));
        let changed = volumes.take_changed_nodes();
        if !changed.is_empty() {
            nodes.refresh_storage(changed.into_iter(), volumes);
        }
    }

    /// Starts or ends a time in which changes keep the image counts of nodes. All changes must be undone before
    /// the end.
    ///
    /// This reproduces a group's cycle upstream, which changes the snapshot only
    /// (`pkg/scheduler/backend/cache/snapshot.go#AssumePod`).
    pub(crate) fn hold_images(&mut self, holds: bool) {
        self.refresh();
        self.nodes.hold_images(holds);
    }

    /// Records that cached decisions are updated and compared without [`Self::refresh`], since no decision
    /// follows. The time of a refresh determines which image counts a node keeps. Therefore the next refresh
    /// logs the nodes whose counts it changes, and cached decisions follow them.
    pub fn preview(&mut self) {
        self.nodes.preview();
    }

    /// Returns a stamp of everything that the filters read to judge `pod`. It stays equal as long as none of
    /// that changes.
    ///
    /// It covers all nodes and the pods on them, since affinity and spreading also read nodes other than the
    /// chosen one. It covers objects looked up by name, and storage if the pod has volumes.
    pub fn fingerprint_for(&self, pod: &PodInfo) -> Fingerprint {
        let reads_storage =
            !pod.volumes.is_empty() || !pod.claims.is_empty() || !pod.container_requests.is_empty();
        let storage = if reads_storage { self.volumes.changes() } else { 0 };
        let lookups = (self.lookups.changes(), self.lookups.device_classes().changes());
        Fingerprint { nodes: self.nodes.clock(), lookups, storage }
    }

    /// Returns the slot of the node named `name`, whether the node exists or only its pods do.
    pub fn find_slot(&self, name: Symbol) -> Option<NodeIdx> {
        self.nodes.find(name)
    }

    /// Returns the sizes of the collections by name, for leak tests.
    pub fn held(&self) -> Vec<(&'static str, usize)> {
        vec![
            ("nodes", self.nodes.len()),
            ("node slots to refresh beyond all slots", self.nodes.needless_refreshes()),
            ("claims in use", self.nodes.claims_in_use()),
            ("pods on nodes", self.pods.len()),
            ("assumed pods", self.pods.assumed()),
            ("priorities", self.pods.priorities()),
            ("images", self.images.len()),
            ("nominations", self.nominated.len()),
            ("assumed volumes", self.volumes.assumed()),
            ("allocations in flight", self.volumes.devices().unlimited_in_flight().count()),
            ("claims that avoid devices", self.volumes.devices().avoiding_count()),
            ("pods that gave up reservations", self.volumes.devices().all_giving_up().count()),
        ]
    }

    /// Starts a gc round: nodes, pods and pod classes are marked in slices.
    pub(crate) fn begin_collection(&mut self) {
        self.nodes.begin_collection();
        self.pods.begin_collection();
        self.pod_classes.begin_collection();
    }

    /// Marks some of the ids held here. Returns whether only [`Self::mark_rest`] remains.
    pub(crate) fn mark_some(&mut self, marks: &mut Marks, work: &mut WorkBudget) -> bool {
        let Self { nodes, pods, pod_classes, .. } = self;
        nodes.mark_some(marks, work) && pods.mark_some(marks, work) && pod_classes.mark_some(marks, work)
    }

    /// Marks, in one call, the ids that do not belong to nodes, pods or pod classes, and ends the round.
    pub(crate) fn mark_rest(&mut self, marks: &mut Marks) {
        let Self {
            nodes,
            // Holds slots only.
            preemption_log: _,
            pods,
            pod_classes: _,
            // Every image belongs to a node, and the node marks it.
            images: _,
            nominated,
            lookups,
            volumes,
            version: _,
            now: _,
            hidden_claims: _,
            undoes_exactly: _,
        } = self;
        nodes.mark_rest(marks);
        pods.end_collection();
        nominated.mark(marks);
        lookups.mark(marks);
        volumes.mark(marks);
    }

    /// Returns the numbers of objects in the cache.
    pub fn size(&self) -> CacheSize {
        CacheSize { nodes: self.nodes.len(), pods: self.pods.len(), assumed_pods: self.pods.assumed() }
    }
}

trace_ids!(Cache { nodes, pods, pod_classes, images, nominated, lookups, volumes } but not {
    preemption_log, version, now, hidden_claims, undoes_exactly
});

holds_no_ids!(ImageState);
