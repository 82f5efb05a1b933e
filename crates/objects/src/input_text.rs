//! Inputs of the engine as text, for recordings: each is one member of a JSON object.

use crate::api::ToJson;
use serde_json::{Value, json};
use supercargo_core::model::emulation::EmulatedVersion;
use supercargo_core::model::event::Kind;

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

/// Formats an input: a new configuration, and the version of kube-scheduler that the engine behaves as.
pub fn configured(configuration: &Value, version: EmulatedVersion) -> Box<str> {
    format!("\"configured\":{configuration},\"emulatedVersion\":\"{version}\"").into()
}

/// Formats a member of a JSON object.
fn member(name: &str, value: &Value) -> Box<str> {
    format!("\"{name}\":{value}").into()
}
