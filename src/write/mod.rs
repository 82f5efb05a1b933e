//! Carries out effects: bindings, volume writes, evictions, status patches, events and extender calls.
//!
//! Each kind of effect has a lane of its own, bounded by the credits it grants, so a slow kind does not delay
//! the others. The dispatcher holds no scheduling state: outcomes return to the engine as events.

mod bind;
mod claims;
mod evict;
mod extend;
mod groups;
mod merged_patches;
mod per_object_order;
mod query;
mod record;
mod request;
mod series;
mod status;
mod volumes;

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use supercargo_core::model::effect::{
    Effect, EventRecord, Eviction, ExtenderCall, GroupPatch, Lane, PodRef, StatusPatch, VolumeWrite,
};
use supercargo_core::model::event::{BindOutcome, BindingState, Event, EvictOutcome, WriteOutcome};
use supercargo_core::model::extender::ExtenderId;
use supercargo_core::model::pod::Uid;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::engine::{Answers, EffectRunner, panic_text};
use crate::extenders::Extenders;
use crate::lease::Fence;
use crate::telemetry::metrics::Metrics;
use merged_patches::Waiting;
use per_object_order::PerObjectOrder;
use record::EventRecorder;
use request::Transport;
use supercargo_apiserver::Throttle;

/// Log interval of a repeated problem.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Concurrency and time limits of effects.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bindings in flight. The client speaks HTTP/1.1, so each binding uses a connection of its own. One
    /// hundred at a few milliseconds each is many times the write rate of an API server.
    pub bindings: usize,
    /// Volume and claim writes in flight. A claim needs two requests before its pod's Binding.
    pub volumes: usize,
    /// Evictions in flight; upstream's default parallelism.
    pub evictions: usize,
    /// Status patches in flight.
    pub patches: usize,
    /// Events in flight.
    pub records: usize,
    /// Extender queries in flight.
    pub extender_calls: usize,
    /// Time limit of a binding; after it, the outcome counts as unknown. The API server receives the same
    /// limit.
    pub bind_deadline: Duration,
    /// Time limit of any other request.
    pub deadline: Duration,
    /// How long a request is retried while the server sends `Retry-After`. API Priority and Fairness asks for
    /// at most 32 s, to which up to 10 % jitter is added.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bindings: 100,
            volumes: 64,
            evictions: 16,
            patches: 32,
            records: 16,
            extender_calls: 64,
            bind_deadline: Duration::from_secs(10),
            deadline: Duration::from_secs(10),
            patience: Duration::from_secs(36),
        }
    }
}

/// Names of the API server and of this host.
#[derive(Clone, Debug)]
pub struct Identity {
    /// URL of the API server, as in error messages.
    pub server: String,
    /// Name of this host, as in events.
    pub host: String,
}

/// Number of requests in flight, by lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Bindings, and reads of their outcome.
    pub bindings: usize,
    /// Volume and claim writes.
    pub volumes: usize,
    /// Evictions.
    pub evictions: usize,
    /// Status patches.
    pub patches: usize,
    /// Events.
    pub records: usize,
    /// Extender queries. They change nothing, so shutdown does not wait for them.
    pub extender_calls: usize,
}

impl Pending {
    /// Whether no request is in flight that shutdown waits for.
    pub fn is_empty(self) -> bool {
        Self { extender_calls: 0, ..self } == Self::default()
    }
}

