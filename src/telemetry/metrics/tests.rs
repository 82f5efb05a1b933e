//! Tests of the exposition text, compared with a scrape of kube-scheduler.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;

use super::*;
use supercargo_config::flags::CommandLine;
use supercargo_core::model::emulation::EmulatedVersion;
use supercargo_core::report::DeviceWait;
use supercargo_objects::api::Encoding;

/// HELP, TYPE and one label set's series of each family, from a scrape of kube-scheduler v1.36.3.
const UPSTREAM: &str = include_str!("../../../tests/fixtures/metrics-upstream.txt");

/// Returns the lines of each family without values. Label values other than bucket bounds are replaced by `x`.
fn shapes(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut shapes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut family = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            family = rest.split(' ').next().unwrap().to_owned();
        }
        let shape = if line.starts_with('#') { line.to_owned() } else { shape_of_series(line) };
        shapes.entry(family.clone()).or_default().insert(shape);
    }
    shapes
}

fn shape_of_series(line: &str) -> String {
    let series = line.split_once(' ').map_or(line, |(series, _)| series);
    let Some((name, labels)) = series.split_once('{') else { return series.to_owned() };
    let labels: Vec<String> = labels
        .trim_end_matches('}')
        .split(',')
        .map(|label| match label.split_once('=').unwrap() {
            ("le", _) => label.to_owned(),
            (key, _) => format!("{key}=\"x\""),
        })
        .collect();
    format!("{name}{{{}}}", labels.join(","))
}

fn some_stats() -> CoreStats {
    CoreStats {
        pending: PendingPods { active: 3, backoff: 1, unschedulable: 19, gated: 2, incomplete: 6 },
        unschedulable: vec![UnschedulablePods {
            plugin: "NodeResourcesFit".into(),
            profile: "supercargo".into(),
            pods: 17,
        }],
        incoming: vec![IncomingPods {
            queue: "active".into(),
            event: "UnschedulablePodAdd".into(),
            pods: 55,
        }],
        bindings: 8,
        evictions: 9,
        rechecks_failed: 12,
        dropped_events: 13,
        effects_waiting: vec![("bind", 14)],
        cache: CacheSizes { nodes: 8, pods: 32, assumed_pods: 1 },
        pods_rescued_by_flush: 4,
        poison_objects: 0,
        panics: 2,
        lost_pods: 1,
        lost_pods_repaired: 3,
        waiting_for_volumes: 6,
        waiting_for_extenders: 7,
        in_evaluation: 1,
        evaluation_slices: 40,
        prioritizing: 10,
        unschedulable_groups: 5,
        queued_groups: Some([0, 0, 2, 0].map(|groups| QueuedGroups { groups, members: 3 * groups })),
        podgroups_waiting: 4,
        podgroups_below_min_count: 2,
        podgroups_fragmented: 3,
        recalled_decisions: 11,
        verified_decisions: [12, 1],
        cache_unchecked: Duration::from_secs(75),
        cache_checking: Duration::from_millis(1_500),
        busy: Duration::from_secs(100),
        is_cache_used: true,
        oldest_pending: vec![("active", Duration::ZERO), ("unschedulable", Duration::from_secs(90))],
        kubelet_rejections: vec![("OutOfcpu".to_owned(), 3)],
    }
}

fn answering(stats: Option<CoreStats>) -> CoreSource {
    Box::new(move || std::future::ready(stats.clone()).boxed())
}

const MS: Duration = Duration::from_millis(1);

#[tokio::test]
async fn upstream_families_have_upstream_help_type_and_labels() {
    let metrics = Arc::new(Metrics::new());
    let mut profile = metrics.profile("supercargo");
    profile.attempt(AttemptResult::Scheduled, MS);
    profile.extension_point(ExtensionPoint::Filter, StatusCode::Success, MS);
    profile.plugin_evaluated("NodeName", ExtensionPoint::Filter, 1);
    metrics.algorithm(MS);
    metrics.pod_scheduled(1, Some(MS));
    metrics.plugin_execution("NodeName", ExtensionPoint::Filter, StatusCode::Success, MS);
    metrics.event_handled("NodeAdd", MS);
    metrics.queueing_hint("NodeName", "NodeAdd", HintResult::Queue, MS);
    metrics.rest_request("GET", Some(200), "127.0.0.1:6443", MS);
    let text = Exposition::new(metrics).with_core(answering(Some(some_stats()))).render().await;

    let (ours, upstreams) = (shapes(&text), shapes(UPSTREAM));
    for (family, shape) in &upstreams {
        assert_eq!(ours.get(family), Some(shape), "{family}");
    }
    let is_upstreams_name =
        |name: &&String| name.starts_with("scheduler_") || name.starts_with("rest_client_");
    let unknown: Vec<&String> =
        ours.keys().filter(is_upstreams_name).filter(|name| !upstreams.contains_key(*name)).collect();
    assert!(unknown.is_empty(), "families unknown to upstream: {unknown:?}");
}

