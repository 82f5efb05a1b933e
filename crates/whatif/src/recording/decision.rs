//! A decision in its versioned JSON form. Equal decisions serialize to equal texts.

use jiff::Timestamp;
use serde::Serialize;
use supercargo_core::model::effect::PodRef;
use supercargo_core::model::time::Time;
use supercargo_core::report::{Outcome, Preemption, Report};

/// `apiVersion` of recordings, of their lines and of lists of decisions.
pub const API_VERSION: &str = "supercargo.dev/v1alpha1";

/// A report about an attempt, a binding or a preemption, and the number of inputs before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The engine's report.
    pub report: Box<Report>,
    /// Number of inputs that the engine received before this report.
    pub input: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    time: String,
    input: u64,
    pod: PodName<'a>,
    profile: &'a str,
    attempt: u32,
    queued: String,
    #[serde(flatten)]
    came: OutcomeFields<'a>,
}

#[derive(Serialize)]
struct PodName<'a> {
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
}

impl<'a> From<&'a PodRef> for PodName<'a> {
    fn from(pod: &'a PodRef) -> Self {
        Self { namespace: &pod.namespace, name: &pod.name, uid: &pod.uid }
    }
}

#[derive(Serialize)]
#[serde(tag = "result", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum OutcomeFields<'a> {
    Placed {
        node: &'a str,
        nodes: usize,
        feasible: usize,
        #[serde(skip_serializing_if = "Option::is_none")]
        score: Option<i64>,
    },
    Unschedulable {
        message: &'a str,
        rejected_by: &'a [&'static str],
        evaluated: usize,
        preemption: Room<'a>,
    },
    Error {
        message: &'a str,
    },
    Skipped,
    PreBound {
        succeeded: bool,
        took_seconds: f64,
    },
    Bound {
        node: &'a str,
        evaluated: usize,
        feasible: usize,
    },
    PreemptionEnded {
        node: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a str>,
    },
    BindFailed {
        message: &'a str,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Room<'a> {
    NotTried,
    InVain,
    Nominated { node: &'a str, victims: Vec<PodName<'a>>, evictions: usize },
}

impl Decision {
    /// Formats the decision as one line of JSON.
    pub fn to_json(&self) -> String {
        let Self { report, input } = self;
        let shown = Shown {
            time: text(report.began),
            input: *input,
            pod: (&report.pod).into(),
            profile: &report.profile,
            attempt: report.attempt,
            queued: text(report.first_queued),
            came: came(&report.outcome),
        };
        serde_json::to_string(&shown).expect("texts and numbers are JSON")
    }

    /// Returns whether the report is a decision itself: it ends an attempt or fails a binding. Other reports follow
    /// from an earlier decision.
    pub fn is_of_its_own(&self) -> bool {
        match self.report.outcome {
            Outcome::Placed { .. }
            | Outcome::Unschedulable { .. }
            | Outcome::Error { .. }
            | Outcome::Skipped
            | Outcome::BindFailed { .. } => true,
            Outcome::PreBound { .. } | Outcome::Bound { .. } | Outcome::PreemptionEnded { .. } => false,
        }
    }

    /// Returns the approximate size in memory, in bytes.
    pub fn bytes(&self) -> usize {
        let of_pod =
            |pod: &PodRef| size_of::<PodRef>() + pod.namespace.len() + pod.name.len() + pod.uid.len();
        let more = match &self.report.outcome {
            Outcome::Placed { node, .. } | Outcome::Bound { node, .. } => node.len(),
            Outcome::Unschedulable { message, rejectors, preemption, .. } => {
                let room = match preemption {
                    Preemption::NotTried | Preemption::NoCandidate => 0,
                    Preemption::Nominated { node, victims, .. } => {
                        node.len() + victims.iter().map(of_pod).sum::<usize>()
                    }
                };
                message.len() + size_of_val(rejectors.as_slice()) + room
            }
            Outcome::Error { message } | Outcome::BindFailed { message } => message.len(),
            Outcome::PreemptionEnded { node, error } => node.len() + error.as_ref().map_or(0, String::len),
            Outcome::Skipped | Outcome::PreBound { .. } => 0,
        };
        size_of::<Self>() + size_of::<Report>() + of_pod(&self.report.pod) + self.report.profile.len() + more
    }
}

fn came(outcome: &Outcome) -> OutcomeFields<'_> {
    match outcome {
        Outcome::Placed { node, nodes, feasible, score } => {
            OutcomeFields::Placed { node, nodes: *nodes, feasible: *feasible, score: *score }
        }
        Outcome::Unschedulable { message, rejectors, evaluated, preemption } => {
            OutcomeFields::Unschedulable {
                message,
                rejected_by: rejectors,
                evaluated: *evaluated,
                preemption: match preemption {
                    Preemption::NotTried => Room::NotTried,
                    Preemption::NoCandidate => Room::InVain,
                    Preemption::Nominated { node, victims, evictions } => Room::Nominated {
                        node,
                        victims: victims.iter().map(PodName::from).collect(),
                        evictions: *evictions,
                    },
                },
            }
        }
        Outcome::Error { message } => OutcomeFields::Error { message },
        Outcome::Skipped => OutcomeFields::Skipped,
        Outcome::PreBound { succeeded, took, .. } => {
            OutcomeFields::PreBound { succeeded: *succeeded, took_seconds: took.as_secs_f64() }
        }
        Outcome::Bound { node, evaluated, feasible } => {
            OutcomeFields::Bound { node, evaluated: *evaluated, feasible: *feasible }
        }
        Outcome::PreemptionEnded { node, error } => {
            OutcomeFields::PreemptionEnded { node, error: error.as_deref() }
        }
        Outcome::BindFailed { message } => OutcomeFields::BindFailed { message },
    }
}

/// Formats a time as RFC 3339.
pub fn text(time: Time) -> String {
    Timestamp::from_nanosecond(time.as_nanos().into())
        .map_or_else(|_| "?".to_owned(), |time| time.to_string())
}
