//! `supercargo queue`: where each pending pod waits, for what, since when, and when it is tried next. Asks the running scheduler, or reads what it
//! answered; changes nothing.

use super::cluster::{Refused, in_form, say};
use super::live::LiveError;
use super::live::port::{LeaderArgs, Page, PortArgs, encoded, get, get_of_leader};
use super::screen::Screen;
use super::simulate::input::decompressed;
use super::simulate::{InputError, Output};
use crate::pending::{LabelQuery, PAGE, PendingPod, QueueReport};
use clap::Args;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A report that is read from a file is no larger.
const BYTES_MAX: u64 = 64 << 20;
/// The places, in the order in which they are told.
const PLACES: [&str; 7] = ["active", "backoff", "unschedulable", "gated", "extenders", "volumes", "binding"];

/// Whose pods, where the scheduler is, and how it is told.
#[derive(Clone, Debug, Args)]
pub struct QueueArgs {
    /// The pods of this namespace; without it the kubeconfig's, or `default`.
    #[arg(short = 'n', long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,

    /// The pods of all namespaces, as far as they may be read.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,

    /// Only pods with these labels, for example app=web,tier!=test.
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = LabelQuery::parse)]
    pub selector: Option<LabelQuery>,

    /// Where the port is.
    #[command(flatten)]
    pub port: PortArgs,

    /// Where the leader is.
    #[command(flatten)]
    pub leader: LeaderArgs,

    /// File with what /debug/pending has answered; `-` is standard input.
    #[arg(short = 'f', long, value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// Form of the answer.
    #[arg(short = 'o', long, value_name = "FORM", default_value = "table")]
    pub output: Output,
}

/// Runs the command on the process's own streams.
pub fn main(args: &QueueArgs) -> ExitCode {
    match report(args) {
        Ok(report) => say(&in_form(args.output, &report, |wide| text(&report, wide, args.all_namespaces)), 0),
        Err(refused) => refused.tell(),
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
        serde_json::from_str(&text).map_err(|error| wrong(format!("this is no QueueReport: {error}")))?;
    if !report.is_of_this_version() {
        let (kind, version) = (&report.kind, &report.api_version);
        let text = format!("this is a {kind} of {version}, which this version does not read");
        return Err(wrong(text).into());
    }
    Ok(narrowed(report, args, namespace.filter(|_| !args.all_namespaces).as_deref()))
}

/// The page with what is asked for, as far as the server narrows it down.
fn path(args: &QueueArgs, namespace: &str) -> String {
    if args.all_namespaces { PAGE.to_owned() } else { format!("{PAGE}?namespace={}", encoded(namespace)) }
}

/// Only the pods of the namespace and with the labels that are asked for, and the counts of those.
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
    // What the server narrowed down itself it has counted, those that it left out included.
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
    let wrong = |error: io::Error| InputError(format!("{name}: cannot be read: {error}"));
    let reader: Box<dyn Read> = if file == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(file).map_err(wrong)?)
    };
    let mut text = String::new();
    decompressed(reader).map_err(wrong)?.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(wrong)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(InputError(format!("{name}: is larger than any report")));
    }
    Ok(text)
}

fn answered(page: Page, by_proxy: bool) -> Result<String, Refused> {
    let told = page.message();
    let text = match (page.status, by_proxy) {
        (200, _) => return Ok(page.body),
        (400, _) => return Err(InputError(told).into()),
        (401, true) => "401: the scheduler does not know who asks. The API server hands a token on, and no client certificate: give a token \
                        with --token-file (kubectl create token)"
            .to_owned(),
        (401, false) => "401: it does not know whose token this is; give one with --token-file (kubectl create token)".to_owned(),
        (404, _) => format!("404: it has no page {PAGE}: is it a supercargo, and is enableProfiling true? {told}"),
        (502..=504, true) => format!(
            "the API server does not reach the scheduler's port: {told}. A scheduler that listens on 127.0.0.1, as a static pod does, is reached \
             by `kubectl port-forward` and --server https://127.0.0.1:10259"
        ),
        (code, _) => format!("{code}: {told}"),
    };
    Err(Refused::Live(LiveError::Cluster(text)))
}

fn text(of: &QueueReport, wide: bool, all: bool) -> String {
    let mut screen = Screen::of_stdout();
    let count = |place: &&str| Some(format!("{} {place}", of.counts.get(*place)?));
    let counts: Vec<String> = PLACES.iter().filter_map(count).collect();
    let counts = if counts.is_empty() { "no pods wait".to_owned() } else { counts.join(", ") };
    let part = if of.complete { "" } else { ", in the namespaces whose pods you may read" };
    screen.heading(&format!("{counts}{part}"));
    if !of.leading {
        screen.line("  told by a replica that stands by: the leader may be further");
    }
    if !of.pods.is_empty() {
        screen.table(&[], &rows(of, wide, all));
    }
    if of.left_out > 0 {
        screen.line(&format!(
            "  and {} more that are not listed; ask the scheduler for one namespace with -n",
            of.left_out
        ));
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
    for pod in &of.pods {
        let mut row = Vec::new();
        if all {
            row.push(pod.namespace.clone());
        }
        row.extend([
            pod.name.clone(),
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
        rows.push(row);
    }
    rows
}

/// The last moment of a next try, seen from the report's.
fn next_try(next: &str, now: &str) -> String {
    match between(now, next).as_str() {
        "0s" => "now".to_owned(),
        "?" => "?".to_owned(),
        time => format!("within {time}"),
    }
}

/// The time from one moment to the other, in the two units that matter.
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
    fn times_are_told_in_the_units_that_matter() {
        let from = "2026-01-01T00:00:00Z";
        for (to, told) in [
            ("2026-01-01T00:00:00Z", "0s"),
            ("2025-12-31T00:00:00Z", "0s"),
            ("2026-01-01T00:00:59Z", "59s"),
            ("2026-01-01T00:05:00Z", "5m"),
            ("2026-01-01T01:00:01Z", "1h"),
            ("2026-01-03T04:05:06Z", "2d4h"),
            ("soon", "?"),
        ] {
            assert_eq!(between(from, to), told, "{to}");
        }
        assert_eq!(
            (next_try(from, from), next_try("2026-01-01T00:00:09Z", from)),
            ("now".into(), "within 9s".into())
        );
    }
}
