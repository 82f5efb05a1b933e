//! The declarations of metric families: name, HELP text, label keys and buckets. Those of pod groups are all in
//! `groups`.
//!
//! kube-scheduler's families keep the exact HELP text of 1.36 (`versions` has what differs), so its dashboards
//! and recording rules work unchanged
//! (`pkg/scheduler/metrics/metrics.go`, `component-base/metrics/prometheus/restclient/metrics.go`).
//! Families of our own begin with `supercargo_`.

use prometheus::core::Collector;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry,
};

/// The upper bounds of a histogram's buckets, in the unit of its name; `+Inf` is implied.
#[derive(Clone, Copy, Debug)]
pub(super) enum Buckets {
    /// Not a histogram.
    None,
    /// `start`, `start * factor`, …: `count` bounds. Each is the product of the one before, as in Go, so
    /// rounding errors are the same.
    Exponential { start: f64, factor: f64, count: usize },
    /// Explicit bounds.
    Fixed(&'static [f64]),
}

/// The declaration of one metric family.
#[derive(Clone, Copy, Debug)]
pub(super) struct Family {
    pub(super) name: &'static str,
    /// HELP text, with upstream's stability prefix.
    pub(super) help: &'static str,
    /// Label keys, in the order in which recording functions pass values.
    pub(super) labels: &'static [&'static str],
    pub(super) buckets: Buckets,
}

/// Why registration of a family cannot fail.
const VALID: &str = "the family table has valid, unique names";

