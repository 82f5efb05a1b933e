//! One scrape: what was recorded, what the core says now, and the process, as text.
//!
//! A core that does not answer in time costs the scrape its own gauges, never the rest.

use std::sync::Arc;
use std::time::Duration;

use prometheus::proto::MetricFamily;

use super::core_stats::CoreSource;
use super::text::{Plain, encode, plain_family};
use super::{Metrics, families, process};

/// How long a scrape waits for the core. Prometheus gives up after 10 s by default; the core answers
/// between two decisions, so this much silence already means that something is wrong.
const CORE_DEADLINE: Duration = Duration::from_secs(2);

/// How full a bounded channel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelFill {
    /// Messages that wait.
    pub length: usize,
    /// Messages that may wait.
    pub capacity: usize,
}

type ChannelSource = Box<dyn Fn() -> ChannelFill + Send + Sync>;

/// Everything `/metrics` shows.
pub struct Exposition {
    metrics: Arc<Metrics>,
    core: Option<CoreSource>,
    core_deadline: Duration,
    event_channel: Option<ChannelSource>,
    log_lines_lost: Option<Box<dyn Fn() -> u64 + Send + Sync>>,
}

impl Exposition {
    /// What is recorded in `metrics`, and the process.
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, core: None, core_deadline: CORE_DEADLINE, event_channel: None, log_lines_lost: None }
    }

    /// Asks the core on every scrape.
    #[must_use]
    pub fn with_core(mut self, core: CoreSource) -> Self {
        self.core = Some(core);
        self
    }

    /// Waits this long for the core instead of two seconds.
    #[must_use]
    pub fn with_core_deadline(mut self, deadline: Duration) -> Self {
        self.core_deadline = deadline;
        self
    }

    /// Shows the fill of the event channel on every scrape.
    #[must_use]
    pub fn with_event_channel(mut self, fill: impl Fn() -> ChannelFill + Send + Sync + 'static) -> Self {
        self.event_channel = Some(Box::new(fill));
        self
    }

    /// Shows on every scrape how many log lines were lost.
    #[must_use]
    pub fn with_log_lines_lost(mut self, lost: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.log_lines_lost = Some(Box::new(lost));
        self
    }

    /// The text of `/metrics`, of content type [`super::CONTENT_TYPE`].
    pub async fn render(&self) -> String {
        // The core first: whether it answered is itself recorded.
        let mut all = self.core_families().await;
        all.extend(self.metrics.recorded());
        all.extend(process::families());
        if let Some(fill) = self.event_channel.as_ref().map(|fill| fill()) {
            all.push(single_gauge(&families::EVENT_CHANNEL_LENGTH, fill.length));
            all.push(single_gauge(&families::EVENT_CHANNEL_CAPACITY, fill.capacity));
        }
        if let Some(lost) = self.log_lines_lost.as_ref().map(|lost| lost()) {
            all.push(plain_family(&families::LOG_LINES_LOST, Plain::Counter, [([], lost as f64)]));
        }
        encode(all)
    }

    async fn core_families(&self) -> Vec<MetricFamily> {
        let Some(core) = &self.core else { return Vec::new() };
        match tokio::time::timeout(self.core_deadline, core()).await {
            Ok(Some(stats)) => stats.families(),
            Ok(None) | Err(_) => {
                self.metrics.core_scrape_failures.inc();
                tracing::warn!(deadline = ?self.core_deadline, "the scheduling thread did not answer a scrape");
                Vec::new()
            }
        }
    }
}

fn single_gauge(family: &families::Family, value: usize) -> MetricFamily {
    plain_family(family, Plain::Gauge, [([], value as f64)])
}