#[tokio::test]
async fn engine_numbers_are_shown_on_scrape() {
    let exposition = Exposition::new(Arc::new(Metrics::new()))
        .with_core(answering(Some(some_stats())))
        .with_event_channel(|| ChannelFill { length: 7, capacity: 1024 })
        .with_log_lines_lost(|| 21);
    let text = exposition.render().await;
    for line in [
        "scheduler_pending_pods{queue=\"active\"} 3",
        "scheduler_pending_pods{queue=\"backoff\"} 1",
        "scheduler_pending_pods{queue=\"gated\"} 2",
        "scheduler_pending_pods{queue=\"unschedulable\"} 19",
        "scheduler_unschedulable_pods{plugin=\"NodeResourcesFit\",profile=\"supercargo\"} 17",
        "scheduler_queue_incoming_pods_total{event=\"UnschedulablePodAdd\",queue=\"active\"} 55",
        "scheduler_cache_size{type=\"assumed_pods\"} 1",
        "scheduler_pod_scheduled_after_flush_total 4",
        "supercargo_pods_rescued_by_flush_total 4",
        "supercargo_poison_objects_total 0",
        "supercargo_panics_total 2",
        "supercargo_lost_pods 1",
        "supercargo_lost_pods_repaired_total 3",
        "supercargo_pods_waiting_for_volumes 6",
        "supercargo_unschedulable_groups 5",
        "supercargo_podgroups_waiting 4",
        "supercargo_podgroups_below_min_count 2",
        "supercargo_podgroups_fragmented 3",
        "supercargo_recalled_decisions_total 11",
        r#"supercargo_verified_decisions_total{result="different"} 1"#,
        r#"supercargo_verified_decisions_total{result="same"} 12"#,
        "supercargo_cache_verification_oldest_seconds 75",
        "supercargo_cache_verification_seconds_total 1.5",
        "supercargo_scheduling_busy_seconds_total 100",
        "supercargo_decision_cache_used 1",
        "supercargo_oldest_pending_pod_seconds{queue=\"unschedulable\"} 90",
        "supercargo_kubelet_rejections_total{reason=\"OutOfcpu\"} 3",
        "scheduler_goroutines{operation=\"binding\"} 8",
        "supercargo_last_looks_failed_total 12",
        "supercargo_dropped_events_total 13",
        "supercargo_effects_waiting{lane=\"bind\"} 14",
        "supercargo_event_channel_length 7",
        "supercargo_event_channel_capacity 1024",
        "supercargo_log_lines_lost_total 21",
        "supercargo_core_scrape_failures_total 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing from\n{text}");
    }
}

/// Renders everything as a version of kube-scheduler, with these flags.
async fn text_of(version: EmulatedVersion, flags: &[&str]) -> String {
    let metrics = Arc::new(Metrics::new());
    metrics.preemption_ended(true, MS);
    metrics.resource_claim_created(true);
    let devices = vec![("gpu".into(), true), ("gpu".into(), false)];
    metrics.devices_waited("p", &DeviceWait { status: "timeout", took: MS, devices });
    let flags: Vec<_> = flags.iter().map(std::ffi::OsString::from).collect();
    let selection = Selection::of(&CommandLine::read(&flags, &[]).values).unwrap();
    let kubernetes = move || Kubernetes {
        version,
        git_version: format!("v{version}.0"),
        gates: supercargo_config::flags::gates::all(&[], version),
    };
    let exposition = Exposition::new(metrics).with_selection(selection).with_kubernetes(kubernetes);
    exposition.with_core(answering(Some(some_stats()))).render().await
}

