//! The reasons for which nodes cannot take a pod, counted and put into words (upstream
//! `pkg/scheduler/framework/types.go#FitError`).

use super::status::Reason;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How many nodes have each reason.
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

    /// Counts a reason that `nodes` nodes have; none is no entry.
    pub fn add_times(&mut self, reason: Reason, nodes: usize) {
        if nodes > 0 {
            *self.counts.entry(reason).or_default() += nodes;
        }
    }

    /// The whole message about `all` nodes. Entries are sorted as texts, count included: "10 x" stands before "2 y".
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
