//! The cycle of a group: takes its members from the queue, decides on all of them, and undoes what it assumed.

use super::super::Scheduler;
use super::super::attempt::Choice;
use super::super::departure::Departure;
use super::super::failure::Failure;
use super::super::slices::Sliced;
use super::feasibility::Details;
use super::path::Path;
use super::roles::RoleCounts;
use super::shared::{Rejections, SharedRun};
use super::snapshot_gaps::SnapshotGaps;
use crate::cache::slice::step_limit::{Searches, StepLimit};
use crate::cache::{Cache, UndoLog};
use crate::cycle::{Probe, Unschedulable};
use crate::framework::extension_point::ExtensionPoint;
use crate::incremental::GroupEvaluations;
use crate::model::effect::Severity;
use crate::model::group::{GroupKey, PodGroup};
use crate::model::intern::Symbol;
use crate::model::node::NodeIdx;
use crate::model::node_set::NodeSet;
use crate::model::pod::{PodInfo, Uid};
use crate::model::signature::{Signature, VolumelessSignature};
use crate::model::time::Time;
use crate::plugins::gang_scheduling::{self, Permit};
use crate::queue::QueuedPod;
use crate::report::Outcome;
use crate::report::group::{GroupOutcome, GroupReport, MemberReport, PlacementReport};
use crate::switches::mutation::{self, Mutation};
use std::cmp::Reverse;
use std::rc::Rc;
use std::sync::Arc;

/// The text of a group that cannot start.
pub(super) const UNSCHEDULABLE: &str = "pod group is unschedulable";
/// The text of a group that waits for victims of its members.
const WAITING: &str = "pod group is unschedulable, pod group is waiting for preemption to complete";

/// What was found for a member.
pub(super) enum MemberResult {
    /// It fits on a node.
    Fits { choice: Choice, node: Symbol, permit: Permit },
    /// It fits on a node once victims are gone.
    Preempts { found: Unschedulable, node: Symbol, permit: Permit },
    /// No node is feasible for it.
    Rejected(Unschedulable),
    /// Its decision failed with this error.
    Failed(String),
}

impl MemberResult {
    /// Sets the answer of Permit.
    pub(super) fn permitted(mut self, answer: Permit) -> Self {
        if let Self::Fits { permit, .. } | Self::Preempts { permit, .. } = &mut self {
            *permit = answer;
        }
        self
    }

    /// Returns the node, if the member has one.
    pub(super) fn node(&self) -> Option<Symbol> {
        match self {
            Self::Fits { node, .. } | Self::Preempts { node, .. } => Some(*node),
            Self::Rejected(_) | Self::Failed(_) => None,
        }
    }
}

/// What was found for a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It can start.
    Scheduled,
    /// It cannot start, for this reason.
    Unschedulable(String),
    /// It can start once victims are gone.
    Waiting(String),
    /// The cycle failed with this error.
    Failed(String),
}

impl Verdict {
    /// Returns the text of the group's condition.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Scheduled => "",
            Self::Unschedulable(text) | Self::Waiting(text) | Self::Failed(text) => text,
        }
    }

    /// Returns upstream's name of the status code.
    pub(super) fn code(&self) -> &'static str {
        match self {
            Self::Scheduled => "Success",
            Self::Unschedulable(_) | Self::Waiting(_) => "Unschedulable",
            Self::Failed(_) => "Error",
        }
    }

    pub(super) fn outcome(&self) -> GroupOutcome {
        match self {
            Self::Scheduled => GroupOutcome::Scheduled,
            Self::Unschedulable(_) => GroupOutcome::Unschedulable,
            Self::Waiting(_) => GroupOutcome::WaitingForPreemption,
            Self::Failed(_) => GroupOutcome::Error,
        }
    }
}

/// A group whose members are tried.
pub(super) struct Attempt {
    pub(super) key: GroupKey,
    pub(super) group: Option<PodGroup>,
    /// In the order in which they are tried.
    pub(super) members: Vec<QueuedPod>,
    pub(super) began: Time,
    /// Whether all members are tried, although the group cannot start any more.
    pub(super) tries_all: bool,
    /// Whether the group keeps the nodes of its members if it cannot start.
    pub(super) reserves: bool,
    /// The limit of all searches for devices in this slice of the cycle; `None` in a trial.
    pub(super) limit: Option<Rc<StepLimit>>,
}

impl Attempt {
    /// Whether a search for devices needs another slice. All results of this slice are void then.
    pub(super) fn is_interrupted(&self) -> bool {
        self.limit.as_ref().is_some_and(|limit| limit.is_exceeded())
    }
}

