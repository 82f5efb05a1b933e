//! Nominations: which pods are to go to which nodes, by our word or by somebody else's. Chooses no node.
//!
//! Upstream: `pkg/scheduler/backend/queue/nominator.go`, `pkg/scheduler/eventhandlers.go`, which knows the nominations of
//! its own pods only.

use super::Scheduler;
use crate::effect::{Nomination, StatusPatch};
use crate::framework::{ClusterEvent, PodAction};
use crate::intern::Symbol;
use crate::pod::PodInfo;
use crate::time::Time;
use std::sync::Arc;

impl Scheduler {
    /// Nominates the pod to a node, or to none. Where a nomination ends, or the pod asks for less than it did, room is free for
    /// others at once.
    pub(super) fn nominate(&mut self, now: Time, pod: &Arc<PodInfo>, node: Option<Symbol>) {
        let before = self.cache.nomination(&pod.uid);
        let is_other = |old: &&Arc<PodInfo>| old.uid == pod.uid && !old.is_same_to_others(pod);
        let changed = before.and_then(|node| self.cache.nominated_to(node).iter().find(is_other).cloned());
        self.cache.nominate(pod, node);
        if before.is_some() && (before != node || changed.is_some()) {
            self.nomination_released(now, changed.as_ref().unwrap_or(pod));
        }
    }

    /// Wakes the pods that the nomination kept out: those that are no more important.
    pub(super) fn nomination_released(&mut self, now: Time, pod: &PodInfo) {
        let event = ClusterEvent::AssignedPod { action: PodAction::Delete, old: Some(pod), new: None };
        self.wake_up_to(now, &event, pod.priority);
    }

    /// The pod is placed on `node`: whatever it was nominated to, it takes nothing more.
    pub(super) fn nomination_fulfilled(&mut self, now: Time, pod: &PodInfo, node: Symbol) {
        let nominated = self.cache.nomination(&pod.uid);
        self.cache.forget_nomination(&pod.uid);
        if nominated.is_some_and(|name| name != node) {
            self.nomination_released(now, pod);
        }
    }

    /// A pod of `node` is gone: who is nominated there, and waited for it to go, is tried again, whatever kept it out then.
    ///
    /// Upstream leaves that to the hints of the plugins that rejected the pod. Where another reason has come between, they
    /// do not wake it, and it keeps room that it cannot take.
    pub(super) fn room_left(&mut self, now: Time, node: Symbol) {
        let nominated: Vec<_> =
            self.cache.nominated_to(node).iter().map(|pod| Arc::clone(&pod.uid)).collect();
        for uid in nominated {
            self.queue.rouse(now, &uid);
        }
    }

    /// The API server shows a pending pod of ours; `old` is what it showed before.
    ///
    /// Where it shows no other nomination than before, ours, which may be on its way there, stays. A pod that is being
    /// deleted goes nowhere any more.
    pub(super) fn nomination_told(&mut self, now: Time, old: Option<&PodInfo>, pod: &Arc<PodInfo>) {
        let node = match old {
            _ if pod.deleting => None,
            Some(old) if old.nominated_node == pod.nominated_node => self.cache.nomination(&pod.uid),
            Some(_) | None => {
                // Whoever said it: what we said of it before has come there, or was overruled.
                if let Some(sent) = self.sent_conditions.get_mut(&pod.uid) {
                    sent.nominated = pod.nominated_node;
                }
                pod.nominated_node
            }
        };
        self.nominate(now, pod, node);
    }

    /// A pending pod of another scheduler: its nomination counts like one of ours.
    pub(super) fn foreign_pod(&mut self, now: Time, pod: &Arc<PodInfo>) {
        let node = pod.nominated_node.filter(|_| !pod.deleting);
        if node.is_some() || self.cache.nomination(&pod.uid).is_some() {
            self.nominate(now, pod, node);
        }
    }

    /// The pod as it is to be decided about: nominated as we know it, which the API server may not show yet.
    pub(super) fn as_nominated(&self, pod: &Arc<PodInfo>) -> Arc<PodInfo> {
        let nominated_node = self.cache.nomination(&pod.uid);
        if nominated_node == pod.nominated_node {
            return Arc::clone(pod);
        }
        Arc::new(PodInfo { nominated_node, ..PodInfo::clone(pod) })
    }

    /// Clears the nominations to `node` of our pods that are less important than `pod`: they find another place sooner
    /// than after its preemption (upstream `clearNominatedNodeName`). Nobody more is sent away for them.
    pub(super) fn clear_lesser_nominations(&mut self, now: Time, pod: &PodInfo, node: Symbol) {
        let lesser = |other: &&Arc<PodInfo>| other.priority < pod.priority && self.queue.contains(&other.uid);
        let losers: Vec<_> = self.cache.nominated_to(node).iter().filter(lesser).cloned().collect();
        for loser in losers {
            let shown = self.queue.get(&loser.uid).map_or(&loser, |queued| &queued.pod);
            let shown = Arc::clone(shown);
            self.nominate(now, &shown, None);
            self.preemptor_left(now, &shown.uid);
            self.queue.rouse(now, &shown.uid);
            // What was sent stays as it is: this may overtake the patch with the condition, which then is sent again.
            let sent = self.sent_conditions.get(&shown.uid).and_then(|sent| sent.nominated);
            if shown.nominated_node.or(sent).is_none() {
                continue;
            }
            self.outbox.push_patch(StatusPatch {
                pod: self.pod_ref(&shown),
                condition: None,
                nomination: Nomination::Clear,
            });
        }
    }
}
