//! The engine: receives events and returns effects. It alone writes to the cache and the queue.
//!
//! `handle` applies an event to the state, and `step` does one unit of work. Neither blocks, fails or does I/O.
//! Waiting is expressed by the wake-up time that `step` returns, and every request to the outside is an [`Effect`].
//!
//! Each fact has one owner, for example `Bindings` or `Preemptions`, with its own state and counters. An owner
//! returns the next action; only the scheduler performs actions outside that owner.

mod alternative;
mod attempt;
mod audit;
mod binding;
mod budget;
mod conditions;
mod departure;
mod extend;
mod failure;
mod gc;
mod groups;
mod indexed_queue;
mod infeasible;
mod kubelet_rejections;
mod lead;
mod nominate;
mod objects;
mod outbox;
mod pending;
mod pre_bind;
mod preempt;
mod quarantine;
mod reconfigure;
mod relist;
mod requeue;
mod sizes;
mod slices;
mod trial;
mod unknown_outcome;
mod verify;

pub use alternative::{Alternative, AlternativeOutcome};
pub use pending::{ExplainedPart, GroupEntries, GroupStats, Pending, PendingGroup, PodLocation};
pub use quarantine::panic_text;
#[cfg(test)]
pub(crate) use quarantine::tests::{node as test_node, pod as test_pod};
pub use reconfigure::Reconfiguration;
pub use slices::Limits;
pub use trial::{BestNodes, GroupDecision, Room, Trial, TrialDecision, TrialMark, TrialOptions};
pub use verify::{DIFFERENCES_MAX, Verification};

use crate::cache::{Cache, CacheSize, Hypothetical, Snapshot};
use crate::collections::hash::FixedMap;
use crate::cycle::{Framework, Probe, Walk};
use crate::incremental::DecisionCache;
use crate::model::effect::{Effect, Lane, PodRef};
use crate::model::event::{Event, Kind};
use crate::model::intern::{Symbol, Tables};
use crate::model::pod::{PodInfo, Uid};
use crate::model::rng::Seed;
use crate::model::time::Time;
use crate::queue::{QueueConfig, QueueStats, QueuedPod, SchedulingQueue};
use crate::report::group::GroupReport;
use crate::report::{Notice, Report};
use crate::switches::mutation::{self, Mutation};
use audit::Audit;
use binding::Bindings;
use conditions::SentConditions;
use extend::ExtenderCalls;
use groups::Groups;
use kubelet_rejections::KubeletRejections;
use outbox::Outbox;
use pre_bind::VolumeBindings;
use preempt::Preemptions;
use quarantine::Quarantine;
use relist::Lists;
use requeue::Requeues;
use slices::{Sliced, Slices};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use verify::Verify;

/// A profile: the plugins for pods with a certain scheduler name.
pub struct Profile {
    /// `schedulerName`.
    pub name: String,
    /// Its plugins.
    pub framework: Framework,
}

/// The configuration of a [`Scheduler`].
pub struct Config {
    /// The seed of all random choices.
    pub seed: Seed,
    /// The profiles. Pods with another scheduler name are not scheduled.
    pub profiles: Vec<Profile>,
    /// The backoff, and the time limit of unschedulable pods.
    pub queue: QueueConfig,
}

/// The result of one call of [`Scheduler::step`].
#[derive(Debug)]
pub enum Step {
    /// A request to carry out.
    Effect(Effect),
    /// An attempt or a binding has ended.
    Report(Box<Report>),
    /// A cycle of a group has ended. The reports about its members follow.
    GroupReport(Box<GroupReport>),
    /// A message for operators.
    Notice(Notice),
    /// There is no work until an event arrives or this time is reached.
    Idle {
        /// When to call `step` again; `None` if only an event can create work.
        wake_at: Option<Time>,
    },
}

