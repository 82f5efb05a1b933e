//! The transitions of pods in PreBind: what follows from a write, a watched object or a time.

use super::check::{Shown, Watched};
use super::ledger::{Stage, Task, UnknownOutcome, VolumeBindings};
use super::{PreBindFailure, SHOWN_IF_STORED_WITHIN};
use crate::model::effect::VolumeChange;
use crate::model::event::WriteOutcome;
use crate::model::pod::Uid;
use crate::model::time::Time;
use crate::scheduler::unknown_outcome::{RetryInterval, UNKNOWN_MAX};
use crate::switches::mutation::{self, Mutation};
use std::time::Duration;

/// The first backoff before an unanswered write is resent. It doubles.
const RETRY_MIN: Duration = Duration::from_millis(250);

/// What the API server (`NewConflict`, preconditions) and the writer say of an object that changed in the meantime.
const CHANGED: [&str; 4] = [
    "the object has been modified",
    "Precondition failed: UID in precondition",
    "got allocated elsewhere in the meantime",
    "got deleted in the meantime",
];

/// Whether a write was refused because the object has changed since the decision.
fn is_conflict(message: &str) -> bool {
    CHANGED.iter().any(|text| message.contains(text))
}

/// What follows for a pod in PreBind.
pub(super) enum Next {
    /// Nothing: it waits for an answer, an object or a time, or is not in PreBind.
    Nothing,
    /// Its next write is queued.
    QueueWrite,
    /// This write with its id is sent.
    Write(u64, VolumeChange),
    /// Its stage ended. The next one begins.
    GoOn,
    /// All its claims are bound.
    Bound,
    /// All writes are done, and its devices must become ready.
    WaitsForConditions,
    /// It failed for this reason.
    Failed(PreBindFailure),
    /// A volume or claim changed before it was written. The pod is decided again.
    Outdated,
}

impl VolumeBindings {
    /// Skips completed writes, and continues with the next write or with the wait for the claims.
    pub(super) fn go_on(&mut self, now: Time, uid: &Uid, watched: Watched<'_>) -> Next {
        loop {
            let Some(pre_bind) = self.get(uid) else { return Next::Nothing };
            let Some(task) = pre_bind.tasks.get(pre_bind.at) else { break };
            match (watched.shown(task), pre_bind.stage) {
                (Shown::Done, _) => self.next_task(uid),
                (Shown::AsDecided, Stage::Due | Stage::Behind { .. } | Stage::Lost { .. })
                    if pre_bind.unknown.is_none() =>
                {
                    if let Some(until) = watched.given_up_until(task) {
                        self.enter(uid, Stage::Lost { retry_at: until });
                        return Next::Nothing;
                    }
                    self.enter(uid, Stage::Due);
                    return if self.line_up(uid) { Next::QueueWrite } else { Next::Nothing };
                }
                // A write in flight will be answered.
                (_, Stage::InFlight { .. }) | (Shown::AsDecided, Stage::Lost { .. }) => return Next::Nothing,
                // Another client was faster: the claim's devices are chosen again.
                (Shown::Changed | Shown::Gone, Stage::Lost { .. }) if task.is_of_devices() => {
                    return Next::Outdated;
                }
                (Shown::Changed | Shown::Gone, Stage::Lost { .. }) => {
                    let lost = pre_bind.unknown.as_ref();
                    let message = lost.map(|lost| lost.message.clone()).unwrap_or_default();
                    return Next::Failed(task.failure(message));
                }
                (_, Stage::Due | Stage::Behind { .. } | Stage::Waiting { .. }) => {
                    return if self.line_up(uid) { Next::QueueWrite } else { Next::Nothing };
                }
            }
        }
        self.wait_for_claims(now, uid, watched)
    }

    /// Waits for other components to bind the claims, after all writes are done.
    fn wait_for_claims(&mut self, now: Time, uid: &Uid, watched: Watched<'_>) -> Next {
        let Some(pre_bind) = self.get(uid) else { return Next::Nothing };
        let is_new = !matches!(pre_bind.stage, Stage::Waiting { .. });
        if is_new {
            let timeout = watched.timeout(pre_bind);
            self.note_written(now, uid);
            self.enter(uid, Stage::Waiting { until: now + timeout });
        }
        let Some(pre_bind) = self.get(uid) else { return Next::Nothing };
        match watched.are_bound(pre_bind) {
            Ok(all) if all || mutation::is_on(Mutation::PodBoundBeforeVolumes) => Next::Bound,
            Err(failure) => Next::Failed(failure),
            Ok(_) if is_new && pre_bind.tasks.iter().any(Task::has_conditions) => Next::WaitsForConditions,
            Ok(_) => Next::Nothing,
        }
    }

