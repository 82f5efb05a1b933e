//! Replacement of the configuration between two decisions: profiles, plugins, arguments, sampling percentages,
//! backoffs.
//!
//! The seed, the time limit of unschedulable pods and the counters are kept. Upstream reads its configuration only at
//! startup, so there is no upstream behavior to match. Files are read outside the engine.

use super::departure::Departure;
use super::{Profile, Scheduler};
use crate::collections::hash::FixedMap;
use crate::model::emulation::EmulatedVersion;
use crate::model::extender::Extender;
use crate::model::pod::{PodInfo, Uid};
use crate::model::time::Time;
use crate::queue::QueueDecision;
use std::sync::Arc;
use std::time::Duration;

/// The replaceable part of the configuration.
pub struct Reconfiguration {
    /// The version of kube-scheduler to behave as.
    pub emulated_version: EmulatedVersion,
    /// All profiles.
    pub profiles: Vec<Profile>,
    /// The backoff after the first failure.
    pub initial_backoff: Duration,
    /// The maximum backoff.
    pub max_backoff: Duration,
    /// The extenders.
    pub extenders: Vec<Extender>,
}

impl Scheduler {
    /// Replaces the configuration. Returns whether a new list of pods is necessary: there is a new profile, or another
    /// emulated version, by whose rules pods are converted.
    ///
    /// All cached decisions are evicted, and every pending pod is retried. Pods of removed profiles leave the queue;
    /// bindings in flight are completed, and everything else about these pods is dropped. Pods of new profiles are
    /// known only from a new list.
    pub fn reconfigure(&mut self, now: Time, to: Reconfiguration) -> bool {
        let Reconfiguration { emulated_version, profiles, initial_backoff, max_backoff, extenders } = to;
        let tables = &mut self.tables;
        let is_other_version = tables.rules().version != emulated_version;
        tables.emulate(emulated_version);
        self.queue.emulate(tables.rules());
        if is_other_version {
            self.rank_groups();
        }
        let tables = &mut self.tables;
        let profiles = profiles.into_iter().map(|profile| (tables.symbol(&profile.name), profile)).collect();
        let before = std::mem::replace(&mut self.profiles, profiles);
        let is_new = |&(name, _): &(_, Profile)| before.iter().all(|(other, _)| *other != name);
        let any_is_new = self.profiles.iter().any(is_new);
        self.set_extenders(extenders);
        self.decisions.clear();
        self.slices.clear();
        self.give_up_for_others(now);
        let removed = self.reconsider(now, initial_backoff, max_backoff);
        for pod in removed {
            self.pod_left(now, &pod.uid, &Departure::NotOurs(&pod));
        }
        any_is_new || is_other_version
    }

    /// Reverts decisions for pods of removed profiles whose bindings were not sent.
    fn give_up_for_others(&mut self, now: Time) {
        let waiting: Vec<Uid> = self
            .volume_bindings
            .iter()
            .filter(|(queued, ..)| !self.is_ours(&queued.pod))
            .map(|(queued, ..)| Arc::clone(&queued.pod.uid))
            .collect();
        for uid in waiting {
            self.revert_pre_bind(now, &uid);
        }
        // The answers of extenders belong to the old configuration.
        for queued in self.end_all_suspended() {
            self.activate(now, queued);
        }
        for uid in self.bindings.unsent() {
            if self.cache.placed(&uid).is_some_and(|(pod, ..)| !self.is_ours(pod)) {
                self.outbox.drop_bind(&uid);
                self.revert_unsent(now, &uid);
            }
        }
    }

    fn reconsider(
        &mut self,
        now: Time,
        initial_backoff: Duration,
        max_backoff: Duration,
    ) -> Vec<Arc<PodInfo>> {
        let becomes = |pod: &PodInfo| match self.is_ours(pod) {
            true => QueueDecision::Stays(self.gate(pod)),
            false => QueueDecision::Leaves,
        };
        let waiting = self.queue.waiting().map(|(_, queued)| &queued.pod);
        let verdicts: FixedMap<Uid, QueueDecision> =
            waiting.map(|pod| (Arc::clone(&pod.uid), becomes(pod))).collect();
        self.queue.reconsider(now, initial_backoff, max_backoff, &mut |pod| verdicts[&pod.uid])
    }
}
