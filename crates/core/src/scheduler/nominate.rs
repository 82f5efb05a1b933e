//! Nominations: the pods that are expected on each node, by preemption of this or another scheduler.
//!
//! Upstream: `pkg/scheduler/backend/queue/nominator.go`, `pkg/scheduler/eventhandlers.go`. Upstream tracks only the
//! nominations of its own pods.

use super::Scheduler;
use crate::framework::{ClusterEvent, PodAction};
use crate::model::effect::{Nomination, StatusPatch};
use crate::model::intern::Symbol;
use crate::model::pod::PodInfo;
use crate::model::time::Time;
use std::sync::Arc;

impl Scheduler {
    /// Nominates the pod to a node, or clears its nomination. If a nomination ends, or the pod requests less than
    /// before, other pods are requeued at once.
    pub(super) fn nominate(&mut self, now: Time, pod: &Arc<PodInfo>, node: Option<Symbol>) {
        let before = self.cache.nomination(&pod.uid);
        let is_other = |old: &&Arc<PodInfo>| old.uid == pod.uid && !old.is_same_to_others(pod);
        let changed = before.and_then(|node| self.cache.nominated_to(node).iter().find(is_other).cloned());
        self.cache.nominate(pod, node);
        if before.is_some() && (before != node || changed.is_some()) {
            self.nomination_released(now, changed.as_ref().unwrap_or(pod));
        }
        // A nominated pod helps others only by a volume that they share: it is counted once.
        if let Some(node) = node.filter(|&node| before != Some(node) && !pod.volumes.is_empty()) {
            self.requeue_up_to(now, &ClusterEvent::Nominated { pod, node }, pod.priority);
        }
    }

    /// Requeues the pods that the nomination excluded: those with the same or a lower priority.
    pub(super) fn nomination_released(&mut self, now: Time, pod: &PodInfo) {
        let event = ClusterEvent::AssignedPod { action: PodAction::Delete, old: Some(pod), new: None };
        self.requeue_up_to(now, &event, pod.priority);
    }

    /// Ends the nomination of a pod that is assumed on `node`.
    pub(super) fn nomination_fulfilled(&mut self, now: Time, pod: &PodInfo, node: Symbol) {
        let nominated = self.cache.nomination(&pod.uid);
        self.cache.forget_nomination(&pod.uid);
        if nominated.is_some_and(|name| name != node) {
            self.nomination_released(now, pod);
        }
    }

    /// Handles the removal of a pod from `node`: requeues the pods nominated there, whatever rejected them.
    ///
    /// Upstream relies on the queueing hints of the plugins that rejected the pod. If another reason rejected it in
    /// the meantime, the hints do not requeue it, and its nomination blocks resources that it does not use.
    pub(super) fn room_left(&mut self, now: Time, node: Symbol) {
        let nominated: Vec<_> =
            self.cache.nominated_to(node).iter().map(|pod| Arc::clone(&pod.uid)).collect();
        for uid in nominated {
            self.queue.requeue_now(now, &uid);
        }
    }

    /// Handles the nomination of a pending pod that the API server shows; `old` is its previous state.
    ///
    /// If the shown nomination did not change, the cached one, which may not be written yet, stays. A terminating pod
    /// loses its nomination.
    pub(super) fn nomination_shown(&mut self, now: Time, old: Option<&PodInfo>, pod: &Arc<PodInfo>) {
        // In recordings of 1.36, updates of pods do not reach the queue.
        if self.shows_late() && old.is_some() {
            return;
        }
        let node = match old {
            _ if pod.deleting => None,
            Some(old) if old.nominated_node == pod.nominated_node => self.cache.nomination(&pod.uid),
            Some(_) | None => {
                self.conditions.nomination_shown(pod);
                pod.nominated_node
            }
        };
        self.nominate(now, pod, node);
    }

    /// Applies the nomination of another scheduler's pending pod. It counts like one of ours.
    pub(super) fn other_schedulers_pod(&mut self, now: Time, pod: &Arc<PodInfo>) {
        let node = pod.nominated_node.filter(|_| !pod.deleting);
        if node.is_some() || self.cache.nomination(&pod.uid).is_some() {
            self.nominate(now, pod, node);
        }
    }

    /// Returns the pod with its cached nomination, which the API server may not show yet.
    pub(super) fn as_nominated(&self, pod: &Arc<PodInfo>) -> Arc<PodInfo> {
        let nominated_node = self.cache.nomination(&pod.uid);
        if nominated_node == pod.nominated_node {
            return Arc::clone(pod);
        }
        Arc::new(PodInfo { nominated_node, ..PodInfo::clone(pod) })
    }

    /// Clears the nominations to `node` of our pods with a lower priority than `pod`, so that they need not wait for
    /// its preemption (upstream `clearNominatedNodeName`). No more victims are evicted for them.
    pub(super) fn clear_lesser_nominations(&mut self, now: Time, pod: &PodInfo, node: Symbol) {
        let lesser = |other: &&Arc<PodInfo>| other.priority < pod.priority && self.queue.contains(&other.uid);
        let losers: Vec<_> = self.cache.nominated_to(node).iter().filter(lesser).cloned().collect();
        for loser in losers {
            let shown = self.queue.get(&loser.uid).map_or(&loser, |queued| &queued.pod);
            let shown = Arc::clone(shown);
            if !self.is_comparable {
                self.nominate(now, &shown, None);
                self.preemptor_left(now, &shown.uid);
                self.queue.requeue_now(now, &shown.uid);
            } else if !self.shows_late() {
                self.nominate(now, &shown, None);
            } else if !self.shown_nominations.contains_key(&shown.uid) {
                continue;
            }
            self.write_nomination_end(&shown);
        }
    }

    /// Ends the nomination of a pending pod, here and on the API server.
    pub(super) fn end_nomination(&mut self, now: Time, pod: &Arc<PodInfo>) {
        self.nominate(now, pod, None);
        self.write_nomination_end(pod);
    }

    /// Clears the nomination that the API server shows, or will show.
    ///
    /// The recorded condition stays: this patch may overtake the patch with the condition, which is then sent again.
    fn write_nomination_end(&mut self, pod: &PodInfo) {
        let sent = self.conditions.nominated(&pod.uid);
        if pod.nominated_node.or(sent).is_some() {
            self.outbox.push_patch(StatusPatch {
                pod: self.pod_ref(pod),
                condition: None,
                nomination: Nomination::Clear,
            });
        }
    }
}
