//! Claims of hypothetical pods.
//!
//! Each replica of a StatefulSet and each pod with generic ephemeral volumes has its own claims, and so has each pod
//! with a ResourceClaimTemplate. All pods of a template share the claims that the template names.
//!
//! Upstream: `pkg/controller/statefulset/stateful_set_utils.go#getPersistentVolumeClaims`,
//! `pkg/controller/volume/ephemeral`.

use crate::explain::device_claims::{release, with_own_device_claims};
use std::sync::Arc;
use supercargo_core::model::intern::{Symbol, Tables};
use supercargo_core::model::pod::{ControllerKind, PodInfo};
use supercargo_core::model::volume::{ClaimInfo, PodVolume, StorageObject, VolumeSource};
use supercargo_core::scheduler::Trial;

/// The labels with a replica's ordinal and its name.
const INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";
const NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";

/// Returns the pod as its controller would create it again: without a node and without status.
pub fn afresh(pod: &PodInfo) -> PodInfo {
    PodInfo {
        node_name: None,
        nominated_node: None,
        start_time: None,
        deleting: false,
        preempted: false,
        scheduled: None,
        ..pod.clone()
    }
}

/// Returns whether the pod is a replica of a StatefulSet, whose name ends in its ordinal.
pub fn is_replica(pod: &PodInfo) -> bool {
    pod.owner.is_some_and(|owner| owner.kind == ControllerKind::StatefulSet)
}

/// Splits the name of a replica of a StatefulSet into the set's name and the ordinal.
pub fn ordinal(name: &str) -> Option<(&str, usize)> {
    let (set, ordinal) = name.rsplit_once('-')?;
    Some((set, ordinal.parse().ok()?))
}

/// Replaces the claims of `copy`, a pod to come with its own name and uid, by its own instead of those of `like`.
///
/// Creates the claims in the trial. Existing claims of a replica are reused.
pub fn with_own_claims(trial: &mut Trial, like: &PodInfo, copy: PodInfo) -> PodInfo {
    let mut copy = if is_replica(like) { labelled(trial.tables_mut(), copy) } else { copy };
    let mut volumes: Vec<PodVolume> = copy.volumes.to_vec();
    for volume in &mut volumes {
        let name = &volume.name;
        let (old, new) = match volume.source {
            VolumeSource::Ephemeral(old) => (old, format!("{}-{name}", copy.name)),
            VolumeSource::Claim(old)
                if is_replica(like) && trial.tables().text(old) == format!("{name}-{}", like.name) =>
            {
                (old, format!("{name}-{}", copy.name))
            }
            _ => continue,
        };
        let new = trial.tables_mut().symbol(&new);
        let is_own = matches!(volume.source, VolumeSource::Ephemeral(_));
        volume.source = if is_own { VolumeSource::Ephemeral(new) } else { VolumeSource::Claim(new) };
        create_claim(trial, (like, old), (&copy, new), is_own);
    }
    copy.volumes = volumes.into();
    with_own_device_claims(trial, like, copy)
}

/// Returns the pod as its controller would recreate it, with new generic ephemeral volumes, and claims without its
/// devices. Creates the claims in the trial.
pub fn with_new_ephemeral_claims(trial: &mut Trial, pod: PodInfo) -> PodInfo {
    release(trial, &pod);
    let mut volumes: Vec<PodVolume> = pod.volumes.to_vec();
    for volume in &mut volumes {
        let VolumeSource::Ephemeral(old) = volume.source else { continue };
        // `~` is not valid in the name of a real claim.
        let new = format!("{}~", trial.tables().text(old));
        let new = trial.tables_mut().symbol(&new);
        volume.source = VolumeSource::Ephemeral(new);
        create_claim(trial, (&pod, old), (&pod, new), true);
    }
    PodInfo { volumes: volumes.into(), ..pod }
}

/// Creates a claim like an existing one, unless it exists.
fn create_claim(
    trial: &mut Trial,
    (like, old): (&PodInfo, Symbol),
    (copy, new): (&PodInfo, Symbol),
    is_own: bool,
) {
    let volumes = trial.snapshot().volumes();
    let is_known = volumes.claim(copy.namespace, new).is_some();
    let Some(pattern) = volumes.claim(like.namespace, old).filter(|_| !is_known) else { return };
    let claim = ClaimInfo {
        name: new,
        uid: format!("{}/{}", copy.uid, trial.tables().text(new)).into(),
        resource_version: "".into(),
        controller: is_own.then(|| Arc::clone(&copy.uid)),
        deleting: false,
        lost: false,
        volume: None,
        bind_completed: false,
        selected_node: None,
        ..ClaimInfo::clone(pattern)
    };
    trial.set_storage(StorageObject::Claim(Arc::new(claim)));
}

/// Sets the labels with ordinal and name of a StatefulSet replica.
fn labelled(tables: &mut Tables, copy: PodInfo) -> PodInfo {
    let Some((_, ordinal)) = ordinal(&copy.name) else { return copy };
    let own = [(INDEX_LABEL, ordinal.to_string()), (NAME_LABEL, copy.name.to_string())];
    let own = own.map(|(key, value)| (tables.symbol(key), tables.symbol(&value)));
    let labels: Vec<(Symbol, Symbol)> = tables.labels(copy.labels).iter().collect();
    let labels = labels
        .into_iter()
        .map(|(key, value)| own.iter().find(|(of, _)| *of == key).copied().unwrap_or((key, value)));
    let labels = tables.label_set(labels.collect());
    PodInfo { labels, ..copy }
}
