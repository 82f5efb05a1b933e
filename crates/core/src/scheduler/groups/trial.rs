//! Decides on a group without a queue and without effects, for trials.

use super::super::attempt::Choice;
use super::super::failure::Failure;
use super::super::{Profile, Scheduler};
use super::cycle::{Attempt, MemberResult, Mode, Run, Verdict};
use super::preempt::Preempted;
use super::submit::{Fate, fate};
use crate::cycle::{Nominate, Probe, Unschedulable};
use crate::framework::extension_point::ExtensionPoint;
use crate::model::group::GroupKey;
use crate::model::intern::Symbol;
use crate::model::pod::{PodInfo, Uid};
use crate::model::time::Time;
use crate::plugins::gang_scheduling;
use crate::queue::QueuedPod;
use crate::report::group::{GroupOutcome, PlacementReport};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What was decided about a group and its members.
pub(in crate::scheduler) struct GroupTried {
    pub(in crate::scheduler) outcome: GroupOutcome,
    pub(in crate::scheduler) status: String,
    /// The members in the order in which they were tried.
    pub(in crate::scheduler) members: Vec<(Arc<PodInfo>, MemberTried)>,
    pub(in crate::scheduler) placements: Vec<PlacementReport>,
    pub(in crate::scheduler) chosen: Option<String>,
    pub(in crate::scheduler) victims: Vec<Uid>,
    /// The members that have a node, each with its name, whether the group starts or not.
    pub(in crate::scheduler) nodes: Vec<(Uid, Symbol)>,
}

/// What was decided about a member.
pub(in crate::scheduler) enum MemberTried {
    Fits(Choice),
    Unschedulable(Unschedulable),
    /// It waits for this reason, which is not its own.
    HeldBack(String),
    Failed(String),
}

impl Scheduler {
    /// Decides on members that have no node. Other members count if they have one.
    pub(in crate::scheduler) fn try_group(
        &mut self,
        now: Time,
        key: GroupKey,
        pods: &[Arc<PodInfo>],
        preempts: bool,
        probe: &mut dyn Probe,
    ) -> GroupTried {
        let members: Vec<QueuedPod> = pods.iter().map(|pod| QueuedPod::new(Arc::clone(pod), None)).collect();
        let members = self.in_order(key, members);
        let status = self.mismatch(key, &members).map(Verdict::Failed);
        if let Some(verdict) = status.or_else(|| self.gate_of(key, &members).map(Verdict::Unschedulable)) {
            let outcome = match &verdict {
                Verdict::Failed(_) => GroupOutcome::Refused,
                _ => verdict.outcome(),
            };
            return GroupTried {
                outcome,
                status: verdict.text().to_owned(),
                members: pods.iter().map(|pod| (Arc::clone(pod), held_back(&verdict))).collect(),
                placements: Vec::new(),
                chosen: None,
                victims: Vec::new(),
                nodes: Vec::new(),
            };
        }
        let group = self.current_group(key);
        let reserves = self.reserves(key);
        let mut attempt = Attempt { key, group, members, began: now, tries_all: true, reserves, limit: None };
        let mode = if preempts { Mode::WithPostFilters } else { Mode::WithoutPostFilters };
        let (mut run, preempted) = self.decide_with_victims(now, &attempt, mode, probe);
        if self.group_rules().asks_feasibility {
            run.require_any();
        }
        self.note_capacity(&mut attempt, &mut run);
        tried(attempt, run, &preempted)
    }

    /// Returns why the group waits for members before it is tried.
    fn gate_of(&self, key: GroupKey, members: &[QueuedPod]) -> Option<String> {
        let runs =
            |profile: &Profile| profile.framework.runs(ExtensionPoint::PreEnqueue, gang_scheduling::NAME);
        let first = members.first()?;
        if !self.profile_of(&first.pod).is_some_and(runs) {
            return None;
        }
        let known = self.scheduled(key) + members.len();
        gang_scheduling::pre_enqueue(self.current_policy(key), self.tables.text(key.name), known)
    }
}

fn held_back(verdict: &Verdict) -> MemberTried {
    match verdict {
        Verdict::Failed(text) => MemberTried::Failed(text.clone()),
        other => MemberTried::HeldBack(other.text().to_owned()),
    }
}

fn tried(attempt: Attempt, run: Run, preempted: &Preempted) -> GroupTried {
    let Run { tried, verdict, placements, chosen, details } = run;
    let mut seen: BTreeSet<Uid> = BTreeSet::new();
    let mut victims: Vec<Uid> = Vec::new();
    let of_members = tried.iter().filter_map(|tried| match tried {
        MemberResult::Preempts {
            found: Unschedulable { nominate: Nominate::To { victims, .. }, .. },
            ..
        } => Some(victims),
        _ => None,
    });
    let of_members = of_members.filter(|_| matches!(verdict, Verdict::Waiting(_))).flatten();
    for victim in of_members.chain(preempted.victims()) {
        if seen.insert(Arc::clone(victim)) {
            victims.push(Arc::clone(victim));
        }
    }
    let with_nodes = attempt.members.iter().zip(&tried);
    let nodes = with_nodes.filter_map(|(queued, tried)| Some((Arc::clone(&queued.pod.uid), tried.node()?)));
    let nodes = nodes.collect();
    let mut tried = tried.into_iter();
    let members = attempt.members.into_iter().enumerate().map(|(at, queued)| {
        let fate = match &details {
            Some(details) => details.fate(tried.next(), &verdict, at),
            None => fate(tried.next(), &verdict),
        };
        let member = match fate {
            Fate::Binds(tried) => match tried.choice() {
                Some(choice) => MemberTried::Fits(choice),
                None => held_back(&verdict),
            },
            Fate::Fails(Failure::Unschedulable(found)) => MemberTried::Unschedulable(found),
            Fate::Fails(Failure::Error(text)) => MemberTried::Failed(text),
            Fate::Fails(other) => MemberTried::HeldBack(other.message().to_owned()),
        };
        (queued.pod, member)
    });
    GroupTried {
        members: members.collect(),
        outcome: verdict.outcome(),
        status: verdict.text().to_owned(),
        placements,
        chosen,
        victims,
        nodes,
    }
}
