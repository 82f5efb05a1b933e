//! The allocation of a claim, from the devices that a search chose.
//!
//! Upstream: the end of `allocator_incubating.go#Allocate`, and `#createNodeSelector`.

use super::pools::{Candidate, Place, Pools};
use super::search::{Chosen, Solution, Wanted};
use crate::model::device::{
    AllocatedConfig, AllocatedDevice, Allocation, ClaimSpec, DeviceRequest, Reach, RequestKind,
    ResourceClaim, SelectorRequirement, SelectorTerm,
};
use crate::model::intern::Symbol;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::capacity;
use crate::model::emulation::DeviceRules;

/// Returns the allocation of each claim.
///
/// # Errors
/// If the node selectors of the devices cannot be combined.
pub(super) fn allocations<'a>(
    place: Place<'a>,
    pools: &Pools<'a>,
    claims: &[(Wanted<'a>, &ResourceClaim)],
    solution: &Solution<'a>,
) -> Result<Vec<Arc<Allocation>>, String> {
    let mut all = Vec::with_capacity(claims.len());
    for (at, (wanted, claim)) in claims.iter().enumerate() {
        let chosen = &solution.chosen[at];
        let rules = place.snapshot.rules().devices;
        let results = chosen.iter().enumerate();
        let results = results.map(|(number, it)| result(pools, it, &claim.uid, number, rules)).collect();
        let config = config(place, wanted.spec, &solution.alternatives[at]);
        let devices = chosen.iter().map(|it| &pools.candidates[it.candidate]);
        let node_selector = selector_of(place, claim, devices)?;
        all.push(Arc::new(Allocation { results, config, node_selector, allocated_at: None }));
    }
    Ok(all)
}

/// Checks that [`allocations`] succeeds.
///
/// # Errors
/// As [`allocations`].
pub(super) fn check<'s>(
    place: Place<'_>,
    pools: &Pools<'_>,
    claims: impl Iterator<Item = &'s ResourceClaim>,
    solution: &Solution<'_>,
) -> Result<(), String> {
    for (claim, chosen) in claims.zip(&solution.chosen) {
        let mut devices = chosen.iter().map(|it| &pools.candidates[it.candidate]);
        // The selector of the node's own devices is its name.
        if !devices.clone().all(|it| matches!(it.slice.reach, Reach::Node(_))) {
            selector_of(place, claim, &mut devices)?;
        }
    }
    Ok(())
}

/// Returns the node selector of a claim with these devices.
fn selector_of<'a>(
    place: Place<'_>,
    claim: &ResourceClaim,
    devices: impl Iterator<Item = &'a Candidate<'a>>,
) -> Result<Option<Box<[SelectorTerm]>>, String> {
    node_selector(place, devices).map_err(|error| {
        format!("create NodeSelector for claim {}: {error}", place.snapshot.text(claim.name))
    })
}

fn result(
    pools: &Pools<'_>,
    chosen: &Chosen<'_>,
    claim: &str,
    number: usize,
    rules: DeviceRules,
) -> AllocatedDevice {
    let candidate = &pools.candidates[chosen.candidate];
    let device = candidate.device;
    let request = chosen.request;
    let is_shared = device.is_shareable && rules.gates.consumable_capacity;
    let consumed = match is_shared {
        true => capacity::all_consumed(request, device, rules.capacity),
        false => Box::default(),
    };
    AllocatedDevice {
        request: qualified(chosen.parent, request),
        device: candidate.id(),
        admin_access: request.admin_access,
        tolerations: match rules.lists_tolerations {
            true => Arc::clone(&request.tolerations),
            false => [].into(),
        },
        share: is_shared.then(|| share_id(claim, number)),
        consumed,
        binding_conditions: device.binding_conditions.clone().unwrap_or_default(),
        binding_failure_conditions: device.binding_failure_conditions.clone(),
    }
}

/// Returns `request`, or `request/alternative`.
fn qualified(parent: Option<&str>, request: &DeviceRequest) -> Arc<str> {
    match parent {
        Some(parent) => format!("{parent}/{}", request.name).into(),
        None => Arc::clone(&request.name),
    }
}

/// Returns the id of a share: a UUID that follows from the claim's uid and the number of the result, so that decisions
/// can be repeated. Upstream draws it.
fn share_id(claim: &str, number: usize) -> Arc<str> {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let bytes = claim.bytes().chain(number.to_le_bytes());
    let hash = bytes.fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME));
    // Version 8 is for ids made by a rule of one's own (RFC 9562).
    let id = hash & !(0xf << 76) & !(0x3 << 62) | 0x8 << 76 | 0x2 << 62;
    let text = format!("{id:032x}");
    format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]).into()
}

