//! How much work one attempt may be. A pod may carry as many terms, tolerations, values and so on as fit into an object, and each is
//! weighed against nodes, pods, taints or volumes: without a bound, one pod could keep all others waiting.
//!
//! Each product has the bound by itself. What a pod may carry many of is counted by one walk over the pod; what of the cluster it is
//! weighed against is counted only if the pod carries more than [`FEW`] of it.

use super::Scheduler;
use crate::cache::Snapshot;
use crate::pod::{Parsed, PodAffinityTerm, PodInfo};
use crate::selector::{NodeSelectorTerm, Operator, Requirement, Selector};

/// The largest product one attempt may weigh: ten thousand affinity terms on five thousand nodes. What people write by hand has some
/// ten. A step is a comparison or a look into a map, so that the whole is a part of a second.
const WORK_MAX: u64 = 50_000_000;

/// So many of anything are never too much work: 50 million divided by them is a million, more than a cluster has of nodes, pods or
/// volumes.
const FEW: usize = 50;

/// Something a pod carries many of, and what each of them is weighed against.
#[derive(Debug, PartialEq, Eq)]
struct Product {
    many: usize,
    of: &'static str,
    times: usize,
    on: &'static str,
}

impl Product {
    fn work(&self) -> u64 {
        (self.many as u64).saturating_mul(self.times as u64)
    }

    fn refusal(&self) -> String {
        let Self { many, of, times, on } = self;
        let work = self.work();
        format!(
            "the pod's {many} {of}, each weighed on {times} {on}, are more than one attempt may weigh ({work} of at most \
             {WORK_MAX}): give it fewer"
        )
    }
}

impl Scheduler {
    /// Why the pod is too much work for one attempt, if it is.
    pub(super) fn too_much_work(&self, pod: &PodInfo) -> Option<String> {
        let too_much = products(pod, self.snapshot()).find(|product| product.work() > WORK_MAX);
        too_much.map(|product| product.refusal())
    }
}

/// What the pod carries more than a few of, and what that is weighed against.
fn products<'a>(pod: &'a PodInfo, snapshot: Snapshot<'a>) -> impl Iterator<Item = Product> + 'a {
    let nodes = move || snapshot.nodes().len();
    let kinds = move || snapshot.kind_count();
    let namespaces = move || snapshot.lookups().namespaces().count();
    let volumes = move || snapshot.volumes().count();
    let taints = move || snapshot.nodes().iter().map(|node| snapshot.node(node).taints().len().max(1)).sum();
    let ports = move || snapshot.nodes().iter().map(|node| snapshot.host_ports(node).len().max(1)).sum();
    let parts: [(usize, &'static str, &dyn Fn() -> usize, &'static str); 10] = [
        (terms(pod), "affinity terms and topology spread constraints", &nodes, "nodes"),
        (
            demands_of_pods(pod),
            "demands of affinity terms and topology spread constraints",
            &kinds,
            "distinct pods",
        ),
        (demands_of_namespaces(pod), "demands of namespace selectors", &namespaces, "namespaces"),
        (demands_of_nodes(pod), "demands of node selectors and node affinity", &nodes, "nodes"),
        (pod.tolerations.len(), "tolerations", &taints, "taints of nodes"),
        (pod.ports.len(), "host ports", &ports, "host ports in use"),
        (pod.images.len(), "images", &nodes, "nodes"),
        (pod.resources.request.scalar.len(), "resources", &nodes, "nodes"),
        (pod.volumes.len(), "volumes", &volumes, "PersistentVolumes"),
        (pod.volumes.len(), "volumes", &nodes, "nodes"),
    ];
    let many = parts.into_iter().filter(|(many, ..)| *many > FEW);
    let products: Vec<Product> =
        many.map(|(many, of, times, on)| Product { many, of, times: times(), on }).collect();
    products.into_iter()
}

fn sound<T>(list: &Parsed<T>) -> &[T] {
    list.as_deref().unwrap_or_default()
}

/// The terms of a pod that are weighed against domains. A domain has a node at least.
fn terms(pod: &PodInfo) -> usize {
    let of_nodes = pod.preferred_node_affinity.as_ref().map_or(0, |list| sound(list).len());
    pod_terms(pod).count() + of_nodes + pod.spread.len()
}

fn pod_terms(pod: &PodInfo) -> impl Iterator<Item = &PodAffinityTerm> {
    pod.pod_affinity.iter().flat_map(|affinity| {
        let required = [&affinity.required_affinity, &affinity.required_anti_affinity];
        let preferred = [&affinity.preferred_affinity, &affinity.preferred_anti_affinity];
        let required = required.into_iter().flat_map(sound);
        required.chain(preferred.into_iter().flat_map(sound).map(|weighted| &weighted.term))
    })
}

/// What is compared to find out whether a pod is one of those that terms mean.
fn demands_of_pods(pod: &PodInfo) -> usize {
    let of_terms = pod_terms(pod).map(|term| &term.selector);
    let of_spreading = pod.spread.iter().filter_map(|constraint| constraint.selector.as_ref().ok());
    of_terms.chain(of_spreading).map(of_selector).sum()
}

fn demands_of_namespaces(pod: &PodInfo) -> usize {
    let selectors = pod_terms(pod).map(|term| &term.namespace_selector);
    selectors.filter(|selector| **selector != Selector::Nothing).map(of_selector).sum()
}

fn demands_of_nodes(pod: &PodInfo) -> usize {
    let required = pod.node_affinity.terms.iter().flatten();
    let preferred = pod.preferred_node_affinity.iter().flat_map(sound).map(|it| &it.term);
    let pairs = pod.node_affinity.node_selector.as_ref().map_or(0, |pairs| pairs.len());
    pairs + required.chain(preferred).map(of_node_term).sum::<usize>()
}

fn of_node_term(term: &NodeSelectorTerm) -> usize {
    let demands = term.demands.as_ref();
    1 + demands.map_or(0, |it| it.names.len() + it.labels.iter().map(of_requirement).sum::<usize>())
}

/// The selector itself is looked at, whatever it demands.
fn of_selector(selector: &Selector) -> usize {
    match selector {
        Selector::Nothing => 1,
        Selector::All(requirements) => 1 + requirements.iter().map(of_requirement).sum::<usize>(),
    }
}

/// The key is looked up, and the value compared with others, one by one.
fn of_requirement(requirement: &Requirement) -> usize {
    match &requirement.operator {
        Operator::In(values) | Operator::NotIn(values) => values.len().max(1),
        Operator::Exists | Operator::DoesNotExist | Operator::Gt(_) | Operator::Lt(_) => 1,
    }
}
