//! Checks flags together, as kube-scheduler does after parsing them. Unlike it, reports all problems at once.
//!
//! Upstream: `Validate` and `ApplyTo` in `cmd/kube-scheduler/app/options`, `apiserver/pkg/server/options`,
//! `component-base/{compatibility,logs/api/v1,metrics,cli/flag}`.

use super::table::{FLAGS, since};
use super::values::Values;
use super::{gates, go, tls, version};
use crate::yaml::{Document, Value};
use std::collections::BTreeMap;
use supercargo_core::model::emulation::EmulatedVersion;

/// Returns what is wrong with the flags of versions and feature gates, which even `--version` checks.
pub fn version_problems(values: &Values) -> Vec<String> {
    let mut problems = Vec::new();
    versions(values, &mut problems);
    if let Err(wrong) = gates::judge(values.gates(), values.emulated_version()) {
        problems.extend(wrong.iter().map(|why| format!("--feature-gates: {why}")));
    }
    problems
}

/// Returns everything that is wrong with the values. Reads the file of `--allow-metric-labels-manifest`, no other.
pub fn problems(values: &Values) -> Vec<String> {
    let mut problems = version_problems(values);
    logs(values, &mut problems);
    serving(values, &mut problems);
    authentication(values, &mut problems);
    metrics(values, &mut problems);
    client(values, &mut problems);
    problems
}

/// Returns whether the HTTPS port is served. Upstream checks certificates and TLS settings only then.
pub fn serves(values: &Values) -> bool {
    !values.is_given("secure-port") || values.int("secure-port") > 0
}

fn versions(values: &Values, problems: &mut Vec<String>) {
    let emulated = version::only(&values.list("emulated-version"))
        .and_then(|version| version.map(|version| version::parse_emulated_version(&version)).transpose());
    if let Err(why) = &emulated {
        problems.push(format!("--emulated-version: {why}"));
    }
    let newer = |(name, since): &(&str, EmulatedVersion)| {
        values.is_given(name) && matches!(emulated, Ok(Some(version)) if version < *since)
    };
    let flags = FLAGS.iter().filter_map(|flag| Some((flag.name, since(flag.name)?)));
    problems.extend(
        flags
            .filter(newer)
            .map(|(name, since)| format!("unknown flag: --{name} (kube-scheduler has it since {since})")),
    );
    let emulated = emulated.ok().flatten();
    let minimum = version::only(&values.list("min-compatibility-version"))
        .and_then(|version| version.map(|version| version::check_minimum(&version, emulated)).transpose());
    if let Err(why) = minimum {
        problems.push(format!("--min-compatibility-version: {why}"));
    }
}

fn logs(values: &Values, problems: &mut Vec<String>) {
    let frequency = crate::GoDuration::parse(values.text("log-flush-frequency")).unwrap_or_default();
    if frequency.0 <= 0 {
        let why = format!("Invalid value: \"{frequency}\": Must be greater than zero");
        problems.push(format!("--log-flush-frequency: flushFrequency: {why}"));
    }
    let format = if values.is_given("logging-format") { values.text("logging-format") } else { "text" };
    match format {
        "text" => {}
        "json" if !values.has_gate("LoggingBetaOptions") => problems.push(
            "--logging-format: format: Forbidden: Log format json is disabled, see LoggingBetaOptions feature".to_owned(),
        ),
        "json" => {}
        other => problems.push(format!(
            "--logging-format: format: Invalid value: {other:?}: Unsupported log format; expected \"text\" or \"json\""
        )),
    }
    if format != "text" && values.text("vmodule").split(',').any(|item| !item.is_empty()) {
        problems.push("--vmodule: vmodule: Forbidden: Only supported for text log format".to_owned());
    }
    let disabled = "Forbidden: Feature LoggingAlphaOptions is disabled";
    for (form, word) in [("text", "text"), ("json", "json")] {
        let split = format!("log-{form}-split-stream");
        if values.is_true(&split) && !values.has_gate("LoggingAlphaOptions") {
            problems.push(format!("--{split}: options.{word}.splitStream: {disabled}"));
        }
        let buffer = format!("log-{form}-info-buffer-size");
        let is_zero = go::is_zero_quantity(values.text(&buffer)).unwrap_or(true);
        if !is_zero && !values.has_gate("LoggingAlphaOptions") {
            problems.push(format!("--{buffer}: options.{word}.infoBufferSize: {disabled}"));
        }
    }
}

fn serving(values: &Values, problems: &mut Vec<String>) {
    let port = values.int("secure-port");
    if port > 65_535 {
        problems.push(format!(
            "--secure-port {port} must be between 1 and 65535, inclusive. It cannot be turned off with 0"
        ));
    } else if port < 0 {
        problems.push(format!(
            "--secure-port {port} must be between 0 and 65535, inclusive. 0 for turning off secure port"
        ));
    }
    if !serves(values) {
        return;
    }
    if let [(_, file, other)] =
        [("tls-cert-file", "tls-private-key-file"), ("tls-private-key-file", "tls-cert-file")]
            .map(|(one, other)| (values.text(one).is_empty(), one, other))
            .into_iter()
            .filter(|(is_empty, ..)| *is_empty)
            .collect::<Vec<_>>()[..]
    {
        problems.push(format!("missing filename for serving cert: --{other} needs --{file}"));
    }
    problems.extend(tls::problems(values));
}

