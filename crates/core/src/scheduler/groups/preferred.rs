//! Preferred topology: the members of a group are placed near each other where that costs no member its node.
//!
//! An annotation names keys of node labels, outermost first, for example a block and a rack. The domains of all keys
//! are tried first, then those of fewer keys, and at last the nodes that the group may use at all. The way that gives
//! most members a node is used; among equal ones the narrowest. In a wider domain, the members fill one domain of the
//! next key after the other, so that neighbors in rank stay together.

use super::super::Scheduler;
use super::cycle::{Attempt, Mode, Run, RunScope, Verdict};
use crate::cycle::Probe;
use crate::framework::placement::Placement;
use crate::incremental::GroupEvaluations;
use crate::model::intern::Symbol;
use crate::model::node_set::NodeSet;
use crate::model::time::Time;
use crate::plugins::topology_placement::domains;
use std::cmp::Reverse;
use std::collections::BTreeSet;

impl Scheduler {
    /// Decides on a group: in the domains that it prefers first, then in all that it may use.
    pub(super) fn decide_group(
        &mut self,
        now: Time,
        attempt: &Attempt,
        mode: Mode,
        probe: &mut dyn Probe,
    ) -> Run {
        let keys = self.preferred_keys(attempt);
        if keys.is_empty() {
            return self.decide_anywhere(now, attempt, mode, probe);
        }
        let start = self.walk.start();
        let near = match self.decide_near(now, attempt, &keys, probe) {
            Some(run) if run.placed() == attempt.members.len() => return run,
            near => near,
        };
        let end = self.walk.start();
        self.walk.return_to(start);
        let run = self.decide_anywhere(now, attempt, mode, probe);
        match near {
            Some(near) if run.verdict != Verdict::Scheduled || run.placed() <= near.placed() => {
                self.walk.return_to(end);
                near
            }
            _ if run.verdict == Verdict::Scheduled => self.arrange_anywhere(now, attempt, run, &keys, probe),
            _ => run,
        }
    }

    fn preferred_keys(&self, attempt: &Attempt) -> Vec<Symbol> {
        let options = attempt.group.as_ref().and_then(|group| self.options_of(group));
        options.map(|options| options.preferred.to_vec()).unwrap_or_default()
    }

    /// Decides in the preferred domains. Returns the run that gives most members a node, if one starts the group. The
    /// members that get none there may use the other nodes.
    fn decide_near(
        &mut self,
        now: Time,
        attempt: &Attempt,
        keys: &[Symbol],
        probe: &mut dyn Probe,
    ) -> Option<Run> {
        let allowed = self.search_placements(attempt)?;
        let evaluations = self.group_evaluations(attempt);
        let mut best: Option<(Run, Vec<NodeSet>)> = None;
        for depth in (1..=keys.len()).rev() {
            let (outer, inner) = keys.split_at(depth);
            let domains = self.preferred_domains(attempt, &allowed, outer);
            let Some((at, run)) = self.best_of(now, attempt, &domains, evaluations.as_ref(), probe) else {
                continue;
            };
            let found = self.arrange(now, attempt, (run, &domains[at].nodes), inner, probe);
            if best.as_ref().is_none_or(|(best, _)| found.0.placed() > best.placed()) {
                best = Some(found);
            }
            if best.as_ref().is_some_and(|(best, _)| best.placed() == attempt.members.len()) {
                break;
            }
        }
        let (run, mut path) = best?;
        let node = path.last()?.iter().next()?;
        if run.placed() < attempt.members.len()
            && let Some(allowed) = allowed.iter().find(|placement| placement.nodes.contains(node))
        {
            path.push(allowed.nodes.clone());
            return Some(self.along(now, attempt, run, &path, probe));
        }
        Some(run)
    }

    /// Returns the domains of these keys within the domains that the group may use: that of the members that have a
    /// node, or none if they are in several.
    fn preferred_domains(&self, attempt: &Attempt, allowed: &[Placement], keys: &[Symbol]) -> Vec<Placement> {
        let snapshot = self.snapshot();
        let mut found = allowed.to_vec();
        for &key in keys {
            let inside = |outer: Placement| {
                let name = |value: &str| {
                    let own = format!("{}={value}", snapshot.text(key));
                    if outer.name.is_empty() { own } else { format!("{},{own}", outer.name) }
                };
                let inner = domains(key, outer.nodes.iter(), snapshot).into_iter();
                inner.map(|(value, nodes)| Placement { name: name(value), nodes }).collect::<Vec<_>>()
            };
            found = found.into_iter().flat_map(inside).collect();
        }
        let scheduled: BTreeSet<Symbol> = self.scheduled_members(attempt.key).map(|(_, node)| node).collect();
        let has_all = |domain: &Placement| {
            let contains = |node| snapshot.find_node(node).is_some_and(|at| domain.nodes.contains(at));
            scheduled.iter().all(|&node| contains(node))
        };
        found.retain(has_all);
        found
    }

