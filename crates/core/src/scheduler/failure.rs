//! Handling of failed attempts: queue, PodScheduled condition, and FailedScheduling event.
//!
//! Upstream: `pkg/scheduler/schedule_one.go#handleSchedulingFailure`.

use super::Scheduler;
use super::conditions::Condition;
use crate::cycle::{Nominate, Unschedulable};
use crate::framework::PluginName;
use crate::model::effect::{EventRecord, Severity};
use crate::model::intern::Symbol;
use crate::model::pod::PodInfo;
use crate::model::time::Time;
use crate::plugins::dynamic_resources;
use crate::queue::QueuedPod;
use crate::report::{Outcome, Preemption};
use crate::switches::mutation::{self, Mutation};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The reason for a failed attempt.
pub(super) enum Failure {
    /// No node is feasible.
    Unschedulable(Unschedulable),
    /// The cluster has no nodes. There is no rejecting plugin, so no event requeues the pod; it is retried after its
    /// backoff.
    NoNodes(String),
    /// The pod exceeds a work limit. There is no rejecting plugin, so no event requeues the pod. It is retried after
    /// its backoff, because the cluster may have shrunk.
    TooLarge(String),
    /// The attempt failed with an error.
    Error(String),
    /// The attempt panicked repeatedly. The pod is not retried until it changes.
    HeldBack(String),
    /// The group of the pod cannot start, whatever was found for the pod itself. There is no rejecting plugin.
    Member {
        /// The text.
        message: String,
        /// The change of the pod's nomination.
        nominate: Nominate,
    },
    /// PreBind or the binding failed.
    Binding {
        /// The text.
        message: String,
        /// The node that the pod keeps, because its group reserves nodes.
        node: Option<Symbol>,
    },
}

impl Failure {
    /// Returns the text of the pod's condition.
    pub(super) fn message(&self) -> &str {
        match self {
            Self::Unschedulable(found) => &found.message,
            Self::NoNodes(message)
            | Self::TooLarge(message)
            | Self::Error(message)
            | Self::HeldBack(message)
            | Self::Member { message, .. }
            | Self::Binding { message, .. } => message,
        }
    }
}

impl Scheduler {
    /// Reports a failed attempt, and puts the pod back into the queue.
    pub(super) fn fail(&mut self, now: Time, queued: QueuedPod, began: Time, failure: Failure) {
        self.fail_waiting(now, queued, began, failure, None);
    }

