//! Nodes in columns: each node has one slot, each quantity one vector.

use super::log::Log;
use super::{Attachable, ImageState, PodClassId, PodIdx, Volumes};
use crate::collections::hash::IdMap;
use crate::collections::list::push_tightly;
use crate::model::intern::{MarkWorklist, Marks, Symbol, TaintSetId, TraceIds, WorkBudget, trace_ids};
use crate::model::node::{NodeIdx, NodeInfo};
use crate::model::node_set::NodeSet;
use crate::model::pod::{HostPort, PodInfo};
use crate::model::resources::{PodResources, Resources};
use crate::model::volume::PodVolume;
use crate::switches::mutation::{self, Mutation};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The quantities that filters and scores read, with one cell for each slot.
///
/// A slot without a node still holds the sums of its pods. Only [`super::Snapshot::nodes`] says which slots are
/// nodes.
#[derive(Default)]
pub struct Columns {
    /// Allocatable CPU in millicores.
    pub allocatable_cpu_milli: Vec<i64>,
    /// Allocatable memory in bytes.
    pub allocatable_memory: Vec<i64>,
    /// Allocatable ephemeral storage in bytes.
    pub allocatable_ephemeral_storage: Vec<i64>,
    /// Allocatable number of pods.
    pub allocatable_pods: Vec<i64>,
    /// CPU requested by the node's pods, in millicores.
    pub requested_cpu_milli: Vec<i64>,
    /// Memory requested by the node's pods, in bytes.
    pub requested_memory: Vec<i64>,
    /// Ephemeral storage requested by the node's pods, in bytes.
    pub requested_ephemeral_storage: Vec<i64>,
    /// CPU requested for scoring, in millicores, with a default for containers without a request.
    pub non_zero_cpu_milli: Vec<i64>,
    /// Memory requested for scoring, in bytes, with a default for containers without a request.
    pub non_zero_memory: Vec<i64>,
    /// The number of pods on the node.
    pub pods: Vec<i64>,
    /// The node's taints; `None` in a slot without a node.
    pub taints: Vec<Option<TaintSetId>>,
    /// The remaining volume limits as of the last refresh. `Snapshot::attachable` checks whether they are
    /// current.
    pub attachable: Attachable,
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

    fn add_slot(&mut self) {
        self.all().into_iter().for_each(|column| push_tightly(column, 0));
        push_tightly(&mut self.taints, None);
        self.attachable.add_slot();
    }

    fn clear_slot(&mut self, at: usize) {
        self.all().into_iter().for_each(|column| column[at] = 0);
        self.taints[at] = None;
        self.attachable.clear_slot(at);
    }

    fn set_allocatable(&mut self, at: usize, allocatable: &Resources, pods: i64) {
        self.allocatable_cpu_milli[at] = allocatable.cpu_milli;
        self.allocatable_memory[at] = allocatable.memory;
        self.allocatable_ephemeral_storage[at] = allocatable.ephemeral_storage;
        self.allocatable_pods[at] = pods;
    }
}

/// The capacity of the change log. A reader that missed more starts over, which costs no more than reading so
/// many changes.
const LOG_MAX: usize = 65_536;

/// The cost of marking a node, relative to a pod.
const NODE_COST: usize = 4;
/// The number of images that cost as much as a pod.
const IMAGES_OF_COST: usize = 8;

/// A change of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeChange {
    /// The node's object was added, changed or deleted.
    Object,
    /// A pod of this class was assumed on the node, or first seen bound to it.
    PodAdded(PodClassId),
    /// A pod of this class was removed.
    PodRemoved(PodClassId),
}

/// A node's slot: the state that is not in the columns.
pub(super) struct Slot {
    pub(super) name: Symbol,
    pub(super) info: Option<Arc<NodeInfo>>,
    pub(super) pods: Vec<PodIdx>,
    /// The class of each pod, in the order of `pods`.
    pub(super) pod_classes: Vec<PodClassId>,
    /// The resources requested by the pods, clamped to the range of `i64`.
    pub(super) requested: Resources,
    sums: Sums,
    /// Host ports in use, each with the number of pods that use it, sorted.
    pub(super) ports: Vec<(HostPort, u32)>,
    pub(super) images: Box<[(Symbol, ImageState)]>,
    changed: bool,
    /// Whether the volume limits are set for the node of this name. Later changes of storage are tracked in
    /// `Volumes`.
    knows_storage: bool,
}

