//! Which nodes have equal devices, so that a search on one of them gives the result of all.

use super::pools::{Place, Pool, PoolState, Pools};
use super::search::available_counters;
use crate::cache::Snapshot;
use crate::framework::{NodeDevices, PoolDevices, ReadAttributes};
use crate::model::device::{ClaimSpec, ConstraintKind, DeviceRequest, DeviceSelector, Reach, RequestKind};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Returns the attributes that the requests read, in their own expressions, those of their classes, and constraints;
/// `None` if they cannot be listed.
pub(super) fn reads<'a>(
    specs: impl Iterator<Item = &'a ClaimSpec>,
    snapshot: Snapshot<'_>,
) -> Option<ReadAttributes> {
    let mut names: BTreeSet<&Arc<str>> = BTreeSet::new();
    for spec in specs {
        for request in spec.requests.iter().flat_map(|request| alternatives(&request.kind)) {
            let of_class = snapshot.device_classes().get(request.class).map(|class| &class.selectors);
            for selector in of_class.into_iter().chain([&request.selectors]).flatten() {
                let Some(DeviceSelector(expression)) = selector else { continue };
                names.extend(expression.reads()?);
            }
        }
        for constraint in &spec.constraints {
            match &constraint.kind {
                ConstraintKind::Match(name) | ConstraintKind::Distinct(name) => _ = names.insert(name),
                ConstraintKind::Unknown => {}
            }
        }
    }
    Some(names.into_iter().map(Arc::clone).collect())
}

fn alternatives(kind: &RequestKind) -> &[DeviceRequest] {
    match kind {
        RequestKind::Exactly(request) => std::slice::from_ref(request),
        RequestKind::FirstAvailable(alternatives) => alternatives,
        RequestKind::Unknown => &[],
    }
}

/// Returns the devices of a node; `None` if a pool is incomplete, invalid, or usable by other nodes as well, or if a
/// node selector cannot be parsed.
pub(super) fn devices(place: Place<'_>, reads: &ReadAttributes) -> Option<NodeDevices> {
    let pools = Pools::of(place).ok()?;
    let mut compared = Vec::with_capacity(pools.pools.len());
    for pool in &pools.pools {
        if pool.state != PoolState::Usable || pools.invalid.is_some() {
            return None;
        }
        let found = of_pool(place, &pools, pool);
        if !found.slices.iter().all(|slice| matches!(slice.reach, Reach::Node(_))) {
            return None;
        }
        compared.push(found);
    }
    Some(NodeDevices { reads: Arc::clone(reads), pools: compared })
}

/// Returns what a search can see of a pool.
pub(super) fn of_pool<'a>(place: Place<'a>, pools: &Pools<'a>, pool: &Pool<'a>) -> PoolDevices {
    let candidates = &pools.candidates[pool.candidates.clone()];
    let slices = candidates.chunk_by(|a, b| std::ptr::eq(a.slice, b.slice)).map(|it| it[0].slice);
    let counters = available_counters(place, pool).into_iter();
    PoolDevices {
        slices: slices.filter_map(|slice| place.devices().slice(slice.name)).map(Arc::clone).collect(),
        usage: candidates.iter().map(|candidate| candidate.usage.cloned()).collect(),
        counters: counters.map(|((set, name), left)| (set.into(), name.into(), left)).collect(),
    }
}
