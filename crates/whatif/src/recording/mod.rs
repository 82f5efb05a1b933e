//! Recordings of a scheduler's inputs: their format, and replaying them.
//!
//! Recordings contain decoded API objects, responses and times, but no internal types of the engine.

pub mod decision;
pub mod entry;
pub mod header;
pub mod input;
mod lines;
pub mod replay;
pub mod watched;

pub use decision::{API_VERSION, Decision};
pub use entry::{Bad, Entries, Entry, What};
pub use header::{Header, Mode};
pub use lines::LINE_MAX;
