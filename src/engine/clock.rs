//! The engine's clock: wall-clock time at start, advanced by the monotonic clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use supercargo_core::model::time::Time;

/// A clock that never runs backwards, even if the machine's wall clock is set back.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    wall: Time,
}

impl Default for Clock {
    fn default() -> Self {
        Self::start()
    }
}

impl Clock {
    /// Starts a clock at the machine's current wall-clock time.
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: Instant::now(), wall: Time::default() + since_epoch }
    }

    /// Returns the current time.
    pub fn now(&self) -> Time {
        self.wall + self.started.elapsed()
    }

    /// Returns the time left until `at`, or zero if `at` has passed.
    pub fn until(&self, at: Time) -> Duration {
        at.since(self.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_starts_at_wall_clock_time_and_never_runs_backwards() {
        let before = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
        let clock = Clock::start();
        let (first, second) = (clock.now(), clock.now());
        assert!(u128::from(first.as_nanos()) >= before);
        assert!(second >= first);
        assert_eq!(clock.until(first), Duration::ZERO);
    }
}
