//! Metrics, logs and traces of decisions, with kube-scheduler's attempt metrics.
//!
//! A decision's profile is known only from its report, so the probe's measurements are kept until then.

mod groups;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use supercargo_core::cycle::{Framework, Point, Probe};
use supercargo_core::framework::PluginName;
use supercargo_core::framework::extension_point;
use supercargo_core::model::event::{BindOutcome, Event};
use supercargo_core::model::time::Time;
use supercargo_core::report::group::GroupReport;
use supercargo_core::report::{Notice, Outcome, Preemption, Report};
use supercargo_core::scheduler::Scheduler;

use crate::engine::interface::Observer;
use crate::telemetry::log::DECISIONS;
use crate::telemetry::metrics::{AttemptResult, ExtensionPoint, Metrics, ProfileMetrics, StatusCode};
use crate::telemetry::traces::{Phase, Tracer};
use groups::LastGroup;

/// Records the engine's reports in [`Metrics`].
pub struct Accounts {
    metrics: Arc<Metrics>,
    profiles: BTreeMap<String, ProfileMetrics>,
    stopwatch: Stopwatch,
    rescued_by_flush: Arc<AtomicU64>,
    tracer: Option<Tracer>,
    last_group: LastGroup,
}

impl Accounts {
    /// Creates accounts for the profiles of these names, whose series begin at 0.
    pub fn new<'a>(metrics: Arc<Metrics>, profiles: impl IntoIterator<Item = &'a str>) -> Self {
        let profiles = profiles.into_iter().map(|name| (name.to_owned(), metrics.profile(name))).collect();
        let (stopwatch, rescued_by_flush) = (Stopwatch::default(), Arc::default());
        Self {
            metrics,
            profiles,
            stopwatch,
            rescued_by_flush,
            tracer: None,
            last_group: LastGroup::default(),
        }
    }

    /// Creates trace spans from reports, if `tracer` is set.
    #[must_use]
    pub fn traced(mut self, tracer: Option<Tracer>) -> Self {
        self.tracer = tracer;
        self
    }

    /// Creates the series of every plugin of every profile at 0, as upstream does.
    #[must_use]
    pub fn expecting(mut self, engine: &Scheduler) -> Self {
        for profile in engine.profiles() {
            self.expect_plugins(&profile.name, &profile.framework);
        }
        self
    }

    fn expect_plugins(&mut self, profile: &str, framework: &Framework) {
        let points = [
            (extension_point::ExtensionPoint::PreFilter, ExtensionPoint::PreFilter),
            (extension_point::ExtensionPoint::Filter, ExtensionPoint::Filter),
            (extension_point::ExtensionPoint::PreScore, ExtensionPoint::PreScore),
            (extension_point::ExtensionPoint::Score, ExtensionPoint::Score),
        ];
        let profile = self.profile(profile);
        for (at, point) in points {
            for plugin in framework.plugins_at(at) {
                profile.plugin_evaluated(plugin, point, 0);
            }
        }
    }

    /// Returns the live counter of pods that only the periodic flush had requeued.
    pub fn rescued_by_flush(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.rescued_by_flush)
    }

    /// Records what the probe measured since the last report.
    fn record_laps(&mut self, profile: &str, laps: Vec<Lap>) {
        let plugins = self.stopwatch.take_plugins();
        let metrics = Arc::clone(&self.metrics);
        let profile = self.profile(profile);
        for (point, status, lap, _) in laps {
            profile.extension_point(point, status, lap);
        }
        for PluginLap { plugin, point, status, nodes, took } in plugins {
            if status != StatusCode::Skip {
                profile.plugin_evaluated(plugin, point, nodes);
            }
            if let Some(took) = took {
                metrics.plugin_execution(plugin, point, status, took);
            }
        }
    }

    fn profile(&mut self, name: &str) -> &mut ProfileMetrics {
        if !self.profiles.contains_key(name) {
            self.profiles.insert(name.to_owned(), self.metrics.profile(name));
        }
        self.profiles.get_mut(name).expect("it was put there just now")
    }
}

impl Observer for Accounts {
    fn probe(&mut self) -> &mut dyn Probe {
        &mut self.stopwatch
    }

