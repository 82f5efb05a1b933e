//! Execution of preemption: evicts the victims of a decision while other pods are scheduled.
//!
//! The preemptor is gated until all victims are terminating. All victims but the last are evicted at once, and the
//! last one after the other evictions have been answered. A pod is evicted once, even if it is a victim of several
//! preemptions. Victims are chosen in `crate::preemption`.
//!
//! Upstream: `pkg/scheduler/framework/preemption/executor.go`. Upstream ends the wait when evictions are answered;
//! here it ends when the watch shows each victim terminating or deleted. So a late watch never leads to the same
//! victims twice.

use super::Scheduler;
use crate::effect::{Disruption, Eviction, Severity};
use crate::event::EvictOutcome;
use crate::framework::registry::ExtensionPoint;
use crate::intern::Symbol;
use crate::intern::{Marks, TraceIds, trace_ids};
use crate::pod::{PodInfo, Uid};
use crate::preemption;
use crate::report::{Outcome, Report};
use crate::time::Time;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A preemption with victims that are not terminating yet.
struct Running {
    preemptor: Arc<PodInfo>,
    attempt: u32,
    node: Symbol,
    began: Time,
    /// The victims that the watch does not show as terminating yet, in order. The last is evicted last.
    left: Vec<Uid>,
}

/// The state of an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Waits for release.
    Waiting,
    /// Released, without an answer.
    InFlight,
    /// Answered, but the watch does not show the deletion yet.
    Answered,
}

/// A pod that is being evicted. The record is kept until the watch shows it terminating, so that it is not evicted
/// twice.
struct Victim {
    pod: Arc<PodInfo>,
    node: Symbol,
    /// The first pod for which it is evicted.
    preemptor: Arc<PodInfo>,
    stage: Stage,
    /// Whether the watch has shown it as terminating.
    left: bool,
}

/// All running preemptions, and their evictions.
#[derive(Default)]
pub(super) struct Preemptions {
    running: BTreeMap<Uid, Running>,
    /// The preemptors by nominated node.
    by_node: BTreeMap<Symbol, BTreeSet<Uid>>,
    victims: BTreeMap<Uid, Victim>,
    /// The preemptors that wait for each victim.
    awaited: BTreeMap<Uid, BTreeSet<Uid>>,
}

impl Preemptions {
    fn begin(&mut self, running: Running) {
        let preemptor = Arc::clone(&running.preemptor.uid);
        for victim in &running.left {
            self.awaited.entry(Arc::clone(victim)).or_default().insert(Arc::clone(&preemptor));
        }
        self.by_node.entry(running.node).or_default().insert(Arc::clone(&preemptor));
        self.running.insert(preemptor, running);
    }

    /// Removes a preemption.
    fn finish(&mut self, preemptor: &str) -> Option<Running> {
        let running = self.running.remove(preemptor)?;
        if let Entry::Occupied(mut there) = self.by_node.entry(running.node) {
            there.get_mut().remove(preemptor);
            if there.get().is_empty() {
                there.remove();
            }
        }
        for victim in &running.left {
            self.awaits_no_more(preemptor, victim);
        }
        Some(running)
    }

    fn awaits_no_more(&mut self, preemptor: &str, victim: &str) {
        if let Some(waiting) = self.awaited.get_mut(victim) {
            waiting.remove(preemptor);
            if waiting.is_empty() {
                self.awaited.remove(victim);
            }
        }
    }

    /// Removes a victim from a preemption.
    fn strike_out(&mut self, preemptor: &str, victim: &str) {
        if let Some(running) = self.running.get_mut(preemptor) {
            running.left.retain(|left| **left != *victim);
        }
        self.awaits_no_more(preemptor, victim);
    }

    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    /// Whether the pod waits for its victims.
    pub(super) fn is_running(&self, preemptor: &str) -> bool {
        self.running.contains_key(preemptor)
    }

    pub(super) fn evictions(&self) -> usize {
        self.victims.len()
    }

    /// Returns the uids of all pods with a record here: preemptors and victims.
    pub(super) fn uids(&self) -> impl Iterator<Item = &Uid> {
        self.running.keys().chain(self.victims.keys())
    }

    pub(super) fn is_any_in_flight(&self) -> bool {
        self.victims.values().any(|victim| victim.stage == Stage::InFlight)
    }

    /// Returns the preemptors that wait for the victim.
    fn waiting_for(&self, victim: &str) -> Vec<Uid> {
        self.awaited.get(victim).into_iter().flatten().cloned().collect()
    }