/// The exact sums of a node's pods. They are wide enough that removing a pod restores the previous value,
/// however large its requests are.
#[derive(Default)]
struct Sums {
    cpu_milli: i128,
    memory: i128,
    ephemeral_storage: i128,
    non_zero_cpu_milli: i128,
    non_zero_memory: i128,
    /// By name. As upstream, a resource that no pod requests any more stays with zero.
    scalar: BTreeMap<Symbol, i128>,
}

impl Sums {
    fn count(&mut self, pod: &PodInfo, sign: i128) {
        let PodResources { placed, non_zero_cpu_milli, non_zero_memory, .. } = &pod.resources;
        for (sum, amount) in [
            (&mut self.cpu_milli, placed.cpu_milli),
            (&mut self.memory, placed.memory),
            (&mut self.ephemeral_storage, placed.ephemeral_storage),
            (&mut self.non_zero_cpu_milli, *non_zero_cpu_milli),
            (&mut self.non_zero_memory, *non_zero_memory),
        ] {
            *sum += i128::from(amount) * sign;
        }
        for &(name, amount) in &placed.scalar {
            *self.scalar.entry(name).or_default() += i128::from(amount) * sign;
        }
    }

    fn write_to(&self, requested: &mut Resources) {
        requested.cpu_milli = clamp(self.cpu_milli);
        requested.memory = clamp(self.memory);
        requested.ephemeral_storage = clamp(self.ephemeral_storage);
        requested.scalar = self.scalar.iter().map(|(&name, &sum)| (name, clamp(sum))).collect();
    }
}

/// Clamps a sum to `i64`. Without it, an overflow could make a full node look empty.
fn clamp(sum: i128) -> i64 {
    i64::try_from(sum).unwrap_or(if sum < 0 { i64::MIN } else { i64::MAX })
}

/// All node slots.
#[derive(Default)]
pub(super) struct Nodes {
    by_name: IdMap<Symbol, NodeIdx>,
    slots: Vec<Slot>,
    free: Vec<NodeIdx>,
    columns: Columns,
    present: NodeSet,
    /// The number of nodes in `present`.
    present_count: usize,
    /// The cordoned ones of `present`.
    cordoned: NodeSet,
    /// For each claim in use, the nodes of its pods with the number of uses.
    claims: IdMap<(Symbol, Symbol), BTreeMap<NodeIdx, u32>>,
    changed: Vec<NodeIdx>,
    /// Whether cached decisions may have read the nodes in `changed` before their refresh.
    previewed: bool,
    /// Whether changes keep the image counts of nodes.
    holds_images: bool,
    /// The change log of nodes.
    log: Log<(NodeIdx, NodeChange), LOG_MAX>,
    /// The number of times a node was added or deleted.
    arrivals: u64,
    unmarked: MarkWorklist,
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

    /// Returns the nodes that exist, in slot order.
    pub(super) fn infos(&self) -> impl Iterator<Item = &Arc<NodeInfo>> {
        self.present.iter().filter_map(|idx| self.slots[idx.index()].info.as_ref())
    }

    pub(super) fn cordoned(&self) -> &NodeSet {
        &self.cordoned
    }

    pub(super) fn present(&self) -> &NodeSet {
        &self.present
    }

    /// Returns the number of nodes that exist.
    pub(super) fn present_count(&self) -> usize {
        debug_assert_eq!(self.present_count, self.present.len(), "each node is counted once");
        self.present_count
    }

    /// Returns the slots with pods that use the claim.
    pub(super) fn users_of(&self, namespace: Symbol, claim: Symbol) -> impl Iterator<Item = NodeIdx> + '_ {
        self.claims.get(&(namespace, claim)).into_iter().flat_map(|nodes| nodes.keys().copied())
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Returns the number of entries in `changed` beyond the number of slots. It must be zero; otherwise, churn
    /// without decisions would leak.
    pub(super) fn needless_refreshes(&self) -> usize {
        self.changed.len().saturating_sub(self.slots.len())
    }

    /// Whether [`Self::refresh_changed`] has nothing to do.
    pub(super) fn is_refreshed(&self) -> bool {
        self.changed.is_empty()
    }

