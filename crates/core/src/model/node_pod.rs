//! The fields of a pod that plugins may read if they judge each node alone.
//!
//! Their results are cached and reused for all pods of a [`NodeSignature`](super::signature::NodeSignature). One list
//! gives both the fields that plugins can read and the fields that the signature compares, so that a plugin cannot
//! read a field that is not compared.

use crate::collections::shared::Shared;
use crate::model::device::ContainerRequest;
use crate::model::intern::Symbol;
use crate::model::pod::{HostPort, PodInfo, PodTemplate, PreferredTerms, Toleration};
use crate::model::resources::PodResources;
use crate::model::selector::RequiredNodeAffinity;

/// A pod as shown to plugins that judge each node alone.
///
/// It has a method for each field that [`NodeSignature`](super::signature::NodeSignature) compares:
///
/// ```
/// use supercargo_core::model::node_pod::NodePod;
///
/// fn tolerates_nothing(pod: NodePod<'_>) -> bool {
///     pod.tolerations().is_empty()
/// }
/// ```
///
/// Other fields are out of reach. Pods of one signature may differ in them, and a cached result would be wrong:
///
/// ```compile_fail,E0599
/// use supercargo_core::model::node_pod::NodePod;
///
/// fn mounts_nothing(pod: NodePod<'_>) -> bool {
///     pod.volumes().is_empty()
/// }
/// ```
///
/// So is the pod itself:
///
/// ```compile_fail,E0616
/// use supercargo_core::model::node_pod::NodePod;
///
/// fn tolerates_nothing(pod: NodePod<'_>) -> bool {
///     pod.0.tolerations.is_empty()
/// }
/// ```
#[derive(Clone, Copy)]
pub struct NodePod<'a>(&'a PodInfo);

impl<'a> NodePod<'a> {
    /// Returns the view of a pod.
    pub fn of(pod: &'a PodInfo) -> Self {
        Self(pod)
    }
}

/// Writes the methods of [`NodePod`] and the comparison of the same fields.
///
/// Each field of the struct must be in one of the two lists.
macro_rules! shown_and_compared {
    ($compare:ident: $struct:ident { $($field:ident: $type:ty),* $(,)? } but not { $($hidden:ident),* $(,)? }) => {
        impl<'a> NodePod<'a> {
            $(
                #[doc = concat!("Returns [`", stringify!($struct), "::", stringify!($field), "`].")]
                #[inline]
                pub fn $field(self) -> &'a $type {
                    &self.0.$field
                }
            )*
        }

        /// Whether two values are equal in every field that [`NodePod`] shows.
        fn $compare(one: &$struct, other: &$struct) -> bool {
            let $struct { $($field,)* $($hidden: _),* } = one;
            $(*$field == other.$field)&&*
        }
    };
}

shown_and_compared!(are_pods_alike: PodInfo {
    deleting: bool,
    node_name: Option<Symbol>,
    nominated_node: Option<Symbol>,
    node_affinity: Shared<RequiredNodeAffinity>,
} but not {
    uid, name, resource_version, generation, start_time, preempted, scheduled, group, labels, volumes, claims,
    template,
});

shown_and_compared!(are_templates_alike: PodTemplate {
    scheduler_name: Symbol,
    priority: i32,
    never_preempts: bool,
    gates: [Symbol],
    resources: PodResources,
    ports: [HostPort],
    tolerations: [Toleration],
    preferred_node_affinity: Option<PreferredTerms>,
    images: [Symbol],
    image_sources: u32,
    required_features: [Symbol],
    extended_resources: [Symbol],
    container_requests: [ContainerRequest],
} but not {
    namespace, owner, pod_affinity, spread,
});

/// Whether two pods are equal in every field that [`NodePod`] shows.
pub(super) fn are_alike(pod: &PodInfo, it: &PodInfo) -> bool {
    are_pods_alike(pod, it)
        && (Shared::is_same(&pod.template, &it.template) || are_templates_alike(&pod.template, &it.template))
}
