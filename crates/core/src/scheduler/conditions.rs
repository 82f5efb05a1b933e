//! The PodScheduled conditions and nominations that were sent, until the watch shows them.
//!
//! A condition that the pod shows already, or that was just sent, is not sent again.

use crate::collections::hash::FixedMap;
use crate::model::effect::{Nomination, PodRef, StatusPatch, Unscheduled};
use crate::model::intern::{Marks, Symbol, Tables, TraceIds, trace_ids};
use crate::model::pod::{PodInfo, Uid};
use crate::model::time::Time;
use std::sync::Arc;
use std::time::Duration;

/// How long the watch may take to show a condition that was sent. After that it is considered lost.
const ECHO_MAX: Duration = Duration::from_secs(10);

/// What a pod's status is to say.
pub(super) struct Condition {
    /// The reason of PodScheduled=False.
    pub(super) reason: &'static str,
    /// Its message.
    pub(super) message: String,
    /// The pod's nominated node.
    pub(super) nominated: Option<Symbol>,
    /// Whether the pod was nominated to the node before its binding.
    pub(super) was_ours: bool,
}

/// The condition and the nomination that were sent last, and when.
struct SentCondition {
    reason: &'static str,
    message: String,
    nominated: Option<Symbol>,
    at: Time,
}

/// The conditions that were sent last, by pod.
#[derive(Default)]
pub(super) struct SentConditions {
    by_uid: FixedMap<Uid, SentCondition>,
}

impl SentConditions {
    /// Returns the number of pods.
    pub(super) fn len(&self) -> usize {
        self.by_uid.len()
    }

    /// Returns the uids of the pods.
    pub(super) fn uids(&self) -> impl Iterator<Item = &Uid> {
        self.by_uid.keys()
    }

    /// Handles a pod that left: it has a node, was deleted, or belongs to another scheduler.
    pub(super) fn pod_left(&mut self, uid: &str) {
        self.by_uid.remove(uid);
    }

    /// Returns the nomination that was sent last.
    pub(super) fn nominated(&self, uid: &str) -> Option<Symbol> {
        self.by_uid.get(uid).and_then(|sent| sent.nominated)
    }

    /// Handles a new nomination that the watch shows. It is either our own write, or another client's that replaced
    /// it.
    pub(super) fn nomination_shown(&mut self, pod: &PodInfo) {
        if let Some(sent) = self.by_uid.get_mut(&pod.uid) {
            sent.nominated = pod.nominated_node;
        }
    }

    /// Returns the patch with PodScheduled=False and the pod's nomination; `None` if the pod already shows both or they
    /// were just sent.
    pub(super) fn patch(
        &mut self,
        now: Time,
        pod: &PodInfo,
        condition: Condition,
        tables: &Tables,
    ) -> Option<StatusPatch> {
        let Condition { reason, message, nominated, was_ours } = condition;
        let nomination = self.nomination_change(now, pod, (nominated, was_ours), tables);
        let shown = pod.scheduled.as_ref().filter(|c| &*c.status == "False");
        let is_shown = shown.is_some_and(|c| *c.reason == *reason && *c.message == *message);
        let sent = self.by_uid.get(&pod.uid);
        let is_sent = sent.is_some_and(|sent| sent.reason == reason && sent.message == message);
        // The watch may show an older state than the one sent, however long that takes to arrive.
        let is_recent = sent.is_some_and(|sent| now.since(sent.at) <= ECHO_MAX);
        let is_current = if sent.is_some() { is_sent && (is_shown || is_recent) } else { is_shown };
        let is_renominated = is_recent && !was_ours && sent.is_some_and(|sent| sent.nominated == nominated);
        if is_current && (nomination == Nomination::Keep || is_renominated) {
            return None;
        }
        let condition = Unscheduled {
            reason,
            message: message.clone(),
            observed_generation: pod.generation,
            since: shown.map(|c| c.last_transition_time.to_string()).filter(|since| !since.is_empty()),
        };
        let condition = (!is_current || !is_shown).then_some(condition);
        let sent = SentCondition { reason, message, nominated, at: now };
        self.by_uid.insert(Arc::clone(&pod.uid), sent);
        Some(StatusPatch { pod: PodRef::new(pod, tables), condition, nomination })
    }

    /// Returns the change of the pod's nomination for a patch.
    ///
    /// No change is needed if the API server shows the current nomination and no other was sent. Each patch repeats
    /// the change until the watch shows it, so that a newer patch can replace an older one.
    fn nomination_change(
        &self,
        now: Time,
        pod: &PodInfo,
        (nominated, was_ours): (Option<Symbol>, bool),
        tables: &Tables,
    ) -> Nomination {
        let sent = self.by_uid.get(&pod.uid).filter(|sent| now.since(sent.at) <= ECHO_MAX);
        let is_sent = sent.is_none_or(|sent| sent.nominated == nominated);
        match nominated {
            None if was_ours => Nomination::Clear,
            _ if is_sent && nominated == pod.nominated_node => Nomination::Keep,
            Some(node) => Nomination::Set(tables.text(node).to_owned()),
            None => Nomination::Clear,
        }
    }
}

trace_ids!(SentCondition { nominated } but not { reason, message, at });

impl TraceIds for SentConditions {
    fn mark(&self, marks: &mut Marks) {
        let Self { by_uid } = self;
        by_uid.values().for_each(|sent| sent.mark(marks));
    }
}
