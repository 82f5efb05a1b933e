//! Pods that wait for an event. Says which of them an event wakes; where they go then is the queue's business.
//!
//! Upstream: `pkg/scheduler/backend/queue/unschedulable_pods.go`, which keeps gated pods in the same map and looks at
//! each of them at every event. Here they have a pool of their own that no event walks.

use super::pod::QueuedPod;
use crate::framework::{Hint, PluginName};
use crate::pod::PodInfo;
use crate::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Pods by their sequence number, so that who came first is looked at first, and by that also who has waited longest.
#[derive(Default)]
pub(super) struct Pool {
    pods: BTreeMap<u64, QueuedPod>,
}

impl Pool {
    pub(super) fn insert(&mut self, pod: QueuedPod) -> u64 {
        let sequence = pod.sequence;
        self.pods.insert(sequence, pod);
        sequence
    }

    /// Takes out the pods of which one rejecting plugin at least wants another attempt.
    ///
    /// Every hint of every event is asked for here and nowhere else. An answer depends on nothing but the pod's
    /// signature and its plugin, so pods that share both can share one answer.
    pub(super) fn take_woken(
        &mut self,
        wakes: &mut dyn FnMut(PluginName, &PodInfo) -> Hint,
    ) -> Vec<QueuedPod> {
        let mut is_woken =
            |pod: &QueuedPod| pod.rejectors.iter().any(|plugin| wakes(plugin, &pod.pod) == Hint::Queue);
        self.pods.extract_if(.., |_, pod| is_woken(pod)).map(|(_, pod)| pod).collect()
    }

    /// Takes out every pod.
    pub(super) fn take_all(&mut self) -> Vec<QueuedPod> {
        std::mem::take(&mut self.pods).into_values().collect()
    }

    /// Takes out the pods that have waited longer than `limit`.
    pub(super) fn take_overdue(&mut self, now: Time, limit: Duration) -> Vec<QueuedPod> {
        let mut overdue = Vec::new();
        while let Some(oldest) = self.pods.first_entry()
            && now.since(oldest.get().timestamp) > limit
        {
            overdue.push(oldest.remove());
        }
        overdue
    }

    pub(super) fn remove(&mut self, sequence: u64) -> Option<QueuedPod> {
        self.pods.remove(&sequence)
    }

    pub(super) fn get(&self, sequence: u64) -> Option<&QueuedPod> {
        self.pods.get(&sequence)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &QueuedPod> {
        self.pods.values()
    }

    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }
}
