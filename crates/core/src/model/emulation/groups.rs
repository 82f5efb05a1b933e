//! The feature gates of pod groups.
//!
//! Upstream: `pkg/features/kube_features.go`. From 1.37 on, GenericWorkload includes GangScheduling and
//! WorkloadAwarePreemption.

use super::EmulatedVersion::{self, V1_34, V1_35, V1_37};

/// The feature gates of pod groups. All are off by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupGates {
    /// `GenericWorkload`: pods may name a PodGroup, and the members of a group are decided in one cycle.
    pub workloads: bool,
    /// `GangScheduling`: a group starts only if enough members have a node.
    pub gangs: bool,
    /// `TopologyAwareWorkloadScheduling`: a group may require nodes of one topology domain.
    pub topology: bool,
    /// `WorkloadAwarePreemption`: a group preempts as a whole.
    pub preemption: bool,
}

impl GroupGates {
    /// Names of the gates, as in `--feature-gates`.
    pub const NAMES: [&'static str; 4] =
        ["GangScheduling", "GenericWorkload", "TopologyAwareWorkloadScheduling", "WorkloadAwarePreemption"];

    /// All gates off.
    pub const OFF: Self = Self { workloads: false, gangs: false, topology: false, preemption: false };

    /// Sets a gate by its name. Returns false if it is none of these.
    pub fn set(&mut self, name: &str, on: bool) -> bool {
        let gate = match name {
            "GenericWorkload" => &mut self.workloads,
            "GangScheduling" => &mut self.gangs,
            "TopologyAwareWorkloadScheduling" => &mut self.topology,
            "WorkloadAwarePreemption" => &mut self.preemption,
            _ => return false,
        };
        *gate = on;
        true
    }

    /// Returns the names of the gates that are on.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES
            .into_iter()
            .zip([self.gangs, self.workloads, self.topology, self.preemption])
            .filter_map(|(name, is_on)| is_on.then_some(name))
    }

    /// Returns the gates as they take effect in a version: each needs GenericWorkload, and 1.36 has its own rules of
    /// which gate includes which.
    pub(super) const fn of(self, version: EmulatedVersion) -> Self {
        if !self.workloads || matches!(version, V1_34 | V1_35) {
            return Self::OFF;
        }
        let is_merged = matches!(version, V1_37);
        let gangs = self.gangs || is_merged;
        Self { gangs, preemption: gangs && self.preemption || is_merged, ..self }
    }
}

/// How a version decides groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupRules {
    /// Row P1: whether a group is one entry of the queue: its members share gate and backoff, and after a start those
    /// that are left are tried again at once.
    pub queues_groups: bool,
    /// Row P2: whether the group is asked after each member if `minCount` can be reached, and how far it is. Otherwise
    /// Permit is asked, and members may look for victims of their own.
    pub asks_feasibility: bool,
    /// Row P3: whether members must have the group's priority and one preemption policy.
    pub requires_equal_members: bool,
    /// Row P4: whether a group chooses its victims by one run, in topology domains too, and waits for those that are
    /// terminating.
    pub preempts_by_one_run: bool,
}

impl GroupRules {
    /// Returns the rules of a version.
    pub(super) const fn of(version: EmulatedVersion) -> Self {
        let is_new = matches!(version, V1_37);
        Self {
            queues_groups: is_new,
            asks_feasibility: is_new,
            requires_equal_members: is_new,
            preempts_by_one_run: is_new,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use EmulatedVersion::V1_36;

    fn gates(names: &[&str]) -> GroupGates {
        let mut gates = GroupGates::OFF;
        names.iter().for_each(|name| assert!(gates.set(name, true), "{name}"));
        gates
    }

    #[test]
    fn gates_need_generic_workload_which_includes_others_from_1_37() {
        let all = gates(&GroupGates::NAMES);
        assert_eq!(all.of(V1_36), all);
        assert_eq!(all.of(V1_35), GroupGates::OFF);
        assert_eq!(gates(&GroupGates::NAMES[..1]).of(V1_37), GroupGates::OFF);
        let only = gates(&["GenericWorkload"]);
        assert_eq!(only.of(V1_36), only);
        assert_eq!(only.of(V1_37), gates(&["GenericWorkload", "GangScheduling", "WorkloadAwarePreemption"]));
        assert_eq!(gates(&["GenericWorkload", "WorkloadAwarePreemption"]).of(V1_36), only);
        assert!(!gates(&[]).set("DRAAdminAccess", true));
        for name in GroupGates::NAMES {
            assert_eq!(gates(&[name]).names().collect::<Vec<_>>(), [name]);
        }
    }
}