    fn report(&mut self, now: Time, report: &Report, took: Duration) {
        let laps = std::mem::take(&mut self.stopwatch.laps);
        if let Some(tracer) = &mut self.tracer {
            let stretch = |&(point, _, took, began): &Lap| Phase { point, ago: began.elapsed(), took };
            tracer.report(now, report, &laps.iter().map(stretch).collect::<Vec<_>>());
        }
        self.record_laps(&report.profile, laps);
        let (share, start) = self.last_group.take_member(now, report);
        let took = share.unwrap_or(took);
        if let Some(waited) = start {
            self.metrics.group_started(waited);
        }
        let metrics = Arc::clone(&self.metrics);
        let profile = self.profile(&report.profile);
        let attempt_took = now.since(report.began).max(took);
        match &report.outcome {
            Outcome::Placed { .. } => self.metrics.algorithm(took),
            Outcome::Unschedulable { preemption, .. } => {
                profile.attempt(AttemptResult::Unschedulable, attempt_took);
                self.metrics.algorithm(took);
                if *preemption != Preemption::NotTried {
                    self.metrics.preemption_attempted();
                }
                // As upstream does, count all victims, but only if at least one is evicted.
                if let Preemption::Nominated { victims, evictions: 1.., .. } = preemption {
                    self.metrics.preemption_victims(victims.len());
                }
            }
            Outcome::Error { .. } => {
                profile.attempt(AttemptResult::Error, attempt_took);
                self.metrics.algorithm(took);
            }
            Outcome::PreBound { succeeded, failed, took, devices } => {
                if let Some(wait) = devices {
                    metrics.devices_waited(&report.profile, wait);
                }
                let status = if *succeeded { StatusCode::Success } else { StatusCode::Error };
                profile.extension_point(ExtensionPoint::PreBind, status, *took);
                if *failed == Some("VolumeBinding") {
                    self.metrics.volumes_not_bound();
                }
            }
            Outcome::BindFailed { .. } => profile.attempt(AttemptResult::Error, attempt_took),
            Outcome::Bound { .. } => {
                profile.attempt(AttemptResult::Scheduled, attempt_took);
                self.metrics.pod_scheduled(report.attempt, Some(now.since(report.first_queued)));
                self.rescued_by_flush.fetch_add(u64::from(report.rescued_by_flush), Ordering::Relaxed);
            }
            Outcome::PreemptionEnded { error, .. } => {
                self.metrics.preemption_ended(error.is_none(), now.since(report.began));
            }
            Outcome::Skipped => {}
        }
        log(report, attempt_took);
    }

    fn group(&mut self, now: Time, report: &GroupReport, took: Duration) {
        let laps = std::mem::take(&mut self.stopwatch.laps);
        self.record_laps(&report.profile, laps);
        self.last_group = LastGroup::of(now, report, took);
        self.metrics.group_attempted(report, now.since(report.began).max(took), took);
        groups::log(report, took);
    }

    fn notice(&mut self, notice: &Notice) {
        tracing::error!(object = %notice.object, "{}", notice.text);
    }

    fn handled(&mut self, label: &'static str, took: Duration) {
        self.metrics.event_handled(label, took);
    }

    fn answer(&mut self, event: &Event) {
        if let Event::BindFinished { outcome: BindOutcome::Unknown { .. }, .. } = event {
            self.metrics.bind_unknown();
        }
    }
}

/// Logs one line per report, with upstream's message where it has one (`pkg/scheduler/schedule_one.go`).
fn log(report: &Report, took: Duration) {
    let (pod, attempt) = (format_args!("{}/{}", report.pod.namespace, report.pod.name), report.attempt);
    match &report.outcome {
        Outcome::Placed { node, nodes, feasible, .. } => {
            tracing::debug!(target: DECISIONS, %pod, %node, nodes, feasible, attempt, "Attempting to bind pod to node");
        }
        Outcome::PreBound { succeeded, took, .. } => {
            tracing::debug!(target: DECISIONS, %pod, attempt, succeeded, ?took, "Finished waiting for the pod's volumes and claims");
        }
        Outcome::Bound { node, evaluated, feasible } => {
            tracing::info!(
                target: DECISIONS,
                %pod, %node, evaluatedNodes = evaluated, feasibleNodes = feasible, attempt, ?took,
                "Successfully bound pod to node"
            );
        }
        Outcome::Unschedulable {
            message,
            preemption: Preemption::Nominated { node, victims, evictions },
            ..
        } => {
            let victims: Vec<_> =
                victims.iter().map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect();
            tracing::info!(
                target: DECISIONS,
                %pod, attempt, err = %message, %node, ?victims, evictions,
                "Unable to schedule pod; nominated to a node and waiting for its victims to terminate"
            );
        }
        Outcome::Unschedulable { message, .. } => {
            tracing::info!(target: DECISIONS, %pod, attempt, err = %message, "{}", unplaced(message));
        }
        Outcome::Error { message } | Outcome::BindFailed { message } => {
            tracing::warn!(target: DECISIONS, %pod, attempt, err = %message, "Error scheduling pod; retrying");
        }
        Outcome::PreemptionEnded { node, error: None } => {
            tracing::debug!(target: DECISIONS, %pod, %node, ?took, "async preemption finished");
        }
        Outcome::PreemptionEnded { node, error: Some(error) } => {
            tracing::warn!(target: DECISIONS, %pod, %node, %error, "error in async preemption; retrying");
        }
        Outcome::Skipped => tracing::debug!(target: DECISIONS, %pod, "Skip schedule deleting pod"),
    }
}

