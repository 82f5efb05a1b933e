//! Whether a volume can be made for a claim on a node.
//!
//! Upstream: `volumebinding/binder.go#checkVolumeProvisions` and `#hasEnoughCapacity`.

use super::by_label::ByLabel;
use crate::cache::Snapshot;
use crate::model::intern::{Labels, Tables, known};
use crate::model::selector::Selector;
use crate::model::volume::{ClaimInfo, StorageClassInfo};
use std::sync::Arc;

/// The requirements for provisioning a volume for a claim.
pub(super) struct Provisioning {
    class: Arc<StorageClassInfo>,
    /// Where capacity is available; `None` if the driver does not publish capacity.
    room: Option<FreeCapacity>,
}

/// The nodes with access to enough capacity.
#[derive(Default)]
struct FreeCapacity {
    topologies: Vec<Selector>,
    /// The `capacity` of each, in bytes.
    capacities: Vec<i64>,
    by_label: ByLabel,
}

/// Why no volume can be provisioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// Topology does not allow this node, or any node.
    NotHere,
    /// Capacity is insufficient.
    NoRoom,
}

impl Provisioning {
    pub(super) fn of(claim: &ClaimInfo, class: &Arc<StorageClassInfo>, snapshot: Snapshot<'_>) -> Self {
        let objects = snapshot.volumes();
        let driver = objects.csi_driver(class.provisioner).filter(|driver| driver.storage_capacity);
        let room = claim.request.filter(|_| driver.is_some()).map(|request| {
            let needed = request.bytes();
            let mut room = FreeCapacity::default();
            let capacities = objects.capacities_of(class.name);
            for capacity in capacities.filter(|capacity| capacity.limit.is_some_and(|limit| limit >= needed))
            {
                let Some(topology) = &capacity.topology else { continue };
                let demands = if let Selector::All(demands) = topology { Some(&**demands) } else { None };
                room.by_label.push(room.topologies.len(), demands);
                room.topologies.push(topology.clone());
                room.capacities.push(capacity.capacity.unwrap_or(0));
            }
            room
        });
        Self { class: Arc::clone(class), room }
    }

    /// Returns the capacity, in bytes, that a node with these labels has for the volume; `None` if the driver does not
    /// publish capacity.
    pub(super) fn capacity_on(&self, tables: &Tables, labels: Labels<'_>) -> Option<i64> {
        let room = self.room.as_ref()?;
        room.first(tables, labels).map(|at| room.capacities[at])
    }

    /// Checks that the volume can be provisioned for a node with these labels.
    pub(super) fn on(&self, tables: &Tables, labels: Labels<'_>) -> Result<(), Obstacle> {
        let makes_none = [known::EMPTY, known::NO_PROVISIONER].contains(&self.class.provisioner);
        if makes_none || !self.class.allows(tables, labels) {
            return Err(Obstacle::NotHere);
        }
        match &self.room {
            Some(room) if !room.is_there(tables, labels) => Err(Obstacle::NoRoom),
            _ => Ok(()),
        }
    }
}

impl FreeCapacity {
    fn is_there(&self, tables: &Tables, labels: Labels<'_>) -> bool {
        self.first(tables, labels).is_some()
    }

    fn first(&self, tables: &Tables, labels: Labels<'_>) -> Option<usize> {
        self.by_label.first(labels, |at| self.topologies[at].matches(tables, labels))
    }
}
