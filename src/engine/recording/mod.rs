//! Records of a running scheduler: its last decisions, a log of decisions, and a recording of all inputs,
//! from which the same decisions can be replayed.
//!
//! Recordings contain decoded API objects, responses and times, but no internal types of the engine. The
//! scheduling thread passes lines on without waiting; lines that exceed the buffer are dropped and counted.

mod journal;
mod ring;
mod sink;

pub use journal::Journal;
pub use ring::Ring;
pub use sink::{Sink, SinkOptions, SinkState, WhenFull};

#[cfg(test)]
mod tests;
