//! Serialized inputs that do not concern API objects: answers to effects, leadership, credits, shutdown.

#![allow(missing_docs, reason = "variants and fields are those of the engine's events")]

use serde::{Deserialize, Serialize};
use supercargo_core::model::effect::Lane;
use supercargo_core::model::event::{BindOutcome, BindingState, Event, EvictOutcome, WriteOutcome};
use supercargo_core::model::extender::{self, CandidateAnswer, FilterAnswer};

/// An event that does not concern an API object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum OtherInput {
    /// A binding was answered, or timed out.
    BindFinished { uid: String, outcome: BindOutcomeRecord },
    /// The state of a pod was read to resolve an unknown binding.
    Settled { uid: String, found: PodStateRecord },
    /// A write of a volume or claim was answered, or timed out.
    VolumeWritten { uid: String, write: u64, outcome: WriteOutcomeRecord },
    /// An eviction was answered, or timed out.
    EvictFinished { uid: String, outcome: EvictOutcomeRecord },
    /// An extender answered, or failed.
    Extended { call: u64, answer: ExtenderAnswerRecord },
    /// The scheduler is shutting down.
    Halt {},
    /// Whether this replica leads.
    Leading(bool),
    /// Effects that may be released.
    Credits { lane: String, count: usize },
}

/// Outcome of a binding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BindOutcomeRecord {
    Accepted,
    Refused(String),
    Moot(PodStateRecord),
    Unknown(String),
}

/// Observed state of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PodStateRecord {
    Bound(String),
    Unbound,
    Gone,
    NoAnswer,
}

/// Outcome of a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WriteOutcomeRecord {
    Done,
    Refused(String),
    Unknown(String),
}

/// Outcome of an eviction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EvictOutcomeRecord {
    Deleted,
    Gone,
    Failed(String),
}

/// Answer of an extender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ExtenderAnswerRecord {
    Failed(String),
    Filtered { passed: Vec<String>, failed: Vec<(String, String)>, unresolvable: Vec<(String, String)> },
    Scored(Vec<(String, i64)>),
    Rooms(Vec<CandidateRecord>),
}

/// A preemption candidate of an extender: node and victims.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidateRecord {
    node: String,
    victims: Vec<String>,
    violations: i64,
}

impl OtherInput {
    /// Converts an event; `None` for an event about an API object, which is recorded from its JSON form.
    pub fn of(event: &Event) -> Option<Self> {
        Some(match event {
            Event::BindFinished { uid, outcome } => {
                Self::BindFinished { uid: uid.to_string(), outcome: bind_outcome(outcome) }
            }
            Event::BindingQueried { uid, found } => {
                Self::Settled { uid: uid.to_string(), found: pod_state(found) }
            }
            Event::VolumeWritten { uid, write, outcome } => {
                Self::VolumeWritten { uid: uid.to_string(), write: *write, outcome: write_outcome(outcome) }
            }
            Event::EvictFinished { uid, outcome } => {
                Self::EvictFinished { uid: uid.to_string(), outcome: evict_outcome(outcome) }
            }
            Event::Extended { call, answer } => {
                Self::Extended { call: *call, answer: extender_answer(answer) }
            }
            Event::Halt => Self::Halt {},
            Event::Leading(leading) => Self::Leading(*leading),
            Event::Credits { lane, count } => Self::Credits { lane: lane.as_str().to_owned(), count: *count },
            Event::ListBegan(_)
            | Event::ListEnded(_)
            | Event::PodApplied(_)
            | Event::NodeApplied(_)
            | Event::NamespaceApplied { .. }
            | Event::ServiceApplied { .. }
            | Event::ControllerApplied { .. }
            | Event::DisruptionBudgetApplied { .. }
            | Event::DeviceClassApplied { .. }
            | Event::PodGroupApplied(_)
            | Event::StorageApplied(_)
            | Event::Gone(_)
            | Event::NotAdmitted { .. }
            | Event::Unreadable(_) => return None,
        })
    }

    /// Converts back into an event.
    ///
    /// # Errors
    /// Fails if the lane is unknown.
    pub fn into_event(self) -> Result<Event, String> {
        Ok(match self {
            Self::BindFinished { uid, outcome } => {
                Event::BindFinished { uid: uid.into(), outcome: outcome.into() }
            }
            Self::Settled { uid, found } => Event::BindingQueried { uid: uid.into(), found: found.into() },
            Self::VolumeWritten { uid, write, outcome } => {
                Event::VolumeWritten { uid: uid.into(), write, outcome: outcome.into() }
            }
            Self::EvictFinished { uid, outcome } => {
                Event::EvictFinished { uid: uid.into(), outcome: outcome.into() }
            }
            Self::Extended { call, answer } => Event::Extended { call, answer: answer.into() },
            Self::Halt {} => Event::Halt,
            Self::Leading(leading) => Event::Leading(leading),
            Self::Credits { lane, count } => {
                let known = Lane::ALL.into_iter().find(|known| known.as_str() == lane);
                Event::Credits { lane: known.ok_or_else(|| format!("unknown lane {lane:?}"))?, count }
            }
        })
    }
}

