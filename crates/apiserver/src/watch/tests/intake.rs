//! The receiver of objects and the observer in tests of watches.

use super::*;
use futures::future::BoxFuture;
use std::sync::atomic::{AtomicU64, Ordering};

/// Receives what the watches send.
pub(super) struct Channel(pub(super) mpsc::Sender<(Convert, Written)>);

impl Intake for Channel {
    fn wants_text(&self) -> bool {
        false
    }

    fn take(&self, convert: Convert, text: Written) -> BoxFuture<'_, Result<(), Ended>> {
        Box::pin(async move { self.0.send((convert, text)).await.map_err(|_| Ended) })
    }
}

/// Counts malformed objects.
#[derive(Debug, Default)]
pub(super) struct Observed {
    pub(super) malformed: AtomicU64,
}

impl WatchObserver for Observed {
    fn heard(&self) {}

    fn received(&self, _encoding: Encoding, _bytes: usize) {}

    fn restarted(&self) {}

    fn malformed(&self) {
        self.malformed.fetch_add(1, Ordering::Relaxed);
    }
}
