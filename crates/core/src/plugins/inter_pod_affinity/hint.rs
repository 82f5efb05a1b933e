//! Queueing hints of InterPodAffinity: events that may make a pod rejected by required terms schedulable.
//!
//! Upstream: `interpodaffinity/plugin.go#isSchedulableAfter*`. Upstream's hints miss some events that make the pod
//! schedulable. It then waits for the five-minute flush. Here these events requeue it as well:
//!
//! - A pod is deleted or stops matching that matched *one* anti-affinity term (upstream: all terms), or whose own
//!   anti-affinity matched the pod with *one* term.
//! - The last matching pod is deleted, for a pod with affinity to its own kind: it may be the first of its kind
//!   (kubernetes issue 141354). The same applies if the matching pods' node loses the topology key.
//! - Namespaces that a `namespaceSelector` selects now are included, as in the filter.
//! - A new or relabeled node may be outside the domains that the anti-affinity of other pods excludes.
//! - A deleted node removes the exclusions of its pods, and matching pods, long before these pods are deleted.
//! - A namespace with changed labels matches other terms than before.

use super::terms::{self, Incoming, IncomingTerm};
use crate::cache::Snapshot;
use crate::framework::{ClusterEvent, Hint, NodeAction, PodAction};
use crate::model::node::NodeInfo;
use crate::model::pod::PodInfo;
use crate::model::selector::Selector;

pub(super) fn hint_of(event: &ClusterEvent<'_>, pod: &PodInfo, snapshot: Snapshot<'_>) -> Hint {
    match *event {
        ClusterEvent::OwnPod { action, .. } => Hint::queue_if(action == PodAction::UpdateLabel),
        ClusterEvent::AssignedPod {
            action: PodAction::Add | PodAction::UpdateLabel | PodAction::Delete,
            old,
            new,
        } => {
            let worth = Required::of(pod, snapshot).is_none_or(|r| r.after_pod(pod, snapshot, old, new));
            Hint::queue_if(worth)
        }
        ClusterEvent::Node {
            action: NodeAction::Add | NodeAction::UpdateLabel | NodeAction::Delete,
            old,
            new,
        } => {
            let worth = Required::of(pod, snapshot).is_none_or(|r| r.after_node(snapshot, old, new));
            Hint::queue_if(worth)
        }
        // The labels of a namespace changed.
        ClusterEvent::Other => Hint::queue_if(selects_namespaces(pod) || others_forbid(snapshot)),
        ClusterEvent::UnschedulableTimeout => Hint::Queue,
        ClusterEvent::AssignedPod { .. }
        | ClusterEvent::Nominated { .. }
        | ClusterEvent::Node { .. }
        | ClusterEvent::Storage { .. }
        | ClusterEvent::DeviceClass { .. } => Hint::Skip,
    }
}

/// The required terms of the pending pod.
struct Required {
    affinity: Vec<IncomingTerm>,
    anti_affinity: Vec<IncomingTerm>,
}

impl Required {
    /// Returns `None` if a list cannot be parsed. Upstream then requeues the pod.
    fn of(pod: &PodInfo, snapshot: Snapshot<'_>) -> Option<Self> {
        let Some(lists) = &pod.pod_affinity else {
            return Some(Self { affinity: Vec::new(), anti_affinity: Vec::new() });
        };
        Some(Self {
            affinity: terms::incoming(lists.required_affinity.as_deref().ok()?, snapshot),
            anti_affinity: terms::incoming(lists.required_anti_affinity.as_deref().ok()?, snapshot),
        })
    }

    /// Whether an added, relabeled or deleted pod may have made a node feasible.
    fn after_pod(
        &self,
        pod: &PodInfo,
        snapshot: Snapshot<'_>,
        old: Option<&PodInfo>,
        new: Option<&PodInfo>,
    ) -> bool {
        let is_peer = |other: &PodInfo| terms::all_match(&self.affinity, snapshot, other.into());
        let (was_peer, is_peer) = (old.is_some_and(is_peer), new.is_some_and(is_peer));
        if !was_peer && is_peer {
            return true;
        }
        if was_peer && !is_peer && terms::all_match(&self.affinity, snapshot, pod.into()) {
            return true;
        }
        let no_longer_matches = |term: &IncomingTerm| {
            let means = |other: &PodInfo| term.matches(snapshot, other.into());
            old.is_some_and(means) && !new.is_some_and(means)
        };
        self.anti_affinity.iter().any(no_longer_matches)
            || new.is_none() && old.is_some_and(|gone| repels(gone, pod, snapshot))
    }

    /// Whether a new or relabeled node may be feasible, or a new, relabeled or deleted node may have made another one
    /// feasible.
    fn after_node(&self, snapshot: Snapshot<'_>, old: Option<&NodeInfo>, new: Option<&NodeInfo>) -> bool {
        let others_forbid = others_forbid(snapshot);
        let Some(after) = new else {
            let had_key = |term: &IncomingTerm| {
                old.is_some_and(|node| snapshot.labels(node.labels).get(term.topology_key).is_some())
            };
            return others_forbid || self.affinity.iter().chain(&self.anti_affinity).any(had_key);
        };
        let moved = |term: &IncomingTerm| {
            let value = |node: &NodeInfo| snapshot.labels(node.labels).get(term.topology_key);
            (old.and_then(value), value(after))
        };
        let came_along = self.affinity.iter().map(moved).any(|(from, to)| from != to);
        let got_away = self.anti_affinity.iter().map(moved).any(|(from, to)| from.is_some() && from != to);
        came_along || got_away || old.is_none() && !self.anti_affinity.is_empty() || others_forbid
    }
}

/// Whether any other pod, on a node or nominated to one, requires anti-affinity.
fn others_forbid(snapshot: Snapshot<'_>) -> bool {
    let nominated =
        || snapshot.nodes_with_nominations().into_iter().flat_map(|node| snapshot.nominated_on(node));
    snapshot.pod_classes_with_required_anti_affinity().next().is_some()
        || nominated().any(|pod| pod.has_required_anti_affinity())
}

/// Whether a required term of the pod selects namespaces by label. Terms that cannot be parsed count as such.
fn selects_namespaces(pod: &PodInfo) -> bool {
    let Some(lists) = &pod.pod_affinity else { return false };
    let mut required = [&lists.required_affinity, &lists.required_anti_affinity].into_iter();
    required.any(|list| match list {
        Ok(terms) => terms.iter().any(|term| term.namespace_selector != Selector::Nothing),
        Err(_) => true,
    })
}

/// Whether an anti-affinity term of a deleted pod matches the pending pod. Terms that cannot be parsed count as
/// matching.
fn repels(gone: &PodInfo, pod: &PodInfo, snapshot: Snapshot<'_>) -> bool {
    let Some(lists) = &gone.pod_affinity else { return false };
    let incoming = Incoming::new(pod, snapshot);
    match &lists.required_anti_affinity {
        Ok(terms) => terms.iter().any(|term| incoming.is_meant_by(term, snapshot)),
        Err(_) => true,
    }
}