/// The decisions about the members of a group.
pub(super) struct Run {
    /// One for each member in order; fewer if the group failed before.
    pub(super) tried: Vec<MemberResult>,
    pub(super) verdict: Verdict,
    /// The placements, if the group requires a topology domain.
    pub(super) placements: Vec<PlacementReport>,
    /// The name of the chosen placement.
    pub(super) chosen: Option<String>,
    /// What only a run with [`asks_feasibility`](crate::model::emulation::GroupRules) knows.
    pub(super) details: Option<Details>,
}

impl Run {
    /// Whether a member was rejected.
    pub(super) fn has_rejections(&self) -> bool {
        self.tried.iter().any(|tried| matches!(tried, MemberResult::Rejected(_)))
    }

    /// Whether both runs gave the members the same nodes.
    pub(super) fn has_nodes_of(&self, other: &Self) -> bool {
        self.verdict == other.verdict
            && self.tried.iter().map(MemberResult::node).eq(other.tried.iter().map(MemberResult::node))
    }

    /// Returns the number of members that have a node.
    pub(super) fn placed(&self) -> usize {
        self.tried.iter().filter(|tried| tried.node().is_some()).count()
    }

    pub(super) fn ended(verdict: Verdict) -> Self {
        Self { tried: Vec::new(), verdict, placements: Vec::new(), chosen: None, details: None }
    }
}

/// Whether PostFilter runs. If so, members may look for victims of their own, and then the group as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    WithPostFilters,
    WithoutPostFilters,
}

/// The nodes of a run over the members.
#[derive(Clone, Copy, Default)]
pub(super) struct RunScope<'a> {
    /// The nodes to which the run is restricted; `None` for all.
    pub(super) within: Option<&'a NodeSet>,
    /// The node evaluations of the members, if they are shared.
    pub(super) evaluations: Option<&'a GroupEvaluations>,
    /// The node of the first member; `None` if it may choose.
    pub(super) first: Option<NodeIdx>,
    /// The domains of the run's [`Path`]. Empty if all members use `within`.
    pub(super) path: &'a [NodeSet],
    /// Whether the run leaves out why members are rejected.
    pub(super) is_brief: bool,
}

impl RunScope<'_> {
    /// Returns the nodes of the first member, if it may not choose.
    pub(super) fn first_nodes(&self) -> Option<NodeSet> {
        self.first.map(|node| [node].into_iter().collect())
    }
}

/// The state of a run over the members.
pub(super) struct RunState<'a> {
    pub(super) key: GroupKey,
    pub(super) group: Option<&'a PodGroup>,
    pub(super) within: Option<&'a NodeSet>,
    pub(super) mode: Mode,
    /// The number of members that have a node, those assumed in this run included.
    pub(super) scheduled: usize,
    pub(super) log: UndoLog,
    /// What upstream's snapshot does not show of assumed members; `None` if that is repaired.
    pub(super) gaps: Option<SnapshotGaps>,
    /// Whether members may use cached and shared results.
    pub(super) shares: bool,
    /// The position of the member that is tried.
    pub(super) at: usize,
    /// The member that was tried before it.
    pub(super) before: Option<&'a Arc<PodInfo>>,
    /// The results of nodes that the members share.
    pub(super) shared: Option<SharedRun<'a>>,
    pub(super) rejections: Rejections,
    pub(super) path: Path<'a>,
    /// The roles that have a minimum.
    pub(super) roles: RoleCounts,
    /// Whether the members' profile has GangScheduling check `minCount`.
    pub(super) checks_minimum: bool,
    /// The limit of the searches for devices.
    pub(super) limit: Option<&'a StepLimit>,
    /// Whether it does not matter why members are rejected.
    pub(super) is_brief: bool,
}

/// The number of changes in the log, and the number of assumed members that share results.
type Checkpoint = (usize, usize);

impl<'a> RunState<'a> {
    /// Starts a run without assumed members.
    pub(super) fn new(attempt: &'a Attempt, within: Option<&'a NodeSet>, mode: Mode) -> Self {
        Self {
            key: attempt.key,
            group: attempt.group.as_ref(),
            within,
            mode,
            scheduled: 0,
            log: UndoLog::default(),
            gaps: None,
            shares: false,
            at: 0,
            before: None,
            shared: None,
            rejections: Rejections::default(),
            path: Path::default(),
            roles: RoleCounts::default(),
            checks_minimum: false,
            limit: attempt.limit.as_deref(),
            is_brief: false,
        }
    }

