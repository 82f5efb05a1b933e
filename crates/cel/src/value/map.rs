//! Maps. Nearly all keys are strings, so string keys have a table of their own.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::Value;
use super::format_go;
use crate::error::{Error, Result};

/// A map. Iteration is in the order of the keys, where upstream's order is random.
#[derive(Clone, Debug, Default)]
pub struct Map(Arc<Tables>);

#[derive(Clone, Debug, Default)]
struct Tables {
    texts: BTreeMap<Arc<str>, Value>,
    /// Entries with other keys: the key as a value, and the value.
    others: BTreeMap<Key, (Value, Value)>,
    /// Whether a missing key yields an empty map, as a missing domain does.
    open: bool,
    /// Whether keys can only be strings, as in the maps of a device.
    texts_only: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    /// The bits of a double.
    Double(u64),
    Duration(i64),
    Timestamp(i64, u32),
    Type(&'static str),
    Ip(IpAddr),
    Network(IpAddr, u8),
    /// A key that equals no other, not even itself: upstream compares its address.
    Unique(usize),
}

impl Key {
    fn of(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Int(value) => Self::Int(*value),
            Value::Uint(value) => Self::Uint(*value),
            Value::Double(value) => Self::Double(if *value == 0.0 { 0 } else { value.to_bits() }),
            Value::Duration(value) => Self::Duration(*value),
            Value::Timestamp(value) => Self::Timestamp(value.seconds(), value.nanoseconds()),
            Value::Type(name) => Self::Type(name),
            Value::Ip(ip) => Self::Ip(*ip),
            Value::Cidr(cidr) => Self::Network(cidr.address(), cidr.bits()),
            _ => return None,
        })
    }
}

/// Returns the error for a key of a type that upstream's maps cannot hold.
fn unhashable(key: &Value) -> Option<Error> {
    let refused = matches!(key, Value::Bytes(_) | Value::Version(_) | Value::Format(_));
    refused.then(|| {
        Error::fatal(format!(
            "internal error: runtime error: hash of unhashable type {}",
            format_go::type_name(key)
        ))
    })
}

impl Map {
    /// Creates a map with string keys.
    pub(crate) fn of_texts(texts: BTreeMap<Arc<str>, Value>) -> Self {
        Self(Arc::new(Tables { texts, texts_only: true, ..Tables::default() }))
    }

    /// Creates a map with string keys in which every missing key yields an empty map.
    pub(crate) fn open(texts: BTreeMap<Arc<str>, Value>) -> Self {
        Self(Arc::new(Tables { texts, open: true, texts_only: true, ..Tables::default() }))
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.0.texts.len() + self.0.others.len()
    }

    /// Returns whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value of a key. Numbers match equal keys of other numeric types.
    pub fn get(&self, key: &Value) -> Option<&Value> {
        match key {
            Value::String(text) => self.get_text(text),
            Value::Int(value) => {
                let own = self.number(Key::Int(*value)).or_else(|| self.double(*value as f64));
                own.or_else(|| u64::try_from(*value).ok().and_then(|value| self.number(Key::Uint(value))))
            }
            Value::Uint(value) => {
                let own = self.number(Key::Uint(*value)).or_else(|| self.double(*value as f64));
                own.or_else(|| i64::try_from(*value).ok().and_then(|value| self.number(Key::Int(value))))
            }
            Value::Double(value) => {
                let own = self.double(*value);
                let int = || lossless_int(*value).and_then(|value| self.number(Key::Int(value)));
                own.or_else(int)
                    .or_else(|| lossless_uint(*value).and_then(|value| self.number(Key::Uint(value))))
            }
            _ => self.number(Key::of(key)?),
        }
    }

    pub(crate) fn get_text(&self, key: &str) -> Option<&Value> {
        self.0.texts.get(key)
    }

    /// Returns the value that a selection or an index yields: like [`get`](Self::get), or the empty map of a
    /// missing domain.
    pub(crate) fn select(&self, key: &Value) -> Option<&Value> {
        match self.get(key) {
            None if self.0.open => Some(empty()),
            found => found,
        }
    }

    fn number(&self, key: Key) -> Option<&Value> {
        if self.0.others.is_empty() { None } else { self.0.others.get(&key).map(|entry| &entry.1) }
    }

    fn double(&self, value: f64) -> Option<&Value> {
        self.number(Key::of(&Value::Double(value))?)
    }

    /// Iterates over all entries.
    pub fn iter(&self) -> impl Iterator<Item = (Value, &Value)> {
        let texts = self.0.texts.iter().map(|(key, value)| (Value::String(key.clone()), value));
        texts.chain(self.0.others.values().map(|(key, value)| (key.clone(), value)))
    }

    /// Returns whether the map has the key, or an error for a key that upstream's maps cannot hold.
    pub(crate) fn contains(&self, key: &Value) -> Result<bool> {
        match unhashable(key) {
            Some(error) if !self.0.texts_only => Err(error),
            _ => Ok(self.get(key).is_some()),
        }
    }

    /// Inserts or replaces an entry.
    pub(crate) fn set(&mut self, key: &Value, value: Value) -> Result<()> {
        let tables = Arc::make_mut(&mut self.0);
        match key {
            Value::String(text) => drop(tables.texts.insert(text.clone(), value)),
            _ => {
                if let Some(error) = unhashable(key) {
                    return Err(error);
                }
                let id = Key::of(key).unwrap_or(Key::Unique(tables.others.len()));
                tables.others.insert(id, (key.clone(), value));
            }
        }
        Ok(())
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, key: &Value) {
        let tables = Arc::make_mut(&mut self.0);
        match key {
            Value::String(text) => drop(tables.texts.remove(text)),
            _ => drop(Key::of(key).and_then(|key| tables.others.remove(&key))),
        }
    }
}

fn empty() -> &'static Value {
    static EMPTY: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| Value::Map(Map::default()));
    &EMPTY
}

pub(crate) fn lossless_int(value: f64) -> Option<i64> {
    let inside = value > i64::MIN as f64 && value < i64::MAX as f64;
    (inside && value.fract() == 0.0).then_some(value as i64)
}

pub(crate) fn lossless_uint(value: f64) -> Option<u64> {
    let inside = value >= 0.0 && value < u64::MAX as f64;
    (inside && value.fract() == 0.0).then_some(value as u64)
}
