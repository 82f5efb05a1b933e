//! By how much the engine and the API server differed when they were last compared.

use super::{Metrics, families};
use prometheus::{IntGaugeVec, Registry};

/// The gauges, all there from the start.
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
    /// So many objects of a kind the API server has and the engine has not, and the other way round.
    pub fn drifted(&self, kind: &str, missed: usize, redundant: usize) {
        for (which, count) in [("missed", missed), ("redundant", redundant)] {
            self.cache_drift.with_label_values(&[kind, which]).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }
}