    /// Returns the victims of a preemption that may be evicted now and are not being evicted yet.
    fn tellable(&self, preemptor: &str) -> Vec<Uid> {
        let Some(Running { left, .. }) = self.running.get(preemptor) else { return Vec::new() };
        let Some((last, others)) = left.split_last() else { return Vec::new() };
        let is_answered =
            |uid: &Uid| self.victims.get(uid).is_some_and(|victim| victim.stage == Stage::Answered);
        let mut tellable = others.to_vec();
        if others.iter().all(is_answered) {
            tellable.push(Arc::clone(last));
        }
        tellable.retain(|uid| !self.victims.contains_key(uid));
        tellable
    }
}

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
        let stays = |uid: &&Uid| self.cache.placed(uid).is_some_and(|(victim, ..)| !victim.deleting);
        let left: Vec<Uid> = victims.iter().filter(stays).cloned().collect();
        if left.is_empty() {
            return;
        }
        let running = Running { preemptor: Arc::clone(pod), attempt, node, began: now, left };
        self.preemptions.begin(running);
        let gated =
            |profile: &super::Profile| profile.framework.runs(ExtensionPoint::PreEnqueue, preemption::NAME);
        if self.profile_of(pod).is_some_and(gated) {
            self.queue.block(&pod.uid, preemption::NAME);
        }
        self.clear_lesser_nominations(now, pod, node);
        self.advance(now, &pod.uid);
    }

    /// Evicts the victims that are due, or ends the preemption if no victim remains.
    fn advance(&mut self, now: Time, preemptor: &Uid) {
        for uid in self.preemptions.tellable(preemptor) {
            // Cancelling the binding of an earlier victim may have ended the preemption.
            let Some(running) = self.preemptions.running.get(preemptor) else { return };
            let preemptor = Arc::clone(&running.preemptor);
            let Some((pod, node, _)) = self.cache.placed(&uid) else { continue };
            if self.preemptions.victims.contains_key(&uid) {
                continue;
            }
            let pod = Arc::clone(pod);
            debug_assert!(pod.priority < preemptor.priority, "a victim is less important");
            let victim = Victim { pod, node, preemptor, stage: Stage::Waiting, left: false };
            self.preemptions.victims.insert(Arc::clone(&uid), victim);
            self.outbox.push_eviction(Arc::clone(&uid));
            self.cancel_unsent_victim(now, &uid);
        }
        if self.preemptions.running.get(preemptor).is_some_and(|running| running.left.is_empty()) {
            self.end(now, preemptor, None);
        }
    }

    /// Cancels the binding of a victim if it was not sent yet. Such a victim needs no eviction through the API
    /// server.
    fn cancel_unsent_victim(&mut self, now: Time, uid: &Uid) {
        let Some(victim) = self.preemptions.victims.get(uid) else { return };
        let (pod, preemptor, node) = (Arc::clone(&victim.pod), Arc::clone(&victim.preemptor), victim.node);
        if self.cancel_unsent(now, uid) {
            self.record_preempted(&pod, &preemptor, node, " (in kube-scheduler memory).");
        }
    }

    /// Returns the eviction to send; `None` if it is not needed any more.
    pub(super) fn release_eviction(&mut self, now: Time, uid: &Uid) -> Option<Eviction> {
        self.cancel_unsent_victim(now, uid);
        let node = self.preemptions.victims.get(uid)?.node;
        let placed = self.cache.placed(uid).filter(|(pod, on, _)| *on == node && !pod.deleting);
        let Some(pod) = placed.map(|(pod, ..)| Arc::clone(pod)) else {
            self.victim_off(now, uid);
            return None;
        };
        let victim = self.preemptions.victims.get_mut(uid)?;
        victim.stage = Stage::InFlight;
        victim.pod = Arc::clone(&pod);
        let scheduler_name = self.tables.text(victim.preemptor.scheduler_name);
        let condition = (!pod.preempted).then(|| Disruption {
            message: format!("{scheduler_name}: preempting to accommodate a higher priority pod"),
            observed_generation: pod.generation,
        });
        Some(Eviction { pod: self.pod_ref(&pod), condition })
    }

    pub(super) fn evict_finished(&mut self, now: Time, uid: &Uid, outcome: EvictOutcome) {
        let Some(victim) = self.preemptions.victims.get_mut(uid) else { return };
        victim.stage = Stage::Answered;
        let (pod, preemptor, node) = (Arc::clone(&victim.pod), Arc::clone(&victim.preemptor), victim.node);
        let left = victim.left;
        let waiting = self.preemptions.waiting_for(uid);
        if left || matches!(outcome, EvictOutcome::Failed { .. }) {
            self.preemptions.victims.remove(uid);
        }
        match outcome {
            EvictOutcome::Deleted => self.record_preempted(&pod, &preemptor, node, ""),
            EvictOutcome::Gone => {}
            EvictOutcome::Failed { message } => {
                for preemptor in &waiting {
                    self.end(now, preemptor, Some(message.clone()));
                }
            }
        }
        for preemptor in &waiting {
            self.advance(now, preemptor);
        }
    }

    fn record_preempted(&mut self, pod: &PodInfo, preemptor: &PodInfo, node: Symbol, suffix: &str) {
        let note = format!("Preempted by pod {} on node {}{suffix}", preemptor.uid, self.tables.text(node));
        self.record_as(preemptor.scheduler_name, pod, Severity::Normal, "Preempted", "Preempting", note);
    }

    /// Handles a victim that the watch shows as terminating or deleted.
    pub(super) fn victim_left(&mut self, now: Time, uid: &str) {
        match self.preemptions.victims.get_mut(uid) {
            Some(victim) if victim.stage == Stage::InFlight => victim.left = true,
            Some(victim) if victim.stage == Stage::Answered => {
                self.preemptions.victims.remove(uid);
            }
            Some(_) | None => {}
        }
        self.victim_off(now, uid);
    }

    /// Handles a pod that no longer uses resources on its node. Preemptors stop waiting for it, and an eviction that
    /// was not sent is cancelled.
    pub(super) fn victim_off(&mut self, now: Time, uid: &str) {
        if self.preemptions.victims.get(uid).is_some_and(|victim| victim.stage == Stage::Waiting) {
            self.preemptions.victims.remove(uid);
            self.outbox.cancel_eviction(uid);
        }
        for preemptor in self.preemptions.waiting_for(uid) {
            self.preemptions.strike_out(&preemptor, uid);
            self.advance(now, &preemptor);
        }
    }

    /// Ends the preemption of a pod that was deleted, is terminating, or has a node. No more victims are evicted for
    /// it.
    pub(super) fn preemptor_left(&mut self, now: Time, uid: &str) {
        if let Some(running) = self.preemptions.finish(uid) {
            self.drop_unwanted(&running.left);
            self.queue.unblock(now, uid);
        }
    }

    /// Handles the deletion of a node: ends the preemptions on it, and requeues the preemptors.
    pub(super) fn node_left(&mut self, now: Time, node: Symbol) {
        let preemptors: Vec<Uid> =
            self.preemptions.by_node.get(&node).into_iter().flatten().cloned().collect();
        for uid in preemptors {
            self.preemptor_left(now, &uid);
            self.queue.requeue_now(now, &uid);
        }
    }

    /// Ends all preemptions and returns the preemptors. Nothing more is sent; evictions in flight are still reported.
    pub(super) fn drop_preemptions(&mut self) -> Vec<Uid> {
        let preemptors: Vec<Uid> = self.preemptions.running.keys().cloned().collect();
        for preemptor in &preemptors {
            if let Some(running) = self.preemptions.finish(preemptor) {
                self.drop_unwanted(&running.left);
            }
        }
        preemptors
    }

    /// Cancels evictions that were not sent and that no preemptor waits for any more.
    fn drop_unwanted(&mut self, left: &[Uid]) {
        for uid in left.iter().filter(|uid| !self.preemptions.awaited.contains_key(*uid)) {
            let Entry::Occupied(victim) = self.preemptions.victims.entry(Arc::clone(uid)) else { continue };
            if victim.get().stage == Stage::Waiting {
                victim.remove();
                self.outbox.cancel_eviction(uid);
            }
        }
    }

    /// Ends a preemption. After an error the pod is retried after its backoff; upstream retries at once while the
    /// error lasts.
    fn end(&mut self, now: Time, uid: &Uid, error: Option<String>) {
        let Some(running) = self.preemptions.finish(uid) else { return };
        self.drop_unwanted(&running.left);
        let Running { preemptor, attempt, node, began, .. } = running;
        if error.is_some() {
            self.queue.requeue_after_backoff(now, uid);
        } else {
            self.queue.unblock(now, uid);
        }
        self.reports.push_back(Report {
            pod: self.pod_ref(&preemptor),
            profile: self.profile_of(&preemptor).map(|p| p.name.clone()).unwrap_or_default(),
            attempt,
            first_queued: began,
            began,
            rescued_by_flush: false,
            outcome: Outcome::PreemptionEnded { node: self.tables.text(node).to_owned(), error },
        });
    }
}

