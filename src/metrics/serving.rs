//! What clients of the HTTPS port are denied.

use super::{Metrics, families};
use prometheus::{IntCounter, Registry};

/// Counts connections that were closed to make room. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ServingMetrics {
    evicted: IntCounter,
}

impl ServingMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        Self { evicted: families::CONNECTIONS_EVICTED.counter(registry) }
    }

    /// A connection was closed because there were too many.
    pub fn evicted(&self) {
        self.evicted.inc();
    }
}

impl Metrics {
    /// Where evicted connections are counted.
    pub fn serving(&self) -> ServingMetrics {
        self.serving.clone()
    }
}
