//! The table of `supercargo queue`. Pods that wait for the same thing are one row, unless the table is wide.

use crate::screen::{Screen, Tone};
use jiff::Timestamp;
use std::collections::BTreeMap;
use supercargo_whatif::explain::format::count;
use supercargo_whatif::pending::{PendingGroup, PendingPod, QueueReport, ReasonGroup, Severity, by_reason};

/// Places in the scheduler, in the order of the summary line.
const PLACES: [&str; 8] =
    ["active", "backoff", "unschedulable", "gated", "extenders", "evaluation", "volumes", "binding"];
/// Number of pods from which on those with one reason are one row: a table of three is read at a glance.
const GROUPED_FROM: usize = 4;

/// Returns the color of a severity. What moves by itself has none.
pub(super) fn tone(severity: Severity) -> Option<Tone> {
    match severity {
        Severity::Error => Some(Tone::Red),
        Severity::Blocked => Some(Tone::Yellow),
        Severity::Waiting => Some(Tone::Cyan),
        Severity::Moving => None,
    }
}

/// Returns the number of pods at each place, as one line.
pub(crate) fn counts(of: &QueueReport) -> String {
    let number = |place: &&str| Some(format!("{} {place}", of.counts.get(*place)?));
    let counts: Vec<String> = PLACES.iter().filter_map(number).collect();
    if counts.is_empty() { "no pending pods".to_owned() } else { counts.join(", ") }
}

/// Adds the report to a screen.
pub(super) fn add(screen: &mut Screen, of: &QueueReport, wide: bool, all: bool) {
    let part = if of.complete { "" } else { ", only in namespaces where you may read pods" };
    screen.heading(&format!("{}{part}", counts(of)));
    if !of.leading {
        screen.line("  answered by a standby replica; the leader may have newer data");
    }
    if !of.pods.is_empty() {
        let rows = rows(of, wide, all);
        // The place has the color of the severity.
        let place = if all { 2 } else { 1 };
        let tones: Vec<Option<Tone>> = rows.iter().map(|row| row.severity.and_then(tone)).collect();
        let cells: Vec<Vec<String>> = rows.into_iter().map(|row| row.cells).collect();
        screen.toned_table(&[], &cells, |row, column| tones[row].filter(|_| column == place));
    }
    if of.left_out > 0 {
        screen.line(&format!("  and {} more, not listed; list a single namespace with -n", of.left_out));
    }
}

/// A row of the table.
struct Row {
    cells: Vec<String>,
    /// The severity of its pods; `None` for the head and for groups.
    severity: Option<Severity>,
}

fn rows(of: &QueueReport, wide: bool, all: bool) -> Vec<Row> {
    let mut head = Vec::new();
    if all {
        head.push("NAMESPACE");
    }
    head.extend(["NAME", "PLACE", "SINCE", "ATTEMPTS", "NEXT TRY"]);
    if wide {
        head.extend(["PRIORITY", "SCHEDULER", "NODE", "PLUGINS"]);
    }
    head.push("WAITS FOR");
    let cells = head.into_iter().map(str::to_owned).collect();
    let mut rows = vec![Row { cells, severity: None }];
    // Pods without a group, and the members of each group, per namespace.
    let mut parts: BTreeMap<(&str, Option<&str>), Vec<&PendingPod>> = BTreeMap::new();
    for pod in &of.pods {
        parts.entry((&pod.namespace, pod.group.as_deref())).or_default().push(pod);
    }
    let large: Vec<ReasonGroup<'_>> = parts.values().filter(|_| !wide).flat_map(|pods| large(pods)).collect();
    let mut in_large: BTreeMap<(&str, &str), (&ReasonGroup<'_>, bool)> = BTreeMap::new();
    for group in &large {
        for (at, pod) in group.pods.iter().enumerate() {
            in_large.insert((&pod.namespace, &pod.name), (group, at == 0));
        }
    }
    let pod_rows = |pod: &PendingPod, indent: &str| match in_large
        .get(&(pod.namespace.as_str(), pod.name.as_str()))
    {
        None => Some(Row { cells: pod_row(of, pod, indent, wide, all), severity: Some(Severity::of(pod)) }),
        Some((group, true)) => {
            Some(Row { cells: reason_row(of, group, indent, all), severity: Some(group.severity) })
        }
        Some((_, false)) => None,
    };
    for pod in &of.pods {
        let Some(name) = &pod.group else {
            rows.extend(pod_rows(pod, ""));
            continue;
        };
        // A group is one entry, where its first member would be.
        let Some(members) = parts.remove(&(pod.namespace.as_str(), Some(name.as_str()))) else { continue };
        let group = of.groups.iter().find(|group| group.namespace == pod.namespace && group.name == *name);
        rows.push(Row { cells: group_row(of, name, group, &members, (wide, all)), severity: None });
        rows.extend(members.iter().filter_map(|pod| pod_rows(pod, "  ")));
    }
    rows
}

/// Returns the reasons that many of the pods share.
fn large<'r>(pods: &[&'r PendingPod]) -> Vec<ReasonGroup<'r>> {
    let groups = by_reason(pods.iter().copied()).into_iter();
    groups.filter(|group| group.pods.len() >= GROUPED_FROM).collect()
}

/// Returns the row of pods with one reason: since when the first of them waits, the most attempts, and the earliest
/// next try.
fn reason_row(of: &QueueReport, group: &ReasonGroup<'_>, indent: &str, all: bool) -> Vec<String> {
    let first = group.pods[0];
    let mut row = Vec::new();
    if all {
        row.push(first.namespace.clone());
    }
    let next = group.next_try().map_or_else(|| "-".to_owned(), |next| next_try(next, &of.time));
    row.extend([
        format!("{indent}{} and {} more", first.name, group.pods.len() - 1),
        group.place.to_owned(),
        between(group.since(), &of.time),
        group.attempts().to_string(),
        next,
        group.reason.clone(),
    ]);
    row
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
pub(crate) fn next_try(next: &str, now: &str) -> String {
    match between(now, next).as_str() {
        "0s" => "now".to_owned(),
        "?" => "?".to_owned(),
        time => format!("within {time}"),
    }
}

/// Formats the time between two timestamps in its two largest units; negative times as `0s`.
pub(crate) fn between(from: &str, to: &str) -> String {
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
