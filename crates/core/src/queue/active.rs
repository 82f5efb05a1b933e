//! The active queue: pods ready for an attempt, in order. Backoff is handled elsewhere.
//!
//! Upstream: `pkg/scheduler/backend/queue/active_queue.go`, without its lists of pods and events in flight: no event
//! is handled during a decision.

use super::pod::{ActiveOrder, QueuedPod};
use crate::model::intern::{Marks, Symbol, TraceIds, WorkBudget, mark_after};
use crate::model::pod::PodInfo;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// The active pods of each profile and class, in order.
type Lines = BTreeMap<(Symbol, bool), BTreeSet<ActiveOrder>>;

#[derive(Default)]
pub(super) struct ActiveQueue {
    pods: BTreeMap<ActiveOrder, QueuedPod>,
    /// Index of the same pods by profile and class. Built by the first call of [`Self::first_of_each_line`].
    lines: Option<Lines>,
    /// Pods that are not in the index yet, because their class is unknown.
    unsorted: BTreeSet<ActiveOrder>,
    /// The last pod that the current garbage collection marked. Pods inserted since its start are marked separately.
    marked: Option<ActiveOrder>,
}

impl ActiveQueue {
    pub(super) fn insert(&mut self, pod: QueuedPod) -> ActiveOrder {
        let order = pod.order();
        if self.lines.is_some() {
            self.unsorted.insert(order);
        }
        self.pods.insert(order, pod);
        order
    }

    pub(super) fn pop(&mut self) -> Option<QueuedPod> {
        let (order, pod) = self.pods.pop_first()?;
        self.leave_line(&order, &pod);
        Some(pod)
    }

    pub(super) fn remove(&mut self, order: &ActiveOrder) -> Option<QueuedPod> {
        let pod = self.pods.remove(order)?;
        self.leave_line(order, &pod);
        Some(pod)
    }

    fn leave_line(&mut self, order: &ActiveOrder, pod: &QueuedPod) {
        let Some(lines) = &mut self.lines else { return };
        if self.unsorted.remove(order) {
            return;
        }
        for class in [false, true] {
            if let Entry::Occupied(mut line) = lines.entry((pod.pod.scheduler_name, class))
                && line.get_mut().remove(order)
            {
                if line.get().is_empty() {
                    line.remove();
                }
                return;
            }
        }
    }

    /// Returns the first pod of each profile and class, with its class. The class of a pod is computed once while it
    /// is active.
    pub(super) fn first_of_each_line(
        &mut self,
        class_of: impl Fn(&PodInfo) -> bool,
    ) -> impl Iterator<Item = (&QueuedPod, bool)> {
        if self.lines.is_none() {
            self.unsorted = self.pods.keys().copied().collect();
        }
        let lines = self.lines.get_or_insert_default();
        while let Some(order) = self.unsorted.pop_first() {
            let pod = &self.pods[&order].pod;
            lines.entry((pod.scheduler_name, class_of(pod))).or_default().insert(order);
        }
        lines.iter().filter_map(|(&(_, class), line)| Some((self.pods.get(line.first()?)?, class)))
    }

    /// Drops the index, because the meaning of the classes changes.
    pub(super) fn forget_lines(&mut self) {
        self.lines = None;
        self.unsorted.clear();
    }

    pub(super) fn get(&self, order: &ActiveOrder) -> Option<&QueuedPod> {
        self.pods.get(order)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &QueuedPod> {
        self.pods.values()
    }

    pub(super) fn begin_collection(&mut self) {
        self.marked = None;
    }

    pub(super) fn mark_some(&mut self, marks: &mut Marks, work: &mut WorkBudget) -> bool {
        mark_after(&self.pods, &mut self.marked, work, |_, pod| pod.mark(marks))
    }

    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }
}

impl TraceIds for ActiveQueue {
    fn mark(&self, marks: &mut Marks) {
        // `lines` contains only profiles of pods in `pods`.
        let Self { pods, lines: _, unsorted: _, marked: _ } = self;
        pods.values().for_each(|pod| pod.mark(marks));
    }
}
