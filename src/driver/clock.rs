//! The engine's time: the wall clock as it was at start, moved on by the monotonic clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use supercargo_core::time::Time;

/// A clock that never runs backwards, whatever is done to the machine's.
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
    /// A clock that starts with the machine's time.
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: Instant::now(), wall: Time::default() + since_epoch }
    }

    /// The time it is.
    pub fn now(&self) -> Time {
        self.wall + self.started.elapsed()
    }

    /// How long it is until `at`; nothing when that has passed.
    pub fn until(&self, at: Time) -> Duration {
        at.since(self.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_starts_at_the_wall_clock_and_does_not_run_backwards() {
        let before = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
        let clock = Clock::start();
        let (first, second) = (clock.now(), clock.now());
        assert!(u128::from(first.as_nanos()) >= before);
        assert!(second >= first);
        assert_eq!(clock.until(first), Duration::ZERO);
    }
}
