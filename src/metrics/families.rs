//! The table of every metric family: name, HELP text, label keys and buckets.
//!
//! Families that kube-scheduler has carry its exact words, so that a dashboard or a recording rule
//! written for it works unchanged (`pkg/scheduler/metrics/metrics.go`,
//! `component-base/metrics/prometheus/restclient/metrics.go`). Ours begin with `supercargo_`. Nothing is recorded here.

use prometheus::core::Collector;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry,
};

/// The upper bounds of a histogram's buckets, in the unit of its name; `+Inf` is implied.
#[derive(Clone, Copy, Debug)]
pub(super) enum Buckets {
    /// Not a histogram.
    None,
    /// `start`, `start * factor`, … : `count` bounds, multiplied one after the other as Go does, so
    /// that the rounding of each bound is the same.
    Exponential { start: f64, factor: f64, count: usize },
    /// Bounds written out.
    Fixed(&'static [f64]),
}

/// What the metric means to a scraper, apart from its values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Family {
    pub(super) name: &'static str,
    /// HELP text, with upstream's stability prefix.
    pub(super) help: &'static str,
    /// Label keys, in the order in which values are given.
    pub(super) labels: &'static [&'static str],
    pub(super) buckets: Buckets,
}

/// Why a metric of the table always registers.
const VALID: &str = "the family table has valid, unique names";

impl Family {
    pub(super) const fn new(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Self {
        Self { name, help, labels, buckets: Buckets::None }
    }

    const fn exponential(mut self, start: f64, factor: f64, count: usize) -> Self {
        self.buckets = Buckets::Exponential { start, factor, count };
        self
    }

    const fn fixed(mut self, bounds: &'static [f64]) -> Self {
        self.buckets = Buckets::Fixed(bounds);
        self
    }

    /// The upper bounds of the buckets, `+Inf` left out.
    pub(super) fn bounds(&self) -> Vec<f64> {
        match self.buckets {
            Buckets::None => Vec::new(),
            Buckets::Fixed(bounds) => bounds.to_vec(),
            Buckets::Exponential { start, factor, count } => {
                std::iter::successors(Some(start), |bound| Some(bound * factor)).take(count).collect()
            }
        }
    }

    pub(super) fn counter(&self, registry: &Registry) -> IntCounter {
        registered(registry, IntCounter::new(self.name, self.help))
    }

    pub(super) fn counter_vec(&self, registry: &Registry) -> IntCounterVec {
        registered(registry, IntCounterVec::new(Opts::new(self.name, self.help), self.labels))
    }

    pub(super) fn gauge_vec(&self, registry: &Registry) -> IntGaugeVec {
        registered(registry, IntGaugeVec::new(Opts::new(self.name, self.help), self.labels))
    }

    pub(super) fn histogram(&self, registry: &Registry) -> Histogram {
        let opts = HistogramOpts::new(self.name, self.help).buckets(self.bounds());
        registered(registry, Histogram::with_opts(opts))
    }

    pub(super) fn histogram_vec(&self, registry: &Registry) -> HistogramVec {
        let opts = HistogramOpts::new(self.name, self.help).buckets(self.bounds());
        registered(registry, HistogramVec::new(opts, self.labels))
    }
}

fn registered<M: Collector + Clone + 'static>(registry: &Registry, metric: prometheus::Result<M>) -> M {
    let metric = metric.expect(VALID);
    registry.register(Box::new(metric.clone())).expect(VALID);
    metric
}

// What kube-scheduler has, recorded as it happens.

