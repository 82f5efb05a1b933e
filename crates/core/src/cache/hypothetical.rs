//! Temporary changes of the cache and their undo log.
//!
//! They answer how a decision would differ if pods had arrived earlier or later, or if nodes or volumes were different.

use super::{Cache, ImageState, PodState, Snapshot};
use crate::model::emulation::RepeatedClaims;
use crate::model::group::{GroupKey, PodGroup};
use crate::model::intern::{LabelSetId, Symbol, Tables};
use crate::model::node::NodeInfo;
use crate::model::pod::{ControllerKind, PodInfo, Uid};
use crate::model::selector::Requirement;
use crate::model::volume::{ClaimInfo, PersistentVolumeInfo, Reservation, StorageKey, StorageObject};
use std::sync::Arc;

/// What undoes a change.
enum Change {
    /// A pod that was on a node, and its position there if undo is exact.
    Removed(Arc<PodInfo>, Symbol, PodState, Option<u32>),
    Added(Uid),
    /// The reservations of a pod that were released.
    Released(Uid, Vec<Reservation>, RepeatedClaims),
    /// The previous nomination of a pod.
    Nominated(Uid, Option<(Arc<PodInfo>, Symbol)>),
    /// The previous object of a node.
    Node(Symbol, Option<Arc<NodeInfo>>),
    /// The image counts of a node before it changed.
    Images(NodeImages),
    /// The previous storage object, and its assumed state.
    Storage(StorageKey, Option<StorageObject>, Option<Assumption>),
    /// The previous state of a group.
    Group(GroupKey, Option<Box<PodGroup>>),
    /// The previous labels of a namespace.
    Namespace(Symbol, Option<LabelSetId>),
    /// The previous selector of a controller.
    Controller(ControllerName, Option<Box<[Requirement]>>),
}

/// A node, and its image counts.
type NodeImages = (Symbol, Box<[(Symbol, ImageState)]>);

/// The kind, namespace and name of a controller.
type ControllerName = (ControllerKind, Symbol, Symbol);

/// The assumed state of a claim or volume, and the pods that assume it.
#[derive(Clone)]
pub(super) enum Assumption {
    Volume(Arc<PersistentVolumeInfo>, Vec<Uid>),
    Claim(Arc<ClaimInfo>, Vec<Uid>),
}

/// The changes of a cache in order, to undo the latest ones.
///
/// Every method takes the cache that the log belongs to.
#[derive(Default)]
pub(crate) struct UndoLog(Vec<Change>);

impl UndoLog {
    /// Removes a pod from its node, if it is on one. Its assumed volumes are released for good.
    pub(crate) fn remove(&mut self, cache: &mut Cache, uid: &str) -> bool {
        let at = self.before_leaving(cache, uid);
        let removed = cache.remove_pod(uid);
        let was_placed = removed.is_some();
        self.0.extend(removed.map(|(pod, node, state)| Change::Removed(pod, node, state, at)));
        was_placed
    }

    /// Removes a pod from its node, if it is on one, with its assumed volumes.
    pub(crate) fn remove_with_volumes(&mut self, cache: &mut Cache, tables: &Tables, uid: &str) -> bool {
        let reservations = cache.forget_volumes(uid);
        if !reservations.is_empty() {
            let repeated = tables.rules().devices.repeated_claims;
            self.0.push(Change::Released(uid.into(), reservations, repeated));
        }
        self.remove(cache, uid)
    }

    /// Records what exact undo restores on the pod's node; returns the pod's position there.
    fn before_leaving(&mut self, cache: &Cache, uid: &str) -> Option<u32> {
        if !cache.undoes_exactly {
            return None;
        }
        let (_, node, _) = cache.placed(uid)?;
        self.keep_images(cache, node);
        cache.position(uid)
    }

    /// Records the image counts of a node that is about to change.
    fn keep_images(&mut self, cache: &Cache, node: Symbol) {
        if cache.undoes_exactly
            && let Some(images) = cache.settled_images(node)
        {
            self.0.push(Change::Images((node, images.into())));
        }
    }