impl Family {
    pub(super) const fn new(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Self {
        Self { name, help, labels, buckets: Buckets::None }
    }

    pub(super) const fn exponential(mut self, start: f64, factor: f64, count: usize) -> Self {
        self.buckets = Buckets::Exponential { start, factor, count };
        self
    }

    const fn fixed(mut self, bounds: &'static [f64]) -> Self {
        self.buckets = Buckets::Fixed(bounds);
        self
    }

    /// Returns the upper bounds of the buckets, without `+Inf`.
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

// Families of kube-scheduler, recorded as things happen.

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
pub(super) const RESOURCE_CLAIM_CREATES: Family = Family::new(
    "scheduler_resourceclaim_creates_total",
    "[ALPHA] Number of ResourceClaims creation requests within scheduler",
    &["status"],
);
pub(super) const RESOURCE_CLAIM_CREATES_BY_OWNER: Family = Family::new(
    "dynamic_resource_allocation_resourceclaim_creates_total",
    "[ALPHA] Number of ResourceClaims creation requests, categorized by creation status, admin access, and owning API \
     group and kind (either Pod or scheduling.k8s.io/PodGroup)",
    &["status", "admin_access", "owner_api_group", "owner_api_kind"],
);
pub(super) const DEVICE_ALLOCATIONS: Family = Family::new(
    "scheduler_dra_bindingconditions_allocations_total",
    "[ALPHA] Number of allocations using devices with BindingConditions, counted per driver per scheduling attempt",
    &["profile", "driver", "status"],
);
pub(super) const DEVICE_WAITS: Family = Family::new(
    "scheduler_dra_bindingconditions_wait_duration_seconds",
    "[ALPHA] Time in seconds spent waiting for BindingConditions to be satisfied during PreBind.",
    &["profile", "driver", "status"],
)
.exponential(0.1, 2.0, 14);
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

/// Bucket bounds for request and response sizes, in bytes.
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

// Families of kube-scheduler, read from the engine on scrape.

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
pub(super) const QUEUED_ENTITIES: Family = Family::new(
    "scheduler_queued_entities",
    "[ALPHA] Number of queued scheduling entities ('pod' or 'podgroup'; 'pod' stands for individual pods that are not members of any podgroup) by the queue type. 'active' means number of entities in activeQ; 'backoff' means number of entities in backoffQ; 'unschedulable' means number of entities in unschedulableEntities that the scheduler attempted to schedule and failed; 'gated' is the number of unschedulable entities that the scheduler never attempted to schedule because they are gated.",
    &["queue", "type"],
);
pub(super) const QUEUE_INCOMING_ENTITIES: Family = Family::new(
    "scheduler_queue_incoming_entities_total",
    "[ALPHA] Number of scheduling entities added to scheduling queues by event, queue type, and entity type. Entity types are either 'pod' (for individual pods that are not members of any podgroup) or 'podgroup'.",
    &["queue", "event", "type"],
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

// Of the program, and families of our own.

pub(super) const KUBERNETES_BUILD_INFO: Family = Family::new(
    "kubernetes_build_info",
    "[BETA] A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.",
    &[
        "major",
        "minor",
        "git_version",
        "git_commit",
        "git_tree_state",
        "build_date",
        "go_version",
        "compiler",
        "platform",
    ],
);
pub(super) const FEATURE_ENABLED: Family = Family::new(
    "kubernetes_feature_enabled",
    "[BETA] This metric records the data about the stage and enablement of a k8s feature.",
    &["name", "stage"],
);
pub(super) const REGISTERED_METRICS: Family = Family::new(
    "registered_metrics_total",
    "[BETA] The count of registered metrics broken by stability level and deprecation version.",
    &["stability_level", "deprecated_version"],
);
pub(super) const HIDDEN_METRICS: Family =
    Family::new("hidden_metrics_total", "[BETA] The count of hidden metrics.", &[]);
pub(super) const DISABLED_METRICS: Family =
    Family::new("disabled_metrics_total", "[BETA] The count of disabled metrics.", &[]);
pub(super) const BUILD_INFO: Family = Family::new(
    "supercargo_build_info",
    "[ALPHA] A metric with a constant '1' value labeled by the version of supercargo, the commit it was built from, and the version of kube-scheduler that it emulates.",
    &["version", "commit", "kubernetes"],
);
pub(super) const MALFORMED_OBJECTS: Family = Family::new(
    "supercargo_malformed_objects_total",
    "[ALPHA] Number of objects or fields from the API server that could not be decoded and were skipped, by kind.",
    &["kind"],
);
pub(super) const WATCH_RESTARTS: Family = Family::new(
    "supercargo_watch_restarts_total",
    "[ALPHA] Number of restarts of a watch, by kind.",
    &["kind"],
);
pub(super) const WATCH_AGE: Family = Family::new(
    "supercargo_watch_age_seconds",
    "[ALPHA] Seconds since the last message on a watch, bookmarks included, by kind.",
    &["kind"],
);
pub(super) const WATCH_RECEIVED: Family = Family::new(
    "supercargo_watch_received_bytes_total",
    "[ALPHA] Bytes received in lists and watch events, by kind and encoding.",
    &["kind", "encoding"],
);
pub(super) const EFFECTS_IN_FLIGHT: Family = Family::new(
    "supercargo_effects_in_flight",
    "[ALPHA] Number of requests that await an answer, by kind: writes, queries about bindings, and extender calls.",
    &["kind"],
);
pub(super) const BINDS_UNKNOWN: Family = Family::new(
    "supercargo_binds_unknown_total",
    "[ALPHA] Number of bindings whose request ended without a known outcome. The pod stays assumed until the outcome is known.",
    &[],
);
pub(super) const EVENT_CHANNEL_LENGTH: Family = Family::new(
    "supercargo_event_channel_length",
    "[ALPHA] Number of events queued for the scheduling thread.",
    &[],
);
pub(super) const EVENT_CHANNEL_CAPACITY: Family = Family::new(
    "supercargo_event_channel_capacity",
    "[ALPHA] Maximum number of events queued for the scheduling thread; the watches pause when it is reached.",
    &[],
);
pub(super) const CONNECTIONS_EVICTED: Family = Family::new(
    "supercargo_serving_connections_evicted_total",
    "[ALPHA] Number of client connections to the HTTPS port closed because too many were open.",
    &[],
);
pub(super) const LOG_LINES_LOST: Family = Family::new(
    "supercargo_log_lines_lost_total",
    "[ALPHA] Number of log lines dropped because stderr was blocked or not writable.",
    &[],
);
pub(super) const PODS_RESCUED_BY_FLUSH: Family = Family::new(
    "supercargo_pods_rescued_by_flush_total",
    "[ALPHA] Number of pods scheduled after the periodic flush of unschedulable pods, without an event that requeued them.",
    &[],
);
pub(super) const KUBELET_REJECTIONS: Family = Family::new(
    "supercargo_kubelet_rejections_total",
    "[ALPHA] Number of pods placed by this scheduler that a kubelet rejected at admission, by reason (OutOfcpu, OutOfpods, ...).",
    &["reason"],
);
pub(super) const UNSCHEDULABLE_GROUPS: Family = Family::new(
    "supercargo_unschedulable_groups",
    "[ALPHA] Number of groups of identical unschedulable pods that wait for the same plugins. An event is evaluated once per waiting group.",
    &[],
);
pub(super) const WAITING_FOR_VOLUMES: Family = Family::new(
    "supercargo_pods_waiting_for_volumes",
    "[ALPHA] Number of pods that have a node and wait for their volumes before they are bound to it.",
    &[],
);
pub(super) const WAITING_FOR_EXTENDERS: Family = Family::new(
    "supercargo_pods_waiting_for_extenders",
    "[ALPHA] Number of pods whose scheduling decision waits for an extender.",
    &[],
);
pub(super) const IN_EVALUATION: Family = Family::new(
    "supercargo_pods_in_evaluation",
    "[ALPHA] Number of pods that are evaluated in slices, between the decisions about other pods: large pods, pods with long searches for devices, and members of such pods' groups.",
    &[],
);
pub(super) const EVALUATION_SLICES: Family = Family::new(
    "supercargo_evaluation_slices_total",
    "[ALPHA] Number of slices in which suspended pods or pod groups were evaluated.",
    &[],
);
pub(super) const EXTENDER_CALLS: Family = Family::new(
    "supercargo_extender_calls_total",
    "[ALPHA] Number of calls to extenders, by operation and result.",
    &["operation", "result"],
);
pub(super) const EXTENDER_DURATION: Family = Family::new(
    "supercargo_extender_duration_seconds",
    "[ALPHA] Duration of calls to extenders in seconds, failed calls included, by operation.",
    &["operation"],
)
.fixed(&[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0]);
pub(super) const RECALLED_DECISIONS: Family = Family::new(
    "supercargo_recalled_decisions_total",
    "[ALPHA] Number of pods found unschedulable from a cached decision on an identical pod, without evaluating a node.",
    &[],
);
pub(super) const OLDEST_PENDING: Family = Family::new(
    "supercargo_oldest_pending_pod_seconds",
    "[ALPHA] Age of the oldest pod of each queue in seconds, since it was created or its last attempt failed.",
    &["queue"],
);
// The recheck was called "last look" when the series got its name. Names of series stay.
pub(super) const RECHECKS_FAILED: Family = Family::new(
    "supercargo_last_looks_failed_total",
    "[ALPHA] Number of bindings cancelled before sending because the node had changed and no longer fit. The pods are scheduled again.",
    &[],
);
pub(super) const DROPPED_EVENTS: Family = Family::new(
    "supercargo_dropped_events_total",
    "[ALPHA] Number of pod events dropped because too many were queued.",
    &[],
);
pub(super) const EFFECTS_WAITING: Family = Family::new(
    "supercargo_effects_waiting",
    "[ALPHA] Number of requests queued behind others of their lane, by lane: writes, queries about bindings, and extender calls.",
    &["lane"],
);
pub(super) const PANICS: Family = Family::new(
    "supercargo_panics_total",
    "[ALPHA] Number of scheduling decisions and queueing hints that panicked and were recovered from.",
    &[],
);
pub(super) const LOST_PODS: Family = Family::new(
    "supercargo_lost_pods",
    "[ALPHA] Number of pods still pending that were found in no queue or in two places, and were queued again.",
    &[],
);
pub(super) const LOST_PODS_REPAIRED: Family = Family::new(
    "supercargo_lost_pods_repaired_total",
    "[ALPHA] Number of pending pods that were found in no queue or in two places, and were repaired.",
    &[],
);
pub(super) const VERIFIED_DECISIONS: Family = Family::new(
    "supercargo_verified_decisions_total",
    "[ALPHA] Number of cached decisions that were compared with a full evaluation, by result: same or different.",
    &["result"],
);
pub(super) const CACHE_UNCHECKED: Family = Family::new(
    "supercargo_cache_verification_oldest_seconds",
    "[ALPHA] Longest time in seconds since a live cached signature was created or compared with a full evaluation; 0 if there is none.",
    &[],
);
pub(super) const CACHE_CHECKING: Family = Family::new(
    "supercargo_cache_verification_seconds_total",
    "[ALPHA] Seconds of busy time the scheduling thread spent comparing cached decisions with full evaluations; at most 2 % of busy time by default. Comparisons made in idle time are not counted.",
    &[],
);
pub(super) const BUSY: Family = Family::new(
    "supercargo_scheduling_busy_seconds_total",
    "[ALPHA] Seconds in which the scheduling thread had work, comparisons of cached decisions included.",
    &[],
);
pub(super) const CACHE_USED: Family = Family::new(
    "supercargo_decision_cache_used",
    "[ALPHA] Whether cached decisions are used (1). They are disabled (0) after three differences from full evaluations, until the next start.",
    &[],
);
pub(super) const POISON_OBJECTS: Family = Family::new(
    "supercargo_poison_objects_total",
    "[ALPHA] Number of objects quarantined because handling them panicked.",
    &[],
);
pub(super) const CACHE_DRIFT: Family = Family::new(
    "supercargo_cache_drift",
    "[ALPHA] Number of objects by which the scheduler's cache differed from the API server at the last SIGUSR2: missed (absent from the cache) or redundant (only in the cache).",
    &["kind", "which"],
);
pub(super) const CERTIFICATE_RELOADS: Family = Family::new(
    "supercargo_certificate_reloads_total",
    "[ALPHA] Number of changes to the serving certificate's files, by result: applied, or invalid if the previous certificate stays in use.",
    &["result"],
);
pub(super) const CERTIFICATE_LAST_RELOAD_SUCCESS: Family = Family::new(
    "supercargo_certificate_last_reload_success",
    "[ALPHA] Whether the serving certificate's current files are valid (1) or not (0).",
    &[],
);
pub(super) const EMULATED_VERSION: Family = Family::new(
    "supercargo_emulated_version",
    "[ALPHA] 1 for the version of kube-scheduler that the scheduler behaves as.",
    &["version"],
);
pub(super) const CONFIG_RELOADS: Family = Family::new(
    "supercargo_config_reloads_total",
    "[ALPHA] Number of changes to the configuration file while running, by result: applied, needs_restart if some fields take effect only after a restart, or invalid if the previous configuration stays active.",
    &["result"],
);
pub(super) const CONFIG_LAST_RELOAD_SUCCESS: Family = Family::new(
    "supercargo_config_last_reload_success",
    "[ALPHA] Whether the current configuration file is valid (1) or not (0).",
    &[],
);
pub(super) const CONFIG_RESTART_NEEDED: Family = Family::new(
    "supercargo_config_restart_needed",
    "[ALPHA] Whether the configuration file has changes that take effect only after a restart.",
    &[],
);
pub(super) const SHADOW_DECISIONS: Family = Family::new(
    "supercargo_shadow_decisions_total",
    "[ALPHA] Number of decisions of the --shadow-of scheduler, by agreement: same (its node is the only best one), equal_score (one of several best nodes), different (a worse node), we_fit_they_not, they_fit_we_not, neither_fits, or raced (explained only by a different order of events).",
    &["agreement"],
);
pub(super) const SHADOW_UNJUDGED: Family = Family::new(
    "supercargo_shadow_unjudged_total",
    "[ALPHA] Number of decisions of the --shadow-of scheduler that were not compared, by reason: unordered (first seen in a list), unsupported (the pod needs a feature that no plugin evaluates), failed (a plugin failed), or crowded (too many changes at a time).",
    &["reason"],
);
pub(super) const SHADOW_SCORE_REGRET: Family = Family::new(
    "supercargo_shadow_score_regret",
    "[ALPHA] Best total score minus the score of the node chosen by the --shadow-of scheduler, for decisions where both found a node and that did not race.",
    &[],
)
.fixed(&[0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0]);
pub(super) const TRACE_SPANS: Family = Family::new(
    "supercargo_trace_spans_total",
    "[ALPHA] Number of trace spans of scheduling attempts, by result: sent, failed (the collector did not accept them), or dropped (too many were queued).",
    &["result"],
);
pub(super) const RECORD_LINES: Family = Family::new(
    "supercargo_record_lines_total",
    "[ALPHA] Number of lines for the files of --decision-log (decisions) and --record-to (input), by result: written, dropped (too many were queued), or failed (the file could not be written; nothing more is written to it).",
    &["record", "result"],
);
pub(super) const CORE_SCRAPE_FAILURES: Family = Family::new(
    "supercargo_core_scrape_failures_total",
    "[ALPHA] Number of scrapes that lack the scheduling thread's metrics because it did not answer in time.",
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
    "[ALPHA] Number of writes not sent because the lease was not held or not renewed in time.",
    &[],
);
