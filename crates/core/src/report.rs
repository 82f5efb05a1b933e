//! Reports of the engine: the outcomes of attempts and bindings, for logs, metrics and events.

pub mod group;

use crate::framework::PluginName;
use crate::model::effect::PodRef;
use crate::model::time::Time;
use std::sync::Arc;
use std::time::Duration;

/// The outcome of one scheduling attempt, or of the binding that follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The pod.
    pub pod: PodRef,
    /// The name of the pod's profile.
    pub profile: String,
    /// The number of the attempt, starting at 1.
    pub attempt: u32,
    /// When the pod first entered the active queue.
    pub first_queued: Time,
    /// When this attempt began.
    pub began: Time,
    /// Whether the five-minute flush requeued the pod since its last attempt.
    pub rescued_by_flush: bool,
    /// The outcome.
    pub outcome: Outcome,
}

/// The outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The attempt found a node, and the binding follows.
    Placed {
        /// The node's name.
        node: String,
        /// The number of nodes in the cluster.
        nodes: usize,
        /// The number of feasible nodes.
        feasible: usize,
        /// The best total, which is that of the node; `None` if a single feasible node made scoring unnecessary.
        score: Option<i64>,
    },
    /// No node is feasible.
    Unschedulable {
        /// The text of the FailedScheduling event.
        message: String,
        /// The plugins that rejected nodes or the pod.
        rejectors: Vec<PluginName>,
        /// The number of nodes with a verdict.
        evaluated: usize,
        /// The result of preemption.
        preemption: Preemption,
    },
    /// The attempt failed with an error.
    Error {
        /// The text of the FailedScheduling event.
        message: String,
    },
    /// The attempt was skipped because the pod is terminating.
    Skipped,
    /// PreBind of a pod with an earlier [`Outcome::Placed`] has ended. The binding, or [`Outcome::BindFailed`],
    /// follows.
    PreBound {
        /// Whether PreBind succeeded.
        succeeded: bool,
        /// The plugin that failed.
        failed: Option<PluginName>,
        /// The duration of PreBind.
        took: Duration,
        /// The wait for binding conditions of devices, if there was one.
        devices: Option<DeviceWait>,
    },
    /// The binding of an earlier [`Outcome::Placed`] was carried out.
    Bound {
        /// The node's name.
        node: String,
        /// The number of nodes with a verdict in the decision (upstream `evaluatedNodes`).
        evaluated: usize,
        /// The number of feasible nodes in the decision (upstream `feasibleNodes`).
        feasible: usize,
    },
    /// The evictions of an earlier [`Preemption::Nominated`] have ended.
    PreemptionEnded {
        /// The node's name.
        node: String,
        /// The reason why not all victims could be evicted; the pod is retried after its backoff. `None` on success.
        error: Option<String>,
    },
    /// The binding of an earlier [`Outcome::Placed`] failed. The pod is retried.
    BindFailed {
        /// The text of the FailedScheduling event.
        message: String,
    },
}

/// The result of preemption for a pod without a feasible node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// Preemption did not run.
    NotTried,
    /// The pod must not preempt, or no candidate was found.
    NoCandidate,
    /// The pod is nominated to a node that becomes feasible when the victims are gone.
    Nominated {
        /// The node's name.
        node: String,
        /// The victims in descending order of importance.
        victims: Vec<PodRef>,
        /// The number of victims that are not terminating yet, and are evicted now.
        evictions: usize,
    },
}

/// A message for operators that is not about a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The object it is about: kind, namespace and name.
    pub object: String,
    /// The message.
    pub text: String,
}

/// A wait for the binding conditions of a pod's devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceWait {
    /// How it ended, as upstream's metrics name it: `success`, `failure`, `timeout` or `error`.
    pub status: &'static str,
    /// How long it took.
    pub took: Duration,
    /// The driver of each device of the pod's claims, and whether the device has binding conditions.
    pub devices: Vec<(Arc<str>, bool)>,
}
