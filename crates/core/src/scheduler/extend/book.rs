//! The pods that wait for extenders, and the questions that are open. Knows no cluster and decides nothing.

use crate::cache::Snapshot;
use crate::cycle::{About, Ask, Transcript};
use crate::extender::{Answer, Extender, ExtenderId};
use crate::intern::{Symbol, holds_ids};
use crate::mutation::{self, Mutation};
use crate::pod::{PodInfo, Uid};
use crate::queue::QueuedPod;
use crate::scheduler::slices::Progress;
use crate::time::Time;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Pods that wait for extenders at most: the same number of decisions is laid aside.
const WAITING_MAX: usize = 64;

/// A decision that is laid aside until extenders answer.
pub(in crate::scheduler) struct Waiting {
    pub(in crate::scheduler) queued: QueuedPod,
    pub(in crate::scheduler) began: Time,
    /// What they said so far.
    pub(super) transcript: Transcript,
    /// What is not answered.
    open: BTreeMap<u64, Ask>,
    /// How often it began again.
    pub(super) restarts: u32,
    /// The version of the cache when preemption was thought through.
    pub(super) version: u64,
    /// How many events there had been when it began.
    pub(super) events: u64,
    /// The pod itself changed since.
    pub(super) stirred: bool,
    /// For a pod that is evaluated in slices, how far that is.
    pub(in crate::scheduler) progress: Option<Progress>,
}

impl Waiting {
    /// A pod that is evaluated in slices, and waits for nobody.
    pub(in crate::scheduler) fn in_slices(queued: QueuedPod, began: Time, events: u64) -> Self {
        Self { progress: Some(Progress::default()), ..Self::new(queued, began, events) }
    }

    pub(super) fn new(queued: QueuedPod, began: Time, events: u64) -> Self {
        Self {
            queued,
            began,
            transcript: Transcript::default(),
            open: BTreeMap::new(),
            restarts: 0,
            version: 0,
            events,
            stirred: false,
            progress: None,
        }
    }

    /// What was said is of no use.
    pub(super) fn begin_again(&mut self, events: u64) {
        let start = self.transcript.start;
        self.transcript = Transcript::default();
        self.transcript.start = start;
        self.restarts += 1;
        self.events = events;
        self.stirred = false;
    }
}

/// All that is asked of extenders.
#[derive(Default)]
pub(in crate::scheduler) struct Extending {
    /// In the order in which they are asked.
    pub(super) extenders: Vec<Extender>,
    pods: BTreeMap<Uid, Waiting>,
    calls: BTreeMap<u64, Uid>,
    next_call: u64,
    /// Pods all of whose questions are answered, in the order in which they were.
    ready: VecDeque<Uid>,
    /// Pods that are evaluated in slices, in the order in which they were laid aside.
    sliced: VecDeque<Uid>,
}

impl Extending {
    /// Whether a decision about the pod asks anybody.
    pub(in crate::scheduler) fn concerns(&self, pod: &PodInfo) -> bool {
        self.extenders.iter().any(|extender| extender.decides() && extender.is_interested(pod))
    }

    /// The pods that are evaluated in slices, in the order in which they were laid aside.
    pub(in crate::scheduler) fn sliced_pods(&self) -> impl Iterator<Item = &PodInfo> {
        self.sliced.iter().filter_map(|uid| self.pods.get(uid)).map(|waiting| &*waiting.queued.pod)
    }

    /// All pods that are laid aside.
    pub(in crate::scheduler) fn len(&self) -> usize {
        self.pods.len()
    }

    /// The pods that are evaluated in slices.
    pub(in crate::scheduler) fn sliced(&self) -> usize {
        self.sliced.len()
    }

    /// Lays aside a pod that is evaluated in slices, behind the others.
    pub(in crate::scheduler) fn lay_aside(&mut self, waiting: Waiting) {
        let uid = Arc::clone(&waiting.queued.pod.uid);
        self.sliced.push_back(Arc::clone(&uid));
        self.pods.insert(uid, waiting);
    }

    /// Lays it aside again, before the others.
    pub(in crate::scheduler) fn lay_aside_first(&mut self, waiting: Waiting) {
        let uid = Arc::clone(&waiting.queued.pod.uid);
        self.sliced.push_front(Arc::clone(&uid));
        self.pods.insert(uid, waiting);
    }

    /// The first of the pods that are evaluated in slices.
    pub(in crate::scheduler) fn take_sliced(&mut self) -> Option<Waiting> {
        let uid = self.sliced.pop_front()?;
        self.pods.remove(&uid)
    }

    pub(in crate::scheduler) fn open_calls(&self) -> usize {
        self.calls.len()
    }

    /// The pods that wait for extenders.
    pub(in crate::scheduler) fn pods(&self) -> impl Iterator<Item = &PodInfo> {
        let asking = self.pods.values().filter(|waiting| waiting.progress.is_none());
        asking.map(|waiting| &*waiting.queued.pod)
    }

    /// The same with what the queue knows of them, and since when they wait.
    pub(in crate::scheduler) fn waiting(&self) -> impl Iterator<Item = &Waiting> {
        self.pods.values()
    }

    /// The same of one pod.
    pub(in crate::scheduler) fn waiting_pod(&self, uid: &str) -> Option<&Waiting> {
        self.pods.get(uid)
    }

    /// Open questions how good nodes are.
    pub(in crate::scheduler) fn prioritizing(&self) -> usize {
        let asks = self.pods.values().flat_map(|waiting| waiting.open.values());
        asks.filter(|ask| matches!(ask.about, About::Prioritize { .. })).count()
    }