/// Returns upstream's log message for an unschedulable pod.
fn unplaced(message: &str) -> &'static str {
    if message == "no nodes available to schedule pods" {
        "Unable to schedule pod; no nodes are registered to the cluster; waiting"
    } else {
        "Unable to schedule pod; no fit; waiting"
    }
}

/// Times the extension points and plugins of one decision.
#[derive(Default)]
struct Stopwatch {
    running: Option<Instant>,
    laps: Vec<Lap>,
    plugin_running: Option<Instant>,
    plugins: Vec<PluginLap>,
    /// Decisions to skip before plugins are timed again; at 0, the current decision's plugins are timed.
    until_sample: u32,
}

/// Point of a decision, its status, its duration and its start.
type Lap = (ExtensionPoint, StatusCode, Duration, Instant);

/// One plugin's run in a decision.
struct PluginLap {
    plugin: PluginName,
    point: ExtensionPoint,
    status: StatusCode,
    nodes: usize,
    /// The duration, if this decision is sampled.
    took: Option<Duration>,
}

/// Plugins are timed in one of this many decisions; upstream samples a tenth (`pluginMetricsSamplePercent`).
const SAMPLE_EVERY: u32 = 10;

impl Stopwatch {
    /// Returns the plugin runs of the decision that has ended.
    fn take_plugins(&mut self) -> Vec<PluginLap> {
        let laps = std::mem::take(&mut self.plugins);
        if !laps.is_empty() {
            self.until_sample = self.until_sample.checked_sub(1).unwrap_or(SAMPLE_EVERY - 1);
        }
        laps
    }
}

/// Maximum number of points kept. A decision has at most four; the bound matters if its report never comes.
const LAPS_MAX: usize = 64;
/// Maximum number of plugin runs kept; more than all plugins at four points.
const PLUGIN_LAPS_MAX: usize = 256;

impl Probe for Stopwatch {
    fn enter(&mut self, _point: Point) {
        self.running = Some(Instant::now());
    }

    fn leave(&mut self, point: Point, status: &'static str) {
        let Some(began) = self.running.take() else { return };
        let Some(point) = extension_point(point) else { return };
        if self.laps.len() < LAPS_MAX {
            self.laps.push((point, status_code(status), began.elapsed(), began));
        }
    }

    fn plugin_begins(&mut self) {
        self.plugin_running = (self.until_sample == 0).then(Instant::now);
    }

    fn plugin_ended(&mut self, plugin: PluginName, point: Point, status: &'static str, nodes: usize) {
        let took = self.plugin_running.take().map(|began| began.elapsed());
        let Some(point) = extension_point(point) else { return };
        if self.plugins.len() < PLUGIN_LAPS_MAX {
            self.plugins.push(PluginLap { plugin, point, status: status_code(status), nodes, took });
        }
    }
}

/// Maps the engine's point to the metric label of the same name.
fn extension_point(point: Point) -> Option<ExtensionPoint> {
    ExtensionPoint::ALL.iter().copied().find(|known| known.as_str() == point.as_str())
}

fn status_code(name: &str) -> StatusCode {
    StatusCode::ALL.iter().copied().find(|code| code.as_str() == name).unwrap_or(StatusCode::Error)
}

#[cfg(test)]
mod tests {
    use supercargo_core::model::effect::PodRef;
    use supercargo_core::model::emulation::EmulatedVersion;
    use supercargo_core::report::group::{GroupOutcome, MemberReport, PlacementReport};

