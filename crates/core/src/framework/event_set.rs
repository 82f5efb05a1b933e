//! Sets of event kinds, by which plugins register for events.
//!
//! Upstream: `EventsToRegister` of each plugin.

use super::event::{ClusterEvent, NodeAction, PodAction};
use crate::model::volume::StorageKind;
use std::ops::BitOr;

/// A set of kinds of cluster events.
///
/// Events of the pod itself and the five-minute flush are in every set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventSet(u32);

impl EventSet {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// Changes of a Service, a namespace or another object that plugins look up.
    pub const OTHER: Self = Self(1 << 31);
    /// Changes of a DeviceClass.
    pub const DEVICE_CLASS: Self = Self(1 << 30);
    /// Pending pods that are nominated to a node.
    pub const NOMINATIONS: Self = Self(1 << 29);
    /// Changed taints, if the version adds them for a plugin that registers for new nodes only (row Q1).
    const ADDED_TAINTS: Self = Self(1 << 28);
    /// New nodes, as a plugin registers for them that does not depend on taints.
    pub const NEW_NODE: Self = Self::node(NodeAction::Add).and(Self::ADDED_TAINTS);
    /// New nodes and changed taints.
    pub const TAINTS: Self = Self::node(NodeAction::Add).and(Self::node(NodeAction::UpdateTaint));
    /// All changes of bound and assumed pods.
    pub const ASSIGNED_PODS: Self = Self(0b1111_1111 << 8);

    /// The set of one kind of change of a node.
    pub const fn node(action: NodeAction) -> Self {
        Self(1 << action as u32)
    }

    /// The set of one kind of change of a bound or assumed pod.
    pub const fn assigned_pod(action: PodAction) -> Self {
        Self(1 << (8 + action as u32))
    }

    /// The set of all changes of one kind of storage object.
    pub const fn storage(kind: StorageKind) -> Self {
        Self(1 << (16 + kind as u32))
    }

    /// The union of both sets.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the version may add the event to what the plugin registered for. It then requeues every pod that the
    /// plugin rejected (row Q1).
    pub fn may_be_added(self, event: &ClusterEvent<'_>) -> bool {
        matches!(event, ClusterEvent::Node { action: NodeAction::UpdateTaint, .. })
            && self.0 & Self::ADDED_TAINTS.0 != 0
    }

    /// Whether the event's kind is in the set. The object determines the kind of a storage event.
    pub fn contains(self, event: &ClusterEvent<'_>) -> bool {
        let kind = match event {
            ClusterEvent::Node { action, .. } => Self::node(*action),
            ClusterEvent::AssignedPod { action, .. } => Self::assigned_pod(*action),
            ClusterEvent::Storage { old, new } => {
                old.or(*new).map_or(Self::NONE, |object| Self::storage(object.kind()))
            }
            ClusterEvent::DeviceClass { .. } => Self::DEVICE_CLASS,
            ClusterEvent::Nominated { .. } => Self::NOMINATIONS,
            ClusterEvent::Other => Self::OTHER,
            ClusterEvent::OwnPod { .. } | ClusterEvent::UnschedulableTimeout => return true,
        };
        self.0 & kind.0 != 0
    }
}

impl BitOr for EventSet {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.and(other)
    }
}
