//! Metrics of pod groups. As in kube-scheduler, they exist only if the feature gate GenericWorkload is on.

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

    /// The families that dashboards may use with the gate.
    const LISTED: &str = include_str!("../../../tests/fixtures/metrics-groups.txt");

    #[test]
    fn families_of_groups_are_those_of_the_list() {
        let kind = |name: &str| if name.ends_with("_total") { "counter" } else { "histogram" };
        let families = [
            &ATTEMPTS,
            &ATTEMPT_DURATION,
            &ALGORITHM_DURATION,
            &GENERATED_PLACEMENTS,
            &PLACEMENT_EVALUATIONS,
        ];
        let lines = families.map(|of| format!("{} {} {}", of.name, kind(of.name), of.labels.join(",")));
        let listed = LISTED.lines().filter(|line| !line.starts_with('#')).map(str::to_owned);
        assert_eq!(BTreeSet::from(lines), listed.collect::<BTreeSet<String>>());
    }
}
