//! The wire format: tags, variable-length numbers and lengths, and how a field's value becomes a Rust value.
//!
//! Knows no field of any type.

use std::collections::BTreeMap;
use std::fmt;

/// Bytes that are not what they should be, and in which field that was noticed.
#[derive(Debug)]
pub struct Flaw(Box<Inner>);

#[derive(Debug)]
struct Inner {
    what: &'static str,
    /// Innermost first.
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

    /// It was noticed inside this field, named as in Rust.
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

/// Writes the name as the API has it.
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

/// The value of a field as it stands on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number or a truth value.
    Varint(u64),
    /// Four or eight bytes, of which no field that is read is made.
    Fixed,
    /// A text, bytes or a message.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    #[inline]
    pub(super) fn bytes(self) -> Result<&'a [u8], Flaw> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Varint(_) | Self::Fixed => Err(Flaw::new("a number stands where a text or message should")),
        }
    }

    #[inline]
    pub(super) fn number(self) -> Result<u64, Flaw> {
        match self {
            Self::Varint(number) => Ok(number),
            Self::Bytes(_) | Self::Fixed => Err(Flaw::new("no number stands where one should")),
        }
    }
}

/// A message, filled field by field.
pub trait Message {
    /// Takes the value of the field of this number; passes over one that is not read.
    ///
    /// # Errors
    /// When the value is not of the field's type.
    fn field(&mut self, number: u32, value: Value<'_>) -> Result<(), Flaw>;
}

/// What a field can be filled into. A field that comes again replaces, adds to or is merged into what is there, by its type.
pub(super) trait Fill {
    /// Takes the value.
    fn fill(&mut self, value: Value<'_>) -> Result<(), Flaw>;

    /// The value where nothing was before.
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
            return Err(Flaw::new("a field's number is out of range"));
        };
        let value = match tag & 7 {
            0 => Value::Varint(varint(&mut rest)?),
            1 => split(&mut rest, 8).map(|_| Value::Fixed)?,
            2 => {
                let length = varint(&mut rest)?;
                Value::Bytes(split(&mut rest, usize::try_from(length).unwrap_or(usize::MAX))?)
            }
            5 => split(&mut rest, 4).map(|_| Value::Fixed)?,
            _ => return Err(Flaw::new("a field's wire type is one that is not used")),
        };
        take(number, value)?;
    }
    Ok(())
}

/// Fills `message` from the message that `value` is.
#[inline]
pub(super) fn merge(message: &mut impl Message, value: Value<'_>) -> Result<(), Flaw> {
    each(value.bytes()?, |number, value| message.field(number, value))
}

#[inline]
fn split<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], Flaw> {
    let Some((bytes, after)) = rest.split_at_checked(length) else {
        return Err(Flaw::new("the bytes end too early"));
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
    Err(Flaw::new(if rest.len() < 10 { "the bytes end too early" } else { "a number is too long" }))
}

/// The text of these bytes. What is no UTF-8 is replaced byte by byte, as Go does when it writes the same text as JSON.
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
    /// The low bits, as upstream takes them.
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
