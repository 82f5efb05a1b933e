//! One node, as it is or as it would be with some pods added and others gone.

use super::{ImageState, Snapshot};
use crate::intern::{Labels, Symbol};
use crate::node::{NodeIdx, NodeInfo, Taint};
use crate::pod::{HostPort, PodInfo};
use crate::resources::Resources;
use std::borrow::Cow;

/// Pods to think onto a node, and pods to think away from it: deltas, never a copy of the node.
#[derive(Default)]
pub struct Overlay<'a> {
    added: Vec<&'a PodInfo>,
    removed: Vec<&'a PodInfo>,
    plus: Resources,
    minus: Resources,
    /// Host ports that count as free, whoever has them.
    freed: Vec<HostPort>,
}

impl<'a> Overlay<'a> {
    /// No change.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether nothing is added and nothing removed.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }

    /// Thinks a pod onto the node.
    pub fn add(&mut self, pod: &'a PodInfo) {
        self.plus.add(&pod.resources.placed);
        self.added.push(pod);
    }

    /// Thinks a pod that is on the node away.
    pub fn remove(&mut self, pod: &'a PodInfo) {
        self.minus.add(&pod.resources.placed);
        self.removed.push(pod);
    }

    /// Lets the host ports of a pod that is thought away count as free, even where another pod has them, too.
    ///
    /// Upstream keeps a node's used ports as a set without counts, and preemption's victims follow from it.
    pub fn free_ports(&mut self, pod: &PodInfo) {
        self.freed.extend_from_slice(&pod.ports);
    }

    /// Thinks a pod that was thought away, this very one, back onto the node, with its host ports.
    pub fn restore(&mut self, pod: &PodInfo) {
        if let Some(at) = self.removed.iter().position(|removed| std::ptr::eq(*removed, pod)) {
            self.removed.swap_remove(at);
            self.minus.subtract(&pod.resources.placed);
            self.freed.retain(|port| !pod.ports.contains(port));
        }
    }
}

/// One node, possibly under an overlay.
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

    /// The same node with `overlay` in place of the one it had.
    #[must_use]
    pub fn with(self, overlay: &'a Overlay<'a>) -> Self {
        Self { overlay: Some(overlay), ..self }
    }

    /// The snapshot this is a part of. What it says of this node's pods lacks the overlay.
    pub fn snapshot(&self) -> Snapshot<'a> {
        self.snapshot
    }

    /// The node's slot.
    pub fn idx(&self) -> NodeIdx {
        self.idx
    }

    /// The node's object.
    pub fn info(&self) -> &'a NodeInfo {
        self.snapshot.node_info(self.idx)
    }

    /// The node's name.
    pub fn name(&self) -> Symbol {
        self.info().name
    }

    /// The node's labels.
    pub fn labels(&self) -> Labels<'a> {
        self.snapshot.node_labels(self.idx)
    }

    /// The node's taints.
    pub fn taints(&self) -> &'a [Taint] {
        self.snapshot.tables().taints(self.info().taints)
    }

    /// Pods the overlay thinks onto the node.
    pub fn added(&self) -> &'a [&'a PodInfo] {
        self.overlay.map_or(&[], |o| &o.added)
    }

    /// Pods the overlay thinks away from the node.
    pub fn removed(&self) -> &'a [&'a PodInfo] {
        self.overlay.map_or(&[], |o| &o.removed)
    }

    /// How many pods are on the node.
    pub fn pod_count(&self) -> i64 {
        let here = self.snapshot.columns().pods[self.idx.index()];
        here + self.added().len() as i64 - self.removed().len() as i64
    }

    /// The pods on the node, in no meaningful order.
    pub fn pods(&self) -> impl Iterator<Item = &'a PodInfo> + Clone {
        let removed = self.removed();
        let here = self.snapshot.pods_on(self.idx);
        here.filter(move |p| removed.iter().all(|r| r.uid != p.uid)).chain(self.added().iter().copied())
    }

    /// What the node's pods take.
    pub fn requested(&self) -> Cow<'a, Resources> {
        let here = self.snapshot.requested(self.idx);
        let Some(overlay) = self.overlay else { return Cow::Borrowed(here) };
        let mut requested = here.clone();
        requested.add(&overlay.plus);
        requested.subtract(&overlay.minus);
        Cow::Owned(requested)
    }

    /// Host ports in use on the node.
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

    /// What the node knows of an image it has.
    pub fn image(&self, name: Symbol) -> Option<ImageState> {
        self.snapshot.image(self.idx, name)
    }
}
