//! Pod signatures: the equality by which pods share cached decisions.
//!
//! A signature holds a representative pod and compares its fields in place. The closest upstream concept is
//! the signature of opportunistic batching (`pkg/scheduler/framework/runtime/batch.go`), which excludes most
//! pods.

use crate::collections::shared::Shared;
use crate::model::intern::{Marks, TraceIds};
use crate::model::node_pod;
use crate::model::pod::PodInfo;
use crate::model::volume::{PodVolume, VolumeSource};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The signature of pods that are equal in every field a plugin reads, held as a representative pod.
///
/// Equal signatures have equal filters, scores and hints. Pods of one signature may differ in identity (uid,
/// name, versions), conditions and nomination, which the nominator tracks. A pod with an ephemeral volume shares its
/// signature with no other pod: whether it owns the volume's claim depends on its uid.
#[derive(Clone, Debug)]
pub struct Signature(Arc<PodInfo>);

impl Signature {
    /// Returns the signature of a pod.
    pub fn of(pod: &Arc<PodInfo>) -> Self {
        Self(Arc::clone(pod))
    }

    /// Whether `pod` has this signature.
    pub fn is_of(&self, pod: &PodInfo) -> bool {
        alike(&self.0, pod)
    }

    /// Returns the representative pod.
    pub fn pod(&self) -> &PodInfo {
        &self.0
    }
}

impl PartialEq for Signature {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || alike(&self.0, &other.0)
    }
}

impl Eq for Signature {}

impl Hash for Signature {
    /// Hashes only cheap fields that distinguish most pods; equality compares all.
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_but_for_volumes(&self.0, state);
        self.0.volumes.len().hash(state);
    }
}

/// The signature of pods that may differ only in volumes and ResourceClaims: plugins that read neither treat them
/// alike.
#[derive(Clone, Debug)]
pub struct VolumelessSignature(Arc<PodInfo>);

impl VolumelessSignature {
    /// Returns the signature of a pod.
    pub fn of(pod: &Arc<PodInfo>) -> Self {
        Self(Arc::clone(pod))
    }

    /// Returns the representative pod.
    pub(crate) fn pod(&self) -> &PodInfo {
        &self.0
    }

    /// Returns an anonymous pod of this signature without volumes and claims; see [`stand_in`].
    pub(crate) fn bare(&self) -> Arc<PodInfo> {
        stand_in(&self.0).into()
    }
}

impl PartialEq for VolumelessSignature {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || alike_but_for_volumes(&self.0, &other.0)
    }
}

impl Eq for VolumelessSignature {}

impl Hash for VolumelessSignature {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_but_for_volumes(&self.0, state);
    }
}

/// The signature of pods that are equal in every field of [`NodePod`](node_pod::NodePod).
///
/// They may differ only in volumes and in fields that only pod affinity and spreading read. Plugins that judge each
/// node alone treat them alike.
#[derive(Clone, Debug)]
pub struct NodeSignature(Arc<PodInfo>);

impl NodeSignature {
    /// Returns the signature of a pod.
    pub fn of(pod: &Arc<PodInfo>) -> Self {
        Self(Arc::clone(pod))
    }

    /// Returns the representative pod.
    pub(crate) fn pod(&self) -> &PodInfo {
        &self.0
    }

    /// Returns an anonymous pod of this signature without volumes, pod affinity and spreading; see
    /// [`stand_in`].
    pub(crate) fn bare(&self) -> Arc<PodInfo> {
        let mut pod = stand_in(&self.0);
        if pod.pod_affinity.is_some() || !pod.spread.is_empty() {
            pod.template.pod_affinity = None;
            pod.template.spread = [].into();
        }
        pod.into()
    }
}

impl PartialEq for NodeSignature {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || node_pod::are_alike(&self.0, &other.0)
    }
}

impl Eq for NodeSignature {}

impl Hash for NodeSignature {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let pod = &*self.0;
        (pod.scheduler_name, pod.priority, pod.never_preempts).hash(state);
        pod.resources.hash(state);
        pod.ports.hash(state);
        pod.tolerations.hash(state);
        pod.node_affinity.hash(state);
        pod.images.hash(state);
    }
}

/// Returns a copy of the pod without volumes, claims and uid.
///
/// The representative itself may be nominated or bound by now. A full evaluation leaves out the pod's own
/// nomination; a cached evaluation for all identical pods must not.
fn stand_in(pod: &PodInfo) -> PodInfo {
    PodInfo { uid: "".into(), volumes: [].into(), claims: [].into(), group: None, ..pod.clone() }
}

fn hash_but_for_volumes<H: Hasher>(pod: &PodInfo, state: &mut H) {
    (pod.namespace, pod.labels, pod.scheduler_name, pod.owner).hash(state);
    (pod.priority, pod.never_preempts, pod.nominated_node).hash(state);
    pod.resources.hash(state);
    pod.ports.hash(state);
    pod.tolerations.hash(state);
    pod.node_affinity.hash(state);
    pod.spread.hash(state);
    pod.images.hash(state);
    pod.required_features.len().hash(state);
}

/// Whether two pods are equal in every field a plugin reads.
fn alike(pod: &PodInfo, it: &PodInfo) -> bool {
    let is_ephemeral = |volume: &PodVolume| matches!(volume.source, VolumeSource::Ephemeral(_));
    pod.volumes == it.volumes
        && pod.claims == it.claims
        && (pod.uid == it.uid || !pod.volumes.iter().any(is_ephemeral))
        && alike_but_for_volumes(pod, it)
}

/// Whether two pods are equal in every field read by plugins that read neither volumes nor claims.
fn alike_but_for_volumes(pod: &PodInfo, it: &PodInfo) -> bool {
    pod.labels == it.labels
        && node_pod::are_alike(pod, it)
        && (Shared::is_same(&pod.template, &it.template)
            || (pod.namespace == it.namespace
                && pod.owner == it.owner
                && pod.pod_affinity == it.pod_affinity
                && pod.spread == it.spread))
}

impl TraceIds for VolumelessSignature {
    fn mark(&self, marks: &mut Marks) {
        self.pod().mark(marks);
    }
}

impl TraceIds for NodeSignature {
    fn mark(&self, marks: &mut Marks) {
        self.pod().mark(marks);
    }
}

impl TraceIds for Signature {
    fn mark(&self, marks: &mut Marks) {
        self.pod().mark(marks);
    }
}
