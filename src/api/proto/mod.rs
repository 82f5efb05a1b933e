//! Protobuf, as the API server speaks it, into the lean types: the same ones, with the same content, as their JSON gives.
//!
//! Reads the fields the lean types have and steps over all others unseen; what is not read is not even looked at. No types are made of
//! `.proto` files: the numbers of the fields that are read stand in `fields`. Writes nothing. Any bytes whatever end in an object or
//! in an error, in time that grows with their number.
//!
//! Upstream: `apimachinery/pkg/runtime/serializer/protobuf` and the `generated.proto` of each group.

mod answer;
mod fields;
mod wire;

pub use answer::{Change, List, Refusal, WatchEvent, bookmark, list, object, raw_object, refusal};
pub use wire::{Flaw, Message, Value};

use super::meta::Metadata;
use super::{Content, Kind, Received};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use wire::{each, merge};

/// What objects that came as protobuf are read by.
pub trait FromProtobuf {
    /// Reads an object without its envelope. One that cannot be read whole is malformed, with as much of its name as could be made out.
    fn from_protobuf(message: &[u8]) -> Self;
}

/// Numbers of the parts of an object that is not flat.
const METADATA: u32 = 1;
const SPEC: u32 = 2;
const STATUS: u32 = 3;

/// An object as its message has it.
struct Parts<K: Kind> {
    metadata: Metadata,
    spec: K::Spec,
    status: K::Status,
}

impl<K: Kind> Message for Parts<K> {
    fn field(&mut self, number: u32, value: Value<'_>) -> Result<(), Flaw> {
        match number {
            METADATA => merge(&mut self.metadata, value).map_err(|flaw| flaw.within("metadata")),
            _ if K::FLAT => self.spec.field(number, value),
            SPEC => merge(&mut self.spec, value).map_err(|flaw| flaw.within("spec")),
            STATUS => merge(&mut self.status, value).map_err(|flaw| flaw.within("status")),
            _ => Ok(()),
        }
    }
}

impl<K: Kind> FromProtobuf for Received<K> {
    fn from_protobuf(message: &[u8]) -> Self {
        let mut parts: Parts<K> =
            Parts { metadata: Metadata::default(), spec: K::Spec::default(), status: K::Status::default() };
        let read = each(message, |number, value| parts.field(number, value));
        let Parts { metadata, spec, status } = parts;
        match read {
            Ok(()) => {
                Self { metadata: metadata.without_empty().into(), content: Ok(Content { spec, status }) }
            }
            Err(flaw) => Self { metadata: salvage(metadata), content: Err(flaw.to_string().into()) },
        }
    }
}

/// What was read of a malformed object's metadata: enough to name it and to go on watching.
fn salvage(read: Metadata) -> ObjectMeta {
    let ObjectMeta { name, namespace, uid, resource_version, .. } = read.without_empty().into();
    ObjectMeta { name, namespace, uid, resource_version, ..ObjectMeta::default() }
}

#[cfg(test)]
mod tests;