    pub(in crate::scheduler) fn uids(&self) -> impl Iterator<Item = &Uid> {
        self.pods.keys()
    }

    pub(in crate::scheduler) fn contains(&self, uid: &str) -> bool {
        self.pods.contains_key(uid)
    }

    pub(super) fn get_mut(&mut self, uid: &str) -> Option<&mut Waiting> {
        self.pods.get_mut(uid)
    }

    /// Who may be decided about while pods wait: nobody who matters less than a pod of the same profile that waits for an
    /// extender that must answer, and nobody who would wait beyond the bound. `None` where everybody may.
    /// The second argument says whether a decision about the pod asks anybody.
    pub(in crate::scheduler) fn turnstile(&self) -> Option<impl Fn(&PodInfo, bool) -> bool + use<>> {
        if self.pods.len() == self.sliced.len() || mutation::is_on(Mutation::LesserGoFirst) {
            return None;
        }
        let mut highest = BTreeMap::<Symbol, i32>::new();
        for waiting in self.pods.values().filter(|waiting| self.holds_others(waiting)) {
            let pod = &waiting.queued.pod;
            let held = highest.entry(pod.scheduler_name).or_insert(pod.priority);
            *held = pod.priority.max(*held);
        }
        let is_full = self.pods.len() - self.sliced.len() >= WAITING_MAX;
        Some(move |pod: &PodInfo, asks: bool| {
            highest.get(&pod.scheduler_name).is_none_or(|&held| pod.priority >= held) && !(is_full && asks)
        })
    }

    /// Whether the pod waits for an extender that must answer. One that is answered is about to go on, and holds others too.
    fn holds_others(&self, waiting: &Waiting) -> bool {
        let must = |id: ExtenderId| self.extender(id).is_some_and(|extender| !extender.ignorable);
        let is_answered = waiting.open.is_empty() && waiting.progress.is_none();
        is_answered || waiting.open.values().any(|ask| must(ask.extender))
    }

    fn extender(&self, id: ExtenderId) -> Option<&Extender> {
        self.extenders.iter().find(|extender| extender.id == id)
    }

    /// Lays a decision aside until `asks` are answered; the numbers of the questions.
    pub(super) fn wait(&mut self, mut waiting: Waiting, asks: Vec<Ask>) -> Vec<u64> {
        let uid = Arc::clone(&waiting.queued.pod.uid);
        let mut calls = Vec::with_capacity(asks.len());
        for ask in asks {
            let call = self.next_call;
            self.next_call += 1;
            self.calls.insert(call, Arc::clone(&uid));
            waiting.open.insert(call, ask);
            calls.push(call);
        }
        self.pods.insert(uid, waiting);
        calls
    }

    /// An open question, and who waits for it.
    pub(super) fn asked(&self, call: u64) -> Option<(&Waiting, &Ask)> {
        let waiting = self.pods.get(self.calls.get(&call)?)?;
        Some((waiting, waiting.open.get(&call)?))
    }

    pub(super) fn is_open(&self, call: u64) -> bool {
        self.calls.contains_key(&call)
    }

    /// Takes down an answer.
    pub(super) fn hear(&mut self, call: u64, answer: Result<Answer, String>, snapshot: Snapshot<'_>) {
        let Some(uid) = self.calls.remove(&call) else { return };
        let Some(waiting) = self.pods.get_mut(&uid) else { return };
        let Some(ask) = waiting.open.remove(&call) else { return };
        let tables = snapshot.tables();
        let Waiting { transcript, queued, open, .. } = waiting;
        if let Some(by) = self.extenders.iter().find(|extender| extender.id == ask.extender) {
            match ask.about {
                About::Filter { alone, nodes } => {
                    let answer =
                        answer.and_then(|it| if let Answer::Filtered(it) = it { Ok(it) } else { beside() });
                    transcript.filtered(by, (alone, &nodes), answer, tables);
                }
                About::Prioritize { nodes } => {
                    let answer =
                        answer.and_then(|it| if let Answer::Scored(it) = it { Ok(it) } else { beside() });
                    transcript.scored(by, &nodes, answer, tables);
                }
                About::Preempt => {
                    let answer =
                        answer.and_then(|it| if let Answer::Rooms(it) = it { Ok(it) } else { beside() });
                    transcript.made_room(by, &queued.pod, answer, snapshot);
                }
            }
        }
        if open.is_empty() {
            self.ready.push_back(uid);
        }
    }

    /// The next decision that can go on.
    pub(super) fn take_ready(&mut self) -> Option<Waiting> {
        let uid = self.ready.pop_front()?;
        self.pods.remove(&uid)
    }

    /// The pod waits no longer; what is open of its questions is nobody's.
    pub(super) fn end(&mut self, uid: &str) -> Option<Waiting> {
        let waiting = self.pods.remove(uid)?;
        for call in waiting.open.keys() {
            self.calls.remove(call);
        }
        self.ready.retain(|ready| **ready != *uid);
        self.sliced.retain(|sliced| **sliced != *uid);
        Some(waiting)
    }
}

holds_ids!(Waiting { queued, transcript, open } but not { began, restarts, version, events, stirred, progress });
holds_ids!(Extending { extenders, pods } but not { calls, next_call, ready, sliced });

/// An answer to another question than was asked.
fn beside<T>() -> Result<T, String> {
    Err("the answer is none to the question".to_owned())
}
