//! A borrow of the cache and the tables: all a plugin ever sees of the world.

use super::{Attachable, Cache, Columns, ImageState, Kind, KindId, NodeView, Touch};
use crate::intern::{LabelSetId, Labels, Symbol, Tables};
use crate::node::{NodeIdx, NodeInfo};
use crate::node_set::NodeSet;
use crate::pod::{HostPort, PodInfo};
use crate::resources::Resources;
use crate::slice::Slice;
use std::sync::Arc;

/// The cluster at one moment.
#[derive(Clone, Copy)]
pub struct Snapshot<'a> {
    cache: &'a Cache,
    tables: &'a Tables,
    slice: Option<&'a Slice>,
}

impl<'a> Snapshot<'a> {
    pub(super) fn new(cache: &'a Cache, tables: &'a Tables) -> Self {
        Self { cache, tables, slice: None }
    }

    /// The same for an evaluation in slices.
    pub(crate) fn in_slice(self, slice: &'a Slice) -> Self {
        Self { slice: Some(slice), ..self }
    }

    /// The slice that is running, of an evaluation in slices.
    pub(crate) fn slice(self) -> Option<&'a Slice> {
        self.slice
    }

    /// The tables of interned texts.
    pub fn tables(self) -> &'a Tables {
        self.tables
    }

    /// The text of a symbol.
    pub fn text(self, symbol: Symbol) -> &'a str {
        self.tables.text(symbol)
    }

    /// A time that moves with every change of a node or of what is on it.
    pub fn clock(self) -> u64 {
        self.cache.nodes.clock()
    }

    /// A number that changes when nodes come or go, or DeviceClasses change: then what was prepared for a pod is void.
    pub fn era(self) -> u64 {
        self.cache.nodes.arrivals() + self.lookups().device_classes().changes()
    }

    /// What happened to which nodes, and slots of former nodes, since [`Self::clock`] was `since`, in order; `None` where that
    /// is too long ago to tell.
    pub fn touched_since(self, since: u64) -> Option<impl Iterator<Item = (NodeIdx, Touch)> + 'a> {
        self.cache.nodes.touched_since(since)
    }

    /// A time that moves when a pod is nominated to a node, or is no more, and when a pod on a node is told of another start.
    pub fn clock_beside(self) -> u64 {
        self.cache.beside.clock()
    }

    /// The nodes, and slots of former nodes, of which that is so since [`Self::clock_beside`] was `since`; `None` where that is too
    /// long ago to tell.
    pub fn touched_beside_since(self, since: u64) -> Option<impl Iterator<Item = NodeIdx> + 'a> {
        self.cache.beside.since(since)
    }

    /// All nodes that exist.
    pub fn nodes(self) -> &'a NodeSet {
        self.cache.nodes.present()
    }

    /// The nodes that are marked unschedulable.
    pub fn cordoned_nodes(self) -> &'a NodeSet {
        self.cache.nodes.cordoned()
    }

    /// The node named `name`, if it exists.
    pub fn find_node(self, name: Symbol) -> Option<NodeIdx> {
        self.cache.nodes.find(name).filter(|&idx| self.nodes().contains(idx))
    }

    /// One node, as it is.
    pub fn node(self, idx: NodeIdx) -> NodeView<'a> {
        NodeView::new(self, idx)
    }

    /// The quantities of all nodes.
    pub fn columns(self) -> &'a Columns {
        self.cache.nodes.columns()
    }

    /// How many volumes nodes may still take; `None` where something changed of that since [`Cache::refresh`](super::Cache::refresh).
    pub fn attachable(self) -> Option<&'a Attachable> {
        let is_refreshed = self.cache.nodes.is_refreshed() && self.cache.volumes.is_refreshed();
        is_refreshed.then(|| &self.columns().attachable)
    }

    /// The object of a node that exists.
    ///
    /// # Panics
    /// When `idx` is not in [`Self::nodes`].
    pub fn node_info(self, idx: NodeIdx) -> &'a NodeInfo {
        self.cache.nodes.slot(idx).info.as_deref().expect("only slots of nodes that exist are asked for")
    }

    /// The labels of a node that exists.
    pub fn node_labels(self, idx: NodeIdx) -> Labels<'a> {
        self.tables.labels(self.node_info(idx).labels)
    }

    /// The pods on a node, in no meaningful order.
    pub fn pods_on(self, idx: NodeIdx) -> impl Iterator<Item = &'a PodInfo> + Clone {
        let pods = &self.cache.pods;
        self.cache.nodes.slot(idx).pods.iter().filter_map(move |&p| pods.get(p)).map(|entry| &*entry.info)
    }

    /// The kinds of pods that are on nodes, in no meaningful order.
    pub fn kinds(self) -> impl Iterator<Item = &'a Kind> {
        self.cache.kinds.all()
    }

    /// How many kinds of pods are on nodes.
    pub fn kind_count(self) -> usize {
        self.cache.kinds.len()
    }

    /// The number the next kind of pods will have.
    pub fn next_kind(self) -> KindId {
        self.cache.kinds.next()
    }

    /// The kinds of pods with this number and higher ones.
    pub fn kinds_since(self, id: KindId) -> impl Iterator<Item = (KindId, &'a Kind)> {
        self.cache.kinds.since(id)
    }

    /// The kind with this number, if a pod of it is on a node.
    pub(crate) fn kind(self, id: KindId) -> Option<&'a Kind> {
        self.cache.kinds.get(id)
    }

    /// The kind of a pod, if the pod is on a node.
    pub(crate) fn kind_of(self, pod: &PodInfo) -> Option<KindId> {
        let entry = self.cache.pods.by_uid(&pod.uid)?;
        self.cache.nodes.slot(entry.node).kinds.get(entry.at as usize).copied()
    }

    /// The kind of each pod on a node.
    pub fn kinds_on(self, idx: NodeIdx) -> &'a [KindId] {
        &self.cache.nodes.slot(idx).kinds
    }

    /// The kinds of pods of a namespace.
    pub fn kinds_in(self, namespace: Symbol) -> impl Iterator<Item = &'a Kind> {
        self.cache.kinds.in_namespace(namespace)
    }

    /// The kinds of pods that have pod affinity or anti-affinity of any sort.
    pub fn kinds_with_affinity(self) -> impl Iterator<Item = &'a Kind> {
        self.cache.kinds.with_affinity()
    }

    /// The kinds of pods that have required anti-affinity.
    pub fn kinds_with_required_anti_affinity(self) -> impl Iterator<Item = &'a Kind> {
        self.cache.kinds.with_anti_affinity()
    }

    /// Nodes, and slots of former nodes, with pods that have pod affinity or anti-affinity of any sort.
    pub fn nodes_with_affinity(self) -> NodeSet {
        self.kinds_with_affinity().flat_map(Kind::nodes).map(|(node, _)| node).collect()
    }

    /// Nodes, and slots of former nodes, with pods that have required anti-affinity.
    pub fn nodes_with_required_anti_affinity(self) -> NodeSet {
        self.kinds_with_required_anti_affinity().flat_map(Kind::nodes).map(|(node, _)| node).collect()
    }

    /// The lowest priority of all pods on nodes, also on nodes that are gone; `None` where there are no pods.
    pub fn lowest_priority(self) -> Option<i32> {
        self.cache.pods.lowest_priority()
    }

    /// All that the pods on a node take; the source of [`Columns`]' requested cells, with scalar resources.
    pub fn requested(self, idx: NodeIdx) -> &'a Resources {
        &self.cache.nodes.slot(idx).requested
    }

    /// Host ports in use on a node, sorted, each with the number of pods that use it.
    pub fn host_ports(self, idx: NodeIdx) -> &'a [(HostPort, u32)] {
        &self.cache.nodes.slot(idx).ports
    }

    /// The images on a node, as of its last refresh, sorted by id.
    pub(crate) fn images(self, idx: NodeIdx) -> &'a [(Symbol, ImageState)] {
        &self.cache.nodes.slot(idx).images
    }

    /// What a node knows of an image it has.
    pub fn image(self, idx: NodeIdx, name: Symbol) -> Option<ImageState> {
        let images = &self.cache.nodes.slot(idx).images;
        images.binary_search_by_key(&name, |&(n, _)| n).ok().map(|at| images[at].1)
    }

    /// Pods nominated to a node, in order of nomination.
    pub fn nominated_on(self, idx: NodeIdx) -> &'a [Arc<PodInfo>] {
        self.cache.nominated.on(self.cache.nodes.name(idx))
    }

    /// The nodes that exist and have pods nominated to them.
    pub fn nodes_with_nominations(self) -> Vec<NodeIdx> {
        if self.cache.nominated.is_empty() {
            return Vec::new();
        }
        let mut nodes: Vec<_> =
            self.cache.nominated.nodes().filter_map(|name| self.find_node(name)).collect();
        nodes.sort();
        nodes
    }

    /// Services, controllers and namespaces.
    pub fn lookups(self) -> &'a super::Lookups {
        &self.cache.lookups
    }

    /// Objects of storage.
    pub fn volumes(self) -> &'a super::Volumes {
        &self.cache.volumes
    }

    /// Whether a pod on any node that exists uses the claim by `persistentVolumeClaim`.
    pub fn is_claim_used(self, namespace: Symbol, claim: Symbol) -> bool {
        self.cache.nodes.users_of(namespace, claim).any(|idx| self.nodes().contains(idx))
    }

    /// The labels of a namespace; none when it is not known.
    pub fn namespace_labels(self, name: Symbol) -> Option<Labels<'a>> {
        self.cache.lookups.namespace(name).map(|id| self.tables.labels(id))
    }

    /// The labels of a set.
    pub fn labels(self, id: LabelSetId) -> Labels<'a> {
        self.tables.labels(id)
    }

    /// `namespace/name` of a pod.
    pub fn pod_key(self, pod: &PodInfo) -> String {
        format!("{}/{}", self.text(pod.namespace), pod.name)
    }
}
