//! How many more pods like one there is room for, and what there is too little of for one more.

use super::answer::{API_VERSION, Group};
use super::claims::{is_replica, ordinal, with_own_claims};
use super::place::Place;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use supercargo_core::cycle::Shapes;
use supercargo_core::node::NodeIdx;
use supercargo_core::pod::PodInfo;
use supercargo_core::volume::StorageKey;

/// `kind` of the answer.
const KIND: &str = "FitCheck";

/// How many more fit.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FitCheck {
    /// [`API_VERSION`].
    pub api_version: &'static str,
    /// `FitCheck`.
    pub kind: &'static str,
    /// `namespace/name` of the pod that is copied.
    pub pod: String,
    /// How many fit, one after the other.
    pub fits: usize,
    /// Whether nobody looked for more.
    pub at_limit: bool,
    /// How many would go where, most first.
    pub nodes: Vec<OnNode>,
    /// What keeps one more out; nothing where nobody looked.
    pub limited_by: Vec<Group>,
}

/// Copies on a node.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OnNode {
    /// The node.
    pub node: String,
    /// How many.
    pub pods: usize,
}

/// Places copies of a pod until one more does not fit, or there are `limit`. Each copy of a StatefulSet's replica has claims of its own, as the replica
/// has whose ordinal is so far from `first`; each pod with generic ephemeral volumes has claims of its own as well.
pub fn fit(place: &mut Place<'_>, pod: &PodInfo, limit: usize, first: usize) -> FitCheck {
    let mut shapes = Shapes::default();
    let (mut placed, mut claims) = (Vec::new(), Vec::new());
    let mut by_node: BTreeMap<NodeIdx, usize> = BTreeMap::new();
    while placed.len() < limit {
        let copy = Arc::new(copy(place, pod, placed.len(), first, &mut claims));
        let Some(node) = place.settle(&mut shapes, &copy) else { break };
        *by_node.entry(node).or_default() += 1;
        placed.push(copy);
    }
    let at_limit = placed.len() == limit;
    let limited_by = if at_limit {
        Vec::new()
    } else {
        let one_more = copy(place, pod, placed.len(), first, &mut claims);
        super::short_reasons(place, &one_more)
    };
    let nodes = by_node.into_iter().map(|(node, pods)| OnNode { node: place.name(node), pods });
    let mut nodes: Vec<OnNode> = nodes.collect();
    nodes.sort_by(|a, b| (Reverse(a.pods), &a.node).cmp(&(Reverse(b.pods), &b.node)));
    for copy in &placed {
        place.cache.remove_pod(&copy.uid);
    }
    for claim in claims {
        place.cache.volumes_mut().remove(claim);
    }
    let pod = place.snapshot().pod_key(pod);
    FitCheck { api_version: API_VERSION, kind: KIND, pod, fits: placed.len(), at_limit, nodes, limited_by }
}

/// The copy of this number; the claims that were made for it join `made`.
fn copy(
    place: &mut Place<'_>,
    pod: &PodInfo,
    number: usize,
    first: usize,
    made: &mut Vec<StorageKey>,
) -> PodInfo {
    let set = ordinal(&pod.name).filter(|_| is_replica(pod));
    let name = match set {
        Some((set, _)) => format!("{set}-{}", first + number),
        None => format!("{}-{number}", pod.name),
    };
    let uid = format!("{}-{number}", pod.uid).into();
    let copy = PodInfo { uid, name: name.into(), node_name: None, nominated_node: None, ..pod.clone() };
    let (copy, claims) = with_own_claims(place.tables, place.cache, pod, copy);
    made.extend(claims);
    copy
}
