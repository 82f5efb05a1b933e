//! Serialized inputs that do not concern API objects: answers to effects, leadership, credits, shutdown.

#![allow(missing_docs, reason = "variants and fields are those of the engine's events")]

use serde::{Deserialize, Serialize};
use supercargo_core::model::effect::Lane;
use supercargo_core::model::event::{BindOutcome, Event, EvictOutcome, Found, WriteOutcome};
use supercargo_core::model::extender::{self, CandidateAnswer, FilterAnswer};

/// An event that does not concern an API object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum OtherInput {
    /// A binding was answered, or timed out.
    BindFinished { uid: String, outcome: Bound },
    /// The state of a pod was read to resolve an unknown binding.
    Settled { uid: String, found: Seen },
    /// A write of a volume or claim was answered, or timed out.
    VolumeWritten { uid: String, write: u64, outcome: Wrote },
    /// An eviction was answered, or timed out.
    EvictFinished { uid: String, outcome: Evicted },
    /// An extender answered, or failed.
    Extended { call: u64, answer: Said },
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
pub enum Bound {
    Accepted,
    Refused(String),
    Moot(Seen),
    Unknown(String),
}

/// Observed state of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Seen {
    Bound(String),
    Unbound,
    Gone,
    NoAnswer,
}

/// Outcome of a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Wrote {
    Done,
    Refused(String),
    Unknown(String),
}

/// Outcome of an eviction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Evicted {
    Deleted,
    Gone,
    Failed(String),
}

/// Answer of an extender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Said {
    Failed(String),
    Filtered { passed: Vec<String>, failed: Vec<(String, String)>, unresolvable: Vec<(String, String)> },
    Scored(Vec<(String, i64)>),
    Rooms(Vec<Space>),
}

/// A preemption candidate of an extender: node and victims.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    node: String,
    victims: Vec<String>,
    violations: i64,
}

impl OtherInput {
    /// Converts an event; `None` for an event about an API object, which is recorded from its JSON form.
    pub fn of(event: &Event) -> Option<Self> {
        Some(match event {
            Event::BindFinished { uid, outcome } => {
                Self::BindFinished { uid: uid.to_string(), outcome: bound(outcome) }
            }
            Event::BindingQueried { uid, found } => {
                Self::Settled { uid: uid.to_string(), found: seen(found) }
            }
            Event::VolumeWritten { uid, write, outcome } => {
                Self::VolumeWritten { uid: uid.to_string(), write: *write, outcome: wrote(outcome) }
            }
            Event::EvictFinished { uid, outcome } => {
                Self::EvictFinished { uid: uid.to_string(), outcome: evicted(outcome) }
            }
            Event::Extended { call, answer } => Self::Extended { call: *call, answer: said(answer) },
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

fn bound(outcome: &BindOutcome) -> Bound {
    match outcome {
        BindOutcome::Accepted => Bound::Accepted,
        BindOutcome::Refused { message } => Bound::Refused(message.clone()),
        BindOutcome::NotNeeded(found) => Bound::Moot(seen(found)),
        BindOutcome::Unknown { message } => Bound::Unknown(message.clone()),
    }
}

impl From<Bound> for BindOutcome {
    fn from(outcome: Bound) -> Self {
        match outcome {
            Bound::Accepted => Self::Accepted,
            Bound::Refused(message) => Self::Refused { message },
            Bound::Moot(found) => Self::NotNeeded(found.into()),
            Bound::Unknown(message) => Self::Unknown { message },
        }
    }
}

fn seen(found: &Found) -> Seen {
    match found {
        Found::Bound(node) => Seen::Bound(node.clone()),
        Found::Unbound => Seen::Unbound,
        Found::Gone => Seen::Gone,
        Found::NoAnswer => Seen::NoAnswer,
    }
}

impl From<Seen> for Found {
    fn from(found: Seen) -> Self {
        match found {
            Seen::Bound(node) => Self::Bound(node),
            Seen::Unbound => Self::Unbound,
            Seen::Gone => Self::Gone,
            Seen::NoAnswer => Self::NoAnswer,
        }
    }
}

fn wrote(outcome: &WriteOutcome) -> Wrote {
    match outcome {
        WriteOutcome::Done => Wrote::Done,
        WriteOutcome::Refused { message } => Wrote::Refused(message.clone()),
        WriteOutcome::Unknown { message } => Wrote::Unknown(message.clone()),
    }
}

impl From<Wrote> for WriteOutcome {
    fn from(outcome: Wrote) -> Self {
        match outcome {
            Wrote::Done => Self::Done,
            Wrote::Refused(message) => Self::Refused { message },
            Wrote::Unknown(message) => Self::Unknown { message },
        }
    }
}

fn evicted(outcome: &EvictOutcome) -> Evicted {
    match outcome {
        EvictOutcome::Deleted => Evicted::Deleted,
        EvictOutcome::Gone => Evicted::Gone,
        EvictOutcome::Failed { message } => Evicted::Failed(message.clone()),
    }
}

impl From<Evicted> for EvictOutcome {
    fn from(outcome: Evicted) -> Self {
        match outcome {
            Evicted::Deleted => Self::Deleted,
            Evicted::Gone => Self::Gone,
            Evicted::Failed(message) => Self::Failed { message },
        }
    }
}

fn said(answer: &Result<extender::Answer, String>) -> Said {
    match answer {
        Err(why) => Said::Failed(why.clone()),
        Ok(extender::Answer::Filtered(FilterAnswer { passed, failed, unresolvable })) => Said::Filtered {
            passed: passed.clone(),
            failed: failed.clone(),
            unresolvable: unresolvable.clone(),
        },
        Ok(extender::Answer::Scored(scores)) => Said::Scored(scores.clone()),
        Ok(extender::Answer::Candidates(rooms)) => {
            let space = |room: &CandidateAnswer| Space {
                node: room.node.clone(),
                victims: room.victims.clone(),
                violations: room.violations,
            };
            Said::Rooms(rooms.iter().map(space).collect())
        }
    }
}

impl From<Said> for Result<extender::Answer, String> {
    fn from(said: Said) -> Self {
        Ok(match said {
            Said::Failed(why) => return Err(why),
            Said::Filtered { passed, failed, unresolvable } => {
                extender::Answer::Filtered(FilterAnswer { passed, failed, unresolvable })
            }
            Said::Scored(scores) => extender::Answer::Scored(scores),
            Said::Rooms(rooms) => {
                let room =
                    |Space { node, victims, violations }| CandidateAnswer { node, victims, violations };
                extender::Answer::Candidates(rooms.into_iter().map(room).collect())
            }
        })
    }
}
