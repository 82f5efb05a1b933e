//! Adds details to reasons about volumes: claim, class, size and topology, and what to do.
//!
//! The filters report upstream's messages, which name neither claim nor class.

use crate::explain::format::{count, exact, requirement, some};
use crate::explain::reason::{Found, ReasonCode};
use supercargo_config::yaml::nearest;
use supercargo_core::cache::Snapshot;
use supercargo_core::framework::Measure;
use supercargo_core::model::intern::{Symbol, known};
use supercargo_core::model::pod::PodInfo;
use supercargo_core::model::volume::{
    BindingMode, ClaimInfo, PersistentVolumeInfo, PodVolume, StorageKind, StorageSize, VolumeNodeAffinity,
};

/// Part of upstream's message for a node without storage capacity for a new volume.
const NO_ROOM: &str = "did not have enough free storage";
/// Maximum number of volumes, zones or drivers that a text names.
const NAMED: usize = 3;

/// Appends the details to the message of a reason about volumes.
pub(super) fn describe(found: &mut Found, pod: &PodInfo, snapshot: Snapshot<'_>) {
    let claims = || pod.volumes.iter().filter_map(PodVolume::claim).map(|(name, _)| name);
    let of = |name| snapshot.volumes().claim(pod.namespace, name).map(AsRef::as_ref);
    let details: Vec<String> = match found.code {
        ReasonCode::ClaimNotReady => {
            claims().filter_map(|name| not_ready(name, of(name), pod, snapshot)).collect()
        }
        ReasonCode::VolumeNodeMismatch => {
            claims().filter_map(of).filter_map(|it| reach(it, snapshot)).collect()
        }
        ReasonCode::VolumeUnavailable => {
            let is_room = found.words.contains(NO_ROOM);
            claims().filter_map(of).filter_map(|it| unavailable(it, is_room, snapshot)).collect()
        }
        ReasonCode::VolumeInUse => claims()
            .filter_map(of)
            .filter(|it| is_exclusive(it, snapshot))
            .map(|it| whole(it, snapshot))
            .collect(),
        ReasonCode::VolumeLimit => drivers(pod, snapshot),
        _ => Vec::new(),
    };
    if !details.is_empty() {
        found.words = format!("{}: {}", found.words, details.join("; "));
    }
}

/// Returns whether a node is rejected only because no volume is available there, which a new or released volume
/// changes.
pub(super) fn may_come(reasons: &[supercargo_core::framework::Reason]) -> bool {
    let words = ["didn't find available persistent volumes", NO_ROOM];
    !reasons.is_empty() && reasons.iter().all(|reason| words.iter().any(|words| reason.contains(words)))
}

/// Returns the pod's unbound claims that no provisioner serves: a person must create their volumes.
pub(super) fn to_create(pod: &PodInfo, snapshot: Snapshot<'_>) -> Vec<ClaimInfo> {
    let claims = pod.volumes.iter().filter_map(PodVolume::claim);
    let claims = claims.filter_map(|(name, _)| snapshot.volumes().claim(pod.namespace, name));
    let waits = claims.filter(|claim| claim.volume.is_none() && claim.selected_node.is_none());
    waits.filter(|claim| !is_provisioned(claim, snapshot)).map(|claim| ClaimInfo::clone(claim)).collect()
}

/// Returns a missing claim of the pod and the closest existing claim of its namespace.
pub(super) fn misspelt(pod: &PodInfo, snapshot: Snapshot<'_>) -> Option<(Symbol, Symbol)> {
    let named = pod.volumes.iter().filter_map(PodVolume::named_claim);
    let mut missing = named.filter(|&name| snapshot.volumes().claim(pod.namespace, name).is_none());
    missing.find_map(|name| Some((name, nearest_claim(name, pod, snapshot)?)))
}

fn nearest_claim(name: Symbol, pod: &PodInfo, snapshot: Snapshot<'_>) -> Option<Symbol> {
    let keys = snapshot.volumes().keys(StorageKind::PersistentVolumeClaim);
    let here = keys.into_iter().filter(|key| key.namespace == Some(pod.namespace));
    let names: Vec<&str> = here.map(|key| snapshot.text(key.name)).collect();
    snapshot.tables().find(nearest(snapshot.text(name), names)?)
}

