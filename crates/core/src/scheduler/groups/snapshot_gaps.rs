//! What upstream's snapshot does not show of the members that a group's cycle has assumed (kubernetes#139028).
//!
//! Up to 1.36, assuming a pod in the snapshot updates neither the lists of nodes that have pods with affinity terms nor
//! the set of claims in use. So a member does not see the terms of members before it on other nodes, and members may
//! share a ReadWriteOncePod claim. Only `--compat=upstream` reproduces this.

use crate::cache::{Cache, PodState, Snapshot};
use crate::model::intern::Symbol;
use crate::model::node_set::NodeSet;
use crate::model::pod::{PodAffinity, PodInfo};
use std::sync::Arc;

/// The state of the lists at the start of a run.
pub(super) struct SnapshotGaps {
    with_affinity: NodeSet,
    with_anti_affinity: NodeSet,
    /// The assumed members with affinity terms, and their nodes.
    assumed: Vec<(Arc<PodInfo>, Symbol)>,
    /// Whether the member to decide about looks at all pods: it has preferred terms.
    looks_at_all: bool,
}

impl SnapshotGaps {
    /// Records the lists.
    pub(super) fn new(snapshot: Snapshot<'_>) -> Self {
        Self {
            with_affinity: snapshot.nodes_with_affinity(),
            with_anti_affinity: snapshot.nodes_with_required_anti_affinity(),
            assumed: Vec::new(),
            looks_at_all: false,
        }
    }

    /// Prepares the assumed members for a decision about `pod`.
    pub(super) fn show_to(&mut self, pod: &PodInfo, cache: &mut Cache) {
        let prefers = |affinity: &PodAffinity| {
            let terms = [&affinity.preferred_affinity, &affinity.preferred_anti_affinity];
            terms.iter().any(|terms| terms.as_ref().is_ok_and(|terms| !terms.is_empty()))
        };
        let looks_at_all = pod.pod_affinity.as_ref().is_some_and(|affinity| prefers(affinity));
        if std::mem::replace(&mut self.looks_at_all, looks_at_all) == looks_at_all {
            return;
        }
        for (pod, node) in &self.assumed {
            let shown = self.shown(pod, *node, cache);
            cache.place(&shown, *node, PodState::Assumed);
        }
    }

    /// Returns a member as later members see it on its node, and hides the claims that it is the first to use.
    pub(super) fn assume(&mut self, pod: &Arc<PodInfo>, node: Symbol, cache: &mut Cache) -> Arc<PodInfo> {
        cache.hide_unused_claims(pod);
        if pod.pod_affinity.is_none() {
            return Arc::clone(pod);
        }
        self.assumed.push((Arc::clone(pod), node));
        self.shown(pod, node, cache)
    }

    /// Ends the run.
    pub(super) fn end(&mut self, cache: &mut Cache) {
        cache.show_claims();
    }

    fn shown(&self, pod: &Arc<PodInfo>, node: Symbol, cache: &Cache) -> Arc<PodInfo> {
        let slot = cache.find_slot(node);
        let is_in = |nodes: &NodeSet| slot.is_some_and(|slot| nodes.contains(slot));
        let Some(affinity) = &pod.pod_affinity else { return Arc::clone(pod) };
        let mut seen = PodAffinity::clone(affinity);
        if !is_in(&self.with_anti_affinity) {
            seen.required_anti_affinity = Ok([].into());
        }
        if !is_in(&self.with_affinity) && !self.looks_at_all {
            seen.required_affinity = Ok([].into());
            seen.preferred_affinity = Ok([].into());
            seen.preferred_anti_affinity = Ok([].into());
        }
        let mut shown = PodInfo::clone(pod);
        shown.pod_affinity = Some(Box::new(seen));
        Arc::new(shown)
    }
}
