//! `supercargo queue`: lists pending pods with their place, cause, waiting time and next retry. Asks the
//! running scheduler, or reads a saved answer; changes nothing.

use crate::cluster::Refused;
use crate::live::LiveError;
use crate::live::port::{LeaderArgs, Page, PortArgs, encoded, get, get_of_leader};
use crate::screen::Output;
use crate::screen::Screen;
use crate::screen::{in_form, say};
use clap::Args;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use supercargo_whatif::explain::format::count;
use supercargo_whatif::load::files::InputError;
use supercargo_whatif::load::input::decompressed;
use supercargo_whatif::pending::{LabelQuery, PAGE, PendingGroup, PendingPod, QueueReport};

/// Maximum size of a report read from a file, in bytes after decompression.
const BYTES_MAX: u64 = 64 << 20;
/// Places in the scheduler, in the order of the summary line.
const PLACES: [&str; 8] =
    ["active", "backoff", "unschedulable", "gated", "extenders", "evaluation", "volumes", "binding"];

/// Arguments of `supercargo queue`.
#[derive(Clone, Debug, Args)]
pub struct QueueArgs {
    /// Namespace of the pods. Defaults to the namespace of the kubeconfig's context, or `default`.
    #[arg(short = 'n', long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,

    /// List pods of all namespaces in which you may read pods.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,

    /// Label selector of the pods, for example app=web,tier!=test.
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = LabelQuery::parse)]
    pub selector: Option<LabelQuery>,

    /// Port of the scheduler.
    #[command(flatten)]
    pub port: PortArgs,

    /// How to find the leader.
    #[command(flatten)]
    pub leader: LeaderArgs,

    /// File with an answer of /debug/pending; `-` reads standard input.
    #[arg(short = 'f', long, value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// Output format.
    #[arg(short = 'o', long, value_name = "FORM", default_value = "table")]
    pub output: Output,
}

/// Runs the command: prints the list and returns the exit code.
pub fn main(args: &QueueArgs) -> ExitCode {
    match report(args) {
        Ok(report) => say(&in_form(args.output, &report, |wide| text(&report, wide, args.all_namespaces)), 0),
        Err(refused) => refused.report(),
    }
}

fn report(args: &QueueArgs) -> Result<QueueReport, Refused> {
    let given = args.namespace.clone();
    let (text, namespace) = match (&args.file, &args.port.server) {
        (Some(file), _) => (read(file)?, given),
        (None, Some(server)) => {
            let namespace = given.unwrap_or_else(|| "default".to_owned());
            let page = get(server, &args.port, args.leader.live.request_timeout, &path(args, &namespace))
                .map_err(Refused::Live)?;
            (answered(page, false)?, Some(namespace))
        }
        (None, None) => {
            let path = |context: &str| path(args, given.as_deref().unwrap_or(context));
            let token = args.port.token_file.as_deref();
            let (page, context) = get_of_leader(&args.leader, token, path).map_err(Refused::Live)?;
            (answered(page, true)?, Some(given.unwrap_or(context)))
        }
    };
    let wrong = |text: String| {
        let name = args.file.as_ref().map(|file| format!("{}: ", name_of(file)));
        InputError(format!("{}{text}", name.unwrap_or_default()))
    };
    let report: QueueReport =
        serde_json::from_str(&text).map_err(|error| wrong(format!("not a QueueReport: {error}")))?;
    if !report.is_of_this_version() {
        let (kind, version) = (&report.kind, &report.api_version);
        let text = format!("{kind} of {version} is not supported by this version of supercargo");
        return Err(wrong(text).into());
    }
    Ok(narrowed(report, args, namespace.filter(|_| !args.all_namespaces).as_deref()))
}

/// Returns the path and query of the request. The server filters by namespace only; labels are filtered here.
fn path(args: &QueueArgs, namespace: &str) -> String {
    if args.all_namespaces { PAGE.to_owned() } else { format!("{PAGE}?namespace={}", encoded(namespace)) }
}

