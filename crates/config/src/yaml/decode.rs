//! Decodes a document into types. Decoding is strict: unknown fields and values of another type are problems
//! with field and position.
//!
//! As in Go's decoder, null is the zero value, and a number such as `16.0` is an integer. All unknown fields
//! are reported, but only the first problem of another kind. Upstream: `sigs.k8s.io/json`,
//! `apimachinery/pkg/runtime/serializer/json`.

use crate::yaml::document::{Document, Node, NodeId, Value};
use crate::yaml::field::{Place, Problem, child, item};
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use std::cell::RefCell;
use std::fmt;

/// Name of the newtype that stores the index of a node for later decoding; see [`Part`].
const PART: &str = "$part";

/// A node whose type depends on another field, to be decoded later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename = "$part")]
pub(crate) struct Part(pub(crate) u64);

/// Decodes a node. Ignores `apiVersion` and `kind` of the node itself.
///
/// # Errors
/// Returns all unknown fields, or the first value of another type.
pub fn decode<T: de::DeserializeOwned>(
    document: &Document,
    id: NodeId,
    path: &str,
) -> Result<T, Vec<Problem>> {
    let state = State { document, path: RefCell::new(path.to_owned()), unknown: RefCell::default() };
    let decoded = T::deserialize(Cursor { state: &state, id, is_object: true });
    match decoded {
        Err(Stop(problem)) => Err(vec![problem]),
        Ok(_) if !state.unknown.borrow().is_empty() => Err(state.unknown.into_inner()),
        Ok(value) => Ok(value),
    }
}

struct State<'d> {
    document: &'d Document,
    path: RefCell<String>,
    unknown: RefCell<Vec<Problem>>,
}

/// A problem that stops decoding.
#[derive(Debug)]
struct Stop(Problem);

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Stop {}

impl de::Error for Stop {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self(Problem::new("", text.to_string()))
    }
}

/// Deserializer of a node.
#[derive(Clone, Copy)]
struct Cursor<'s, 'd> {
    state: &'s State<'d>,
    id: NodeId,
    /// Whether the node is an object with `apiVersion` and `kind`.
    is_object: bool,
}

impl<'s, 'd> Cursor<'s, 'd> {
    fn node(&self) -> &'d Node {
        self.state.document.node(self.id)
    }

    fn to(self, id: NodeId) -> Self {
        Self { state: self.state, id, is_object: false }
    }

    fn problem(&self, text: impl Into<String>) -> Problem {
        let path = self.state.path.borrow().clone();
        Problem::new(path, text).at(self.node().place)
    }

    fn expected(&self, what: &str) -> Stop {
        Stop(self.problem(format!("expected {what}, found {}", found(&self.node().value))))
    }

    /// Adds this node's position to an error without one.
    fn placed<T>(&self, result: Result<T, Stop>) -> Result<T, Stop> {
        result.map_err(|Stop(problem)| match problem.place {
            Some(_) => Stop(problem),
            None => Stop(self.problem(problem.text)),
        })
    }

    fn whole(&self, least: i64, most: i64, name: &str) -> Result<i64, Stop> {
        let what = || self.expected(&format!("an integer ({name})"));
        let number = match self.node().value {
            Value::Null => 0,
            Value::Int(number) => number,
            Value::Float(number) if number.fract() == 0.0 && number.abs() < 1e21 => number as i128,
            _ => return Err(what()),
        };
        i64::try_from(number).ok().filter(|number| (least..=most).contains(number)).ok_or_else(what)
    }

    fn text(&self) -> Result<&'d str, Stop> {
        match &self.node().value {
            Value::Null => Ok(""),
            Value::Text(text) => Ok(text),
            _ => Err(self.expected("a string")),
        }
    }
}

fn found(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => format!("the boolean {value} (quote it to make it a string)"),
        Value::Int(number) => format!("the number {number}"),
        Value::Float(number) => format!("the number {number}"),
        Value::Text(text) => format!("the string {text:?}"),
        Value::List(_) => "a list".to_owned(),
        Value::Map(_) => "a map".to_owned(),
    }
}

