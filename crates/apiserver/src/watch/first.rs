//! Logs the progress of the initial lists. [`super::Readiness`] decides what waits for them.

use std::sync::atomic::{AtomicUsize, Ordering};

use supercargo_core::model::event::Kind;
use tokio::time::Instant;

/// Progress of the initial lists.
#[derive(Debug)]
pub(super) struct FirstLists {
    began: Instant,
    awaited: AtomicUsize,
}

impl FirstLists {
    /// Starts the measurement of this number of kinds.
    pub(super) fn begin(kinds: usize) -> Self {
        Self { began: Instant::now(), awaited: AtomicUsize::new(kinds) }
    }

    /// Records that the engine has the complete first list of a kind; call once per kind. Returns whether it
    /// was the last.
    pub(super) fn ended(&self, kind: Kind) -> bool {
        let (took, awaited) = (self.began.elapsed(), self.awaited.fetch_sub(1, Ordering::Relaxed) - 1);
        tracing::debug!(kind = kind.as_str(), ?took, awaited, "initial list complete");
        if awaited == 0 {
            tracing::info!(?took, "initial lists of all kinds complete");
        }
        awaited == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_kind_completes_the_initial_lists() {
        let lists = FirstLists::begin(Kind::ALL.len());
        let (last, others) = Kind::ALL.split_last().expect("there are kinds");
        assert!(others.iter().all(|kind| !lists.ended(*kind)));
        assert!(lists.ended(*last));
    }
}
