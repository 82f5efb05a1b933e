//! Which of two pods is the more important, and so the later to go (upstream `pkg/scheduler/util/utils.go`).

use super::sort::sort_as_go;
use crate::pod::PodInfo;
use crate::time::Time;
use std::cmp::Ordering;

/// When a pod started: now, as long as it has not.
pub(super) fn started(pod: &PodInfo, now: Time) -> Time {
    pod.start_time.unwrap_or(now)
}

/// Whether `a` comes before `b`: by higher priority, then by earlier start.
///
/// Upstream reads the clock for each pod without a start time, at every comparison: of two such pods the one it asks
/// for first is always the more important. This is no order, and the sorting shows it.
fn more_important(a: &PodInfo, b: &PodInfo, now: Time) -> bool {
    match a.priority.cmp(&b.priority) {
        Ordering::Greater => true,
        Ordering::Less => false,
        Ordering::Equal => match (a.start_time, b.start_time) {
            (None, None) => true,
            _ => started(a, now) < started(b, now),
        },
    }
}

/// The most important first; pods of which neither is more important as upstream's sort leaves them.
pub(super) fn sort_by_importance(pods: &mut [&PodInfo], now: Time) {
    sort_as_go(pods, |a, b| more_important(a, b, now));
}
