//! Verdicts of plugins and the texts that go with them.

use std::borrow::Cow;

/// One reason of a rejection, as it stands in FailedScheduling messages.
pub type Reason = Cow<'static, str>;

/// How a rejection may be cured (upstream `kube-scheduler/framework/interface.go#Code`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    /// Another placement of other pods may help, so preemption is worth a look.
    Unschedulable,
    /// Removing pods does not help.
    UnschedulableAndUnresolvable,
}

impl Code {
    /// Upstream's name of the code.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unschedulable => "Unschedulable",
            Self::UnschedulableAndUnresolvable => "UnschedulableAndUnresolvable",
        }
    }
}

/// Why a plugin says no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Whether preemption may help.
    pub code: Code,
    /// The texts; every one of them counts in the message's histogram.
    pub reasons: Vec<Reason>,
}

impl Rejection {
    /// A rejection that preemption may cure.
    pub fn unschedulable(reason: impl Into<Reason>) -> Self {
        Self { code: Code::Unschedulable, reasons: vec![reason.into()] }
    }

    /// A rejection that preemption cannot cure.
    pub fn unresolvable(reason: impl Into<Reason>) -> Self {
        Self { code: Code::UnschedulableAndUnresolvable, reasons: vec![reason.into()] }
    }

    /// The reasons as one text (upstream `Status.Message`).
    pub fn message(&self) -> String {
        self.reasons.join(", ")
    }
}

/// A failure that ends the whole cycle, even where other nodes fit; upstream's Error status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CycleError(pub String);

/// What a filter says of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The pod may go there.
    Fits,
    /// It may not.
    Rejected(Rejection),
    /// The cycle ends.
    Failed(CycleError),
}
