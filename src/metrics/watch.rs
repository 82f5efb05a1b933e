//! The metrics of one watch: what it read and could not read, how often it broke, how long it has been silent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus::IntCounter;
use tokio::time::Instant;

use crate::api::Encoding;

/// Records what happens on the watch of one kind. Cheap to clone.
#[derive(Clone, Debug)]
pub struct WatchMetrics {
    malformed: IntCounter,
    restarts: IntCounter,
    received: [IntCounter; Encoding::ALL.len()],
    epoch: Instant,
    /// Milliseconds from `epoch` to the last sign of life.
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

    /// Something arrived: an object, a bookmark, the end of a list.
    pub fn heard(&self) {
        let since = self.epoch.elapsed().as_millis();
        self.last_heard.store(u64::try_from(since).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// So many bytes of a list or of an event arrived.
    pub fn received(&self, encoding: Encoding, bytes: usize) {
        self.received[encoding as usize].inc_by(bytes as u64);
    }

    /// The watch ended and is started again.
    pub fn restarted(&self) {
        self.restarts.inc();
    }

    /// An object, or a field of one, could not be read and was skipped.
    pub fn malformed(&self) {
        self.malformed.inc();
    }

    /// Seconds since the last sign of life, or since the watch was set up.
    pub(super) fn age_seconds(&self) -> f64 {
        let heard = std::time::Duration::from_millis(self.last_heard.load(Ordering::Relaxed));
        self.epoch.elapsed().saturating_sub(heard).as_secs_f64()
    }
}
