//! Pauses between tries.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

pub(crate) use crate::telemetry::Throttle;

/// `pause`, lengthened by up to `fraction` of itself, so that clients that failed together do not come back together.
pub(crate) fn jittered(pause: Duration, fraction: f64) -> Duration {
    // A fresh random state is the only source of randomness the standard library has.
    let random = RandomState::new().build_hasher().finish();
    pause.mul_f64(1.0 + fraction * (random as f64 / u64::MAX as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_only_lengthens_and_only_by_its_fraction() {
        let pause = Duration::from_secs(10);
        for _ in 0..100 {
            let jittered = jittered(pause, 0.25);
            assert!(jittered >= pause && jittered <= Duration::from_millis(12_501), "{jittered:?}");
        }
    }
}