    pub(super) fn claims_in_use(&self) -> usize {
        self.claims.len()
    }

    /// Returns the slot of the node named `name`, allocating one if necessary.
    pub(super) fn slot_of(&mut self, name: Symbol) -> NodeIdx {
        if let Some(idx) = self.find(name) {
            return idx;
        }
        let idx = self.free.pop().unwrap_or_else(|| {
            self.columns.add_slot();
            NodeIdx(u32::try_from(self.slots.len()).expect("fewer than 2^32 nodes"))
        });
        // A reused slot may still be listed in `changed`; it must not be listed twice.
        let changed = self.slots.get(idx.index()).is_some_and(|slot| slot.changed);
        let slot = Slot {
            name,
            info: None,
            pods: Vec::new(),
            pod_classes: Vec::new(),
            requested: Resources::default(),
            sums: Sums::default(),
            ports: Vec::new(),
            images: Box::default(),
            changed,
            knows_storage: false,
        };
        if idx.index() == self.slots.len() {
            push_tightly(&mut self.slots, slot);
        } else {
            self.slots[idx.index()] = slot;
        }
        self.by_name.insert(name, idx);
        self.log_change(idx, NodeChange::Object);
        idx
    }

    /// Frees the slot of a deleted node without pods.
    pub(super) fn release_if_empty(&mut self, idx: NodeIdx) {
        let slot = &self.slots[idx.index()];
        if slot.info.is_some() || !slot.pods.is_empty() {
            return;
        }
        self.by_name.remove(&slot.name);
        self.columns.clear_slot(idx.index());
        self.free.push(idx);
    }

    pub(super) fn set_info(&mut self, idx: NodeIdx, info: Option<Arc<NodeInfo>>) -> Option<Arc<NodeInfo>> {
        let none = Resources::default();
        let (allocatable, pods) = info.as_ref().map_or((&none, 0), |i| (&i.allocatable, i.allocatable_pods));
        self.columns.set_allocatable(idx.index(), allocatable, pods);
        self.columns.taints[idx.index()] = info.as_ref().map(|info| info.taints);
        if info.as_ref().is_some_and(|info| info.unschedulable) {
            self.cordoned.insert(idx);
        } else {
            self.cordoned.remove(idx);
        }
        let came_or_went = if info.is_some() { self.present.insert(idx) } else { self.present.remove(idx) };
        if came_or_went {
            self.present_count = if info.is_some() { self.present_count + 1 } else { self.present_count - 1 };
        }
        self.arrivals += u64::from(came_or_went);
        self.log_change(idx, NodeChange::Object);
        std::mem::replace(&mut self.slots[idx.index()].info, info)
    }

    /// Counts a pod on a node and returns its position in the node's list of pods.
    pub(super) fn add_pod(&mut self, idx: NodeIdx, pod_idx: PodIdx, class: PodClassId, pod: &PodInfo) -> u32 {
        self.count(idx, pod, 1);
        for claim in claims_of(pod) {
            *self.claims.entry(claim).or_default().entry(idx).or_default() += 1;
        }
        let slot = &mut self.slots[idx.index()];
        push_tightly(&mut slot.pods, pod_idx);
        push_tightly(&mut slot.pod_classes, class);
        for &port in &pod.ports {
            match slot.ports.binary_search_by_key(&port, |&(p, _)| p) {
                Ok(at) => slot.ports[at].1 += 1,
                Err(at) => slot.ports.insert(at, (port, 1)),
            }
        }
        let at = u32::try_from(slot.pods.len() - 1).expect("fewer than 2^32 pods");
        self.log_change(idx, NodeChange::PodAdded(class));
        at
    }

    /// Removes the pod at position `at` of a node's list. Returns the pod that moved to this position, if any.
    pub(super) fn remove_pod(&mut self, idx: NodeIdx, at: u32, pod: &PodInfo) -> Option<PodIdx> {
        self.count(idx, pod, -1);
        if mutation::is_on(Mutation::ResourcesReleasedTwice) {
            self.count(idx, pod, -1);
        }
        for claim in claims_of(pod) {
            self.release_claim(idx, claim);
        }
        let slot = &mut self.slots[idx.index()];
        let at = at as usize;
        slot.pods.swap_remove(at);
        let class = slot.pod_classes.swap_remove(at);
        let moved = slot.pods.get(at).copied();
        for &port in &pod.ports {
            if let Ok(at) = slot.ports.binary_search_by_key(&port, |&(p, _)| p)
                && !mutation::is_on(Mutation::HostPortsNotReleased)
            {
                slot.ports[at].1 -= 1;
                if slot.ports[at].1 == 0 {
                    slot.ports.remove(at);
                }
            }
        }
        self.log_change(idx, NodeChange::PodRemoved(class));
        moved
    }

