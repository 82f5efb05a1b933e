//! The ledger of decisions that wait for extenders or continue in slices, and of open calls.

use crate::cache::Snapshot;
use crate::cache::slice::step_limit::Searches;
use crate::cycle::{ExtenderAnswers, ExtenderRequest, RequestKind};
use crate::model::effect::{ExtenderCall, PodRef, Question, Victims};
use crate::model::extender::{Answer, Extender, ExtenderCandidate, ExtenderId};
use crate::model::intern::{Symbol, trace_ids};
use crate::model::pod::{PodInfo, Uid};
use crate::model::time::Time;
use crate::queue::QueuedPod;
use crate::scheduler::outbox::Outbox;
use crate::scheduler::slices::Progress;
use crate::switches::mutation::{self, Mutation};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// The maximum number of pods that wait for extenders at the same time.
const WAITING_MAX: usize = 64;

/// A suspended decision that waits for extenders.
pub(in crate::scheduler) struct SuspendedDecision {
    pub(in crate::scheduler) queued: QueuedPod,
    pub(in crate::scheduler) began: Time,
    /// The answers so far.
    pub(super) transcript: ExtenderAnswers,
    /// The calls without an answer.
    open: BTreeMap<u64, ExtenderRequest>,
    /// How often it restarted.
    pub(super) restarts: u32,
    /// The version of the cache when preemption ran.
    pub(super) version: u64,
    /// The number of cluster events when it began.
    pub(super) events: u64,
    /// Whether the pod itself changed since.
    pub(super) changed: bool,
    /// The progress of an evaluation in slices; `None` for a pod that is not large.
    pub(in crate::scheduler) progress: Option<Progress>,
    /// The progress of the searches for devices in its group's cycle, which all suspended members share.
    pub(in crate::scheduler) searches: Option<Arc<Searches>>,
    /// Whether its next step is a slice. A large pod that needs extenders alternates between slices and calls.
    pub(in crate::scheduler) is_in_slices: bool,
    /// Whether the decision needs extenders.
    pub(in crate::scheduler) asks: bool,
}

impl SuspendedDecision {
    /// Creates the record of a pod that is evaluated in slices; `asks` says whether it needs extenders as well.
    pub(in crate::scheduler) fn in_slices(queued: QueuedPod, began: Time, events: u64, asks: bool) -> Self {
        Self { progress: Some(Progress::default()), asks, ..Self::new(queued, began, events) }
    }

    pub(super) fn new(queued: QueuedPod, began: Time, events: u64) -> Self {
        Self {
            queued,
            began,
            transcript: ExtenderAnswers::default(),
            open: BTreeMap::new(),
            restarts: 0,
            version: 0,
            events,
            changed: false,
            progress: None,
            searches: None,
            is_in_slices: false,
            asks: true,
        }
    }

    /// Discards the answers and restarts.
    pub(super) fn begin_again(&mut self, events: u64) {
        let start = self.transcript.start;
        self.transcript = ExtenderAnswers::default();
        self.transcript.start = start;
        self.restarts += 1;
        self.events = events;
        self.changed = false;
    }
}

/// All suspended decisions and open calls.
#[derive(Default)]
pub(in crate::scheduler) struct ExtenderCalls {
    /// In the order of the calls.
    pub(super) extenders: Vec<Extender>,
    pods: BTreeMap<Uid, SuspendedDecision>,
    /// How many of them need extenders.
    asking: usize,
    calls: BTreeMap<u64, Uid>,
    next_call: u64,
    /// Pods whose calls are all answered, in the order of completion.
    ready: VecDeque<Uid>,
    /// Pods that are evaluated in slices, in order.
    sliced: VecDeque<Uid>,
}

impl ExtenderCalls {
    /// Returns the extenders that are interested in the pod, in the order of the calls.
    pub(super) fn interested_in(&self, pod: &PodInfo) -> impl Iterator<Item = &Extender> {
        self.extenders.iter().filter(|extender| extender.is_interested(pod))
    }

