//! Serialization of single values that differs from their types' own.

use k8s_openapi::ByteString;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Decodes a number; null is 0.
pub(crate) fn or_zero<'de, D: Deserializer<'de>>(from: D) -> Result<i32, D::Error> {
    i32::deserialize(from)
}

/// Serializes a number, as an integer if it is one.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
pub(crate) fn number<S: Serializer>(number: &f32, to: S) -> Result<S::Ok, S::Error> {
    if number.fract() == 0.0 && number.abs() < 1e15 {
        return to.serialize_i64(*number as i64);
    }
    // Via its shortest decimal form, so that 0.1 does not become 0.10000000149.
    let shortest: f64 = number.to_string().parse().map_err(serde::ser::Error::custom)?;
    shortest.serialize(to)
}

/// Decodes base64 data.
pub(crate) fn base64<'de, D: Deserializer<'de>>(from: D) -> Result<ByteString, D::Error> {
    let text = String::deserialize(from)?;
    serde_json::from_value(text.into())
        .map_err(|error| serde::de::Error::custom(format!("expected bytes as base64: {error}")))
}

/// Returns whether the data is empty.
pub(crate) fn no_bytes(bytes: &ByteString) -> bool {
    bytes.0.is_empty()
}
