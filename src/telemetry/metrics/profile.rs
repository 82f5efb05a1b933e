//! The metrics of one profile, with cached series handles.
//!
//! Recording costs an index and an atomic add. Label values are hashed only at the first use of a series.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec};

use crate::telemetry::metrics::labels::{AttemptResult, ExtensionPoint, StatusCode};

/// Records metrics of one profile's pods. Owned by the driver.
#[derive(Debug)]
pub struct ProfileMetrics {
    profile: String,
    attempts: Vec<IntCounter>,
    attempt_durations: Vec<OnceLock<Histogram>>,
    attempt_duration_family: HistogramVec,
    extension_points: Vec<OnceLock<Histogram>>,
    extension_point_family: HistogramVec,
    plugin_evaluations: BTreeMap<(&'static str, ExtensionPoint), IntCounter>,
    plugin_evaluation_family: IntCounterVec,
}

impl ProfileMetrics {
    pub(super) fn new(
        profile: &str,
        attempts: &IntCounterVec,
        attempt_durations: &HistogramVec,
        extension_points: &HistogramVec,
        plugin_evaluations: &IntCounterVec,
    ) -> Self {
        let cells = |count: usize| std::iter::repeat_with(OnceLock::new).take(count).collect();
        Self {
            profile: profile.to_owned(),
            // Create all counters now, so that a first error shows as an increase from 0.
            attempts: AttemptResult::ALL
                .iter()
                .map(|result| attempts.with_label_values(&[result.as_str(), profile]))
                .collect(),
            attempt_durations: cells(AttemptResult::ALL.len()),
            attempt_duration_family: attempt_durations.clone(),
            extension_points: cells(ExtensionPoint::ALL.len() * StatusCode::ALL.len()),
            extension_point_family: extension_points.clone(),
            plugin_evaluations: BTreeMap::new(),
            plugin_evaluation_family: plugin_evaluations.clone(),
        }
    }

    /// Records the end of an attempt. For a scheduled pod, `took` includes the binding.
    pub fn attempt(&self, result: AttemptResult, took: Duration) {
        self.attempts[result as usize].inc();
        self.attempt_durations[result as usize]
            .get_or_init(|| self.attempt_duration_family.with_label_values(&[result.as_str(), &self.profile]))
            .observe(took.as_secs_f64());
    }

    /// Records that all plugins of an extension point ran for one pod.
    pub fn extension_point(&self, point: ExtensionPoint, status: StatusCode, took: Duration) {
        let cell = point as usize * StatusCode::ALL.len() + status as usize;
        self.extension_points[cell]
            .get_or_init(|| {
                let values = [point.as_str(), status.as_str(), &self.profile];
                self.extension_point_family.with_label_values(&values)
            })
            .observe(took.as_secs_f64());
    }

    /// Adds `times` evaluations: nodes at Filter or Score, pods at PreFilter or PreScore. Call it once with 0 for
    /// every pair at start, so that the series begin at 0 as upstream's do.
    pub fn plugin_evaluated(&mut self, plugin: &'static str, point: ExtensionPoint, times: usize) {
        let profile = &self.profile;
        let family = &self.plugin_evaluation_family;
        self.plugin_evaluations
            .entry((plugin, point))
            .or_insert_with(|| family.with_label_values(&[plugin, point.as_str(), profile]))
            .inc_by(times as u64);
    }
}
