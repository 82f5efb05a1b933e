//! Adds details to reasons about devices: which device fails which check, with the values that the check reads, and who
//! holds the devices.
//!
//! The plugin reports upstream's texts, which name neither request nor device.

mod cures;
mod hindrance;
mod holders;

pub(super) use cures::{cures, misspelt};
pub(super) use holders::Holders;

use crate::explain::device_claims::CONSUMERS_MAX;
use crate::explain::format::{count, some};
use crate::explain::reason::{Found, ReasonCode};
use std::collections::{BTreeMap, BTreeSet};
use supercargo_core::cache::Snapshot;
use supercargo_core::model::device::{
    Attribute, ConstraintKind, DeviceId, PodClaim, PodClaimSource, ResourceClaim,
};
use supercargo_core::model::node::NodeIdx;
use supercargo_core::model::pod::PodInfo;
use supercargo_core::plugins::dynamic_resources::diagnosis::{Diagnosis, RequestDiagnosis, diagnose};

/// The plugin's name.
pub(super) const PLUGIN: &str = "DynamicResources";
/// Maximum number of devices of a request that are described. A slice has at most 128, and a node usually one slice of
/// each driver; describing a device looks it up among the others.
const DEVICES_MAX: usize = 256;
/// Maximum number of values or names that a text lists.
const NAMED: usize = 3;

/// Appends the details to the message of a reason against a node.
pub(super) fn describe(
    found: &mut Found,
    pod: &PodInfo,
    node: NodeIdx,
    snapshot: Snapshot<'_>,
    holders: &Holders,
) {
    if found.plugin != PLUGIN {
        return;
    }
    let Some(diagnosis) = diagnose(pod, snapshot, node) else { return };
    let details = details(&diagnosis, snapshot, holders);
    if !details.is_empty() {
        found.words = format!("{}: {}", found.words, details.join("; "));
    }
}

fn details(diagnosis: &Diagnosis, snapshot: Snapshot<'_>, holders: &Holders) -> Vec<String> {
    let mut details = Vec::new();
    for (claim, is_elsewhere) in &diagnosis.unavailable {
        let (claim, nodes) = (key(claim, snapshot), reach(claim));
        details.push(if *is_elsewhere {
            format!("the claim {claim} is allocated, and its devices are for {nodes}")
        } else {
            format!("the devices of the claim {claim} did not become ready (binding conditions)")
        });
    }
    for (pool, is_incomplete) in &diagnosis.unusable_pools {
        let why = if *is_incomplete {
            "is incomplete: its driver has not published all ResourceSlices"
        } else {
            "is invalid: its ResourceSlices contradict each other"
        };
        details.push(format!("the pool {}/{} {why}", pool.driver, pool.name));
    }
    let mut lacking = lacking(diagnosis);
    if lacking.is_empty() && diagnosis.unavailable.is_empty() && diagnosis.error.is_none() {
        details.extend(together(diagnosis, snapshot));
    }
    lacking.dedup_by_key(|request| {
        (request.claim.uid.clone(), request.request.clone(), request.alternative.clone())
    });
    details.extend(lacking.into_iter().map(|request| of_request(request, snapshot, holders)));
    details
}

/// Returns the requests for which the node alone has too few usable devices; of alternatives, all or none.
fn lacking(diagnosis: &Diagnosis) -> Vec<&RequestDiagnosis> {
    let of = |it: &RequestDiagnosis| (it.claim.uid.clone(), it.request.clone());
    let met: BTreeSet<_> = diagnosis.requests.iter().filter(|it| is_met(it)).map(of).collect();
    diagnosis.requests.iter().filter(|it| !met.contains(&of(it))).collect()
}

fn is_met(request: &RequestDiagnosis) -> bool {
    let usable = usable(request).count();
    match request.wanted {
        Some(wanted) => usable >= wanted,
        None => {
            let is_out = |why: &hindrance::Hindrance| !hindrance::leaves_out(why);
            usable > 0 && !request.devices.iter().filter_map(|(_, why)| why.as_ref()).any(is_out)
        }
    }
}