impl<'de, 's, 'd> Deserializer<'de> for Cursor<'s, 'd> {
    type Error = Stop;

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Stop> {
        Err(self.expected("a value of a known type"))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        match self.node().value {
            Value::Null => visitor.visit_bool(false),
            Value::Bool(value) => visitor.visit_bool(value),
            _ => Err(self.expected("true or false")),
        }
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        visitor.visit_i64(self.whole(i64::from(i32::MIN), i64::from(i32::MAX), "int32")?)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        visitor.visit_i64(self.whole(i64::MIN, i64::MAX, "int64")?)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        let number = match self.node().value {
            Value::Null => 0.0,
            Value::Int(number) => number as f32,
            Value::Float(number) => number as f32,
            _ => return Err(self.expected("a number")),
        };
        if number.is_finite() { visitor.visit_f32(number) } else { Err(self.expected("a number (float32)")) }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        let text = self.text()?;
        self.placed(visitor.visit_str(text))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        match self.node().value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Stop> {
        if name == PART {
            return visitor.visit_newtype_struct(de::value::U64Deserializer::new(self.id as u64));
        }
        let placed = visitor.visit_newtype_struct(self);
        self.placed(placed)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        match &self.node().value {
            Value::Null => visitor.visit_seq(Items { of: self, items: &[], next: 0 }),
            Value::List(items) => visitor.visit_seq(Items { of: self, items, next: 0 }),
            _ => Err(self.expected("a list")),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        visitor.visit_map(Fields::of(self, None)?)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stop> {
        visitor.visit_map(Fields::of(self, Some(fields))?)
    }

    forward_to_deserialize_any! {
        i8 i16 i128 u8 u16 u32 u64 u128 f64 char bytes byte_buf unit unit_struct tuple tuple_struct enum identifier
        ignored_any
    }
}

struct Items<'s, 'd> {
    of: Cursor<'s, 'd>,
    items: &'d [NodeId],
    next: usize,
}

impl<'de> SeqAccess<'de> for Items<'_, '_> {
    type Error = Stop;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Stop> {
        let Some(&id) = self.items.get(self.next) else { return Ok(None) };
        let outer = item(&mut self.of.state.path.borrow_mut(), self.next);
        self.next += 1;
        let part = self.of.to(id);
        let value = part.placed(seed.deserialize(part))?;
        self.of.state.path.borrow_mut().truncate(outer);
        Ok(Some(value))
    }
}

struct Fields<'s, 'd> {
    of: Cursor<'s, 'd>,
    entries: Vec<(&'d str, NodeId)>,
    next: usize,
}

impl<'s, 'd> Fields<'s, 'd> {
    /// Returns the entries of a map. Entries not in `known` are recorded as problems and left out.
    fn of(of: Cursor<'s, 'd>, known: Option<&[&str]>) -> Result<Self, Stop> {
        let entries = match &of.node().value {
            Value::Null => &[][..],
            Value::Map(entries) => entries,
            _ => return Err(of.expected("a map")),
        };
        let mut kept = Vec::with_capacity(entries.len());
        for entry in entries {
            let is_type = of.is_object && ["apiVersion", "kind"].contains(&entry.key.as_str());
            match known {
                _ if is_type => {}
                Some(known) if !known.contains(&entry.key.as_str()) => {
                    of.state.unknown.borrow_mut().push(unknown(of.state, &entry.key, entry.place, known));
                }
                _ => kept.push((entry.key.as_str(), entry.value)),
            }
        }
        Ok(Self { of, entries: kept, next: 0 })
    }
}

fn unknown(state: &State<'_>, key: &str, place: Place, known: &[&str]) -> Problem {
    let mut path = state.path.borrow().clone();
    child(&mut path, key);
    let text = format!("strict decoding error: unknown field {path:?}");
    Problem::new(path, text).at(place).meaning(key, known.iter().copied())
}

impl<'de> MapAccess<'de> for Fields<'_, '_> {
    type Error = Stop;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Stop> {
        let Some(&(key, _)) = self.entries.get(self.next) else { return Ok(None) };
        seed.deserialize(de::value::StrDeserializer::<Stop>::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Stop> {
        let (key, id) = self.entries[self.next];
        self.next += 1;
        let outer = child(&mut self.of.state.path.borrow_mut(), key);
        let part = self.of.to(id);
        let value = part.placed(seed.deserialize(part))?;
        self.of.state.path.borrow_mut().truncate(outer);
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::BTreeMap;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(rename_all = "camelCase", default)]
    struct Outer {
        some_number: i32,
        big: Option<i64>,
        share: f32,
        name: String,
        alone: Option<bool>,
        inner: Vec<Inner>,
        labels: BTreeMap<String, String>,
    }

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default)]
    struct Inner {
        x: i32,
    }

    fn read(text: &str) -> Result<Outer, String> {
        let document = Document::read(text).expect("it is YAML");
        decode(&document, document.root(), "")
            .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    }

    #[test]
    fn null_decodes_to_the_zero_value() {
        let nulls = "someNumber: ~\nbig: ~\nshare:\nname: null\nalone:\ninner: [~]\nlabels: {a: ~}\n";
        let expected = Outer {
            inner: vec![Inner::default()],
            labels: [("a".to_owned(), String::new())].into(),
            ..Outer::default()
        };
        assert_eq!(read(nulls), Ok(expected));
        assert_eq!(read("inner: ~"), Ok(Outer::default()));
        assert_eq!(read(""), Ok(Outer::default()));
    }

    #[test]
    fn float_without_fraction_is_an_integer() {
        assert_eq!(read("someNumber: 16.0\nbig: 1e3").map(|o| (o.some_number, o.big)), Ok((16, Some(1000))));
    }

    #[test]
    fn wrong_type_is_reported_with_field_and_position() {
        for (text, problem) in [
            ("someNumber: x", "1:13: someNumber: expected an integer (int32), found the string \"x\""),
            ("someNumber: 1.5", "1:13: someNumber: expected an integer (int32), found the number 1.5"),
            (
                "someNumber: 2147483648",
                "1:13: someNumber: expected an integer (int32), found the number 2147483648",
            ),
            (
                "name: on",
                "1:7: name: expected a string, found the boolean true (quote it to make it a string)",
            ),
            ("alone: \"true\"", "1:8: alone: expected true or false, found the string \"true\""),
            ("inner: {x: 1}", "1:8: inner: expected a list, found a map"),
            ("inner:\n- x: 1\n- x: []\n", "3:6: inner[1].x: expected an integer (int32), found a list"),
            ("labels: {a: 1}", "1:13: labels.a: expected a string, found the number 1"),
            ("- a", "1:1: expected a map, found a list"),
        ] {
            assert_eq!(read(text), Err(problem.to_owned()), "{text}");
        }
    }

    #[test]
    fn all_unknown_fields_are_reported_case_sensitively() {
        let problems = read("SomeNumber: 1\ninner:\n- w: 1\n- z: {x: 1}\n").expect_err("three are unknown");
        assert_eq!(
            problems,
            "1:1: SomeNumber: strict decoding error: unknown field \"SomeNumber\"; 3:3: inner[0].w: strict decoding \
             error: unknown field \"inner[0].w\"; 4:3: inner[1].z: strict decoding error: unknown field \"inner[1].z\""
        );
    }
}
