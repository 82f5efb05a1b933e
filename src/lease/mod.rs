//! Leader election: of several schedulers the one that holds the Lease decides, and the others keep themselves up to date.
//!
//! The steps are those of `client-go/tools/leaderelection/leaderelection.go`, so that ours and kube-scheduler can contend for one
//! lease. What follows from leading is the engine's business, which is told; what may be written is the [`Fence`]'s.

mod clock;
mod fence;
mod lock;

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use supercargo_core::event::Event;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::dispatch::pause::{Throttle, jittered};
use crate::driver::{Answers, Pulse};
use crate::metrics::LeaderMetrics;

pub use clock::BootClock;
pub use fence::{Closed, Cover, Fence, Passage};
pub use lock::Lock;

use lock::Trouble;

/// Upstream's `JitterFactor`: by how much of itself a pause between two tries may be longer.
pub const JITTER: f64 = 1.2;
/// How long the scheduling thread may be silent before the lease is given up: with what it takes to notice and to write, less than
/// the thirty seconds after which `/livez` is red.
pub const SILENCE_MAX: Duration = Duration::from_secs(25);
/// How much longer than the lease a leader may go without a renewal before `/healthz` says so (upstream's `NewLeaderHealthzAdaptor`).
const TOLERATED: Duration = Duration::from_secs(20);
/// How long a leader may wait for its watches before it gives the lease up: each has made a new attempt within a minute, and another replica
/// may see what this one does not.
const BLIND_MAX: Duration = Duration::from_secs(90);
/// How often it is looked whether the watches are in order, while they are not.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long the end waits for the event that tells of it.
const FAREWELL: Duration = Duration::from_secs(1);
/// How often the same trouble is told.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// The times of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long others wait, from when they saw it renewed, before they take it.
    pub lease_duration: Duration,
    /// How long the leader tries to renew it before it gives up.
    pub renew_deadline: Duration,
    /// Between two tries.
    pub retry_period: Duration,
}

impl Terms {
    /// What others read of the duration: whole seconds.
    fn seconds(&self) -> i32 {
        i32::try_from(self.lease_duration.as_secs()).unwrap_or(i32::MAX)
    }

    /// A fence for these times.
    pub fn fence(&self, clock: BootClock) -> Fence {
        Fence::new(clock, self.renew_deadline, seconds(self.seconds()))
    }
}

fn seconds(n: i32) -> Duration {
    Duration::from_secs(u64::try_from(n).unwrap_or_default())
}

/// How it ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was told to stop, and has released the lease if it held it.
    Stopped,
    /// It led and leads no more; why.
    Lost(String),
}

/// What the elector works with, and whom it tells.
pub struct Surroundings {
    /// Counts sleep; the fence's, too.
    pub clock: BootClock,
    /// Opened by each renewal.
    pub fence: Fence,
    /// Where the engine is told whether it leads.
    pub answers: Arc<dyn Answers>,
    /// Whether the cluster is known. A replica to which it is not stands for no election, as kube-scheduler's informers sync first.
    pub known: UpToDate,
    /// Begins to bring what is known of the cluster up to date. One that has just been elected does not begin before that is done: what
    /// its predecessor bound last must be known to it.
    pub catch_up: Arc<dyn Fn() -> UpToDate + Send + Sync>,
    /// The scheduling thread's.
    pub pulse: Pulse,
    /// Counts.
    pub metrics: LeaderMetrics,
}

/// Tells whether what is known of the cluster is good enough, or what is not.
pub type UpToDate = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// A lease as it was last seen.
#[derive(Clone, Debug)]
struct Seen {
    lease: Lease,
    /// When it last changed, by our own clock: those of others are not asked.
    at: Duration,
}

impl Seen {
    fn spec(&self) -> LeaseSpec {
        self.lease.spec.clone().unwrap_or_default()
    }

    fn holder(&self) -> String {
        self.spec().holder_identity.unwrap_or_default()
    }

    /// Whether it counts at `now`, as far as can be told.
    fn is_valid(&self, now: Duration) -> bool {
        self.at + seconds(self.spec().lease_duration_seconds.unwrap_or_default()) > now
    }

    /// The same lease with this in it.
    fn with(&self, spec: LeaseSpec) -> Lease {
        Lease { spec: Some(spec), ..self.lease.clone() }
    }
}

