//! Pods and nodes of large files, held as JSON text until they are loaded: a tree takes about ten times the memory.
//!
//! Only objects with an explicit name, uid and namespace are packed. Defaults are set later, in the tree.

use crate::load::files::{remove_unread_fields, text_at};
use crate::load::owner::Owner;
use crate::load::schema::{UnknownField, unknown_fields};
use serde_json::{Map, Value};

/// A parsed object.
#[derive(Clone, Debug, PartialEq)]
pub enum Held {
    /// As a JSON tree.
    Tree(Value),
    /// As JSON text.
    Packed(Box<Packed>),
}

/// A pod or a node as JSON text, without the fields that scheduling never reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Packed {
    is_pod: bool,
    namespace: Box<str>,
    name: Box<str>,
    text: Box<str>,
    /// The controller that owns it.
    pub owner: Option<Owner>,
    /// The fields that its kind does not have.
    pub unknown: Box<[UnknownField]>,
}

impl Held {
    /// Stores an object without the fields that scheduling never reads.
    pub fn lean(mut value: Value) -> Self {
        let unknown = unknown_fields(&value).into();
        remove_unread_fields(&mut value);
        match Packed::of(&value) {
            Some(packed) => Self::Packed(Box::new(Packed { unknown, ..packed })),
            None => Self::Tree(value),
        }
    }

    /// Stores an object as a tree without the fields that scheduling never reads.
    pub fn lean_tree(mut value: Value) -> Self {
        remove_unread_fields(&mut value);
        Self::Tree(value)
    }

    /// Completes an item of this list, if it is still a tree, and stores it by `keep`.
    pub fn of_list(self, list: &Map<String, Value>, keep: fn(Value) -> Self) -> Self {
        match self {
            Self::Tree(mut item) => {
                name_kind(&mut item, list);
                keep(item)
            }
            packed @ Self::Packed(_) => packed,
        }
    }

    /// Returns the object as a tree.
    #[cfg(test)]
    pub fn into_tree(self) -> Value {
        match self {
            Self::Tree(value) => value,
            Self::Packed(packed) => packed.unpacked(),
        }
    }
}

/// Sets the apiVersion and kind of an item without them: a typed list (`v1 PodList`) names them only once.
pub(super) fn name_kind(item: &mut Value, list: &Map<String, Value>) {
    let kind = list.get("kind").and_then(Value::as_str).and_then(|kind| kind.strip_suffix("List"));
    let kind = kind.filter(|kind| !kind.is_empty());
    if let (Value::Object(fields), Some(kind), Some(api_version)) = (item, kind, list.get("apiVersion")) {
        fields.entry("kind").or_insert_with(|| kind.into());
        fields.entry("apiVersion").or_insert_with(|| api_version.clone());
    }
}

impl Packed {
    fn of(value: &Value) -> Option<Self> {
        let is_pod = match (text_at(value, "/apiVersion"), text_at(value, "/kind")) {
            ("v1", "Pod") => true,
            ("v1", "Node") => false,
            _ => return None,
        };
        let of = |field: &str| text_at(value, field);
        let (namespace, name) = (of("/metadata/namespace"), of("/metadata/name"));
        let says_all =
            !name.is_empty() && !of("/metadata/uid").is_empty() && (!is_pod || !namespace.is_empty());
        says_all.then(|| Self {
            is_pod,
            namespace: namespace.into(),
            name: name.into(),
            text: value.to_string().into(),
            owner: Owner::of(value),
            unknown: Box::default(),
        })
    }

    /// Returns one of the identifying fields.
    pub fn text_at(&self, pointer: &str) -> &str {
        match pointer {
            "/apiVersion" => "v1",
            "/kind" if self.is_pod => "Pod",
            "/kind" => "Node",
            "/metadata/namespace" => &self.namespace,
            "/metadata/name" => &self.name,
            other => unreachable!("{other} is read only from trees"),
        }
    }

    /// Returns the object as a tree.
    pub fn unpacked(&self) -> Value {
        serde_json::from_str(&self.text).expect("text serialized as JSON parses")
    }
}
