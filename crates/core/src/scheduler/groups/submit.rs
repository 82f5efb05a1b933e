//! Carries out what a group's cycle decided: members are bound or put back, victims are evicted, and the group's
//! condition is written.
//!
//! Upstream: `pkg/scheduler/schedule_one_podgroup.go#submitPodGroupAlgorithmResult`.

use super::super::Scheduler;
use super::super::failure::Failure;
use super::cycle::{Attempt, MemberResult, Run, UNSCHEDULABLE, Verdict};
use super::feasibility::Details;
use super::preempt::Preempted;
use super::reserve::keep_node;
use crate::cycle::{Nominate, Unschedulable};
use crate::framework::PluginName;
use crate::framework::extension_point::ExtensionPoint;
use crate::model::effect::PodRef;
use crate::model::group::{GroupCondition, GroupKey, GroupPolicy};
use crate::model::intern::Symbol;
use crate::model::pod::{PodInfo, Uid};
use crate::model::time::Time;
use crate::plugins::gang_scheduling::{self, Permit};
use crate::queue::QueuedPod;
use crate::report::Preemption;
use crate::report::group::{GroupReport, MemberReport};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What becomes of a member.
pub(super) enum Fate {
    /// It goes on to its binding.
    Binds(MemberResult),
    /// It goes back to the queue.
    Fails(Failure),
}

/// A member, what becomes of it, and whether it is retried without an event: it preempts in a cycle of its own.
type MemberFate = (QueuedPod, Fate, bool);

/// Victims of a member whose group cannot start: member, attempt, node and victims. Upstream evicts them nevertheless.
type NeedlessEviction = (Arc<PodInfo>, u32, Symbol, Vec<Uid>);

/// What a group's cycle leads to.
#[derive(Default)]
struct Plan {
    fates: Vec<MemberFate>,
    reports: Vec<MemberReport>,
    victims: Vec<Uid>,
    needless: Vec<NeedlessEviction>,
}

impl Scheduler {
    /// Carries out the result of a group's cycle.
    pub(super) fn submit(&mut self, now: Time, attempt: Attempt, run: Run, preempted: &Preempted) {
        let Attempt { key, group, members, began, tries_all: _, reserves, limit: _ } = attempt;
        let Run { tried, verdict, placements, chosen, details } = run;
        let rules = self.group_rules();
        let is_retried = rules.queues_groups && verdict == Verdict::Scheduled;
        let mut ranks: Vec<_> = members.iter().filter(|_| is_retried).map(QueuedPod::arrival).collect();
        ranks.sort();
        // Without members that were tried, a new member may help, but nothing that happens to nodes.
        let has_reasons = !tried.is_empty() || details.is_some();
        let waits_for_events = !self.tables.copies_defects() && has_reasons && !is_retried;
        let wakers = waits_for_events.then(|| wakers(&tried));
        let profile = self.profile_of(&members[0].pod).map(|it| it.name.clone()).unwrap_or_default();
        let checks_minimum = self.checks_minimum(&members[0].pod);
        let mut plan = self.plan((members, reserves), tried, &verdict, details.as_ref());
        plan.victims.extend(preempted.victims().iter().cloned());
        let Plan { fates, reports, victims, needless } = plan;
        if verdict == Verdict::Scheduled || !victims.is_empty() {
            self.groups.set_victims(key, &victims);
        }
        self.groups.reports.push_back(GroupReport {
            namespace: self.tables.text(key.namespace).to_owned(),
            name: self.tables.text(key.name).to_owned(),
            profile,
            began,
            outcome: verdict.outcome(),
            status: verdict.text().to_owned(),
            members: reports,
            placements,
            chosen,
            preemption: details.and_then(|it| it.preemption).or_else(|| preempted.report()),
            victims: self.evicted(victims),
        });
        let member = fates.first().map(|(queued, ..)| Arc::clone(&queued.pod));
        // Members that a failed start takes back at once serve their backoff.
        let is_bound = |fate: &Fate| matches!(fate, Fate::Binds(_));
        let left = fates.iter().filter(|(_, fate, _)| !is_bound(fate));
        let left: Vec<Uid> = left.map(|(queued, ..)| Arc::clone(&queued.pod.uid)).collect();
        let binds = left.len() < fates.len();
        if binds {
            self.begin_start(key, group.as_ref(), checks_minimum);
        }
        let is_any_bound = self.carry_out(now, key, began, fates, wakers.as_ref());
        let is_taken_back = binds && !is_any_bound;
        let left = left.into_iter().filter(|uid| self.queue.contains(uid)).collect::<Vec<_>>();
        for (uid, rank) in left.iter().zip(ranks) {
            self.queue.retry_at_once(now, uid, rank);
        }
        for (pod, attempt, node, victims) in needless {
            self.preempt(now, &pod, attempt, node, &victims);
        }
        self.note_reservation(now, key, &verdict, reserves);
        let Some(group) = &group else { return };
        match (preempted, member) {
            (Preempted::Victims(victims), Some(member)) => {
                self.preempt_for_group(now, group, &member, victims);
            }
            _ if is_any_bound => self.preemptor_left(now, &group.uid),
            _ => {}
        }
        if reserves && is_any_bound {
            self.pass_on_reservation(now);
        }
        if !is_taken_back {
            self.set_condition(now, key, condition(&verdict, group.generation));
        }
    }

