//! What follows when a pod was not placed: the queue, the condition, the event.
//!
//! Upstream: `pkg/scheduler/schedule_one.go#handleSchedulingFailure`.

use super::{Scheduler, quarantine};
use crate::effect::{Nomination, Record, Severity, StatusPatch, Unscheduled};
use crate::framework::PluginName;
use crate::intern::Symbol;
use crate::intern::holds_ids;
use crate::mutation::{self, Mutation};
use crate::pod::{PodInfo, Uid};
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
    /// The pod is too much work for any attempt. No plugin rejected it, so no event wakes it: it is tried again after its backoff, for the
    /// cluster may have become smaller.
    TooLarge(String),
    /// The attempt failed.
    Error(String),
    /// The attempt failed, as those before, and there will be no other until the pod changes.
    HeldBack(String),
    /// The binding was not carried out.
    Binding(String),
}

/// What is known of a pod no node can take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unschedulable {
    /// The plugins to blame.
    pub(super) rejectors: BTreeSet<PluginName>,
    /// The plugins because of which preemption would not help.
    pub(super) hindered_by: BTreeSet<PluginName>,
    /// The whole text, with what PostFilter adds.
    pub(super) message: String,
    /// What preemption came to.
    pub(super) preemption: Preemption,
    /// What becomes of the pod's nomination.
    pub(super) nominate: Nominate,
    /// How many nodes there is a verdict on.
    pub(super) evaluated: usize,
    /// How many nodes a search that goes on from pod to pod looked at.
    pub(super) walked: usize,
}

/// What becomes of the nomination of a pod that was not placed (upstream `NominatingInfo`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Nominate {
    /// It stays as it is.
    Keep,
    /// It leads nowhere.
    Clear,
    /// The pod is to go to this node once these are gone.
    To {
        /// The node.
        node: Symbol,
        /// The pods that have to go, the most important first.
        victims: Vec<Uid>,
    },
}

/// How long a condition that was sent may take to be shown by the watch, before it is taken for lost.
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
    /// Tells of the failure, and puts the pod back to wait for what may help it.
    pub(super) fn fail(&mut self, now: Time, mut queued: QueuedPod, began: Time, failure: Failure) {
        let pod = Arc::clone(&queued.pod);
        let was_ours = std::mem::take(&mut queued.nominated);
        let (reason, message, rejectors, nominate) = match failure {
            Failure::Unschedulable(found) => {
                let Unschedulable {
                    rejectors, hindered_by, message, preemption, nominate, evaluated, ..
                } = found;
                queued.hindered_by = hindered_by;
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
        // Before the pod waits again: that its own nomination goes is no news to it.
        match nominate {
            Nominate::Keep if !was_ours => {}
            // One that was about to be bound is not any more.
            Nominate::Keep | Nominate::Clear => self.nominate(now, &pod, None),
            Nominate::To { node, .. } => self.nominate(now, &pod, Some(node)),
        }
        let attempt = queued.attempts;
        let gate = self.gate(&pod);
        if reason == "SchedulerError" && mutation::is_on(Mutation::PodDropped) {
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

    /// Asks for PodScheduled=False and for the pod's nomination as it is by now, both in one patch; unless the pod says so
    /// already or was just told. `was_ours` tells that it was nominated to where it was to be bound.
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
        // What is shown may be older than what was sent, however long that is on its way.
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

    /// What a patch has to say of a pod's nomination: nothing where the API server shows it as it is, and nothing else
    /// is on its way there.
    ///
    /// Each patch says it until it is shown, so that one may take the place of another.
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

    /// Tells of a pod in the name of the profile `scheduler_name`.
    pub(super) fn record_as(
        &mut self,
        scheduler_name: Symbol,
        pod: &PodInfo,
        severity: Severity,
        reason: &'static str,
        action: &'static str,
        note: String,
    ) {
        let record = Record {
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

holds_ids!(SentCondition { nominated } but not { reason, message, at });
