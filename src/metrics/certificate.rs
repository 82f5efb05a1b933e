//! What became of changes of the serving certificate's files.

use super::{Metrics, families};
use prometheus::{IntCounter, IntGauge, Registry};

/// Counts changes of the files; all series are there from the start. Cheap to clone.
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

    /// Clients are shown what the files have now.
    pub fn applied(&self) {
        self.applied.inc();
        self.success.set(1);
    }

    /// The files cannot be used; clients are shown what was good last.
    pub fn invalid(&self) {
        self.invalid.inc();
        self.success.set(0);
    }

    /// The files are again what clients are shown.
    pub fn read_again(&self) {
        self.success.set(1);
    }
}

impl Metrics {
    /// Where changes of the serving certificate are counted.
    pub fn certificates(&self) -> CertificateMetrics {
        self.certificates.clone()
    }
}
