//! What becomes of spans that are made for a collector; all series are there from the start, whether spans are made or not.

use super::{Metrics, families};
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

    /// The collector took so many.
    pub fn sent(&self, spans: usize) {
        self.sent.inc_by(spans as u64);
    }

    /// So many were lost, since the collector did not take them.
    pub fn failed(&self, spans: usize) {
        self.failed.inc_by(spans as u64);
    }

    /// So many were lost, since too many waited.
    pub fn dropped(&self, spans: usize) {
        self.dropped.inc_by(spans as u64);
    }
}

impl Metrics {
    /// Where spans are counted.
    pub fn trace_spans(&self) -> TraceSpans {
        self.trace_spans.clone()
    }
}
