//! The importance order of pods; less important ones are evicted first (upstream
//! `pkg/scheduler/util/utils.go`).

use super::sort::sort_as_go;
use crate::model::emulation::VersionRules;
use crate::model::pod::PodInfo;
use crate::model::time::Time;
use std::cmp::Ordering;

/// The start time of a pod, or `now` if it has not started.
pub(crate) fn started(pod: &PodInfo, now: Time) -> Time {
    pod.start_time.unwrap_or(now)
}

/// The importance order of the potential victims of a node: higher priority, then earlier start.
pub(super) struct Importance<'a> {
    now: Time,
    /// The pods in the node's order, if those without a start time keep it.
    listed: Option<Vec<&'a PodInfo>>,
}

impl<'a> Importance<'a> {
    /// Creates the order for pods in the node's order.
    pub(super) fn new(listed: &[&'a PodInfo], now: Time, rules: VersionRules) -> Self {
        Self { now, listed: rules.orders_unstarted_victims.then(|| listed.to_vec()) }
    }

    /// Sorts by importance, highest first. Pods of equal importance end in upstream's order.
    pub(super) fn sort(&self, pods: &mut [&PodInfo]) {
        sort_as_go(pods, |a, b| self.is_first(a, b));
    }

    /// Whether `a` is more important than `b`.
    ///
    /// Upstream takes the time now for a pod without a start time. Up to 1.36 it reads the clock at every comparison,
    /// so the first argument of two such pods is always more important. This is no consistent order; therefore the
    /// sort's steps matter. From 1.37 it reads the clock once per pod, in the node's order.
    fn is_first(&self, a: &PodInfo, b: &PodInfo) -> bool {
        match a.priority.cmp(&b.priority) {
            Ordering::Greater => true,
            Ordering::Less => false,
            Ordering::Equal => match (a.start_time, b.start_time) {
                (None, None) => self.listed.as_ref().is_none_or(|listed| place(listed, a) < place(listed, b)),
                _ => started(a, self.now) < started(b, self.now),
            },
        }
    }
}

fn place(listed: &[&PodInfo], pod: &PodInfo) -> Option<usize> {
    listed.iter().position(|listed| std::ptr::eq(*listed, pod))
}
