//! Execution of preemption: evicts the victims of a decision while other pods are scheduled.
//!
//! The preemptor is gated until all victims are terminating. All victims but the last are evicted at once, and the
//! last one after the other evictions have been answered. A pod is evicted once, even if it is a victim of several
//! preemptions. Victims are chosen in `crate::preemption`.
//!
//! Upstream: `pkg/scheduler/framework/preemption/executor.go`. Upstream ends the wait when evictions are answered;
//! here it ends when the watch shows each victim terminating or deleted. So a late watch never leads to the same
//! victims twice.

mod ledger;

pub(super) use ledger::Preemptions;

use super::Scheduler;
use crate::framework::extension_point::ExtensionPoint;
use crate::model::effect::{Disruption, EventRecord, Eviction, PodRef, Related, Severity};
use crate::model::event::EvictOutcome;
use crate::model::group::PodGroup;
use crate::model::intern::Symbol;
use crate::model::pod::{PodInfo, Uid};
use crate::model::time::Time;
use crate::preemption;
use crate::report::{Outcome, Report};
use ledger::{Begun, EvictedPod, Preempting, Running};
use std::sync::Arc;

impl Scheduler {
    /// Starts the eviction of the victims, except those that are already terminating. Does nothing if no victim
    /// remains.
    pub(super) fn preempt(
        &mut self,
        now: Time,
        pod: &Arc<PodInfo>,
        attempt: u32,
        node: Symbol,
        victims: &[Uid],
    ) {
        self.preemptor_left(now, &pod.uid);
        let running = Running {
            preemptor: Arc::clone(pod),
            group: None,
            attempt,
            node: Some(node),
            began: now,
            left: victims.to_vec(),
        };
        if !self.preemptions.start(running, &self.cache) {
            // Recordings preempt synchronously, which clears nominations even if all victims are leaving already. A
            // group's own preemption clears none.
            if self.is_comparable && (self.shows_late() || !victims.is_empty()) {
                self.clear_lesser_nominations(now, pod, node);
            }
            return;
        }
        let gated =
            |profile: &super::Profile| profile.framework.runs(ExtensionPoint::PreEnqueue, preemption::NAME);
        if self.profile_of(pod).is_some_and(gated) {
            self.queue.block(&pod.uid, preemption::NAME);
        }
        self.clear_lesser_nominations(now, pod, node);
        self.advance(now, &pod.uid);
    }

    /// Starts the eviction of the victims of a group. All its pending members wait; `member` is one of them.
    pub(super) fn preempt_for_group(
        &mut self,
        now: Time,
        group: &PodGroup,
        member: &Arc<PodInfo>,
        victims: &[Uid],
    ) {
        self.preemptor_left(now, &group.uid);
        let gated =
            |profile: &super::Profile| profile.framework.runs(ExtensionPoint::PreEnqueue, preemption::NAME);
        let waits = self.profile_of(member).is_some_and(gated);
        let blocked = if waits { self.pending_members(group.key) } else { Vec::new() };
        let running = Running {
            preemptor: Arc::clone(member),
            group: Some(Preempting { uid: Arc::clone(&group.uid), blocked: blocked.clone() }),
            attempt: 0,
            node: None,
            began: now,
            left: victims.to_vec(),
        };
        if self.preemptions.start(running, &self.cache) {
            blocked.iter().for_each(|uid| self.queue.block(uid, preemption::NAME));
            self.advance(now, &group.uid);
        }
    }

    /// Evicts the victims that are due, or ends the preemption if no victim remains.
    fn advance(&mut self, now: Time, preemptor: &Uid) {
        for uid in self.preemptions.evictable(preemptor) {
            match self.preemptions.evict(preemptor, &uid, &self.cache) {
                Begun::Yes => {
                    self.outbox.push_eviction(Arc::clone(&uid));
                    self.cancel_unsent_victim(now, &uid);
                }
                Begun::No => {}
                // Cancelling the binding of an earlier victim may have ended the preemption.
                Begun::Ended => return,
            }
        }
        if self.preemptions.is_done(preemptor) {
            self.end_preemption(now, preemptor, None);
        }
    }

    /// Cancels the binding of a victim if it was not sent yet and the version does so. Such a victim needs no eviction
    /// through the API server.
    fn cancel_unsent_victim(&mut self, now: Time, uid: &Uid) {
        if !self.tables.rules().preempts_in_memory {
            return;
        }
        let Some(evicted) = self.preemptions.eviction(uid) else { return };
        if self.cancel_unsent(now, uid) {
            self.record_preempted(&evicted, " (in kube-scheduler memory).");
        }
    }

