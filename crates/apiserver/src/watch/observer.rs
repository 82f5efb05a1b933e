//! The interface through which metrics observe a watch.

use std::fmt::Debug;
use supercargo_objects::api::Encoding;

/// Observes the watch of one kind. Called on the watch task and the scheduling thread, so it must not block.
pub trait WatchObserver: Debug + Send + Sync {
    /// A message arrived: an object, a bookmark or the end of a list.
    fn heard(&self);
    /// Bytes of a list or watch event arrived.
    fn received(&self, encoding: Encoding, bytes: usize);
    /// The watch starts again.
    fn restarted(&self);
    /// An object or field could not be decoded and was skipped.
    fn malformed(&self);
}
