//! Sets of kinds of events: what a plugin listens to. Says nothing of any one event.
//!
//! Upstream: `EventsToRegister` of each plugin.

use super::event::{ClusterEvent, NodeAction, PodAction};
use crate::volume::StorageKind;
use std::ops::BitOr;

/// A set of kinds of cluster events.
///
/// Events of the pod itself and the five-minute flush are in every set: they concern one pod, or every pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventSet(u32);

impl EventSet {
    /// No event at all.
    pub const NONE: Self = Self(0);
    /// A Service, a namespace or another object that plugins look up.
    pub const OTHER: Self = Self(1 << 31);
    /// A DeviceClass.
    pub const DEVICE_CLASS: Self = Self(1 << 30);
    /// Whatever happens to nodes.
    pub const NODES: Self = Self(0b11_1111);
    /// A node that is new, or whose taints changed: upstream adds the latter to every plugin that waits for the former.
    pub const NEW_NODE: Self = Self::node(NodeAction::Add).and(Self::node(NodeAction::UpdateTaint));
    /// Whatever happens to pods on nodes.
    pub const ASSIGNED_PODS: Self = Self(0b111_1111 << 8);

    /// Something happened to a node.
    pub const fn node(action: NodeAction) -> Self {
        Self(1 << action as u32)
    }

    /// Something happened to a pod on a node.
    pub const fn assigned_pod(action: PodAction) -> Self {
        Self(1 << (8 + action as u32))
    }

    /// Something happened to an object of storage.
    pub const fn storage(kind: StorageKind) -> Self {
        Self(1 << (16 + kind as u32))
    }

    /// Both sets together.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the event's kind is in the set. That of an object of storage is known by the object.
    pub fn contains(self, event: &ClusterEvent<'_>) -> bool {
        let kind = match event {
            ClusterEvent::Node { action, .. } => Self::node(*action),
            ClusterEvent::AssignedPod { action, .. } => Self::assigned_pod(*action),
            ClusterEvent::Storage { old, new } => {
                old.or(*new).map_or(Self::NONE, |object| Self::storage(object.kind()))
            }
            ClusterEvent::DeviceClass { .. } => Self::DEVICE_CLASS,
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