    fn release_claim(&mut self, idx: NodeIdx, claim: (Symbol, Symbol)) {
        let Some(nodes) = self.claims.get_mut(&claim) else { return };
        if let Some(uses) = nodes.get_mut(&idx) {
            *uses -= 1;
            if *uses == 0 {
                nodes.remove(&idx);
            }
        }
        if nodes.is_empty() {
            self.claims.remove(&claim);
        }
    }

    pub(super) fn count(&mut self, idx: NodeIdx, pod: &PodInfo, sign: i8) {
        let (at, columns, slot) = (idx.index(), &mut self.columns, &mut self.slots[idx.index()]);
        slot.sums.count(pod, i128::from(sign));
        slot.sums.write_to(&mut slot.requested);
        if !mutation::is_on(Mutation::RequestedColumnsNotUpdated) {
            columns.requested_cpu_milli[at] = slot.requested.cpu_milli;
        }
        columns.requested_memory[at] = slot.requested.memory;
        columns.requested_ephemeral_storage[at] = slot.requested.ephemeral_storage;
        columns.non_zero_cpu_milli[at] = clamp(slot.sums.non_zero_cpu_milli);
        columns.non_zero_memory[at] = clamp(slot.sums.non_zero_memory);
        if !mutation::is_on(Mutation::PodCountNotUpdated) {
            columns.pods[at] += i64::from(sign);
        }
        columns.attachable.count(at, pod, sign);
    }

    /// Returns the clock of the change log.
    pub(super) fn clock(&self) -> u64 {
        self.log.clock()
    }

    /// Creates an empty collection with later clocks, so that state derived from these nodes is not mistaken
    /// for the new ones'.
    pub(super) fn successor(&self) -> Self {
        Self { log: self.log.successor(), arrivals: self.arrivals + 1, ..Self::default() }
    }

    /// Returns the number of times a node was added or deleted.
    pub(super) fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// Returns the changes after the clock showed `since`, in order, or `None` if some were dropped.
    pub(super) fn node_changes_since(
        &self,
        since: u64,
    ) -> Option<impl Iterator<Item = (NodeIdx, NodeChange)> + '_> {
        self.log.since(since)
    }

    fn log_change(&mut self, idx: NodeIdx, change: NodeChange) {
        self.unmarked.put(idx.index());
        self.log.push((idx, change));
        let slot = &mut self.slots[idx.index()];
        if !slot.changed && !self.holds_images {
            slot.changed = true;
            self.changed.push(idx);
        }
    }

    /// Marks pending changes as previewed: cached decisions may read them before their refresh. See
    /// [`super::Cache::preview`].
    pub(super) fn preview(&mut self) {
        self.previewed |= !self.changed.is_empty();
    }

    /// See [`super::Cache::hold_images`].
    pub(super) fn hold_images(&mut self, holds: bool) {
        self.holds_images = holds;
    }

    /// Recomputes the image counts of the nodes that changed since the last call, and sets the volume limits of
    /// new ones.
    pub(super) fn refresh_changed(
        &mut self,
        volumes: &Volumes,
        view: impl Fn(&NodeInfo) -> Vec<(Symbol, ImageState)>,
    ) {
        let was_previewed = std::mem::take(&mut self.previewed);
        for idx in std::mem::take(&mut self.changed) {
            let slot = &mut self.slots[idx.index()];
            slot.changed = false;
            if !std::mem::replace(&mut slot.knows_storage, true) {
                self.columns.attachable.set(idx, slot.name, volumes);
            }
            let images = slot.info.as_deref().map(&view).unwrap_or_default().into();
            let before = std::mem::replace(&mut slot.images, images);
            if was_previewed && before != slot.images {
                self.unmarked.put(idx.index());
                self.log.push((idx, NodeChange::Object));
            }
        }
    }
}

