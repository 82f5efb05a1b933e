//! Handling of failed attempts: queue, PodScheduled condition, and FailedScheduling event.
//!
//! Upstream: `pkg/scheduler/schedule_one.go#handleSchedulingFailure`.

use super::{Scheduler, quarantine};
use crate::effect::{EventRecord, Nomination, Severity, StatusPatch, Unscheduled};
use crate::framework::PluginName;
use crate::intern::Symbol;
use crate::intern::trace_ids;
use crate::mutation::{self, Mutation};
use crate::pod::{PodInfo, Uid};
use crate::queue::QueuedPod;
use crate::report::{Outcome, Preemption};
use crate::time::Time;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

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
    /// The binding failed.
    Binding(String),
}

/// The result of a decision without a feasible node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unschedulable {
    /// The plugins that rejected the pod or nodes.
    pub(super) rejectors: BTreeSet<PluginName>,
    /// The plugins that made preemption fail.
    pub(super) preemption_blockers: BTreeSet<PluginName>,
    /// The full message, including PostFilter's part.
    pub(super) message: String,
    /// The result of preemption.
    pub(super) preemption: Preemption,
    /// The change of the pod's nomination.
    pub(super) nominate: Nominate,
    /// The number of nodes with a verdict.
    pub(super) evaluated: usize,
    /// The number of nodes by which the search advances its start for the next pod.
    pub(super) walked: usize,
}

/// The change of the nomination of a pod that was not placed (upstream `NominatingInfo`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Nominate {
    /// Unchanged.
    Keep,
    /// Removed.
    Clear,
    /// Set to this node, which becomes feasible when the victims are gone.
    To {
        /// The node.
        node: Symbol,
        /// The victims in descending order of importance.
        victims: Vec<Uid>,
    },
}

/// How long the watch may take to show a condition that was sent. After that it is considered lost.
const ECHO_MAX: Duration = Duration::from_secs(10);

/// The condition and the nomination that were sent last, and when.
#[derive(Clone, Debug)]
pub(super) struct SentCondition {
    reason: &'static str,
    message: String,
    pub(super) nominated: Option<Symbol>,
    at: Time,
}

impl Scheduler {
    /// Reports a failed attempt, and puts the pod back into the queue.
    pub(super) fn fail(&mut self, now: Time, mut queued: QueuedPod, began: Time, failure: Failure) {
        let pod = Arc::clone(&queued.pod);
        let was_ours = std::mem::take(&mut queued.nominated);
        let (reason, message, rejectors, nominate) = match failure {
            Failure::Unschedulable(found) => {
                let Unschedulable {
                    rejectors,
                    preemption_blockers,
                    message,
                    preemption,
                    nominate,
                    evaluated,
                    ..
                } = found;
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
                let outcome = Outcome::Unschedulable {
                    message: message.clone(),
                    rejectors: Vec::new(),
                    evaluated: 0,
                    preemption: Preemption::NotTried,
                };
                self.report(&queued, began, outcome);
                ("Unschedulable", message, Default::default(), Nominate::Clear)
            }
            Failure::Error(message) | Failure::HeldBack(message) => {
                self.report(&queued, began, Outcome::Error { message: message.clone() });
                ("SchedulerError", message, Default::default(), Nominate::Clear)
            }
            Failure::Binding(message) => {
                self.report(&queued, began, Outcome::BindFailed { message: message.clone() });
                ("SchedulerError", message, Default::default(), Nominate::Clear)
            }
        };
        // The nomination changes before the pod is queued again, so that the change does not requeue the pod itself.
        match nominate {
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
        if rejectors.is_empty() && gate != Some(quarantine::GATE) {
            self.queue.return_error(now, queued);
        } else {
            self.queue.return_unschedulable(now, queued, rejectors, gate);
        }
        self.record(&pod, Severity::Warning, "FailedScheduling", "Scheduling", message.clone());
        self.set_condition(now, &pod, reason, message, was_ours);
        if let Nominate::To { node, victims } = nominate {
            self.preempt(now, &pod, attempt, node, &victims);
        }
    }

    /// Sends PodScheduled=False and the pod's nomination in one patch, unless the pod already shows both or they were
    /// just sent.
    ///
    /// `was_ours` is true if the pod was nominated to the node before its binding.
    fn set_condition(
        &mut self,
        now: Time,
        pod: &PodInfo,
        reason: &'static str,
        message: String,
        was_ours: bool,
    ) {
        let nominated = self.cache.nomination(&pod.uid);
        let nomination = self.nomination_change(now, pod, was_ours);
        let shown = pod.scheduled.as_ref().filter(|c| &*c.status == "False");
        let is_shown = shown.is_some_and(|c| *c.reason == *reason && *c.message == *message);
        let sent = self.sent_conditions.get(&pod.uid);
        let is_sent = sent.is_some_and(|sent| sent.reason == reason && sent.message == message);
        // The watch may show an older state than the one sent, however long that takes to arrive.
        let is_recent = sent.is_some_and(|sent| now.since(sent.at) <= ECHO_MAX);
        let is_told = if sent.is_some() { is_sent && (is_shown || is_recent) } else { is_shown };
        let is_renominated = is_recent && !was_ours && sent.is_some_and(|sent| sent.nominated == nominated);
        if is_told && (nomination == Nomination::Keep || is_renominated) {
            return;
        }
        let condition = Unscheduled {
            reason,
            message: message.clone(),
            observed_generation: pod.generation,
            since: shown.map(|c| c.last_transition_time.to_string()).filter(|since| !since.is_empty()),
        };
        let condition = (!is_told || !is_shown).then_some(condition);
        self.outbox.push_patch(StatusPatch { pod: self.pod_ref(pod), condition, nomination });
        let sent = SentCondition { reason, message, nominated, at: now };
        self.sent_conditions.insert(Arc::clone(&pod.uid), sent);
    }

    /// Returns the change of the pod's nomination for a patch.
    ///
    /// No change is needed if the API server shows the current nomination and no other was sent. Each patch repeats
    /// the change until the watch shows it, so that a newer patch can replace an older one.
    fn nomination_change(&self, now: Time, pod: &PodInfo, was_ours: bool) -> Nomination {
        let nominated = self.cache.nomination(&pod.uid);
        let sent = self.sent_conditions.get(&pod.uid).filter(|sent| now.since(sent.at) <= ECHO_MAX);
        let is_sent = sent.is_none_or(|sent| sent.nominated == nominated);
        match nominated {
            None if was_ours => Nomination::Clear,
            _ if is_sent && nominated == pod.nominated_node => Nomination::Keep,
            Some(node) => Nomination::Set(self.tables.text(node).to_owned()),
            None => Nomination::Clear,
        }
    }

    pub(super) fn record(
        &mut self,
        pod: &PodInfo,
        severity: Severity,
        reason: &'static str,
        action: &'static str,
        note: String,
    ) {
        self.record_as(pod.scheduler_name, pod, severity, reason, action, note);
    }

    /// Sends an Event about the pod, reported by the profile `scheduler_name`.
    pub(super) fn record_as(
        &mut self,
        scheduler_name: Symbol,
        pod: &PodInfo,
        severity: Severity,
        reason: &'static str,
        action: &'static str,
        note: String,
    ) {
        let record = EventRecord {
            pod: self.pod_ref(pod),
            resource_version: pod.resource_version.to_string(),
            scheduler_name: self.tables.text(scheduler_name).to_owned(),
            severity,
            reason,
            action,
            note,
        };
        self.outbox.push_record(record);
    }
}

trace_ids!(SentCondition { nominated } but not { reason, message, at });
