//! Counts the reasons of all nodes and formats the message (upstream
//! `pkg/scheduler/framework/types.go#FitError`).

use super::status::Reason;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The number of nodes for each reason.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    counts: BTreeMap<Reason, usize>,
}

impl Histogram {
    /// Counts each reason of one node.
    pub fn add(&mut self, reasons: &[Reason]) {
        for reason in reasons {
            match self.counts.get_mut(reason) {
                Some(count) => *count += 1,
                None => self.add_times(reason.clone(), 1),
            }
        }
    }

    /// Counts a reason for `nodes` nodes; 0 adds no entry.
    pub fn add_times(&mut self, reason: Reason, nodes: usize) {
        if nodes > 0 {
            *self.counts.entry(reason).or_default() += nodes;
        }
    }

    /// Formats the message about `all` nodes. Entries are sorted as text with their counts: "10 x" precedes
    /// "2 y".
    pub fn message(&self, all: usize) -> String {
        let mut message = format!("0/{all} nodes are available:");
        let mut entries: Vec<String> =
            self.counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        entries.sort_unstable();
        if !entries.is_empty() {
            let _ = write!(message, " {}.", entries.join(", "));
        }
        message
    }
}
