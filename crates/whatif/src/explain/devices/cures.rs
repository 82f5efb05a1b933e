//! Changes of claims that may make a node feasible.

use super::hindrance::{Hindrance, amount};
use super::{DEVICES_MAX, Holders, key, lacking, name, usable};
use crate::explain::device_claims::without_devices;
use crate::explain::edit::{ClaimEdit, Edit};
use crate::explain::format::count;
use crate::explain::place::Place;
use std::collections::BTreeMap;
use std::sync::Arc;
use supercargo_config::yaml::nearest;
use supercargo_core::cache::Snapshot;
use supercargo_core::model::device::{
    AllocationMode, ClaimSpec, ConstraintKind, DeviceRequest, DeviceTaint, DeviceToleration, PodClaim,
    PodClaimSource, RequestKind, ResourceClaim,
};
use supercargo_core::model::intern::Symbol;
use supercargo_core::model::node::NodeIdx;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::model::quantity::{Amount, Format};
use supercargo_core::model::volume::StorageKind;
use supercargo_core::plugins::dynamic_resources::diagnosis::{Diagnosis, RequestDiagnosis, diagnose};

/// Maximum number of claims whose end is tried as a change.
const HOLDERS_MAX: usize = 3;

/// Returns changes of claims that may make a node feasible.
pub(in crate::explain) fn cures(place: &Place<'_>, pod: &PodInfo, node: NodeIdx) -> Vec<Edit> {
    let snapshot = place.snapshot();
    let Some(diagnosis) = diagnose(pod, snapshot, node) else { return Vec::new() };
    let holders = Holders::of(place, pod);
    let mut edits = Vec::new();
    for (claim, _) in &diagnosis.unavailable {
        edits.push(free(&[Arc::clone(claim)], &holders, snapshot));
    }
    let lacking = lacking(&diagnosis);
    for request in &lacking {
        edits.extend(of_request(request, &holders, snapshot));
    }
    if lacking.is_empty() {
        edits.extend(without_constraints(&diagnosis, snapshot));
    }
    edits.into_iter().map(Edit::Claims).collect()
}

fn of_request(request: &RequestDiagnosis, holders: &Holders, snapshot: Snapshot<'_>) -> Vec<ClaimEdit> {
    let mut edits: Vec<ClaimEdit> = Vec::new();
    let (shown, claim) = (name(request), key(&request.claim, snapshot));
    let change = |how: &dyn Fn(&mut DeviceRequest)| changed(&request.claim, request, how);
    let usable = usable(request).count();
    let missing = request.wanted.unwrap_or(1).saturating_sub(usable).max(1);
    edits.extend(ending(request, missing, holders, snapshot));
    edits.extend(tolerations(request, snapshot));
    if let (Some(wanted), 1..) = (request.wanted, usable)
        && usable < wanted
    {
        let new =
            change(&|it| it.mode = AllocationMode::ExactCount(i64::try_from(usable).unwrap_or(i64::MAX)));
        let text = format!(
            "request {} instead of {wanted} in the request {shown} of {claim}",
            count(usable, "device")
        );
        let how = Some(format!("count: {usable}"));
        edits.push(ClaimEdit { code: "RequestFewerDevices", rank: 3, claims: vec![new], text, how });
    }
    edits.extend(smaller(request, snapshot));
    let mut selectors: BTreeMap<usize, &str> = BTreeMap::new();
    for (_, why) in &request.devices {
        if let Some(Hindrance::Selector { of_class: false, number, expression }) = why {
            selectors.insert(*number, expression);
        }
    }
    for (number, expression) in selectors {
        let keep = |it: &mut DeviceRequest| {
            let kept = it.selectors.iter().enumerate().filter(|(at, _)| *at != number);
            it.selectors = kept.map(|(_, selector)| selector.clone()).collect();
        };
        let text = format!("remove the selector {expression} from the request {shown} of {claim}");
        edits.push(ClaimEdit {
            code: "DropDeviceSelector",
            rank: 6,
            claims: vec![change(&keep)],
            text,
            how: None,
        });
    }
    edits
}

/// Returns tolerations for the taints of devices.
fn tolerations(request: &RequestDiagnosis, snapshot: Snapshot<'_>) -> Vec<ClaimEdit> {
    let mut taints: Vec<&DeviceTaint> = Vec::new();
    for (_, why) in &request.devices {
        match why {
            Some(Hindrance::Taint(taint)) if !taints.contains(&taint) => taints.push(taint),
            _ => {}
        }
    }
    let tolerate = |taint: &&DeviceTaint| {
        let toleration = DeviceToleration {
            key: Arc::clone(&taint.key),
            operator: "Equal".into(),
            value: Arc::clone(&taint.value),
            effect: Arc::clone(&taint.effect),
            seconds: None,
        };
        let how = format!(
            "tolerations: [{{key: {}, operator: Equal, value: {:?}, effect: {}}}]",
            taint.key, taint.value, taint.effect
        );
        let add = |it: &mut DeviceRequest| {
            it.tolerations = it.tolerations.iter().cloned().chain([toleration.clone()]).collect();
        };
        let text = format!(
            "tolerate the taint {}:{} of devices in the request {} of {}",
            taint.key,
            taint.effect,
            name(request),
            key(&request.claim, snapshot)
        );
        let claims = vec![changed(&request.claim, request, &add)];
        ClaimEdit { code: "TolerateDeviceTaint", rank: 2, claims, text, how: Some(how) }
    };
    taints.iter().map(tolerate).collect()
}

