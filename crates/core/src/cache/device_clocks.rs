//! Follows the change logs of nodes and of devices, for results that depend on both.

use super::{DeviceChange, NodeChange, Snapshot};
use crate::model::node_set::NodeSet;

/// The state of the cluster at the last update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceClocks {
    era: u64,
    /// The clocks of the nodes and of the devices.
    clocks: (u64, u64),
}

impl DeviceClocks {
    /// Returns the present state.
    pub(crate) fn of(snapshot: Snapshot<'_>) -> Self {
        Self { era: snapshot.era(), clocks: (snapshot.clock(), snapshot.devices().clock()) }
    }

    /// Advances to the present state. Returns the nodes whose object, devices or their allocation changed; `None` if
    /// it may be any node.
    pub(crate) fn catch_up(&mut self, snapshot: Snapshot<'_>) -> Option<NodeSet> {
        let before = std::mem::replace(self, Self::of(snapshot));
        let mut changed = NodeSet::new();
        if before == *self {
            return Some(changed);
        }
        if before.era != self.era {
            return None;
        }
        let objects = snapshot.node_changes_since(before.clocks.0)?;
        let objects = objects.filter(|(_, change)| *change == NodeChange::Object);
        objects.for_each(|(node, _)| _ = changed.insert(node));
        for change in snapshot.devices().changes_since(before.clocks.1)? {
            match change {
                DeviceChange::AllNodes => return None,
                DeviceChange::Node(name) => {
                    snapshot.find_node(name).into_iter().for_each(|it| _ = changed.insert(it));
                }
            }
        }
        Some(changed)
    }
}
