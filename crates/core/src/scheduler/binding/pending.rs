//! What others may know of a binding that is not settled.

use super::Binding;
use crate::intern::Symbol;
use crate::queue::QueuedPod;
use crate::time::Time;

impl Binding {
    /// The pod, its node, since when, and whether the outcome is not known; `None` where nothing is waited for any more but an answer nobody
    /// needs.
    pub(in crate::scheduler) fn pending(&self) -> Option<(&QueuedPod, Symbol, Time, bool)> {
        let is_open = !self.abandoned && self.confirmed_on.is_none();
        is_open.then_some((&self.queued, self.node, self.began, self.doubt.is_some()))
    }
}