    use super::*;
    use crate::telemetry::metrics::{Exposition, Kubernetes};

    fn report(outcome: Outcome) -> Report {
        Report {
            pod: PodRef { namespace: "default".to_owned(), name: "a".to_owned(), uid: "u1".into() },
            profile: "supercargo".to_owned(),
            attempt: 2,
            first_queued: Time::from_secs(10),
            began: Time::from_secs(12),
            rescued_by_flush: true,
            outcome,
        }
    }

    fn node() -> String {
        "n1".to_owned()
    }

    async fn counted(outcomes: impl IntoIterator<Item = Outcome>) -> String {
        let metrics = Arc::new(Metrics::new());
        let mut accounts = Accounts::new(Arc::clone(&metrics), ["supercargo"]);
        for outcome in outcomes {
            accounts.probe().enter(Point::Filter);
            accounts.probe().leave(Point::Filter, "Success");
            accounts.report(Time::from_secs(15), &report(outcome), Duration::from_millis(1));
        }
        Exposition::new(metrics).render().await
    }

    fn shows(text: &str, line: &str) {
        assert!(text.lines().any(|shown| shown == line), "{line} is missing from\n{text}");
    }

    /// Of a group with two members, 4 ms of decisions.
    fn of_group(outcome: GroupOutcome) -> GroupReport {
        let member = |uid: &str| MemberReport {
            pod: PodRef { uid: uid.into(), ..report(Outcome::Skipped).pod },
            node: None,
            code: "Success",
            message: None,
            permit: None,
            preempts: false,
        };
        let placement = |name: &str, status: &str| PlacementReport {
            name: name.to_owned(),
            nodes: 1,
            code: "Success",
            status: status.to_owned(),
            placed: 0,
            members: Vec::new(),
            scores: Vec::new(),
        };
        GroupReport {
            namespace: "default".to_owned(),
            name: "g".to_owned(),
            profile: "supercargo".to_owned(),
            began: Time::from_secs(12),
            outcome,
            status: String::new(),
            members: vec![member("u1"), member("u2")],
            placements: vec![placement("a", ""), placement("b", "no room"), placement("c", "no room")],
            chosen: None,
            preemption: None,
            victims: Vec::new(),
        }
    }

    #[tokio::test]
    async fn start_of_a_group_is_measured_from_its_first_member() {
        let metrics = Arc::new(Metrics::new());
        let mut accounts = Accounts::new(Arc::clone(&metrics), ["supercargo"]);
        let placed = || Outcome::Placed { node: node(), nodes: 3, feasible: 2, score: None };
        let member = |uid: &str, queued: u64, outcome: Outcome| {
            let of = report(outcome);
            let pod = PodRef { uid: uid.into(), ..of.pod.clone() };
            Report { pod, first_queued: Time::from_secs(queued), ..of }
        };
        for outcome in [GroupOutcome::Unschedulable, GroupOutcome::Scheduled] {
            accounts.group(Time::from_secs(15), &of_group(outcome), Duration::ZERO);
            for (uid, queued) in [("u1", 9), ("u2", 5)] {
                accounts.report(Time::from_secs(15), &member(uid, queued, placed()), Duration::ZERO);
            }
        }
        let text = Exposition::new(metrics).render().await;
        shows(&text, "supercargo_podgroup_start_duration_seconds_sum 10");
        shows(&text, "supercargo_podgroup_start_duration_seconds_count 1");
    }

