//! Where each pending pod waits, for what and since when, for whoever asks and may know: read off the engine between two decisions.
//!
//! Who may know is not decided here (`crate::serve`), and how it looks on a screen neither (`crate::cli::queue`).

mod explain;
mod query;
mod report;
mod reporting;
mod words;

pub use explain::{Explaining, PendingExplanation};
pub use query::{LabelQuery, parameters};
pub use report::{PendingPod, QueueReport, moment};
pub use reporting::Reporting;

use std::collections::BTreeSet;
use supercargo_core::scheduler::Scheduler;

/// Where the report is.
pub const PAGE: &str = "/debug/pending";

/// Which pods are asked for.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// The namespaces that whoever asks may know of; `None` for all.
    pub namespaces: Option<BTreeSet<String>>,
    /// Whether there may be others, which are not told of.
    pub is_part: bool,
    /// What labels they have.
    pub labels: LabelQuery,
}

/// The namespaces there are, in order.
pub fn namespaces(engine: &Scheduler) -> Vec<String> {
    let snapshot = engine.snapshot();
    let names = snapshot.lookups().namespaces().map(|(name, _)| snapshot.text(name).to_owned());
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests;
