//! Limits how often a log line is repeated.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Lets one of many equal messages through in each period.
#[derive(Debug)]
pub(crate) struct Throttle {
    period: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: Option<Instant>,
    withheld: u64,
}

impl Throttle {
    /// One message in each `period`.
    pub(crate) fn new(period: Duration) -> Self {
        Self { period, state: Mutex::default() }
    }

    /// Whether to say it now; if so, how often it was not said since the last time.
    pub(crate) fn admit(&self) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.last.is_some_and(|last| last.elapsed() < self.period) {
            state.withheld += 1;
            return None;
        }
        state.last = Some(Instant::now());
        Some(std::mem::take(&mut state.withheld))
    }

    /// Forgets what was said: the next message is news.
    pub(crate) fn reset(&self) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = State::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_message_in_each_period_tells_how_many_were_withheld() {
        let throttle = Throttle::new(Duration::from_secs(60));
        assert_eq!(throttle.admit(), Some(0));
        assert_eq!((throttle.admit(), throttle.admit()), (None, None));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(throttle.admit(), Some(2));
        throttle.reset();
        assert_eq!(throttle.admit(), Some(0));
    }
}
