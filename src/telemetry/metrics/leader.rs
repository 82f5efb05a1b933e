//! Leader-election metrics under upstream's names (`component-base/metrics/prometheus/clientgo/leaderelection`).

use prometheus::{IntCounter, IntGauge};

/// Value of the label `name`. Upstream's elector uses this one for every lease name.
pub(super) const NAME: &str = "kube-scheduler";

/// Records leadership. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LeaderMetrics {
    master: IntGauge,
    slow_path: IntCounter,
}

impl LeaderMetrics {
    pub(super) fn new(master: IntGauge, slow_path: IntCounter) -> Self {
        master.set(0);
        Self { master, slow_path }
    }

    /// Records whether this replica leads.
    pub fn leads(&self, leads: bool) {
        self.master.set(leads.into());
    }

    /// Records a renewal that had to read the lease first.
    pub fn slow_path(&self) {
        self.slow_path.inc();
    }
}