/// Returns lower requests for capacities of which too little is left.
fn smaller(request: &RequestDiagnosis, snapshot: Snapshot<'_>) -> Option<ClaimEdit> {
    let short = request.devices.iter().filter_map(|(_, why)| match why {
        Some(Hindrance::Capacity { name, free, .. }) if free.value() > 0 => Some((Arc::clone(name), *free)),
        _ => None,
    });
    let (capacity, free) = short.max_by(|a, b| a.1.compare(b.1))?;
    let lower = |it: &mut DeviceRequest| {
        for (_, wanted) in it.capacity.iter_mut().filter(|(known, _)| *known == capacity) {
            *wanted = Amount::whole(free.value(), Format::BinarySi);
        }
    };
    let text = format!(
        "request {} {capacity} in the request {} of {}",
        amount(free),
        name(request),
        key(&request.claim, snapshot)
    );
    let how = Some(format!("capacity: {{requests: {{{capacity}: {}}}}}", amount(free)));
    let claims = vec![changed(&request.claim, request, &lower)];
    Some(ClaimEdit { code: "LowerDeviceCapacity", rank: 3, claims, text, how })
}

/// Returns the ends of claims that hold devices which the request lacks: one by one, or as many as are needed.
fn ending(
    request: &RequestDiagnosis,
    missing: usize,
    holders: &Holders,
    snapshot: Snapshot<'_>,
) -> Vec<ClaimEdit> {
    let mut held: Vec<(Arc<ResourceClaim>, usize)> = Vec::new();
    let devices = || request.devices.iter().take(DEVICES_MAX);
    for (id, why) in devices() {
        let is_held =
            matches!(why, Some(Hindrance::InUse | Hindrance::Counter { .. } | Hindrance::Capacity { .. }));
        // Any device of the pool may hold what is missing of a counter.
        let of_pool = |other: &&supercargo_core::model::device::DeviceId| match why {
            Some(Hindrance::Counter { .. }) => other.pool == id.pool,
            _ => *other == id,
        };
        if !is_held {
            continue;
        }
        for device in devices().map(|(device, _)| device).filter(of_pool) {
            for claim in holders.claims(device) {
                match held.iter_mut().find(|(known, _)| known.uid == claim.uid) {
                    Some((_, devices)) => *devices += 1,
                    None => held.push((Arc::clone(claim), 1)),
                }
            }
        }
    }
    held.retain(|(claim, _)| claim.uid != request.claim.uid);
    // Fewest pods first; of equal ones, the claim that frees most.
    held.sort_by_key(|(claim, devices)| (claim.reserved_for.len(), std::cmp::Reverse(*devices)));
    let enough = held.iter().filter(|(_, devices)| *devices >= missing).take(HOLDERS_MAX);
    let mut edits: Vec<ClaimEdit> =
        enough.map(|(claim, _)| free(&[Arc::clone(claim)], holders, snapshot)).collect();
    if edits.is_empty() && !held.is_empty() {
        let mut freed = 0;
        let several = held.iter().take_while(|(_, devices)| {
            let is_needed = freed < missing;
            freed += devices;
            is_needed
        });
        let several: Vec<_> = several.map(|(claim, _)| Arc::clone(claim)).collect();
        edits.push(free(&several, holders, snapshot));
    }
    edits
}

/// The end of claims: their pods are deleted, and the devices are free.
fn free(claims: &[Arc<ResourceClaim>], holders: &Holders, snapshot: Snapshot<'_>) -> ClaimEdit {
    let texts: Vec<String> = claims.iter().map(|claim| holders.text(claim).to_owned()).collect();
    let how: Vec<String> = claims
        .iter()
        .map(|claim| match &claim.controller {
            Some((pod, _)) => {
                format!("kubectl delete pod {pod} --namespace {}", snapshot.text(claim.namespace))
            }
            None => format!(
                "kubectl describe resourceclaim {} --namespace {}",
                snapshot.text(claim.name),
                snapshot.text(claim.namespace)
            ),
        })
        .collect();
    ClaimEdit {
        code: "FreeDevices",
        rank: 5,
        claims: claims.iter().map(|claim| Arc::new(without_devices(claim))).collect(),
        text: format!("free the devices of {}", texts.join(" and ")),
        how: Some(how.join("; ")),
    }
}

