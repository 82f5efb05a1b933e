//! Another configuration between two decisions: other profiles, plugins, arguments, shares of the nodes, backoffs.
//!
//! What is not part of it (the seed, how long a pod may wait without an event, what was counted) stays. Upstream reads its
//! configuration once, so there is nothing to equal. Reads no file: that is the shell's.

use super::{Profile, Scheduler};
use crate::extender::Extender;
use crate::hash::FixedMap;
use crate::pod::{PodInfo, Uid};
use crate::queue::Reconsidered;
use crate::time::Time;
use std::sync::Arc;
use std::time::Duration;

/// What a running scheduler can be given anew.
pub struct Reconfiguration {
    /// All profiles, old and new.
    pub profiles: Vec<Profile>,
    /// The backoff after the first failure.
    pub initial_backoff: Duration,
    /// The longest backoff.
    pub max_backoff: Duration,
    /// The extenders.
    pub extenders: Vec<Extender>,
}

impl Scheduler {
    /// From now on decides by another configuration.
    ///
    /// Nothing that was remembered of decisions holds, and every waiting pod is to be tried again. Pods of a profile that is
    /// gone are let go: bindings that left are finished, all else about them is given up. Pods of a profile that is new are
    /// taken up as the API server shows them, so it is to be listed anew where there is one; whether there is, is
    /// returned.
    pub fn reconfigure(&mut self, now: Time, to: Reconfiguration) -> bool {
        let Reconfiguration { profiles, initial_backoff, max_backoff, extenders } = to;
        let tables = &mut self.tables;
        let profiles = profiles.into_iter().map(|profile| (tables.symbol(&profile.name), profile)).collect();
        let before = std::mem::replace(&mut self.profiles, profiles);
        let is_new = |&(name, _): &(_, Profile)| before.iter().all(|(other, _)| *other != name);
        let any_is_new = self.profiles.iter().any(is_new);
        self.set_extenders(extenders);
        self.memory.clear();
        self.decisions.clear();
        self.slices.clear();
        self.give_up_for_others(now);
        let let_go = self.reconsider(now, initial_backoff, max_backoff);
        for pod in let_go {
            self.let_go(now, &pod);
        }
        any_is_new
    }

    /// Takes back what was decided for pods of profiles that are gone and has not left.
    fn give_up_for_others(&mut self, now: Time) {
        let waiting: Vec<Uid> = self
            .pre_binds
            .iter()
            .filter(|(queued, ..)| !self.is_ours(&queued.pod))
            .map(|(queued, ..)| Arc::clone(&queued.pod.uid))
            .collect();
        for uid in waiting {
            self.pre_bind_given_up(now, &uid);
        }
        // What extenders said was said to other questions.
        for queued in self.give_up_asking() {
            self.queue.activate(now, queued);
        }
        for uid in self.unsent_bindings() {
            if self.cache.placed(&uid).is_some_and(|(pod, ..)| !self.is_ours(pod)) {
                self.outbox.drop_bind(&uid);
                self.give_back(now, &uid);
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
            true => Reconsidered::Stays(self.gate(pod)),
            false => Reconsidered::LetGo,
        };
        let waiting = self.queue.waiting().map(|(_, queued)| &queued.pod);
        let verdicts: FixedMap<Uid, Reconsidered> =
            waiting.map(|pod| (Arc::clone(&pod.uid), becomes(pod))).collect();
        self.queue.reconsider(now, initial_backoff, max_backoff, &mut |pod| verdicts[&pod.uid])
    }

    /// A waiting pod is somebody else's from now on: nothing more is said of it, and what it was promised is free. Its
    /// nomination counts like that of any pod of others, as the API server shows it.
    pub(super) fn let_go(&mut self, now: Time, pod: &Arc<PodInfo>) {
        self.sent_conditions.remove(&pod.uid);
        self.quarantine.forget(&pod.uid);
        self.outbox.cancel_patch(&pod.uid);
        self.preemptor_left(now, &pod.uid);
        self.nominate(now, pod, pod.nominated_node.filter(|_| !pod.deleting));
    }
}
