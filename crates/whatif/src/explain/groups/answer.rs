//! The explanation of a group, in its serialized form (docs/groups.md).

use crate::explain::answer::{Change, Group};
use serde::Serialize;

/// The state of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum GroupVerdict {
    /// Enough members have a node.
    Started,
    /// Enough members fit now.
    StartsNow,
    /// Enough members fit after the preemption of pods with lower priority.
    WaitsForPreemption,
    /// Too few members fit now.
    Blocked,
    /// Too few members would fit even in an empty cluster.
    NeverFits,
    /// The group did not start within the time limit of its annotation, and is not tried any more.
    GivenUp,
    /// There are fewer members than `minCount`.
    TooFewMembers,
    /// The PodGroup does not exist.
    NoGroup,
    /// The decision fails with an error.
    Failed,
}

impl GroupVerdict {
    /// Returns whether the group runs or can start.
    pub fn is_well(self) -> bool {
        matches!(self, Self::Started | Self::StartsNow)
    }
}

/// The explanation of a group.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupExplanation {
    /// [`crate::explain::API_VERSION`].
    pub api_version: &'static str,
    /// `PodGroupExplanation`.
    pub kind: &'static str,
    /// `namespace/name`.
    pub group: String,
    /// The group's state.
    pub verdict: GroupVerdict,
    /// The state in one or two sentences.
    pub summary: String,
    /// `Gang` or `Basic`; null if the PodGroup does not exist.
    pub policy: Option<&'static str>,
    /// The number of members that must have a node together; null if there is no such number.
    pub min_count: Option<usize>,
    /// Whether the condition says that the group was scheduled once.
    pub was_scheduled: bool,
    /// Number of members: all that follow.
    pub members: usize,
    /// Number of members with a node.
    pub bound: usize,
    /// Number of members without a node that may be scheduled.
    pub waiting: usize,
    /// Number of members with scheduling gates.
    pub gated: usize,
    /// Number of members without a node that are being deleted.
    pub deleting: usize,
    /// Number of waiting members that fit now together, in the closest topology domain if one is required.
    pub fits: usize,
    /// Number of members that must fit in addition, so that the group starts.
    pub lacks: usize,
    /// The label whose value all nodes of the group must share; null if none.
    pub topology_key: Option<String>,
    /// The topology domains, those where most members fit first; at most 10.
    pub domains: Vec<Domain>,
    /// Number of all topology domains.
    pub domain_count: usize,
    /// The domain where most members fit; null if there is none.
    pub closest: Option<String>,
    /// The members that fit on no node once the others are placed, equal ones together.
    pub short: Vec<Short>,
    /// `namespace/name` of the pods whose preemption lets the group start, sorted.
    pub victims: Vec<String>,
    /// The message of the group's condition; empty if the group starts.
    pub status: String,
    /// Verified fixes: with each, the group starts. `fitsOn` counts the nodes that its members then use.
    pub changes: Vec<Change>,
}

/// A topology domain.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Domain {
    /// The label's value.
    pub name: String,
    /// Number of its nodes.
    pub nodes: usize,
    /// Number of waiting members that fit.
    pub fits: usize,
    /// Number of members that must fit in addition, so that the group starts here.
    pub lacks: usize,
}

/// Members that are unschedulable for the same reasons.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Short {
    /// Number of members.
    pub members: usize,
    /// `namespace/name` of some of them.
    pub examples: Vec<String>,
    /// The reasons, those of most nodes first.
    pub reasons: Vec<Group>,
}
