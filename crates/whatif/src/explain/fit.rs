//! Counts how many copies of a pod fit in the cluster, and which reasons limit their number.

use crate::explain::answer::{API_VERSION, Group};
use crate::explain::claims::{is_replica, ordinal, with_own_claims};
use crate::explain::place::Place;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use supercargo_core::incremental::DecisionCache;
use supercargo_core::node::NodeIdx;
use supercargo_core::pod::PodInfo;
use supercargo_core::volume::StorageKey;

/// `kind` of the answer.
const KIND: &str = "FitCheck";

/// The result of a capacity check.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FitCheck {
    /// [`API_VERSION`].
    pub api_version: &'static str,
    /// `FitCheck`.
    pub kind: &'static str,
    /// `namespace/name` of the copied pod.
    pub pod: String,
    /// Number of copies that fit.
    pub fits: usize,
    /// Whether the limit was reached, so that more may fit.
    pub at_limit: bool,
    /// Number of copies per node, highest number first.
    pub nodes: Vec<OnNode>,
    /// Why no further copy fits; empty at the limit.
    pub limited_by: Vec<Group>,
}

/// The copies on one node.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OnNode {
    /// The node's name.
    pub node: String,
    /// Number of copies.
    pub pods: usize,
}

/// Places copies of a pod until one does not fit or `limit` is reached. The cache is the same afterwards.
///
/// Copies of a StatefulSet replica get the ordinals from `first` and their own claims. Pods with generic ephemeral
/// volumes get their own claims, too.
pub fn fit(place: &mut Place<'_>, pod: &PodInfo, limit: usize, first: usize) -> FitCheck {
    let mut decisions = DecisionCache::default();
    let (mut placed, mut claims) = (Vec::new(), Vec::new());
    let mut by_node: BTreeMap<NodeIdx, usize> = BTreeMap::new();
    while placed.len() < limit {
        let copy = Arc::new(copy(place, pod, placed.len(), first, &mut claims));
        let Some(node) = place.settle(&mut decisions, &copy) else { break };
        *by_node.entry(node).or_default() += 1;
        placed.push(copy);
    }
    let at_limit = placed.len() == limit;
    let limited_by = if at_limit {
        Vec::new()
    } else {
        let one_more = copy(place, pod, placed.len(), first, &mut claims);
        crate::explain::short_reasons(place, &one_more)
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

/// Returns copy `number` of the pod; adds the claims created for it to `made`.
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
