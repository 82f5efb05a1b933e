//! Volumes as the engine sees them: what pods mount, and the objects of storage a decision reads.
//!
//! Ids and numbers, parsed once. What an in-tree volume is called where a CSI driver serves it (upstream
//! `csi-translation-lib`) is worked out where objects come in. Mount options, parameters and secrets are not read.

use crate::intern::{LabelSetId, Labels, Symbol, Tables};
use crate::pod::Uid;
use crate::selector::{Requirement, Selector};
use std::sync::Arc;

/// An amount of storage, in billionths of a byte: upstream compares claims and volumes as written, not as whole bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StorageSize(i128);

const NANO: i128 = 1_000_000_000;

impl StorageSize {
    /// So many billionths of a byte.
    pub fn from_nano_bytes(amount: i128) -> Self {
        Self(amount)
    }

    /// So many bytes.
    pub fn from_bytes(bytes: i64) -> Self {
        Self(i128::from(bytes) * NANO)
    }

    /// In whole bytes, rounded up (upstream `Quantity.Value`); what leaves the range of i64 stays at its end.
    pub fn bytes(self) -> i64 {
        let up = self.0.div_euclid(NANO) + i128::from(self.0.rem_euclid(NANO) != 0);
        i64::try_from(up).unwrap_or(if up > 0 { i64::MAX } else { i64::MIN })
    }
}

/// A volume of a pod, of a source that has a say in where the pod may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodVolume {
    /// Its name in the pod.
    pub name: Box<str>,
    /// What it is.
    pub source: VolumeSource,
}

/// What a pod's volume is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeSource {
    /// `persistentVolumeClaim`: the claim of this name; it may be empty.
    Claim(Symbol),
    /// `ephemeral`: the claim of this name, which is made of the pod's and the volume's.
    Ephemeral(Symbol),
    /// `csi`: a volume of this driver that lives as long as the pod.
    Csi(Symbol),
    /// A disk of a cloud or storage system, named in the pod itself.
    Disk(InlineDisk),
}

impl PodVolume {
    /// The name of the claim it is, and whether that claim is the pod's own.
    pub fn claim(&self) -> Option<(Symbol, bool)> {
        match self.source {
            VolumeSource::Claim(name) => Some((name, false)),
            VolumeSource::Ephemeral(name) => Some((name, true)),
            VolumeSource::Csi(_) | VolumeSource::Disk(_) => None,
        }
    }

    /// The claim named by `persistentVolumeClaim`.
    pub fn named_claim(&self) -> Option<Symbol> {
        match self.source {
            VolumeSource::Claim(name) => Some(name),
            VolumeSource::Ephemeral(_) | VolumeSource::Csi(_) | VolumeSource::Disk(_) => None,
        }
    }

    /// The disk named in the pod.
    pub fn disk(&self) -> Option<&InlineDisk> {
        match &self.source {
            VolumeSource::Disk(disk) => Some(disk),
            VolumeSource::Claim(_) | VolumeSource::Ephemeral(_) | VolumeSource::Csi(_) => None,
        }
    }

    /// The disk named in the pod, where a CSI driver stands for its kind.
    pub fn migratable(&self) -> Option<&MigratableDisk> {
        self.disk().and_then(|disk| disk.migratable.as_ref())
    }
}

/// A disk named in a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InlineDisk {
    /// What tells it from others, where two pods of one node cannot both have it.
    pub exclusive: Option<ExclusiveDisk>,
    /// What it is to the CSI driver that took over, if one did.
    pub migratable: Option<MigratableDisk>,
}

/// A disk that only one pod of a node may have, or only for reading.
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

/// A disk whose kind a CSI driver serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigratableDisk {
    /// The kind.
    pub plugin: InTreePlugin,
    /// The driver.
    pub driver: Symbol,
    /// The driver's name of the disk, or why there is none.
    pub handle: Result<Arc<str>, Box<str>>,
}

