//! Metrics of pod groups. Those of kube-scheduler exist only with the feature gate GenericWorkload, as there; our own
//! always exist.

use std::time::Duration;

use prometheus::{Histogram, HistogramVec, IntCounterVec, Registry};
use supercargo_core::report::group::{GroupOutcome, GroupReport};

use super::Metrics;
use super::families::Family;

// kube-scheduler's families, with the help texts of 1.36.

pub(super) const ATTEMPTS: Family = Family::new(
    "scheduler_podgroup_schedule_attempts_total",
    "[ALPHA] Number of attempts to schedule pod group, by the result. 'unschedulable' means a pod group could not be scheduled, while 'error' means an internal scheduler problem.",
    &["result", "profile"],
);
pub(super) const ATTEMPT_DURATION: Family = Family::new(
    "scheduler_podgroup_scheduling_attempt_duration_seconds",
    "[ALPHA] Pod group scheduling attempt latency in seconds (scheduling algorithm + binding)",
    &["result", "profile"],
)
.exponential(0.001, 2.0, 15);
pub(super) const ALGORITHM_DURATION: Family = Family::new(
    "scheduler_podgroup_scheduling_algorithm_duration_seconds",
    "[ALPHA] Pod group scheduling algorithm latency in seconds",
    &[],
)
.exponential(0.001, 2.0, 15);
pub(super) const GENERATED_PLACEMENTS: Family = Family::new(
    "scheduler_generated_placements_total",
    "[ALPHA] Number of candidate placements generated when scheduling pod groups.",
    &["profile"],
);
pub(super) const PLACEMENT_EVALUATIONS: Family = Family::new(
    "scheduler_placement_evaluations_total",
    "[ALPHA] Number of candidate placements evaluated when scheduling pod groups, by result. 'feasible' means the pod group fit into the placement, while 'infeasible' means it did not.",
    &["result", "profile"],
);

// Families of our own. They exist without the feature gate, too.

pub(super) const PODGROUPS_WAITING: Family = Family::new(
    "supercargo_podgroups_waiting",
    "[ALPHA] Number of pod groups with a member in the scheduling queue. 0 without the feature gate GenericWorkload.",
    &[],
);
pub(super) const PODGROUPS_BELOW_MIN_COUNT: Family = Family::new(
    "supercargo_podgroups_below_min_count",
    "[ALPHA] Number of pod groups that have started, and of which fewer members than minCount have a node now.",
    &[],
);
pub(super) const PODGROUPS_FRAGMENTED: Family = Family::new(
    "supercargo_podgroups_fragmented",
    "[ALPHA] Number of waiting pod groups that could not start although the nodes together have the free resources for minCount members. Each group is judged in its last scheduling cycle.",
    &[],
);
pub(super) const PODGROUP_START_DURATION: Family = Family::new(
    "supercargo_podgroup_start_duration_seconds",
    "[ALPHA] Time from the first queueing of a pod group's first member to the decision that starts the group. Members that are added to a running group count as another start.",
    &[],
)
.exponential(0.01, 2.0, 20);

/// Label value of placements in which the group fits, and of others.
const FEASIBLE: &str = "feasible";
const INFEASIBLE: &str = "infeasible";

/// Metrics of the cycles of groups.
#[derive(Debug)]
pub(super) struct GroupMetrics {
    attempts: IntCounterVec,
    attempt_durations: HistogramVec,
    algorithm_duration: Histogram,
    generated_placements: IntCounterVec,
    placement_evaluations: IntCounterVec,
}

impl GroupMetrics {
    fn new(registry: &Registry) -> Self {
        Self {
            attempts: ATTEMPTS.counter_vec(registry),
            attempt_durations: ATTEMPT_DURATION.histogram_vec(registry),
            algorithm_duration: ALGORITHM_DURATION.histogram(registry),
            generated_placements: GENERATED_PLACEMENTS.counter_vec(registry),
            placement_evaluations: PLACEMENT_EVALUATIONS.counter_vec(registry),
        }
    }
}

