//! The cycle of a group as from 1.37 on: it ends early if `minCount` cannot be reached, and preempts as a whole.
//!
//! Upstream: `pkg/scheduler/schedule_one_podgroup.go` of 1.37.

use super::super::Scheduler;
use super::super::failure::Failure;
use super::cycle::{Attempt, MemberResult, Mode, Run, RunScope, RunState, UNSCHEDULABLE, Verdict};
use super::preempt::Preempted;
use super::submit::Fate;
use crate::cycle::{Nominate, Probe, Unschedulable};
use crate::framework::Code;
use crate::model::intern::Symbol;
use crate::model::time::Time;
use crate::plugins::gang_scheduling::{self, Feasible};
use crate::switches::mutation::{self, Mutation};

/// The text of DynamicResources if it ran for a member.
const CLAIMS_DONE: &str = "deallocation and deletion of ResourceClaims completed";
/// The error of DynamicResources if it ran for no member.
const NO_CLAIMS_STATE: &str = "error in \"DynamicResources\" PodGroupPostFilter plugins: not found";

/// What a run knows beyond the members that were tried.
#[derive(Default)]
pub(super) struct Details {
    /// The status of members that were not tried.
    left_out: String,
    /// The nodes that members are nominated to, in their order.
    nominated: Vec<Option<Symbol>>,
    /// What preemption answered.
    pub(super) preemption: Option<String>,
}

impl Details {
    /// Returns what becomes of the member at this position, given what was found for it and for the group.
    pub(super) fn fate(&self, tried: Option<MemberResult>, verdict: &Verdict, at: usize) -> Fate {
        let nominate = match self.nominated.get(at) {
            Some(&Some(node)) => Nominate::To { node, victims: Vec::new() },
            Some(None) | None => Nominate::Keep,
        };
        let member = |message: String, nominate| Fate::Fails(Failure::Member { message, nominate });
        let group = || verdict.text().to_owned();
        match (verdict, tried) {
            (_, Some(MemberResult::Failed(own))) => Fate::Fails(Failure::Error(own)),
            (Verdict::Failed(_), _) => Fate::Fails(Failure::Error(group())),
            (_, None) => member(self.left_out.clone(), nominate),
            (Verdict::Scheduled, Some(tried @ MemberResult::Fits { .. })) => Fate::Binds(tried),
            (Verdict::Waiting(_), Some(MemberResult::Fits { .. })) => member(group(), nominate),
            (Verdict::Unschedulable(text), Some(MemberResult::Fits { .. })) => {
                member(format!("{UNSCHEDULABLE}, {text}"), Nominate::Clear)
            }
            (_, Some(MemberResult::Rejected(found) | MemberResult::Preempts { found, .. })) => {
                if found.rejectors.is_empty() {
                    return Fate::Fails(Failure::NoNodes(found.message));
                }
                Fate::Fails(Failure::Unschedulable(Unschedulable { nominate, ..found }))
            }
        }
    }
}

impl Run {
    /// Lets a run in which no member gets a node fail.
    pub(super) fn require_any(&mut self) {
        let fits = |tried: &MemberResult| matches!(tried, MemberResult::Fits { .. });
        if self.verdict == Verdict::Scheduled && !self.tried.iter().any(fits) {
            self.verdict = Verdict::Unschedulable(UNSCHEDULABLE.to_owned());
            self.chosen = None;
        }
    }

    /// Whether the filters ran for any member.
    fn was_filtered(&self) -> bool {
        let was_filtered = |tried: &MemberResult| !matches!(tried, MemberResult::Rejected(found) if found.rejectors.is_empty());
        self.tried.iter().any(was_filtered)
    }

    fn fail_in_post_filter(&mut self, text: String) {
        self.details.get_or_insert_default().preemption = Some(format!("Error: {text}"));
        self.verdict = Verdict::Failed(text);
    }
}

impl RunState<'_> {
    /// Runs PlacementFeasible; `remaining` members are not tried yet.
    fn feasible(&self, remaining: usize) -> Feasible {
        if !self.checks_minimum || mutation::is_on(Mutation::GangStartsShort) {
            return Feasible::Success;
        }
        match gang_scheduling::placement_feasible(self.group, self.scheduled, remaining) {
            never @ Feasible::Never(_) => never,
            feasible => self.roles.feasible().unwrap_or(feasible),
        }
    }
}

