//! Metrics under kube-scheduler's names, recorded as things happen or collected on scrape.
//!
//! The process around the engine records into [`Metrics`]. The engine's state is queried on each scrape
//! ([`CoreStats`]), so its gauges cannot drift from the state they describe. [`Exposition`] renders both as text, and
//! `crate::serve` serves it.

mod certificate;
mod component;
mod core_stats;
mod drift;
mod exposition;
mod families;
mod groups;
mod labels;
mod leader;
mod process;
mod profile;
mod record;
mod reload;
mod resources;
pub mod rest;
mod serving;
mod shadow;
mod text;
mod traces;
mod versions;
mod watch;
mod whatif;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::COMMIT;
use prometheus::proto::MetricFamily;
use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry};
use supercargo_apiserver::watch::WatchObserver;
use supercargo_core::model::event::Kind;
use supercargo_core::report::DeviceWait;
use supercargo_objects::api::Encoding;

pub use certificate::CertificateMetrics;
pub use component::Selection;
pub use core_stats::{
    CacheSizes, CoreSource, CoreStats, IncomingPods, Label, PendingPods, QueuedGroups, UnschedulablePods,
};
pub use exposition::{ChannelFill, Exposition, Kubernetes};
pub use labels::{AttemptResult, ExtensionPoint, HintResult, StatusCode};
pub use leader::LeaderMetrics;
pub use process::start_time_seconds;
pub use profile::ProfileMetrics;
pub use record::{Record, RecordLines};
pub use reload::ReloadResult;
pub use resources::{PodAmount, render_resources};
pub use serving::ServingMetrics;
pub use text::CONTENT_TYPE;
pub use traces::TraceSpans;
pub use watch::WatchMetrics;
pub use whatif::{Waiting, WhatifMetrics};

use groups::GroupMetrics;
use record::RecordMetrics;
use reload::ReloadMetrics;
use shadow::ShadowMetrics;
use text::{Plain, plain_family};

/// The emulated kube-scheduler release.
const KUBERNETES_VERSION: &str = "v1.36.3";

/// Label values of `attempts` in `scheduler_pod_scheduling_sli_duration_seconds`: "1" to "14", then "15+".
const ATTEMPTS_LABELS: [&str; 15] =
    ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15+"];

/// All series that the process records outside the engine. One per process, shared by reference.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    schedule_attempts: IntCounterVec,
    attempt_durations: HistogramVec,
    algorithm_duration: Histogram,
    pod_attempts: Histogram,
    sli_family: HistogramVec,
    sli: [OnceLock<Histogram>; ATTEMPTS_LABELS.len()],
    extension_points: HistogramVec,
    plugin_executions: HistogramVec,
    plugin_evaluations: IntCounterVec,
    event_handling: HistogramVec,
    queueing_hints: HistogramVec,
    preemption_attempts: IntCounter,
    preemption_victims: Histogram,
    volume_stage_errors: IntCounterVec,
    preemption_executions: IntCounterVec,
    preemption_durations: HistogramVec,
    rest_requests: IntCounterVec,
    rest_durations: HistogramVec,
    rest_request_sizes: HistogramVec,
    rest_response_sizes: HistogramVec,
    malformed_objects: IntCounterVec,
    watch_restarts: IntCounterVec,
    watch_received: IntCounterVec,
    effects_in_flight: IntGaugeVec,
    binds_unknown: IntCounter,
    leader_status: IntGaugeVec,
    leader_slow_path: IntCounterVec,
    writes_fenced: IntCounter,
    resource_claim_creates: IntCounterVec,
    resource_claim_creates_by_owner: IntCounterVec,
    device_allocations: IntCounterVec,
    device_waits: HistogramVec,
    group_start_duration: Histogram,
    /// Present if pod groups are scheduled.
    groups: OnceLock<GroupMetrics>,
    /// The drivers that are label values.
    drivers: Mutex<BTreeSet<Arc<str>>>,
    extender_calls: IntCounterVec,
    extender_durations: HistogramVec,
    core_scrape_failures: IntCounter,
    cache_drift: IntGaugeVec,
    certificates: CertificateMetrics,
    serving: ServingMetrics,
    config: ReloadMetrics,
    shadow: ShadowMetrics,
    trace_spans: TraceSpans,
    records: RecordMetrics,
    watches: Mutex<BTreeMap<&'static str, WatchMetrics>>,
}

/// The number of drivers that are label values. A cluster has a few; further ones count as `Other`.
const DRIVERS_MAX: usize = 16;

