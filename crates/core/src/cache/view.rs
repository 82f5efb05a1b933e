//! A view of one node, optionally with hypothetical additions and removals of pods.

use super::{ImageState, Snapshot};
use crate::model::intern::{Labels, Symbol};
use crate::model::node::{NodeIdx, NodeInfo, Taint};
use crate::model::pod::{HostPort, PodInfo};
use crate::model::resources::Resources;
use std::borrow::Cow;

/// Hypothetical additions and removals of pods on one node. Holds differences and never copies the node.
#[derive(Default)]
pub struct Overlay<'a> {
    added: Vec<&'a PodInfo>,
    removed: Vec<&'a PodInfo>,
    plus: Resources,
    minus: Resources,
    /// Host ports that count as free even if a pod uses them.
    freed: Vec<HostPort>,
}

impl<'a> Overlay<'a> {
    /// Creates an empty overlay.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the overlay adds and removes nothing.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }

    /// Adds a pod.
    pub fn add(&mut self, pod: &'a PodInfo) {
        self.plus.add(&pod.resources.placed);
        self.added.push(pod);
    }

    /// Removes a pod that is on the node.
    pub fn remove(&mut self, pod: &'a PodInfo) {
        self.minus.add(&pod.resources.placed);
        self.removed.push(pod);
    }

    /// Makes the host ports of a removed pod free, even if another pod uses them, too.
    ///
    /// Upstream keeps a node's used ports as a set without counts, and the choice of victims depends on it.
    pub fn free_ports(&mut self, pod: &PodInfo) {
        self.freed.extend_from_slice(&pod.ports);
    }

    /// Puts back this removed pod, with its host ports.
    pub fn restore(&mut self, pod: &PodInfo) {
        if let Some(at) = self.removed.iter().position(|removed| std::ptr::eq(*removed, pod)) {
            self.removed.swap_remove(at);
            self.minus.subtract(&pod.resources.placed);
            self.freed.retain(|port| !pod.ports.contains(port));
        }
    }
}

/// A view of one node, with or without an overlay.
#[derive(Clone, Copy)]
pub struct NodeView<'a> {
    snapshot: Snapshot<'a>,
    idx: NodeIdx,
    overlay: Option<&'a Overlay<'a>>,
}

impl<'a> NodeView<'a> {
    pub(super) fn new(snapshot: Snapshot<'a>, idx: NodeIdx) -> Self {
        Self { snapshot, idx, overlay: None }
    }

    /// Returns the same node with `overlay` in place of its previous overlay.
    #[must_use]
    pub fn with(self, overlay: &'a Overlay<'a>) -> Self {
        Self { overlay: Some(overlay), ..self }
    }

    /// Returns the snapshot of this view. The snapshot does not include the overlay.
    pub fn snapshot(&self) -> Snapshot<'a> {
        self.snapshot
    }

    /// Returns the node's slot.
    pub fn idx(&self) -> NodeIdx {
        self.idx
    }

    /// Returns the node's object.
    pub fn info(&self) -> &'a NodeInfo {
        self.snapshot.node_info(self.idx)
    }

    /// Returns the node's name.
    pub fn name(&self) -> Symbol {
        self.info().name
    }

    /// Returns the node's labels.
    pub fn labels(&self) -> Labels<'a> {
        self.snapshot.node_labels(self.idx)
    }

    /// Returns the node's taints.
    pub fn taints(&self) -> &'a [Taint] {
        self.snapshot.tables().taints(self.info().taints)
    }

    /// Returns the pods that the overlay adds.
    pub fn added(&self) -> &'a [&'a PodInfo] {
        self.overlay.map_or(&[], |o| &o.added)
    }

    /// Returns the pods that the overlay removes.
    pub fn removed(&self) -> &'a [&'a PodInfo] {
        self.overlay.map_or(&[], |o| &o.removed)
    }

    /// Returns the number of pods on the node.
    pub fn pod_count(&self) -> i64 {
        let here = self.snapshot.columns().pods[self.idx.index()];
        here + self.added().len() as i64 - self.removed().len() as i64
    }

    /// Returns the pods on the node, in arbitrary order.
    pub fn pods(&self) -> impl Iterator<Item = &'a PodInfo> + Clone {
        let removed = self.removed();
        let here = self.snapshot.pods_on(self.idx);
        here.filter(move |p| removed.iter().all(|r| r.uid != p.uid)).chain(self.added().iter().copied())
    }

    /// Returns the resources that the node's pods request.
    pub fn requested(&self) -> Cow<'a, Resources> {
        let here = self.snapshot.requested(self.idx);
        let Some(overlay) = self.overlay else { return Cow::Borrowed(here) };
        let mut requested = here.clone();
        requested.add(&overlay.plus);
        requested.subtract(&overlay.minus);
        Cow::Owned(requested)
    }

    /// Returns the host ports in use on the node.
    pub fn host_ports(&self) -> Vec<HostPort> {
        match self.overlay {
            None => self.snapshot.host_ports(self.idx).iter().map(|&(port, _)| port).collect(),
            Some(overlay) => self.overlaid_host_ports(overlay),
        }
    }

    fn overlaid_host_ports(&self, overlay: &Overlay<'_>) -> Vec<HostPort> {
        let mut used = self.snapshot.host_ports(self.idx).to_vec();
        for port in overlay.removed.iter().flat_map(|pod| &pod.ports) {
            if let Ok(at) = used.binary_search_by_key(port, |&(port, _)| port) {
                used[at].1 = used[at].1.saturating_sub(1);
            }
        }
        let left = used.into_iter().filter(|&(port, users)| users > 0 && !overlay.freed.contains(&port));
        let added = overlay.added.iter().flat_map(|pod| pod.ports.iter().copied());
        left.map(|(port, _)| port).chain(added).collect()
    }

    /// Returns an image of the node as of its last refresh.
    pub fn image(&self, name: Symbol) -> Option<ImageState> {
        self.snapshot.image(self.idx, name)
    }
}
