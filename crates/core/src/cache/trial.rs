//! The cache with some pods taken off their nodes and others put on, for a while: what was done is undone when the trial ends.
//!
//! For whoever asks how a decision would have gone had others come earlier or later. Node objects and storage stay as they are.

use super::{Cache, PodState, Snapshot};
use crate::intern::{Symbol, Tables};
use crate::pod::{PodInfo, Uid};
use std::sync::Arc;

/// What is to be undone.
enum Done {
    Taken(Arc<PodInfo>, Symbol, PodState),
    Put(Uid),
}

/// A cache that is borrowed to be tried out.
pub struct Trial<'c> {
    cache: &'c mut Cache,
    done: Vec<Done>,
}

impl<'c> Trial<'c> {
    /// Nothing is changed yet.
    pub fn new(cache: &'c mut Cache) -> Self {
        Self { cache, done: Vec::new() }
    }

    /// Takes a pod off its node, if it is on one.
    pub fn take(&mut self, uid: &str) {
        if let Some((pod, node, state)) = self.cache.remove_pod(uid) {
            self.done.push(Done::Taken(pod, node, state));
        }
    }

    /// Puts a pod on a node, if it is on none.
    pub fn put(&mut self, pod: &Arc<PodInfo>, node: Symbol) {
        if self.cache.placed(&pod.uid).is_none() {
            self.cache.place(pod, node, PodState::Added);
            self.done.push(Done::Put(Arc::clone(&pod.uid)));
        }
    }

    /// How much is changed, for [`Self::back_to`].
    pub fn mark(&self) -> usize {
        self.done.len()
    }

    /// Undoes what was done since the mark, the last first.
    pub fn back_to(&mut self, mark: usize) {
        while self.done.len() > mark {
            match self.done.pop() {
                Some(Done::Taken(pod, node, state)) => self.cache.place(&pod, node, state),
                Some(Done::Put(uid)) => drop(self.cache.remove_pod(&uid)),
                None => {}
            }
        }
    }

    /// The state as it is tried, for a decision.
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
