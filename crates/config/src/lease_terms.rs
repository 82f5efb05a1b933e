//! Durations of leader election.

use std::time::Duration;

/// Jitter of a retry pause: up to this fraction of the pause is added (client-go's `JitterFactor`).
pub const RETRY_JITTER: f64 = 1.2;

/// Durations of leader election (KubeSchedulerConfiguration `leaderElection`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    /// How long a candidate waits after it last saw a renewal before it takes the lease.
    pub lease_duration: Duration,
    /// How long the leader retries a renewal before it gives up leadership.
    pub renew_deadline: Duration,
    /// Pause between two attempts.
    pub retry_period: Duration,
}

impl LeaseTerms {
    /// The lease duration as written to the Lease: whole seconds.
    pub fn lease_seconds(&self) -> i32 {
        i32::try_from(self.lease_duration.as_secs()).unwrap_or(i32::MAX)
    }
}