/// Operations of extenders: label `operation`.
const EXTENDER_OPERATIONS: [&str; 4] = ["filter", "prioritize", "preempt", "bind"];

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Registers every family; families without labels start at 0.
    pub fn new() -> Self {
        let registry = Registry::new();
        let build = families::BUILD_INFO.gauge_vec(&registry);
        build
            .with_label_values(&[env!("CARGO_PKG_VERSION"), COMMIT.unwrap_or_default(), KUBERNETES_VERSION])
            .set(1);
        let extender_calls = families::EXTENDER_CALLS.counter_vec(&registry);
        let extender_durations = families::EXTENDER_DURATION.histogram_vec(&registry);
        // Create all series now, so that a first failure shows as an increase from 0.
        for (operation, result) in EXTENDER_OPERATIONS.iter().flat_map(|it| [(it, "success"), (it, "error")])
        {
            extender_calls.with_label_values(&[*operation, result]);
            extender_durations.with_label_values(&[*operation]);
        }
        Self {
            schedule_attempts: families::SCHEDULE_ATTEMPTS.counter_vec(&registry),
            attempt_durations: families::SCHEDULING_ATTEMPT_DURATION.histogram_vec(&registry),
            algorithm_duration: families::SCHEDULING_ALGORITHM_DURATION.histogram(&registry),
            pod_attempts: families::POD_SCHEDULING_ATTEMPTS.histogram(&registry),
            sli_family: families::POD_SCHEDULING_SLI_DURATION.histogram_vec(&registry),
            sli: Default::default(),
            extension_points: families::EXTENSION_POINT_DURATION.histogram_vec(&registry),
            plugin_executions: families::PLUGIN_EXECUTION_DURATION.histogram_vec(&registry),
            plugin_evaluations: families::PLUGIN_EVALUATION.counter_vec(&registry),
            event_handling: families::EVENT_HANDLING_DURATION.histogram_vec(&registry),
            queueing_hints: families::QUEUEING_HINT_DURATION.histogram_vec(&registry),
            preemption_attempts: families::PREEMPTION_ATTEMPTS.counter(&registry),
            preemption_victims: families::PREEMPTION_VICTIMS.histogram(&registry),
            volume_stage_errors: families::VOLUME_STAGE_ERRORS.counter_vec(&registry),
            preemption_executions: families::PREEMPTION_EXECUTIONS.counter_vec(&registry),
            preemption_durations: families::PREEMPTION_DURATION.histogram_vec(&registry),
            rest_requests: families::REST_REQUESTS.counter_vec(&registry),
            rest_durations: families::REST_REQUEST_DURATION.histogram_vec(&registry),
            rest_request_sizes: families::REST_REQUEST_SIZE.histogram_vec(&registry),
            rest_response_sizes: families::REST_RESPONSE_SIZE.histogram_vec(&registry),
            malformed_objects: families::MALFORMED_OBJECTS.counter_vec(&registry),
            watch_restarts: families::WATCH_RESTARTS.counter_vec(&registry),
            watch_received: families::WATCH_RECEIVED.counter_vec(&registry),
            effects_in_flight: families::EFFECTS_IN_FLIGHT.gauge_vec(&registry),
            binds_unknown: families::BINDS_UNKNOWN.counter(&registry),
            leader_status: families::LEADER_STATUS.gauge_vec(&registry),
            leader_slow_path: families::LEADER_SLOW_PATH.counter_vec(&registry),
            writes_fenced: families::WRITES_FENCED.counter(&registry),
            resource_claim_creates: families::RESOURCE_CLAIM_CREATES.counter_vec(&registry),
            resource_claim_creates_by_owner: families::RESOURCE_CLAIM_CREATES_BY_OWNER.counter_vec(&registry),
            device_allocations: families::DEVICE_ALLOCATIONS.counter_vec(&registry),
            device_waits: families::DEVICE_WAITS.histogram_vec(&registry),
            group_start_duration: groups::PODGROUP_START_DURATION.histogram(&registry),
            groups: OnceLock::new(),
            drivers: Mutex::default(),
            extender_calls,
            extender_durations,
            core_scrape_failures: families::CORE_SCRAPE_FAILURES.counter(&registry),
            cache_drift: drift::new(&registry),
            certificates: CertificateMetrics::new(&registry),
            serving: ServingMetrics::new(&registry),
            config: ReloadMetrics::new(&registry),
            shadow: ShadowMetrics::new(&registry),
            trace_spans: TraceSpans::new(&registry),
            records: RecordMetrics::new(&registry),
            watches: Mutex::default(),
            registry,
        }
    }

    /// Returns the metrics of the profile with this `schedulerName`. Look them up once and keep them.
    pub fn profile(&self, name: &str) -> ProfileMetrics {
        ProfileMetrics::new(
            name,
            &self.schedule_attempts,
            &self.attempt_durations,
            &self.extension_points,
            &self.plugin_evaluations,
        )
    }

    /// Records the duration of one search for a node, from PreFilter to host selection, successful or not.
    pub fn algorithm(&self, took: Duration) {
        self.algorithm_duration.observe(took.as_secs_f64());
    }

    /// Records a pod that was bound at its `attempts`-th attempt. `since_queued` is the time since its first
    /// entry into activeQ, or `None` if it never entered it.
    pub fn pod_scheduled(&self, attempts: u32, since_queued: Option<Duration>) {
        self.pod_attempts.observe(f64::from(attempts));
        let Some(since_queued) = since_queued else { return };
        let cell = (attempts.max(1) as usize).min(ATTEMPTS_LABELS.len()) - 1;
        self.sli[cell]
            .get_or_init(|| self.sli_family.with_label_values(&[ATTEMPTS_LABELS[cell]]))
            .observe(since_queued.as_secs_f64());
    }

    /// Records one run of a plugin at an extension point. Upstream samples a tenth of the attempts; callers should too.
    pub fn plugin_execution(&self, plugin: &str, point: ExtensionPoint, status: StatusCode, took: Duration) {
        self.plugin_executions
            .with_label_values(&[plugin, point.as_str(), status.as_str()])
            .observe(took.as_secs_f64());
    }

    /// Records a handled event, queue moves included. `event` is upstream's label, such as `NodeAdd`.
    pub fn event_handled(&self, event: &str, took: Duration) {
        self.event_handling.with_label_values(&[event]).observe(took.as_secs_f64());
    }

    /// Records one run of a plugin's queueing hint.
    pub fn queueing_hint(&self, plugin: &str, event: &str, hint: HintResult, took: Duration) {
        self.queueing_hints.with_label_values(&[plugin, event, hint.as_str()]).observe(took.as_secs_f64());
    }

    /// Counts a preemption attempt.
    pub fn preemption_attempted(&self) {
        self.preemption_attempts.inc();
    }

    /// Records the number of victims of one preemption.
    pub fn preemption_victims(&self, victims: usize) {
        self.preemption_victims.observe(victims as f64);
    }

    /// Records that all evictions of a preemption have ended, as upstream does at the end of its goroutine.
    pub fn preemption_ended(&self, is_success: bool, took: Duration) {
        let result = [if is_success { "success" } else { "error" }];
        self.preemption_executions.with_label_values(&result).inc();
        self.preemption_durations.with_label_values(&result).observe(took.as_secs_f64());
    }

    /// Counts a placed pod whose volumes could not be bound.
    pub fn volumes_not_bound(&self) {
        self.volume_stage_errors.with_label_values(&["bind"]).inc();
    }

    /// Records a finished request to the API server. `code` is `None` without an answer; `host` is `address:port`.
    pub fn rest_request(&self, method: &str, code: Option<u16>, host: &str, took: Duration) {
        let code = code.map(|code| code.to_string());
        let code = code.as_deref().unwrap_or("<error>");
        self.rest_requests.with_label_values(&[code, method, host]).inc();
        self.rest_durations.with_label_values(&[method, host]).observe(took.as_secs_f64());
    }

    /// Returns the histograms of request and response sizes.
    fn rest_sizes(&self, method: &str, host: &str) -> (Histogram, Histogram) {
        let labels = [method, host];
        (
            self.rest_request_sizes.with_label_values(&labels),
            self.rest_response_sizes.with_label_values(&labels),
        )
    }

    /// Returns the observers of watches by kind, which record metrics.
    pub fn watches(&self) -> impl Fn(Kind) -> Arc<dyn WatchObserver> {
        |kind| Arc::new(self.watch(kind.as_str()))
    }

    /// Returns the metrics of the watch of `kind`, such as `Pod`. Calls for one kind share their series.
    pub fn watch(&self, kind: &'static str) -> WatchMetrics {
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || {
            WatchMetrics::new(
                self.malformed_objects.with_label_values(&[kind]),
                self.watch_restarts.with_label_values(&[kind]),
                Encoding::ALL
                    .map(|encoding| self.watch_received.with_label_values(&[kind, encoding.as_str()])),
            )
        };
        watches.entry(kind).or_insert_with(make).clone()
    }

    /// Counts a write of this kind, such as `bind`, as in flight until the guard is dropped.
    pub fn effect_in_flight(&self, kind: &str) -> InFlight {
        let gauge = self.effects_in_flight.with_label_values(&[kind]);
        gauge.inc();
        InFlight { gauge }
    }

    /// Counts a binding whose request ended with an unknown outcome.
    pub fn bind_unknown(&self) {
        self.binds_unknown.inc();
    }

    /// Returns the leader-election metrics. Their series exist from the first call.
    pub fn leader(&self) -> LeaderMetrics {
        let name = [leader::NAME];
        LeaderMetrics::new(
            self.leader_status.with_label_values(&name),
            self.leader_slow_path.with_label_values(&name),
        )
    }

    /// Counts a write that was not sent because the lease does not cover it.
    pub fn write_fenced(&self) {
        self.writes_fenced.inc();
    }

    /// Counts a request to create a ResourceClaim.
    pub fn resource_claim_created(&self, is_success: bool) {
        let status = if is_success { "success" } else { "failure" };
        self.resource_claim_creates.with_label_values(&[status]).inc();
        self.resource_claim_creates_by_owner.with_label_values(&[status, "false", "", "Pod"]).inc();
    }

    /// Records a wait for binding conditions, for each device as upstream does.
    pub fn devices_waited(&self, profile: &str, wait: &DeviceWait) {
        let mut drivers = self.drivers.lock().unwrap_or_else(PoisonError::into_inner);
        for (driver, has_conditions) in &wait.devices {
            if drivers.len() < DRIVERS_MAX {
                drivers.insert(Arc::clone(driver));
            }
            let driver = if drivers.contains(driver) { driver } else { "Other" };
            let labels = [profile, driver, wait.status];
            self.device_waits.with_label_values(&labels).observe(wait.took.as_secs_f64());
            if *has_conditions {
                self.device_allocations.with_label_values(&labels).inc();
            }
        }
    }

    /// Records a call to an extender. `operation` is one of `EXTENDER_OPERATIONS`.
    pub fn extender_called(&self, operation: &str, is_success: bool, took: Duration) {
        let result = if is_success { "success" } else { "error" };
        self.extender_calls.with_label_values(&[operation, result]).inc();
        self.extender_durations.with_label_values(&[operation]).observe(took.as_secs_f64());
    }

    /// Returns the recorded families, unsorted and without the engine's.
    fn recorded(&self) -> Vec<MetricFamily> {
        let watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        let ages = watches.iter().map(|(kind, watch)| ([*kind], watch.age_seconds()));
        let mut families = self.registry.gather();
        families.push(plain_family(&families::WATCH_AGE, Plain::Gauge, ages));
        families
    }
}

