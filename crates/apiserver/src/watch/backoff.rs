//! Pacing of requests: the backoff of each watch, and the request budget that all watches share.
//!
//! Upstream: `client-go/tools/cache/reflector.go` and `apimachinery/pkg/util/wait/backoff.go#DelayWithReset`,
//! with the same parameters. One difference: upstream reopens a watch immediately if it delivered anything,
//! so a server that ends each watch after one bookmark receives thousands of requests per second.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::retry::jittered;

/// The first pause; upstream's `defaultBackoffInit`.
const FIRST: Duration = Duration::from_millis(800);
/// The longest pause before jitter; upstream's `defaultBackoffMax`.
pub(super) const LONGEST: Duration = Duration::from_secs(30);
/// The backoff resets after this long without a pause; upstream's `defaultBackoffReset`.
const RESET_AFTER: Duration = Duration::from_secs(120);
/// Maximum jitter, as a fraction of the pause; upstream's `defaultBackoffJitter`.
const JITTER: f64 = 1.0;
/// Maximum jitter on `Retry-After`, so that clients rejected together do not return together.
const RETRY_AFTER_JITTER: f64 = 0.1;
/// The longest `Retry-After` obeyed. API Priority and Fairness asks for at most 32 s
/// (`apiserver/pkg/util/flowcontrol/dropped_requests_tracker.go`). A broken proxy must not stop a watch for hours.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// Requests in a burst; kube-scheduler's default `clientConnection.burst`. Startup needs two per kind, plus
/// one per page if the server does not stream lists.
const BURST: u32 = 100;
/// Sustained requests per second; kube-scheduler's default `clientConnection.qps`.
const PER_SECOND: u32 = 50;
const SPACING: Duration = Duration::from_millis(1_000 / PER_SECOND as u64);

/// Returns the pause that the server asks for with `Retry-After`, or none.
pub(super) fn asked_pause(retry_after: Option<Duration>) -> Duration {
    retry_after.map_or(Duration::ZERO, |asked| jittered(asked.min(RETRY_AFTER_MAX), RETRY_AFTER_JITTER))
}

/// Backoff state of one watch.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
    /// When the last pause ended, or will end.
    paused: Instant,
    /// When a failure last forced a relist.
    relisted: Option<Instant>,
}

impl Backoff {
    pub(super) fn new() -> Self {
        Self { next: FIRST, paused: Instant::now(), relisted: None }
    }

    /// Returns the pause after a failure. `asked` is the pause that the server asks for, of [`asked_pause`].
    pub(super) fn after_failure(&mut self, asked: Duration) -> Duration {
        if self.paused.elapsed() > RESET_AFTER {
            self.next = FIRST;
        }
        let pause = jittered(self.next, JITTER).max(asked);
        self.next = (self.next * 2).min(LONGEST);
        self.paused = Instant::now() + pause;
        pause
    }

    /// Returns the pause after a watch that made progress but ended immediately. It does not grow with
    /// repetition.
    pub(super) fn after_short_watch() -> Duration {
        jittered(FIRST, JITTER)
    }

    /// Resets the backoff, because a watch reached a new resource version. Has no effect soon after a relist:
    /// a server that rejects each watch after its first event would otherwise be asked for a full list every
    /// second.
    pub(super) fn progressed(&mut self) {
        if self.relisted.is_none_or(|at| at.elapsed() > RESET_AFTER) {
            self.next = FIRST;
        }
    }

    /// Records that a failure forces a relist.
    pub(super) fn relists(&mut self) {
        self.relisted = Some(Instant::now());
    }
}

/// Token bucket for the lists, pages and watches of all kinds.
#[derive(Debug)]
pub(super) struct Budget {
    /// When the next request is due at a steady [`PER_SECOND`]. Lies up to [`BURST`] requests in the past.
    due: Mutex<Instant>,
}

impl Budget {
    pub(super) fn new() -> Self {
        let (now, full) = (Instant::now(), SPACING * (BURST - 1));
        Self { due: Mutex::new(now.checked_sub(full).unwrap_or(now)) }
    }

    /// Waits until the next request may be sent, in order of the calls.
    pub(super) async fn request(&self) {
        let at = {
            let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
            // The bucket holds at most the burst.
            let oldest = Instant::now().checked_sub(SPACING * (BURST - 1)).unwrap_or(*due);
            let at = (*due).max(oldest);
            *due = at + SPACING;
            at
        };
        tokio::time::sleep_until(at).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn backoff_doubles_to_thirty_seconds_and_resets_after_two_minutes() {
        let mut backoff = Backoff::new();
        for wanted in [800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000] {
            let (pause, wanted) = (backoff.after_failure(Duration::ZERO), Duration::from_millis(wanted));
            assert!(pause >= wanted && pause <= wanted * 2, "{pause:?} for {wanted:?}");
            tokio::time::advance(pause).await;
        }
        tokio::time::advance(RESET_AFTER + Duration::from_secs(1)).await;
        assert!(backoff.after_failure(Duration::ZERO) <= FIRST * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn progress_resets_the_backoff_except_soon_after_a_relist() {
        let mut backoff = Backoff::new();
        for _ in 0..5 {
            backoff.after_failure(Duration::ZERO);
        }
        backoff.relists();
        backoff.progressed();
        assert!(backoff.after_failure(Duration::ZERO) >= LONGEST * 4 / 5, "relisted recently");
        tokio::time::advance(RESET_AFTER - Duration::from_secs(1)).await;
        backoff.after_failure(Duration::ZERO);
        tokio::time::advance(Duration::from_secs(2)).await;
        backoff.progressed();
        assert!(backoff.after_failure(Duration::ZERO) <= FIRST * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn retry_after_is_obeyed_up_to_five_minutes() {
        let mut backoff = Backoff::new();
        let pause = backoff.after_failure(asked_pause(Some(Duration::from_secs(32))));
        assert!(pause >= Duration::from_secs(32) && pause <= Duration::from_millis(35_200), "{pause:?}");
        let pause = backoff.after_failure(asked_pause(Some(Duration::from_secs(u32::MAX.into()))));
        assert!(pause >= RETRY_AFTER_MAX && pause <= Duration::from_secs(330), "{pause:?}");
        assert!(
            backoff.after_failure(asked_pause(Some(Duration::ZERO))) >= FIRST * 4,
            "never shorter than the backoff"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn budget_admits_a_burst_and_then_a_steady_rate() {
        let budget = Budget::new();
        // An idle bucket saves no more than the burst.
        tokio::time::advance(Duration::from_secs(60)).await;
        let filled = Instant::now();
        for _ in 0..BURST {
            budget.request().await;
        }
        assert_eq!(filled.elapsed(), Duration::ZERO);
        for _ in 0..PER_SECOND * 10 {
            budget.request().await;
        }
        let took = filled.elapsed();
        assert!(took >= Duration::from_secs(10) && took < Duration::from_secs(11), "{took:?}");
    }
}
