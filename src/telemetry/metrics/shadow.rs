//! Shadow-mode metrics. All series exist at 0 in every mode, so alerting rules always have data.

use crate::telemetry::metrics::{Metrics, families};
use prometheus::{Histogram, IntCounterVec, Registry};
use supercargo_core::compare::Agreement;
use supercargo_core::shadow::Unjudged;

/// The series of shadow mode.
#[derive(Debug)]
pub(super) struct ShadowMetrics {
    decisions: IntCounterVec,
    unjudged: IntCounterVec,
    regret: Histogram,
}

impl ShadowMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let decisions = families::SHADOW_DECISIONS.counter_vec(registry);
        for agreement in Agreement::ALL {
            decisions.with_label_values(&[agreement.as_str()]);
        }
        let unjudged = families::SHADOW_UNJUDGED.counter_vec(registry);
        for why in Unjudged::ALL {
            unjudged.with_label_values(&[why.as_str()]);
        }
        Self { decisions, unjudged, regret: families::SHADOW_SCORE_REGRET.histogram(registry) }
    }
}

impl Metrics {
    /// Records a compared decision of the other scheduler.
    pub fn shadow_judged(&self, agreement: Agreement, regret: Option<i64>) {
        self.shadow.decisions.with_label_values(&[agreement.as_str()]).inc();
        if let Some(regret) = regret {
            self.shadow.regret.observe(regret as f64);
        }
    }

    /// Counts a decision of the other scheduler that was not compared.
    pub fn shadow_unjudged(&self, why: Unjudged) {
        self.shadow.unjudged.with_label_values(&[why.as_str()]).inc();
    }
}
