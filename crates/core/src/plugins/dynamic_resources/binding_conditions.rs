//! Binding conditions: what a driver must report of allocated devices before a pod is bound.
//!
//! Upstream: `dynamicresources.go#isClaimReadyForBinding` and `#isClaimTimeout`.

use crate::model::device::{AllocatedDevice, DeviceId, DeviceStatus, ResourceClaim};
use crate::model::time::Time;
use std::collections::BTreeSet;
use std::time::Duration;

/// Whether the devices of a claim are ready for a pod to be bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// All conditions are true, or there are none.
    Ready,
    /// Some conditions are not true yet.
    Waiting,
    /// Some conditions are not true, and the time limit has passed.
    TimedOut,
    /// A failure condition is true: its reason and message.
    Failed {
        /// `reason`.
        reason: String,
        /// `message`.
        message: String,
    },
}

/// Returns whether the devices of an allocated claim are ready.
pub fn readiness(claim: &ResourceClaim, timeout: Duration, now: Time) -> Readiness {
    let Some(allocation) = &claim.allocation else { return Readiness::Waiting };
    for result in allocation.results.iter().filter(|result| !result.binding_conditions.is_empty()) {
        let is_over = || allocation.allocated_at.is_some_and(|since| since + timeout < now);
        let waiting = || if is_over() { Readiness::TimedOut } else { Readiness::Waiting };
        let Some(status) = claim.devices.iter().find(|status| status.device == result.device) else {
            return waiting();
        };
        let find = |kind: &str| status.conditions.iter().find(|condition| *condition.kind == *kind);
        let failures = result.binding_failure_conditions.iter().filter_map(|kind| find(kind));
        if let Some(failure) = failures.clone().find(|condition| condition.is_true) {
            return Readiness::Failed {
                reason: failure.reason.to_string(),
                message: failure.message.to_string(),
            };
        }
        if !result.binding_conditions.iter().all(|kind| find(kind).is_some_and(|it| it.is_true)) {
            return waiting();
        }
    }
    Readiness::Ready
}

/// Returns the devices of a claim for which the wait ended without success: those whose conditions are not true, if the
/// claim failed or timed out.
pub fn failed_devices(claim: &ResourceClaim, timeout: Duration, now: Time) -> BTreeSet<DeviceId> {
    if !matches!(readiness(claim, timeout, now), Readiness::Failed { .. } | Readiness::TimedOut) {
        return BTreeSet::new();
    }
    let results = claim.allocation.iter().flat_map(|allocation| &allocation.results);
    let is_ready = |result: &AllocatedDevice| {
        let status = claim.devices.iter().find(|status| status.device == result.device);
        let is_true = |status: &DeviceStatus, kind: &str| {
            status.conditions.iter().any(|condition| *condition.kind == *kind && condition.is_true)
        };
        status.is_some_and(|status| {
            result.binding_conditions.iter().all(|kind| is_true(status, kind))
                && !result.binding_failure_conditions.iter().any(|kind| is_true(status, kind))
        })
    };
    let waited = results.filter(|result| !result.binding_conditions.is_empty() && !is_ready(result));
    waited.map(|result| result.device.clone()).collect()
}
