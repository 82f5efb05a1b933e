//! The search for another way to start a group that the greedy order of members cannot start.
//!
//! Upstream tries the members in one order, and none gives its node back. This module tries other orders, and other
//! nodes for the first member. It only replaces a result without a start by one with a start, so it is never worse.
//! The limits count decisions, so the result does not depend on time. `--compat=upstream` does without it.

use super::super::{Scheduler, profile_named};
use super::cycle::{Attempt, MemberResult, Mode, Run, RunScope, Verdict};
use crate::cycle::{Decision, NoProbe, Options, Probe};
use crate::framework::placement::Placement;
use crate::model::group::GroupPolicy;
use crate::model::intern::Symbol;
use crate::model::node::NodeIdx;
use crate::model::node_set::NodeSet;
use crate::model::pod::PodInfo;
use crate::model::resources::Resources;
use crate::model::time::Time;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The work of a search, in visited nodes. The full evaluation of one takes about 40 ns, so that a search takes at most
/// about 0.1 s, as long as the cycle of a large group.
const VISITS_MAX: usize = 2_500_000;
/// What a decision costs besides its nodes, in visited nodes: about 10 us.
const VISITS_OF_DECISION: usize = 300;
/// Maximum number of orders that a search tries in one placement with the first member on any node.
const ORDERS_MAX: usize = 6;
/// Maximum number of nodes that a search tries for the first member in one placement.
const FIRST_NODES_MAX: usize = 8;

/// The work that a search may still do.
struct WorkLeft {
    visits: usize,
    is_unused: bool,
}

impl WorkLeft {
    /// Takes the work of a run over all members in a placement. Returns whether enough was left; the first run may
    /// always go.
    fn take(&mut self, members: usize, nodes: usize) -> bool {
        let visits = members * (nodes + VISITS_OF_DECISION);
        let is_enough = visits <= self.visits || self.is_unused;
        (self.visits, self.is_unused) = (self.visits.saturating_sub(visits), false);
        is_enough
    }
}

impl Scheduler {
    /// Decides on a group in all domains that it may use: in the order of its members first, and by a search if it
    /// cannot start so.
    pub(super) fn decide_anywhere(
        &mut self,
        now: Time,
        attempt: &Attempt,
        mode: Mode,
        probe: &mut dyn Probe,
    ) -> Run {
        let run = self.run_group(now, attempt, mode, probe);
        if !self.may_find_more(attempt, &run) {
            return run;
        }
        let start = self.walk.start();
        match self.search(now, attempt, &run, probe) {
            Some(found) => found,
            None => {
                self.walk.return_to(start);
                run
            }
        }
    }

    /// Whether a search may start a group that could not start.
    fn may_find_more(&mut self, attempt: &Attempt, run: &Run) -> bool {
        let failed = matches!(run.verdict, Verdict::Unschedulable(_) | Verdict::Waiting(_));
        if !failed || run.tried.is_empty() || self.is_comparable || self.tables.copies_defects() {
            return false;
        }
        let min = match attempt.group.as_ref().map(|group| group.policy) {
            Some(GroupPolicy::Gang(min)) => min,
            _ => return false,
        };
        let known = self.scheduled(attempt.key) + attempt.members.len();
        // If nothing but nodes judges identical members, their order does not matter, so a search cannot help.
        known >= min
            && (self.has_roles(attempt)
                || !self.group_evaluations(attempt).is_some_and(|it| it.are_sole() && it.is_one()))
    }

    /// Tries the placements in which most members had a node first.
    fn search(&mut self, now: Time, attempt: &Attempt, failed: &Run, probe: &mut dyn Probe) -> Option<Run> {
        let placements = self.search_placements(attempt)?;
        let placed_in = |at: usize| failed.placements.get(at).map_or(0, |report| report.placed);
        let mut by_promise: Vec<usize> = (0..placements.len()).collect();
        by_promise.sort_by_key(|&at| Reverse(placed_in(at)));
        let mut left = WorkLeft { visits: VISITS_MAX, is_unused: true };
        for at in by_promise {
            let Some(mut found) = self.search_in(now, attempt, &placements[at].nodes, &mut left, probe)
            else {
                continue;
            };
            if !failed.placements.is_empty() {
                found.placements.clone_from(&failed.placements);
                found.placements[at] = self.placement_report(attempt, &placements[at], &found);
                found.chosen = Some(placements[at].name.clone());
            }
            return Some(found);
        }
        None
    }

    pub(super) fn search_placements(&mut self, attempt: &Attempt) -> Option<Arc<[Placement]>> {
        if self.tables.rules().groups.topology {
            return self.placements_of(attempt).ok();
        }
        Some(self.whole_cluster())
    }

    /// Searches in one placement. Returns a run that starts the group.
    fn search_in(
        &mut self,
        now: Time,
        attempt: &Attempt,
        nodes: &NodeSet,
        left: &mut WorkLeft,
        probe: &mut dyn Probe,
    ) -> Option<Run> {
        let (members, size) = (attempt.members.len(), nodes.len());
        let as_given: Vec<usize> = (0..members).collect();
        let largest_first = self.largest_first(attempt, nodes);
        let mut seen: BTreeSet<Vec<usize>> = BTreeSet::from([as_given.clone()]);
        let mut order = largest_first.clone();
        for _ in 0..ORDERS_MAX {
            if !seen.insert(order.clone()) || !left.take(members, size) {
                break;
            }
            let found = self.run_in_order(now, attempt, &order, (nodes, None), probe);
            match found {
                Ok(run) => return Some(run),
                // Those without a node choose first in the next order.
                Err(rejected) => order.sort_by_key(|member| !rejected.contains(member)),
            }
        }
        let orders = if largest_first == as_given { vec![as_given] } else { vec![as_given, largest_first] };
        for order in orders {
            for node in self.first_nodes(&attempt.members[order[0]].pod, attempt, nodes) {
                if !left.take(members, size) {
                    return None;
                }
                if let Ok(run) = self.run_in_order(now, attempt, &order, (nodes, Some(node)), probe) {
                    return Some(run);
                }
            }
        }
        None
    }