    /// Returns the eviction to send; `None` if it is not needed any more.
    pub(super) fn release_eviction(&mut self, now: Time, uid: &Uid) -> Option<Eviction> {
        self.cancel_unsent_victim(now, uid);
        self.preemptions.eviction(uid)?;
        let Some(EvictedPod { pod, preemptor, group, .. }) = self.preemptions.send(uid, &self.cache) else {
            self.victim_off(now, uid);
            return None;
        };
        let scheduler_name = self.tables.text(preemptor.scheduler_name);
        let by = if group.is_some() { "podgroup" } else { "pod" };
        let condition = (!pod.preempted).then(|| Disruption {
            message: format!("{scheduler_name}: preempting to accommodate a higher priority {by}"),
            observed_generation: pod.generation,
        });
        Some(Eviction { pod: self.pod_ref(&pod), condition })
    }

    /// Handles the answer to an eviction.
    pub(super) fn evict_finished(&mut self, now: Time, uid: &Uid, outcome: EvictOutcome) {
        let waiting = self.preemptions.waiting_for(uid);
        let has_failed = matches!(outcome, EvictOutcome::Failed { .. });
        let Some(evicted) = self.preemptions.answered(uid, has_failed) else { return };
        match outcome {
            EvictOutcome::Deleted => self.record_preempted(&evicted, ""),
            EvictOutcome::Gone => {}
            EvictOutcome::Failed { message } => {
                for preemptor in &waiting {
                    self.end_preemption(now, preemptor, Some(message.clone()));
                }
            }
        }
        for preemptor in &waiting {
            self.advance(now, preemptor);
        }
    }

    fn record_preempted(&mut self, evicted: &EvictedPod, suffix: &str) {
        let EvictedPod { pod, node, preemptor, group } = evicted;
        let note = match group {
            Some(group) => format!("Preempted by podgroup {group} on node cluster{suffix}"),
            None => format!("Preempted by pod {} on node {}{suffix}", preemptor.uid, self.tables.text(*node)),
        };
        let record = EventRecord {
            // The scheduler of the preemptor reports it.
            scheduler_name: self.tables.text(preemptor.scheduler_name).to_owned(),
            related: self.preemptor_of(evicted).map(Box::new),
            ..self.event_of(pod, Severity::Normal, "Preempted", "Preempting", note)
        };
        self.outbox.push_record(record);
    }

    /// Returns the preemptor as the Event about its victim names it.
    ///
    /// Pods are named up to 1.35 only: from 1.36 on, upstream passes a type to the recorder of which it cannot make a
    /// reference (`framework/preemption/executor.go`). Groups are named, without their resource version, which the
    /// cache does not have.
    fn preemptor_of(&self, evicted: &EvictedPod) -> Option<Related> {
        let preemptor = &evicted.preemptor;
        if evicted.group.is_some() {
            let group = self.cache.lookups().group(preemptor.group_key()?)?;
            let text = |symbol| self.tables.text(symbol).to_owned();
            let (namespace, name) = (text(group.key.namespace), text(group.key.name));
            let object = PodRef { namespace, name, uid: Uid::clone(&group.uid) };
            let (api_version, kind) = (group.api.api_version(), "PodGroup");
            return Some(Related { api_version, kind, object, resource_version: String::new() });
        }
        self.tables.rules().names_preemptors.then(|| Related {
            api_version: "v1",
            kind: "Pod",
            object: self.pod_ref(preemptor),
            resource_version: preemptor.resource_version.to_string(),
        })
    }

    /// Handles a victim that the watch shows as terminating or deleted.
    pub(super) fn victim_left(&mut self, now: Time, uid: &str) {
        self.preemptions.left(uid);
        self.victim_off(now, uid);
    }

    /// Handles a pod that no longer uses resources on its node. Preemptors stop waiting for it, and an eviction that
    /// was not sent is cancelled.
    pub(super) fn victim_off(&mut self, now: Time, uid: &str) {
        self.preemptions.cancel(uid, &mut self.outbox);
        for preemptor in self.preemptions.waiting_for(uid) {
            self.preemptions.strike_out(&preemptor, uid);
            self.advance(now, &preemptor);
        }
    }