pub(super) const SCHEDULE_ATTEMPTS: Family = Family::new(
    "scheduler_schedule_attempts_total",
    "[STABLE] Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, while 'error' means an internal scheduler problem.",
    &["result", "profile"],
);
pub(super) const SCHEDULING_ATTEMPT_DURATION: Family = Family::new(
    "scheduler_scheduling_attempt_duration_seconds",
    "[STABLE] Scheduling attempt latency in seconds (scheduling algorithm + binding)",
    &["result", "profile"],
)
.exponential(0.001, 2.0, 15);
pub(super) const SCHEDULING_ALGORITHM_DURATION: Family = Family::new(
    "scheduler_scheduling_algorithm_duration_seconds",
    "[ALPHA] Scheduling algorithm latency in seconds",
    &[],
)
.exponential(0.001, 2.0, 15);
pub(super) const POD_SCHEDULING_ATTEMPTS: Family = Family::new(
    "scheduler_pod_scheduling_attempts",
    "[STABLE] Number of attempts to successfully schedule a pod.",
    &[],
)
.exponential(1.0, 2.0, 5);
pub(super) const POD_SCHEDULING_SLI_DURATION: Family = Family::new(
    "scheduler_pod_scheduling_sli_duration_seconds",
    "[BETA] E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and might involve multiple scheduling attempts.",
    &["attempts"],
)
.exponential(0.01, 2.0, 20);
pub(super) const EXTENSION_POINT_DURATION: Family = Family::new(
    "scheduler_framework_extension_point_duration_seconds",
    "[STABLE] Latency for running all plugins of a specific extension point.",
    &["extension_point", "status", "profile"],
)
.exponential(0.0001, 2.0, 12);
pub(super) const PLUGIN_EXECUTION_DURATION: Family = Family::new(
    "scheduler_plugin_execution_duration_seconds",
    "[ALPHA] Duration for running a plugin at a specific extension point.",
    &["plugin", "extension_point", "status"],
)
.exponential(0.00001, 1.5, 20);
pub(super) const PLUGIN_EVALUATION: Family = Family::new(
    "scheduler_plugin_evaluation_total",
    "[BETA] Number of attempts to schedule pods by each plugin and the extension point (available only in PreFilter, Filter, PreScore, and Score).",
    &["plugin", "extension_point", "profile"],
);
pub(super) const EVENT_HANDLING_DURATION: Family = Family::new(
    "scheduler_event_handling_duration_seconds",
    "[ALPHA] Event handling latency in seconds.",
    &["event"],
)
.exponential(0.0001, 2.0, 12);
pub(super) const QUEUEING_HINT_DURATION: Family = Family::new(
    "scheduler_queueing_hint_execution_duration_seconds",
    "[ALPHA] Duration for running a queueing hint function of a plugin.",
    &["plugin", "event", "hint"],
)
.exponential(0.00001, 1.5, 20);
pub(super) const PREEMPTION_ATTEMPTS: Family = Family::new(
    "scheduler_preemption_attempts_total",
    "[STABLE] Total preemption attempts in the cluster till now",
    &[],
);
pub(super) const PREEMPTION_VICTIMS: Family =
    Family::new("scheduler_preemption_victims", "[STABLE] Number of selected preemption victims", &[])
        .exponential(1.0, 2.0, 7);
pub(super) const VOLUME_STAGE_ERRORS: Family = Family::new(
    "scheduler_volume_scheduling_stage_error_total",
    "[ALPHA] Volume scheduling stage error count",
    &["operation"],
);
pub(super) const PREEMPTION_DURATION: Family = Family::new(
    "scheduler_preemption_goroutines_duration_seconds",
    "[ALPHA] Duration in seconds for running goroutines for the preemption.",
    &["result"],
)
.exponential(0.01, 2.0, 20);
pub(super) const PREEMPTION_EXECUTIONS: Family = Family::new(
    "scheduler_preemption_goroutines_execution_total",
    "[ALPHA] Number of preemption goroutines executed.",
    &["result"],
);
pub(super) const REST_REQUESTS: Family = Family::new(
    "rest_client_requests_total",
    "[ALPHA] Number of HTTP requests, partitioned by status code, method, and host.",
    &["code", "method", "host"],
);
pub(super) const REST_REQUEST_DURATION: Family = Family::new(
    "rest_client_request_duration_seconds",
    "[ALPHA] Request latency in seconds. Broken down by verb, and host.",
    &["verb", "host"],
)
.fixed(&[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0]);

/// Bounds of the sizes of requests and answers, in bytes.
const SIZES: &[f64] = &[
    64.0,
    256.0,
    512.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
];
pub(super) const REST_REQUEST_SIZE: Family = Family::new(
    "rest_client_request_size_bytes",
    "[ALPHA] Request size in bytes. Broken down by verb and host.",
    &["verb", "host"],
)
.fixed(SIZES);
pub(super) const REST_RESPONSE_SIZE: Family = Family::new(
    "rest_client_response_size_bytes",
    "[ALPHA] Response size in bytes. Broken down by verb and host.",
    &["verb", "host"],
)
.fixed(SIZES);

// What kube-scheduler has, mirrored from the core on scrape.

