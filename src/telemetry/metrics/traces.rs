//! Counters of trace spans. All series exist from the start, even without a collector.

use crate::telemetry::metrics::{Metrics, families};
use prometheus::{IntCounter, IntCounterVec, Registry};

/// Counts spans. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TraceSpans {
    sent: IntCounter,
    failed: IntCounter,
    dropped: IntCounter,
}

impl TraceSpans {
    pub(super) fn new(registry: &Registry) -> Self {
        let spans: IntCounterVec = families::TRACE_SPANS.counter_vec(registry);
        let of = |result| spans.with_label_values(&[result]);
        Self { sent: of("sent"), failed: of("failed"), dropped: of("dropped") }
    }

    /// Counts spans that the collector accepted.
    pub fn sent(&self, spans: usize) {
        self.sent.inc_by(spans as u64);
    }

    /// Counts spans lost because the collector did not accept them.
    pub fn failed(&self, spans: usize) {
        self.failed.inc_by(spans as u64);
    }

    /// Counts spans lost because too many were queued.
    pub fn dropped(&self, spans: usize) {
        self.dropped.inc_by(spans as u64);
    }
}

impl Metrics {
    /// Returns the span counters.
    pub fn trace_spans(&self) -> TraceSpans {
        self.trace_spans.clone()
    }
}
