//! The pools of devices that a node can use.
//!
//! Upstream: `dynamic-resource-allocation/structured/internal/incubating/pools_incubating.go`.

use crate::cache::{DeviceUsage, Devices, Snapshot};
use crate::model::device::{CounterSet, Device, DeviceId, PoolId, Reach, ResourceSlice};
use crate::model::emulation::{DeviceRules, PoolView};
use crate::model::intern::{Labels, Symbol};
use crate::model::node::NodeIdx;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A node, as slices select it.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) snapshot: Snapshot<'a>,
    pub(super) node: NodeIdx,
    pub(super) name: Symbol,
    labels: Labels<'a>,
}

impl<'a> Place<'a> {
    pub(super) fn new(snapshot: Snapshot<'a>, node: NodeIdx) -> Self {
        Self { snapshot, node, name: snapshot.node_info(node).name, labels: snapshot.node_labels(node) }
    }

    /// Whether the node can use a slice or a device.
    pub(super) fn is_reached_by(&self, reach: &Reach) -> Result<bool, Arc<str>> {
        reach.matches(self.snapshot.tables(), self.name, self.labels)
    }

    pub(super) fn devices(&self) -> &'a Devices {
        self.snapshot.devices()
    }
}

/// Whether devices of a pool can be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PoolState {
    Usable,
    /// Not all of its slices are published.
    Incomplete,
    /// Its slices contradict each other.
    Invalid,
}

/// A pool as a node sees it.
pub(super) struct Pool<'a> {
    pub(super) id: &'a PoolId,
    pub(super) state: PoolState,
    /// Why the pool is invalid, in versions where that ends the decision.
    error: Option<String>,
    /// The counters of the pool: by set and name, the total amount.
    pub(super) counters: BTreeMap<(&'a str, &'a str), crate::model::quantity::Quantity>,
    /// The slices that the node sees, and those that it does not see but whose devices consume counters.
    pub(super) slices: Vec<&'a ResourceSlice>,
    /// The range of the pool's devices in [`Pools::candidates`].
    pub(super) candidates: std::ops::Range<usize>,
}

/// A device that a node may be able to use.
pub(super) struct Candidate<'a> {
    pub(super) pool: usize,
    pub(super) slice: &'a ResourceSlice,
    pub(super) device: &'a Device,
    /// What allocations hold of the device, on this node or others.
    pub(super) usage: Option<&'a DeviceUsage>,
}

impl Candidate<'_> {
    /// Returns the identity of the device.
    pub(super) fn id(&self) -> DeviceId {
        DeviceId { pool: self.slice.pool.clone(), device: Arc::clone(&self.device.name) }
    }

    /// Whether an allocation takes the whole device.
    pub(super) fn is_dedicated(&self) -> bool {
        self.usage.is_some_and(DeviceUsage::is_dedicated)
    }
}

/// The pools of a node and their devices, in the order of the search.
#[derive(Default)]
pub(super) struct Pools<'a> {
    pub(super) pools: Vec<Pool<'a>>,
    pub(super) candidates: Vec<Candidate<'a>>,
    /// In versions where an invalid pool ends the decision: the number of candidates before the first one, and the
    /// error.
    pub(super) invalid: Option<(usize, String)>,
}

