//! Null handling as in the API's decoder: a null field counts as absent, a null list or map element as the zero value.

use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// Decodes null as the default.
pub(super) fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Decodes a list. An absent list is empty; null elements are defaults.
pub(super) fn list<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(optional_list(from)?.unwrap_or_default())
}

/// Decodes a list for which absent and empty have different meanings.
pub(super) fn optional_list<'de, D, T>(from: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    let list: Option<Vec<Option<T>>> = Option::deserialize(from)?;
    Ok(list.map(|items| items.into_iter().map(Option::unwrap_or_default).collect()))
}

/// Decodes a map. An absent map is empty; null values are defaults.
pub(super) fn map<'de, D, T>(from: D) -> Result<BTreeMap<String, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    let map: Option<BTreeMap<String, Option<T>>> = Option::deserialize(from)?;
    let pairs = map.into_iter().flatten();
    Ok(pairs.map(|(key, value)| (key, value.unwrap_or_default())).collect())
}

/// Decodes a map of strings. An absent map is empty; null values are empty strings.
pub(super) fn texts<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    Ok(optional_texts(from)?.unwrap_or_default())
}

/// Decodes a map of strings for which absent and empty have different meanings.
pub(super) fn optional_texts<'de, D>(from: D) -> Result<Option<BTreeMap<String, String>>, D::Error>
where
    D: Deserializer<'de>,
{
    let map: Option<BTreeMap<String, Option<String>>> = Option::deserialize(from)?;
    Ok(map.map(|pairs| pairs.into_iter().map(|(key, value)| (key, value.unwrap_or_default())).collect()))
}
