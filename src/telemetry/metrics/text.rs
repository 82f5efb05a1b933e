//! Text exposition format 0.0.4, byte for byte as Go components write it.
//!
//! The `prometheus` crate's encoder prints `le="0.00001"` where Go prints `le="1e-05"`. Prometheus treats these as
//! different series, so a rule over both schedulers would not add up. OpenMetrics and protobuf are not supported.

use std::fmt::Write as _;

use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

use crate::telemetry::metrics::families::Family;

/// The `Content-Type` of the rendered text, equal to kube-scheduler's.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// Type of a family built by [`plain_family`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plain {
    /// Never decreases during the life of the process.
    Counter,
    /// A current value.
    Gauge,
}

/// Builds a family of plain values. Each row has the label values, in the order of `family.labels`, and the value.
pub(super) fn plain_family<'a, L>(
    family: &Family,
    plain: Plain,
    rows: impl IntoIterator<Item = (L, f64)>,
) -> MetricFamily
where
    L: IntoIterator<Item = &'a str>,
{
    let mut metrics: Vec<Metric> = rows
        .into_iter()
        .map(|(values, value)| {
            let mut metric = Metric::from_label(label_pairs(family.labels, values));
            match plain {
                Plain::Counter => {
                    let mut counter = Counter::default();
                    counter.set_value(value);
                    metric.set_counter(counter);
                }
                Plain::Gauge => {
                    let mut gauge = Gauge::default();
                    gauge.set_value(value);
                    metric.set_gauge(gauge);
                }
            }
            metric
        })
        .collect();
    metrics.sort_by(|a, b| label_values(a).cmp(label_values(b)));
    let mut result = MetricFamily::default();
    result.set_name(family.name.to_owned());
    result.set_help(family.help.to_owned());
    result.set_field_type(match plain {
        Plain::Counter => MetricType::COUNTER,
        Plain::Gauge => MetricType::GAUGE,
    });
    result.set_metric(metrics);
    result
}

fn label_pairs<'a>(keys: &[&str], values: impl IntoIterator<Item = &'a str>) -> Vec<LabelPair> {
    let mut pairs: Vec<LabelPair> = keys
        .iter()
        .zip(values)
        .map(|(key, value)| {
            let mut pair = LabelPair::default();
            pair.set_name((*key).to_owned());
            pair.set_value(value.to_owned());
            pair
        })
        .collect();
    pairs.sort_by(|a, b| a.name().cmp(b.name()));
    pairs
}

fn label_values(metric: &Metric) -> impl Iterator<Item = &str> {
    metric.get_label().iter().map(LabelPair::value)
}

/// Renders the families, sorted by name. Families without series are left out, as in Go.
pub(super) fn encode(mut families: Vec<MetricFamily>) -> String {
    families.retain(|family| !family.get_metric().is_empty());
    families.sort_by(|a, b| a.name().cmp(b.name()));
    let mut text = String::with_capacity(families.len() * 512);
    for family in &families {
        encode_family(&mut text, family);
    }
    text
}

fn encode_family(text: &mut String, family: &MetricFamily) {
    let name = family.name();
    text.push_str("# HELP ");
    text.push_str(name);
    text.push(' ');
    escape(text, family.help(), false);
    let kind = match family.get_field_type() {
        MetricType::COUNTER => "counter",
        MetricType::GAUGE => "gauge",
        MetricType::HISTOGRAM => "histogram",
        MetricType::SUMMARY => "summary",
        MetricType::UNTYPED => "untyped",
    };
    let _ = writeln!(text, "\n# TYPE {name} {kind}");
    for metric in family.get_metric() {
        match family.get_field_type() {
            MetricType::COUNTER => sample(text, name, "", metric, None, metric.get_counter().get_value()),
            MetricType::GAUGE => sample(text, name, "", metric, None, metric.get_gauge().get_value()),
            MetricType::HISTOGRAM => encode_histogram(text, name, metric),
            // No family of ours has these types.
            MetricType::SUMMARY | MetricType::UNTYPED => {}
        }
    }
}

fn encode_histogram(text: &mut String, name: &str, metric: &Metric) {
    let histogram = metric.get_histogram();
    for bucket in histogram.get_bucket().iter().filter(|bucket| bucket.upper_bound().is_finite()) {
        let bound = go_float(bucket.upper_bound());
        sample(text, name, "_bucket", metric, Some(&bound), bucket.cumulative_count() as f64);
    }
    let count = histogram.get_sample_count() as f64;
    sample(text, name, "_bucket", metric, Some("+Inf"), count);
    sample(text, name, "_sum", metric, None, histogram.get_sample_sum());
    sample(text, name, "_count", metric, None, count);
}

fn sample(text: &mut String, name: &str, suffix: &str, metric: &Metric, le: Option<&str>, value: f64) {
    text.push_str(name);
    text.push_str(suffix);
    let labels = metric.get_label().iter().map(|pair| (pair.name(), pair.value()));
    let mut separator = '{';
    for (key, value) in labels.chain(le.map(|bound| ("le", bound))) {
        text.push(separator);
        text.push_str(key);
        text.push_str("=\"");
        escape(text, value, true);
        text.push('"');
        separator = ',';
    }
    if separator == ',' {
        text.push('}');
    }
    text.push(' ');
    text.push_str(&go_float(value));
    text.push('\n');
}

pub(super) fn escape(text: &mut String, raw: &str, quotes: bool) {
    for c in raw.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '"' if quotes => text.push_str("\\\""),
            other => text.push(other),
        }
    }
}

/// Formats `value` like Go's `strconv.FormatFloat(value, 'g', -1, 64)`: the shortest text that parses back to
/// `value`, with an exponent if that is below -4 or above 5.
pub(super) fn go_float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("{:e} always writes an exponent");
    let exponent: i32 = exponent.parse().expect("{:e} writes the exponent as an integer");
    if (-4..6).contains(&exponent) {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_formatted_as_in_go() {
        for (value, text) in [
            (1.0, "1"),
            (0.0, "0"),
            (-1.0, "-1"),
            (0.1, "0.1"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5000000000000002e-5, "1.5000000000000002e-05"),
            (0.00011390625000000003, "0.00011390625000000003"),
            (5242.88, "5242.88"),
            (123456.789, "123456.789"),
            (999999.0, "999999"),
            (1000000.0, "1e+06"),
            (1048576.0, "1.048576e+06"),
            (1234567.125, "1.234567125e+06"),
            (1795202292.05, "1.79520229205e+09"),
            (u64::MAX as f64, "1.8446744073709552e+19"),
            (1e22, "1e+22"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(go_float(value), text);
        }
    }

    #[test]
    fn families_are_sorted_and_escaped_and_empty_ones_omitted() {
        const B: Family = Family::new("b_total", "say \"b\"\nand \\", &["z", "a"]);
        const A: Family = Family::new("a", "a", &[]);
        let b = plain_family(&B, Plain::Counter, [(["2", "x"], 2.0), (["1\n", "q\"\\"], 1.0)]);
        let a = plain_family(&A, Plain::Gauge, [([], 1.5)]);
        let empty = plain_family(&A, Plain::Gauge, std::iter::empty::<([&str; 0], f64)>());
        assert_eq!(
            encode(vec![b, a, empty]),
            concat!(
                "# HELP a a\n",
                "# TYPE a gauge\n",
                "a 1.5\n",
                "# HELP b_total say \"b\"\\nand \\\\\n",
                "# TYPE b_total counter\n",
                "b_total{a=\"q\\\"\\\\\",z=\"1\\n\"} 1\n",
                "b_total{a=\"x\",z=\"2\"} 2\n",
            )
        );
    }
}
