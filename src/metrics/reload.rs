//! What became of changes of the configuration file.

use super::{Metrics, families};
use prometheus::{IntCounterVec, IntGauge, Registry};

/// What became of a change of the configuration file (label `result`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReloadResult {
    /// All of it is in force.
    Applied,
    /// What could be taken over is in force; the rest waits for a restart.
    NeedsRestart,
    /// It is not valid; the last good one stays in force.
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

/// The series about the configuration file, all there from the start.
#[derive(Debug)]
pub(super) struct ReloadMetrics {
    reloads: IntCounterVec,
    success: IntGauge,
    restart_needed: IntGauge,
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
        Self { reloads, success, restart_needed: gauge(&families::CONFIG_RESTART_NEEDED) }
    }
}

impl Metrics {
    /// The configuration file changed.
    pub fn config_reloaded(&self, result: ReloadResult) {
        self.config.reloads.with_label_values(&[result.as_str()]).inc();
        self.config.success.set(i64::from(result != ReloadResult::Invalid));
        if result != ReloadResult::Invalid {
            self.config.restart_needed.set(i64::from(result == ReloadResult::NeedsRestart));
        }
    }

    /// The configuration file comes to what is in force.
    pub fn config_read_again(&self) {
        self.config.success.set(1);
        self.config.restart_needed.set(0);
    }
}
