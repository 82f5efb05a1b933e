//! How much work one attempt is. A pod may carry as many terms, tolerations, values and so on as fit into an object, and each is
//! compared with nodes, pods, taints or volumes: without a bound, one pod could keep all others waiting.
//!
//! Each product has a bound of its own. What a pod may carry many of is counted by one walk over the pod; what of the cluster it is
//! compared with is counted only if the pod carries more than [`FEW`] of it.

use super::Scheduler;
use crate::cache::Snapshot;
use crate::hash::IdSet;
use crate::intern::Symbol;
use crate::pod::{Parsed, PodAffinityTerm, PodInfo};
use crate::selector::Selector;

/// The largest product of a pod that extenders decide about, which is evaluated in one step: some 300 ms.
const EXTENDED_MAX: u64 = 50_000_000;

/// The largest other product that is evaluated in one step: some 20 ms at 5 to 7 ns a comparison. It allows 600 resources on 5,000 nodes.
const WHOLE_MAX: u64 = 3_000_000;

/// The largest product of topology keys and distinct pods: some 20 ms at 2.5 ns an addition. It allows [`FEW`] keys with 150,000 distinct pods.
const KEYS_ON_PODS_MAX: u64 = 7_500_000;

/// The largest product of topology keys and nodes: some 20 ms at 40 ns for the lookups of a domain.
const KEYS_ON_NODES_MAX: u64 = 500_000;

/// So many of anything are evaluated in one step in every cluster. Pods that people write stay below.
const FEW: usize = 50;

/// How an attempt is to be made.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// In one step.
    Usual,
    /// In slices, between which other pods are decided.
    Large,
    /// Not at all, for this reason.
    TooLarge(String),
}

/// Something a pod carries many of, and what each of them is compared with.
#[derive(Debug, PartialEq, Eq)]
struct Product {
    many: usize,
    of: &'static str,
    times: usize,
    on: &'static str,
    /// The largest product that is evaluated.
    most: u64,
}

/// A product whose second factor is counted only if it is needed.
type Part<'a> = (usize, &'static str, &'a dyn Fn() -> usize, &'static str, u64);

impl Product {
    fn work(&self) -> u64 {
        (self.many as u64).saturating_mul(self.times as u64)
    }

    fn refusal(&self) -> String {
        let Self { many, of, times, on, most } = self;
        let work = self.work();
        format!(
            "the pod's {many} {of}, each compared with {times} {on}, are more work than one attempt may be ({work} comparisons of at \
             most {most}): give the pod fewer"
        )
    }
}

impl Scheduler {
    /// How an attempt for the pod is to be made.
    pub(super) fn size_of(&self, pod: &PodInfo) -> Size {
        let snapshot = self.snapshot();
        // An attempt that asks extenders begins again with each answer, and is not evaluated in slices.
        let limits = self.slices.limits();
        let asks = self.extending.concerns(pod);
        let most = if asks { limits.most.min(EXTENDED_MAX) } else { limits.most };
        let mut size = Size::Usual;
        for product in in_slices(pod, snapshot, most) {
            if product.work() > most {
                return Size::TooLarge(product.refusal());
            }
            if !asks && product.work() > limits.large {
                size = Size::Large;
            }
        }
        match in_one_step(pod, snapshot).find(|product| product.work() > product.most) {
            Some(product) => Size::TooLarge(product.refusal()),
            None => size,
        }
    }
}

/// What of the pod is compared with each pod or node, the results of which a slice keeps.
fn in_slices<'a>(pod: &'a PodInfo, snapshot: Snapshot<'a>, most: u64) -> impl Iterator<Item = Product> + 'a {
    let nodes = snapshot.nodes().len();
    // A toleration is compared with the taints of each node; the common cluster has few. Those of all nodes are counted if there may be many.
    let taints = || snapshot.nodes().iter().map(|node| snapshot.node(node).taints().len().max(1)).sum();
    let taints = if pod.tolerations.len() > FEW { taints() } else { nodes };
    let parts: [(usize, &'static str, usize, &'static str); 3] = [
        (
            demands_of_pods(pod),
            "requirements of affinity terms and topology spread constraints",
            snapshot.kind_count(),
            "distinct pods",
        ),
        (demands_of_nodes(pod), "requirements of node selectors and node affinity", nodes, "nodes"),
        (pod.tolerations.len(), "tolerations", taints, "taints of nodes"),
    ];
    parts.into_iter().map(move |(many, of, times, on)| Product { many, of, times, on, most })
}

