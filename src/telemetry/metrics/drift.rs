//! Differences between the engine's cache and the API server, as of the last comparison.

use crate::telemetry::metrics::{Metrics, families};
use prometheus::{IntGaugeVec, Registry};

/// Registers the gauges with all their series.
pub(super) fn new(registry: &Registry) -> IntGaugeVec {
    let drift = families::CACHE_DRIFT.gauge_vec(registry);
    for kind in ["Node", "Pod"] {
        for which in ["missed", "redundant"] {
            drift.with_label_values(&[kind, which]);
        }
    }
    drift
}

impl Metrics {
    /// Records the result of a comparison for `kind`: objects missing from the engine, and objects only the engine has.
    pub fn drifted(&self, kind: &str, missed: usize, redundant: usize) {
        for (which, count) in [("missed", missed), ("redundant", redundant)] {
            self.cache_drift.with_label_values(&[kind, which]).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }
}