    /// Prepares for the member at this position. The first one is restricted to the nodes of `first`, if there are any.
    pub(super) fn start_member(
        &mut self,
        at: usize,
        attempt: &'a Attempt,
        (within, first): (Option<&'a NodeSet>, Option<&'a NodeSet>),
    ) {
        self.before = at.checked_sub(1).map(|before| &attempt.members[before].pod);
        self.at = at;
        let pod = &attempt.members[at].pod;
        // Volumes may be what keeps the member before out of the other domains.
        let is_equal = |before: &Arc<PodInfo>| Signature::of(before) == Signature::of(pod);
        if self.path.begin_member(self.path.has_ended() && self.before.is_some_and(is_equal)) {
            self.rejections = Rejections::default();
        }
        self.within = first.filter(|_| at == 0).or(self.path.current()).or(within);
        if at == 1 && first.is_some() {
            // Rejections on one node say nothing about the others.
            self.rejections = Rejections::default();
        }
    }

    /// Returns the state of the assumed members, for [`Self::roll_back_to`].
    pub(super) fn checkpoint(&self) -> Checkpoint {
        (self.log.checkpoint(), self.shared.as_ref().map_or(0, SharedRun::len))
    }

    /// Undoes what was assumed after the checkpoint.
    pub(super) fn roll_back_to(&mut self, (changes, members): Checkpoint, cache: &mut Cache) {
        if let Some(shared) = &mut self.shared {
            shared.roll_back_to(members, cache);
        }
        self.log.roll_back_to(cache, changes);
    }

    /// Whether the member before `pod` has the same signature.
    pub(super) fn is_repeated(&self, pod: &Arc<PodInfo>) -> bool {
        self.before.is_some_and(|it| VolumelessSignature::of(it) == VolumelessSignature::of(pod))
    }

    /// Returns which node evaluation alone decides about the member, if one does.
    pub(super) fn sole_evaluation(&self) -> Option<usize> {
        self.shared.as_ref().and_then(|shared| shared.sole_evaluation(self.at))
    }
}

impl Scheduler {
    /// Makes an attempt for the group of a popped pod.
    pub(in crate::scheduler) fn attempt_group(
        &mut self,
        now: Time,
        popped: QueuedPod,
        key: GroupKey,
        probe: &mut dyn Probe,
    ) {
        let suspended = self.take_suspended(key);
        if let Sliced::Ended = self.resume_group(now, key, (vec![popped], suspended), probe) {
            self.slices.note_other();
        }
    }

    /// Makes an attempt for a group, in a slice of its cycle, which began at `began` and goes on with these searches
    /// for devices. Returns whether another slice follows.
    pub(super) fn attempt_members(
        &mut self,
        (now, began): (Time, Time),
        key: GroupKey,
        members: Vec<QueuedPod>,
        searches: Option<Searches>,
        probe: &mut dyn Probe,
    ) -> Sliced {
        let may_reserve = self.may_reserve(key);
        if let Some(text) = self.mismatch(key, &members) {
            if may_reserve {
                self.note_passed_over(now, key, true);
            }
            self.refuse(now, key, members, &text);
            return Sliced::Ended;
        }
        let members = self.without_terminating(now, members);
        if members.is_empty() {
            return Sliced::Ended;
        }
        probe.attempt_begins();
        let group = self.current_group(key);
        let reserves = self.reserves(key);
        let limit = Rc::new(StepLimit::of_cycle(self.slices.limits().of_cycle(), searches));
        let kept = Some(Rc::clone(&limit));
        let mut attempt = Attempt { key, group, members, began, tries_all: reserves, reserves, limit: kept };
        let start = self.walk.start();
        let (mut run, preempted) = self.decide_with_victims(now, &attempt, Mode::WithPostFilters, probe);
        if limit.is_exceeded() {
            probe.attempt_decided();
            self.walk.return_to(start);
            self.suspend_group(attempt, limit.take_searches());
            return Sliced::GoesOn;
        }
        let may_fit = self.note_capacity(&mut attempt, &mut run);
        let is_fragmented = may_fit && self.has_scattered_room(&attempt);
        self.groups.set_fragmented(key, is_fragmented);
        if may_reserve {
            let is_hopeless = match run.verdict {
                Verdict::Failed(_) => true,
                Verdict::Unschedulable(_) => !may_fit,
                Verdict::Scheduled | Verdict::Waiting(_) => false,
            };
            self.note_passed_over(now, key, is_hopeless);
        }
        probe.attempt_decided();
        self.submit(now, attempt, run, &preempted);
        Sliced::Ended
    }

