//! The result of a decision without a feasible node, as plain data.

use crate::framework::PluginName;
use crate::framework::post_filter::Deallocated;
use crate::model::intern::Symbol;
use crate::model::pod::Uid;
use crate::report::Preemption;
use std::collections::BTreeSet;

/// The result of a decision without a feasible node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unschedulable {
    /// The plugins that rejected the pod or nodes.
    pub(crate) rejectors: BTreeSet<PluginName>,
    /// The plugins that made preemption fail.
    pub(crate) preemption_blockers: BTreeSet<PluginName>,
    /// The full message, including PostFilter's part.
    pub(crate) message: String,
    /// The length in bytes of the filters' part of `message`, which comes first.
    pub(crate) filters_len: usize,
    /// The result of preemption.
    pub(crate) preemption: Preemption,
    /// The change of the pod's nomination.
    pub(crate) nominate: Nominate,
    /// The number of nodes with a verdict.
    pub(crate) evaluated: usize,
    /// The claim to free or to delete.
    pub(crate) deallocated: Option<Box<Deallocated>>,
    /// The number of nodes by which the search advances its start for the next pod.
    pub(crate) walked: usize,
}

/// The change of the nomination of a pod that was not placed (upstream `NominatingInfo`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Nominate {
    /// Unchanged.
    Keep,
    /// Removed.
    Clear,
    /// Set to this node, which becomes feasible when the victims are gone.
    To {
        /// The node.
        node: Symbol,
        /// The victims in descending order of importance.
        victims: Vec<Uid>,
    },
}