    /// Returns the extender that binds the pod, if any.
    pub(in crate::scheduler) fn binder(&self, pod: &PodInfo) -> Option<&Extender> {
        self.extenders.iter().find(|extender| extender.binds && extender.is_interested(pod))
    }

    /// Whether a decision about the pod calls extenders.
    pub(in crate::scheduler) fn concerns(&self, pod: &PodInfo) -> bool {
        self.extenders.iter().any(|extender| extender.decides() && extender.is_interested(pod))
    }

    /// Returns the pods that are evaluated in slices, in order.
    pub(in crate::scheduler) fn sliced_pods(&self) -> impl Iterator<Item = &PodInfo> {
        self.sliced.iter().filter_map(|uid| self.pods.get(uid)).map(|waiting| &*waiting.queued.pod)
    }

    /// Returns the number of all suspended pods.
    pub(in crate::scheduler) fn len(&self) -> usize {
        self.pods.len()
    }

    /// Returns the number of pods that are evaluated in slices.
    pub(in crate::scheduler) fn sliced(&self) -> usize {
        self.sliced.len()
    }

    /// Adds a pod that is evaluated in slices at the end of the order.
    pub(in crate::scheduler) fn suspend(&mut self, waiting: SuspendedDecision) {
        self.sliced.push_back(Arc::clone(&waiting.queued.pod.uid));
        self.put(SuspendedDecision { is_in_slices: true, ..waiting });
    }

    /// Puts back a pod that is evaluated in slices at the front of the order.
    pub(in crate::scheduler) fn suspend_first(&mut self, waiting: SuspendedDecision) {
        self.sliced.push_front(Arc::clone(&waiting.queued.pod.uid));
        self.put(waiting);
    }

    /// Takes the first pod that is evaluated in slices.
    pub(in crate::scheduler) fn take_sliced(&mut self) -> Option<SuspendedDecision> {
        let uid = self.sliced.pop_front()?;
        self.take(&uid)
    }

    /// Takes those of these pods that are evaluated in slices, in order.
    pub(in crate::scheduler) fn take_sliced_of(&mut self, uids: &BTreeSet<Uid>) -> Vec<SuspendedDecision> {
        let (taken, left): (VecDeque<Uid>, _) = self.sliced.drain(..).partition(|uid| uids.contains(uid));
        self.sliced = left;
        taken.iter().filter_map(|uid| self.take(uid)).collect()
    }

    fn put(&mut self, waiting: SuspendedDecision) {
        self.asking += usize::from(waiting.asks);
        self.pods.insert(Arc::clone(&waiting.queued.pod.uid), waiting);
    }

    fn take(&mut self, uid: &str) -> Option<SuspendedDecision> {
        let waiting = self.pods.remove(uid)?;
        self.asking -= usize::from(waiting.asks);
        Some(waiting)
    }

    pub(in crate::scheduler) fn open_calls(&self) -> usize {
        self.calls.len()
    }

    /// Returns the pods that wait for extenders.
    pub(in crate::scheduler) fn pods(&self) -> impl Iterator<Item = &PodInfo> {
        let asking = self.pods.values().filter(|waiting| !waiting.is_in_slices);
        asking.map(|waiting| &*waiting.queued.pod)
    }

    /// Returns the records of all suspended pods.
    pub(in crate::scheduler) fn waiting(&self) -> impl Iterator<Item = &SuspendedDecision> {
        self.pods.values()
    }

    /// Returns the record of one suspended pod.
    pub(in crate::scheduler) fn waiting_pod(&self, uid: &str) -> Option<&SuspendedDecision> {
        self.pods.get(uid)
    }

    /// Returns the number of open Prioritize calls.
    pub(in crate::scheduler) fn prioritizing(&self) -> usize {
        let asks = self.pods.values().flat_map(|waiting| waiting.open.values());
        asks.filter(|ask| matches!(ask.kind, RequestKind::Prioritize { .. })).count()
    }