/// Names and texts as in `metrics.go` of each version.
#[tokio::test]
async fn families_and_their_texts_are_those_of_the_version() {
    use EmulatedVersion::{V1_34, V1_35, V1_36, V1_37};
    let mut families = BTreeMap::new();
    for version in EmulatedVersion::ALL {
        families.insert(version, text_of(version, &[]).await);
    }
    let expected: [(&str, &[EmulatedVersion]); 18] = [
        ("scheduler_resourceclaim_creates_total{status=\"success\"} 1", &[V1_36]),
        (
            "dynamic_resource_allocation_resourceclaim_creates_total{admin_access=\"false\",owner_api_group=\"\",\
             owner_api_kind=\"Pod\",status=\"success\"} 1",
            &[V1_37],
        ),
        (
            "scheduler_dra_bindingconditions_allocations_total{driver=\"gpu\",profile=\"p\",status=\"timeout\"} 1",
            &[V1_36, V1_37],
        ),
        (
            "scheduler_dra_bindingconditions_wait_duration_seconds_count{driver=\"gpu\",profile=\"p\",\
             status=\"timeout\"} 2",
            &[V1_36, V1_37],
        ),
        ("scheduler_pod_scheduled_after_flush_total 4", &[V1_36, V1_37]),
        ("flushed from unschedulableEntities due", &[V1_37]),
        ("scheduler_pending_pods{queue=\"incomplete\"} 6", &[V1_37]),
        ("scheduler_queued_entities{queue=\"unschedulable\",type=\"pod\"} 13", &[V1_37]),
        ("scheduler_queued_entities{queue=\"unschedulable\",type=\"podgroup\"} 2", &[V1_37]),
        (
            "scheduler_queue_incoming_entities_total{event=\"UnschedulablePodAdd\",queue=\"active\",type=\"pod\"} 55",
            &[V1_37],
        ),
        ("# HELP scheduler_preemption_goroutines_duration_seconds [ALPHA] Dur", &[V1_34, V1_35, V1_36]),
        ("\nhidden_metrics_total 1\n", &[V1_37]),
        ("# HELP scheduler_goroutines [BETA] Number", &[V1_36, V1_37]),
        ("# HELP scheduler_goroutines [ALPHA] Number", &[V1_34, V1_35]),
        ("# HELP kubernetes_build_info [ALPHA] A metric", &[V1_34, V1_35]),
        ("# HELP scheduler_scheduling_algorithm_duration_seconds [BETA] Sch", &[V1_37]),
        (
            "[STABLE] Number of selected preemption victims for preemption initiated by a single pod\n",
            &[V1_37],
        ),
        ("kubernetes_feature_enabled{name=\"SchedulerQueueingHints\",stage=\"\"} 1", &[V1_34, V1_35, V1_36]),
    ];
    for (part, versions) in expected {
        let found = families.iter().filter(|(_, text)| text.contains(part)).map(|(version, _)| *version);
        assert_eq!(found.collect::<Vec<_>>(), versions, "{part}");
    }
    let shown = text_of(V1_37, &["--show-hidden-metrics-for-version=1.36"]).await;
    let deprecated = "duration_seconds [ALPHA] (Deprecated since 1.37.0) Duration in seconds";
    assert!(shown.contains(deprecated) && shown.contains("\nhidden_metrics_total 0\n"), "{shown}");
}

#[tokio::test]
async fn scrape_without_engine_answer_lacks_only_engine_families() {
    let metrics = Arc::new(Metrics::new());
    let silent: CoreSource = Box::new(|| std::future::pending().boxed());
    let text = Exposition::new(metrics.clone()).with_core(silent).with_core_deadline(MS).render().await;
    assert!(!text.contains("scheduler_pending_pods"));
    assert!(text.contains("\nscheduler_preemption_attempts_total 0\n"));
    assert!(text.contains("\nsupercargo_core_scrape_failures_total 1\n"));
    let text = Exposition::new(metrics).with_core(answering(None)).render().await;
    assert!(text.contains("\nsupercargo_core_scrape_failures_total 2\n"));
}

#[tokio::test]
async fn series_that_upstream_creates_at_start_begin_at_zero() {
    let metrics = Arc::new(Metrics::new());
    let mut profile = metrics.profile("supercargo");
    profile.plugin_evaluated("NodePorts", ExtensionPoint::Filter, 0);
    let text = Exposition::new(metrics).render().await;
    for line in [
        "scheduler_schedule_attempts_total{profile=\"supercargo\",result=\"error\"} 0",
        "scheduler_schedule_attempts_total{profile=\"supercargo\",result=\"scheduled\"} 0",
        "scheduler_schedule_attempts_total{profile=\"supercargo\",result=\"unschedulable\"} 0",
        "scheduler_plugin_evaluation_total{extension_point=\"Filter\",plugin=\"NodePorts\",profile=\"supercargo\"} 0",
        "scheduler_preemption_attempts_total 0",
        "scheduler_preemption_victims_count 0",
        "scheduler_pod_scheduling_attempts_count 0",
        "scheduler_scheduling_algorithm_duration_seconds_bucket{le=\"+Inf\"} 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing from\n{text}");
    }
    for absent in ["scheduler_framework_extension_point", "scheduler_scheduling_attempt", "rest_client"] {
        assert!(!text.contains(absent), "{absent} has a series before anything was recorded");
    }
}

