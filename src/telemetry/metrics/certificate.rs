//! Metrics of serving-certificate reloads.

use crate::telemetry::metrics::{Metrics, families};
use prometheus::{IntCounter, IntGauge, Registry};

/// Counts reloads of the serving certificate. All series exist from the start. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CertificateMetrics {
    applied: IntCounter,
    invalid: IntCounter,
    success: IntGauge,
}

impl CertificateMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let reloads = families::CERTIFICATE_RELOADS.counter_vec(registry);
        let of = |result| reloads.with_label_values(&[result]);
        let success = families::CERTIFICATE_LAST_RELOAD_SUCCESS.gauge_vec(registry);
        let success = success.with_label_values::<&str>(&[]);
        success.set(1);
        Self { applied: of("applied"), invalid: of("invalid"), success }
    }

    /// Records that a changed certificate was loaded and is now served.
    pub fn applied(&self) {
        self.applied.inc();
        self.success.set(1);
    }

    /// Records that the changed files are unusable. The previous certificate stays in use.
    pub fn invalid(&self) {
        self.invalid.inc();
        self.success.set(0);
    }

    /// Records that the files match the served certificate again.
    pub fn read_again(&self) {
        self.success.set(1);
    }
}

impl Metrics {
    /// Returns the recorder of serving-certificate reloads.
    pub fn certificates(&self) -> CertificateMetrics {
        self.certificates.clone()
    }
}
