//! Temporary changes of the cache and their undo log.
//!
//! They answer how a decision would differ if pods had arrived earlier or later, or if nodes or volumes were different.

use super::{Cache, PodState, Snapshot};
use crate::model::intern::{Symbol, Tables};
use crate::model::node::NodeInfo;
use crate::model::pod::{PodInfo, Uid};
use crate::model::volume::{StorageKey, StorageObject};
use std::sync::Arc;

/// What undoes a change.
enum Change {
    Removed(Arc<PodInfo>, Symbol, PodState),
    Added(Uid),
    /// The previous nomination of a pod.
    Nominated(Uid, Option<(Arc<PodInfo>, Symbol)>),
    /// The previous object of a node.
    Node(Symbol, Option<Arc<NodeInfo>>),
    /// The previous storage object.
    Storage(StorageKey, Option<StorageObject>),
}

/// The changes of a cache in order, to undo the latest ones.
///
/// Every method takes the cache that the log belongs to.
#[derive(Default)]
pub(crate) struct UndoLog(Vec<Change>);

impl UndoLog {
    /// Removes a pod from its node, if it is on one. Its assumed volumes are released for good.
    pub(crate) fn remove(&mut self, cache: &mut Cache, uid: &str) -> bool {
        let removed = cache.remove_pod(uid);
        let was_placed = removed.is_some();
        self.0.extend(removed.map(|(pod, node, state)| Change::Removed(pod, node, state)));
        was_placed
    }

    /// Puts back the pod of this uid that was removed last, as it was. It must have reserved no volumes.
    pub(crate) fn put_back(&mut self, cache: &mut Cache, uid: &str) {
        let is_it = |change: &&Change| matches!(change, Change::Removed(pod, ..) if *pod.uid == *uid);
        if let Some(Change::Removed(pod, node, state)) = self.0.iter().rev().find(is_it) {
            cache.place(pod, *node, *state);
            let added = Change::Added(Arc::clone(&pod.uid));
            self.0.push(added);
        }
    }

    /// Counts a pod on a node. A pod that counts on a node already is moved or replaced.
    pub(crate) fn place(&mut self, cache: &mut Cache, pod: &Arc<PodInfo>, node: Symbol, state: PodState) {
        let before = cache.placed(&pod.uid).map(|(old, on, state)| (Arc::clone(old), on, state));
        cache.place(pod, node, state);
        self.0.push(match before {
            Some((old, on, state)) => Change::Removed(old, on, state),
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
        let before = cache.apply_node(node);
        self.0.push(Change::Node(node.name, before));
    }

    /// Adds or replaces a storage object.
    pub(crate) fn set_storage(&mut self, cache: &mut Cache, object: StorageObject) {
        let key = object.key();
        let before = cache.volumes_mut().apply(object);
        self.0.push(Change::Storage(key, before));
    }

    /// Returns the number of changes so far, for [`Self::roll_back_to`].
    pub(crate) fn checkpoint(&self) -> usize {
        self.0.len()
    }

    /// Undoes the changes made after the checkpoint, newest first.
    pub(crate) fn roll_back_to(&mut self, cache: &mut Cache, checkpoint: usize) {
        while self.0.len() > checkpoint {
            match self.0.pop() {
                Some(Change::Removed(pod, node, state)) => cache.place(&pod, node, state),
                Some(Change::Added(uid)) => drop(cache.remove_pod(&uid)),
                Some(Change::Nominated(_, Some((pod, node)))) => cache.nominate(&pod, Some(node)),
                Some(Change::Nominated(uid, None)) => drop(cache.forget_nomination(&uid)),
                Some(Change::Node(_, Some(node))) => drop(cache.apply_node(&node)),
                Some(Change::Node(name, None)) => drop(cache.remove_node(name)),
                Some(Change::Storage(_, Some(object))) => drop(cache.volumes_mut().apply(object)),
                Some(Change::Storage(key, None)) => drop(cache.volumes_mut().remove(key)),
                None => {}
            }
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