/// Guard that counts one write as in flight; see [`Metrics::effect_in_flight`].
#[derive(Debug)]
#[must_use = "the write counts as in flight only while this is kept"]
pub struct InFlight {
    gauge: IntGauge,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

/// Results of one health check, for [`render_slis`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckTally<'a> {
    /// Name of the check, such as `ping`.
    pub name: &'a str,
    /// Endpoint it belongs to: `healthz`, `livez` or `readyz`.
    pub endpoint: &'a str,
    /// Whether the last check passed.
    pub passing: bool,
    /// Number of passes.
    pub successes: u64,
    /// Number of failures.
    pub errors: u64,
}

/// Renders the text of `/metrics/slis`: a gauge and counters for each check that has run
/// (`component-base/metrics/prometheus/slis`).
pub fn render_slis(tallies: &[CheckTally<'_>]) -> String {
    let gauges =
        tallies.iter().map(|tally| ([tally.name, tally.endpoint], f64::from(u8::from(tally.passing))));
    let counts = tallies.iter().flat_map(|tally| {
        [("error", tally.errors), ("success", tally.successes)]
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(status, count)| ([tally.name, status, tally.endpoint], count as f64))
    });
    text::encode(vec![
        plain_family(&families::HEALTHCHECK, Plain::Gauge, gauges),
        plain_family(&families::HEALTHCHECKS_TOTAL, Plain::Counter, counts),
        process::start_time_family(),
    ])
}

#[cfg(test)]
mod tests;
