//! Storage in the engine's model: pods' volumes, and the objects with which nodes and pods share storage and devices.
//!
//! Objects are parsed once into ids and numbers. In-tree volumes are translated to their CSI driver's form
//! (upstream `csi-translation-lib`) during conversion. Mount options, parameters and secrets are not kept.
// long because: one vocabulary, with the limits of each kind of object

mod trace;

use crate::model::device::{Allocation, ContainerMapping, ResourceClaim, ResourceSlice};
use crate::model::intern::{LabelSetId, Labels, Symbol, Tables};
use crate::model::pod::Uid;
use crate::model::selector::{Requirement, Selector};
use std::sync::Arc;

/// An amount of storage in nano-bytes: upstream compares exact quantities, not whole bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StorageSize(i128);

const NANO: i128 = 1_000_000_000;

impl StorageSize {
    /// Creates a size from nano-bytes (10⁻⁹ bytes).
    pub fn from_nano_bytes(amount: i128) -> Self {
        Self(amount)
    }

    /// Creates a size from bytes.
    pub fn from_bytes(bytes: i64) -> Self {
        Self(i128::from(bytes) * NANO)
    }

    /// Returns the size in bytes, rounded up (upstream `Quantity.Value`) and saturated to the range of i64.
    pub fn bytes(self) -> i64 {
        let up = self.0.div_euclid(NANO) + i128::from(self.0.rem_euclid(NANO) != 0);
        i64::try_from(up).unwrap_or(if up > 0 { i64::MAX } else { i64::MIN })
    }
}

/// A volume of a pod whose source restricts placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodVolume {
    /// Its name in the pod.
    pub name: Box<str>,
    /// Its source.
    pub source: VolumeSource,
}

/// The source of a pod's volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeSource {
    /// `persistentVolumeClaim`: the claim of this name; it may be empty.
    Claim(Symbol),
    /// `ephemeral`: the claim of this name, derived from the names of the pod and the volume.
    Ephemeral(Symbol),
    /// `csi`: an inline volume of this driver, with the lifetime of the pod.
    Csi(Symbol),
    /// A disk of a cloud or storage system, specified in the pod itself.
    Disk(InlineDisk),
}

impl PodVolume {
    /// Returns the claim's name, and whether the pod owns the claim.
    pub fn claim(&self) -> Option<(Symbol, bool)> {
        match self.source {
            VolumeSource::Claim(name) => Some((name, false)),
            VolumeSource::Ephemeral(name) => Some((name, true)),
            VolumeSource::Csi(_) | VolumeSource::Disk(_) => None,
        }
    }

    /// Returns the claim named by `persistentVolumeClaim`.
    pub fn named_claim(&self) -> Option<Symbol> {
        match self.source {
            VolumeSource::Claim(name) => Some(name),
            VolumeSource::Ephemeral(_) | VolumeSource::Csi(_) | VolumeSource::Disk(_) => None,
        }
    }

    /// Returns the inline disk, if any.
    pub fn disk(&self) -> Option<&InlineDisk> {
        match &self.source {
            VolumeSource::Disk(disk) => Some(disk),
            VolumeSource::Claim(_) | VolumeSource::Ephemeral(_) | VolumeSource::Csi(_) => None,
        }
    }

    /// Returns the inline disk in its CSI driver's form, if its kind has one.
    pub fn migratable(&self) -> Option<&MigratableDisk> {
        self.disk().and_then(|disk| disk.migratable.as_ref())
    }
}

/// A disk specified in a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InlineDisk {
    /// Its identity, if two pods on one node cannot both use it.
    pub exclusive: Option<ExclusiveDisk>,
    /// Its translation to a CSI driver, if its kind has one.
    pub migratable: Option<MigratableDisk>,
}

/// A disk that pods on one node cannot share, except for read-only use where supported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExclusiveDisk {
    /// `gcePersistentDisk`.
    Gce {
        /// `pdName`.
        name: Symbol,
        /// `readOnly`.
        read_only: bool,
    },
    /// `awsElasticBlockStore`.
    Ebs {
        /// `volumeID`.
        id: Symbol,
    },
    /// `iscsi`.
    Iscsi {
        /// `iqn`.
        iqn: Symbol,
        /// `readOnly`.
        read_only: bool,
    },
    /// `rbd`.
    Rbd {
        /// `monitors`.
        monitors: Box<[Symbol]>,
        /// `pool`.
        pool: Symbol,
        /// `image`.
        image: Symbol,
        /// `readOnly`.
        read_only: bool,
    },
}

