//! The rules about the devices of a pod's claims, and about allocations that stand beside each other.
//!
//! A request wants whole devices, units of a shared one, or a part of a card, as [`crate::reference`]'s callers
//! generate them. There are no constraints, and no device is tolerated despite a taint.

use super::ReferenceCluster;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use supercargo_core::model::device::{
    AllocatedDevice, Allocation, AllocationMode, Attribute, Device, DeviceId, NodeSelector, PodClaimSource,
    PoolId, Reach, RequestKind, ResourceClaim, ResourceSlice, planned_uid,
};
use supercargo_core::model::intern::Symbol;
use supercargo_core::model::node::NodeInfo;
use supercargo_core::model::pod::{PodInfo, Uid};

/// A view of claims and devices at one moment.
#[derive(Default)]
pub struct Devices {
    /// All claims.
    pub claims: Vec<Arc<ResourceClaim>>,
    /// All slices.
    pub slices: Vec<Arc<ResourceSlice>>,
    /// Allocations that are not written yet, with the uids of their claims.
    pub in_flight: Vec<(Uid, Arc<Allocation>)>,
    /// The devices that claims avoid, by the uids of the claims.
    pub avoided: BTreeMap<Uid, BTreeSet<DeviceId>>,
    /// The claims, by pod, that were made for pods in their attempt before and that they keep: a large pod does, if it
    /// must be evaluated in slices again before its binding.
    pub keep_claims: BTreeMap<Uid, Uid>,
    /// The extended resource that a class serves, and the class.
    pub served: Option<(Symbol, &'static str)>,
}

/// One device that a request wants.
#[derive(Clone, Copy)]
struct Demand<'a> {
    kind: &'a str,
    /// Units of a shared device; 0 for any device of its own.
    units: i64,
    avoided: Option<&'a BTreeSet<DeviceId>>,
}

/// What of the devices is taken.
#[derive(Clone, Default)]
pub struct Taken {
    alone: BTreeMap<DeviceId, usize>,
    units: BTreeMap<DeviceId, i64>,
}

impl Taken {
    /// Counts an allocated device.
    pub fn add(&mut self, result: &AllocatedDevice) {
        let amount = result.consumed.iter().map(|(_, amount)| amount.quantity.value()).sum::<i64>();
        self.take(&result.device, result.share.is_some().then_some(amount));
    }

    fn take(&mut self, device: &DeviceId, units: Option<i64>) {
        match units {
            Some(units) => *self.units.entry(device.clone()).or_default() += units,
            None => *self.alone.entry(device.clone()).or_default() += 1,
        }
    }

    /// Returns the units that are taken from the card of a pool, given the units of each part.
    fn of_card(&self, pool: &PoolId, units_of: &impl Fn(&DeviceId) -> i64) -> i64 {
        let of_pool = self.alone.keys().filter(|device| device.pool == *pool);
        of_pool.map(units_of).sum()
    }

    /// Returns a device that is allocated beyond what it has.
    pub fn excess(&self, units: i64, units_of: impl Fn(&DeviceId) -> i64) -> Option<String> {
        if let Some((device, count)) = self.alone.iter().find(|&(_, &count)| count > 1) {
            return Some(format!("{device:?} is in {count} allocations"));
        }
        if let Some((device, taken)) = self.units.iter().find(|&(_, &taken)| taken > units) {
            return Some(format!("{taken} of {units} units of {device:?} are taken"));
        }
        if let Some(device) = self.units.keys().find(|device| self.alone.contains_key(device)) {
            return Some(format!("{device:?} is allocated as a whole and shared"));
        }
        let pools: BTreeSet<&PoolId> = self.alone.keys().map(|device| &device.pool).collect();
        let over = pools.into_iter().find(|pool| self.of_card(pool, &units_of) > units);
        over.map(|pool| format!("the card of {pool:?} is overdrawn"))
    }
}

fn kind_of(device: &Device) -> &str {
    let kind = device.attributes.iter().find(|(name, _)| **name == *"kind");
    match kind {
        Some((_, Attribute::Text(kind))) => kind,
        _ => "",
    }
}

fn units_of(device: &Device) -> i64 {
    device.consumes.iter().flat_map(|set| &set.counters).map(|(_, amount)| amount.quantity.value()).sum()
}