    /// Decides in each of the domains. Returns the best of those that give most members a node, if the group can start
    /// in one, with its position.
    fn best_of(
        &mut self,
        now: Time,
        attempt: &Attempt,
        domains: &[Placement],
        evaluations: Option<&GroupEvaluations>,
        probe: &mut dyn Probe,
    ) -> Option<(usize, Run)> {
        let (mut fitting, mut reports): (Vec<(usize, Run)>, Vec<_>) = Default::default();
        for (at, domain) in domains.iter().enumerate() {
            let scope = RunScope { within: Some(&domain.nodes), evaluations, ..RunScope::default() };
            let run = self.run_members(now, attempt, scope, Mode::WithoutPostFilters, probe);
            reports.push(self.placement_report(attempt, domain, &run));
            if run.verdict == Verdict::Scheduled {
                fitting.push((at, run));
            }
        }
        let most = fitting.iter().map(|(_, run)| run.placed()).max()?;
        fitting.retain(|(_, run)| run.placed() == most);
        let best = self.best_placement(attempt, domains, &fitting, &mut reports).ok()??;
        let (at, mut run) = fitting.swap_remove(best);
        (run.placements, run.chosen) = (reports, Some(domains[at].name.clone()));
        Some((at, run))
    }

    /// Arranges a run over all nodes that the group may use.
    fn arrange_anywhere(
        &mut self,
        now: Time,
        attempt: &Attempt,
        run: Run,
        keys: &[Symbol],
        probe: &mut dyn Probe,
    ) -> Run {
        let allowed = self.search_placements(attempt).unwrap_or_default();
        let is_chosen = |placement: &&Placement| run.chosen.as_ref().is_none_or(|it| *it == placement.name);
        match allowed.iter().find(is_chosen) {
            Some(placement) => self.arrange(now, attempt, (run, &placement.nodes), keys, probe).0,
            None => run,
        }
    }

    /// Lets the members of a run fill the domains of the next key one after the other, unless fewer get a node then.
    /// Returns these domains as well; the last one has all nodes.
    fn arrange(
        &mut self,
        now: Time,
        attempt: &Attempt,
        (run, nodes): (Run, &NodeSet),
        keys: &[Symbol],
        probe: &mut dyn Probe,
    ) -> (Run, Vec<NodeSet>) {
        if keys.is_empty() {
            return (run, vec![nodes.clone()]);
        }
        let all = Attempt {
            key: attempt.key,
            group: attempt.group.clone(),
            members: attempt.members.clone(),
            began: attempt.began,
            tries_all: true,
            reserves: false,
            limit: attempt.limit.clone(),
        };
        let evaluations = self.group_evaluations(attempt);
        let path = self.path_in(now, (&all, evaluations.as_ref()), (nodes, run.placed()), keys, probe);
        (self.along(now, attempt, run, &path, probe), path)
    }

    /// Lets the members use these domains one after the other, unless fewer get a node than in `run`.
    fn along(
        &mut self,
        now: Time,
        attempt: &Attempt,
        run: Run,
        path: &[NodeSet],
        probe: &mut dyn Probe,
    ) -> Run {
        let start = self.walk.start();
        let scope = RunScope { path, ..RunScope::default() };
        let arranged = self.run_members(now, attempt, scope, Mode::WithoutPostFilters, probe);
        if arranged.verdict != Verdict::Scheduled || arranged.placed() < run.placed() {
            self.walk.return_to(start);
            return run;
        }
        Run { placements: run.placements, chosen: run.chosen, ..arranged }
    }

    /// Returns the domains that `wanted` members fill one after the other, and last all of `nodes`, for the members
    /// that fit in none of them.
    ///
    /// The smallest domain that takes all that are left comes next, or else the one that takes most: few domains are
    /// used, and large ones stay whole for others.
    fn path_in(
        &mut self,
        now: Time,
        (attempt, evaluations): (&Attempt, Option<&GroupEvaluations>),
        (nodes, wanted): (&NodeSet, usize),
        keys: &[Symbol],
        probe: &mut dyn Probe,
    ) -> Vec<NodeSet> {
        let Some((&key, inner)) = keys.split_first() else { return vec![nodes.clone()] };
        let found = domains(key, nodes.iter(), self.snapshot());
        let found: Vec<NodeSet> = found.into_values().collect();
        let mut rooms: Vec<(usize, NodeSet)> = Vec::with_capacity(found.len());
        for nodes in found {
            let scope = RunScope { within: Some(&nodes), evaluations, ..RunScope::default() };
            let run = self.run_members(now, attempt, scope, Mode::WithoutPostFilters, probe);
            rooms.push((run.placed(), nodes));
        }
        let (mut left, mut path) = (wanted, Vec::new());
        while left > 0 {
            let takes_all = rooms.iter().enumerate().filter(|(_, (room, _))| *room >= left);
            let smallest = takes_all.min_by_key(|&(at, &(room, _))| (room, at));
            let largest = || rooms.iter().enumerate().min_by_key(|&(at, &(room, _))| (Reverse(room), at));
            let Some((at, &(room, _))) = smallest.or_else(largest).filter(|(_, (room, _))| *room > 0) else {
                break;
            };
            let (_, nodes) = rooms.remove(at);
            path.extend(self.path_in(now, (attempt, evaluations), (&nodes, left.min(room)), inner, probe));
            left = left.saturating_sub(room);
        }
        path.push(nodes.clone());
        path
    }
}
