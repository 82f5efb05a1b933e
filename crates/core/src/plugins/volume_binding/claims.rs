//! The claims of a pod: bound ones, those that wait for its node, and errors.

use crate::cache::Snapshot;
use crate::framework::{CycleError, Rejection};
use crate::model::pod::PodInfo;
use crate::model::volume::{BindingMode, ClaimInfo, PodVolume, StorageClassInfo};
use std::sync::Arc;

/// The claims of a pod, once for every volume that names them.
pub(super) struct Claims {
    /// Fully bound claims.
    pub(super) bound: Vec<Arc<ClaimInfo>>,
    /// Claims to bind or provision after the pod has a node, with their classes.
    pub(super) delayed: Vec<(Arc<ClaimInfo>, Arc<StorageClassInfo>)>,
}

/// Why no node is feasible.
pub(super) enum Refusal {
    /// An object is missing or not ready.
    Rejected(Rejection),
    /// The attempt ends with an error.
    Failed(CycleError),
}

fn rejected(text: impl Into<std::borrow::Cow<'static, str>>) -> Refusal {
    Refusal::Rejected(Rejection::unresolvable(text))
}

/// Returns the claims of a pod; `None` if it has none.
pub(super) fn of(pod: &PodInfo, snapshot: Snapshot<'_>) -> Result<Option<Claims>, Refusal> {
    if pod.volumes.iter().all(|volume| volume.claim().is_none()) {
        return Ok(None);
    }
    for volume in &pod.volumes {
        is_usable(pod, volume, snapshot)?;
    }
    let mut claims = Claims { bound: Vec::new(), delayed: Vec::new() };
    let mut is_immediate = false;
    for (name, _) in pod.volumes.iter().filter_map(PodVolume::claim) {
        // An assumed claim names its future volume.
        let found = snapshot.volumes().assumed_claim(pod.namespace, name);
        let claim = found.expect("claims that are missing were refused above");
        if claim.bound_volume().is_some() {
            claims.bound.push(Arc::clone(claim));
            continue;
        }
        match delaying_class(claim, snapshot)? {
            Some(class) if claim.volume.is_none() => {
                claims.delayed.push((Arc::clone(claim), Arc::clone(class)));
            }
            _ => is_immediate = true,
        }
    }
    if is_immediate {
        return Err(rejected("pod has unbound immediate PersistentVolumeClaims"));
    }
    Ok(Some(claims))
}

/// Checks that the volume's claim, if any, exists and is usable by the pod.
fn is_usable(pod: &PodInfo, volume: &PodVolume, snapshot: Snapshot<'_>) -> Result<(), Refusal> {
    let Some((name, is_own)) = volume.claim() else { return Ok(()) };
    let text = snapshot.text(name);
    let Some(claim) = snapshot.volumes().claim(pod.namespace, name) else {
        return Err(rejected(if is_own {
            format!("waiting for ephemeral volume controller to create the persistentvolumeclaim \"{text}\"")
        } else {
            format!("persistentvolumeclaim \"{text}\" not found")
        }));
    };
    if claim.lost {
        let volume = claim.volume.map_or("", |volume| snapshot.text(volume));
        let text =
            format!("persistentvolumeclaim \"{text}\" bound to non-existent persistentvolume \"{volume}\"");
        return Err(rejected(text));
    }
    if claim.deleting {
        return Err(rejected(format!("persistentvolumeclaim \"{text}\" is being deleted")));
    }
    if is_own && claim.controller.as_ref() != Some(&pod.uid) {
        let namespace = snapshot.text(pod.namespace);
        return Err(rejected(format!(
            "PVC {namespace}/{text} was not created for pod {} (pod is not owner)",
            snapshot.pod_key(pod)
        )));
    }
    Ok(())
}

/// Returns the class of a claim if its binding mode is WaitForFirstConsumer.
fn delaying_class<'a>(
    claim: &ClaimInfo,
    snapshot: Snapshot<'a>,
) -> Result<Option<&'a Arc<StorageClassInfo>>, Refusal> {
    let Some(class) = snapshot.volumes().class(claim.class) else { return Ok(None) };
    match class.binding_mode {
        Some(BindingMode::WaitForFirstConsumer) => Ok(Some(class)),
        Some(BindingMode::Immediate) => Ok(None),
        None => {
            let name = snapshot.text(claim.class);
            let text = format!("VolumeBindingMode not set for StorageClass \"{name}\"");
            Err(Refusal::Failed(CycleError(text)))
        }
    }
}