impl ReferenceCluster<'_> {
    /// Returns why the pod's claims of devices make a node infeasible.
    pub(super) fn of_devices(&self, pod: &PodInfo, node: &NodeInfo) -> Option<String> {
        let mut demands = Vec::new();
        for entry in &pod.claims {
            let (name, is_own) = match entry.source {
                PodClaimSource::Named(name) => (name, false),
                PodClaimSource::Generated(name) => (name, true),
                PodClaimSource::NotNeeded => continue,
                PodClaimSource::NotCreated | PodClaimSource::Unknown => {
                    return Some("a claim is not made yet".to_owned());
                }
            };
            let text = self.tables.text(name);
            let is_it = |it: &&Arc<ResourceClaim>| (it.namespace, it.name) == (pod.namespace, name);
            let Some(claim) = self.devices.claims.iter().find(is_it) else {
                return Some(format!("claim {text} of devices not found"));
            };
            let is_owner = claim.controller.as_ref().is_some_and(|(_, uid)| *uid == pod.uid);
            if claim.deleting || is_own && !is_owner {
                return Some(format!("claim {text} of devices is going or belongs to another pod"));
            }
            if claim.allocation.is_none() {
                if self.devices.in_flight.iter().any(|(uid, _)| *uid == claim.uid) {
                    return Some(format!("claim {text} is being allocated"));
                }
                demands.extend(claim.spec.requests.iter().flat_map(|request| match &request.kind {
                    RequestKind::Exactly(it) => {
                        let units = it.capacity.iter().map(|(_, amount)| amount.quantity.value()).sum();
                        let AllocationMode::ExactCount(count) = it.mode else { return Vec::new() };
                        let count = usize::try_from(count).unwrap_or(0);
                        let avoided = self.devices.avoided.get(&claim.uid);
                        vec![Demand { kind: self.tables.text(it.class), units, avoided }; count]
                    }
                    _ => Vec::new(),
                }));
                continue;
            }
            if !self.is_usable(claim, node) {
                return Some(format!("the devices of claim {text} are broken or elsewhere"));
            }
        }
        if let Some((resource, class)) = self.devices.served {
            let count = pod.resources.request.scalar(resource).unwrap_or(0);
            let is_made = |it: &&Arc<ResourceClaim>| {
                it.is_for_extended_resources && it.controller.as_ref().is_some_and(|(_, uid)| *uid == pod.uid)
            };
            let kept = self.kept_claim(pod);
            match kept.or_else(|| self.devices.claims.iter().find(is_made)).filter(|_| count > 0) {
                Some(made) if kept.is_some() && made.allocation.is_some() => {
                    if !self.is_usable(made, node) {
                        return Some("the devices of the claim made for the pod are elsewhere".to_owned());
                    }
                }
                Some(_) => return Some("a claim was made for the pod before".to_owned()),
                None => {
                    let avoided = self.devices.avoided.get(&planned_uid(&pod.uid));
                    demands.extend((0..count).map(|_| Demand { kind: class, units: 0, avoided }));
                }
            }
        }
        let pools = self.pools(node);
        let candidates: Vec<(DeviceId, &Device)> =
            pools.iter().flat_map(|slices| devices_of(slices)).collect();
        let card = |pool: &PoolId| {
            let slices = pools.iter().flatten().filter(|slice| slice.pool == *pool);
            let counters = slices.flat_map(|slice| &slice.counters).flat_map(|set| &set.counters);
            counters.map(|(_, amount)| amount.quantity.value()).sum::<i64>()
        };
        let found = place(&demands, &candidates, &self.taken(), &card, &self.all_units());
        (!found).then(|| "the devices do not suffice".to_owned())
    }

    /// Returns the claim that the pod keeps from its attempt before.
    fn kept_claim(&self, pod: &PodInfo) -> Option<&Arc<ResourceClaim>> {
        let kept = self.devices.keep_claims.get(&pod.uid)?;
        self.devices.claims.iter().find(|it| it.uid == *kept)
    }

    /// Whether an allocated claim can be used on the node.
    fn is_usable(&self, claim: &ResourceClaim, node: &NodeInfo) -> bool {
        let allows =
            |nodes: &NodeSelector| nodes.parsed.iter().flatten().any(|term| self.term_allows(term, node));
        let is_broken = claim.devices.iter().flat_map(|it| &it.conditions).any(|it| *it.kind == *"broken");
        claim.nodes.as_ref().is_none_or(allows) && !is_broken
    }

    /// Whether a class serves the resource, so that it is not counted as the node's.
    pub(super) fn is_of_class(&self, resource: Symbol) -> bool {
        self.devices.served.is_some_and(|(served, _)| served == resource)
    }

    fn taken(&self) -> Taken {
        let mut taken = Taken::default();
        for claim in &self.devices.claims {
            claim.allocation.iter().flat_map(|it| &it.results).for_each(|result| taken.add(result));
        }
        for (uid, sent) in &self.devices.in_flight {
            let is_shown = |claim: &&Arc<ResourceClaim>| {
                let shown = claim.allocation.as_ref().map(|shown| &shown.results);
                claim.uid == *uid && shown == Some(&sent.results)
            };
            if !self.devices.claims.iter().any(|claim| is_shown(&claim)) {
                sent.results.iter().for_each(|result| taken.add(result));
            }
        }
        taken
    }

    /// Returns the units of each device that takes some from a card.
    fn all_units(&self) -> BTreeMap<DeviceId, i64> {
        let all = self.devices.slices.iter().flat_map(|slice| {
            slice.devices.iter().map(|device| {
                let id = DeviceId { pool: slice.pool.clone(), device: Arc::clone(&device.name) };
                (id, units_of(device))
            })
        });
        all.collect()
    }

    /// Returns the complete pools that a node sees.
    fn pools(&self, node: &NodeInfo) -> Vec<Vec<&ResourceSlice>> {
        let mut pools: BTreeMap<&PoolId, Vec<&ResourceSlice>> = BTreeMap::new();
        let sees = |slice: &ResourceSlice| match &slice.reach {
            _ if !slice.counters.is_empty() => true,
            Reach::Node(name) => *name == node.name,
            Reach::AllNodes => true,
            Reach::Selector(selector) => selector.parsed.iter().flatten().any(|t| self.term_allows(t, node)),
            Reach::Nothing | Reach::PerDevice => false,
        };
        for slice in self.devices.slices.iter().filter(|slice| sees(slice)) {
            pools.entry(&slice.pool).or_default().push(slice);
        }
        let mut complete = Vec::new();
        for (id, mut seen) in pools {
            let newest = seen.iter().map(|slice| slice.generation).max().unwrap_or(0);
            seen.retain(|slice| slice.generation == newest);
            let of_pool = || self.devices.slices.iter().filter(|slice| slice.pool == *id);
            let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
            let wanted = seen[0].slices;
            let all = of_pool().filter(|slice| slice.generation == newest).count();
            let is_newest = of_pool().all(|slice| slice.generation <= newest);
            if count(seen.len()) == wanted || is_newest && count(all) == wanted {
                complete.push(seen);
            }
        }
        complete
    }
}

