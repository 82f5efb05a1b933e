//! Results of plugins: verdicts, status codes and reasons.

use std::borrow::Cow;

/// One reason of a rejection, with its text as in FailedScheduling messages.
pub type Reason = Cow<'static, str>;

/// Whether preemption may resolve a rejection (upstream `kube-scheduler/framework/interface.go#Code`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    /// Evicting other pods may help, so preemption tries the node.
    Unschedulable,
    /// Evicting pods does not help.
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

/// A plugin's rejection of a node or of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Whether preemption may help.
    pub code: Code,
    /// The reasons; each counts in the message's histogram.
    pub reasons: Vec<Reason>,
}

impl Rejection {
    /// A rejection that preemption may resolve.
    pub fn unschedulable(reason: impl Into<Reason>) -> Self {
        Self { code: Code::Unschedulable, reasons: vec![reason.into()] }
    }

    /// A rejection that preemption cannot resolve.
    pub fn unresolvable(reason: impl Into<Reason>) -> Self {
        Self { code: Code::UnschedulableAndUnresolvable, reasons: vec![reason.into()] }
    }

    /// The reasons joined to one text (upstream `Status.Message`).
    pub fn message(&self) -> String {
        self.reasons.join(", ")
    }
}

/// An error that ends the whole attempt, even if other nodes are feasible; upstream's Error status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CycleError(pub String);

/// A filter's result for one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The node passes.
    Fits,
    /// The node is rejected.
    Rejected(Rejection),
    /// The attempt ends with an error.
    Failed(CycleError),
}