fn usable(request: &RequestDiagnosis) -> impl Iterator<Item = &DeviceId> {
    request.devices.iter().filter(|(_, why)| why.is_none()).map(|(id, _)| id)
}

/// `request` or `request/alternative`.
fn name(request: &RequestDiagnosis) -> String {
    match &request.alternative {
        Some(alternative) => format!("{}/{alternative}", request.request),
        None => request.request.to_string(),
    }
}

fn key(claim: &ResourceClaim, snapshot: Snapshot<'_>) -> String {
    format!("{}/{}", snapshot.text(claim.namespace), snapshot.text(claim.name))
}

fn of_request(request: &RequestDiagnosis, snapshot: Snapshot<'_>, holders: &Holders) -> String {
    let (name, claim) = (name(request), key(&request.claim, snapshot));
    let class = snapshot.text(request.class);
    let wants = match request.wanted {
        Some(wanted) => count(wanted, "device"),
        None => "all matching devices".to_owned(),
    };
    let wants = format!("the request {name} of the claim {claim} wants {wants} of the class {class}");
    if request.devices.is_empty() {
        return format!("{wants}, and no ResourceSlice offers a device here");
    }
    let usable = usable(request).count();
    let mut groups: BTreeMap<(usize, String), Vec<&DeviceId>> = BTreeMap::new();
    for (id, why) in request.devices.iter().take(DEVICES_MAX) {
        if let Some(why) = why {
            let text = hindrance::text(why, id, request, snapshot, holders);
            groups.entry((hindrance::rank(why), text)).or_default().push(id);
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|((rank, _), devices)| (*rank, std::cmp::Reverse(devices.len())));
    let left = groups.len().saturating_sub(2 * NAMED);
    groups.truncate(2 * NAMED);
    let mut texts: Vec<String> = groups
        .iter()
        .map(|((_, text), devices)| {
            let names: Vec<String> = devices.iter().map(|id| id.device.to_string()).collect();
            format!("{} {text}", some(&names, NAMED))
        })
        .collect();
    if left > 0 {
        texts.push(format!("and {}", count(left, "more reason")));
    }
    if request.devices.len() > DEVICES_MAX {
        texts.push(format!("and {}", count(request.devices.len() - DEVICES_MAX, "more device")));
    }
    let total = count(request.devices.len(), "device");
    format!("{wants}, and {usable} of {total} can be used: {}", texts.join("; "))
}

/// Describes why requests that are met one by one are not met together.
fn together(diagnosis: &Diagnosis, snapshot: Snapshot<'_>) -> Vec<String> {
    let mut texts = Vec::new();
    let mut seen = BTreeSet::new();
    for request in &diagnosis.requests {
        for (number, constraint) in &request.constraints {
            if !seen.insert((request.claim.uid.clone(), *number)) {
                continue;
            }
            let (attribute, rule) = match &constraint.kind {
                ConstraintKind::Match(attribute) => (attribute, "matchAttribute"),
                ConstraintKind::Distinct(attribute) => (attribute, "distinctAttribute"),
                ConstraintKind::Unknown => continue,
            };
            let in_scope = diagnosis.requests.iter().filter(|other| {
                other.claim.uid == request.claim.uid && other.constraints.iter().any(|(at, _)| at == number)
            });
            let ids: BTreeSet<&DeviceId> = in_scope.flat_map(|it| usable(it).take(DEVICES_MAX)).collect();
            let mut by_value: BTreeMap<String, usize> = BTreeMap::new();
            for id in ids {
                let value =
                    find(id, snapshot).and_then(|device| device.attribute(&id.pool.driver, attribute));
                *by_value.entry(value.map_or_else(|| "none".to_owned(), attribute_text)).or_default() += 1;
            }
            let values: Vec<String> =
                by_value.iter().map(|(value, devices)| format!("{value} on {devices}")).collect();
            let (claim, values) = (key(&request.claim, snapshot), some(&values, 2 * NAMED));
            texts.push(format!("the constraint {rule}: {attribute} of the claim {claim} sees {values}"));
        }
    }
    let wanted: usize = diagnosis.requests.iter().filter_map(|it| it.wanted).sum();
    let all: BTreeSet<&DeviceId> = diagnosis.requests.iter().flat_map(usable).collect();
    if diagnosis.requests.len() > 1 && texts.is_empty() {
        texts.push(format!(
            "each request alone has enough devices, but together they want {wanted} and share {} that can be used",
            all.len()
        ));
    }
    texts
}

/// Returns a device of a pool by its id.
fn find<'s>(id: &DeviceId, snapshot: Snapshot<'s>) -> Option<&'s supercargo_core::model::device::Device> {
    let slices = snapshot.devices().pool(&id.pool);
    slices.iter().flat_map(|slice| &slice.devices).find(|device| device.name == id.device)
}

