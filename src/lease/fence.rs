//! The lease fence: only writes covered by the lease leave the process.
//!
//! A write may leave only while the last renewal is recent, and its time limit is the remaining lease. So no
//! write of ours is in flight when another replica takes over. The check happens when the write leaves, on a
//! clock that counts suspend time, so a process resumed after a pause sends nothing stale. [`super::Elector`]
//! acquires and renews the lease; the fence only enforces it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::Notify;

use super::clock::BootClock;
use super::seconds;
use supercargo_config::LeaseTerms;

/// Admits or rejects writes. Cheap to clone. The default admits everything and serves a scheduler without
/// leader election.
#[derive(Clone, Debug, Default)]
pub struct Fence {
    gate: Option<Arc<Gate>>,
}

#[derive(Debug)]
struct Gate {
    clock: BootClock,
    /// Maximum age of the last renewal when a write leaves.
    renew_deadline: Duration,
    /// How long the lease lasts from a renewal on.
    lease: Duration,
    state: Mutex<State>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// When the last successful renewal request started.
    renewed: Option<Duration>,
    /// Number of writes in flight.
    passing: usize,
}

/// The lease does not cover the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not sent: this scheduler does not hold its lease, or has not renewed it in time")]
pub struct Closed;

impl Fence {
    /// Returns a fence with the durations of the configuration.
    pub fn with_terms(clock: BootClock, terms: &LeaseTerms) -> Self {
        Self::new(clock, terms.renew_deadline, seconds(terms.lease_seconds()))
    }

    /// Returns a fence that is closed until the lease is renewed. After a renewal, writes may leave for
    /// `renew_deadline` and stay in flight for `lease`.
    pub fn new(clock: BootClock, renew_deadline: Duration, lease: Duration) -> Self {
        let gate = Gate { clock, renew_deadline, lease, state: Mutex::default(), ended: Notify::new() };
        Self { gate: Some(Arc::new(gate)) }
    }

    /// Records a renewal by a request that started at `at`.
    pub(crate) fn renewed(&self, at: Duration) {
        if let Some(gate) = &self.gate {
            gate.state().renewed = Some(at);
        }
    }

    /// Admits nothing until the next renewal.
    pub(super) fn close(&self) {
        if let Some(gate) = &self.gate {
            gate.state().renewed = None;
        }
    }

    /// Admits one write.
    ///
    /// # Errors
    /// Returns [`Closed`] when the lease does not cover a write now.
    pub fn pass(&self) -> Result<Passage, Closed> {
        let Some(gate) = &self.gate else { return Ok(Passage { covered: None }) };
        let now = gate.clock.now();
        let mut state = gate.state();
        let fresh = |renewed: &Duration| now.saturating_sub(*renewed) < gate.renew_deadline.min(gate.lease);
        let renewed = state.renewed.filter(fresh).ok_or(Closed)?;
        state.passing += 1;
        Ok(Passage { covered: Some(Covered { gate: Arc::clone(gate), until: renewed + gate.lease }) })
    }

    /// Waits until no write is in flight.
    pub(super) async fn quiet(&self) {
        let Some(gate) = &self.gate else { return };
        loop {
            let next = gate.ended.notified();
            if gate.state().passing == 0 {
                return;
            }
            next.await;
        }
    }
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Permission for one write; the write counts as in flight until this is dropped.
#[derive(Debug)]
#[must_use = "the write counts as in flight only while the passage is held"]
pub struct Passage {
    covered: Option<Covered>,
}

#[derive(Debug)]
struct Covered {
    gate: Arc<Gate>,
    /// When the lease ends, by the gate's clock.
    until: Duration,
}

impl Passage {
    /// A passage for a read, which needs no lease.
    pub(crate) fn of_a_question() -> Self {
        Self { covered: None }
    }

    /// Returns the remaining time of the lease; `None` without leader election.
    pub fn left(&self) -> Option<Duration> {
        self.covered.as_ref().map(|covered| covered.until.saturating_sub(covered.gate.clock.now()))
    }