fn devices_of<'a>(slices: &[&'a ResourceSlice]) -> Vec<(DeviceId, &'a Device)> {
    let has_counters = slices.iter().any(|slice| !slice.counters.is_empty());
    let of_slice = |slice: &&'a ResourceSlice| {
        let slice = *slice;
        slice.devices.iter().map(move |device| {
            (DeviceId { pool: slice.pool.clone(), device: Arc::clone(&device.name) }, device)
        })
    };
    let is_valid = |device: &Device| device.consumes.is_empty() || has_counters;
    slices
        .iter()
        .flat_map(of_slice)
        .filter(|(_, device)| is_valid(device) && device.taints.is_empty())
        .collect()
}

/// Whether the demands can be met one after the other.
fn place(
    demands: &[Demand<'_>],
    candidates: &[(DeviceId, &Device)],
    taken: &Taken,
    card: &impl Fn(&PoolId) -> i64,
    units: &BTreeMap<DeviceId, i64>,
) -> bool {
    let Some((first, rest)) = demands.split_first() else { return true };
    let is_open = |id: &DeviceId| first.avoided.is_none_or(|avoided| !avoided.contains(id));
    let of_kind = candidates.iter().filter(|(_, device)| kind_of(device) == first.kind);
    for (id, device) in of_kind.filter(|(id, _)| is_open(id)) {
        let used = taken.units.get(id).copied().unwrap_or(0);
        let capacity: i64 = device.capacity.iter().map(|(_, it)| it.value.quantity.value()).sum();
        if taken.alone.contains_key(id) || device.is_shareable && used + first.units > capacity {
            continue;
        }
        let own = units_of(device);
        let of_card =
            taken.alone.keys().filter(|other| other.pool == id.pool).filter_map(|other| units.get(other));
        if own > 0 && of_card.sum::<i64>() + own > card(&id.pool) {
            continue;
        }
        let mut next = taken.clone();
        next.take(id, device.is_shareable.then_some(first.units));
        if place(rest, candidates, &next, card, units) {
            return true;
        }
        // Whole devices cannot be told apart.
        if own == 0 && !device.is_shareable && rest.iter().all(|demand| demand.avoided == first.avoided) {
            return false;
        }
    }
    false
}
