//! Renders `/metrics`: recorded series, the engine's current numbers and the process's, as text.
//!
//! If the engine does not answer in time, only its own families are missing.

use std::sync::Arc;
use std::time::Duration;

use prometheus::proto::MetricFamily;
use supercargo_config::flags::gates::Gate;
use supercargo_core::model::emulation::EmulatedVersion;

use crate::telemetry::metrics::component::{self, Selection};
use crate::telemetry::metrics::core_stats::CoreSource;
use crate::telemetry::metrics::text::{Plain, encode, plain_family};
use crate::telemetry::metrics::{Metrics, families, process, versions};

/// Timeout for the engine's numbers. The engine answers between two decisions, so two seconds already indicate
/// a problem; Prometheus' own scrape timeout is 10 s.
const CORE_DEADLINE: Duration = Duration::from_secs(2);

/// Fill level of a bounded channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelFill {
    /// Queued messages.
    pub length: usize,
    /// Maximum number of queued messages.
    pub capacity: usize,
}

type ChannelSource = Box<dyn Fn() -> ChannelFill + Send + Sync>;

/// The version of kube-scheduler that the program behaves as, and its feature gates.
#[derive(Clone, Debug)]
pub struct Kubernetes {
    /// The minor version.
    pub version: EmulatedVersion,
    /// The version that `kubernetes_build_info` reports.
    pub git_version: String,
    /// Its feature gates.
    pub gates: Vec<Gate>,
}

type KubernetesSource = Box<dyn Fn() -> Kubernetes + Send + Sync>;

/// Renders everything that `/metrics` shows.
pub struct Exposition {
    metrics: Arc<Metrics>,
    core: Option<CoreSource>,
    core_deadline: Duration,
    event_channel: Option<ChannelSource>,
    log_lines_lost: Option<Box<dyn Fn() -> u64 + Send + Sync>>,
    selection: Selection,
    kubernetes: Option<KubernetesSource>,
}

impl Exposition {
    /// Exposes the series recorded in `metrics` and the process's own.
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            metrics,
            core: None,
            core_deadline: CORE_DEADLINE,
            event_channel: None,
            log_lines_lost: None,
            selection: Selection::default(),
            kubernetes: None,
        }
    }

    /// Queries the engine on every scrape.
    #[must_use]
    pub fn with_core(mut self, core: CoreSource) -> Self {
        self.core = Some(core);
        self
    }

    /// Sets the timeout for the engine's answer (default 2 s).
    #[must_use]
    pub fn with_core_deadline(mut self, deadline: Duration) -> Self {
        self.core_deadline = deadline;
        self
    }

    /// Shows the fill level of the event channel.
    #[must_use]
    pub fn with_event_channel(mut self, fill: impl Fn() -> ChannelFill + Send + Sync + 'static) -> Self {
        self.event_channel = Some(Box::new(fill));
        self
    }

    /// Shows the number of lost log lines.
    #[must_use]
    pub fn with_log_lines_lost(mut self, lost: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.log_lines_lost = Some(Box::new(lost));
        self
    }

    /// Leaves out metrics and label values that are not selected.
    #[must_use]
    pub fn with_selection(mut self, selection: Selection) -> Self {
        self.selection = selection;
        self
    }

    /// Shows the version of kube-scheduler that the program behaves as, and its feature gates.
    #[must_use]
    pub fn with_kubernetes(mut self, source: impl Fn() -> Kubernetes + Send + Sync + 'static) -> Self {
        self.kubernetes = Some(Box::new(source));
        self
    }

    /// Renders the text of `/metrics`, in the format [`crate::telemetry::metrics::CONTENT_TYPE`].
    pub async fn render(&self) -> String {
        let kubernetes = self.kubernetes.as_ref().map(|source| source());
        let version = kubernetes.as_ref().map_or_else(EmulatedVersion::default, |it| it.version);
        // The engine first: a timeout is itself counted in the recorded series.
        let mut all = self.core_families(version).await;
        all.extend(self.metrics.recorded());
        all.extend(process::families());
        if let Some(fill) = self.event_channel.as_ref().map(|fill| fill()) {
            all.push(single_gauge(&families::EVENT_CHANNEL_LENGTH, fill.length));
            all.push(single_gauge(&families::EVENT_CHANNEL_CAPACITY, fill.capacity));
        }
        if let Some(lost) = self.log_lines_lost.as_ref().map(|lost| lost()) {
            all.push(plain_family(&families::LOG_LINES_LOST, Plain::Counter, [([], lost as f64)]));
        }
        if let Some(kubernetes) = kubernetes {
            all.extend([component::build_info(&kubernetes.git_version), component::gates(&kubernetes.gates)]);
        }
        let (mut all, hidden) = versions::adapt(all, version, self.selection.shows_hidden());
        all.extend(self.selection.numbers(&all, hidden));
        encode(self.selection.apply(all))
    }

    async fn core_families(&self, version: EmulatedVersion) -> Vec<MetricFamily> {
        let Some(core) = &self.core else { return Vec::new() };
        match tokio::time::timeout(self.core_deadline, core()).await {
            Ok(Some(stats)) => stats.families(version),
            Ok(None) | Err(_) => {
                self.metrics.core_scrape_failures.inc();
                tracing::warn!(deadline = ?self.core_deadline, "scheduling thread did not answer a scrape in time; its metrics are missing");
                Vec::new()
            }
        }
    }
}

fn single_gauge(family: &families::Family, value: usize) -> MetricFamily {
    plain_family(family, Plain::Gauge, [([], value as f64)])
}