/// A kind of volume that was built into Kubernetes and is served by a CSI driver now (`csi-translation-lib/plugins`).
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
    /// All of them.
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

    /// Whether the scheduler takes volumes of the kind for their driver's (upstream `isCSIMigrationOn`).
    pub fn is_followed(self) -> bool {
        !matches!(self, Self::AzureFile | Self::Vsphere)
    }
}

/// Labels a node must have to reach a volume: one of these terms, all of it.
///
/// Upstream judges a node without its name here, so that demands on names count as fulfilled; of a term that has nothing
/// else, nothing is left. A term that cannot be parsed is not among them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VolumeNodeAffinity {
    /// The terms; none at all matches no node.
    pub terms: Box<[Box<[Requirement]>]>,
}

impl VolumeNodeAffinity {
    /// Whether a node of these labels reaches the volume.
    pub fn matches(&self, tables: &Tables, labels: Labels<'_>) -> bool {
        self.terms.iter().any(|term| term.iter().all(|requirement| requirement.matches(tables, labels)))
    }
}

/// The claim a volume is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRef {
    /// The claim's namespace.
    pub namespace: Symbol,
    /// The claim's name.
    pub name: Symbol,
    /// The claim's uid; `None` where a person reserved the volume for whatever claim comes by that name.
    pub uid: Option<Uid>,
}

/// Where a volume is to be found by its driver.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CsiVolume {
    /// The driver.
    pub driver: Symbol,
    /// The driver's name of the volume.
    pub handle: Arc<str>,
}

/// A volume of a kind that was built into Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InTreeVolume {
    /// The kind.
    pub plugin: InTreePlugin,
    /// What it is to the CSI driver that took over, or why it cannot be said.
    pub migrated: Result<MigratedVolume, Box<str>>,
}

/// An in-tree volume in the words of its CSI driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigratedVolume {
    /// The driver's name of it.
    pub volume: CsiVolume,
    /// What a node needs to reach it, by the driver's topology labels.
    pub node_affinity: Option<VolumeNodeAffinity>,
}

/// A PersistentVolume, reduced to what a decision reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersistentVolumeInfo {
    /// `metadata.name`.
    pub name: Symbol,
    /// `metadata.resourceVersion`: what was assumed of an older version is void.
    pub resource_version: Box<str>,
    /// `metadata.labels`, for claims that select by them.
    pub labels: LabelSetId,
    /// The zones and regions in its labels: per label key the values, of which any will do. Labels that cannot be parsed are
    /// left out.
    pub topology: Box<[(Symbol, Box<[Symbol]>)]>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// Whether the annotation `pv.kubernetes.io/bound-by-controller` is there.
    pub bound_by_controller: bool,
    /// The name of its class; the empty text for none.
    pub class: Symbol,
    /// `spec.claimRef`.
    pub claim: Option<ClaimRef>,
    /// `spec.capacity.storage`; nothing when absent.
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
    /// The in-tree source, if it has one that a CSI driver took over.
    pub in_tree: Option<InTreeVolume>,
    /// Whether `status.phase` is Available.
    pub available: bool,
}

impl PersistentVolumeInfo {
    /// Whether the volume is for this claim: reserved for it, or bound to it (upstream `IsVolumeBoundToClaim`).
    pub fn is_for(&self, claim: &ClaimInfo) -> bool {
        self.claim.as_ref().is_some_and(|reference| {
            (reference.namespace, reference.name) == (claim.namespace, claim.name)
                && reference.uid.as_ref().is_none_or(|uid| *uid == claim.uid)
        })
    }
}

