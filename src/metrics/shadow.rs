//! What shadow mode counts. The series are there in every mode, at 0, so that a rule over them is never about nothing.

use super::{Metrics, families};
use prometheus::{Histogram, IntCounterVec, Registry};
use supercargo_core::shadow::{Agreement, Unjudged};

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
    /// A decision of the other scheduler was judged.
    pub fn shadow_judged(&self, agreement: Agreement, regret: Option<i64>) {
        self.shadow.decisions.with_label_values(&[agreement.as_str()]).inc();
        if let Some(regret) = regret {
            self.shadow.regret.observe(regret as f64);
        }
    }

    /// A decision of the other scheduler was not judged.
    pub fn shadow_unjudged(&self, why: Unjudged) {
        self.shadow.unjudged.with_label_values(&[why.as_str()]).inc();
    }
}
