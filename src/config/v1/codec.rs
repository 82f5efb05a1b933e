//! How single values are read and written where that is not their type's own way.

use k8s_openapi::ByteString;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number; absent or null is 0.
pub(super) fn or_zero<'de, D: Deserializer<'de>>(from: D) -> Result<i32, D::Error> {
    i32::deserialize(from)
}

/// A number, without a point where it is whole.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
pub(super) fn number<S: Serializer>(number: &f32, to: S) -> Result<S::Ok, S::Error> {
    if number.fract() == 0.0 && number.abs() < 1e15 {
        return to.serialize_i64(*number as i64);
    }
    // By way of its shortest text, so that 0.1 does not become 0.10000000149.
    let shortest: f64 = number.to_string().parse().map_err(serde::ser::Error::custom)?;
    shortest.serialize(to)
}

/// Bytes as base64.
pub(super) fn base64<'de, D: Deserializer<'de>>(from: D) -> Result<ByteString, D::Error> {
    let text = String::deserialize(from)?;
    serde_json::from_value(text.into())
        .map_err(|error| serde::de::Error::custom(format!("expected bytes as base64: {error}")))
}

/// Whether there are no bytes.
pub(super) fn no_bytes(bytes: &ByteString) -> bool {
    bytes.0.is_empty()
}