/// What of the pod is compared with all of something in one step.
fn in_one_step<'a>(pod: &'a PodInfo, snapshot: Snapshot<'a>) -> impl Iterator<Item = Product> + 'a {
    let nodes = move || snapshot.nodes().len();
    let namespaces = move || snapshot.lookups().namespaces().count();
    let volumes = move || snapshot.volumes().count();
    let kinds = move || snapshot.kind_count();
    let keys = topology_keys(pod, snapshot);
    let parts: [Part<'_>; 6] = [
        (
            demands_of_namespaces(pod),
            "requirements of namespace selectors",
            &namespaces,
            "namespaces",
            WHOLE_MAX,
        ),
        (pod.resources.request.scalar.len(), "resources", &nodes, "nodes", WHOLE_MAX),
        (pod.volumes.len(), "volumes", &volumes, "PersistentVolumes", WHOLE_MAX),
        (pod.volumes.len(), "volumes", &nodes, "nodes", WHOLE_MAX),
        (keys, "topology keys of affinity terms", &kinds, "distinct pods", KEYS_ON_PODS_MAX),
        (keys, "topology keys of affinity terms", &nodes, "nodes", KEYS_ON_NODES_MAX),
    ];
    let many = parts.into_iter().filter(|(many, ..)| *many > FEW);
    let product = |(many, of, times, on, most): Part<'_>| Product { many, of, times: times(), on, most };
    let products: Vec<Product> = many.map(product).collect();
    products.into_iter()
}

fn sound<T>(list: &Parsed<T>) -> &[T] {
    list.as_deref().unwrap_or_default()
}

fn pod_terms(pod: &PodInfo) -> impl Iterator<Item = &PodAffinityTerm> {
    pod.pod_affinity.iter().flat_map(|affinity| {
        let required = [&affinity.required_affinity, &affinity.required_anti_affinity];
        let preferred = [&affinity.preferred_affinity, &affinity.preferred_anti_affinity];
        let required = required.into_iter().flat_map(sound);
        required.chain(preferred.into_iter().flat_map(sound).map(|weighted| &weighted.term))
    })
}

/// The number of distinct topology keys of affinity terms. Of more than a few, only those that nodes have count.
fn topology_keys(pod: &PodInfo, snapshot: Snapshot<'_>) -> usize {
    if pod.pod_affinity.is_none() {
        return 0;
    }
    let keys: IdSet<Symbol> = pod_terms(pod).map(|term| term.topology_key).collect();
    if keys.len() <= FEW {
        return keys.len();
    }
    let labels = snapshot.nodes().iter().flat_map(|node| snapshot.node_labels(node).iter());
    labels.map(|(key, _)| key).filter(|key| keys.contains(key)).collect::<IdSet<Symbol>>().len()
}

/// What is compared to find out whether terms and constraints match a pod.
fn demands_of_pods(pod: &PodInfo) -> usize {
    let of_terms = pod_terms(pod).map(|term| &term.selector);
    let of_spreading = pod.spread.iter().filter_map(|constraint| constraint.selector.as_ref().ok());
    of_terms.chain(of_spreading).map(|selector| selector.work() as usize).sum()
}

fn demands_of_namespaces(pod: &PodInfo) -> usize {
    let selectors = pod_terms(pod).map(|term| &term.namespace_selector);
    selectors
        .filter(|selector| **selector != Selector::Nothing)
        .map(|selector| selector.work() as usize)
        .sum()
}

fn demands_of_nodes(pod: &PodInfo) -> usize {
    let preferred = pod.preferred_node_affinity.iter().flat_map(sound).map(|it| it.term.work());
    (pod.node_affinity.work() + preferred.sum::<u64>()) as usize
}
