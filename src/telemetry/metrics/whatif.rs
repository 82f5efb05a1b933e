//! Metrics of `supercargo whatif serve`: its requests, and the uploads and forks that it holds.

use std::time::Duration;

use prometheus::{HistogramVec, IntGaugeVec};

use super::Metrics;
use super::families::Family;

const REQUEST_DURATION: Family = Family::new(
    "supercargo_whatif_request_duration_seconds",
    "[ALPHA] Time from a request for the what-if server to its answer, by the last part of its path and the HTTP status code.",
    &["question", "code"],
)
.exponential(0.001, 2.0, 16);
const REQUESTS_WAITING: Family = Family::new(
    "supercargo_whatif_requests_waiting",
    "[ALPHA] Number of requests for the what-if server without an answer yet.",
    &[],
);
const HELD: Family = Family::new(
    "supercargo_whatif_held",
    "[ALPHA] Number of uploaded snapshots and of forks that the what-if server holds.",
    &["kind"],
);

/// The values of the label `question`; others count as `other`, since clients choose the path.
const QUESTIONS: [&str; 14] = [
    "snapshots",
    "forks",
    "place",
    "evict",
    "removeNodes",
    "addNodes",
    "setConfig",
    "undo",
    "diff",
    "fits",
    "feasible",
    "scaleUp",
    "explain",
    "openapi.json",
];
const PLANS: [&str; 3] = ["freeNodes", "makeRoom", "rebalance"];

/// Metrics of the what-if server. They exist in its process only.
#[derive(Clone, Debug)]
pub struct WhatifMetrics {
    durations: HistogramVec,
    waiting: IntGaugeVec,
    held: IntGaugeVec,
}

impl WhatifMetrics {
    /// Adds the metrics to those of the process.
    pub fn register(metrics: &Metrics) -> Self {
        let registry = &metrics.registry;
        let whatif = Self {
            durations: REQUEST_DURATION.histogram_vec(registry),
            waiting: REQUESTS_WAITING.gauge_vec(registry),
            held: HELD.gauge_vec(registry),
        };
        whatif.waiting.with_label_values::<&str>(&[]).set(0);
        whatif.holds(0, 0);
        whatif
    }

    /// Counts a request as waiting until the result is dropped.
    pub fn waits(&self) -> Waiting {
        self.waiting.with_label_values::<&str>(&[]).inc();
        Waiting(self.waiting.clone())
    }

    /// Records an answer to a request for a path.
    pub fn answered(&self, path: &str, status: u16, took: Duration) {
        let labels = [question(path), &status.to_string()];
        self.durations.with_label_values(&labels).observe(took.as_secs_f64());
    }

    /// Records how much the server holds.
    pub fn holds(&self, uploads: usize, forks: usize) {
        for (kind, number) in [("upload", uploads), ("fork", forks)] {
            self.held.with_label_values(&[kind]).set(i64::try_from(number).unwrap_or(i64::MAX));
        }
    }
}

/// A request without an answer.
#[derive(Debug)]
pub struct Waiting(IntGaugeVec);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.with_label_values::<&str>(&[]).dec();
    }
}

/// Returns the question that a path asks: its last part, or the one before an id.
fn question(path: &str) -> &'static str {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let named = |part: &&str| QUESTIONS.iter().chain(&PLANS).find(|known| *known == part).copied();
    let last = parts.last().and_then(named);
    let before_id = || parts.iter().rev().nth(1).and_then(named).filter(|it| QUESTIONS[..2].contains(it));
    last.or_else(before_id).unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics::Exposition;
    use std::sync::Arc;

    #[test]
    fn each_path_of_the_document_has_a_label_of_its_own() {
        let document: serde_json::Value =
            serde_json::from_str(supercargo_whatif::server::DOCUMENT).expect("it is JSON");
        let paths = document["paths"].as_object().expect("it has paths");
        assert!(paths.len() > 20, "{}", paths.len());
        for path in paths.keys() {
            assert_ne!(question(path), "other", "{path}");
        }
    }

    #[tokio::test]
    async fn requests_and_what_is_held_are_shown() {
        let metrics = Arc::new(Metrics::new());
        let whatif = WhatifMetrics::register(&metrics);
        let waiting = whatif.waits();
        whatif.answered("/whatif/v1/forks/fork-1/place", 200, Duration::from_millis(3));
        whatif.answered("/whatif/v1/snapshots/live", 200, Duration::from_millis(1));
        whatif.answered("/whatif/v1/snapshots/live/plan/rebalance", 504, Duration::from_secs(40));
        whatif.answered("/whatif/v1/no/such", 404, Duration::ZERO);
        whatif.holds(2, 5);
        let text = Exposition::new(Arc::clone(&metrics)).render().await;
        for line in [
            r#"supercargo_whatif_request_duration_seconds_count{code="200",question="place"} 1"#,
            r#"supercargo_whatif_request_duration_seconds_bucket{code="200",question="place",le="0.004"} 1"#,
            r#"supercargo_whatif_request_duration_seconds_count{code="200",question="snapshots"} 1"#,
            r#"supercargo_whatif_request_duration_seconds_count{code="504",question="rebalance"} 1"#,
            r#"supercargo_whatif_request_duration_seconds_count{code="404",question="other"} 1"#,
            r#"supercargo_whatif_held{kind="upload"} 2"#,
            r#"supercargo_whatif_held{kind="fork"} 5"#,
            "supercargo_whatif_requests_waiting 1",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is missing:\n{text}");
        }
        drop(waiting);
        let text = Exposition::new(metrics).render().await;
        assert!(text.lines().any(|it| it == "supercargo_whatif_requests_waiting 0"), "{text}");
    }
}