fn bind_outcome(outcome: &BindOutcome) -> BindOutcomeRecord {
    match outcome {
        BindOutcome::Accepted => BindOutcomeRecord::Accepted,
        BindOutcome::Refused { message } => BindOutcomeRecord::Refused(message.clone()),
        BindOutcome::NotNeeded(found) => BindOutcomeRecord::Moot(pod_state(found)),
        BindOutcome::Unknown { message } => BindOutcomeRecord::Unknown(message.clone()),
    }
}

impl From<BindOutcomeRecord> for BindOutcome {
    fn from(outcome: BindOutcomeRecord) -> Self {
        match outcome {
            BindOutcomeRecord::Accepted => Self::Accepted,
            BindOutcomeRecord::Refused(message) => Self::Refused { message },
            BindOutcomeRecord::Moot(found) => Self::NotNeeded(found.into()),
            BindOutcomeRecord::Unknown(message) => Self::Unknown { message },
        }
    }
}

fn pod_state(found: &BindingState) -> PodStateRecord {
    match found {
        BindingState::Bound(node) => PodStateRecord::Bound(node.clone()),
        BindingState::Unbound => PodStateRecord::Unbound,
        BindingState::Gone => PodStateRecord::Gone,
        BindingState::NoAnswer => PodStateRecord::NoAnswer,
    }
}

impl From<PodStateRecord> for BindingState {
    fn from(found: PodStateRecord) -> Self {
        match found {
            PodStateRecord::Bound(node) => Self::Bound(node),
            PodStateRecord::Unbound => Self::Unbound,
            PodStateRecord::Gone => Self::Gone,
            PodStateRecord::NoAnswer => Self::NoAnswer,
        }
    }
}

fn write_outcome(outcome: &WriteOutcome) -> WriteOutcomeRecord {
    match outcome {
        WriteOutcome::Done => WriteOutcomeRecord::Done,
        WriteOutcome::Refused { message } => WriteOutcomeRecord::Refused(message.clone()),
        WriteOutcome::Unknown { message } => WriteOutcomeRecord::Unknown(message.clone()),
    }
}

impl From<WriteOutcomeRecord> for WriteOutcome {
    fn from(outcome: WriteOutcomeRecord) -> Self {
        match outcome {
            WriteOutcomeRecord::Done => Self::Done,
            WriteOutcomeRecord::Refused(message) => Self::Refused { message },
            WriteOutcomeRecord::Unknown(message) => Self::Unknown { message },
        }
    }
}

fn evict_outcome(outcome: &EvictOutcome) -> EvictOutcomeRecord {
    match outcome {
        EvictOutcome::Deleted => EvictOutcomeRecord::Deleted,
        EvictOutcome::Gone => EvictOutcomeRecord::Gone,
        EvictOutcome::Failed { message } => EvictOutcomeRecord::Failed(message.clone()),
    }
}

impl From<EvictOutcomeRecord> for EvictOutcome {
    fn from(outcome: EvictOutcomeRecord) -> Self {
        match outcome {
            EvictOutcomeRecord::Deleted => Self::Deleted,
            EvictOutcomeRecord::Gone => Self::Gone,
            EvictOutcomeRecord::Failed(message) => Self::Failed { message },
        }
    }
}

fn extender_answer(answer: &Result<extender::Answer, String>) -> ExtenderAnswerRecord {
    match answer {
        Err(why) => ExtenderAnswerRecord::Failed(why.clone()),
        Ok(extender::Answer::Filtered(FilterAnswer { passed, failed, unresolvable })) => {
            ExtenderAnswerRecord::Filtered {
                passed: passed.clone(),
                failed: failed.clone(),
                unresolvable: unresolvable.clone(),
            }
        }
        Ok(extender::Answer::Scored(scores)) => ExtenderAnswerRecord::Scored(scores.clone()),
        Ok(extender::Answer::Candidates(rooms)) => {
            let candidate = |room: &CandidateAnswer| CandidateRecord {
                node: room.node.clone(),
                victims: room.victims.clone(),
                violations: room.violations,
            };
            ExtenderAnswerRecord::Rooms(rooms.iter().map(candidate).collect())
        }
    }
}

impl From<ExtenderAnswerRecord> for Result<extender::Answer, String> {
    fn from(answer: ExtenderAnswerRecord) -> Self {
        Ok(match answer {
            ExtenderAnswerRecord::Failed(why) => return Err(why),
            ExtenderAnswerRecord::Filtered { passed, failed, unresolvable } => {
                extender::Answer::Filtered(FilterAnswer { passed, failed, unresolvable })
            }
            ExtenderAnswerRecord::Scored(scores) => extender::Answer::Scored(scores),
            ExtenderAnswerRecord::Rooms(rooms) => {
                let room = |CandidateRecord { node, victims, violations }| CandidateAnswer {
                    node,
                    victims,
                    violations,
                };
                extender::Answer::Candidates(rooms.into_iter().map(room).collect())
            }
        })
    }
}