    /// As [`Self::fail`]. A member of a group waits for the events of `wakers` instead of those of its own rejectors;
    /// without them it is retried after its backoff.
    // long because: one arm for each failure
    pub(super) fn fail_waiting(
        &mut self,
        now: Time,
        mut queued: QueuedPod,
        began: Time,
        failure: Failure,
        wakers: Option<&BTreeSet<PluginName>>,
    ) {
        let pod = Arc::clone(&queued.pod);
        self.cache.unsettle_claim(&pod.uid);
        // A claim that is freed brings the pod back, so the others stay reserved for its next attempt.
        let is_freed = |found: &Unschedulable| found.deallocated.as_ref().is_some_and(|it| !it.deletes);
        let gives_up = !matches!(&failure, Failure::Unschedulable(found) if is_freed(found));
        let waits_to_give_up = gives_up && self.give_up_claims(&pod);
        self.note_shown_nomination(&pod);
        let was_ours = std::mem::take(&mut queued.nominated);
        // A request to give up a claim may have been lost: no event would bring the pod back.
        let mut is_retried = waits_to_give_up && !self.tables.copies_defects();
        let (reason, message, rejectors, nominate) = match failure {
            Failure::Unschedulable(found) => {
                let Unschedulable {
                    rejectors,
                    preemption_blockers,
                    message,
                    preemption,
                    nominate,
                    evaluated,
                    deallocated,
                    ..
                } = found;
                match deallocated {
                    Some(deallocated) => self.deallocate(&pod, &deallocated),
                    None => {
                        let lacks_devices = rejectors.contains(&dynamic_resources::NAME)
                            || preemption_blockers.contains(&dynamic_resources::NAME);
                        // No other device fits, so the ones that failed are tried again.
                        is_retried |= lacks_devices && self.forget_failed_devices(&pod);
                    }
                }
                queued.preemption_blockers = preemption_blockers;
                let outcome = Outcome::Unschedulable {
                    message: message.clone(),
                    rejectors: rejectors.iter().copied().collect(),
                    evaluated,
                    preemption,
                };
                self.report(&queued, began, outcome);
                ("Unschedulable", message, rejectors, nominate)
            }
            Failure::NoNodes(message) | Failure::TooLarge(message) => {
                self.report(&queued, began, rejected_by_no_plugin(&message));
                ("Unschedulable", message, Default::default(), Nominate::Clear)
            }
            Failure::Member { message, nominate } => {
                self.report(&queued, began, rejected_by_no_plugin(&message));
                ("Unschedulable", message, Default::default(), nominate)
            }
            Failure::Error(message) | Failure::HeldBack(message) => {
                self.report(&queued, began, Outcome::Error { message: message.clone() });
                ("SchedulerError", message, Default::default(), Nominate::Clear)
            }
            Failure::Binding { message, node } => {
                self.report(&queued, began, Outcome::BindFailed { message: message.clone() });
                let keep = |node| Nominate::To { node, victims: Vec::new() };
                ("SchedulerError", message, Default::default(), node.map_or(Nominate::Clear, keep))
            }
        };
        // The nomination changes before the pod is queued again, so that the change does not requeue the pod itself.
        match nominate {
            Nominate::Keep if self.is_comparable => self.nominate(now, &pod, pod.nominated_node),
            Nominate::Keep if !was_ours => {}
            // The nomination was set before the binding, which failed.
            Nominate::Keep | Nominate::Clear => self.nominate(now, &pod, None),
            Nominate::To { node, .. } => self.nominate(now, &pod, Some(node)),
        }
        let attempt = queued.attempts;
        let gate = self.gate(&pod);
        if reason == "SchedulerError" && mutation::is_on(Mutation::FailedPodNotRequeued) {
            return;
        }
        let is_retried_later = pod.group.is_some() && wakers.is_none();
        let rejectors = wakers.cloned().unwrap_or(rejectors);
        if rejectors.is_empty() && gate.is_none() {
            self.queue.return_error(now, queued);
        } else if is_retried_later {
            self.queue.return_after_backoff(now, queued, rejectors, gate);
        } else {
            self.queue.return_unschedulable(now, queued, rejectors, gate);
            if is_retried {
                self.queue.requeue_after_backoff(now, &pod.uid);
            }
        }
        self.record(&pod, Severity::Warning, "FailedScheduling", "Scheduling", message.clone());
        let condition = Condition { reason, message, nominated: self.cache.nomination(&pod.uid), was_ours };
        if let Some(patch) = self.conditions.patch(now, &pod, condition, &self.tables) {
            self.outbox.push_patch(patch);
        }
        if let Nominate::To { node, victims } = nominate {
            self.preempt(now, &pod, attempt, node, &victims);
        }
    }

    /// In recordings, updates of pods do not reach the queue. A failure copies the pod as it was before.
    fn note_shown_nomination(&mut self, pod: &PodInfo) {
        if self.shows_late() {
            match pod.nominated_node {
                Some(node) => drop(self.shown_nominations.insert(Arc::clone(&pod.uid), node)),
                None => drop(self.shown_nominations.remove(&pod.uid)),
            }
        }
    }

    /// Sends an Event about the pod, reported by its profile.
    pub(super) fn record(
        &mut self,
        pod: &PodInfo,
        severity: Severity,
        reason: &'static str,
        action: &'static str,
        note: String,
    ) {
        let record = self.event_of(pod, severity, reason, action, note);
        self.outbox.push_record(record);
    }

    /// Returns an Event about the pod, reported by its profile.
    pub(super) fn event_of(
        &self,
        pod: &PodInfo,
        severity: Severity,
        reason: &'static str,
        action: &'static str,
        note: String,
    ) -> EventRecord {
        EventRecord {
            pod: self.pod_ref(pod),
            resource_version: pod.resource_version.to_string(),
            scheduler_name: self.tables.text(pod.scheduler_name).to_owned(),
            severity,
            reason,
            action,
            note,
            related: None,
        }
    }
}

/// Returns the report of a pod that is unschedulable although no plugin rejected it.
fn rejected_by_no_plugin(message: &str) -> Outcome {
    Outcome::Unschedulable {
        message: message.to_owned(),
        rejectors: Vec::new(),
        evaluated: 0,
        preemption: Preemption::NotTried,
    }
}