/// An in-tree disk that a CSI driver serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigratableDisk {
    /// The kind.
    pub plugin: InTreePlugin,
    /// The driver.
    pub driver: Symbol,
    /// The driver's handle of the volume, or the translation error.
    pub handle: Result<Arc<str>, Box<str>>,
}

/// An in-tree volume kind that a CSI driver replaces (`csi-translation-lib/plugins`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InTreePlugin {
    /// Disks of AWS.
    AwsEbs,
    /// Disks of GCE.
    GcePd,
    /// Disks of Azure.
    AzureDisk,
    /// Disks of OpenStack.
    Cinder,
    /// Volumes of Portworx.
    Portworx,
    /// File shares of Azure.
    AzureFile,
    /// Disks of vSphere.
    Vsphere,
}

impl InTreePlugin {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::AwsEbs,
        Self::GcePd,
        Self::AzureDisk,
        Self::Cinder,
        Self::Portworx,
        Self::AzureFile,
        Self::Vsphere,
    ];

    /// The name of the kind, as a StorageClass's provisioner and a CSINode's annotation spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AwsEbs => "kubernetes.io/aws-ebs",
            Self::GcePd => "kubernetes.io/gce-pd",
            Self::AzureDisk => "kubernetes.io/azure-disk",
            Self::Cinder => "kubernetes.io/cinder",
            Self::Portworx => "kubernetes.io/portworx-volume",
            Self::AzureFile => "kubernetes.io/azure-file",
            Self::Vsphere => "kubernetes.io/vsphere-volume",
        }
    }

    /// The name of the CSI driver that serves the kind.
    pub fn driver(self) -> &'static str {
        match self {
            Self::AwsEbs => "ebs.csi.aws.com",
            Self::GcePd => "pd.csi.storage.gke.io",
            Self::AzureDisk => "disk.csi.azure.com",
            Self::Cinder => "cinder.csi.openstack.org",
            Self::Portworx => "pxd.portworx.com",
            Self::AzureFile => "file.csi.azure.com",
            Self::Vsphere => "csi.vsphere.vmware.com",
        }
    }

    /// Whether the scheduler treats volumes of this kind as its CSI driver's (upstream `isCSIMigrationOn`).
    pub fn is_followed(self) -> bool {
        !matches!(self, Self::AzureFile | Self::Vsphere)
    }
}

/// The required node affinity of a volume: a node must satisfy all requirements of one term.
///
/// As upstream matches without the node's name, requirements on names count as satisfied, so a term of only
/// those is empty. Malformed terms are left out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VolumeNodeAffinity {
    /// The terms; without any, no node matches.
    pub terms: Box<[Box<[Requirement]>]>,
}

impl VolumeNodeAffinity {
    /// Whether a node with these labels can access the volume.
    pub fn matches(&self, tables: &Tables, labels: Labels<'_>) -> bool {
        self.terms.iter().any(|term| term.iter().all(|requirement| requirement.matches(tables, labels)))
    }
}

/// A volume's reference to its claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRef {
    /// The claim's namespace.
    pub namespace: Symbol,
    /// The claim's name.
    pub name: Symbol,
    /// The claim's uid; `None` if a user reserved the volume for any claim of that name.
    pub uid: Option<Uid>,
}

/// A volume of a CSI driver.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CsiVolume {
    /// The driver.
    pub driver: Symbol,
    /// The driver's handle of the volume.
    pub handle: Arc<str>,
}

/// A volume of an in-tree kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InTreeVolume {
    /// The kind.
    pub plugin: InTreePlugin,
    /// Its translation to a CSI driver, or the translation error.
    pub migrated: Result<MigratedVolume, Box<str>>,
}

/// An in-tree volume translated to its CSI driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigratedVolume {
    /// The CSI volume.
    pub volume: CsiVolume,
    /// The required node affinity, in terms of the driver's topology labels.
    pub node_affinity: Option<VolumeNodeAffinity>,
}