trace_ids!(Running { preemptor, node } but not { attempt, began, left });
trace_ids!(Victim { pod, node, preemptor } but not { stage, left });

impl TraceIds for Preemptions {
    fn mark(&self, marks: &mut Marks) {
        let Self { running, victims, by_node: _, awaited: _ } = self;
        running.values().for_each(|it| it.mark(marks));
        victims.values().for_each(|it| it.mark(marks));
    }
}

#[cfg(test)]
mod tests {
    use crate::cycle::NoProbe;
    use crate::effect::Lane;
    use crate::event::Event;
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

        let told = world.run().join("\n");
        assert!(!told.contains("Evict("), "{told}");
        let note = "Preempted by pod high on node a (in kube-scheduler memory).";
        assert_eq!(told.matches(note).count(), 1, "{told}");
        let failed = "BindFailed { message: \"running Bind plugin \\\"DefaultBinder\\\": preempted by DefaultPreemption\" }";
        assert!(told.contains(&format!("low: {failed}")), "{told}");
        assert!(told.contains("Bind { pod: PodRef { namespace: \"default\", name: \"high\""), "{told}");
        assert!(!told.contains("Bind { pod: PodRef { namespace: \"default\", name: \"low\""), "{told}");
        let stats = world.scheduler.stats();
        assert_eq!((stats.preemptions, stats.evictions, stats.cache.assumed_pods), (0, 0, 1));
    }
}