fn config(place: Place<'_>, spec: &ClaimSpec, alternatives: &[usize]) -> Vec<AllocatedConfig> {
    let mut all: Vec<AllocatedConfig> = Vec::new();
    let mut classes: Vec<(Symbol, std::ops::Range<usize>)> = Vec::new();
    let chosen = |at: usize| -> Option<(&DeviceRequest, Arc<str>)> {
        match &spec.requests[at].kind {
            RequestKind::Exactly(request) => Some((request, Arc::clone(&request.name))),
            RequestKind::FirstAvailable(requests) => {
                let request = requests.get(alternatives[at])?;
                Some((request, qualified(Some(&spec.requests[at].name), request)))
            }
            RequestKind::Unknown => None,
        }
    };
    for (request, name) in (0..spec.requests.len()).filter_map(chosen) {
        if let Some((_, range)) = classes.iter().find(|(class, _)| *class == request.class) {
            all[range.clone()].iter_mut().for_each(|config| config.requests.push(Arc::clone(&name)));
            continue;
        }
        let first = all.len();
        let class = place.snapshot.device_classes().get(request.class);
        all.extend(class.iter().flat_map(|class| &class.config).map(|parameters| AllocatedConfig {
            is_from_class: true,
            requests: vec![Arc::clone(&name)],
            parameters: Arc::clone(parameters),
        }));
        classes.push((request.class, first..all.len()));
    }
    for config in &spec.config {
        let entry = || AllocatedConfig {
            is_from_class: false,
            requests: config.requests.to_vec(),
            parameters: Arc::clone(&config.parameters),
        };
        if config.requests.is_empty() {
            all.push(entry());
            continue;
        }
        let joins = place.snapshot.rules().devices.joins_configs;
        // In older versions, one entry for each request that the configuration names.
        for (at, request) in spec.requests.iter().enumerate() {
            let is_named = config.requests.contains(&request.name)
                || matches!(request.kind, RequestKind::FirstAvailable(_))
                    && chosen(at).is_some_and(|(_, name)| config.requests.contains(&name));
            if is_named {
                all.push(entry());
                if joins {
                    break;
                }
            }
        }
    }
    if place.snapshot.rules().devices.joins_configs {
        let is_named = |config: &AllocatedConfig, at: usize| {
            config.requests.contains(&spec.requests[at].name)
                || chosen(at).is_some_and(|(_, name)| config.requests.contains(&name))
        };
        for config in &mut all {
            if (0..spec.requests.len()).all(|at| is_named(config, at)) {
                config.requests.clear();
            }
        }
    }
    all
}

/// Returns the terms of the node selector of an allocation; `None` if all nodes can use its devices.
fn node_selector<'a>(
    place: Place<'_>,
    devices: impl Iterator<Item = &'a Candidate<'a>>,
) -> Result<Option<Box<[SelectorTerm]>>, String> {
    let mut joined = SelectorTerm::default();
    for candidate in devices {
        let reach = match &candidate.slice.reach {
            Reach::PerDevice => &candidate.device.reach,
            reach => reach,
        };
        let binds = candidate.device.binds_to_node && place.snapshot.rules().devices.reads_binds_to_node;
        if matches!(reach, Reach::Node(_)) || binds {
            let name = SelectorRequirement {
                key: "metadata.name".into(),
                operator: "In".into(),
                values: [place.snapshot.text(place.name).into()].into(),
            };
            return Ok(Some([SelectorTerm { expressions: Vec::new(), fields: vec![name] }].into()));
        }
        let Reach::Selector(selector) = reach else { continue };
        match &*selector.terms {
            [] => {}
            [term] => {
                join(&mut joined.fields, &term.fields);
                join(&mut joined.expressions, &term.expressions);
            }
            terms => {
                return Err(format!("unsupported ResourceSlice.NodeSelector with {} terms", terms.len()));
            }
        }
    }
    let is_empty = joined.fields.is_empty() && joined.expressions.is_empty();
    Ok((!is_empty).then(|| [joined].into()))
}

fn join(all: &mut Vec<SelectorRequirement>, more: &[SelectorRequirement]) {
    for requirement in more {
        let set = |it: &SelectorRequirement| it.values.iter().cloned().collect::<BTreeSet<_>>();
        let is_known = |it: &SelectorRequirement| {
            it.key == requirement.key && it.operator == requirement.operator && set(it) == set(requirement)
        };
        if !all.iter().any(is_known) {
            all.push(requirement.clone());
        }
    }
}