/// Carries out effects on a Tokio runtime. Cheap to clone; clones share all state.
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
    /// Orders the writes about one pod.
    turns: PerObjectOrder,
    waiting: Waiting,
    recorder: Arc<EventRecorder>,
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
    /// Returns a dispatcher that sends what `fence` admits through `client` and reports outcomes to
    /// `answers`. The client's own retries must be disabled.
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
        let recorder = Arc::new(EventRecorder::new(transport.clone(), limits.clone(), &identity.host));
        let keeper = runtime.spawn(Arc::clone(&recorder).keep());
        let shared = Shared {
            transport,
            limits,
            answers,
            metrics,
            turns: PerObjectOrder::default(),
            waiting: Waiting::default(),
            recorder,
            refused_patches: Throttle::new(LOG_INTERVAL),
            refused_evictions: Throttle::new(LOG_INTERVAL),
            unanswered: Throttle::new(LOG_INTERVAL),
            failed_extenders: Throttle::new(LOG_INTERVAL),
            pending: Default::default(),
            ended: Notify::new(),
            keeper,
        };
        Self { shared: Arc::new(shared), runtime, extenders: Extenders::default() }
    }

    /// Sets the extenders to call.
    #[must_use]
    pub fn with_extenders(mut self, extenders: Extenders) -> Self {
        self.extenders = extenders;
        self
    }

    /// Returns the number of requests in flight.
    pub fn pending(&self) -> Pending {
        let of = |lane| self.shared.pending(lane).load(Ordering::SeqCst);
        Pending {
            bindings: of(Lane::Bind),
            volumes: of(Lane::Volume),
            evictions: of(Lane::Evict),
            patches: of(Lane::Status),
            records: of(Lane::Record),
            extender_calls: of(Lane::Extend),
        }
    }

    /// Waits until all requests have ended, at most for `within`; returns what is still in flight.
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
        // The result below is the same after a timeout.
        let _ = tokio::time::timeout(within, ended).await;
        self.pending()
    }

    /// Runs `work` of `lane`, then returns the credit together with the outcome.
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
                tracing::error!(panic = %text, kind, "effect panicked");
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
            turn.wait().await;
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
            turn.wait().await;
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

    fn query_binding(&self, pod: PodRef) {
        let shared = Arc::clone(&self.shared);
        let uid = Uid::clone(&pod.uid);
        let queried = |uid: Uid, found| Some(Event::BindingQueried { uid, found });
        let work = async move {
            let found =
                query::query_binding(&shared.transport, &shared.limits, &pod, &shared.unanswered).await;
            queried(Uid::clone(&pod.uid), found)
        };
        // The label value of version 0.1.0: dashboards may name it.
        self.spawn(Lane::Bind, "settle", work, move |_| queried(uid, BindingState::NoAnswer));
    }

    fn write_volume(&self, write: VolumeWrite) {
        let shared = Arc::clone(&self.shared);
        let (uid, number) = (Uid::clone(&write.pod.uid), write.write);
        let written = move |outcome| Some(Event::VolumeWritten { uid, write: number, outcome });
        let answer = written.clone();
        let work = async move {
            let Shared { transport, limits, metrics, .. } = &*shared;
            answer(volumes::write(transport, limits, metrics, &write).await)
        };
        self.spawn(Lane::Volume, "volume", work, move |message| written(WriteOutcome::Unknown { message }));
    }

    fn evict(&self, eviction: Eviction) {
        let shared = Arc::clone(&self.shared);
        // Queue behind a binding of the same pod that is in flight.
        let mut turn = shared.turns.queue(&eviction.pod.uid);
        let uid = Uid::clone(&eviction.pod.uid);
        let finished = |uid: Uid, outcome| Some(Event::EvictFinished { uid, outcome });
        let work = async move {
            turn.wait().await;
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
        // `None` if the patch was merged into a waiting one, which then carries both.
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

    fn patch_group(&self, patch: GroupPatch) {
        let shared = Arc::clone(&self.shared);
        let turn = shared.turns.queue(&patch.uid);
        let work = async move {
            let Shared { transport, limits, refused_patches, .. } = &*shared;
            groups::write(transport, limits, &patch, turn, refused_patches).await;
            None
        };
        self.spawn(Lane::Status, "group_status", work, |_| None);
    }

    fn record(&self, record: &EventRecord) {
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

impl EffectRunner for Dispatcher {
    fn credits(&self) -> Vec<Event> {
        let limits = &self.shared.limits;
        let count = |lane| match lane {
            Lane::Bind => limits.bindings,
            Lane::Volume => limits.volumes,
            Lane::Evict => limits.evictions,
            Lane::Status => limits.patches,
            Lane::Record => limits.records,
            Lane::Extend => limits.extender_calls,
        };
        Lane::ALL.map(|lane| Event::Credits { lane, count: count(lane) }).into()
    }

    fn submit(&mut self, effect: Effect) {
        match effect {
            Effect::Bind { pod, node } => self.bind(pod, node),
            Effect::BindBy { extender, pod, node } => self.bind_by(extender, pod, node),
            Effect::QueryBinding { pod } => self.query_binding(pod),
            Effect::WriteVolume(write) => self.write_volume(write),
            Effect::Evict(eviction) => self.evict(eviction),
            Effect::Patch(patch) => self.patch(patch),
            Effect::PatchGroup(patch) => self.patch_group(patch),
            Effect::Record(record) => self.record(&record),
            Effect::Extend(call) => self.extend(call),
        }
    }
}

#[cfg(test)]
mod tests;
