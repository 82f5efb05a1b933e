//! Temporary changes of the cache: removes pods from nodes and adds others, and undoes all of it at the end.
//!
//! It answers how a decision would differ if other pods had arrived earlier or later. Node and storage objects
//! stay unchanged.

use super::{Cache, PodState, Snapshot};
use crate::intern::{Symbol, Tables};
use crate::pod::{PodInfo, Uid};
use std::sync::Arc;

/// A change that is undone at the end.
enum Change {
    Removed(Arc<PodInfo>, Symbol, PodState),
    Added(Uid),
}

/// A borrowed cache with changes that are undone on drop.
pub struct Hypothetical<'c> {
    cache: &'c mut Cache,
    changes: Vec<Change>,
}

impl<'c> Hypothetical<'c> {
    /// Starts without changes.
    pub fn new(cache: &'c mut Cache) -> Self {
        Self { cache, changes: Vec::new() }
    }

    /// Removes a pod from its node, if it is on one.
    pub fn remove(&mut self, uid: &str) {
        if let Some((pod, node, state)) = self.cache.remove_pod(uid) {
            self.changes.push(Change::Removed(pod, node, state));
        }
    }

    /// Adds a pod to a node, unless it is already on one.
    pub fn add(&mut self, pod: &Arc<PodInfo>, node: Symbol) {
        if self.cache.placed(&pod.uid).is_none() {
            self.cache.place(pod, node, PodState::Added);
            self.changes.push(Change::Added(Arc::clone(&pod.uid)));
        }
    }

    /// Returns the number of changes so far, for [`Self::roll_back_to`].
    pub fn checkpoint(&self) -> usize {
        self.changes.len()
    }

    /// Undoes the changes made after the mark, newest first.
    pub fn roll_back_to(&mut self, mark: usize) {
        while self.changes.len() > mark {
            match self.changes.pop() {
                Some(Change::Removed(pod, node, state)) => self.cache.place(&pod, node, state),
                Some(Change::Added(uid)) => drop(self.cache.remove_pod(&uid)),
                None => {}
            }
        }
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
