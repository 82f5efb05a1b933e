//! Chooses the victims of a group by one run without them: each potential victim stays if the members still fit where
//! that run placed them. By default; `--compat=upstream` runs the whole group again for each of them, as 1.36 does.
//!
//! Upstream: `pkg/scheduler/framework/preemption/podgrouppreemption.go` of 1.37.

use super::super::{Scheduler, profile_named};
use super::cycle::{Attempt, MemberResult, Mode, RunState};
use super::preempt::Unit;
use crate::cache::UndoLog;
use crate::cycle::{NoProbe, Probe};
use crate::model::intern::Symbol;
use crate::model::node_set::NodeSet;
use crate::model::time::Time;
use crate::queue::QueuedPod;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The members with the nodes that the run without potential victims gave them.
pub(super) type Placed<'a> = Vec<(&'a QueuedPod, Symbol)>;

impl Scheduler {
    /// Whether each member is judged by each node's object and pods alone.
    pub(super) fn are_judged_by_nodes_alone(&self, attempt: &Attempt) -> bool {
        let snapshot = self.snapshot();
        let is_alone = |queued: &QueuedPod| {
            let profile = profile_named(&self.profiles, queued.pod.scheduler_name);
            let prepared = profile
                .and_then(|profile| profile.framework.prepare(&queued.pod, snapshot, &mut NoProbe).ok());
            prepared.is_some_and(|filtered| filtered.judges_nodes_alone())
        };
        let are_alone = || attempt.members.iter().all(is_alone);
        // What panics here does so in the decision, too, which reports it.
        catch_unwind(AssertUnwindSafe(are_alone)).unwrap_or(false)
    }

    /// Returns the members with their nodes, and hides the nominations of all members until the log is rolled
    /// back, as in the run that found the nodes: a member without a node would keep the others from the node that
    /// it is nominated to.
    pub(super) fn placed<'a>(
        &mut self,
        attempt: &'a Attempt,
        tried: &[MemberResult],
        log: &mut UndoLog,
    ) -> Placed<'a> {
        let pairs = attempt.members.iter().zip(tried);
        let placed = pairs.filter_map(|(queued, tried)| Some((queued, tried.node()?))).collect();
        for queued in &attempt.members {
            log.nominate(&mut self.cache, &queued.pod, None);
        }
        placed
    }

    /// Whether the members still fit on their nodes beside a unit that was put back. With `is_local`, it concerns the
    /// members on its nodes only.
    pub(super) fn members_stay(
        &mut self,
        now: Time,
        attempt: &Attempt,
        (placed, is_local): (&Placed<'_>, bool),
        unit: &Unit,
        probe: &mut dyn Probe,
    ) -> bool {
        let nodes: BTreeSet<Symbol> = unit.pods.iter().map(|(_, node)| *node).collect();
        let concerned =
            placed.iter().filter(|(_, node)| !is_local || nodes.contains(node)).copied().collect();
        let stay = self.do_fit(now, attempt, concerned, probe);
        debug_assert!(
            !is_local || stay == self.do_fit(now, attempt, placed.clone(), &mut NoProbe),
            "a unit concerns members on other nodes"
        );
        stay
    }

    /// Whether the members fit on their nodes one after the other. Upstream only runs Filter here, so this does not
    /// move the start of the next search.
    fn do_fit(&mut self, now: Time, attempt: &Attempt, placed: Placed<'_>, probe: &mut dyn Probe) -> bool {
        let (mut log, start) = (UndoLog::default(), self.walk.start());
        let fit = placed.into_iter().all(|(queued, node)| {
            let Some(slot) = self.cache.find_slot(node) else { return false };
            let mut within = NodeSet::new();
            within.insert(slot);
            let state = RunState::new(attempt, Some(&within), Mode::WithoutPostFilters);
            let mut state = RunState { log: std::mem::take(&mut log), ..state };
            let tried = self.try_member(now, &mut state, queued, probe);
            log = state.log;
            matches!(tried, MemberResult::Fits { .. })
        });
        log.roll_back_to(&mut self.cache, 0);
        self.walk.return_to(start);
        fit
    }
}