    /// Takes the pod from the volume lane, and sends its write if that is still due.
    pub(super) fn write(&mut self, now: Time, uid: &Uid, watched: Watched<'_>) -> Next {
        self.step_out(uid);
        let Some(pre_bind) = self.get(uid).filter(|it| it.stage == Stage::Due) else { return Next::Nothing };
        if let Err(why) = watched.node_of(pre_bind) {
            return Next::Failed(PreBindFailure::of_volumes(format!("binding volumes: {why}")));
        }
        let Some(task) = pre_bind.tasks.get(pre_bind.at) else { return Next::Nothing };
        let version = watched.version(task);
        match watched.shown(task) {
            Shown::AsDecided if watched.are_devices_taken(task) => Next::Outdated,
            Shown::AsDecided if self.is_written_by_another(now, uid, task, version) => {
                self.enter(uid, Stage::Behind { until: now + SHOWN_IF_STORED_WITHIN });
                Next::Nothing
            }
            Shown::AsDecided => match watched.is_claim_decided(task) {
                Ok(true) => {
                    let change = watched.change(task);
                    Next::Write(self.send(now, uid, version), change)
                }
                Ok(false) => Next::Outdated,
                Err(why) => Next::Failed(task.failure(why)),
            },
            Shown::Done => Next::GoOn,
            Shown::Gone if task.is_of_devices() => Next::Outdated,
            Shown::Gone => Next::Failed(task.failure(watched.not_found(task.key))),
            Shown::Changed => Next::Outdated,
        }
    }

    /// Handles the result of a write. Late results of earlier writes are ignored.
    pub(super) fn written(&mut self, now: Time, uid: &Uid, write: u64, outcome: WriteOutcome) -> Next {
        let Some(pre_bind) = self.get(uid).filter(|it| it.stage == Stage::InFlight { write }) else {
            return Next::Nothing;
        };
        match outcome {
            WriteOutcome::Done => {
                self.next_task(uid);
                Next::GoOn
            }
            // An earlier copy may be the reason for the rejection. Then the watch will show it.
            WriteOutcome::Refused { message } if pre_bind.unknown.is_some() => self.lost(now, uid, message),
            WriteOutcome::Refused { message } => match pre_bind.tasks.get(pre_bind.at) {
                // A claim whose version is out of date is no failure: the watch will show what changed.
                Some(task) if task.is_of_devices() && is_conflict(&message) => self.lost(now, uid, message),
                Some(task) => {
                    let failure = task.failure(message);
                    self.enter(uid, Stage::Due);
                    Next::Failed(failure)
                }
                None => Next::Nothing,
            },
            WriteOutcome::Unknown { message } => self.lost(now, uid, message),
        }
    }

    /// Handles a write without a result: schedules a retry, unless the watch shows the change first. The resource
    /// version in the write makes the retry safe.
    fn lost(&mut self, now: Time, uid: &Uid, message: String) -> Next {
        let retry = RetryInterval::starting_at(RETRY_MIN);
        let first = UnknownOutcome { since: now, retry, message: String::new() };
        let unknown = self.unknown(uid).get_or_insert(first);
        if now.since(unknown.since) > UNKNOWN_MAX {
            let task = self.get(uid).and_then(|pre_bind| pre_bind.tasks.get(pre_bind.at));
            return task.map_or(Next::Nothing, |task| Next::Failed(task.failure(message)));
        }
        unknown.message = message;
        let pause = unknown.retry.advance();
        let retry_at = now + if self.is_making_a_claim(uid) { SHOWN_IF_STORED_WITHIN } else { pause };
        self.enter(uid, Stage::Lost { retry_at });
        Next::GoOn
    }

    fn is_making_a_claim(&self, uid: &Uid) -> bool {
        let task = self.get(uid).and_then(|pre_bind| pre_bind.tasks.get(pre_bind.at));
        task.is_some_and(Task::makes_a_claim)
    }

    /// Handles a pod whose time has come.
    pub(super) fn time_is_up(&mut self, uid: &Uid) -> Next {
        match self.get(uid).map(|pre_bind| pre_bind.stage) {
            // The write was not stored. Its devices are chosen again.
            Some(Stage::Lost { .. }) if self.is_making_a_claim(uid) => Next::Outdated,
            Some(Stage::Lost { .. } | Stage::Behind { .. }) => {
                self.enter(uid, Stage::Due);
                Next::GoOn
            }
            Some(Stage::Waiting { .. }) => {
                let tasks = self.get(uid).map_or(&[][..], |pre_bind| &pre_bind.tasks);
                Next::Failed(if tasks.iter().all(Task::is_of_devices) {
                    PreBindFailure::of_devices("device binding timeout: context deadline exceeded")
                } else {
                    PreBindFailure::of_volumes("binding volumes: context deadline exceeded")
                })
            }
            Some(Stage::Due | Stage::InFlight { .. }) | None => Next::Nothing,
        }
    }
}
