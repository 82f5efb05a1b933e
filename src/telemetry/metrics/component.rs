//! Metrics about the build, feature gates and numbers of metrics, as upstream's metrics library has them, and the flags
//! that select metrics and label values.
//!
//! Upstream: `component-base/metrics/{options,registry,version}.go`, `component-base/metrics/prometheus/feature`.

use std::collections::{BTreeMap, BTreeSet};

use prometheus::proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType};
use supercargo_config::flags::gates::Gate;
use supercargo_config::flags::{self, Values};

use crate::COMMIT;
use crate::telemetry::metrics::families;
use crate::telemetry::metrics::text::{Plain, plain_family};

/// Value of a label whose value is not allowed.
const UNEXPECTED: &str = "unexpected";

/// The choice of metrics and label values.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Families that are not served.
    disabled: BTreeSet<String>,
    /// Allowed values by family and label.
    allowed: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
    shows_hidden: bool,
}

impl Selection {
    /// Returns the choice of `--disabled-metrics`, `--allow-metric-labels`, `--allow-metric-labels-manifest` and
    /// `--show-hidden-metrics-for-version`.
    ///
    /// # Errors
    /// If the manifest cannot be read.
    pub fn of(values: &Values) -> Result<Self, String> {
        let disabled = values.list("disabled-metrics").into_iter().filter(|name| !name.is_empty()).collect();
        let mut allowed: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
        for (key, values) in flags::allowed_labels(values)? {
            let Some((family, label)) = key.split_once(',') else { continue };
            let values = values.split(',').map(str::to_owned).collect();
            allowed.entry(family.to_owned()).or_default().insert(label.to_owned(), values);
        }
        let shows_hidden = !values.text("show-hidden-metrics-for-version").is_empty();
        Ok(Self { disabled, allowed, shows_hidden })
    }

    /// Whether hidden families are served.
    pub(super) fn shows_hidden(&self) -> bool {
        self.shows_hidden
    }

    /// Returns the families that are served.
    pub(super) fn apply(&self, mut families: Vec<MetricFamily>) -> Vec<MetricFamily> {
        families.retain(|family| !self.disabled.contains(family.name()));
        for family in &mut families {
            if let Some(allowed) = self.allowed.get(family.name()) {
                constrain(family, allowed);
            }
        }
        families
    }

    /// Returns the numbers of registered, hidden and disabled metrics.
    pub(super) fn numbers(&self, families: &[MetricFamily], hidden: usize) -> [MetricFamily; 3] {
        let mut levels: BTreeMap<&str, u32> = BTreeMap::new();
        for family in families {
            *levels.entry(stability(family.help())).or_default() += 1;
        }
        let levels = levels.into_iter().map(|(level, number)| ([level, ""], f64::from(number)));
        let plain = |family, number: usize| plain_family(family, Plain::Counter, [([], number as f64)]);
        [
            plain_family(&families::REGISTERED_METRICS, Plain::Counter, levels),
            plain(&families::HIDDEN_METRICS, hidden),
            plain(&families::DISABLED_METRICS, self.disabled.len()),
        ]
    }
}

/// Returns the stability level, with which help texts begin. Families of Prometheus' own libraries have none.
fn stability(help: &str) -> &str {
    let level = help.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(level, _)| level);
    level.unwrap_or("INTERNAL")
}

/// Replaces values that are not allowed, and adds up series that become equal.
fn constrain(family: &mut MetricFamily, allowed: &BTreeMap<String, BTreeSet<String>>) {
    let kind = family.get_field_type();
    let mut merged: Vec<Metric> = Vec::new();
    for mut metric in family.take_metric() {
        let mut labels = metric.take_label();
        for label in &mut labels {
            if allowed.get(label.name()).is_some_and(|values| !values.contains(label.value())) {
                label.set_value(UNEXPECTED.to_owned());
            }
        }
        metric.set_label(labels);
        match merged.iter_mut().find(|other| is_same_series(other.get_label(), metric.get_label())) {
            Some(other) => add(kind, other, &metric),
            None => merged.push(metric),
        }
    }
    family.set_metric(merged);
}

fn is_same_series(one: &[LabelPair], other: &[LabelPair]) -> bool {
    one.len() == other.len()
        && one
            .iter()
            .zip(other)
            .all(|(one, other)| (one.name(), one.value()) == (other.name(), other.value()))
}

fn add(kind: MetricType, to: &mut Metric, more: &Metric) {
    match kind {
        MetricType::COUNTER => {
            let mut sum = Counter::default();
            sum.set_value(to.get_counter().get_value() + more.get_counter().get_value());
            to.set_counter(sum);
        }
        MetricType::GAUGE => {
            let mut sum = Gauge::default();
            sum.set_value(to.get_gauge().get_value() + more.get_gauge().get_value());
            to.set_gauge(sum);
        }
        MetricType::HISTOGRAM => {
            let (one, other) = (to.get_histogram(), more.get_histogram());
            let mut sum = Histogram::default();
            sum.set_sample_count(one.get_sample_count() + other.get_sample_count());
            sum.set_sample_sum(one.get_sample_sum() + other.get_sample_sum());
            let buckets = one.get_bucket().iter().zip(other.get_bucket()).map(|(one, other)| {
                let mut bucket = Bucket::default();
                bucket.set_upper_bound(one.upper_bound());
                bucket.set_cumulative_count(one.cumulative_count() + other.cumulative_count());
                bucket
            });
            sum.set_bucket(buckets.collect());
            to.set_histogram(sum);
        }
        // This program has no families of other types.
        _ => {}
    }
}