/// A PersistentVolumeClaim, reduced to what a decision reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimInfo {
    /// `metadata.namespace`.
    pub namespace: Symbol,
    /// `metadata.name`.
    pub name: Symbol,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`: what was assumed of an older version is void.
    pub resource_version: Box<str>,
    /// The uid of the controlling owner.
    pub controller: Option<Uid>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// Whether `status.phase` is Lost: its volume is gone for good.
    pub lost: bool,
    /// The name of its class; the empty text for none.
    pub class: Symbol,
    /// `spec.volumeName`.
    pub volume: Option<Symbol>,
    /// Whether the annotation `pv.kubernetes.io/bind-completed` is there.
    pub bind_completed: bool,
    /// The annotation `volume.kubernetes.io/selected-node`: where its volume is being made.
    pub selected_node: Option<Symbol>,
    /// Whether it has annotations, whichever.
    pub annotated: bool,
    /// `spec.accessModes`.
    pub access_modes: Box<[Symbol]>,
    /// `spec.resources.requests.storage`.
    pub request: Option<StorageSize>,
    /// `spec.selector`, if there is one, or why it cannot be parsed.
    pub selector: Option<Result<Selector, Box<str>>>,
    /// `spec.volumeMode`; Filesystem when absent.
    pub mode: Symbol,
    /// `spec.volumeAttributesClassName`; the empty text when absent.
    pub attributes_class: Symbol,
}

impl ClaimInfo {
    /// The volume it is bound to, both sides agreeing (upstream `isPVCFullyBound`).
    pub fn bound_volume(&self) -> Option<Symbol> {
        self.volume.filter(|_| self.bind_completed)
    }
}

/// When a class's claims get their volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BindingMode {
    /// `WaitForFirstConsumer`: once a pod that uses the claim has a node.
    WaitForFirstConsumer,
    /// `Immediate`, and any word upstream does not know: without regard to pods.
    Immediate,
}

/// A StorageClass, reduced to what a decision reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageClassInfo {
    /// `metadata.name`.
    pub name: Symbol,
    /// `provisioner`; the empty text, and [`crate::intern::known::NO_PROVISIONER`], make no volumes.
    pub provisioner: Symbol,
    /// The in-tree kind the provisioner is of, where a CSI driver took over, and that driver.
    pub in_tree: Option<(InTreePlugin, Symbol)>,
    /// `volumeBindingMode`; `None` when absent, which the API server never leaves so.
    pub binding_mode: Option<BindingMode>,
    /// `allowedTopologies`: one term must hold, all of it; none at all allows every node. A term that is empty or cannot be
    /// parsed, here `None`, allows none.
    pub allowed_topologies: Box<[Option<Box<[Requirement]>>]>,
}

impl StorageClassInfo {
    /// Whether volumes may be made for a node of these labels (upstream `MatchTopologySelectorTerms`).
    pub fn allows(&self, tables: &Tables, labels: Labels<'_>) -> bool {
        let holds = |term: &[Requirement]| term.iter().all(|requirement| requirement.matches(tables, labels));
        self.allowed_topologies.is_empty() || self.allowed_topologies.iter().flatten().any(|term| holds(term))
    }
}

/// A CSINode, reduced to what a decision reads. It has its node's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiNodeInfo {
    /// `metadata.name`.
    pub name: Symbol,
    /// The drivers on the node, each with how many of its volumes the node takes; `None` for any number.
    pub limits: Box<[(Symbol, Option<i32>)]>,
    /// The annotation `storage.alpha.kubernetes.io/migrated-plugins`: names of in-tree kinds, separated by commas.
    pub migrated_plugins: Box<str>,
}

impl CsiNodeInfo {
    /// How many volumes of a driver the node takes, if that is limited.
    pub fn limit(&self, driver: Symbol) -> Option<i32> {
        self.limits.iter().rev().find_map(|&(name, limit)| limit.filter(|_| name == driver))
    }

    /// Whether volumes of the kind are left to its CSI driver on this node.
    pub fn has_migrated(&self, plugin: InTreePlugin) -> bool {
        self.migrated_plugins.split(',').any(|name| name == plugin.as_str())
    }
}

/// A CSIDriver, reduced to what a decision reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsiDriverInfo {
    /// `metadata.name`.
    pub name: Symbol,
    /// `spec.storageCapacity`: it tells how much room it has where.
    pub storage_capacity: bool,
}

/// A CSIStorageCapacity, reduced to what a decision reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiStorageCapacityInfo {
    /// `metadata.namespace`.
    pub namespace: Symbol,
    /// `metadata.name`.
    pub name: Symbol,
    /// `storageClassName`.
    pub class: Symbol,
    /// The largest volume there is room for, in bytes: `maximumVolumeSize`, else `capacity`.
    pub limit: Option<i64>,
    /// `nodeTopology`: the nodes it speaks of; `None` for none of them, or where it cannot be parsed.
    pub topology: Option<Selector>,
}

/// A VolumeAttachment, reduced to what a decision reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeAttachmentInfo {
    /// `metadata.name`.
    pub name: Symbol,
    /// `spec.nodeName`.
    pub node: Symbol,
    /// `spec.attacher`, a driver; the empty text when absent.
    pub attacher: Symbol,
    /// `spec.source.persistentVolumeName`.
    pub volume: Option<Symbol>,
}

/// Something a placed pod's volumes need, assumed until the API server knows of it (upstream `AssumePodVolumes`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// A volume that is there is for this claim of the pod: write `spec.claimRef`.
    Bind {
        /// The volume.
        volume: Symbol,
        /// The claim.
        claim: ClaimRef,
        /// Whether the volume was not reserved for the claim before, so that the annotation
        /// `pv.kubernetes.io/bound-by-controller` is to be written too.
        by_controller: bool,
    },
    /// A volume is to be made for a claim of the pod: write the annotation `volume.kubernetes.io/selected-node`.
    Provision {
        /// The claim's namespace.
        namespace: Symbol,
        /// The claim's name.
        name: Symbol,
        /// The node's name.
        node: Symbol,
    },
}

impl Reservation {
    /// The object that is written.
    pub fn object(&self) -> StorageKey {
        match *self {
            Self::Bind { volume, .. } => {
                StorageKey { kind: StorageKind::PersistentVolume, namespace: None, name: volume }
            }
            Self::Provision { namespace, name, .. } => StorageKey::of_claim(namespace, name),
        }
    }
}

/// The kinds of objects of storage.
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
}

/// An object of storage.
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
}

impl StorageObject {
    /// Its kind.
    pub fn kind(&self) -> StorageKind {
        match self {
            Self::Volume(_) => StorageKind::PersistentVolume,
            Self::Claim(_) => StorageKind::PersistentVolumeClaim,
            Self::Class(_) => StorageKind::StorageClass,
            Self::CsiNode(_) => StorageKind::CsiNode,
            Self::CsiDriver(_) => StorageKind::CsiDriver,
            Self::Capacity(_) => StorageKind::CsiStorageCapacity,
            Self::Attachment(_) => StorageKind::VolumeAttachment,
        }
    }

    /// Its kind, namespace and name.
    pub fn key(&self) -> StorageKey {
        let (namespace, name) = match self {
            Self::Volume(it) => (None, it.name),
            Self::Claim(it) => (Some(it.namespace), it.name),
            Self::Class(it) => (None, it.name),
            Self::CsiNode(it) => (None, it.name),
            Self::CsiDriver(it) => (None, it.name),
            Self::Capacity(it) => (Some(it.namespace), it.name),
            Self::Attachment(it) => (None, it.name),
        };
        StorageKey { kind: self.kind(), namespace, name }
    }
}

/// The identity of an object of storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StorageKey {
    /// Its kind.
    pub kind: StorageKind,
    /// Its namespace; `None` for kinds that are in none.
    pub namespace: Option<Symbol>,
    /// Its name.
    pub name: Symbol,
}

impl StorageKey {
    /// The identity of a claim.
    pub fn of_claim(namespace: Symbol, name: Symbol) -> Self {
        Self { kind: StorageKind::PersistentVolumeClaim, namespace: Some(namespace), name }
    }
}