/// Counters and sizes for metrics. Counters start at zero when the engine is created.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Sizes and counters of the queue.
    pub queue: QueueStats,
    /// Numbers of pod groups.
    pub groups: GroupStats,
    /// Sizes of the cache.
    pub cache: CacheSize,
    /// Effects without a credit, by lane in the order of `Lane::ALL`.
    pub outgoing: [usize; Lane::ALL.len()],
    /// Kubernetes Events that were dropped because the lane was full.
    pub dropped_records: u64,
    /// Pods in PreBind: they have a node, and their volumes are being bound or provisioned.
    pub volume_bindings: usize,
    /// Pods whose decision waits for extenders.
    pub extender_calls: usize,
    /// Large pods whose evaluation continues in slices.
    pub sliced: usize,
    /// Evaluated slices.
    pub slices: u64,
    /// Prioritize calls of extenders without an answer yet.
    pub prioritizing: usize,
    /// Bindings in flight or with an unknown outcome.
    pub bindings: usize,
    /// Preemptions with victims that are not terminating yet.
    pub preemptions: usize,
    /// Evictions that wait, are in flight, or are not visible in the watch yet.
    pub evictions: usize,
    /// Bindings that the recheck stopped.
    pub rechecks_failed: u64,
    /// Pods bound by this scheduler that the kubelet rejected, by the kubelet's reason.
    pub kubelet_rejections: BTreeMap<String, u64>,
    /// Pods found unschedulable because an equal pod was, and nothing changed since. No node was evaluated.
    pub recalled: u64,
    /// Decisions that were taken from the cache.
    pub cached_decisions: u64,
    /// Cached decisions that were compared with a full evaluation: equal ones, and different ones.
    pub verified: [u64; 2],
    /// The cost and the progress of these comparisons.
    pub verification: Verification,
    /// Objects that were quarantined after a panic.
    pub poisoned: u64,
    /// Panics in decisions and queueing hints.
    pub panics: u64,
    /// Pending pods that the audit found in no place or in two places, and that are still pending.
    pub lost_pods: usize,
    /// All pods that the audit ever found so. Each was queued again, or kept one of its places.
    pub lost_pods_repaired: u64,
}

/// The engine: cache, queue, profiles, and the effects and reports that have not left yet.
pub struct Scheduler {
    seed: Seed,
    tables: Tables,
    cache: Cache,
    queue: SchedulingQueue,
    audit: Audit,
    profiles: Vec<(Symbol, Profile)>,
    lists: Lists,
    outbox: Outbox,
    volume_bindings: VolumeBindings,
    extender_calls: ExtenderCalls,
    slices: Slices,
    requeues: Requeues,
    bindings: Bindings,
    preemptions: Preemptions,
    groups: Groups,
    conditions: SentConditions,
    reports: VecDeque<Report>,
    notices: VecDeque<Notice>,
    decisions: DecisionCache,
    walk: Walk,
    verify: Verify,
    quarantine: Quarantine,
    halted: bool,
    leading: bool,
    /// Whether decisions are compared with recorded ones.
    is_comparable: bool,
    /// In a comparison with recorded decisions: the nominations in the recorded scheduler's queue, by pod.
    ///
    /// That queue does not receive updates, so it shows a pod as it was when its last failed attempt began. Example:
    /// the first attempt nominates the pod to n1, and the second fails, too. After the first, the queue shows no
    /// nomination; after the second, n1.
    shown_nominations: FixedMap<Uid, Symbol>,
    kubelet_rejections: KubeletRejections,
    alternatives: Option<Box<alternative::AlternativeProfiles>>,
    #[cfg(test)]
    panic_point: Option<quarantine::tests::PanicPoint>,
}

impl Scheduler {
    /// Creates a scheduler with an empty cache.
    pub fn new(config: Config, now: Time) -> Self {
        Self::with_tables(config, Tables::new(), now)
    }

