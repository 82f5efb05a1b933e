//! The times that binding and volume writes of unknown outcome share.

use std::time::Duration;

/// Two limits: how long an unconfirmed request is resent, and how long after the last unanswered copy it fails.
///
/// This is longer than an API server works on a request (`--request-timeout`, 60 s), so a lost copy cannot be carried
/// out later.
pub(super) const UNKNOWN_MAX: Duration = Duration::from_secs(75);

/// The longest interval between two queries or copies: a tenth of [`UNKNOWN_MAX`], so that an answer is noticed soon.
const INTERVAL_MAX: Duration = Duration::from_secs(8);

/// An interval between queries or copies of one request, which doubles each time.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetryInterval(Duration);

impl RetryInterval {
    /// Creates the interval with its first value.
    pub(super) fn starting_at(first: Duration) -> Self {
        Self(first)
    }

    /// Returns the interval, and doubles it up to 8 seconds for the next time.
    pub(super) fn advance(&mut self) -> Duration {
        let interval = self.0;
        self.0 = (interval * 2).min(INTERVAL_MAX);
        interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_interval_doubles_up_to_eight_seconds() {
        let mut interval = RetryInterval::starting_at(Duration::from_millis(500));
        let millis: Vec<_> = (0..6).map(|_| interval.advance().as_millis()).collect();
        assert_eq!(millis, [500, 1_000, 2_000, 4_000, 8_000, 8_000]);
    }
}