    /// Puts back the pod of this uid that was removed last, as it was. It must have reserved no volumes.
    pub(crate) fn put_back(&mut self, cache: &mut Cache, uid: &str) {
        let is_it = |change: &&Change| matches!(change, Change::Removed(pod, ..) if *pod.uid == *uid);
        if let Some(Change::Removed(pod, node, state, _)) = self.0.iter().rev().find(is_it) {
            cache.place(pod, *node, *state);
            let added = Change::Added(Arc::clone(&pod.uid));
            self.0.push(added);
        }
    }

    /// Counts a pod on a node. A pod that counts on a node already is moved or replaced.
    pub(crate) fn place(&mut self, cache: &mut Cache, pod: &Arc<PodInfo>, node: Symbol, state: PodState) {
        let at = self.before_leaving(cache, &pod.uid);
        self.keep_images(cache, node);
        let before = cache.placed(&pod.uid).map(|(old, on, state)| (Arc::clone(old), on, state));
        cache.place(pod, node, state);
        self.0.push(match before {
            Some((old, on, state)) => Change::Removed(old, on, state, at),
            None => Change::Added(Arc::clone(&pod.uid)),
        });
    }

    /// Nominates a pod to a node, or removes its nomination.
    pub(crate) fn nominate(&mut self, cache: &mut Cache, pod: &Arc<PodInfo>, node: Option<Symbol>) {
        let on = cache.nomination(&pod.uid);
        if on.is_none() && node.is_none() {
            return;
        }
        let find = |on| cache.nominated_to(on).iter().find(|other| other.uid == pod.uid);
        let before = on.and_then(|on| Some((Arc::clone(find(on)?), on)));
        cache.nominate(pod, node);
        self.0.push(Change::Nominated(Arc::clone(&pod.uid), before));
    }

    /// Adds or replaces a node.
    pub(crate) fn set_node(&mut self, cache: &mut Cache, node: &Arc<NodeInfo>) {
        self.keep_images(cache, node.name);
        let before = cache.apply_node(node);
        self.0.push(Change::Node(node.name, before));
    }

    /// Removes a node, and returns whether it existed. Its pods stay counted, invisible to decisions.
    pub(crate) fn remove_node(&mut self, cache: &mut Cache, name: Symbol) -> bool {
        self.keep_images(cache, name);
        let before = cache.remove_node(name);
        let existed = before.is_some();
        if existed {
            self.0.push(Change::Node(name, before));
        }
        existed
    }

    /// Adds or replaces a storage object.
    pub(crate) fn set_storage(&mut self, cache: &mut Cache, object: StorageObject) {
        let key = object.key();
        let assumption = cache.volumes().assumption(key);
        let before = cache.volumes_mut().apply(object);
        self.0.push(Change::Storage(key, before, assumption));
    }

    /// Sets or removes a group, and returns its previous state.
    pub(crate) fn replace_group(
        &mut self,
        cache: &mut Cache,
        key: GroupKey,
        group: Option<PodGroup>,
    ) -> Option<PodGroup> {
        let before = set_group(cache, key, group);
        self.0.push(Change::Group(key, before.clone().map(Box::new)));
        before
    }

    /// Adds a namespace or replaces its labels.
    pub(crate) fn set_namespace(&mut self, cache: &mut Cache, name: Symbol, labels: LabelSetId) {
        let before = cache.lookups_mut().set_namespace(name, labels);
        self.0.push(Change::Namespace(name, before));
    }

    /// Adds or replaces the selector of a controller.
    pub(crate) fn set_controller(
        &mut self,
        cache: &mut Cache,
        (kind, namespace, name): ControllerName,
        demands: Box<[Requirement]>,
    ) {
        let before = cache.lookups().controller(kind, namespace, name).map(Box::from);
        cache.lookups_mut().set_controller(kind, namespace, name, demands);
        self.0.push(Change::Controller((kind, namespace, name), before));
    }

    /// Returns the number of changes so far, for [`Self::roll_back_to`].
    pub(crate) fn checkpoint(&self) -> usize {
        self.0.len()
    }

