//! A clock that counts suspend time: Linux `CLOCK_BOOTTIME`.
//!
//! A leader that was stopped or suspended must notice on resume that its lease has expired. The clock has no
//! calendar time.

use std::sync::Arc;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Returns the time since boot, suspend included. Cheap to clone.
#[derive(Clone)]
pub struct BootClock {
    read: Arc<dyn Fn() -> Duration + Send + Sync>,
}

impl BootClock {
    /// Returns the machine's clock.
    pub fn of_the_machine() -> Self {
        Self::of(|| {
            let time = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("Linux has had this clock since 2.6.39");
            Duration::from(time)
        })
    }

    /// Wraps any clock that never runs backwards.
    pub fn of(read: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self { read: Arc::new(read) }
    }

    /// Returns the time since a fixed, unspecified moment.
    pub fn now(&self) -> Duration {
        (self.read)()
    }
}

impl std::fmt::Debug for BootClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("BootClock").field(&self.now()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_clock_never_runs_backwards() {
        let clock = BootClock::of_the_machine();
        let (first, second) = (clock.now(), clock.now());
        assert!(first > Duration::ZERO && second >= first);
    }
}