/// What came of a try to get or to keep the lease.
enum Attempt {
    Held,
    /// Somebody else has it; or had it, and we led.
    Taken(String),
    Failed(Trouble),
}

/// Seeks the lease, keeps it, and lets it go.
pub struct Elector {
    lock: Lock,
    terms: Terms,
    around: Surroundings,
    seen: Option<Seen>,
    standing: Standing,
    refusals: Throttle,
}

/// Why holding the lease came to an end.
enum End {
    Lost(String),
    Silent,
    /// The watches did not come up to date.
    Blind,
    Stop,
}

impl Elector {
    /// An elector that has done nothing yet.
    pub fn new(lock: Lock, terms: Terms, around: Surroundings) -> Self {
        let standing = Standing::new(around.clock.clone(), &lock.name, terms);
        Self { lock, terms, around, seen: None, standing, refusals: Throttle::new(TOLD_EVERY) }
    }

    /// Tells how it stands with the lease.
    pub fn standing(&self) -> Standing {
        self.standing.clone()
    }

    /// Runs until the lease is lost, or `stop`: then what is on its way is waited for, and the lease released.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> Ended {
        let mut stop = std::pin::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => return Ended::Stopped,
                () = self.acquire() => {}
            }
            let mut pulse = self.around.pulse.clone();
            let end = tokio::select! {
                biased;
                () = &mut stop => End::Stop,
                () = pulse.silent_for(SILENCE_MAX) => End::Silent,
                end = self.hold() => end,
            };
            self.around.fence.close();
            self.standing.set(None);
            self.around.metrics.leads(false);
            match end {
                End::Lost(why) => {
                    tracing::error!(lock = self.lock.describe(), why, "failed to renew lease");
                    // The process ends after this, and the word with it.
                    let told = self.tell("stopped leading");
                    let _ = tokio::time::timeout(FAREWELL, told).await;
                    return Ended::Lost(why);
                }
                End::Stop => {
                    self.release().await;
                    return Ended::Stopped;
                }
                End::Blind => {
                    tracing::error!(
                        lock = self.lock.describe(),
                        "the watches of pods and nodes do not work; giving the lease up"
                    );
                    self.release().await;
                    self.tell("stopped leading");
                    // Whoever stands by looks more often than this.
                    tokio::select! {
                        () = &mut stop => return Ended::Stopped,
                        () = tokio::time::sleep(self.terms.lease_duration) => {}
                    }
                }
                End::Silent => {
                    tracing::error!(
                        lock = self.lock.describe(),
                        "the scheduling thread does not answer; giving the lease up"
                    );
                    self.release().await;
                    self.tell("stopped leading");
                    let resting = async {
                        self.around.answers.answer(vec![Event::Leading(false)]).await;
                        pulse.back().await;
                    };
                    tokio::select! {
                        () = &mut stop => return Ended::Stopped,
                        () = resting => tracing::warn!("the scheduling thread answers again; standing for election"),
                    }
                }
            }
        }
    }

    /// Tries until the lease is held.
    async fn acquire(&mut self) {
        let lock = self.lock.describe();
        self.until_known().await;
        tracing::info!(lock, identity = self.lock.identity, "attempting to acquire leader lease");
        let mut leader = None;
        loop {
            let attempt = self.attempt(false).await;
            self.standing.heard(!matches!(attempt, Attempt::Failed(_)));
            match attempt {
                Attempt::Held => break,
                Attempt::Taken(holder) => {
                    self.refusals.reset();
                    if leader.as_ref() != Some(&holder) {
                        tracing::info!(lock, leader = holder, "standing by");
                        leader = Some(holder);
                    }
                }
                Attempt::Failed(trouble) => self.troubled(&trouble),
            }
            tokio::time::sleep(jittered(self.terms.retry_period, JITTER)).await;
            // Whoever could not lead does not stand.
            self.around.pulse.back().await;
            self.until_known().await;
        }
        tracing::info!(lock, "successfully acquired lease");
        self.around.metrics.leads(true);
        self.tell("became leader");
    }

    /// Waits until the cluster is known.
    async fn until_known(&self) {
        let told = Throttle::new(TOLD_EVERY);
        while let Err(why) = (self.around.known)() {
            if told.admit().is_some() {
                let lock = self.lock.describe();
                tracing::info!(lock, why, "standing for no election before the cluster is known");
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Renews the lease until that fails, and tells the engine to lead once it knows the cluster.
    async fn hold(&mut self) -> End {
        let (answers, lock) = (Arc::clone(&self.around.answers), self.lock.describe());
        let up_to_date = (self.around.catch_up)();
        let lead = async {
            let (told, give_up) = (Throttle::new(TOLD_EVERY), Instant::now() + BLIND_MAX);
            let mut is_first = true;
            while let Err(why) = up_to_date() {
                if Instant::now() >= give_up {
                    return;
                }
                // Each takeover begins so; what is worth a look is one that takes long.
                let is_due = told.admit().is_some();
                if is_due && std::mem::take(&mut is_first) {
                    tracing::info!(lock, why, "holding the lease; deciding begins once everything is known");
                } else if is_due {
                    tracing::warn!(lock, why, "holding the lease, and deciding nothing before all is known");
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            answers.answer(vec![Event::Leading(true)]).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = lead => End::Blind,
            why = self.renew() => End::Lost(why),
        }
    }

    /// Renews the lease every period; returns why it could not for as long as it may take.
    async fn renew(&mut self) -> String {
        loop {
            let give_up = Instant::now() + self.terms.renew_deadline;
            loop {
                match tokio::time::timeout_at(give_up, self.attempt(true)).await {
                    Ok(Attempt::Held) => break,
                    Ok(Attempt::Taken(holder)) if holder.is_empty() => {
                        return "somebody else held the lease meanwhile".to_owned();
                    }
                    Ok(Attempt::Taken(holder)) => return format!("{holder} holds the lease"),
                    Ok(Attempt::Failed(trouble)) => self.troubled(&trouble),
                    Err(_) => {}
                }
                let next = Instant::now() + self.terms.retry_period;
                tokio::time::sleep_until(next.min(give_up)).await;
                if next >= give_up {
                    return format!("it could not be renewed for {:?}", self.terms.renew_deadline);
                }
            }
            self.refusals.reset();
            tokio::time::sleep(self.terms.retry_period).await;
        }
    }

    /// Upstream's `tryAcquireOrRenew`.
    async fn attempt(&mut self, leading: bool) -> Attempt {
        let now = self.around.clock.now();
        let mut spec = self.spec();
        // The record that was seen last is likely the one that is there: written over at once, and refused if not.
        if let Some(seen) = self.seen.clone().filter(|seen| self.is_ours(seen) && seen.is_valid(now)) {
            spec = keeping(spec, &seen.spec());
            match self.lock.update(&seen.with(spec.clone())).await {
                Ok(lease) => return self.held(lease, now),
                Err(trouble) => {
                    tracing::debug!(%trouble, "failed to update lease optimistically, falling back to slow path");
                }
            }
        }
        match self.lock.get().await {
            Ok(Some(lease)) => self.see(lease),
            Ok(None) => {
                return match self.lock.create(spec).await {
                    Ok(lease) => self.held(lease, now),
                    Err(trouble) => Attempt::Failed(trouble),
                };
            }
            Err(trouble) => return Attempt::Failed(trouble),
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
            Err(trouble) => Attempt::Failed(trouble),
        }
    }

    /// The request that wrote this lease began at `began` or later.
    fn held(&mut self, lease: Lease, began: Duration) -> Attempt {
        self.seen = Some(Seen { lease, at: self.around.clock.now() });
        self.around.fence.renewed(began);
        self.standing.set(Some(began));
        Attempt::Held
    }

    /// Takes note of the lease as it is; from when it says something new its time counts anew.
    fn see(&mut self, lease: Lease) {
        let unchanged = self.seen.as_ref().filter(|seen| seen.lease.spec == lease.spec);
        let at = unchanged.map_or_else(|| self.around.clock.now(), |seen| seen.at);
        self.seen = Some(Seen { lease, at });
    }

    fn is_ours(&self, seen: &Seen) -> bool {
        seen.holder() == self.lock.identity
    }

    /// What is written where nobody held the lease.
    fn spec(&self) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        LeaseSpec {
            holder_identity: Some(self.lock.identity.clone()),
            lease_duration_seconds: Some(self.terms.seconds()),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(0),
            ..LeaseSpec::default()
        }
    }

    /// Releases the lease, if it is still ours, so that whoever stands by need not wait for its end. What is on its way is waited for, as
    /// long as the lease covers it.
    async fn release(&self) {
        let lock = self.lock.describe();
        let lease = seconds(self.terms.seconds());
        if tokio::time::timeout(lease, self.around.fence.quiet()).await.is_err() {
            tracing::warn!(lock, "writes are still on their way; leaving the lease to run out");
            return;
        }
        match tokio::time::timeout(self.terms.renew_deadline, self.write_release()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(lock, %error, "failed to release lease"),
            Err(_) => tracing::error!(lock, "failed to release lease in time"),
        }
    }

    async fn write_release(&self) -> Result<(), Trouble> {
        let Some(lease) = self.lock.get().await? else { return Ok(()) };
        let seen = Seen { lease, at: Duration::ZERO };
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

    /// Says in an event what became of us, beside whatever else is done.
    fn tell(&self, what: &'static str) -> JoinHandle<()> {
        let (lock, lease) = (self.lock.clone(), self.seen.clone().map(|seen| seen.lease).unwrap_or_default());
        tokio::spawn(async move { lock.tell(lease, what).await })
    }

    fn troubled(&self, trouble: &Trouble) {
        let (lock, name, namespace) = (self.lock.describe(), &self.lock.name, &self.lock.namespace);
        let Some(withheld) = self.refusals.admit() else {
            tracing::debug!(lock, %trouble, "the lease cannot be had; trying again");
            return;
        };
        if trouble.is_forbidden() {
            tracing::error!(
                lock,
                withheld,
                "{trouble}: grant get and update on the lease {name} of coordination.k8s.io, and create on leases, in namespace \
                 {namespace}, as manifests/base/role-lead.yaml does; without them nothing is scheduled"
            );
        } else {
            tracing::warn!(lock, %trouble, withheld, "the lease cannot be had; trying again");
        }
    }
}

/// What is written where the lease is ours already.
fn keeping(mut spec: LeaseSpec, old: &LeaseSpec) -> LeaseSpec {
    spec.acquire_time.clone_from(&old.acquire_time);
    spec.lease_transitions = old.lease_transitions;
    spec
}

/// How it stands with the lease, for `/healthz`. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Standing {
    clock: BootClock,
    name: Arc<str>,
    limit: Duration,
    /// When the lease was last renewed, while we lead.
    renewed: Arc<Mutex<Option<Duration>>>,
    /// Since when every attempt to read or take the lease has failed.
    unheard: Arc<Mutex<Option<Duration>>>,
    unheard_max: Duration,
}

impl Standing {
    fn new(clock: BootClock, name: &str, terms: Terms) -> Self {
        let (limit, unheard_max) = (terms.lease_duration + TOLERATED, terms.renew_deadline);
        let (renewed, unheard) = (Arc::default(), Arc::default());
        Self { clock, name: name.into(), limit, renewed, unheard, unheard_max }
    }

    /// The lease was read or taken, or an attempt to do so failed.
    fn heard(&self, heard: bool) {
        let mut unheard = self.unheard.lock().unwrap_or_else(PoisonError::into_inner);
        *unheard = if heard { None } else { unheard.or_else(|| Some(self.clock.now())) };
    }

    /// Whether the lease can be read. A replica that cannot take over is not ready, whoever leads.
    ///
    /// # Errors
    /// When all attempts have failed for longer than a leader may go without a renewal.
    pub fn check_lease(&self) -> Result<(), String> {
        let unheard = *self.unheard.lock().unwrap_or_else(PoisonError::into_inner);
        let since = unheard.map(|since| self.clock.now().saturating_sub(since));
        match since.filter(|since| *since > self.unheard_max) {
            Some(since) => {
                Err(format!("the lease {} could not be read or taken for {} s", self.name, since.as_secs()))
            }
            None => Ok(()),
        }
    }

    fn set(&self, renewed: Option<Duration>) {
        *self.renewed.lock().unwrap_or_else(PoisonError::into_inner) = renewed;
    }

    /// Whether this one leads.
    pub fn leads(&self) -> bool {
        self.renewed.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Upstream's check `leaderElection`: a leader whose lease ended long ago should have ended as well.
    ///
    /// # Errors
    /// When it is one.
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
