//! A read-only view of the cache and the interned texts. Plugins see nothing else.

use super::fence::Facts;
use super::{
    Attachable, Cache, Columns, DeviceClasses, DeviceVerdicts, ImageState, NodeChange, NodeView, PodClass,
    PodClassId,
};
use crate::cache::slice::Slice;
use crate::cache::slice::step_limit::StepLimit;
use crate::model::device::{DeviceClass, Reach};
use crate::model::emulation::VersionRules;
use crate::model::intern::{LabelSetId, Labels, Symbol, Tables, TaintSetId};
use crate::model::node::{NodeIdx, NodeInfo};
use crate::model::node_set::NodeSet;
use crate::model::pod::{HostPort, PodInfo};
use crate::model::resources::Resources;
use crate::model::time::Time;
use std::sync::Arc;

/// The state of the cluster at one moment.
#[derive(Clone, Copy)]
pub struct Snapshot<'a> {
    cache: &'a Cache,
    tables: &'a Tables,
    slice: Option<&'a Slice>,
    step_limit: Option<&'a StepLimit>,
    device_verdicts: Option<&'a DeviceVerdicts>,
    /// What plugins may read; see `fence`.
    #[cfg(debug_assertions)]
    pub(super) facts: Facts,
}

impl<'a> Snapshot<'a> {
    pub(super) fn new(cache: &'a Cache, tables: &'a Tables) -> Self {
        Self {
            cache,
            tables,
            slice: None,
            step_limit: None,
            device_verdicts: None,
            #[cfg(debug_assertions)]
            facts: Facts::Cluster,
        }
    }

    /// Returns the same snapshot for an evaluation in slices.
    pub(crate) fn in_slice(self, slice: &'a Slice) -> Self {
        Self { slice: Some(slice), ..self }
    }