    #[tokio::test]
    async fn group_is_counted_once_and_its_members_share_its_time() {
        let metrics = Arc::new(Metrics::new());
        metrics.schedules_groups(["supercargo"]);
        let mut accounts = Accounts::new(Arc::clone(&metrics), ["supercargo"]);
        let (now, took) = (Time::from_secs(15), Duration::from_millis(4));
        accounts.probe().enter(Point::Filter);
        accounts.probe().leave(Point::Filter, "Success");
        accounts.group(now, &of_group(GroupOutcome::Scheduled), took);
        let placed = Outcome::Placed { node: node(), nodes: 3, feasible: 2, score: None };
        accounts.report(now, &report(placed), Duration::ZERO);
        accounts.group(now, &of_group(GroupOutcome::Refused), took);
        let newest =
            || Kubernetes { version: EmulatedVersion::V1_37, git_version: String::new(), gates: Vec::new() };
        let text = Exposition::new(metrics).with_kubernetes(newest).render().await;
        let of = |result: &str| format!("{{profile=\"supercargo\",result=\"{result}\"}}");
        shows(&text, &format!("scheduler_podgroup_schedule_attempts_total{} 1", of("scheduled")));
        shows(&text, &format!("scheduler_podgroup_schedule_attempts_total{} 0", of("error")));
        shows(
            &text,
            &format!("scheduler_podgroup_scheduling_attempt_duration_seconds_sum{} 3", of("scheduled")),
        );
        // The only report came from one of two members, so the start is not complete.
        shows(&text, "supercargo_podgroup_start_duration_seconds_count 0");
        shows(&text, "scheduler_podgroup_scheduling_algorithm_duration_seconds_count 1");
        shows(&text, "scheduler_scheduling_algorithm_duration_seconds_sum 0.002");
        shows(&text, "scheduler_generated_placements_total{profile=\"supercargo\"} 3");
        shows(&text, &format!("scheduler_placement_evaluations_total{} 2", of("infeasible")));
        let filter = "extension_point=\"Filter\",profile=\"supercargo\",status=\"Success\"";
        shows(&text, &format!("scheduler_framework_extension_point_duration_seconds_count{{{filter}}} 1"));
        assert!(!text.contains("profile=\"\""), "{text}");
    }

    #[tokio::test]
    async fn scheduled_attempt_is_counted_after_binding_with_its_duration() {
        let placed = Outcome::Placed { node: node(), nodes: 3, feasible: 2, score: None };
        let text = counted([placed.clone()]).await;
        shows(&text, "scheduler_schedule_attempts_total{profile=\"supercargo\",result=\"scheduled\"} 0");
        let text = counted([placed, Outcome::Bound { node: node(), evaluated: 3, feasible: 2 }]).await;
        shows(&text, "scheduler_schedule_attempts_total{profile=\"supercargo\",result=\"scheduled\"} 1");
        let labels = "profile=\"supercargo\",result=\"scheduled\"";
        shows(&text, &format!("scheduler_scheduling_attempt_duration_seconds_sum{{{labels}}} 3"));
        shows(&text, "scheduler_scheduling_algorithm_duration_seconds_count 1");
        shows(&text, "scheduler_pod_scheduling_attempts_sum 2");
        shows(&text, "scheduler_pod_scheduling_sli_duration_seconds_sum{attempts=\"2\"} 5");
    }

    #[test]
    fn bound_pod_is_logged_with_upstream_message_and_node_counts() {
        let page = tempfile::NamedTempFile::new().expect("a scratch file");
        let writer = Arc::new(page.reopen().expect("the same file"));
        let log = tracing_subscriber::fmt().json().flatten_event(true).with_writer(writer);
        tracing::subscriber::with_default(log.finish(), || {
            let bound = report(Outcome::Bound { node: node(), evaluated: 3, feasible: 2 });
            crate::engine::observe::log(&bound, Duration::from_millis(1));
        });
        let line = std::fs::read(page.path()).expect("the file is there");
        let line: serde_json::Value = serde_json::from_slice(&line).expect("one line of JSON");
        assert_eq!((&line["level"], &line["target"]), (&"INFO".into(), &DECISIONS.into()));
        assert_eq!(line["message"], "Successfully bound pod to node");
        assert_eq!((&line["pod"], &line["node"]), (&"default/a".into(), &"n1".into()));
        assert_eq!((&line["evaluatedNodes"], &line["feasibleNodes"]), (&3.into(), &2.into()));
    }

