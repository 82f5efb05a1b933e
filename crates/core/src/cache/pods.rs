//! The pods that are counted on nodes, by slot and by uid.

use super::PodIdx;
use crate::collections::hash::fixed_hash;
use crate::collections::index::Index;
use crate::collections::list::push_tightly;
use crate::model::group::GroupKey;
use crate::model::intern::{MarkWorklist, Marks, TraceIds, WorkBudget, trace_ids};
use crate::model::node::NodeIdx;
use crate::model::pod::PodInfo;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// Whether a pod's placement is confirmed (upstream: the cache's assumed flag).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodState {
    /// This scheduler placed the pod, and no watch has confirmed it yet.
    Assumed,
    /// The API server reports the pod on its node.
    Added,
}

pub(super) struct PodEntry {
    pub(super) info: Arc<PodInfo>,
    pub(super) node: NodeIdx,
    pub(super) state: PodState,
    /// The pod's position in the node's list of pods.
    pub(super) at: u32,
}

#[derive(Default)]
pub(super) struct Pods {
    slots: Vec<Option<PodEntry>>,
    free: Vec<PodIdx>,
    /// The index of occupied slots by uid.
    by_uid: Index,
    assumed: usize,
    /// The number of pods of each priority.
    priorities: BTreeMap<i32, usize>,
    /// The number of pods of each group that are not terminating.
    members: BTreeMap<GroupKey, usize>,
    unmarked: MarkWorklist,
}

impl Pods {
    pub(super) fn insert(&mut self, info: Arc<PodInfo>, node: NodeIdx, state: PodState) -> PodIdx {
        let idx = self.free.pop().unwrap_or_else(|| {
            push_tightly(&mut self.slots, None);
            PodIdx(u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 pods"))
        });
        self.assumed += usize::from(state == PodState::Assumed);
        self.count(&info);
        self.by_uid.insert(fixed_hash(&*info.uid), idx.0);
        self.slots[idx.0 as usize] = Some(PodEntry { info, node, state, at: 0 });
        self.unmarked.put(idx.0 as usize);
        idx
    }

    /// Sets the pod's position in its node's list.
    pub(super) fn set_position(&mut self, idx: PodIdx, at: u32) {
        if let Some(entry) = &mut self.slots[idx.0 as usize] {
            entry.at = at;
        }
    }

    pub(super) fn remove(&mut self, uid: &str) -> Option<PodEntry> {
        let idx = PodIdx(self.by_uid.remove(fixed_hash(uid), has_uid(&self.slots, uid))?);
        let entry = self.slots[idx.0 as usize].take().expect("a uid leads to a pod");
        self.assumed -= usize::from(entry.state == PodState::Assumed);
        self.uncount(&entry.info);
        self.free.push(idx);
        Some(entry)
    }

    /// Sets a pod's state; nothing else changes.
    pub(super) fn confirm(&mut self, uid: &str, state: PodState) {
        if let Some(idx) = self.find(uid)
            && let Some(entry) = &mut self.slots[idx.0 as usize]
        {
            self.assumed -= usize::from(entry.state == PodState::Assumed);
            self.assumed += usize::from(state == PodState::Assumed);
            entry.state = state;
        }
    }

    /// Replaces a pod with a newer version. Returns its node if the pod's start time changed.
    pub(super) fn replace(&mut self, info: &Arc<PodInfo>) -> Option<NodeIdx> {
        let idx = self.find(&info.uid)?;
        let entry = self.slots[idx.0 as usize].as_mut()?;
        let (before, node) = (std::mem::replace(&mut entry.info, Arc::clone(info)), entry.node);
        self.unmarked.put(idx.0 as usize);
        self.uncount(&before);
        self.count(info);
        (before.start_time != info.start_time).then_some(node)
    }

    fn count(&mut self, info: &PodInfo) {
        *self.priorities.entry(info.priority).or_default() += 1;
        if let Some(key) = info.group_key().filter(|_| !info.deleting) {
            *self.members.entry(key).or_default() += 1;
        }
    }

    fn uncount(&mut self, info: &PodInfo) {
        count_down(self.priorities.entry(info.priority));
        if let Some(key) = info.group_key().filter(|_| !info.deleting) {
            count_down(self.members.entry(key));
        }
    }

    /// Returns the number of pods of a group that are not terminating.
    pub(super) fn members(&self, key: GroupKey) -> usize {
        self.members.get(&key).copied().unwrap_or_default()
    }

    pub(super) fn lowest_priority(&self) -> Option<i32> {
        self.priorities.keys().next().copied()
    }

    pub(super) fn get(&self, idx: PodIdx) -> Option<&PodEntry> {
        self.slots[idx.0 as usize].as_ref()
    }

    fn find(&self, uid: &str) -> Option<PodIdx> {
        self.by_uid.find(fixed_hash(uid), has_uid(&self.slots, uid)).map(PodIdx)
    }

    pub(super) fn by_uid(&self, uid: &str) -> Option<&PodEntry> {
        self.find(uid).and_then(|idx| self.get(idx))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &PodEntry> {
        self.slots.iter().flatten()
    }

    pub(super) fn len(&self) -> usize {
        self.by_uid.len()
    }

    /// Returns the number of distinct priorities.
    pub(super) fn priorities(&self) -> usize {
        self.priorities.len()
    }

    pub(super) fn assumed(&self) -> usize {
        self.assumed
    }
}

fn count_down<K: Ord>(entry: Entry<'_, K, usize>) {
    if let Entry::Occupied(mut count) = entry {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

impl Pods {
    /// Starts a gc round: all pods are unmarked.
    pub(super) fn begin_collection(&mut self) {
        self.unmarked.begin(self.slots.len());
    }

    /// Marks some of the unmarked pods. Returns whether all are marked.
    pub(super) fn mark_some(&mut self, marks: &mut Marks, work: &mut WorkBudget) -> bool {
        let Self { unmarked, slots, .. } = self;
        unmarked.walk(work, |at| {
            let entry = slots.get(at).and_then(Option::as_ref);
            entry.map_or(0, |entry| {
                entry.mark(marks);
                1
            })
        })
    }

    /// Ends the gc round: everything is marked.
    pub(super) fn end_collection(&mut self) {
        self.unmarked.end();
    }
}

/// Returns a predicate: whether the pod in a slot has this uid.
fn has_uid(slots: &[Option<PodEntry>], uid: &str) -> impl Fn(u32) -> bool {
    move |at| slots[at as usize].as_ref().is_some_and(|entry| *entry.info.uid == *uid)
}

trace_ids!(PodEntry { info } but not { node, state, at });

impl TraceIds for Pods {
    fn mark(&self, marks: &mut Marks) {
        // The groups are those of the pods in the slots.
        let Self { slots, free: _, by_uid: _, assumed: _, priorities: _, members: _, unmarked: _ } = self;
        slots.mark(marks);
    }
}
