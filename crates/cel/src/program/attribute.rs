//! Attributes: a variable or operand with the path that is selected from it.

use std::sync::Arc;

use super::evaluate::Evaluator;
use super::plan::{Node, is_key};
use crate::Value;
use crate::error::{Error, Result};
use crate::value::{List, format_go};

#[derive(Debug)]
pub(super) struct Attribute {
    pub(super) root: Root,
    pub(super) qualifiers: Vec<Arc<Qualifier>>,
}

#[derive(Debug)]
pub(super) enum Root {
    /// The variable `device`.
    Device,
    /// A variable of a comprehension.
    Slot(Slot),
    Operand(Node),
    /// `c ? x : y`. Qualifiers belong to the branches.
    Conditional {
        condition: Node,
        branches: Box<[Attribute; 2]>,
    },
}

/// A variable of the comprehension at a nesting level; 0 is the outermost.
#[derive(Clone, Copy, Debug)]
pub(super) enum Slot {
    Accumulator(usize),
    First(usize),
    Second(usize),
}

/// A step of a path.
#[derive(Debug)]
pub(super) struct Qualifier {
    pub(super) key: Key,
    pub(super) optional: bool,
    /// Whether `has` tests only for presence.
    pub(super) test: bool,
}

#[derive(Debug)]
pub(super) enum Key {
    Const(Value),
    Attribute(Box<Attribute>),
    Node(Node),
}

impl Attribute {
    pub(super) fn new(root: Root) -> Self {
        Self { root, qualifiers: Vec::new() }
    }

    pub(super) fn push(&mut self, qualifier: &Arc<Qualifier>) {
        match &mut self.root {
            Root::Conditional { branches, .. } => {
                crate::deep(|| branches.iter_mut().for_each(|branch| branch.push(qualifier)));
            }
            _ => self.qualifiers.push(qualifier.clone()),
        }
    }

    pub(super) fn is_conditional(&self) -> bool {
        matches!(self.root, Root::Conditional { .. })
    }
}

/// The result of following a path.
enum Found {
    Value(Value),
    /// The result of `has`.
    Test(bool),
}

impl<'p> Evaluator<'p> {
    /// Returns the value of an attribute. Each step of the path costs 1; the caller charges for the attribute
    /// itself.
    pub(super) fn resolve(&mut self, attribute: &'p Attribute) -> Result {
        match self.follow(attribute)? {
            Found::Value(value) => Ok(value),
            Found::Test(present) => Ok(Value::Bool(present)),
        }
    }

    fn follow(&mut self, attribute: &'p Attribute) -> Result<Found> {
        let path = &attribute.qualifiers[..];
        match &attribute.root {
            // The usual case: no intermediate value is cloned.
            Root::Device => self.path(self.device.value(), path),
            Root::Slot(slot) => {
                let value = self.slot(*slot)?;
                self.path_of_variable(value, path)
            }
            Root::Operand(node) => {
                let value = self.eval(node)?;
                self.path_of_variable(value, path)
            }
            Root::Conditional { condition, branches } => match self.eval(condition)? {
                Value::Bool(true) => crate::deep(|| self.follow(&branches[0])),
                Value::Bool(false) => crate::deep(|| self.follow(&branches[1])),
                _ => Err(Error::NO_OVERLOAD),
            },
        }
    }

    /// Follows the path from a value. If the value is optional, the whole path is.
    fn path_of_variable(&mut self, value: Value, path: &'p [Arc<Qualifier>]) -> Result<Found> {
        match value {
            Value::Optional(None) => Ok(if path.last().is_some_and(|last| last.test) {
                Found::Test(false)
            } else {
                Found::Value(value)
            }),
            Value::Optional(Some(inner)) => self.optional_path(&native(&inner), path),
            value if path.is_empty() => Ok(Found::Value(value)),
            value => self.path(&value, path),
        }
    }

