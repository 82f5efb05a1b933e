//! `v1` PersistentVolume and PersistentVolumeClaim, and `storage.k8s.io/v1`: the fields that the scheduler reads.
//!
//! Fields are documented upstream. Comments here cover only differences in decoding.

use super::core::NodeSelector;
use super::meta::{LabelSelector, QuantityText, ResourceList};
use super::{Ignored, Received, kinds, nulls};
use serde::{Deserialize, Serialize};

kinds! {
    /// Kind of [`PersistentVolume`].
    PersistentVolumeKind = "", "v1", "PersistentVolume", "persistentvolumes", cluster, PersistentVolumeSpec, Phase;
    /// Kind of [`PersistentVolumeClaim`].
    PersistentVolumeClaimKind = "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", namespaced, PersistentVolumeClaimSpec, Phase;
    /// Kind of [`StorageClass`].
    StorageClassKind = "storage.k8s.io", "v1", "StorageClass", "storageclasses", cluster flat, StorageClassFields, Ignored;
    /// Kind of [`CsiNode`].
    CsiNodeKind = "storage.k8s.io", "v1", "CSINode", "csinodes", cluster, CsiNodeSpec, Ignored;
    /// Kind of [`CsiDriver`].
    CsiDriverKind = "storage.k8s.io", "v1", "CSIDriver", "csidrivers", cluster, CsiDriverSpec, Ignored;
    /// Kind of [`CsiStorageCapacity`].
    CsiStorageCapacityKind = "storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", namespaced flat, CsiStorageCapacityFields, Ignored;
    /// Kind of [`VolumeAttachment`].
    VolumeAttachmentKind = "storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", cluster, VolumeAttachmentSpec, Ignored;
}

/// `v1 PersistentVolume`.
pub type PersistentVolume = Received<PersistentVolumeKind>;
/// `v1 PersistentVolumeClaim`.
pub type PersistentVolumeClaim = Received<PersistentVolumeClaimKind>;
/// `storage.k8s.io/v1 StorageClass`.
pub type StorageClass = Received<StorageClassKind>;
/// `storage.k8s.io/v1 CSINode`.
pub type CsiNode = Received<CsiNodeKind>;
/// `storage.k8s.io/v1 CSIDriver`.
pub type CsiDriver = Received<CsiDriverKind>;
/// `storage.k8s.io/v1 CSIStorageCapacity`.
pub type CsiStorageCapacity = Received<CsiStorageCapacityKind>;
/// `storage.k8s.io/v1 VolumeAttachment`.
pub type VolumeAttachment = Received<VolumeAttachmentKind>;

/// Status of a volume or claim.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct Phase {
    #[serde(deserialize_with = "nulls::or_default")]
    pub phase: String,
}

/// `PersistentVolumeSpec`, with the sources that CSI drivers serve.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct PersistentVolumeSpec {
    #[serde(deserialize_with = "nulls::or_default")]
    pub capacity: ResourceList,
    #[serde(deserialize_with = "nulls::list")]
    pub access_modes: Vec<String>,
    pub claim_ref: Option<ObjectReference>,
    #[serde(deserialize_with = "nulls::or_default")]
    pub storage_class_name: String,
    pub volume_mode: Option<String>,
    pub node_affinity: Option<VolumeNodeAffinity>,
    pub volume_attributes_class_name: Option<String>,
    pub csi: Option<CsiSource>,
    pub gce_persistent_disk: Option<GceDisk>,
    pub aws_elastic_block_store: Option<VolumeId>,
    pub azure_disk: Option<AzureDisk>,
    pub cinder: Option<VolumeId>,
    pub portworx_volume: Option<VolumeId>,
    pub azure_file: Option<Ignored>,
    pub vsphere_volume: Option<Ignored>,
}

/// `ObjectReference`: the fields by which a volume names its claim.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct ObjectReference {
    #[serde(deserialize_with = "nulls::or_default")]
    pub namespace: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub name: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub uid: String,
}

/// `VolumeNodeAffinity`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct VolumeNodeAffinity {
    pub required: Option<NodeSelector>,
}

/// `CSIVolumeSource`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct CsiVolume {
    #[serde(deserialize_with = "nulls::or_default")]
    pub driver: String,
}

