//! Health of the watches: which kinds are synced, when they last succeeded, and why they fail.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use supercargo_core::model::event::Kind;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Kinds without which no pod can be scheduled.
const ESSENTIAL: [Kind; 2] = [Kind::Pod, Kind::Node];

/// Health of the watch of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindHealth {
    /// The kind.
    pub kind: Kind,
    /// Whether the engine has the complete first list.
    pub synced: bool,
    /// Time since the last request to the API server or data from it; zero during a backoff.
    pub since_attempt: Option<Duration>,
    /// Time since the API server last accepted a request.
    pub since_accepted: Option<Duration>,
    /// Whether the last request was accepted and has not failed since.
    pub is_open: bool,
    /// The last failure; `None` once the watch delivered something since.
    pub trouble: Option<String>,
    /// Time since the first of the failures without a delivery in between.
    pub failing_for: Option<Duration>,
}

/// Shared state of one watch.
#[derive(Debug)]
pub(super) struct KindState {
    kind: Kind,
    seen: Mutex<WatchProgress>,
    anew: Notify,
}

#[derive(Debug, Default)]
struct WatchProgress {
    synced: bool,
    attempt: Option<Instant>,
    accepted: Option<Instant>,
    is_open: bool,
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

    /// Waits until a reopening of the watch is requested.
    pub(super) async fn wanted_anew(&self) {
        self.anew.notified().await;
    }

    pub(super) fn attempted(&self) {
        self.seen().attempt = Some(Instant::now());
    }

    /// Records a backoff: a watch that backs off is not stuck.
    pub(super) fn pauses(&self, pause: Duration) {
        self.seen().attempt = Some(Instant::now() + pause);
    }

    /// Records that the API server accepted a request. A proxy may have sent this response, so it ends no failure.
    pub(super) fn accepted(&self) {
        let now = Instant::now();
        let mut seen = self.seen();
        (seen.attempt, seen.accepted, seen.is_open) = (Some(now), Some(now), true);
    }

    /// Records that the watch delivered what only the API server can send. Returns whether the watch was failing.
    pub(super) fn delivered(&self) -> bool {
        self.seen().trouble.take().is_some()
    }

    /// Whether nothing was delivered since the last failure.
    pub(super) fn is_failing(&self) -> bool {
        self.seen().trouble.is_some()
    }

    pub(super) fn failed(&self, why: String) {
        let mut seen = self.seen();
        seen.is_open = false;
        let since = seen.trouble.as_ref().map_or_else(Instant::now, |failing| failing.since);
        seen.trouble = Some(Failing { why, since });
    }

    /// Records that the engine has a complete list. Returns whether it is the first.
    pub(super) fn synced(&self) -> bool {
        !std::mem::replace(&mut self.seen().synced, true)
    }

    fn seen(&self) -> MutexGuard<'_, WatchProgress> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn health(&self) -> KindHealth {
        let seen = self.seen();
        KindHealth {
            kind: self.kind,
            synced: seen.synced,
            since_attempt: seen.attempt.map(|at| at.elapsed()),
            since_accepted: seen.accepted.map(|at| at.elapsed()),
            is_open: seen.is_open,
            trouble: seen.trouble.as_ref().map(|failing| failing.why.clone()),
            failing_for: seen.trouble.as_ref().map(|failing| failing.since.elapsed()),
        }
    }
}

/// Reports whether the watches are synced and healthy. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Readiness {
    pub(super) states: Arc<[Arc<KindState>]>,
}

impl Readiness {
    /// Returns the health of each kind.
    pub fn kinds(&self) -> Vec<KindHealth> {
        self.states.iter().map(|state| state.health()).collect()
    }

    /// Checks that every watch has sent a request or received data within `limit`, successfully or not.
    ///
    /// # Errors
    /// Returns an error that names the first stuck watch.
    pub fn check_attempts(&self, limit: Duration) -> Result<(), String> {
        let stuck = self.kinds().into_iter().find_map(|health| {
            let since = health.since_attempt.filter(|since| *since > limit)?;
            Some(format!("watch of {} has made no attempt for {} s", health.kind.as_str(), since.as_secs()))
        });
        stuck.map_or(Ok(()), Err)
    }

    /// Checks that no watch has failed for longer than `limit`, since a failing watch shows stale state.
    ///
    /// # Errors
    /// Returns an error that names the first such watch.
    pub fn check_failing(&self, limit: Duration) -> Result<(), String> {
        self.check_failing_of(&Kind::EVERY, limit)
    }

    /// Checks that neither the pod nor the node watch has failed for longer than `limit`: without one of them, no pod
    /// can be scheduled.
    ///
    /// # Errors
    /// Returns an error that names the watch.
    pub fn check_essential(&self, limit: Duration) -> Result<(), String> {
        self.check_failing_of(&ESSENTIAL, limit)
    }

