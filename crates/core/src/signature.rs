//! What two pods must have in common for a decision to be the same about both.
//!
//! Names the pod, and holds nothing of its own: the pod's fields are compared where they are. Upstream's nearest idea is
//! the signature of opportunistic batching (`pkg/scheduler/framework/runtime/batch.go`), which leaves out most pods.

use crate::pod::{PodInfo, PodTemplate};
use crate::shared::Shared;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A pod that stands for all that differ from it in nothing a plugin reads.
///
/// Equal signatures have equal filters, scores and hints. What tells pods apart beside it: their identity (uid, name,
/// versions), what is said of them (conditions), and whether they are nominated, which the nominator knows.
#[derive(Clone, Debug)]
pub struct Signature(Arc<PodInfo>);

impl Signature {
    /// The signature of a pod.
    pub fn of(pod: &Arc<PodInfo>) -> Self {
        Self(Arc::clone(pod))
    }

    /// Whether it is the signature of this pod too.
    pub fn is_of(&self, pod: &PodInfo) -> bool {
        alike(&self.0, pod)
    }

    /// The pod that stands for the others.
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
    /// Reads what is cheap and tells most pods apart; equality has the last word.
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_but_for_volumes(&self.0, state);
        self.0.volumes.len().hash(state);
    }
}

/// A pod that stands for all that differ from it at most in their volumes: to all but the plugins that read these they are the same.
#[derive(Clone, Debug)]
pub struct ShapeSignature(Arc<PodInfo>);

impl ShapeSignature {
    /// That of a pod.
    pub fn of(pod: &Arc<PodInfo>) -> Self {
        Self(Arc::clone(pod))
    }

    /// The pod that stands for the others.
    pub(crate) fn pod(&self) -> &PodInfo {
        &self.0
    }

    /// A pod of this signature that has no volumes and is nobody: see [`stand_in`].
    pub(crate) fn bare(&self) -> Arc<PodInfo> {
        stand_in(&self.0).into()
    }
}

impl PartialEq for ShapeSignature {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || alike_but_for_volumes(&self.0, &other.0)
    }
}

impl Eq for ShapeSignature {}

impl Hash for ShapeSignature {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_but_for_volumes(&self.0, state);
    }
}

/// A pod that stands for all that differ from it at most in volumes and what ties them to other pods: what affinity, spreading and nothing else
/// reads. Nodes are the same to all of them (see `Reads` in `framework`).
#[derive(Clone, Debug)]
pub struct NodeSignature(Arc<PodInfo>);

impl NodeSignature {
    /// That of a pod.
    pub fn of(pod: &Arc<PodInfo>) -> Self {
        Self(Arc::clone(pod))
    }

    /// The pod that stands for the others.
    pub(crate) fn pod(&self) -> &PodInfo {
        &self.0
    }

    /// A pod of this signature that has no volumes, is not tied to other pods by its own terms and is nobody: see [`stand_in`].
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
        Arc::ptr_eq(&self.0, &other.0) || alike_to_nodes(&self.0, &other.0)
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

/// A pod like this one, without its volumes and its uid. The pod itself may be nominated or placed by now: a full evaluation leaves out its own
/// nomination, what is cached for all pods like it does not.
fn stand_in(pod: &PodInfo) -> PodInfo {
    PodInfo { uid: "".into(), volumes: [].into(), ..pod.clone() }
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
    (pod.required_features.len(), pod.unjudged.len()).hash(state);
}

/// Whether two pods differ in nothing a plugin reads.
fn alike(pod: &PodInfo, it: &PodInfo) -> bool {
    pod.volumes == it.volumes && alike_but_for_volumes(pod, it)
}

/// The same, of plugins that do not read volumes.
fn alike_but_for_volumes(pod: &PodInfo, it: &PodInfo) -> bool {
    pod.labels == it.labels
        && alike_to_nodes(pod, it)
        && (Shared::is_same(&pod.template, &it.template)
            || (pod.namespace == it.namespace
                && pod.owner == it.owner
                && pod.pod_affinity == it.pod_affinity
                && pod.spread == it.spread))
}

/// Whether two pods differ in nothing that is read but what [`alike_but_for_volumes`] and [`alike`] add.
fn alike_to_nodes(pod: &PodInfo, it: &PodInfo) -> bool {
    // Destructured, so that a new field of a pod must be put on one side or the other.
    let PodInfo {
        uid: _,
        name: _,
        resource_version: _,
        generation: _,
        start_time: _,
        preempted: _,
        scheduled: _,
        labels: _,
        volumes: _,
        deleting,
        node_name,
        nominated_node,
        node_affinity,
        template,
    } = pod;
    *deleting == it.deleting
        && *node_name == it.node_name
        && *nominated_node == it.nominated_node
        && *node_affinity == it.node_affinity
        && (Shared::is_same(template, &it.template) || are_templates_alike_to_nodes(template, &it.template))
}

fn are_templates_alike_to_nodes(template: &PodTemplate, it: &PodTemplate) -> bool {
    let PodTemplate {
        namespace: _,
        owner: _,
        pod_affinity: _,
        spread: _,
        scheduler_name,
        priority,
        never_preempts,
        gates,
        resources,
        ports,
        tolerations,
        preferred_node_affinity,
        images,
        containers,
        required_features,
        extended_resources,
        unjudged,
    } = template;
    *scheduler_name == it.scheduler_name
        && *priority == it.priority
        && *never_preempts == it.never_preempts
        && *gates == it.gates
        && *resources == it.resources
        && *ports == it.ports
        && *tolerations == it.tolerations
        && *preferred_node_affinity == it.preferred_node_affinity
        && *images == it.images
        && *containers == it.containers
        && *required_features == it.required_features
        && *extended_resources == it.extended_resources
        && *unjudged == it.unjudged
}