/// Keeps the pods of the requested namespace and labels, and updates the counts.
fn narrowed(mut report: QueueReport, args: &QueueArgs, namespace: Option<&str>) -> QueueReport {
    if namespace.is_none() && args.selector.is_none() {
        return report;
    }
    let is_wanted = |pod: &PendingPod| {
        namespace.is_none_or(|namespace| pod.namespace == namespace)
            && args
                .selector
                .as_ref()
                .is_none_or(|labels| labels.matches(|key| pod.labels.get(key).map(String::as_str)))
    };
    let all = report.pods.len();
    report.pods.retain(is_wanted);
    let is_named = |group: &PendingGroup| {
        let names =
            |pod: &PendingPod| pod.namespace == group.namespace && pod.group.as_ref() == Some(&group.name);
        report.pods.iter().any(names)
    };
    report.groups.retain(is_named);
    // The server's counts include pods it left out of the list, so they stay valid if nothing is removed
    // here.
    if report.left_out == 0 || args.selector.is_some() || report.pods.len() < all {
        report.counts = BTreeMap::new();
        for pod in &report.pods {
            *report.counts.entry(pod.place.clone()).or_default() += 1;
        }
    }
    report
}

fn name_of(file: &Path) -> String {
    if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() }
}

fn read(file: &Path) -> Result<String, InputError> {
    let name = name_of(file);
    let wrong = |error: io::Error| InputError(format!("cannot read {name}: {error}"));
    let reader: Box<dyn Read> = if file == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(file).map_err(wrong)?)
    };
    let mut text = String::new();
    decompressed(reader).map_err(wrong)?.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(wrong)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(InputError(format!("{name}: larger than 64 MiB, the limit for a report")));
    }
    Ok(text)
}

fn answered(page: Page, by_proxy: bool) -> Result<String, Refused> {
    let message = page.message();
    let text = match (page.status, by_proxy) {
        (200, _) => return Ok(page.body),
        (400, _) => return Err(InputError(message).into()),
        (401, true) => "401: the scheduler does not accept your identity. The API server passes on a token but no \
                        client certificate: give a token \
                        with --token-file (kubectl create token)"
            .to_owned(),
        (401, false) => "401: the scheduler does not accept this token; give a valid one with --token-file (kubectl create token)".to_owned(),
        (404, _) => format!("404: {PAGE} not found: check that this is supercargo and that enableProfiling is true. {message}"),
        (502..=504, true) => format!(
            "the API server cannot reach the scheduler's port: {message}. If the scheduler listens only on 127.0.0.1, as a static pod \
             does, use `kubectl port-forward` and --server https://127.0.0.1:10259"
        ),
        (code, _) => format!("{code}: {message}"),
    };
    Err(Refused::Live(LiveError::Cluster(text)))
}

fn text(of: &QueueReport, wide: bool, all: bool) -> String {
    let mut screen = Screen::of_stdout();
    let number = |place: &&str| Some(format!("{} {place}", of.counts.get(*place)?));
    let counts: Vec<String> = PLACES.iter().filter_map(number).collect();
    let counts = if counts.is_empty() { "no pending pods".to_owned() } else { counts.join(", ") };
    let part = if of.complete { "" } else { ", only in namespaces where you may read pods" };
    screen.heading(&format!("{counts}{part}"));
    if !of.leading {
        screen.line("  answered by a standby replica; the leader may have newer data");
    }
    if !of.pods.is_empty() {
        screen.table(&[], &rows(of, wide, all));
    }
    if of.left_out > 0 {
        screen.line(&format!("  and {} more, not listed; list a single namespace with -n", of.left_out));
    }
    screen.into_text()
}

fn rows(of: &QueueReport, wide: bool, all: bool) -> Vec<Vec<String>> {
    let mut head = Vec::new();
    if all {
        head.push("NAMESPACE");
    }
    head.extend(["NAME", "PLACE", "SINCE", "ATTEMPTS", "NEXT TRY"]);
    if wide {
        head.extend(["PRIORITY", "SCHEDULER", "NODE", "PLUGINS"]);
    }
    head.push("WAITS FOR");
    let mut rows = vec![head.into_iter().map(str::to_owned).collect()];
    let mut members: BTreeMap<(&str, &str), Vec<&PendingPod>> = BTreeMap::new();
    for pod in &of.pods {
        if let Some(group) = &pod.group {
            members.entry((&pod.namespace, group)).or_default().push(pod);
        }
    }
    for pod in &of.pods {
        let Some(name) = &pod.group else {
            rows.push(pod_row(of, pod, "", wide, all));
            continue;
        };
        // A group is one entry, where its first member would be.
        let Some(members) = members.remove(&(pod.namespace.as_str(), name.as_str())) else { continue };
        let group = of.groups.iter().find(|group| group.namespace == pod.namespace && group.name == *name);
        rows.push(group_row(of, name, group, &members, (wide, all)));
        rows.extend(members.iter().map(|pod| pod_row(of, pod, "  ", wide, all)));
    }
    rows
}

