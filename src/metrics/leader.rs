//! What is counted of leader election, under upstream's names (`component-base/metrics/prometheus/clientgo/leaderelection`).

use prometheus::{IntCounter, IntGauge};

/// The value of the label `name`: upstream's elector has this one, whatever the lease is called.
pub(super) const NAME: &str = "kube-scheduler";

/// Records who leads. Cheap to clone.
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

    /// Whether this one leads, from now on.
    pub fn leads(&self, leads: bool) {
        self.master.set(leads.into());
    }

    /// The lease was renewed by reading it first.
    pub fn slow_path(&self) {
        self.slow_path.inc();
    }
}