/// A PersistentVolume, reduced to what decisions read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersistentVolumeInfo {
    /// `metadata.name`.
    pub name: Symbol,
    /// `metadata.resourceVersion`; assumptions about older versions are void.
    pub resource_version: Box<str>,
    /// `metadata.labels`, for claims that select by them.
    pub labels: LabelSetId,
    /// Zone and region labels: for each label key the allowed values. Malformed labels are left out.
    pub topology: Box<[(Symbol, Box<[Symbol]>)]>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// Whether the annotation `pv.kubernetes.io/bound-by-controller` is present.
    pub bound_by_controller: bool,
    /// The name of its StorageClass; empty for none.
    pub class: Symbol,
    /// `spec.claimRef`.
    pub claim: Option<ClaimRef>,
    /// `spec.capacity.storage`; zero if absent.
    pub capacity: StorageSize,
    /// `spec.accessModes`.
    pub access_modes: Box<[Symbol]>,
    /// `spec.volumeMode`; Filesystem when absent.
    pub mode: Symbol,
    /// `spec.volumeAttributesClassName`; the empty text when absent.
    pub attributes_class: Symbol,
    /// `spec.nodeAffinity.required`.
    pub node_affinity: Option<VolumeNodeAffinity>,
    /// `spec.csi`.
    pub csi: Option<CsiVolume>,
    /// The in-tree source, if it has one that a CSI driver replaces.
    pub in_tree: Option<InTreeVolume>,
    /// Whether `status.phase` is Available.
    pub available: bool,
}

impl PersistentVolumeInfo {
    /// Whether the volume is reserved for or bound to this claim (upstream `IsVolumeBoundToClaim`).
    pub fn is_for(&self, claim: &ClaimInfo) -> bool {
        self.claim.as_ref().is_some_and(|reference| {
            (reference.namespace, reference.name) == (claim.namespace, claim.name)
                && reference.uid.as_ref().is_none_or(|uid| *uid == claim.uid)
        })
    }
}

