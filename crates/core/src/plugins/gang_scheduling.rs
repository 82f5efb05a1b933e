//! GangScheduling holds back the members of a group until enough of them can start.
//!
//! It only knows numbers; which pods count is up to the caller. Upstream:
//! `pkg/scheduler/framework/plugins/gangscheduling/gangscheduling.go`.

use crate::framework::PluginName;
use crate::model::group::{GroupPolicy, PodGroup};
use crate::model::intern::{Symbol, Tables};

/// The plugin's name.
pub const NAME: PluginName = "GangScheduling";

/// The text of Permit for a member that waits for others.
pub const WAITS: &str = "waiting for minCount pods from a gang to be scheduled";

/// The answer of Permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// Enough members have a node.
    Success,
    /// The pod waits for other members.
    Wait,
}

impl Permit {
    /// Upstream's name of the answer.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::Wait => "Wait",
        }
    }
}

/// PreEnqueue: returns why a member is gated, if it is. `known` is the number of all members that the scheduler knows.
/// `policy` is that of the group, if it exists.
pub fn pre_enqueue(policy: Option<GroupPolicy>, name: &str, known: usize) -> Option<String> {
    match policy {
        None => Some(format!("waiting for pods's pod group \"{name}\" to appear in scheduling queue")),
        Some(GroupPolicy::Gang(min)) if known < min => {
            Some("waiting for minCount pods from a gang to appear in scheduling queue".to_owned())
        }
        Some(GroupPolicy::Gang(_) | GroupPolicy::Basic) => None,
    }
}

/// The answer of PlacementFeasible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feasible {
    /// Enough members have a node.
    Success,
    /// More members may get a node.
    Wait(Shortage),
    /// Too few members are left.
    Never(Shortage),
}

/// A minimum that the members with a node do not reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The role that has the minimum; `None` if it is the group's.
    pub role: Option<Symbol>,
    /// The minimum number of members.
    pub min: usize,
    /// The number of members with a node.
    pub scheduled: usize,
    /// The number of members that are not tried yet.
    pub remaining: usize,
}

impl Feasible {
    /// Returns the text of the status; empty for success.
    pub fn text(&self, tables: &Tables) -> String {
        let (short, what) = match self {
            Self::Success => return String::new(),
            Self::Wait(short) => (short, "is not yet"),
            Self::Never(short) => (short, "cannot be"),
        };
        let Shortage { role, min, scheduled, remaining } = short;
        let of = match role {
            Some(role) => format!("minimum of role \"{}\"", tables.text(*role)),
            None => "minCount".to_owned(),
        };
        format!("{of} ({min}) {what} satisfied: {scheduled} scheduled, {remaining} remaining")
    }
}

/// PlacementFeasible, from 1.37 on: `scheduled` members have a node, and `remaining` are not tried yet.
pub fn placement_feasible(group: Option<&PodGroup>, scheduled: usize, remaining: usize) -> Feasible {
    let min = match group.map(|group| group.policy) {
        Some(GroupPolicy::Gang(min)) => min,
        Some(GroupPolicy::Basic) | None => 1,
    };
    let short = Shortage { role: None, min, scheduled, remaining };
    if scheduled + remaining < min {
        Feasible::Never(short)
    } else if scheduled < min {
        Feasible::Wait(short)
    } else {
        Feasible::Success
    }
}

/// Permit: `scheduled` members have a node, this one included.
///
/// # Errors
/// If the group does not exist; `key` is its namespace and name.
pub fn permit(group: Option<&PodGroup>, key: (&str, &str), scheduled: usize) -> Result<Permit, String> {
    match group.map(|group| group.policy) {
        None => {
            let (namespace, name) = key;
            Err(format!(
                "running Permit plugin \"{NAME}\": failed to get podGroup {namespace}/{name}: \
                 podgroup.scheduling.k8s.io \"{name}\" not found"
            ))
        }
        Some(GroupPolicy::Gang(min)) if scheduled < min => Ok(Permit::Wait),
        Some(GroupPolicy::Gang(_) | GroupPolicy::Basic) => Ok(Permit::Success),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::group::{DisruptionMode, GroupApi, GroupKey};
    use crate::model::group_options::GroupOptions;

    #[test]
    fn placement_is_feasible_as_long_as_enough_members_are_left() {
        let mut tables = Tables::new();
        let name = tables.symbol("g");
        let group = |policy| PodGroup {
            key: GroupKey { namespace: name, name },
            api: GroupApi::V1Beta1,
            uid: "g".into(),
            generation: 1,
            policy,
            topology: None,
            disruption: DisruptionMode::Single,
            priority: 0,
            options: Ok(GroupOptions::default()),
            scheduled: None,
        };
        let gang = group(GroupPolicy::Gang(3));
        let answer = |scheduled, remaining| placement_feasible(Some(&gang), scheduled, remaining);
        assert_eq!(answer(3, 0), Feasible::Success);
        let text = |found: Feasible| found.text(&tables);
        assert_eq!(text(answer(1, 2)), "minCount (3) is not yet satisfied: 1 scheduled, 2 remaining");
        assert_eq!(text(answer(1, 1)), "minCount (3) cannot be satisfied: 1 scheduled, 1 remaining");
        let basic = group(GroupPolicy::Basic);
        assert_eq!(placement_feasible(Some(&basic), 1, 0), Feasible::Success);
        let never = "minCount (1) cannot be satisfied: 0 scheduled, 0 remaining";
        assert_eq!(text(placement_feasible(Some(&basic), 0, 0)), never);
    }
}
