//! Minimums for the roles of a group's members: the group starts only if each role has enough members with a node.

use super::super::Scheduler;
use super::cycle::Attempt;
use crate::model::group::{GroupKey, GroupPolicy};
use crate::model::group_options::Roles;
use crate::model::intern::{Symbol, Tables};
use crate::model::pod::PodInfo;
use crate::plugins::gang_scheduling::{Feasible, Shortage};
use std::sync::Arc;

/// The members of each role with a minimum in a run. Without roles it counts nothing.
#[derive(Default)]
pub(super) struct RoleCounts {
    roles: Option<Roles>,
    /// The members with a node, by the position of their role.
    scheduled: Vec<usize>,
    /// The members that are not tried yet.
    remaining: Vec<usize>,
}

impl RoleCounts {
    fn of(roles: &Roles) -> Self {
        let none = vec![0; roles.minimums.len()];
        Self { roles: Some(roles.clone()), scheduled: none.clone(), remaining: none }
    }

    /// Counts a member that gets a node.
    pub(super) fn place(&mut self, pod: &PodInfo, tables: &Tables) {
        if let Some(role) = self.role_of(pod, tables) {
            self.scheduled[role] += 1;
        }
    }

    /// Counts a member that was tried.
    pub(super) fn take(&mut self, pod: &PodInfo, tables: &Tables) {
        if let Some(role) = self.role_of(pod, tables) {
            self.remaining[role] -= 1;
        }
    }

    /// Whether a role has too few members with a node.
    pub(super) fn are_short(&self) -> bool {
        self.minimums().any(|(role, _, min)| self.scheduled[role] < min)
    }

    /// Describes the first role that has too few members with a node.
    pub(super) fn short(&self, tables: &Tables) -> Option<String> {
        let (role, name, min) = self.minimums().find(|&(role, _, min)| self.scheduled[role] < min)?;
        let (name, scheduled) = (tables.text(name), self.scheduled[role]);
        Some(format!("{scheduled} of at least {min} members of role \"{name}\" have a node"))
    }

    /// Returns the answer of PlacementFeasible, unless each role has enough members.
    pub(super) fn feasible(&self) -> Option<Feasible> {
        let mut short = self.minimums().filter_map(|(role, name, min)| {
            let (scheduled, remaining) = (self.scheduled[role], self.remaining[role]);
            (scheduled < min).then_some(Shortage { role: Some(name), min, scheduled, remaining })
        });
        let first = short.next()?;
        let is_final = |it: &Shortage| it.scheduled + it.remaining < it.min;
        let never = if is_final(&first) { Some(first) } else { short.find(is_final) };
        Some(never.map_or(Feasible::Wait(first), Feasible::Never))
    }

    fn minimums(&self) -> impl Iterator<Item = (usize, Symbol, usize)> + '_ {
        let minimums = self.roles.iter().flat_map(|roles| roles.minimums.iter());
        minimums.enumerate().map(|(role, &(name, min))| (role, name, min))
    }

    fn role_of(&self, pod: &PodInfo, tables: &Tables) -> Option<usize> {
        self.roles.as_ref()?.of(pod, tables)
    }
}

impl Scheduler {
    /// Whether roles have minimums in this attempt. A group that takes replacements one by one needs none.
    pub(super) fn has_roles(&self, attempt: &Attempt) -> bool {
        self.roles_of(attempt).is_some()
    }

    /// Whether the member has a role with a minimum.
    pub(super) fn has_role(&self, attempt: &Attempt, pod: &PodInfo) -> bool {
        self.roles_of(attempt).is_some_and(|roles| roles.of(pod, &self.tables).is_some())
    }

    fn roles_of<'a>(&self, attempt: &'a Attempt) -> Option<&'a Roles> {
        let group = attempt.group.as_ref().filter(|group| matches!(group.policy, GroupPolicy::Gang(_)))?;
        self.options_of(group)?.roles.as_ref()
    }

    /// Describes the first role of a gang that has too few of these members.
    pub(super) fn role_shortage<'a>(
        &self,
        key: GroupKey,
        members: impl Iterator<Item = &'a Arc<PodInfo>>,
    ) -> Option<String> {
        let options = self.cache.lookups().group(key).and_then(|group| self.options_of(group));
        let mut counts = RoleCounts::of(options?.roles.as_ref()?);
        members.for_each(|pod| counts.place(pod, &self.tables));
        counts.short(&self.tables)
    }

    /// Counts the members of each role before a run.
    pub(super) fn role_counts(&self, attempt: &Attempt) -> RoleCounts {
        let Some(roles) = self.roles_of(attempt) else { return RoleCounts::default() };
        let mut counts = RoleCounts::of(roles);
        for (pod, _) in self.scheduled_members(attempt.key) {
            counts.place(pod, &self.tables);
        }
        for queued in &attempt.members {
            if let Some(role) = roles.of(&queued.pod, &self.tables) {
                counts.remaining[role] += 1;
            }
        }
        counts
    }
}
