//! The engine: takes events, gives effects. The only holder of the cache and the queue for writing.
//!
//! `handle` brings the state up to date; `step` does one piece of work. Neither waits, fails or does I/O: every wait is
//! a time that `step` returns, every request to the outside an [`Effect`].

mod attempt;
mod audit;
mod binding;
mod budget;
mod extend;
mod failure;
mod held;
mod ids;
mod lead;
mod line;
mod memory;
mod nominate;
mod objects;
mod opinion;
mod outbox;
mod pending;
mod pre_bind;
mod preempt;
mod quarantine;
mod reconfigure;
mod refused;
mod rejected;
mod relist;
mod slices;
mod verify;
mod wake;

pub use opinion::{Opinion, Otherwise};
pub use pending::{ExplainedPart, Pending, Whereabouts};
pub use reconfigure::Reconfiguration;
pub use slices::Limits;
pub use verify::{DIFFERENCES_MAX, Verification};

use crate::cache::{Cache, CacheSize, Snapshot, Trial};
use crate::cycle::{Framework, Probe, Walk};
use crate::effect::{Effect, Lane, PodRef};
use crate::event::{Event, Kind};
use crate::hash::FixedMap;
use crate::incremental::DecisionCache;
use crate::intern::{Symbol, Tables};
use crate::mutation::{self, Mutation};
use crate::pod::{PodInfo, Uid};
use crate::queue::{QueueConfig, QueueStats, QueuedPod, SchedulingQueue};
use crate::report::{Notice, Report};
use crate::rng::Seed;
use crate::time::Time;
use audit::Audit;
use binding::Bindings;
use extend::Extending;
use failure::SentCondition;
use memory::Memory;
use outbox::Outbox;
use pre_bind::PreBinds;
use preempt::Preemptions;
use quarantine::Quarantine;
use relist::Lists;
use slices::{Sliced, Slices};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use verify::Verify;

/// A profile: a name pods choose, and the plugins that decide about them.
pub struct Profile {
    /// `schedulerName`.
    pub name: String,
    /// Its plugins.
    pub framework: Framework,
}

/// What a scheduler is made of.
pub struct Config {
    /// The seed of every draw.
    pub seed: Seed,
    /// The profiles; pods that name none of them are somebody else's.
    pub profiles: Vec<Profile>,
    /// Backoff and the limit of the unschedulable pool.
    pub queue: QueueConfig,
}

/// What one call of [`Scheduler::step`] came to.
#[derive(Debug)]
pub enum Step {
    /// A request to carry out.
    Effect(Effect),
    /// An attempt, or a binding, came to an end.
    Report(Box<Report>),
    /// Something happened that a person must know of.
    Notice(Notice),
    /// There is nothing to do before an event comes or this time is reached.
    Idle {
        /// When to step again; `None` when only an event can make work.
        wake_at: Option<Time>,
    },
}

