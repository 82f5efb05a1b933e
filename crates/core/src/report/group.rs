//! The outcome of one cycle of a group: what was decided about each member, and why.

use crate::framework::PluginName;
use crate::model::effect::PodRef;
use crate::model::time::Time;
use crate::plugins::gang_scheduling::Permit;

/// The outcome of one cycle of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupReport {
    /// The group's namespace.
    pub namespace: String,
    /// The group's name.
    pub name: String,
    /// The name of the members' profile.
    pub profile: String,
    /// When the cycle began.
    pub began: Time,
    /// The outcome.
    pub outcome: GroupOutcome,
    /// The text of the group's condition; empty if the group is scheduled.
    pub status: String,
    /// The members in the order in which they were tried.
    pub members: Vec<MemberReport>,
    /// The placements, by name, if the group requires a topology domain.
    pub placements: Vec<PlacementReport>,
    /// The name of the chosen placement.
    pub chosen: Option<String>,
    /// The answer of preemption by the group as a whole, if it ran.
    pub preemption: Option<String>,
    /// The pods that are evicted for the group or a member, without those that are terminating already.
    pub victims: Vec<PodRef>,
}

/// How a cycle of a group ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupOutcome {
    /// The members that fit are bound.
    Scheduled,
    /// No member is bound.
    Unschedulable,
    /// No member is bound until victims are gone.
    WaitingForPreemption,
    /// The cycle failed with an error.
    Error,
    /// The group was not tried, because its members have different scheduler names.
    Refused,
}

impl GroupOutcome {
    /// All outcomes.
    pub const ALL: [Self; 5] =
        [Self::Scheduled, Self::Unschedulable, Self::WaitingForPreemption, Self::Error, Self::Refused];

    /// Returns upstream's label of the result in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Unschedulable => "unschedulable",
            Self::WaitingForPreemption => "waiting_on_preemption",
            Self::Error | Self::Refused => "error",
        }
    }
}

/// What was decided about a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberReport {
    /// The pod.
    pub pod: PodRef,
    /// The node where it fits, or to which preemption nominates it.
    pub node: Option<String>,
    /// Upstream's name of the status code of the member's own decision.
    pub code: &'static str,
    /// The text of the pod's condition; `None` if it goes on to its binding.
    pub message: Option<String>,
    /// The answer of Permit in the group's cycle, if the member has a node.
    pub permit: Option<Permit>,
    /// Whether the node is free only once victims are gone.
    pub preempts: bool,
}

/// What was found for a placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementReport {
    /// The value of the node label.
    pub name: String,
    /// The number of its nodes.
    pub nodes: usize,
    /// Upstream's name of the status code.
    pub code: &'static str,
    /// The status text; empty if the group fits.
    pub status: String,
    /// The number of members that have a node here.
    pub placed: usize,
    /// The members that have a node here, each with the node's name. Empty unless
    /// [`report_members_of_placements`](crate::scheduler::Scheduler::report_members_of_placements) asked for them.
    pub members: Vec<(PodRef, String)>,
    /// The weighted scores by plugin, if several placements fit.
    pub scores: Vec<(PluginName, i64)>,
}

impl PlacementReport {
    /// Returns the sum of the scores, if the placement was scored.
    pub fn total(&self) -> Option<i64> {
        (!self.scores.is_empty()).then(|| self.scores.iter().map(|(_, score)| score).sum())
    }
}