#[tokio::test]
async fn attempts_are_counted_under_their_labels() {
    let metrics = Arc::new(Metrics::new());
    let profile = metrics.profile("a");
    profile.attempt(AttemptResult::Error, 3 * MS);
    profile.attempt(AttemptResult::Error, 5 * MS);
    profile.extension_point(ExtensionPoint::Bind, StatusCode::Skip, MS);
    for attempts in [0, 1, 14, 15, 4000] {
        metrics.pod_scheduled(attempts, Some(MS));
    }
    metrics.pod_scheduled(2, None);
    let text = Exposition::new(metrics).render().await;
    for line in [
        "scheduler_schedule_attempts_total{profile=\"a\",result=\"error\"} 2",
        "scheduler_scheduling_attempt_duration_seconds_bucket{profile=\"a\",result=\"error\",le=\"0.004\"} 1",
        "scheduler_scheduling_attempt_duration_seconds_count{profile=\"a\",result=\"error\"} 2",
        "scheduler_framework_extension_point_duration_seconds_count{extension_point=\"Bind\",profile=\"a\",status=\"Skip\"} 1",
        "scheduler_pod_scheduling_sli_duration_seconds_count{attempts=\"1\"} 2",
        "scheduler_pod_scheduling_sli_duration_seconds_count{attempts=\"14\"} 1",
        "scheduler_pod_scheduling_sli_duration_seconds_count{attempts=\"15+\"} 2",
        "scheduler_pod_scheduling_attempts_count 6",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing from\n{text}");
    }
    assert!(!text.contains("attempts=\"2\""));
}

#[tokio::test]
async fn watches_and_writes_are_counted_by_kind() {
    let metrics = Arc::new(Metrics::new());
    let pods = metrics.watch("Pod");
    pods.heard();
    metrics.watch("Pod").restarted();
    pods.malformed();
    pods.received(Encoding::Protobuf, 7);
    let first = metrics.effect_in_flight("bind");
    drop(metrics.effect_in_flight("bind"));
    metrics.bind_unknown();
    metrics.rest_request("POST", None, "10.0.0.1:443", MS);
    let text = Exposition::new(metrics).render().await;
    for line in [
        "supercargo_watch_restarts_total{kind=\"Pod\"} 1",
        "supercargo_malformed_objects_total{kind=\"Pod\"} 1",
        "supercargo_watch_received_bytes_total{encoding=\"protobuf\",kind=\"Pod\"} 7",
        "supercargo_effects_in_flight{kind=\"bind\"} 1",
        "supercargo_binds_unknown_total 1",
        "rest_client_requests_total{code=\"<error>\",host=\"10.0.0.1:443\",method=\"POST\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing from\n{text}");
    }
    assert!(text.contains("\nsupercargo_watch_age_seconds{kind=\"Pod\"} "));
    drop(first);
}

#[test]
fn slis_show_only_checks_that_have_run() {
    let text = render_slis(&[
        CheckTally { name: "ping", endpoint: "livez", passing: true, successes: 2, errors: 0 },
        CheckTally {
            name: "sched-handler-sync",
            endpoint: "readyz",
            passing: false,
            successes: 5,
            errors: 1,
        },
    ]);
    let (slis, process) = text.split_once("# HELP process").unwrap_or((&text, ""));
    assert_eq!(
        slis,
        "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.\n\
         # TYPE kubernetes_healthcheck gauge\n\
         kubernetes_healthcheck{name=\"ping\",type=\"livez\"} 1\n\
         kubernetes_healthcheck{name=\"sched-handler-sync\",type=\"readyz\"} 0\n\
         # HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.\n\
         # TYPE kubernetes_healthchecks_total counter\n\
         kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"livez\"} 2\n\
         kubernetes_healthchecks_total{name=\"sched-handler-sync\",status=\"error\",type=\"readyz\"} 1\n\
         kubernetes_healthchecks_total{name=\"sched-handler-sync\",status=\"success\",type=\"readyz\"} 5\n"
    );
    if cfg!(target_os = "linux") {
        assert!(process.starts_with("_start_time_seconds [ALPHA] Start time"));
    }
}
