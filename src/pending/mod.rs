//! Where each pending pod waits, for what and since when, for whoever asks and may know: read off the engine between two decisions.
//!
//! Who may know is not decided here (`crate::serve`), and how it looks on a screen neither (`crate::cli::queue`).

mod explain;
mod query;
mod report;
mod words;

pub use explain::{PendingExplanation, explain};
pub use query::{LabelQuery, parameters};
pub use report::{PendingPod, QueueReport, moment};

use std::collections::{BTreeMap, BTreeSet};
use supercargo_core::intern::Symbol;
use supercargo_core::scheduler::{Pending, Scheduler};
use supercargo_core::time::Time;

/// Where the report is.
pub const PAGE: &str = "/debug/pending";
/// Pods of one report at most.
const PODS_MAX: usize = 20_000;

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

/// The pods on their way to a node that are asked for.
pub fn report(engine: &Scheduler, now: Time, question: &Question) -> QueueReport {
    let snapshot = engine.snapshot();
    let mut known: BTreeMap<Symbol, bool> = BTreeMap::new();
    let mut is_asked_for = |namespace: Symbol| match &question.namespaces {
        None => true,
        Some(names) => *known.entry(namespace).or_insert_with(|| names.contains(snapshot.text(namespace))),
    };
    let mut answer = QueueReport::new(now, engine.is_leading(), !question.is_part);
    for pending in engine.pending() {
        let pod = pending.pod();
        if !is_asked_for(pod.namespace) || !question.labels.matches(|key| label(engine, &pending, key)) {
            continue;
        }
        *answer.counts.entry(words::place(pending.at).to_owned()).or_default() += 1;
        if answer.pods.len() < PODS_MAX {
            answer.pods.push(words::told(engine, &pending));
        } else {
            answer.left_out += 1;
        }
    }
    answer.pods.sort_by(|a, b| (&a.namespace, &a.name, &a.uid).cmp(&(&b.namespace, &b.name, &b.uid)));
    answer
}

fn label<'e>(engine: &'e Scheduler, pending: &Pending<'_>, wanted: &str) -> Option<&'e str> {
    let snapshot = engine.snapshot();
    let mut labels = snapshot.labels(pending.pod().labels).iter();
    labels.find(|&(key, _)| snapshot.text(key) == wanted).map(|(_, value)| snapshot.text(value))
}

#[cfg(test)]
mod tests;
