//! The members of the last group, whose reports follow the group's, and the log line of a group.

use std::collections::BTreeMap;
use std::time::Duration;

use supercargo_core::model::pod::Uid;
use supercargo_core::model::time::Time;
use supercargo_core::report::Report;
use supercargo_core::report::group::{GroupOutcome, GroupReport};

use crate::telemetry::log::DECISIONS;

/// The group whose cycle ended last.
#[derive(Default)]
pub(super) struct LastGroup {
    /// The members without a report, each with its share of the time that the group's decision took.
    members: BTreeMap<Uid, Duration>,
    /// When the first member was queued, as far as reports have arrived, if the group starts.
    starting: Option<Time>,
}

impl LastGroup {
    /// Returns a group whose cycle has ended.
    pub(super) fn of(now: Time, report: &GroupReport, took: Duration) -> Self {
        let share = took / u32::try_from(report.members.len()).unwrap_or(u32::MAX).max(1);
        let members = report.members.iter().map(|member| (member.pod.uid.clone(), share)).collect();
        Self { members, starting: (report.outcome == GroupOutcome::Scheduled).then_some(now) }
    }

    /// Takes a member: returns its share, and if it is the last one of a group that starts, the time since the first
    /// member was queued.
    pub(super) fn take_member(&mut self, now: Time, report: &Report) -> (Option<Duration>, Option<Duration>) {
        let Some(share) = self.members.remove(&report.pod.uid) else { return (None, None) };
        let first = self.starting.map(|first| first.min(report.first_queued));
        self.starting = first.filter(|_| !self.members.is_empty());
        let start = first.filter(|_| self.members.is_empty());
        (Some(share), start.map(|first| now.since(first)))
    }
}

/// Logs one line per cycle of a group.
pub(super) fn log(report: &GroupReport, took: Duration) {
    let group = format_args!("{}/{}", report.namespace, report.name);
    let (members, victims) = (report.members.len(), report.victims.len());
    let placement = report.chosen.as_deref();
    match report.outcome {
        GroupOutcome::Scheduled => tracing::info!(
            target: DECISIONS,
            podGroup = %group, members, placement, ?took,
            "Successfully scheduled pod group"
        ),
        GroupOutcome::Unschedulable => tracing::info!(
            target: DECISIONS,
            podGroup = %group, members, err = %report.status, ?took,
            "Unable to schedule pod group; waiting"
        ),
        GroupOutcome::WaitingForPreemption => tracing::info!(
            target: DECISIONS,
            podGroup = %group, members, victims, placement, err = %report.status, ?took,
            "Unable to schedule pod group; waiting for preemption"
        ),
        GroupOutcome::Error | GroupOutcome::Refused => tracing::warn!(
            target: DECISIONS,
            podGroup = %group, members, err = %report.status,
            "Error scheduling pod group; retrying"
        ),
    }
}
