//! The change log of devices: which nodes can use other devices than before. Cached decisions for pods with claims
//! follow it.

use super::Devices;
use crate::cache::log::Log;
use crate::model::device::{Allocation, PoolId, Reach, ResourceSlice};
use crate::model::intern::Symbol;
use crate::switches::mutation::{self, Mutation};
use std::sync::Arc;

/// The number of changes that the log holds. A reader that is further behind judges all nodes again.
const CHANGES_MAX: usize = 16_384;
/// A pool with slices for more nodes than this counts as a pool for all nodes, which limits the work of one change.
const NODES_MAX: usize = 64;

/// The change log.
pub(super) type Changes = Log<DeviceChange, CHANGES_MAX>;

/// The nodes for which slices or allocations of devices changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChange {
    /// The node of this name, if it exists.
    Node(Symbol),
    /// Any node.
    AllNodes,
}

impl Devices {
    /// Returns the clock of the change log. It advances when a slice changes, and when a device is allocated or freed.
    pub fn clock(&self) -> u64 {
        self.changes.clock()
    }

    /// Returns the changes after [`Self::clock`] was `since`, in order. Returns `None` if the log no longer holds them
    /// all.
    pub fn changes_since(&self, since: u64) -> Option<impl Iterator<Item = DeviceChange> + '_> {
        self.changes.since(since)
    }

    /// Records that the devices of a pool changed, or what of them is allocated. Call this while the pool has all
    /// slices that it had or will have.
    pub(super) fn pool_changed(&mut self, pool: &PoolId) {
        if mutation::is_on(Mutation::DeviceChangesNotLogged) {
            return;
        }
        // Every node may find a pool with counters invalid.
        self.note(pool, |slices| slices.iter().any(|slice| !slice.counters.is_empty()));
    }

    fn note(&mut self, pool: &PoolId, concerns_all: impl Fn(&[Arc<ResourceSlice>]) -> bool) {
        let Some(slices) = self.pools.get(pool) else { return };
        let are_local = slices.iter().all(|slice| matches!(slice.reach, Reach::Node(_)));
        if !are_local || slices.len() > NODES_MAX || concerns_all(slices) {
            self.changes.push(DeviceChange::AllNodes);
            return;
        }
        let mut last = None;
        for slice in slices {
            if let Reach::Node(node) = slice.reach
                && last.replace(node) != Some(node)
            {
                self.changes.push(DeviceChange::Node(node));
            }
        }
    }

    /// Records that a claim holds the devices of another allocation than before.
    pub(super) fn holding_changed(&mut self, before: Option<&Allocation>, now: Option<&Allocation>) {
        if before.map(|it| &it.results) == now.map(|it| &it.results) {
            return;
        }
        let mut pools: Vec<PoolId> = Vec::new();
        for result in [before, now].into_iter().flatten().flat_map(|it| &it.results) {
            if !pools.contains(&result.device.pool) {
                pools.push(result.device.pool.clone());
            }
        }
        if !mutation::is_on(Mutation::DeviceChangesNotLogged) {
            // Only nodes that see devices of the pool read what of them is allocated.
            pools.iter().for_each(|pool| self.note(pool, |_| false));
        }
    }
}