impl Metrics {
    /// Adds the metrics of pod groups, with a series at 0 for each result of each profile.
    pub fn schedules_groups<'a>(&self, profiles: impl IntoIterator<Item = &'a str>) {
        let metrics = self.groups.get_or_init(|| GroupMetrics::new(&self.registry));
        for profile in profiles {
            for outcome in GroupOutcome::ALL {
                metrics.attempts.with_label_values(&[outcome.as_str(), profile]);
            }
        }
    }

    /// Records the start of a group, and how long its first member was in the queue.
    pub fn group_started(&self, waited: Duration) {
        self.group_start_duration.observe(waited.as_secs_f64());
    }

    /// Records a cycle of a group: how long it took in total, and until all members were decided.
    pub fn group_attempted(&self, report: &GroupReport, total: Duration, algorithm: Duration) {
        let Some(metrics) = self.groups.get() else { return };
        // Upstream refuses such a group before its cycle, and counts nothing.
        if report.outcome == GroupOutcome::Refused {
            return;
        }
        let profile = report.profile.as_str();
        let labels = [report.outcome.as_str(), profile];
        metrics.attempts.with_label_values(&labels).inc();
        metrics.attempt_durations.with_label_values(&labels).observe(total.as_secs_f64());
        metrics.algorithm_duration.observe(algorithm.as_secs_f64());
        if !report.placements.is_empty() {
            let generated = report.placements.len() as u64;
            metrics.generated_placements.with_label_values(&[profile]).inc_by(generated);
            for placement in &report.placements {
                let result = if placement.status.is_empty() { FEASIBLE } else { INFEASIBLE };
                metrics.placement_evaluations.with_label_values(&[result, profile]).inc();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use prometheus::proto::{LabelPair, MetricFamily};
    use supercargo_core::model::time::Time;
    use supercargo_core::report::group::PlacementReport;

    /// The families that dashboards may use with the gate. `UPDATE_EXPECT=1` rewrites the list.
    const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/metrics-groups.txt");

    /// Returns a report of a group that fits in its only placement.
    fn report() -> GroupReport {
        let placement = PlacementReport {
            name: "rack".to_owned(),
            nodes: 1,
            code: "Success",
            status: String::new(),
            placed: 0,
            members: Vec::new(),
            scores: Vec::new(),
        };
        GroupReport {
            namespace: "default".to_owned(),
            name: "g".to_owned(),
            profile: "p".to_owned(),
            began: Time::from_secs(0),
            outcome: GroupOutcome::Scheduled,
            status: String::new(),
            members: Vec::new(),
            placements: vec![placement],
            chosen: Some("rack".to_owned()),
            preemption: None,
            victims: Vec::new(),
        }
    }

    /// Returns the families that a scrape shows, each as a line of the list.
    fn shown(metrics: &Metrics) -> BTreeSet<String> {
        let line = |family: &MetricFamily| {
            let series = family.get_metric().first().expect("a family that is gathered has a series");
            let labels: Vec<&str> = series.get_label().iter().map(LabelPair::name).collect();
            let kind = format!("{:?}", family.get_field_type()).to_lowercase();
            format!("{} {kind} {}", family.name(), labels.join(","))
        };
        metrics.registry.gather().iter().map(line).collect()
    }

    #[test]
    fn families_that_the_gate_adds_are_those_of_the_list() {
        let metrics = Metrics::new();
        let before = shown(&metrics);
        metrics.schedules_groups(["p"]);
        metrics.group_attempted(&report(), Duration::ZERO, Duration::ZERO);
        let added: BTreeSet<String> = shown(&metrics).difference(&before).cloned().collect();
        let listed = || std::fs::read_to_string(LIST).expect("the list is readable");
        let mut lines: String =
            listed().lines().filter(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect();
        added.iter().for_each(|line| lines += &format!("{line}\n"));
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(LIST, &lines).expect("the list is writable");
        }
        assert_eq!(lines, listed(), "{LIST} is out of date; UPDATE_EXPECT=1 rewrites it");
    }
}