fn not_ready(
    name: Symbol,
    claim: Option<&ClaimInfo>,
    pod: &PodInfo,
    snapshot: Snapshot<'_>,
) -> Option<String> {
    let namespace = snapshot.text(pod.namespace);
    let Some(claim) = claim else {
        let meant = nearest_claim(name, pod, snapshot)
            .map(|meant| format!("; did you mean {}?", snapshot.text(meant)));
        let text = snapshot.text(name);
        return Some(format!(
            "create the claim {text} in the namespace {namespace}, or correct its name{}",
            meant.unwrap_or_default()
        ));
    };
    if claim.lost || claim.deleting || claim.bound_volume().is_some() {
        return None;
    }
    let (whole, class) = (whole(claim, snapshot), snapshot.text(claim.class));
    let why = match snapshot.volumes().class(claim.class) {
        _ if claim.volume.is_some() => "its binding to the volume it names is not complete yet".to_owned(),
        None if class.is_empty() => {
            "it names no StorageClass and there was no default one, so it waits for a PersistentVolume without a class".to_owned()
        }
        None => {
            let names: Vec<Symbol> =
                snapshot.volumes().keys(StorageKind::StorageClass).into_iter().map(|key| key.name).collect();
            let meant = nearest(class, names.iter().map(|&name| snapshot.text(name)));
            let meant = meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
            format!("there is no StorageClass {class}: create it, or a PersistentVolume of that class{meant}")
        }
        Some(class) if class.binding_mode == Some(BindingMode::Immediate) => {
            let who = if makes_none(class.provisioner) {
                "an administrator must create a PersistentVolume for it".to_owned()
            } else {
                format!("{} must provision its volume first", snapshot.text(class.provisioner))
            };
            let claim = snapshot.text(claim.name);
            format!("its class binds immediately (volumeBindingMode: Immediate), so {who}: kubectl describe pvc {claim} -n {namespace}")
        }
        Some(_) => return None,
    };
    Some(format!("{whole} has no volume: {why}"))
}

/// Describes from where the volume of a bound claim is reachable.
fn reach(claim: &ClaimInfo, snapshot: Snapshot<'_>) -> Option<String> {
    let volume = snapshot.volumes().volume(claim.volume?)?;
    let by_driver = volume.in_tree.as_ref().and_then(|it| it.migrated.as_ref().ok()?.node_affinity.as_ref());
    let mut places: Vec<String> =
        volume.node_affinity.as_ref().or(by_driver).map(|it| terms(it, snapshot)).into_iter().collect();
    if places.is_empty() {
        let zones = volume.topology.iter().map(|(key, values)| {
            let values: Vec<&str> = values.iter().map(|&value| snapshot.text(value)).collect();
            format!("{}={}", snapshot.text(*key), values.join("|"))
        });
        places.extend(zones);
    }
    if places.is_empty() {
        return None;
    }
    let (whole, name) = (whole(claim, snapshot), snapshot.text(volume.name));
    Some(format!(
        "{whole} is bound to the volume {name}, which is reachable only from nodes with {}",
        places.join(", ")
    ))
}

fn terms(of: &VolumeNodeAffinity, snapshot: Snapshot<'_>) -> String {
    let each = of.terms.iter().map(|term| {
        let all: Vec<String> = term.iter().map(|it| requirement(snapshot.tables(), it)).collect();
        all.join(" and ")
    });
    each.collect::<Vec<_>>().join(", or ")
}

/// Describes why no volume is available on the node for a claim that binds with its pod.
fn unavailable(claim: &ClaimInfo, is_room: bool, snapshot: Snapshot<'_>) -> Option<String> {
    if let Some(volume) = claim.bound_volume() {
        let is_gone = snapshot.volumes().volume(volume).is_none();
        let (whole, name) = (whole(claim, snapshot), snapshot.text(volume));
        return is_gone.then(|| format!("{whole} is bound to the volume {name}, which does not exist"));
    }
    let (whole, class) = (whole(claim, snapshot), snapshot.volumes().class(claim.class)?);
    let name = snapshot.text(class.name);
    if let Some(node) = claim.selected_node {
        return Some(format!(
            "the volume of {whole} is being provisioned for the node {}",
            snapshot.text(node)
        ));
    }
    let offered = offered(claim, snapshot);
    if makes_none(class.provisioner) {
        return Some(format!("no volume matches {whole}, and its class has no provisioner: {offered}"));
    }
    let driver = snapshot.text(class.provisioner);
    if is_room {
        let most = snapshot.volumes().capacities_of(class.name).filter_map(|it| it.limit).max();
        let most =
            most.map(|most| format!("; the largest capacity it reports is {}", exact(Measure::Memory, most)));
        let most = most.unwrap_or_default();
        return Some(format!("{driver} reports no capacity for {whole} here (CSIStorageCapacity){most}"));
    }
    let allowed = class.allowed_topologies.iter().flatten().map(|term| {
        let all: Vec<String> = term.iter().map(|it| requirement(snapshot.tables(), it)).collect();
        all.join(" and ")
    });
    let allowed: Vec<String> = allowed.collect();
    if allowed.is_empty() {
        return Some(format!("{whole}: {offered}"));
    }
    let allowed = allowed.join(", or ");
    Some(format!(
        "{whole}: the class {name} provisions volumes only for nodes with {allowed} (allowedTopologies); {offered}"
    ))
}