/// A PersistentVolumeClaim, reduced to what decisions read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimInfo {
    /// `metadata.namespace`.
    pub namespace: Symbol,
    /// `metadata.name`.
    pub name: Symbol,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`; assumptions about older versions are void.
    pub resource_version: Box<str>,
    /// The uid of the controlling owner.
    pub controller: Option<Uid>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// Whether `status.phase` is Lost: its volume no longer exists.
    pub lost: bool,
    /// The name of its StorageClass; empty for none.
    pub class: Symbol,
    /// `spec.volumeName`.
    pub volume: Option<Symbol>,
    /// Whether the annotation `pv.kubernetes.io/bind-completed` is present.
    pub bind_completed: bool,
    /// The annotation `volume.kubernetes.io/selected-node`: the node for which its volume is being
    /// provisioned.
    pub selected_node: Option<Symbol>,
    /// Whether it has any annotations.
    pub annotated: bool,
    /// `spec.accessModes`.
    pub access_modes: Box<[Symbol]>,
    /// `spec.resources.requests.storage`.
    pub request: Option<StorageSize>,
    /// `spec.selector` if present, or its parse error.
    pub selector: Option<Result<Selector, Box<str>>>,
    /// `spec.volumeMode`; Filesystem when absent.
    pub mode: Symbol,
    /// `spec.volumeAttributesClassName`; the empty text when absent.
    pub attributes_class: Symbol,
}

impl ClaimInfo {
    /// Returns the volume to which it is fully bound (upstream `isPVCFullyBound`).
    pub fn bound_volume(&self) -> Option<Symbol> {
        self.volume.filter(|_| self.bind_completed)
    }
}

/// The volume binding mode of a StorageClass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BindingMode {
    /// `WaitForFirstConsumer`: a claim is bound after a pod that uses it has a node.
    WaitForFirstConsumer,
    /// `Immediate`, and any value unknown upstream: a claim is bound without regard to pods.
    Immediate,
}

/// A StorageClass, reduced to what decisions read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageClassInfo {
    /// `metadata.name`.
    pub name: Symbol,
    /// `provisioner`; with the empty text or [`crate::model::intern::known::NO_PROVISIONER`] no volumes are
    /// provisioned.
    pub provisioner: Symbol,
    /// The in-tree kind of the provisioner and the CSI driver that replaces it, if any.
    pub in_tree: Option<(InTreePlugin, Symbol)>,
    /// `volumeBindingMode`; `None` if absent, although the API server sets a default.
    pub binding_mode: Option<BindingMode>,
    /// `allowedTopologies`: a node must satisfy all requirements of one term; no terms allow every node. An
    /// empty or malformed term, here `None`, allows no node.
    pub allowed_topologies: Box<[Option<Box<[Requirement]>>]>,
}

impl StorageClassInfo {
    /// Whether volumes may be provisioned for a node with these labels (upstream
    /// `MatchTopologySelectorTerms`).
    pub fn allows(&self, tables: &Tables, labels: Labels<'_>) -> bool {
        let holds = |term: &[Requirement]| term.iter().all(|requirement| requirement.matches(tables, labels));
        self.allowed_topologies.is_empty() || self.allowed_topologies.iter().flatten().any(|term| holds(term))
    }
}

/// A CSINode, reduced to what decisions read. It has its node's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiNodeInfo {
    /// `metadata.name`.
    pub name: Symbol,
    /// The drivers on the node with their volume limits; `None` for no limit.
    pub limits: Box<[(Symbol, Option<i32>)]>,
    /// The annotation `storage.alpha.kubernetes.io/migrated-plugins`: comma-separated names of in-tree kinds.
    pub migrated_plugins: Box<str>,
}

impl CsiNodeInfo {
    /// Returns the volume limit of a driver on the node, if any.
    pub fn limit(&self, driver: Symbol) -> Option<i32> {
        self.limits.iter().rev().find_map(|&(name, limit)| limit.filter(|_| name == driver))
    }

    /// Whether the driver is on the node.
    pub fn has_driver(&self, driver: Symbol) -> bool {
        self.limits.iter().any(|&(name, _)| name == driver)
    }

    /// Whether the node uses the CSI driver for volumes of this in-tree kind.
    pub fn has_migrated(&self, plugin: InTreePlugin) -> bool {
        self.migrated_plugins.split(',').any(|name| name == plugin.as_str())
    }
}

/// A CSIDriver, reduced to what decisions read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsiDriverInfo {
    /// `metadata.name`.
    pub name: Symbol,
    /// `spec.storageCapacity`: the driver publishes CSIStorageCapacity objects.
    pub storage_capacity: bool,
    /// `spec.preventPodSchedulingIfMissing`: nodes without the driver take no pods with its volumes.
    pub prevents_scheduling_if_missing: bool,
}

/// A CSIStorageCapacity, reduced to what decisions read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiStorageCapacityInfo {
    /// `metadata.namespace`.
    pub namespace: Symbol,
    /// `metadata.name`.
    pub name: Symbol,
    /// `storageClassName`.
    pub class: Symbol,
    /// The size of the largest volume that fits, in bytes: `maximumVolumeSize`, else `capacity`.
    pub limit: Option<i64>,
    /// `capacity`, in bytes.
    pub capacity: Option<i64>,
    /// `nodeTopology`: the selector of its nodes; `None` if absent or malformed, which selects no nodes.
    pub topology: Option<Selector>,
}

/// A VolumeAttachment, reduced to what decisions read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeAttachmentInfo {
    /// `metadata.name`.
    pub name: Symbol,
    /// `spec.nodeName`.
    pub node: Symbol,
    /// `spec.attacher`, a driver; empty if absent.
    pub attacher: Symbol,
    /// `spec.source.persistentVolumeName`.
    pub volume: Option<Symbol>,
}

/// A reservation of an assumed pod, to be written before the pod is bound (upstream `AssumePodVolumes`, and
/// `Reserve` of DynamicResources).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// An existing volume is bound to a claim of the pod: write `spec.claimRef`.
    Bind {
        /// The volume.
        volume: Symbol,
        /// The claim.
        claim: ClaimRef,
        /// Whether the volume was not reserved for the claim before, so that the annotation
        /// `pv.kubernetes.io/bound-by-controller` must be written, too.
        by_controller: bool,
    },
    /// A volume is provisioned for a claim of the pod: write the annotation
    /// `volume.kubernetes.io/selected-node`.
    Provision {
        /// The claim's namespace.
        namespace: Symbol,
        /// The claim's name.
        name: Symbol,
        /// The node's name.
        node: Symbol,
    },
    /// A claim of the pod gets devices: write `status.allocation`, and the pod in `status.reservedFor`.
    Allocate {
        /// The claim.
        claim: Arc<ResourceClaim>,
        /// The devices.
        allocation: Arc<Allocation>,
    },
    /// An allocated claim is shared with the pod: write the pod in `status.reservedFor`.
    Share {
        /// The claim.
        claim: Arc<ResourceClaim>,
    },
    /// A claim is made for the pod's extended resources, gets devices, and is named in the pod's status.
    Create {
        /// The claim as planned; its name is not valid, and its uid is not the object's.
        claim: Arc<ResourceClaim>,
        /// The devices.
        allocation: Arc<Allocation>,
        /// The container and resource of each request.
        mappings: Arc<[ContainerMapping]>,
    },
}

impl Reservation {
    /// Whether it allocates an existing claim.
    pub fn allocates(&self, other: &ResourceClaim) -> bool {
        matches!(self, Self::Allocate { claim, .. } if claim.uid == other.uid)
    }

    /// Returns the object to write.
    pub fn object(&self) -> StorageKey {
        match *self {
            Self::Bind { volume, .. } => {
                StorageKey { kind: StorageKind::PersistentVolume, namespace: None, name: volume }
            }
            Self::Provision { namespace, name, .. } => StorageKey::of_claim(namespace, name),
            Self::Allocate { ref claim, .. } | Self::Share { ref claim } | Self::Create { ref claim, .. } => {
                StorageKey::of_resource_claim(claim.namespace, claim.name)
            }
        }
    }
}

/// The kinds of storage objects, including the objects that describe devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StorageKind {
    /// `v1 PersistentVolume`.
    PersistentVolume,
    /// `v1 PersistentVolumeClaim`.
    PersistentVolumeClaim,
    /// `storage.k8s.io/v1 StorageClass`.
    StorageClass,
    /// `storage.k8s.io/v1 CSINode`.
    CsiNode,
    /// `storage.k8s.io/v1 CSIDriver`.
    CsiDriver,
    /// `storage.k8s.io/v1 CSIStorageCapacity`.
    CsiStorageCapacity,
    /// `storage.k8s.io/v1 VolumeAttachment`.
    VolumeAttachment,
    /// `resource.k8s.io/v1 ResourceClaim`.
    ResourceClaim,
    /// `resource.k8s.io/v1 ResourceSlice`.
    ResourceSlice,
}

/// A storage object of any kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorageObject {
    /// A PersistentVolume.
    Volume(Arc<PersistentVolumeInfo>),
    /// A PersistentVolumeClaim.
    Claim(Arc<ClaimInfo>),
    /// A StorageClass.
    Class(Arc<StorageClassInfo>),
    /// A CSINode.
    CsiNode(Arc<CsiNodeInfo>),
    /// A CSIDriver.
    CsiDriver(Arc<CsiDriverInfo>),
    /// A CSIStorageCapacity.
    Capacity(Arc<CsiStorageCapacityInfo>),
    /// A VolumeAttachment.
    Attachment(Arc<VolumeAttachmentInfo>),
    /// A ResourceClaim.
    ResourceClaim(Arc<ResourceClaim>),
    /// A ResourceSlice.
    ResourceSlice(Arc<ResourceSlice>),
}

impl StorageObject {
    /// Returns its kind.
    pub fn kind(&self) -> StorageKind {
        match self {
            Self::Volume(_) => StorageKind::PersistentVolume,
            Self::Claim(_) => StorageKind::PersistentVolumeClaim,
            Self::Class(_) => StorageKind::StorageClass,
            Self::CsiNode(_) => StorageKind::CsiNode,
            Self::CsiDriver(_) => StorageKind::CsiDriver,
            Self::Capacity(_) => StorageKind::CsiStorageCapacity,
            Self::Attachment(_) => StorageKind::VolumeAttachment,
            Self::ResourceClaim(_) => StorageKind::ResourceClaim,
            Self::ResourceSlice(_) => StorageKind::ResourceSlice,
        }
    }

    /// Returns it if it is a ResourceClaim.
    pub fn as_resource_claim(&self) -> Option<&Arc<ResourceClaim>> {
        match self {
            Self::ResourceClaim(claim) => Some(claim),
            _ => None,
        }
    }

    /// Returns its kind, namespace and name.
    pub fn key(&self) -> StorageKey {
        let (namespace, name) = match self {
            Self::Volume(it) => (None, it.name),
            Self::Claim(it) => (Some(it.namespace), it.name),
            Self::Class(it) => (None, it.name),
            Self::CsiNode(it) => (None, it.name),
            Self::CsiDriver(it) => (None, it.name),
            Self::Capacity(it) => (Some(it.namespace), it.name),
            Self::Attachment(it) => (None, it.name),
            Self::ResourceClaim(it) => (Some(it.namespace), it.name),
            Self::ResourceSlice(it) => (None, it.name),
        };
        StorageKey { kind: self.kind(), namespace, name }
    }
}

/// The identity of a storage object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StorageKey {
    /// Its kind.
    pub kind: StorageKind,
    /// Its namespace; `None` for cluster-scoped kinds.
    pub namespace: Option<Symbol>,
    /// Its name.
    pub name: Symbol,
}

impl StorageKey {
    /// Returns the identity of a claim.
    pub fn of_claim(namespace: Symbol, name: Symbol) -> Self {
        Self { kind: StorageKind::PersistentVolumeClaim, namespace: Some(namespace), name }
    }

    /// Returns the identity of a ResourceClaim.
    pub fn of_resource_claim(namespace: Symbol, name: Symbol) -> Self {
        Self { kind: StorageKind::ResourceClaim, namespace: Some(namespace), name }
    }
}
