//! The protobuf wire format: tags, varints and lengths, and the decoding of field values into Rust types.
//!
//! Independent of any message type.

use std::collections::BTreeMap;
use std::fmt;

/// Error: invalid bytes, with the path of the field.
#[derive(Debug)]
pub struct Flaw(Box<Inner>);

#[derive(Debug)]
struct Inner {
    what: &'static str,
    /// Path steps, innermost first.
    path: Vec<Step>,
}

#[derive(Debug)]
enum Step {
    Field(&'static str),
    Index(usize),
}

impl Flaw {
    #[cold]
    pub(super) fn new(what: &'static str) -> Self {
        Self(Box::new(Inner { what, path: Vec::new() }))
    }

    /// Adds an enclosing field, by its Rust name.
    #[cold]
    pub(super) fn within(mut self, field: &'static str) -> Self {
        self.0.path.push(Step::Field(field));
        self
    }

    #[cold]
    fn at(mut self, index: usize) -> Self {
        self.0.path.push(Step::Index(index));
        self
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.path.iter().rev().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Field(name) => {
                    f.write_str(if at == 0 { "" } else { "." })?;
                    camel_case(name, f)?;
                }
            }
        }
        write!(f, "{}{}", if self.0.path.is_empty() { "" } else { ": " }, self.0.what)
    }
}

/// Writes a Rust field name in the API's camel case.
fn camel_case(name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (at, word) in name.split('_').enumerate() {
        match word.chars().next() {
            Some(first) if at > 0 => {
                write!(f, "{}{}", first.to_ascii_uppercase(), &word[first.len_utf8()..])?;
            }
            _ => f.write_str(word)?,
        }
    }
    Ok(())
}

/// The value of a field on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number or boolean.
    Varint(u64),
    /// A fixed32 or fixed64 value; no decoded field has this type.
    Fixed,
    /// A string, bytes or a message.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    #[inline]
    pub(super) fn bytes(self) -> Result<&'a [u8], Flaw> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Varint(_) | Self::Fixed => Err(Flaw::new("expected a string or message, found a number")),
        }
    }

    #[inline]
    pub(super) fn number(self) -> Result<u64, Flaw> {
        match self {
            Self::Varint(number) => Ok(number),
            Self::Bytes(_) | Self::Fixed => Err(Flaw::new("expected a number")),
        }
    }
}

/// A message, decoded field by field.
pub trait Message {
    /// Decodes the value of the field with this number, or skips an unknown field.
    ///
    /// # Errors
    /// If the value does not have the field's type.
    fn field(&mut self, number: u32, value: Value<'_>) -> Result<(), Flaw>;
}

/// A type that field values decode into. A repeated occurrence replaces, extends or merges, depending on the type.
pub(super) trait Fill {
    /// Decodes the value into `self`.
    fn fill(&mut self, value: Value<'_>) -> Result<(), Flaw>;

    /// Decodes a first value.
    #[inline]
    fn read(value: Value<'_>) -> Result<Self, Flaw>
    where
        Self: Default,
    {
        let mut read = Self::default();
        read.fill(value)?;
        Ok(read)
    }
}

/// Calls `take` for every field of a message.
#[inline]
pub(super) fn each<'a>(
    mut rest: &'a [u8],
    mut take: impl FnMut(u32, Value<'a>) -> Result<(), Flaw>,
) -> Result<(), Flaw> {
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        let Some(number) = u32::try_from(tag >> 3).ok().filter(|number| *number != 0) else {
            return Err(Flaw::new("field number out of range"));
        };
        let value = match tag & 7 {
            0 => Value::Varint(varint(&mut rest)?),
            1 => split(&mut rest, 8).map(|_| Value::Fixed)?,
            2 => {
                let length = varint(&mut rest)?;
                Value::Bytes(split(&mut rest, usize::try_from(length).unwrap_or(usize::MAX))?)
            }
            5 => split(&mut rest, 4).map(|_| Value::Fixed)?,
            _ => return Err(Flaw::new("invalid wire type")),
        };
        take(number, value)?;
    }
    Ok(())
}

/// Merges the message in `value` into `message`.
#[inline]
pub(super) fn merge(message: &mut impl Message, value: Value<'_>) -> Result<(), Flaw> {
    each(value.bytes()?, |number, value| message.field(number, value))
}

#[inline]
fn split<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], Flaw> {
    let Some((bytes, after)) = rest.split_at_checked(length) else {
        return Err(Flaw::new("truncated message"));
    };
    *rest = after;
    Ok(bytes)
}

#[inline]
fn varint(rest: &mut &[u8]) -> Result<u64, Flaw> {
    match **rest {
        [byte, ref after @ ..] if byte < 0x80 => {
            *rest = after;
            Ok(byte.into())
        }
        _ => long_varint(rest),
    }
}

fn long_varint(rest: &mut &[u8]) -> Result<u64, Flaw> {
    let mut number = 0;
    for (at, byte) in rest.iter().take(10).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * at);
        if *byte < 0x80 {
            *rest = &rest[at + 1..];
            return Ok(number);
        }
    }
    Err(Flaw::new(if rest.len() < 10 { "truncated message" } else { "varint too long" }))
}

/// Converts bytes to a string. Each invalid UTF-8 byte is replaced, as Go does when it writes JSON.
pub(super) fn text(bytes: &[u8]) -> String {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.to_owned();
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

impl Fill for String {
    #[inline]
    fn fill(&mut self, value: Value<'_>) -> Result<(), Flaw> {
        *self = text(value.bytes()?);
        Ok(())
    }
}

impl Fill for bool {
    #[inline]
    fn fill(&mut self, value: Value<'_>) -> Result<(), Flaw> {
        *self = value.number()? != 0;
        Ok(())
    }
}

impl Fill for i32 {
    /// Takes the low 32 bits, as upstream does.
    #[inline]
    fn fill(&mut self, value: Value<'_>) -> Result<(), Flaw> {
        *self = value.number()? as i32;
        Ok(())
    }
}

impl Fill for i64 {
    #[inline]
    fn fill(&mut self, value: Value<'_>) -> Result<(), Flaw> {
        *self = value.number()? as i64;
        Ok(())
    }
}

impl<T: Fill + Default> Fill for Option<T> {
    fn fill(&mut self, value: Value<'_>) -> Result<(), Flaw> {
        match self {
            Some(there) => there.fill(value),
            None => {
                *self = Some(T::read(value)?);
                Ok(())
            }
        }
    }
}

impl<T: Fill + Default> Fill for Vec<T> {
    fn fill(&mut self, value: Value<'_>) -> Result<(), Flaw> {
        let item = T::read(value).map_err(|flaw| flaw.at(self.len()))?;
        self.push(item);
        Ok(())
    }
}

impl<T: Fill + Default> Fill for BTreeMap<String, T> {
    fn fill(&mut self, value: Value<'_>) -> Result<(), Flaw> {
        let (mut key, mut entry) = (String::new(), None);
        each(value.bytes()?, |number, value| {
            match number {
                1 => key = String::read(value)?,
                2 => entry = Some(T::read(value)?),
                _ => {}
            }
            Ok(())
        })?;
        self.insert(key, entry.unwrap_or_default());
        Ok(())
    }
}
