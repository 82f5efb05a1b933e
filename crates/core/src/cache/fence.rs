//! The fence around plugins whose results are cached: they see only the facts that they declared.
//!
//! Builds with assertions panic when a fenced plugin reads anything else. Other builds check nothing and pay nothing.

use super::Snapshot;

/// The facts that a snapshot shows. Each level includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Facts {
    /// Which nodes exist, and which resources DeviceClasses serve.
    Nodes,
    /// The objects of nodes.
    NodeObjects,
    /// The pods on each node, and the images of nodes.
    NodeUsage,
    /// Everything.
    Cluster,
}

impl<'a> Snapshot<'a> {
    /// Returns the same snapshot, showing only these facts.
    #[cfg(debug_assertions)]
    pub(crate) fn showing(mut self, facts: Facts) -> Self {
        self.facts = facts;
        self
    }

    /// Returns the same snapshot: builds without assertions check nothing.
    #[cfg(not(debug_assertions))]
    #[inline(always)]
    pub(crate) fn showing(self, _facts: Facts) -> Self {
        self
    }

    /// Checks that the snapshot shows these facts.
    #[inline(always)]
    pub(super) fn shows(self, facts: Facts) {
        #[cfg(debug_assertions)]
        assert!(
            facts <= self.facts,
            "a plugin reads {facts:?}, but its declaration (`reads` or `depends_on`) shows only {:?}",
            self.facts
        );
        #[cfg(not(debug_assertions))]
        let _ = facts;
    }
}