    /// Undoes the changes made after the checkpoint, newest first.
    pub(crate) fn roll_back_to(&mut self, cache: &mut Cache, checkpoint: usize) {
        let mut images = Vec::new();
        for change in self.0.drain(checkpoint.min(self.0.len())..).rev() {
            undo(cache, change, &mut images);
        }
        if !images.is_empty() {
            // The counts of changed nodes are computed now, and then replaced by the older ones.
            cache.refresh();
            images.into_iter().for_each(|(node, before)| cache.restore_images(node, before));
        }
    }
}

fn set_group(cache: &mut Cache, key: GroupKey, group: Option<PodGroup>) -> Option<PodGroup> {
    match group {
        Some(group) => cache.lookups_mut().set_group(group),
        None => cache.lookups_mut().remove_group(key),
    }
}

/// Undoes a change. The image counts of nodes are restored last, so they are added to `images`.
fn undo(cache: &mut Cache, change: Change, images: &mut Vec<NodeImages>) {
    match change {
        Change::Removed(pod, node, state, at) => {
            cache.place(&pod, node, state);
            if let Some(at) = at {
                cache.restore_position(&pod.uid, at);
            }
        }
        Change::Added(uid) => drop(cache.remove_pod(&uid)),
        Change::Released(uid, reservations, repeated) => cache.assume_again(&uid, reservations, repeated),
        Change::Nominated(_, Some((pod, node))) => cache.nominate(&pod, Some(node)),
        Change::Nominated(uid, None) => drop(cache.forget_nomination(&uid)),
        Change::Node(_, Some(node)) => drop(cache.apply_node(&node)),
        Change::Node(name, None) => drop(cache.remove_node(name)),
        Change::Images(before) => images.push(before),
        Change::Storage(key, before, assumption) => {
            match before {
                Some(object) => drop(cache.volumes_mut().apply(object)),
                None => drop(cache.volumes_mut().remove(key)),
            }
            if let Some(assumption) = assumption {
                cache.volumes_mut().restore_assumption(key, assumption);
            }
        }
        Change::Group(key, before) => drop(set_group(cache, key, before.map(|group| *group))),
        Change::Namespace(name, Some(labels)) => drop(cache.lookups_mut().set_namespace(name, labels)),
        Change::Namespace(name, None) => cache.lookups_mut().remove_namespace(name),
        Change::Controller((kind, namespace, name), Some(demands)) => {
            cache.lookups_mut().set_controller(kind, namespace, name, demands);
        }
        Change::Controller((kind, namespace, name), None) => {
            cache.lookups_mut().remove_controller(kind, namespace, name);
        }
    }
}

/// A borrowed cache with changes that are undone on drop.
pub struct Hypothetical<'c> {
    cache: &'c mut Cache,
    log: UndoLog,
}

impl<'c> Hypothetical<'c> {
    /// Starts without changes.
    pub fn new(cache: &'c mut Cache) -> Self {
        Self { cache, log: UndoLog::default() }
    }

    /// Removes a pod from its node, if it is on one.
    pub fn remove(&mut self, uid: &str) {
        self.log.remove(self.cache, uid);
    }

    /// Adds a pod to a node, unless it is already on one.
    pub fn add(&mut self, pod: &Arc<PodInfo>, node: Symbol) {
        if self.cache.placed(&pod.uid).is_none() {
            self.log.place(self.cache, pod, node, PodState::Added);
        }
    }

    /// Returns the number of changes so far, for [`Self::roll_back_to`].
    pub fn checkpoint(&self) -> usize {
        self.log.checkpoint()
    }

    /// Undoes the changes made after the mark, newest first.
    pub fn roll_back_to(&mut self, mark: usize) {
        self.log.roll_back_to(self.cache, mark);
    }

    /// Returns a snapshot of the changed state, for a decision.
    pub fn snapshot<'a>(&'a mut self, tables: &'a Tables) -> Snapshot<'a> {
        self.cache.refresh();
        self.cache.snapshot(tables)
    }
}

impl Drop for Hypothetical<'_> {
    fn drop(&mut self) {
        self.roll_back_to(0);
    }
}
