//! Nothing is written that the lease does not cover.
//!
//! A write leaves only while the lease was renewed lately, and is given no longer than the lease lasts: whoever takes over
//! finds nothing of us on its way. It is looked at when the write leaves, by a clock that counts sleep, so that a process
//! that was stopped, or a machine that slept, sends nothing on waking up. It wins no lease: that is the elector's.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::Notify;

use super::clock::BootClock;

/// Lets writes pass, or not. Cheap to clone. The default lets everything pass: that of a scheduler without leader election.
#[derive(Clone, Debug, Default)]
pub struct Fence {
    gate: Option<Arc<Gate>>,
}

#[derive(Debug)]
struct Gate {
    clock: BootClock,
    /// How old the last renewal may be when a write leaves.
    renew_deadline: Duration,
    /// How long the lease lasts from a renewal on.
    lease: Duration,
    state: Mutex<State>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// When the request began that last renewed the lease.
    renewed: Option<Duration>,
    /// Writes on their way.
    passing: usize,
}

/// The lease does not cover the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not sent: this scheduler does not hold its lease, or has not renewed it in time")]
pub struct Closed;

impl Fence {
    /// A fence that is closed until the lease is renewed. A renewal counts for writes that leave within `renew_deadline`, and for
    /// `lease` in all.
    pub fn new(clock: BootClock, renew_deadline: Duration, lease: Duration) -> Self {
        let gate = Gate { clock, renew_deadline, lease, state: Mutex::default(), ended: Notify::new() };
        Self { gate: Some(Arc::new(gate)) }
    }

    /// The lease was renewed by a request that began at `at`.
    pub(crate) fn renewed(&self, at: Duration) {
        if let Some(gate) = &self.gate {
            gate.state().renewed = Some(at);
        }
    }

    /// Lets nothing pass until the lease is renewed.
    pub(super) fn close(&self) {
        if let Some(gate) = &self.gate {
            gate.state().renewed = None;
        }
    }

    /// Asks whether a write may leave now.
    ///
    /// # Errors
    /// When it may not.
    pub fn pass(&self) -> Result<Passage, Closed> {
        let Some(gate) = &self.gate else { return Ok(Passage { covered: None }) };
        let now = gate.clock.now();
        let mut state = gate.state();
        let fresh = |renewed: &Duration| now.saturating_sub(*renewed) < gate.renew_deadline.min(gate.lease);
        let renewed = state.renewed.filter(fresh).ok_or(Closed)?;
        state.passing += 1;
        Ok(Passage { covered: Some(Covered { gate: Arc::clone(gate), until: renewed + gate.lease }) })
    }

    /// Waits until no write is on its way any more.
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

/// The right of one write to be on its way; it counts as being so until this is dropped.
#[derive(Debug)]
#[must_use = "the write counts as on its way only while this is kept"]
pub struct Passage {
    covered: Option<Covered>,
}

#[derive(Debug)]
struct Covered {
    gate: Arc<Gate>,
    /// When the lease ends, by its clock.
    until: Duration,
}

impl Passage {
    /// For what changes nothing.
    pub(crate) fn of_a_question() -> Self {
        Self { covered: None }
    }

    /// How long the lease lasts; `None` without one.
    pub fn left(&self) -> Option<Duration> {
        self.covered.as_ref().map(|covered| covered.until.saturating_sub(covered.gate.clock.now()))
    }

    /// Carries out `work`, but does not go on with it once the lease is over: it may still wait for a connection then.
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

/// Work under the lease. Ends with an error, as late as it is looked at, when the lease is over.
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

    /// A fence of ten and fifteen seconds, and the clock it looks at, in milliseconds.
    fn fence() -> (Fence, Arc<AtomicU64>) {
        let time = Arc::new(AtomicU64::new(1_000_000));
        let read = Arc::clone(&time);
        let clock = BootClock::of(move || Duration::from_millis(read.load(Ordering::Relaxed)));
        (Fence::new(clock, 10 * SECOND, 15 * SECOND), time)
    }

    #[test]
    fn nothing_passes_before_the_first_renewal_and_after_the_lease_was_given_up() {
        let (fence, _) = fence();
        assert_eq!(fence.pass().expect_err("nobody leads"), Closed);
        fence.renewed(1_000 * SECOND);
        assert!(fence.pass().is_ok());
        fence.close();
        assert_eq!(fence.pass().expect_err("it was given up"), Closed);
    }

    #[test]
    fn a_renewal_counts_for_as_long_as_the_renew_deadline_although_nobody_says_that_it_is_over() {
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
    fn what_passes_has_what_is_left_of_the_lease() {
        let (fence, time) = fence();
        fence.renewed(1_000 * SECOND);
        time.store(1_004_000, Ordering::Relaxed);
        let passage = fence.pass().expect("it was renewed four seconds ago");
        assert_eq!(passage.left(), Some(11 * SECOND));
        // A renewal meanwhile lengthens nothing for what is on its way.
        fence.renewed(1_004 * SECOND);
        assert_eq!(passage.left(), Some(11 * SECOND));
        assert_eq!(Fence::default().pass().expect("there is no lease").left(), None);
    }

    #[tokio::test]
    async fn work_that_wakes_up_after_the_lease_is_not_gone_on_with() {
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
        assert_eq!(began.load(Ordering::Relaxed), 0, "what would have been sent after the pause was not");
    }

    #[tokio::test]
    async fn it_is_quiet_once_nothing_is_on_its_way() {
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
