//! What is known about the watches: which kinds are in sync, when they last worked, what troubles them.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use supercargo_core::event::Kind;
use tokio::sync::Notify;
use tokio::time::Instant;

/// What is known about the watch of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindHealth {
    /// The kind.
    pub kind: Kind,
    /// Whether the engine has its first list whole.
    pub synced: bool,
    /// How long ago something was last asked of the API server.
    pub since_attempt: Option<Duration>,
    /// How long ago it last answered.
    pub since_success: Option<Duration>,
    /// What went wrong, unless it has gone right since.
    pub trouble: Option<String>,
    /// For how long it has failed.
    pub failing_for: Option<Duration>,
}

/// The state of one watch, shared with those who look at it.
#[derive(Debug)]
pub(super) struct KindState {
    kind: Kind,
    seen: Mutex<Seen>,
    anew: Notify,
}

#[derive(Debug, Default)]
struct Seen {
    synced: bool,
    attempt: Option<Instant>,
    success: Option<Instant>,
    trouble: Option<Failing>,
}

#[derive(Debug)]
struct Failing {
    why: String,
    since: Instant,
}

impl KindState {
    pub(super) fn new(kind: Kind) -> Self {
        Self { kind, seen: Mutex::default(), anew: Notify::new() }
    }

    /// Waits until somebody wants the watch opened anew.
    pub(super) async fn wanted_anew(&self) {
        self.anew.notified().await;
    }

    pub(super) fn attempted(&self) {
        self.seen().attempt = Some(Instant::now());
    }

    /// Nothing is asked for so long, on purpose: a watch that backs off is not stuck.
    pub(super) fn pauses(&self, pause: Duration) {
        self.seen().attempt = Some(Instant::now() + pause);
    }

    /// The API server answers; whether it had not before.
    pub(super) fn succeeded(&self) -> bool {
        let mut seen = self.seen();
        seen.success = Some(Instant::now());
        seen.trouble.take().is_some()
    }

    pub(super) fn failed(&self, why: String) {
        let mut seen = self.seen();
        let since = seen.trouble.as_ref().map_or_else(Instant::now, |failing| failing.since);
        seen.trouble = Some(Failing { why, since });
    }

    /// The engine has a list of it whole; whether it had none before.
    pub(super) fn synced(&self) -> bool {
        !std::mem::replace(&mut self.seen().synced, true)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn health(&self) -> KindHealth {
        let seen = self.seen();
        KindHealth {
            kind: self.kind,
            synced: seen.synced,
            since_attempt: seen.attempt.map(|at| at.elapsed()),
            since_success: seen.success.map(|at| at.elapsed()),
            trouble: seen.trouble.as_ref().map(|failing| failing.why.clone()),
            failing_for: seen.trouble.as_ref().map(|failing| failing.since.elapsed()),
        }
    }
}

/// Tells whether the engine knows the cluster. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Readiness {
    pub(super) states: Arc<[Arc<KindState>]>,
}

impl Readiness {
    /// What is known about each kind.
    pub fn kinds(&self) -> Vec<KindHealth> {
        self.states.iter().map(|state| state.health()).collect()
    }

    /// Whether every watch has asked something of the API server, or read an answer, within `limit`. It need not have worked.
    ///
    /// # Errors
    /// When one has not, with the first of them.
    pub fn check_attempts(&self, limit: Duration) -> Result<(), String> {
        let stuck = self.kinds().into_iter().find_map(|health| {
            let since = health.since_attempt.filter(|since| *since > limit)?;
            Some(format!("the watch of {} has tried nothing for {} s", health.kind.as_str(), since.as_secs()))
        });
        stuck.map_or(Ok(()), Err)
    }

    /// Whether no watch has failed for longer than `limit`: a watch that fails shows the past.
    ///
    /// # Errors
    /// When one has, with the first of them.
    pub fn check_failing(&self, limit: Duration) -> Result<(), String> {
        let failing = self.kinds().into_iter().find_map(|health| {
            let since = health.failing_for.filter(|since| *since > limit)?;
            let (kind, why) = (health.kind.as_str(), health.trouble.unwrap_or_default());
            Some(format!("the watch of {kind} has failed for {} s: {why}", since.as_secs()))
        });
        failing.map_or(Ok(()), Err)
    }

