//! Encodes decoded objects as JSON, such that decoding the JSON yields the same object.
//!
//! Fields that the scheduler does not read (environment variables, commands, most annotations) were never decoded, so
//! they are not written. Fields equal to their absence are omitted.

use super::{Kind, Received};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::ser::{self, Impossible, Serialize};
use serde_json::{Map, Value, json};
use std::fmt;

/// Placeholder for annotations that are not decoded. No decoded annotation has this name.
const OTHER_ANNOTATIONS: &str = "supercargo/others";

/// Objects that can be encoded as JSON.
pub trait ToJson {
    /// Returns the object's decoded fields as JSON; for a malformed object, its identifying metadata.
    fn to_json(&self) -> Value;

    /// Reports whether the object is malformed.
    fn is_malformed(&self) -> bool;
}

impl<K: Kind> ToJson for Received<K> {
    fn to_json(&self) -> Value {
        let api_version =
            if K::GROUP.is_empty() { K::VERSION.to_owned() } else { format!("{}/{}", K::GROUP, K::VERSION) };
        let mut object = Map::new();
        object.insert("apiVersion".to_owned(), api_version.into());
        object.insert("kind".to_owned(), K::KIND.into());
        object.insert("metadata".to_owned(), metadata(&self.metadata));
        if let Ok(content) = &self.content {
            match lean(&content.spec) {
                Value::Object(fields) if K::FLAT => object.extend(fields),
                spec => put(&mut object, "spec", spec),
            }
            put(&mut object, "status", lean(&content.status));
        }
        Value::Object(object)
    }

    fn is_malformed(&self) -> bool {
        self.content.is_err()
    }
}

fn put(object: &mut Map<String, Value>, field: &str, value: Value) {
    if value.as_object().is_none_or(|fields| !fields.is_empty()) {
        object.insert(field.to_owned(), value);
    }
}

fn metadata(of: &ObjectMeta) -> Value {
    let mut written = Map::new();
    let texts = [
        ("name", &of.name),
        ("namespace", &of.namespace),
        ("uid", &of.uid),
        ("resourceVersion", &of.resource_version),
    ];
    for (field, text) in texts {
        if let Some(text) = text {
            written.insert(field.to_owned(), text.as_str().into());
        }
    }
    if let Some(generation) = of.generation {
        written.insert("generation".to_owned(), generation.into());
    }
    if let Some(time) = &of.creation_timestamp {
        written.insert("creationTimestamp".to_owned(), lean(time));
    }
    if let Some(time) = &of.deletion_timestamp {
        written.insert("deletionTimestamp".to_owned(), lean(time));
    }
    if let Some(finalizers) = &of.finalizers {
        written.insert("finalizers".to_owned(), json!(finalizers));
    }
    if let Some(labels) = &of.labels {
        written.insert("labels".to_owned(), json!(labels));
    }
    if let Some(annotations) = &of.annotations {
        // An empty map records that there are annotations, none of which is decoded.
        let some = if annotations.is_empty() { json!({OTHER_ANNOTATIONS: ""}) } else { json!(annotations) };
        written.insert("annotations".to_owned(), some);
    }
    if let Some(owner) = of.owner_references.iter().flatten().next() {
        let owner = json!({"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid,
            "controller": owner.controller});
        written.insert("ownerReferences".to_owned(), json!([owner]));
    }
    Value::Object(written)
}

/// Encodes a part of an object, without fields equal to their absence.
fn lean(part: &impl Serialize) -> Value {
    part.serialize(Lean)
        .map(|Written { value, .. }| value)
        .expect("every type used in lean types can be encoded")
}

/// An encoded value, and whether a field with this value may be omitted.
struct Written {
    value: Value,
    is_default: bool,
}

impl Written {
    fn new(value: impl Into<Value>, is_default: bool) -> Result<Self, Unwritten> {
        Ok(Self { value: value.into(), is_default })
    }
}

/// Error: a type that no lean type contains.
#[derive(Debug)]
struct Unwritten(String);

impl fmt::Display for Unwritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unwritten {}

impl ser::Error for Unwritten {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self(text.to_string())
    }
}

fn unwritten<T>(what: &str) -> Result<T, Unwritten> {
    Err(Unwritten(format!("{what} is not supported in lean types")))
}

struct Lean;