/// Describes the existing volumes of the claim's class.
fn offered(claim: &ClaimInfo, snapshot: Snapshot<'_>) -> String {
    let class = snapshot.text(claim.class);
    let keys = snapshot.volumes().keys(StorageKind::PersistentVolume);
    let all = keys.iter().filter_map(|key| snapshot.volumes().volume(key.name));
    let of_class: Vec<&PersistentVolumeInfo> =
        all.filter(|it| it.class == claim.class).map(AsRef::as_ref).collect();
    if of_class.is_empty() {
        return format!("there is no PersistentVolume of the class {class}");
    }
    let free: Vec<&&PersistentVolumeInfo> =
        of_class.iter().filter(|it| it.claim.is_none() && !it.deleting).collect();
    let total = count(of_class.len() as i64, "PersistentVolume");
    if free.is_empty() {
        let all = match of_class.len() {
            1 => format!("the only PersistentVolume of the class {class} is"),
            _ => format!("all {total} of the class {class} are"),
        };
        return format!(
            "{all} in use, reserved or released (a released volume stays reserved until its claimRef is removed)"
        );
    }
    let wanted = claim.request.unwrap_or_default();
    let large: Vec<&&&PersistentVolumeInfo> = free.iter().filter(|it| it.capacity >= wanted).collect();
    if large.is_empty() {
        let largest = free.iter().map(|it| it.capacity).max().unwrap_or_default();
        return format!(
            "of {total} of the class {class} {} free, the largest has {}",
            are(free.len()),
            size(largest)
        );
    }
    let mut names: Vec<String> = large.iter().map(|it| snapshot.text(it.name).to_owned()).collect();
    names.sort_unstable();
    let names = some(&names, NAMED);
    let fits = if large.len() == 1 { "is" } else { "are" };
    format!(
        "{names} {fits} free and large enough, but not reachable from here, or with other access modes, volume mode or labels"
    )
}

fn are(number: usize) -> String {
    format!("{number} {}", if number == 1 { "is" } else { "are" })
}

/// Describes the drivers of the pod's volumes whose number per node is limited.
fn drivers(pod: &PodInfo, snapshot: Snapshot<'_>) -> Vec<String> {
    let of_claim = |claim: &ClaimInfo| {
        let volume = claim.volume.and_then(|name| snapshot.volumes().volume(name));
        let by_class = || Some(snapshot.volumes().class(claim.class)?.provisioner);
        volume.and_then(|it| it.csi.as_ref()).map(|csi| csi.driver).or_else(by_class)
    };
    let claims = pod.volumes.iter().filter_map(PodVolume::claim);
    let claims = claims.filter_map(|(name, _)| snapshot.volumes().claim(pod.namespace, name));
    let mut drivers: Vec<String> = claims
        .filter_map(|claim| {
            let driver = snapshot.text(of_claim(claim)?);
            Some(format!(
                "{} is a volume of {driver}, whose limit per node is in the CSINode",
                whole(claim, snapshot)
            ))
        })
        .collect();
    drivers.dedup();
    drivers
}

fn is_provisioned(claim: &ClaimInfo, snapshot: Snapshot<'_>) -> bool {
    snapshot.volumes().class(claim.class).is_some_and(|class| !makes_none(class.provisioner))
}

fn makes_none(provisioner: Symbol) -> bool {
    provisioner == known::EMPTY || provisioner == known::NO_PROVISIONER
}

fn is_exclusive(claim: &ClaimInfo, snapshot: Snapshot<'_>) -> bool {
    claim.access_modes.iter().any(|&mode| snapshot.text(mode) == "ReadWriteOncePod")
}

/// Formats a claim with the fields that decide which volumes match.
fn whole(claim: &ClaimInfo, snapshot: Snapshot<'_>) -> String {
    let mut of: Vec<String> = claim.request.map(size).into_iter().collect();
    let class = snapshot.text(claim.class);
    of.push(if class.is_empty() { "no class".to_owned() } else { format!("class {class}") });
    of.extend(claim.access_modes.iter().map(|&mode| snapshot.text(mode).to_owned()));
    format!("the claim {} ({})", snapshot.text(claim.name), of.join(", "))
}

/// Formats a size as in manifests.
pub(super) fn size(of: StorageSize) -> String {
    exact(Measure::Memory, of.bytes())
}