/// Counters and sizes, for metrics.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// What the queue holds and has seen.
    pub queue: QueueStats,
    /// What the cache holds.
    pub cache: CacheSize,
    /// Effects that wait for credit, per lane in the order of `Lane::ALL`.
    pub outgoing: [usize; Lane::ALL.len()],
    /// Events about pods that were dropped because too many waited.
    pub dropped_records: u64,
    /// Pods with a node whose volumes are being bound or made.
    pub pre_binds: usize,
    /// Pods whose decision waits for extenders.
    pub extending: usize,
    /// Large pods whose evaluation goes on in slices.
    pub sliced: usize,
    /// Slices evaluated, so far.
    pub slices: u64,
    /// Questions to extenders how good nodes are that are not answered.
    pub prioritizing: usize,
    /// Bindings in flight or of unknown outcome.
    pub bindings: usize,
    /// Preemptions whose victims are not all on their way out yet.
    pub preemptions: usize,
    /// Evictions that wait, are in flight, or are not shown by the watch yet.
    pub evictions: usize,
    /// Bindings whose answer was lost, so far.
    pub unknown_binds: u64,
    /// Bindings that a last look held back, so far.
    pub last_looks_failed: u64,
    /// Pods of ours that the kubelet of their node did not admit, by its reason, so far.
    pub kubelet_rejections: BTreeMap<String, u64>,
    /// Pods found unschedulable without a look at any node, because one like them had just been, so far.
    pub recalled: u64,
    /// Decisions made from what is remembered of the pod's signature, so far.
    pub quick: u64,
    /// Cached decisions that were compared with a full evaluation, so far: those that were the same, and those that were not.
    pub verified: [u64; 2],
    /// What the comparisons cost, and how far they are.
    pub verification: Verification,
    /// Objects that were left out because the engine stumbled over them, so far.
    pub poisoned: u64,
    /// Decisions, and answers to the question whether an event helps, that panicked, so far.
    pub panics: u64,
    /// Pending pods that were found in no place, or in two, and are still pending.
    pub lost_pods: usize,
    /// All such pods so far. Each was queued again, or kept one of its places.
    pub lost_pods_repaired: u64,
}

/// The engine.
pub struct Scheduler {
    seed: Seed,
    tables: Tables,
    cache: Cache,
    queue: SchedulingQueue,
    audit: Audit,
    profiles: Vec<(Symbol, Profile)>,
    lists: Lists,
    outbox: Outbox,
    pre_binds: PreBinds,
    extending: Extending,
    slices: Slices,
    /// Events that may help waiting pods, so far.
    events: u64,
    bindings: Bindings,
    preemptions: Preemptions,
    sent_conditions: FixedMap<Uid, SentCondition>,
    reports: VecDeque<Report>,
    notices: VecDeque<Notice>,
    memory: Memory,
    decisions: DecisionCache,
    walk: Walk,
    verify: Verify,
    quarantine: Quarantine,
    halted: bool,
    leading: bool,
    unknown_binds: u64,
    last_looks_failed: u64,
    panics: u64,
    kubelet_rejections: BTreeMap<String, u64>,
    event_label: Option<&'static str>,
    second: Option<Box<opinion::Second>>,
    #[cfg(test)]
    trap: Option<quarantine::tests::Trap>,
}

impl Scheduler {
    /// A scheduler that knows nothing yet.
    pub fn new(config: Config, now: Time) -> Self {
        Self::with_tables(config, Tables::new(), now)
    }

    /// The same, with the tables that the profiles' plugins were made with.
    pub fn with_tables(config: Config, mut tables: Tables, now: Time) -> Self {
        let profiles = config.profiles.into_iter().map(|p| (tables.symbol(&p.name), p)).collect();
        Self {
            seed: config.seed,
            cache: Cache::hashed_by(tables.hashing()),
            queue: SchedulingQueue::new(config.queue, now).hashed_by(tables.hashing()),
            audit: Audit::default(),
            profiles,
            lists: Lists::default(),
            outbox: Outbox::default(),
            pre_binds: PreBinds::default(),
            extending: Extending::default(),
            slices: Slices::default(),
            events: 0,
            bindings: Bindings::default(),
            preemptions: Preemptions::default(),
            sent_conditions: FixedMap::default(),
            reports: VecDeque::new(),
            notices: VecDeque::new(),
            memory: Memory::hashed_by(tables.hashing()),
            decisions: DecisionCache::default().hashed_by(tables.hashing()),
            tables,
            walk: Walk::default(),
            verify: Verify::default(),
            quarantine: Quarantine::default(),
            halted: false,
            leading: true,
            unknown_binds: 0,
            last_looks_failed: 0,
            panics: 0,
            kubelet_rejections: BTreeMap::new(),
            event_label: None,
            second: None,
            #[cfg(test)]
            trap: None,
        }
    }

    /// The tables that objects are converted with on their way in. An id from them is good until [`Self::tidy`], or as long as
    /// something the engine was given holds it.
    pub fn tables(&mut self) -> &mut Tables {
        &mut self.tables
    }

