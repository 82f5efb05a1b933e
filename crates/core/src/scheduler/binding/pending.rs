//! The public view of an open binding.

use super::Binding;
use crate::intern::Symbol;
use crate::queue::QueuedPod;
use crate::time::Time;

impl Binding {
    /// Returns the pod, its node, the time of the decision, and whether the outcome is unknown.
    ///
    /// `None` if the outcome no longer matters, because the pod is bound or deleted.
    pub(in crate::scheduler) fn pending(&self) -> Option<(&QueuedPod, Symbol, Time, bool)> {
        let is_open = !self.abandoned && self.confirmed_on.is_none();
        is_open.then_some((&self.queued, self.node, self.began, self.unknown.is_some()))
    }
}