    /// Takes all other members that may be tried from the queue. Returns all in the order in which they are tried.
    pub(super) fn take_members(
        &mut self,
        now: Time,
        mut members: Vec<QueuedPod>,
        key: GroupKey,
    ) -> Vec<QueuedPod> {
        let others: Vec<Uid> = self.groups.members(key).cloned().collect();
        let waits = self.groups.awaits_victims(key, &self.cache);
        for uid in others {
            let Some(queued) = self.queue.get(&uid) else { continue };
            let gate = self.gate(&queued.pod);
            members.extend(self.queue.take_along(now, &uid, gate));
        }
        if waits {
            // Each victim that goes may be the last one that it needs.
            members.iter_mut().for_each(QueuedPod::allow_early);
        }
        self.in_turn(key, members)
    }

    /// Returns the error if the members have different scheduler names.
    pub(super) fn names_differ(&self, members: &[QueuedPod]) -> Option<String> {
        let first = members.first()?.pod.scheduler_name;
        let other = members.iter().map(|it| it.pod.scheduler_name).find(|name| *name != first)?;
        let [first, other] = [first, other].map(|name| self.tables.text(name));
        Some(format!(
            "all pods in a single pod group should have the same .spec.schedulerName set, got: {other:?} and {first:?}"
        ))
    }

    fn refuse(&mut self, now: Time, key: GroupKey, members: Vec<QueuedPod>, text: &str) {
        let report = |queued: &QueuedPod| MemberReport {
            pod: self.pod_ref(&queued.pod),
            node: None,
            code: "Error",
            message: Some(text.to_owned()),
            permit: None,
            preempts: false,
        };
        let report = GroupReport {
            namespace: self.tables.text(key.namespace).to_owned(),
            name: self.tables.text(key.name).to_owned(),
            profile: self.profile_of(&members[0].pod).map(|it| it.name.clone()).unwrap_or_default(),
            began: now,
            outcome: GroupOutcome::Refused,
            status: text.to_owned(),
            members: members.iter().map(report).collect(),
            placements: Vec::new(),
            chosen: None,
            preemption: None,
            victims: Vec::new(),
        };
        self.groups.reports.push_back(report);
        for queued in members {
            self.fail(now, queued, now, Failure::Error(text.to_owned()));
        }
        if self.group_rules().queues_groups || self.refusal(key).is_some() {
            self.note_failure(now, key, text);
        }
    }

    /// Drops the members that need no node any more.
    fn without_terminating(&mut self, now: Time, members: Vec<QueuedPod>) -> Vec<QueuedPod> {
        let mut kept = Vec::with_capacity(members.len());
        for queued in members {
            let pod = Arc::clone(&queued.pod);
            if !self.is_ours(&pod) {
                self.pod_left(now, &pod.uid, &Departure::NotOurs(&pod));
            } else if pod.deleting {
                let note = format!("skip schedule deleting pod: {}", self.snapshot().pod_key(&pod));
                self.record(&pod, Severity::Warning, "FailedScheduling", "Scheduling", note);
                self.cache.forget_nomination(&pod.uid);
                self.report(&queued, now, Outcome::Skipped);
            } else if !self.is_elsewhere(&pod) {
                kept.push(queued);
            }
        }
        kept
    }

    /// Hides the nominations of all members, which do not keep each other from nodes. Returns them in order.
    pub(super) fn hide_nominations(
        &mut self,
        state: &mut RunState<'_>,
        attempt: &Attempt,
    ) -> Vec<Option<Symbol>> {
        let hide = |queued: &QueuedPod| {
            let nominated = self.cache.nomination(&queued.pod.uid);
            state.log.nominate(&mut self.cache, &queued.pod, None);
            nominated
        };
        attempt.members.iter().map(hide).collect()
    }

    /// Whether the profile of a group's first member has GangScheduling check `minCount`.
    pub(super) fn checks_minimum(&self, first: &PodInfo) -> bool {
        let profile = self.profile_of(first);
        profile.is_some_and(|it| it.framework.runs(ExtensionPoint::Permit, gang_scheduling::NAME))
    }

