//! Objects of any supported kind, identified by their `apiVersion` and `kind`: from files, recordings and test vectors.

use super::{
    CsiDriver, CsiNode, CsiStorageCapacity, DeviceClass, Namespace, Node, PersistentVolume,
    PersistentVolumeClaim, Pod, PodDisruptionBudget, PodGroupV1Alpha2, PodGroupV1Beta1, ReplicaSet,
    ReplicationController, ResourceClaim, ResourceSlice, Service, StatefulSet, StorageClass,
    VolumeAttachment,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// An object of any kind that the scheduler reads.
#[derive(Clone, Debug)]
pub enum Object {
    /// `v1 Pod`.
    Pod(Box<Pod>),
    /// `v1 Node`.
    Node(Box<Node>),
    /// `v1 Namespace`.
    Namespace(Box<Namespace>),
    /// `v1 Service`.
    Service(Box<Service>),
    /// `v1 ReplicationController`.
    ReplicationController(Box<ReplicationController>),
    /// `apps/v1 ReplicaSet`.
    ReplicaSet(Box<ReplicaSet>),
    /// `apps/v1 StatefulSet`.
    StatefulSet(Box<StatefulSet>),
    /// `policy/v1 PodDisruptionBudget`.
    PodDisruptionBudget(Box<PodDisruptionBudget>),
    /// `v1 PersistentVolume`.
    PersistentVolume(Box<PersistentVolume>),
    /// `v1 PersistentVolumeClaim`.
    PersistentVolumeClaim(Box<PersistentVolumeClaim>),
    /// `storage.k8s.io/v1 StorageClass`.
    StorageClass(Box<StorageClass>),
    /// `storage.k8s.io/v1 CSINode`.
    CsiNode(Box<CsiNode>),
    /// `storage.k8s.io/v1 CSIDriver`.
    CsiDriver(Box<CsiDriver>),
    /// `storage.k8s.io/v1 CSIStorageCapacity`.
    CsiStorageCapacity(Box<CsiStorageCapacity>),
    /// `storage.k8s.io/v1 VolumeAttachment`.
    VolumeAttachment(Box<VolumeAttachment>),
    /// `resource.k8s.io/v1 DeviceClass`.
    DeviceClass(Box<DeviceClass>),
    /// `resource.k8s.io/v1 ResourceClaim`.
    ResourceClaim(Box<ResourceClaim>),
    /// `resource.k8s.io/v1 ResourceSlice`.
    ResourceSlice(Box<ResourceSlice>),
    /// `scheduling.k8s.io/v1alpha2 PodGroup`.
    PodGroupV1Alpha2(Box<PodGroupV1Alpha2>),
    /// `scheduling.k8s.io/v1beta1 PodGroup`.
    PodGroupV1Beta1(Box<PodGroupV1Beta1>),
}

/// Error: an object of an unsupported kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{api_version} {kind} {name} is of an unsupported kind")]
pub struct NotRead {
    /// `apiVersion`; `?` when absent.
    pub api_version: String,
    /// `kind`; `?` when absent.
    pub kind: String,
    /// `metadata.name`; `?` when absent.
    pub name: String,
}

impl Object {
    /// Decodes an object by its `apiVersion` and `kind`. A malformed object is decoded, too; converting it yields the
    /// error.
    ///
    /// # Errors
    /// If the scheduler does not read this kind.
    pub fn from_value(value: Value) -> Result<Self, NotRead> {
        let field = |value: &Value| value.as_str().unwrap_or("?").to_owned();
        let (api_version, kind) = (field(&value["apiVersion"]), field(&value["kind"]));
        Ok(match (api_version.as_str(), kind.as_str()) {
            ("v1", "Pod") => Self::Pod(decode(value)),
            ("v1", "Node") => Self::Node(decode(value)),
            ("v1", "Namespace") => Self::Namespace(decode(value)),
            ("v1", "Service") => Self::Service(decode(value)),
            ("v1", "ReplicationController") => Self::ReplicationController(decode(value)),
            ("apps/v1", "ReplicaSet") => Self::ReplicaSet(decode(value)),
            ("apps/v1", "StatefulSet") => Self::StatefulSet(decode(value)),
            ("policy/v1", "PodDisruptionBudget") => Self::PodDisruptionBudget(decode(value)),
            ("v1", "PersistentVolume") => Self::PersistentVolume(decode(value)),
            ("v1", "PersistentVolumeClaim") => Self::PersistentVolumeClaim(decode(value)),
            ("storage.k8s.io/v1", "StorageClass") => Self::StorageClass(decode(value)),
            ("storage.k8s.io/v1", "CSINode") => Self::CsiNode(decode(value)),
            ("storage.k8s.io/v1", "CSIDriver") => Self::CsiDriver(decode(value)),
            ("storage.k8s.io/v1", "CSIStorageCapacity") => Self::CsiStorageCapacity(decode(value)),
            ("storage.k8s.io/v1", "VolumeAttachment") => Self::VolumeAttachment(decode(value)),
            ("resource.k8s.io/v1", "DeviceClass") => Self::DeviceClass(decode(value)),
            ("resource.k8s.io/v1", "ResourceClaim") => Self::ResourceClaim(decode(value)),
            ("resource.k8s.io/v1", "ResourceSlice") => Self::ResourceSlice(decode(value)),
            ("scheduling.k8s.io/v1alpha2", "PodGroup") => Self::PodGroupV1Alpha2(decode(value)),
            ("scheduling.k8s.io/v1beta1", "PodGroup") => Self::PodGroupV1Beta1(decode(value)),
            _ => return Err(NotRead { name: field(&value["metadata"]["name"]), api_version, kind }),
        })
    }
}

/// Evaluates one expression for the object, whatever its kind.
#[macro_export]
macro_rules! of_any_kind {
    ($object:expr, $it:ident => $what:expr) => {
        match $object {
            $crate::api::Object::Pod($it) => $what,
            $crate::api::Object::Node($it) => $what,
            $crate::api::Object::Namespace($it) => $what,
            $crate::api::Object::Service($it) => $what,
            $crate::api::Object::ReplicationController($it) => $what,
            $crate::api::Object::ReplicaSet($it) => $what,
            $crate::api::Object::StatefulSet($it) => $what,
            $crate::api::Object::PodDisruptionBudget($it) => $what,
            $crate::api::Object::PersistentVolume($it) => $what,
            $crate::api::Object::PersistentVolumeClaim($it) => $what,
            $crate::api::Object::StorageClass($it) => $what,
            $crate::api::Object::CsiNode($it) => $what,
            $crate::api::Object::CsiDriver($it) => $what,
            $crate::api::Object::CsiStorageCapacity($it) => $what,
            $crate::api::Object::VolumeAttachment($it) => $what,
            $crate::api::Object::DeviceClass($it) => $what,
            $crate::api::Object::ResourceClaim($it) => $what,
            $crate::api::Object::ResourceSlice($it) => $what,
            $crate::api::Object::PodGroupV1Alpha2($it) => $what,
            $crate::api::Object::PodGroupV1Beta1($it) => $what,
        }
    };
}
fn decode<T: DeserializeOwned>(value: Value) -> Box<T> {
    Box::new(serde_json::from_value(value).expect("a value is valid JSON, and malformed objects decode, too"))
}