    /// Ends the preemption of a pod that was deleted, is terminating, or has a node. No more victims are evicted for
    /// it.
    pub(super) fn preemptor_left(&mut self, now: Time, uid: &str) {
        if let Some(running) = self.preemptions.end(uid, &mut self.outbox) {
            running.blocked().iter().for_each(|uid| self.queue.unblock(now, uid));
        }
    }

    /// Handles the deletion of a node: ends the preemptions on it, and requeues the preemptors.
    pub(super) fn node_left(&mut self, now: Time, node: Symbol) {
        for uid in self.preemptions.on_node(node) {
            self.preemptor_left(now, &uid);
            self.queue.requeue_now(now, &uid);
        }
    }

    /// Ends all preemptions and returns the preemptors.
    pub(super) fn drop_preemptions(&mut self) -> Vec<Uid> {
        self.preemptions.end_all(&mut self.outbox)
    }

    /// Ends a preemption. After an error the pod is retried after its backoff; upstream retries at once while the
    /// error lasts.
    fn end_preemption(&mut self, now: Time, uid: &Uid, error: Option<String>) {
        let Some(running) = self.preemptions.end(uid, &mut self.outbox) else { return };
        for uid in running.blocked() {
            if error.is_some() {
                self.queue.requeue_after_backoff(now, uid);
            } else {
                self.queue.unblock(now, uid);
            }
        }
        let Running { preemptor, attempt, node, began, .. } = running;
        let node = node.map_or("cluster", |node| self.tables.text(node)).to_owned();
        self.reports.push_back(Report {
            pod: self.pod_ref(&preemptor),
            profile: self.profile_of(&preemptor).map(|p| p.name.clone()).unwrap_or_default(),
            attempt,
            first_queued: began,
            began,
            rescued_by_flush: false,
            outcome: Outcome::PreemptionEnded { node, error },
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::cycle::NoProbe;
    use crate::model::effect::Lane;
    use crate::model::event::{Event, EvictOutcome};
    use crate::scheduler::quarantine::tests::{World, pod};

    /// No scenario in `tests/scenarios` can show this case: the engine makes no decision while a binding waits for a
    /// credit. One shows a victim that waits for volumes.
    #[test]
    fn victim_with_an_unsent_binding_is_preempted_in_memory() {
        let mut world = World::new();
        for lane in [Lane::Evict, Lane::Status, Lane::Record] {
            world.handle(Event::Credits { lane, count: 9 });
        }
        world.pod("low", 3_000, None);
        assert!(world.scheduler.attempt(world.now, &mut NoProbe), "it is decided and waits to leave");
        let mut high = pod(world.scheduler.tables(), "high", 3_000, None);
        high.priority = 9;
        world.handle(Event::PodApplied(high));
        assert!(world.scheduler.attempt(world.now, &mut NoProbe), "it takes the place");

        let log = world.run().join("\n");
        assert!(!log.contains("Evict("), "{log}");
        let note = "Preempted by pod high on node a (in kube-scheduler memory).";
        assert_eq!(log.matches(note).count(), 1, "{log}");
        let failed = "BindFailed { message: \"running Bind plugin \\\"DefaultBinder\\\": preempted by DefaultPreemption\" }";
        assert!(log.contains(&format!("low: {failed}")), "{log}");
        assert!(log.contains("Bind { pod: PodRef { namespace: \"default\", name: \"high\""), "{log}");
        assert!(!log.contains("Bind { pod: PodRef { namespace: \"default\", name: \"low\""), "{log}");
        let stats = world.scheduler.stats();
        assert_eq!((stats.preemptions, stats.evictions, stats.cache.assumed_pods), (0, 0, 1));
    }

    #[test]
    fn scheduler_of_the_preemptor_reports_the_event_of_the_victim() {
        let mut world = World::new();
        for lane in [Lane::Evict, Lane::Status, Lane::Record] {
            world.handle(Event::Credits { lane, count: 9 });
        }
        let mut low = pod(world.scheduler.tables(), "low", 3_000, Some("a"));
        low.template.scheduler_name = world.scheduler.tables().symbol("other-scheduler");
        world.handle(Event::PodApplied(low));
        let mut high = pod(world.scheduler.tables(), "high", 3_000, None);
        high.priority = 9;
        world.handle(Event::PodApplied(high));
        world.run();
        world.handle(Event::EvictFinished { uid: "low".into(), outcome: EvictOutcome::Deleted });
        let log = world.run().join("\n");
        let event =
            log.lines().find(|line| line.contains("Preempted by pod high")).expect("it was preempted");
        assert!(event.contains("scheduler_name: \"default-scheduler\""), "{event}");
    }
}