/// Returns the claims without one of their constraints.
fn without_constraints(diagnosis: &Diagnosis, snapshot: Snapshot<'_>) -> Vec<ClaimEdit> {
    let mut edits: Vec<ClaimEdit> = Vec::new();
    for request in &diagnosis.requests {
        for (number, constraint) in &request.constraints {
            let (ConstraintKind::Match(attribute) | ConstraintKind::Distinct(attribute)) = &constraint.kind
            else {
                continue;
            };
            let text = format!("remove the constraint on {attribute} from {}", key(&request.claim, snapshot));
            if edits.iter().any(|edit| edit.text == text) {
                continue;
            }
            let mut spec = ClaimSpec::clone(&request.claim.spec);
            let kept = spec.constraints.iter().enumerate().filter(|(at, _)| at != number);
            spec.constraints = kept.map(|(_, it)| it.clone()).collect();
            let claims = vec![with_spec(&request.claim, spec)];
            edits.push(ClaimEdit { code: "DropDeviceConstraint", rank: 4, claims, text, how: None });
        }
    }
    edits
}

fn with_spec(claim: &ResourceClaim, spec: ClaimSpec) -> Arc<ResourceClaim> {
    Arc::new(ResourceClaim { spec: Arc::new(spec), ..claim.clone() })
}

/// Returns the claim with another request.
fn changed(
    claim: &ResourceClaim,
    request: &RequestDiagnosis,
    how: &dyn Fn(&mut DeviceRequest),
) -> Arc<ResourceClaim> {
    let mut spec = ClaimSpec::clone(&claim.spec);
    for it in spec.requests.iter_mut().filter(|it| it.name == request.request) {
        match &mut it.kind {
            RequestKind::Exactly(exactly) => how(exactly),
            RequestKind::FirstAvailable(alternatives) => {
                let is_it = |it: &&mut DeviceRequest| request.alternative.as_ref() == Some(&it.name);
                alternatives.iter_mut().filter(is_it).for_each(how);
            }
            RequestKind::Unknown => {}
        }
    }
    with_spec(claim, spec)
}

/// Returns corrections of a claim's name, or of a class, that is probably misspelt.
pub(in crate::explain) fn misspelt(pod: &PodInfo, snapshot: Snapshot<'_>) -> Vec<Edit> {
    let claim = nearest_claim(pod, snapshot).map(|(from, to)| Edit::DeviceClaimInstead { from, to });
    let class = nearest_class(pod, snapshot).map(|(claim, from, to)| {
        let mut spec = ClaimSpec::clone(&claim.spec);
        for it in &mut spec.requests {
            let requests = match &mut it.kind {
                RequestKind::Exactly(exactly) => std::slice::from_mut(exactly),
                RequestKind::FirstAvailable(alternatives) => &mut **alternatives,
                RequestKind::Unknown => &mut [],
            };
            requests.iter_mut().filter(|it| it.class == from).for_each(|it| it.class = to);
        }
        let (wrong, right) = (snapshot.text(from), snapshot.text(to));
        Edit::Claims(ClaimEdit {
            code: "CorrectDeviceClass",
            rank: 0,
            claims: vec![with_spec(&claim, spec)],
            text: format!("use the DeviceClass {right} instead of {wrong} in {}", key(&claim, snapshot)),
            how: Some(format!("deviceClassName: {right}")),
        })
    });
    claim.into_iter().chain(class).collect()
}

/// Returns a missing claim of the pod and the closest existing one of its namespace.
pub(super) fn nearest_claim(pod: &PodInfo, snapshot: Snapshot<'_>) -> Option<(Symbol, Symbol)> {
    let mut named = pod.claims.iter().filter_map(|it| match it.source {
        PodClaimSource::Named(name) => Some(name),
        _ => None,
    });
    let from = named.find(|&name| snapshot.devices().claim(pod.namespace, name).is_none())?;
    let keys = snapshot.volumes().keys(StorageKind::ResourceClaim);
    let here = keys.into_iter().filter(|key| key.namespace == Some(pod.namespace));
    let names: Vec<&str> = here.map(|key| snapshot.text(key.name)).collect();
    Some((from, snapshot.tables().find(nearest(snapshot.text(from), names)?)?))
}

/// Returns a claim of the pod with a missing class, that class, and the closest existing one.
pub(super) fn nearest_class(
    pod: &PodInfo,
    snapshot: Snapshot<'_>,
) -> Option<(Arc<ResourceClaim>, Symbol, Symbol)> {
    let claims = pod.claims.iter().filter_map(PodClaim::name);
    let claims = claims.filter_map(|name| snapshot.devices().claim(pod.namespace, name));
    for claim in claims {
        let requests = claim.spec.requests.iter().flat_map(|it| match &it.kind {
            RequestKind::Exactly(exactly) => std::slice::from_ref(exactly),
            RequestKind::FirstAvailable(alternatives) => alternatives,
            RequestKind::Unknown => &[],
        });
        let missing =
            requests.map(|it| it.class).find(|&class| snapshot.device_classes().get(class).is_none());
        let Some(missing) = missing else { continue };
        let names: Vec<&str> = snapshot.device_classes().names().map(|name| snapshot.text(name)).collect();
        let meant = nearest(snapshot.text(missing), names).and_then(|name| snapshot.tables().find(name));
        if let Some(meant) = meant {
            return Some((Arc::clone(claim), missing, meant));
        }
    }
    None
}