    /// Returns the current slice of an evaluation in slices.
    pub(crate) fn slice(self) -> Option<&'a Slice> {
        self.slice
    }

    /// Returns the same snapshot for an attempt whose searches for devices are limited.
    pub(crate) fn with_step_limit(self, limit: &'a StepLimit) -> Self {
        Self { step_limit: Some(limit), ..self }
    }

    /// Returns the same snapshot for searches that have ended before. Only the limit of a group's cycle stays, since it
    /// knows their results.
    pub(crate) fn for_repeated_searches(self) -> Self {
        Self { step_limit: self.step_limit.filter(|limit| limit.keeps_searches()), ..self }
    }

    /// Returns the limit of searches for devices in this attempt.
    pub(crate) fn step_limit(self) -> Option<&'a StepLimit> {
        self.step_limit
    }

    /// Returns the same snapshot for the evaluation of a pod for whose requests these results are known.
    pub fn with_device_verdicts(self, known: &'a DeviceVerdicts) -> Self {
        Self { device_verdicts: Some(known), ..self }
    }

    /// Returns the known results of searches for the pod's devices.
    pub(crate) fn device_verdicts(self) -> Option<&'a DeviceVerdicts> {
        self.device_verdicts
    }

    /// Returns the tables of interned texts.
    pub fn tables(self) -> &'a Tables {
        self.tables
    }

    /// Returns the rules of the emulated version.
    pub fn rules(self) -> VersionRules {
        self.tables.rules()
    }

    /// Whether defects of kube-scheduler are reproduced; see [`Tables::copies_defects`].
    pub fn copies_defects(self) -> bool {
        self.tables.copies_defects()
    }

    /// Returns the time of the decision.
    pub fn now(self) -> Time {
        self.cache.now
    }

    /// Returns the text of a symbol.
    pub fn text(self, symbol: Symbol) -> &'a str {
        self.tables.text(symbol)
    }

    /// Returns the clock of the change log, which advances with every change of a node or its pods.
    pub fn clock(self) -> u64 {
        self.cache.nodes.clock()
    }

    /// Returns a number that changes when a node is added or deleted, or a DeviceClass changes. State prepared for a
    /// pod is then invalid.
    pub fn era(self) -> u64 {
        self.cache.nodes.arrivals() + self.device_classes().changes()
    }

    /// Returns the changes of nodes, including slots of deleted nodes, after [`Self::clock`] was `since`, in
    /// order. Returns `None` if the change log no longer holds them all.
    pub fn node_changes_since(self, since: u64) -> Option<impl Iterator<Item = (NodeIdx, NodeChange)> + 'a> {
        self.cache.nodes.node_changes_since(since)
    }

    /// Returns the clock of the second change log. It advances when a pod's nomination changes and when a pod
    /// on a node gets another start time.
    pub fn preemption_clock(self) -> u64 {
        self.cache.preemption_log.clock()
    }

    /// Returns the slots, including those of deleted nodes, in the second change log after
    /// [`Self::preemption_clock`] was `since`. Returns `None` if the log no longer holds them all.
    pub fn preemption_changes_since(self, since: u64) -> Option<impl Iterator<Item = NodeIdx> + 'a> {
        self.cache.preemption_log.since(since)
    }

    /// Returns all nodes that exist.
    pub fn nodes(self) -> &'a NodeSet {
        self.cache.nodes.present()
    }

    /// Returns the number of nodes that exist, in constant time.
    pub fn node_count(self) -> usize {
        self.cache.nodes.present_count()
    }

    /// Returns the cordoned nodes.
    pub fn cordoned_nodes(self) -> &'a NodeSet {
        self.shows(Facts::NodeObjects);
        self.cache.nodes.cordoned()
    }

    /// Returns the node named `name`, if it exists.
    pub fn find_node(self, name: Symbol) -> Option<NodeIdx> {
        self.cache.nodes.find(name).filter(|&idx| self.nodes().contains(idx))
    }

    /// Returns a view of one node without an overlay.
    pub fn node(self, idx: NodeIdx) -> NodeView<'a> {
        NodeView::new(self, idx)
    }

    /// Returns the number of slots, including those of deleted nodes.
    pub fn slots(self) -> usize {
        self.cache.nodes.columns().pods.len()
    }

    /// Returns the taints of the node in each slot.
    pub fn taint_lists(self) -> &'a [Option<TaintSetId>] {
        self.shows(Facts::NodeObjects);
        &self.cache.nodes.columns().taints
    }

    /// Whether a DeviceClass serves an extended resource, in a version that allocates devices for such resources.
    pub fn is_served_by_class(self, resource: Symbol) -> bool {
        self.rules().serves_resources_by_devices() && self.device_classes().serve(resource)
    }

    /// Returns the DeviceClass that serves an extended resource, in a version that allocates devices for them.
    pub fn serving_class(self, resource: Symbol) -> Option<&'a Arc<DeviceClass>> {
        let serving = self.device_classes().serving(resource).map(|(_, class)| class);
        serving.filter(|_| self.rules().serves_resources_by_devices())
    }

    /// Returns how many devices of a class a node can use, and how many of these are allocated; 0 if an expression
    /// fails. Pools need not be complete (upstream `noderesources/resource_allocation.go#calculateDRAResourceTotals`).
    pub fn count_devices(self, node: NodeIdx, class: &DeviceClass) -> (i64, i64) {
        let (name, labels) = (self.node_info(node).name, self.node_labels(node));
        let is_reached = |reach: &Reach| reach.matches(self.tables, name, labels);
        self.devices().count_of_class(class, name, is_reached).unwrap_or_default()
    }

    /// Returns the DeviceClasses.
    pub fn device_classes(self) -> &'a DeviceClasses {
        self.cache.lookups.device_classes()
    }

    /// Returns the columns of all nodes.
    pub fn columns(self) -> &'a Columns {
        self.shows(Facts::NodeUsage);
        self.cache.nodes.columns()
    }

    /// Returns the remaining volume limits of nodes, or `None` if they changed after the last
    /// [`Cache::refresh`](super::Cache::refresh).
    pub fn attachable(self) -> Option<&'a Attachable> {
        self.shows(Facts::Cluster);
        let is_refreshed = self.cache.nodes.is_refreshed() && self.cache.volumes.is_refreshed();
        is_refreshed.then(|| &self.columns().attachable)
    }

    /// Returns the object of a node that exists.
    ///
    /// # Panics
    /// Panics if `idx` is not in [`Self::nodes`].
    pub fn node_info(self, idx: NodeIdx) -> &'a NodeInfo {
        self.shows(Facts::NodeObjects);
        self.cache.nodes.slot(idx).info.as_deref().expect("only slots of nodes that exist are asked for")
    }

    /// Returns the labels of a node that exists.
    pub fn node_labels(self, idx: NodeIdx) -> Labels<'a> {
        self.tables.labels(self.node_info(idx).labels)
    }

    /// Returns the pods on a node, in arbitrary order.
    pub fn pods_on(self, idx: NodeIdx) -> impl Iterator<Item = &'a PodInfo> + Clone {
        self.shows(Facts::NodeUsage);
        let pods = &self.cache.pods;
        self.cache.nodes.slot(idx).pods.iter().filter_map(move |&p| pods.get(p)).map(|entry| &*entry.info)
    }

    /// Returns a pod that counts on a node.
    pub(crate) fn placed(self, uid: &str) -> Option<&'a PodInfo> {
        self.shows(Facts::Cluster);
        self.cache.placed(uid).map(|(pod, ..)| &**pod)
    }

    /// Returns the pod classes on nodes, in arbitrary order.
    pub fn pod_classes(self) -> impl Iterator<Item = &'a PodClass> {
        self.shows(Facts::Cluster);
        self.cache.pod_classes.all()
    }

    /// Returns the number of pod classes on nodes.
    pub fn pod_class_count(self) -> usize {
        self.shows(Facts::Cluster);
        self.cache.pod_classes.len()
    }

    /// Returns the id of the next new pod class.
    pub fn next_pod_class(self) -> PodClassId {
        self.shows(Facts::Cluster);
        self.cache.pod_classes.next()
    }

    /// Returns the pod classes with this id and higher ones.
    pub fn pod_classes_since(self, id: PodClassId) -> impl Iterator<Item = (PodClassId, &'a PodClass)> {
        self.shows(Facts::Cluster);
        self.cache.pod_classes.since(id)
    }

    /// Returns the pod classes with this id and later ones that have pod affinity or anti-affinity.
    pub fn pod_classes_with_affinity_since(
        self,
        id: PodClassId,
    ) -> impl Iterator<Item = (PodClassId, &'a PodClass)> {
        self.shows(Facts::Cluster);
        self.cache.pod_classes.with_affinity_since(id)
    }

    /// Returns the pod class with this id, if a pod of it is on a node.
    pub(crate) fn pod_class(self, id: PodClassId) -> Option<&'a PodClass> {
        self.shows(Facts::Cluster);
        self.cache.pod_classes.get(id)
    }

    /// Returns the class of a pod, if the pod is on a node.
    pub(crate) fn pod_class_of(self, pod: &PodInfo) -> Option<PodClassId> {
        self.shows(Facts::Cluster);
        let entry = self.cache.pods.by_uid(&pod.uid)?;
        self.cache.nodes.slot(entry.node).pod_classes.get(entry.at as usize).copied()
    }

    /// Returns the class of each pod on a node.
    pub fn pod_classes_on(self, idx: NodeIdx) -> &'a [PodClassId] {
        self.shows(Facts::NodeUsage);
        &self.cache.nodes.slot(idx).pod_classes
    }

    /// Returns the ids of the pod classes of a namespace.
    pub(crate) fn pod_class_ids_in(self, namespace: Symbol) -> impl Iterator<Item = PodClassId> + 'a {
        self.shows(Facts::Cluster);
        self.cache.pod_classes.ids_in(namespace)
    }

    /// Returns the pod classes of a namespace.
    pub fn pod_classes_in(self, namespace: Symbol) -> impl Iterator<Item = &'a PodClass> {
        self.shows(Facts::Cluster);
        self.cache.pod_classes.in_namespace(namespace)
    }

    /// Returns the pod classes with any pod affinity or anti-affinity.
    pub fn pod_classes_with_affinity(self) -> impl Iterator<Item = &'a PodClass> {
        self.shows(Facts::Cluster);
        self.cache.pod_classes.with_affinity()
    }

    /// Returns the pod classes with required anti-affinity.
    pub fn pod_classes_with_required_anti_affinity(self) -> impl Iterator<Item = &'a PodClass> {
        self.shows(Facts::Cluster);
        self.cache.pod_classes.with_anti_affinity()
    }

    /// Returns the slots, including those of deleted nodes, with pods that have any pod affinity or
    /// anti-affinity.
    pub fn nodes_with_affinity(self) -> NodeSet {
        self.pod_classes_with_affinity().flat_map(PodClass::nodes).map(|(node, _)| node).collect()
    }

    /// Returns the slots, including those of deleted nodes, with pods that have required anti-affinity.
    pub fn nodes_with_required_anti_affinity(self) -> NodeSet {
        self.pod_classes_with_required_anti_affinity()
            .flat_map(PodClass::nodes)
            .map(|(node, _)| node)
            .collect()
    }

    /// Returns the lowest priority of all pods on nodes, including deleted nodes, or `None` if there are no
    /// pods.
    pub fn lowest_priority(self) -> Option<i32> {
        self.shows(Facts::Cluster);
        self.cache.pods.lowest_priority()
    }

    /// Returns the resources requested by the pods on a node, including scalar resources. They are the source
    /// of the requested cells of [`Columns`].
    pub fn requested(self, idx: NodeIdx) -> &'a Resources {
        self.shows(Facts::NodeUsage);
        &self.cache.nodes.slot(idx).requested
    }

    /// Returns the host ports in use on a node, sorted, each with the number of pods that use it.
    pub fn host_ports(self, idx: NodeIdx) -> &'a [(HostPort, u32)] {
        self.shows(Facts::NodeUsage);
        &self.cache.nodes.slot(idx).ports
    }

    /// Returns the images on a node as of its last refresh, sorted by id.
    pub(crate) fn images(self, idx: NodeIdx) -> &'a [(Symbol, ImageState)] {
        self.shows(Facts::NodeUsage);
        &self.cache.nodes.slot(idx).images
    }

    /// Returns an image of a node as of its last refresh.
    pub fn image(self, idx: NodeIdx, name: Symbol) -> Option<ImageState> {
        self.shows(Facts::NodeUsage);
        let images = &self.cache.nodes.slot(idx).images;
        images.binary_search_by_key(&name, |&(n, _)| n).ok().map(|at| images[at].1)
    }

    /// Returns the pods nominated to a node, in order of nomination.
    pub fn nominated_on(self, idx: NodeIdx) -> &'a [Arc<PodInfo>] {
        self.shows(Facts::Cluster);
        self.cache.nominated.on(self.cache.nodes.name(idx))
    }

    /// Returns the nodes that exist and have nominated pods, in slot order.
    pub fn nodes_with_nominations(self) -> Vec<NodeIdx> {
        self.shows(Facts::Cluster);
        if self.cache.nominated.is_empty() {
            return Vec::new();
        }
        let mut nodes: Vec<_> =
            self.cache.nominated.nodes().filter_map(|name| self.find_node(name)).collect();
        nodes.sort();
        nodes
    }

    /// Returns namespaces, Services, controllers, disruption budgets and DeviceClasses.
    pub fn lookups(self) -> &'a super::Lookups {
        self.shows(Facts::Cluster);
        &self.cache.lookups
    }

    /// Returns the storage objects.
    pub fn volumes(self) -> &'a super::Volumes {
        self.shows(Facts::Cluster);
        &self.cache.volumes
    }

    /// Returns the claims for devices and the slices that offer them.
    pub fn devices(self) -> &'a super::Devices {
        self.shows(Facts::Cluster);
        self.cache.volumes.devices()
    }

    /// Whether a pod on an existing node names the claim in `persistentVolumeClaim`.
    pub fn is_claim_used(self, namespace: Symbol, claim: Symbol) -> bool {
        self.shows(Facts::Cluster);
        !self.cache.hidden_claims.contains(&(namespace, claim))
            && self.cache.nodes.users_of(namespace, claim).any(|idx| self.nodes().contains(idx))
    }

    /// Returns the labels of a namespace, or `None` if it is unknown.
    pub fn namespace_labels(self, name: Symbol) -> Option<Labels<'a>> {
        self.shows(Facts::Cluster);
        self.cache.lookups.namespace(name).map(|id| self.tables.labels(id))
    }

    /// Returns the labels of a label set.
    pub fn labels(self, id: LabelSetId) -> Labels<'a> {
        self.tables.labels(id)
    }

    /// Returns `namespace/name` of a pod.
    pub fn pod_key(self, pod: &PodInfo) -> String {
        format!("{}/{}", self.text(pod.namespace), pod.name)
    }
}
