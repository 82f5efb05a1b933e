//! Retry pauses.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{Response, StatusCode};

/// Returns `pause` lengthened by a random part of up to `fraction`, so that clients that failed together do
/// not retry together.
pub fn jittered(pause: Duration, fraction: f64) -> Duration {
    // `RandomState` is the only source of randomness in the standard library.
    let random = RandomState::new().build_hasher().finish();
    pause.mul_f64(1.0 + fraction * (random as f64 / u64::MAX as f64))
}

/// Returns the pause a response asks for with `Retry-After`, which is honored on 429 and 5xx only.
pub fn retry_after<B>(response: &Response<B>) -> Option<Duration> {
    let status = response.status();
    if status != StatusCode::TOO_MANY_REQUESTS && !status.is_server_error() {
        return None;
    }
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.parse::<u32>().ok()?;
    Some(Duration::from_secs(seconds.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_lengthens_a_pause_by_at_most_its_fraction() {
        let pause = Duration::from_secs(10);
        for _ in 0..100 {
            let jittered = jittered(pause, 0.25);
            assert!(jittered >= pause && jittered <= Duration::from_millis(12_501), "{jittered:?}");
        }
    }
}
