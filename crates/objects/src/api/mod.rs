//! Lean types of the API objects that the scheduler reads, decoded from JSON or protobuf.
//!
//! All input passes through them: watches, lists and files. They hold only the fields that decisions use and skip the
//! rest. An object that upstream's decoder would reject does not fail its list. It is decoded to its name and the
//! error, to be reported and skipped. Writes to the API server use k8s-openapi's types instead.

pub mod apps;
pub mod core;
mod encoding;
pub mod meta;
mod nulls;
mod object;
mod place;
pub mod policy;
pub mod proto;
pub mod resource;
pub mod scheduling;
pub mod storage;
mod to_json;

pub use apps::{ReplicaSet, StatefulSet};
pub use core::{Namespace, Node, Pod, ReplicationController, Service};
pub use encoding::Encoding;
pub use object::{NotRead, Object};
pub use policy::PodDisruptionBudget;
pub use resource::{DeviceClass, ResourceClaim, ResourceSlice};
pub use scheduling::{PodGroupV1Alpha2, PodGroupV1Beta1};
pub use to_json::ToJson;

pub use storage::{
    CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass,
    VolumeAttachment,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use meta::Metadata;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use std::any::Any;
use std::borrow::Cow;
use std::fmt::{self, Debug};

/// Compile-time description of an API kind.
pub trait Kind: Clone + Debug + Send + Sync + 'static {
    /// `kind`.
    const KIND: &'static str;
    /// The group of `apiVersion`.
    const GROUP: &'static str;
    /// The version of `apiVersion`.
    const VERSION: &'static str;
    /// The resource name in request paths.
    const PLURAL: &'static str;
    /// Whether the kind has no `spec` and holds the equivalent fields at the top level.
    const FLAT: bool;
    /// Namespaced or cluster-scoped.
    type Scope;
    /// The decoded part of `spec`.
    type Spec: DeserializeOwned + Serialize + proto::Message + Default + Clone + Debug + Send + Sync + 'static;
    /// The decoded part of `status`.
    type Status: DeserializeOwned
        + Serialize
        + proto::Message
        + Default
        + Clone
        + Debug
        + Send
        + Sync
        + 'static;
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $group:literal, $version:literal, $kind:literal, $plural:literal, $scope:ident $($flat:ident)?, $spec:ty, $status:ty;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub enum $name {}

        impl $crate::api::Kind for $name {
            const GROUP: &'static str = $group;
            const VERSION: &'static str = $version;
            const KIND: &'static str = $kind;
            const PLURAL: &'static str = $plural;
            const FLAT: bool = kinds!(@flat $($flat)?);
            type Scope = kinds!(@$scope);
            type Spec = $spec;
            type Status = $status;
        }
    )*};
    (@namespaced) => { k8s_openapi::NamespaceResourceScope };
    (@cluster) => { k8s_openapi::ClusterResourceScope };
    (@flat) => { false };
    (@flat flat) => { true };
}
use kinds;

/// A part of an object that is skipped in decoding.
#[derive(Clone, Debug, Default)]
pub struct Ignored;

impl<'de> Deserialize<'de> for Ignored {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(from).map(|_| Self)
    }
}

impl Serialize for Ignored {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_map(Some(0))?.end()
    }
}

/// An object from the API server or a file, valid or malformed.
#[derive(Clone, Debug)]
pub struct Received<K: Kind> {
    /// The decoded part of its metadata. For a malformed object, as much as could be decoded.
    pub metadata: ObjectMeta,
    content: Result<Content<K>, Box<str>>,
}

/// Spec and status of an object.
#[derive(Clone, Debug)]
pub struct Content<K: Kind> {
    /// `spec`.
    pub spec: K::Spec,
    /// `status`.
    pub status: K::Status,
}

/// Error: an object that upstream's decoder would reject, to be reported and skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Its kind.
    pub kind: &'static str,
    /// Its namespace, or empty.
    pub namespace: String,
    /// Its name, or empty if it could not be decoded.
    pub name: String,
    /// The field and what is wrong with it.
    pub reason: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name, reason } = self;
        let slash = if namespace.is_empty() { "" } else { "/" };
        write!(f, "{kind} {namespace}{slash}{name} is malformed: {reason}")
    }
}

impl std::error::Error for Malformed {}

impl<K: Kind> Received<K> {
    /// Returns spec and status.
    ///
    /// # Errors
    /// If the object is malformed.
    pub fn content(&self) -> Result<&Content<K>, Malformed> {
        self.content.as_ref().map_err(|reason| self.malformed(reason))
    }

    /// Builds a [`Malformed`] error for this object.
    pub fn malformed(&self, reason: impl fmt::Display) -> Malformed {
        Malformed {
            kind: K::KIND,
            namespace: self.namespace().to_owned(),
            name: self.name().to_owned(),
            reason: reason.to_string(),
        }
    }

    /// Returns `metadata.name`, or "" if absent.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Returns `metadata.namespace`, or "" if absent.
    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    fn read(json: &str) -> Self {
        let read = if K::FLAT {
            serde_json::from_str::<Wire<Ignored, Ignored>>(json).and_then(|Wire { metadata, .. }| {
                Ok(Wire { metadata, spec: serde_json::from_str(json)?, status: K::Status::default() })
            })
        } else {
            serde_json::from_str::<Wire<K::Spec, K::Status>>(json)
        };
        match read {
            Ok(Wire { metadata, spec, status }) => {
                Self { metadata: kept::<K>(metadata, &spec), content: Ok(Content { spec, status }) }
            }
            Err(error) => {
                let reason = place::describe(json, &error);
                Self { metadata: salvage(json), content: Err(reason.into()) }
            }
        }
    }
}

/// Returns the metadata, with the time of creation only for objects of which decisions read it: DeviceClasses, and pods
/// that name a group.
fn kept<K: Kind>(read: Metadata, spec: &K::Spec) -> ObjectMeta {
    let mut metadata = ObjectMeta::from(read);
    let pod = (spec as &dyn Any).downcast_ref::<core::PodSpec>();
    let is_member = pod.is_some_and(|spec| spec.scheduling_group.is_some());
    if K::PLURAL != resource::DeviceClassKind::PLURAL && !is_member {
        metadata.creation_timestamp = None;
    }
    metadata
}

/// Extracts the metadata of a malformed object that identifies it and lets its watch continue.
fn salvage(json: &str) -> ObjectMeta {
    let object: Value = serde_json::from_str(json).unwrap_or_default();
    let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
    ObjectMeta {
        name: text("name"),
        namespace: text("namespace"),
        uid: text("uid"),
        resource_version: text("resourceVersion"),
        ..ObjectMeta::default()
    }
}

#[derive(Deserialize)]
#[serde(default, bound(deserialize = "S: Deserialize<'de> + Default, T: Deserialize<'de> + Default"))]
struct Wire<S, T> {
    #[serde(deserialize_with = "nulls::or_default")]
    metadata: Metadata,
    #[serde(deserialize_with = "nulls::or_default")]
    spec: S,
    #[serde(deserialize_with = "nulls::or_default")]
    status: T,
}

impl<S: Default, T: Default> Default for Wire<S, T> {
    fn default() -> Self {
        Self { metadata: Metadata::default(), spec: S::default(), status: T::default() }
    }
}

impl<'de, K: Kind> Deserialize<'de> for Received<K> {
    /// Fails only if the text is not JSON.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // Buffered as text, because a typed decoder that fails cannot tell where the object ends.
        Ok(Self::read(Box::<RawValue>::deserialize(from)?.get()))
    }
}

impl<K: Kind> kube::Resource for Received<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        K::KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        K::GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        K::VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests;