    #[tokio::test]
    async fn volume_binding_is_timed_as_upstream_pre_bind() {
        let took = Duration::from_millis(2_500);
        let pre_bound = |failed: Option<&'static str>| Outcome::PreBound {
            succeeded: failed.is_none(),
            failed,
            took,
            devices: None,
        };
        let text = counted([None, Some("VolumeBinding"), Some("DynamicResources")].map(pre_bound)).await;
        for (status, seconds) in [("Success", "2.5"), ("Error", "5")] {
            let labels = format!("extension_point=\"PreBind\",profile=\"supercargo\",status=\"{status}\"");
            shows(
                &text,
                &format!("scheduler_framework_extension_point_duration_seconds_sum{{{labels}}} {seconds}"),
            );
        }
        shows(&text, "scheduler_volume_scheduling_stage_error_total{operation=\"bind\"} 1");
        shows(&text, "scheduler_schedule_attempts_total{profile=\"supercargo\",result=\"error\"} 0");
    }

    #[tokio::test]
    async fn failed_binding_counts_as_error_and_skipped_pod_is_not_counted() {
        let message = || "no".to_owned();
        let text = counted([
            Outcome::BindFailed { message: message() },
            Outcome::Error { message: message() },
            Outcome::Skipped,
        ])
        .await;
        shows(&text, "scheduler_schedule_attempts_total{profile=\"supercargo\",result=\"error\"} 2");
        shows(&text, "scheduler_schedule_attempts_total{profile=\"supercargo\",result=\"unschedulable\"} 0");
    }

    #[tokio::test]
    async fn preemption_is_counted_as_upstream_counts_it() {
        let victim = report(Outcome::Skipped).pod;
        let tried = |preemption| Outcome::Unschedulable {
            message: "no".to_owned(),
            rejectors: Vec::new(),
            evaluated: 3,
            preemption,
        };
        let nominated = |evictions| Preemption::Nominated {
            node: node(),
            victims: vec![victim.clone(), victim.clone()],
            evictions,
        };
        let text = counted([
            tried(Preemption::NotTried),
            tried(Preemption::NoCandidate),
            tried(nominated(1)),
            // All victims are already terminating.
            tried(nominated(0)),
            Outcome::PreemptionEnded { node: node(), error: None },
            Outcome::PreemptionEnded { node: node(), error: Some("no".to_owned()) },
        ])
        .await;
        shows(&text, "scheduler_preemption_attempts_total 3");
        shows(&text, "scheduler_preemption_victims_count 1");
        shows(&text, "scheduler_preemption_victims_sum 2");
        for result in ["success", "error"] {
            let series = "scheduler_preemption_goroutines";
            shows(&text, &format!("{series}_execution_total{{result=\"{result}\"}} 1"));
            shows(&text, &format!("{series}_duration_seconds_sum{{result=\"{result}\"}} 3"));
        }
    }

    #[test]
    fn every_engine_point_has_a_metric_label() {
        for point in [Point::PreFilter, Point::Filter, Point::PostFilter, Point::PreScore, Point::Score] {
            assert!(extension_point(point).is_some(), "{point:?}");
        }
    }

    #[tokio::test]
    async fn points_are_timed_under_the_deciding_profile() {
        let text = counted([Outcome::Skipped, Outcome::Skipped]).await;
        let labels = "extension_point=\"Filter\",profile=\"supercargo\",status=\"Success\"";
        shows(&text, &format!("scheduler_framework_extension_point_duration_seconds_count{{{labels}}} 2"));
    }

    #[tokio::test]
    async fn plugins_are_counted_in_all_decisions_and_timed_in_one_of_ten() {
        let metrics = Arc::new(Metrics::new());
        let mut accounts = Accounts::new(Arc::clone(&metrics), ["supercargo"]);
        for _ in 0..11 {
            for (plugin, status, nodes) in [("NodeName", "Unschedulable", 3), ("NodePorts", "Skip", 1)] {
                accounts.probe().plugin_begins();
                accounts.probe().plugin_ended(plugin, Point::Filter, status, nodes);
            }
            accounts.report(Time::from_secs(15), &report(Outcome::Skipped), Duration::from_millis(1));
            // A decision without plugin runs, as most cached ones, does not advance the sampling.
            accounts.report(Time::from_secs(15), &report(Outcome::Skipped), Duration::from_millis(1));
        }
        let text = Exposition::new(metrics).render().await;
        let evaluated = "scheduler_plugin_evaluation_total{extension_point=\"Filter\",plugin=\"NodeName\",profile=\"supercargo\"}";
        shows(&text, &format!("{evaluated} 33"));
        assert!(
            !text.contains(
                "scheduler_plugin_evaluation_total{extension_point=\"Filter\",plugin=\"NodePorts\""
            )
        );
        for (plugin, status) in [("NodeName", "Unschedulable"), ("NodePorts", "Skip")] {
            let labels = format!("extension_point=\"Filter\",plugin=\"{plugin}\",status=\"{status}\"");
            shows(&text, &format!("scheduler_plugin_execution_duration_seconds_count{{{labels}}} 2"));
        }
    }
}
