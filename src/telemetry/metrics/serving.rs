//! Metrics of the HTTPS server.

use crate::telemetry::metrics::{Metrics, families};
use prometheus::{IntCounter, Registry};

/// Counts closed client connections. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ServingMetrics {
    evicted: IntCounter,
}

impl ServingMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        Self { evicted: families::CONNECTIONS_EVICTED.counter(registry) }
    }

    /// Counts a connection that was closed because too many were open.
    pub fn evicted(&self) {
        self.evicted.inc();
    }
}

impl Metrics {
    /// Returns the recorder of the HTTPS server's metrics.
    pub fn serving(&self) -> ServingMetrics {
        self.serving.clone()
    }
}
