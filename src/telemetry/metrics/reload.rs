//! Metrics of configuration file reloads and of the emulated version.

use crate::telemetry::metrics::{Metrics, families};
use prometheus::{IntCounterVec, IntGauge, IntGaugeVec, Registry};
use supercargo_core::model::emulation::EmulatedVersion;

/// Result of a configuration file change (label `result`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReloadResult {
    /// The whole file is active.
    Applied,
    /// Some fields take effect only after a restart; the rest is active.
    NeedsRestart,
    /// The file is invalid; the previous configuration stays active.
    Invalid,
}

impl ReloadResult {
    const ALL: [Self; 3] = [Self::Applied, Self::NeedsRestart, Self::Invalid];

    fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::NeedsRestart => "needs_restart",
            Self::Invalid => "invalid",
        }
    }
}

/// Series of configuration reloads. All exist from the start.
#[derive(Debug)]
pub(super) struct ReloadMetrics {
    reloads: IntCounterVec,
    success: IntGauge,
    restart_needed: IntGauge,
    emulated_version: IntGaugeVec,
}

impl ReloadMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let reloads = families::CONFIG_RELOADS.counter_vec(registry);
        for result in ReloadResult::ALL {
            reloads.with_label_values(&[result.as_str()]);
        }
        let gauge = |family: &families::Family| family.gauge_vec(registry).with_label_values::<&str>(&[]);
        let success = gauge(&families::CONFIG_LAST_RELOAD_SUCCESS);
        success.set(1);
        let restart_needed = gauge(&families::CONFIG_RESTART_NEEDED);
        let emulated_version = families::EMULATED_VERSION.gauge_vec(registry);
        Self { reloads, success, restart_needed, emulated_version }
    }
}

impl Metrics {
    /// Records a change of the configuration file.
    pub fn config_reloaded(&self, result: ReloadResult) {
        self.config.reloads.with_label_values(&[result.as_str()]).inc();
        self.config.success.set(i64::from(result != ReloadResult::Invalid));
        if result != ReloadResult::Invalid {
            self.config.restart_needed.set(i64::from(result == ReloadResult::NeedsRestart));
        }
    }

    /// Sets the version of kube-scheduler that the scheduler behaves as.
    pub fn emulates(&self, version: EmulatedVersion) {
        self.config.emulated_version.reset();
        self.config.emulated_version.with_label_values(&[version.as_str()]).set(1);
    }

    /// Records that the configuration file matches the active configuration again.
    pub fn config_read_again(&self) {
        self.config.success.set(1);
        self.config.restart_needed.set(0);
    }
}
