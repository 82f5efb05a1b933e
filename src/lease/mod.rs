//! Leader election through a Lease: one replica schedules, the others only keep their caches up to date.
//!
//! The steps follow `client-go/tools/leaderelection/leaderelection.go`, so supercargo and kube-scheduler can
//! contend for the same lease. The elector reports leadership to the engine as [`Event::Leading`]. The
//! [`Fence`] decides which writes may leave.

mod clock;
mod fence;
mod lock;

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use supercargo_core::model::event::Event;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::engine::{Answers, Heartbeat};
use crate::telemetry::metrics::LeaderMetrics;
use supercargo_apiserver::Throttle;
use supercargo_apiserver::retry::jittered;
use supercargo_config::{LeaseTerms, RETRY_JITTER};

pub use clock::BootClock;
pub use fence::{Closed, Cover, Fence, Passage};
pub use lock::Lock;

use lock::LockError;

/// Fraction by which an honored `Retry-After` may be longer, so that clients rejected together do not return together.
const RETRY_AFTER_JITTER: f64 = 0.1;
/// Longest silence of the scheduling thread before the leader releases the lease. Detection and the release
/// write included, it stays below the 30 s after which `/livez` fails.
pub const SILENCE_MAX: Duration = Duration::from_secs(25);
/// How far past the lease duration a leader may go without a renewal before `/healthz` fails (upstream's
/// `NewLeaderHealthzAdaptor`).
const TOLERATED: Duration = Duration::from_secs(20);
/// Longest wait of a new leader for its watches before it releases the lease. Every watch retries within a
/// minute, and another replica may be able to reach what this one cannot.
const BLIND_MAX: Duration = Duration::from_secs(90);
/// Poll interval while the watches are not up to date.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Longest wait at exit for the "stopped leading" event to be written.
const FAREWELL: Duration = Duration::from_secs(1);
/// Log interval of a repeated problem.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

fn seconds(n: i32) -> Duration {
    Duration::from_secs(u64::try_from(n).unwrap_or_default())
}

/// Why the elector finished.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// It received the stop signal, and released the lease if it held it.
    Stopped,
    /// It lost leadership, for the given reason.
    Lost(String),
}

/// Dependencies of the elector.
pub struct Dependencies {
    /// Clock that includes suspend time; shared with the fence.
    pub clock: BootClock,
    /// Each renewal opens it.
    pub fence: Fence,
    /// Channel to the engine, which receives here whether it leads.
    pub answers: Arc<dyn Answers>,
    /// Whether every watched kind has been listed, as kube-scheduler syncs its informers first, and those watches
    /// work without which no pod can be scheduled. A replica joins the election only then, and leads only while
    /// this holds.
    pub known: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
    /// Starts to bring the watches up to date. A new leader schedules only when this completes, so that it
    /// knows the last bindings of its predecessor.
    pub catch_up: Arc<dyn Fn() -> UpToDate + Send + Sync>,
    /// Heartbeat of the scheduling thread.
    pub heartbeat: Heartbeat,
    /// Leader election metrics.
    pub metrics: LeaderMetrics,
}

/// Reports whether the watched state is current; otherwise, what is missing.
pub type UpToDate = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The lease as last observed.
#[derive(Clone, Debug)]
struct ObservedLease {
    lease: Lease,
    /// Local time at which it last changed. Other replicas' clocks are never consulted.
    at: Duration,
}

impl ObservedLease {
    fn spec(&self) -> LeaseSpec {
        self.lease.spec.clone().unwrap_or_default()
    }

    fn holder(&self) -> String {
        self.spec().holder_identity.unwrap_or_default()
    }

    /// Whether the lease is unexpired at `now`, as far as this replica has observed.
    fn is_valid(&self, now: Duration) -> bool {
        self.at + seconds(self.spec().lease_duration_seconds.unwrap_or_default()) > now
    }

    /// Returns the same Lease object with `spec`.
    fn with(&self, spec: LeaseSpec) -> Lease {
        Lease { spec: Some(spec), ..self.lease.clone() }
    }
}

