//! What is kept of a scheduler at work: its last decisions, for whoever asks; a log of them; and a recording of all that the engine was
//! told, from which it decides the same again.
//!
//! Recorded are API objects as lean as they were read, answers and times, never anything of the engine's own types. The scheduling
//! thread hands lines on and never waits: what there is no room for is dropped and counted.

mod beginning;
mod decision;
mod entry;
mod lines;
mod ring;
mod sink;
mod tape;
mod told;

pub mod replay;
pub mod watched;

pub use beginning::{Beginning, Mode};
pub use decision::Decision;
pub use entry::{Bad, Entries, Entry, What};
pub use lines::LINE_MAX;
pub use ring::Ring;
pub use sink::{Sink, SinkOptions, SinkState, WhenFull};
pub use tape::Journal;

use crate::api::ToJson;
use serde_json::{Value, json};
use supercargo_core::event::Kind;

/// `apiVersion` of all that is kept.
pub const API_VERSION: &str = "supercargo.dev/v1alpha1";

/// An object as it is now, or one that cannot be read.
pub fn applied(object: &impl ToJson) -> Box<str> {
    member(if object.is_malformed() { "unreadable" } else { "applied" }, &object.to_json())
}

/// An object as it was when it went.
pub fn gone(object: &impl ToJson) -> Box<str> {
    member("gone", &object.to_json())
}

/// A list begins.
pub fn list_began(kind: Kind) -> Box<str> {
    member("listBegan", &json!(kind.as_str()))
}

/// A list is whole.
pub fn list_ended(kind: Kind) -> Box<str> {
    member("listEnded", &json!(kind.as_str()))
}

/// Another configuration is taken over.
pub fn configured(configuration: &Value) -> Box<str> {
    member("configured", configuration)
}

/// A member of a JSON object.
fn member(name: &str, value: &Value) -> Box<str> {
    format!("\"{name}\":{value}").into()
}

#[cfg(test)]
mod tests;
