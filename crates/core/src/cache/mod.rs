//! The cluster as the engine knows it: nodes in columns, the pods that count on them, and what plugins look up.
//!
//! There is one writer, the scheduler, and a snapshot is a borrow. The cache knows no plugin and no queue.
//! Upstream: `pkg/scheduler/backend/cache`.

mod attachable;
mod device_classes;
mod images;
mod kinds;
mod log;
mod lookups;
mod nodes;
mod nominated;
mod offers;
mod pods;
mod rebuild;
mod snapshot;
mod trial;
mod view;
mod volumes;

pub use attachable::Attachable;
pub use device_classes::{DeviceClass, DeviceClasses};
pub use images::ImageState;
pub use kinds::{Kind, KindId};
pub use lookups::{DisruptionBudget, Lookups, Service};
pub use nodes::{Columns, Touch};
pub use pods::PodState;
pub use snapshot::Snapshot;
pub use trial::Trial;
pub use view::{NodeView, Overlay};
pub use volumes::Volumes;

use crate::hash::Keyed;
use crate::intern::{HoldsIds, Marks, Symbol, Tables, Work, holds_ids};
use crate::mutation::{self, Mutation};
use crate::node::{NodeIdx, NodeInfo};
use crate::pod::{PodInfo, Uid};
use crate::volume::Reservation;
use images::Images;
use kinds::Kinds;
use log::Log;
use nodes::Nodes;
use nominated::Nominated;
use pods::{PodEntry, Pods};
use std::sync::Arc;

/// The slot of a pod in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodIdx(u32);

/// How many objects the cache holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheSize {
    /// Nodes, those that are gone and still have pods included, as upstream counts them.
    pub nodes: usize,
    /// Pods on nodes, assumed ones included.
    pub pods: usize,
    /// Pods placed by us that no watch has confirmed yet.
    pub assumed_pods: usize,
}

/// The state of what a decision rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    nodes: u64,
    lookups: (u64, u64),
    storage: u64,
}

/// The cluster as the engine knows it.
#[derive(Default)]
pub struct Cache {
    nodes: Nodes,
    /// Nodes that changed in what only preemption and nominated pods make of them: who is nominated to them, and when their pods
    /// started. It holds many times what happens between two decisions.
    beside: Log<NodeIdx, 16_384>,
    pods: Pods,
    kinds: Kinds,
    images: Images,
    nominated: Nominated,
    lookups: Lookups,
    volumes: Volumes,
    version: u64,
}

impl Cache {
    /// An empty cluster; what users choose is hashed so.
    pub(crate) fn hashed_by(hashing: &Keyed) -> Self {
        Self { kinds: Kinds::hashed_by(hashing.clone()), ..Self::default() }
    }

    /// A number that grows with every change that a decision may depend on, and stays what it is where an event changed nothing: what
    /// is remembered of decisions holds as long as it does.
    pub fn version(&self) -> u64 {
        let looked_up = self.lookups.changes() + self.lookups.budget_changes();
        self.version + looked_up + self.lookups.device_classes().changes() + self.volumes.changes()
    }

    /// A borrow of the whole state for a decision.
    pub fn snapshot<'a>(&'a self, tables: &'a Tables) -> Snapshot<'a> {
        Snapshot::new(self, tables)
    }

    /// Adds a node or replaces it; what it was before.
    pub fn apply_node(&mut self, node: &Arc<NodeInfo>) -> Option<Arc<NodeInfo>> {
        self.version += 1;
        let idx = self.nodes.slot_of(node.name);
        let old = self.nodes.set_info(idx, Some(Arc::clone(node)));
        self.images.replace(old.as_deref(), Some(node));
        old
    }

    /// Takes a node out. Pods on it stay counted, out of every decision's sight, until they go or it comes back.
    pub fn remove_node(&mut self, name: Symbol) -> Option<Arc<NodeInfo>> {
        self.version += 1;
        let idx = self.nodes.find(name)?;
        if mutation::is_on(Mutation::NodeTakesItsPods) {
            let here = self.pods.iter().filter(|entry| entry.node == idx);
            let here: Vec<Uid> = here.map(|entry| Arc::clone(&entry.info.uid)).collect();
            here.iter().for_each(|uid| drop(self.take_off(uid)));
        }
        let old = self.nodes.set_info(idx, None);
        self.images.replace(old.as_deref(), None);
        self.nodes.release_if_empty(idx);
        old
    }

