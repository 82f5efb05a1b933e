//! The interface through which the scheduling thread receives watched objects.

use futures::future::BoxFuture;
use supercargo_core::model::event::Event;
use supercargo_core::model::intern::Tables;

/// Converts a decoded object into an event. Runs on the scheduling thread, which owns the tables.
pub type Convert = Box<dyn FnOnce(&mut Tables) -> Event + Send>;

/// An input as a member of a JSON object (`"applied":{...}`); `None` unless inputs are recorded.
pub type Written = Option<Box<str>>;

/// Error: the scheduling thread has ended, so nothing receives objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the scheduling thread has ended")]
pub struct Ended;

/// Receives the cluster's objects.
pub trait Intake: Send + Sync {
    /// Whether inputs are recorded, so that objects need their JSON text.
    fn wants_text(&self) -> bool;
    /// Sends an object or list marker, waiting for room.
    fn take(&self, convert: Convert, text: Written) -> BoxFuture<'_, Result<(), Ended>>;
}