impl<'a> Pools<'a> {
    /// Returns the pools of a node.
    ///
    /// # Errors
    /// If a node selector cannot be parsed.
    pub(super) fn of(place: Place<'a>) -> Result<Self, String> {
        let (devices, rules) = (place.devices(), place.snapshot.rules().devices);
        let mut seen: Vec<&'a ResourceSlice> = Vec::new();
        let mut see = |slice: &'a ResourceSlice| -> Result<(), String> {
            if !is_ignored(slice, rules) && is_relevant(&place, slice, rules)? {
                seen.push(slice);
            }
            Ok(())
        };
        devices.slices_for(place.name).try_for_each(|slice| see(slice))?;
        // Sound pools of other nodes change nothing, except where pools of one name have common counters.
        let joins_counters = place.snapshot.copies_defects() && !rules.separates_counters;
        devices.foreign_counters(place.name, joins_counters).try_for_each(|slice| see(slice))?;
        let is_last = |slice: &ResourceSlice| rules.conditions_come_last && has_conditions(slice);
        seen.sort_by(|a, b| {
            let key =
                |slice: &'a ResourceSlice| (&slice.pool, is_last(slice), place.snapshot.text(slice.name));
            key(a).cmp(&key(b))
        });
        let mut pools: Vec<(bool, Pool<'a>, Vec<&'a ResourceSlice>)> = Vec::with_capacity(1);
        for slices in seen.chunk_by(|a, b| a.pool == b.pool) {
            let id = &slices[0].pool;
            let latest = slices.iter().map(|slice| slice.generation).max().unwrap_or_default();
            let slices = slices.iter().copied().filter(|slice| slice.generation == latest).collect();
            let Some((pool, offered)) = Pool::of(devices, id, slices, rules) else { continue };
            pools.push((offered.iter().any(|slice| has_conditions(slice)), pool, offered));
        }
        // Pools with binding conditions come last; both groups are ordered by driver and name.
        pools.sort_by_key(|(has_conditions, ..)| *has_conditions);
        let mut result = Self::default();
        for (_, mut pool, slices) in pools {
            let (at, first) = (result.pools.len(), result.candidates.len());
            if let Some(why) = pool.error.take().filter(|_| result.invalid.is_none()) {
                result.invalid = Some((first, format!("pool {} is invalid: {why}", pool.id.name)));
            }
            let usage = devices.allocated().of_pool(pool.id);
            for slice in slices {
                result.candidates.extend(slice.devices.iter().map(|device| Candidate {
                    pool: at,
                    slice,
                    device,
                    usage: usage.and_then(|usage| usage.of(&device.name)),
                }));
            }
            pool.candidates = first..result.candidates.len();
            result.pools.push(pool);
        }
        Ok(result)
    }

    /// Whether a pool is invalid.
    pub(super) fn has_invalid(&self) -> bool {
        self.pools.iter().any(|pool| pool.state == PoolState::Invalid)
    }
}

/// Whether a device of the slice has binding conditions.
fn has_conditions(slice: &ResourceSlice) -> bool {
    slice.devices.iter().any(|device| device.binding_conditions.is_some())
}

/// Whether a slice needs a feature gate that is off.
fn is_ignored(slice: &ResourceSlice, rules: DeviceRules) -> bool {
    let has_counters = rules.pools == PoolView::Whole && !slice.counters.is_empty();
    !rules.gates.partitionable && (slice.reach == Reach::PerDevice || has_counters)
}

/// Whether a node sees a slice.
fn is_relevant(place: &Place<'_>, slice: &ResourceSlice, rules: DeviceRules) -> Result<bool, String> {
    if rules.pools == PoolView::Whole && !slice.counters.is_empty() && !rules.counters_have_nodes {
        return Ok(true);
    }
    let slice_name = || place.snapshot.text(slice.name);
    if slice.reach != Reach::PerDevice {
        return place.is_reached_by(&slice.reach).map_err(|error| {
            format!(
                "gather pool information: failed to perform node selection for slice {}: {error}",
                slice_name()
            )
        });
    }
    for device in &slice.devices {
        let is_reached = place.is_reached_by(&device.reach).map_err(|error| {
            format!(
                "gather pool information: failed to perform node selection for device {} in slice {}: {error}",
                device.name,
                slice_name()
            )
        })?;
        if is_reached {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the name of the first device that slices list twice.
fn first_repeated<'a>(slices: &[&'a ResourceSlice]) -> Option<&'a str> {
    let mut names = BTreeSet::new();
    let mut devices = slices.iter().flat_map(|slice| &slice.devices);
    devices.find(|device| !names.insert(&*device.name)).map(|device| &*device.name)
}

/// Whether a pool's slices of the seen generation are all published.
enum Completeness<'a> {
    Incomplete,
    /// They are; these are the ones that the node does not see.
    Complete(Vec<&'a ResourceSlice>),
}

