//! What follows when a pod was not placed: the queue, the condition, the event.
//!
//! Upstream: `pkg/scheduler/schedule_one.go#handleSchedulingFailure`.

use super::{Scheduler, quarantine};
use crate::effect::{Nomination, Record, Severity, StatusPatch, Unscheduled};
use crate::framework::PluginName;
use crate::pod::PodInfo;
use crate::queue::QueuedPod;
use crate::report::{Outcome, Preemption};
use crate::time::Time;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Why a pod was not placed.
pub(super) enum Failure {
    /// No node can take it.
    Unschedulable(Unschedulable),
    /// There are no nodes. No plugin is to blame, so no event wakes the pod: it is tried again by and by.
    NoNodes(String),
    /// The attempt failed.
    Error(String),
    /// The attempt failed, as those before, and there will be no other until the pod changes.
    HeldBack(String),
    /// The binding was not carried out.
    Binding(String),
}

/// What is known of a pod no node can take.
#[derive(Clone)]
pub(super) struct Unschedulable {
    /// The plugins to blame.
    pub(super) rejectors: BTreeSet<PluginName>,
    /// The whole text, with what PostFilter adds.
    pub(super) message: String,
    /// What preemption came to.
    pub(super) preemption: Preemption,
}

/// How long a condition that was sent may take to be shown by the watch, before it is taken for lost.
const ECHO_MAX: Duration = Duration::from_secs(10);

/// The condition that was sent last, and when.
#[derive(Clone, Debug)]
pub(super) struct SentCondition {
    reason: &'static str,
    message: String,
    at: Time,
}

impl Scheduler {
    /// Tells of the failure, and puts the pod back to wait for what may help it.
    pub(super) fn fail(&mut self, now: Time, mut queued: QueuedPod, began: Time, failure: Failure) {
        let pod = Arc::clone(&queued.pod);
        let nomination = self.nomination_after(&mut queued, &failure);
        let (reason, message, rejectors) = match failure {
            Failure::Unschedulable(Unschedulable { rejectors, message, preemption }) => {
                let blamed = rejectors.iter().copied().collect();
                let outcome =
                    Outcome::Unschedulable { message: message.clone(), rejectors: blamed, preemption };
                self.report(&queued, began, outcome);
                ("Unschedulable", message, rejectors)
            }
            Failure::NoNodes(message) => {
                let outcome = Outcome::Unschedulable {
                    message: message.clone(),
                    rejectors: Vec::new(),
                    preemption: Preemption::NotTried,
                };
                self.report(&queued, began, outcome);
                ("Unschedulable", message, Default::default())
            }
            Failure::Error(message) | Failure::HeldBack(message) => {
                self.report(&queued, began, Outcome::Error { message: message.clone() });
                ("SchedulerError", message, Default::default())
            }
            Failure::Binding(message) => {
                self.report(&queued, began, Outcome::BindFailed { message: message.clone() });
                ("SchedulerError", message, Default::default())
            }
        };
        let gate = self.gate(&pod);
        if rejectors.is_empty() && gate != Some(quarantine::GATE) {
            self.queue.return_error(now, queued);
        } else {
            self.queue.return_unschedulable(now, queued, rejectors, gate);
        }
        self.record(&pod, Severity::Warning, "FailedScheduling", "Scheduling", message.clone());
        self.set_condition(now, &pod, reason, message, nomination);
    }

    /// A pod that was about to be bound is not any more; and what failed otherwise is nominated by nobody.
    fn nomination_after(&mut self, queued: &mut QueuedPod, failure: &Failure) -> Nomination {
        let was_ours = std::mem::take(&mut queued.nominated);
        let is_error = matches!(failure, Failure::Error(_) | Failure::HeldBack(_) | Failure::Binding(_));
        if was_ours || (is_error && queued.pod.nominated_node.is_some()) {
            self.cache.forget_nomination(&queued.pod.uid);
            return Nomination::Clear;
        }
        Nomination::Keep
    }

    /// Asks for PodScheduled=False, unless the pod says so already or was just told.
    fn set_condition(
        &mut self,
        now: Time,
        pod: &PodInfo,
        reason: &'static str,
        message: String,
        nomination: Nomination,
    ) {
        let shown = pod.scheduled.as_ref().filter(|c| &*c.status == "False");
        let is_shown = shown.is_some_and(|c| *c.reason == *reason && *c.message == *message);
        let is_known = match self.sent_conditions.get(&pod.uid) {
            // What is shown may be older than what was sent, however long that is on its way.
            Some(sent) => {
                let is_sent = sent.reason == reason && sent.message == message;
                is_sent && (is_shown || now.since(sent.at) <= ECHO_MAX)
            }
            None => is_shown,
        };
        if is_known {
            if nomination != Nomination::Keep {
                self.outbox.push_patch(StatusPatch { pod: self.pod_ref(pod), condition: None, nomination });
            }
            return;
        }
        let condition = Unscheduled {
            reason,
            message: message.clone(),
            observed_generation: pod.generation,
            since: shown.map(|c| c.last_transition_time.to_string()).filter(|since| !since.is_empty()),
        };
        let condition = Some(condition);
        self.outbox.push_patch(StatusPatch { pod: self.pod_ref(pod), condition, nomination });
        self.sent_conditions.insert(Arc::clone(&pod.uid), SentCondition { reason, message, at: now });
    }

    pub(super) fn record(
        &mut self,
        pod: &PodInfo,
        severity: Severity,
        reason: &'static str,
        action: &'static str,
        note: String,
    ) {
        let record = Record {
            pod: self.pod_ref(pod),
            resource_version: pod.resource_version.to_string(),
            scheduler_name: self.tables.text(pod.scheduler_name).to_owned(),
            severity,
            reason,
            action,
            note,
        };
        self.outbox.push_record(record);
    }
}
