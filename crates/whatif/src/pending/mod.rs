//! Reports on pending pods: where each is in the scheduler, why, and since when. Reads the engine between two
//! decisions.
//!
//! The server of the program authorizes the caller; the command `queue` formats the report as a table.

mod explain;
mod format;
mod query;
mod reasons;
mod report;
mod reporting;

pub use explain::{Explaining, PendingAnswer, PendingExplanation, PendingReason};
pub use query::{LabelQuery, parameters};
pub use reasons::{ReasonGroup, Severity, by_reason, reason};
pub use report::{PendingGroup, PendingPod, QueueReport, moment};
pub use reporting::Reporting;

use std::collections::BTreeSet;
use supercargo_core::scheduler::Scheduler;

/// Path of the report.
pub const PAGE: &str = "/debug/pending";

/// Path of the explanation of one pending pod.
pub const EXPLAIN: &str = "/debug/explain";

/// Selection of pods.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Namespaces the caller may read; `None` for all.
    pub namespaces: Option<BTreeSet<String>>,
    /// Whether there may be further namespaces, which the report does not cover.
    pub is_part: bool,
    /// Label selector.
    pub labels: LabelQuery,
}

/// Returns the names of all namespaces, sorted.
pub fn namespaces(engine: &Scheduler) -> Vec<String> {
    let snapshot = engine.snapshot();
    let names = snapshot.lookups().namespaces().map(|(name, _)| snapshot.text(name).to_owned());
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests;
