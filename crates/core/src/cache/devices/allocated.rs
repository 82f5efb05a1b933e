//! The devices that allocations hold, by pool.

use crate::collections::hash::FixedMap;
use crate::model::device::{Allocation, DeviceId, PoolId};
use crate::model::quantity::{Amount, Quantity};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The devices that allocations hold.
#[derive(Clone, Debug, Default)]
pub struct AllocatedDevices {
    pools: FixedMap<PoolId, PoolUsage>,
}

/// The devices of one pool that allocations hold.
#[derive(Clone, Debug, Default)]
pub struct PoolUsage {
    devices: BTreeMap<Arc<str>, DeviceUsage>,
}

/// What allocations hold of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceUsage {
    /// The number of allocations without a share, which take the whole device.
    dedicated: u32,
    /// The number of shares.
    shares: u32,
    /// The consumed amount and the number of its consumers by capacity.
    consumed: BTreeMap<Arc<str>, (Quantity, u32)>,
}

impl DeviceUsage {
    /// Whether an allocation takes the whole device.
    pub fn is_dedicated(&self) -> bool {
        self.dedicated > 0
    }

    /// Whether another allocation takes some of the device beside one that takes all of it.
    pub fn is_taken_twice(&self) -> bool {
        self.dedicated > 1 || self.dedicated > 0 && self.shares > 0
    }

    /// Whether an allocation takes a share of the device.
    pub fn is_shared(&self) -> bool {
        self.shares > 0
    }

    /// Whether shares of the device consume some of its capacity.
    pub fn has_consumed_capacity(&self) -> bool {
        !self.consumed.is_empty()
    }

    /// Returns the amount of a capacity that shares consume.
    pub fn consumed(&self, capacity: &str) -> Option<Quantity> {
        Some(self.consumed.get(capacity)?.0)
    }

    fn add_share(&mut self, consumed: &[(Arc<str>, Amount)]) {
        self.shares += 1;
        for (name, amount) in consumed {
            let (sum, count) = self.consumed.entry(Arc::clone(name)).or_default();
            (*sum, *count) = (sum.plus(amount.quantity), *count + 1);
        }
    }

    fn remove_share(&mut self, consumed: &[(Arc<str>, Amount)]) {
        self.shares -= 1;
        for (name, amount) in consumed {
            if let Some((sum, count)) = self.consumed.get_mut(name) {
                (*sum, *count) = (sum.minus(amount.quantity), *count - 1);
            }
        }
        self.consumed.retain(|_, (_, count)| *count > 0);
    }
}

impl PoolUsage {
    /// Returns what allocations hold of a device; `None` if nothing.
    pub fn of(&self, device: &str) -> Option<&DeviceUsage> {
        self.devices.get(device)
    }
}

impl AllocatedDevices {
    /// Returns what allocations hold of the devices of a pool; `None` if nothing.
    pub fn of_pool(&self, pool: &PoolId) -> Option<&PoolUsage> {
        self.pools.get(pool)
    }

    /// Returns what allocations hold of a device; `None` if nothing.
    pub fn of(&self, device: &DeviceId) -> Option<&DeviceUsage> {
        self.of_pool(&device.pool)?.of(&device.device)
    }

    /// Whether any allocation takes the device or a share of it.
    pub fn holds(&self, device: &DeviceId) -> bool {
        self.of(device).is_some()
    }

    /// Returns the number of devices of which something is allocated.
    pub fn len(&self) -> usize {
        self.pools.values().map(|pool| pool.devices.len()).sum()
    }

    /// Whether nothing is allocated.
    pub fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }

    pub(super) fn add(&mut self, allocation: &Allocation) {
        for result in allocation.results.iter().filter(|result| !result.admin_access) {
            let pool = self.pools.entry(result.device.pool.clone()).or_default();
            let usage = pool.devices.entry(Arc::clone(&result.device.device)).or_default();
            match result.share {
                None => usage.dedicated += 1,
                Some(_) => usage.add_share(&result.consumed),
            }
        }
    }

    pub(super) fn remove(&mut self, allocation: &Allocation) {
        for result in allocation.results.iter().filter(|result| !result.admin_access) {
            let DeviceId { pool, device } = &result.device;
            let Some(of_pool) = self.pools.get_mut(pool) else { continue };
            let Some(usage) = of_pool.devices.get_mut(device) else { continue };
            match result.share {
                None => usage.dedicated -= 1,
                Some(_) => usage.remove_share(&result.consumed),
            }
            if !usage.is_dedicated() && !usage.is_shared() {
                of_pool.devices.remove(device);
                if of_pool.devices.is_empty() {
                    self.pools.remove(pool);
                }
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::model::device::AllocatedDevice;

    /// Returns an allocation of a device of the pool `p`.
    pub(in crate::cache::devices) fn allocation(device: &str) -> Allocation {
        let pool = PoolId { driver: "gpu.example.com".into(), name: "p".into() };
        let result = AllocatedDevice::whole("r", DeviceId { pool, device: device.into() });
        Allocation { results: vec![result], ..Allocation::default() }
    }

    #[test]
    fn shares_hold_the_capacity_that_they_consume() {
        let gigabytes = |text| -> Box<[(Arc<str>, Amount)]> {
            [("memory".into(), Amount::parse(text).expect("a quantity"))].into()
        };
        let mut usage = DeviceUsage::default();
        usage.add_share(&[]);
        assert!(!usage.has_consumed_capacity());
        usage.add_share(&gigabytes("1G"));
        usage.add_share(&gigabytes("2G"));
        assert!(usage.has_consumed_capacity());
        assert_eq!(usage.consumed("memory").map(Quantity::value), Some(3_000_000_000));
        usage.remove_share(&gigabytes("1G"));
        assert!(usage.has_consumed_capacity());
        usage.remove_share(&gigabytes("2G"));
        assert!(!usage.has_consumed_capacity() && usage.is_shared());
    }

    #[test]
    fn device_of_two_allocations_is_free_when_both_are_gone() {
        let allocation = allocation("d");
        let device = allocation.results[0].device.clone();
        let mut devices = AllocatedDevices::default();
        devices.add(&allocation);
        devices.add(&allocation);
        assert!(devices.of(&device).is_some_and(DeviceUsage::is_taken_twice));
        devices.remove(&allocation);
        assert!(devices.of(&device).is_some_and(|usage| usage.is_dedicated() && !usage.is_taken_twice()));
        devices.remove(&allocation);
        assert!(!devices.holds(&device) && devices.is_empty());
    }
}