    /// Begins a run over the members.
    pub(super) fn begin_run<'a>(
        &self,
        attempt: &'a Attempt,
        scope: RunScope<'a>,
        mode: Mode,
    ) -> RunState<'a> {
        RunState {
            scheduled: self.scheduled(attempt.key),
            shares: self.shares_results(),
            shared: scope.evaluations.map(SharedRun::new),
            path: Path::new(scope.path),
            is_brief: scope.is_brief,
            roles: self.role_counts(attempt),
            checks_minimum: self.checks_minimum(&attempt.members[0].pod),
            ..RunState::new(attempt, scope.within, mode)
        }
    }

    /// Returns members in the order in which they are tried: those of higher priority first, then by the rank that the
    /// group's annotation names, then those that became active first, then in the order of their creation.
    pub(super) fn in_order(&self, key: GroupKey, mut members: Vec<QueuedPod>) -> Vec<QueuedPod> {
        let group = self.cache.lookups().group(key);
        let label = group.and_then(|group| self.options_of(group)?.rank);
        let rank = |pod: &PodInfo| -> Option<u64> {
            let value = self.tables.labels(pod.labels).get(label?)?;
            self.tables.text(value).parse().ok()
        };
        members.sort_by_cached_key(|it| {
            let created = it.pod.group.as_ref().map(|membership| membership.created);
            // Members without a rank come after those that have one.
            let rank = rank(&it.pod);
            (
                Reverse(it.pod.priority),
                (rank.is_none(), rank),
                it.initial_attempt,
                created,
                it.pod.name.clone(),
            )
        });
        members
    }

    /// Decides on the member whose turn it is. Only its own nomination is shown meanwhile.
    pub(super) fn try_next_member(
        &mut self,
        now: Time,
        state: &mut RunState<'_>,
        attempt: &Attempt,
        nominated: Option<Symbol>,
        probe: &mut dyn Probe,
    ) -> MemberResult {
        let queued = &attempt.members[state.at];
        state.log.nominate(&mut self.cache, &queued.pod, nominated);
        let mut tried = self.try_member(now, state, queued, probe);
        while matches!(tried, MemberResult::Rejected(_)) && state.enter_next_domain() {
            tried = self.try_member(now, state, queued, probe);
        }
        state.log.nominate(&mut self.cache, &queued.pod, None);
        tried
    }

    /// Decides on all members in order, restricted to the nodes of `scope`, and undoes what was assumed.
    ///
    /// Greedy as upstream: no member gives its node back.
    pub(super) fn run_members(
        &mut self,
        now: Time,
        attempt: &Attempt,
        scope: RunScope<'_>,
        mode: Mode,
        probe: &mut dyn Probe,
    ) -> Run {
        if attempt.is_interrupted() {
            return Run::ended(Verdict::Failed("the slice ended".to_owned()));
        }
        if self.group_rules().asks_feasibility {
            return self.run_while_feasible(now, attempt, scope, mode, probe);
        }
        let copies_defects = self.tables.copies_defects();
        let first = scope.first_nodes();
        let mut state = self.begin_run(attempt, scope, mode);
        state.gaps = copies_defects.then(|| SnapshotGaps::new(self.snapshot()));
        let nominated = self.hide_nominations(&mut state, attempt);
        let mut run = Run::ended(Verdict::Unschedulable(UNSCHEDULABLE.to_owned()));
        let mut preempts = false;
        for (at, nominated) in nominated.into_iter().enumerate() {
            state.start_member(at, attempt, (scope.within, first.as_ref()));
            let before = state.checkpoint();
            let tried = self.try_next_member(now, &mut state, attempt, nominated, probe);
            match &tried {
                MemberResult::Failed(text) => {
                    let text = format!("failed to schedule other pod from a pod group: {text}");
                    run.verdict = Verdict::Failed(text);
                    run.tried.push(tried);
                    break;
                }
                MemberResult::Fits { permit, .. } | MemberResult::Preempts { permit, .. } => {
                    // Upstream lets a surplus member that may preempt hold back a group that can start.
                    let is_settled = run.verdict == Verdict::Scheduled && !copies_defects;
                    let is_preempting = matches!(tried, MemberResult::Preempts { .. });
                    if is_preempting && is_settled {
                        // It stays behind, so those after it are decided without it.
                        state.roll_back_to(before, &mut self.cache);
                    }
                    preempts |= is_preempting && !is_settled;
                    let starts = *permit == Permit::Success || mutation::is_on(Mutation::GangStartsShort);
                    if starts && !is_settled {
                        run.verdict =
                            if preempts { Verdict::Waiting(WAITING.to_owned()) } else { Verdict::Scheduled };
                    }
                }
                MemberResult::Rejected(_) => {}
            }
            run.tried.push(tried);
        }
        if let Some(gaps) = &mut state.gaps {
            gaps.end(&mut self.cache);
        }
        state.roll_back_to((0, 0), &mut self.cache);
        if matches!(run.verdict, Verdict::Unschedulable(_))
            && let Some(short) = state.roles.short(&self.tables)
        {
            run.verdict = Verdict::Unschedulable(format!("{UNSCHEDULABLE}, {short}"));
        }
        run
    }
}
