//! Converts nodes.

use super::{label_set, requests};
use crate::api::{Malformed, Node};
use supercargo_core::model::intern::{Symbol, Tables};
use supercargo_core::model::node::{NodeInfo, Taint, TaintEffect};

/// Converts a node.
///
/// # Errors
/// If upstream's decoder would reject the object.
pub fn node(tables: &mut Tables, node: &Node) -> Result<NodeInfo, Malformed> {
    let content = node.content()?;
    let (allocatable, allocatable_pods) = requests::allocatable(tables, &content.status.allocatable)
        .map_err(|reason| node.malformed(reason))?;
    let taints = content.spec.taints.iter().map(|taint| Taint {
        key: tables.symbol(&taint.key),
        value: tables.symbol(&taint.value),
        effect: taint_effect(tables, &taint.effect),
    });
    let taints = taints.collect();
    let images = content.status.images.iter();
    let named = images.flat_map(|image| image.names.iter().map(|name| (name, image.size_bytes)));
    Ok(NodeInfo {
        name: tables.symbol(node.name()),
        labels: label_set(tables, &node.metadata),
        taints: tables.taint_set(taints),
        unschedulable: content.spec.unschedulable,
        allocatable,
        allocatable_pods,
        images: named.map(|(name, size)| (tables.symbol(name), size)).collect(),
        declared_features: declared_features(tables, &content.status.declared_features),
    })
}

/// Kubelet features known to upstream (`component-helpers/nodedeclaredfeatures/features`), sorted.
const KNOWN_FEATURES: &[&str] = &[
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
    "UserNamespacesHostNetworkSupport",
];

/// Returns the known features in a node's list. Upstream merges both lists as sorted ones, so it misses a feature
/// listed after a later name. No API server admits such a list.
fn declared_features(tables: &mut Tables, list: &[String]) -> Box<[Symbol]> {
    let mut known = KNOWN_FEATURES.iter().copied().peekable();
    let mut seen = Vec::new();
    for feature in list {
        while known.next_if(|known| *known < feature.as_str()).is_some() {}
        seen.extend(known.next_if(|known| known == feature).map(|feature| tables.symbol(feature)));
    }
    seen.into()
}

/// Converts the effect of a taint or toleration.
pub(super) fn taint_effect(tables: &mut Tables, effect: &str) -> TaintEffect {
    match effect {
        "NoSchedule" => TaintEffect::NoSchedule,
        "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
        "NoExecute" => TaintEffect::NoExecute,
        other => TaintEffect::Other(tables.symbol(other)),
    }
}