    /// Decides what becomes of each member.
    fn plan(
        &self,
        (members, reserves): (Vec<QueuedPod>, bool),
        tried: Vec<MemberResult>,
        verdict: &Verdict,
        details: Option<&Details>,
    ) -> Plan {
        let copies_defects = self.tables.copies_defects();
        let waits = matches!(verdict, Verdict::Waiting(_));
        let (mut plan, mut tried) = (Plan::default(), tried.into_iter());
        for (at, queued) in members.into_iter().enumerate() {
            let tried = tried.next();
            let mut report = self.member_report(&queued, tried.as_ref(), verdict);
            if let Some(MemberResult::Preempts { found: Unschedulable { nominate, .. }, .. }) = &tried
                && let Nominate::To { node, victims } = nominate
                && (waits || copies_defects)
            {
                plan.victims.extend(victims.iter().cloned());
                if !waits {
                    let pod = Arc::clone(&queued.pod);
                    plan.needless.push((pod, queued.attempts, *node, victims.clone()));
                }
            }
            let is_retried =
                *verdict == Verdict::Scheduled && matches!(tried, Some(MemberResult::Preempts { .. }));
            let node = tried.as_ref().filter(|_| reserves).and_then(node_now);
            let mut fate = match details {
                Some(details) => details.fate(tried, verdict, at),
                None => fate(tried, verdict),
            };
            if let (Some(node), Verdict::Unschedulable(_)) = (node, verdict) {
                keep_node(&mut fate, node);
            }
            report.message = match &fate {
                Fate::Binds(_) => None,
                Fate::Fails(failure) => Some(failure.message().to_owned()),
            };
            plan.reports.push(report);
            plan.fates.push((queued, fate, is_retried));
        }
        plan
    }

    /// Binds members or puts them back. Returns whether any keeps its node.
    fn carry_out(
        &mut self,
        now: Time,
        key: GroupKey,
        began: Time,
        fates: Vec<MemberFate>,
        wakers: Option<&BTreeSet<PluginName>>,
    ) -> bool {
        let mut bound = Vec::new();
        for (queued, fate, is_retried) in fates {
            match fate {
                Fate::Binds(tried) => bound.extend(self.bind_member(now, queued, began, tried, key)),
                Fate::Fails(failure) => {
                    self.fail_member(now, queued, began, failure, wakers.filter(|_| !is_retried));
                }
            }
        }
        // The group was checked as a whole; a member must not be rechecked against the members after it.
        for uid in &bound {
            if let Some((pod, ..)) = self.cache.placed(uid) {
                self.bindings.checked(uid, self.cache.fingerprint_for(pod));
            }
        }
        self.add_to_start(now, key, &bound);
        bound.iter().any(|uid| self.cache.placed(uid).is_some())
    }

    /// Returns those of the victims that are not terminating already. Upstream evicts a pod once for each member that
    /// chose it.
    fn evicted(&self, mut victims: Vec<Uid>) -> Vec<PodRef> {
        if !self.tables.copies_defects() {
            let mut seen = BTreeSet::new();
            victims.retain(|uid| seen.insert(Arc::clone(uid)));
        }
        let placed = victims.iter().filter_map(|uid| self.cache.placed(uid));
        placed.filter(|(pod, ..)| !pod.deleting).map(|(pod, ..)| self.pod_ref(pod)).collect()
    }