    fn check_failing_of(&self, kinds: &[Kind], limit: Duration) -> Result<(), String> {
        let failing =
            self.kinds().into_iter().filter(|health| kinds.contains(&health.kind)).find_map(|health| {
                let since = health.failing_for.filter(|since| *since > limit)?;
                let (kind, why) = (health.kind.as_str(), health.trouble.unwrap_or_default());
                Some(format!("watch of {kind} has been failing for {} s: {why}", since.as_secs()))
            });
        failing.map_or(Ok(()), Err)
    }

    /// Reopens every watch at its current version, which reveals connections that died silently. The returned
    /// function checks whether the pod and node watches have been reopened; until then the bindings are not
    /// fully known.
    pub fn catch_up(&self) -> impl Fn() -> Result<(), String> + Send + Sync + use<> {
        let (began, readiness) = (Instant::now(), self.clone());
        self.states.iter().for_each(|state| state.anew.notify_one());
        move || readiness.check_current(began)
    }

    /// Checks that the pod and node watches work and were opened at `began` or later.
    fn check_current(&self, began: Instant) -> Result<(), String> {
        for health in self.kinds().into_iter().filter(|health| ESSENTIAL.contains(&health.kind)) {
            let kind = health.kind.as_str();
            let reopened = health.since_accepted.is_some_and(|ago| ago <= began.elapsed());
            match health.trouble {
                Some(trouble) if !health.is_open => {
                    return Err(format!("watch of {kind} is failing: {trouble}"));
                }
                _ if !health.synced => return Err(format!("not yet listed: {kind}")),
                _ if !reopened => return Err(format!("not yet reopened: watch of {kind}")),
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks that the engine has the first list of every kind.
    ///
    /// # Errors
    /// Returns an error with the missing kinds and their failures.
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
    async fn watch_without_attempts_is_stuck_but_a_failing_one_is_not() {
        let readiness = readiness();
        assert_eq!(readiness.check_attempts(LIMIT), Ok(()), "no watch has started");
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
        assert_eq!(stuck, Err("watch of Node has made no attempt for 61 s".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn watch_that_fails_for_long_is_reported_until_it_recovers() {
        let readiness = readiness();
        let pods = &readiness.states[Kind::Pod as usize];
        pods.failed("Unauthorized".to_owned());
        tokio::time::advance(LIMIT).await;
        assert_eq!(readiness.check_failing(LIMIT), Ok(()));
        pods.failed("Unauthorized".to_owned());
        tokio::time::advance(Duration::from_secs(1)).await;
        let failing = readiness.check_failing(LIMIT);
        assert_eq!(failing, Err("watch of Pod has been failing for 61 s: Unauthorized".to_owned()));
        pods.accepted();
        assert_eq!(readiness.check_failing(LIMIT), failing, "nothing was delivered");
        assert_eq!(readiness.check_essential(LIMIT), failing);
        pods.delivered();
        assert_eq!(readiness.check_failing(LIMIT), Ok(()));
        pods.failed("Unauthorized".to_owned());
        assert_eq!(readiness.check_failing(LIMIT), Ok(()), "counted from the new failure");
    }

    #[tokio::test(start_paused = true)]
    async fn catch_up_completes_once_pod_and_node_watches_were_reopened() {
        let readiness = readiness();
        let of = |kind: Kind| &readiness.states[kind as usize];
        for kind in [Kind::Pod, Kind::Node] {
            of(kind).accepted();
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        let check = readiness.catch_up();
        of(Kind::Node).wanted_anew().await;
        assert_eq!(check(), Err("not yet listed: Pod".to_owned()));
        of(Kind::Pod).synced();
        of(Kind::Node).synced();
        assert_eq!(check(), Err("not yet reopened: watch of Pod".to_owned()));
        of(Kind::Pod).accepted();
        of(Kind::Node).accepted();
        assert_eq!(check(), Ok(()));
        of(Kind::Service).failed("away".to_owned());
        assert_eq!(check(), Ok(()));
        of(Kind::Pod).failed("away".to_owned());
        assert_eq!(check(), Err("watch of Pod is failing: away".to_owned()));
        of(Kind::Pod).accepted();
        assert_eq!(check(), Ok(()), "a quiet watch delivers nothing for a while");
    }

    #[tokio::test(start_paused = true)]
    async fn only_pods_and_nodes_are_essential() {
        let readiness = readiness();
        readiness.states[Kind::Service as usize].failed("away".to_owned());
        tokio::time::advance(LIMIT * 2).await;
        assert!(readiness.check_failing(LIMIT).is_err());
        assert_eq!(readiness.check_essential(LIMIT), Ok(()));
        readiness.states[Kind::Node as usize].failed("away".to_owned());
        tokio::time::advance(LIMIT * 2).await;
        let failing = readiness.check_essential(LIMIT);
        assert_eq!(failing, Err("watch of Node has been failing for 120 s: away".to_owned()));
    }
}
