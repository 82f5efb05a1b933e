//! The work of one scheduling attempt, and its limits.
//!
//! A pod may have as many terms, tolerations and values as fit into an object. Each is compared with nodes, pods,
//! taints or volumes, so without limits one pod could block all others. Each product has its own limit. One pass over
//! the pod counts its parts; the cluster's side is counted only if the pod has more than [`FEW`] of a part.

use super::Scheduler;
use super::slices::Limits;
use crate::cache::Snapshot;
use crate::collections::hash::IdSet;
use crate::model::intern::Symbol;
use crate::model::pod::{Parsed, PodAffinityTerm, PodInfo};
use crate::model::selector::{NodeSelectorTerm, Selector};

/// The largest product that is evaluated in one step for other pods: about 20 ms at 5 to 7 ns per comparison. It allows
/// 600 resources on 5,000 nodes.
const WHOLE_MAX: u64 = 3_000_000;

/// The largest product of topology keys and distinct pods: about 20 ms at 2.5 ns per addition. It allows [`FEW`] keys
/// with 150,000 distinct pods.
const KEYS_ON_PODS_MAX: u64 = 7_500_000;

/// The largest product of topology keys and nodes: about 20 ms at 40 ns for the lookups of a domain.
const KEYS_ON_NODES_MAX: u64 = 500_000;

/// Up to this number of parts, a pod is evaluated in one step in every cluster. Hand-written pods stay below.
const FEW: usize = 50;

/// How to evaluate an attempt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// In one step.
    Usual,
    /// In slices, between which other pods are decided.
    Large,
    /// Not at all; the reason.
    TooLarge(String),
}

/// A part that a pod has many of, times the objects that each is compared with.
#[derive(Debug, PartialEq, Eq)]
struct Product {
    many: usize,
    of: &'static str,
    times: usize,
    on: &'static str,
    /// The largest product that is evaluated.
    most: u64,
}

/// A product whose second factor is counted on demand.
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
    /// Returns how to evaluate an attempt for the pod.
    pub(super) fn size_of(&self, pod: &PodInfo) -> Size {
        let snapshot = self.snapshot();
        let Limits { large, most, .. } = self.slices.limits();
        let mut size = Size::Usual;
        for (product, weight) in in_slices(pod, snapshot, most) {
            if product.work() > most {
                return Size::TooLarge(product.refusal());
            }
            if weight.saturating_mul(product.times as u64) > large {
                size = Size::Large;
            }
        }
        match in_one_step(pod, snapshot).find(|product| product.work() > product.most) {
            Some(product) => Size::TooLarge(product.refusal()),
            None => size,
        }
    }
}

/// Returns the products whose results slices keep: comparisons with each pod class or node. Each has the cost of its
/// first factor in comparisons, which only decides about slices: the limit counts parts, so that values are free.
fn in_slices<'a>(
    pod: &'a PodInfo,
    snapshot: Snapshot<'a>,
    most: u64,
) -> impl Iterator<Item = (Product, u64)> + 'a {
    let nodes = snapshot.node_count();
    // Taints are few in most clusters, so they are counted only for a pod with many tolerations.
    let taints = || snapshot.nodes().iter().map(|node| snapshot.node(node).taints().len().max(1)).sum();
    let taints = if pod.tolerations.len() > FEW { taints() } else { nodes };
    let demands_of_pods: u64 = selectors_of_pods(pod).map(Selector::demands).sum();
    let parts: [(usize, u64, &'static str, usize, &'static str); 3] = [
        (
            demands_of_pods as usize,
            selectors_of_pods(pod).map(Selector::work).sum(),
            "requirements of affinity terms and topology spread constraints",
            snapshot.pod_class_count(),
            "distinct pods",
        ),
        (
            demands_of_nodes(pod),
            work_of_nodes(pod),
            "requirements of node selectors and node affinity",
            nodes,
            "nodes",
        ),
        (pod.tolerations.len(), pod.tolerations.len() as u64, "tolerations", taints, "taints of nodes"),
    ];
    parts
        .into_iter()
        .map(move |(many, weight, of, times, on)| (Product { many, of, times, on, most }, weight))
}

/// Returns the products that are always evaluated in one step.
fn in_one_step<'a>(pod: &'a PodInfo, snapshot: Snapshot<'a>) -> impl Iterator<Item = Product> + 'a {
    let nodes = move || snapshot.node_count();
    let namespaces = move || snapshot.lookups().namespaces().count();
    let volumes = move || snapshot.volumes().count();
    let kinds = move || snapshot.pod_class_count();
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

/// The selectors that are compared with each pod class.
fn selectors_of_pods(pod: &PodInfo) -> impl Iterator<Item = &Selector> {
    let of_terms = pod_terms(pod).map(|term| &term.selector);
    of_terms.chain(pod.spread.iter().filter_map(|constraint| constraint.selector.as_ref().ok()))
}

fn demands_of_namespaces(pod: &PodInfo) -> usize {
    let selectors = pod_terms(pod).map(|term| &term.namespace_selector);
    selectors
        .filter(|selector| **selector != Selector::Nothing)
        .map(|selector| selector.demands() as usize)
        .sum()
}

fn preferred_node_terms(pod: &PodInfo) -> impl Iterator<Item = &NodeSelectorTerm> {
    pod.preferred_node_affinity.iter().flatten().flat_map(|terms| terms.iter()).map(|it| &it.term)
}

fn demands_of_nodes(pod: &PodInfo) -> usize {
    let preferred = preferred_node_terms(pod).map(NodeSelectorTerm::demands);
    (pod.node_affinity.demands() + preferred.sum::<u64>()) as usize
}

/// The comparisons with each node: a lookup among many values counts as several.
fn work_of_nodes(pod: &PodInfo) -> u64 {
    pod.node_affinity.work() + preferred_node_terms(pod).map(NodeSelectorTerm::work).sum::<u64>()
}
