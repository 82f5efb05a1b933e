//! Metrics of one watch: bytes received, malformed objects, restarts and silence.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus::IntCounter;
use tokio::time::Instant;

use supercargo_apiserver::watch::WatchObserver;
use supercargo_objects::api::Encoding;

/// Records metrics of the watch of one kind. Cheap to clone.
#[derive(Clone, Debug)]
pub struct WatchMetrics {
    malformed: IntCounter,
    restarts: IntCounter,
    received: [IntCounter; Encoding::ALL.len()],
    epoch: Instant,
    /// Milliseconds from `epoch` to the last message.
    last_heard: Arc<AtomicU64>,
}

impl WatchMetrics {
    pub(super) fn new(
        malformed: IntCounter,
        restarts: IntCounter,
        received: [IntCounter; Encoding::ALL.len()],
    ) -> Self {
        Self { malformed, restarts, received, epoch: Instant::now(), last_heard: Arc::default() }
    }

    /// Returns the seconds since the last message, or since the watch was created.
    pub(super) fn age_seconds(&self) -> f64 {
        let heard = std::time::Duration::from_millis(self.last_heard.load(Ordering::Relaxed));
        self.epoch.elapsed().saturating_sub(heard).as_secs_f64()
    }
}

impl WatchObserver for WatchMetrics {
    fn heard(&self) {
        let since = self.epoch.elapsed().as_millis();
        self.last_heard.store(u64::try_from(since).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn received(&self, encoding: Encoding, bytes: usize) {
        self.received[encoding as usize].inc_by(bytes as u64);
    }

    fn restarted(&self) {
        self.restarts.inc();
    }

    fn malformed(&self) {
        self.malformed.inc();
    }
}
