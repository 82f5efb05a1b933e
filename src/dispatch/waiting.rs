//! Status patches that have not left. A newer one of the same pod joins the one that waits, so that a pod that fails again and again
//! while the API server is slow costs one write, and that write says the last word on each thing it speaks of.
//!
//! A patch that waits behind another kind of write, such as a binding, is not joined by one that comes after that. Sends nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use supercargo_core::effect::StatusPatch;
use supercargo_core::pod::Uid;

use super::turns::{Turn, Turns};

/// What is to be written, until it begins to be.
type Slot = Arc<Mutex<Option<StatusPatch>>>;

/// The newest patch of each pod that has one on its way.
#[derive(Clone, Default)]
pub(super) struct Waiting(Arc<Mutex<HashMap<Uid, Newest>>>);

struct Newest {
    /// Its place in the line of the pod.
    turn: u64,
    slot: Slot,
}

/// A patch in the line of its pod; it ends when dropped.
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
    /// Queues a patch; nothing where it has joined one that waits.
    pub(super) fn queue(&self, patch: StatusPatch, turns: &Turns) -> Option<Place> {
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
    /// Takes what is to be written now: nothing joins it any more.
    pub(super) fn begin(&self) -> StatusPatch {
        locked(&self.slot).take().expect("a patch begins once")
    }

    /// Leaves `patch` to a newer one that waits, which says what this one does where it has nothing newer to say; gives it back where
    /// there is none.
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
