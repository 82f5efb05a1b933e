//! What stands around objects: the envelope, a page of a list, an event of a watch, a bookmark, a refusal.

use super::wire::{Fill, Value, each, text};
use super::{Flaw, FromProtobuf, Message, merge};
use crate::api::{Kind, Received};

/// How every message of its own begins (`runtime/serializer/protobuf.protoEncodingPrefix`).
const MAGIC: &[u8] = b"k8s\0";

/// What marks the bookmark at the end of a list that came as a stream (`meta/v1.InitialEventsAnnotationKey`).
const INITIAL_EVENTS_END: &[u8] = b"k8s.io/initial-events-end";

/// The content of an envelope (`runtime.Unknown`).
///
/// # Errors
/// When there is none, or what is in it is not protobuf as it stands.
pub fn raw_object(bytes: &[u8]) -> Result<&[u8], Flaw> {
    let Some(envelope) = bytes.strip_prefix(MAGIC) else {
        return Err(Flaw::new("an object does not begin as protobuf of the API does"));
    };
    let (mut raw, mut is_plain) = (&[][..], true);
    each(envelope, |number, value| {
        match number {
            2 => raw = value.bytes()?,
            // Content encoding and content type, both empty when it is protobuf.
            3 => is_plain &= value.bytes()?.is_empty(),
            4 => is_plain &= matches!(value.bytes()?, b"" | b"application/vnd.kubernetes.protobuf"),
            _ => {}
        }
        Ok(())
    })?;
    if is_plain { Ok(raw) } else { Err(Flaw::new("an object is encoded in a way that was not asked for")) }
}

/// An object with its envelope.
///
/// # Errors
/// When the envelope cannot be read.
pub fn object<K: Kind>(bytes: &[u8]) -> Result<Received<K>, Flaw> {
    raw_object(bytes).map(Received::from_protobuf)
}

/// A page of a list, whose items have not been looked at.
#[derive(Debug, Default)]
pub struct List<'a> {
    /// `metadata.resourceVersion`; empty when absent.
    pub version: String,
    /// `metadata.continue`; empty on the last page.
    pub more: String,
    /// The objects, without envelopes.
    pub items: Vec<&'a [u8]>,
}

/// Reads a list with its envelope.
///
/// # Errors
/// When the list itself cannot be read; its items are not looked at.
pub fn list(bytes: &[u8]) -> Result<List<'_>, Flaw> {
    let mut list = List::default();
    each(raw_object(bytes)?, |number, value| {
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

/// What sort of change an event of a watch tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// An object as it is now.
    Applied,
    /// An object as it was last.
    Deleted,
    /// Nothing happened up to a version.
    Bookmark,
    /// The watch ends with a refusal.
    Error,
    /// One that is not known, as it is written.
    Unknown(String),
}

/// An event of a watch (`meta/v1.WatchEvent`).
#[derive(Debug)]
pub struct WatchEvent<'a> {
    /// What happened.
    pub change: Change,
    /// To what, without its envelope.
    pub object: &'a [u8],
}

impl<'a> WatchEvent<'a> {
    /// Reads one from its frame, without the frame's length.
    ///
    /// # Errors
    /// When the event or its object's envelope cannot be read.
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
        Ok(Self { change, object: raw_object(object)? })
    }
}

/// The version a bookmark is of, and whether it ends a list that came as a stream.
///
/// # Errors
/// When its metadata cannot be read.
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

/// What is read of a refusal (`meta/v1.Status`).
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

/// Reads a refusal without its envelope.
///
/// # Errors
/// When it cannot be read.
pub fn refusal(message: &[u8]) -> Result<Refusal, Flaw> {
    let mut refusal = Refusal::default();
    merge(&mut refusal, Value::Bytes(message))?;
    Ok(refusal)
}
