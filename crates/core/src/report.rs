//! What a decision was and how it came about; every decision carries one.

use crate::effect::PodRef;
use crate::framework::PluginName;
use crate::time::Time;
use std::time::Duration;

/// The account of one attempt to schedule a pod, or of the end of its binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The pod.
    pub pod: PodRef,
    /// The name of the profile that decided.
    pub profile: String,
    /// Which attempt this was, from 1.
    pub attempt: u32,
    /// When the pod first came to the active queue.
    pub first_queued: Time,
    /// When this attempt began.
    pub began: Time,
    /// Whether the pod had to be fetched by the periodic flush since its last attempt.
    pub rescued_by_flush: bool,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A node was found; the binding is on its way.
    Placed {
        /// The node's name.
        node: String,
        /// How many nodes there are.
        nodes: usize,
        /// How many of them could take the pod.
        feasible: usize,
        /// The node's total, which is the highest there is; `None` where a single node made scoring needless.
        score: Option<i64>,
    },
    /// No node can take the pod.
    Unschedulable {
        /// The text of the FailedScheduling event.
        message: String,
        /// The plugins that rejected it.
        rejectors: Vec<PluginName>,
        /// How many nodes there is a verdict on.
        evaluated: usize,
        /// Whether room could be made for it.
        preemption: Preemption,
    },
    /// The attempt failed.
    Error {
        /// The text of the FailedScheduling event.
        message: String,
    },
    /// There was nothing to decide: the pod is being deleted.
    Skipped,
    /// What a pod with an earlier [`Outcome::Placed`] needed before its binding came to an end; the binding, or
    /// [`Outcome::BindFailed`], follows.
    PreBound {
        /// Whether it is there now.
        succeeded: bool,
        /// How long it took.
        took: Duration,
    },
    /// The binding of an earlier [`Outcome::Placed`] was carried out.
    Bound {
        /// The node's name.
        node: String,
        /// How many nodes the decision came to a verdict on; upstream's `evaluatedNodes`.
        evaluated: usize,
        /// How many of them could take the pod; upstream's `feasibleNodes`.
        feasible: usize,
    },
    /// The evictions that an earlier [`Preemption::Nominated`] began have come to their end.
    PreemptionEnded {
        /// The node's name.
        node: String,
        /// Why not all victims could be sent away; the pod is tried again after a pause.
        error: Option<String>,
    },
    /// The binding of an earlier [`Outcome::Placed`] was not carried out; the pod is tried again.
    BindFailed {
        /// The text of the FailedScheduling event.
        message: String,
    },
}

/// What preemption came to for a pod no node can take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// It was not asked.
    NotTried,
    /// The pod may not preempt, or no node could take it if others went.
    InVain,
    /// The pod is nominated to a node, which can take it once these are gone.
    Nominated {
        /// The node's name.
        node: String,
        /// Who has to go, the most important first.
        victims: Vec<PodRef>,
        /// How many of them are not on their way out yet, and are sent away now.
        evictions: usize,
    },
}

/// Something a person must know of, beside decisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The object it is about: kind, namespace and name.
    pub object: String,
    /// What happened.
    pub text: String,
}