/// `CSIPersistentVolumeSource`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct CsiSource {
    #[serde(deserialize_with = "nulls::or_default")]
    pub driver: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub volume_handle: String,
}

/// `GCEPersistentDiskVolumeSource`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct GceDisk {
    #[serde(deserialize_with = "nulls::or_default")]
    pub pd_name: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub read_only: bool,
}

/// Sources identified by a volume ID: AWSElasticBlockStore, Cinder and Portworx.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct VolumeId {
    #[serde(rename = "volumeID", deserialize_with = "nulls::or_default")]
    pub volume_id: String,
}

/// `AzureDiskVolumeSource`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct AzureDisk {
    #[serde(rename = "diskURI", deserialize_with = "nulls::or_default")]
    pub disk_uri: String,
    pub kind: Option<String>,
}

/// `ISCSIVolumeSource`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct Iscsi {
    #[serde(deserialize_with = "nulls::or_default")]
    pub iqn: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub read_only: bool,
}

/// `RBDVolumeSource`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct Rbd {
    #[serde(deserialize_with = "nulls::list")]
    pub monitors: Vec<String>,
    #[serde(deserialize_with = "nulls::or_default")]
    pub pool: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub image: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub read_only: bool,
}

/// `PersistentVolumeClaimSpec`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct PersistentVolumeClaimSpec {
    #[serde(deserialize_with = "nulls::list")]
    pub access_modes: Vec<String>,
    pub selector: Option<LabelSelector>,
    #[serde(deserialize_with = "nulls::or_default")]
    pub resources: super::core::Requests,
    #[serde(deserialize_with = "nulls::or_default")]
    pub volume_name: String,
    pub storage_class_name: Option<String>,
    pub volume_mode: Option<String>,
    pub volume_attributes_class_name: Option<String>,
}

/// The top-level fields of `StorageClass`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct StorageClassFields {
    #[serde(deserialize_with = "nulls::or_default")]
    pub provisioner: String,
    pub volume_binding_mode: Option<String>,
    #[serde(deserialize_with = "nulls::list")]
    pub allowed_topologies: Vec<TopologySelectorTerm>,
}

/// `TopologySelectorTerm`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct TopologySelectorTerm {
    #[serde(deserialize_with = "nulls::list")]
    pub match_label_expressions: Vec<TopologySelectorLabelRequirement>,
}

/// `TopologySelectorLabelRequirement`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct TopologySelectorLabelRequirement {
    #[serde(deserialize_with = "nulls::or_default")]
    pub key: String,
    #[serde(deserialize_with = "nulls::list")]
    pub values: Vec<String>,
}

/// `CSINodeSpec`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct CsiNodeSpec {
    #[serde(deserialize_with = "nulls::list")]
    pub drivers: Vec<CsiNodeDriver>,
}

/// `CSINodeDriver`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct CsiNodeDriver {
    #[serde(deserialize_with = "nulls::or_default")]
    pub name: String,
    pub allocatable: Option<VolumeNodeResources>,
}

/// `VolumeNodeResources`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct VolumeNodeResources {
    pub count: Option<i32>,
}

/// `CSIDriverSpec`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct CsiDriverSpec {
    pub storage_capacity: Option<bool>,
    pub prevent_pod_scheduling_if_missing: Option<bool>,
}

/// The top-level fields of `CSIStorageCapacity`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct CsiStorageCapacityFields {
    pub node_topology: Option<LabelSelector>,
    #[serde(deserialize_with = "nulls::or_default")]
    pub storage_class_name: String,
    pub capacity: Option<QuantityText>,
    pub maximum_volume_size: Option<QuantityText>,
}

/// `VolumeAttachmentSpec`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct VolumeAttachmentSpec {
    #[serde(deserialize_with = "nulls::or_default")]
    pub attacher: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub node_name: String,
    #[serde(deserialize_with = "nulls::or_default")]
    pub source: VolumeAttachmentSource,
}

/// `VolumeAttachmentSource`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs, reason = "named as upstream")]
pub struct VolumeAttachmentSource {
    pub persistent_volume_name: Option<String>,
}
