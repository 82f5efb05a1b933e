//! The agenda: future actions by due time. Actions with the same due time happen in the order of their
//! insertion.

use crate::server::Stamp;
use std::collections::BTreeMap;
use supercargo_core::model::effect::{GroupPatch, Lane, StatusPatch, VolumeWrite};
use supercargo_core::model::event::{BindOutcome, BindingState, EvictOutcome, Kind, WriteOutcome};
use supercargo_core::model::extender;
use supercargo_core::model::time::Time;

/// An action on the agenda.
#[derive(Debug)]
pub(crate) enum Due {
    /// A user, a controller, a kubelet or another scheduler changes the cluster.
    Workload,
    /// The rates of faults change.
    FaultRates,
    /// The next change of a kind arrives, if the connection is still this one.
    Watch(Kind, u32),
    /// The connection of a watch is renewed, unless it was already renewed after this one.
    Reconnect(Kind, u32),
    /// A binding arrives at the API server.
    Bind(Request),
    /// A query for the outcome of a binding arrives at the API server.
    Question { incarnation: u32, uid: String },
    /// An answer arrives at the scheduler process `incarnation`.
    Answer { incarnation: u32, answer: Answer },
    /// An eviction arrives at the API server.
    Evict { incarnation: u32, uid: String },
    /// An eviction arrives late, after a foreign answer.
    LateEviction(String),
    /// A write to a volume or a claim arrives at the API server.
    VolumeWrite { incarnation: u32, write: VolumeWrite, fate: Fate, fence: u64, is_late: bool },
    /// The volume controllers act.
    Controllers,
    /// The driver of devices or the resource-claim controller acts.
    DeviceControllers,
    /// A patch of a pod's status arrives at the API server.
    Patch { incarnation: u32, patch: StatusPatch },
    /// A patch of a group's status arrives at the API server.
    GroupPatch { incarnation: u32, patch: GroupPatch },
    /// The dispatcher accepts one more effect of a lane.
    Credit { incarnation: u32, lane: Lane },
    /// A terminating pod, or a pod of a deleted node, is removed.
    Gone(String),
    /// The scheduler process `incarnation` acquires the lease again.
    Lead { incarnation: u32 },
    /// A wake-up that the scheduler requested.
    Wake,
}

/// A binding on its way to the API server.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The number of the scheduler process that sent it.
    pub(crate) incarnation: u32,
    /// How often the scheduler had started or lost the lease before. What it assumed then is forgotten.
    pub(crate) fence: u64,
    /// The id of the request.
    pub(crate) id: u64,
    pub(crate) uid: String,
    pub(crate) node: String,
    /// The server's stamp at the decision and at the release of the binding: of everything, and of the node.
    /// `None` if the scheduler's state was not current.
    pub(crate) decided_on: Option<Stamp>,
    pub(crate) released_on: Option<Stamp>,
    pub(crate) fate: Fate,
}

/// The outcome of a binding that arrives at the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The API server accepts or rejects it according to its state, and answers.
    Answered,
    /// The API server rejects it regardless of its state.
    Forbidden,
    /// It is carried out if possible, but the answer is lost or arrives after the deadline.
    Unanswered,
}

/// An input of the scheduler other than watch changes.
#[derive(Debug)]
pub(crate) enum Answer {
    Bind { uid: String, outcome: BindOutcome },
    BindingQueried { uid: String, found: BindingState },
    Evicted { uid: String, outcome: EvictOutcome },
    Written { uid: String, write: u64, outcome: WriteOutcome },
    Extended { uid: String, call: u64, answer: Result<extender::Answer, String> },
}

#[derive(Default)]
pub(crate) struct Agenda {
    due: BTreeMap<(Time, u64), Due>,
    written: u64,
}

impl Agenda {
    pub(crate) fn write(&mut self, time: Time, due: Due) {
        self.due.insert((time, self.written), due);
        self.written += 1;
    }

    pub(crate) fn next(&mut self) -> Option<(Time, Due)> {
        self.due.pop_first().map(|((time, _), due)| (time, due))
    }

    pub(crate) fn next_time(&self) -> Option<Time> {
        self.due.first_key_value().map(|(&(time, _), _)| time)
    }

    /// Removes the actions for which `keep` returns false.
    pub(crate) fn retain(&mut self, keep: impl Fn(&Due) -> bool) {
        self.due.retain(|_, due| keep(due));
    }
}
