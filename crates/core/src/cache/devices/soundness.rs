//! Which pools every node finds complete and valid, so that a decision need not check them.

use super::Devices;
use crate::model::device::{PoolId, Reach, ResourceSlice};
use crate::model::intern::Symbol;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A pool with more devices is checked by each decision. The check after each change would take too long.
const DEVICES_MAX: usize = 2_048;

impl Devices {
    /// Whether every node that sees slices of the pool finds it complete, valid and of the newest generation, by the
    /// rules of any version.
    pub fn is_sound(&self, pool: &PoolId) -> bool {
        !self.unsound.contains(pool)
    }

    /// Returns the slices with counters that only another node can use, of pools that are not sound or of all.
    pub fn foreign_counters(&self, node: Symbol, of_all: bool) -> impl Iterator<Item = &Arc<ResourceSlice>> {
        let all = of_all.then(|| self.pools.values()).into_iter().flatten();
        let unsound = (!of_all).then(|| self.unsound.iter()).into_iter().flatten();
        let unsound = unsound.filter_map(|pool| self.pools.get(pool));
        let is_foreign = move |slice: &&Arc<ResourceSlice>| {
            !slice.counters.is_empty() && matches!(slice.reach, Reach::Node(other) if other != node)
        };
        all.chain(unsound).flatten().filter(is_foreign)
    }

    /// Records whether a pool is sound, after its slices changed.
    pub(super) fn check_pool(&mut self, pool: &PoolId) {
        match self.pools.get(pool) {
            Some(slices) if !are_sound(slices) => self.unsound.insert(pool.clone()),
            _ => self.unsound.remove(pool),
        };
    }
}

fn are_sound(slices: &[Arc<ResourceSlice>]) -> bool {
    let Some(first) = slices.first() else { return true };
    let is_like_first =
        |slice: &ResourceSlice| (slice.generation, slice.slices) == (first.generation, first.slices);
    let (mut devices, mut sets) = (BTreeSet::new(), BTreeSet::new());
    let mut all_devices = slices.iter().flat_map(|slice| &slice.devices);
    let mut all_sets = slices.iter().flat_map(|slice| &slice.counters);
    i64::try_from(slices.len()) == Ok(first.slices)
        && all_devices.clone().nth(DEVICES_MAX).is_none()
        && slices.iter().all(|slice| is_like_first(slice))
        // Until 1.36, the nodes of other slices need the counters as well.
        && (slices.iter().all(|slice| slice.counters.is_empty() || !matches!(slice.reach, Reach::Node(_)))
            || slices.iter().all(|slice| slice.reach == first.reach))
        // Devices beside counters exist in some versions only.
        && slices.iter().all(|slice| slice.counters.is_empty() || slice.devices.is_empty())
        && all_devices.clone().all(|device| devices.insert(&device.name))
        && all_sets.clone().all(|set| sets.insert(&set.name))
        && all_devices.by_ref().flat_map(|device| &device.consumes).all(|consumed| {
            let known = all_sets.clone().find(|set| set.name == consumed.name);
            known.is_some_and(|known| {
                let is_known = |name: &Arc<str>| known.counters.iter().any(|(other, _)| other == name);
                consumed.counters.iter().all(|(name, _)| is_known(name))
            })
        })
        && all_sets.by_ref().count() == sets.len()
}