/// Outcome of one attempt to acquire or renew the lease.
enum Attempt {
    Held,
    /// Another replica holds it, or took it over while we led. Carries the holder's identity.
    Taken(String),
    Failed(LockError),
}

/// Acquires, renews and releases the lease.
pub struct Elector {
    lock: Lock,
    terms: LeaseTerms,
    around: Dependencies,
    seen: Option<ObservedLease>,
    standing: Standing,
    refusals: Throttle,
}

/// Why holding the lease ended.
enum End {
    Lost(String),
    Silent,
    /// The watches did not come up to date, or fail now.
    Blind(String),
    Stop,
}

impl Elector {
    /// Returns an idle elector; [`Elector::run`] starts it.
    pub fn new(lock: Lock, terms: LeaseTerms, around: Dependencies) -> Self {
        let standing = Standing::new(around.clock.clone(), &lock.name, terms);
        Self { lock, terms, around, seen: None, standing, refusals: Throttle::new(LOG_INTERVAL) }
    }

    /// Returns the health view of this lease.
    pub fn standing(&self) -> Standing {
        self.standing.clone()
    }

    /// Runs until the lease is lost or `stop` completes. On `stop` it waits for writes in flight, then
    /// releases the lease.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> Ended {
        let mut stop = std::pin::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => return Ended::Stopped,
                () = self.acquire() => {}
            }
            let mut heartbeat = self.around.heartbeat.clone();
            let end = tokio::select! {
                biased;
                () = &mut stop => End::Stop,
                () = heartbeat.silent_for(SILENCE_MAX) => End::Silent,
                end = self.hold() => end,
            };
            self.around.fence.close();
            self.standing.set(None);
            self.around.metrics.leads(false);
            match end {
                End::Lost(why) => {
                    tracing::error!(lock = self.lock.describe(), why, "failed to renew lease");
                    // The process exits after this, so wait until the event is written.
                    let event = self.record_event("stopped leading");
                    let _ = tokio::time::timeout(FAREWELL, event).await;
                    return Ended::Lost(why);
                }
                End::Stop => {
                    self.release().await;
                    return Ended::Stopped;
                }
                End::Blind(why) => {
                    tracing::error!(
                        lock = self.lock.describe(),
                        why,
                        "pod and node watches are not up to date; releasing the lease"
                    );
                    self.release().await;
                    self.record_event("stopped leading");
                    // Stay out of the election long enough for a standby replica to acquire the lease.
                    tokio::select! {
                        () = &mut stop => return Ended::Stopped,
                        () = tokio::time::sleep(self.terms.lease_duration) => {}
                    }
                }
                End::Silent => {
                    tracing::error!(
                        lock = self.lock.describe(),
                        "scheduling thread does not respond; releasing the lease"
                    );
                    self.release().await;
                    self.record_event("stopped leading");
                    let resting = async {
                        self.around.answers.answer(vec![Event::Leading(false)]).await;
                        heartbeat.back().await;
                    };
                    tokio::select! {
                        () = &mut stop => return Ended::Stopped,
                        () = resting => tracing::warn!("scheduling thread responds again; rejoining the election"),
                    }
                }
            }
        }
    }

    /// Retries until the lease is held.
    async fn acquire(&mut self) {
        let lock = self.lock.describe();
        self.until_known().await;
        tracing::info!(lock, identity = self.lock.identity, "attempting to acquire leader lease");
        let mut leader = None;
        loop {
            let attempt = self.attempt(false).await;
            let mut pause = jittered(self.terms.retry_period, RETRY_JITTER);
            self.standing.heard(!matches!(attempt, Attempt::Failed(_)));
            match attempt {
                Attempt::Held => break,
                Attempt::Taken(holder) => {
                    self.refusals.reset();
                    if leader.as_ref() != Some(&holder) {
                        tracing::info!(lock, leader = holder, "another replica leads; standing by");
                        leader = Some(holder);
                    }
                }
                Attempt::Failed(error) => {
                    pause = pause.max(self.asked_to_wait(&error));
                    self.log_failure(&error);
                }
            }
            tokio::time::sleep(pause).await;
            // A replica whose scheduling thread is silent could not lead, so it does not run.
            self.around.heartbeat.back().await;
            self.until_known().await;
        }
        tracing::info!(lock, "successfully acquired lease");
        self.around.metrics.leads(true);
        self.record_event("became leader");
    }

    /// Waits until every watched kind has been listed and the essential watches work.
    async fn until_known(&self) {
        let throttle = Throttle::new(LOG_INTERVAL);
        while let Err(why) = (self.around.known)() {
            if throttle.admit().is_some() {
                let lock = self.lock.describe();
                tracing::info!(lock, why, "waiting for lists and watches before joining the election");
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Renews the lease until that fails. Meanwhile tells the engine to lead once the watches are up to date, and to
    /// stop when they have failed for long: another replica may see what this one does not.
    async fn hold(&mut self) -> End {
        let (answers, lock) = (Arc::clone(&self.around.answers), self.lock.describe());
        let (known, period) = (Arc::clone(&self.around.known), self.terms.retry_period);
        let up_to_date = (self.around.catch_up)();
        let lead = async {
            let (throttle, give_up) = (Throttle::new(LOG_INTERVAL), Instant::now() + BLIND_MAX);
            let mut is_first = true;
            while let Err(why) = up_to_date() {
                if Instant::now() >= give_up {
                    return why;
                }
                // Every takeover starts with a short wait; only a long one deserves a warning.
                let is_due = throttle.admit().is_some();
                if is_due && std::mem::take(&mut is_first) {
                    tracing::info!(
                        lock,
                        why,
                        "holding the lease; scheduling starts once all watches are up to date"
                    );
                } else if is_due {
                    tracing::warn!(
                        lock,
                        why,
                        "holding the lease but not scheduling: watches are not up to date"
                    );
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            answers.answer(vec![Event::Leading(true)]).await;
            loop {
                tokio::time::sleep(period).await;
                if let Err(why) = known() {
                    answers.answer(vec![Event::Leading(false)]).await;
                    return why;
                }
            }
        };
        tokio::select! {
            why = lead => End::Blind(why),
            why = self.renew() => End::Lost(why),
        }
    }

    /// Renews the lease every retry period. Returns the reason when a renewal fails for the whole renew
    /// deadline.
    async fn renew(&mut self) -> String {
        loop {
            let give_up = Instant::now() + self.terms.renew_deadline;
            loop {
                let mut pause = self.terms.retry_period;
                match tokio::time::timeout_at(give_up, self.attempt(true)).await {
                    Ok(Attempt::Held) => break,
                    Ok(Attempt::Taken(holder)) if holder.is_empty() => {
                        return "another replica held the lease in the meantime".to_owned();
                    }
                    Ok(Attempt::Taken(holder)) => return format!("{holder} holds the lease"),
                    Ok(Attempt::Failed(error)) => {
                        pause = pause.max(self.asked_to_wait(&error));
                        self.log_failure(&error);
                    }
                    Err(_) => {}
                }
                let next = Instant::now() + pause;
                tokio::time::sleep_until(next.min(give_up)).await;
                if next >= give_up {
                    return format!("the lease could not be renewed for {:?}", self.terms.renew_deadline);
                }
            }
            self.refusals.reset();
            tokio::time::sleep(self.terms.retry_period).await;
        }
    }

    /// Makes one attempt to acquire or renew the lease (upstream's `tryAcquireOrRenew`).
    async fn attempt(&mut self, leading: bool) -> Attempt {
        let now = self.around.clock.now();
        let mut spec = self.spec();
        // Optimistic renewal: update the version seen last, and read the lease only on conflict.
        if let Some(seen) = self.seen.clone().filter(|seen| self.is_ours(seen) && seen.is_valid(now)) {
            spec = keeping(spec, &seen.spec());
            match self.lock.update(&seen.with(spec.clone())).await {
                Ok(lease) => return self.held(lease, now),
                // Any other request would come too early as well.
                Err(error @ LockError::Later { .. }) => return Attempt::Failed(error),
                Err(error) => {
                    tracing::debug!(%error, "failed to update lease optimistically, falling back to slow path");
                }
            }
        }
        match self.lock.get().await {
            Ok(Some(lease)) => self.see(lease),
            Ok(None) => {
                return match self.lock.create(spec).await {
                    Ok(lease) => self.held(lease, now),
                    Err(error) => Attempt::Failed(error),
                };
            }
            Err(error) => return Attempt::Failed(error),
        }
        let seen = self.seen.clone().expect("it was seen a moment ago");
        let (ours, old) = (self.is_ours(&seen), seen.spec());
        if !ours && (leading || !seen.holder().is_empty() && seen.is_valid(now)) {
            return Attempt::Taken(seen.holder());
        }
        let mut spec = self.spec();
        if ours {
            spec = keeping(spec, &old);
            self.around.metrics.slow_path();
        } else {
            spec.lease_transitions = Some(old.lease_transitions.unwrap_or_default().saturating_add(1));
        }
        match self.lock.update(&seen.with(spec)).await {
            Ok(lease) => self.held(lease, now),
            Err(error) => Attempt::Failed(error),
        }
    }

    /// Returns the pause the server asks for (`client-go/rest/with_retry.go`). It is at most the timeout of a request
    /// about the lease: a leader that waits longer has no time left for another attempt.
    fn asked_to_wait(&self, error: &LockError) -> Duration {
        let LockError::Later { after, .. } = error else { return Duration::ZERO };
        jittered((*after).min(self.lock.timeout), RETRY_AFTER_JITTER).min(self.lock.timeout)
    }

    /// Records that we hold the lease. The request that wrote it started at `began` or later.
    fn held(&mut self, lease: Lease, began: Duration) -> Attempt {
        self.seen = Some(ObservedLease { lease, at: self.around.clock.now() });
        self.around.fence.renewed(began);
        self.standing.set(Some(began));
        Attempt::Held
    }

    /// Records the observed lease. Its expiry restarts only when its spec changed.
    fn see(&mut self, lease: Lease) {
        let unchanged = self.seen.as_ref().filter(|seen| seen.lease.spec == lease.spec);
        let at = unchanged.map_or_else(|| self.around.clock.now(), |seen| seen.at);
        self.seen = Some(ObservedLease { lease, at });
    }

    fn is_ours(&self, seen: &ObservedLease) -> bool {
        seen.holder() == self.lock.identity
    }

    /// The spec written when the lease had no holder.
    fn spec(&self) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        LeaseSpec {
            holder_identity: Some(self.lock.identity.clone()),
            lease_duration_seconds: Some(self.terms.lease_seconds()),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(0),
            ..LeaseSpec::default()
        }
    }

    /// Releases the lease if it is still ours, so that a standby replica need not wait for its expiry. Waits
    /// for writes in flight first, at most for the lease duration.
    async fn release(&self) {
        let lock = self.lock.describe();
        let lease = seconds(self.terms.lease_seconds());
        if tokio::time::timeout(lease, self.around.fence.quiet()).await.is_err() {
            tracing::warn!(lock, "writes are still in flight; letting the lease expire");
            return;
        }
        match tokio::time::timeout(self.terms.renew_deadline, self.write_release()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(lock, %error, "failed to release lease"),
            Err(_) => tracing::error!(lock, "failed to release lease in time"),
        }
    }

    async fn write_release(&self) -> Result<(), LockError> {
        let Some(lease) = self.lock.get().await? else { return Ok(()) };
        let seen = ObservedLease { lease, at: Duration::ZERO };
        if !self.is_ours(&seen) {
            return Ok(());
        }
        let spec = LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            lease_transitions: seen.spec().lease_transitions,
            ..self.spec()
        };
        self.lock.update(&seen.with(spec)).await?;
        tracing::info!(lock = self.lock.describe(), "released the lease");
        Ok(())
    }

    /// Writes an event about leadership in a task of its own.
    fn record_event(&self, what: &'static str) -> JoinHandle<()> {
        let (lock, lease) = (self.lock.clone(), self.seen.clone().map(|seen| seen.lease).unwrap_or_default());
        tokio::spawn(async move { lock.record_event(lease, what).await })
    }

    fn log_failure(&self, error: &LockError) {
        let (lock, name, namespace) = (self.lock.describe(), &self.lock.name, &self.lock.namespace);
        let Some(withheld) = self.refusals.admit() else {
            tracing::debug!(lock, %error, "cannot acquire or renew the lease; retrying");
            return;
        };
        if error.is_forbidden() {
            tracing::error!(
                lock,
                withheld,
                "{error}: grant get and update on lease {name} (coordination.k8s.io) and create on leases in namespace \
                 {namespace}, as in manifests/base/role-lead.yaml; nothing is scheduled until then"
            );
        } else {
            tracing::warn!(lock, %error, withheld, "cannot acquire or renew the lease; retrying");
        }
    }
}

/// The spec of a renewal: keeps the acquire time and the transition count.
fn keeping(mut spec: LeaseSpec, old: &LeaseSpec) -> LeaseSpec {
    spec.acquire_time.clone_from(&old.acquire_time);
    spec.lease_transitions = old.lease_transitions;
    spec
}

/// Health view of the lease, for `/healthz` and `/readyz`. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Standing {
    clock: BootClock,
    name: Arc<str>,
    limit: Duration,
    /// When the lease was last renewed; `None` while this replica does not lead.
    renewed: Arc<Mutex<Option<Duration>>>,
    /// Since when every attempt to read or acquire the lease has failed; `None` after a success.
    unheard: Arc<Mutex<Option<Duration>>>,
    unheard_max: Duration,
}

impl Standing {
    fn new(clock: BootClock, name: &str, terms: LeaseTerms) -> Self {
        let (limit, unheard_max) = (terms.lease_duration + TOLERATED, terms.renew_deadline);
        let (renewed, unheard) = (Arc::default(), Arc::default());
        Self { clock, name: name.into(), limit, renewed, unheard, unheard_max }
    }

    /// Records whether the last attempt reached the lease.
    fn heard(&self, heard: bool) {
        let mut unheard = self.unheard.lock().unwrap_or_else(PoisonError::into_inner);
        *unheard = if heard { None } else { unheard.or_else(|| Some(self.clock.now())) };
    }

    /// Checks that this replica can reach the lease. A replica that could not take over is not ready, even if
    /// another one leads.
    ///
    /// # Errors
    /// Returns an error when every attempt has failed for longer than the renew deadline.
    pub fn check_lease(&self) -> Result<(), String> {
        let unheard = *self.unheard.lock().unwrap_or_else(PoisonError::into_inner);
        let since = unheard.map(|since| self.clock.now().saturating_sub(since));
        match since.filter(|since| *since > self.unheard_max) {
            Some(since) => {
                Err(format!("lease {} could not be read or acquired for {} s", self.name, since.as_secs()))
            }
            None => Ok(()),
        }
    }

    fn set(&self, renewed: Option<Duration>) {
        *self.renewed.lock().unwrap_or_else(PoisonError::into_inner) = renewed;
    }

    /// Whether this replica holds the lease.
    pub fn leads(&self) -> bool {
        self.renewed.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Upstream's `leaderElection` health check: a leader whose lease expired long ago should have exited.
    ///
    /// # Errors
    /// Returns an error when the last renewal is older than the lease duration plus 20 s.
    pub fn check(&self) -> Result<(), String> {
        let renewed = *self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        match renewed {
            Some(at) if self.clock.now().saturating_sub(at) > self.limit => {
                Err(format!("failed election to renew leadership on lease {}", self.name))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
