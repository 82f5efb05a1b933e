//! Nodes in columns: one slot a node, one vector a quantity.

use super::{ImageState, PodIdx};
use crate::hash::IdMap;
use crate::intern::Symbol;
use crate::node::{NodeIdx, NodeInfo};
use crate::node_set::NodeSet;
use crate::pod::{HostPort, PodInfo};
use crate::resources::Resources;
use std::sync::Arc;

/// The quantities every filter and score pass reads, one cell per slot.
///
/// Slots without a node hold its pods' sums all the same; only [`super::Snapshot::nodes`] says which slots are nodes.
#[derive(Default)]
pub struct Columns {
    /// Allocatable cpu, in thousandths of a core.
    pub allocatable_cpu_milli: Vec<i64>,
    /// Allocatable memory, in bytes.
    pub allocatable_memory: Vec<i64>,
    /// Allocatable ephemeral storage, in bytes.
    pub allocatable_ephemeral_storage: Vec<i64>,
    /// How many pods the node may hold.
    pub allocatable_pods: Vec<i64>,
    /// cpu its pods take, in thousandths of a core.
    pub requested_cpu_milli: Vec<i64>,
    /// Memory its pods take, in bytes.
    pub requested_memory: Vec<i64>,
    /// Ephemeral storage its pods take, in bytes.
    pub requested_ephemeral_storage: Vec<i64>,
    /// cpu its pods take for scoring, with a default for containers that ask for none.
    pub non_zero_cpu_milli: Vec<i64>,
    /// Memory its pods take for scoring, with a default for containers that ask for none.
    pub non_zero_memory: Vec<i64>,
    /// How many pods are on it.
    pub pods: Vec<i64>,
}

impl Columns {
    fn all(&mut self) -> [&mut Vec<i64>; 10] {
        [
            &mut self.allocatable_cpu_milli,
            &mut self.allocatable_memory,
            &mut self.allocatable_ephemeral_storage,
            &mut self.allocatable_pods,
            &mut self.requested_cpu_milli,
            &mut self.requested_memory,
            &mut self.requested_ephemeral_storage,
            &mut self.non_zero_cpu_milli,
            &mut self.non_zero_memory,
            &mut self.pods,
        ]
    }

    fn set_allocatable(&mut self, at: usize, allocatable: &Resources, pods: i64) {
        self.allocatable_cpu_milli[at] = allocatable.cpu_milli;
        self.allocatable_memory[at] = allocatable.memory;
        self.allocatable_ephemeral_storage[at] = allocatable.ephemeral_storage;
        self.allocatable_pods[at] = pods;
    }
}

/// What a slot holds beside its cells in the columns.
pub(super) struct Slot {
    pub(super) name: Symbol,
    pub(super) info: Option<Arc<NodeInfo>>,
    pub(super) pods: Vec<PodIdx>,
    /// Requests of scalar resources, summed over the pods.
    pub(super) requested: Resources,
    /// Host ports in use and by how many pods, sorted.
    pub(super) ports: Vec<(HostPort, u32)>,
    pub(super) images: Vec<(Symbol, ImageState)>,
    affinity_pods: u32,
    anti_affinity_pods: u32,
    changed: bool,
    stamp: u64,
}

/// All slots.
#[derive(Default)]
pub(super) struct Nodes {
    by_name: IdMap<Symbol, NodeIdx>,
    slots: Vec<Slot>,
    free: Vec<NodeIdx>,
    columns: Columns,
    present: NodeSet,
    with_affinity: NodeSet,
    with_anti_affinity: NodeSet,
    changed: Vec<NodeIdx>,
    clock: u64,
}

impl Nodes {
    pub(super) fn find(&self, name: Symbol) -> Option<NodeIdx> {
        self.by_name.get(&name).copied()
    }

    pub(super) fn name(&self, idx: NodeIdx) -> Symbol {
        self.slots[idx.index()].name
    }

    pub(super) fn slot(&self, idx: NodeIdx) -> &Slot {
        &self.slots[idx.index()]
    }

    pub(super) fn columns(&self) -> &Columns {
        &self.columns
    }

    pub(super) fn present(&self) -> &NodeSet {
        &self.present
    }

    pub(super) fn with_affinity(&self) -> &NodeSet {
        &self.with_affinity
    }

