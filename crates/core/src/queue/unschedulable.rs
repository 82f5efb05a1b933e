//! The pool of unschedulable pods, and the selection of those that an event may help.
//!
//! Pods with one signature that wait for the same plugins form a group. Queueing hints are called once for each
//! group. Upstream (`pkg/scheduler/backend/queue/unschedulable_pods.go`) calls them for each pod, including gated
//! ones.

use super::pod::QueuedPod;
use crate::collections::hash::{Keyed, KeyedMap};
use crate::framework::{Hint, PluginName};
use crate::model::intern::{Marks, TraceIds, WorkBudget, mark_after, trace_ids};
use crate::model::pod::PodInfo;
use crate::model::signature::Signature;
use crate::model::time::Time;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GroupId(u64);

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    signature: Signature,
    /// The plugins that rejected the pods, and those that made preemption fail.
    requeuing_plugins: BTreeSet<PluginName>,
}

struct Group {
    key: Arc<Key>,
    /// By sequence number; never empty.
    pods: BTreeMap<u64, QueuedPod>,
}

/// Unschedulable pods in groups with equal signature and plugins.
#[derive(Default)]
pub(super) struct Unschedulable {
    groups: BTreeMap<GroupId, Group>,
    ids: KeyedMap<Arc<Key>, GroupId>,
    by_waker: BTreeMap<PluginName, BTreeSet<GroupId>>,
    /// The group of each pod by sequence number, so that the pods that have waited longest come first.
    group_of: BTreeMap<u64, GroupId>,
    next: u64,
    /// The last group whose key the current garbage collection marked. Groups created later have higher ids.
    marked_groups: Option<GroupId>,
    /// The last pod that the current garbage collection marked. Pods inserted since its start are marked separately.
    marked: Option<u64>,
}

impl Unschedulable {
    /// Creates an empty pool with this hashing.
    pub(super) fn hashed_by(hashing: Keyed) -> Self {
        Self { ids: KeyedMap::with_hasher(hashing), ..Self::default() }
    }

    /// Returns the hashing.
    pub(super) fn hashing(&self) -> Keyed {
        self.ids.hasher().clone()
    }

    pub(super) fn begin_collection(&mut self) {
        (self.marked_groups, self.marked) = (None, None);
    }

    pub(super) fn mark_some(&mut self, marks: &mut Marks, work: &mut WorkBudget) -> bool {
        let Self { groups, group_of, marked_groups, marked, .. } = self;
        let are_marked = mark_after(groups, marked_groups, work, |_, Group { key, pods: _ }| key.mark(marks));
        let mark = |sequence, id: &GroupId| {
            let pod = groups.get(id).and_then(|group| group.pods.get(&sequence));
            pod.expect("every pod of a group is in the map").mark(marks);
        };
        are_marked && mark_after(group_of, marked, work, mark)
    }

    pub(super) fn insert(&mut self, pod: QueuedPod) -> u64 {
        let sequence = pod.sequence;
        let key = Key { signature: Signature::of(&pod.pod), requeuing_plugins: pod.requeuing_plugins() };
        let id = self.ids.get(&key).copied().unwrap_or_else(|| self.found(key));
        self.group_of.insert(sequence, id);
        self.groups.get_mut(&id).expect("an id leads to its group").pods.insert(sequence, pod);
        sequence
    }

    fn found(&mut self, key: Key) -> GroupId {
        let id = GroupId(self.next);
        self.next += 1;
        let key = Arc::new(key);
        for plugin in &key.requeuing_plugins {
            self.by_waker.entry(plugin).or_default().insert(id);
        }
        self.ids.insert(Arc::clone(&key), id);
        self.groups.insert(id, Group { key, pods: BTreeMap::new() });
        id
    }

    fn disband(&mut self, id: GroupId) -> Option<Group> {
        let group = self.groups.remove(&id)?;
        self.ids.remove(&group.key);
        for plugin in &group.key.requeuing_plugins {
            if let Entry::Occupied(mut ids) = self.by_waker.entry(plugin) {
                ids.get_mut().remove(&id);
                if ids.get().is_empty() {
                    ids.remove();
                }
            }
        }
        Some(group)
    }

    /// Takes out the pods for which at least one of their plugins returns [`Hint::Queue`], in order of arrival.
    ///
    /// Plugins that did not register for the event cost nothing, however many pods wait for them.
    pub(super) fn take_woken(
        &mut self,
        hears: &dyn Fn(PluginName) -> bool,
        wakes: &mut dyn FnMut(PluginName, &PodInfo) -> Hint,
    ) -> Vec<QueuedPod> {
        let mut woken = BTreeSet::new();
        for (plugin, ids) in self.by_waker.iter().filter(|(plugin, _)| hears(plugin)) {
            for id in ids {
                let pod = self.groups[id].key.signature.pod();
                if !woken.contains(id) && wakes(plugin, pod) == Hint::Queue {
                    woken.insert(*id);
                }
            }
        }
        let mut pods = BTreeMap::new();
        for group in woken.into_iter().filter_map(|id| self.disband(id)) {
            pods.extend(group.pods);
        }
        for sequence in pods.keys() {
            self.group_of.remove(sequence);
        }
        pods.into_values().collect()
    }

    /// Takes out all pods.
    pub(super) fn take_all(&mut self) -> Vec<QueuedPod> {
        let sequences: Vec<u64> = self.group_of.keys().copied().collect();
        sequences.into_iter().filter_map(|sequence| self.remove(sequence)).collect()
    }

    /// Takes out the pods that have waited longer than `limit`.
    pub(super) fn take_overdue(&mut self, now: Time, limit: Duration) -> Vec<QueuedPod> {
        let overdue: Vec<u64> = self
            .group_of
            .keys()
            .copied()
            .take_while(|&sequence| {
                self.get(sequence).is_some_and(|oldest| now.since(oldest.timestamp) > limit)
            })
            .collect();
        overdue.into_iter().filter_map(|sequence| self.remove(sequence)).collect()
    }

    pub(super) fn remove(&mut self, sequence: u64) -> Option<QueuedPod> {
        let id = self.group_of.remove(&sequence)?;
        let group = self.groups.get_mut(&id)?;
        let pod = group.pods.remove(&sequence);
        if group.pods.is_empty() {
            self.disband(id);
        }
        pod
    }

    pub(super) fn get(&self, sequence: u64) -> Option<&QueuedPod> {
        self.groups.get(self.group_of.get(&sequence)?)?.pods.get(&sequence)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &QueuedPod> {
        self.group_of.iter().filter_map(|(sequence, id)| self.groups.get(id)?.pods.get(sequence))
    }

    /// Returns the number of pods.
    pub(super) fn len(&self) -> usize {
        self.group_of.len()
    }

    /// Returns the number of groups.
    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.group_of.is_empty()
    }
}

// The pod whose signature identifies the group may have been deleted.
trace_ids!(Key { signature } but not { requeuing_plugins });

impl TraceIds for Unschedulable {
    fn mark(&self, marks: &mut Marks) {
        let Self { groups, ids: _, by_waker: _, group_of: _, next: _, marked_groups: _, marked: _ } = self;
        for Group { key, pods } in groups.values() {
            key.mark(marks);
            pods.values().for_each(|pod| pod.mark(marks));
        }
    }
}
