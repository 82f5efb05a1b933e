//! Groups pending pods by what they wait for, most severe first. Works on a report, not on the engine.

use crate::pending::report::PendingPod;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The urgency of a pending pod for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Its latest attempts ended with an error.
    Error,
    /// No node was feasible, and a cluster change must come first.
    Blocked,
    /// It waits for time, or for what its owner decides: a backoff or a gate.
    Waiting,
    /// It is about to be decided or bound.
    Moving,
}

impl Severity {
    /// Returns the severity of a pod's state.
    pub fn of(pod: &PendingPod) -> Self {
        match pod.place.as_str() {
            _ if pod.errors > 0 => Self::Error,
            "unschedulable" => Self::Blocked,
            "backoff" | "gated" => Self::Waiting,
            _ => Self::Moving,
        }
    }
}

/// Pods that wait for the same thing.
#[derive(Clone, Debug)]
pub struct ReasonGroup<'r> {
    /// The severity of each of them.
    pub severity: Severity,
    /// Their place in the scheduler.
    pub place: &'r str,
    /// The reason why they wait, without the names of nodes.
    pub reason: String,
    /// The pods, in the order of the report.
    pub pods: Vec<&'r PendingPod>,
}

impl<'r> ReasonGroup<'r> {
    /// Returns the time since when the first of them is at its place, RFC 3339.
    pub fn since(&self) -> &'r str {
        // Timestamps of one form sort as text.
        self.pods.iter().map(|pod| pod.since.as_str()).min().unwrap_or_default()
    }

    /// Returns the earliest of their latest next attempts, RFC 3339.
    pub fn next_try(&self) -> Option<&'r str> {
        self.pods.iter().filter_map(|pod| pod.next_try.as_deref()).min()
    }

    /// Returns the number of attempts of the pod with the most.
    pub fn attempts(&self) -> u32 {
        self.pods.iter().map(|pod| pod.attempts).max().unwrap_or_default()
    }
}

/// Returns what a pod waits for without the name of its node, so that pods on different nodes compare equal.
pub fn reason(pod: &PendingPod) -> String {
    let Some(node) = pod.node.as_ref().or(pod.nominated_node.as_ref()) else { return pod.waits_for.clone() };
    let without = |text: &str, part: String| text.replacen(&part, "", 1);
    without(&without(&pod.waits_for, format!(" on node {node}")), format!(" to node {node}"))
}

/// Groups pods by severity, place and reason: most severe first, then the largest group.
pub fn by_reason<'r>(pods: impl IntoIterator<Item = &'r PendingPod>) -> Vec<ReasonGroup<'r>> {
    let mut groups: BTreeMap<(Severity, &str, String), Vec<&PendingPod>> = BTreeMap::new();
    for pod in pods {
        groups.entry((Severity::of(pod), &pod.place, reason(pod))).or_default().push(pod);
    }
    let groups = groups.into_iter();
    let groups =
        groups.map(|((severity, place, reason), pods)| ReasonGroup { severity, place, reason, pods });
    let mut groups: Vec<ReasonGroup<'_>> = groups.collect();
    groups.sort_by_key(|group| (group.severity, Reverse(group.pods.len())));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, place: &str, waits_for: &str, node: Option<&str>) -> PendingPod {
        PendingPod {
            name: name.to_owned(),
            place: place.to_owned(),
            waits_for: waits_for.to_owned(),
            node: node.map(str::to_owned),
            since: format!("2026-01-01T00:00:0{}Z", name.len()),
            attempts: u32::try_from(name.len()).expect("a short name"),
            ..PendingPod::default()
        }
    }

    #[test]
    fn pods_are_grouped_by_reason_most_severe_and_largest_first() {
        let mut failing = pod("failing", "backoff", "the end of its backoff", None);
        failing.errors = 2;
        let pods = [
            pod("a", "binding", "confirmation of binding to node n1", Some("n1")),
            pod("bb", "binding", "confirmation of binding to node n2", Some("n2")),
            pod("c", "gated", "its gate", None),
            pod("d", "unschedulable", "room", None),
            pod("e", "unschedulable", "a label", None),
            pod("fff", "unschedulable", "a label", None),
            failing,
        ];
        let groups = by_reason(&pods);
        let shown: Vec<_> =
            groups.iter().map(|group| (group.severity, group.reason.as_str(), group.pods.len())).collect();
        let expected = [
            (Severity::Error, "the end of its backoff", 1),
            (Severity::Blocked, "a label", 2),
            (Severity::Blocked, "room", 1),
            (Severity::Waiting, "its gate", 1),
            (Severity::Moving, "confirmation of binding", 2),
        ];
        assert_eq!(shown, expected);
        assert_eq!((groups[1].since(), groups[1].attempts()), ("2026-01-01T00:00:01Z", 3));
    }
}
