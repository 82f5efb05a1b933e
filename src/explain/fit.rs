//! How many more pods like one there is room for, and what there is too little of for one more.

use super::answer::{API_VERSION, Group};
use super::place::Place;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use supercargo_core::cycle::Shapes;
use supercargo_core::node::NodeIdx;
use supercargo_core::pod::PodInfo;

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

/// Places copies of a pod until one more does not fit, or there are `limit`.
pub fn fit(place: &mut Place<'_>, pod: &PodInfo, limit: usize) -> FitCheck {
    let mut shapes = Shapes::default();
    let mut placed = Vec::new();
    let mut by_node: BTreeMap<NodeIdx, usize> = BTreeMap::new();
    while placed.len() < limit {
        let copy = Arc::new(copy(pod, placed.len()));
        let Some(node) = place.settle(&mut shapes, &copy) else { break };
        *by_node.entry(node).or_default() += 1;
        placed.push(copy);
    }
    let at_limit = placed.len() == limit;
    let limited_by =
        if at_limit { Vec::new() } else { super::short_reasons(place, &copy(pod, placed.len())) };
    let nodes = by_node.into_iter().map(|(node, pods)| OnNode { node: place.name(node), pods });
    let mut nodes: Vec<OnNode> = nodes.collect();
    nodes.sort_by(|a, b| (Reverse(a.pods), &a.node).cmp(&(Reverse(b.pods), &b.node)));
    for copy in &placed {
        place.cache.remove_pod(&copy.uid);
    }
    let pod = place.snapshot().pod_key(pod);
    FitCheck { api_version: API_VERSION, kind: KIND, pod, fits: placed.len(), at_limit, nodes, limited_by }
}

fn copy(pod: &PodInfo, number: usize) -> PodInfo {
    let (uid, name) = (format!("{}-{number}", pod.uid).into(), format!("{}-{number}", pod.name).into());
    PodInfo { uid, name, node_name: None, nominated_node: None, ..pod.clone() }
}
