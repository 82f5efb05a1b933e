//! What is going to happen and when. Of two things due at one time the one that was written down first comes first.

use crate::server::Stamp;
use std::collections::BTreeMap;
use supercargo_core::effect::{Lane, StatusPatch, VolumeWrite};
use supercargo_core::event::{BindOutcome, EvictOutcome, Found, Kind, WriteOutcome};
use supercargo_core::extender;
use supercargo_core::time::Time;

/// Something that is going to happen.
#[derive(Debug)]
pub(crate) enum Due {
    /// Somebody does something to the cluster.
    World,
    /// The faults change.
    Weather,
    /// The next change of a kind arrives, if its connection is still this one.
    Watch(Kind, u32),
    /// A connection is made anew, if none was made since this one.
    Reconnect(Kind, u32),
    /// A binding arrives at the API server.
    Bind(Request),
    /// A question about a binding arrives at the API server.
    Question { life: u32, uid: String },
    /// An answer arrives at the scheduler that lives this life.
    Answer { life: u32, answer: Answer },
    /// An eviction arrives at the API server.
    Evict { life: u32, uid: String },
    /// An eviction arrives that somebody else has answered.
    LateEviction(String),
    /// A write of a volume or a claim arrives at the API server.
    VolumeWrite { life: u32, write: VolumeWrite, fate: Fate },
    /// The controllers of volumes do something.
    Controllers,
    /// A change of a pod's status arrives at the API server.
    Patch { life: u32, patch: StatusPatch },
    /// The outside takes one more effect of a lane.
    Credit { life: u32, lane: Lane },
    /// A pod that is being deleted, or whose node is gone, is gone.
    Gone(String),
    /// The scheduler that lives this life wins the lead back.
    Lead { life: u32 },
    /// The scheduler asked to be woken.
    Wake,
}

/// A binding on its way to the API server.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The life of the scheduler that sent it.
    pub(crate) life: u32,
    /// Numbers the requests.
    pub(crate) id: u64,
    pub(crate) uid: String,
    pub(crate) node: String,
    /// What the decision was built on, if that was up to date: of everything, and of the node.
    pub(crate) decided_on: Option<Stamp>,
    pub(crate) released_on: Option<Stamp>,
    pub(crate) fate: Fate,
}

/// What becomes of a binding that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is carried out or refused by what the API server has, and answered.
    Answered,
    /// It is refused whatever the API server has.
    Forbidden,
    /// It is carried out if it can be, and the answer is lost or was long given up.
    Unanswered,
}

/// What arrives at the scheduler beside the watches.
#[derive(Debug)]
pub(crate) enum Answer {
    Bind { uid: String, outcome: BindOutcome },
    Settled { uid: String, found: Found },
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

    /// Forgets what `keep` does not hold of.
    pub(crate) fn retain(&mut self, keep: impl Fn(&Due) -> bool) {
        self.due.retain(|_, due| keep(due));
    }
}
