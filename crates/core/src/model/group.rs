//! Groups of pods that are scheduled together: one internal type for every version of the API.
//!
//! Upstream: `scheduling.k8s.io` PodGroup, `v1alpha2` in 1.36 and `v1beta1` in 1.37 (KEP-4671). Conversion from the API
//! is in `crates/objects`; nothing here knows a version.

use crate::model::group_options::{GroupOptions, START_DEADLINE_EXCEEDED, start_deadline_message};
use crate::model::intern::{Symbol, trace_ids};
use crate::model::pod::Uid;
use crate::model::time::Time;

/// A group, reduced to what decisions read and what writes about it must name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodGroup {
    /// `metadata.namespace` and `metadata.name`.
    pub key: GroupKey,
    /// The version of the API from which it was read.
    pub api: GroupApi,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.generation`, for `observedGeneration` of its condition.
    pub generation: i64,
    /// `spec.schedulingPolicy`.
    pub policy: GroupPolicy,
    /// The keys of `spec.schedulingConstraints.topology`, outermost first; `None` when `schedulingConstraints` is
    /// absent. Absent and empty differ: with the field, members do not preempt one by one.
    pub topology: Option<Box<[Symbol]>>,
    /// `spec.disruptionMode`.
    pub disruption: DisruptionMode,
    /// `spec.priority`; 0 when absent.
    pub priority: i32,
    /// What its annotations ask for, or why the group is refused: for an error in one of them, or for a composite group
    /// that it is part of.
    pub options: Result<GroupOptions, Box<str>>,
    /// The condition that says whether the group was scheduled, as the watch shows it.
    pub scheduled: Option<GroupCondition>,
}

/// A version of the API of groups. It decides the name of the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupApi {
    /// `scheduling.k8s.io/v1alpha2`, of Kubernetes 1.36.
    V1Alpha2,
    /// `scheduling.k8s.io/v1beta1`, of Kubernetes 1.37.
    V1Beta1,
}

impl GroupApi {
    /// Returns the `apiVersion`.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1Alpha2 => "scheduling.k8s.io/v1alpha2",
            Self::V1Beta1 => "scheduling.k8s.io/v1beta1",
        }
    }

    /// Returns the type of the condition that says whether a group was scheduled.
    pub fn condition_type(self) -> &'static str {
        match self {
            Self::V1Alpha2 => "PodGroupScheduled",
            Self::V1Beta1 => "PodGroupInitiallyScheduled",
        }
    }
}

/// The namespace and name of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKey {
    /// `metadata.namespace`.
    pub namespace: Symbol,
    /// `metadata.name`.
    pub name: Symbol,
}

/// When the members of a group may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupPolicy {
    /// Each member on its own.
    Basic,
    /// Only if at least this number of members has a node (`minCount`).
    Gang(usize),
}

/// What preemption may take from a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DisruptionMode {
    /// Single members.
    #[default]
    Single,
    /// Only all members together.
    All,
}

impl PodGroup {
    /// Returns the message of the condition if it says that the group was given up, with the time limit that its
    /// annotation has now.
    pub fn given_up(&self) -> Option<&str> {
        let limit = self.options.as_ref().ok()?.start_within?;
        let shown = self.scheduled.as_ref().filter(|shown| !shown.is_true)?;
        let says_so =
            &*shown.reason == START_DEADLINE_EXCEEDED && *shown.message == *start_deadline_message(limit);
        says_so.then_some(&*shown.message)
    }
}

/// The condition that says whether a group was scheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupCondition {
    /// Whether its status is True.
    pub is_true: bool,
    /// `reason`.
    pub reason: Box<str>,
    /// `message`.
    pub message: Box<str>,
    /// `observedGeneration`.
    pub observed_generation: i64,
}

/// What a pod says about its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// `spec.schedulingGroup.podGroupName`, in the pod's namespace.
    pub group: Symbol,
    /// `metadata.creationTimestamp` of the pod: members that became ready together are tried in this order.
    pub created: Time,
}

trace_ids!(PodGroup { key, topology, options } but not { api, uid, generation, policy, disruption, priority, scheduled });
trace_ids!(GroupKey { namespace, name });
trace_ids!(Membership { group } but not { created });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::intern::Tables;
    use std::time::Duration;

    #[test]
    fn group_was_given_up_if_its_condition_names_the_time_limit_that_it_has() {
        let name = Tables::new().symbol("g");
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let given_up = |limit: Option<Duration>, is_true: bool, reason: &str, of: Duration| {
            let condition = GroupCondition {
                is_true,
                reason: reason.into(),
                message: start_deadline_message(of).into(),
                observed_generation: 1,
            };
            let group = PodGroup {
                key: GroupKey { namespace: name, name },
                api: GroupApi::V1Beta1,
                uid: "g".into(),
                generation: 1,
                policy: GroupPolicy::Gang(2),
                topology: None,
                disruption: DisruptionMode::Single,
                priority: 0,
                options: Ok(GroupOptions { start_within: limit, ..GroupOptions::default() }),
                scheduled: Some(condition),
            };
            group.given_up().map(str::to_owned)
        };
        let (two, five) = (Some(minutes(2)), minutes(5));
        let message = "the pod group did not start within 120 s; change annotation \
                       supercargo.dev/start-within, or create its pods again";
        assert_eq!(given_up(two, false, START_DEADLINE_EXCEEDED, minutes(2)).as_deref(), Some(message));
        for (limit, is_true, reason, of, why) in [
            (two, false, START_DEADLINE_EXCEEDED, five, "its annotation has changed"),
            (None, false, START_DEADLINE_EXCEEDED, five, "its annotation is gone"),
            (two, false, "Unschedulable", minutes(2), "it does not fit"),
            (two, true, START_DEADLINE_EXCEEDED, minutes(2), "it was scheduled"),
        ] {
            assert_eq!(given_up(limit, is_true, reason, of), None, "{why}");
        }
    }
}