fn pod_row(of: &QueueReport, pod: &PendingPod, indent: &str, wide: bool, all: bool) -> Vec<String> {
    let mut row = Vec::new();
    if all {
        row.push(pod.namespace.clone());
    }
    row.extend([
        format!("{indent}{}", pod.name),
        pod.place.clone(),
        between(&pod.since, &of.time),
        pod.attempts.to_string(),
    ]);
    row.push(pod.next_try.as_deref().map_or_else(|| "-".to_owned(), |next| next_try(next, &of.time)));
    if wide {
        let node = pod.node.as_ref().or(pod.nominated_node.as_ref());
        let or_none = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        row.extend([pod.priority.to_string(), pod.scheduler_name.clone()]);
        row.extend([or_none(node.map_or("", String::as_str)), or_none(&pod.plugins.join(","))]);
    }
    row.push(pod.waits_for.clone());
    row
}

/// Returns the row of a group above its members: since when the first of them waits, most attempts, and the earliest
/// next try.
fn group_row(
    of: &QueueReport,
    name: &str,
    group: Option<&PendingGroup>,
    members: &[&PendingPod],
    (wide, all): (bool, bool),
) -> Vec<String> {
    let none = || "-".to_owned();
    let mut row = Vec::new();
    if all {
        row.extend(members.first().map(|pod| pod.namespace.clone()));
    }
    let since =
        members.iter().map(|pod| &*pod.since).min().map_or_else(none, |since| between(since, &of.time));
    let attempts = members.iter().map(|pod| pod.attempts).max().unwrap_or_default().to_string();
    let next = members.iter().filter_map(|pod| pod.next_try.as_deref()).min();
    let next = next.map_or_else(none, |next| next_try(next, &of.time));
    row.extend([format!("podgroup/{name}"), "group".to_owned(), since, attempts, next]);
    if wide {
        let priority = members.iter().map(|pod| pod.priority).max().unwrap_or_default();
        let scheduler = members.first().map_or_else(none, |pod| pod.scheduler_name.clone());
        row.extend([priority.to_string(), scheduler, none(), none()]);
    }
    row.push(group.map_or_else(none, state_of));
    row
}

fn state_of(group: &PendingGroup) -> String {
    if !group.exists {
        return format!("the PodGroup, which does not exist; {}", count(group.members, "member"));
    }
    let least = group.min_count.map_or_else(String::new, |min| format!(" of at least {min}"));
    let known = format!("{}{least}, {} with a node", count(group.members, "member"), group.placed);
    match group.message.as_str() {
        _ if group.scheduled => format!("{known}; it was scheduled"),
        "" => known,
        message => format!("{known}: {message}"),
    }
}

/// Formats the latest time of the next retry, relative to the report's time.
fn next_try(next: &str, now: &str) -> String {
    match between(now, next).as_str() {
        "0s" => "now".to_owned(),
        "?" => "?".to_owned(),
        time => format!("within {time}"),
    }
}

/// Formats the time between two timestamps in its two largest units; negative times as `0s`.
fn between(from: &str, to: &str) -> String {
    let (Ok(from), Ok(to)) = (from.parse::<Timestamp>(), to.parse::<Timestamp>()) else {
        return "?".to_owned();
    };
    let seconds = to.duration_since(from).as_secs().max(0);
    let units = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    let parts = units.iter().scan(seconds, |rest, (size, name)| {
        let count = *rest / size;
        *rest %= size;
        Some((count, name))
    });
    let parts: Vec<String> = parts
        .skip_while(|(count, _)| *count == 0)
        .take(2)
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{count}{name}"))
        .collect();
    if parts.is_empty() { "0s".to_owned() } else { parts.concat() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_show_their_two_largest_units() {
        let from = "2026-01-01T00:00:00Z";
        for (to, expected) in [
            ("2026-01-01T00:00:00Z", "0s"),
            ("2025-12-31T00:00:00Z", "0s"),
            ("2026-01-01T00:00:59Z", "59s"),
            ("2026-01-01T00:05:00Z", "5m"),
            ("2026-01-01T01:00:01Z", "1h"),
            ("2026-01-03T04:05:06Z", "2d4h"),
            ("soon", "?"),
        ] {
            assert_eq!(between(from, to), expected, "{to}");
        }
        assert_eq!(
            (next_try(from, from), next_try("2026-01-01T00:00:09Z", from)),
            ("now".into(), "within 9s".into())
        );
    }
}