    /// Creates a scheduler with the tables that the plugins of its profiles were created with.
    pub fn with_tables(config: Config, mut tables: Tables, now: Time) -> Self {
        let profiles = config.profiles.into_iter().map(|p| (tables.symbol(&p.name), p)).collect();
        let mut queue = SchedulingQueue::new(config.queue, now).hashed_by(tables.hashing());
        queue.emulate(tables.rules());
        if tables.copies_defects() {
            queue.retry_groups_always();
        }
        Self {
            seed: config.seed,
            cache: Cache::hashed_by(tables.hashing()),
            queue,
            audit: Audit::default(),
            profiles,
            lists: Lists::default(),
            outbox: Outbox::default(),
            volume_bindings: VolumeBindings::default(),
            extender_calls: ExtenderCalls::default(),
            slices: Slices::default(),
            requeues: Requeues::default(),
            bindings: Bindings::default(),
            preemptions: Preemptions::default(),
            groups: Groups::default(),
            conditions: SentConditions::default(),
            reports: VecDeque::new(),
            notices: VecDeque::new(),
            decisions: DecisionCache::default().hashed_by(tables.hashing()),
            tables,
            walk: Walk::default(),
            verify: Verify::default(),
            quarantine: Quarantine::default(),
            halted: false,
            leading: true,
            is_comparable: false,
            shown_nominations: FixedMap::default(),
            kubelet_rejections: KubeletRejections::default(),
            alternatives: None,
            #[cfg(test)]
            panic_point: None,
        }
    }

    /// Returns the tables that incoming objects are converted with.
    ///
    /// An id from them is valid until the next [`Self::collect_ids`], or while an object that the engine received
    /// holds it.
    pub fn tables(&mut self) -> &mut Tables {
        &mut self.tables
    }