    /// Runs `work`, and abandons it once the lease has expired: it may still be waiting for a connection
    /// then.
    pub fn cover<F: Future + Unpin>(self, work: F) -> Cover<F> {
        Cover { passage: self, work }
    }
}

impl Drop for Covered {
    fn drop(&mut self) {
        self.gate.state().passing -= 1;
        self.gate.ended.notify_waiters();
    }
}

/// Future of work under the lease. Every poll after the lease has expired returns [`Closed`].
#[derive(Debug)]
pub struct Cover<F> {
    passage: Passage,
    work: F,
}

impl<F: Future + Unpin> Future for Cover<F> {
    type Output = Result<F::Output, Closed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.passage.left() == Some(Duration::ZERO) {
            return Poll::Ready(Err(Closed));
        }
        Pin::new(&mut self.work).poll(context).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use futures::poll;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A fence with a renew deadline of 10 s and a lease of 15 s, and its clock in milliseconds.
    fn fence() -> (Fence, Arc<AtomicU64>) {
        let time = Arc::new(AtomicU64::new(1_000_000));
        let read = Arc::clone(&time);
        let clock = BootClock::of(move || Duration::from_millis(read.load(Ordering::Relaxed)));
        (Fence::new(clock, 10 * SECOND, 15 * SECOND), time)
    }

    #[test]
    fn writes_are_rejected_before_the_first_renewal_and_after_close() {
        let (fence, _) = fence();
        assert_eq!(fence.pass().expect_err("there is no leader"), Closed);
        fence.renewed(1_000 * SECOND);
        assert!(fence.pass().is_ok());
        fence.close();
        assert_eq!(fence.pass().expect_err("the fence was closed"), Closed);
    }

    #[test]
    fn renewal_admits_writes_until_the_renew_deadline_without_a_close() {
        let (fence, time) = fence();
        fence.renewed(1_000 * SECOND);
        time.store(1_009_999, Ordering::Relaxed);
        assert!(fence.pass().is_ok());
        time.store(1_010_000, Ordering::Relaxed);
        assert_eq!(fence.pass().expect_err("ten seconds have passed"), Closed);
        fence.renewed(1_010 * SECOND);
        assert!(fence.pass().is_ok());
    }

    #[test]
    fn passage_reports_the_remaining_lease() {
        let (fence, time) = fence();
        fence.renewed(1_000 * SECOND);
        time.store(1_004_000, Ordering::Relaxed);
        let passage = fence.pass().expect("it was renewed four seconds ago");
        assert_eq!(passage.left(), Some(11 * SECOND));
        // A later renewal does not extend a write already in flight.
        fence.renewed(1_004 * SECOND);
        assert_eq!(passage.left(), Some(11 * SECOND));
        assert_eq!(Fence::default().pass().expect("there is no lease").left(), None);
    }

    #[tokio::test]
    async fn work_resumed_after_lease_expiry_is_abandoned() {
        let (fence, time) = fence();
        fence.renewed(1_000 * SECOND);
        let began = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&began);
        let work = Box::pin(async move {
            tokio::task::yield_now().await;
            seen.store(1, Ordering::Relaxed);
        });
        let mut covered = fence.pass().expect("it is held").cover(work);
        assert!(poll!(&mut covered).is_pending());
        time.store(1_060_000, Ordering::Relaxed);
        assert_eq!(covered.await, Err(Closed));
        assert_eq!(began.load(Ordering::Relaxed), 0, "nothing was sent after the pause");
    }

    #[tokio::test]
    async fn quiet_completes_when_no_write_is_in_flight() {
        let (fence, _) = fence();
        fence.quiet().await;
        fence.renewed(1_000 * SECOND);
        let passage = fence.pass().expect("it is held");
        let mut quiet = std::pin::pin!(fence.quiet());
        assert!(poll!(&mut quiet).is_pending());
        drop(passage);
        quiet.await;
    }
}
