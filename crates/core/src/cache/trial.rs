//! Temporary changes of the cache: removes pods from nodes and adds others, and undoes all of it at the end.
//!
//! It answers how a decision would differ if other pods had arrived earlier or later. Node and storage objects
//! stay unchanged.

use super::{Cache, PodState, Snapshot};
use crate::intern::{Symbol, Tables};
use crate::pod::{PodInfo, Uid};
use std::sync::Arc;

/// A change to undo.
enum Done {
    Taken(Arc<PodInfo>, Symbol, PodState),
    Put(Uid),
}

/// A borrowed cache with changes that are undone on drop.
pub struct Trial<'c> {
    cache: &'c mut Cache,
    done: Vec<Done>,
}

impl<'c> Trial<'c> {
    /// Starts a trial without changes.
    pub fn new(cache: &'c mut Cache) -> Self {
        Self { cache, done: Vec::new() }
    }

    /// Removes a pod from its node, if it is on one.
    pub fn take(&mut self, uid: &str) {
        if let Some((pod, node, state)) = self.cache.remove_pod(uid) {
            self.done.push(Done::Taken(pod, node, state));
        }
    }

    /// Adds a pod to a node, unless it is already on one.
    pub fn put(&mut self, pod: &Arc<PodInfo>, node: Symbol) {
        if self.cache.placed(&pod.uid).is_none() {
            self.cache.place(pod, node, PodState::Added);
            self.done.push(Done::Put(Arc::clone(&pod.uid)));
        }
    }

    /// Returns the number of changes so far, for [`Self::back_to`].
    pub fn mark(&self) -> usize {
        self.done.len()
    }

    /// Undoes the changes made after the mark, newest first.
    pub fn back_to(&mut self, mark: usize) {
        while self.done.len() > mark {
            match self.done.pop() {
                Some(Done::Taken(pod, node, state)) => self.cache.place(&pod, node, state),
                Some(Done::Put(uid)) => drop(self.cache.remove_pod(&uid)),
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

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        self.back_to(0);
    }
}
