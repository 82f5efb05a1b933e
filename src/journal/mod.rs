//! Records of a running scheduler: its last decisions, a log of decisions, and a recording of all inputs,
//! from which the same decisions can be replayed.
//!
//! Recordings contain decoded API objects, responses and times, but no internal types of the engine. The
//! scheduling thread passes lines on without waiting; lines that exceed the buffer are dropped and counted.

mod decision;
mod entry;
mod header;
mod input;
mod lines;
mod recording;
mod ring;
mod sink;

pub mod replay;
pub mod watched;

pub use decision::Decision;
pub use entry::{Bad, Entries, Entry, What};
pub use header::{Header, Mode};
pub use lines::LINE_MAX;
pub use recording::Journal;
pub use ring::Ring;
pub use sink::{Sink, SinkOptions, SinkState, WhenFull};

/// `apiVersion` of all kinds in this module.
pub const API_VERSION: &str = "supercargo.dev/v1alpha1";

#[cfg(test)]
mod tests;