pub(super) const PENDING_PODS: Family = Family::new(
    "scheduler_pending_pods",
    "[STABLE] Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' means number of pods in backoffQ; 'unschedulable' means number of pods in unschedulablePods that the scheduler attempted to schedule and failed; 'gated' is the number of unschedulable pods that the scheduler never attempted to schedule because they are gated.",
    &["queue"],
);
pub(super) const UNSCHEDULABLE_PODS: Family = Family::new(
    "scheduler_unschedulable_pods",
    "[BETA] The number of unschedulable pods broken down by plugin name. A pod will increment the gauge for all plugins that caused it to not schedule and so this metric have meaning only when broken down by plugin.",
    &["plugin", "profile"],
);
pub(super) const QUEUE_INCOMING_PODS: Family = Family::new(
    "scheduler_queue_incoming_pods_total",
    "[STABLE] Number of pods added to scheduling queues by event and queue type.",
    &["queue", "event"],
);
pub(super) const GOROUTINES: Family = Family::new(
    "scheduler_goroutines",
    "[BETA] Number of running goroutines split by the work they do such as binding.",
    &["operation"],
);
pub(super) const CACHE_SIZE: Family = Family::new(
    "scheduler_cache_size",
    "[ALPHA] Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
    &["type"],
);
pub(super) const POD_SCHEDULED_AFTER_FLUSH: Family = Family::new(
    "scheduler_pod_scheduled_after_flush_total",
    "[ALPHA] Number of pods that were successfully scheduled after being flushed from unschedulablePods due to timeout. This metric helps detect potential queueing hint misconfigurations or event handling issues.",
    &[],
);

// Health checks, on /metrics/slis.

pub(super) const HEALTHCHECK: Family = Family::new(
    "kubernetes_healthcheck",
    "[STABLE] This metric records the result of a single healthcheck.",
    &["name", "type"],
);
pub(super) const HEALTHCHECKS_TOTAL: Family = Family::new(
    "kubernetes_healthchecks_total",
    "[STABLE] This metric records the results of all healthcheck.",
    &["name", "status", "type"],
);

// Our own.