fn authentication(values: &Values, problems: &mut Vec<String>) {
    let is_blank = |name: &str| values.list(name).iter().any(|value| value.trim().is_empty());
    for name in [
        "requestheader-username-headers",
        "requestheader-group-headers",
        "requestheader-extra-headers-prefix",
        "requestheader-allowed-names",
    ] {
        if is_blank(name) {
            problems.push(format!("empty value in {name:?}; write --{name} without it"));
        }
    }
    let uids = values.list("requestheader-uid-headers");
    if !uids.is_empty() && !values.has_gate("RemoteRequestHeaderUID") {
        let why = "requires the \"RemoteRequestHeaderUID\" feature to be enabled";
        problems.push(format!("--requestheader-uid-headers {why}"));
    } else if is_blank("requestheader-uid-headers") {
        problems.push("empty value in \"requestheader-uid-headers\"".to_owned());
    } else if !uids.is_empty() && !uids.iter().any(|header| header.eq_ignore_ascii_case("X-Remote-Uid")) {
        problems.push(
            "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - API aggregation \
             will not work"
                .to_owned(),
        );
    }
    let paths = values.list("authorization-always-allow-paths");
    for path in paths.iter().map(|path| path.trim_start_matches('/')).filter(|_| serves(values)) {
        let inside = path.strip_suffix('*').unwrap_or(path);
        if inside.contains('*') {
            problems.push(format!("--authorization-always-allow-paths: only trailing * allowed in {path:?}"));
        }
    }
}

/// Format of a key in `--allow-metric-labels`.
const LABELS: &str = "must have keys with format `metricName,labelName` where metricName matches \
                      \"[a-zA-Z_:][a-zA-Z0-9_:]*\" and labelName matches \"[a-zA-Z_][a-zA-Z0-9_]*\"";

fn metrics(values: &Values, problems: &mut Vec<String>) {
    let shown = values.text("show-hidden-metrics-for-version");
    let emulated = values.emulated_version();
    // Without --emulated-version, the version is known only once the API server answers.
    let previous = |version: EmulatedVersion| version::previous(version) == shown;
    let is_previous = emulated.map_or_else(|| EmulatedVersion::ALL.into_iter().any(previous), previous);
    if !shown.is_empty() && !is_previous {
        let expected = version::previous(emulated.unwrap_or(EmulatedVersion::NEWEST));
        problems.push(format!(
            "--show-hidden-metrics-for-version: metrics.showHiddenMetricsForVersion: Invalid value: {shown:?}: must be \
             omitted or have the value '{expected}'; only the previous minor version is allowed"
        ));
    }
    for name in values.list("disabled-metrics").iter().filter(|name| !is_metric(name)) {
        let form = "must be fully qualified metric names matching \"^[a-zA-Z_:][a-zA-Z0-9_:]*$\"";
        problems.push(format!("--disabled-metrics: metrics.disabledMetrics: {form}, got {name:?}"));
    }
    let labels = values.pairs("allow-metric-labels");
    if let Some(key) = labels.keys().find(|key| !is_metric_label(key)) {
        problems.push(format!(
            "--allow-metric-labels: metrics.allowListMapping: Invalid value: {key:?}: {LABELS}"
        ));
    }
    let manifest = values.text("allow-metric-labels-manifest");
    if manifest.is_empty() {
        return;
    }
    if let Err(why) = labels_of(manifest) {
        problems.push(format!(
            "--allow-metric-labels-manifest: metrics.allowListMappingManifest: Invalid value: {manifest:?}: {why}"
        ));
    }
    if values.is_given("allow-metric-labels") {
        let why = "cannot specify both allowListMapping and allowListMappingManifest";
        problems.push(format!("--allow-metric-labels and --allow-metric-labels-manifest: {why}"));
    }
}

/// Returns the allowed label values: for a metric and a label, joined by a comma, the values.
///
/// # Errors
/// If the file of `--allow-metric-labels-manifest` cannot be used.
pub fn allowed_labels(values: &Values) -> Result<BTreeMap<String, String>, String> {
    match values.text("allow-metric-labels-manifest") {
        "" => Ok(values.pairs("allow-metric-labels")),
        file => labels_of(file),
    }
}

/// Reads a manifest of allowed label values. As upstream reads it, a map from texts to texts without a level above.
fn labels_of(file: &str) -> Result<BTreeMap<String, String>, String> {
    let text = crate::yaml::file::read(file.as_ref())
        .map_err(|error| format!("failed to read allow list manifest: open {file}: {error}"))?;
    let wrong = |why: &str| format!("failed to parse allow list manifest: {why}");
    let document = Document::read(&text).map_err(|problems| {
        wrong(&problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    })?;
    let Value::Map(entries) = &document.node(document.root()).value else {
        return Err(wrong("expected a map from \"METRIC,LABEL\" to \"VALUE,VALUE\""));
    };
    let mut labels = BTreeMap::new();
    for entry in entries {
        let key = &entry.key;
        let Value::Text(allowed) = &document.node(entry.value).value else {
            return Err(wrong(&format!("the value of {key:?} is not a text")));
        };
        if !is_metric_label(key) {
            return Err(format!("invalid allow list mapping in manifest: {key:?} {LABELS}"));
        }
        labels.insert(key.clone(), allowed.clone());
    }
    Ok(labels)
}

fn is_metric_label(key: &str) -> bool {
    key.split_once(',')
        .is_some_and(|(metric, label)| is_metric(metric) && is_metric(label) && !label.contains(':'))
}

fn is_metric(name: &str) -> bool {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ':';
    name.starts_with(is_first) && name.chars().all(|c| is_first(c) || c.is_ascii_digit())
}

/// Checks the client's limits, which a file of `--config` replaces.
fn client(values: &Values, problems: &mut Vec<String>) {
    let qps: f32 = values.text("kube-api-qps").parse().unwrap_or_default();
    if values.text("config").is_empty() && qps > 0.0 && values.int("kube-api-burst") <= 0 {
        problems.push(
            "--kube-api-burst: burst is required to be greater than 0 when RateLimiter is not set and QPS is set to \
             greater than 0"
                .to_owned(),
        );
    }
}
