//! Merges queued status patches: a newer patch of a pod is merged into one that has not been sent yet.
//!
//! So a pod that fails repeatedly while the API server is slow costs one write, with the newest value of each
//! field. A patch queued behind another kind of write, such as a binding, is not merged with patches queued
//! after that write.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use supercargo_core::model::effect::StatusPatch;
use supercargo_core::model::pod::Uid;

use crate::write::per_object_order::{PerObjectOrder, Turn};

/// The patch to send; empty once sending has begun.
type Slot = Arc<Mutex<Option<StatusPatch>>>;

/// The newest queued or in-flight patch of each pod.
#[derive(Clone, Default)]
pub(super) struct Waiting(Arc<Mutex<HashMap<Uid, Newest>>>);

struct Newest {
    /// Number of its turn in the queue of the pod.
    turn: u64,
    slot: Slot,
}

/// A patch in the queue of its pod; dropping it removes it.
pub(super) struct Place {
    pub(super) turn: Turn,
    slot: Slot,
    uid: Uid,
    waiting: Waiting,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Waiting {
    /// Queues a patch. Returns `None` if it was merged into a queued one.
    pub(super) fn queue(&self, patch: StatusPatch, turns: &PerObjectOrder) -> Option<Place> {
        let uid = Uid::clone(&patch.pod.uid);
        let mut newest = locked(&self.0);
        if let Some(waits) = newest.get(&uid).filter(|newest| turns.is_last(&uid, newest.turn)) {
            let mut slot = locked(&waits.slot);
            if let Some(earlier) = slot.take() {
                *slot = Some(patch.over(earlier));
                return None;
            }
        }
        let (turn, slot) = (turns.queue(&uid), Slot::new(Mutex::new(Some(patch))));
        newest.insert(Uid::clone(&uid), Newest { turn: turn.number(), slot: Arc::clone(&slot) });
        drop(newest);
        Some(Place { turn, slot, uid, waiting: self.clone() })
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        locked(&self.0).len()
    }
}

impl Place {
    /// Takes the patch to send; later patches are no longer merged into it.
    pub(super) fn begin(&self) -> StatusPatch {
        locked(&self.slot).take().expect("a patch begins once")
    }

    /// Merges `patch` into a newer queued patch, whose own fields win. Returns `patch` if there is none.
    pub(super) fn leave(&self, patch: StatusPatch) -> Option<StatusPatch> {
        let newest = locked(&self.waiting.0);
        let newer = newest.get(&self.uid).filter(|newest| newest.turn != self.turn.number());
        let Some(newer) = newer else { return Some(patch) };
        let mut slot = locked(&newer.slot);
        let Some(waits) = slot.take() else { return Some(patch) };
        *slot = Some(waits.over(patch));
        None
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut newest = locked(&self.waiting.0);
        if newest.get(&self.uid).is_some_and(|newest| newest.turn == self.turn.number()) {
            newest.remove(&self.uid);
        }
    }
}
