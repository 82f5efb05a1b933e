//! Adapts kube-scheduler's families to the version of kube-scheduler in force: which exist, and their help texts.
//! [`families`] has the texts of 1.36. Families of our own are the same in every version.
//!
//! Upstream: `pkg/scheduler/metrics/metrics.go` and `component-base/metrics` of each version.

use prometheus::proto::MetricFamily;
use supercargo_core::model::emulation::EmulatedVersion::{self, V1_36, V1_37};

use crate::telemetry::metrics::families::{self, Family};
use crate::telemetry::metrics::groups;

/// Families that older versions lack, and the first version with each.
const SINCE: [(&Family, EmulatedVersion); 9] = [
    (&families::RESOURCE_CLAIM_CREATES, V1_36),
    (&families::DEVICE_ALLOCATIONS, V1_36),
    (&families::DEVICE_WAITS, V1_36),
    (&families::RESOURCE_CLAIM_CREATES_BY_OWNER, V1_37),
    (&families::POD_SCHEDULED_AFTER_FLUSH, V1_36),
    (&groups::GENERATED_PLACEMENTS, V1_37),
    (&groups::PLACEMENT_EVALUATIONS, V1_37),
    (&families::QUEUED_ENTITIES, V1_37),
    (&families::QUEUE_INCOMING_ENTITIES, V1_37),
];

/// Families that a version lacks, because others replace them.
const REPLACED_SINCE: [(&Family, EmulatedVersion); 1] = [(&families::RESOURCE_CLAIM_CREATES, V1_37)];

/// Families that are deprecated, and hidden at once, since a version. `--show-hidden-metrics-for-version` shows them.
const DEPRECATED_SINCE: [(&Family, EmulatedVersion); 1] = [(&families::PREEMPTION_DURATION, V1_37)];

/// Families that are `BETA` since a version, and `ALPHA` before.
const BETA_SINCE: [(&Family, EmulatedVersion); 6] = [
    (&families::KUBERNETES_BUILD_INFO, V1_36),
    (&families::GOROUTINES, V1_36),
    (&families::PLUGIN_EVALUATION, V1_36),
    (&families::UNSCHEDULABLE_PODS, V1_36),
    (&families::SCHEDULING_ALGORITHM_DURATION, V1_37),
    (&families::PLUGIN_EXECUTION_DURATION, V1_37),
];

/// Parts of help texts that differ since a version: of which family, the part before, and the part since then.
const WORDED_SINCE: [(&Family, EmulatedVersion, [&str; 2]); 5] = [
    (&families::PENDING_PODS, V1_37, ["unschedulablePods", "unschedulableEntities"]),
    (
        &families::PENDING_PODS,
        V1_37,
        [
            "because they are gated.",
            "because they are gated; 'incomplete' means number of pods in incompletePodGroupPods; 'pending' means number \
             of pods in pendingPodGroupPods.",
        ],
    ),
    (&groups::ATTEMPT_DURATION, V1_37, [" (scheduling algorithm + binding)", ""]),
    (&families::POD_SCHEDULED_AFTER_FLUSH, V1_37, ["unschedulablePods", "unschedulableEntities"]),
    (&families::PREEMPTION_VICTIMS, V1_37, ["victims", "victims for preemption initiated by a single pod"]),
];

/// Returns the families of a version, and how many are hidden.
pub(super) fn adapt(
    mut all: Vec<MetricFamily>,
    version: EmulatedVersion,
    shows_hidden: bool,
) -> (Vec<MetricFamily>, usize) {
    let is_newer = |family: &MetricFamily| {
        SINCE.iter().any(|(newer, since)| newer.name == family.name() && version < *since)
    };
    let deprecated = |family: &MetricFamily| {
        let of = |(old, since): &&(&Family, EmulatedVersion)| old.name == family.name() && version >= *since;
        DEPRECATED_SINCE.iter().find(of).map(|(_, since)| *since)
    };
    let is_replaced = |family: &MetricFamily| {
        REPLACED_SINCE.iter().any(|(older, since)| older.name == family.name() && version >= *since)
    };
    all.retain(|family| {
        !is_newer(family) && !is_replaced(family) && (shows_hidden || deprecated(family).is_none())
    });
    for family in &mut all {
        let help = help(family.name(), family.help().to_owned(), version);
        let help = match deprecated(family) {
            Some(since) => help.replacen("] ", &format!("] (Deprecated since {since}.0) "), 1),
            None => help,
        };
        family.set_help(help);
    }
    let deprecated = DEPRECATED_SINCE.iter().filter(|(_, since)| version >= *since).count();
    (all, if shows_hidden { 0 } else { deprecated })
}

/// Returns the help text in a version.
fn help(name: &str, mut help: String, version: EmulatedVersion) -> String {
    for (_, since) in BETA_SINCE.iter().filter(|(family, _)| family.name == name) {
        let text = help.trim_start_matches("[ALPHA] ").trim_start_matches("[BETA] ").to_owned();
        help = format!("[{}] {text}", if version < *since { "ALPHA" } else { "BETA" });
    }
    for (_, since, [before, now]) in WORDED_SINCE.iter().filter(|(family, ..)| family.name == name) {
        if version >= *since {
            help = help.replace(before, now);
        }
    }
    help
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashboard_and_rules_use_families_of_every_version() {
        let some_versions = SINCE.iter().chain(&DEPRECATED_SINCE).map(|(family, _)| family.name);
        for file in ["dashboards/supercargo.json", "dashboards/rules.yaml"] {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
            let text = std::fs::read_to_string(path).unwrap();
            assert!(text.contains(families::PENDING_PODS.name), "{file}");
            let used: Vec<&str> = some_versions.clone().filter(|name| text.contains(name)).collect();
            assert_eq!(used, [""; 0], "{file}");
        }
    }
}