    /// Counts `pod` on the node named `node`, as assumed or as confirmed, wherever it was counted before.
    ///
    /// Confirming a pod on another node than it was assumed on moves it: the API server is right. A node that is not
    /// known (yet) is given a slot, so that its pods count as soon as it appears.
    pub fn place(&mut self, pod: &Arc<PodInfo>, node: Symbol, state: PodState) {
        let known = self.pods.by_uid(&pod.uid);
        let is_known = known.is_some();
        if known.is_some_and(|known| self.is_there_already(known, pod, node))
            && !mutation::is_on(Mutation::CountedAgain)
        {
            self.replace_pod(pod);
            self.pods.confirm(&pod.uid, state);
            return;
        }
        self.version += 1;
        let was_there = is_known && self.take_off(&pod.uid).is_some();
        let idx = self.nodes.slot_of(node);
        let kind = self.kinds.add(pod, idx);
        let pod_idx = self.pods.insert(Arc::clone(pod), idx, state);
        let at = self.nodes.add_pod(idx, pod_idx, kind, pod);
        self.pods.stands_at(pod_idx, at);
        if was_there && mutation::is_on(Mutation::CountedAgain) {
            self.nodes.count(idx, pod, 1);
        }
    }

    /// Whether the pod counts on this node already, as the same to others: nothing of the node changes.
    fn is_there_already(&self, known: &PodEntry, pod: &PodInfo, node: Symbol) -> bool {
        self.nodes.name(known.node) == node
            // An assumed pod names no node yet.
            && (known.info.node_name == pod.node_name || known.info.node_name.is_none())
            && known.info.is_same_but_for_node(pod)
    }

    /// Puts a newer version of a counted pod in place, which must be the same to others: no node is touched.
    pub fn renew_pod(&mut self, pod: &Arc<PodInfo>) {
        self.replace_pod(pod);
    }

    fn replace_pod(&mut self, pod: &Arc<PodInfo>) {
        if let Some(node) = self.pods.replace(pod) {
            self.version += 1;
            self.beside.push(node);
        }
    }

