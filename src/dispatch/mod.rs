//! Carries out effects: bindings, writes of volumes, evictions, status patches, events. Bounded by the credits it grants, each kind in a lane of its
//! own, so that a slow kind holds up nobody else.
//!
//! Decides nothing and remembers nothing about scheduling: what came of an effect goes back to the engine as an event.

pub(crate) mod answer;
mod bind;
mod evict;
mod extend;
pub(crate) mod pause;
mod record;
mod request;
mod series;
mod settle;
mod status;
mod turns;
mod volumes;
mod waiting;

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use supercargo_core::effect::{
    Effect, Eviction, ExtenderCall, Lane, PodRef, Record, StatusPatch, VolumeWrite,
};
use supercargo_core::event::{BindOutcome, Event, EvictOutcome, Found, WriteOutcome};
use supercargo_core::extender::ExtenderId;
use supercargo_core::pod::Uid;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::driver::{Answers, Outbox, panic_text};
use crate::extender::Extenders;
use crate::lease::Fence;
use crate::metrics::Metrics;
use pause::Throttle;
use record::Recorder;
use request::Transport;
use turns::Turns;
use waiting::Waiting;

/// How often the same trouble is told.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// How much is carried out at once, and for how long it is waited.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bindings in flight. The client speaks HTTP/1.1, so each takes a connection of its own; a hundred of them at some
    /// milliseconds each are many times what an API server writes.
    pub bindings: usize,
    /// Writes of volumes and claims in flight.
    pub volumes: usize,
    /// Evictions in flight; as many as upstream's parallelism.
    pub evictions: usize,
    /// Status patches in flight.
    pub patches: usize,
    /// Events in flight.
    pub records: usize,
    /// Questions to extenders in flight.
    pub questions: usize,
    /// How long a binding may take before its outcome counts as unknown. The server is asked to keep to it, too.
    pub bind_deadline: Duration,
    /// How long any other request may take.
    pub deadline: Duration,
    /// How long a request is sent again while the server asks to come back later. API Priority and Fairness asks for 32 s at most, to which
    /// a tenth is added.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bindings: 100,
            volumes: 16,
            evictions: 16,
            patches: 16,
            records: 16,
            questions: 64,
            bind_deadline: Duration::from_secs(10),
            deadline: Duration::from_secs(10),
            patience: Duration::from_secs(36),
        }
    }
}

/// Who writes, and where to.
#[derive(Clone, Debug)]
pub struct Identity {
    /// URL of the API server, as errors name it.
    pub server: String,
    /// Our host's name, as events name it.
    pub host: String,
}

/// Requests that have not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Bindings and questions about them.
    pub bindings: usize,
    /// Writes of volumes and claims.
    pub volumes: usize,
    /// Evictions.
    pub evictions: usize,
    /// Status patches.
    pub patches: usize,
    /// Events.
    pub records: usize,
    /// Questions to extenders. They change nothing, and nobody waits for them at the end.
    pub questions: usize,
}

impl Pending {
    /// Whether there are none that anybody waits for.
    pub fn is_empty(self) -> bool {
        Self { questions: 0, ..self } == Self::default()
    }
}

/// Carries out effects on a runtime. Cheap to clone; the clones share everything.
#[derive(Clone)]
pub struct Dispatcher {
    shared: Arc<Shared>,
    runtime: Handle,
    extenders: Extenders,
}

struct Shared {
    transport: Transport,
    limits: Limits,
    answers: Arc<dyn Answers>,
    metrics: Arc<Metrics>,
    /// Writes about one pod wait for each other.
    turns: Turns,
    waiting: Waiting,
    recorder: Arc<Recorder>,
    refused_patches: Throttle,
    refused_evictions: Throttle,
    unanswered: Throttle,
    failed_extenders: Throttle,
    pending: [AtomicUsize; Lane::ALL.len()],
    ended: Notify,
    keeper: JoinHandle<()>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

impl Dispatcher {
    /// A dispatcher that sends through `client`, whose own retries must be off, what `fence` lets pass, and answers into `answers`.
    pub fn new(
        runtime: Handle,
        client: kube::Client,
        identity: &Identity,
        limits: Limits,
        metrics: Arc<Metrics>,
        answers: Arc<dyn Answers>,
        fence: Fence,
    ) -> Self {
        let transport = Transport::new(client, &identity.server, fence, Arc::clone(&metrics));
        let recorder = Arc::new(Recorder::new(transport.clone(), limits.clone(), &identity.host));
        let keeper = runtime.spawn(Arc::clone(&recorder).keep());
        let shared = Shared {
            transport,
            limits,
            answers,
            metrics,
            turns: Turns::default(),
            waiting: Waiting::default(),
            recorder,
            refused_patches: Throttle::new(TOLD_EVERY),
            refused_evictions: Throttle::new(TOLD_EVERY),
            unanswered: Throttle::new(TOLD_EVERY),
            failed_extenders: Throttle::new(TOLD_EVERY),
            pending: Default::default(),
            ended: Notify::new(),
            keeper,
        };
        Self { shared: Arc::new(shared), runtime, extenders: Extenders::default() }
    }

