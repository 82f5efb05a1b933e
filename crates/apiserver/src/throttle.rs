//! Rate limit for repeated log lines.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Admits one of many equal messages per period.
#[derive(Debug)]
pub struct Throttle {
    period: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: Option<Instant>,
    withheld: u64,
}

impl Throttle {
    /// Admits one message per `period`.
    pub fn new(period: Duration) -> Self {
        Self { period, state: Mutex::default() }
    }

    /// Returns `Some` if the message may be logged now, with the number of messages suppressed since the last one.
    pub fn admit(&self) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.last.is_some_and(|last| last.elapsed() < self.period) {
            state.withheld += 1;
            return None;
        }
        state.last = Some(Instant::now());
        Some(std::mem::take(&mut state.withheld))
    }

    /// Resets the limit, so the next message is admitted.
    pub fn reset(&self) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = State::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_message_per_period_counts_suppressed_ones() {
        let throttle = Throttle::new(Duration::from_secs(60));
        assert_eq!(throttle.admit(), Some(0));
        assert_eq!((throttle.admit(), throttle.admit()), (None, None));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(throttle.admit(), Some(2));
        throttle.reset();
        assert_eq!(throttle.admit(), Some(0));
    }
}