/// Returns the family that describes the build. `git_version` is the version of kube-scheduler that the program stands
/// for, such as `v1.36.0+supercargo-0.1.0`.
pub(super) fn build_info(git_version: &str) -> MetricFamily {
    let mut numbers = git_version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let platform = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
    let commit = COMMIT.unwrap_or_default();
    let values = [major, minor, git_version, commit, "", "", "", "rustc", platform.as_str()];
    plain_family(&families::KUBERNETES_BUILD_INFO, Plain::Gauge, [(values, 1.0)])
}

/// Returns the family of feature gates: 1 for those that are on.
pub(super) fn gates(gates: &[Gate]) -> MetricFamily {
    let rows = gates.iter().map(|gate| ([gate.name, gate.stage], f64::from(u8::from(gate.is_on))));
    plain_family(&families::FEATURE_ENABLED, Plain::Gauge, rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics::Metrics;
    use crate::telemetry::metrics::text::encode;
    use std::time::Duration;
    use supercargo_config::flags::CommandLine;

    fn selection(flags: &[&str]) -> Selection {
        let flags: Vec<_> = flags.iter().map(std::ffi::OsString::from).collect();
        let line = CommandLine::read(&flags, &[]);
        assert_eq!(line.problems, [""; 0]);
        Selection::of(&line.values).unwrap()
    }

    /// Returns the lines of the families whose name contains `part`, without comments.
    fn lines(selection: &Selection, part: &str) -> Vec<String> {
        let metrics = Metrics::new();
        for (code, took) in [(200, 1), (201, 2), (500, 4)] {
            metrics.rest_request("GET", Some(code), "a:1", Duration::from_secs(took));
        }
        let text = encode(selection.apply(metrics.recorded()));
        text.lines().filter(|line| line.contains(part) && !line.starts_with('#')).map(str::to_owned).collect()
    }

    #[test]
    fn disabled_metrics_are_not_served_and_counted() {
        let selection = selection(&[
            "--disabled-metrics=rest_client_requests_total,no_such",
            "--disabled-metrics=no_such",
        ]);
        assert_eq!(lines(&selection, "rest_client_requests_total"), [""; 0]);
        assert!(!lines(&selection, "rest_client_request_duration").is_empty());
        let [_, hidden, disabled] = selection.numbers(&[], 0).map(|family| encode(vec![family]));
        assert!(hidden.ends_with("\nhidden_metrics_total 0\n"), "{hidden}");
        assert!(disabled.ends_with("\ndisabled_metrics_total 2\n"), "{disabled}");
    }

    #[test]
    fn values_that_are_not_allowed_become_one_series() {
        let selection = selection(&["--allow-metric-labels=rest_client_requests_total,code=200"]);
        assert_eq!(
            lines(&selection, "rest_client_requests_total"),
            [
                "rest_client_requests_total{code=\"200\",host=\"a:1\",method=\"GET\"} 1",
                "rest_client_requests_total{code=\"unexpected\",host=\"a:1\",method=\"GET\"} 2"
            ]
        );
    }

    #[test]
    fn histograms_of_merged_series_add_up() {
        let metrics = Metrics::new();
        for (method, took) in [("GET", 1), ("PUT", 2), ("POST", 4)] {
            metrics.rest_request(method, Some(200), "a:1", Duration::from_secs(took));
        }
        let selection = selection(&["--allow-metric-labels=rest_client_request_duration_seconds,verb=GET"]);
        let text = encode(selection.apply(metrics.recorded()));
        let family = "rest_client_request_duration_seconds";
        for line in [
            format!("{family}_sum{{host=\"a:1\",verb=\"unexpected\"}} 6"),
            format!("{family}_count{{host=\"a:1\",verb=\"unexpected\"}} 2"),
            format!("{family}_bucket{{host=\"a:1\",verb=\"unexpected\",le=\"2\"}} 1"),
        ] {
            assert!(text.lines().any(|other| other == line), "{line}: {text}");
        }
    }

    #[test]
    fn registered_metrics_are_counted_by_stability() {
        let [registered, ..] =
            selection(&[]).numbers(&Metrics::new().recorded(), 0).map(|family| encode(vec![family]));
        assert!(
            registered
                .contains("\nregistered_metrics_total{deprecated_version=\"\",stability_level=\"ALPHA\"} ")
        );
        assert_eq!([stability("[STABLE] A"), stability("A")], ["STABLE", "INTERNAL"]);
    }

    #[test]
    fn build_info_has_the_emulated_version() {
        let text = encode(vec![build_info("v1.36.0+supercargo-0.1.0")]);
        assert!(text.contains("git_version=\"v1.36.0+supercargo-0.1.0\""), "{text}");
        assert!(text.contains(",major=\"1\",minor=\"36\","), "{text}");
    }
}