impl Scheduler {
    /// Decides on the members in order, restricted to the nodes of `scope`, as long as the group can start. Undoes what
    /// was assumed.
    pub(super) fn run_while_feasible(
        &mut self,
        now: Time,
        attempt: &Attempt,
        scope: RunScope<'_>,
        mode: Mode,
        probe: &mut dyn Probe,
    ) -> Run {
        let first = scope.first_nodes();
        let mut state = self.begin_run(attempt, scope, mode);
        let mut remaining = attempt.members.len();
        let mut run = Run::ended(Verdict::Scheduled);
        run.tried.reserve(remaining);
        run.details = Some(Details::default());
        let mut feasible = state.feasible(remaining);
        if matches!(feasible, Feasible::Never(_)) {
            let text = feasible.text(&self.tables);
            run.verdict = Verdict::Unschedulable(format!("{UNSCHEDULABLE}, {text}"));
            return run;
        }
        let nominated = self.hide_nominations(&mut state, attempt);
        for (at, nominated) in nominated.into_iter().enumerate() {
            state.start_member(at, attempt, (scope.within, first.as_ref()));
            let tried = self.try_next_member(now, &mut state, attempt, nominated, probe);
            let error = match &tried {
                MemberResult::Failed(text) => {
                    Some(format!("failed to schedule other pod from a pod group: {text}"))
                }
                _ => None,
            };
            run.tried.push(tried);
            if let Some(error) = error {
                state.roll_back_to((0, 0), &mut self.cache);
                run.verdict = Verdict::Failed(error);
                return run;
            }
            remaining -= 1;
            state.roles.take(&attempt.members[at].pod, &self.tables);
            if !matches!(feasible, Feasible::Never(_)) {
                feasible = state.feasible(remaining);
            }
            if matches!(feasible, Feasible::Never(_)) && !attempt.tries_all {
                break;
            }
        }
        state.roll_back_to((0, 0), &mut self.cache);
        run.verdict = match feasible {
            Feasible::Success => Verdict::Scheduled,
            Feasible::Wait(_) => {
                Verdict::Unschedulable(format!("{UNSCHEDULABLE}, {}", feasible.text(&self.tables)))
            }
            Feasible::Never(_) => Verdict::Unschedulable(feasible.text(&self.tables)),
        };
        run
    }

    /// Returns the status of a group that fits in none of its placements; `first` is that of the first one.
    pub(super) fn no_placement_fits(&self, count: usize, first: &str) -> String {
        if !self.group_rules().asks_feasibility {
            return format!("0/{count} placements are available, first placement status: {first}");
        }
        // The error of a status hides its reasons.
        let first = if first.starts_with(UNSCHEDULABLE) { UNSCHEDULABLE } else { first };
        format!("{UNSCHEDULABLE}, 0/{count} placements are available, first placement status: {first}")
    }

    /// Runs PodGroupPostFilter of a group that cannot start: DynamicResources first, then preemption by the group.
    pub(super) fn post_filter_group(
        &mut self,
        now: Time,
        attempt: &Attempt,
        run: &mut Run,
        probe: &mut dyn Probe,
    ) -> Preempted {
        run.require_any();
        let Verdict::Unschedulable(text) = &run.verdict else { return Preempted::NotTried };
        let text = text.clone();
        let is_constrained = attempt.group.as_ref().is_some_and(|group| group.topology.is_some());
        let frees_claims = !(is_constrained && self.tables.rules().groups.topology);
        let copies_defects = self.tables.copies_defects();
        if !copies_defects && run.tried.is_empty() {
            // Too few members are left, whatever else is evicted.
            run.details = Some(Details { left_out: text, ..Details::default() });
            return Preempted::NotTried;
        }
        if copies_defects && frees_claims && !run.was_filtered() {
            run.fail_in_post_filter(NO_CLAIMS_STATE.to_owned());
            return Preempted::NotTried;
        }
        let (preempted, without) = self.find_victims(now, attempt, probe);
        let own = |text: &str| format!("pod group preemption: {text}");
        let mut reasons = Vec::new();
        let code = match &preempted {
            Preempted::Victims(victims) => {
                let count = victims.len();
                reasons.push(own(&format!("found a placement for podgroup, preempting {count} victims")));
                "Success"
            }
            Preempted::Ongoing => {
                reasons.push(own("ongoing preemption on nominated nodes"));
                "Success"
            }
            Preempted::NoHelp(code @ Code::UnschedulableAndUnresolvable, why) => {
                reasons.push(own(why));
                code.as_str()
            }
            Preempted::Failed(why) => {
                let text = format!("error in \"DefaultPreemption\" PodGroupPostFilter plugins: {}", own(why));
                run.fail_in_post_filter(text);
                return preempted;
            }
            Preempted::NoHelp(..) | Preempted::NotTried => {
                reasons.extend(frees_claims.then(|| CLAIMS_DONE.to_owned()));
                if let Preempted::NoHelp(_, why) = &preempted {
                    reasons.push(own(why));
                }
                Code::Unschedulable.as_str()
            }
        };
        let waits = code == "Success";
        let answer = reasons.join(", ");
        let status = if answer.is_empty() { text.clone() } else { format!("{text}, {answer}") };
        run.verdict = if waits { Verdict::Waiting(status) } else { Verdict::Unschedulable(status) };
        let nominated = |(at, queued): (usize, &crate::queue::QueuedPod)| match &preempted {
            Preempted::Victims(_) => without.get(at).and_then(MemberResult::node),
            Preempted::Ongoing => queued.pod.nominated_node,
            Preempted::NoHelp(..) | Preempted::Failed(_) | Preempted::NotTried => None,
        };
        run.details = Some(Details {
            left_out: text,
            nominated: attempt.members.iter().enumerate().map(nominated).collect(),
            preemption: Some(if answer.is_empty() { code.to_owned() } else { format!("{code}: {answer}") }),
        });
        preempted
    }

    /// Whether pods that preemption evicted from the members' nominated nodes are not gone yet.
    pub(super) fn awaits_nominated_nodes(&self, attempt: &Attempt, priority: i32) -> bool {
        let snapshot = self.snapshot();
        let nodes = attempt.members.iter().filter_map(|queued| queued.pod.nominated_node);
        let mut pods = nodes.filter_map(|name| snapshot.find_node(name)).flat_map(|it| snapshot.pods_on(it));
        pods.any(|pod| {
            let group = pod.group_key().and_then(|key| snapshot.lookups().group(key));
            let own = group.map_or(pod.priority, |group| group.priority);
            own < priority && pod.deleting && pod.preempted
        })
    }
}