    /// With extenders to ask.
    #[must_use]
    pub fn with_extenders(mut self, extenders: Extenders) -> Self {
        self.extenders = extenders;
        self
    }

    /// Requests that have not ended.
    pub fn pending(&self) -> Pending {
        let of = |lane| self.shared.pending(lane).load(Ordering::SeqCst);
        Pending {
            bindings: of(Lane::Bind),
            volumes: of(Lane::Volume),
            evictions: of(Lane::Evict),
            patches: of(Lane::Status),
            records: of(Lane::Record),
            questions: of(Lane::Extend),
        }
    }

    /// Waits until all requests have ended, but no longer than `within`; gives what had not.
    pub async fn drain(&self, within: Duration) -> Pending {
        let ended = async {
            loop {
                let next = self.shared.ended.notified();
                if self.pending().is_empty() {
                    return;
                }
                next.await;
            }
        };
        // Late or not, what is left is what counts.
        let _ = tokio::time::timeout(within, ended).await;
        self.pending()
    }

    /// Carries out `work` of `lane`, then gives back its credit with what it came to.
    fn spawn<W>(
        &self,
        lane: Lane,
        kind: &'static str,
        work: W,
        on_panic: impl FnOnce(String) -> Option<Event> + Send + 'static,
    ) where
        W: Future<Output = Option<Event>> + Send + 'static,
    {
        let shared = Arc::clone(&self.shared);
        shared.pending(lane).fetch_add(1, Ordering::SeqCst);
        let flight = shared.metrics.effect_in_flight(kind);
        self.runtime.spawn(async move {
            let done = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|panic| {
                let text = panic_text(panic.as_ref());
                tracing::error!(panic = %text, kind, "carrying out an effect panicked");
                on_panic(text)
            });
            drop(flight);
            let credit = Event::Credits { lane, count: 1 };
            shared.answers.answer(done.into_iter().chain([credit]).collect()).await;
            shared.pending(lane).fetch_sub(1, Ordering::SeqCst);
            shared.ended.notify_waiters();
        });
    }

    fn bind(&self, pod: PodRef, node: String) {
        let shared = Arc::clone(&self.shared);
        let mut turn = shared.turns.queue(&pod.uid);
        let uid = Uid::clone(&pod.uid);
        let finished = |uid: Uid, outcome| Some(Event::BindFinished { uid, outcome });
        let work = async move {
            turn.come().await;
            let outcome = bind::bind(&shared.transport, &shared.limits, &pod, &node).await;
            finished(Uid::clone(&pod.uid), outcome)
        };
        self.spawn(Lane::Bind, "bind", work, move |message| finished(uid, BindOutcome::Unknown { message }));
    }

    fn bind_by(&self, extender: ExtenderId, pod: PodRef, node: String) {
        let shared = Arc::clone(&self.shared);
        let mut turn = shared.turns.queue(&pod.uid);
        let uid = Uid::clone(&pod.uid);
        let client = self.extenders.client(extender);
        let finished = |uid: Uid, outcome| Some(Event::BindFinished { uid, outcome });
        let work = async move {
            turn.come().await;
            let outcome = match client {
                Some(client) => extend::bind(&shared, &client, &pod, &node).await,
                None => BindOutcome::Refused { message: extend::UNKNOWN.to_owned() },
            };
            finished(Uid::clone(&pod.uid), outcome)
        };
        self.spawn(Lane::Bind, "bind", work, move |message| finished(uid, BindOutcome::Unknown { message }));
    }