    /// Returns a read-only view of the cluster.
    pub fn snapshot(&self) -> Snapshot<'_> {
        self.cache.snapshot(&self.tables)
    }

    /// Returns a hypothetical view of the cluster, in which pods can be added and removed.
    pub(crate) fn hypothetical(&mut self) -> (Hypothetical<'_>, &Tables) {
        (Hypothetical::new(&mut self.cache), &self.tables)
    }

    /// Whether the pod counts on a node, bound or assumed.
    pub(crate) fn is_placed(&self, uid: &str) -> bool {
        self.cache.placed(uid).is_some()
    }

    /// Returns the pod as it counts on a node, and the name of that node.
    pub(crate) fn placement(&self, uid: &str) -> Option<(Arc<PodInfo>, Symbol)> {
        self.cache.placed(uid).map(|(pod, node, _)| (Arc::clone(pod), node))
    }

    /// Returns the reference to a pod for effects and reports.
    pub(crate) fn named(&self, pod: &PodInfo) -> PodRef {
        self.pod_ref(pod)
    }

    /// Takes the next message for operators, without doing any work.
    pub(crate) fn take_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// Returns the scheduling queue.
    pub fn queue(&self) -> &SchedulingQueue {
        &self.queue
    }

    /// Returns the pods in PreBind by uid, each with its node and the time of the decision.
    pub fn waiting_for_volumes(&self) -> impl Iterator<Item = (&QueuedPod, Symbol, Time)> {
        self.volume_bindings.iter()
    }

    /// Returns the large pods whose evaluation continues in slices.
    pub fn pods_in_slices(&self) -> impl Iterator<Item = &PodInfo> {
        self.extender_calls.sliced_pods()
    }

    /// Returns the pods whose decision waits for extenders, by uid.
    pub fn waiting_for_extenders(&self) -> impl Iterator<Item = &PodInfo> {
        self.extender_calls.pods()
    }

    /// Returns the kinds whose first list is not complete. While there is one, the engine decides nothing.
    pub fn awaited_kinds(&self) -> impl Iterator<Item = Kind> + '_ {
        self.lists.awaited(self.tables.rules().groups.workloads)
    }

    /// Applies one event to the state.
    pub fn handle(&mut self, now: Time, event: Event) {
        self.requeues.label = None;
        if !matches!(event, Event::Credits { .. }) {
            self.audit.stir();
        }
        self.verify.called(now);
        self.cache.set_now(now);
        match event {
            Event::ListBegan(kind) => self.list_began(kind),
            Event::ListEnded(kind) => self.list_ended(now, kind),
            Event::BindFinished { uid, outcome } => self.bind_finished(now, &uid, outcome),
            Event::BindingQueried { uid, found } => self.binding_queried(now, &uid, audit::believed(found)),
            Event::VolumeWritten { uid, write, outcome } => self.volume_written(now, &uid, write, outcome),
            Event::EvictFinished { uid, outcome } => self.evict_finished(now, &uid, outcome),
            Event::Extended { call, answer } => self.extended(call, answer),
            Event::Halt => self.halt(now),
            Event::Leading(leading) => self.lead(now, leading),
            Event::Credits { lane, count } => self.outbox.grant(lane, count),
            object => self.object_with_care(now, object),
        }
    }

    /// Returns upstream's label of the last event (`scheduler_event_handling_duration_seconds`).
    ///
    /// `None` if the event could not requeue any pod. If it had several labels, returns the first.
    pub fn event_label(&self) -> Option<&'static str> {
        self.requeues.label
    }

    /// Does one unit of work: returns a report, releases an effect against a credit, or decides about a pod.
    ///
    /// If there is none, compares a live signature with a full evaluation, provided that this is enabled and due.
    pub fn step(&mut self, now: Time, probe: &mut dyn Probe) -> Step {
        self.verify.called(now);
        self.cache.set_now(now);
        self.decisions.set_now(now);
        for claim in self.cache.expire(now) {
            self.devices_freed(now, &claim);
        }
        match self.work(now, probe) {
            // The next slice is due now, so there is no idle time for a comparison.
            Step::Idle { wake_at: Some(at) } if at <= now && self.extender_calls.sliced() > 0 => {
                Step::Idle { wake_at: Some(at) }
            }
            Step::Idle { wake_at } => self.rest(now, wake_at),
            step => step,
        }
    }

    fn work(&mut self, now: Time, probe: &mut dyn Probe) -> Step {
        self.check_next(now);
        let mut is_last = false;
        loop {
            if let Some(step) = self.next_report() {
                return step;
            }
            match self.work_once(now, probe) {
                None => is_last = false,
                // This pass may have queued something, for which no event would wake the scheduler.
                Some(Step::Idle { wake_at }) if !is_last && wake_at.is_none_or(|at| at > now) => {
                    is_last = true;
                }
                Some(step) => return step,
            }
        }
    }

    /// Whether effects may be sent.
    fn may_act(&self) -> bool {
        self.leading || mutation::is_on(Mutation::LeadershipIgnored)
    }

    /// Returns the next notice or report.
    fn next_report(&mut self) -> Option<Step> {
        let notice = self.notices.pop_front().map(Step::Notice);
        let of_group = || self.groups.reports.pop_front().map(|it| Step::GroupReport(Box::new(it)));
        notice.or_else(of_group).or_else(|| self.reports.pop_front().map(|it| Step::Report(Box::new(it))))
    }

    /// Does one piece of work. Returns an effect, or that there is nothing else to do.
    fn work_once(&mut self, now: Time, probe: &mut dyn Probe) -> Option<Step> {
        if !self.may_act() {
            return (!self.check_piece(now)).then(|| Step::Idle { wake_at: self.next_check() });
        }
        if self.starts_go_on(now) {
            return None;
        }
        if let Some(effect) = self.release(now) {
            return Some(Step::Effect(effect));
        }
        // Members that were to be bound may wait for a start now. It ends before others are decided.
        if self.starts_go_on(now) {
            return None;
        }
        self.expire_assumed(now);
        if self.bindings.queue_queries(now, &mut self.outbox) || self.pre_bind_times(now) {
            return None;
        }
        if self.is_list_awaited() {
            return Some(Step::Idle { wake_at: None });
        }
        if self.halted {
            return Some(Step::Idle { wake_at: self.bindings.next_query() });
        }
        self.queue.tick(now);
        self.end_time_limits(now);
        self.repeat_lost_conditions(now);
        if self.give_up_claims_of_gated(now) {
            return None;
        }
        // While a binding waits for a credit, a further decision would only be outdated when its binding is sent.
        if self.outbox.has_room() {
            let mut sliced = self.slice_in_turn(now);
            let did_other = sliced.is_none() && (self.resume(now, probe) || self.attempt(now, probe));
            if !did_other && sliced.is_none() {
                sliced = self.slice(now);
            }
            if matches!(sliced, Some(Sliced::GoesOn)) {
                return Some(Step::Idle { wake_at: Some(now) });
            }
            if did_other || sliced.is_some() {
                self.audit.stir();
                self.verify_when_late(now);
                return None;
            }
        }
        if self.check_piece(now) {
            return None;
        }
        let times = [
            self.queue.next_wakeup(now),
            self.queue.next_look_at_claims(),
            self.bindings.next_query(),
            self.volume_bindings.next_time(),
            self.cache.volumes().devices().next_expiry(),
            self.next_check(),
            self.next_time_limit(),
            self.next_lost_condition(),
        ];
        Some(Step::Idle { wake_at: times.into_iter().flatten().min() })
    }

    /// Returns counters and sizes for metrics.
    pub fn stats(&self) -> Stats {
        let (lost_pods, lost_pods_repaired) = self.audit.lost();
        Stats {
            lost_pods,
            lost_pods_repaired,
            queue: self.queue.stats(),
            groups: self.group_stats(),
            cache: self.cache.size(),
            outgoing: self.outbox.waiting(),
            dropped_records: self.outbox.dropped_records(),
            volume_bindings: self.volume_bindings.len(),
            extender_calls: self.extender_calls.len() - self.extender_calls.sliced(),
            sliced: self.extender_calls.sliced(),
            slices: self.slices.count(),
            prioritizing: self.extender_calls.prioritizing(),
            bindings: self.bindings.len(),
            preemptions: self.preemptions.running(),
            evictions: self.preemptions.evictions(),
            rechecks_failed: self.bindings.rechecks_failed + self.volume_bindings.rechecks_failed,
            kubelet_rejections: self.kubelet_rejections.by_reason().clone(),
            recalled: self.decisions.recalled(),
            cached_decisions: self.decisions.hits(),
            verified: self.verify.compared(),
            verification: self.verification(),
            poisoned: self.quarantine.poisoned(),
            panics: self.quarantine.panics,
        }
    }

    /// Whether no effect waits in the outbox and no request about a pod lacks its answer. Without leadership, waiting
    /// effects do not count, since they are not sent.
    pub fn is_settled(&self) -> bool {
        let unsent = self.outbox.waiting().iter().any(|&waiting| waiting > 0);
        let is_asking = !self.bindings.is_empty() || self.preemptions.is_any_in_flight();
        self.volume_bindings.is_empty()
            && self.extender_calls.len() == 0
            && !is_asking
            && !(self.leading && unsent)
    }

    /// Returns all profiles.
    pub fn profiles(&self) -> impl Iterator<Item = &Profile> {
        self.profiles.iter().map(|(_, profile)| profile)
    }

    /// Returns the names of all profiles.
    pub fn profile_names(&self) -> impl Iterator<Item = &str> {
        self.profiles.iter().map(|(_, profile)| profile.name.as_str())
    }

    fn profile_of(&self, pod: &PodInfo) -> Option<&Profile> {
        profile_named(&self.profiles, pod.scheduler_name)
    }

    fn is_ours(&self, pod: &PodInfo) -> bool {
        self.profile_of(pod).is_some()
    }

    fn pod_ref(&self, pod: &PodInfo) -> PodRef {
        PodRef::new(pod, &self.tables)
    }
}

fn profile_named(profiles: &[(Symbol, Profile)], name: Symbol) -> Option<&Profile> {
    profiles.iter().find(|(symbol, _)| *symbol == name).map(|(_, profile)| profile)
}