    /// Decides on the members in an order of their positions. Returns a run that starts the group, in the order of the
    /// members. Otherwise returns the members that were tried and have no node.
    fn run_in_order(
        &mut self,
        now: Time,
        attempt: &Attempt,
        order: &[usize],
        (within, first): (&NodeSet, Option<NodeIdx>),
        probe: &mut dyn Probe,
    ) -> Result<Run, BTreeSet<usize>> {
        let ordered = Attempt {
            key: attempt.key,
            group: attempt.group.clone(),
            members: order.iter().map(|&at| attempt.members[at].clone()).collect(),
            began: attempt.began,
            tries_all: false,
            reserves: false,
            limit: attempt.limit.clone(),
        };
        let scope = RunScope { within: Some(within), first, ..RunScope::default() };
        let mut run = self.run_members(now, &ordered, scope, Mode::WithoutPostFilters, probe);
        let mut by_member: Vec<(usize, MemberResult)> = order.iter().copied().zip(run.tried).collect();
        if run.verdict != Verdict::Scheduled {
            let rejected = by_member.iter().filter(|(_, tried)| tried.node().is_none());
            return Err(rejected.map(|&(member, _)| member).collect());
        }
        by_member.sort_by_key(|&(member, _)| member);
        run.tried = by_member.into_iter().map(|(_, tried)| tried).collect();
        Ok(run)
    }

    /// Returns the positions of the members by descending share of the placement that they request. Those of a role
    /// with a minimum come first.
    fn largest_first(&self, attempt: &Attempt, nodes: &NodeSet) -> Vec<usize> {
        let (snapshot, mut total) = (self.snapshot(), Resources::default());
        nodes.iter().for_each(|node| total.add(&snapshot.node_info(node).allocatable));
        let mut order: Vec<usize> = (0..attempt.members.len()).collect();
        order.sort_by_cached_key(|&at| {
            let pod = &attempt.members[at].pod;
            (!self.has_role(attempt, pod), Reverse(share_of(&pod.resources.request, &total)))
        });
        order
    }

    /// Returns nodes to try for a member, best first. If members must be near each other, each node is in another
    /// domain.
    fn first_nodes(&self, pod: &PodInfo, attempt: &Attempt, nodes: &NodeSet) -> Vec<NodeIdx> {
        let whole = self.snapshot();
        let snapshot = attempt.limit.as_deref().map_or(whole, |limit| whole.with_step_limit(limit));
        let Some(profile) = profile_named(&self.profiles, pod.scheduler_name) else { return Vec::new() };
        let options = Options { ignore_own_nomination: true, within: Some(nodes), ..Options::default() };
        let decide = AssertUnwindSafe(|| profile.framework.decide(pod, snapshot, options, &mut NoProbe));
        let Ok(Ok(Decision::Feasible(feasible))) = catch_unwind(decide) else { return Vec::new() };
        let totals = feasible.scores.as_ref().map(|scores| &*scores.totals).unwrap_or_default();
        let nodes = feasible.filtered.feasible().iter().enumerate();
        let mut scored: Vec<(i64, NodeIdx)> =
            nodes.map(|(at, node)| (totals.get(at).copied().unwrap_or(0), node)).collect();
        scored.sort_by_key(|&(total, node)| (Reverse(total), node));
        let keys = affinity_keys(attempt);
        let mut seen = BTreeSet::new();
        let domains = |node| -> Vec<Option<Symbol>> {
            keys.iter().map(|&key| snapshot.node_labels(node).get(key)).collect()
        };
        let is_new = |node: &NodeIdx| keys.is_empty() || seen.insert(domains(*node));
        scored.into_iter().map(|(_, node)| node).filter(is_new).take(FIRST_NODES_MAX).collect()
    }
}

/// Returns the topology keys of the members' required affinity terms.
fn affinity_keys(attempt: &Attempt) -> BTreeSet<Symbol> {
    let affinities = attempt.members.iter().filter_map(|queued| queued.pod.pod_affinity.as_ref());
    let terms = affinities.filter_map(|affinity| affinity.required_affinity.as_ref().ok());
    terms.flat_map(|terms| terms.iter().map(|term| term.topology_key)).collect()
}

/// Returns the largest share of any resource that a request takes of `total`, in millionths.
fn share_of(request: &Resources, total: &Resources) -> i128 {
    let scalars = request.scalar.iter().map(|&(name, amount)| (amount, total.scalar(name).unwrap_or(0)));
    let plain = [
        (request.cpu_milli, total.cpu_milli),
        (request.memory, total.memory),
        (request.ephemeral_storage, total.ephemeral_storage),
    ];
    let share = |(part, all): (i64, i64)| i128::from(part) * 1_000_000 / i128::from(all.max(1));
    plain.into_iter().chain(scalars).map(share).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_a_run_is_taken_as_long_as_enough_is_left_and_once_in_any_case() {
        let run = 10 * (50 + VISITS_OF_DECISION);
        let mut left = WorkLeft { visits: 2 * run, is_unused: true };
        assert!(left.take(10, 50) && left.take(10, 50) && !left.take(10, 50));
        let mut left = WorkLeft { visits: run - 1, is_unused: true };
        assert!(left.take(10, 50) && !left.take(1, 1));
    }
}