    /// Assumes a member on its node and sends its Binding. Returns its uid.
    fn bind_member(
        &mut self,
        now: Time,
        queued: QueuedPod,
        began: Time,
        tried: MemberResult,
        key: GroupKey,
    ) -> Option<Uid> {
        let uid = Arc::clone(&queued.pod.uid);
        let choice = tried.choice()?;
        let profile = self.profile_of(&queued.pod);
        let permits =
            profile.is_some_and(|it| it.framework.runs(ExtensionPoint::Permit, gang_scheduling::NAME));
        self.assume(now, queued, began, choice);
        if permits && self.tables.copies_defects() && !self.group_rules().queues_groups {
            self.activate_waiting_members(now, key);
        }
        Some(uid)
    }

    /// Activates all other members while Permit makes members wait, as upstream does. A member that failed earlier in
    /// the same cycle is then tried in another cycle.
    fn activate_waiting_members(&mut self, now: Time, key: GroupKey) {
        let Some(GroupPolicy::Gang(min)) = self.cache.lookups().group(key).map(|group| group.policy) else {
            return;
        };
        if self.scheduled(key) >= min {
            return;
        }
        let members: Vec<Uid> = self.groups.members(key).cloned().collect();
        for uid in members {
            let Some(queued) = self.queue.get(&uid) else { continue };
            let gate = self.gate(&queued.pod);
            self.queue.activate_waiting(now, &uid, gate);
        }
    }

    /// Puts a member back into the queue. By default it waits for events that may help any member; upstream retries it
    /// after its backoff.
    fn fail_member(
        &mut self,
        now: Time,
        queued: QueuedPod,
        began: Time,
        failure: Failure,
        wakers: Option<&BTreeSet<PluginName>>,
    ) {
        let waits = matches!(failure, Failure::Unschedulable(_) | Failure::Member { .. });
        self.fail_waiting(now, queued, began, failure, wakers.filter(|_| waits));
    }

    fn member_report(
        &self,
        queued: &QueuedPod,
        tried: Option<&MemberResult>,
        verdict: &Verdict,
    ) -> MemberReport {
        let permit = |tried: &MemberResult| match tried {
            MemberResult::Fits { permit, .. } | MemberResult::Preempts { permit, .. } => Some(*permit),
            MemberResult::Rejected(_) | MemberResult::Failed(_) => None,
        };
        let is_lost = self.group_rules().asks_feasibility && matches!(verdict, Verdict::Failed(_));
        MemberReport {
            pod: self.pod_ref(&queued.pod),
            node: tried.and_then(MemberResult::node).map(|node| self.tables.text(node).to_owned()),
            code: match tried {
                None => verdict.code(),
                Some(MemberResult::Fits { .. }) => "Success",
                Some(_) if is_lost => verdict.code(),
                Some(MemberResult::Rejected(found)) if found.rejectors.is_empty() => {
                    "UnschedulableAndUnresolvable"
                }
                Some(MemberResult::Rejected(_) | MemberResult::Preempts { .. }) => "Unschedulable",
                Some(MemberResult::Failed(_)) => "Error",
            },
            message: None,
            permit: tried.and_then(permit).filter(|_| !self.group_rules().asks_feasibility),
            preempts: matches!(tried, Some(MemberResult::Preempts { .. })),
        }
    }
}

/// Returns the node on which a member fits now.
fn node_now(tried: &MemberResult) -> Option<Symbol> {
    match tried {
        MemberResult::Fits { node, .. } => Some(*node),
        MemberResult::Preempts { .. } | MemberResult::Rejected(_) | MemberResult::Failed(_) => None,
    }
}

/// Returns what becomes of a member, given what was found for it and for the group.
pub(super) fn fate(tried: Option<MemberResult>, verdict: &Verdict) -> Fate {
    let member = |message: String, nominate| Fate::Fails(Failure::Member { message, nominate });
    let group = || verdict.text().to_owned();
    match (verdict, tried) {
        (Verdict::Failed(_), Some(MemberResult::Failed(own))) => Fate::Fails(Failure::Error(own)),
        (Verdict::Failed(_), _) => Fate::Fails(Failure::Error(group())),
        (_, None) => member(group(), Nominate::Keep),
        (Verdict::Scheduled, Some(tried @ MemberResult::Fits { .. })) => Fate::Binds(tried),
        (Verdict::Waiting(_), Some(MemberResult::Fits { node, .. })) => {
            member(group(), Nominate::To { node, victims: Vec::new() })
        }
        (Verdict::Waiting(_), Some(MemberResult::Preempts { found, .. })) => {
            Fate::Fails(Failure::Unschedulable(found))
        }
        (
            Verdict::Unschedulable(_),
            Some(MemberResult::Fits { permit, .. } | MemberResult::Preempts { permit, .. }),
        ) => member(held_back(permit), Nominate::Clear),
        (Verdict::Scheduled, Some(MemberResult::Preempts { found, .. })) => {
            let own = Unschedulable { nominate: Nominate::Clear, preemption: Preemption::NotTried, ..found };
            Fate::Fails(Failure::Unschedulable(own))
        }
        (_, Some(MemberResult::Rejected(found))) if found.rejectors.is_empty() => {
            Fate::Fails(Failure::NoNodes(found.message))
        }
        (_, Some(MemberResult::Rejected(found))) => Fate::Fails(Failure::Unschedulable(found)),
        (_, Some(MemberResult::Failed(own))) => Fate::Fails(Failure::Error(own)),
    }
}