    /// The cluster as the engine knows it.
    pub fn snapshot(&self) -> Snapshot<'_> {
        self.cache.snapshot(&self.tables)
    }

    /// The cluster, to try out what a decision would be if other pods were where they are not.
    pub(crate) fn trial(&mut self) -> (Trial<'_>, &Tables) {
        (Trial::new(&mut self.cache), &self.tables)
    }

    /// Whether the pod is counted on a node.
    pub(crate) fn is_placed(&self, uid: &str) -> bool {
        self.cache.placed(uid).is_some()
    }

    /// The pod, as it is counted, and the node it is on.
    pub(crate) fn placement(&self, uid: &str) -> Option<(Arc<PodInfo>, Symbol)> {
        self.cache.placed(uid).map(|(pod, node, _)| (Arc::clone(pod), node))
    }

    /// The pod's own name, in texts.
    pub(crate) fn named(&self, pod: &PodInfo) -> PodRef {
        self.pod_ref(pod)
    }

    /// What a person must know of, if there is anything, without a step of work.
    pub(crate) fn take_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// The waiting pods.
    pub fn queue(&self) -> &SchedulingQueue {
        &self.queue
    }

    /// The pods that have a node and wait for their volumes, each with that node and when it was found, by uid.
    pub fn waiting_for_volumes(&self) -> impl Iterator<Item = (&QueuedPod, Symbol, Time)> {
        self.pre_binds.iter()
    }

    /// The large pods whose evaluation goes on in slices.
    pub fn pods_in_slices(&self) -> impl Iterator<Item = &PodInfo> {
        self.extending.sliced_pods()
    }

    /// The pods whose decision waits for extenders, by uid.
    pub fn waiting_for_extenders(&self) -> impl Iterator<Item = &PodInfo> {
        self.extending.pods()
    }

    /// The kinds whose first list has not come yet; nothing is decided while there is one.
    pub fn awaited_kinds(&self) -> impl Iterator<Item = Kind> + '_ {
        self.lists.awaited()
    }

    /// Brings the state up to date with one event.
    pub fn handle(&mut self, now: Time, event: Event) {
        self.event_label = None;
        if !matches!(event, Event::Credits { .. }) {
            self.audit.stir();
        }
        self.verify.called(now);
        match event {
            Event::ListBegan(kind) => self.list_began(kind),
            Event::ListEnded(kind) => {
                for key in self.unlisted(kind) {
                    if !self.is_to_be_asked_about(now, &key) && !mutation::is_on(Mutation::RelistAdds) {
                        self.gone(now, &key);
                    }
                }
                self.lists.end(kind);
            }
            Event::BindFinished { uid, outcome } => self.bind_finished(now, &uid, outcome),
            Event::Settled { uid, found } => self.settled(now, &uid, audit::believed(found)),
            Event::VolumeWritten { uid, write, outcome } => self.volume_written(now, &uid, write, outcome),
            Event::EvictFinished { uid, outcome } => self.evict_finished(now, &uid, outcome),
            Event::Extended { call, answer } => self.extended(call, answer),
            Event::Halt => self.halt(now),
            Event::Leading(leading) => self.lead(now, leading),
            Event::Credits { lane, count } => self.outbox.grant(lane, count),
            object => self.object_with_care(now, object),
        }
    }

    /// Upstream's label of what the last event meant to waiting pods (`scheduler_event_handling_duration_seconds`); nothing where it meant nothing to
    /// them. Of several, the first.
    pub fn event_label(&self) -> Option<&'static str> {
        self.event_label
    }

    /// Does one piece of work: tells of an end, releases an effect against a credit, or decides about a pod. Where there is none, compares
    /// a live signature with a full evaluation, if that is asked for and due.
    pub fn step(&mut self, now: Time, probe: &mut dyn Probe) -> Step {
        self.verify.called(now);
        self.decisions.tick(now);
        match self.work(now, probe) {
            // A slice follows: there is no time to spare.
            Step::Idle { wake_at: Some(at) } if at <= now && self.extending.sliced() > 0 => {
                Step::Idle { wake_at: Some(at) }
            }
            Step::Idle { wake_at } => self.rest(now, wake_at),
            step => step,
        }
    }

    fn work(&mut self, now: Time, probe: &mut dyn Probe) -> Step {
        self.check_next(now);
        loop {
            if let Some(notice) = self.notices.pop_front() {
                return Step::Notice(notice);
            }
            if let Some(report) = self.reports.pop_front() {
                return Step::Report(Box::new(report));
            }
            if !self.leading && !mutation::is_on(Mutation::LeadIgnored) {
                if self.check_piece(now) {
                    continue;
                }
                return Step::Idle { wake_at: self.next_check() };
            }
            if let Some(effect) = self.release(now) {
                return Step::Effect(effect);
            }
            self.expire_assumed(now);
            if self.ask_again(now) || self.pre_bind_times(now) {
                continue;
            }
            if self.lists.awaited().next().is_some() {
                return Step::Idle { wake_at: None };
            }
            if self.halted {
                return Step::Idle { wake_at: self.next_question() };
            }
            self.queue.tick(now);
            // With a binding held back for lack of credit, the next decision would only be staler when it leaves.
            if self.outbox.has_room() {
                let mut sliced = self.slice_in_turn(now);
                let did_other = sliced.is_none() && (self.resume(now, probe) || self.attempt(now, probe));
                if !did_other && sliced.is_none() {
                    sliced = self.slice(now);
                }
                if matches!(sliced, Some(Sliced::GoesOn)) {
                    return Step::Idle { wake_at: Some(now) };
                }
                if did_other || sliced.is_some() {
                    self.audit.stir();
                    self.verify_when_late(now);
                    continue;
                }
            }
            if self.check_piece(now) {
                continue;
            }
            let times = [
                self.queue.next_wakeup(now),
                self.next_question(),
                self.pre_binds.next_time(),
                self.next_check(),
            ];
            return Step::Idle { wake_at: times.into_iter().flatten().min() };
        }
    }

    /// Counters and sizes, for metrics.
    pub fn stats(&self) -> Stats {
        let (lost_pods, lost_pods_repaired) = self.audit.lost();
        Stats {
            lost_pods,
            lost_pods_repaired,
            queue: self.queue.stats(),
            cache: self.cache.size(),
            outgoing: self.outbox.waiting(),
            dropped_records: self.outbox.dropped_records(),
            pre_binds: self.pre_binds.len(),
            extending: self.extending.len() - self.extending.sliced(),
            sliced: self.extending.sliced(),
            slices: self.slices.count(),
            prioritizing: self.extending.prioritizing(),
            bindings: self.bindings.len(),
            preemptions: self.preemptions.running(),
            evictions: self.preemptions.evictions(),
            unknown_binds: self.unknown_binds,
            last_looks_failed: self.last_looks_failed,
            kubelet_rejections: self.kubelet_rejections.clone(),
            recalled: self.memory.hits(),
            quick: self.decisions.answers(),
            verified: self.verify.compared(),
            verification: self.verification(),
            poisoned: self.quarantine.poisoned(),
            panics: self.panics,
        }
    }

    /// Whether nothing that was decided is still on its way out or unanswered. Without the lead nothing more goes out.
    pub fn is_settled(&self) -> bool {
        let unsent = self.outbox.waiting().iter().any(|&waiting| waiting > 0);
        let is_asking = !self.bindings.is_empty() || self.preemptions.is_any_in_flight();
        self.pre_binds.is_empty() && self.extending.len() == 0 && !is_asking && !(self.leading && unsent)
    }

    /// All profiles.
    pub fn profiles(&self) -> impl Iterator<Item = &Profile> {
        self.profiles.iter().map(|(_, profile)| profile)
    }

    /// The texts of all profiles' names.
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