macro_rules! numbers {
    ($($method:ident: $type:ty),*) => {$(
        fn $method(self, number: $type) -> Result<Written, Unwritten> {
            Written::new(number, number == 0)
        }
    )*};
}

impl ser::Serializer for Lean {
    type Ok = Written;
    type Error = Unwritten;
    type SerializeSeq = Elements;
    type SerializeTuple = Impossible<Written, Unwritten>;
    type SerializeTupleStruct = Impossible<Written, Unwritten>;
    type SerializeTupleVariant = Impossible<Written, Unwritten>;
    type SerializeMap = Fields;
    type SerializeStruct = Fields;
    type SerializeStructVariant = Impossible<Written, Unwritten>;

    numbers!(serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64);
    numbers!(serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64);

    fn serialize_bool(self, flag: bool) -> Result<Written, Unwritten> {
        Written::new(flag, !flag)
    }

    fn serialize_str(self, text: &str) -> Result<Written, Unwritten> {
        Written::new(text, text.is_empty())
    }

    fn serialize_none(self) -> Result<Written, Unwritten> {
        Written::new(Value::Null, true)
    }

    /// A present optional field is written even if empty, because absent and empty differ for it.
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Written, Unwritten> {
        Ok(Written { is_default: false, ..value.serialize(self)? })
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<Written, Unwritten> {
        value.serialize(self)
    }

    fn serialize_seq(self, _length: Option<usize>) -> Result<Elements, Unwritten> {
        Ok(Elements(Vec::new()))
    }

    fn serialize_map(self, _length: Option<usize>) -> Result<Fields, Unwritten> {
        Ok(Fields::default())
    }

    fn serialize_struct(self, _name: &'static str, _length: usize) -> Result<Fields, Unwritten> {
        Ok(Fields::default())
    }

    fn serialize_f32(self, _: f32) -> Result<Written, Unwritten> {
        unwritten("a fraction")
    }

    fn serialize_f64(self, _: f64) -> Result<Written, Unwritten> {
        unwritten("a fraction")
    }

    fn serialize_char(self, _: char) -> Result<Written, Unwritten> {
        unwritten("a character")
    }

    fn serialize_bytes(self, _: &[u8]) -> Result<Written, Unwritten> {
        unwritten("bytes")
    }

    fn serialize_unit(self) -> Result<Written, Unwritten> {
        unwritten("a unit")
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<Written, Unwritten> {
        unwritten(name)
    }

    fn serialize_unit_variant(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
    ) -> Result<Written, Unwritten> {
        unwritten(name)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Written, Unwritten> {
        unwritten(name)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Unwritten> {
        unwritten("a tuple")
    }

    fn serialize_tuple_struct(
        self,
        name: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct, Unwritten> {
        unwritten(name)
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Unwritten> {
        unwritten(name)
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Unwritten> {
        unwritten(name)
    }
}

struct Elements(Vec<Value>);

impl ser::SerializeSeq for Elements {
    type Ok = Written;
    type Error = Unwritten;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unwritten> {
        self.0.push(value.serialize(Lean)?.value);
        Ok(())
    }

    fn end(self) -> Result<Written, Unwritten> {
        let is_empty = self.0.is_empty();
        Written::new(self.0, is_empty)
    }
}

#[derive(Default)]
struct Fields {
    fields: Map<String, Value>,
    key: Option<String>,
}

impl ser::SerializeMap for Fields {
    type Ok = Written;
    type Error = Unwritten;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Unwritten> {
        let Value::String(key) = key.serialize(Lean)?.value else {
            return unwritten("a key that is not a string");
        };
        self.key = Some(key);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unwritten> {
        let Some(key) = self.key.take() else { return unwritten("a value without a key") };
        self.fields.insert(key, value.serialize(Lean)?.value);
        Ok(())
    }

    fn end(self) -> Result<Written, Unwritten> {
        let is_empty = self.fields.is_empty();
        Written::new(self.fields, is_empty)
    }
}

impl ser::SerializeStruct for Fields {
    type Ok = Written;
    type Error = Unwritten;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), Unwritten> {
        let Written { value, is_default } = value.serialize(Lean)?;
        if !is_default {
            self.fields.insert(key.to_owned(), value);
        }
        Ok(())
    }

    fn end(self) -> Result<Written, Unwritten> {
        let is_empty = self.fields.is_empty();
        Written::new(self.fields, is_empty)
    }
}

#[cfg(test)]
mod tests;