    pub(in crate::scheduler) fn uids(&self) -> impl Iterator<Item = &Uid> {
        self.pods.keys()
    }

    pub(in crate::scheduler) fn contains(&self, uid: &str) -> bool {
        self.pods.contains_key(uid)
    }

    /// Replaces a suspended pod by its newer state, and returns the old one if it differs.
    pub(super) fn updated(&mut self, pod: &Arc<PodInfo>) -> Option<Arc<PodInfo>> {
        let waiting = self.pods.get_mut(&pod.uid)?;
        let old = std::mem::replace(&mut waiting.queued.pod, Arc::clone(pod));
        let is_changed = old != *pod;
        waiting.changed |= is_changed;
        is_changed.then_some(old)
    }

    /// Returns a predicate for the pods that may be attempted now; `None` if all may.
    ///
    /// A pod may not be attempted while a more important pod of its profile waits for an extender that is not
    /// ignorable, or if it needs extenders and too many pods wait already. The predicate's second argument says
    /// whether the pod needs extenders.
    pub(in crate::scheduler) fn attempt_filter(&self) -> Option<impl Fn(&PodInfo, bool) -> bool + use<>> {
        if self.asking == 0 || mutation::is_on(Mutation::LowerPriorityGoesFirst) {
            return None;
        }
        let mut highest = BTreeMap::<Symbol, i32>::new();
        for waiting in self.pods.values().filter(|waiting| self.holds_others(waiting)) {
            let pod = &waiting.queued.pod;
            let held = highest.entry(pod.scheduler_name).or_insert(pod.priority);
            *held = pod.priority.max(*held);
        }
        let is_full = self.asking >= WAITING_MAX;
        Some(move |pod: &PodInfo, asks: bool| {
            highest.get(&pod.scheduler_name).is_none_or(|&held| pod.priority >= held) && !(is_full && asks)
        })
    }

    /// Whether the pod delays less important pods: it waits for an extender that is not ignorable, or is about to
    /// resume.
    fn holds_others(&self, waiting: &SuspendedDecision) -> bool {
        let must = |id: ExtenderId| self.extender(id).is_some_and(|extender| !extender.ignorable);
        let is_answered = waiting.open.is_empty() && !waiting.is_in_slices;
        is_answered || waiting.open.values().any(|ask| must(ask.extender))
    }

    fn extender(&self, id: ExtenderId) -> Option<&Extender> {
        self.extenders.iter().find(|extender| extender.id == id)
    }

    /// Suspends a decision until `asks` are answered. Returns the ids of the calls.
    pub(super) fn wait(&mut self, mut waiting: SuspendedDecision, asks: Vec<ExtenderRequest>) -> Vec<u64> {
        let uid = Arc::clone(&waiting.queued.pod.uid);
        let mut calls = Vec::with_capacity(asks.len());
        for ask in asks {
            let call = self.next_call;
            self.next_call += 1;
            self.calls.insert(call, Arc::clone(&uid));
            waiting.open.insert(call, ask);
            calls.push(call);
        }
        waiting.is_in_slices = false;
        self.put(waiting);
        calls
    }

    /// Returns an open call as it is sent.
    pub(super) fn request(&self, call: u64, snapshot: Snapshot<'_>) -> Option<ExtenderCall> {
        let waiting = self.pods.get(self.calls.get(&call)?)?;
        let request = waiting.open.get(&call)?;
        let text = |nodes: &[_]| nodes.iter().map(|&node| snapshot.text(node).to_owned()).collect();
        let question = match &request.kind {
            RequestKind::Filter { nodes, .. } => Question::Filter { nodes: text(nodes) },
            RequestKind::Prioritize { nodes } => Question::Prioritize { nodes: text(nodes) },
            RequestKind::Preempt => Question::Preempt { rooms: victims(&waiting.transcript, snapshot) },
        };
        let pod = PodRef::new(&waiting.queued.pod, snapshot.tables());
        Some(ExtenderCall { call, extender: request.extender, pod, question })
    }