    fn extend(&self, call: ExtenderCall) {
        let shared = Arc::clone(&self.shared);
        let (number, extenders) = (call.call, self.extenders.clone());
        let client = extenders.client(call.extender);
        let answered = move |answer| Some(Event::Extended { call: number, answer });
        let work = async move { answered(extend::ask(&shared, client, &extenders, &call).await) };
        self.spawn(Lane::Extend, "extend", work, move |message| answered(Err(message)));
    }

    fn settle(&self, pod: PodRef) {
        let shared = Arc::clone(&self.shared);
        let uid = Uid::clone(&pod.uid);
        let settled = |uid: Uid, found| Some(Event::Settled { uid, found });
        let work = async move {
            let found = settle::settle(&shared.transport, &shared.limits, &pod, &shared.unanswered).await;
            settled(Uid::clone(&pod.uid), found)
        };
        self.spawn(Lane::Bind, "settle", work, move |_| settled(uid, Found::NoAnswer));
    }

    fn write_volume(&self, write: VolumeWrite) {
        let shared = Arc::clone(&self.shared);
        let (uid, number) = (Uid::clone(&write.pod.uid), write.write);
        let written = move |outcome| Some(Event::VolumeWritten { uid, write: number, outcome });
        let answer = written.clone();
        let work = async move { answer(volumes::write(&shared.transport, &shared.limits, &write).await) };
        self.spawn(Lane::Volume, "volume", work, move |message| written(WriteOutcome::Unknown { message }));
    }

    fn evict(&self, eviction: Eviction) {
        let shared = Arc::clone(&self.shared);
        // Behind the binding of the pod, should that be on its way.
        let mut turn = shared.turns.queue(&eviction.pod.uid);
        let uid = Uid::clone(&eviction.pod.uid);
        let finished = |uid: Uid, outcome| Some(Event::EvictFinished { uid, outcome });
        let work = async move {
            turn.come().await;
            let Shared { transport, limits, refused_evictions, .. } = &*shared;
            let outcome = evict::evict(transport, limits, &eviction, refused_evictions).await;
            finished(Uid::clone(&eviction.pod.uid), outcome)
        };
        self.spawn(Lane::Evict, "evict", work, move |message| {
            finished(uid, EvictOutcome::Failed { message })
        });
    }

    fn patch(&self, patch: StatusPatch) {
        let shared = Arc::clone(&self.shared);
        // Nothing where it has joined one that waits: that one says it.
        let place = shared.waiting.queue(patch, &shared.turns);
        let work = async move {
            let Shared { transport, limits, refused_patches, .. } = &*shared;
            if let Some(place) = place {
                status::write(transport, limits, place, refused_patches).await;
            }
            None
        };
        self.spawn(Lane::Status, "status", work, |_| None);
    }

    fn record(&self, record: &Record) {
        let shared = Arc::clone(&self.shared);
        let writes = shared.recorder.note(record);
        let work = async move {
            for write in writes {
                shared.recorder.write(write).await;
            }
            None
        };
        self.spawn(Lane::Record, "record", work, |_| None);
    }
}

impl Shared {
    fn pending(&self, lane: Lane) -> &AtomicUsize {
        &self.pending[lane as usize]
    }
}

impl Outbox for Dispatcher {
    fn credits(&self) -> Vec<Event> {
        let limits = &self.shared.limits;
        let count = |lane| match lane {
            Lane::Bind => limits.bindings,
            Lane::Volume => limits.volumes,
            Lane::Evict => limits.evictions,
            Lane::Status => limits.patches,
            Lane::Record => limits.records,
            Lane::Extend => limits.questions,
        };
        Lane::ALL.map(|lane| Event::Credits { lane, count: count(lane) }).into()
    }

    fn submit(&mut self, effect: Effect) {
        match effect {
            Effect::Bind { pod, node } => self.bind(pod, node),
            Effect::BindBy { extender, pod, node } => self.bind_by(extender, pod, node),
            Effect::Settle { pod } => self.settle(pod),
            Effect::WriteVolume(write) => self.write_volume(write),
            Effect::Evict(eviction) => self.evict(eviction),
            Effect::Patch(patch) => self.patch(patch),
            Effect::Record(record) => self.record(&record),
            Effect::Extend(call) => self.extend(call),
        }
    }
}

#[cfg(test)]
mod tests;
