//! Nodes.

use super::{label_set, requests};
use crate::api::{Malformed, Node};
use supercargo_core::intern::{Symbol, Tables};
use supercargo_core::node::{NodeInfo, Taint, TaintEffect};

/// A node as the engine sees it.
///
/// # Errors
/// When upstream's decoder would refuse the object.
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

/// The features of the kubelet that upstream knows (`component-helpers/nodedeclaredfeatures/features`), sorted.
const KNOWN_FEATURES: &[&str] = &[
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
    "UserNamespacesHostNetworkSupport",
];

/// The known features of a node's list. Upstream goes through that list and its own side by side, as sorted ones, so a
/// feature that stands behind a later name goes unseen; no API server admits such a list.
fn declared_features(tables: &mut Tables, list: &[String]) -> Box<[Symbol]> {
    let mut known = KNOWN_FEATURES.iter().copied().peekable();
    let mut seen = Vec::new();
    for feature in list {
        while known.next_if(|known| *known < feature.as_str()).is_some() {}
        seen.extend(known.next_if(|known| known == feature).map(|feature| tables.symbol(feature)));
    }
    seen.into()
}

/// The effect of a taint or a toleration.
pub(super) fn taint_effect(tables: &mut Tables, effect: &str) -> TaintEffect {
    match effect {
        "NoSchedule" => TaintEffect::NoSchedule,
        "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
        "NoExecute" => TaintEffect::NoExecute,
        other => TaintEffect::Other(tables.symbol(other)),
    }
}