pub(super) const BUILD_INFO: Family = Family::new(
    "supercargo_build_info",
    "[ALPHA] A metric with a constant '1' value labeled by the version of supercargo and the version of kube-scheduler whose decisions it reproduces.",
    &["version", "kubernetes"],
);
pub(super) const MALFORMED_OBJECTS: Family = Family::new(
    "supercargo_malformed_objects_total",
    "[ALPHA] Number of objects or fields from the API server that could not be read and were skipped, by kind.",
    &["kind"],
);
pub(super) const WATCH_RESTARTS: Family = Family::new(
    "supercargo_watch_restarts_total",
    "[ALPHA] Number of times a watch ended and was started again, by kind.",
    &["kind"],
);
pub(super) const WATCH_AGE: Family = Family::new(
    "supercargo_watch_age_seconds",
    "[ALPHA] Seconds since anything, a bookmark included, was last received on a watch, by kind.",
    &["kind"],
);
pub(super) const WATCH_RECEIVED: Family = Family::new(
    "supercargo_watch_received_bytes_total",
    "[ALPHA] Bytes of lists and events of watches, by kind and by how the API server wrote them.",
    &["kind", "encoding"],
);
pub(super) const EFFECTS_IN_FLIGHT: Family = Family::new(
    "supercargo_effects_in_flight",
    "[ALPHA] Number of writes to the API server that have been sent and not answered, by kind.",
    &["kind"],
);
pub(super) const BINDS_UNKNOWN: Family = Family::new(
    "supercargo_binds_unknown_total",
    "[ALPHA] Number of bindings whose outcome was not known when their request ended; their pods stay assumed until it is.",
    &[],
);
pub(super) const EVENT_CHANNEL_LENGTH: Family = Family::new(
    "supercargo_event_channel_length",
    "[ALPHA] Number of events that wait to be handled by the scheduling thread.",
    &[],
);
pub(super) const EVENT_CHANNEL_CAPACITY: Family = Family::new(
    "supercargo_event_channel_capacity",
    "[ALPHA] Number of events that may wait before the watches are held back.",
    &[],
);
pub(super) const CONNECTIONS_EVICTED: Family = Family::new(
    "supercargo_serving_connections_evicted_total",
    "[ALPHA] Number of client connections of the HTTPS port that were closed because too many were open.",
    &[],
);
pub(super) const LOG_LINES_LOST: Family = Family::new(
    "supercargo_log_lines_lost_total",
    "[ALPHA] Number of log lines that were dropped because stderr was not read in time or could not be written to.",
    &[],
);
pub(super) const PODS_RESCUED_BY_FLUSH: Family = Family::new(
    "supercargo_pods_rescued_by_flush_total",
    "[ALPHA] Number of pods that no event woke and that were scheduled after the periodic flush of unschedulable pods.",
    &[],
);
pub(super) const KUBELET_REJECTIONS: Family = Family::new(
    "supercargo_kubelet_rejections_total",
    "[ALPHA] Number of pods of ours that the kubelet of their node did not admit, by its reason (OutOfcpu, OutOfpods, ...).",
    &["reason"],
);
pub(super) const UNSCHEDULABLE_GROUPS: Family = Family::new(
    "supercargo_unschedulable_groups",
    "[ALPHA] Number of groups of unschedulable pods that are alike and wait for the same; an event costs as much as there are groups that wait for it.",
    &[],
);
pub(super) const WAITING_FOR_VOLUMES: Family = Family::new(
    "supercargo_pods_waiting_for_volumes",
    "[ALPHA] Number of pods that have a node and are bound to it once their volumes are.",
    &[],
);
pub(super) const WAITING_FOR_EXTENDERS: Family = Family::new(
    "supercargo_pods_waiting_for_extenders",
    "[ALPHA] Number of pods whose decision waits for extenders to answer.",
    &[],
);
pub(super) const EXTENDER_CALLS: Family = Family::new(
    "supercargo_extender_calls_total",
    "[ALPHA] Number of calls of extenders, by what they were asked to do and by whether they did.",
    &["operation", "result"],
);
pub(super) const EXTENDER_DURATION: Family = Family::new(
    "supercargo_extender_duration_seconds",
    "[ALPHA] How long a call of an extender took, whatever came of it, by what it was asked to do.",
    &["operation"],
)
.fixed(&[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0]);
pub(super) const RECALLED_DECISIONS: Family = Family::new(
    "supercargo_recalled_decisions_total",
    "[ALPHA] Number of pods found unschedulable without a look at any node, because one like them had just been in the same cluster.",
    &[],
);
pub(super) const OLDEST_PENDING: Family = Family::new(
    "supercargo_oldest_pending_pod_seconds",
    "[ALPHA] How long the pod has waited that came to each queue first, since it was added or last came back from an attempt.",
    &["queue"],
);
pub(super) const LAST_LOOKS_FAILED: Family = Family::new(
    "supercargo_last_looks_failed_total",
    "[ALPHA] Number of bindings that were held back, and their pods decided anew, because their node had changed and did not fit any more.",
    &[],
);
pub(super) const DROPPED_EVENTS: Family = Family::new(
    "supercargo_dropped_events_total",
    "[ALPHA] Number of events about pods that were not written because too many waited.",
    &[],
);
pub(super) const EFFECTS_WAITING: Family = Family::new(
    "supercargo_effects_waiting",
    "[ALPHA] Number of writes to the API server that wait for others of their lane to be answered, by lane.",
    &["lane"],
);
pub(super) const PANICS: Family = Family::new(
    "supercargo_panics_total",
    "[ALPHA] Number of decisions and queueing hints that panicked and were survived.",
    &[],
);
pub(super) const LOST_PODS: Family = Family::new(
    "supercargo_lost_pods",
    "[ALPHA] Number of pending pods that were found in no queue, or in two places, and are still pending. They were queued again.",
    &[],
);
pub(super) const LOST_PODS_REPAIRED: Family = Family::new(
    "supercargo_lost_pods_repaired_total",
    "[ALPHA] Number of pending pods that were found in no queue, or in two places, and were put right.",
    &[],
);
pub(super) const VERIFIED_DECISIONS: Family = Family::new(
    "supercargo_verified_decisions_total",
    "[ALPHA] Number of cached decisions that were compared with a full evaluation, for pods and for live signatures in turn, by result: same or different.",
    &["result"],
);
pub(super) const CACHE_UNCHECKED: Family = Family::new(
    "supercargo_cache_verification_oldest_seconds",
    "[ALPHA] Time since the cached signature that was not compared with a full evaluation for longest was made or compared; 0 where none is used.",
    &[],
);
pub(super) const CACHE_CHECKING: Family = Family::new(
    "supercargo_cache_verification_seconds_total",
    "[ALPHA] Busy time of the scheduling thread in calls that compared a cached decision with a full evaluation; at most 2 % by default. Idle time is not counted.",
    &[],
);
pub(super) const BUSY: Family = Family::new(
    "supercargo_scheduling_busy_seconds_total",
    "[ALPHA] Time in which the scheduling thread had work, comparisons of cached decisions included.",
    &[],
);
pub(super) const CACHE_USED: Family = Family::new(
    "supercargo_decision_cache_used",
    "[ALPHA] Whether cached decisions are used: 0 after three differences, until the next start.",
    &[],
);
pub(super) const POISON_OBJECTS: Family = Family::new(
    "supercargo_poison_objects_total",
    "[ALPHA] Number of objects put into quarantine because handling them panicked.",
    &[],
);
pub(super) const CACHE_DRIFT: Family = Family::new(
    "supercargo_cache_drift",
    "Objects by which the engine and the API server differed when SIGUSR2 last had them compared: missed here, or redundant.",
    &["kind", "which"],
);
pub(super) const CERTIFICATE_RELOADS: Family = Family::new(
    "supercargo_certificate_reloads_total",
    "[ALPHA] Number of changes of the files of the serving certificate: applied, invalid where the last good one is shown on.",
    &["result"],
);
pub(super) const CERTIFICATE_LAST_RELOAD_SUCCESS: Family = Family::new(
    "supercargo_certificate_last_reload_success",
    "[ALPHA] Whether the files of the serving certificate, as they are, could be read and used.",
    &[],
);
pub(super) const CONFIG_RELOADS: Family = Family::new(
    "supercargo_config_reloads_total",
    "[ALPHA] Number of changes of the configuration file while running: applied, needs_restart where a part of it waits for a restart, invalid where the last good one stays in force.",
    &["result"],
);
pub(super) const CONFIG_LAST_RELOAD_SUCCESS: Family = Family::new(
    "supercargo_config_last_reload_success",
    "[ALPHA] Whether the configuration file, as it is, could be read and is valid.",
    &[],
);
pub(super) const CONFIG_RESTART_NEEDED: Family = Family::new(
    "supercargo_config_restart_needed",
    "[ALPHA] Whether the configuration file has changed in fields that need a restart.",
    &[],
);
pub(super) const SHADOW_DECISIONS: Family = Family::new(
    "supercargo_shadow_decisions_total",
    "[ALPHA] Number of decisions of the scheduler that --shadow-of names, by how they compare: same where its node is the only best, equal_score where it is one of several, different where it is worse, we_fit_they_not and they_fit_we_not where one found a node and the other could not, neither_fits, and raced where only another order of arrival explains it.",
    &["agreement"],
);
pub(super) const SHADOW_UNJUDGED: Family = Family::new(
    "supercargo_shadow_unjudged_total",
    "[ALPHA] Number of decisions of the scheduler that --shadow-of names that were not judged: unordered where they were first seen in a list, unsupported where no plugin judges what the pod needs, failed where a plugin failed, crowded where too much happened at a time.",
    &["reason"],
);
pub(super) const SHADOW_SCORE_REGRET: Family = Family::new(
    "supercargo_shadow_score_regret",
    "[ALPHA] The best total less the total of the node that the scheduler that --shadow-of names chose, of decisions where both have one and that did not race.",
    &[],
)
.fixed(&[0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0]);
pub(super) const TRACE_SPANS: Family = Family::new(
    "supercargo_trace_spans_total",
    "[ALPHA] Number of spans of scheduling attempts, by what became of them: sent, failed where the collector did not take them, dropped where too many waited.",
    &["result"],
);
pub(super) const RECORD_LINES: Family = Family::new(
    "supercargo_record_lines_total",
    "[ALPHA] Number of lines for the files of --decision-log (decisions) and --record-to (input), by what became of them: written, dropped where too many waited, failed where the file could not be written, after which nothing is.",
    &["record", "result"],
);
pub(super) const CORE_SCRAPE_FAILURES: Family = Family::new(
    "supercargo_core_scrape_failures_total",
    "[ALPHA] Number of scrapes that the scheduling thread did not answer in time, and that lack its gauges.",
    &[],
);
pub(super) const LEADER_STATUS: Family = Family::new(
    "leader_election_master_status",
    "[ALPHA] Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. 'name' is the string used to identify the lease. Please make sure to group by name.",
    &["name"],
);
pub(super) const LEADER_SLOW_PATH: Family = Family::new(
    "leader_election_slowpath_total",
    "[ALPHA] Total number of slow path exercised in renewing leader leases. 'name' is the string used to identify the lease. Please make sure to group by name.",
    &["name"],
);
pub(super) const WRITES_FENCED: Family = Family::new(
    "supercargo_writes_fenced_total",
    "[ALPHA] Number of writes that were not sent because the lease was not held, or not renewed in time.",
    &[],
);
