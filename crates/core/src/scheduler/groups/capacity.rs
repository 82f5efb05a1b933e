//! Groups that can never start on the present nodes: a count of what empty nodes could take shows it at once.
//!
//! The count is an upper bound from the nodes' allocatable resources. It changes no choice of a node: the group's
//! condition says what was found, and such a group reserves nothing. Upstream does not count.

use super::super::{Scheduler, profile_named};
use super::cycle::{Attempt, Run, Verdict};
use crate::cycle::NoProbe;
use crate::framework::placement::Placement;
use crate::model::group::GroupPolicy;
use crate::model::pod::PodInfo;
use crate::model::resources::Resources;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Maximum number of different requests among the members. Each takes about 0.1 ms for 5,000 nodes.
const REQUESTS_MAX: usize = 8;

impl Scheduler {
    /// Appends to the verdict that the group could not start even on empty nodes, if the count shows that. Such a
    /// group reserves no nodes. Returns whether the group is unschedulable and the count shows no such shortage.
    pub(super) fn note_capacity(&mut self, attempt: &mut Attempt, run: &mut Run) -> bool {
        if self.is_comparable || self.tables.copies_defects() {
            return false;
        }
        let Verdict::Unschedulable(text) = &mut run.verdict else { return false };
        let Some(shortage) = self.shortage(attempt) else { return true };
        *text = format!("{}; {shortage}", text.trim_end_matches('.'));
        attempt.reserves = false;
        false
    }

    /// Whether the missing members' total request is at most what is free on the nodes that could take the first
    /// member if they were empty. `false` for a group without `minCount`, or if too few members can be tried.
    pub(super) fn has_scattered_room(&self, attempt: &Attempt) -> bool {
        let Some(GroupPolicy::Gang(min)) = attempt.group.as_ref().map(|group| group.policy) else {
            return false;
        };
        let missing = min.saturating_sub(self.scheduled(attempt.key));
        if missing == 0 || attempt.members.len() < missing {
            return false;
        }
        let mut wanted = Resources::default();
        let members = attempt.members.iter().take(missing);
        members.for_each(|queued| wanted.add(&queued.pod.resources.request));
        self.free_for(&attempt.members[0].pod).is_some_and(|free| suffices(&free, &wanted))
    }

    /// Returns what is free on the nodes that could take the pod if they were empty.
    fn free_for(&self, pod: &PodInfo) -> Option<Resources> {
        let (profile, snapshot) = (profile_named(&self.profiles, pod.scheduler_name)?, self.snapshot());
        let sum = || {
            let prepared = profile.framework.prepare(pod, snapshot, &mut NoProbe).ok()?;
            let mut free = Resources::default();
            for node in snapshot.nodes().iter().filter(|&node| prepared.most_on_empty(snapshot, node) > 0) {
                free.add(&snapshot.node_info(node).allocatable);
                free.subtract(snapshot.requested(node));
            }
            Some(free)
        };
        catch_unwind(AssertUnwindSafe(sum)).ok()?
    }

    fn shortage(&mut self, attempt: &Attempt) -> Option<String> {
        let Some(GroupPolicy::Gang(min)) = attempt.group.as_ref().map(|group| group.policy) else {
            return None;
        };
        let needed = min.checked_sub(self.scheduled(attempt.key)).filter(|&needed| needed > 0)?;
        if attempt.members.len() < needed {
            return None;
        }
        let mut requests: Vec<(&Resources, &Arc<PodInfo>, usize)> = Vec::new();
        for queued in &attempt.members {
            let request = &queued.pod.resources.request;
            match requests.iter_mut().find(|(other, ..)| *other == request) {
                Some((.., count)) => *count += 1,
                None => requests.push((request, &queued.pod, 1)),
            }
        }
        if requests.len() > REQUESTS_MAX {
            return None;
        }
        let placements = self.search_placements(attempt)?;
        let most_in = |placement: &Placement| -> Option<usize> {
            let takes =
                |&(_, pod, count): &(_, &Arc<PodInfo>, usize)| self.most_on_empty(pod, count, placement);
            requests.iter().map(takes).sum()
        };
        let counts: Option<Vec<usize>> = placements.iter().map(most_in).collect();
        let most = counts?.into_iter().max()?;
        let place = if placements.len() > 1 { "a topology domain takes" } else { "the nodes take" };
        (most < needed).then(|| {
            format!("{place} at most {most} of the {needed} members that must start, even without other pods")
        })
    }

    /// Returns how many of `count` pods like this one the nodes can take if they are empty, at most.
    fn most_on_empty(&self, pod: &PodInfo, count: usize, placement: &Placement) -> Option<usize> {
        let (profile, snapshot) = (profile_named(&self.profiles, pod.scheduler_name)?, self.snapshot());
        let sum = || {
            let prepared = profile.framework.prepare(pod, snapshot, &mut NoProbe).ok()?;
            let mut left = count;
            for node in placement.nodes.iter() {
                left = left.saturating_sub(prepared.most_on_empty(snapshot, node));
                if left == 0 {
                    break;
                }
            }
            Some(count - left)
        };
        // What panics here does so in the decision, too, which reports it.
        catch_unwind(AssertUnwindSafe(sum)).ok()?
    }
}

/// Whether `wanted` is at most `free`, in each resource.
fn suffices(free: &Resources, wanted: &Resources) -> bool {
    wanted.cpu_milli <= free.cpu_milli
        && wanted.memory <= free.memory
        && wanted.ephemeral_storage <= free.ephemeral_storage
        && wanted.scalar.iter().all(|&(name, amount)| amount <= free.scalar(name).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::intern::Tables;

    #[test]
    fn free_resources_suffice_if_each_of_them_does() {
        let mut tables = Tables::new();
        let gpu = tables.symbol("example.com/gpu");
        let amounts = |[cpu_milli, memory, ephemeral_storage, gpus]: [i64; 4]| {
            let mut amounts = Resources { cpu_milli, memory, ephemeral_storage, ..Resources::default() };
            if gpus > 0 {
                amounts.set_scalar(gpu, gpus);
            }
            amounts
        };
        let free = amounts([2; 4]);
        for at in 0..4 {
            for (amount, expected) in [(1, true), (2, true), (3, false)] {
                let mut wanted = [2; 4];
                wanted[at] = amount;
                assert_eq!(suffices(&free, &amounts(wanted)), expected, "{wanted:?}");
            }
        }
        assert!(!suffices(&amounts([2, 2, 2, 0]), &free), "no node has the extended resource");
    }
}
