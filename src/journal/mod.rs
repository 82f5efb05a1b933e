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

use serde_json::{Value, json};
use supercargo_core::event::Kind;
use supercargo_objects::api::ToJson;

/// `apiVersion` of all kinds in this module.
pub const API_VERSION: &str = "supercargo.dev/v1alpha1";

/// Formats an input: an object that was added or updated, or could not be decoded.
pub fn applied(object: &impl ToJson) -> Box<str> {
    member(if object.is_malformed() { "unreadable" } else { "applied" }, &object.to_json())
}

/// Formats an input: a deleted object in its last state.
pub fn gone(object: &impl ToJson) -> Box<str> {
    member("gone", &object.to_json())
}

/// Formats an input: a list began.
pub fn list_began(kind: Kind) -> Box<str> {
    member("listBegan", &json!(kind.as_str()))
}

/// Formats an input: a list is complete.
pub fn list_ended(kind: Kind) -> Box<str> {
    member("listEnded", &json!(kind.as_str()))
}

/// Formats an input: a new configuration.
pub fn configured(configuration: &Value) -> Box<str> {
    member("configured", configuration)
}

/// Formats a member of a JSON object.
fn member(name: &str, value: &Value) -> Box<str> {
    format!("\"{name}\":{value}").into()
}

#[cfg(test)]
mod tests;