fn attribute_text(value: &Attribute) -> String {
    match value {
        Attribute::Text(text) => format!("{text:?}"),
        Attribute::Version(text) => text.to_string(),
        Attribute::Int(number) => number.to_string(),
        Attribute::Bool(flag) => flag.to_string(),
        Attribute::Other => "a value of an unsupported type".to_owned(),
    }
}

/// Describes the nodes that can use the devices of an allocated claim.
fn reach(claim: &ResourceClaim) -> String {
    let terms = claim.allocation.iter().flat_map(|it| it.node_selector.iter().flatten());
    let texts: Vec<String> = terms
        .flat_map(|term| term.fields.iter().chain(&term.expressions))
        .map(|it| {
            let values: Vec<&str> = it.values.iter().map(AsRef::as_ref).collect();
            format!("{} {} {}", it.key, it.operator, values.join("|"))
        })
        .collect();
    if texts.is_empty() { "other nodes".to_owned() } else { format!("nodes with {}", some(&texts, NAMED)) }
}

/// Appends what to do to a rejection before nodes are considered.
pub(super) fn describe_before(found: &mut Found, pod: &PodInfo, snapshot: Snapshot<'_>) {
    if found.plugin != PLUGIN {
        return;
    }
    let namespace = snapshot.text(pod.namespace);
    let advice = if found.words.contains("ResourceClaim not created yet") {
        let names = pod.claims.iter().filter(|it| it.source == PodClaimSource::NotCreated);
        let names: Vec<String> = names.map(|it| it.name.to_string()).collect();
        Some(format!(
            "kube-controller-manager makes the claim {} from its ResourceClaimTemplate; if it does not, the template is \
             missing: kubectl get resourceclaimtemplates -n {namespace}",
            some(&names, NAMED)
        ))
    } else if found.words.contains("could not find ResourceClaim") {
        let meant = cures::nearest_claim(pod, snapshot).map(|(_, to)| snapshot.text(to));
        let meant = meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
        Some(format!("create it in the namespace {namespace}, or correct its name{meant}"))
    } else if found.words.contains("device class") && found.words.contains("does not exist") {
        let meant = cures::nearest_class(pod, snapshot).map(|(_, _, to)| snapshot.text(to));
        let meant = meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
        Some(format!("create the DeviceClass, or correct deviceClassName{meant}"))
    } else if found.words.contains("in the process of being allocated") {
        Some(
            "another pod that shares it gets its devices now; this pod is tried again when they are written"
                .to_owned(),
        )
    } else {
        None
    };
    if let Some(advice) = advice {
        found.words = format!("{}: {advice}", found.words);
        found.code = ReasonCode::ClaimNotReady;
    }
}

/// Returns why a pod that fits cannot be bound all the same: a claim with the maximum number of users.
pub(super) fn too_many_users(pod: &PodInfo, snapshot: Snapshot<'_>) -> Option<String> {
    let claims = pod.claims.iter().filter_map(PodClaim::name);
    let mut claims = claims.filter_map(|name| snapshot.devices().claim(pod.namespace, name));
    let crowded = claims
        .find(|claim| claim.reserved_for.len() >= CONSUMERS_MAX && !claim.reserved_for.contains(&pod.uid))?;
    Some(format!(
        "the claim {} is reserved for {} pods, and the API server accepts at most {CONSUMERS_MAX}: the binding fails \
         until one of them ends",
        key(crowded, snapshot),
        crowded.reserved_for.len()
    ))
}
