//! The shared counters of a pool, from which its devices consume.

use super::{Search, Undo};
use crate::model::device::Device;
use crate::model::quantity::Quantity;
use crate::plugins::dynamic_resources::pools::{Candidate, Place, Pool};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The counters that allocated devices leave.
pub(super) struct Available<'a> {
    /// The pool that they are of: the first one with this key to which the search came.
    pool: usize,
    counters: BTreeMap<(&'a str, &'a str), Quantity>,
}

impl Search<'_> {
    /// Takes the counters of a device, if every counter of its pool suffices then.
    pub(super) fn take_counters(&mut self, candidate: usize) -> bool {
        let Candidate { pool, device, .. } = self.pools.candidates[candidate];
        let key = self.counters_key(pool);
        if !self.available.contains_key(&key) {
            self.use_counters_of(pool);
        }
        self.add_counters(candidate);
        let taken = self.taken_counters.entry(key).or_default();
        let suffices = self.available[&key].counters.iter().all(|(counter, available)| {
            let taken = taken.get(counter).copied().unwrap_or_default();
            available.compare(taken) != Ordering::Less
        });
        if !suffices {
            for (counter, amount) in consumed_counters(device) {
                let sum = taken.entry(counter).or_default();
                *sum = sum.minus(amount);
            }
        }
        suffices
    }

    /// Compares with the counters of this pool from now on.
    pub(super) fn use_counters_of(&mut self, pool: usize) {
        let counters = available_counters(self.place, &self.pools.pools[pool]);
        self.available.insert(self.counters_key(pool), Available { pool, counters });
    }

    /// Returns the pools whose counters are compared.
    pub(super) fn pools_of_counters(&self) -> Vec<usize> {
        self.available.values().map(|it| it.pool).collect()
    }

    /// Takes the counters of a device, whether they suffice or not.
    pub(super) fn add_counters(&mut self, candidate: usize) {
        let Candidate { pool, device, .. } = self.pools.candidates[candidate];
        let taken = self.taken_counters.entry(self.counters_key(pool)).or_default();
        for (counter, amount) in consumed_counters(device) {
            let sum = taken.entry(counter).or_default();
            *sum = sum.plus(amount);
        }
    }

    pub(super) fn give_back_counters(&mut self, undo: &Undo) {
        if !undo.counters_taken {
            return;
        }
        let Candidate { pool, device, .. } = self.pools.candidates[undo.candidate];
        let key = self.counters_key(pool);
        let taken = self.taken_counters.entry(key).or_default();
        for (counter, amount) in consumed_counters(device) {
            let sum = taken.entry(counter).or_default();
            *sum = sum.minus(amount);
        }
    }

    /// Returns the key of a pool's counters: the pool, or, as in older versions, the first pool of the same name.
    fn counters_key(&self, pool: usize) -> usize {
        let name = &self.pools.pools[pool].id.name;
        let first = || self.pools.pools.iter().position(|other| other.id.name == *name);
        if self.joins_counters { first().unwrap_or(pool) } else { pool }
    }
}

pub(super) fn consumed_counters(device: &Device) -> impl Iterator<Item = ((&str, &str), Quantity)> {
    device
        .consumes
        .iter()
        .flat_map(|set| set.counters.iter().map(|(name, amount)| ((&*set.name, &**name), amount.quantity)))
}

/// Returns the counters of a pool that allocated devices leave, on this node or others. They may be negative.
pub(in crate::plugins::dynamic_resources) fn available_counters<'a>(
    place: Place<'a>,
    pool: &Pool<'a>,
) -> BTreeMap<(&'a str, &'a str), Quantity> {
    let mut available = pool.counters.clone();
    let Some(usage) = place.devices().allocated().of_pool(pool.id) else { return available };
    for device in pool.slices.iter().flat_map(|slice| &slice.devices).filter(|it| !it.consumes.is_empty()) {
        if usage.of(&device.name).is_none() {
            continue;
        }
        for (counter, amount) in consumed_counters(device) {
            if let Some(left) = available.get_mut(&counter) {
                *left = left.minus(amount);
            }
        }
    }
    available
}