    /// Records the result of a call.
    pub(super) fn answered(&mut self, call: u64, answer: Result<Answer, String>, snapshot: Snapshot<'_>) {
        let Some(uid) = self.calls.remove(&call) else { return };
        let Some(waiting) = self.pods.get_mut(&uid) else { return };
        let Some(ask) = waiting.open.remove(&call) else { return };
        let tables = snapshot.tables();
        let SuspendedDecision { transcript, queued, open, .. } = waiting;
        if let Some(by) = self.extenders.iter().find(|extender| extender.id == ask.extender) {
            match ask.kind {
                RequestKind::Filter { alone, nodes } => {
                    let answer =
                        answer.and_then(|it| if let Answer::Filtered(it) = it { Ok(it) } else { beside() });
                    transcript.filtered(by, (alone, &nodes), answer, tables);
                }
                RequestKind::Prioritize { nodes } => {
                    let answer =
                        answer.and_then(|it| if let Answer::Scored(it) = it { Ok(it) } else { beside() });
                    transcript.scored(by, &nodes, answer, tables);
                }
                RequestKind::Preempt => {
                    let answer =
                        answer.and_then(|it| if let Answer::Candidates(it) = it { Ok(it) } else { beside() });
                    transcript.made_room(by, &queued.pod, answer, snapshot);
                }
            }
        }
        if open.is_empty() {
            self.ready.push_back(uid);
        }
    }

    /// Takes the next decision that can resume.
    pub(super) fn take_ready(&mut self) -> Option<SuspendedDecision> {
        let uid = self.ready.pop_front()?;
        self.take(&uid)
    }

    /// Cancels a decision and its calls.
    pub(in crate::scheduler) fn end(&mut self, uid: &str, outbox: &mut Outbox) -> Option<SuspendedDecision> {
        let waiting = self.take(uid)?;
        for call in waiting.open.keys() {
            self.calls.remove(call);
        }
        outbox.retain_calls(|call| !waiting.open.contains_key(&call));
        self.ready.retain(|ready| **ready != *uid);
        self.sliced.retain(|sliced| **sliced != *uid);
        Some(waiting)
    }

    /// Cancels all decisions and their calls, and returns their pods.
    pub(super) fn end_all(&mut self, outbox: &mut Outbox) -> Vec<QueuedPod> {
        let uids: Vec<Uid> = self.uids().cloned().collect();
        uids.iter().filter_map(|uid| self.end(uid, outbox)).map(|waiting| waiting.queued).collect()
    }
}

/// Returns the candidates of preemption with their victims as references. Deleted victims are left out.
fn victims(transcript: &ExtenderAnswers, snapshot: Snapshot<'_>) -> Vec<Victims> {
    let named = |room: &ExtenderCandidate| {
        let pods = room.victims.iter().filter_map(|uid| snapshot.placed(uid));
        let pods: Vec<PodRef> = pods.map(|pod| PodRef::new(pod, snapshot.tables())).collect();
        let node = snapshot.text(room.node).to_owned();
        (!pods.is_empty()).then_some(Victims { node, pods, violations: room.violations })
    };
    let rooms = transcript.rooms().and_then(|rooms| rooms.as_ref().ok());
    rooms.into_iter().flatten().filter_map(named).collect()
}

trace_ids!(SuspendedDecision { queued, transcript, open } but not { began, restarts, version, events, changed, progress, searches, is_in_slices, asks });
trace_ids!(ExtenderCalls { extenders, pods } but not { asking, calls, next_call, ready, sliced });

/// Returns the error for an answer whose type does not match the call.
fn beside<T>() -> Result<T, String> {
    Err("the answer is none to the question".to_owned())
}
