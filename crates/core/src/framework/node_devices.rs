//! The devices of a node, compared as requests see them: nodes with equal devices give such requests the same result.
//!
//! It knows only pools that are whole and for one node. What is compared does not include names of pools, slices and
//! devices, nor ids, so it is no gc root.

use crate::cache::DeviceUsage;
use crate::model::device::{Attribute, Device, ResourceSlice};
use crate::model::quantity::Quantity;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The full names of the attributes that requests read, sorted.
pub type ReadAttributes = Arc<[Arc<str>]>;

/// The devices of a node and what of them is allocated. Two of them can be compared if the same attributes are read.
#[derive(Debug)]
pub struct NodeDevices {
    /// The attributes that are compared.
    pub reads: ReadAttributes,
    /// The pools in the order of the search.
    pub pools: Vec<PoolDevices>,
}

/// The devices of one pool.
#[derive(Debug, PartialEq, Eq)]
pub struct PoolDevices {
    /// The slices with the devices that the node can use, in the order of the search.
    pub slices: Vec<Arc<ResourceSlice>>,
    /// What allocations hold of each of these devices.
    pub usage: Vec<Option<DeviceUsage>>,
    /// The amounts that are left of the pool's counters, in order of set and name.
    pub counters: Vec<(Arc<str>, Arc<str>, Quantity)>,
}

impl PoolDevices {
    fn devices(&self) -> impl Iterator<Item = (&str, &Device)> {
        self.slices.iter().flat_map(|slice| slice.devices.iter().map(|device| (&*slice.pool.driver, device)))
    }
}

impl PartialEq for NodeDevices {
    fn eq(&self, other: &Self) -> bool {
        let are_equal = |(one, other): (&PoolDevices, &PoolDevices)| {
            let drivers =
                |pool: &PoolDevices| pool.slices.first().map(|slice| Arc::clone(&slice.pool.driver));
            let mut devices = one.devices().zip(other.devices());
            one.usage == other.usage
                && one.counters == other.counters
                && drivers(one) == drivers(other)
                && devices.all(|(one, other)| are_alike(&self.reads, one, other))
        };
        self.reads == other.reads
            && self.pools.len() == other.pools.len()
            && self.pools.iter().zip(&other.pools).all(are_equal)
    }
}

impl Eq for NodeDevices {}

impl Hash for NodeDevices {
    /// Hashes only what distinguishes most nodes; equality compares all.
    fn hash<H: Hasher>(&self, state: &mut H) {
        for pool in &self.pools {
            pool.usage.len().hash(state);
            for ((driver, device), usage) in pool.devices().zip(&pool.usage) {
                usage.is_some().hash(state);
                self.reads.iter().for_each(|name| device.attribute(driver, name).hash(state));
            }
        }
    }
}

/// Whether two devices are equal for requests that read these attributes.
fn are_alike(
    reads: &[Arc<str>],
    (driver, one): (&str, &Device),
    (other_driver, other): (&str, &Device),
) -> bool {
    let mut reads = reads.iter();
    one.is_shareable == other.is_shareable
        && reads.all(|name| one.attribute(driver, name) == other.attribute(other_driver, name))
        && one.capacity == other.capacity
        && one.consumes == other.consumes
        && one.taints == other.taints
        && one.binding_conditions == other.binding_conditions
        && may_fail(one).eq(may_fail(other))
}

/// Returns the attributes that can fail every expression, whatever it reads.
fn may_fail(device: &Device) -> impl Iterator<Item = &(Arc<str>, Attribute)> {
    device.attributes.iter().filter(|(_, it)| matches!(it, Attribute::Version(_) | Attribute::Other))
}