    pub(super) fn with_anti_affinity(&self) -> &NodeSet {
        &self.with_anti_affinity
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn stamp(&self, idx: NodeIdx) -> u64 {
        self.slots[idx.index()].stamp
    }

    /// The slot of the node named `name`, given now if it has none.
    pub(super) fn slot_of(&mut self, name: Symbol) -> NodeIdx {
        if let Some(idx) = self.find(name) {
            return idx;
        }
        let idx = self.free.pop().unwrap_or_else(|| {
            for column in self.columns.all() {
                column.push(0);
            }
            NodeIdx(u32::try_from(self.slots.len()).expect("fewer than 2^32 nodes"))
        });
        let slot = Slot {
            name,
            info: None,
            pods: Vec::new(),
            requested: Resources::default(),
            ports: Vec::new(),
            images: Vec::new(),
            affinity_pods: 0,
            anti_affinity_pods: 0,
            changed: false,
            stamp: 0,
        };
        if idx.index() == self.slots.len() {
            self.slots.push(slot);
        } else {
            self.slots[idx.index()] = slot;
        }
        self.by_name.insert(name, idx);
        self.touch(idx);
        idx
    }

    /// Gives the slot of a node that is gone, and has no pods left, back.
    pub(super) fn release_if_empty(&mut self, idx: NodeIdx) {
        let slot = &self.slots[idx.index()];
        if slot.info.is_some() || !slot.pods.is_empty() {
            return;
        }
        self.by_name.remove(&slot.name);
        for column in self.columns.all() {
            column[idx.index()] = 0;
        }
        self.free.push(idx);
    }

    pub(super) fn set_info(&mut self, idx: NodeIdx, info: Option<Arc<NodeInfo>>) -> Option<Arc<NodeInfo>> {
        let none = Resources::default();
        let (allocatable, pods) = info.as_ref().map_or((&none, 0), |i| (&i.allocatable, i.allocatable_pods));
        self.columns.set_allocatable(idx.index(), allocatable, pods);
        if info.is_some() {
            self.present.insert(idx);
        } else {
            self.present.remove(idx);
        }
        self.touch(idx);
        std::mem::replace(&mut self.slots[idx.index()].info, info)
    }

    pub(super) fn add_pod(&mut self, idx: NodeIdx, pod_idx: PodIdx, pod: &PodInfo) {
        self.count(idx, pod, 1);
        let slot = &mut self.slots[idx.index()];
        slot.pods.push(pod_idx);
        slot.requested.add(&pod.resources.placed);
        for &port in &pod.ports {
            match slot.ports.binary_search_by_key(&port, |&(p, _)| p) {
                Ok(at) => slot.ports[at].1 += 1,
                Err(at) => slot.ports.insert(at, (port, 1)),
            }
        }
        if pod.pod_affinity.is_some() {
            slot.affinity_pods += 1;
            self.with_affinity.insert(idx);
        }
        if pod.has_required_anti_affinity() {
            slot.anti_affinity_pods += 1;
            self.with_anti_affinity.insert(idx);
        }
        self.touch(idx);
    }

    pub(super) fn remove_pod(&mut self, idx: NodeIdx, pod_idx: PodIdx, pod: &PodInfo) {
        self.count(idx, pod, -1);
        let slot = &mut self.slots[idx.index()];
        let at =
            slot.pods.iter().position(|&p| p == pod_idx).expect("a placed pod stands in its node's list");
        slot.pods.swap_remove(at);
        slot.requested.subtract(&pod.resources.placed);
        for &port in &pod.ports {
            if let Ok(at) = slot.ports.binary_search_by_key(&port, |&(p, _)| p) {
                slot.ports[at].1 -= 1;
                if slot.ports[at].1 == 0 {
                    slot.ports.remove(at);
                }
            }
        }
        if pod.pod_affinity.is_some() {
            slot.affinity_pods -= 1;
            if slot.affinity_pods == 0 {
                self.with_affinity.remove(idx);
            }
        }
        if pod.has_required_anti_affinity() {
            slot.anti_affinity_pods -= 1;
            if slot.anti_affinity_pods == 0 {
                self.with_anti_affinity.remove(idx);
            }
        }
        self.touch(idx);
    }

    fn count(&mut self, idx: NodeIdx, pod: &PodInfo, sign: i64) {
        let (at, r) = (idx.index(), &pod.resources);
        let add = |column: &mut Vec<i64>, amount: i64| {
            column[at] = column[at].saturating_add(amount.saturating_mul(sign));
        };
        add(&mut self.columns.requested_cpu_milli, r.placed.cpu_milli);
        add(&mut self.columns.requested_memory, r.placed.memory);
        add(&mut self.columns.requested_ephemeral_storage, r.placed.ephemeral_storage);
        add(&mut self.columns.non_zero_cpu_milli, r.non_zero_cpu_milli);
        add(&mut self.columns.non_zero_memory, r.non_zero_memory);
        add(&mut self.columns.pods, 1);
    }

    fn touch(&mut self, idx: NodeIdx) {
        self.clock += 1;
        let slot = &mut self.slots[idx.index()];
        slot.stamp = self.clock;
        if !slot.changed {
            slot.changed = true;
            self.changed.push(idx);
        }
    }

    /// Recomputes the image views of the nodes that changed since the last call.
    pub(super) fn refresh_changed(&mut self, view: impl Fn(&NodeInfo) -> Vec<(Symbol, ImageState)>) {
        for idx in std::mem::take(&mut self.changed) {
            let slot = &mut self.slots[idx.index()];
            slot.changed = false;
            slot.images = slot.info.as_deref().map(&view).unwrap_or_default();
        }
    }
}
