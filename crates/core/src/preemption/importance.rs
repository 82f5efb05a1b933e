//! The importance order of pods; less important ones are evicted first (upstream
//! `pkg/scheduler/util/utils.go`).

use super::sort::sort_as_go;
use crate::model::pod::PodInfo;
use crate::model::time::Time;
use std::cmp::Ordering;

/// The start time of a pod, or `now` if it has not started.
pub(super) fn started(pod: &PodInfo, now: Time) -> Time {
    pod.start_time.unwrap_or(now)
}

/// Whether `a` is more important than `b`: higher priority, then earlier start.
///
/// Upstream reads the clock for each pod without a start time at every comparison, so the first argument of
/// two such pods is always more important. This is no consistent order; therefore the sort's steps matter.
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

/// Sorts by importance, highest first. Pods of equal importance end in upstream's order.
pub(super) fn sort_by_importance(pods: &mut [&PodInfo], now: Time) {
    sort_as_go(pods, |a, b| more_important(a, b, now));
}
