//! Counts how many copies of a pod fit in the cluster, and which reasons limit their number.

use crate::explain::answer::{API_VERSION, Group, Preemption};
use crate::explain::claims::{is_replica, ordinal, with_own_claims};
use crate::explain::place::Place;
use crate::explain::{find_room, groups, named_victims};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use supercargo_core::model::group::{GroupKey, GroupPolicy, Membership, PodGroup};
use supercargo_core::model::node::NodeIdx;
use supercargo_core::model::pod::PodInfo;

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
    /// How many groups start; only if the pod is a member of a gang.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<GroupFit>,
    /// The number of further copies that fit by preemption; only if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preemption: Option<PreemptingFit>,
}

/// The copies beyond [`FitCheck::fits`] for which the scheduler would preempt pods.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreemptingFit {
    /// Number of these copies.
    pub fits: usize,
    /// Number of pods that it would preempt for all of them.
    pub victims: usize,
    /// Whether the limit was reached, so that more may fit.
    pub at_limit: bool,
    /// Node and victims of each copy, in the order of the decisions; no victims if those before it left enough room.
    pub steps: Vec<Preemption>,
}

/// The result of a capacity check for whole groups.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupFit {
    /// `namespace/name` of the group that is copied.
    pub group: String,
    /// Number of members of each copy.
    pub min_count: usize,
    /// Number of groups that start one after the other.
    pub starts: usize,
    /// Whether the limit was reached, so that more may start.
    pub at_limit: bool,
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

/// Places copies of a pod until one does not fit or `limit` is reached. Restores the cache afterwards.
///
/// Copies of a StatefulSet replica get the ordinals from `first` and their own claims. Pods with generic ephemeral
/// volumes get their own claims, too. If it `preempts`, further copies take the place of the scheduler's victims.
pub fn fit(place: &mut Place<'_>, pod: &PodInfo, limit: usize, first: usize, preempts: bool) -> FitCheck {
    let groups = fit_groups(place, pod, limit, first);
    place.reverted(|place| {
        let mut fits = 0;
        let mut by_node: BTreeMap<NodeIdx, usize> = BTreeMap::new();
        while fits < limit {
            let copy = Arc::new(copy(place, pod, fits, first));
            let Some(node) = place.settle(&copy) else { break };
            *by_node.entry(node).or_default() += 1;
            fits += 1;
        }
        let at_limit = fits == limit;
        let limited_by = if at_limit {
            Vec::new()
        } else {
            let one_more = copy(place, pod, fits, first);
            crate::explain::short_reasons(place, &one_more)
        };
        let nodes = by_node.into_iter().map(|(node, pods)| OnNode { node: place.name(node), pods });
        let mut nodes: Vec<OnNode> = nodes.collect();
        nodes.sort_by(|a, b| (Reverse(a.pods), &a.node).cmp(&(Reverse(b.pods), &b.node)));
        let preemption = preempts.then(|| fit_by_preemption(place, pod, (fits, limit), first));
        let pod = place.snapshot().pod_key(pod);
        FitCheck {
            api_version: API_VERSION,
            kind: KIND,
            pod,
            fits,
            at_limit,
            nodes,
            limited_by,
            groups,
            preemption,
        }
    })
}

/// Places copies beyond those that fit, and removes the victims that the scheduler would preempt for each.
fn fit_by_preemption(
    place: &mut Place<'_>,
    pod: &PodInfo,
    (before, limit): (usize, usize),
    first: usize,
) -> PreemptingFit {
    let mut fit = PreemptingFit { fits: 0, victims: 0, at_limit: false, steps: Vec::new() };
    while before + fit.fits < limit {
        let copy = Arc::new(copy(place, pod, before + fit.fits, first));
        let mut victims = Vec::new();
        let mut node = place.settle(&copy);
        if node.is_none() {
            let Some((_, found)) = find_room(place, &copy).1 else { return fit };
            let step = named_victims(place, &found);
            for victim in &found {
                place.trial.remove_pod(&victim.uid);
            }
            victims = step;
            node = place.settle(&copy);
        }
        // The engine found the node feasible without the victims.
        let Some(node) = node else { return fit };
        fit.fits += 1;
        fit.victims += victims.len();
        fit.steps.push(Preemption { node: place.name(node), victims });
    }
    fit.at_limit = true;
    fit
}

/// Starts copies of the pod's gang, each with `minCount` copies of the pod, until one does not start. At most `limit`
/// pods are copied.
fn fit_groups(place: &mut Place<'_>, pod: &PodInfo, limit: usize, first: usize) -> Option<GroupFit> {
    let key = pod.group_key()?;
    let group = place.snapshot().lookups().group(key)?.clone();
    let GroupPolicy::Gang(min_count) = group.policy else { return None };
    let (namespace, name) = (place.tables().text(key.namespace), place.tables().text(key.name));
    let (group_name, name) = (format!("{namespace}/{name}"), name.to_owned());
    let most = limit / min_count.max(1);
    let mut keys = Vec::new();
    let starts = place.reverted(|place| {
        let mut starts = 0;
        while starts < most {
            let name = place.trial.tables_mut().symbol(&format!("{name}-{starts}"));
            let new = GroupKey { name, ..key };
            let old = place.trial.replace_group(new, Some(PodGroup { key: new, ..group.clone() }));
            keys.push((new, old));
            let member = |number: usize| {
                let mut copy = copy(place, pod, starts * min_count + number, first);
                copy.group = copy.group.map(|of| Box::new(Membership { group: name, ..*of }));
                Arc::new(copy)
            };
            let members: Vec<Arc<PodInfo>> = (0..min_count).map(member).collect();
            if groups::settle(place, new, &members).len() < min_count {
                break;
            }
            starts += 1;
        }
        starts
    });
    for (key, old) in keys {
        place.trial.replace_group(key, old);
    }
    Some(GroupFit { group: group_name, min_count, starts, at_limit: starts == most })
}

/// Returns copy `number` of the pod, with its own claims.
pub(super) fn copy(place: &mut Place<'_>, pod: &PodInfo, number: usize, first: usize) -> PodInfo {
    let set = ordinal(&pod.name).filter(|_| is_replica(pod));
    let name = match set {
        Some((set, _)) => format!("{set}-{}", first + number),
        None => format!("{}-{number}", pod.name),
    };
    let uid = format!("{}-{number}", pod.uid).into();
    let copy = PodInfo { uid, name: name.into(), node_name: None, nominated_node: None, ..pod.clone() };
    with_own_claims(place.trial, pod, copy)
}
