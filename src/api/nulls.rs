//! How the API's decoder takes null: as the absence of the field, and inside a list or map as the zero value.

use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// Null is the default.
pub(super) fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// A list; absent is empty, and null elements are defaults.
pub(super) fn list<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(optional_list(from)?.unwrap_or_default())
}

/// A list for which being absent and being empty differ.
pub(super) fn optional_list<'de, D, T>(from: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    let list: Option<Vec<Option<T>>> = Option::deserialize(from)?;
    Ok(list.map(|items| items.into_iter().map(Option::unwrap_or_default).collect()))
}

/// A map of texts; absent is empty, and null values are empty texts.
pub(super) fn texts<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    Ok(optional_texts(from)?.unwrap_or_default())
}

/// A map of texts for which being absent and being empty differ.
pub(super) fn optional_texts<'de, D>(from: D) -> Result<Option<BTreeMap<String, String>>, D::Error>
where
    D: Deserializer<'de>,
{
    let map: Option<BTreeMap<String, Option<String>>> = Option::deserialize(from)?;
    Ok(map.map(|pairs| pairs.into_iter().map(|(key, value)| (key, value.unwrap_or_default())).collect()))
}
