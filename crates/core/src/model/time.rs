//! Time in the engine: a value passed with every call. Nothing here reads a clock.

use std::fmt;
use std::num::NonZeroU64;
use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in time: nanoseconds since the Unix epoch. The caller supplies it and guarantees that it never
/// decreases.
///
/// It is wall time because backoff ends on whole seconds of the wall clock (upstream
/// `pkg/scheduler/backend/queue/backoff_queue.go`).
///
/// The value is stored plus one, so that `Option<Time>` has the same size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(NonZeroU64);

const NANOS_PER_SECOND: u64 = 1_000_000_000;

impl Time {
    /// The point `nanos` nanoseconds after the Unix epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(nanos))
    }

    /// The point `seconds` seconds after the Unix epoch.
    pub const fn from_secs(seconds: u64) -> Self {
        Self::from_nanos(seconds.saturating_mul(NANOS_PER_SECOND))
    }

    /// Nanoseconds since the Unix epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0.get() - 1
    }

    /// Truncates to a whole second.
    #[must_use]
    pub const fn truncate_to_second(self) -> Self {
        Self::from_nanos(self.as_nanos() - self.as_nanos() % NANOS_PER_SECOND)
    }

    /// Returns the time elapsed since `earlier`, or zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.as_nanos().saturating_sub(earlier.as_nanos()))
    }
}

impl Default for Time {
    fn default() -> Self {
        Self::from_nanos(0)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Time").field(&self.as_nanos()).finish()
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, wait: Duration) -> Self {
        Self::from_nanos(self.as_nanos().saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub for Time {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}
