//! GangScheduling holds back the members of a group until enough of them can start.
//!
//! It only knows numbers; which pods count is up to the caller. Upstream:
//! `pkg/scheduler/framework/plugins/gangscheduling/gangscheduling.go`.

use crate::framework::PluginName;
use crate::model::group::{GroupPolicy, PodGroup};

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
pub fn pre_enqueue(group: Option<&PodGroup>, name: &str, known: usize) -> Option<String> {
    match group.map(|group| group.policy) {
        None => Some(format!("waiting for pods's pod group \"{name}\" to appear in scheduling queue")),
        Some(GroupPolicy::Gang(min)) if known < min => {
            Some("waiting for minCount pods from a gang to appear in scheduling queue".to_owned())
        }
        Some(GroupPolicy::Gang(_) | GroupPolicy::Basic) => None,
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
