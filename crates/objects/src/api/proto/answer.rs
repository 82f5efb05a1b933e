//! Protobuf messages around objects: the envelope, list pages, watch events, bookmarks and error statuses.

use super::wire::{Fill, Value, each, text};
use super::{Flaw, FromProtobuf, Message, merge};
use crate::api::{Kind, Received};

/// Prefix of every protobuf message of the API (`runtime/serializer/protobuf.protoEncodingPrefix`).
const MAGIC: &[u8] = b"k8s\0";

/// Annotation of the bookmark that ends a streamed list (`meta/v1.InitialEventsAnnotationKey`).
const INITIAL_EVENTS_END: &[u8] = b"k8s.io/initial-events-end";

/// The version and kind that an envelope names (`runtime.TypeMeta`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeMeta<'a> {
    /// The object's `apiVersion`.
    pub api_version: &'a [u8],
    /// The object's `kind`.
    pub kind: &'a [u8],
}

/// Returns the content of an envelope (`runtime.Unknown`).
///
/// # Errors
/// If the envelope is missing or its content is not plain protobuf.
pub fn raw_object(bytes: &[u8]) -> Result<&[u8], Flaw> {
    envelope(bytes).map(|(_, raw)| raw)
}

fn envelope(bytes: &[u8]) -> Result<(TypeMeta<'_>, &[u8]), Flaw> {
    let Some(envelope) = bytes.strip_prefix(MAGIC) else {
        return Err(Flaw::new("missing the API server's protobuf prefix"));
    };
    let (mut type_meta, mut raw, mut is_plain) = (TypeMeta::default(), &[][..], true);
    each(envelope, |number, value| {
        match number {
            1 => each(value.bytes()?, |number, value| {
                match number {
                    1 => type_meta.api_version = value.bytes()?,
                    2 => type_meta.kind = value.bytes()?,
                    _ => {}
                }
                Ok(())
            })?,
            2 => raw = value.bytes()?,
            // Content encoding and content type; both are empty for plain protobuf.
            3 => is_plain &= value.bytes()?.is_empty(),
            4 => is_plain &= matches!(value.bytes()?, b"" | b"application/vnd.kubernetes.protobuf"),
            _ => {}
        }
        Ok(())
    })?;
    if is_plain { Ok((type_meta, raw)) } else { Err(Flaw::new("unexpected content type or encoding")) }
}

/// Decodes an object from its envelope.
///
/// # Errors
/// If the envelope is invalid.
pub fn object<K: Kind>(bytes: &[u8]) -> Result<Received<K>, Flaw> {
    raw_object(bytes).map(Received::from_protobuf)
}

/// A page of a list, with undecoded items.
#[derive(Debug, Default)]
pub struct List<'a> {
    /// The list's version and kind.
    pub type_meta: TypeMeta<'a>,
    /// `metadata.resourceVersion`, or empty.
    pub version: String,
    /// `metadata.continue`, empty on the last page.
    pub more: String,
    /// The objects as messages, without envelopes.
    pub items: Vec<&'a [u8]>,
}

/// Decodes a list from its envelope, without its items.
///
/// # Errors
/// If the list's own fields are invalid.
pub fn list(bytes: &[u8]) -> Result<List<'_>, Flaw> {
    let (type_meta, raw) = envelope(bytes)?;
    let mut list = List { type_meta, ..List::default() };
    each(raw, |number, value| {
        match number {
            1 => each(value.bytes()?, |number, value| match number {
                2 => list.version.fill(value),
                3 => list.more.fill(value),
                _ => Ok(()),
            })?,
            2 => list.items.push(value.bytes()?),
            _ => {}
        }
        Ok(())
    })?;
    Ok(list)
}

/// Type of a watch event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Added or modified; the event holds the new state.
    Applied,
    /// Deleted; the event holds the last state.
    Deleted,
    /// A bookmark: no changes up to a resource version.
    Bookmark,
    /// The watch ends with an error status.
    Error,
    /// An unknown type, as received.
    Unknown(String),
}

/// An event of a watch (`meta/v1.WatchEvent`).
#[derive(Debug)]
pub struct WatchEvent<'a> {
    /// The type of change.
    pub change: Change,
    /// The object's version and kind.
    pub type_meta: TypeMeta<'a>,
    /// The object's message, without its envelope.
    pub object: &'a [u8],
}

impl<'a> WatchEvent<'a> {
    /// Decodes an event from a frame, without the frame's length.
    ///
    /// # Errors
    /// If the event or the object's envelope is invalid.
    pub fn read(frame: &'a [u8]) -> Result<Self, Flaw> {
        let (mut change, mut object) = (&[][..], &[][..]);
        each(frame, |number, value| {
            match number {
                1 => change = value.bytes()?,
                // `runtime.RawExtension`
                2 => each(value.bytes()?, |number, value| {
                    if number == 1 {
                        object = value.bytes()?;
                    }
                    Ok(())
                })?,
                _ => {}
            }
            Ok(())
        })?;
        let change = match change {
            b"ADDED" | b"MODIFIED" => Change::Applied,
            b"DELETED" => Change::Deleted,
            b"BOOKMARK" => Change::Bookmark,
            b"ERROR" => Change::Error,
            other => Change::Unknown(text(other)),
        };
        let (type_meta, object) = envelope(object)?;
        Ok(Self { change, type_meta, object })
    }
}

/// Returns a bookmark's resource version, and whether it ends a streamed list.
///
/// # Errors
/// If its metadata is invalid.
pub fn bookmark(message: &[u8]) -> Result<(String, bool), Flaw> {
    let (mut version, mut ends_list) = (String::new(), false);
    each(message, |number, value| {
        if number != super::METADATA {
            return Ok(());
        }
        each(value.bytes()?, |number, value| match number {
            6 => version.fill(value),
            12 => each(value.bytes()?, |number, value| {
                ends_list |= number == 1 && value.bytes()? == INITIAL_EVENTS_END;
                Ok(())
            }),
            _ => Ok(()),
        })
    })?;
    Ok((version, ends_list))
}

/// The decoded fields of an error status (`meta/v1.Status`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// `message`.
    pub message: String,
    /// `reason`.
    pub reason: String,
    /// `code`.
    pub code: i32,
}

impl Message for Refusal {
    fn field(&mut self, number: u32, value: Value<'_>) -> Result<(), Flaw> {
        match number {
            3 => self.message.fill(value),
            4 => self.reason.fill(value),
            6 => self.code.fill(value),
            _ => Ok(()),
        }
    }
}

/// Decodes an error status without an envelope.
///
/// # Errors
/// If the message is invalid.
pub fn refusal(message: &[u8]) -> Result<Refusal, Flaw> {
    let mut refusal = Refusal::default();
    merge(&mut refusal, Value::Bytes(message))?;
    Ok(refusal)
}