    /// Takes a pod off its node, with all that is assumed for it; what it was.
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
            self.pods.stands_at(moved, entry.at);
        }
        self.kinds.remove(&entry.info, entry.node);
        self.nodes.release_if_empty(entry.node);
        Some((entry.info, name, entry.state))
    }

    /// The pod, its node's name and how sure that is, if the pod is counted on a node.
    pub fn placed(&self, uid: &str) -> Option<(&Arc<PodInfo>, Symbol, PodState)> {
        let entry = self.pods.by_uid(uid)?;
        Some((&entry.info, self.nodes.name(entry.node), entry.state))
    }

    /// Uids of all pods counted on nodes, in no meaningful order.
    pub fn placed_uids(&self) -> impl Iterator<Item = &Uid> {
        self.pods.iter().map(|entry| &entry.info.uid)
    }

    /// Remembers that `pod` is to go to the node named `node`, or that it no longer is.
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

    /// Forgets the nomination of a pod, whatever it was; the pod, if it had one.
    pub fn forget_nomination(&mut self, uid: &str) -> Option<Arc<PodInfo>> {
        self.nomination_changes(uid, None);
        let pod = self.nominated.remove(uid);
        self.version += u64::from(pod.is_some());
        pod
    }

    fn nomination_changes(&mut self, uid: &str, node: Option<Symbol>) {
        for name in self.nominated.node_of(uid).into_iter().chain(node) {
            if let Some(node) = self.nodes.find(name) {
                self.beside.push(node);
            }
        }
    }

    /// The pods nominated to the node named `node`.
    pub fn nominated_to(&self, node: Symbol) -> &[Arc<PodInfo>] {
        self.nominated.on(node)
    }

    /// Uids of all nominated pods, in no meaningful order.
    pub fn nominated_uids(&self) -> impl Iterator<Item = &Uid> {
        self.nominated.uids()
    }

    /// Where `uid` is nominated.
    pub fn nomination(&self, uid: &str) -> Option<Symbol> {
        self.nominated.node_of(uid)
    }

    /// Services, controllers and namespaces, to change them.
    pub fn lookups_mut(&mut self) -> &mut Lookups {
        &mut self.lookups
    }

    /// Services, controllers and namespaces.
    pub fn lookups(&self) -> &Lookups {
        &self.lookups
    }

    /// Assumes what a placed pod needs of claims and volumes. It lasts until the pod is taken off its node, or the API
    /// server shows newer versions of them.
    pub fn assume_volumes(&mut self, pod: &Uid, reservations: Vec<Reservation>) {
        self.version += u64::from(!reservations.is_empty());
        self.volumes.assume(pod, reservations);
    }

    /// Takes back what was assumed of claims and volumes for a pod; what it was.
    pub fn forget_volumes(&mut self, pod: &str) -> Vec<Reservation> {
        let forgotten = self.volumes.forget(pod);
        self.version += u64::from(!forgotten.is_empty());
        forgotten
    }

    /// Objects of storage, to change them.
    pub fn volumes_mut(&mut self) -> &mut Volumes {
        &mut self.volumes
    }

    /// Objects of storage.
    pub fn volumes(&self) -> &Volumes {
        &self.volumes
    }

    /// Names of all nodes that exist, in slot order.
    pub fn node_names(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.nodes.present().iter().map(|idx| self.nodes.name(idx))
    }

    /// Brings each changed node's view of its images up to date, and how many volumes it may take; to be called before a decision.
    ///
    /// Upstream copies a node's image counts when it copies the node into the snapshot, so a node that did not change
    /// keeps an older count (`pkg/scheduler/backend/cache/cache.go#UpdateSnapshot`); so does this.
    pub fn refresh(&mut self) {
        let Self { images, volumes, nodes, .. } = self;
        nodes.refresh_changed(volumes, |node| images.view(node));
        let changed = volumes.take_changed_nodes();
        if !changed.is_empty() {
            nodes.refresh_storage(changed.into_iter(), volumes);
        }
    }

    /// Announces that cached decisions are brought up to date and compared although no decision follows, so [`Self::refresh`] was not
    /// called: when a refresh happens decides which image counts a node keeps. The next refresh reports the nodes whose counts
    /// it changes, so that cached decisions follow them.
    pub fn preview(&mut self) {
        self.nodes.preview();
    }

    /// The state of everything that a filter reads to judge `pod`: equal as long as none of it changes. That is all nodes and the
    /// pods on them, since affinity and spreading read other nodes than the one chosen; what is looked up by name; and storage
    /// where the pod has volumes.
    pub fn stamp_for(&self, pod: &PodInfo) -> Stamp {
        let storage = if pod.volumes.is_empty() { 0 } else { self.volumes.changes() };
        let lookups = (self.lookups.changes(), self.lookups.device_classes().changes());
        Stamp { nodes: self.nodes.clock(), lookups, storage }
    }

    /// The slot of the node named `name`, present or not.
    pub fn find_slot(&self, name: Symbol) -> Option<NodeIdx> {
        self.nodes.find(name)
    }

    /// What the collections about nodes, pods and what is assumed hold, by name, for tests of leaks.
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
        ]
    }

    /// Nodes, pods and kinds are to be marked, piece by piece.
    pub(crate) fn begin_round(&mut self) {
        self.nodes.begin_round();
        self.pods.begin_round();
        self.kinds.begin_round();
    }

    /// Marks some of the ids that are held here; whether nothing but [`Self::mark_rest`] is left to mark.
    pub(crate) fn mark_some(&mut self, marks: &mut Marks, work: &mut Work) -> bool {
        let Self { nodes, pods, kinds, .. } = self;
        nodes.mark_some(marks, work) && pods.mark_some(marks, work) && kinds.mark_some(marks, work)
    }

    /// Marks at once what is no node's, pod's or kind's.
    pub(crate) fn mark_rest(&mut self, marks: &mut Marks) {
        let Self {
            nodes,
            // Slots.
            beside: _,
            pods,
            kinds: _,
            // Of each the node is there that has it.
            images: _,
            nominated,
            lookups,
            volumes,
            version: _,
        } = self;
        nodes.mark_rest(marks);
        pods.end_round();
        nominated.mark(marks);
        lookups.mark(marks);
        volumes.mark(marks);
    }

    /// How many objects are held.
    pub fn size(&self) -> CacheSize {
        CacheSize { nodes: self.nodes.len(), pods: self.pods.len(), assumed_pods: self.pods.assumed() }
    }
}

holds_ids!(Cache { nodes, pods, kinds, images, nominated, lookups, volumes } but not { beside, version });
