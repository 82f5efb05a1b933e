//! The first lists of all kinds: how long each took, and when the last of them was whole. It counts and tells; who waits for what is
//! [`super::Readiness`]'s business.

use std::sync::atomic::{AtomicUsize, Ordering};

use supercargo_core::event::Kind;
use tokio::time::Instant;

/// The first lists, told of as they end.
#[derive(Debug)]
pub(super) struct FirstLists {
    began: Instant,
    awaited: AtomicUsize,
}

impl FirstLists {
    /// They begin now.
    pub(super) fn begin() -> Self {
        Self { began: Instant::now(), awaited: AtomicUsize::new(Kind::ALL.len()) }
    }

    /// The engine has the first list of a kind whole; to be told once for each. Whether it was the last.
    pub(super) fn ended(&self, kind: Kind) -> bool {
        let (took, awaited) = (self.began.elapsed(), self.awaited.fetch_sub(1, Ordering::Relaxed) - 1);
        tracing::debug!(kind = kind.as_str(), ?took, awaited, "listed for the first time");
        if awaited == 0 {
            tracing::info!(?took, "the cluster is known: all kinds are listed");
        }
        awaited == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cluster_is_known_with_the_last_kind() {
        let lists = FirstLists::begin();
        let (last, others) = Kind::ALL.split_last().expect("there are kinds");
        assert!(others.iter().all(|kind| !lists.ended(*kind)));
        assert!(lists.ended(*last));
    }
}
