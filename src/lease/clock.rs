//! A clock that goes on while the process is stopped and while the machine sleeps: `CLOCK_BOOTTIME`.
//!
//! Whoever holds a lease and was not there for a while must not take the time before for the time now. It knows no date.

use std::sync::Arc;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Tells how long the machine has been up, sleep included. Cheap to clone.
#[derive(Clone)]
pub struct BootClock {
    read: Arc<dyn Fn() -> Duration + Send + Sync>,
}

impl BootClock {
    /// The machine's.
    pub fn of_the_machine() -> Self {
        Self::of(|| {
            let time = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("Linux has had this clock since 2.6.39");
            Duration::from(time)
        })
    }

    /// Any clock that never runs backwards.
    pub fn of(read: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self { read: Arc::new(read) }
    }

    /// The time since some moment that stays the same.
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
    fn the_machines_clock_goes_on() {
        let clock = BootClock::of_the_machine();
        let (first, second) = (clock.now(), clock.now());
        assert!(first > Duration::ZERO && second >= first);
    }
}