impl Nodes {
    /// Exchanges two pods in a node's list. Returns them, the one that was at `a` first.
    pub(super) fn swap_pods(&mut self, idx: NodeIdx, a: u32, b: u32) -> Option<(PodIdx, PodIdx)> {
        let slot = &mut self.slots[idx.index()];
        let (a, b) = (a as usize, b as usize);
        let pods = (*slot.pods.get(a)?, *slot.pods.get(b)?);
        slot.pods.swap(a, b);
        slot.pod_classes.swap(a, b);
        Some(pods)
    }

    /// Returns the image counts of a node that has images, if a change of the node would refresh them.
    pub(super) fn settled_images(&self, name: Symbol) -> Option<&[(Symbol, ImageState)]> {
        let slot = &self.slots[self.find(name)?.index()];
        (!slot.changed && !self.holds_images && !slot.images.is_empty()).then_some(&*slot.images)
    }

    /// Replaces the image counts of a node.
    pub(super) fn restore_images(&mut self, name: Symbol, images: Box<[(Symbol, ImageState)]>) {
        if let Some(idx) = self.find(name) {
            self.unmarked.put(idx.index());
            self.slots[idx.index()].images = images;
        }
    }
}

impl Nodes {
    /// Updates the volume limits of these nodes.
    pub(super) fn refresh_storage(&mut self, names: impl Iterator<Item = Symbol>, volumes: &Volumes) {
        for name in names {
            if let Some(idx) = self.find(name) {
                self.columns.attachable.set(idx, name, volumes);
            }
        }
        self.columns.attachable.drop_unlimited_drivers();
    }
}

impl Nodes {
    /// Starts a gc round: all nodes are unmarked.
    pub(super) fn begin_collection(&mut self) {
        self.unmarked.begin(self.slots.len());
    }

    /// Marks some of the unmarked nodes. Returns whether all are marked.
    pub(super) fn mark_some(&mut self, marks: &mut Marks, work: &mut WorkBudget) -> bool {
        let Self { unmarked, slots, by_name, .. } = self;
        unmarked.walk(work, |at| {
            let is_there = |slot: &&Slot| by_name.get(&slot.name).is_some_and(|idx| idx.index() == at);
            slots.get(at).filter(is_there).map_or(0, |slot| {
                slot.mark(marks);
                NODE_COST + slot.images.len() / IMAGES_OF_COST
            })
        })
    }

    /// Marks ids that belong to neither nodes nor pods, and ends the round.
    pub(super) fn mark_rest(&mut self, marks: &mut Marks) {
        self.unmarked.end();
        // The pods that use a claim mark its name.
        self.columns.attachable.mark(marks);
    }
}

/// Returns the namespace and name of each claim that a pod names. Excludes claims of ephemeral volumes, which
/// no other pod can use.
fn claims_of(pod: &PodInfo) -> impl Iterator<Item = (Symbol, Symbol)> + '_ {
    let claims = pod.volumes.iter().filter_map(PodVolume::named_claim);
    claims.map(|claim| (pod.namespace, claim))
}

// A free slot still has its former node's name, which is never read and therefore not marked.
impl TraceIds for Nodes {
    fn mark(&self, marks: &mut Marks) {
        let Self {
            by_name,
            slots,
            claims,
            free: _,
            columns,
            present: _,
            present_count: _,
            cordoned: _,
            changed: _,
            previewed: _,
            holds_images: _,
            log: _,
            arrivals: _,
            unmarked: _,
        } = self;
        claims.mark(marks);
        columns.attachable.mark(marks);
        by_name.values().for_each(|idx| slots[idx.index()].mark(marks));
    }
}

trace_ids!(Slot { name, info, requested, sums, ports, images } but not { pods, pod_classes, changed, knows_storage });
trace_ids!(Sums { scalar } but not { cpu_milli, memory, ephemeral_storage, non_zero_cpu_milli, non_zero_memory });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_out_of_range_are_clamped() {
        let [least, most] = [i64::MIN, i64::MAX].map(i128::from);
        let sums = [least - 1, least, -1, 0, most, most + 1];
        assert_eq!(sums.map(clamp), [i64::MIN, i64::MIN, -1, 0, i64::MAX, i64::MAX]);
    }
}