/// Returns the text of a member that has a node in a group that cannot start.
fn held_back(permit: Permit) -> String {
    match permit {
        Permit::Wait => format!(
            "{UNSCHEDULABLE}, {}, one or more plugins asked to wait and no plugin rejected pod",
            gang_scheduling::WAITS
        ),
        Permit::Success => UNSCHEDULABLE.to_owned(),
    }
}

/// Returns the plugins whose events may help the group: those that rejected a member, and GangScheduling.
fn wakers(tried: &[MemberResult]) -> BTreeSet<PluginName> {
    let mut wakers: BTreeSet<PluginName> = [gang_scheduling::NAME].into();
    for tried in tried {
        if let MemberResult::Rejected(found) | MemberResult::Preempts { found, .. } = tried {
            wakers.extend(found.rejectors.iter().copied());
            wakers.extend(found.preemption_blockers.iter().copied());
        }
    }
    wakers
}

/// Returns the condition of the group.
pub(super) fn condition(verdict: &Verdict, observed_generation: i64) -> GroupCondition {
    let (is_true, reason) = match verdict {
        Verdict::Scheduled => (true, "Scheduled"),
        Verdict::Unschedulable(_) | Verdict::Waiting(_) => (false, "Unschedulable"),
        Verdict::Failed(_) => (false, "SchedulerError"),
    };
    GroupCondition { is_true, reason: reason.into(), message: verdict.text().into(), observed_generation }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::intern::Tables;
    use crate::queue::{QueueConfig, SchedulingQueue};
    use crate::scheduler::quarantine::tests::pod;
    use std::sync::Arc;

    #[test]
    fn member_at_the_rank_of_another_and_the_other_itself_are_both_kept() {
        let (mut tables, now) = (Tables::new(), Time::from_secs(1));
        let mut queue = SchedulingQueue::new(QueueConfig::default(), now);
        for name in ["p", "q"] {
            queue.add(now, Arc::new(*pod(&mut tables, name, 1, None)), None);
        }
        let [bound, other] = [queue.pop(now), queue.pop(now)].map(|pod| pod.expect("two pods are active"));
        queue.return_error(now, other);
        queue.retry_at_once(now, "q", bound.arrival());
        queue.activate(now, bound, None);
        let popped = [queue.pop(now), queue.pop(now)].map(|it| it.map(|it| it.pod.name.to_string()));
        assert_eq!(popped, [Some("p".to_owned()), Some("q".to_owned())]);
    }

    /// Takes a member before the end of its backoff, lets it fail again, and returns whether it is taken again.
    fn is_taken_again(change: impl Fn(&mut SchedulingQueue)) -> (bool, SchedulingQueue) {
        let (mut tables, now) = (Tables::new(), Time::from_secs(1));
        let mut queue = SchedulingQueue::new(QueueConfig::default(), now);
        change(&mut queue);
        queue.add(now, Arc::new(*pod(&mut tables, "p", 1, None)), None);
        let refused = queue.pop(now).expect("the pod is active");
        queue.return_error(now, refused);
        let early = queue.take_along(now, "p", None).expect("the first attempt may be early");
        queue.return_error(now, early);
        (queue.take_along(now, "p", None).is_some(), queue)
    }

    #[test]
    fn member_that_fails_again_after_an_early_attempt_serves_its_backoff() {
        let (is_taken, mut queue) = is_taken_again(|_| {});
        assert!(!is_taken);
        let later = Time::from_secs(10);
        assert_eq!(queue.pop(later).map(|pod| pod.pod.name.to_string()), Some("p".to_owned()));
        assert!(is_taken_again(SchedulingQueue::retry_groups_always).0, "as kube-scheduler does");
    }
}