    fn path(&mut self, start: &Value, path: &'p [Arc<Qualifier>]) -> Result<Found> {
        let mut current = start;
        for (index, qualifier) in path.iter().enumerate() {
            if qualifier.optional {
                return self.optional_path(current, &path[index..]);
            }
            let dynamic;
            let key = match &qualifier.key {
                Key::Const(value) => value,
                key => match self.dynamic_key(key) {
                    Ok(value) => {
                        dynamic = value;
                        &dynamic
                    }
                    Err(error) => {
                        self.charge(1)?;
                        return Err(error);
                    }
                },
            };
            let step = select(current, key);
            self.charge(1)?;
            let found = step?;
            if qualifier.test {
                return Ok(Found::Test(found.is_some()));
            }
            current = found.ok_or_else(|| missing(current, key))?;
        }
        Ok(Found::Value(current.clone()))
    }

    /// Follows the rest of a path after `?`. A missing step yields `optional.none()` instead of an error, and
    /// costs nothing.
    fn optional_path(&mut self, start: &Value, path: &'p [Arc<Qualifier>]) -> Result<Found> {
        let mut current = start;
        let mut test = false;
        for qualifier in path {
            test = qualifier.test;
            let dynamic;
            let key = match &qualifier.key {
                Key::Const(value) => value,
                key => {
                    dynamic = self.dynamic_key(key)?;
                    &dynamic
                }
            };
            match select(current, key)? {
                Some(found) => current = found,
                None if path.last().is_some_and(|last| last.test) => return Ok(Found::Test(false)),
                None => return Ok(Found::Value(Value::Optional(None))),
            }
            self.charge(1)?;
        }
        Ok(if test {
            Found::Test(true)
        } else {
            Found::Value(Value::Optional(Some(Arc::new(current.clone()))))
        })
    }

    fn dynamic_key(&mut self, key: &'p Key) -> Result {
        let value = match key {
            Key::Const(value) => value.clone(),
            Key::Attribute(attribute) => self.resolve(attribute)?,
            Key::Node(node) => self.eval(node)?,
        };
        if is_key(&value) {
            Ok(value)
        } else {
            Err(Error::new(format!("invalid qualifier type: {}", format_go::type_name(&value))))
        }
    }
}

/// Returns the field or element of a value, or `None` if it is missing.
fn select<'v>(value: &'v Value, key: &Value) -> Result<Option<&'v Value>> {
    match value {
        Value::Map(map) => Ok(map.select(key)),
        Value::List(list) => Ok(u64::try_from(position(key)?).ok().and_then(|index| list.get(index))),
        Value::Broken(error) => Err(error.clone()),
        _ => Ok(None),
    }
}

fn position(key: &Value) -> Result<i64> {
    let unsupported = || Error::new(format!("unsupported index value {} in list", format_go::plain(key)));
    match key {
        Value::Int(index) => Ok(*index),
        Value::Uint(index) => i64::try_from(*index).map_err(|_| unsupported()),
        Value::Double(index) => crate::value::lossless_int(*index).ok_or_else(unsupported),
        _ => Err(Error::new(format!("unsupported index type '{}' in list", key.type_name()))),
    }
}

fn missing(value: &Value, key: &Value) -> Error {
    let kind = if matches!(value, Value::List(_)) { "index out of bounds" } else { "no such key" };
    Error::new(format!("{kind}: {}", format_go::plain(key)))
}

/// Maximum length of a concatenated list that [`native`] converts. Longer ones stay unchanged, which differs
/// from upstream only if the conversion would change an element.
const CONVERTED: u64 = 10_000;

/// Returns the value in an optional variable. Upstream converts it to a Go value and back, which fails for
/// some types and changes others.
fn native(value: &Value) -> Value {
    let kind = match value {
        Value::Quantity(_) | Value::ComputedQuantity(_) => "*resource.Quantity",
        Value::Version(_) => "semver.Version",
        Value::Ip(_) => "netip.Addr",
        Value::Cidr(_) => "netip.Prefix",
        Value::Url(_) => "*url.URL",
        Value::Type(name) => return Value::text(*name),
        Value::Optional(Some(inner)) => return crate::deep(|| native(inner)),
        Value::Optional(None) => return Value::Null,
        Value::List(list) if list.is_joined() && list.len() <= CONVERTED => {
            return Value::List(List::new(
                list.iter().map(|element| crate::deep(|| native(element))).collect(),
            ));
        }
        other => return other.clone(),
    };
    Value::Broken(Error::new(format!(
        "unsupported conversion to ref.Val: ({kind}){}",
        format_go::plain(value)
    )))
}