/// Returns whether all slices of the generation that the node sees exist; `None` if a newer generation exists, which
/// the node does not see.
///
/// If the node sees as many slices as the pool has, they are taken for all of them, without checking the others.
fn all_slices<'a>(devices: &'a Devices, seen: &[&'a ResourceSlice]) -> Option<Completeness<'a>> {
    let first = seen.first()?;
    if i64::try_from(seen.len()) == Ok(first.slices) {
        return Some(Completeness::Complete(Vec::new()));
    }
    let all = devices.pool(&first.pool);
    if all.iter().any(|slice| slice.generation > first.generation) {
        return None;
    }
    let current: Vec<&ResourceSlice> =
        all.iter().map(|slice| &**slice).filter(|slice| slice.generation == first.generation).collect();
    if i64::try_from(current.len()) != Ok(first.slices) {
        return Some(Completeness::Incomplete);
    }
    let is_seen = |slice: &ResourceSlice| seen.iter().any(|other| other.name == slice.name);
    Some(Completeness::Complete(current.into_iter().filter(|slice| !is_seen(slice)).collect()))
}

impl<'a> Pool<'a> {
    fn unusable(id: &'a PoolId, state: PoolState) -> Self {
        Self { id, state, error: None, counters: BTreeMap::new(), slices: Vec::new(), candidates: 0..0 }
    }

    /// Returns a pool from the slices that the node sees, and the slices whose devices it offers there; `None` if a
    /// newer generation exists.
    fn of(
        devices: &'a Devices,
        id: &'a PoolId,
        seen: Vec<&'a ResourceSlice>,
        rules: DeviceRules,
    ) -> Option<(Self, Vec<&'a ResourceSlice>)> {
        if rules.pools == PoolView::OfNode {
            return Some(Self::of_node(id, seen));
        }
        let offered: Vec<&ResourceSlice> =
            seen.iter().copied().filter(|slice| slice.counters.is_empty()).collect();
        let consumes = |slice: &&ResourceSlice| slice.devices.iter().any(|it| !it.consumes.is_empty());
        if devices.is_sound(id) && !offered.iter().any(consumes) {
            return Some((Self::unusable(id, PoolState::Usable), offered));
        }
        let pool = match all_slices(devices, &seen)? {
            Completeness::Incomplete => Self::unusable(id, PoolState::Incomplete),
            Completeness::Complete(others) => Self::checked(id, seen, others, rules),
        };
        let is_usable = pool.state == PoolState::Usable;
        Some((pool, if is_usable { offered } else { Vec::new() }))
    }

    /// Returns a pool as the node sees it, whatever other nodes see.
    fn of_node(id: &'a PoolId, seen: Vec<&'a ResourceSlice>) -> (Self, Vec<&'a ResourceSlice>) {
        let is_complete = seen.first().is_some_and(|slice| i64::try_from(seen.len()) == Ok(slice.slices));
        let mut pool =
            Self::unusable(id, if is_complete { PoolState::Usable } else { PoolState::Incomplete });
        match first_repeated(&seen) {
            None => {
                pool.slices.clone_from(&seen);
                (pool, seen)
            }
            Some(device) => {
                if is_complete {
                    pool.state = PoolState::Invalid;
                }
                pool.error = Some(format!("duplicate device name {device}"));
                (pool, Vec::new())
            }
        }
    }

    /// Returns a complete pool, which may be invalid.
    fn checked(
        id: &'a PoolId,
        mut seen: Vec<&'a ResourceSlice>,
        others: Vec<&'a ResourceSlice>,
        rules: DeviceRules,
    ) -> Self {
        let offered: Vec<&ResourceSlice> =
            seen.iter().copied().filter(|slice| slice.counters.is_empty()).collect();
        let is_repeated = first_repeated(&offered).is_some();
        if !rules.gates.partitionable {
            let state = if is_repeated { PoolState::Invalid } else { PoolState::Usable };
            return Self { slices: seen, ..Self::unusable(id, state) };
        }
        // Where counters concern a node only if their slice does, they are read from slices that it does not see, too.
        let with_sets = others.iter().filter(|_| rules.counters_have_nodes);
        let sets = seen.iter().chain(with_sets).flat_map(|slice| &slice.counters);
        let mut known: BTreeMap<&str, &CounterSet> = BTreeMap::new();
        let is_set_repeated = sets.clone().any(|set| known.insert(&set.name, set).is_some());
        // These versions ignore the devices of a slice with counters.
        let counts = |slice: &&&ResourceSlice| !rules.counters_have_nodes || slice.counters.is_empty();
        let consumed = seen.iter().chain(&others).filter(counts);
        let consumed = consumed.flat_map(|slice| &slice.devices).flat_map(|it| &it.consumes);
        let is_unknown = |set: &CounterSet| {
            let Some(known) = known.get(&*set.name) else { return true };
            set.counters.iter().any(|(name, _)| !known.counters.iter().any(|(other, _)| other == name))
        };
        if is_repeated || is_set_repeated || consumed.clone().any(is_unknown) {
            return Self::unusable(id, PoolState::Invalid);
        }
        let counters = known.iter().flat_map(|(set, known)| {
            known.counters.iter().map(|(name, amount)| ((*set, &**name), amount.quantity))
        });
        let counters = counters.collect();
        seen.retain(|slice| slice.counters.is_empty());
        seen.extend(
            others.into_iter().filter(|slice| !rules.counters_have_nodes || slice.counters.is_empty()),
        );
        Self { counters, slices: seen, ..Self::unusable(id, PoolState::Usable) }
    }
}