    /// Has every watch opened anew where it was, so that one whose connection has died without a word is found out now. What is given
    /// back tells whether those of pods and nodes have been: before, one does not know what is where.
    pub fn catch_up(&self) -> impl Fn() -> Result<(), String> + Send + Sync + use<> {
        let (began, readiness) = (Instant::now(), self.clone());
        self.states.iter().for_each(|state| state.anew.notify_one());
        move || readiness.check_current(began)
    }

    /// Whether the watches of pods and nodes are in order, and were opened at `began` or later.
    fn check_current(&self, began: Instant) -> Result<(), String> {
        let known = [Kind::Pod, Kind::Node];
        for health in self.kinds().into_iter().filter(|health| known.contains(&health.kind)) {
            let kind = health.kind.as_str();
            let opened = health.since_success.is_some_and(|ago| ago <= began.elapsed());
            match health.trouble {
                Some(trouble) => return Err(format!("the watch of {kind} is in trouble: {trouble}")),
                None if !health.synced => return Err(format!("not yet listed: {kind}")),
                None if !opened => return Err(format!("not yet opened anew: the watch of {kind}")),
                None => {}
            }
        }
        Ok(())
    }

    /// Whether the engine has the first list of every kind.
    ///
    /// # Errors
    /// When it has not, with the kinds that are awaited and what troubles them.
    pub fn check(&self) -> Result<(), String> {
        let awaited: Vec<_> = self.kinds().into_iter().filter(|health| !health.synced).collect();
        if awaited.is_empty() {
            return Ok(());
        }
        let mut text = "not yet listed:".to_owned();
        for (n, health) in awaited.iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            let trouble = health.trouble.as_ref().map(|trouble| format!(" ({trouble})")).unwrap_or_default();
            write!(text, "{comma} {}{trouble}", health.kind.as_str()).expect("a String takes any text");
        }
        Err(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn readiness() -> Readiness {
        Readiness { states: Kind::ALL.map(|kind| Arc::new(KindState::new(kind))).into() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_tries_nothing_is_stuck_and_one_that_fails_is_not() {
        let readiness = readiness();
        assert_eq!(readiness.check_attempts(LIMIT), Ok(()), "none has begun");
        readiness.states.iter().for_each(|state| state.attempted());
        tokio::time::advance(LIMIT).await;
        assert_eq!(readiness.check_attempts(LIMIT), Ok(()));
        for state in readiness.states.iter().filter(|state| state.kind != Kind::Node) {
            state.attempted();
            state.failed("away".to_owned());
        }
        readiness.states[Kind::Pod as usize].pauses(LIMIT * 5);
        tokio::time::advance(Duration::from_secs(1)).await;
        let stuck = readiness.check_attempts(LIMIT);
        assert_eq!(stuck, Err("the watch of Node has tried nothing for 61 s".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_fails_for_long_is_named_until_it_works() {
        let readiness = readiness();
        let pods = &readiness.states[Kind::Pod as usize];
        pods.failed("Unauthorized".to_owned());
        tokio::time::advance(LIMIT).await;
        assert_eq!(readiness.check_failing(LIMIT), Ok(()));
        pods.failed("Unauthorized".to_owned());
        tokio::time::advance(Duration::from_secs(1)).await;
        let failing = readiness.check_failing(LIMIT);
        assert_eq!(failing, Err("the watch of Pod has failed for 61 s: Unauthorized".to_owned()));
        pods.succeeded();
        assert_eq!(readiness.check_failing(LIMIT), Ok(()));
        pods.failed("Unauthorized".to_owned());
        assert_eq!(readiness.check_failing(LIMIT), Ok(()), "from when it failed again");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_where_is_known_when_the_watches_of_pods_and_nodes_were_opened_anew_and_work() {
        let readiness = readiness();
        let of = |kind: Kind| &readiness.states[kind as usize];
        for kind in [Kind::Pod, Kind::Node] {
            of(kind).succeeded();
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        let check = readiness.catch_up();
        of(Kind::Node).wanted_anew().await;
        assert_eq!(check(), Err("not yet listed: Pod".to_owned()));
        of(Kind::Pod).synced();
        of(Kind::Node).synced();
        assert_eq!(check(), Err("not yet opened anew: the watch of Pod".to_owned()));
        of(Kind::Pod).succeeded();
        of(Kind::Node).succeeded();
        assert_eq!(check(), Ok(()));
        of(Kind::Service).failed("away".to_owned());
        assert_eq!(check(), Ok(()));
        of(Kind::Pod).failed("away".to_owned());
        assert_eq!(check(), Err("the watch of Pod is in trouble: away".to_owned()));
    }
}
